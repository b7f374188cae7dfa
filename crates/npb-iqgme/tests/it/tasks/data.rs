//! Simulated tasks with holes.

use npb_data::{Labels, Table};
use npb_infer::{VbLimits, stream};
use npb_iqgme::{Init, IqgmeConfig, Task, TaskInit, TasksConfig};
use rand::RngExt;
use rand_distr::StandardNormal;

/// Tables and labels of some tasks, with names.
pub(crate) struct Tasks {
    pub(crate) names: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) labels: Vec<Labels>,
}

impl Tasks {
    pub(crate) fn new(parts: Vec<(Table, Labels)>) -> Self {
        let names = (0..parts.len()).map(|j| format!("task {j}")).collect();
        let (tables, labels) = parts.into_iter().unzip();
        Self {
            names,
            tables,
            labels,
        }
    }

    pub(crate) fn borrowed(&self) -> Vec<Task<'_>> {
        let each = self.names.iter().zip(&self.tables).zip(&self.labels);
        each.map(|((name, table), labels)| Task {
            name,
            table,
            labels,
        })
        .collect()
    }
}

/// Rows of one task of two kinds, in three features: kind 0 has two Gaussians to the left, kind 1 two to the right, and the kinds' classes are cut
/// the other way about. `missing` of the cells and `unlabelled` of the labels are removed.
pub(crate) fn one_task(
    seed: u64,
    kind: usize,
    n: usize,
    missing: f64,
    unlabelled: f64,
) -> (Table, Labels) {
    let mut rng = stream(seed, [0, kind as u64, 9, 0]);
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let upper = rng.random::<f64>() < 0.4;
        let centre = [
            if kind == 0 { -1.5 } else { 1.5 },
            if upper { 2.0 } else { -2.0 },
            0.0,
        ];
        let x = centre.map(|c: f64| c + 0.8 * rng.sample::<f64, _>(StandardNormal));
        let noise: f64 = rng.sample(StandardNormal);
        let score = if kind == 0 { x[2] } else { -x[2] } * 2.0 + 0.5 * noise;
        seen.extend(x.map(|_| rng.random::<f64>() >= missing));
        values.extend(x);
        let label = if score > 0.0 { "yes" } else { "no" };
        labels.push((rng.random::<f64>() >= unlabelled).then_some(label));
    }
    (
        Table::new(n, 3, values, &seen).unwrap(),
        Labels::from_strings(&labels),
    )
}

/// Rows of one task of two kinds that have the same features, three normals with a hole in ten, and are cut along two lines. The kinds differ in nothing but labels.
pub(crate) fn labelled_kind(seed: u64, kind: usize, n: usize) -> (Table, Labels) {
    let mut rng = stream(seed, [0, kind as u64, 10, 0]);
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let x: [f64; 3] = [0; 3].map(|_| rng.sample(StandardNormal));
        let noise: f64 = rng.sample(StandardNormal);
        let score = if kind == 0 { x[0] + x[1] } else { x[1] - x[0] };
        seen.extend(x.map(|_| rng.random::<f64>() >= 0.1));
        values.extend(x);
        labels.push(Some(if 2.0 * score + 0.5 * noise > 0.0 {
            "yes"
        } else {
            "no"
        }));
    }
    (
        Table::new(n, 3, values, &seen).unwrap(),
        Labels::from_strings(&labels),
    )
}

/// Tasks of both kinds in turn.
pub(crate) fn two_kinds(
    seed: u64,
    n_tasks: usize,
    n: usize,
    missing: f64,
    unlabelled: f64,
) -> Tasks {
    let task = |j: usize| one_task(seed * 100 + j as u64, j % 2, n, missing, unlabelled);
    Tasks::new((0..n_tasks).map(task).collect())
}

pub(crate) fn config(seed: u64) -> TasksConfig {
    TasksConfig {
        single: IqgmeConfig {
            truncation: 6,
            limits: VbLimits {
                max_iterations: 100,
                ..IqgmeConfig::default().limits
            },
            normal_scores: false,
            seed,
            ..TasksConfig::default().single
        },
        atoms: 12,
        starts: vec![TaskInit::Pooled(Init::KMeans(4)), TaskInit::Separate(2)],
        ..TasksConfig::default()
    }
}
