//! Variational Bayes: the coordinate updates and the loop over them.

#[cfg(test)]
mod tests;

use npb_infer::{Variational, VbReport, parallel};
use npb_priors::dp::{ConcentrationFactor, StickFactor, Sticks};
use npb_priors::special::ln_normalize;
use serde::{Deserialize, Serialize};

use super::bound::bound;
use super::config::{TaskInit, TasksConfig};
use super::data::MultiTaskData;
use super::rows::{EStepAtoms, TaskBegin, TaskRows, one_hot};
use super::state::{Gaussians, MultiTaskState, TaskState};
use crate::bound::{Bound, feature_term, soft_term};
use crate::e_step::{RowFamily, Update, atoms};
use crate::prior::Prior;
use crate::state::{Component, Expected, Expert, dot};
use crate::stats::SufficientStats;
use crate::vb::{START_ITERATIONS, falling, padded, stick_bound};
use crate::{IqgmeData, IqgmeError, Result};

/// An indicator's probability below this is set to zero.
pub(super) const INACTIVE: f64 = 1e-20;

/// One coordinate update. None of them lowers the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskUpdate {
    /// `q(x^m, z)` of every row of every task.
    Labels,
    /// `q(x^m, z)`, then `q(t)`, of every row, in one E-step.
    Rows,
    /// The order of the local components of every task, larger ones first, those without rows dropped; then `q(V)` of tasks where it changed.
    LocalOrder,
    /// `q(V)` of every task.
    LocalSticks,
    /// `q(c)`: the atoms that local components point at.
    Indicators,
    /// The order of the atoms, those of more local components first, those of none dropped; then `q(U)` if it changed.
    AtomOrder,
    /// `q(U)`.
    GlobalSticks,
    /// `q(mu, Lambda)`.
    Components,
    /// `q(w)`.
    Experts,
    /// `q(zeta, lambda)`.
    ExpertPrior,
    /// `q(alpha)` and `q(beta)`.
    Concentrations,
}

impl TaskUpdate {
    /// The updates of the parameters, in the order of an iteration; `Rows` comes before them.
    pub const PARAMETERS: [Self; 9] = [
        Self::LocalOrder,
        Self::LocalSticks,
        Self::Indicators,
        Self::AtomOrder,
        Self::GlobalSticks,
        Self::Components,
        Self::Experts,
        Self::ExpertPrior,
        Self::Concentrations,
    ];
}

/// One run of variational Bayes over many tasks. Drive it with [`step`](Self::step), or have [`maximise`](npb_infer::maximise()) do it.
///
/// Cost of an iteration: that of the single-task model for each task with its own local components, and `P^2` for each task, local component and atom.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{MultiTaskData, MultiTaskVb, Task, TaskInit, TasksConfig};
///
/// let table = Table::complete(6, 1, vec![-2.0, -1.4, -1.0, 1.0, 1.5, 2.2])?;
/// let labels = Labels::from_strings(&["no", "no", "no", "yes", "yes", "yes"].map(Some));
/// let task = |name| Task { name, table: &table, labels: &labels };
/// let config = TasksConfig::default();
/// let data = MultiTaskData::new(&[task("here"), task("there")], &config)?;
/// let mut vb = MultiTaskVb::new(&data, config, TaskInit::Separate(1), 0)?;
/// let first = vb.step()?;
/// assert!(vb.step()? >= first);
/// assert_eq!(vb.state().tasks.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MultiTaskVb<'d> {
    data: &'d MultiTaskData,
    config: TasksConfig,
    prior: Prior,
    state: MultiTaskState,
    expected: Vec<Expected>,
    rows: Vec<TaskRows>,
    /// Of the atoms: the tasks' sums by `q(c)`.
    stats: SufficientStats,
    iteration: u64,
    /// Experts are those of the last `q(lambda)`. The sums that they come from are not in the state: a run that has ended is saved with them.
    finished: bool,
}

impl Variational for MultiTaskVb<'_> {
    type State = MultiTaskState;
    type Error = IqgmeError;

    fn step(&mut self) -> Result<f64> {
        MultiTaskVb::step(self)
    }

    fn state(&self) -> MultiTaskState {
        self.state.clone()
    }

    /// Experts become those of the last `q(lambda)`, so that tasks can be added later.
    fn finish(&mut self) -> Result<()> {
        if !self.finished {
            self.apply(TaskUpdate::Experts)?;
            self.finished = true;
        }
        Ok(())
    }
}

