//! A Gibbs sampler of the unsupervised model.
