//! The result of a fit of many tasks, and what can be asked of it.

use std::borrow::Cow;
use std::ops::ControlFlow;

use npb_infer::{Stop, VbLimits, VbOutcome, VbReport, Watch, Xoshiro256PlusPlus, storage};
use npb_linalg::faer::{Mat, Scale};
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::config::{TaskInit, TasksConfig};
use super::data::{MultiTaskData, Task, in_task};
use super::new_task::add_task;
use super::run::{TaskMember, logs};
use super::state::{Gaussians, MultiTaskState};
use super::vb::{INACTIVE, MultiTaskVb};
use crate::answers::with_first_class;
use crate::config::FeatureScale;
use crate::data::{distinct, fingerprint};
use crate::ensemble::crossval::{self, Side, held_out};
use crate::ensemble::member::{self, Member, MixtureView, Part, Predictive, check_members};
use crate::ensemble::questions::prelude::*;
use crate::ensemble::scales;
use crate::ensemble::stacking::{Without, weighed};
use crate::ensemble::train::{Model, Planned, Watched, model, planned};
use crate::predict::{Experts, Gate, Predictor};
use crate::prior::Prior;
use crate::rows::Rows;
use crate::state::{Component, expect};
use crate::{ClassifierSummary, IqgmeData};

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 12;
const IMPUTE: u64 = 16;

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
/// // What the second sensor of the new machine may have read, and how sure that is.
/// let imputed = model.impute("new", &rows)?;
/// assert!(imputed.completed.get(0, 1).is_some() && imputed.sd.get(0, 1) > Some(0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cost: with labels the runs for predictions are made `config.single.folds` times more, with at most 30 iterations each, to find their weights. Errors: see [`MultiTaskData::new`]. Runs are made in parallel on the caller's rayon pool, and so are the tasks within a run; the result does not
/// depend on the number of threads.
pub fn fit_tasks(tasks: &[Task<'_>], config: &TasksConfig) -> Result<MultiTaskFit, IqgmeError> {
    fit_tasks_watched(tasks, config, &Watch::none())
}

/// As [`fit_tasks`], watched: see [`fit_watched`](crate::fit_watched).
pub fn fit_tasks_watched(
    tasks: &[Task<'_>],
    config: &TasksConfig,
    watch: &Watch<'_>,
) -> Result<MultiTaskFit, IqgmeError> {
    let data = MultiTaskData::by_scale(tasks, config)?;
    let prints: Vec<u64> = data[0]
        .tasks
        .iter()
        .map(fingerprint)
        .collect::<Result<_, _>>()?;
    let single = &config.single;
    let plan = (&planned(&config.starts, data.len())[..], single.restarts);
    let labels: Vec<&Labels> = tasks.iter().map(|task| task.labels).collect();
    let folds = crossval::sides(&labels, single.folds, single.seed);
    let n = plan.0.len() * single.restarts;
    let print = storage::fingerprint(&prints)?;
    let watched = Watched::<Tasks>::new(watch, config, print, plan, folds.len())?;
    let members = watched.train(&data, plan, config, ended)?;
    let weigh = |held_out| {
        let by_bounds = (single.elbo_temperature, data[0].pooled.n_observed());
        weighed(members, data.len(), held_out, Without::Even, by_bounds)
    };
    if watched.is_stopped() {
        let members = weigh(None);
        return MultiTaskFit::new(data, config, members);
    }
    let limited = Tasks::limited(config, Tasks::FOLD_ITERATIONS);
    let classes = &data[0].pooled.classes;
    let held_out = held_out(&labels, classes, &folds, n, &watched, |number, sides| {
        let fold = Fold::new(tasks, &limited, sides, data.len())?;
        watched.train_without(
            number,
            &fold.kept,
            plan,
            &limited,
            |planned, outcome, vb| fold.predict(&ended(planned, outcome, vb)?),
        )
    })?;
    let members = weigh(held_out);
    MultiTaskFit::new(data, config, members)
}

/// A run that has ended. Its experts are those of its last `q(lambda)`, so that tasks can be added later.
fn ended(
    planned: Planned<TaskInit>,
    outcome: VbOutcome,
    mut vb: MultiTaskVb<'_>,
) -> Result<TaskMember, IqgmeError> {
    vb.finalise()?;
    Ok(Member::new(planned, outcome, vb.into_state(), ()))
}

/// Data without the rows of a fold, by scale, and these: task, scale.
struct Fold {
    kept: Vec<MultiTaskData>,
    left_out: Vec<Vec<Rows>>,
}

impl Fold {
    fn new(
        tasks: &[Task<'_>],
        config: &TasksConfig,
        sides: &[Side],
        n_scales: usize,
    ) -> Result<Self, IqgmeError> {
        let each = || tasks.iter().zip(sides);
        let part = |(task, side): (&Task<'_>, &Side)| {
            let rows = &side.kept;
            (task.table.select_rows(rows), task.labels.select_rows(rows))
        };
        let parts: Vec<(Table, Labels)> = each().map(part).collect();
        let kept = tasks
            .iter()
            .zip(&parts)
            .map(|(task, (table, labels))| Task {
                name: task.name,
                table,
                labels,
            });
        let tasks_kept: Vec<Task<'_>> = kept.collect();
        let mut kept = vec![MultiTaskData::new(&tasks_kept, config)?];
        if n_scales > 1 {
            kept.push(kept[0].on_scores(&tasks_kept)?);
        }
        let left_out = |(task, side): (&Task<'_>, &Side)| {
            let table = task.table.select_rows(&side.left_out);
            let of_scale = |data: &MultiTaskData| data.pooled.units.rows_left_out(&table);
            kept.iter().map(of_scale).collect()
        };
        let left_out = each().map(left_out).collect::<Result<_, _>>()?;
        Ok(Self { kept, left_out })
    }

    /// Probabilities of the classes, row by row, by a run that was told neither row nor class.
    fn predict(&self, run: &TaskMember) -> Result<Vec<f64>, IqgmeError> {
        let predictor = run.predictor()?;
        let mut found = Vec::new();
        for (j, rows) in self.left_out.iter().enumerate() {
            let own = run.predictor_of(&predictor, j);
            let others = own.probabilities(&rows[run.scale.index()], Experts::Integrated)?;
            found.extend(with_first_class(others).into_iter().flatten());
        }
        Ok(found)
    }
}

// The model of many tasks. These come to agree later than the rows of one.
model!(
    Tasks,
    MultiTaskVb,
    [TasksConfig, MultiTaskData, TaskInit, MultiTaskState],
    single.limits,
    "npb-iqgme/tasks/run/2",
    30,
    |vb| vb.finalise()
);

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

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    config: TasksConfig,
    /// By scale.
    units: Vec<Units>,
    classes: Vec<String>,
    tasks: Vec<String>,
    /// Those that class probabilities average over, then those that have no weight; of each those on normal scores last, and the best first.
    members: Vec<TaskMember>,
}

/// A fitted model of many tasks. Questions name the task; tables are in the user's units, columns in the order of training.
///
/// Class probabilities average over the runs by their stacking weights, each calibrated ([`TaskMember::calibration`]); in a run atoms are weighed by the task's own weights and as normal
/// densities of the observed features at the posterior means, experts and missing features are integrated out by moment matching. Atoms, the tasks' weights of them, similarities, densities and missing cells are those of the
/// [best](Self::best) member: the one with the highest bound of those on the features' own scale whose atoms have Gaussians of their own, or of all on that scale, if none has (one in which all have one
/// is of another model of the features, and what it says of the tasks is of their labels alone). Members are listed by whether they weigh in class probabilities, then by scale and bound.
#[derive(Clone, Debug)]
pub struct MultiTaskFit {
    stored: Stored,
    /// One for each run that has weight: its atoms, and one that stands for all at the prior.
    predictors: Vec<Predictor>,
    /// The same of the best run, for questions about features.
    features: Predictor,
}

impl MultiTaskFit {
    fn new(
        data: Vec<MultiTaskData>,
        config: &TasksConfig,
        mut members: Vec<TaskMember>,
    ) -> Result<Self, IqgmeError> {
        members.sort_by_key(|member| member.stacking_weight == 0.0);
        Self::from_stored(Stored {
            config: config.clone(),
            classes: data[0].pooled.classes.clone(),
            tasks: data[0].names.clone(),
            units: data.into_iter().map(|data| data.pooled.units).collect(),
            members,
        })
    }

    fn from_stored(stored: Stored) -> Result<Self, IqgmeError> {
        let predictors = stored
            .members
            .iter()
            .take_while(|run| run.stacking_weight > 0.0)
            .map(TaskMember::predictor)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            features: best(&stored.members).predictor()?,
            stored,
            predictors,
        })
    }

    /// The runs that have weight as members, with the weights of task `j`; `rows`: by scale.
    fn parts<'a>(
        &'a self,
        j: usize,
        rows: &'a [Rows],
    ) -> Vec<Part<'a, impl Predictive<Rows = Rows> + 'a>> {
        let part = move |(run, predictor): (&'a TaskMember, &'a Predictor)| Part {
            weight: run.stacking_weight,
            calibration: &run.calibration,
            rows: &rows[run.scale.index()],
            member: MixtureView {
                predictor: Cow::Owned(run.predictor_of(predictor, j)),
                experts: Experts::Integrated,
                draw: move |rng: &mut Xoshiro256PlusPlus| {
                    let weights = draw_weights(&run.state, j, rng);
                    let components = run.state.all_components();
                    let shared = run.state.gaussians == Gaussians::Shared;
                    predictor.draw_parts(&components, predictor.experts(), &weights, shared, rng)
                },
            },
        };
        self.stored
            .members
            .iter()
            .zip(&self.predictors)
            .map(part)
            .collect()
    }

    /// Names of the tasks, in the order of training.
    pub fn tasks(&self) -> &[String] {
        &self.stored.tasks
    }

    /// The atoms of the best run in the user's units, in the order of [`task_weights`](Self::task_weights): those that local components of more tasks point at first.
    pub fn atoms(&self) -> Vec<AtomSummary> {
        let (state, units) = (self.state(), self.units());
        let base = self.stored.config.single.mean_strength;
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
    pub fn task_weights(&self, task: &str) -> Result<Vec<f64>, IqgmeError> {
        Ok(self.state().weights(self.task(task)?))
    }

    /// How alike the tasks are in the best run: `exp(-D)`, with `D` the mean of the two divergences (Kullback-Leibler) between the tasks' weights of
    /// the atoms. J x J, symmetric, ones on the diagonal.
    pub fn similarity(&self) -> Mat<f64> {
        let n = self.stored.tasks.len();
        let weights: Vec<Vec<f64>> = (0..n).map(|j| self.state().weights(j)).collect();
        Mat::from_fn(n, n, |i, j| (-divergence(&weights[i], &weights[j])).exp())
    }

    /// Adds a task that was not in training, in this fit's units, columns and classes. The atoms and the other tasks stay as they are: fit again for atoms that learn from it.
    ///
    /// Its local components point at the atoms that the fit has. Labels may be of one class, or missing. Errors: a name that a task has, other columns than in training, a label
    /// that the fit does not know, a value more than a million standard deviations (of the fit's units) from the mean of its column.
    pub fn with_task(&self, task: &Task<'_>) -> Result<Self, IqgmeError> {
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
            let Some(run) = self.stored.members.iter().find(on_scale) else {
                break;
            };
            // The covariance of the rows of training is the prior's scale matrix, but for its scale.
            let units = IqgmeData {
                rows: Rows::of_features(units.active.len()),
                units: units.clone(),
                classes: stored.classes.clone(),
                covariance: &run.state.vacant.scale_inverse * Scale(1.0 / prior_scale),
                n_labelled: usize::from(!stored.classes.is_empty()),
            };
            let mut data = MultiTaskData::in_units(std::slice::from_ref(task), units)?;
            data.pooled.rows.clone_from(&data.tasks[0].rows);
            by_scale.push(data);
        }
        stored.tasks.push(task.name.to_owned());
        for run in &mut stored.members {
            let data = &by_scale[run.scale.index()];
            run.state = add_task(data, &stored.config, &run.state)
                .map_err(|source| in_task(task.name, source))?;
        }
        Self::from_stored(stored)
    }
}

