//! The noise, the offset, precisions and means. Equations: `docs/bsvd.md#noise`.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::GammaPrior;
use npb_priors::dist::{Gamma, Normal, sample_ln_gig};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::{BsvdSampler, HYPER, NOISE, OFFSET, SCALE_PRECISION, finite};
use crate::links::{self, draw_factor_precisions, draw_shape};
use crate::products::{column_sums, squared_deviations};
use crate::regression::ResidualSums;
use crate::side::Side;
use crate::state::{BsvdState, SideState};
use crate::{BsvdConfig, BsvdError};

/// Precisions are kept within these, where vague priors and no data would send them to 0 or infinity.
const LEAST_PRECISION: f64 = 1e-100;

const MOST_PRECISION: f64 = 1e15;

/// What all noise weights of a side have in common, against the noise precision: `w -> t w`, `alpha -> alpha / t` changes no entry's noise, and t is
/// generalised inverse Gaussian; for rows, then for columns. Weights are multiplied by the number that is returned. By themselves they come to their mean of 1
/// slowly: each is told by its entries given alpha, and alpha by the entries given them all (`docs/bsvd.md#noise`).
pub(super) fn trade<R: Rng + ?Sized>(state: &mut BsvdState, noise: GammaPrior, rng: &mut R) -> f64 {
    let mut all = 1.0;
    for side in [&mut state.rows, &mut state.columns] {
        let weights = &mut side.noise_weights;
        if weights.is_empty() {
            continue;
        }
        let power = side.noise_shape * weights.len() as f64 - noise.shape;
        let up = side.noise_shape * weights.iter().map(|&w| f64::from(w)).sum::<f64>();
        let down = noise.rate * state.noise_precision;
        let t = sample_ln_gig(power, 2.0 * up, 2.0 * down, rng).exp();
        if t.is_normal() {
            weights
                .iter_mut()
                .for_each(|w| *w = (f64::from(*w) * t) as f32);
            state.noise_precision /= t;
            all *= t;
        }
    }
    all
}

impl BsvdSampler<'_> {
    /// Noise precision and noise weights, and what they have in common (W 5.12, `docs/bsvd.md#noise`).
    pub(super) fn noise(&mut self) -> Result<(), BsvdError> {
        if self.config.likelihood.is_probit() {
            return Ok(());
        }
        let sums = self.residuals()?;
        let mut rng = self.rng(NOISE, 0);
        let n = self.data.n_observed() as f64;
        self.state.noise_precision = draw_precision(self.config.noise, n, sums.second, &mut rng)?;
        let t = trade(&mut self.state, self.config.noise, &mut rng);
        let mut traded = ResidualSums::default();
        traded.add(&sums, t);
        self.memory.residuals = Some(traded);
        Ok(())
    }

    /// The offset given the rest (`docs/bsvd.md#links`).
    pub(super) fn offset(&mut self) -> Result<(), BsvdError> {
        let mut sums = self.residuals()?;
        let mut rng = self.rng(OFFSET, 0);
        let state = &mut self.state;
        let weight = if self.config.likelihood.is_probit() {
            self.data.total_weight()
        } else {
            sums.weight
        };
        let alpha = state.noise_precision;
        let precision = self.config.offset_precision + alpha * weight;
        let linear = alpha * (sums.first + weight * state.offset);
        let z: f64 = rng.sample(StandardNormal);
        let new = linear / precision + z / precision.sqrt();
        let step = new - state.offset;
        sums.second += step * (step * weight - 2.0 * sums.first);
        sums.first -= step * weight;
        sums.second = sums.second.max(0.0);
        state.offset = new;
        self.memory.residuals = Some(sums);
        finite(self.sweep, "offset", state.offset)
    }

    /// Precision of the scales (W 5.13 for active components, `docs/bsvd.md#links`).
    pub(super) fn scale_precision(&mut self) -> Result<(), BsvdError> {
        let mut rng = self.rng(SCALE_PRECISION, 0);
        let squares = self.state.scales.iter().map(|s| s * s).sum();
        let n = self.state.rank() as f64;
        self.state.scale_precision = draw_precision(self.config.scale, n, squares, &mut rng)?;
        Ok(())
    }

    /// Precisions of intercepts and coefficients, means and links of factors (`docs/bsvd.md#links`).
    pub(super) fn hyper(&mut self) -> Result<(), BsvdError> {
        for side in [Side::Rows, Side::Columns] {
            let mut rng = self.rng(HYPER, u64::from(side == Side::Columns));
            let own = match side {
                Side::Rows => &mut self.state.rows,
                Side::Columns => &mut self.state.columns,
            };
            if !own.intercepts.is_empty() {
                let squares = own.intercepts.iter().map(|&r| f64::from(r).powi(2)).sum();
                let n = own.intercepts.len() as f64;
                own.intercept_precision =
                    draw_precision(self.config.intercept, n, squares, &mut rng)?;
            }
            let features = side.features(&self.data.side);
            let features = features.filter(|_| self.config.feature_links);
            links::draw(
                own,
                features,
                self.config.factor_means,
                self.config.link,
                self.sweep,
                &mut rng,
            )?;
            if !own.factor_weights.is_empty() {
                let shapes = self.config.factor_precision_shapes();
                draw_factor_precisions(own, features, &shapes, &mut self.memory.design, &mut rng)?;
            }
            if !own.coefficient_mean.is_empty() {
                coefficients(own, &self.config, &mut rng)?;
            }
            if !own.noise_weights.is_empty() {
                let shapes = self.config.noise_shapes();
                own.noise_shape = draw_shape(&own.noise_weights, &shapes, &mut rng)?;
            }
        }
        Ok(())
    }
}

/// Precision of n normal variables with mean zero, given the sum of their squares.
fn draw_precision(
    prior: GammaPrior,
    n: f64,
    squares: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<f64, BsvdError> {
    let posterior = Gamma::new(prior.shape + 0.5 * n, prior.rate + 0.5 * squares)?;
    let drawn = posterior.sample_ln(rng).exp();
    Ok(drawn.clamp(LEAST_PRECISION, MOST_PRECISION))
}

/// Common means of the coefficients of each feature, the precision of these means, then the precisions of the coefficients.
fn coefficients(
    own: &mut SideState,
    config: &BsvdConfig,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), BsvdError> {
    let q = own.coefficient_mean.len();
    let n = (own.coefficients.len() / q) as f64;
    let mut sums = Vec::new();
    column_sums(&own.coefficients, q, &mut sums);
    let laws = own
        .coefficient_mean
        .iter_mut()
        .zip(&own.coefficient_precision);
    for ((mean, precision), sum) in laws.zip(&sums) {
        if config.common_coefficients {
            let posterior = own.common_precision + n * precision;
            *mean = Normal::new(precision * sum / posterior, posterior.recip())?.sample(rng);
        }
    }
    if config.common_coefficients {
        let squares = own.coefficient_mean.iter().map(|g| g * g).sum();
        own.common_precision = draw_precision(config.common, q as f64, squares, rng)?;
    }
    squared_deviations(&own.coefficients, &own.coefficient_mean, &mut sums);
    for (precision, &squares) in own.coefficient_precision.iter_mut().zip(&sums) {
        *precision = draw_precision(config.coefficient, n, squares, rng)?;
    }
    Ok(())
}
