//! Matrices drawn from the model.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_infer::stream;
use rand::RngExt;
use rand_distr::StandardNormal;

/// A matrix of some rank with noise, part of it observed.
pub(crate) struct Simulated {
    pub(crate) observed: Ratings,
    /// The cells that are not observed, with their noise-free values.
    pub(crate) hidden: Ratings,
    /// Standard deviation of the noise-free values.
    pub(crate) signal: f64,
}

/// `n` x `m`, singular values about equal, noise of standard deviation `noise` relative to the signal's.
pub(crate) fn low_rank(
    seed: u64,
    (n, m): (usize, usize),
    rank: usize,
    share: f64,
    noise: f64,
) -> Simulated {
    let mut rng = stream(seed, [0; 4]);
    let mut normals =
        |count: usize| -> Vec<f64> { (0..count).map(|_| rng.sample(StandardNormal)).collect() };
    let (u, v) = (normals(n * rank), normals(m * rank));
    let errors = normals(n * m);
    let signal = (rank as f64).sqrt();
    let (mut observed, mut hidden) = (Vec::new(), Vec::new());
    for i in 0..n {
        for j in 0..m {
            let x: f64 = (0..rank).map(|k| u[i * rank + k] * v[j * rank + k]).sum();
            let y = x + noise * signal * errors[i * m + j];
            let entry = |value| Rating {
                row: i as u32,
                column: j as u32,
                value,
            };
            if rng.random::<f64>() < share {
                observed.push(entry(y));
            } else {
                hidden.push(entry(x));
            }
        }
    }
    let ratings = |entries: &[Rating]| Ratings::new(n, m, entries).unwrap();
    Simulated {
        observed: ratings(&observed),
        hidden: ratings(&hidden),
        signal,
    }
}
