//! Each answer of fits of classes and tasks and each of their settings, beside its value found in another way.

use std::ops::ControlFlow;

use npb_infer::watch::Progress;
use npb_infer::{Stop, VbLimits, VbReport, Watch};
use npb_regbayes::classes::{self, IlsvmVb, PreparedClasses};
use npb_regbayes::npb_data::{Labels, Mask, Table};
use npb_regbayes::npb_linalg::{Cholesky, dot, faer::Mat};
use npb_regbayes::npb_priors::GammaPrior;
use npb_regbayes::tasks::{self, MtIlsvmVb, PreparedTasks, Task, TaskData, TaskTargets};
use npb_regbayes::{
    ClassCosts, FeatureState, IbpGibbsConfig, IbpMove, IbpSampler, IlsvmConfig, IlsvmFit, InputMap,
    Inputs, LabelUpdate, LoadingCovariance, Machine, MachineLimits, MapConfig, MtIlsvmFit, Problem,
    Slack, Spread, Targets, Variance,
};

use crate::simulated::{self, class_config, task_config};

const WELL: MachineLimits = MachineLimits {
    tolerance: 1e-10,
    max_passes: 100_000,
};

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    within(found, expected, 1e-6, what);
}

#[track_caller]
fn within(found: f64, expected: f64, most: f64, what: &str) {
    let off = (found - expected).abs();
    assert!(
        off <= most * expected.abs().max(1.0),
        "{what}: {found} for {expected}"
    );
}

/// Cells in units of the mean and standard deviation of what some rows have observed; `None` where nothing is.
fn standard(table: &Table, rows: &[usize]) -> Vec<Vec<Option<f64>>> {
    let column = |j: usize| -> Vec<Option<f64>> {
        let known: Vec<f64> = rows.iter().filter_map(|&i| table.get(i, j)).collect();
        let (mean, sd) = moments(&known);
        let cell = |i: usize| table.get(i, j).map(|x| (x - mean) / sd);
        (0..table.n_rows()).map(cell).collect()
    };
    let columns: Vec<Vec<Option<f64>>> = (0..table.n_cols()).map(column).collect();
    (0..table.n_rows())
        .map(|i| columns.iter().map(|c| c[i]).collect())
        .collect()
}

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (square / n).sqrt())
}

/// What is appended to the features of complete rows in standard units: nothing, these rows by a factor, or what a map of the training rows makes of them.
fn appended(rows: &[Vec<f64>], training: &[usize], config: &IlsvmConfig) -> Vec<Vec<f64>> {
    let scaled = |row: &[f64], by: f64| row.iter().map(|x| x * by).collect();
    match config.map {
        _ if config.raw_inputs == 0.0 => vec![Vec::new(); rows.len()],
        None => rows.iter().map(|r| scaled(r, config.raw_inputs)).collect(),
        Some(map) => {
            let of: Vec<f64> = training.iter().flat_map(|&n| rows[n].clone()).collect();
            let map = InputMap::fit(&of, rows[0].len(), &map, config.seed).unwrap();
            let by = config.raw_inputs * (rows[0].len() as f64).sqrt();
            let row = |r: &Vec<f64>| scaled(&map.apply(r).unwrap(), by);
            rows.iter().map(row).collect()
        }
    }
}

/// Weights of a machine on some rows, one score after the other.
fn weights(
    rows: &[Vec<f64>],
    chosen: &[usize],
    problem: &Problem<'_>,
    config: &IlsvmConfig,
) -> Vec<Vec<f64>> {
    let width = rows[0].len();
    let own: Vec<f64> = chosen.iter().flat_map(|&n| rows[n].clone()).collect();
    let inputs = Inputs::dense(&own, width).unwrap();
    let machine = Machine::new(inputs.with_ones(config.ones).unwrap());
    let solution = machine.solve(problem, None, &WELL).unwrap();
    let length = width + usize::from(config.ones > 0.0);
    solution
        .weights
        .chunks(length)
        .map(<[f64]>::to_vec)
        .collect()
}

fn score(weights: &[f64], row: &[f64], ones: f64) -> f64 {
    let bias = weights.get(row.len()).map_or(0.0, |b| b * ones);
    dot(&weights[..row.len()], row) + bias
}

/// Settings other than the defaults, with a machine that is solved well.
fn settings(number: usize, base: IlsvmConfig) -> IlsvmConfig {
    let mut config = IlsvmConfig {
        cost: 0.7,
        ones: 0.6,
        machine: WELL,
        limits: VbLimits {
            max_iterations: 4,
            tolerance: 0.0,
        },
        epsilon: 0.25,
        class_costs: ClassCosts::Balanced,
        ..base
    };
    match number {
        0 => config.raw_inputs = 0.4,
        1 => {
            config.slack = Slack::Squared;
            config.ones = 0.0;
        }
        2 => {
            config.class_costs = ClassCosts::Equal;
            config.raw_inputs = 0.5;
            config.map = Some(MapConfig {
                features: 9,
                gamma: 0.04,
            });
        }
        _ => config.label_update = LabelUpdate::TwoStage,
    }
    config
}

