//! Saved fits: the same answers after a round trip, no harm from damaged files.

use npb_infer::testing::attack_file;
use npb_iqgme::{IqgmeConfig, IqgmeFit, Saved, fit};

use crate::data::{config, three_gaussians};

fn on_both_scales() -> IqgmeConfig {
    IqgmeConfig {
        normal_scores: true,
        ..config(4)
    }
}

#[test]
fn loads_and_predicts_the_same_bits() {
    let (table, labels) = three_gaussians(4, 100, 1, 0.3, 0.0);
    let fitted = fit(&table, &labels, &on_both_scales()).unwrap();
    let folder = std::env::temp_dir().join(format!("npb-iqgme-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("fit.npb");
    fitted.save(&path).unwrap();
    let loaded = IqgmeFit::load(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let bits = |f: &IqgmeFit| {
        f.predict_proba(&table)
            .unwrap()
            .iter()
            .map(|p| p.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(&fitted), bits(&loaded));
    assert_eq!(loaded.classes(), ["down", "up"]);
    assert_eq!(loaded.config(), fitted.config());
}

#[test]
fn damaged_files_are_errors_or_valid_fits() {
    let (table, labels) = three_gaussians(4, 12, 0, 0.3, 0.0);
    let fitted = fit(&table, &labels, &on_both_scales()).unwrap();
    let asked = std::cell::Cell::new(0);
    let exercise = |f: &IqgmeFit| {
        let _ = f.predict_proba(&table);
        asked.set(asked.get() + 1);
        // Chains take a while.
        if asked.get() % 200 == 0 {
            let _ = f.impute(&table);
            let _ = f.predict_interval(&table, 0.9);
        }
        let _ = (
            f.components(),
            f.concentration(),
            f.dominant_components(0.01, 3),
        );
    };
    attack_file(
        &fitted.to_bytes().unwrap(),
        1500,
        1,
        IqgmeFit::from_bytes,
        exercise,
    )
    .unwrap();
}

#[test]
fn a_file_of_an_older_layout_is_refused_by_name() {
    let bytes = npb_infer::storage::to_bytes("npb-iqgme/fit", "0.1.0", &1_u64).unwrap();
    let message = IqgmeFit::from_bytes(&bytes).unwrap_err().to_string();
    for words in ["npb-iqgme/fit", "earlier version", "fit again"] {
        assert!(message.contains(words), "{message}");
    }
}
