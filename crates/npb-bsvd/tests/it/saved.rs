//! Saved fits: the same answers after a round trip, no harm from damaged files.

use std::ops::ControlFlow;

use npb_bsvd::{Acquisition, BsvdFit, Cells, Features, Saved, SideInformation, fit, fit_watched};
use npb_infer::checkpoint::Every;
use npb_infer::testing::attack_file;
use npb_infer::watch::Progress;
use npb_infer::{Stop, Watch};

use crate::predicted::config;
use crate::simulated::low_rank;

fn small() -> BsvdFit {
    let data = low_rank(31, (6, 5), 1, 0.7, 0.3);
    let side = SideInformation {
        rows: Some(Features::dense(6, 1, &[1.0, 0.5, -1.0, 0.0, 2.0, 0.1]).unwrap()),
        columns: Some(Features::sparse(5, 2, &[(0, 1, 1.0), (3, 0, 1.0)]).unwrap()),
    };
    let fit = fit(
        &data.observed,
        side,
        &Cells::of(&data.hidden),
        &config(4, 3),
    )
    .unwrap();
    fit.with_names(&["a", "b", "c", "d", "e", "f"], &[1, 2, 3, 4, 5])
        .unwrap()
}

#[test]
fn loads_what_was_saved() {
    let fit = small();
    let folder = std::env::temp_dir().join(format!("npb-bsvd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("fit.npb");
    fit.save(&path).unwrap();
    let loaded = BsvdFit::load(&path);
    std::fs::remove_dir_all(&folder).unwrap();
    let loaded = loaded.unwrap();
    assert_eq!(loaded, fit);
    assert_eq!(
        loaded.predict("c", "4").unwrap(),
        fit.predict(2, 3).unwrap()
    );
}

#[test]
fn damaged_files_are_errors_or_valid_fits() {
    let exercise = |fit: &BsvdFit| {
        let _ = (
            fit.predict("c", "4"),
            fit.top(0, 3, &[]),
            fit.similar_rows(1, 3),
        );
        let _ = (
            fit.rank_distribution(),
            fit.noise_sd(0.9),
            fit.singular_values(0.9),
        );
        let _ = fit.evaluate_followed();
        let _ = fit.next_cells(&fit.cells, 2, Acquisition::Uncorrelated);
        if let Ok(new) = fit.fold_in_row(&[(1, 0.5)], &[1.0]) {
            let _ = new.predict(0);
        }
    };
    let bytes = small().to_bytes().unwrap();
    attack_file(&bytes, 1500, 1, BsvdFit::from_bytes, exercise).unwrap();
}

/// Stopped in the burn-in, at the first kept draw, between checkpoints, in the last sweep: always the bits of a run that never stopped.
#[test]
fn stopped_fits_go_on_in_the_same_bits() {
    let data = low_rank(32, (12, 9), 2, 0.7, 0.3);
    let cells = Cells::of(&data.hidden);
    // Fewer stored draws than kept ones: which are stored goes by how many were kept.
    let config = npb_bsvd::BsvdConfig {
        stored_draws: 3,
        chains: 2,
        ..config(6, 8)
    };
    let whole = fit(&data.observed, SideInformation::default(), &cells, &config);
    let whole = whole.unwrap();
    let folder = std::env::temp_dir().join(format!("npb-bsvd-stops-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = |path: &std::path::Path, last: u64, config| {
        let watch = Watch::new(|progress: &Progress<'_>| match progress.step == last {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        let watch = watch.with_checkpoint(path, Every::sweeps(3));
        fit_watched(
            &data.observed,
            SideInformation::default(),
            &cells,
            config,
            &watch,
        )
    };
    let mut found = Vec::new();
    for last in [2, 7, 10, 14] {
        let path = folder.join(last.to_string());
        run(&path, last, &config).unwrap();
        found.push(run(&path, u64::MAX, &config).unwrap());
    }
    let other = npb_bsvd::BsvdConfig {
        seed: 5,
        ..config.clone()
    };
    let error = run(&folder.join("7"), u64::MAX, &other).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(found.iter().all(|fit| *fit == whole));
    assert!(error.to_string().contains("delete it"), "{error}");
}

#[test]
fn a_watched_fit_hears_of_every_chain_and_stops() {
    let data = low_rank(33, (10, 8), 2, 0.7, 0.3);
    let config = npb_bsvd::BsvdConfig {
        chains: 3,
        ..config(4, 6)
    };
    let run = |most: u64| {
        let (mut shares, mut parts) = (Vec::new(), std::collections::BTreeSet::new());
        let watch = Watch::new(|progress: &Progress<'_>| {
            shares.push(progress.share);
            parts.insert(progress.part.to_owned());
            match progress.step >= most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let side = SideInformation::default();
        let fit = fit_watched(&data.observed, side, &Cells::default(), &config, &watch).unwrap();
        drop(watch);
        (fit, shares, parts)
    };
    let (fit, shares, parts) = run(u64::MAX);
    assert!(
        shares.is_sorted() && shares.last() == Some(&1.0),
        "{shares:?}"
    );
    assert_eq!(parts.len(), 3);
    assert_eq!((fit.stop(), fit.config.chains), (Stop::Completed, 3));
    let (fit, shares, _) = run(5);
    assert!(fit.stop() == Stop::Cancelled && shares.iter().all(|s| *s < 0.6));
    assert!(fit.moments.draws <= 3);
}
