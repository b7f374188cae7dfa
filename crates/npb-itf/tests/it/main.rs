//! Tests of npb-itf from outside.

mod kernels;
mod sampler;
