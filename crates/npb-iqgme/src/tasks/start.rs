//! Where a run starts: which group each row is in, and which atom each group points at.

use super::TasksConfig;
use super::cluster;
use super::config::TaskStart;
use super::data::MultiTaskData;
use super::local::Local;
use crate::config::Start;
use crate::responsibilities::Responsibilities;
use crate::{IqgmeError, start};

/// One task's part of a start.
pub(super) struct TaskBegin {
    pub(super) local: Local,
    /// The atom of each group.
    pub(super) atoms: Vec<usize>,
}

/// Number of atoms, and the tasks' parts.
pub(super) fn begin(
    data: &MultiTaskData,
    config: &TasksConfig,
    start: TaskStart,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>), IqgmeError> {
    match start {
        TaskStart::Pooled(start) => pooled(data, config, config.atoms, start, restart),
        TaskStart::Clustered(clusters, start) => {
            let most = config.atoms / clusters;
            let (n, tasks) = pooled(data, config, most, start, restart)?;
            cluster::clustered(data, config, clusters, n, tasks, restart)
        }
        TaskStart::Separate(clusters) => separate(data, config, clusters, restart),
    }
}

fn pooled(
    data: &MultiTaskData,
    config: &TasksConfig,
    most: usize,
    start: Start,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>), IqgmeError> {
    let mut single = config.single.clone();
    single.truncation = single.truncation.min(most);
    let (n, by_position) = start::responsibilities(&data.pooled, &single, start, restart)?;
    let mut by_row = vec![0.0; by_position.len()];
    for (values, &row) in by_position.chunks_exact(n).zip(&data.pooled.rows.order) {
        by_row[row * n..][..n].copy_from_slice(values);
    }
    let mut first = 0;
    let task = |task: &crate::IqgmeData| {
        let order = task.rows.order.iter();
        let values: Vec<f64> = order
            .flat_map(|row| by_row[(first + row) * n..][..n].iter().copied())
            .collect();
        first += task.rows.len();
        let responsibilities = Responsibilities::from_positions(&task.rows, n, &values);
        TaskBegin {
            local: Local::begin(task, responsibilities, n),
            atoms: (0..n).collect(),
        }
    };
    Ok((n, data.tasks.iter().map(task).collect()))
}

fn separate(
    data: &MultiTaskData,
    config: &TasksConfig,
    clusters: usize,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>), IqgmeError> {
    let n_tasks = data.n_tasks();
    if n_tasks > config.atoms {
        return Err(IqgmeError::Config {
            field: "starts",
            value: format!("{:?}", TaskStart::Separate(clusters)),
            rule: format!("with at least as many atoms as tasks, {n_tasks}"),
        });
    }
    let clusters = clusters.min(config.atoms / n_tasks);
    let mut n_atoms = 0;
    let mut tasks = Vec::with_capacity(n_tasks);
    for (j, task) in data.tasks.iter().enumerate() {
        if task.rows.len() == 0 {
            tasks.push(TaskBegin {
                local: Local::begin(task, Responsibilities::zeros(0, 0), 0),
                atoms: Vec::new(),
            });
            continue;
        }
        let restart = restart * n_tasks as u64 + j as u64;
        let start = Start::KMeans(clusters);
        let (n, values) = start::responsibilities(task, &config.single, start, restart)?;
        let responsibilities = Responsibilities::from_positions(&task.rows, n, &values);
        tasks.push(TaskBegin {
            local: Local::begin(task, responsibilities, n),
            atoms: (n_atoms..n_atoms + n).collect(),
        });
        n_atoms += n;
    }
    Ok((n_atoms, tasks))
}
