//! Many tasks: the bound never falls and is stationary, tasks share what they have in common, threads and files change nothing, bad input is named.

mod bad_input;
mod bound;
pub(crate) mod data;
mod fits;
mod multiclass;
