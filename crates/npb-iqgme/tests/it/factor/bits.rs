//! Equal bits on any number of threads and after a stop; saved fits.

use std::ops::ControlFlow;

use npb_data::Table;
use npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_infer::{Stop, VbLimits, VbReport};
use npb_iqgme::{
    Every, FactorConfig, FactorData, FactorFit, FactorInit, FactorVb, FeatureScale, IqgmeError,
    Saved, Watch, fit_factor, fit_factor_watched,
};

use super::data::{Simulation, config};

fn several() -> FactorConfig {
    FactorConfig {
        scale: FeatureScale::NormalScores,
        starts: vec![
            FactorInit::Pooled(2),
            FactorInit::PerClass(1),
            FactorInit::Own(2),
        ],
        limits: VbLimits {
            max_iterations: 15,
            ..FactorConfig::default().limits
        },
        ..config(1)
    }
}

#[test]
fn same_on_1_2_and_4_threads() {
    let simulation = Simulation {
        n: 120,
        p: 70,
        ..Simulation::small()
    };
    let (table, labels, _) = simulation.draw(1);
    same_bits_on_threads(&[1, 2, 4], || {
        let fitted = fit_factor(&table, &labels, &several()).unwrap();
        let mut bytes = fitted.to_bytes().unwrap();
        let answers = fitted.predict_proba(&table).unwrap().into_iter();
        for value in answers.chain(fitted.ln_density(&table).unwrap()) {
            bytes.extend(value.to_bits().to_le_bytes());
        }
        bytes
    })
    .unwrap();
}

#[test]
fn a_fit_that_was_stopped_goes_on_to_the_same_bits() {
    let (table, labels, _) = Simulation::small().draw(2);
    let config = several();
    let wanted = fit_factor(&table, &labels, &config)
        .unwrap()
        .to_bytes()
        .unwrap();
    let folder = std::env::temp_dir().join(format!("npb-iqgme-factor-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run");
    let go_on = |table: &Table, config: &FactorConfig, last: u64| {
        let watch = Watch::new(|progress| match progress.step < last {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let watch = watch.with_checkpoint(&path, Every::sweeps(4));
        fit_factor_watched(table, &labels, config, &watch)
    };
    let stopped = go_on(&table, &config, 6).unwrap();
    assert_eq!(stopped.stop(), Stop::Cancelled);
    assert_ne!(stopped.to_bytes().unwrap(), wanted);
    let whole = go_on(&table, &config, 99).unwrap();
    assert_eq!(whole.to_bytes().unwrap(), wanted);
    // Once more: nothing is left to do.
    let again = go_on(&table, &config, 99).unwrap();
    assert_eq!(again.to_bytes().unwrap(), wanted);
    let other = FactorConfig {
        seed: 9,
        ..config.clone()
    };
    let refused = go_on(&table, &other, 99);
    assert!(matches!(refused, Err(IqgmeError::Checkpoint(_))));
    // So are other values of another order.
    let stretched = table.map(|_, _, x| x * x).unwrap();
    let refused = go_on(&stretched, &config, 99);
    assert!(matches!(refused, Err(IqgmeError::Checkpoint(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Stopped after any iteration. With this many features a sum whose last digits differ shows: what follows from the covariances must not be found
/// again from them.
#[test]
fn a_run_goes_on_from_any_state_in_the_same_bits() {
    for seed in 0..3 {
        let simulation = Simulation {
            n: 60,
            p: 150,
            missing: 0.1,
            ..Simulation::small()
        };
        let (table, labels, _) = simulation.draw(seed);
        let config = FactorConfig {
            limits: VbLimits {
                max_iterations: 15,
                ..FactorConfig::default().limits
            },
            max_factors: 6,
            ..config(1)
        };
        let data = FactorData::new(&table, &labels, &config).unwrap();
        let (mut states, mut trace) = (Vec::new(), Vec::new());
        let mut whole = FactorVb::new(&data, config.clone(), FactorInit::Pooled(2), 0).unwrap();
        for _ in 0..15 {
            let bound = whole.step().unwrap();
            trace.push(VbReport::after(trace.last(), bound));
            states.push(whole.state().clone());
        }
        for (k, state) in states.into_iter().enumerate().take(trace.len() - 1) {
            let so_far = &trace[..=k];
            let mut resumed = FactorVb::resume(&data, config.clone(), state, so_far).unwrap();
            let (found, wanted) = (resumed.step().unwrap(), trace[k + 1].elbo);
            assert_eq!(
                found.to_bits(),
                wanted.to_bits(),
                "after {k}: {found} {wanted}"
            );
        }
    }
}

#[test]
fn damaged_files_are_errors_or_valid_fits() {
    let simulation = Simulation {
        n: 12,
        p: 3,
        used: vec![vec![0]],
        ..Simulation::small()
    };
    let (table, labels, _) = simulation.draw(3);
    let config = FactorConfig {
        max_factors: 2,
        starts: vec![FactorInit::Pooled(1), FactorInit::PerClass(1)],
        limits: VbLimits {
            max_iterations: 5,
            ..FactorConfig::default().limits
        },
        ..several()
    };
    let fitted = fit_factor(&table, &labels, &config).unwrap();
    let bytes = fitted.to_bytes().unwrap();
    let loaded = FactorFit::from_bytes(&bytes).unwrap();
    assert_eq!(
        loaded.predict_proba(&table).unwrap(),
        fitted.predict_proba(&table).unwrap()
    );
    assert_eq!(loaded.config(), fitted.config());
    let exercise = |f: &FactorFit| {
        let _ = f.predict_proba(&table);
        let _ = f.impute(&table);
        let _ = f.ln_density(&table);
        let _ = f.predict_interval(&table, 0.9);
        let _ = (f.components(), f.loadings(), f.n_clusters());
    };
    attack_file(&bytes, 1500, 1, FactorFit::from_bytes, exercise).unwrap();
}