/// Rows and their classes, the first 28 labelled but for every fifth; nobody is of class d.
fn class_data(missing: f64) -> (Table, Labels, Vec<usize>) {
    let (table, truth) = simulated::classes(31, 40, missing);
    let code = |n: usize| (n < 28 && n % 5 != 2).then_some(truth[n]);
    let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let codes: Vec<Option<usize>> = (0..40).map(code).collect();
    let labels = Labels::from_codes(names, codes).unwrap();
    let known = (0..40).filter(|&n| code(n).is_some()).collect();
    (table, labels, known)
}

fn indicators(state: &FeatureState, n: usize) -> Vec<f64> {
    state.indicators.col_as_slice(n).to_vec()
}

fn complete(rows: &[Vec<Option<f64>>]) -> Vec<Vec<f64>> {
    rows.iter()
        .map(|row| row.iter().map(|x| x.unwrap()).collect())
        .collect()
}

/// Scores of classes are those of the machine on the features that were found: by costs, slack, the column of ones, appended and mapped inputs; of rows of the
/// fit and of new ones, whose holes are filled with what their features expect. What features are, and what they drive.
#[test]
fn scores_of_classes_are_those_of_a_machine_on_the_features() {
    for number in 0..4 {
        let (table, labels, known) = class_data(0.0);
        let config = settings(number, class_config(4));
        let fit = classes::fit(&table, &labels, &config).unwrap();
        let state = fit.state();
        let rows = complete(&standard(&table, &known));
        let more = appended(&rows, &known, &config);
        let all: Vec<Vec<f64>> = (0..40)
            .map(|n| [indicators(state, n), more[n].clone()].concat())
            .collect();
        let classes: Vec<u32> = known
            .iter()
            .map(|&n| labels.codes()[n].unwrap() as u32)
            .collect();
        let count = |y: u32| classes.iter().filter(|&&c| c == y).count() as f64;
        let costs: Vec<f64> = classes
            .iter()
            .map(|&y| match config.class_costs {
                ClassCosts::Equal => 0.7,
                // Three classes have rows.
                ClassCosts::Balanced => 0.7 * known.len() as f64 / (3.0 * count(y)),
            })
            .collect();
        if config.class_costs == ClassCosts::Balanced {
            within(costs.iter().sum(), 0.7 * known.len() as f64, 1e-9, "costs");
        }
        let targets = Targets::Classes {
            classes: &classes,
            n_classes: 4,
            margin: 1.0,
            slack: config.slack,
        };
        let problem = Problem {
            targets,
            costs: &costs,
        };
        let found = weights(&all, &known, &problem, &config);
        let scores = fit.scores();
        assert_eq!((scores.n_rows(), scores.classes()), (40, labels.classes()));
        for (n, row) in all.iter().enumerate() {
            let expected: Vec<f64> = found.iter().map(|w| score(w, row, config.ones)).collect();
            for (found, expected) in scores.row(n).iter().zip(&expected) {
                within(*found, *expected, 1e-4, &format!("{number}, row {n}"));
            }
            let mut order: Vec<usize> = (0..4).collect();
            order.sort_by(|&a, &b| scores.row(n)[b].total_cmp(&scores.row(n)[a]));
            assert_eq!(scores.class(n), order[0]);
            let margin = scores.row(n)[order[0]] - scores.row(n)[order[1]];
            assert_eq!(scores.margin(n), margin);
        }
        // New rows, some with holes.
        let mask = Mask::from_fn(40, 12, |n, d| n % 3 > 0 && (n + d).is_multiple_of(4)).unwrap();
        let seen = Mask::from_fn(40, 12, |n, d| !mask.get(n, d)).unwrap();
        let new = Table::from_parts(table.values().to_vec(), seen).unwrap();
        let features = fit.features(&new).unwrap();
        let predicted = fit.predict(&new).unwrap();
        let filled: Vec<Vec<f64>> = (0..40)
            .map(|n| {
                let expected = |d| dot(features.col_as_slice(n), state.loadings.col_as_slice(d));
                let cell = |d| {
                    if mask.get(n, d) {
                        expected(d)
                    } else {
                        rows[n][d]
                    }
                };
                (0..12).map(cell).collect()
            })
            .collect();
        let mut with_training = filled.clone();
        with_training.extend(rows.clone());
        let training: Vec<usize> = known.iter().map(|n| n + 40).collect();
        let more = appended(&with_training, &training, &config);
        for n in 0..40 {
            let row = [features.col_as_slice(n).to_vec(), more[n].clone()].concat();
            for (y, w) in found.iter().enumerate() {
                let expected = score(w, &row, config.ones);
                within(predicted.row(n)[y], expected, 1e-4, &format!("new row {n}"));
            }
        }
        reports_are_of(&fit, &found);
    }
}

