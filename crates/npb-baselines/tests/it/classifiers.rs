//! Bad input and hard shapes for the classifiers that take holes or tasks, and for the sparse and the averaged ones.

use npb_baselines::{
    BaselineError, BoostedTrees, BoostedTreesConfig, ClusteredConfig, ClusteredLogistic,
    GaussianMixture, IntegratedConfig, IntegratedLogistic, Kernel, MixtureConfig, RandomForest,
    RandomForestConfig, Rvm, RvmConfig, SharedStructure, Sharing, StructureConfig, TaskLogistic,
    TaskLogisticConfig,
};
use npb_data::{DataError, Table};

const NAN: f64 = f64::NAN;

type Scores = Result<Vec<f64>, BaselineError>;

fn table(n_cols: usize, values: &[f64]) -> Table {
    Table::from_nan_coded(values.len() / n_cols.max(1), n_cols, values).unwrap()
}

fn structure() -> StructureConfig {
    StructureConfig {
        dimension: 1,
        ..Default::default()
    }
}

/// Every classifier without tasks: name, whether it takes holes, and scores of `test`.
fn single(train: &Table, labels: &[bool], test: &Table) -> Vec<(&'static str, bool, Scores)> {
    let linear = RvmConfig {
        kernel: Kernel::Linear,
        ..Default::default()
    };
    let rvm = |config: &RvmConfig| Rvm::fit(train, labels, config)?.decision(test);
    vec![
        ("rvm, rbf", false, rvm(&RvmConfig::default())),
        ("rvm, linear", false, rvm(&linear)),
        (
            "forest",
            false,
            RandomForest::fit(train, labels, &RandomForestConfig::default())
                .and_then(|m| m.probability(test)),
        ),
        (
            "boosted",
            true,
            BoostedTrees::fit(train, None, labels, &BoostedTreesConfig::default())
                .and_then(|m| m.probability(test, None)),
        ),
        (
            "integrated",
            true,
            IntegratedLogistic::fit(train, labels, &IntegratedConfig::default())
                .and_then(|m| m.probability(test)),
        ),
    ]
}

/// Every classifier with tasks: name, whether it takes holes, and scores of `test`.
fn with_tasks(
    train: &Table,
    tasks: &[usize],
    labels: &[bool],
    test: &Table,
    test_tasks: &[usize],
) -> Vec<(&'static str, bool, Scores)> {
    let regression = |sharing| {
        let config = TaskLogisticConfig {
            sharing,
            ..Default::default()
        };
        TaskLogistic::fit(train, tasks, labels, &config)?.decision(test, test_tasks)
    };
    vec![
        ("apart", false, regression(Sharing::Single)),
        ("pooled", false, regression(Sharing::Pooled)),
        (
            "shared and own",
            false,
            regression(Sharing::SharedAndOwn { shared: 1.0 }),
        ),
        (
            "tuned",
            false,
            TaskLogistic::fit_tuned(
                train,
                tasks,
                labels,
                &TaskLogisticConfig::default(),
                &[0.1, 1.0],
            )
            .and_then(|m| m.decision(test, test_tasks)),
        ),
        (
            "clustered",
            false,
            ClusteredLogistic::fit(train, tasks, labels, &ClusteredConfig::default())
                .and_then(|m| m.probability(test, test_tasks)),
        ),
        (
            "structure",
            false,
            SharedStructure::fit(train, tasks, labels, &structure())
                .and_then(|m| m.decision(test, test_tasks)),
        ),
        (
            "boosted",
            true,
            BoostedTrees::fit(train, Some(tasks), labels, &BoostedTreesConfig::default())
                .and_then(|m| m.probability(test, Some(test_tasks))),
        ),
    ]
}

/// Eight rows of two tasks.
fn example() -> (Table, [usize; 8], [bool; 8]) {
    let x = table(
        2,
        &[
            -1.0, 0.3, 1.2, 0.1, -0.8, -0.2, 0.9, 0.4, -1.1, 0.2, 1.0, -0.3, -0.9, 0.1, 1.1, 0.0,
        ],
    );
    let labels = [false, true, false, true, false, true, false, true];
    (x, [3, 3, 3, 3, 8, 8, 8, 8], labels)
}

