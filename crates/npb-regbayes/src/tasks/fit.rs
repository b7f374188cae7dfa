//! MT-iLSVM fitted, in one call and driven by hand. Outer iterations, the loop, are `vb::run`, one of them `Alternation::iterate` (`docs/regbayes.md#the-loop`).

use npb_data::Table;
use npb_infer::parallel;
use npb_infer::storage::fingerprint;
use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{Saved, Stop, Variational, VbOutcome, VbReport, VbRun, Watch};
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use super::data::{Task, TaskData, TaskTargets};
use super::margins::{Goal, TaskMargins, TaskProblem, machine_rows};
use crate::alternate::{Alternation, Margins};
use crate::columns::Columns;
use crate::config::IlsvmConfig;
use crate::dense::{centre_and_scale, columns_mut, sigmoid};
use crate::error::{RegBayesError, same_size};
use crate::factors::Items;
use crate::factors::loadings::infer_mean;
use crate::fit::{FeatureReport, reports, saved};
use crate::inputs::InputMap;
use crate::machine::Solution;
use crate::prepared::{Prepared, appended, check_fit};
use crate::state::FeatureState;
use crate::vb::{self, driven};

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
    pub config: IlsvmConfig,
    /// Why it ended.
    pub stop: Stop,
    /// Every outer iteration; `elbo` is minus the objective.
    pub trace: Vec<VbReport>,
    pub(crate) columns: Columns,
    pub(crate) state: FeatureState,
    pub(crate) tasks: Vec<Learned>,
    /// What appended inputs are seen through.
    map: Option<InputMap>,
    /// Mean and standard deviation of all real targets.
    pub(crate) units: (f64, f64),
}

/// Scores of rows for all tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskScores {
    names: Vec<String>,
    real: Vec<bool>,
    thresholds: Vec<f64>,
    /// Whether scores of labels are log-odds.
    calibrated: bool,
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

    /// Probabilities of yes of one task, from scores that are log-odds ([`labels::fit`](crate::labels::fit)). `None` for a real task, and where scores are margins.
    ///
    /// # Panics
    /// When the task does not exist.
    pub fn probabilities(&self, task: usize) -> Option<Vec<f64>> {
        let probability = |n| sigmoid(self.score(n, task));
        let known = self.calibrated && !self.real[task];
        known.then(|| (0..self.n_rows).map(probability).collect())
    }

    /// The same scores, of labels log-odds, with more added to those of each row.
    pub(crate) fn with_more(mut self, add: impl Fn(usize, &mut [f64]) + Sync) -> Self {
        let rows = self.values.chunks_mut(self.names.len()).enumerate();
        parallel::for_each(rows, |(n, row)| add(n, row));
        self.calibrated = true;
        self
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
/// use npb_regbayes::IlsvmConfig;
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::tasks::{Task, TaskData, fit};
/// // Two labels that depend on sums of inputs.
/// let value = |n: usize, d: usize| ((n * (2 * d + 3) + d * d) % 7) as f64 - 3.0;
/// let inputs = Table::complete(60, 4, (0..240).map(|k| value(k / 4, k % 4)).collect())?;
/// let label = |d: usize| (0..60).map(|n| Some(value(n, d) + value(n, d + 1) > 0.0)).collect::<Vec<_>>();
/// let data = TaskData::new(inputs.clone(), vec![Task::label("a", &label(0)), Task::label("b", &label(2))])?;
/// let model = fit(&data, &IlsvmConfig { cost: 1.0, ..IlsvmConfig::default() })?;
/// let scores = model.predict(&inputs)?;
/// let right = (0..60).filter(|&n| Some(scores.score(n, 0) > 0.0) == label(0)[n]).count();
/// assert!(right > 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit(data: &TaskData, config: &IlsvmConfig) -> Result<MtIlsvmFit, RegBayesError> {
    fit_watched(data, config, &Watch::none())
}

/// As [`fit`], watched: progress, cancellation and checkpoints by way of `watch`.
///
/// # Errors
/// As [`fit`]; a checkpoint that cannot be read or written, or is of another fit.
pub fn fit_watched(
    data: &TaskData,
    config: &IlsvmConfig,
    watch: &Watch<'_>,
) -> Result<MtIlsvmFit, RegBayesError> {
    fit_part(data, config, (watch, 1.0))
}

