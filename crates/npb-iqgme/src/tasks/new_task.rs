//! A new task for a fit that stands.

use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::dp::Sticks;
use serde::{Deserialize, Serialize};

use super::TasksConfig;
use super::data::MultiTaskData;
use super::state::{Gaussians, MultiTaskState, TaskState};
use super::vb::{Held, MultiTaskVb, TaskUpdate};
use crate::predict::Gate;
use crate::stats::SufficientStats;
use crate::{IqgmeData, IqgmeError};

/// Whether the atoms of a fit learn from a task that is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Atoms {
    /// They stay as they are: the task alone is fitted.
    Fixed,
    /// They learn from its rows, beside what they learned from the other tasks, whose own parts of the posterior are held.
    Updated,
}

/// What is fitted of the task alone.
const TASK: [TaskUpdate; 4] = [
    TaskUpdate::Rows,
    TaskUpdate::LocalOrder,
    TaskUpdate::LocalSticks,
    TaskUpdate::Indicators,
];

/// What is fitted with it when the atoms learn.
const SHARED: [TaskUpdate; 9] = [
    TaskUpdate::Rows,
    TaskUpdate::LocalOrder,
    TaskUpdate::LocalSticks,
    TaskUpdate::Indicators,
    TaskUpdate::GlobalSticks,
    TaskUpdate::Components,
    TaskUpdate::Experts,
    TaskUpdate::ExpertPrior,
    TaskUpdate::Concentrations,
];

/// The state with the one task of `data` at the end.
pub(super) fn add_task(
    data: &MultiTaskData,
    config: &TasksConfig,
    state: &MultiTaskState,
    atoms: Atoms,
) -> Result<MultiTaskState, IqgmeError> {
    let held = held(state)?;
    let alone = MultiTaskState {
        tasks: vec![first_guess(data, config, state)],
        ..state.clone()
    };
    let mut vb = MultiTaskVb::beside(data, config.clone(), alone, held)?;
    vb.repeat(&TASK)?;
    if atoms == Atoms::Updated {
        vb.repeat(&SHARED)?;
        vb.apply(TaskUpdate::Experts)?;
    }
    let mut folded = vb.into_state();
    let tasks = state.tasks.iter().cloned().chain(folded.tasks.drain(..));
    folded.tasks = tasks.collect();
    Ok(folded)
}

/// A group for each atom, those with experts first (labels need one), then those that the tasks use most on average.
fn first_guess(data: &MultiTaskData, config: &TasksConfig, state: &MultiTaskState) -> TaskState {
    let n_atoms = state.components.len();
    let mut shares = vec![0.0; n_atoms];
    for j in 0..state.tasks.len() {
        let weights = state.gate_weights(j, Gate::AtMeans);
        shares.iter_mut().zip(weights).for_each(|(s, w)| *s += w);
    }
    let at_prior = |s: usize| state.is_at_prior(s);
    let mut order: Vec<usize> = (0..n_atoms).collect();
    order.sort_by(|&a, &b| {
        at_prior(a)
            .cmp(&at_prior(b))
            .then(shares[b].total_cmp(&shares[a]))
    });
    order.truncate(config.single.truncation);
    let task = &data.tasks[0];
    let total: f64 = order.iter().map(|&s| shares[s]).sum();
    let n = task.rows.len() as f64;
    let mut counts: Vec<f64> = order.iter().map(|&s| n * shares[s] / total).collect();
    counts.resize(config.single.truncation, 0.0);
    if state.gaussians == Gaussians::Shared {
        return whole_guess(task, config, state, &shares);
    }
    let alpha = state.alpha.mean();
    let mut sticks = Sticks::new(config.single.truncation, alpha).expect("validated");
    sticks.update(&counts, alpha);
    let one_hot = |&atom: &usize| {
        let mut indicator = vec![0.0; n_atoms];
        indicator[atom] = 1.0;
        indicator
    };
    TaskState {
        sticks,
        indicators: order.iter().map(one_hot).collect(),
        utility_means: task.first_soft_labels(),
    }
}

