//! Where a run starts: which local component each row is in, and which atom each local component points at.

use npb_data::Table;
use npb_data::clusters;
use npb_infer::stream;
use rand::RngExt;

use super::TasksConfig;
use super::config::TaskInit;
use super::data::MultiTaskData;
use super::rows::TaskBegin;
use super::state::TaskState;
use super::vb::MultiTaskVb;
use crate::config::Init;
use crate::rows::Rows;
use crate::{IqgmeData, Result, start};

/// Keys of the random streams.
const NEAR: u64 = 7;
const LABELS: u64 = 8;

/// First clusters of tasks by labels, and iterations in which they are compared.
const TRIES: usize = 8;
const TRIAL_ITERATIONS: usize = 10;

impl<'d> MultiTaskVb<'d> {
    /// Starts a run; `restart` selects the random numbers of `start`.
    pub fn new(
        data: &'d MultiTaskData,
        config: TasksConfig,
        start: TaskInit,
        restart: u64,
    ) -> Result<Self> {
        config.validate()?;
        let begin = begin(data, &config, start, restart)?;
        Self::begin(data, &config, start, begin)
    }
}

/// Number of atoms, and the tasks' parts.
fn begin(
    data: &MultiTaskData,
    config: &TasksConfig,
    start: TaskInit,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>)> {
    match start {
        TaskInit::Pooled(start) => pooled(data, config, config.atoms, start, restart),
        TaskInit::Separate(clusters) => separate(data, config, clusters, false, restart),
        TaskInit::SeparatePerClass(clusters) => separate(data, config, clusters, true, restart),
        TaskInit::SharedGaussian(most) => by_labels(data, config, most, restart),
    }
}

/// Tasks in clusters by their labels: of some random ones, and each task by itself if so many clusters are allowed, those with which a run has the highest bound
/// after a few iterations. Rows are completed first, so that these are cheap.
fn by_labels(
    data: &MultiTaskData,
    config: &TasksConfig,
    most: usize,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>)> {
    let with_holes = data.pooled.rows.any_missing();
    let completed = with_holes.then(|| completed(data)).transpose()?;
    let complete = completed.as_ref().unwrap_or(data);
    let n_tasks = data.n_tasks();
    let mut rng = stream(config.single.seed, [restart, 0, LABELS, 0]);
    let mut best: Option<(f64, Vec<usize>)> = None;
    for k in 0..if most == 1 { 1 } else { TRIES } {
        // Clusters seldom merge: from many to few.
        let n = (most.min(n_tasks) - k % most.min(n_tasks)).max(most.min(2));
        let clusters: Vec<usize> = match k {
            0 if n_tasks <= most => (0..n_tasks).collect(),
            _ => (0..n_tasks).map(|_| rng.random_range(0..n)).collect(),
        };
        let found = match most {
            1 => (0.0, clusters),
            _ => tried(complete, config, &clusters)?,
        };
        if best.as_ref().is_none_or(|(bound, _)| found.0 > *bound) {
            best = Some(found);
        }
    }
    Ok(whole(data, &best.expect("at least one try").1))
}

/// Bound and clusters after a few iterations from these clusters.
fn tried(
    data: &MultiTaskData,
    config: &TasksConfig,
    clusters: &[usize],
) -> Result<(f64, Vec<usize>)> {
    let start = TaskInit::SharedGaussian(clusters.len());
    let mut vb = MultiTaskVb::begin(data, config, start, whole(data, clusters))?;
    let mut bound = f64::NEG_INFINITY;
    for _ in 0..TRIAL_ITERATIONS {
        bound = vb.step()?;
    }
    let most_probable = |task: &TaskState| {
        let sigma = task.indicators.first().map_or(&[][..], |sigma| sigma);
        let each = sigma.iter().enumerate();
        each.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(s, _)| s)
    };
    Ok((bound, vb.state().tasks.iter().map(most_probable).collect()))
}

