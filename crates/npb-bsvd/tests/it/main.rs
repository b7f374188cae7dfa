//! Tests of npb-bsvd from outside.

mod recovery;
mod simulated;
