//! Whatever a user hands in: an error that names the place, or a finite result.

use npb_data::{Labels, Table};
use npb_infer::VbLimits;
use npb_iqgme::npb_priors::GammaPrior;
use npb_iqgme::{
    GibbsConfig, Init, IqgmeConfig, IqgmeError, QgmeConfig, fit, fit_gibbs, fit_qgme,
    fit_unlabelled,
};

use crate::data::{config, three_gaussians};

fn labels(names: &[&str]) -> Labels {
    Labels::from_strings(&names.iter().map(|n| Some(*n)).collect::<Vec<_>>())
}

fn message(result: Result<npb_iqgme::IqgmeFit, IqgmeError>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let two = Table::complete(4, 1, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
    let one = message(fit(&two, &labels(&["a"; 4]), &config(0)));
    assert!(
        one.contains("\"a\"") && one.contains("two classes or more"),
        "{one}"
    );
    let count = message(fit(&two, &labels(&["a", "b"]), &config(0)));
    assert!(count.contains("2 labels for 4 rows"), "{count}");
    let none = message(fit_unlabelled(
        &Table::complete(0, 2, vec![]).unwrap(),
        &config(0),
    ));
    assert!(none.contains("no rows"), "{none}");
    let columns = message(fit_unlabelled(
        &Table::complete(2, 0, vec![]).unwrap(),
        &config(0),
    ));
    assert!(columns.contains("no columns"), "{columns}");
    let infinite = Table::complete(2, 2, vec![1.0, 2.0, f64::INFINITY, 3.0])
        .unwrap_err()
        .to_string();
    assert!(
        infinite.contains("row 1") && infinite.contains("column"),
        "{infinite}"
    );
}

#[test]
fn every_configuration_value_is_checked_by_name() {
    let (table, labels) = three_gaussians(1, 20, 0, 0.0, 0.0);
    let good = config(0);
    let bad: Vec<(&str, IqgmeConfig)> = vec![
        (
            "truncation",
            IqgmeConfig {
                truncation: 0,
                ..good.clone()
            },
        ),
        (
            "truncation",
            IqgmeConfig {
                truncation: usize::MAX,
                ..good.clone()
            },
        ),
        (
            "starts",
            IqgmeConfig {
                starts: vec![Init::KMeans(usize::MAX)],
                ..good.clone()
            },
        ),
        (
            "restarts",
            IqgmeConfig {
                restarts: usize::MAX,
                ..good.clone()
            },
        ),
        (
            "restarts",
            IqgmeConfig {
                restarts: 0,
                ..good.clone()
            },
        ),
        (
            "concentration",
            IqgmeConfig {
                concentration: GammaPrior {
                    shape: f64::NAN,
                    ..good.concentration
                },
                ..good.clone()
            },
        ),
        (
            "concentration",
            IqgmeConfig {
                concentration: GammaPrior {
                    rate: -1.0,
                    ..good.concentration
                },
                ..good.clone()
            },
        ),
        (
            "mean_strength",
            IqgmeConfig {
                mean_strength: 0.0,
                ..good.clone()
            },
        ),
        (
            "dof_excess",
            IqgmeConfig {
                dof_excess: 1.0,
                ..good.clone()
            },
        ),
        (
            "expert",
            IqgmeConfig {
                expert: GammaPrior {
                    shape: f64::INFINITY,
                    ..good.expert
                },
                ..good.clone()
            },
        ),
        (
            "expert",
            IqgmeConfig {
                expert: GammaPrior {
                    rate: f64::NAN,
                    ..good.expert
                },
                ..good.clone()
            },
        ),
        (
            "expert_mean_strength",
            IqgmeConfig {
                expert_mean_strength: 0.0,
                ..good.clone()
            },
        ),
        (
            "limits.max_iterations",
            IqgmeConfig {
                limits: VbLimits {
                    max_iterations: 0,
                    ..IqgmeConfig::default().limits
                },
                ..good.clone()
            },
        ),
        (
            "limits.tolerance",
            IqgmeConfig {
                limits: VbLimits {
                    tolerance: f64::NAN,
                    ..IqgmeConfig::default().limits
                },
                ..good.clone()
            },
        ),
        (
            "starts",
            IqgmeConfig {
                starts: vec![],
                ..good.clone()
            },
        ),
        (
            "starts",
            IqgmeConfig {
                starts: vec![Init::KMeans(0)],
                ..good.clone()
            },
        ),
    ];
    for (field, config) in bad {
        let said = message(fit(&table, &labels, &config));
        assert!(said.contains(field), "{field}: {said}");
    }
}

#[test]
fn other_columns_at_prediction_are_named() {
    let (table, labels) = three_gaussians(1, 40, 1, 0.0, 0.0);
    let fitted = fit(&table, &labels, &config(0)).unwrap();
    let fewer = table.select_columns(&[0, 1]).unwrap();
    let said = fitted.predict_proba(&fewer).unwrap_err().to_string();
    assert!(said.contains('2') && said.contains('3'), "{said}");
    let swapped = table.select_columns(&[1, 0, 2]).unwrap();
    let said = fitted.predict_proba(&swapped).unwrap_err().to_string();
    assert!(said.contains("x0") && said.contains("x1"), "{said}");
    assert!(
        fitted
            .predict_interval(&table, 1.5)
            .unwrap_err()
            .to_string()
            .contains("level")
    );
    let ends = fitted.predict_interval(&table, 1.0).unwrap_err();
    let said = "level = 1.0: must be between 0 and 1 (both excluded)";
    assert_eq!(ends.to_string(), said);
    let ends = fitted.dominant_components(0.0, 10).unwrap_err();
    assert!(ends.to_string().contains("excluded"), "{ends}");
}

/// Tables that are odd but legal: the fit works and everything it says is finite.
#[test]
fn odd_tables_work() {
    let yes_no = |n: usize| {
        labels(
            &(0..n)
                .map(|i| if i % 2 == 0 { "no" } else { "yes" })
                .collect::<Vec<_>>(),
        )
    };
    let ramp = |n: usize, p: usize| {
        (0..n * p)
            .map(|k| ((k * 37) % 101) as f64)
            .collect::<Vec<_>>()
    };
    let mut with_hole = vec![true; 20];
    (0..10).for_each(|i| with_hole[2 * i + 1] = false);
    let mut empty_row = vec![true; 20];
    empty_row[6] = false;
    empty_row[7] = false;
    let mut constant = ramp(10, 2);
    (0..10).for_each(|i| constant[2 * i] = 4.0);
    let huge: Vec<f64> = ramp(10, 2).iter().map(|x| x * 1e298).collect();
    let denormal: Vec<f64> = ramp(10, 2).iter().map(|x| x * 1e-320).collect();
    let tiny: Vec<f64> = ramp(10, 2).iter().map(|x| x * 1e-300).collect();
    let cases: Vec<(&str, Table)> = vec![
        (
            "all-missing column",
            Table::new(10, 2, ramp(10, 2), &with_hole).unwrap(),
        ),
        (
            "all-missing row",
            Table::new(10, 2, ramp(10, 2), &empty_row).unwrap(),
        ),
        ("constant column", Table::complete(10, 2, constant).unwrap()),
        (
            "only constant columns",
            Table::complete(10, 2, vec![1.0; 20]).unwrap(),
        ),
        (
            "nothing observed",
            Table::new(10, 2, vec![0.0; 20], &[false; 20]).unwrap(),
        ),
        (
            "duplicate rows",
            Table::complete(10, 2, [1.0, 2.0, 3.0, 1.0].repeat(5)).unwrap(),
        ),
        (
            "more columns than rows",
            Table::complete(4, 12, ramp(4, 12)).unwrap(),
        ),
        ("two rows", Table::complete(2, 2, ramp(2, 2)).unwrap()),
        ("huge", Table::complete(10, 2, huge).unwrap()),
        ("tiny", Table::complete(10, 2, tiny).unwrap()),
        ("denormal", Table::complete(10, 2, denormal).unwrap()),
    ];
    for (name, table) in cases {
        let fitted = fit(&table, &yes_no(table.n_rows()), &config(0))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let p = fitted.predict_proba(&table).unwrap();
        assert!(p.iter().all(|p| (0.0..=1.0).contains(p)), "{name}: {p:?}");
        assert!(fitted.trace().iter().all(|r| r.elbo.is_finite()), "{name}");
        let imputed = fitted
            .impute(&table)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(imputed.sd.values().iter().all(|v| v.is_finite()), "{name}");
        if name == "all-missing column" {
            assert_eq!(fitted.ignored_columns(), [1]);
            assert_eq!(imputed.completed.get(0, 1), None);
        }
        if name == "constant column" {
            assert_eq!(fitted.ignored_columns(), [0]);
        }
    }
    let one_row = Table::complete(1, 3, vec![1.0, 2.0, 3.0]).unwrap();
    let fitted = fit_unlabelled(&one_row, &config(0)).unwrap();
    assert!(fitted.ln_density(&one_row).unwrap()[0].is_finite());
}

/// Many rows agree in columns of few values: the density of a component that holds only such rows has no bound.
#[test]
fn columns_of_few_values_keep_matrices_regular() {
    let cell = |i: usize, j: usize| ((i * (2 * j + 3) + i / 7) % (j + 2)) as f64;
    let cells: Vec<f64> = (0..400)
        .flat_map(|i| (0..4).map(move |j| cell(i, j)))
        .collect();
    let table = Table::from_nan_coded(400, 4, &cells).unwrap();
    let names: Vec<&str> = (0..400)
        .map(|i| {
            if cell(i, 0) + cell(i, 2) > 1.5 {
                "a"
            } else {
                "b"
            }
        })
        .collect();
    let config = IqgmeConfig {
        limits: VbLimits {
            max_iterations: 1000,
            ..IqgmeConfig::default().limits
        },
        ..IqgmeConfig::default()
    };
    let model = fit(&table, &labels(&names), &config).unwrap();
    let probabilities = model.predict_proba(&table).unwrap();
    assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)));
    let densities = model.ln_density(&table).unwrap();
    assert!(densities.iter().all(|d| d.is_finite()));
}

