//! The unit of latent values of an ordinal model with noise of its own: thresholds and everything that latent values are sums of, against the noise (`docs/bsvd.md#thresholds-and-their-scale`).

use rand::Rng;

use crate::BsvdConfig;
use crate::state::{BsvdState, SideState};
use npb_priors::dist::sample_ln_gig;

/// Multiplies thresholds, offset, intercepts, coefficients and scales by t, and noise weights of one side by t^-2: no probability of a level changes. Precisions of
/// what is multiplied go along by t^-2, so that t^2 is generalised inverse Gaussian whatever their number. By themselves the weights come to their mean of 1
/// very slowly: each is told by its entries, and what is common to all by their prior only.
pub(crate) fn draw<R: Rng + ?Sized>(state: &mut BsvdState, config: &BsvdConfig, rng: &mut R) {
    let squares = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>();
    let free = &state.thresholds[1..];
    let mut power = free.len() as f64 + 1.0 - 2.0 * config.scale.shape;
    let up = config.threshold_precision * squares(free)
        + config.offset_precision * state.offset * state.offset;
    let mut down = config.scale.rate * state.scale_precision;
    for side in [&state.rows, &state.columns] {
        if !side.intercepts.is_empty() {
            power -= 2.0 * config.intercept.shape;
            down += config.intercept.rate * side.intercept_precision;
        }
        power -= 2.0 * config.coefficient.shape * side.coefficient_precision.len() as f64;
        down += config.coefficient.rate * side.coefficient_precision.iter().sum::<f64>();
        if has_common_means(side, config) {
            power -= 2.0 * config.common.shape;
            down += config.common.rate * side.common_precision;
        }
    }
    let giving = giving(state);
    power -= 2.0 * giving.noise_shape * giving.noise_weights.len() as f64;
    let weights = giving.noise_weights.iter().map(|&w| f64::from(w));
    down += giving.noise_shape * weights.sum::<f64>();
    let ln_t = 0.5 * sample_ln_gig(0.5 * power, up, 2.0 * down, rng);
    if ln_t.is_finite() {
        stretch(state, config, ln_t.exp());
    }
}

/// Whether the precision of common means stands for anything.
fn has_common_means(side: &SideState, config: &BsvdConfig) -> bool {
    config.common_coefficients && !side.coefficient_mean.is_empty()
}

/// The side whose weights give way.
fn giving(state: &mut BsvdState) -> &mut SideState {
    match state.rows.noise_weights.is_empty() {
        true => &mut state.columns,
        false => &mut state.rows,
    }
}

fn stretch(state: &mut BsvdState, config: &BsvdConfig, t: f64) {
    let multiply = |values: &mut [f64], t: f64| values.iter_mut().for_each(|x| *x *= t);
    let multiply_single = |values: &mut [f32], t: f64| {
        values
            .iter_mut()
            .for_each(|x| *x = (f64::from(*x) * t) as f32)
    };
    let squared = (t * t).recip();
    multiply(&mut state.thresholds, t);
    multiply(&mut state.scales, t);
    state.offset *= t;
    state.scale_precision *= squared;
    for side in [&mut state.rows, &mut state.columns] {
        multiply_single(&mut side.intercepts, t);
        multiply_single(&mut side.coefficients, t);
        multiply(&mut side.coefficient_mean, t);
        multiply(&mut side.coefficient_precision, squared);
        if has_common_means(side, config) {
            side.common_precision *= squared;
        }
        if !side.intercepts.is_empty() {
            side.intercept_precision *= squared;
        }
    }
    multiply_single(&mut giving(state).noise_weights, squared);
}
