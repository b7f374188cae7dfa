//! What a fit of several tasks says of features: missing cells and densities by a task's own weights, in the user's units.

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_iqgme::{
    Component, Gaussians, Init, MissingCell, MultiTaskFit, Saved, Task, TaskInit, TasksConfig,
    fit_tasks,
};
use npb_priors::special::ln_gamma;
use rand::RngExt;
use rand_distr::StandardNormal;

use super::data::{Tasks, config};

/// Rows of a task of one of two kinds, in three features of different units: the second rises with the first in kind 0 and falls in kind 1; all means and
/// variances are the same in both. A third of the cells is hidden: the holes, the truth.
fn slopes(seed: u64, kind: usize, n: usize) -> (Table, Table) {
    let mut rng = stream(seed, [0, kind as u64, 11, 0]);
    let (mut values, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let [x, a, b]: [f64; 3] = [0; 3].map(|_| rng.sample(StandardNormal));
        let slope = if kind == 0 { 2.0 } else { -2.0 };
        values.extend([x, 50.0 + 100.0 * (slope * x + a), 1e-3 * (2.0 * x + b)]);
        seen.extend([0; 3].map(|_| rng.random::<f64>() > 1.0 / 3.0));
    }
    (
        Table::new(n, 3, values.clone(), &seen).unwrap(),
        Table::complete(n, 3, values).unwrap(),
    )
}

/// Four tasks of both kinds in turn, without labels.
fn unlabelled() -> Tasks {
    let task = |j: usize| {
        let (holes, _) = slopes(j as u64, j % 2, 200);
        (holes, Labels::from_strings(&[None::<&str>; 200]))
    };
    Tasks::new((0..4).map(task).collect())
}

fn fitted(tasks: &Tasks) -> MultiTaskFit {
    let config = TasksConfig {
        starts: vec![TaskInit::Separate(1), TaskInit::Pooled(Init::KMeans(2))],
        ..config(31)
    };
    fit_tasks(&tasks.borrowed(), &config).unwrap()
}

/// Mean squares over the hidden cells of new rows of a kind, in standard deviations of their columns: of the errors of imputations by the weights of a task, of
/// deviations from the means of the columns, and of the errors in the standard deviations that the fit says.
fn mean_squares(model: &MultiTaskFit, task: &str, kind: usize) -> [f64; 3] {
    let (holes, truth) = slopes(900, kind, 6000);
    let imputed = model.impute(task, &holes).unwrap();
    let columns = truth.column_stats();
    let (mut sums, mut n) = ([0.0; 3], 0.0);
    for row in 0..6000 {
        for (j, column) in columns.iter().enumerate() {
            let (x, mean) = (
                truth.get(row, j).unwrap(),
                imputed.completed.get(row, j).unwrap(),
            );
            let sd = imputed.sd.get(row, j).unwrap();
            if holes.is_observed(row, j) {
                assert_eq!((mean, sd), (x, 0.0));
                continue;
            }
            let errors = [
                (x - mean) / column.sd,
                (x - column.mean) / column.sd,
                (x - mean) / sd,
            ];
            sums.iter_mut()
                .zip(errors)
                .for_each(|(sum, e)| *sum += e * e);
            n += 1.0;
        }
    }
    sums.map(|sum| sum / n)
}

#[test]
fn hidden_cells_are_found_by_the_weights_of_the_task() {
    let tasks = unlabelled();
    let model = fitted(&tasks);
    for kind in [0, 1] {
        let [own, by_mean, z] = mean_squares(&model, tasks.name(kind), kind);
        let [other, _, _] = mean_squares(&model, tasks.name(1 - kind), kind);
        // Given one other cell a fifth to a third of the variance is left, given two less; a row without any (one hole in nine is of such) has it all.
        assert!(own < 0.4 * by_mean, "{own} {by_mean}");
        assert!(own < 0.5 * other, "{own} {other}");
        // About 6000 squares have a standard error of 0.025, and a variance that 400 rows with a third missing tell one of 0.08. Deviations that are a tenth too
        // large or too small, or of other rows' units, are outside.
        assert!((z - 1.0).abs() < 0.15, "{z}");
    }
}

/// Logarithm of the Student-t by which one feature of a new row is distributed under a component.
fn ln_student(component: &Component, j: usize, x: f64) -> f64 {
    let (dof, scale) = student(component);
    let (d, s) = (
        x - component.mean[j],
        component.scale_inverse[(j, j)] * scale,
    );
    ln_gamma(0.5 * (dof + 1.0))
        - ln_gamma(0.5 * dof)
        - 0.5 * (dof * std::f64::consts::PI * s).ln()
        - 0.5 * (dof + 1.0) * (d * d / (s * dof)).ln_1p()
}

/// Degrees of freedom of the Student-t of a new row, and its scale matrix in those of the component's.
fn student(component: &Component) -> (f64, f64) {
    let dof = component.dof - component.mean.len() as f64 + 1.0;
    (dof, (component.strength + 1.0) / (component.strength * dof))
}

