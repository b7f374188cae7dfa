//! Whatever a user hands in: an error that names the place, or a finite result.

use npb_data::{Labels, Table};
use npb_infer::VbLimits;
use npb_iqgme::{FactorConfig, FactorInit, FeatureScale, IqgmeError, fit_factor};

use super::data::{Simulation, config};

fn labels(names: &[&str]) -> Labels {
    Labels::from_strings(&names.iter().map(|n| Some(*n)).collect::<Vec<_>>())
}

#[test]
fn errors_name_what_is_wrong() {
    let table = Table::complete(4, 1, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
    let message = |table: &Table, names: &[&str]| {
        let result = fit_factor(table, &labels(names), &config(0));
        result.expect_err("is refused").to_string()
    };
    assert!(message(&table, &["a"; 4]).contains("\"a\""));
    assert!(message(&table, &["a", "b"]).contains("2 labels for 4 rows"));
    let empty = Table::complete(0, 2, vec![]).unwrap();
    assert!(message(&empty, &[]).contains("no rows"));
    let narrow = Table::complete(2, 0, vec![]).unwrap();
    assert!(message(&narrow, &["a", "b"]).contains("no columns"));
    let fitted = fit_factor(&table, &labels(&["a", "a", "b", "b"]), &config(0)).unwrap();
    let wider = Table::complete(1, 2, vec![1.0, 2.0]).unwrap();
    assert!(fitted.predict_proba(&wider).is_err());
    assert!(fitted.predict_interval(&table, 1.0).is_err());
    assert!(fitted.impute(&wider).is_err());
    let none = Labels::from_strings(&[None::<&str>; 4]);
    let unlabelled = fit_factor(&table, &none, &config(0)).unwrap();
    assert!(matches!(
        unlabelled.predict_proba(&table),
        Err(IqgmeError::Unlabelled)
    ));
}

#[test]
fn every_configuration_value_is_checked_by_name() {
    type Change = fn(&mut FactorConfig);
    let changes: [(&str, Change); 23] = [
        ("truncation", |c| c.truncation = 0),
        ("max_factors", |c| c.max_factors = 0),
        ("restarts", |c| c.restarts = 0),
        ("concentration", |c| c.concentration.shape = 0.0),
        ("concentration", |c| c.concentration.rate = f64::NAN),
        ("indicator_on", |c| c.indicator_on = -1.0),
        ("indicator_off", |c| c.indicator_off = 0.0),
        ("loading", |c| c.loading.shape = f64::INFINITY),
        ("loading", |c| c.loading.rate = 0.0),
        ("mean", |c| c.mean.shape = 0.0),
        ("mean", |c| c.mean.rate = -0.5),
        ("noise", |c| c.noise.shape = 0.0),
        ("noise", |c| c.noise.rate = f64::NAN),
        ("cluster_noise", |c| c.cluster_noise = -1.0),
        ("expert", |c| c.expert.shape = 0.0),
        ("expert", |c| c.expert.rate = 0.0),
        ("expert_mean_strength", |c| c.expert_mean_strength = 0.0),
        ("folds", |c| c.folds = 1),
        ("folds", |c| c.folds = 101),
        ("limits.max_iterations", |c| c.limits.max_iterations = 0),
        ("limits.tolerance", |c| c.limits.tolerance = f64::NAN),
        ("starts", |c| c.starts = vec![FactorInit::Own(0)]),
        ("unlabelled_starts", |c| {
            c.unlabelled_starts = vec![FactorInit::Pooled(0)];
        }),
    ];
    for (field, change) in changes {
        let mut config = FactorConfig::default();
        change(&mut config);
        let message = config.validate().unwrap_err().to_string();
        assert!(message.contains(field), "{field}: {message}");
    }
    FactorConfig::default().validate().unwrap();
}

/// Rows that are hard on the numbers.
fn hard_tables() -> Vec<(&'static str, Table)> {
    let gap = f64::NAN;
    let base = |i: usize, j: usize| ((i * 7 + j * 3) % 11) as f64;
    let with = |change: &dyn Fn(usize, usize, f64) -> f64| {
        let values: Vec<f64> = (0..8 * 4)
            .map(|k| change(k / 4, k % 4, base(k / 4, k % 4)))
            .collect();
        Table::from_nan_coded(8, 4, &values).unwrap()
    };
    vec![
        (
            "constant column",
            with(&|_, j, v| if j == 1 { 3.0 } else { v }),
        ),
        (
            "empty column",
            with(&|_, j, v| if j == 2 { gap } else { v }),
        ),
        ("empty row", with(&|i, _, v| if i == 5 { gap } else { v })),
        ("duplicate rows", with(&|_, j, _| base(1, j))),
        ("equal columns", with(&|i, _, _| base(i, 0))),
        (
            "huge",
            with(&|_, j, v| if j == 0 { v * 1e300 / 11.0 } else { v }),
        ),
        ("tiny", with(&|_, j, v| if j == 0 { v * 1e-300 } else { v })),
        (
            "denormal",
            with(&|_, j, v| if j == 0 { v * 1e-320 } else { v }),
        ),
        (
            "half of what there is",
            with(&|i, j, v| match (i, j) {
                (i, 0) if i % 2 == 0 => 0.5 * f64::MAX,
                (3, 0) => gap,
                (_, 0) => -0.49 * f64::MAX,
                _ => v,
            }),
        ),
        (
            "one huge value",
            with(&|i, j, v| if (i, j) == (2, 2) { -1e300 } else { v }),
        ),
        (
            "nearly empty",
            with(&|i, j, v| if i > 0 && j > 0 { gap } else { v }),
        ),
    ]
}

#[test]
fn a_column_wider_than_numbers_go_is_named() {
    let values = (0..24).map(|k| match k % 3 {
        1 if k % 2 == 0 => f64::MAX,
        1 => -f64::MAX,
        _ => f64::from(k),
    });
    let table = Table::complete(8, 3, values.collect()).unwrap();
    let names = labels(&["a", "b", "a", "b", "b", "a", "b", "a"]);
    let error = fit_factor(&table, &names, &config(1))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("row 0, column 1") || error.contains("row 1, column 1"),
        "{error}"
    );
}

