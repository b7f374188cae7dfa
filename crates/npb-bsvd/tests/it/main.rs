//! Tests of npb-bsvd from outside.

mod acquired;
mod folded;
mod predicted;
mod recovery;
mod saved;
mod simulated;
mod summarised;