#[test]
fn labels_classes_and_holes_are_named() {
    let (x, tasks, labels) = example();
    let both = |train: &Table, labels: &[bool]| {
        let mut all = single(train, labels, &x);
        all.extend(with_tasks(train, &tasks, labels, &x, &tasks));
        all
    };
    for (name, _, found) in both(&x, &labels[..7]) {
        let expected = BaselineError::LabelCount {
            labels: 7,
            n_rows: 8,
        };
        assert_eq!(found.unwrap_err(), expected, "{name}");
    }
    for (name, _, found) in both(&x, &[true; 8]) {
        let expected = BaselineError::OneClass {
            n_rows: 8,
            class: true,
        };
        assert_eq!(found.unwrap_err(), expected, "{name}");
    }
    let holed = table(2, &[&[NAN], &x.values()[1..]].concat());
    for (name, takes_holes, found) in both(&holed, &labels) {
        match takes_holes {
            true => assert!(found.unwrap().iter().all(|p| p.is_finite()), "{name}"),
            false => assert_eq!(
                found.unwrap_err(),
                BaselineError::Missing { row: 0, column: 0 },
                "{name}"
            ),
        }
    }
    let none = Table::complete(0, 2, vec![]).unwrap();
    for (name, _, found) in single(&none, &[], &x) {
        let expected = BaselineError::Empty {
            n_rows: 0,
            n_cols: 2,
        };
        assert_eq!(found.unwrap_err(), expected, "{name}");
    }
}

#[test]
fn columns_and_tasks_at_prediction_are_named() {
    let (x, tasks, labels) = example();
    let other = table(3, &[1.0, 2.0, 3.0]);
    let mut all = single(&x, &labels, &other);
    all.extend(with_tasks(&x, &tasks, &labels, &other, &[3]));
    for (name, _, found) in all {
        let expected = BaselineError::Data(DataError::ColumnCount {
            found: 3,
            expected: 2,
        });
        assert_eq!(found.unwrap_err(), expected, "{name}");
    }
    let row = table(2, &[1.0, 0.0]);
    for (name, _, found) in with_tasks(&x, &tasks, &labels, &row, &[3, 3]) {
        let expected = BaselineError::TaskCount {
            tasks: 2,
            n_rows: 1,
        };
        assert_eq!(found.unwrap_err(), expected, "{name}");
    }
    for (name, _, found) in with_tasks(&x, &tasks[1..], &labels, &x, &tasks) {
        let expected = BaselineError::TaskCount {
            tasks: 7,
            n_rows: 8,
        };
        assert_eq!(found.unwrap_err(), expected, "{name}");
    }
    let config = BoostedTreesConfig::default();
    let trees = BoostedTrees::fit(&x, Some(&tasks), &labels, &config).unwrap();
    let error = trees.probability(&x, None).unwrap_err();
    assert_eq!(error, BaselineError::TasksOfTraining { trained: true });
    let trees = BoostedTrees::fit(&x, None, &labels, &config).unwrap();
    let error = trees.probability(&x, Some(&tasks)).unwrap_err();
    assert!(
        error.to_string().contains("not given in training"),
        "{error}"
    );
}

#[test]
fn a_task_that_training_did_not_have() {
    let (x, tasks, labels) = example();
    let row = table(2, &[1.0, 0.0]);
    for (name, _, found) in with_tasks(&x, &tasks, &labels, &row, &[usize::MAX]) {
        match name {
            "apart" | "structure" => assert_eq!(
                found.unwrap_err(),
                BaselineError::UnknownTask {
                    row: 0,
                    task: usize::MAX
                },
                "{name}"
            ),
            _ => assert!(found.unwrap()[0].is_finite(), "{name}"),
        }
    }
}

/// In even tasks the upper half is positive, in odd ones all but the uppermost fifth: without tasks half of the cells cannot be told.
#[test]
fn boosted_trees_tell_tasks_apart() {
    let n = 240;
    let x = |i: usize| (i * 37 % 101) as f64 / 50.0 - 1.0;
    let table = Table::complete(n, 1, (0..n).map(x).collect()).unwrap();
    let tasks: Vec<usize> = (0..n).map(|i| i % 2).collect();
    let label = |i: usize| match i % 2 {
        0 => x(i) > 0.0,
        _ => x(i) < 0.6,
    };
    let labels: Vec<bool> = (0..n).map(label).collect();
    let right = |tasks: Option<&[usize]>| {
        let config = BoostedTreesConfig::default();
        let trees = BoostedTrees::fit(&table, tasks, &labels, &config).unwrap();
        let p = trees.probability(&table, tasks).unwrap();
        p.iter()
            .zip(&labels)
            .filter(|(p, l)| (**p > 0.5) == **l)
            .count()
    };
    let (without, with) = (right(None), right(Some(&tasks)));
    assert!(without < 180 && with > 220, "{without} {with}");
}