impl<'d> MultiTaskVb<'d> {
    /// A run with the parameters fitted to its start.
    pub(super) fn begin(
        data: &'d MultiTaskData,
        config: &TasksConfig,
        start: TaskInit,
        (n_atoms, tasks): (usize, Vec<TaskBegin>),
    ) -> Result<Self> {
        let n_utilities = data.n_utilities();
        let prior = Prior::new(&config.single, &data.pooled.covariance, n_utilities)?;
        let p = data.pooled.rows.n_features;
        let mut state = prior_state(data, config, &prior, n_atoms);
        state.gaussians = start.gaussians();
        let mut rows = Vec::with_capacity(tasks.len());
        for ((begin, part), task) in tasks.into_iter().zip(&mut state.tasks).zip(&data.tasks) {
            let atoms = begin.atoms.iter();
            part.indicators = atoms.map(|&s| one_hot(s, n_atoms)).collect();
            rows.push(match state.gaussians {
                Gaussians::Own => TaskRows::Local(Box::new(begin.local)),
                Gaussians::Shared => TaskRows::whole(task, &vec![begin.local.locations; n_atoms]),
            });
        }
        let mut vb = Self {
            data,
            config: config.clone(),
            prior,
            state,
            expected: Vec::new(),
            rows,
            stats: SufficientStats::zeros(p, n_atoms, n_utilities),
            iteration: 0,
            finished: false,
        };
        vb.start()?;
        Ok(vb)
    }

    /// Continues a run from its state and trace: on the same data and configuration, in the same bits as if it had never stopped.
    pub fn resume(
        data: &'d MultiTaskData,
        config: TasksConfig,
        state: MultiTaskState,
        trace: &[VbReport],
    ) -> Result<Self> {
        config.validate()?;
        let p = data.pooled.rows.n_features;
        let n_utilities = data.n_utilities();
        let truncations = [config.single.truncation, config.atoms];
        state.check(p, data.n_tasks(), n_utilities, truncations)?;
        let each = data.tasks.iter().zip(&state.tasks);
        let rows = each.map(|(task, part)| TaskRows::of_state(task, part, state.gaussians));
        let rows = rows.collect::<Option<Vec<_>>>();
        let rows = rows.ok_or_else(|| IqgmeError::saved("the state is of other data"))?;
        let prior = Prior::new(&config.single, &data.pooled.covariance, n_utilities)?;
        let limits = config.single.limits;
        let mut vb = Self {
            data,
            config,
            prior,
            expected: Vec::new(),
            rows,
            stats: SufficientStats::zeros(p, state.components.len(), n_utilities),
            state,
            iteration: trace.len() as u64,
            finished: limits.reached(trace).is_some(),
        };
        let expected = Component::all_expected(&vb.state.components);
        vb.expected = expected.map_err(IqgmeError::at(vb.iteration, "covariance"))?;
        Ok(vb)
    }

    /// As in the single-task model: the parameters are fitted to the responsibilities and atoms of the start before these may move.
    fn start(&mut self) -> Result<()> {
        let pooled = self.prior.pooled(&self.data.pooled.covariance).expected();
        let expected = pooled.map_err(IqgmeError::at(0, "shared covariance"))?;
        self.expected = vec![expected; self.state.components.len()];
        let family = RowFamily::Structured;
        let held = |utility_means| Update {
            responsibilities: false,
            utility_means,
            family,
        };
        self.e_step(held(false), false)?;
        self.fit_start()?;
        for _ in 0..START_ITERATIONS {
            self.e_step(held(true), true)?;
            self.fit_start()?;
        }
        Ok(())
    }

    fn fit_start(&mut self) -> Result<()> {
        let mut each = TaskUpdate::PARAMETERS.into_iter();
        each.try_for_each(|update| match update {
            TaskUpdate::Indicators => Ok(()),
            other => self.apply(other),
        })
    }

    /// One iteration: the rows, then the parameters. Returns the bound.
    pub fn step(&mut self) -> Result<f64> {
        self.iteration += 1;
        self.finished = false;
        self.apply(TaskUpdate::Rows)?;
        let bound = IqgmeError::finite_bound(self.iteration, self.bound()?.total())?;
        TaskUpdate::PARAMETERS
            .iter()
            .try_for_each(|&update| self.apply(update))?;
        Ok(bound)
    }

