//! The bound: it never falls.

use npb_data::Labels;
use npb_infer::testing::BoundMonitor;
use npb_iqgme::{Init, MultiTaskData, MultiTaskVb, TaskInit, TaskUpdate};

use super::data::{Tasks, config, labelled_kind, one_task};

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
