//! The result of a fit of many tasks, and what can be asked of it.

use std::ops::ControlFlow;

use npb_data::{Labels, Table};
use npb_infer::{Saved, Stop, VbReport, stream};
use npb_linalg::faer::{Mat, Scale};
use npb_priors::dist::pick;
use rand::{Rng, RngExt};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::config::{TaskStart, TasksConfig};
use super::data::{MultiTaskData, Task, TrainingTasks, in_task};
use super::fold::{Atoms, fold};
use super::run::{TaskRun, logs, plan};
use super::stacking::votes;
use super::state::{Gaussians, MultiTaskState};
use super::vb::{INACTIVE, MultiTaskVb};
use crate::answers::{
    ALL_CLASSES, ALL_INTERVALS, check_draws, check_level, class_intervals, most_probable,
    of_second_class, with_first_class,
};
use crate::config::FeatureScale;
use crate::data::{class_of_rows, distinct, two_classes};
use crate::predict::{Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::runs::{check_part, check_total, run_all, weigh};
use crate::scales::{self, ByScale, Planned, Scores, planned};
use crate::stacking::{self, FoundFrom, Vote, Votes};
use crate::state::Component;
use crate::units::Units;
use crate::{
    ClassifierSummary, Evaluation, Imputation, IqgmeData, IqgmeError, MissingCell,
    ProbabilityInterval,
};

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 12;
const PICK: u64 = 15;
const IMPUTE: u64 = 16;

/// Fits all tasks together: prepares the data and makes every run that `config.starts` and `summary_starts`, `config.single.restarts` and `normal_scores` ask for.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{Task, TasksConfig, fit_tasks};
///
/// // Two machines with one sensor each: both fail when it reads high. The second has but one labelled row; NaN marks a hole.
/// let gap = f64::NAN;
/// let old = Table::from_nan_coded(6, 2, &[-2.0, 0.1, -1.5, gap, -1.8, 0.3, 1.7, -0.2, 2.1, 0.4, gap, 0.2])?;
/// let new = Table::from_nan_coded(2, 2, &[-1.9, 0.2, 1.8, 0.1])?;
/// let old_labels = Labels::from_strings(&["good", "good", "good", "fails", "fails", "fails"].map(Some));
/// let new_labels = Labels::from_strings(&[Some("good"), None]);
/// let tasks = [
///     Task { name: "old", table: &old, labels: &old_labels },
///     Task { name: "new", table: &new, labels: &new_labels },
/// ];
/// let model = fit_tasks(&tasks, &TasksConfig::default())?;
/// let rows = Table::from_nan_coded(2, 2, &[2.0, gap, -2.0, 0.0])?;
/// let probability = model.predict_proba("new", &rows)?;
/// assert_eq!(model.classes(), ["fails", "good"]);
/// assert!(probability[1] > probability[0]);
/// assert_eq!(model.similarity().nrows(), 2);
/// // What the second sensor of the new machine may have read, and how sure that is.
/// let imputed = model.impute("new", &rows)?;
/// assert!(imputed.completed.get(0, 1).is_some() && imputed.sd.get(0, 1) > Some(0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cost: with labels the runs for predictions are made `config.single.folds` times more, with at most 30 iterations each, to find their weights. Errors: see [`MultiTaskData::new`]. Runs are made in parallel on the caller's rayon pool, and so are the tasks within a run; the result does not
/// depend on the number of threads.
pub fn fit_tasks(tasks: &[Task<'_>], config: &TasksConfig) -> Result<MultiTaskFit, IqgmeError> {
    let training = TrainingTasks::of(tasks, config)?;
    let runs = make_runs(&training, config, |_, planned, restart| {
        let data = training.data.on(planned.scale);
        let mut vb = MultiTaskVb::new(data, config.clone(), planned.start, restart)?;
        let outcome = vb.run(|_, _| ControlFlow::Continue(()))?;
        TaskRun::new(planned, outcome, vb)
    })?;
    let votes = votes(tasks, &training, config, None)?;
    MultiTaskFit::new(training, config.clone(), runs, votes)
}

/// All runs that the configuration asks for, those for predictions first, in parallel: `make` gets the number of the run, its scale and start, and its restart.
pub(super) fn make_runs(
    training: &TrainingTasks,
    config: &TasksConfig,
    make: impl Fn(usize, Planned<TaskStart>, u64) -> Result<TaskRun, IqgmeError> + Sync,
) -> Result<Vec<TaskRun>, IqgmeError> {
    let mut runs = plan(training, config);
    runs.extend(planned(&config.summary_starts, false));
    run_all(&runs, config.single.restarts, make)
}

/// An atom in the user's units: what groups of the tasks share.
#[derive(Clone, Debug, PartialEq)]
pub struct AtomSummary {
    /// Expected number of groups, of all tasks together, that point at it.
    pub groups: f64,
    /// Expected number of training rows behind its Gaussian: those of its groups, or of all tasks where all atoms have one Gaussian ([`Gaussians::Common`]).
    pub size: f64,
    /// Posterior mean of its mean, for the columns of [`MultiTaskFit::model_columns`].
    pub mean: Vec<f64>,
    /// Posterior mean of its covariance.
    pub covariance: Mat<f64>,
    /// Its classifier; none without labels or with more than two classes.
    pub classifier: Option<ClassifierSummary>,
    /// With more than two classes: the classifiers of all classes but the first, by utility. Empty with two classes.
    pub utilities: Vec<ClassifierSummary>,
}

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wire {
    config: TasksConfig,
    units: Units,
    /// Where there are runs on them.
    scores: Option<Scores>,
    classes: Vec<String>,
    tasks: Vec<String>,
    foretold: FoundFrom,
    /// Those that predictions average over, those for predictions that have no weight, those for summaries; of each those on normal scores last, and the best first.
    runs: Vec<TaskRun>,
}

/// A fitted model of many tasks. Questions name the task; tables are in the user's units, columns in the order of training.
///
/// Predictions of labels average over the runs by their weights; atoms, the tasks' weights of them, similarities, densities and missing cells are those of the
/// [best](Self::best) run.
#[derive(Clone, Debug)]
pub struct MultiTaskFit {
    wire: Wire,
    /// One for each run that has weight: its atoms, and one that stands for all at the prior.
    predictors: Vec<Predictor>,
    /// The same of the best run, for questions about features.
    features: Predictor,
}

impl MultiTaskFit {
    pub(super) fn new(
        TrainingTasks { data, scores }: TrainingTasks,
        config: TasksConfig,
        mut runs: Vec<TaskRun>,
        votes: Option<Votes>,
    ) -> Result<Self, IqgmeError> {
        let data = data.own;
        let by_votes = votes.is_some();
        let foretold = votes
            .as_ref()
            .map_or(FoundFrom::NOTHING, |v| v.from.clone());
        for (run, vote) in runs.iter_mut().zip(votes.into_iter().flat_map(|v| v.each)) {
            run.weight = vote.weight;
            (run.sharpness, run.shifts) = (vote.surety.sharpness, vote.surety.shifts);
        }
        let mut summaries =
            runs.split_off(runs.len() - config.summary_starts.len() * config.single.restarts);
        let mut on_scores = runs.split_off(config.starts.len() * config.single.restarts);
        let weights = |runs: &mut [TaskRun]| {
            let n_observed = data.pooled.n_observed();
            weigh(runs, TaskRun::elbo, config.single.averaging, n_observed)
        };
        weights(&mut summaries);
        weights(&mut on_scores);
        let by_bound = weights(&mut runs);
        if !by_votes {
            for (run, weight) in runs.iter_mut().zip(by_bound) {
                run.weight = weight;
            }
        }
        runs.extend(on_scores);
        runs.sort_by_key(|run| run.weight == 0.0);
        runs.extend(summaries);
        Self::from_wire(Wire {
            config,
            units: Units::of(&data.pooled),
            scores,
            classes: data.pooled.classes,
            tasks: data.names,
            foretold,
            runs,
        })
    }

    fn from_wire(wire: Wire) -> Result<Self, IqgmeError> {
        let predictors = wire
            .runs
            .iter()
            .take_while(|run| run.weight > 0.0)
            .map(TaskRun::predictor)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            features: best(&wire.runs).predictor()?,
            wire,
            predictors,
        })
    }

    /// The runs that have weight, with their predictors.
    fn weighed(&self) -> impl Iterator<Item = (&TaskRun, &Predictor)> {
        self.wire.runs.iter().zip(&self.predictors)
    }

    /// Class names; with two, probabilities are of the second. Empty for a fit without labels.
    pub fn classes(&self) -> &[String] {
        &self.wire.classes
    }

    /// Names of the tasks, in the order of training.
    pub fn tasks(&self) -> &[String] {
        &self.wire.tasks
    }

    /// Names of all columns of the training tables.
    pub fn column_names(&self) -> &[String] {
        self.wire.units.column_names()
    }

    /// Columns in the model, as positions in the training tables.
    pub fn model_columns(&self) -> &[usize] {
        &self.wire.units.active
    }

    /// Columns left out of the model: constant in training, all tasks together, or without any observed value.
    pub fn ignored_columns(&self) -> Vec<usize> {
        self.wire.units.ignored_columns()
    }

    /// The configuration of the fit.
    pub fn config(&self) -> &TasksConfig {
        &self.wire.config
    }

    /// All runs: those that predictions average over, those for predictions that have no weight, those for summaries; of each those on normal scores last, in order of their bounds.
    pub fn runs(&self) -> &[TaskRun] {
        &self.wire.runs
    }

    /// The run with the highest bound of those on the features' own scale whose atoms have Gaussians of their own; of all on that scale, if none has. (A run in which all have one is of another
    /// model of the features, and what it says of the tasks is of their labels alone.)
    pub fn best(&self) -> &TaskRun {
        best(&self.wire.runs)
    }

    /// The variational posterior of the [best](Self::best) run, in standardised units.
    pub fn state(&self) -> &MultiTaskState {
        &self.best().state
    }

    /// Bound and relative change of the [best](Self::best) run, iteration by iteration.
    pub fn trace(&self) -> &[VbReport] {
        &self.best().trace
    }

    /// Why the [best](Self::best) run ended.
    pub fn stop(&self) -> &Stop {
        &self.best().stop
    }

    fn position(&self, task: &str) -> Result<usize, IqgmeError> {
        let found = self.wire.tasks.iter().position(|name| name == task);
        found.ok_or_else(|| IqgmeError::UnknownTask {
            task: task.to_owned(),
            tasks: self.wire.tasks.clone(),
        })
    }

    /// Probability of the second class for each row of a task, by the same rules as [`predict_classes`](Self::predict_classes).
    ///
    /// Errors: as there; a fit with more than two classes.
    pub fn predict_proba(&self, task: &str, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        self.position(task)?;
        two_classes(&self.wire.classes, "predict_proba", ALL_CLASSES)?;
        let all = self.predict_classes(task, table)?;
        Ok(all.into_iter().map(|of_row| of_row[1]).collect())
    }

    /// Probabilities of all classes, for each row of a task in the order of [`classes`](Self::classes): atoms weighed by the task's own weights and as
    /// normal densities of the observed features at the posterior means; experts and missing features integrated out by moment matching; each run as sure as its
    /// [`sharpness`](TaskRun::sharpness) and [`shifts`](TaskRun::shifts) say.
    ///
    /// Cost for each row: `S P^2`, and `S min(|o|, |m|)^3` for each missing pattern; with more than two classes an integral for each atom, seven where cells are missing. Errors: no such task, other columns than in training, a fit
    /// without labels.
    pub fn predict_classes(&self, task: &str, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let j = self.position(task)?;
        self.classifies()?;
        let by_run = self.by_run(j, &self.rows_by_scale(task, table)?)?;
        Ok(self.average(&by_run, &self.extents(table)))
    }

    /// An error for a fit without labels.
    fn classifies(&self) -> Result<(), IqgmeError> {
        if self.wire.classes.is_empty() {
            return Err(IqgmeError::Unlabelled);
        }
        Ok(())
    }

    /// Probabilities of the classes for each row of task `j` by each run that has weight, before they are sharpened: run, row, class.
    fn by_run(&self, j: usize, rows: &ByScale<Rows>) -> Result<Vec<Vec<Vec<f64>>>, IqgmeError> {
        self.weighed()
            .map(|(run, predictor)| run.probabilities(predictor, j, rows.on(run.scale)))
            .collect()
    }

    /// How far the rows of a table let runs be put right.
    fn extents(&self, table: &Table) -> Vec<f64> {
        let wire = &self.wire;
        wire.foretold.extents(table, &wire.units.active)
    }

    /// The average of the runs that have weight, each put right as far as rows let it.
    fn average(&self, by_run: &[Vec<Vec<f64>>], extents: &[f64]) -> Vec<Vec<f64>> {
        let runs = self.weighed().map(|(run, _)| Vote {
            weight: run.weight,
            surety: self.wire.foretold.surety(run.sharpness, &run.shifts),
        });
        stacking::average(runs.zip(by_run), extents)
    }

    /// The most probable class of each row of a task.
    pub fn predict(&self, task: &str, table: &Table) -> Result<Vec<&str>, IqgmeError> {
        let classes = &self.wire.classes;
        let name = |probabilities: Vec<f64>| classes[most_probable(&probabilities)].as_str();
        let probabilities = self.predict_classes(task, table)?;
        Ok(probabilities.into_iter().map(name).collect())
    }

    /// How well the labelled rows of a task are predicted.
    ///
    /// Errors: as [`predict_classes`](Self::predict_classes); another number of labels than rows, no labelled row, a label that is not a class of the fit.
    pub fn evaluate(
        &self,
        task: &str,
        table: &Table,
        labels: &Labels,
    ) -> Result<Evaluation, IqgmeError> {
        self.position(task)?;
        self.classifies()?;
        let classes = class_of_rows(table, labels, &self.wire.classes)
            .map_err(|source| in_task(task, source))?;
        Evaluation::new(&self.predict_classes(task, table)?, &classes)
            .map_err(|source| in_task(task, source))
    }

    /// Log predictive density of the observed features of each row of a task, in the user's units; low values are anomalies. Zero for a row without any.
    ///
    /// It is that of the [best](Self::best) run, as of [`cells_by_row`](Self::cells_by_row). Cost and errors: as there.
    pub fn ln_density(&self, task: &str, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        let predictor = self.of_task(task)?;
        let rows = self.rows(task, table)?;
        let standardised = predictor.ln_density(&rows, Gate::Marginal)?;
        Ok(self.wire.units.ln_density(table, standardised))
    }

    /// Completes rows of a task: posterior mean and standard deviation of every missing cell given the observed cells of its row, by the same rules as
    /// [`cells_by_row`](Self::cells_by_row).
    ///
    /// Hide columns first ([`Table::hide`]) to get the conditional distribution of any columns given any others. A constant column is completed by its constant;
    /// a column that had no observed value in training stays missing.
    pub fn impute(&self, task: &str, table: &Table) -> Result<Imputation, IqgmeError> {
        let cells = self.cells_by_row(task, table)?;
        let imputed = self.wire.units.impute(table, cells);
        imputed.map_err(|source| in_task(task, source))
    }

    /// `draws` completed tables of rows of a task, each a joint draw from the distributions of [`cells_by_row`](Self::cells_by_row), for multiple imputation.
    pub fn impute_draws(
        &self,
        task: &str,
        table: &Table,
        draws: usize,
    ) -> Result<Vec<Table>, IqgmeError> {
        let j = self.position(task)? as u64;
        let predictor = self.of_task(task)?;
        let rows = self.rows(task, table)?;
        let seed = self.wire.config.single.seed;
        self.wire.units.impute_draws(table, draws, |draw| {
            let rng = |row: usize| stream(seed, [j, draw as u64, IMPUTE, row as u64]);
            predictor.draw_missing(&rows, Gate::Marginal, rng)
        })
    }

    /// For each row of a task its missing cells given its observed cells, by column, in the user's units; columns that are not in the model are left out.
    ///
    /// Each is a mixture of Student-t, one for each atom and one for all atoms at the prior, weighed by the task's own [weights](Self::task_weights) and by how
    /// probable the observed cells are under the atoms. All is of the [best](Self::best) run, not averaged: weights of runs say who predicts labels, and runs by
    /// labels ([`Gaussians::Common`]) are of another model of the features, with one Gaussian for all tasks; they answer only if there are no others. Rows are taken
    /// for new ones: a row of training is used twice for its own holes, which come out somewhat too sure.
    ///
    /// Cost for each row: `S P^2`, and `S min(|o|, |m|)^3` for each missing pattern; rows in parallel. Errors: no such task, other columns than in training.
    pub fn cells_by_row(
        &self,
        task: &str,
        table: &Table,
    ) -> Result<Vec<Vec<MissingCell>>, IqgmeError> {
        let predictor = self.of_task(task)?;
        let rows = self.rows(task, table)?;
        let terms = predictor.missing_cells(&rows, Gate::Marginal)?;
        Ok(self.wire.units.cells(table, terms))
    }

    /// The atoms of the best run with a task's weights.
    fn of_task(&self, task: &str) -> Result<Predictor, IqgmeError> {
        let weights = self.task_weights(task)?;
        Ok(self.features.with_weights(logs(weights)))
    }

    /// Probabilities of the second of two classes with central intervals, as [`predict_class_intervals`](Self::predict_class_intervals) has them of all classes.
    /// Errors: as there; a fit with more than two classes.
    pub fn predict_interval(
        &self,
        task: &str,
        table: &Table,
        level: f64,
        draws: usize,
    ) -> Result<Vec<ProbabilityInterval>, IqgmeError> {
        check_level(level)?;
        check_draws(draws, 2)?;
        self.position(task)?;
        two_classes(&self.wire.classes, "predict_interval", ALL_INTERVALS)?;
        let all = self.predict_class_intervals(task, table, level, draws)?;
        Ok(of_second_class(all))
    }

    /// Probabilities of all classes, for each row of a task in the order of [`classes`](Self::classes), with central intervals that hold `level` of the
    /// posterior, by `draws` draws of all parameters; these are put right as the probabilities of their run are, so that they spread around what is foretold, on the scale of log odds as wide as they were
    /// or, where the run was not sure enough, wider.
    ///
    /// Cost: `draws` times that of [`predict_classes`](Self::predict_classes), and as many numbers are kept. Errors: as there; a `level` that is not between 0 and 1 (both
    /// excluded), fewer than two draws.
    pub fn predict_class_intervals(
        &self,
        task: &str,
        table: &Table,
        level: f64,
        draws: usize,
    ) -> Result<Vec<Vec<ProbabilityInterval>>, IqgmeError> {
        check_level(level)?;
        check_draws(draws, 2)?;
        let j = self.position(task)?;
        self.classifies()?;
        let rows = self.rows_by_scale(task, table)?;
        let by_run = self.by_run(j, &rows)?;
        let extents = self.extents(table);
        let drawn: Vec<Vec<Vec<f64>>> = (0..draws as u64)
            .into_par_iter()
            .map(|draw| {
                let (k, run, predictor) = self.pick(draw);
                let mut rng = stream(self.wire.config.single.seed, [j as u64, draw, INTERVAL, 0]);
                let weights = draw_weights(&run.state, j, &mut rng);
                let components = run.state.all_components();
                let shared = run.state.gaussians == Gaussians::Common;
                let experts = predictor.experts();
                let drawn =
                    predictor.draw_parts(&components, experts, &weights, shared, &mut rng)?;
                let rows = rows.on(run.scale);
                let others = drawn.probabilities(rows, Experts::AtMeans)?;
                let drawn = with_first_class(others);
                Ok(self
                    .wire
                    .foretold
                    .surety(run.sharpness, &run.shifts)
                    .moved_all(drawn, &by_run[k], &extents))
            })
            .collect::<Result<_, IqgmeError>>()?;
        let means = self.average(&by_run, &extents);
        Ok(class_intervals(means, &drawn, level))
    }

    /// One of the runs that have weight and its place among them (they come first of all runs), drawn by weight.
    fn pick(&self, draw: u64) -> (usize, &TaskRun, &Predictor) {
        let u = stream(self.wire.config.single.seed, [0, draw, PICK, 0]).random();
        let weights = self.weighed().map(|(run, _)| run.weight);
        let chosen = pick(weights, u).unwrap_or(0);
        (chosen, &self.wire.runs[chosen], &self.predictors[chosen])
    }

    /// The atoms of the best run in the user's units, in the order of [`task_weights`](Self::task_weights): those that groups of more tasks point at first.
    pub fn atoms(&self) -> Vec<AtomSummary> {
        let (state, units) = (self.state(), &self.wire.units);
        let base = self.wire.config.single.mean_strength;
        let n_utilities = state.n_utilities();
        let masses = state.atom_masses();
        let summary = |(s, component): (usize, &Component)| {
            let (mean, covariance) = units.gaussian(component);
            let experts = &state.experts[s * n_utilities..][..n_utilities];
            let (classifier, utilities) = units.classifiers(experts);
            AtomSummary {
                groups: masses[s],
                size: component.strength - base,
                mean,
                covariance,
                classifier,
                utilities,
            }
        };
        state.components.iter().enumerate().map(summary).collect()
    }

    /// Posterior mean of the weights of the atoms (of the best run) in a task, `sum_h <pi_jh> sigma_jhs`; the last entry is of all atoms without rows.
    pub fn task_weights(&self, task: &str) -> Result<Vec<f64>, IqgmeError> {
        Ok(self.state().weights(self.position(task)?))
    }

    /// How alike the tasks are in the best run: `exp(-D)`, with `D` the mean of the two divergences (Kullback-Leibler) between the tasks' weights of
    /// the atoms. J x J, symmetric, ones on the diagonal.
    pub fn similarity(&self) -> Mat<f64> {
        let n = self.wire.tasks.len();
        let weights: Vec<Vec<f64>> = (0..n).map(|j| self.state().weights(j)).collect();
        Mat::from_fn(n, n, |i, j| (-divergence(&weights[i], &weights[j])).exp())
    }

    /// Adds a task that was not in training, in this fit's units, columns and classes; the other tasks stay as they are.
    ///
    /// Its groups point at the atoms that the fit has; `atoms` says whether these learn from its rows. Labels may be of one class, or missing. Errors: a
    /// name that a task has, other columns than in training, a label that the fit does not know, a value more than a million standard deviations (of the fit's
    /// units) from the mean of its column.
    pub fn with_task(&self, task: &Task<'_>, atoms: Atoms) -> Result<Self, IqgmeError> {
        if self.position(task.name).is_ok() {
            return Err(IqgmeError::SameName {
                task: task.name.to_owned(),
            });
        }
        let mut wire = self.wire.clone();
        // The covariance of the rows of training is the prior's scale matrix, but for its scale.
        let state = self.state();
        let units = IqgmeData {
            rows: Rows::of_features(wire.units.active.len()),
            standardiser: wire.units.standardiser.clone(),
            active: wire.units.active.clone(),
            classes: wire.classes.clone(),
            covariance: &state.vacant.scale_inverse * Scale(1.0 / state.prior_scale),
            n_labelled: usize::from(!wire.classes.is_empty()),
        };
        let mut data = MultiTaskData::in_units(std::slice::from_ref(task), units)?;
        data.pooled.rows.clone_from(&data.tasks[0].rows);
        let on_scores = |scores: &Scores| {
            let tasks = std::slice::from_ref(task);
            let mut data = MultiTaskData::scored(tasks, scores, scores.no_rows(&wire.classes))?;
            data.pooled.rows.clone_from(&data.tasks[0].rows);
            Ok::<_, IqgmeError>(data)
        };
        let data = ByScale {
            scores: wire.scores.as_ref().map(on_scores).transpose()?,
            own: data,
        };
        wire.tasks.push(task.name.to_owned());
        for run in &mut wire.runs {
            run.state = fold(data.on(run.scale), &wire.config, &run.state, atoms)
                .map_err(|source| in_task(task.name, source))?;
        }
        Self::from_wire(wire)
    }

    /// Rows of a task on each scale.
    fn rows_by_scale(&self, task: &str, table: &Table) -> Result<ByScale<Rows>, IqgmeError> {
        let rows = scales::rows(&self.wire.units, self.wire.scores.as_ref(), table);
        rows.map_err(|source| in_task(task, source))
    }

    /// Rows of a task, whose name goes along with errors.
    fn rows(&self, task: &str, table: &Table) -> Result<Rows, IqgmeError> {
        let rows = self.wire.units.rows(table);
        rows.map_err(|source| in_task(task, source))
    }
}