/// One local component for each task that has rows, and one atom for each cluster.
fn whole(data: &MultiTaskData, clusters: &[usize]) -> (usize, Vec<TaskBegin>) {
    let mut seen: Vec<usize> = Vec::new();
    let task = |(task, cluster): (&IqgmeData, &usize)| {
        let n = task.rows.len();
        let atom = || match seen.iter().position(|c| c == cluster) {
            Some(place) => place,
            None => {
                seen.push(*cluster);
                seen.len() - 1
            }
        };
        let atoms = (n > 0).then(atom).into_iter().collect();
        TaskBegin::new(task, atoms, &vec![1.0; n])
    };
    let tasks = data.tasks.iter().zip(clusters).map(task).collect();
    (seen.len(), tasks)
}

/// The tasks with their holes filled by one Gaussian for all rows; rows in another order.
fn completed(data: &MultiTaskData) -> Result<MultiTaskData> {
    let task = |task: &IqgmeData| {
        let rows = &task.rows;
        let values = start::completed(task)?.concat();
        let table = Table::complete(rows.len(), rows.n_features, values)?;
        Ok(IqgmeData {
            rows: Rows::with_classes(&table, &rows.classes, rows.n_utilities),
            ..task.clone()
        })
    };
    let tasks = data.tasks.iter().map(task);
    Ok(MultiTaskData {
        pooled: task(&data.pooled)?,
        names: data.names.clone(),
        tasks: tasks.collect::<Result<_>>()?,
    })
}

fn pooled(
    data: &MultiTaskData,
    config: &TasksConfig,
    most: usize,
    start: Init,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>)> {
    let mut single = config.single.clone();
    single.truncation = single.truncation.min(most);
    let (n, by_position) = start::responsibilities(&data.pooled, &single, start, restart)?;
    let by_row = data.pooled.rows.by_row(&by_position, n);
    let mut first = 0;
    let task = |task: &IqgmeData| {
        let order = task.rows.order.iter();
        let values: Vec<f64> = order
            .flat_map(|row| by_row[(first + row) * n..][..n].iter().copied())
            .collect();
        first += task.rows.len();
        TaskBegin::new(task, (0..n).collect(), &values)
    };
    Ok((n, data.tasks.iter().map(task).collect()))
}

fn separate(
    data: &MultiTaskData,
    config: &TasksConfig,
    clusters: usize,
    by_class: bool,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>)> {
    let n_tasks = data.n_tasks();
    if n_tasks > config.atoms {
        return near_together(data, config, restart);
    }
    let classes = if by_class { data.n_utilities() + 1 } else { 1 };
    // With too few atoms for all classes of every task these go together.
    let (clusters, by_class) = match config.atoms / (classes * n_tasks) {
        0 => (1, false),
        most => (clusters.min(most), by_class),
    };
    let mut n_atoms = 0;
    let mut tasks = Vec::with_capacity(n_tasks);
    for (j, task) in data.tasks.iter().enumerate() {
        if task.rows.len() == 0 {
            tasks.push(TaskBegin::new(task, Vec::new(), &[]));
            continue;
        }
        let restart = restart * n_tasks as u64 + j as u64;
        let start = [Init::KMeans, Init::PerClass][usize::from(by_class)](clusters);
        let (n, values) = start::responsibilities(task, &config.single, start, restart)?;
        let atoms = (n_atoms..n_atoms + n).collect();
        tasks.push(TaskBegin::new(task, atoms, &values));
        n_atoms += n;
    }
    Ok((n_atoms, tasks))
}

/// One local component for each task; tasks whose means are near each other point at one atom.
fn near_together(
    data: &MultiTaskData,
    config: &TasksConfig,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>)> {
    let mean = |task: &IqgmeData| -> Result<Vec<f64>> {
        let points = start::completed(task)?;
        let n = points.len().max(1) as f64;
        let sum = |j: usize| points.iter().map(|point| point[j]).sum::<f64>();
        Ok((0..task.rows.n_features).map(|j| sum(j) / n).collect())
    };
    let means: Vec<Vec<f64>> = data.tasks.iter().map(mean).collect::<Result<_, _>>()?;
    let all: Vec<usize> = (0..means.len()).collect();
    let mut rng = stream(config.single.seed, [restart, 0, NEAR, 0]);
    let centres = clusters::k_means(&means, &all, config.atoms, &mut rng);
    let nearest = |mean: &Vec<f64>| clusters::nearest(mean, &centres).0;
    let clusters: Vec<usize> = means.iter().map(nearest).collect();
    Ok(whole(data, &clusters))
}
