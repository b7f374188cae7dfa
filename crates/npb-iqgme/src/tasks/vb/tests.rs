//! The bound is stationary after each update.

use npb_data::{Labels, Table};
use npb_infer::testing::check_stationary;

#[path = "../../../tests/it/tasks/data.rs"]
mod simulated;

use self::simulated::{Tasks, config, labelled_kind, one_task, two_kinds};
use super::super::bound::bound;
use super::{MultiTaskVb, TaskUpdate};
use crate::state::Component;
use crate::vb::tests::simulated::sectors;
use crate::{Init, MultiTaskData, MultiTaskState, TaskInit};

impl MultiTaskVb<'_> {
    /// The bound of another posterior of the parameters with this run's rows.
    fn bound_at(&self, state: &MultiTaskState) -> f64 {
        let expected = Component::all_expected(&state.components).unwrap();
        let each = self.rows.iter().zip(&state.tasks);
        let tasks = each.map(|(rows, part)| (rows.counts(), rows.terms(&part.indicators)));
        let bound = bound(state, &expected, tasks, &self.summed(state), &self.prior);
        bound.unwrap().total()
    }
}

/// Runs a few iterations, makes one update, and checks the bound's derivative in the parameters that `set` writes.
fn stationary(
    start: TaskInit,
    update: TaskUpdate,
    parameters: impl Fn(&MultiTaskState) -> Vec<f64>,
    set: impl Fn(&mut MultiTaskState, &[f64]),
) -> bool {
    let tasks = two_kinds(5, 4, 40, 0.2, 0.2);
    let config = config(5);
    let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
    let mut vb = MultiTaskVb::new(&data, config, start, 0).unwrap();
    for _ in 0..3 {
        vb.step().unwrap();
    }
    vb.apply(TaskUpdate::Rows).unwrap();
    vb.apply(update).unwrap();
    let bound = |x: &[f64]| {
        let mut state = vb.state().clone();
        set(&mut state, x);
        vb.bound_at(&state)
    };
    check_stationary(&parameters(vb.state()), 1e-5, bound).is_ok()
}

const SHARED: TaskInit = TaskInit::Pooled(Init::KMeans(4));

fn atom_mean(state: &MultiTaskState) -> Vec<f64> {
    state.components[0].mean.clone()
}

fn set_atom_mean(state: &mut MultiTaskState, x: &[f64]) {
    state.components[0].mean.copy_from_slice(x);
}

#[test]
fn stationary_in_the_atoms() {
    let update = TaskUpdate::Components;
    assert!(stationary(SHARED, update, atom_mean, set_atom_mean));
    // The broken twin: the mean of another shape of the bound.
    let moved = |state: &mut MultiTaskState, x: &[f64]| {
        set_atom_mean(state, x);
        state.components[0].mean[0] += 0.05;
    };
    assert!(!stationary(SHARED, update, atom_mean, moved));
}

/// Where all atoms have one Gaussian: the bound is highest when they move together, and not when one of them does.
#[test]
fn stationary_in_the_common_gaussian() {
    let (start, update) = (TaskInit::SharedGaussian(3), TaskUpdate::Components);
    let together = |state: &mut MultiTaskState, x: &[f64]| {
        for component in &mut state.components {
            component.mean.copy_from_slice(x);
        }
    };
    assert!(stationary(start, update, atom_mean, together));
    assert!(!stationary(start, update, atom_mean, set_atom_mean));
}

#[test]
fn stationary_in_the_experts() {
    let parameters = |state: &MultiTaskState| state.experts[0].mean.clone();
    let set = |state: &mut MultiTaskState, x: &[f64]| {
        state.experts[0].mean.copy_from_slice(x);
    };
    for start in [SHARED, TaskInit::SharedGaussian(3)] {
        assert!(stationary(start, TaskUpdate::Experts, parameters, set));
        assert!(!stationary(start, TaskUpdate::Labels, parameters, set));
    }
}

