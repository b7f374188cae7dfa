//! A fitted MT-iLSVM.

use std::ops::ControlFlow;

use npb_data::Table;
use npb_infer::{Saved, Stop, VbReport};
use npb_linalg::faer::Mat;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::data::{Task, TaskData, TaskTargets};
use super::margins::{Goal, TaskMargins, TaskProblem, machine_rows};
use crate::alternate::Alternation;
use crate::columns::Columns;
use crate::config::MtIlsvmConfig;
use crate::dense::columns_mut;
use crate::error::RegBayesError;
use crate::factors::loadings::infer_mean;
use crate::factors::{Factors, Items};
use crate::machine::{MachineLimits, Solution};
use crate::state::FactorState;
use crate::vb;

/// What a fit knows of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Learned {
    pub(crate) name: String,
    /// Whether targets are real numbers.
    pub(crate) real: bool,
    /// Mean of `q(eta_m)`: features, inputs if they are appended, bias if there is a column of ones.
    pub(crate) weights: Vec<f64>,
    /// Targets are `centre + scale * score`; of labels 0 and 1.
    pub(crate) centre: f64,
    pub(crate) scale: f64,
    /// Labels are yes above this score.
    pub(crate) threshold: f64,
}

/// A fitted MT-iLSVM: the posterior of the projection and the weights of every task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MtIlsvmFit {
    /// Settings of the fit.
    pub config: MtIlsvmConfig,
    /// Why it ended.
    pub stop: Stop,
    /// Every outer iteration; `elbo` is minus the objective.
    pub trace: Vec<VbReport>,
    pub(crate) columns: Columns,
    pub(crate) state: FactorState,
    pub(crate) tasks: Vec<Learned>,
}

/// Scores of rows for all tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskScores {
    names: Vec<String>,
    real: Vec<bool>,
    thresholds: Vec<f64>,
    n_rows: usize,
    values: Vec<f64>,
}

impl TaskScores {
    /// Names of the tasks.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// `f_m(x_n)`: the margin in favour of yes, or the predicted target in its own units.
    ///
    /// # Panics
    /// When row or task does not exist.
    pub fn score(&self, row: usize, task: usize) -> f64 {
        assert!(row < self.n_rows && task < self.names.len());
        self.values[row * self.names.len() + task]
    }

    /// All scores of one task.
    ///
    /// # Panics
    /// When the task does not exist.
    pub fn of_task(&self, task: usize) -> Vec<f64> {
        (0..self.n_rows).map(|n| self.score(n, task)).collect()
    }

    /// Predicted labels of one task: whether scores exceed its threshold. `None` for a real task.
    ///
    /// # Panics
    /// When the task does not exist.
    pub fn labels(&self, task: usize) -> Option<Vec<bool>> {
        let threshold = self.thresholds[task];
        let label = |n| self.score(n, task) > threshold;
        (!self.real[task]).then(|| (0..self.n_rows).map(label).collect())
    }
}

