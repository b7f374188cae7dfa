//! Integration tests of npb-linalg.

mod cholesky;
mod condition;
mod lanes;
mod rank_one;
mod saved;
mod support;
mod svd;
