//! Tests of npb-bsvd from outside.

mod acquired;
mod answers;
mod bad_input;
mod bits;
mod chains;
mod folded;
mod further;
mod levels;
mod predicted;
mod recovery;
mod saved;
mod shards;
mod side;
mod simulated;
mod summarised;
