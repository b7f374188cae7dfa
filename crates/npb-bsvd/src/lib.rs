//! Bayesian SVD: matrix completion that infers its own rank and states its uncertainty.
