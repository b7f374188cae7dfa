//! The factor-analytic variant from outside.

mod bits;
mod bound;
pub(crate) mod data;
mod input;
mod multiclass;
mod recovery;
