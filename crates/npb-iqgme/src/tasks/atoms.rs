//! Experts of atoms from the sums of their rows: with two classes, one utility.

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};

use crate::state::{Expert, ExpertPrior};
use crate::stats::Stats;

/// `q(w)` of atom `s` given the statistics of its labelled rows.
pub(super) fn free_expert(
    prior: &ExpertPrior,
    stats: &Stats,
    s: usize,
) -> Result<Expert, NotPositiveDefinite> {
    let sums = &stats.labelled;
    let p = sums.first.nrows();
    let precision = Mat::from_fn(p + 1, p + 1, |i, j| {
        let data = match (i < p, j < p) {
            (true, true) => sums.second[s][(i, j)],
            (true, false) => sums.first[(i, s)],
            (false, true) => sums.first[(j, s)],
            (false, false) => sums.weight[s],
        };
        if i == j {
            data + prior.precision(i)
        } else {
            data
        }
    });
    let factor = Cholesky::new(precision.as_ref())?;
    let mut mean: Vec<f64> = (0..=p)
        .map(|j| stats.soft[(j, s)] + prior.precision(j) * prior.mean[j])
        .collect();
    factor.solve(&mut mean);
    Ok(Expert {
        tied: false,
        mean,
        covariance: factor.inverse(),
    })
}

/// `q(zeta, lambda)` given the free ones of some experts, with this prior.
pub(super) fn given_experts(prior: &ExpertPrior, experts: &[Expert]) -> ExpertPrior {
    let free: Vec<&Expert> = experts.iter().filter(|e| !e.tied).collect();
    let n_free = free.len() as f64;
    let mut prior = prior.clone();
    prior.strength += n_free;
    prior.shape += 0.5 * n_free;
    for p in 0..prior.mean.len() {
        let sum: f64 = free.iter().map(|e| e.mean[p]).sum();
        let squares: f64 = free
            .iter()
            .map(|e| e.mean[p] * e.mean[p] + e.covariance[(p, p)])
            .sum();
        let mean = sum / prior.strength;
        prior.mean[p] = mean;
        prior.rate[p] += 0.5 * (squares - prior.strength * mean * mean);
    }
    prior
}