#[test]
fn hard_tables_give_finite_answers() {
    let names = labels(&["a", "b", "a", "b", "b", "a", "b", "a"]);
    for (what, table) in hard_tables() {
        for scale in [FeatureScale::Standardised, FeatureScale::NormalScores] {
            let config = FactorConfig {
                scale,
                limits: VbLimits {
                    max_iterations: 20,
                    ..FactorConfig::default().limits
                },
                starts: vec![FactorInit::Pooled(2), FactorInit::Own(2)],
                ..config(1)
            };
            let fit = fit_factor(&table, &names, &config)
                .unwrap_or_else(|error| panic!("{what}, {scale:?}: {error}"));
            for p in fit.predict_proba(&table).unwrap() {
                assert!((0.0..=1.0).contains(&p), "{what}, {scale:?}: {p}");
            }
            for d in fit.ln_density(&table).unwrap() {
                assert!(d.is_finite(), "{what}, {scale:?}: density {d}");
            }
            let imputed = fit.impute(&table).unwrap();
            let empty: Vec<usize> = (0..4)
                .filter(|&j| table.observed_in_column(j).next().is_none())
                .collect();
            for (i, j) in (0..8).flat_map(|i| (0..4).map(move |j| (i, j))) {
                if !empty.contains(&j) {
                    let filled = imputed.completed.get(i, j).unwrap();
                    assert!(filled.is_finite(), "{what}, {scale:?}: cell {i} {j}");
                }
            }
        }
    }
}

#[test]
fn one_row_and_one_column_will_do() {
    let one = Table::complete(1, 3, vec![1.0, 2.0, 3.0]).unwrap();
    let none = Labels::from_strings(&[None::<&str>]);
    let fit = fit_factor(&one, &none, &config(0)).unwrap();
    assert_eq!(fit.ignored_columns(), [0, 1, 2]);
    assert_eq!(fit.n_clusters(), 1);
    let column = Table::complete(6, 1, vec![-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]).unwrap();
    let names = labels(&["a", "a", "a", "b", "b", "b"]);
    let fit = fit_factor(&column, &names, &config(0)).unwrap();
    assert!(fit.predict_proba(&column).unwrap()[5] > 0.5);
    let both = fit.predict_classes(&column).unwrap();
    for (both, second) in both.iter().zip(fit.predict_proba(&column).unwrap()) {
        assert_eq!(both[1], second);
        assert!((both[0] + both[1] - 1.0).abs() < 1e-12);
    }
}

#[test]
fn columns_are_known_by_name_and_f32_tables_are_taken() {
    let (table, names, _) = Simulation::small().draw(4);
    let columns: Vec<String> = (0..table.n_cols()).map(|j| format!("m{j}")).collect();
    let named = table.with_column_names(columns.clone()).unwrap();
    let fit = fit_factor(&named, &names, &config(0)).unwrap();
    assert_eq!(fit.column_names(), columns);
    let mut other = columns;
    other.swap(0, 1);
    let swapped = named.with_column_names(other).unwrap();
    assert!(fit.predict_proba(&swapped).is_err());
    let single: Vec<f32> = (0..12).map(|k| k as f32 * 0.5).collect();
    let table = Table::from_nan_coded(4, 3, &single).unwrap();
    fit_factor(&table, &labels(&["a", "a", "b", "b"]), &config(0)).unwrap();
}
