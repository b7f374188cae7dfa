//! The finite mixture of experts by EM.

use npb_data::{Labels, Table};
use npb_infer::VbLimits;
use npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_iqgme::{QgmeConfig, QgmeFit, Saved, fit_qgme};

use crate::data::{draws_agree, evaluate, three_gaussians};
use crate::gaussians::sectors;

fn experts(components: usize, seed: u64) -> QgmeConfig {
    QgmeConfig {
        components,
        seed,
        ..QgmeConfig::default()
    }
}

#[test]
fn likelihood_never_falls() {
    for seed in 0..12 {
        let missing = [0.0, 0.2, 0.5][seed as usize % 3];
        let unlabelled = [0.0, 0.3, 1.0][seed as usize / 3 % 3];
        let (table, labels) = three_gaussians(seed, 60, seed as usize % 3, missing, unlabelled);
        for components in [1, 2, 5] {
            let config = QgmeConfig {
                limits: VbLimits {
                    max_iterations: 60,
                    tolerance: 1e-12,
                },
                restarts: 2,
                ..experts(components, seed)
            };
            let model = fit_qgme(&table, &labels, &config).unwrap();
            let trace: Vec<f64> = model.trace().iter().map(|r| r.elbo).collect();
            for (k, pair) in trace.windows(2).enumerate() {
                let fall = pair[0] - pair[1];
                assert!(
                    fall < 1e-9 * pair[0].abs().max(1.0),
                    "seed {seed}, {components} components, iteration {k}: {pair:?}"
                );
            }
        }
    }
}

#[test]
fn three_components_classify_three_gaussians() {
    let (table, labels) = three_gaussians(1, 300, 0, 0.2, 0.1);
    let (new, truth) = three_gaussians(2, 400, 0, 0.0, 0.0);
    let accuracy = |components| {
        let model = fit_qgme(&table, &labels, &experts(components, 1)).unwrap();
        evaluate(
            model.classes(),
            &model.predict_classes(&new).unwrap(),
            &truth,
        )
        .accuracy
    };
    let (one, three) = (accuracy(1), accuracy(3));
    assert!(three > 0.9 && three > one + 0.04, "{one} {three}");
}

#[test]
fn same_bits_on_1_and_4_threads_and_after_saving() {
    let (table, labels) = three_gaussians(3, 60, 1, 0.3, 0.2);
    same_bits_on_threads(&[1, 4], || {
        fit_qgme(&table, &labels, &experts(3, 3))
            .unwrap()
            .to_bytes()
            .unwrap()
    })
    .unwrap();
    let (table, labels) = three_gaussians(3, 12, 0, 0.3, 0.0);
    let fitted = fit_qgme(&table, &labels, &experts(2, 3)).unwrap();
    let exercise = |f: &QgmeFit| {
        let _ = (f.predict_proba(&table), f.impute(&table));
    };
    attack_file(
        &fitted.to_bytes().unwrap(),
        800,
        1,
        QgmeFit::from_bytes,
        exercise,
    )
    .unwrap();
}

#[test]
fn odd_input() {
    let (table, labels) = sectors(4, 30, 3, 0.0, 0.0);
    let error = fit_qgme(&table, &labels, &experts(2, 4))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("third class") && error.contains("merge"),
        "{error}"
    );
    let error = fit_qgme(&table, &labels, &experts(0, 4))
        .unwrap_err()
        .to_string();
    assert!(error.contains("components"), "{error}");
    // More components than rows, and a row without any feature.
    let gap = f64::NAN;
    let few = Table::from_nan_coded(4, 2, &[1.0, 2.0, gap, gap, 3.0, gap, 0.0, 1.0]).unwrap();
    let names = Labels::from_strings(&["a", "b", "a", "b"].map(Some));
    let model = fit_qgme(&few, &names, &experts(9, 4)).unwrap();
    assert!(
        model
            .predict_proba(&few)
            .unwrap()
            .iter()
            .all(|p| (0.0..=1.0).contains(p))
    );
    let none = Labels::from_strings(&[None::<&str>; 4]);
    let gate = fit_qgme(&few, &none, &experts(2, 4)).unwrap();
    assert!(gate.predict_proba(&few).is_err() && gate.impute(&few).is_ok());
}

#[test]
fn imputation_agrees_with_its_draws() {
    let (table, labels) = three_gaussians(4, 100, 1, 0.3, 0.2);
    let model = fit_qgme(&table, &labels, &experts(3, 1)).unwrap();
    let rows = table.select_rows(&(0..12).collect::<Vec<_>>());
    let draws = model.impute_draws(&rows, 4000).unwrap();
    draws_agree(&rows, &model.impute(&rows).unwrap(), &draws).unwrap();
    assert!(model.impute_draws(&rows, 0).is_err());
}

#[test]
fn the_density_integrates_to_one() {
    let near = |k: u64| ((k * 37) % 101) as f64 / 101.0;
    let values: Vec<f64> = (0..80)
        .map(|k| near(k) + if k % 2 == 0 { 0.0 } else { 20.0 })
        .collect();
    let table = Table::complete(80, 1, values).unwrap();
    let labels = Labels::from_strings(&vec![None::<&str>; 80]);
    let model = fit_qgme(&table, &labels, &experts(2, 1)).unwrap();
    let step = 0.01;
    let grid: Vec<f64> = (-1000..3200).map(|k| step * f64::from(k)).collect();
    let grid = Table::complete(grid.len(), 1, grid).unwrap();
    let density = model.ln_density(&grid).unwrap();
    let total: f64 = density.iter().map(|ln| ln.exp() * step).sum();
    assert!((total - 1.0).abs() < 1e-3, "{total}");
    let hole = Table::from_nan_coded(1, 1, &[f64::NAN]).unwrap();
    assert_eq!(model.ln_density(&hole).unwrap(), [0.0]);
}