/// What is said of features: how many have them, what they add to columns, which classes they drive.
fn reports_are_of(fit: &IlsvmFit, weights: &[Vec<f64>]) {
    let state = fit.state();
    let reports = fit.feature_reports();
    assert_eq!(reports.len(), state.n_features());
    for (k, report) in reports.iter().enumerate() {
        assert_eq!(report.feature, k);
        let used: f64 = (0..40).map(|n| state.indicators[(k, n)]).sum();
        near(report.expected_use, used, "use");
        assert_eq!((report.columns.len(), report.drives.len()), (12, 4));
        let falling = |list: &[(String, f64)]| list.is_sorted_by(|a, b| a.1.abs() >= b.1.abs());
        assert!(falling(&report.columns) && falling(&report.drives));
        for (name, loading) in &report.columns {
            let names = fit.columns().names();
            let d = names.iter().position(|other| other == name).unwrap();
            assert_eq!(*loading, state.loadings[(k, d)]);
        }
        for (name, weight) in &report.drives {
            let y = fit.classes().iter().position(|c| c == name).unwrap();
            within(*weight, weights[y][k], 1e-4, "drives");
        }
    }
}

#[test]
fn means_of_features_are_over_the_rows_of_a_class() {
    let (table, labels, known) = class_data(0.15);
    let fit = classes::fit(&table, &labels, &settings(3, class_config(3))).unwrap();
    let means = fit.class_means(&labels).unwrap();
    for (y, mean) in means.iter().enumerate() {
        let own: Vec<usize> = known
            .iter()
            .copied()
            .filter(|&n| labels.codes()[n] == Some(y))
            .collect();
        assert_eq!(mean.is_none(), own.is_empty());
        assert_eq!(mean.is_none(), y == 3);
        for (k, found) in mean.iter().flatten().enumerate() {
            let sum: f64 = own.iter().map(|&n| fit.state().indicators[(k, n)]).sum();
            near(*found, sum / own.len() as f64, "mean");
        }
    }
    assert!(fit.class_means(&labels.select_rows(&[0])).is_err());
    // Nothing costs anything: all scores are 0, the first of equals is the answer.
    let nothing = IlsvmConfig {
        cost: 0.0,
        ..class_config(2)
    };
    let scores = classes::fit(&table, &labels, &nothing).unwrap().scores();
    assert!((0..40).all(|n| scores.row(n) == [0.0; 4] && scores.class(n) == 0));
    assert_eq!(scores.margin(7), 0.0);
}

/// Indicators of new rows rest where each has its log-odds: prior odds, and what the row says by loadings and what is not known of these, at the weight of the
/// inputs; for covariances of two forms, with holes.
#[test]
fn features_of_new_rows_rest_at_their_log_odds() {
    let mut open = 0;
    // Rows leave something open where there is much noise.
    for (covariance, missing, noise) in [
        (LoadingCovariance::Full, 0.0, 0.2),
        (LoadingCovariance::Full, 0.0, 0.4),
        (LoadingCovariance::Full, 0.0, 0.8),
        (LoadingCovariance::Diagonal, 0.2, 0.2),
        (LoadingCovariance::Diagonal, 0.2, 0.4),
    ] {
        let (table, labels, known) = class_data(missing);
        let mut config = settings(3, class_config(4));
        config.factors.covariance = covariance;
        config.factors.input_weight = 0.3;
        config.factors.noise_variance = Variance::Fixed(noise);
        let fit = classes::fit(&table, &labels, &config).unwrap();
        let state = fit.state();
        let k = state.n_features();
        let rows = standard(&table, &known);
        let features = fit.features(&table).unwrap();
        let precision = 0.3 / state.noise_variance;
        let mut odds = vec![0.0; k];
        state.sticks.prior_ln_odds(&mut odds);
        for (n, row) in rows.iter().enumerate() {
            let psi = features.col_as_slice(n);
            for a in 0..k {
                let mut ln_odds = odds[a];
                for (d, x) in row.iter().enumerate() {
                    let Some(x) = x else { continue };
                    let m = state.loadings.col_as_slice(d);
                    let others: f64 = (0..k).filter(|&b| b != a).map(|b| psi[b] * m[b]).sum();
                    let (own, cross) = match &state.spread {
                        Spread::Shared(s) => {
                            let cross = (0..k).filter(|&b| b != a).map(|b| psi[b] * s[(a, b)]);
                            (s[(a, a)], cross.sum())
                        }
                        Spread::Own(v) => (v[(a, d)], 0.0),
                    };
                    let square = m[a] * m[a] + own;
                    ln_odds += precision * (m[a] * (x - others) - 0.5 * square - cross);
                }
                let p = 1.0 / (1.0 + (-ln_odds).exp());
                open += usize::from(p > 0.02 && p < 0.98);
                within(psi[a], p, 1e-5, &format!("{covariance:?}, row {n}, {a}"));
            }
        }
    }
    assert!(open > 10, "{open}");
}

