//! Tests of npb-regbayes from outside.

mod answers;
mod answers_topics;
mod bad_input;
mod fits;
mod labels;
mod machine;
mod principle;
mod recovery;
mod select;
mod simulated;
mod topics;
