//! The Indian buffet process: binary feature matrices with as many columns as the rows ask for.
//!
//! A matrix of n rows has Poisson(α H_n) columns that are used at all and n α ones on average. The same law comes
//! as a buffet ([`sample_buffet`]), as decreasing sticks μ_k = ∏_{l≤k} ν_l, ν_l ~ Beta(α, 1) ([`sample_sticks`]),
//! and as the limit of K independent columns with weights Beta(α/K, 1) ([`sample_finite`]). [`IbpFactor`] is the
//! truncated variational factor of the sticks.

mod buffet;
mod factor;

pub use buffet::{
    column_counts, draw_concentration, harmonic, ln_class_probability, sample_buffet,
    sample_finite, sample_sticks,
};
pub use factor::IbpFactor;