/// Two labels and two numbers, each known in rows of its own.
fn task_data(missing: f64) -> (Table, TaskData, Vec<usize>) {
    let simulated = simulated::tasks(32, 40, missing);
    let known = |m: usize, n: usize| n < 30 && (n + m) % 4 != 1 && n % 7 != 3;
    let label = |m: usize| {
        let one = |n: usize| known(m, n).then(|| simulated.truth[m][n]);
        Task::label(format!("label {m}"), &(0..40).map(one).collect::<Vec<_>>())
    };
    let real = |m: usize, centre: f64, scale: f64| {
        let one = |n: usize| known(m, n).then(|| centre + scale * simulated.real[n]);
        let values: Vec<Option<f64>> = (0..40).map(one).collect();
        Task::real(format!("real {m}"), &values).unwrap()
    };
    let tasks = vec![label(0), real(1, 10.0, 5.0), label(2), real(3, -4.0, 2.0)];
    let data = TaskData::new(simulated.inputs.clone(), tasks).unwrap();
    let training = (0..40).filter(|&n| (0..4).any(|m| known(m, n))).collect();
    (simulated.inputs, data, training)
}

/// Features of complete rows: `psi' x`.
fn summed(state: &FeatureState, row: &[f64]) -> Vec<f64> {
    let of = |k: usize| {
        (0..row.len())
            .map(|d| state.indicators[(k, d)] * row[d])
            .sum()
    };
    (0..state.n_features()).map(of).collect()
}

/// Centre and scale of all numbers together.
fn units_of(tasks: &[Task]) -> (f64, f64) {
    let real = tasks.iter().filter_map(|task| match task.targets() {
        TaskTargets::Real(values) => Some(values.clone()),
        TaskTargets::Binary(_) => None,
    });
    moments(&real.flatten().collect::<Vec<f64>>())
}

/// Weights of a task's machine on rows with features, in the units of the machine.
fn task_weights(
    task: &Task,
    rows: &[Vec<f64>],
    (centre, scale): (f64, f64),
    config: &IlsvmConfig,
) -> Vec<f64> {
    let values: Vec<f64>;
    let (targets, costs) = match task.targets() {
        TaskTargets::Binary(positive) => {
            let n = positive.len() as f64;
            let yes = positive.iter().filter(|y| **y).count() as f64;
            let cost = |y: &bool| match config.class_costs {
                ClassCosts::Equal => config.cost,
                ClassCosts::Balanced => 0.5 * config.cost * n / if *y { yes } else { n - yes },
            };
            let targets = Targets::Binary {
                positive,
                slack: config.slack,
            };
            (targets, positive.iter().map(cost).collect::<Vec<f64>>())
        }
        TaskTargets::Real(own) => {
            values = own.iter().map(|y| (y - centre) / scale).collect();
            let targets = Targets::Real {
                values: &values,
                epsilon: config.epsilon,
                slack: config.slack,
            };
            (targets, vec![config.cost; own.len()])
        }
    };
    let problem = Problem {
        targets,
        costs: &costs,
    };
    weights(rows, task.rows(), &problem, config).remove(0)
}

