//! Tests of npb-regbayes from outside.

mod machine;
mod topics;