    /// Repeats `updates` until the bound's relative change falls below the tolerance, at most as often as a run iterates.
    pub(super) fn repeat(&mut self, updates: &[TaskUpdate]) -> Result<()> {
        let mut last = f64::NEG_INFINITY;
        for _ in 0..self.config.single.limits.max_iterations {
            updates.iter().try_for_each(|&update| self.apply(update))?;
            let bound = self.bound()?.total();
            if (bound - last).abs() < self.config.single.limits.tolerance * bound.abs().max(1.0) {
                break;
            }
            last = bound;
        }
        Ok(())
    }

    /// The current posterior.
    pub fn state(&self) -> &MultiTaskState {
        &self.state
    }

    /// The posterior, when the run is over.
    pub fn into_state(self) -> MultiTaskState {
        self.state
    }

    /// The evidence lower bound of the current posterior, in parts; `sticks` holds the indicators, too. Costs no E-step over the rows.
    /// Equations: `docs/iqgme-updates.md#bound-of-many-tasks`.
    pub fn bound(&self) -> Result<Bound> {
        let each = self.rows.iter().zip(&self.state.tasks);
        let tasks = each.map(|(rows, part)| (rows.counts(), rows.terms(&part.indicators)));
        let bound = bound(&self.state, &self.expected, tasks, &self.stats, &self.prior);
        bound.map_err(IqgmeError::at(self.iteration, "expert covariance"))
    }

    /// Makes one coordinate update. [`step`](Self::step) is `Rows` and then [`TaskUpdate::PARAMETERS`].
    pub fn apply(&mut self, update: TaskUpdate) -> Result<()> {
        let family = RowFamily::Structured;
        let rows = |utility_means| Update {
            responsibilities: true,
            utility_means,
            family,
        };
        match update {
            TaskUpdate::Labels => self.e_step(rows(false), true)?,
            TaskUpdate::Rows => self.e_step(rows(true), true)?,
            TaskUpdate::LocalOrder => self.order_local(),
            TaskUpdate::LocalSticks => self.update_local_sticks(),
            TaskUpdate::Indicators => self.update_indicators()?,
            TaskUpdate::AtomOrder => self.order_atoms(),
            TaskUpdate::GlobalSticks => self.update_global_sticks(),
            TaskUpdate::Components => self.update_components()?,
            TaskUpdate::Experts => self.update_experts()?,
            TaskUpdate::ExpertPrior => self.update_expert_prior(),
            TaskUpdate::Concentrations => self.update_concentrations(),
        }
        Ok(())
    }

    /// One E-step over the rows of every task, the tasks in parallel.
    fn e_step(&mut self, update: Update, with_experts: bool) -> Result<()> {
        let iteration = self.iteration;
        let state = &self.state;
        let experts = &state.experts[..if with_experts { state.experts.len() } else { 0 }];
        let atoms = atoms(&state.components, &self.expected, experts);
        let pooled = &self.data.pooled.rows;
        let atoms = EStepAtoms::new(atoms, state.gaussians, pooled, iteration)?;
        let tasks = self.data.tasks.iter().zip(&self.state.tasks);
        parallel::try_map(tasks.zip(&mut self.rows), |((task, part), rows)| {
            rows.e_step(task, part, &atoms, update, iteration)
        })?;
        drop(atoms);
        self.store_rows();
        self.stats = self.summed(&self.state);
        Ok(())
    }

    /// Brings what the state holds of the rows up to date.
    fn store_rows(&mut self) {
        let each = self.data.tasks.iter().zip(&mut self.state.tasks);
        for ((task, part), rows) in each.zip(&self.rows) {
            part.utility_means = rows.utility_means(task);
        }
    }

    /// The tasks' statistics summed by the indicators of `state`.
    fn summed(&self, state: &MultiTaskState) -> SufficientStats {
        let p = self.data.pooled.rows.n_features;
        let mut sums = SufficientStats::zeros(p, state.components.len(), self.data.n_utilities());
        for (part, rows) in state.tasks.iter().zip(&self.rows) {
            for (h, indicator) in part.indicators.iter().enumerate() {
                for (s, &sigma) in indicator.iter().enumerate() {
                    if sigma > 0.0 {
                        let (stats, of, _) = rows.under(h, s);
                        sums.add(s, sigma, stats, of);
                    }
                }
            }
        }
        sums
    }