/// Fits the model.
///
/// Cost of an outer iteration with N rows, D input columns, K features, M tasks: at most `inner_sweeps` times `N D K + D K^2 + K^3` and some passes
/// of the machines, `N M K` each.
///
/// # Errors
/// Settings out of range; no input column that varies; numerical trouble, named with iteration and block.
///
/// ```
/// use npb_regbayes::MtIlsvmConfig;
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::tasks::{Task, TaskData, fit};
/// // Two labels that depend on sums of inputs.
/// let value = |n: usize, d: usize| ((n * (2 * d + 3) + d * d) % 7) as f64 - 3.0;
/// let inputs = Table::complete(60, 4, (0..240).map(|k| value(k / 4, k % 4)).collect())?;
/// let label = |d: usize| (0..60).map(|n| Some(value(n, d) + value(n, d + 1) > 0.0)).collect::<Vec<_>>();
/// let data = TaskData::new(inputs.clone(), vec![Task::label("a", &label(0)), Task::label("b", &label(2))])?;
/// let model = fit(&data, &MtIlsvmConfig { cost: 1.0, ..MtIlsvmConfig::default() })?;
/// let scores = model.predict(&inputs)?;
/// let right = (0..60).filter(|&n| Some(scores.score(n, 0) > 0.0) == label(0)[n]).count();
/// assert!(right > 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit(data: &TaskData, config: &MtIlsvmConfig) -> Result<MtIlsvmFit, RegBayesError> {
    config.validate()?;
    let training = data.training_rows();
    let columns = Columns::learn(&data.inputs, &training)?;
    let table = columns.apply(&data.inputs)?;
    let items = Items::from_columns(&table);
    let mut factors = Factors::start(&items, config.factors, config.seed)?;
    factors.warm_up(config.factors.warm_up)?;
    let inputs = filled(&factors.state, factors.precision(), &table)?;
    let problem = problem(data, &training, &inputs, config);
    let mut alternation = Alternation {
        factors,
        labels: TaskMargins::new(&problem.0),
        update: config.label_update,
        inner_sweeps: config.inner_sweeps,
    };
    alternation.begin()?;
    let outcome = vb::run(&mut alternation, &config.limits, Vec::new(), |_, _| {
        ControlFlow::Continue(())
    })?;
    let solutions = alternation.labels.solutions;
    let state = alternation.factors.state;
    let learned = |(m, solution): (usize, Solution)| {
        let (centre, scale) = problem.1;
        let real = matches!(data.tasks[m].targets, TaskTargets::Real(_));
        Learned {
            name: data.tasks[m].name.clone(),
            real,
            weights: solution.weights,
            centre: if real { centre } else { 0.0 },
            scale: if real { scale } else { 1.0 },
            threshold: 0.0,
        }
    };
    Ok(MtIlsvmFit {
        config: config.clone(),
        stop: outcome.stop,
        trace: outcome.trace,
        columns,
        state,
        tasks: solutions.into_iter().enumerate().map(learned).collect(),
    })
}

/// The machine's problem, and mean and standard deviation of all real targets.
fn problem(
    data: &TaskData,
    training: &[usize],
    inputs: &Mat<f64>,
    config: &MtIlsvmConfig,
) -> (TaskProblem, (f64, f64)) {
    let mut places = vec![0; data.n_rows()];
    training
        .iter()
        .enumerate()
        .for_each(|(n, &row)| places[row] = n);
    let units = target_units(&data.tasks);
    let goals = data.tasks.iter();
    let problem = TaskProblem {
        inputs: Mat::from_fn(inputs.nrows(), training.len(), |d, n| {
            inputs[(d, training[n])]
        }),
        goals: goals
            .map(|task| Goal::new(task, &places, units, config))
            .collect(),
        slack: config.slack,
        epsilon: config.epsilon,
        ones: config.ones,
        raw_inputs: config.raw_inputs,
        limits: MachineLimits::default(),
    };
    (problem, units)
}

/// Mean and standard deviation of all real targets together.
fn target_units(tasks: &[Task]) -> (f64, f64) {
    let values: Vec<f64> = tasks
        .iter()
        .filter_map(|task| match &task.targets {
            TaskTargets::Real(values) => Some(values.iter().copied()),
            TaskTargets::Binary(_) => None,
        })
        .flatten()
        .collect();
    if values.is_empty() {
        return (0.0, 1.0);
    }
    let n = values.len() as f64;
    let mean = values.iter().map(|y| y / n).sum::<f64>();
    let largest = values.iter().fold(0.0f64, |m, y| m.max((y - mean).abs()));
    if largest == 0.0 {
        return (mean, 1.0);
    }
    let square = |y: &f64| ((y - mean) / largest).powi(2) / n;
    (
        mean,
        largest * values.iter().map(square).sum::<f64>().sqrt(),
    )
}

