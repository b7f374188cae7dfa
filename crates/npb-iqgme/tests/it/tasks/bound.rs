//! The bound: it never falls, and it is stationary after each update.

use npb_data::{Labels, Table};
use npb_infer::testing::{BoundMonitor, check_stationary};
use npb_iqgme::{Init, MultiTaskData, MultiTaskState, MultiTaskVb, TaskInit, TaskUpdate};

use super::data::{Tasks, config, labelled_kind, one_task, two_kinds};

const UPDATES: [TaskUpdate; 11] = [
    TaskUpdate::Labels,
    TaskUpdate::Rows,
    TaskUpdate::LocalOrder,
    TaskUpdate::LocalSticks,
    TaskUpdate::Indicators,
    TaskUpdate::AtomOrder,
    TaskUpdate::GlobalSticks,
    TaskUpdate::Components,
    TaskUpdate::Experts,
    TaskUpdate::ExpertPrior,
    TaskUpdate::Concentrations,
];

fn random_tasks(seed: u64) -> Tasks {
    let missing = [0.0, 0.3, 0.6][seed as usize % 3];
    let unlabelled = [0.0, 0.4, 1.0][seed as usize / 3 % 3];
    // Sizes differ; one task has one row, one has none.
    let sizes = [20, 7, 1, 33, 0];
    let task =
        |(j, &n): (usize, &usize)| one_task(10 * seed + j as u64, j % 2, n, missing, unlabelled);
    Tasks::new(sizes.iter().enumerate().map(task).collect())
}

pub(super) fn starts(seed: u64) -> TaskInit {
    [
        TaskInit::Pooled(Init::KMeans(5)),
        TaskInit::Separate(2),
        TaskInit::Pooled(Init::PerClass(2)),
        TaskInit::Pooled(Init::Mixture(4)),
        TaskInit::SharedGaussian(3),
        TaskInit::SeparatePerClass(1),
    ][(seed as usize + seed as usize / 6) % 6]
}

#[test]
fn never_falls_after_any_single_update() {
    for seed in 0..24 {
        let tasks = random_tasks(seed);
        let config = config(seed);
        let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
        let mut vb = MultiTaskVb::new(&data, config, starts(seed), 0).unwrap();
        never_falls(&mut vb, 30, seed);
    }
}

/// Makes so many iterations, update by update.
pub(super) fn never_falls(vb: &mut MultiTaskVb<'_>, iterations: usize, seed: u64) {
    let mut monitor = BoundMonitor::new();
    for iteration in 0..iterations {
        for update in UPDATES {
            vb.apply(update).unwrap();
            let bound = vb.bound().unwrap();
            let name = format!("seed {seed}, iteration {iteration}, {update:?}");
            // The parts cancel inside: their magnitude goes along as two terms that add up to nothing.
            let mut terms = bound.terms().to_vec();
            terms.extend([0.5 * bound.magnitude, -0.5 * bound.magnitude]);
            monitor
                .check(&name, &terms)
                .unwrap_or_else(|fell| panic!("{fell}"));
        }
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
        vb.bound_at(&state).unwrap().total()
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
        vb.bound_at(&state).unwrap().total()
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
        vb.bound_at(&state).unwrap().total()
    };
    let mut at: Vec<f64> = before.iter().map(|s| s.ln()).collect();
    assert!(check_stationary(&at, 1e-5, bound).is_ok());
    at[0] += 0.5;
    assert!(check_stationary(&at, 1e-5, bound).is_err());
}

/// A task without labels may keep an atom whose expert knows nothing: it is none for the others, however little their rows would cost where nobody looks at them.
#[test]
fn labelled_tasks_point_at_atoms_that_take_labels() {
    let mut parts: Vec<_> = (0..2).map(|j| labelled_kind(3 + j, 0, 40)).collect();
    let (table, labels) = labelled_kind(9, 1, 40);
    parts.push((
        table,
        Labels::from_strings(&vec![None::<&str>; labels.n_rows()]),
    ));
    let tasks = Tasks::new(parts);
    let config = config(3);
    let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
    let mut vb = MultiTaskVb::new(&data, config.clone(), TaskInit::SharedGaussian(3), 0).unwrap();
    for _ in 0..3 {
        vb.step().unwrap();
    }
    // One atom more, which the task without labels has for itself.
    let mut state = vb.into_state();
    let n_atoms = state.components.len();
    state.components.push(state.components[0].clone());
    let mut expert = state.experts[0].clone();
    expert.at_prior = true;
    state.experts.push(expert);
    for (j, task) in state.tasks.iter_mut().enumerate() {
        let per_atom = task.utility_means.len() / n_atoms;
        task.utility_means.extend_from_within(..per_atom);
        task.indicators[0].push(0.0);
        if j == 2 {
            task.indicators[0].fill(0.0);
            task.indicators[0][n_atoms] = 1.0;
        }
    }
    let mut vb = MultiTaskVb::resume(&data, config, state, &[]).unwrap();
    vb.apply(TaskUpdate::Rows).unwrap();
    vb.apply(TaskUpdate::Indicators).unwrap();
    for j in [0, 1] {
        assert_eq!(vb.state().tasks[j].indicators[0][n_atoms], 0.0, "task {j}");
    }
}

#[test]
fn a_posterior_of_another_run_is_refused() {
    let tasks = two_kinds(6, 4, 20, 0.2, 0.2);
    let config = config(6);
    let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
    let run = |start| MultiTaskVb::new(&data, config.clone(), start, 0).unwrap();
    let (one, other) = (run(TaskInit::Separate(1)), run(TaskInit::Separate(2)));
    let error = one.bound_at(other.state()).unwrap_err().to_string();
    assert!(
        error.contains("number of atoms or local components"),
        "{error}"
    );
}
