//! Distributions: sampling, log-density, moments, conjugate updates and divergences.
//!
//! Constructors check every parameter and return [`ParameterError`](crate::ParameterError) naming the one at fault, so that
//! sampling and densities cannot fail afterwards. Samplers take any `R: Rng + ?Sized`. Parametrisations: Gamma is
//! (shape, rate); the Wishart is W(B, nu) with mean nu B; the normal is (mean, variance).

mod beta;
mod gamma;
mod normal_gamma;
mod normal_wishart;
mod truncated_normal;
mod wishart;

pub use beta::Beta;
pub use gamma::Gamma;
pub use normal_gamma::NormalGamma;
pub use normal_wishart::NormalWishart;
pub use truncated_normal::{
    ProbitMoments, TruncatedMoments, TruncatedNormal, probit_moments, sample_probit,
};
pub use wishart::Wishart;

/// x - 1 - ln x for x > 0, without cancellation at its zero x = 1.
fn ln_excess(x: f64) -> f64 {
    let y = x - 1.0;
    if y.abs() > 0.1 {
        return y - x.ln();
    }
    // y^2/2 - y^3/3 + ..., by Horner from the far end; 0.1^16 / 16 is below the last digit of y^2/2.
    let series = (2..=18)
        .rev()
        .fold(0.0, |sum, k| (k as f64).recip() - y * sum);
    y * y * series
}
