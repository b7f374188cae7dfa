//! Alternating structure optimisation.

use std::collections::{BTreeMap, HashSet};

use npb_data::{Table, metrics};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::{at_least_one, complete, positive, training_set};
use crate::tasks::{FOLDS, Tasks, folds, one_per_row};

const WHAT: &str = "alternating structure optimisation";
const NEWTON_STEPS: usize = 200;
/// Newton stops when no component of the gradient exceeds this.
const GRADIENT: f64 = 1e-9;
/// Penalty of what the method leaves free: of many minima it picks the nearest to 0.
const NEARLY_FREE: f64 = 1e-6;

/// Settings of [`SharedStructure`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructureConfig {
    /// Dimension of the shared subspace of the weights; at most the number of columns. The weights of T tasks span T dimensions: more are not used.
    pub dimension: usize,
    /// Weight of the data against the penalty on what lies outside the subspace.
    pub c: f64,
    /// At most this many alternations.
    pub iterations: usize,
    /// Stops when the objective falls by less than this share of itself.
    pub tolerance: f64,
}

impl Default for StructureConfig {
    fn default() -> Self {
        Self {
            dimension: 5,
            c: 1.0,
            iterations: 50,
            tolerance: 1e-4,
        }
    }
}

/// Linear classifiers of several tasks whose weights are near a common subspace (Ando and Zhang, JMLR 6, 2005).
///
/// Minimises sum_t [ |u_t - Θ'v_t|² / 2 + C sum_i L(y_i (u_t'x_i + b_t)) ], ΘΘ' = I, by turns: u, v, b for each task given Θ (Newton), then
/// Θ from the leading left singular vectors of the matrix of all u. L is the modified Huber loss of that paper. Starts from Θ = 0.
///
/// ```
/// use npb_baselines::{SharedStructure, StructureConfig};
/// use npb_data::Table;
///
/// let x = Table::complete(4, 2, vec![-1.0, 0.0, 1.0, 0.1, 0.0, -1.0, 0.1, 1.0])?;
/// let config = StructureConfig { dimension: 1, ..Default::default() };
/// let model = SharedStructure::fit(&x, &[0, 0, 1, 1], &[false, true, false, true], &config)?;
/// let scores = model.decision(&x, &[0, 0, 1, 1])?;
/// assert!(scores[0] < scores[1] && scores[2] < scores[3]);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedStructure {
    column_names: Vec<String>,
    tasks: Tasks,
    /// Weights and intercept of each task.
    models: Vec<(Vec<f64>, f64)>,
    /// The objective after each alternation.
    pub trace: Vec<f64>,
}

impl SharedStructure {
    /// Fits to complete rows; `tasks` and `labels` have one entry per row. A task may have one class only.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Missing`], [`BaselineError::LabelCount`],
    /// [`BaselineError::OneClass`], [`BaselineError::TaskCount`], [`BaselineError::NotPositiveDefinite`],
    /// [`BaselineError::SingularValues`].
    pub fn fit(
        train: &Table,
        tasks: &[usize],
        labels: &[bool],
        config: &StructureConfig,
    ) -> Result<Self, BaselineError> {
        positive("c", config.c)?;
        positive("tolerance", config.tolerance)?;
        at_least_one("iterations", config.iterations)?;
        at_least_one("dimension", config.dimension)?;
        training_set(train, labels)?;
        let p = train.n_cols();
        if config.dimension > p {
            return Err(BaselineError::Config {
                field: "dimension",
                value: config.dimension as f64,
                rule: "at most the number of columns",
            });
        }
        let known = Tasks::new(train, tasks)?;
        let rows = known.rows(tasks);
        let mut structure = Mat::zeros(config.dimension.min(known.len()), p);
        let mut solutions = vec![vec![0.0; p + structure.nrows() + 1]; known.len()];
        let mut trace: Vec<f64> = Vec::new();
        for iteration in 0..config.iterations {
            let mut objective = 0.0;
            let mut weights = Mat::zeros(p, known.len());
            for (t, solution) in solutions.iter_mut().enumerate() {
                let problem = Problem::new(train, &rows[t], labels, &structure, config.c);
                objective += problem.minimise(solution, iteration)?;
                let u = full_weights(solution, &structure);
                weights.col_as_slice_mut(t).copy_from_slice(&u);
            }
            let last = trace.last().copied();
            trace.push(objective);
            let enough = config.tolerance * objective.abs();
            if last.is_some_and(|last| last - objective <= enough) {
                break;
            }
            if iteration + 1 == config.iterations {
                break;
            }
            let svd = weights.thin_svd();
            let svd = svd.map_err(|_| BaselineError::SingularValues)?;
            let left = svd.U();
            structure = Mat::from_fn(structure.nrows(), p, |a, j| left[(j, a)]);
            for (t, solution) in solutions.iter_mut().enumerate() {
                split_weights(weights.col_as_slice(t), &structure, solution);
            }
        }
        let model = |s: &Vec<f64>| (full_weights(s, &structure), s[s.len() - 1]);
        Ok(Self {
            column_names: train.column_names().to_vec(),
            models: solutions.iter().map(model).collect(),
            tasks: known,
            trace,
        })
    }

