//! The evidence lower bound, from sufficient statistics and the posterior of the parameters.

use std::f64::consts::PI;

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};

use crate::prior::Prior;
use crate::state::{Component, Expected, Expert, ExpertPrior, IqgmeState, dot};
use crate::stats::SufficientStats;

/// The evidence lower bound in parts; `total()` is the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// `E ln p(z | V)` and the entropy of `q(z)`.
    pub labels: f64,
    /// `E ln p(x | z, mu, Lambda)` and the entropy of `q(x^m | z)`.
    pub features: f64,
    /// `E ln p(t | x, z, w)` and the entropy of `q(t)`.
    pub utility_means: f64,
    /// Minus the divergences of `q(V)` and `q(alpha)` from their priors.
    pub sticks: f64,
    /// Minus the divergence of `q(mu, Lambda)` from its prior.
    pub components: f64,
    /// Minus the divergences of `q(w)` and `q(zeta, lambda)` from their priors.
    pub experts: f64,
    /// Sum of the absolute values of all terms, the scale of rounding errors.
    pub magnitude: f64,
}

impl Bound {
    /// Its parts, whose sum is the bound.
    pub fn terms(&self) -> [f64; 6] {
        [
            self.labels,
            self.features,
            self.utility_means,
            self.sticks,
            self.components,
            self.experts,
        ]
    }

    /// The bound.
    pub fn total(&self) -> f64 {
        self.terms().iter().sum()
    }

    pub(crate) fn new(
        state: &IqgmeState,
        expected: &[Expected],
        stats: &SufficientStats,
        prior: &Prior,
    ) -> Result<Self, NotPositiveDefinite> {
        let n_components = state.components.len();
        let mut ln_weights = vec![0.0; state.sticks.truncation()];
        state.sticks.expected_ln_weights(&mut ln_weights);
        let counts = stats.counts();
        let stick_fit = dot(&counts, &ln_weights);

        let mut feature_fit = 0.0;
        let mut feature_magnitude = 0.0;
        let mut components = 0.0;
        for h in 0..n_components {
            let (value, magnitude) = feature_term(&state.components[h], &expected[h], stats, h);
            feature_fit += value;
            feature_magnitude += magnitude;
            components -= expected[h].law.kl(&prior.expected.law);
        }

        let mut utility_means = 0.0;
        let mut soft_magnitude = 0.0;
        let mut experts = 0.0;
        if !state.experts.is_empty() {
            utility_means = stats.rows.soft_local;
            let prior = (&state.expert_prior, &prior.expert);
            let (of_utilities, magnitude) = (&mut utility_means, &mut soft_magnitude);
            experts = add_experts(&state.experts, prior, stats, of_utilities, magnitude)?;
        }

        let sticks = state.sticks.elbo();
        Ok(Self {
            labels: stick_fit + stats.rows.label_entropy,
            features: feature_fit + stats.rows.missing_entropy,
            utility_means,
            sticks,
            components,
            experts,
            magnitude: stick_fit.abs()
                + feature_magnitude
                + soft_magnitude
                + stats.rows.magnitude
                + sticks.abs()
                + components.abs()
                + experts.abs(),
        })
    }
}

/// Adds what the experts, of which there are some, have in `E ln p(t | x, z, w)` to a sum and to its magnitude; returns minus the divergences of `q(w)` and `q(zeta, lambda)` from
/// their priors.
pub(crate) fn add_experts(
    experts: &[Expert],
    (own, prior): (&ExpertPrior, &ExpertPrior),
    stats: &SufficientStats,
    utilities: &mut f64,
    magnitude: &mut f64,
) -> Result<f64, NotPositiveDefinite> {
    let n_utilities = stats.n_utilities();
    let mut of_experts = 0.0;
    for (i, expert) in experts.iter().enumerate() {
        let (value, size) = soft_term(expert, stats, i / n_utilities, i);
        *utilities += value;
        *magnitude += size;
        if !expert.at_prior {
            of_experts += expert_term(expert, own, i % n_utilities)?;
        }
    }
    let divergence = |p: usize| own.law(p).kl(&prior.law(p));
    Ok(of_experts - (0..prior.mean.len()).map(divergence).sum::<f64>())
}

pub(crate) fn ln_two_pi() -> f64 {
    (2.0 * PI).ln()
}

/// `tr(A B)` for symmetric matrices; of the larger one the leading part.
pub(crate) fn trace_product(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let n = a.nrows().min(b.nrows());
    (0..n)
        .map(|j| dot(a.col_as_slice(j), b.col_as_slice(j)))
        .sum()
}

/// `a' M b` for a symmetric matrix; of longer vectors the first part.
pub(crate) fn bilinear(m: &Mat<f64>, a: &[f64], b: &[f64]) -> f64 {
    (0..m.ncols())
        .map(|j| b[j] * dot(a, m.col_as_slice(j)))
        .sum()
}