/// The twin of classes: scores of tasks are those of their machines on sums of the inputs, numbers in the units of all numbers; a task that comes later has a
/// machine on the same sums.
#[test]
fn scores_of_tasks_are_those_of_machines_on_the_features() {
    for number in 0..4 {
        let (inputs, data, training) = task_data(0.0);
        let config = settings(number, task_config(3));
        let fit = tasks::fit(&data, &config).unwrap();
        let state = fit.state();
        let rows = complete(&standard(&inputs, &training));
        let more = appended(&rows, &training, &config);
        let all: Vec<Vec<f64>> = (0..40)
            .map(|n| [summed(state, &rows[n]), more[n].clone()].concat())
            .collect();
        let units = units_of(data.tasks());
        let scores = fit.predict(&inputs).unwrap();
        assert_eq!(scores.n_rows(), 40);
        assert_eq!(scores.names(), fit.task_names());
        assert_eq!(fit.task_names(), ["label 0", "real 1", "label 2", "real 3"]);
        let mut own = Vec::new();
        for (m, task) in data.tasks().iter().enumerate() {
            let (centre, scale) = if m.is_multiple_of(2) {
                (0.0, 1.0)
            } else {
                units
            };
            let w = task_weights(task, &all, units, &config);
            for (n, row) in all.iter().enumerate() {
                let expected = centre + scale * score(&w, row, config.ones);
                let what = format!("{number}, task {m}, row {n}");
                within(scores.score(n, m), expected, 2e-4, &what);
                assert_eq!(scores.of_task(m)[n], scores.score(n, m));
            }
            assert_eq!(scores.labels(m).is_none(), m % 2 == 1);
            assert!(scores.probabilities(m).is_none());
            own.push(w);
        }
        features_are_of(&fit, &own);
        // Labels are yes above their threshold, not at it.
        let at = scores.score(5, 0);
        let moved = fit.clone().with_thresholds(&[at, 0.0, -0.4, 0.0]).unwrap();
        assert_eq!(moved.thresholds(), [at, 0.0, -0.4, 0.0]);
        assert_eq!(fit.thresholds(), [0.0; 4]);
        let labels = moved.predict(&inputs).unwrap();
        let above =
            |m: usize, t: f64| -> Vec<bool> { scores.of_task(m).iter().map(|s| *s > t).collect() };
        assert_eq!(labels.labels(0).unwrap(), above(0, at));
        assert!(!labels.labels(0).unwrap()[5]);
        assert_eq!(labels.labels(2).unwrap(), above(2, -0.4));
        assert!(fit.clone().with_thresholds(&[0.0; 3]).is_err());
        // One more of each kind, known in other rows.
        let later = |n: usize| {
            n.is_multiple_of(3)
                .then(|| 7.0 + 3.0 * rows[n][0] - rows[n][4])
        };
        let number_of: Vec<Option<f64>> = (0..40).map(later).collect();
        let label: Vec<Option<bool>> = number_of.iter().map(|y| y.map(|y| y > 8.0)).collect();
        let more = [
            Task::label("later", &label),
            Task::real("later number", &number_of).unwrap(),
        ];
        for task in more {
            let (centre, scale) = match task.targets() {
                TaskTargets::Binary(_) => (0.0, 1.0),
                TaskTargets::Real(_) => units,
            };
            let w = task_weights(&task, &all, units, &config);
            let more = fit.clone().with_task(&inputs, &task).unwrap();
            let found = more.predict(&inputs).unwrap();
            for (n, row) in all.iter().enumerate() {
                let expected = centre + scale * score(&w, row, config.ones);
                within(
                    found.score(n, 4),
                    expected,
                    2e-4,
                    &format!("later, row {n}"),
                );
                assert_eq!(found.score(n, 1), scores.score(n, 1));
            }
        }
    }
    // A fit of labels alone has no units for numbers: those of the new task are its own.
    let (inputs, data, _) = task_data(0.0);
    let labels = TaskData::new(inputs.clone(), vec![data.tasks()[0].clone()]).unwrap();
    let config = settings(3, task_config(3));
    let fit = tasks::fit(&labels, &config).unwrap();
    let number = &data.tasks()[1];
    let rows = complete(&standard(&inputs, data.tasks()[0].rows()));
    let all: Vec<Vec<f64>> = rows.iter().map(|row| summed(fit.state(), row)).collect();
    let units = units_of(std::slice::from_ref(number));
    let w = task_weights(number, &all, units, &config);
    let found = fit.with_task(&inputs, number).unwrap();
    let found = found.predict(&inputs).unwrap();
    for (n, row) in all.iter().enumerate() {
        let expected = units.0 + units.1 * score(&w, row, config.ones);
        within(found.score(n, 1), expected, 2e-4, "own units");
    }
}

fn features_are_of(fit: &MtIlsvmFit, weights: &[Vec<f64>]) {
    let state = fit.state();
    for (k, report) in fit.features().iter().enumerate() {
        assert_eq!(report.feature, k);
        let used: f64 = (0..15).map(|d| state.indicators[(k, d)]).sum();
        near(report.expected_use, used, "use");
        for (name, p) in &report.columns {
            let names = fit.columns().names();
            let d = names.iter().position(|other| other == name).unwrap();
            assert_eq!(*p, state.indicators[(k, d)]);
        }
        for (name, weight) in &report.drives {
            let m = fit.task_names().iter().position(|t| t == name).unwrap();
            within(*weight, weights[m][k], 2e-4, "drives");
        }
    }
}

