//! Tests of npb-regbayes from outside.

mod bad_input;
mod fits;
mod machine;
mod recovery;
mod simulated;
