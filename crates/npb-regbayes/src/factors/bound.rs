//! The variational bound of the factor model and what its scales are learned from.

use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::ibp::IbpFactor;
use npb_priors::special::ln_gamma;
use rayon::prelude::*;

use super::indicators::Evidence;
use super::{Factors, Items};
use crate::config::Concentration;
use crate::state::{FactorState, Spread};

/// Parts that add up to `E |X - Z W'|^2` over the observed entries: the inputs' squares, and what each item's features take away.
pub(crate) fn expected_squares(
    items: &Items,
    evidence: &Evidence,
    state: &FactorState,
) -> [f64; 2] {
    let psi = &state.indicators;
    let own: Vec<f64> = (0..items.n_items())
        .into_par_iter()
        .map(|i| {
            let psi = psi.col_as_slice(i);
            evidence.of_item(items, i, psi).expected_squares(psi)
        })
        .collect();
    // With holes the parts hold the inputs' squares already.
    let inputs = match evidence {
        Evidence::Complete { .. } => items.sum_squares,
        Evidence::Entries { .. } => 0.0,
    };
    [inputs, own.iter().sum()]
}

/// `E sum_j |w_j|^2`.
pub(crate) fn expected_loading_squares(state: &FactorState) -> f64 {
    let m = &state.loadings;
    let squares = |m: &Mat<f64>| -> f64 {
        let own = |j: usize| npb_linalg::dot(m.col_as_slice(j), m.col_as_slice(j));
        (0..m.ncols()).map(own).sum()
    };
    squares(m)
        + match &state.spread {
            Spread::Shared(s) => {
                let trace: f64 = (0..s.ncols()).map(|k| s[(k, k)]).sum();
                m.ncols() as f64 * trace
            }
            Spread::Own(v) => {
                let own = |j: usize| -> f64 { v.col_as_slice(j).iter().sum() };
                (0..v.ncols()).map(own).sum()
            }
        }
}

/// `sum_j ln det Cov(w_j)`.
fn ln_det_spread(state: &FactorState) -> f64 {
    match &state.spread {
        // A covariance is the inverse of a factored matrix; rounding can only make it less than positive definite where nothing is known anyway.
        Spread::Shared(s) => {
            let ln_det = Cholesky::new(s.as_ref()).map_or(f64::NEG_INFINITY, |c| c.ln_det());
            state.n_observations() as f64 * ln_det
        }
        Spread::Own(v) => {
            let own = |j: usize| -> f64 { v.col_as_slice(j).iter().map(|v| v.ln()).sum() };
            (0..v.ncols()).map(own).sum()
        }
    }
}

/// `-p ln p - (1 - p) ln (1 - p)`.
fn entropy(p: f64) -> f64 {
    let part = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    part(p) + part(1.0 - p)
}

/// Log-density of alpha.
pub(crate) fn ln_prior(alpha: f64, prior: GammaPrior) -> f64 {
    prior.shape * prior.rate.ln() - ln_gamma(prior.shape) + (prior.shape - 1.0) * alpha.ln()
        - prior.rate * alpha
}

/// `(a - 1 + K) / (b - sum_k E[ln nu_k])`: where bound plus log prior are highest for these sticks; `None` where that is no positive number.
pub(crate) fn best_concentration(sticks: &IbpFactor, prior: GammaPrior) -> Option<f64> {
    let k = sticks.truncation();
    if k == 0 {
        return None;
    }
    let mut ln_weights = vec![0.0; k];
    sticks.expected_ln_weights(&mut ln_weights);
    let alpha = (prior.shape - 1.0 + k as f64) / (prior.rate - ln_weights[k - 1]);
    (alpha > 1e-10 && alpha < 1e10).then_some(alpha)
}

impl Factors<'_> {
    /// Terms of the bound of `ln p(X)` (plus `ln p(alpha)`), R (4.4) with ERRATA; their sum is what unsupervised updates raise.
    pub(crate) fn elbo_terms(&self) -> Vec<f64> {
        let (items, state) = (self.items, &self.state);
        let n = items.n_observed as f64;
        let size = (state.loadings.nrows() * state.loadings.ncols()) as f64;
        let precision = self.precision();
        let [inputs, features] = expected_squares(items, &self.evidence, state);
        let ln_noise = (2.0 * std::f64::consts::PI * state.noise_variance).ln();
        let counts = state.expected_use();
        let column_entropy = |i: usize| -> f64 {
            state
                .indicators
                .col_as_slice(i)
                .iter()
                .map(|&p| entropy(p))
                .sum()
        };
        let entropies: Vec<f64> = (0..items.n_items())
            .into_par_iter()
            .map(column_entropy)
            .collect();
        let concentration = match self.config.concentration {
            Concentration::Learned { prior } => ln_prior(state.sticks.alpha(), prior),
            Concentration::Fixed(_) => 0.0,
        };
        vec![
            -0.5 * self.config.input_weight * n * ln_noise,
            -0.5 * precision * inputs,
            -0.5 * precision * features,
            -0.5 * expected_loading_squares(state) / state.loading_variance,
            0.5 * size * (1.0 - state.loading_variance.ln()),
            0.5 * ln_det_spread(state),
            state.sticks.elbo(),
            state.sticks.feature_elbo(&counts, items.n_items() as f64),
            entropies.iter().sum(),
            concentration,
        ]
    }

    /// Their sum.
    pub(crate) fn elbo(&self) -> f64 {
        self.elbo_terms().iter().sum()
    }
}
