//! Integration tests of npb-linalg.

mod cholesky;
mod condition;
mod lanes;
mod saved;
mod support;