/// Inputs in standard units, D x N, with what the projection expects in the holes: `psi_d' E[w_n | x_n]`.
fn filled(state: &FactorState, precision: f64, table: &Table) -> Result<Mat<f64>, RegBayesError> {
    let d = table.n_cols();
    let mut inputs = Mat::from_fn(d, table.n_rows(), |j, n| table.values()[n * d + j]);
    if table.n_missing() == 0 {
        return Ok(inputs);
    }
    let outcome: Result<(), RegBayesError> = columns_mut(&mut inputs)
        .into_par_iter()
        .enumerate()
        .try_for_each(|(n, row)| {
            let seen: Vec<bool> = (0..d).map(|j| table.is_observed(n, j)).collect();
            if seen.iter().all(|&o| o) {
                return Ok(());
            }
            let mean =
                infer_mean(state, precision, row, &seen).map_err(|e| RegBayesError::Numerical {
                    iteration: 0,
                    block: "loadings of a row with holes",
                    pivot: e.pivot,
                    value: e.value,
                })?;
            for j in (0..d).filter(|&j| !seen[j]) {
                row[j] = npb_linalg::dot(state.indicators.col_as_slice(j), &mean);
            }
            Ok(())
        });
    outcome.map(|()| inputs)
}

impl MtIlsvmFit {
    /// The posterior of the features: items are the input columns in use, observations the rows of the fit.
    pub fn state(&self) -> &FactorState {
        &self.state
    }

    /// Which input columns are in use.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Scores of rows, new or not. Holes are filled with what the projection expects there; a row without any observed entry gets the prior
    /// prediction (the bias).
    ///
    /// # Errors
    /// Other columns than those of the fit.
    pub fn predict(&self, inputs: &Table) -> Result<TaskScores, RegBayesError> {
        let table = self.columns.apply(inputs)?;
        let precision = self.config.factors.input_weight / self.state.noise_variance;
        let filled = filled(&self.state, precision, &table)?;
        let rows = machine_rows(&filled, &self.state.indicators, self.config.raw_inputs);
        let n_rows = table.n_rows();
        let width = rows.len() / n_rows.max(1);
        let score = |(n, task): (usize, &Learned)| {
            let (own, bias) = task.weights.split_at(width);
            let bias = bias.first().map_or(0.0, |b| b * self.config.ones);
            let score = bias + npb_linalg::dot(&rows[n * width..(n + 1) * width], own);
            task.centre + task.scale * score
        };
        let values = (0..n_rows)
            .flat_map(|n| self.tasks.iter().map(move |task| (n, task)))
            .map(score)
            .collect();
        Ok(TaskScores {
            names: self.tasks.iter().map(|t| t.name.clone()).collect(),
            real: self.tasks.iter().map(|t| t.real).collect(),
            thresholds: self.tasks.iter().map(|t| t.threshold).collect(),
            n_rows,
            values,
        })
    }

    fn check(&self) -> Result<(), RegBayesError> {
        self.config.validate()?;
        self.columns.check()?;
        self.state.check()?;
        let wrong = |what: &str| {
            Err(RegBayesError::State {
                what: what.to_owned(),
            })
        };
        let d = self.columns.kept().len();
        if self.state.n_items() != d {
            return wrong("there are other columns than the projection has");
        }
        let raw = if self.config.raw_inputs > 0.0 { d } else { 0 };
        let width = self.state.n_features() + raw + usize::from(self.config.ones > 0.0);
        for task in &self.tasks {
            let numbers = [task.centre, task.scale, task.threshold];
            let mut numbers = task.weights.iter().chain(&numbers);
            if task.weights.len() != width || !numbers.all(|w| w.is_finite()) {
                return wrong("the weights of a task do not fit the features");
            }
        }
        Ok(())
    }
}

impl Saved for MtIlsvmFit {
    const MODEL: &'static str = "regbayes/mt-ilsvm";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Self;
    type Error = RegBayesError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(content: Self) -> Result<Self, RegBayesError> {
        content.check()?;
        Ok(content)
    }
}