    /// As [`fit`](Self::fit) with [`dimension`](StructureConfig::dimension) and [`c`](StructureConfig::c) chosen among `candidates`: those that best
    /// order the rows of five folds that are left out in turn, by the mean over tasks of the area under the curve. Classes are dealt evenly to the folds, over all
    /// tasks and within each. (The loss L would not do: it depends on the length of weights that are hardly penalised within the subspace.)
    ///
    /// Tasks without rows of both classes have no part in it; where there is no fold to go by, the settings are those of `config`. Cost: five fits for each
    /// candidate.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit), for every candidate.
    pub fn fit_tuned(
        train: &Table,
        tasks: &[usize],
        labels: &[bool],
        config: &StructureConfig,
        candidates: &[(usize, f64)],
    ) -> Result<Self, BaselineError> {
        training_set(train, labels)?;
        one_per_row(train, tasks)?;
        let folds = folds(tasks, labels);
        let mut best = (0.0, config.clone());
        for &(dimension, c) in candidates {
            let candidate = StructureConfig {
                dimension,
                c,
                ..config.clone()
            };
            let mut scores = vec![None; tasks.len()];
            for fold in 0..FOLDS {
                for (i, score) in left_out((train, tasks, labels), &candidate, &folds, fold)? {
                    scores[i] = Some(score);
                }
            }
            let order = mean_auc(tasks, labels, &scores);
            if order > best.0 {
                best = (order, candidate);
            }
        }
        Self::fit(train, tasks, labels, &best.1)
    }

    /// u_t'x + b_t for every row of `table` (complete, columns as in training); `tasks` has one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`],
    /// [`BaselineError::TaskCount`], [`BaselineError::UnknownTask`].
    pub fn decision(&self, table: &Table, tasks: &[usize]) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(&self.column_names)?;
        complete(table)?;
        one_per_row(table, tasks)?;
        let score = |(row, &task): (usize, &usize)| {
            let position = self.tasks.position(task);
            let position = position.ok_or(BaselineError::UnknownTask { row, task })?;
            let (weights, intercept) = &self.models[position];
            Ok(dot(weights, table.row(row)) + intercept)
        };
        tasks.iter().enumerate().map(score).collect()
    }
}

/// Rows of one fold and their scores given the others; none when these are of one class, or are of other tasks.
fn left_out(
    (train, tasks, labels): (&Table, &[usize], &[bool]),
    config: &StructureConfig,
    folds: &[usize],
    fold: usize,
) -> Result<Vec<(usize, f64)>, BaselineError> {
    let kept: Vec<usize> = (0..tasks.len()).filter(|&i| folds[i] != fold).collect();
    let known: HashSet<usize> = kept.iter().map(|&i| tasks[i]).collect();
    let left: Vec<usize> = (0..tasks.len())
        .filter(|&i| folds[i] == fold && known.contains(&tasks[i]))
        .collect();
    let one_class = kept.iter().all(|&i| labels[i]) || kept.iter().all(|&i| !labels[i]);
    if one_class || left.is_empty() {
        return Ok(Vec::new());
    }
    let of = |rows: &[usize]| -> Vec<usize> { rows.iter().map(|&i| tasks[i]).collect() };
    let own: Vec<bool> = kept.iter().map(|&i| labels[i]).collect();
    let model = SharedStructure::fit(&train.select_rows(&kept), &of(&kept), &own, config)?;
    let scores = model.decision(&train.select_rows(&left), &of(&left))?;
    Ok(left.into_iter().zip(scores).collect())
}

