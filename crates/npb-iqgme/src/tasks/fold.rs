//! A new task for a fit that stands.

use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::dp::Sticks;
use serde::{Deserialize, Serialize};

use super::TasksConfig;
use super::data::MultiTaskData;
use super::state::{MultiTaskState, TaskState};
use super::vb::{Held, MultiTaskVb, TaskUpdate};
use crate::IqgmeError;
use crate::config::Gate;
use crate::stats::Stats;

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
    TaskUpdate::GroupOrder,
    TaskUpdate::GroupSticks,
    TaskUpdate::Indicators,
];

/// What is fitted with it when the atoms learn.
const SHARED: [TaskUpdate; 9] = [
    TaskUpdate::Rows,
    TaskUpdate::GroupOrder,
    TaskUpdate::GroupSticks,
    TaskUpdate::Indicators,
    TaskUpdate::TopSticks,
    TaskUpdate::Components,
    TaskUpdate::Experts,
    TaskUpdate::ExpertPrior,
    TaskUpdate::Concentrations,
];

/// The state with the one task of `data` at the end.
pub(super) fn fold(
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
    let tied = |s: usize| state.experts.get(s).is_some_and(|expert| expert.tied);
    let mut order: Vec<usize> = (0..n_atoms).collect();
    order.sort_by(|&a, &b| tied(a).cmp(&tied(b)).then(shares[b].total_cmp(&shares[a])));
    order.truncate(config.single.truncation);
    let task = &data.tasks[0];
    let total: f64 = order.iter().map(|&s| shares[s]).sum();
    let n = task.rows.len() as f64;
    let mut counts: Vec<f64> = order.iter().map(|&s| n * shares[s] / total).collect();
    counts.resize(config.single.truncation, 0.0);
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
        soft_labels: task.signs_by_row(),
    }
}

/// What the tasks of a state have given to its atoms, read off their posteriors.
fn held(state: &MultiTaskState) -> Result<Held, IqgmeError> {
    let n_atoms = state.components.len();
    let p = state.vacant.mean.len();
    let mut stats = Stats::zeros(p, n_atoms, 1);
    for s in 0..n_atoms {
        labelled(state, s, &mut stats)?;
        rest(state, s, &mut stats);
    }
    let sum_ln = state.tasks.iter().map(|task| task.sticks.sum_ln_rest());
    Ok(Held {
        stats: Some(stats),
        masses: state.atom_masses(),
        n_tasks: state.tasks.len(),
        sum_ln_rest: sum_ln.sum(),
    })
}

/// The sums over labelled rows, from the expert.
fn labelled(state: &MultiTaskState, s: usize, stats: &mut Stats) -> Result<(), IqgmeError> {
    let Some(expert) = state.experts.get(s).filter(|expert| !expert.tied) else {
        return Ok(());
    };
    let p = state.vacant.mean.len();
    let prior = &state.expert_prior;
    let precision = Cholesky::new(expert.covariance.as_ref())
        .map_err(|source| IqgmeError::Numerical {
            iteration: 0,
            block: "expert covariance",
            component: s,
            source,
        })?
        .inverse();
    let sum = |i: usize, j: usize| {
        let own = if i == j { prior.precision(i) } else { 0.0 };
        precision[(i, j)] - own
    };
    stats.labelled.weight[s] = sum(p, p).max(0.0);
    for i in 0..p {
        stats.labelled.first[(i, s)] = sum(i, p);
    }
    stats.labelled.second[s] = Mat::from_fn(p, p, sum);
    for i in 0..=p {
        let natural: f64 = (0..=p).map(|j| precision[(i, j)] * expert.mean[j]).sum();
        stats.soft[(i, s)] = natural - prior.precision(i) * prior.mean[i];
    }
    Ok(())
}

/// The sums over the other rows, from the component and the sums over labelled rows.
fn rest(state: &MultiTaskState, s: usize, stats: &mut Stats) {
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
