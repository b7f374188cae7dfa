//! The result of a fit of many tasks, and what can be asked of it.

use npb_data::Table;
use npb_infer::{Interval, Variational, VbOutcome, VbRun, Watch, storage};
use npb_linalg::faer::{Mat, Scale};
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::config::{TaskInit, TasksConfig};
use super::data::{MultiTaskData, in_task};
use super::new_task::add_task;
use super::state::{Gaussians, MultiTaskState};
use super::vb::{INACTIVE, MultiTaskVb};
use crate::answers::with_first_class;
use crate::config::FeatureScale;
use crate::data::{Task, fingerprint};
use crate::ensemble::member::{self, DRAWS, Member, Part, check_members};
use crate::ensemble::members::{Ensemble, Plan, rows_left_out, trained};
use crate::ensemble::questions::{Draws, Fit, Stored, Variant};
use crate::ensemble::scales;
use crate::ensemble::stacking::Without;
use crate::ensemble::train::{Model, Planned};
use crate::predict::{Experts, Gate, Predictor};
use crate::prior::Prior;
use crate::rows::Rows;
use crate::state::{Component, Expert, expect};
use crate::units::Units;
use crate::{ClassifierSummary, IqgmeData, IqgmeError, Result};

/// Key of the random streams of intervals.
const INTERVAL: u64 = 12;