/// As [`fit_watched`], which is so much of all that `watch` hears of.
pub(super) fn fit_part(
    data: &TaskData,
    config: &IlsvmConfig,
    (watch, weight): (&Watch<'_>, f64),
) -> Result<MtIlsvmFit, RegBayesError> {
    let (fit, _) = fit_some(data, &data.tasks, config, (watch, weight))?;
    Ok(fit)
}

/// A fit of some tasks to rows with a target of any; without a task, of the features that the inputs have by themselves. Beside it what it began with.
pub(crate) fn fit_some(
    data: &TaskData,
    tasks: &[Task],
    config: &IlsvmConfig,
    (watch, weight): (&Watch<'_>, f64),
) -> Result<(MtIlsvmFit, PreparedTasks), RegBayesError> {
    let mut part = watch.part("fit", weight);
    let prepared = PreparedTasks::new_watched(data, config, &mut part)?;
    let key = fingerprint(&(&data.inputs, &data.tasks, config))?;
    let checkpoint = watch.checkpoint(CHECKPOINT, MtIlsvmFit::VERSION, key, 1)?;
    let mut run = prepared.run(tasks, config);
    let outcome = vb::run(&mut run.alternation, None, config, (&mut part, &checkpoint))?;
    let fit = run.finish(outcome);
    Ok((fit, prepared))
}

/// Name of the model in checkpoints.
const CHECKPOINT: &str = "npb-regbayes/mt-ilsvm/checkpoint";

/// Inputs in the units of a fit, and their features before labels are looked at (MT-IBP).
#[derive(Clone, Debug)]
pub struct PreparedTasks {
    pub(crate) core: Prepared,
    /// Mean and standard deviation of all real targets.
    pub(crate) units: (f64, f64),
}

impl PreparedTasks {
    /// Standardises the inputs and makes the sweeps without labels.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn new(data: &TaskData, config: &IlsvmConfig) -> Result<Self, RegBayesError> {
        Self::new_watched(data, config, &mut Watch::none().part("prepare", 1.0))
    }

    pub(crate) fn new_watched(
        data: &TaskData,
        config: &IlsvmConfig,
        part: &mut Part<'_, '_>,
    ) -> Result<Self, RegBayesError> {
        config.validate()?;
        let (inputs, rows) = (&data.inputs, data.training_rows());
        Ok(Self {
            core: Prepared::new(inputs, rows, config, Items::from_columns, filled, part)?,
            units: target_units(&data.tasks),
        })
    }

    /// The machine's problem for some targets of the training rows.
    pub(crate) fn problem(&self, tasks: &[Task], config: &IlsvmConfig) -> TaskProblem {
        let Prepared { inputs, rows, .. } = &self.core;
        let mut places = vec![0; inputs.ncols()];
        let training = rows.iter().enumerate();
        training.for_each(|(n, &row)| places[row] = n);
        TaskProblem {
            inputs: Mat::from_fn(inputs.nrows(), rows.len(), |d, n| inputs[(d, rows[n])]),
            appended: self.core.appended_rows(),
            goals: tasks
                .iter()
                .map(|task| Goal::new(task, &places, self.units, config))
                .collect(),
            slack: config.slack,
            epsilon: config.epsilon,
            ones: config.ones,
        }
    }

    /// Score of one row of the machine's inputs, in the units of the task.
    pub(crate) fn score(&self, task: &Task, weights: &[f64], row: &[f64], ones: f64) -> f64 {
        let (centre, scale) = match task.targets {
            TaskTargets::Real(_) => self.units,
            TaskTargets::Binary(_) => (0.0, 1.0),
        };
        centre + scale * score(weights, row, ones)
    }

    fn run<'d>(&'d self, tasks: &'d [Task], config: &'d IlsvmConfig) -> MtIlsvmVb<'d> {
        MtIlsvmVb {
            alternation: (self.core)
                .alternation(TaskMargins::new(self.problem(tasks, config)), config),
            prepared: self,
            tasks,
            config,
            trace: Vec::new(),
        }
    }
}

/// A run that is driven by hand: [`step`](Self::step) by step, or [`run`](Self::run) to its end.
///
/// ```
/// use npb_regbayes::IlsvmConfig;
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::npb_infer::Watch;
/// use npb_regbayes::tasks::{MtIlsvmVb, PreparedTasks, Task, TaskData};
/// let value = |n: usize, d: usize| ((n * (2 * d + 3) + d * d) % 7) as f64 - 3.0;
/// let inputs = Table::complete(40, 4, (0..160).map(|k| value(k / 4, k % 4)).collect())?;
/// let label = (0..40).map(|n| Some(value(n, 0) + value(n, 1) > 0.0)).collect::<Vec<_>>();
/// let data = TaskData::new(inputs, vec![Task::label("a", &label)])?;
/// let config = IlsvmConfig::default();
/// let prepared = PreparedTasks::new(&data, &config)?;
/// let mut run = MtIlsvmVb::new(&prepared, &data, &config)?;
/// let first = run.step()?;
/// assert!(run.step()? >= first - 1e-9);                  // minus the objective
/// let model = run.run(&Watch::none())?;
/// assert!(model.trace.len() >= 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MtIlsvmVb<'d> {
    prepared: &'d PreparedTasks,
    tasks: &'d [Task],
    config: &'d IlsvmConfig,
    alternation: Alternation<'d, TaskMargins>,
    trace: Vec<VbReport>,
}

