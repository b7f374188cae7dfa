//! Tests of npb-regbayes from outside.

mod bad_input;
mod fits;
mod labels;
mod machine;
mod principle;
mod recovery;
mod select;
mod simulated;
mod topics;
