//! Tests of npb-itf from outside.

mod sampler;
