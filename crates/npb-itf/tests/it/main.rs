//! Tests of npb-itf from outside.

mod answers;
mod bad_input;
mod bits;
mod clustering;
mod dependence;
mod exact;
mod fields;
mod further;
mod gaps;
mod groups;
mod kernels;
mod recovery;
mod sampler;
mod saved;
mod tables;
mod watched;