#[test]
fn a_far_away_row_at_prediction_is_finite() {
    let (table, labels) = three_gaussians(1, 60, 0, 0.1, 0.0);
    let fitted = fit(&table, &labels, &config(0)).unwrap();
    for far in [1e6, 1e150, 1e300, -1e300] {
        let point = Table::complete(1, 2, vec![far, 1.0]).unwrap();
        let p = fitted.predict_proba(&point).unwrap()[0];
        assert!((0.0..=1.0).contains(&p), "{far}: {p}");
        assert!((0.0..=1.0).contains(&fitted.predict_plug_in(&point).unwrap()[0]));
    }
}

/// What a list of starts holds is named, not only the list.
#[test]
fn lists_and_large_numbers_are_shown_as_they_were_given() {
    let said = |change: &dyn Fn(&mut IqgmeConfig)| {
        let mut config = config(0);
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    let starts = [Init::PerClass(2), Init::Mixture(3), Init::KMeans(0)];
    for (message, wanted) in [
        (
            said(&|c| c.starts = Vec::new()),
            "config: starts = a list of 0: must be a list of 1 to 4096 starts",
        ),
        (
            said(&|c| c.unlabelled_starts = starts.to_vec()),
            "config: unlabelled_starts = KMeans(0) at position 2 (from 0): must be of 1 to 4096 clusters",
        ),
        (
            said(&|c| c.folds = 1),
            "config: folds = 1: must be 0 (runs are weighed by their bounds) or 2 to 100",
        ),
        (
            said(&|c| c.dof_excess = 1e300),
            "config: dof_excess = 1e300: must be at most 1e10",
        ),
    ] {
        assert_eq!(message, wanted);
    }
}

#[test]
fn fits_without_labels_say_so() {
    let (table, truth) = three_gaussians(1, 20, 0, 0.1, 0.0);
    let none = Labels::from_strings(&[None::<&str>; 20]);
    let model = config(0);
    let mut chains = GibbsConfig {
        model: model.clone(),
        chains: 1,
        ..GibbsConfig::default()
    };
    (chains.sweeps.burn_in, chains.sweeps.keep) = (1, 2);
    let variational = fit(&table, &none, &model).unwrap();
    let sampled = fit_gibbs(&table, &none, &chains).unwrap();
    let finite = fit_qgme(&table, &none, &QgmeConfig::default()).unwrap();
    for error in [
        variational.predict_classes(&table).unwrap_err(),
        sampled.predict_classes(&table).unwrap_err(),
        finite.predict_classes(&table).unwrap_err(),
        variational.training_cells(&table, &truth).unwrap_err(),
        variational.predict_interval(&table, 0.9).unwrap_err(),
        sampled.predict_interval(&table, 0.9).unwrap_err(),
        variational
            .predict_class_intervals(&table, 0.9)
            .unwrap_err(),
        sampled.predict_class_intervals(&table, 0.9).unwrap_err(),
    ] {
        assert!(matches!(error, IqgmeError::Unlabelled), "{error}");
    }
}

/// Columns and classes that are left out, of the three kinds of fit.
#[test]
fn what_is_left_out_can_be_asked_for() {
    let (table, labels) = three_gaussians(2, 20, 2, 0.1, 0.0);
    let table = table.map(|_, j, x| if j == 2 { 4.0 } else { x }).unwrap();
    let names: Vec<Option<&str>> = (0..20).map(|row| labels.name(row)).collect();
    let classes = ["never", "up", "down"].map(str::to_owned).to_vec();
    let labels = Labels::with_classes(classes, &names).unwrap();
    let mut chains = GibbsConfig {
        model: config(0),
        chains: 1,
        ..GibbsConfig::default()
    };
    (chains.sweeps.burn_in, chains.sweeps.keep) = (1, 2);
    let variational = fit(&table, &labels, &config(0)).unwrap();
    let sampled = fit_gibbs(&table, &labels, &chains).unwrap();
    let finite = fit_qgme(&table, &labels, &QgmeConfig::default()).unwrap();
    for (names, columns, ignored, classes) in [
        (
            variational.column_names(),
            variational.model_columns(),
            variational.ignored_columns(),
            variational.classes(),
        ),
        (
            sampled.column_names(),
            sampled.model_columns(),
            sampled.ignored_columns(),
            sampled.classes(),
        ),
        (
            finite.column_names(),
            finite.model_columns(),
            finite.ignored_columns(),
            finite.classes(),
        ),
    ] {
        assert_eq!(names, table.column_names());
        assert_eq!((columns, ignored.as_slice()), (&[0, 1, 3][..], &[2][..]));
        assert_eq!(classes, ["up", "down"]);
    }
}
