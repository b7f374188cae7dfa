//! Special functions, distributions with conjugate updates, and random measures for nonparametric Bayes.
//!
//! - [`special`]: ln Phi, Mills ratio, digamma and relatives, accurate over their whole range;
//! - [`dist`]: distributions with sampling, log-densities, moments and divergences;
//! - [`dp`] and its siblings: random measures, built from the two above.
//!
//! Conventions: Gamma is (shape, rate); `ln_` marks logarithms; samplers take any `R: rand::Rng + ?Sized` and so are as
//! reproducible as the generator they are given.

pub mod beta_bernoulli;
pub mod dist;
pub mod dp;
mod error;
pub mod hdp;
pub mod ibp;
pub mod itf;
mod measure;
pub mod special;

pub use error::ParameterError;
pub use measure::GammaPrior;
