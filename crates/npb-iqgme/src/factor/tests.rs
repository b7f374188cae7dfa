//! The check of the variational fit: a Gibbs sampler of the same model.

mod gibbs;
