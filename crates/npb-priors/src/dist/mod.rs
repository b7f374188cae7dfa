//! Distributions: sampling, log-density, moments, conjugate updates and divergences.
//!
//! Constructors check every parameter and return [`ParameterError`](crate::ParameterError) naming the one at fault, so that
//! sampling and densities cannot fail afterwards. Samplers take any `R: Rng + ?Sized`. Parametrisations: Gamma is
//! (shape, rate); the Wishart is W(B, nu) with mean nu B; the normal is (mean, variance).
//!
//! Those that models keep as priors or posteriors of their parameters are serde values; reading one checks it like its constructor.

mod bernoulli;
mod beta;
mod categorical;
pub mod collapsed;
mod conjugate;
mod dirichlet;
mod gamma;
mod generalised_inverse_gaussian;
mod inverse_gaussian;
pub mod multinomial_probit;
mod normal;
mod normal_gamma;
mod normal_wishart;
mod poisson_gamma;
mod student_t;
mod truncated_normal;
mod truncated_sum;
mod wishart;

pub use bernoulli::Bernoulli;
pub use beta::Beta;
pub use categorical::{Categorical, pick, sample_ln_weights};
pub use conjugate::{
    Categories, Conjugate, Counts, ExponentialGamma, NormalMean, NormalPrecision, Reals, Scatter,
    Statistics, Trials,
};
pub use dirichlet::Dirichlet;
pub(crate) use dirichlet::entropy as dirichlet_entropy;
pub use gamma::Gamma;
pub use generalised_inverse_gaussian::sample_ln_gig;
pub use inverse_gaussian::InverseGaussian;
pub use normal::Normal;
pub use normal_gamma::NormalGamma;
pub use normal_wishart::NormalWishart;
pub use poisson_gamma::PoissonGamma;
pub use student_t::StudentT;
pub use truncated_normal::{
    ProbitMoments, TruncatedMoments, TruncatedNormal, probit_moments, sample_probit,
};
pub use truncated_sum::sample_probit_sum;
pub use wishart::Wishart;

use crate::special::ln_1p_shortfall;
use npb_linalg::faer::{Mat, MatRef};

/// The symmetric matrix with the lower triangle of `m`.
fn symmetric(m: MatRef<'_, f64>) -> Mat<f64> {
    Mat::from_fn(m.nrows(), m.ncols(), |i, j| m[(i.max(j), i.min(j))])
}

/// x - 1 - ln x for x > 0, without cancellation at its zero x = 1.
fn ln_excess(x: f64) -> f64 {
    scaled_ln_excess(x, 1.0)
}

/// c (y/c - 1 - ln(y/c)) for y, c > 0, without cancellation at y = c, and finite where only the quotient leaves the range of f64.
fn scaled_ln_excess(y: f64, c: f64) -> f64 {
    let quotient = y / c;
    if (0.5..2.0).contains(&quotient) {
        c * ln_1p_shortfall(quotient - 1.0)
    } else if y == f64::INFINITY {
        y
    } else {
        y - c - c * (y.ln() - c.ln())
    }
}