/// Holes of rows are filled with what the projection expects of what is there, exactly: a row that has these numbers gets the same scores; one without anything gets
/// the bias.
#[test]
fn holes_of_tasks_are_filled_with_their_expectation() {
    let (inputs, data, training) = task_data(0.2);
    let mut config = settings(0, task_config(3));
    config.factors.input_weight = 0.5;
    let fit = tasks::fit(&data, &config).unwrap();
    let state = fit.state();
    let k = state.n_features();
    let rows = standard(&inputs, &training);
    let known = |j: usize| -> Vec<f64> {
        let own = training.iter().filter_map(|&i| inputs.get(i, j));
        own.collect()
    };
    let units: Vec<(f64, f64)> = (0..15).map(|j| moments(&known(j))).collect();
    let precision = 0.5 / state.noise_variance;
    let mut cells = inputs.values().to_vec();
    let mut filled = 0;
    for (n, row) in rows.iter().enumerate() {
        let mut system = Mat::<f64>::zeros(k, k);
        let mut mean = vec![0.0; k];
        for (d, x) in row.iter().enumerate() {
            let Some(x) = x else { continue };
            for a in 0..k {
                let p = state.indicators[(a, d)];
                mean[a] += precision * p * x;
                for b in 0..k {
                    let both = if a == b {
                        p
                    } else {
                        p * state.indicators[(b, d)]
                    };
                    system[(a, b)] += precision * both;
                }
            }
        }
        (0..k).for_each(|a| system[(a, a)] += 1.0 / state.loading_variance);
        Cholesky::new(system.as_ref()).unwrap().solve(&mut mean);
        for d in (0..15).filter(|&d| row[d].is_none()) {
            let x = dot(state.indicators.col_as_slice(d), &mean);
            cells[n * 15 + d] = units[d].0 + units[d].1 * x;
            filled += 1;
        }
    }
    assert!(filled > 60);
    let whole = Table::complete(40, 15, cells).unwrap();
    let (a, b) = (fit.predict(&inputs).unwrap(), fit.predict(&whole).unwrap());
    for n in 0..40 {
        (0..4).for_each(|m| near(a.score(n, m), b.score(n, m), "filled"));
    }
    let nothing = Table::from_nan_coded(1, 15, &[f64::NAN; 15]).unwrap();
    let means: Vec<f64> = units.iter().map(|u| u.0).collect();
    let average = Table::complete(1, 15, means).unwrap();
    let (a, b) = (
        fit.predict(&nothing).unwrap(),
        fit.predict(&average).unwrap(),
    );
    (0..4).for_each(|m| near(a.score(0, m), b.score(0, m), "nothing"));
}

/// A run ends when the objective has changed by less than the tolerance twice in a row, for the first time.
#[track_caller]
fn ends_at(trace: &[VbReport], tolerance: f64) {
    let change = |w: &[VbReport]| (w[1].elbo - w[0].elbo).abs() / w[1].elbo.abs().max(1.0);
    let small: Vec<bool> = trace.windows(2).map(|w| change(w) < tolerance).collect();
    let last = small.len() - 1;
    let twice = |at: usize| small[at] && small[at - 1];
    assert!(twice(last) && !(1..last).any(twice), "{trace:?}");
}

