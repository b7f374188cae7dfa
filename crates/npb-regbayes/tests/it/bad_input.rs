//! Bad input: the right behaviour, or an error that names it.

use npb_regbayes::npb_data::{Labels, Table, Targets};
use npb_regbayes::tasks::{Task, TaskData};
use npb_regbayes::{
    ClassCosts, FeatureConfig, IbpGibbsConfig, IbpSampler, IlsvmConfig, MtIlsvmConfig, Variance,
    classes, tasks,
};

use crate::simulated::{self, class_config, labels, task_config};

fn table(rows: usize, cols: usize) -> Table {
    let value = |k: usize| ((k * 7 + k * k * 3) % 11) as f64 - 5.0;
    Table::complete(rows, cols, (0..rows * cols).map(value).collect()).unwrap()
}

#[test]
fn settings_out_of_range_are_named() {
    let base = MtIlsvmConfig::default;
    let with = |factors| MtIlsvmConfig { factors, ..base() };
    let factors = FeatureConfig::default;
    for (config, field) in [
        (
            MtIlsvmConfig {
                cost: -1.0,
                ..base()
            },
            "cost",
        ),
        (
            MtIlsvmConfig {
                cost: f64::NAN,
                ..base()
            },
            "cost",
        ),
        (
            MtIlsvmConfig {
                epsilon: f64::INFINITY,
                ..base()
            },
            "epsilon",
        ),
        (
            MtIlsvmConfig {
                raw_inputs: -0.5,
                ..base()
            },
            "raw_inputs",
        ),
        (
            MtIlsvmConfig {
                ones: f64::NAN,
                ..base()
            },
            "ones",
        ),
        (
            MtIlsvmConfig {
                inner_sweeps: 0,
                ..base()
            },
            "inner_sweeps",
        ),
        (
            with(FeatureConfig {
                truncation: 0,
                ..factors()
            }),
            "factors.truncation",
        ),
        (
            with(FeatureConfig {
                truncation: 400,
                ..factors()
            }),
            "factors.truncation",
        ),
        (
            with(FeatureConfig {
                noise_variance: Variance::Fixed(0.0),
                ..factors()
            }),
            "factors.noise_variance",
        ),
        (
            with(FeatureConfig {
                input_weight: 0.0,
                ..factors()
            }),
            "factors.input_weight",
        ),
    ] {
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn targets_that_fit_nothing_are_named() {
    let inputs = table(6, 3);
    let error = Task::signs("a", &[Some(1.0), None, Some(0.5)])
        .unwrap_err()
        .to_string();
    assert!(error.contains("row 2") && error.contains("0.5"), "{error}");
    let error = Task::real("a", &[Some(f64::NAN)]).unwrap_err().to_string();
    assert!(error.contains("row 0"), "{error}");
    let none = Task::label("empty", &[None; 6]);
    let error = TaskData::new(inputs.clone(), vec![none])
        .unwrap_err()
        .to_string();
    assert!(error.contains("empty"), "{error}");
    for rows in [5, 7] {
        let slipped = Task::label("slipped", &vec![Some(true); rows]);
        let error = TaskData::new(inputs.clone(), vec![slipped])
            .unwrap_err()
            .to_string();
        let entries = format!("slipped has {rows} entries for 6 rows");
        assert!(error.contains(&entries), "{error}");
    }
    let twice = || Task::label("a", &[Some(true); 6]);
    assert!(TaskData::new(inputs.clone(), vec![twice(), twice()]).is_err());
    assert!(TaskData::new(inputs.clone(), vec![]).is_err());
    let targets = Targets::from_bools(["a"], &[Some(true); 5]).unwrap();
    assert!(TaskData::from_targets(inputs, &targets).is_err());
}

#[test]
fn labels_that_fit_nothing_are_named() {
    let inputs = table(6, 3);
    let config = class_config(2);
    let one = Labels::from_strings(&[Some("a"); 6]);
    let error = classes::fit(&inputs, &one, &config)
        .unwrap_err()
        .to_string();
    assert!(error.contains("at least two"), "{error}");
    let short = Labels::from_strings(&[Some("a"), Some("b")]);
    assert!(classes::fit(&inputs, &short, &config).is_err());
    let flat = Table::complete(6, 2, vec![1.0; 12]).unwrap();
    let two = Labels::from_strings(&[Some("a"), Some("b"), None, None, None, None]);
    let error = classes::fit(&flat, &two, &config).unwrap_err().to_string();
    assert!(error.contains("varies"), "{error}");
}

#[test]
fn a_class_without_labelled_rows_is_kept_and_hardly_ever_predicted() {
    let (table, truth) = simulated::classes(21, 60, 0.0);
    let codes: Vec<Option<usize>> = truth.iter().map(|&y| (y < 2).then_some(y)).collect();
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    let labels = Labels::from_codes(names, codes).unwrap();
    let config = IlsvmConfig {
        class_costs: ClassCosts::Balanced,
        ..class_config(5)
    };
    let model = classes::fit(&table, &labels, &config).unwrap();
    let scores = model.scores();
    let right = (0..60)
        .filter(|&n| truth[n] < 2 && scores.class(n) == truth[n])
        .count();
    let all = truth.iter().filter(|&&y| y < 2).count();
    assert!(right as f64 > 0.9 * all as f64, "{right} of {all}");
    assert!(model.class_means(&labels).unwrap()[2].is_none());
}

#[test]
fn silent_columns_are_listed_and_new_rows_may_lack_everything() {
    let simulated = simulated::tasks(22, 60, 0.0);
    let n = simulated.inputs.n_rows();
    let d = simulated.inputs.n_cols();
    let mut values = Vec::new();
    for row in 0..n {
        values.extend_from_slice(simulated.inputs.row(row));
        values.extend([4.0, f64::NAN]);
    }
    let inputs = Table::from_nan_coded(n, d + 2, &values).unwrap();
    let data = TaskData::new(inputs.clone(), simulated.data(n).tasks().to_vec()).unwrap();
    let model = tasks::fit(&data, &task_config(5)).unwrap();
    assert_eq!(model.columns().constant(), [d]);
    assert_eq!(model.columns().empty(), [d + 1]);
    assert!(model.features()[0].columns.len() == d);
    let plain = tasks::fit(&simulated.data(n), &task_config(5)).unwrap();
    assert_eq!(
        plain.predict(&simulated.inputs).unwrap().of_task(1),
        model.predict(&inputs).unwrap().of_task(1)
    );
    // A row of holes gets the prior prediction; other columns are an error.
    let nothing = Table::from_nan_coded(1, d + 2, &vec![f64::NAN; d + 2]).unwrap();
    assert!(model.predict(&nothing).unwrap().score(0, 0).is_finite());
    assert!(model.predict(&simulated.inputs).is_err());
    assert_eq!(model.predict(&inputs.select_rows(&[])).unwrap().n_rows(), 0);

    let (table, truth) = simulated::classes(23, 50, 0.2);
    let model = classes::fit(&table, &labels(&truth, 50), &class_config(5)).unwrap();
    let nothing = Table::from_nan_coded(1, 12, &[f64::NAN; 12]).unwrap();
    assert!(
        model
            .predict(&nothing)
            .unwrap()
            .row(0)
            .iter()
            .all(|s| s.is_finite())
    );
    assert_eq!(model.predict(&table.select_rows(&[])).unwrap().n_rows(), 0);
}

#[test]
fn extreme_data_give_finite_scores() {
    for scale in [1e-300, 1e-3, 1e6, 1e150] {
        let simulated = simulated::tasks(24, 30, 0.1);
        let inputs = simulated
            .inputs
            .map(|_, j, x| if j == 0 { x * scale } else { x })
            .unwrap();
        let data = TaskData::new(inputs.clone(), simulated.data(30).tasks().to_vec()).unwrap();
        let scores = tasks::fit(&data, &task_config(4))
            .unwrap()
            .predict(&inputs)
            .unwrap();
        assert!((0..30).all(|n| scores.score(n, 0).is_finite()), "{scale}");
    }
    // One row, one column, more columns than rows, duplicates, C = 0.
    let inputs = table(4, 9).stack(&table(4, 9)).unwrap();
    let label = Task::label(
        "a",
        &[true, false, true, false, true, false, true, false].map(Some),
    );
    let data = TaskData::new(inputs.clone(), vec![label]).unwrap();
    let config = MtIlsvmConfig {
        cost: 0.0,
        ..task_config(20)
    };
    let scores = tasks::fit(&data, &config)
        .unwrap()
        .predict(&inputs)
        .unwrap();
    assert!(scores.of_task(0).iter().all(|&s| s == 0.0));
    let two = Labels::from_strings(&["a", "b", "a", "b", "a", "b", "a", "b"].map(Some));
    let config = IlsvmConfig {
        cost: 0.0,
        ..class_config(20)
    };
    let model = classes::fit(&inputs, &two, &config).unwrap();
    assert!(model.scores().row(0).iter().all(|&s| s == 0.0));
}

#[test]
fn values_whose_squares_overflow_are_named_by_the_sampler() {
    let table = Table::complete(2, 2, vec![1.0, 2.0, 1e300, 3.0]).unwrap();
    let error = IbpSampler::new(&table, &IbpGibbsConfig::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("table, row 1, column 0: 1"),
        "{error}"
    );
}