/// With few rows in a group its indicator is not all on one atom, and a finite difference sees it.
#[test]
fn stationary_in_the_indicators() {
    let tasks = Tasks::new(vec![
        one_task(1, 0, 40, 0.0, 0.0),
        one_task(2, 0, 40, 0.0, 0.0),
        one_task(3, 0, 1, 0.5, 1.0),
    ]);
    let config = config(1);
    let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
    let start = TaskInit::Pooled(Init::KMeans(3));
    let mut vb = MultiTaskVb::new(&data, config, start, 0).unwrap();
    vb.apply(TaskUpdate::Indicators).unwrap();
    let sharp = |state: &MultiTaskState| state.tasks[2].indicators[0].clone();
    let before = sharp(vb.state());
    let parameters: Vec<f64> = before.iter().map(|s| s.ln()).collect();
    let set = |state: &mut MultiTaskState, x: &[f64]| {
        let sum: f64 = x.iter().map(|x| x.exp()).sum();
        state.tasks[2].indicators[0] = x.iter().map(|x| x.exp() / sum).collect();
    };
    assert!(before.iter().all(|s| *s > 1e-12), "{before:?}");
    let bound = |x: &[f64]| {
        let mut state = vb.state().clone();
        set(&mut state, x);
        vb.bound_at(&state)
    };
    assert!(check_stationary(&parameters, 1e-5, bound).is_ok());
    let shifted: Vec<f64> = parameters
        .iter()
        .enumerate()
        .map(|(k, x)| if k == 0 { x + 0.5 } else { *x })
        .collect();
    assert!(check_stationary(&shifted, 1e-5, bound).is_err());
}

/// A task of one row may be of either cluster; the rows are as each of them has it.
#[test]
fn stationary_in_the_indicators_of_whole_tasks() {
    let mut parts: Vec<(Table, Labels)> = (0..4)
        .map(|j| labelled_kind(j, j as usize % 2, 30))
        .collect();
    parts.push(labelled_kind(9, 0, 1));
    let tasks = Tasks::new(parts);
    let config = config(2);
    let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
    let mut vb = MultiTaskVb::new(&data, config, TaskInit::SharedGaussian(3), 0).unwrap();
    for _ in 0..5 {
        vb.step().unwrap();
    }
    vb.apply(TaskUpdate::Rows).unwrap();
    vb.apply(TaskUpdate::Indicators).unwrap();
    let before = vb.state().tasks[4].indicators[0].clone();
    assert!(
        before.len() > 1 && before.iter().all(|s| *s > 1e-6),
        "{before:?}"
    );
    let set = |state: &mut MultiTaskState, x: &[f64]| {
        let sum: f64 = x.iter().map(|x| x.exp()).sum();
        state.tasks[4].indicators[0] = x.iter().map(|x| x.exp() / sum).collect();
    };
    let bound = |x: &[f64]| {
        let mut state = vb.state().clone();
        set(&mut state, x);
        vb.bound_at(&state)
    };
    let mut at: Vec<f64> = before.iter().map(|s| s.ln()).collect();
    assert!(check_stationary(&at, 1e-5, bound).is_ok());
    at[0] += 0.5;
    assert!(check_stationary(&at, 1e-5, bound).is_err());
}

#[test]
fn bound_is_stationary_in_the_experts_of_every_utility() {
    let tasks = Tasks::new(
        (300..)
            .zip([40, 40, 20])
            .map(|(seed, n)| sectors(seed, n, 4, 0.2, 0.2))
            .collect(),
    );
    let config = config(3);
    let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
    for start in [
        TaskInit::Pooled(Init::KMeans(3)),
        TaskInit::SharedGaussian(2),
    ] {
        let mut vb = MultiTaskVb::new(&data, config.clone(), start, 0).unwrap();
        for _ in 0..3 {
            vb.step().unwrap();
        }
        let derivative = |vb: &MultiTaskVb<'_>, i: usize| {
            let bound = |x: &[f64]| {
                let mut state: MultiTaskState = vb.state().clone();
                state.experts[i].mean.copy_from_slice(x);
                vb.bound_at(&state)
            };
            check_stationary(&vb.state().experts[i].mean, 1e-5, bound)
        };
        vb.apply(TaskUpdate::Rows).unwrap();
        vb.apply(TaskUpdate::Experts).unwrap();
        for i in 0..vb.state().experts.len() {
            if !vb.state().experts[i].at_prior {
                derivative(&vb, i).unwrap();
            }
        }
        // The broken twin: rows that have moved since.
        vb.apply(TaskUpdate::ExpertPrior).unwrap();
        vb.apply(TaskUpdate::Rows).unwrap();
        assert!((0..3).any(|i| derivative(&vb, i).is_err()), "{start:?}");
    }
}