/// Runs that are driven by hand are the fits, step by step and to the end, which is at the limits.
#[test]
fn runs_by_hand_are_fits_and_end_at_their_limits() {
    let limits = |max_iterations: u64, tolerance: f64| VbLimits {
        max_iterations,
        tolerance,
    };
    let (table, labels, _) = class_data(0.1);
    let config = IlsvmConfig {
        limits: limits(5, 0.0),
        ..class_config(3)
    };
    let fit = classes::fit(&table, &labels, &config).unwrap();
    assert_eq!((fit.stop, fit.trace.len()), (Stop::MaxIterations, 5));
    let prepared = PreparedClasses::new(&table, &labels, &config).unwrap();
    let mut run = IlsvmVb::new(&prepared, &labels, &config).unwrap();
    for at in 0..3 {
        let objective = run.step().unwrap();
        assert_eq!(run.trace().len(), at + 1);
        near(objective, fit.trace[at].elbo, "step");
        near(run.trace()[at].elbo, fit.trace[at].elbo, "trace");
    }
    assert_eq!(run.state().n_items(), 40);
    let mut seen = Vec::new();
    let watch = Watch::new(|progress: &Progress<'_>| {
        seen.push(progress.step);
        ControlFlow::Continue(())
    });
    assert_eq!(run.run(&watch).unwrap(), fit);
    drop(watch);
    // Where it was left, and what it made.
    assert_eq!(seen, [3, 4, 5]);
    let tolerant = IlsvmConfig {
        limits: limits(500, 1e-4),
        ..config.clone()
    };
    let ends = classes::fit(&table, &labels, &tolerant).unwrap();
    assert!(matches!(ends.stop, Stop::Converged { .. }));
    ends_at(&ends.trace, 1e-4);
    // Not the same start.
    let other = IlsvmConfig { seed: 4, ..config };
    assert_ne!(
        classes::fit(&table, &labels, &other).unwrap().state(),
        fit.state()
    );

    let (_, data, _) = task_data(0.1);
    let config = IlsvmConfig {
        limits: limits(5, 0.0),
        ..task_config(3)
    };
    let fit = tasks::fit(&data, &config).unwrap();
    assert_eq!((fit.stop, fit.trace.len()), (Stop::MaxIterations, 5));
    let prepared = PreparedTasks::new(&data, &config).unwrap();
    let mut run = MtIlsvmVb::new(&prepared, &data, &config).unwrap();
    for at in 0..3 {
        near(run.step().unwrap(), fit.trace[at].elbo, "step of tasks");
        near(run.trace()[at].elbo, fit.trace[at].elbo, "trace of tasks");
    }
    assert_eq!(run.state().n_observations(), 40);
    assert_eq!(run.run(&Watch::none()).unwrap(), fit);
    let tolerant = IlsvmConfig {
        limits: limits(500, 1e-4),
        ..config.clone()
    };
    ends_at(&tasks::fit(&data, &tolerant).unwrap().trace, 1e-4);
    let other = IlsvmConfig { seed: 4, ..config };
    assert_ne!(tasks::fit(&data, &other).unwrap().state(), fit.state());
}

/// In two stages labels have no say in the features; else they do. Which columns a fit uses, and their names.
#[test]
fn labels_move_features_only_when_they_are_asked() {
    let (table, labels, known) = class_data(0.1);
    let mut codes = labels.codes().to_vec();
    for pair in known.chunks_exact(2) {
        codes.swap(pair[0], pair[1]);
    }
    let other = Labels::from_codes(labels.classes().to_vec(), codes).unwrap();
    let (_, data, _) = task_data(0.1);
    let turned = |task: &Task| match task.targets() {
        TaskTargets::Binary(values) => {
            let mut all = vec![None; 40];
            task.rows()
                .iter()
                .zip(values)
                .for_each(|(&n, &y)| all[n] = Some(!y));
            all[task.rows()[0]] = Some(values[0]);
            Task::label(task.name(), &all)
        }
        TaskTargets::Real(_) => task.clone(),
    };
    let tasks_turned: Vec<Task> = data.tasks().iter().map(turned).collect();
    let turned = TaskData::new(data.inputs().clone(), tasks_turned).unwrap();
    for label_update in [LabelUpdate::TwoStage, LabelUpdate::Profiled] {
        let config = IlsvmConfig {
            label_update,
            label_weight: 1.0,
            ..class_config(3)
        };
        let of = |labels: &Labels| classes::fit(&table, labels, &config).unwrap();
        let same = of(&labels).state() == of(&other).state();
        assert_eq!(same, label_update == LabelUpdate::TwoStage);
        let config = IlsvmConfig {
            label_update,
            label_weight: 1.0,
            ..task_config(3)
        };
        let of = |data: &TaskData| tasks::fit(data, &config).unwrap();
        let same = of(&data).state() == of(&turned).state();
        assert_eq!(same, label_update == LabelUpdate::TwoStage);
    }
    // A constant column and one without values among the rows with a label.
    let cell = |n: usize, d: usize| match d {
        12 => 3.0,
        13 if known.contains(&n) => f64::NAN,
        13 => 1.0,
        _ => table.get(n, d).unwrap_or(f64::NAN),
    };
    let cells: Vec<f64> = (0..40 * 14).map(|at| cell(at / 14, at % 14)).collect();
    let names: Vec<String> = (0..14).map(|d| format!("c{d}")).collect();
    let wide = Table::from_nan_coded(40, 14, &cells).unwrap();
    let wide = wide.with_column_names(names.clone()).unwrap();
    let two_stage = settings(3, class_config(3));
    let fit = classes::fit(&wide, &labels, &two_stage).unwrap();
    assert_eq!(fit.columns().names(), names);
    assert_eq!(fit.columns().kept(), (0..12).collect::<Vec<usize>>());
    assert_eq!(
        (fit.columns().constant(), fit.columns().empty()),
        (&[12][..], &[13][..])
    );
    assert_eq!(fit.classes(), labels.classes());
    let plain = classes::fit(&table, &labels, &two_stage).unwrap();
    assert_eq!(fit.state(), plain.state());
    let of_labels: Vec<Option<bool>> = (0..40)
        .map(|n| known.contains(&n).then_some(n.is_multiple_of(2)))
        .collect();
    let data = TaskData::new(wide, vec![Task::label("y", &of_labels)]).unwrap();
    let fit = tasks::fit(&data, &settings(3, task_config(3))).unwrap();
    assert_eq!(
        (fit.columns().kept().len(), fit.columns().constant()),
        (12, &[12][..])
    );
}

