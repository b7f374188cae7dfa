//! Fits in files.

use npb_bpfa::npb_infer::Watch;
use npb_bpfa::npb_infer::checkpoint::Every;
use npb_bpfa::npb_infer::testing::attack_file;
use npb_bpfa::npb_priors::GammaPrior;
use npb_bpfa::{BpfaConfig, BpfaFit, Saved, ScorePrior, SpikePrior, fit, fit_watched};

use crate::simulated::{config, simulated};

#[test]
fn a_loaded_fit_is_the_fit_and_damaged_files_do_no_harm() {
    let table = simulated(7, 4, 2, 0.2, 0.3, 1).table();
    for scores in [ScorePrior::SpikeSlab, ScorePrior::Dense] {
        let config = BpfaConfig {
            scores,
            stored_draws: 2,
            ..config(3, 3, 4)
        };
        let model = fit(&table, &config).unwrap();
        let bytes = model.to_bytes().unwrap();
        let loaded = BpfaFit::from_bytes(&bytes).unwrap();
        assert_eq!(loaded.to_bytes().unwrap(), bytes);
        let use_it = |model: &BpfaFit| {
            let _ = model.impute_training(&table);
            let _ = model.followed();
            let _ = model.predict(0, 0);
            let _ = model.transform(&table);
            let _ = model.used_atoms();
            let _ = model.to_bytes();
        };
        let summary = attack_file(&bytes, 3000, 2, BpfaFit::from_bytes, use_it).unwrap();
        assert_eq!(summary.truncations, bytes.len());
    }
}

/// What a stored draw holds beside what is shared comes back, and is an error when it cannot be.
#[test]
fn stored_draws_are_checked_whole() {
    let table = simulated(12, 4, 2, 0.2, 0.3, 1).table();
    let spiky = BpfaConfig {
        spikes: Some(SpikePrior::default()),
        ..config(3, 3, 4)
    };
    let laplace = BpfaConfig {
        scores: ScorePrior::Lasso {
            rate: GammaPrior {
                shape: 1.0,
                rate: 1.0,
            },
            per_entry: false,
        },
        ..config(3, 3, 4)
    };
    for own_noise in [false, true] {
        for config in [&spiky, &laplace] {
            let config = BpfaConfig {
                channel_noise: own_noise,
                ..config.clone()
            };
            let model = fit(&table, &config).unwrap();
            let again = BpfaFit::from_bytes(&model.to_bytes().unwrap()).unwrap();
            assert_eq!(again, model);
            let mut wrong = model.clone();
            let draw = &mut wrong.draws[0];
            let what = match config.spikes {
                Some(_) => {
                    draw.spikes.rates[0] = f64::NAN;
                    "spikes"
                }
                None => {
                    draw.lasso.inverse_scales.pop();
                    "scales of Laplace scores"
                }
            };
            let error = BpfaFit::from_bytes(&wrong.to_bytes().unwrap()).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}

/// A checkpoint is read like any other file: what it holds is checked, the stored draws among it.
#[test]
fn damaged_checkpoints_do_no_harm() {
    let table = simulated(3, 2, 1, 0.2, 0.3, 1).table();
    let config = BpfaConfig {
        stored_draws: 1,
        ..config(1, 0, 1)
    };
    let path = std::env::temp_dir().join(format!("npb-bpfa-damaged-{}", std::process::id()));
    let watch = |sweeps| Watch::none().with_checkpoint(&path, Every::sweeps(sweeps));
    fit_watched(&table, &config, &watch(1)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let load = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        fit_watched(&table, &config, &watch(1_000_000))
    };
    let use_it = |model: &BpfaFit| {
        let _ = model.impute_training(&table);
        let _ = model.predict(0, 0);
        let _ = model.used_atoms();
    };
    attack_file(&bytes, 500, 3, load, use_it).unwrap();
    std::fs::remove_file(path).unwrap();
}