/// Fits all tasks together: prepares the data and makes every run that `config.starts`, `config.single.restarts` and `normal_scores` ask for.
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
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cost: with labels the runs for predictions are made `config.single.folds` times more, with at most 30 iterations each, to find their weights. Errors: see [`MultiTaskData::new`]. Runs are made in parallel on the caller's rayon pool, and so are the tasks within a run; the result does not
/// depend on the number of threads.
pub fn fit_tasks(tasks: &[Task<'_>], config: &TasksConfig) -> Result<MultiTaskFit> {
    fit_tasks_watched(tasks, config, &Watch::none())
}

/// As [`fit_tasks`], watched: see [`fit_watched`](crate::fit_watched).
pub fn fit_tasks_watched(
    tasks: &[Task<'_>],
    config: &TasksConfig,
    watch: &Watch<'_>,
) -> Result<MultiTaskFit> {
    let data = Tasks::data(tasks, config, None)?;
    let settings = Plan {
        starts: &config.starts,
        restarts: config.single.restarts,
        folds: config.single.folds,
        seed: config.single.seed,
        elbo_temperature: config.single.elbo_temperature,
        elsewhere: None,
        limits: config.single.limits,
    };
    let mut members = trained::<Tasks>(tasks, &data, config, &settings, watch)?;
    members.sort_by_key(|member| member.stacking_weight == 0.0);
    let stored = Stored {
        config: config.clone(),
        classes: data[0].pooled.classes.clone(),
        trained: Trained {
            tasks: data[0].names.clone(),
            members,
        },
        units: data.into_iter().map(|data| data.pooled.units).collect(),
    };
    Fit::new(stored, ())
}

/// The model of many tasks.
#[derive(Clone, Debug)]
pub struct Tasks;

/// A fitted model of many tasks. Questions name the task; tables are in the user's units, columns in the order of training.
///
/// Class probabilities average over the runs by their stacking weights, each calibrated ([`TaskMember::calibration`]); in a run atoms are weighed by the task's own weights and as normal
/// densities of the observed features at the posterior means, experts and missing features are integrated out by moment matching. Atoms, the tasks' weights of them and similarities are those of the
/// [best](Self::best) member: the one with the highest bound of those on the features' own scale whose atoms have Gaussians of their own, or of all on that scale, if none has (one in which all have one
/// is of another model of the features, and what it says of the tasks is of their labels alone). Members are listed by whether they weigh in class probabilities, then by scale and bound.
pub type MultiTaskFit = Fit<Tasks>;

/// A run over many tasks.
pub type TaskMember = Member<TaskInit, MultiTaskState, ()>;

impl TaskMember {
    /// Its atoms and one that stands for all at the prior. The weights are to be replaced by a task's.
    fn predictor(&self) -> Result<Predictor> {
        let state = &self.state;
        let components = state.all_components();
        let mut experts = state.experts.clone();
        if !experts.is_empty() {
            experts.extend(Expert::all_at_prior(
                &state.expert_prior,
                state.n_utilities(),
            ));
        }
        let weights = vec![0.0; components.len()];
        Predictor::from_parts(&components, &experts, weights).map_err(self.failed())
    }

    /// The atoms with the weights of task `j`, for class probabilities.
    fn predictor_of(&self, predictor: &Predictor, j: usize) -> Predictor {
        let weights = self.state.gate_weights(j, Gate::AtMeans).into_iter();
        predictor.with_weights(weights.map(f64::ln).collect())
    }
}

/// What is stored of a fit, beside settings, units by scale and classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trained {
    tasks: Vec<String>,
    /// Those that class probabilities average over, then those that have no weight; of each those on normal scores last, and the best first.
    members: Vec<TaskMember>,
}

impl Variant for Tasks {
    const MODEL: &'static str = "npb-iqgme/tasks/2";
    type Config = TasksConfig;
    type Units = Vec<Units>;
    type Trained = Trained;
    type Rows = ();
    /// Of each run that has weight its atoms, and one that stands for all at the prior.
    type Derived = Vec<Predictor>;

    fn check(stored: &Stored<Self>) -> Result<()> {
        stored.config.validate()?;
        let Trained { tasks, members } = &stored.trained;
        check_members(members, stored.classes.len())?;
        expect(!tasks.is_empty(), "number of tasks")?;
        if let Some(k) = (1..tasks.len()).find(|&k| tasks[..k].contains(&tasks[k])) {
            return Err(IqgmeError::saved(format!("task {:?} twice", tasks[k])));
        }
        let known = |member: &TaskMember| member.scale.index() < stored.units.len();
        let own_scale = |member: &TaskMember| member.scale == FeatureScale::Standardised;
        let scales = members.iter().all(known) && members.iter().any(own_scale);
        expect(scales, "scales")?;
        let weighs = members[0].stacking_weight > 0.0;
        expect(weighs, "weight of the first member")?;
        let truncations = [stored.config.single.truncation, stored.config.atoms];
        let (p, n_utilities) = (stored.n_features(), stored.n_utilities());
        let mut each = members.iter();
        each.try_for_each(|run| run.state.check(p, tasks.len(), n_utilities, truncations))
    }

    fn derive(stored: &Stored<Self>) -> Result<Vec<Predictor>> {
        let members = stored.trained.members.iter();
        let weighed = members.take_while(|run| run.stacking_weight > 0.0);
        weighed.map(TaskMember::predictor).collect()
    }

    fn probabilities(fit: &MultiTaskFit, j: usize, table: &Table) -> Result<Vec<Vec<f64>>> {
        let rows = fit.rows_by_scale(j, table)?;
        Ok(member::class_probabilities(&fit.parts(j, &rows)?))
    }
}

impl Draws for Tasks {
    fn intervals(
        fit: &MultiTaskFit,
        j: usize,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>> {
        let rows = fit.rows_by_scale(j, table)?;
        let key = (fit.config().single.seed, j as u64, INTERVAL);
        member::intervals(&fit.parts(j, &rows)?, level, DRAWS, key)
    }
}

impl Model for Tasks {
    type Data = MultiTaskData;
    type Init = TaskInit;
    type State = MultiTaskState;
    type Vb<'d> = MultiTaskVb<'d>;
    const FILE: &'static str = "npb-iqgme/tasks/run/3";
    /// Tasks come to agree later than the rows of one.
    const FOLD_ITERATIONS: u64 = 30;

    fn begin<'d>(
        data: &'d MultiTaskData,
        config: TasksConfig,
        (start, restart): (TaskInit, u64),
        reached: Option<VbRun<MultiTaskState>>,
    ) -> Result<MultiTaskVb<'d>> {
        match reached {
            None => MultiTaskVb::new(data, config, start, restart),
            Some(VbRun { state, trace }) => MultiTaskVb::resume(data, config, state, &trace),
        }
    }
}

impl Ensemble for Tasks {
    type More = ();
    /// By task and scale.
    type LeftOut = Vec<Vec<Rows>>;
    const WITHOUT: Without = Without::Even;

    fn members(trained: &Trained) -> &[TaskMember] {
        &trained.members
    }

    fn best(members: &[TaskMember]) -> &TaskMember {
        best(members)
    }

