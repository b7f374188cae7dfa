//! Data drawn from the models.

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_regbayes::npb_data::{Labels, Mask, Table};
use npb_regbayes::tasks::{Task, TaskData};
use npb_regbayes::{FeatureConfig, IlsvmConfig, MtIlsvmConfig};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    StandardNormal.sample(rng)
}

fn with_holes(
    values: Vec<f64>,
    n: usize,
    d: usize,
    missing: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Table {
    let seen: Vec<bool> = (0..n * d).map(|_| rng.random::<f64>() >= missing).collect();
    let mask = Mask::from_fn(n, d, |i, j| seen[i * d + j]).unwrap();
    Table::from_parts(values, mask).unwrap()
}

/// Rows with `k` features, and classes by two of them: 0, 1 or 2 (both).
pub(crate) fn classes(seed: u64, n: usize, missing: f64) -> (Table, Vec<usize>) {
    let (k, d) = (4, 12);
    let rng = &mut stream(seed, [1, 0, 0, 0]);
    let w: Vec<f64> = (0..k * d).map(|_| 1.5 * normal(rng)).collect();
    let mut values = Vec::with_capacity(n * d);
    let mut truth = Vec::with_capacity(n);
    for _ in 0..n {
        let z: Vec<bool> = (0..k).map(|_| rng.random::<f64>() < 0.5).collect();
        truth.push(usize::from(z[0]) + usize::from(z[0] && z[1]));
        for j in 0..d {
            let mean: f64 = (0..k).filter(|&l| z[l]).map(|l| w[l * d + j]).sum();
            values.push(mean + 0.5 * normal(rng));
        }
    }
    (with_holes(values, n, d, missing, rng), truth)
}

/// Labels of the first `known` rows; the others have none.
pub(crate) fn labels(truth: &[usize], known: usize) -> Labels {
    let code = |(n, &y): (usize, &usize)| (n < known).then_some(y);
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    Labels::from_codes(names, truth.iter().enumerate().map(code).collect()).unwrap()
}

/// What a task is, in the simulation of many tasks.
pub(crate) struct Tasks {
    pub(crate) inputs: Table,
    /// Labels of three tasks for all rows.
    pub(crate) truth: Vec<Vec<bool>>,
    /// A real target.
    pub(crate) real: Vec<f64>,
}

/// Rows `x = Z w`, tasks by signs of `eta' Z'x` (R 4.3).
pub(crate) fn tasks(seed: u64, n: usize, missing: f64) -> Tasks {
    let (k, d) = (3, 15);
    let rng = &mut stream(seed, [2, 0, 0, 0]);
    let z: Vec<bool> = (0..d * k).map(|_| rng.random::<f64>() < 0.4).collect();
    let eta: Vec<f64> = (0..4 * k).map(|_| normal(rng)).collect();
    let mut values = Vec::with_capacity(n * d);
    let mut scores = vec![Vec::new(); 4];
    for _ in 0..n {
        let w: Vec<f64> = (0..k).map(|_| normal(rng)).collect();
        let row: Vec<f64> = (0..d)
            .map(|j| {
                (0..k).filter(|&l| z[j * k + l]).map(|l| w[l]).sum::<f64>() + 0.3 * normal(rng)
            })
            .collect();
        let features: Vec<f64> = (0..k)
            .map(|l| (0..d).filter(|&j| z[j * k + l]).map(|j| row[j]).sum())
            .collect();
        for (m, scores) in scores.iter_mut().enumerate() {
            scores.push((0..k).map(|l| eta[m * k + l] * features[l]).sum::<f64>());
        }
        values.extend(row);
    }
    let real = scores.pop().unwrap();
    Tasks {
        inputs: with_holes(values, n, d, missing, rng),
        truth: scores
            .iter()
            .map(|own| own.iter().map(|&s| s > 0.0).collect())
            .collect(),
        real,
    }
}

impl Tasks {
    /// Targets of the first `known` rows.
    pub(crate) fn data(&self, known: usize) -> TaskData {
        let n = self.inputs.n_rows();
        let mut list: Vec<Task> = self
            .truth
            .iter()
            .enumerate()
            .map(|(m, truth)| {
                let label = |i: usize| (i < known).then(|| truth[i]);
                Task::label(format!("label {m}"), &(0..n).map(label).collect::<Vec<_>>())
            })
            .collect();
        let real = |i: usize| (i < known).then(|| 10.0 + 5.0 * self.real[i]);
        list.push(Task::real("real", &(0..n).map(real).collect::<Vec<_>>()).unwrap());
        TaskData::new(self.inputs.clone(), list).unwrap()
    }
}

/// A small factor model.
pub(crate) fn factors(truncation: usize) -> FeatureConfig {
    FeatureConfig {
        truncation,
        max_truncation: truncation + 10,
        growth: 2,
        ..FeatureConfig::default()
    }
}

pub(crate) fn class_config(truncation: usize) -> IlsvmConfig {
    IlsvmConfig {
        factors: factors(truncation),
        seed: 3,
        ..IlsvmConfig::default()
    }
}

pub(crate) fn task_config(truncation: usize) -> MtIlsvmConfig {
    MtIlsvmConfig {
        factors: factors(truncation),
        seed: 3,
        cost: 0.3,
        ..MtIlsvmConfig::default()
    }
}