/// Mean and variance of feature `k` given that feature `j` is `x`.
fn conditional(component: &Component, [j, k]: [usize; 2], x: f64) -> (f64, f64) {
    let (dof, scale) = student(component);
    let s = |a, b| component.scale_inverse[(a, b)] * scale;
    let d = x - component.mean[j];
    let rest = s(k, k) - s(j, k) * s(j, k) / s(j, j);
    let spread = (dof + d * d / s(j, j)) / (dof - 1.0);
    (component.mean[k] + s(j, k) / s(j, j) * d, spread * rest)
}

/// Against the formulas, with the posterior as it is in the state: rows of which one feature of two is seen.
#[test]
fn densities_and_cells_are_those_of_the_formulas() {
    let pairs = |j: usize| {
        let (_, truth) = slopes(40 + j as u64, j, 30);
        let labels = Labels::from_strings(&[None::<&str>; 30]);
        (truth.select_columns(&[0, 1]).unwrap(), labels)
    };
    let tasks = Tasks::new((0..2).map(pairs).collect());
    for start in [TaskInit::Pooled(Init::KMeans(1)), TaskInit::Separate(2)] {
        let starts = vec![start];
        let config = TasksConfig {
            starts,
            ..config(32)
        };
        let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
        // Units of all rows together.
        let both = [0, 1].map(|t| tasks.table(t).values().to_vec()).concat();
        let units = Table::complete(60, 2, both).unwrap().column_stats();
        let state = model.state();
        let components = || state.components.iter().chain([&state.vacant]);
        for (task, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let name = tasks.name(task);
            let weights = model.task_weights(name).unwrap();
            assert_eq!(weights.len(), state.components.len() + 1);
            for z in [-8.0, -1.0, 0.2, 1.5] {
                let k = 1 - j;
                let mut row = vec![0.0; 2];
                row[j] = units[j].mean + units[j].sd * z;
                let row = Table::new(1, 2, row, &[j == 0, j == 1]).unwrap();
                let each = components().zip(&weights);
                let joint: Vec<f64> = each.map(|(c, w)| w * ln_student(c, j, z).exp()).collect();
                let density: f64 = joint.iter().sum();
                let mut moments = [0.0; 2];
                for (c, p) in components().zip(&joint) {
                    let (mean, variance) = conditional(c, [j, k], z);
                    moments[0] += p / density * mean;
                    moments[1] += p / density * (variance + mean * mean);
                }
                let sd = (moments[1] - moments[0] * moments[0]).sqrt() * units[k].sd;
                let found = model.ln_density(name, &row).unwrap()[0];
                let cell = &model.cells_by_row(name, &row).unwrap()[0][0];
                let mean = units[k].mean + units[k].sd * moments[0];
                assert!((found - density.ln() + units[j].sd.ln()).abs() < 1e-9);
                assert!((cell.mean - mean).abs() < 1e-9 * units[k].sd, "{mean}");
                assert!((cell.sd / sd - 1.0).abs() < 1e-9, "{} {sd}", cell.sd);
            }
        }
    }
}

#[test]
fn a_row_with_nothing_observed_is_at_the_mean_of_its_task() {
    let tasks = unlabelled();
    let model = fitted(&tasks);
    let none = Table::new(1, 3, vec![0.0; 3], &[false; 3]).unwrap();
    let state = model.state();
    let values: Vec<&Table> = (0..4).map(|j| tasks.table(j)).collect();
    for task in model.tasks() {
        assert!(model.ln_density(task, &none).unwrap()[0].abs() < 1e-9);
        let weights = model.task_weights(task).unwrap();
        let imputed = model.impute(task, &none).unwrap();
        for j in 0..3 {
            let cells = values.iter().flat_map(|table| table.observed_in_column(j));
            let cells: Vec<f64> = cells.collect();
            let units = Table::complete(cells.len(), 1, cells)
                .unwrap()
                .column_stats();
            let components = state.components.iter().chain([&state.vacant]).zip(&weights);
            let mean: f64 = components.map(|(c, weight)| weight * c.mean[j]).sum();
            let mean = units[0].mean + units[0].sd * mean;
            let found = imputed.completed.get(0, j).unwrap();
            assert!((found - mean).abs() < 1e-9 * units[0].sd, "{found} {mean}");
        }
    }
    // No rows at all.
    let empty = Table::complete(0, 3, Vec::new()).unwrap();
    assert!(model.ln_density("task 0", &empty).unwrap().is_empty());
    assert_eq!(
        model.impute("task 0", &empty).unwrap().completed.n_rows(),
        0
    );
}