/// All rows in one group, which points at the atoms as those of the other tasks do.
fn whole_guess(
    task: &IqgmeData,
    config: &TasksConfig,
    state: &MultiTaskState,
    shares: &[f64],
) -> TaskState {
    let n = task.rows.len();
    let alpha = state.alpha.mean();
    let mut sticks = Sticks::new(config.single.truncation, alpha).expect("validated");
    let mut counts = vec![0.0; config.single.truncation];
    counts[0] = n as f64;
    sticks.update(&counts, alpha);
    let offered = |s: usize| !state.is_at_prior(s) || task.n_labelled == 0;
    let weight = |s: usize| if offered(s) { shares[s] } else { 0.0 };
    let total: f64 = (0..shares.len()).map(weight).sum();
    let indicator: Vec<f64> = (0..shares.len()).map(|s| weight(s) / total).collect();
    let utility_means = task.first_soft_labels();
    TaskState {
        sticks,
        indicators: if n == 0 { Vec::new() } else { vec![indicator] },
        utility_means: utility_means.repeat(shares.len()),
    }
}

/// What the tasks of a state have given to its atoms, read off their posteriors.
fn held(state: &MultiTaskState) -> Result<Held, IqgmeError> {
    let n_atoms = state.components.len();
    let p = state.vacant.mean.len();
    let mut stats = SufficientStats::zeros(p, n_atoms, state.n_utilities());
    for s in 0..n_atoms {
        labelled(state, s, &mut stats)?;
        if state.gaussians == Gaussians::Own {
            rest(state, s, &mut stats);
        }
    }
    if state.gaussians == Gaussians::Shared && n_atoms > 0 {
        common_rest(state, &mut stats);
    }
    let sum_ln = state.tasks.iter().map(|task| task.sticks.sum_ln_rest());
    Ok(Held {
        stats: Some(stats),
        masses: state.atom_masses(),
        n_tasks: state.tasks.len(),
        sum_ln_rest: sum_ln.sum(),
    })
}

/// The sums over labelled rows, from the experts: those of all rows from that of the first utility.
fn labelled(
    state: &MultiTaskState,
    s: usize,
    stats: &mut SufficientStats,
) -> Result<(), IqgmeError> {
    if state.is_at_prior(s) {
        return Ok(());
    }
    let (p, n_utilities) = (state.vacant.mean.len(), state.n_utilities());
    let prior = &state.expert_prior;
    for k in 0..n_utilities {
        let expert = &state.experts[s * n_utilities + k];
        let precision = Cholesky::new(expert.covariance.as_ref())
            .map_err(|source| IqgmeError::numerical(0, "expert covariance", s, source))?
            .inverse();
        let own = |i: usize| prior.precision(k * (p + 1) + i);
        for i in 0..=p {
            let natural: f64 = (0..=p).map(|j| precision[(i, j)] * expert.mean[j]).sum();
            stats.soft[(i, s * n_utilities + k)] = natural - own(i) * prior.mean[k * (p + 1) + i];
        }
        if k > 0 {
            continue;
        }
        let sum = |i: usize, j: usize| precision[(i, j)] - if i == j { own(i) } else { 0.0 };
        stats.labelled.weight[s] = sum(p, p).max(0.0);
        for i in 0..p {
            stats.labelled.first[(i, s)] = sum(i, p);
        }
        stats.labelled.second[s] = Mat::from_fn(p, p, sum);
    }
    Ok(())
}

/// As [`rest`], of all atoms together, whose Gaussian is one: it does not matter which of them has the rows.
fn common_rest(state: &MultiTaskState, stats: &mut SufficientStats) {
    let p = state.vacant.mean.len();
    let mut all = SufficientStats::zeros(p, state.components.len(), stats.n_utilities());
    for s in 0..state.components.len() {
        all.labelled.add(0, 1.0, &stats.labelled, s);
    }
    rest(state, 0, &mut all);
    stats.unlabelled.add(0, 1.0, &all.unlabelled, 0);
}

/// The sums over the other rows, from the component and the sums over labelled rows.
fn rest(state: &MultiTaskState, s: usize, stats: &mut SufficientStats) {
    let (component, prior) = (&state.components[s], &state.vacant);
    let p = prior.mean.len();
    let (strength, mean) = (component.strength, &component.mean);
    let labelled = &stats.labelled;
    stats.unlabelled.weight[s] = strength - prior.strength - labelled.weight[s];
    for i in 0..p {
        stats.unlabelled.first[(i, s)] = strength * mean[i] - labelled.first[(i, s)];
    }
    stats.unlabelled.second[s] = Mat::from_fn(p, p, |i, j| {
        let all = component.scale_inverse[(i, j)] - prior.scale_inverse[(i, j)]
            + strength * mean[i] * mean[j];
        all - labelled.second[s][(i, j)]
    });
}