pub(crate) fn feature_term(
    component: &Component,
    expected: &Expected,
    stats: &SufficientStats,
    h: usize,
) -> (f64, f64) {
    let p = component.mean.len() as f64;
    let count = stats.count(h);
    let normaliser =
        0.5 * count * (expected.ln_det_precision - p * ln_two_pi() - p / component.strength);
    let second = stats.second(h);
    let first = stats.first(h);
    let scatter = trace_product(&expected.precision, &second);
    let mean = &component.mean;
    let cross = bilinear(&expected.precision, mean, &first);
    let own = count * bilinear(&expected.precision, mean, mean);
    let value = normaliser - 0.5 * (scatter - 2.0 * cross + own);
    (
        value,
        normaliser.abs() + 0.5 * (scatter + 2.0 * cross.abs() + own),
    )
}

/// Part of `E ln p(t | x, z, w)` that holds the expert, of component `h` and with this `column` of the sums, and its magnitude.
pub(crate) fn soft_term(
    expert: &Expert,
    stats: &SufficientStats,
    h: usize,
    column_of_sums: usize,
) -> (f64, f64) {
    if stats.labelled.weight[h] == 0.0 {
        return (0.0, 0.0);
    }
    let p = stats.labelled.first.nrows();
    let linear = dot(&expert.mean, stats.soft.col_as_slice(column_of_sums));
    let second = &stats.labelled.second[h];
    let first = stats.labelled.first.col_as_slice(h);
    let mut quadratic =
        trace_product(&expert.covariance, second) + bilinear(second, &expert.mean, &expert.mean);
    for j in 0..p {
        quadratic += 2.0 * (expert.covariance[(j, p)] + expert.mean[j] * expert.mean[p]) * first[j];
    }
    quadratic +=
        (expert.covariance[(p, p)] + expert.mean[p] * expert.mean[p]) * stats.labelled.weight[h];
    (
        linear - 0.5 * quadratic,
        linear.abs() + 0.5 * quadratic.abs(),
    )
}

/// `E ln p(w | zeta, lambda)` and the entropy of `q(w)`, for an expert of utility `k`.
pub(crate) fn expert_term(
    expert: &Expert,
    prior: &ExpertPrior,
    k: usize,
) -> Result<f64, NotPositiveDefinite> {
    let first = k * expert.mean.len();
    let mut value = 0.5 * Cholesky::new(expert.covariance.as_ref())?.ln_det();
    for p in 0..expert.mean.len() {
        let law = prior.law(first + p);
        // E ln N(w_p | zeta_p, 1/lambda_p) over q(w_p) as well: the likelihood at its mean, and its variance.
        value += law.mean_ln_likelihood(expert.mean[p])
            - 0.5 * law.precision().mean() * expert.covariance[(p, p)]
            + 0.5 * (1.0 + ln_two_pi());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use npb_infer::testing::largest_z;
    use npb_linalg::faer::mat;
    use npb_priors::special::LN_SQRT_2PI;
    use rand::RngExt;
    use rand_distr::StandardNormal;

    use super::*;

    /// The part of an expert is the mean of ln p(w | zeta, lambda) - ln q(w), constants and all.
    #[test]
    fn the_part_of_an_expert_is_a_mean_over_draws() {
        let prior = ExpertPrior {
            mean: vec![0.3, -0.5],
            strength: 2.5,
            shape: 6.0,
            rate: vec![4.0, 9.0],
        };
        let expert = Expert {
            mean: vec![0.8, -0.2],
            covariance: mat![[0.5, 0.2], [0.2, 0.3]],
            at_prior: false,
        };
        let factor = Cholesky::new(expert.covariance.as_ref()).unwrap();
        let rng = &mut stream(1, [0; 4]);
        let mut draw = || {
            let z: [f64; 2] = [(); 2].map(|()| rng.sample(StandardNormal));
            let mut w = expert.mean.clone();
            // Cholesky by hand: the factor is only asked for its determinant.
            let first = expert.covariance[(0, 0)].sqrt();
            let below = expert.covariance[(1, 0)] / first;
            w[0] += first * z[0];
            w[1] += below * z[0] + (expert.covariance[(1, 1)] - below * below).sqrt() * z[1];
            let ln_q = -0.5 * (factor.ln_det() + dot(&z, &z)) - 2.0 * LN_SQRT_2PI;
            let ln_p = (0..2).map(|p| {
                let (mean, precision) = prior.law(p).sample(rng);
                let apart = w[p] - mean;
                0.5 * (precision.ln() - precision * apart * apart) - LN_SQRT_2PI
            });
            vec![ln_p.sum::<f64>() - ln_q]
        };
        let draws: Vec<Vec<f64>> = (0..100_000).map(|_| draw()).collect();
        let found = expert_term(&expert, &prior, 0).unwrap();
        let z = largest_z(&draws, &[found]);
        assert!(z < 4.5, "{found}: {z}");
    }
}
