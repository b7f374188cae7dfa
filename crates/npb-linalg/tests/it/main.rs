//! Integration tests of npb-linalg.

mod cholesky;
mod condition;
mod saved;
mod support;
