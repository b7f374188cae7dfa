//! A new task for a fit that has been made.

use npb_priors::dp::Sticks;

use super::TasksConfig;
use super::data::MultiTaskData;
use super::rows::one_hot;
use super::state::{Gaussians, MultiTaskState, TaskState};
use super::vb::{MultiTaskVb, TaskUpdate};
use crate::Result;
use crate::predict::Gate;
use crate::vb::padded;

/// The state with the one task of `data` at the end; what is of all tasks stays as it is. Equations: `docs/iqgme-updates.md#a-new-task`.
pub(super) fn add_task(
    data: &MultiTaskData,
    config: &TasksConfig,
    state: &MultiTaskState,
) -> Result<MultiTaskState> {
    use TaskUpdate::{Indicators, LocalOrder, LocalSticks, Rows};
    let alone = MultiTaskState {
        tasks: vec![first_guess(data, config, state)],
        ..state.clone()
    };
    let mut vb = MultiTaskVb::resume(data, config.clone(), alone, &[])?;
    vb.repeat(&[Rows, LocalOrder, LocalSticks, Indicators])?;
    let mut added = vb.into_state();
    let tasks = state.tasks.iter().cloned().chain(added.tasks.drain(..));
    added.tasks = tasks.collect();
    Ok(added)
}

/// A local component for each atom, those with experts first (labels need one), then those that the tasks use most on average; or, with one Gaussian for all, all rows
/// in one local component, which points at the atoms as those of the other tasks do.
fn first_guess(data: &MultiTaskData, config: &TasksConfig, state: &MultiTaskState) -> TaskState {
    let (n_atoms, truncation) = (state.components.len(), config.single.truncation);
    let mut shares = vec![0.0; n_atoms];
    for j in 0..state.tasks.len() {
        let weights = state.gate_weights(j, Gate::AtMeans);
        shares.iter_mut().zip(weights).for_each(|(s, w)| *s += w);
    }
    let task = &data.tasks[0];
    let n = task.rows.len() as f64;
    let mut counts = vec![n];
    let mut utility_means = task.utilities_by_row(&task.first_locations());
    let indicators = match state.gaussians {
        Gaussians::Own => {
            let at_prior = |s: usize| state.is_at_prior(s);
            let mut order: Vec<usize> = (0..n_atoms).collect();
            order.sort_by(|&a, &b| {
                at_prior(a)
                    .cmp(&at_prior(b))
                    .then(shares[b].total_cmp(&shares[a]))
            });
            order.truncate(truncation);
            let total: f64 = order.iter().map(|&s| shares[s]).sum();
            counts = order.iter().map(|&s| n * shares[s] / total).collect();
            order.iter().map(|&s| one_hot(s, n_atoms)).collect()
        }
        Gaussians::Shared => {
            let offered = |s: usize| !state.is_at_prior(s) || task.n_labelled == 0;
            let weight = |s: usize| if offered(s) { shares[s] } else { 0.0 };
            let total: f64 = (0..n_atoms).map(weight).sum();
            utility_means = utility_means.repeat(n_atoms);
            let indicator = (0..n_atoms).map(|s| weight(s) / total).collect();
            vec![indicator; usize::from(n > 0.0)]
        }
    };
    let alpha = state.alpha.mean();
    let mut sticks = Sticks::new(truncation, alpha).expect("validated");
    sticks.update(&padded(&counts, truncation), alpha);
    TaskState {
        sticks,
        indicators,
        utility_means,
    }
}
