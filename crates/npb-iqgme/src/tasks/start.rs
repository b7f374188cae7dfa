//! Where a run starts: which group each row is in, and which atom each group points at.

use npb_infer::stream;
use rand::RngExt;

use super::TasksConfig;
use super::cluster;
use super::config::TaskStart;
use super::data::MultiTaskData;
use super::local::Local;
use crate::config::Start;
use crate::responsibilities::Responsibilities;
use crate::{IqgmeData, IqgmeError, start};

/// Keys of the random streams.
const NEAR: u64 = 7;
const LABELS: u64 = 8;

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
        TaskStart::Separate(clusters) => separate(data, config, clusters, 1, restart),
        TaskStart::SeparatePerClass(clusters) => separate(data, config, clusters, 2, restart),
        TaskStart::ByLabels(most) => {
            // Fewer clusters in some tries: they seldom merge.
            let fewer = (restart % most as u64) as usize;
            Ok(by_labels(
                data,
                config,
                (most - fewer).max(2.min(most)),
                restart,
            ))
        }
    }
}

/// Tasks in random clusters, one group for each task and one atom for each cluster.
fn by_labels(
    data: &MultiTaskData,
    config: &TasksConfig,
    clusters: usize,
    restart: u64,
) -> (usize, Vec<TaskBegin>) {
    let mut rng = stream(config.single.seed, [restart, 0, LABELS, 0]);
    let mut seen: Vec<usize> = Vec::new();
    let mut task = |task: &IqgmeData| {
        let n = usize::from(task.rows.len() > 0);
        let whole = vec![1.0; task.rows.len()];
        let drawn = rng.random_range(0..clusters);
        let atoms = if n == 0 {
            Vec::new()
        } else {
            let place = seen.iter().position(|&cluster| cluster == drawn);
            vec![place.unwrap_or_else(|| {
                seen.push(drawn);
                seen.len() - 1
            })]
        };
        TaskBegin {
            local: Local::begin(
                task,
                Responsibilities::from_positions(&task.rows, n, &whole),
                n,
            ),
            atoms,
        }
    };
    let tasks = data.tasks.iter().map(&mut task).collect();
    (seen.len(), tasks)
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
    let task = |task: &IqgmeData| {
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
    classes: usize,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>), IqgmeError> {
    let n_tasks = data.n_tasks();
    if n_tasks > config.atoms {
        return near_together(data, config, restart);
    }
    // With too few atoms for both classes of every task these go together.
    let (clusters, by_class) = match config.atoms / (classes * n_tasks) {
        0 => (1, false),
        most => (clusters.min(most), classes > 1),
    };
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
        let start = if by_class {
            Start::PerClass(clusters)
        } else {
            Start::KMeans(clusters)
        };
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

/// One group for each task; tasks whose means are near each other point at one atom.
fn near_together(
    data: &MultiTaskData,
    config: &TasksConfig,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>), IqgmeError> {
    let mean = |task: &IqgmeData| -> Result<Vec<f64>, IqgmeError> {
        let points = start::completed(task)?;
        let n = points.len().max(1) as f64;
        let sum = |j: usize| points.iter().map(|point| point[j]).sum::<f64>();
        Ok((0..task.rows.n_features).map(|j| sum(j) / n).collect())
    };
    let means: Vec<Vec<f64>> = data.tasks.iter().map(mean).collect::<Result<_, _>>()?;
    let all: Vec<usize> = (0..means.len()).collect();
    let mut rng = stream(config.single.seed, [restart, 0, NEAR, 0]);
    let centres = start::k_means(&means, &all, config.atoms, &mut rng);
    let task = |(task, mean): (&IqgmeData, &Vec<f64>)| {
        let n = usize::from(task.rows.len() > 0);
        let whole = vec![1.0; task.rows.len()];
        let responsibilities = Responsibilities::from_positions(&task.rows, n, &whole);
        TaskBegin {
            local: Local::begin(task, responsibilities, n),
            atoms: vec![start::nearest(mean, &centres).0; n],
        }
    };
    Ok((
        centres.len(),
        data.tasks.iter().zip(&means).map(task).collect(),
    ))
}
