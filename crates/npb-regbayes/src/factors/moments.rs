//! What scales and the concentration are learned from. Equations: `docs/regbayes.md#scales`.

use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::ibp::IbpFactor;
use npb_priors::special::ln_gamma;

use super::indicators::Evidence;
use super::items::Items;
use crate::state::{FeatureState, Spread};

/// Parts that add up to `E |X - Z W'|^2` over the observed entries: the inputs' squares, and what each item's features take away.
pub(crate) fn expected_squares(
    items: &Items,
    evidence: &Evidence,
    state: &FeatureState,
) -> [f64; 2] {
    let psi = &state.indicators;
    let own: Vec<f64> = parallel::map(0..items.n_items(), |i| {
        let psi = psi.col_as_slice(i);
        evidence.of_item(items, i, psi).expected_squares(psi)
    });
    // With holes the parts hold the inputs' squares already.
    let inputs = match evidence {
        Evidence::Complete { .. } => items.sum_squares,
        Evidence::Entries { .. } => 0.0,
    };
    [inputs, own.iter().sum()]
}

/// `E sum_j |w_j|^2`.
pub(crate) fn expected_loading_squares(state: &FeatureState) -> f64 {
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