impl<'d> MtIlsvmVb<'d> {
    /// Begins with the features of the inputs alone, and the machine on them (MT-IBP + SVM).
    ///
    /// # Errors
    /// Settings out of range, or for other data than those that were prepared.
    pub fn new(
        prepared: &'d PreparedTasks,
        data: &'d TaskData,
        config: &'d IlsvmConfig,
    ) -> Result<Self, RegBayesError> {
        config.validate()?;
        if data.training_rows() != prepared.core.rows
            || data.n_rows() != prepared.core.inputs.ncols()
        {
            return Err(RegBayesError::state(
                "the data are not those that were prepared",
            ));
        }
        let mut run = prepared.run(&data.tasks, config);
        run.alternation.solve()?;
        Ok(run)
    }

    fn finish(self, outcome: VbOutcome) -> MtIlsvmFit {
        let units = self.prepared.units;
        let solutions = self
            .alternation
            .labels
            .solutions
            .into_iter()
            .zip(self.tasks);
        let learned =
            |(solution, task): (Solution, &Task)| Learned::new(task, solution.weights, units);
        MtIlsvmFit {
            config: self.config.clone(),
            stop: outcome.stop,
            trace: outcome.trace,
            columns: self.prepared.core.columns.clone(),
            state: self.alternation.factors.state,
            tasks: solutions.map(learned).collect(),
            map: self.prepared.core.map.clone(),
            units,
        }
    }
}

driven!(MtIlsvmVb, MtIlsvmFit);

impl Learned {
    pub(crate) fn new(task: &Task, weights: Vec<f64>, (centre, scale): (f64, f64)) -> Self {
        let real = matches!(task.targets, TaskTargets::Real(_));
        Self {
            name: task.name.clone(),
            real,
            weights,
            centre: if real { centre } else { 0.0 },
            scale: if real { scale } else { 1.0 },
            threshold: 0.0,
        }
    }
}

/// `w'x`, the column of ones included.
fn score(weights: &[f64], row: &[f64], ones: f64) -> f64 {
    let (own, bias) = weights.split_at(row.len());
    bias.first().map_or(0.0, |b| b * ones) + npb_linalg::dot(row, own)
}

/// Mean and standard deviation of all real targets together.
fn target_units(tasks: &[Task]) -> (f64, f64) {
    let real = tasks.iter().filter_map(|task| match &task.targets {
        TaskTargets::Real(values) => Some(values),
        TaskTargets::Binary(_) => None,
    });
    centre_and_scale(&real.flatten().copied().collect::<Vec<_>>())
}

/// Inputs in standard units, D x N, with what the projection expects in the holes: `psi_d' E[w_n | x_n]`.
fn filled(state: &FeatureState, precision: f64, table: &Table) -> Result<Mat<f64>, RegBayesError> {
    let d = table.n_cols();
    let mut inputs = Mat::from_fn(d, table.n_rows(), |j, n| table.values()[n * d + j]);
    if table.n_missing() == 0 {
        return Ok(inputs);
    }
    let rows = columns_mut(&mut inputs).into_iter().enumerate();
    let outcome = parallel::try_map(rows, |(n, row)| {
        let seen: Vec<bool> = (0..d).map(|j| table.is_observed(n, j)).collect();
        if seen.iter().all(|&o| o) {
            return Ok(());
        }
        let mean = infer_mean(state, precision, row, &seen)
            .map_err(|e| RegBayesError::numerical(0, "loadings of a row with holes", &e))?;
        for j in (0..d).filter(|&j| !seen[j]) {
            row[j] = npb_linalg::dot(state.indicators.col_as_slice(j), &mean);
        }
        Ok(())
    });
    outcome.map(|_| inputs)
}

impl MtIlsvmFit {
    /// The posterior of the features: items are the input columns in use, observations the rows of the fit.
    pub fn state(&self) -> &FeatureState {
        &self.state
    }

    /// Which input columns are in use.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Rows in standard units, D x N, holes filled.
    pub(crate) fn filled(&self, inputs: &Table) -> Result<Mat<f64>, RegBayesError> {
        let table = self.columns.apply(inputs)?;
        let precision = self.config.factors.input_weight / self.state.noise_variance;
        filled(&self.state, precision, &table)
    }

    fn appended(&self, filled: &Mat<f64>) -> Result<Vec<f64>, RegBayesError> {
        appended(filled, self.map.as_ref(), self.config.raw_inputs)
    }

    /// Scores of rows, new or not. Holes are filled with what the projection expects there; a row without any observed entry gets the prior
    /// prediction (the bias).
    ///
    /// # Errors
    /// Other columns than those of the fit.
    pub fn predict(&self, inputs: &Table) -> Result<TaskScores, RegBayesError> {
        self.scores(&self.filled(inputs)?)
    }