/// The seed of a map chooses its landmarks: other ones, the kernel between them exact each time.
#[test]
fn maps_choose_landmarks_by_their_seed() {
    let values: Vec<f64> = (0..120).map(|k| ((k * k) as f64 * 0.37).sin()).collect();
    let map = |seed: u64| {
        let config = MapConfig {
            features: 8,
            gamma: 0.9,
        };
        let map = InputMap::fit(&values, 3, &config, seed).unwrap();
        let mapped = map.apply(&values).unwrap();
        // Landmarks have length one.
        let row = |n: usize| &mapped[n * 8..(n + 1) * 8];
        let chosen: Vec<usize> = (0..40)
            .filter(|&n| (dot(row(n), row(n)) - 1.0).abs() < 1e-6)
            .collect();
        for (&i, &j) in chosen.iter().zip(chosen.iter().rev()) {
            let square: f64 = (0..3)
                .map(|d| (values[3 * i + d] - values[3 * j + d]).powi(2))
                .sum();
            near(dot(row(i), row(j)), (-0.9 * square).exp(), "kernel");
        }
        chosen
    };
    assert_eq!((map(1).len(), map(1)), (8, map(1)));
    assert_ne!(map(1), map(2));
}

/// Settings of the sampler: number of sticks, the law of its start, moves that change what they are of, streams by seed and chain.
#[test]
fn the_sampler_has_its_priors_and_its_schedule() {
    let (table, _) = simulated::classes(33, 12, 0.2);
    let prior = |shape: f64, rate: f64| GammaPrior { shape, rate };
    let config = |moves: Vec<IbpMove>, seed: u64, chain: u64| IbpGibbsConfig {
        truncation: 4,
        noise: prior(6.0, 2.0),
        loading: prior(5.0, 10.0),
        concentration: prior(8.0, 4.0),
        moves,
        seed,
        chain,
    };
    let all = || IbpGibbsConfig::default().moves;
    let (mut sums, draws) = ([0.0; 5], 3000);
    for seed in 0..draws {
        let sampler = IbpSampler::new(&table, &config(all(), seed, 0)).unwrap();
        let draw = sampler.draw();
        assert_eq!((draw.ln_weights.len(), draw.indicators.nrows()), (4, 4));
        let square: f64 = (0..12)
            .map(|j| dot(draw.loadings.col_as_slice(j), draw.loadings.col_as_slice(j)))
            .sum();
        let on: f64 = (0..12).map(|i| draw.indicators[(0, i)]).sum();
        let found = [
            draw.noise_precision,
            draw.loading_precision,
            draw.concentration,
            square * draw.loading_precision / 48.0,
            on / 12.0 - draw.ln_weights[0].exp(),
        ];
        sums.iter_mut()
            .zip(found)
            .for_each(|(sum, x)| *sum += x / draws as f64);
    }
    // Standard errors: root of shape over rate, over the root of 3000; 2/48 for the squares; .15 / sqrt(3000) or less for the share.
    for (found, (expected, error)) in sums.into_iter().zip([
        (3.0, 0.0224),
        (0.5, 0.0041),
        (2.0, 0.0129),
        (1.0, 0.0038),
        (0.0, 0.0027),
    ]) {
        assert!((found - expected).abs() < 4.0 * error, "{sums:?}");
    }
    let after = |config: &IbpGibbsConfig| {
        let mut sampler = IbpSampler::new(&table, config).unwrap();
        let before = sampler.draw().clone();
        sampler.sweep().unwrap();
        (before, sampler.draw().clone())
    };
    for (at, step) in all().into_iter().enumerate() {
        let (a, b) = after(&config(vec![step], 1, 0));
        let changed = [
            a.indicators != b.indicators,
            a.loadings != b.loadings,
            a.ln_weights != b.ln_weights,
            a.noise_precision != b.noise_precision,
            a.loading_precision != b.loading_precision,
            a.concentration != b.concentration,
        ];
        let expected: Vec<bool> = (0..6).map(|other| other == at).collect();
        assert_eq!(changed.to_vec(), expected, "{step:?}");
    }
    let of = |seed, chain| after(&config(all(), seed, chain)).1;
    assert_eq!(of(1, 0), of(1, 0));
    assert_ne!(of(1, 0), of(2, 0));
    assert_ne!(of(1, 0), of(1, 1));
}
