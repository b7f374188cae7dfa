//! The variational bound of the factor model. Equations: `docs/regbayes.md#sticks`.

use npb_infer::parallel;
use npb_linalg::Cholesky;

use super::Factors;
use super::moments::{expected_loading_squares, expected_squares, ln_prior};
use crate::config::IbpConcentration;
use crate::state::{FeatureState, Spread};

/// `sum_j ln det Cov(w_j)`.
fn ln_det_spread(state: &FeatureState) -> f64 {
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

impl Factors<'_> {
    /// Terms of the bound of `ln p(X)` (plus `ln p(alpha)`), R (4.4), corrected; their sum is what unsupervised updates raise.
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
        let entropies: Vec<f64> = parallel::map(0..items.n_items(), column_entropy);
        let concentration = match self.config.concentration {
            IbpConcentration::Learned { prior } => ln_prior(state.sticks.alpha(), prior),
            IbpConcentration::Fixed(_) => 0.0,
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