/// The run that [`MultiTaskFit::best`] speaks of; of equal ones the first.
fn best(runs: &[TaskRun]) -> &TaskRun {
    let rank = |run: &TaskRun| {
        let own_scale = run.scale == FeatureScale::Standardised;
        let own_gaussians = run.state.gaussians == Gaussians::Own;
        (own_scale, own_gaussians, run.elbo())
    };
    let better = |best, run| {
        if rank(run) > rank(best) { run } else { best }
    };
    runs.iter().fold(&runs[0], better)
}

impl Saved for MultiTaskFit {
    const MODEL: &'static str = "npb-iqgme/tasks";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Wire;
    type Error = IqgmeError;

    fn content(&self) -> &Wire {
        &self.wire
    }

    fn from_content(wire: Wire) -> Result<Self, IqgmeError> {
        let saved = |what: String| IqgmeError::Saved { what };
        wire.config.validate()?;
        wire.units.check().map_err(saved)?;
        if wire.classes.len() == 1 || wire.runs.is_empty() || wire.tasks.is_empty() {
            return Err(saved(
                "classes, tasks or runs: impossible number".to_owned(),
            ));
        }
        distinct(&wire.classes).map_err(|twice| saved(twice.to_string()))?;
        wire.foretold.check(wire.classes.len()).map_err(saved)?;
        check_total("weights", wire.runs.iter().map(|run| run.weight)).map_err(saved)?;
        if let Some(k) = (1..wire.tasks.len()).find(|&k| wire.tasks[..k].contains(&wire.tasks[k])) {
            return Err(saved(format!("task {:?} twice", wire.tasks[k])));
        }
        if let Some(scores) = &wire.scores {
            scores.check(&wire.units).map_err(saved)?;
        }
        let own_scale = |run: &TaskRun| run.scale == FeatureScale::Standardised;
        if !wire.runs.iter().any(own_scale)
            || (wire.scores.is_none() && !wire.runs.iter().all(own_scale))
        {
            return Err(saved("scales of the runs".to_owned()));
        }
        for (k, run) in wire.runs.iter().enumerate() {
            check_part(
                k,
                run.weight,
                &wire.foretold.surety(run.sharpness, &run.shifts),
                wire.classes.len(),
            )
            .map_err(saved)?;
            let truncations = [wire.config.single.truncation, wire.config.atoms];
            run.state
                .check(
                    wire.units.active.len(),
                    wire.tasks.len(),
                    wire.classes.len().saturating_sub(1),
                    truncations,
                )
                .map_err(saved)?;
        }
        Self::from_wire(wire)
    }
}