    /// Those of rows in standard units, D x N, holes filled.
    pub(crate) fn scores(&self, filled: &Mat<f64>) -> Result<TaskScores, RegBayesError> {
        let rows = machine_rows(filled, &self.state.indicators, &self.appended(filled)?);
        let n_rows = filled.ncols();
        let width = rows.len() / n_rows.max(1);
        let score = |(n, task): (usize, &Learned)| {
            let row = &rows[n * width..(n + 1) * width];
            task.centre + task.scale * score(&task.weights, row, self.config.ones)
        };
        let values = (0..n_rows)
            .flat_map(|n| self.tasks.iter().map(move |task| (n, task)))
            .map(score)
            .collect();
        Ok(TaskScores {
            names: self.tasks.iter().map(|t| t.name.clone()).collect(),
            real: self.tasks.iter().map(|t| t.real).collect(),
            thresholds: self.tasks.iter().map(|t| t.threshold).collect(),
            calibrated: false,
            n_rows,
            values,
        })
    }

    /// The thresholds of the tasks.
    pub fn thresholds(&self) -> Vec<f64> {
        self.tasks.iter().map(|task| task.threshold).collect()
    }

    /// The same fit with other thresholds: a label is yes above its own.
    ///
    /// # Errors
    /// Another number than there are tasks; a threshold that is not finite.
    pub fn with_thresholds(mut self, thresholds: &[f64]) -> Result<Self, RegBayesError> {
        same_size("thresholds", thresholds.len(), self.tasks.len())?;
        if let Some(row) = thresholds.iter().position(|t| !t.is_finite()) {
            return Err(RegBayesError::row(
                "thresholds",
                row,
                thresholds[row],
                "finite",
            ));
        }
        for (task, &threshold) in self.tasks.iter_mut().zip(thresholds) {
            task.threshold = threshold;
        }
        Ok(self)
    }

    /// The same fit with one more task, learned on the projection as it is: its weights alone are new.
    ///
    /// Real targets are put into the units of those of the fit, if it had any, else into their own. Cost: one machine.
    ///
    /// # Errors
    /// Other columns than those of the fit; a task of a name that is there, without targets, or for rows that do not exist.
    pub fn with_task(mut self, inputs: &Table, task: &Task) -> Result<Self, RegBayesError> {
        let data = TaskData::new(inputs.clone(), vec![task.clone()])?;
        if self.tasks.iter().any(|other| other.name == task.name) {
            return Err(RegBayesError::state(format!(
                "there is a task called {} already",
                task.name
            )));
        }
        let filled = self.filled(inputs)?;
        let units = if self.tasks.iter().any(|task| task.real) {
            self.units
        } else {
            target_units(&data.tasks)
        };
        let places: Vec<usize> = (0..inputs.n_rows()).collect();
        let problem = TaskProblem {
            appended: self.appended(&filled)?,
            inputs: filled,
            goals: vec![Goal::new(task, &places, units, &self.config)],
            slack: self.config.slack,
            epsilon: self.config.epsilon,
            ones: self.config.ones,
        };
        let mut margins = TaskMargins::new(problem);
        margins.refit(&self.state.indicators, &self.config.machine, f64::INFINITY)?;
        let solutions = margins.solutions.into_iter();
        self.tasks
            .extend(solutions.map(|solution| Learned::new(task, solution.weights, units)));
        Ok(self)
    }

    /// Names of the tasks.
    pub fn task_names(&self) -> Vec<String> {
        self.tasks.iter().map(|task| task.name.clone()).collect()
    }

    /// What the features are: which input columns each one sums, which tasks it drives.
    pub fn features(&self) -> Vec<FeatureReport> {
        let weights = Mat::from_fn(self.tasks.len(), self.state.n_features(), |m, k| {
            self.tasks[m].weights[k]
        });
        let columns = &self.state.indicators;
        reports(
            &self.state,
            &self.columns,
            columns,
            &self.task_names(),
            &weights,
        )
    }

    pub(crate) fn check(&self) -> Result<(), RegBayesError> {
        let wrong = |what: &str| Err(RegBayesError::state(what));
        let (centre, scale) = self.units;
        if !(centre.is_finite() && scale.is_finite() && scale > 0.0) {
            return wrong("the units of the targets are not numbers");
        }
        if !self.trace.iter().all(|report| report.elbo.is_finite()) {
            return wrong("a bound in the trace is no number");
        }
        let state = (&self.state, self.state.n_items());
        let width = check_fit(&self.config, &self.columns, state, self.map.as_ref())?;
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

saved!(MtIlsvmFit, "npb-regbayes/mt-ilsvm");
