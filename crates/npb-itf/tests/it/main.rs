//! Tests of npb-itf from outside.

mod clustering;
mod dependence;
mod exact;
mod fields;
mod kernels;
mod runs;
mod sampler;