    fn order_local(&mut self) {
        for (part, rows) in self.state.tasks.iter_mut().zip(&mut self.rows) {
            let counts = rows.counts();
            let order = falling(&counts, |counts| {
                let mut sticks = part.sticks.clone();
                let counts = padded(counts, sticks.truncation());
                sticks.update(&counts, self.state.alpha.mean());
                let mut ln_weights = vec![0.0; counts.len()];
                sticks.expected_ln_weights(&mut ln_weights);
                sticks.elbo(&self.state.alpha) + dot(&counts, &ln_weights)
            });
            if order.iter().copied().eq(0..counts.len()) {
                continue;
            }
            let taken = order
                .iter()
                .map(|&h| std::mem::take(&mut part.indicators[h]));
            part.indicators = taken.collect();
            rows.select_local(&order);
            let counts = padded(&rows.counts(), part.sticks.truncation());
            part.sticks.update(&counts, self.state.alpha.mean());
        }
        self.store_rows();
    }

    /// Equations: `docs/iqgme-updates.md#many-tasks`.
    fn update_local_sticks(&mut self) {
        let alpha = self.state.alpha.mean();
        for (part, rows) in self.state.tasks.iter_mut().zip(&self.rows) {
            let counts = padded(&rows.counts(), part.sticks.truncation());
            part.sticks.update(&counts, alpha);
        }
    }

    /// `sigma_jhs` proportional to `<eta_s>`'s geometric mean times what atom `s` makes of the rows of the local component.
    /// Equations: `docs/iqgme-updates.md#many-tasks`.
    fn update_indicators(&mut self) -> Result<()> {
        let mut ln_eta = vec![0.0; self.config.atoms];
        self.state.global_sticks.expected_ln_weights(&mut ln_eta);
        let (components, experts) = (&self.state.components, &self.state.experts);
        let (expected, n_utilities) = (&self.expected, self.data.n_utilities());
        let term = |s: usize, stats: &SufficientStats, h: usize, labelled: bool| {
            let mut value = ln_eta[s] + feature_term(&components[s], &expected[s], stats, h).0;
            if labelled {
                let of_atom = experts[s * n_utilities..][..n_utilities].iter().enumerate();
                for (k, expert) in of_atom {
                    value += match expert.at_prior {
                        true => f64::NEG_INFINITY,
                        false => soft_term(expert, stats, h, h * n_utilities + k).0,
                    };
                }
            }
            value
        };
        let iteration = self.iteration;
        let tasks = self.data.tasks.iter().zip(&mut self.state.tasks);
        parallel::try_map(tasks.zip(&self.rows), |((task, part), rows)| {
            for (h, indicator) in part.indicators.iter_mut().enumerate() {
                for (s, sigma) in indicator.iter_mut().enumerate() {
                    let (stats, of, own) = rows.under(h, s);
                    *sigma = match rows.offers(*sigma, iteration) {
                        true => own + term(s, stats, of, rows.has_labels(task, h)),
                        false => f64::NEG_INFINITY,
                    };
                }
                let value = ln_normalize(indicator);
                IqgmeError::finite_bound(iteration, value)?;
                finalise(indicator);
            }
            Ok::<_, IqgmeError>(())
        })?;
        self.stats = self.summed(&self.state);
        Ok(())
    }

    fn order_atoms(&mut self) {
        let masses = self.state.atom_masses();
        let order = falling(&masses, |masses| {
            stick_bound(&self.state.global_sticks, masses)
        });
        if order.iter().copied().eq(0..masses.len()) {
            return;
        }
        let state = &self.state;
        let select = |s: &usize| state.components[*s].clone();
        let components = order.iter().map(select).collect();
        let n_utilities = state.n_utilities();
        let of_atom = |&s: &usize| state.experts[s * n_utilities..][..n_utilities].to_vec();
        let experts = order.iter().flat_map(of_atom).collect();
        let state = &mut self.state;
        (state.components, state.experts) = (components, experts);
        for indicator in state.tasks.iter_mut().flat_map(|task| &mut task.indicators) {
            *indicator = order.iter().map(|&s| indicator[s]).collect();
        }
        self.expected = order.iter().map(|&s| self.expected[s].clone()).collect();
        self.stats = self.stats.select(&order);
        let rows = self.rows.iter_mut();
        rows.for_each(|rows| rows.select_atoms(&order));
        self.store_rows();
        self.update_global_sticks();
    }

