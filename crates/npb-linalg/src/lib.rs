//! Linear algebra for incomplete Gaussian data: SPD factors, conditioning on a missing pattern, sampling from precision form.
//!
//! | what | where |
//! |---|---|
//! | factor of a symmetric positive definite matrix: solves, inverse, log-determinant, draws, rank-one changes | [`Cholesky`] |
//! | a bounded, reported amount added to a diagonal that is not quite positive definite | [`Jitter`] |
//! | the law of the missing coordinates of a Gaussian given the observed ones | [`condition`] |
//! | the same for the K components of a mixture at once, component index innermost | [`lanes`] |
//! | what a mixture of Gaussians makes of rows with holes: forms, completion, weights, weighted sums | [`mixture`] |
//! | elementary functions for vector registers | [`elementary`] |
//! | sums of products and draws of regression coefficients, row by row in SIMD | [`row_regression`] |
//! | leading singular vectors of a large sparse matrix; all of a dense one | [`svd`] |
//! | `faer::Mat<f64>` in serde files | [`saved`] |
//!
//! Every routine is sequential and deterministic: parallelism belongs to the caller, over rows, patterns or components.
//! Sizes 0 and 1 are ordinary sizes. Slices and matrices of the wrong length are programming errors and panic; a matrix
//! that is not positive definite (a NaN anywhere in it included) is a typed error with the pivot.

pub mod aligned;
pub mod condition;
pub mod elementary;
pub mod lanes;
pub mod mixture;
pub mod row_regression;
pub mod saved;
pub mod svd;

mod cholesky;
mod rank_one;
mod work;

pub use cholesky::{
    Cholesky, Jitter, NotPositiveDefinite, dot, dot_f32, sample_canonical, sample_moment,
};
pub use faer;
