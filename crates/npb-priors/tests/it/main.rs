//! Special functions against high-precision values; distributions against their moments, laws and identities.

mod conjugate;
mod divergences;
mod parameters;
mod samplers;
mod special;
mod support;
mod truncated;