/// Mean over tasks of the area under the curve of the rows that have a score; 0 without any of both classes.
fn mean_auc(tasks: &[usize], labels: &[bool], scores: &[Option<f64>]) -> f64 {
    let mut by_task: BTreeMap<usize, (Vec<f64>, Vec<bool>)> = BTreeMap::new();
    for ((&task, &label), score) in tasks.iter().zip(labels).zip(scores) {
        if let Some(score) = score {
            let (own, known) = by_task.entry(task).or_default();
            own.push(*score);
            known.push(label);
        }
    }
    let each = by_task.values();
    let areas: Vec<f64> = each.filter_map(|(s, l)| metrics::auc(s, l).ok()).collect();
    areas.iter().sum::<f64>() / areas.len().max(1) as f64
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// u = w + Θ'v, from (w, v, b).
fn full_weights(solution: &[f64], structure: &Mat<f64>) -> Vec<f64> {
    let p = structure.ncols();
    let mut weights = solution[..p].to_vec();
    for (j, weight) in weights.iter_mut().enumerate() {
        *weight += dot(
            structure.col_as_slice(j),
            &solution[p..p + structure.nrows()],
        );
    }
    weights
}

/// (w, v, b) with v = Θu and w = u - Θ'v: the same classifier under another structure.
fn split_weights(weights: &[f64], structure: &Mat<f64>, solution: &mut [f64]) {
    let (h, p) = (structure.nrows(), structure.ncols());
    for a in 0..h {
        solution[p + a] = (0..p).map(|j| structure[(a, j)] * weights[j]).sum();
    }
    for j in 0..p {
        solution[j] = weights[j] - dot(structure.col_as_slice(j), &solution[p..p + h]);
    }
}

/// One task: rows extended by Θx and a constant.
struct Problem {
    rows: Vec<Vec<f64>>,
    signs: Vec<f64>,
    penalties: Vec<f64>,
    c: f64,
}

impl Problem {
    fn new(table: &Table, rows: &[usize], labels: &[bool], structure: &Mat<f64>, c: f64) -> Self {
        let (h, p) = (structure.nrows(), structure.ncols());
        let extended = |&i: &usize| {
            let row = table.row(i);
            let mut extended = row.to_vec();
            extended
                .extend((0..h).map(|a| (0..p).map(|j| structure[(a, j)] * row[j]).sum::<f64>()));
            extended.push(1.0);
            extended
        };
        Self {
            rows: rows.iter().map(extended).collect(),
            signs: rows
                .iter()
                .map(|&i| if labels[i] { 1.0 } else { -1.0 })
                .collect(),
            penalties: [vec![1.0; p], vec![NEARLY_FREE; h + 1]].concat(),
            c,
        }
    }

    fn objective(&self, x: &[f64]) -> f64 {
        let penalty: f64 = x.iter().zip(&self.penalties).map(|(x, l)| l * x * x).sum();
        let margins = self.rows.iter().zip(&self.signs);
        let loss: f64 = margins.map(|(row, y)| huber(y * dot(row, x)).0).sum();
        0.5 * penalty + self.c * loss
    }

    /// Newton with halved steps, from `x`; returns the objective.
    fn minimise(&self, x: &mut Vec<f64>, iteration: usize) -> Result<f64, BaselineError> {
        let mut here = self.objective(x);
        for _ in 0..NEWTON_STEPS {
            let (mut step, hessian) = self.derivatives(x);
            if step.iter().all(|g| g.abs() <= GRADIENT) {
                break;
            }
            let factor = Cholesky::new(hessian.as_ref());
            let factor = factor.map_err(|e| BaselineError::NotPositiveDefinite {
                what: WHAT,
                iteration,
                pivot: e.pivot,
            })?;
            factor.solve(&mut step);
            let mut scale = 1.0;
            let found = loop {
                let moved = x.iter().zip(&step);
                let there: Vec<f64> = moved.map(|(x, s)| x - scale * s).collect();
                let height = self.objective(&there);
                if height < here {
                    break Some((there, height));
                }
                scale *= 0.5;
                if scale < 1e-10 {
                    break None;
                }
            };
            let Some((there, height)) = found else { break };
            (*x, here) = (there, height);
        }
        Ok(here)
    }

    fn derivatives(&self, x: &[f64]) -> (Vec<f64>, Mat<f64>) {
        let n = x.len();
        let mut gradient: Vec<f64> = x.iter().zip(&self.penalties).map(|(x, l)| l * x).collect();
        let mut hessian = Mat::from_fn(n, n, |a, b| if a == b { self.penalties[a] } else { 0.0 });
        for (row, y) in self.rows.iter().zip(&self.signs) {
            let (_, slope, curvature) = huber(y * dot(row, x));
            for (b, value) in row.iter().enumerate() {
                gradient[b] += self.c * slope * y * value;
                let column = &mut hessian.col_as_slice_mut(b)[b..];
                for (cell, other) in column.iter_mut().zip(&row[b..]) {
                    *cell += self.c * curvature * value * other;
                }
            }
        }
        (gradient, hessian)
    }
}

/// max(0, 1 - z)², linear below -1; its slope and curvature.
fn huber(z: f64) -> (f64, f64, f64) {
    if z >= 1.0 {
        (0.0, 0.0, 0.0)
    } else if z >= -1.0 {
        ((1.0 - z) * (1.0 - z), -2.0 * (1.0 - z), 2.0)
    } else {
        (-4.0 * z, -4.0, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform(k: u64) -> f64 {
        let h = (k + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let h = (h ^ (h >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((h ^ (h >> 32)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Twelve tasks whose weights are multiples of one direction in ten columns, `n` rows each.
    fn example(n: usize, from: u64) -> (Table, Vec<usize>, Vec<bool>) {
        let rows = 12 * n;
        let cell = move |i: usize, j: u64| 2.0 * uniform(from + 11 * i as u64 + j) - 1.0;
        let sign = |t: usize| if t.is_multiple_of(2) { 1.0 } else { -1.0 };
        let direction = |i: usize| cell(i, 0) + cell(i, 1) - cell(i, 2) - cell(i, 3);
        let tasks: Vec<usize> = (0..rows).map(|i| i / n).collect();
        let labels = (0..rows)
            .map(|i| sign(i / n) * direction(i) + 0.3 * cell(i, 10) > 0.0)
            .collect();
        let values = (0..rows).flat_map(|i| (0..10).map(move |j| cell(i, j)));
        (
            Table::complete(rows, 10, values.collect()).unwrap(),
            tasks,
            labels,
        )
    }

    fn share_right(dimension: usize) -> f64 {
        let (train, tasks, labels) = example(15, 0);
        let config = StructureConfig {
            dimension,
            c: 0.05,
            ..Default::default()
        };
        let model = SharedStructure::fit(&train, &tasks, &labels, &config).unwrap();
        let (test, tasks, labels) = example(100, 1 << 40);
        let scores = model.decision(&test, &tasks).unwrap();
        let right = scores
            .iter()
            .zip(&labels)
            .filter(|(s, l)| (**s > 0.0) == **l);
        right.count() as f64 / labels.len() as f64
    }

    #[test]
    fn the_objective_never_rises() {
        let (train, tasks, labels) = example(15, 0);
        let config = StructureConfig {
            dimension: 2,
            tolerance: 1e-9,
            ..Default::default()
        };
        let model = SharedStructure::fit(&train, &tasks, &labels, &config).unwrap();
        assert!(model.trace.len() > 2);
        for pair in model.trace.windows(2) {
            assert!(pair[1] <= pair[0] * (1.0 + 1e-6), "{:?}", model.trace);
        }
        assert!(model.trace.last().unwrap() < &(0.9 * model.trace[0]));
    }

    /// A shared direction is learnt from all tasks; a subspace of all columns shares nothing and fits noise.
    #[test]
    fn the_right_dimension_helps() {
        let (one, all) = (share_right(1), share_right(10));
        assert!(one > all + 0.05, "{one} {all}");
        assert!(one > 0.85, "{one}");
    }

    /// Where all tasks share one direction and rows are few, that is what left-out rows ask for.
    #[test]
    fn settings_are_tuned_to_what_left_out_rows_say() {
        let (train, tasks, labels) = example(15, 0);
        let config = StructureConfig::default();
        let candidates = [(10, 10.0), (1, 0.05), (10, 0.05)];
        let tuned = SharedStructure::fit_tuned(&train, &tasks, &labels, &config, &candidates);
        let chosen = StructureConfig {
            dimension: 1,
            c: 0.05,
            ..config.clone()
        };
        let wanted = SharedStructure::fit(&train, &tasks, &labels, &chosen).unwrap();
        assert_eq!(tuned.unwrap().models, wanted.models);
        // A task of one row has no say, and without candidates the settings stay.
        let (tasks, labels) = ([vec![99], tasks[1..].to_vec()].concat(), labels);
        let tuned = SharedStructure::fit_tuned(&train, &tasks, &labels, &config, &[]).unwrap();
        let wanted = SharedStructure::fit(&train, &tasks, &labels, &config).unwrap();
        assert_eq!(tuned.models, wanted.models);
        assert!(SharedStructure::fit_tuned(&train, &tasks, &labels, &config, &candidates).is_ok());
        let bad = SharedStructure::fit_tuned(&train, &tasks, &labels, &config, &[(1, -1.0)]);
        assert!(bad.unwrap_err().to_string().contains("c = -1"));
    }

    #[test]
    fn slopes_are_those_of_the_loss() {
        for z in [-3.0, -1.5, -0.3, 0.5, 1.4] {
            let slope = (huber(z + 1e-6).0 - huber(z - 1e-6).0) / 2e-6;
            assert!((slope - huber(z).1).abs() < 1e-6);
            let curvature = (huber(z + 1e-6).1 - huber(z - 1e-6).1) / 2e-6;
            assert!((curvature - huber(z).2).abs() < 1e-6);
        }
    }

    #[test]
    fn the_dimension_is_bounded_by_the_columns() {
        let (train, tasks, labels) = example(15, 0);
        let config = StructureConfig {
            dimension: 11,
            ..Default::default()
        };
        let error = SharedStructure::fit(&train, &tasks, &labels, &config).unwrap_err();
        assert!(error.to_string().contains("dimension = 11"), "{error}");
    }
}
