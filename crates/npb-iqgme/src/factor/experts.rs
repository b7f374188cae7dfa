//! `q(w_h)` and the prior that the experts share.

use std::f64::consts::PI;

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::NormalGamma;

use super::data::FactorData;
use super::rows::RowFactors;
use super::state::{FactorState, at_prior, submatrix};
use crate::Expert;

/// Labelled rows of one cluster, over `[s; 1]`.
struct LabelStats {
    weight: f64,
    /// Lower triangle.
    second: Mat<f64>,
    /// By utility.
    linear: Vec<Vec<f64>>,
}

impl LabelStats {
    /// `labelled`: the rows that have labels.
    fn new(
        data: &FactorData,
        labelled: &[usize],
        soft: &[f64],
        factors: &RowFactors,
        h: usize,
    ) -> Self {
        let k = factors.means[h].nrows();
        let mut weight = 0.0;
        let mut linear = vec![vec![0.0; k + 1]; data.labels.n_utilities];
        for &i in labelled {
            let rho = factors.responsibility(i, h);
            if rho == 0.0 {
                continue;
            }
            weight += rho;
            for (linear, t) in linear.iter_mut().zip(data.labels.of_row(soft, i)) {
                let pull = rho * t;
                for (to, s) in linear.iter_mut().zip(factors.means[h].col_as_slice(i)) {
                    *to += pull * s;
                }
                linear[k] += pull;
            }
        }
        Self {
            weight,
            second: factors.second(&data.cells.patterns, &data.labels, labelled, h),
            linear,
        }
    }
}

/// Free experts for the clusters with labelled rows; the others are at the shared prior.
///
/// On failure: the cluster whose precision is not positive definite. Equations: `docs/iqgme.md#parameters`.
pub(crate) fn update(
    state: &mut FactorState,
    data: &FactorData,
    soft: &[f64],
    factors: &RowFactors,
) -> Result<(), (usize, NotPositiveDefinite)> {
    let n_utilities = state.n_utilities();
    if n_utilities == 0 {
        return Ok(());
    }
    let labelled = data.labels.labelled();
    for h in 0..state.n_clusters() {
        let own = state.expert_coordinates(h);
        let stats = LabelStats::new(data, &labelled, soft, factors, h);
        for k in 0..n_utilities {
            let prior = state.expert_prior_of(k);
            state.experts[h * n_utilities + k] = if stats.weight > 0.0 {
                free(prior, &own, &stats, k).map_err(|source| (h, source))?
            } else {
                at_prior(prior, &own)
            };
        }
    }
    Ok(())
}

fn free(
    prior: &[NormalGamma],
    own: &[usize],
    stats: &LabelStats,
    utility: usize,
) -> Result<Expert, NotPositiveDefinite> {
    let mut precision = stats.second.clone();
    let mut mean = stats.linear[utility].clone();
    for (k, &l) in own.iter().enumerate() {
        precision[(k, k)] += prior[l].precision().mean();
        mean[k] += prior[l].mean_precision_times_mean();
    }
    let factor = Cholesky::new(precision.as_ref())?;
    factor.solve(&mut mean);
    let inverse = factor.inverse();
    let n = prior.len();
    let mut expert = Expert {
        at_prior: false,
        mean: vec![0.0; n],
        covariance: Mat::zeros(n, n),
    };
    for (j, &b) in own.iter().enumerate() {
        expert.mean[b] = mean[j];
        for (i, &a) in own.iter().enumerate() {
            expert.covariance[(a, b)] = inverse[(i, j)];
        }
    }
    Ok(expert)
}

/// `q(zeta_l, lambda_l)` of every coordinate, given the free experts that use it. Equations: `docs/iqgme.md#parameters`.
pub(crate) fn update_prior(state: &mut FactorState, prior: &NormalGamma) {
    let (n_factors, n_utilities) = (state.n_factors(), state.n_utilities());
    for place in 0..state.expert_prior.len() {
        let (k, l) = (place / (n_factors + 1), place % (n_factors + 1));
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let of_utility = state.experts.iter().skip(k).step_by(n_utilities);
        for (expert, used) in of_utility.zip(&state.indicators) {
            if !expert.at_prior && (l == n_factors || used[l]) {
                n += 1.0;
                sum += expert.mean[l];
                squares += expert.mean[l].powi(2) + expert.covariance[(l, l)];
            }
        }
        let strength = prior.strength() + n;
        let mean = sum / strength;
        let (shape, rate) = (prior.precision().shape(), prior.precision().rate());
        let rest = (squares - strength * mean * mean).max(0.0);
        state.expert_prior[place] =
            NormalGamma::new(mean, strength, shape + 0.5 * n, rate + 0.5 * rest)
                .expect("sums of positive numbers");
    }
    for i in 0..state.experts.len() {
        if state.experts[i].at_prior {
            let own = state.expert_coordinates(i / n_utilities);
            let prior = state.expert_prior_of(i % n_utilities);
            state.experts[i] = at_prior(prior, &own);
        }
    }
}

/// `<ln p(w_l | zeta_l, lambda_l)>` and `(1 + ln 2 pi)/2` for a coordinate with this mean and variance.
pub(crate) fn coordinate(law: &NormalGamma, mean: f64, variance: f64) -> f64 {
    law.mean_ln_likelihood(mean) - 0.5 * law.precision().mean() * variance
        + 0.5 * (1.0 + (2.0 * PI).ln())
}

/// `<ln p(w)>` and entropies of the free experts, minus the divergence of their prior's factor.
pub(crate) fn bound(state: &FactorState, prior: &NormalGamma) -> Result<f64, NotPositiveDefinite> {
    let mut value = 0.0;
    let n_utilities = state.n_utilities();
    for (i, expert) in state.experts.iter().enumerate() {
        if expert.at_prior {
            continue;
        }
        let own = state.expert_coordinates(i / n_utilities);
        let prior = state.expert_prior_of(i % n_utilities);
        let covariance = submatrix(&expert.covariance, &own);
        value += 0.5 * Cholesky::new(covariance.as_ref())?.ln_det();
        for &l in &own {
            value += coordinate(&prior[l], expert.mean[l], expert.covariance[(l, l)]);
        }
    }
    if !state.experts.is_empty() {
        let divergences = state.expert_prior.iter().map(|law| law.kl(prior));
        value -= divergences.sum::<f64>();
    }
    Ok(value)
}