impl Answers for MultiTaskFit {
    type Task<'a> = &'a str;

    fn task(&self, name: &str) -> Result<usize, IqgmeError> {
        let found = self.stored.tasks.iter().position(|task| task == name);
        found.ok_or_else(|| IqgmeError::UnknownTask {
            task: name.to_owned(),
            tasks: self.stored.tasks.clone(),
        })
    }

    fn inside(&self, task: usize, error: IqgmeError) -> IqgmeError {
        in_task(&self.stored.tasks[task], error)
    }

    fn units(&self) -> &Units {
        &self.stored.units[0]
    }

    fn class_names(&self) -> &[String] {
        &self.stored.classes
    }

    fn probabilities(&self, j: usize, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let rows = scales::rows(&self.stored.units, table).map_err(|e| self.inside(j, e))?;
        member::class_probabilities(&self.parts(j, &rows))
    }
}

impl MultiTaskFit {
    fn draw_intervals(
        &self,
        j: usize,
        table: &Table,
        level: f64,
        draws: usize,
    ) -> Result<Vec<Vec<ProbabilityInterval>>, IqgmeError> {
        let rows = scales::rows(&self.stored.units, table).map_err(|e| self.inside(j, e))?;
        let key = (self.stored.config.single.seed, j as u64, INTERVAL);
        member::intervals(&self.parts(j, &rows), level, draws, key)
    }
}

