//! Special functions over their whole range, with stated accuracy.
//!
//! "Within k ulp" means a relative error of at most k times 2.2e-16 wherever the result is a normal f64. The statements are
//! checked against values computed with mpmath at 50 digits or more (`tests/it/special.rs`, `scripts/special_reference.py`).
//!
//! NaN in gives NaN out. Outside its domain a function returns NaN, as `f64::ln` does; none of them panics.

mod gamma;
mod incomplete;
mod logs;
mod normal;
mod tables;
pub mod vector;

pub use gamma::{
    digamma, ln_beta, ln_gamma, ln_multivariate_gamma, ln_rising_factorial, multivariate_digamma,
    trigamma,
};
pub(crate) use gamma::{digamma_difference, ln_gamma_rest, ln_minus_digamma};
pub use incomplete::{
    beta_regularized, gamma_lower_regularized, gamma_upper_regularized, student_t_two_sided,
};
pub(crate) use logs::ln_1p_shortfall;
pub use logs::{ln_add_exp, ln_normalize, log_sum_exp, log1mexp};
pub use normal::{
    LN_SQRT_2PI, erfcx, inverse_mills, ln_normal_pdf, ln_phi, mills, normal_cdf, normal_pdf,
    normal_quantile,
};
pub(crate) use normal::{Tail, gaussian_kernel};
