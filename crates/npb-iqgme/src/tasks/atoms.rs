//! Experts of atoms from the sums of their rows: with two classes, one utility.

use std::ops::RangeInclusive;

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

/// Powers of two among which `gamma_0` is learned.
const STRENGTHS: RangeInclusive<i32> = -4..=12;
/// The prior of a `gamma_0` that is learned: its logarithm is normal with mean 0 and this standard deviation.
const LN_STRENGTH_SD: f64 = 0.5;

/// `gamma_0` at which the bound is highest, `q(zeta, lambda)` following it.
pub(super) fn best_mean_strength(prior: &ExpertPrior, experts: &[Expert]) -> f64 {
    // With q(zeta, lambda) optimal the bound is, but for a constant, the sum over p of ln(gamma_0 / gamma) / 2 - a_p ln b_p.
    let value = |strength: f64| {
        let given = given_experts(&prior.with_strength(strength), experts);
        let ratio = strength.ln() - given.strength.ln();
        let each = given.rate.iter();
        each.map(|rate| 0.5 * ratio - given.shape * rate.ln())
            .sum::<f64>()
            + ln_strength_prior(strength)
    };
    let mut best = (prior.strength, value(prior.strength));
    for strength in STRENGTHS.map(|k| f64::from(k).exp2()) {
        let value = value(strength);
        if value > best.1 {
            best = (strength, value);
        }
    }
    best.0
}

/// Log density of a learned `gamma_0`, but for a constant.
pub(super) fn ln_strength_prior(strength: f64) -> f64 {
    -0.5 * (strength.ln() / LN_STRENGTH_SD).powi(2)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::expert_term;

    /// Number of coefficients.
    const P: usize = 24;

    /// Four experts whose means are these three coefficients again and again.
    fn experts(means: [[f64; 3]; 4]) -> Vec<Expert> {
        let expert = |mean: [f64; 3]| Expert {
            tied: false,
            mean: mean.repeat(P / 3),
            covariance: Mat::from_fn(P, P, |i, j| if i == j { 0.1 } else { 0.02 }),
        };
        means.map(expert).into()
    }

    fn prior(strength: f64) -> ExpertPrior {
        ExpertPrior {
            mean: vec![0.0; P],
            strength,
            shape: 0.5,
            rate: vec![0.5; P],
        }
    }

    const ALIKE: [[f64; 3]; 4] = [
        [2.0, -3.0, 1.0],
        [2.1, -2.8, 1.1],
        [1.9, -3.1, 0.8],
        [2.2, -2.9, 1.0],
    ];
    const UNLIKE: [[f64; 3]; 4] = [
        [2.0, -3.0, 1.0],
        [-2.1, 2.8, -0.5],
        [1.0, 3.0, -2.0],
        [-1.1, -2.9, 1.4],
    ];

    #[test]
    fn the_learned_strength_has_the_highest_bound() {
        for experts in [experts(ALIKE), experts(UNLIKE)] {
            let bound = |strength: f64| {
                let prior = prior(strength);
                let given = given_experts(&prior, &experts);
                let fit: f64 = experts
                    .iter()
                    .map(|expert| expert_term(expert, &given, 0).unwrap())
                    .sum();
                let divergence = |p| given.law(p).kl(&prior.law(p));
                fit - (0..P).map(divergence).sum::<f64>() + ln_strength_prior(strength)
            };
            let found = best_mean_strength(&prior(1.0), &experts);
            for k in STRENGTHS {
                assert!(bound(found) >= bound(f64::from(k).exp2()) - 1e-9, "{k}");
            }
        }
    }

    #[test]
    fn experts_without_a_common_mean_have_none() {
        let found = |means| best_mean_strength(&prior(1.0), &experts(means));
        let (alike, unlike) = (found(ALIKE), found(UNLIKE));
        assert!(alike < 0.6 && unlike > 1.5, "{alike} {unlike}");
        // What is already best stays, whether or not it is a power of two.
        assert_eq!(
            best_mean_strength(&prior(found(ALIKE)), &experts(ALIKE)),
            found(ALIKE)
        );
    }
}
