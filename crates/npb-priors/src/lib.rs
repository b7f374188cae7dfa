//! Special functions, distributions with conjugate updates, and random measures for nonparametric Bayes.
//!
//! | what | where |
//! |---|---|
//! | ln Phi, Mills ratio, digamma and relatives, accurate over their whole range | [`special`] |
//! | distributions: sampling, log-densities, moments, divergences, conjugate pairs | [`dist`] |
//! | a column on the scale of a normal law | [`NormalScore`] |
//! | Dirichlet process: urn, sticks, variational factor, concentrations, moves on labels | [`dp`] |
//! | hierarchical Dirichlet process: groups that share atoms | [`hdp`] |
//! | Indian buffet process: binary features, variational factor with its lower bound | [`ibp`] |
//! | switches whose weight is integrated out, spike-and-slab odds | [`beta_bernoulli`] |
//! | prior of the infinite tensor factorisation | [`itf`] |
//!
//! Bad parameters are a [`ParameterError`] that names distribution, parameter, value and rule. Functions that take a
//! concentration inside a sampler panic when it is not positive: check hyperpriors first ([`GammaPrior::validate`]).
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
mod normal_score;
pub mod special;

pub use error::ParameterError;
pub use measure::GammaPrior;
pub use normal_score::NormalScore;
