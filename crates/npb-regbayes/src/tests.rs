//! The objective and its updates, on random data, masks and truncations.

mod features;
mod labels;
mod settings;

use npb_data::{Labels, Mask, Table};
use npb_infer::{Xoshiro256PlusPlus, stream};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use crate::config::{FeatureConfig, LoadingCovariance, Variance};
use crate::tasks::{Task, TaskData};

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    StandardNormal.sample(rng)
}

/// A generator of its own for each case.
fn case(number: u64) -> Xoshiro256PlusPlus {
    stream(20_14, [number, 0, 0, 0])
}

/// A table of correlated columns, in units near the standard ones, a share of it missing.
fn table(rows: usize, cols: usize, missing: f64, rng: &mut Xoshiro256PlusPlus) -> Table {
    let factors: Vec<f64> = (0..rows * 2).map(|_| normal(rng)).collect();
    let loadings: Vec<f64> = (0..cols * 2).map(|_| normal(rng)).collect();
    let value = |n: usize, d: usize| -> f64 {
        (0..2)
            .map(|r| f64::from(u8::from(factors[2 * n + r] > 0.0)) * loadings[2 * d + r])
            .sum()
    };
    let mut values = Vec::with_capacity(rows * cols);
    for n in 0..rows {
        for d in 0..cols {
            values.push(value(n, d) + 0.5 * normal(rng));
        }
    }
    let keep: Vec<bool> = (0..rows * cols)
        .map(|_| rng.random::<f64>() >= missing)
        .collect();
    let mask = Mask::from_fn(rows, cols, |n, d| keep[n * cols + d]).unwrap();
    Table::from_parts(values, mask).unwrap()
}

/// Settings of a small factor model, different from case to case.
fn factors(rng: &mut Xoshiro256PlusPlus, truncation: usize) -> FeatureConfig {
    let form = [
        LoadingCovariance::Full,
        LoadingCovariance::Diagonal,
        LoadingCovariance::Isotropic,
    ][rng.random_range(0..3)];
    let scale = |rng: &mut Xoshiro256PlusPlus| {
        if rng.random::<f64>() < 0.7 {
            Variance::Learned
        } else {
            Variance::Fixed(0.3 + rng.random::<f64>())
        }
    };
    FeatureConfig {
        truncation,
        max_truncation: truncation + 4,
        growth: 2,
        covariance: form,
        noise_variance: scale(rng),
        loading_variance: scale(rng),
        input_weight: if rng.random::<f64>() < 0.5 { 1.0 } else { 0.3 },
        warm_up: rng.random_range(0..4),
        ..FeatureConfig::default()
    }
}

/// Three classes, some rows without a label.
fn classes(table: &Table, rng: &mut Xoshiro256PlusPlus) -> Labels {
    let class = |n: usize, rng: &mut Xoshiro256PlusPlus| {
        let known = n < 3 || rng.random::<f64>() < 0.8;
        let score = table.row(n)[0] + 0.3 * normal(rng);
        let own = if n < 3 {
            n as i64
        } else {
            (score > 0.0) as i64 + (score > 1.0) as i64
        };
        known.then_some(own)
    };
    let codes: Vec<Option<i64>> = (0..table.n_rows()).map(|n| class(n, rng)).collect();
    Labels::from_integers(&codes)
}

/// Two labels and a real target, each known in some rows.
fn tasks(table: &Table, rng: &mut Xoshiro256PlusPlus) -> TaskData {
    let n = table.n_rows();
    let mut label = |d: usize| -> Vec<Option<bool>> {
        let one = |n: usize, rng: &mut Xoshiro256PlusPlus| {
            (n < 2 || rng.random::<f64>() < 0.7)
                .then(|| table.row(n)[d] + table.row(n)[d + 1] + 0.3 * normal(rng) > 0.0)
        };
        (0..n).map(|n| one(n, rng)).collect()
    };
    let labels = [label(0), label(1)];
    let real: Vec<Option<f64>> = (0..n)
        .map(|n| (n % 3 != 0).then(|| 2.0 * table.row(n)[0] - 1.0 + 0.3 * normal(rng)))
        .collect();
    let list = vec![
        Task::label("a", &labels[0]),
        Task::label("b", &labels[1]),
        Task::real("c", &real).unwrap(),
    ];
    TaskData::new(table.clone(), list).unwrap()
}