#[test]
fn a_task_with_one_class() {
    let (x, tasks, mut labels) = example();
    labels[4..].fill(true);
    for (name, _, found) in with_tasks(&x, &tasks, &labels, &x, &tasks) {
        match name {
            "apart" => assert_eq!(
                found.unwrap_err(),
                BaselineError::TaskClass {
                    task: 8,
                    n_rows: 4,
                    class: true
                }
            ),
            _ => assert!(found.unwrap().iter().all(|s| s.is_finite()), "{name}"),
        }
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let (x, tasks, labels) = example();
    let named = |found: Option<BaselineError>, expected: &str| match found {
        Some(BaselineError::Config { field, .. }) => assert_eq!(field, expected),
        other => panic!("{expected}: {other:?}"),
    };
    for bad in [0.0, -1.0, NAN] {
        let config = RvmConfig {
            tolerance: bad,
            ..Default::default()
        };
        named(Rvm::fit(&x, &labels, &config).err(), "tolerance");
        let config = BoostedTreesConfig {
            budget: bad as f32,
            ..Default::default()
        };
        named(
            BoostedTrees::fit(&x, None, &labels, &config).err(),
            "budget",
        );
        let config = MixtureConfig {
            ridge: bad,
            ..Default::default()
        };
        named(GaussianMixture::fit(&x, &config).err(), "ridge");
        let config = ClusteredConfig {
            mean_strength: bad,
            ..Default::default()
        };
        let found = ClusteredLogistic::fit(&x, &tasks, &labels, &config);
        named(found.err(), "mean_strength");
        let config = StructureConfig {
            c: bad,
            ..structure()
        };
        named(
            SharedStructure::fit(&x, &tasks, &labels, &config).err(),
            "c",
        );
        let config = TaskLogisticConfig {
            sharing: Sharing::SharedAndOwn { shared: bad },
            ..Default::default()
        };
        named(
            TaskLogistic::fit(&x, &tasks, &labels, &config).err(),
            "shared",
        );
        let mut config = IntegratedConfig::default();
        config.logistic.c = bad;
        named(IntegratedLogistic::fit(&x, &labels, &config).err(), "c");
    }
    let config = RandomForestConfig {
        trees: 0,
        ..Default::default()
    };
    named(RandomForest::fit(&x, &labels, &config).err(), "trees");
    let config = MixtureConfig {
        max_components: 0,
        ..Default::default()
    };
    named(GaussianMixture::fit(&x, &config).err(), "max_components");
}

/// Constant, empty, duplicate, huge and tiny columns, more columns than rows: a named error or finite scores.
#[test]
fn hard_shapes_give_errors_or_finite_scores() {
    let labels = [false, true, false, true];
    let cases = [
        table(1, &[1.0; 4]),
        table(2, &[1.0, NAN, 2.0, NAN, 3.0, NAN, 4.0, NAN]),
        table(2, &[1.0, 1.0, 2.0, 2.0, -1.0, -1.0, 3.0, 3.0]),
        table(1, &[1e300, -1e300, 1e300, 5.0]),
        table(1, &[1e-300, 2e-300, 3e-300, NAN]),
        table(1, &[NAN; 4]),
        table(6, &[0.1, 0.4, -0.3, 1.0, 2.0, NAN].repeat(4)),
    ];
    for case in &cases {
        let mut all = single(case, &labels, case);
        all.extend(with_tasks(
            case,
            &[0, 0, 1, 1],
            &labels,
            case,
            &[0, 0, 1, 1],
        ));
        for (name, _, found) in all {
            match found {
                Ok(scores) => assert!(scores.iter().all(|s| s.is_finite()), "{name} {case:?}"),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let (x, tasks, labels) = example();
    let run = || {
        let mut all = single(&x, &labels, &x);
        all.extend(with_tasks(&x, &tasks, &labels, &x, &tasks));
        let scores = all.into_iter().map(|(_, _, found)| found.unwrap());
        scores.collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