    fn data(
        tables: &[Task<'_>],
        config: &TasksConfig,
        scored: Option<bool>,
    ) -> Result<Vec<MultiTaskData>> {
        let own = MultiTaskData::new(tables, config)?;
        let active = &own.pooled.units.active;
        let wanted = || scales::scores_wanted(tables, active, &config.single);
        let scored = scored.unwrap_or_else(wanted);
        let scored = scored.then(|| own.on_scores(tables)).transpose()?;
        Ok([own].into_iter().chain(scored).collect())
    }

    fn about(data: &MultiTaskData) -> Result<(u64, usize, &[String])> {
        let prints = data.tasks.iter().map(fingerprint);
        let print = storage::fingerprint(&prints.collect::<Result<Vec<u64>>>()?)?;
        Ok((print, data.pooled.n_observed(), &data.pooled.classes))
    }

    /// Its experts are those of its last `q(lambda)`, so that tasks can be added later.
    fn ended(
        planned: Planned<TaskInit>,
        outcome: VbOutcome,
        mut vb: MultiTaskVb<'_>,
    ) -> Result<TaskMember> {
        vb.finish()?;
        Ok(Member::new(planned, outcome, vb.into_state(), ()))
    }

    fn left_out(data: &[MultiTaskData], tables: &[Table]) -> Result<Vec<Vec<Rows>>> {
        rows_left_out(data.iter().map(|data| &data.pooled.units), tables)
    }

    fn predict_left_out(
        planned: Planned<TaskInit>,
        outcome: VbOutcome,
        vb: MultiTaskVb<'_>,
        rows: &Vec<Vec<Rows>>,
    ) -> Result<Vec<f64>> {
        let run = Self::ended(planned, outcome, vb)?;
        let predictor = run.predictor()?;
        let mut found = Vec::new();
        for (j, rows) in rows.iter().enumerate() {
            let own = run.predictor_of(&predictor, j);
            let others = own.probabilities(&rows[run.scale.index()], Experts::Integrated)?;
            found.extend(with_first_class(others).into_iter().flatten());
        }
        Ok(found)
    }
}

/// An atom in the user's units: what local components of the tasks share.
#[derive(Clone, Debug, PartialEq)]
pub struct AtomSummary {
    /// Expected number of local components, of all tasks together, that point at it.
    pub local_components: f64,
    /// Expected number of training rows behind its Gaussian: those of its local components, or of all tasks where all atoms have one Gaussian ([`Gaussians::Shared`]).
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

impl MultiTaskFit {
    /// What the runs that have weight say of rows (by scale) of task `j`.
    fn parts<'a>(&'a self, j: usize, rows: &'a [Rows]) -> Result<Vec<Part<'a>>> {
        let part = |(run, predictor): (&'a TaskMember, &'a Predictor)| {
            let rows = &rows[run.scale.index()];
            let own = run.predictor_of(predictor, j);
            let others = own.probabilities(rows, Experts::Integrated)?;
            let how = (run.stacking_weight, &run.calibration);
            Ok(Part::new(how, others, move |rng| {
                let weights = draw_weights(&run.state, j, rng);
                let components = run.state.all_components();
                let shared = run.state.gaussians == Gaussians::Shared;
                let experts = predictor.experts();
                let drawn = predictor.draw_parts(&components, experts, &weights, shared, rng)?;
                drawn.probabilities(rows, Experts::AtMeans)
            }))
        };
        let runs = self.members().iter().zip(&self.derived);
        runs.map(part).collect()
    }

    /// Names of the tasks, in the order of training.
    pub fn tasks(&self) -> &[String] {
        &self.stored.trained.tasks
    }

