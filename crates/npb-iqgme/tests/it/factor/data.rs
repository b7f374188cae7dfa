//! Simulated rows with many features and few factors.

use npb_data::{Labels, Table};
use npb_infer::{VbLimits, stream};
use npb_iqgme::{FactorConfig, FactorInit, FeatureScale};
use rand::RngExt;
use rand_distr::StandardNormal;

/// What is simulated.
#[derive(Clone)]
pub(crate) struct Simulation {
    pub(crate) n: usize,
    pub(crate) p: usize,
    /// Columns of the loadings that each cluster uses.
    pub(crate) used: Vec<Vec<usize>>,
    /// Standard deviation of the clusters' means in each feature.
    pub(crate) apart: f64,
    /// Standard deviation of the noise.
    pub(crate) noise: f64,
    pub(crate) missing: f64,
    pub(crate) unlabelled: f64,
    /// Two, by the sign of the first factor that the cluster uses, or three, by the largest of zero and the first two.
    pub(crate) classes: usize,
}

impl Simulation {
    pub(crate) fn small() -> Self {
        Self {
            n: 40,
            p: 7,
            used: vec![vec![0, 1], vec![1, 2]],
            apart: 1.0,
            noise: 0.5,
            missing: 0.2,
            unlabelled: 0.2,
            classes: 2,
        }
    }

    /// Table, labels, and the cluster of each row.
    pub(crate) fn draw(&self, seed: u64) -> (Table, Labels, Vec<usize>) {
        let mut rng = stream(seed, [0, 0, 9, 0]);
        let mut normal = || -> f64 { rng.sample(StandardNormal) };
        let columns = self.used.iter().flatten().max().map_or(0, |l| l + 1);
        let loadings: Vec<f64> = (0..self.p * columns).map(|_| normal()).collect();
        let means: Vec<f64> = (0..self.p * self.used.len())
            .map(|_| self.apart * normal())
            .collect();
        let (mut values, mut scores) = (Vec::new(), Vec::new());
        for i in 0..self.n {
            let h = i % self.used.len();
            let s: Vec<f64> = self.used[h].iter().map(|_| normal()).collect();
            for j in 0..self.p {
                let common: f64 = self.used[h]
                    .iter()
                    .zip(&s)
                    .map(|(&l, s)| loadings[j * columns + l] * s)
                    .sum();
                values.push(means[j * self.used.len() + h] + common + self.noise * normal());
            }
            let factor = |k: usize| s.get(k).copied().unwrap_or(0.0);
            let utilities = (0..self.classes - 1).map(|k| factor(k) + 0.3 * normal());
            scores.push(utilities.collect::<Vec<f64>>());
        }
        let seen: Vec<bool> = values
            .iter()
            .map(|_| rng.random::<f64>() >= self.missing)
            .collect();
        let labels: Vec<Option<&str>> = scores
            .iter()
            .map(|utilities| {
                let name = match utilities[..] {
                    [score] if score > 0.0 => "high",
                    [_] => "low",
                    [first, second] if first.max(second) <= 0.0 => "none",
                    [first, second] if first > second => "one",
                    _ => "two",
                };
                (rng.random::<f64>() >= self.unlabelled).then_some(name)
            })
            .collect();
        (
            Table::new(self.n, self.p, values, &seen).unwrap(),
            Labels::from_strings(&labels),
            (0..self.n).map(|i| i % self.used.len()).collect(),
        )
    }
}

pub(crate) fn config(seed: u64) -> FactorConfig {
    FactorConfig {
        scale: FeatureScale::Standardised,
        truncation: 6,
        max_factors: 5,
        starts: vec![FactorInit::Pooled(2)],
        unlabelled_starts: vec![FactorInit::Own(2)],
        limits: VbLimits {
            max_iterations: 100,
            ..FactorConfig::default().limits
        },
        seed,
        ..FactorConfig::default()
    }
}
