//! The evidence lower bound, from sufficient statistics and the posterior of the parameters.

use std::f64::consts::{LN_2, PI};

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::special::{digamma, ln_gamma, ln_multivariate_gamma};

use crate::prior::Prior;
use crate::state::{Component, Expected, Expert, ExpertPrior, IqgmeState, dot};
use crate::stats::Stats;

/// The evidence lower bound in parts; `total()` is the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// `E ln p(z | V)` and the entropy of `q(z)`.
    pub labels: f64,
    /// `E ln p(x | z, mu, Lambda)` and the entropy of `q(x^m | z)`.
    pub features: f64,
    /// `E ln p(t | x, z, w)` and the entropy of `q(t)`.
    pub soft_labels: f64,
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
            self.soft_labels,
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
        stats: &Stats,
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
            components -= component_divergence(&state.components[h], &expected[h], prior);
        }

        let mut soft_labels = 0.0;
        let mut soft_magnitude = 0.0;
        let mut experts = 0.0;
        if !state.experts.is_empty() {
            soft_labels = stats.soft_local;
            for (h, expert) in state.experts.iter().enumerate() {
                let (value, magnitude) = soft_term(expert, stats, h);
                soft_labels += value;
                soft_magnitude += magnitude;
                if !expert.tied {
                    experts += expert_term(expert, &state.expert_prior)?;
                }
            }
            experts += expert_prior_term(&state.expert_prior, prior);
        }

        let sticks = state.sticks.elbo();
        Ok(Self {
            labels: stick_fit + stats.label_entropy,
            features: feature_fit + stats.missing_entropy,
            soft_labels,
            sticks,
            components,
            experts,
            magnitude: stick_fit.abs()
                + feature_magnitude
                + soft_magnitude
                + stats.magnitude
                + sticks.abs()
                + components.abs()
                + experts.abs(),
        })
    }
}

fn ln_two_pi() -> f64 {
    (2.0 * PI).ln()
}

/// `tr(A B)` for symmetric matrices.
pub(crate) fn trace_product(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let n = a.nrows();
    (0..n).map(|j| dot(column(a, j), column(b, j))).sum()
}

/// A column of an owned matrix as a slice.
pub(crate) fn column(a: &Mat<f64>, j: usize) -> &[f64] {
    a.col_as_slice(j)
}

/// `a' M b` for a symmetric matrix.
pub(crate) fn bilinear(m: &Mat<f64>, a: &[f64], b: &[f64]) -> f64 {
    (0..m.ncols()).map(|j| b[j] * dot(a, column(m, j))).sum()
}

fn feature_term(component: &Component, expected: &Expected, stats: &Stats, h: usize) -> (f64, f64) {
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

/// `KL(q(mu, Lambda) || p(mu, Lambda))` for a prior centred at zero.
fn component_divergence(component: &Component, expected: &Expected, prior: &Prior) -> f64 {
    let p = component.mean.len();
    let pf = p as f64;
    let (u, u0) = (component.strength, prior.mean_strength);
    let location = 0.5
        * (pf * ((u / u0).ln() + u0 / u - 1.0)
            + u0 * bilinear(&expected.precision, &component.mean, &component.mean));
    let trace = trace_product(&prior.scale_inverse, &expected.precision);
    let scale = ln_wishart_normaliser(expected.ln_det_scale, component.dof, p)
        - ln_wishart_normaliser(prior.ln_det_scale, prior.dof, p)
        + 0.5 * (component.dof - prior.dof) * expected.ln_det_precision
        - 0.5 * component.dof * pf
        + 0.5 * trace;
    location + scale
}

/// The logarithm of the Wishart density's leading constant, for `ln|B| = ln_det_scale`.
fn ln_wishart_normaliser(ln_det_scale: f64, dof: f64, p: usize) -> f64 {
    -0.5 * dof * (ln_det_scale + p as f64 * LN_2) - ln_multivariate_gamma(p, 0.5 * dof)
}

/// Part of `E ln p(t | x, z, w)` that holds the expert, and its magnitude.
fn soft_term(expert: &Expert, stats: &Stats, h: usize) -> (f64, f64) {
    if stats.labelled.weight[h] == 0.0 {
        return (0.0, 0.0);
    }
    let p = stats.labelled.first.nrows();
    let linear = dot(&expert.mean, column(&stats.soft, h));
    let second = &stats.labelled.second[h];
    let first = column(&stats.labelled.first, h);
    let mut quadratic = 0.0;
    for j in 0..p {
        for i in 0..p {
            quadratic +=
                (expert.covariance[(i, j)] + expert.mean[i] * expert.mean[j]) * second[(i, j)];
        }
        quadratic += 2.0 * (expert.covariance[(j, p)] + expert.mean[j] * expert.mean[p]) * first[j];
    }
    quadratic +=
        (expert.covariance[(p, p)] + expert.mean[p] * expert.mean[p]) * stats.labelled.weight[h];
    (
        linear - 0.5 * quadratic,
        linear.abs() + 0.5 * quadratic.abs(),
    )
}

/// `E ln p(w | zeta, lambda)` and the entropy of `q(w)`.
fn expert_term(expert: &Expert, prior: &ExpertPrior) -> Result<f64, NotPositiveDefinite> {
    let mut value = 0.5 * Cholesky::new(expert.covariance.as_ref())?.ln_det();
    for p in 0..expert.mean.len() {
        let deviation = expert.mean[p] - prior.mean[p];
        let ln_lambda = digamma(prior.shape) - prior.rate[p].ln();
        let square = prior.precision(p) * (deviation * deviation + expert.covariance[(p, p)])
            + 1.0 / prior.strength;
        value += 0.5 * (ln_lambda - square + 1.0);
    }
    Ok(value)
}

/// Minus the divergence of `q(zeta, lambda)` from its prior.
fn expert_prior_term(posterior: &ExpertPrior, prior: &Prior) -> f64 {
    let (a, a0, b0) = (posterior.shape, prior.expert_shape, prior.expert_rate);
    let (g, g0) = (posterior.strength, prior.expert_mean_strength);
    let mut value = 0.0;
    for p in 0..posterior.mean.len() {
        let b = posterior.rate[p];
        let precision = posterior.precision(p);
        let location =
            0.5 * ((g / g0).ln() + g0 / g - 1.0 + g0 * precision * posterior.mean[p].powi(2));
        let scale = (a - a0) * digamma(a) - ln_gamma(a)
            + ln_gamma(a0)
            + a0 * (b / b0).ln()
            + a * (b0 - b) / b;
        value -= location + scale;
    }
    value
}