/// Of rows with labels, too, though runs for predictions are weighed by these.
#[test]
fn features_are_those_of_the_best_run_with_gaussians_of_its_own() {
    let task = |j: usize| {
        let (holes, _) = slopes(50 + j as u64, j % 2, 40);
        let name = |row: usize| ["odd", "even"][usize::from(row.is_multiple_of(2))];
        let label = |row: usize| (!row.is_multiple_of(9)).then_some(name(row));
        let labels: Vec<Option<&str>> = (0..40).map(label).collect();
        (holes, Labels::from_strings(&labels))
    };
    let tasks = Tasks::new((0..3).map(task).collect());
    let fitted = |starts| {
        let config = TasksConfig {
            starts,
            ..config(33)
        };
        fit_tasks(&tasks.borrowed(), &config).unwrap()
    };
    let own = TaskInit::Pooled(Init::KMeans(2));
    let model = fitted(vec![TaskInit::SharedGaussian(2), own]);
    assert_eq!(model.best().start, own);
    assert!(
        model
            .members()
            .iter()
            .any(|m| m.state.gaussians == Gaussians::Shared)
    );
    assert_eq!(model.trace().last(), model.best().trace.last());
    assert_eq!(model.stop(), model.best().stop);
    let alone = fitted(vec![own]);
    let (rows, _) = slopes(60, 1, 30);
    let same = |a: &MultiTaskFit, b: &MultiTaskFit| {
        let of = |fit: &MultiTaskFit| {
            let cells = fit.cells_by_row("task 1", &rows).unwrap();
            (cells, fit.ln_density("task 1", &rows).unwrap())
        };
        of(a) == of(b)
    };
    assert!(same(&model, &alone));
    let labels_only = fitted(vec![TaskInit::SharedGaussian(2)]);
    assert!(!same(&model, &labels_only));
    // Where there is no other run, its one Gaussian answers.
    assert_eq!(labels_only.state().gaussians, Gaussians::Shared);
    let cells = labels_only.cells_by_row("task 1", &rows).unwrap();
    let one = |cell: &MissingCell| {
        let means: Vec<f64> = cell.terms.iter().map(|t| t.mean).collect();
        let spread = cell.sd * 1e-9;
        means.iter().all(|mean| (mean - cell.mean).abs() < spread)
    };
    assert!(cells.iter().flatten().all(one));
}

#[test]
fn files_change_nothing() {
    let tasks = unlabelled();
    let model = fitted(&tasks);
    let (table, labels) = (tasks.table(0), tasks.labels(0));
    let new = Task {
        name: "new",
        table,
        labels,
    };
    for fit in [model.clone(), model.with_task(&new).unwrap()] {
        let again = MultiTaskFit::from_bytes(&fit.to_bytes().unwrap()).unwrap();
        for task in fit.tasks() {
            let answers = |fit: &MultiTaskFit| {
                let imputed = fit.impute(task, table).unwrap();
                let density = fit.ln_density(task, table).unwrap();
                [imputed.completed.values(), imputed.sd.values(), &density].map(<[f64]>::to_vec)
            };
            assert_eq!(answers(&fit), answers(&again));
        }
    }
    // A new task of a kind is completed as those of its kind.
    let grown = model.with_task(&new).unwrap();
    let [own, by_mean, _] = mean_squares(&grown, "new", 0);
    assert!(own < 0.4 * by_mean, "{own} {by_mean}");
}

#[test]
fn columns_out_of_the_model() {
    // The second column is constant, the fourth is never seen.
    let table = |seed| {
        let (holes, _) = slopes(seed, 0, 20);
        let value = |row: usize| [holes.get(row, 0), Some(7.0), holes.get(row, 2), None];
        let cells: Vec<f64> = (0..20)
            .flat_map(value)
            .map(|cell| cell.unwrap_or(f64::NAN))
            .collect();
        Table::from_nan_coded(20, 4, &cells).unwrap()
    };
    let labels = Labels::from_strings(&[None::<&str>; 20]);
    let tasks = Tasks::new(vec![(table(1), labels.clone()), (table(2), labels)]);
    let model = fit_tasks(&tasks.borrowed(), &config(34)).unwrap();
    assert_eq!(model.ignored_columns(), [1, 3]);
    assert_eq!(model.model_columns(), [0, 2]);
    let row = Table::from_nan_coded(
        2,
        4,
        &[0.3, f64::NAN, f64::NAN, f64::NAN, 0.3, 7.0, 1e-3, 2.0],
    );
    let row = row.unwrap();
    let imputed = model.impute("task 0", &row).unwrap();
    assert_eq!(imputed.completed.get(0, 1), Some(7.0));
    assert_eq!(imputed.sd.get(0, 1), Some(0.0));
    assert!(imputed.sd.get(0, 2) > Some(0.0));
    assert_eq!(
        (imputed.completed.get(0, 3), imputed.completed.get(1, 3)),
        (None, Some(2.0))
    );
    let cells = model.cells_by_row("task 0", &row).unwrap();
    assert_eq!(
        cells[0].iter().map(|cell| cell.column).collect::<Vec<_>>(),
        [2]
    );
    assert!(cells[1].is_empty());
    // With no column left there is nothing to say but constants.
    let constant = row.select_columns(&[1]).unwrap();
    let labels = Labels::from_strings(&[None::<&str>; 2]);
    let tasks = Tasks::new(vec![(constant.clone(), labels)]);
    let model = fit_tasks(&tasks.borrowed(), &config(34)).unwrap();
    assert_eq!(model.ignored_columns(), [0]);
    let density = model.ln_density("task 0", &constant).unwrap();
    assert!(density.iter().all(|d| d.abs() < 1e-12), "{density:?}");
    let imputed = model.impute("task 0", &constant).unwrap();
    assert_eq!(imputed.completed.values(), [7.0; 2]);
}