/// One draw of the weights by which a class probability of task `j` weighs the atoms.
fn draw_weights(state: &MultiTaskState, j: usize, rng: &mut impl Rng) -> Vec<f64> {
    let task = &state.tasks[j];
    let mut pi = vec![0.0; task.sticks.truncation()];
    task.sticks.sample_weights(&mut pi, rng);
    let mut eta = vec![0.0; state.top.truncation()];
    state.top.sample_weights(&mut eta, rng);
    let mut weights = state.vacant_weights(j, &pi, &eta, Gate::AtMeans);
    for (indicator, pi) in task.indicators.iter().zip(pi) {
        let mut u: f64 = rng.random();
        let mut chosen = 0;
        for (s, sigma) in indicator.iter().enumerate().filter(|(_, s)| **s > 0.0) {
            chosen = s;
            u -= sigma;
            if u < 0.0 {
                break;
            }
        }
        weights[chosen] += pi;
    }
    weights
}

/// Mean of the two Kullback-Leibler divergences between two discrete distributions. What has no weight counts as next to none: at the truncation a task may
/// leave nothing to the other atoms, and tasks without a common atom are as different as can be.
fn divergence(p: &[f64], q: &[f64]) -> f64 {
    let positive = |weight: &f64| weight.max(INACTIVE);
    let each = p.iter().map(positive).zip(q.iter().map(positive));
    each.map(|(p, q)| 0.5 * (p - q) * (p.ln() - q.ln())).sum()
}