/// All is of the [best](MultiTaskFit::best) run, not averaged: weights of runs say who predicts labels, and runs by labels ([`Gaussians::Shared`]) are of another
/// model of the features, with one Gaussian for all tasks; they answer only if there are no others.
impl Describes for MultiTaskFit {
    const GATE: Gate = Gate::Marginal;

    fn mixtures(&self, j: usize) -> Result<Vec<(f64, Cow<'_, Predictor>)>, IqgmeError> {
        let weights = logs(self.state().weights(j));
        Ok(vec![(1.0, Cow::Owned(self.features.with_weights(weights)))])
    }

    fn draw_key(&self) -> (u64, u64) {
        (self.stored.config.single.seed, IMPUTE)
    }
}

described!(MultiTaskFit, TasksConfig);
members!(MultiTaskFit, TaskMember, MultiTaskState, best);
saved!(MultiTaskFit, "npb-iqgme/tasks/2");
classifier!(MultiTaskFit, task: &str);
intervals!(MultiTaskFit, [draws: usize], task: &str);
features!(MultiTaskFit, task: &str);

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

impl Stored {
    fn check(&self) -> Result<(), String> {
        scales::check(&self.units)?;
        let (n_classes, members, tasks) = (self.classes.len(), &self.members, &self.tasks);
        check_members(members, n_classes)?;
        expect(!tasks.is_empty(), "number of tasks")?;
        distinct(&self.classes).map_err(|twice| twice.to_string())?;
        if let Some(k) = (1..tasks.len()).find(|&k| tasks[..k].contains(&tasks[k])) {
            return Err(format!("task {:?} twice", tasks[k]));
        }
        let known = |member: &TaskMember| member.scale.index() < self.units.len();
        let own_scale = |member: &TaskMember| member.scale == FeatureScale::Standardised;
        expect(
            members.iter().all(known) && members.iter().any(own_scale),
            "scales",
        )?;
        expect(
            members[0].stacking_weight > 0.0,
            "weight of the first member",
        )?;
        let truncations = [self.config.single.truncation, self.config.atoms];
        let (p, n_utilities) = (self.units[0].active.len(), n_classes.saturating_sub(1));
        let mut each = members.iter();
        each.try_for_each(|run| run.state.check(p, tasks.len(), n_utilities, truncations))
    }
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
