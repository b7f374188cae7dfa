//! How many experts the prior mean of the experts' common mean is worth.

use std::ops::RangeInclusive;

use crate::state::{Expert, ExpertPrior};

/// Powers of two among which `gamma_0` is learned.
const STRENGTHS: RangeInclusive<i32> = -4..=12;
/// The prior of a `gamma_0` that is learned: its logarithm is normal with mean 0 and this standard deviation.
const LN_STRENGTH_SD: f64 = 0.5;

/// `gamma_0` at which the bound is highest, `q(zeta, lambda)` following it.
pub(super) fn best_mean_strength(
    prior: &ExpertPrior,
    experts: &[Expert],
    n_utilities: usize,
) -> f64 {
    // With q(zeta, lambda) optimal the bound is, but for a constant, the sum over p of ln(gamma_0 / gamma) / 2 - a_p ln b_p.
    let value = |strength: f64| {
        let given = prior.with_strength(strength).given(experts, n_utilities);
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

#[cfg(test)]
mod tests {
    use npb_linalg::faer::Mat;

    use super::*;
    use crate::bound::expert_term;

    /// Number of coefficients.
    const P: usize = 24;

    /// Four experts whose means are these three coefficients again and again.
    fn experts(means: [[f64; 3]; 4]) -> Vec<Expert> {
        let expert = |mean: [f64; 3]| Expert {
            at_prior: false,
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
                let given = prior.given(&experts, 1);
                let fit: f64 = experts
                    .iter()
                    .map(|expert| expert_term(expert, &given, 0).unwrap())
                    .sum();
                let divergence = |p| given.law(p).kl(&prior.law(p));
                fit - (0..P).map(divergence).sum::<f64>() + ln_strength_prior(strength)
            };
            let found = best_mean_strength(&prior(1.0), &experts, 1);
            for k in STRENGTHS {
                assert!(bound(found) >= bound(f64::from(k).exp2()) - 1e-9, "{k}");
            }
        }
    }

    #[test]
    fn experts_without_a_common_mean_have_none() {
        let found = |means| best_mean_strength(&prior(1.0), &experts(means), 1);
        let (alike, unlike) = (found(ALIKE), found(UNLIKE));
        assert!(alike < 0.6 && unlike > 1.5, "{alike} {unlike}");
        // What is already best stays, whether or not it is a power of two.
        assert_eq!(
            best_mean_strength(&prior(found(ALIKE)), &experts(ALIKE), 1),
            found(ALIKE)
        );
    }
}
