//! Tests of npb-regbayes from outside.

mod machine;
mod principle;
mod select;
mod topics;