    /// The atoms of the best run in the user's units, in the order of [`task_weights`](Self::task_weights): those that local components of more tasks point at first.
    pub fn atoms(&self) -> Vec<AtomSummary> {
        let (state, units) = (self.state(), self.units());
        let base = self.config().single.mean_strength;
        let n_utilities = state.n_utilities();
        let masses = state.atom_masses();
        let summary = |(s, component): (usize, &Component)| {
            let (mean, covariance) = units.gaussian(component);
            let experts = &state.experts[s * n_utilities..][..n_utilities];
            let (classifier, utilities) = units.classifiers(experts);
            AtomSummary {
                local_components: masses[s],
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
    pub fn task_weights(&self, task: &str) -> Result<Vec<f64>> {
        Ok(self.state().weights(self.task(task)?))
    }

    /// How alike the tasks are in the best run: `exp(-D)`, with `D` the mean of the two divergences (Kullback-Leibler) between the tasks' weights of
    /// the atoms. J x J, symmetric, ones on the diagonal.
    pub fn similarity(&self) -> Mat<f64> {
        let n = self.tasks().len();
        let weights: Vec<Vec<f64>> = (0..n).map(|j| self.state().weights(j)).collect();
        Mat::from_fn(n, n, |i, j| (-divergence(&weights[i], &weights[j])).exp())
    }

    /// Adds a task that was not in training, in this fit's units, columns and classes. The atoms and the other tasks stay as they are: fit again for atoms that learn from it.
    ///
    /// Its local components point at the atoms that the fit has. Labels may be of one class, or missing. Errors: a name that a task has, other columns than in training, a label
    /// that the fit does not know, a value more than a million standard deviations (of the fit's units) from the mean of its column.
    pub fn with_task(&self, task: &Task<'_>) -> Result<Self> {
        if self.task(task.name).is_ok() {
            return Err(IqgmeError::SameName {
                task: task.name.to_owned(),
            });
        }
        let mut stored = self.stored.clone();
        let mut by_scale = Vec::with_capacity(stored.units.len());
        let prior_scale = Prior::scale(&stored.config.single, stored.units[0].active.len());
        for (scale, units) in FeatureScale::ALL.into_iter().zip(&stored.units) {
            let on_scale = |run: &&TaskMember| run.scale == scale;
            let Some(run) = self.members().iter().find(on_scale) else {
                break;
            };
            // The covariance of the rows of training is the prior's scale matrix, but for its scale.
            let units = IqgmeData {
                rows: Rows::of_features(units.active.len()),
                units: units.clone(),
                classes: stored.classes.clone(),
                covariance: &run.state.vacant.scale_inverse * Scale(1.0 / prior_scale),
                n_labelled: usize::from(!stored.classes.is_empty()),
                sharded: None,
            };
            let mut data = MultiTaskData::in_units(std::slice::from_ref(task), units)?;
            data.pooled.rows.clone_from(&data.tasks[0].rows);
            by_scale.push(data);
        }
        stored.trained.tasks.push(task.name.to_owned());
        for run in &mut stored.trained.members {
            let data = &by_scale[run.scale.index()];
            run.state = add_task(data, &stored.config, &run.state)
                .map_err(|source| in_task(task.name, source))?;
        }
        Self::new(stored, ())
    }
}

/// Questions that name their task: an unknown one is an error.
impl MultiTaskFit {
    /// The number of a task.
    fn task(&self, name: &str) -> Result<usize> {
        let found = self.tasks().iter().position(|task| task == name);
        found.ok_or_else(|| IqgmeError::UnknownTask {
            task: name.to_owned(),
            tasks: self.tasks().to_vec(),
        })
    }

    fn rows_by_scale(&self, j: usize, table: &Table) -> Result<Vec<Rows>> {
        let rows = scales::rows(&self.stored.units, table);
        rows.map_err(|source| in_task(&self.tasks()[j], source))
    }

    /// Probability of the second class for each row: as [`predict_classes`](Self::predict_classes). Errors: as there; a fit with more than two classes.
    pub fn predict_proba(&self, task: &str, table: &Table) -> Result<Vec<f64>> {
        self.second_class_of(self.task(task)?, table)
    }

    /// Probabilities of all classes: as [`IqgmeFit::predict_classes`](crate::IqgmeFit::predict_classes).
    pub fn predict_classes(&self, task: &str, table: &Table) -> Result<Vec<Vec<f64>>> {
        self.classes_of(self.task(task)?, table)
    }

    /// The most probable class of each row.
    pub fn predict(&self, task: &str, table: &Table) -> Result<Vec<&str>> {
        self.names_of(self.task(task)?, table)
    }

    /// Intervals of the probabilities of the second of two classes: as [`IqgmeFit::predict_interval`](crate::IqgmeFit::predict_interval).
    pub fn predict_interval(&self, task: &str, table: &Table, level: f64) -> Result<Vec<Interval>> {
        self.second_interval_of(self.task(task)?, table, level)
    }

    /// Intervals of the probabilities of all classes: as [`IqgmeFit::predict_class_intervals`](crate::IqgmeFit::predict_class_intervals).
    pub fn predict_class_intervals(
        &self,
        task: &str,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>> {
        self.intervals_of(self.task(task)?, table, level)
    }
}

/// Of equal ones the first: see [`MultiTaskFit`].
fn best(runs: &[TaskMember]) -> &TaskMember {
    let rank = |run: &TaskMember| {
        let own_scale = run.scale == FeatureScale::Standardised;
        let own_gaussians = run.state.gaussians == Gaussians::Own;
        (own_scale, own_gaussians, run.elbo())
    };
    let better = |best, run| {
        if rank(run) > rank(best) { run } else { best }
    };
    runs.iter().fold(&runs[0], better)
}

/// One draw of the weights by which a class probability of task `j` weighs the atoms.
fn draw_weights(state: &MultiTaskState, j: usize, rng: &mut impl Rng) -> Vec<f64> {
    let task = &state.tasks[j];
    let mut pi = vec![0.0; task.sticks.truncation()];
    task.sticks.sample_weights(&mut pi, rng);
    let mut eta = vec![0.0; state.global_sticks.truncation()];
    state.global_sticks.sample_weights(&mut eta, rng);
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