    /// Equations: `docs/iqgme-updates.md#many-tasks`.
    fn update_global_sticks(&mut self) {
        let masses = padded(&self.state.atom_masses(), self.config.atoms);
        self.state.global_sticks.update_sticks(&masses);
    }

    /// Equations: `docs/iqgme-updates.md#many-tasks`.
    fn update_components(&mut self) -> Result<()> {
        if self.state.gaussians == Gaussians::Shared {
            return self.update_common_component();
        }
        let made = self.prior.component.all_given(&self.stats);
        let made = made.map_err(IqgmeError::at(self.iteration, "covariance"))?;
        (self.state.components, self.expected) = made;
        Ok(())
    }

    /// The Gaussian that all atoms have, from the rows of all. Equations: `docs/iqgme-updates.md#one-gaussian-for-all`.
    fn update_common_component(&mut self) -> Result<()> {
        let n_atoms = self.state.components.len();
        let p = self.data.pooled.rows.n_features;
        let mut sum = SufficientStats::zeros(p, 1, self.data.n_utilities());
        for s in 0..n_atoms {
            sum.add(0, 1.0, &self.stats, s);
        }
        let component = self.prior.component.given(&sum, 0);
        let failed = IqgmeError::at(self.iteration, "covariance");
        let expected = component.expected().map_err(failed)?;
        self.state.components = vec![component; n_atoms];
        self.expected = vec![expected; n_atoms];
        Ok(())
    }

    /// Equations: `docs/iqgme-updates.md#many-tasks`.
    fn update_experts(&mut self) -> Result<()> {
        let experts = Expert::all_given(&self.state.expert_prior, &self.stats);
        let failed = IqgmeError::at(self.iteration, "expert precision");
        self.state.experts = experts.map_err(failed)?;
        Ok(())
    }

    /// Equations: `docs/iqgme.md#parameters`.
    fn update_expert_prior(&mut self) {
        let (prior, n_utilities) = (&self.prior.expert, self.data.n_utilities());
        self.state.expert_prior = prior.fitted(&mut self.state.experts, n_utilities);
    }

    /// Equations: `docs/iqgme-updates.md#many-tasks`.
    fn update_concentrations(&mut self) {
        let state = &mut self.state;
        let n_tasks = state.tasks.len();
        let sum_ln = state.tasks.iter().map(|task| task.sticks.sum_ln_rest());
        let n_sticks = n_tasks * (self.config.single.truncation - 1);
        state.alpha.update(n_sticks, sum_ln.sum());
        state.global_sticks.update_alpha();
    }
}

/// Zeros for probabilities that do not count; the rest adds up to one.
fn finalise(indicator: &mut [f64]) {
    let mut sum = 0.0;
    for sigma in indicator.iter_mut() {
        if *sigma < INACTIVE {
            *sigma = 0.0;
        }
        sum += *sigma;
    }
    indicator.iter_mut().for_each(|sigma| *sigma /= sum);
}

/// The posterior before any data, with `n_atoms` atoms.
fn prior_state(
    data: &MultiTaskData,
    config: &TasksConfig,
    prior: &Prior,
    n_atoms: usize,
) -> MultiTaskState {
    let single = &config.single;
    let alpha = ConcentrationFactor::new(single.concentration).expect("validated");
    let sticks = Sticks::new(single.truncation, alpha.mean()).expect("validated");
    let task = |task: &IqgmeData| TaskState {
        sticks: sticks.clone(),
        indicators: Vec::new(),
        utility_means: vec![0.0; task.rows.len() * task.rows.n_utilities],
    };
    let experts = || Expert::all_at_prior(&prior.expert, data.n_utilities());
    MultiTaskState {
        gaussians: Gaussians::Own,
        global_sticks: StickFactor::new(config.atoms, config.global_concentration)
            .expect("validated"),
        tasks: data.tasks.iter().map(task).collect(),
        alpha,
        components: vec![prior.component.clone(); n_atoms],
        experts: (0..n_atoms).flat_map(|_| experts()).collect(),
        expert_prior: prior.expert.clone(),
        vacant: prior.component.clone(),
    }
}
