//! What all variants share: members trained from several starts, weighed by held-out prediction, calibrated, and asked together.
//!
//! [`members`] makes them: [`train`] trains, watched; [`crossval`] does so again without the rows of each fold and predicts these; [`stacking`] calibrates and
//! weighs by that. [`member`] is one of them, [`questions`] is what a fit is asked, [`saved`] its file.

pub(crate) mod crossval;
pub(crate) mod member;
pub(crate) mod members;
pub(crate) mod questions;
pub(crate) mod saved;
pub(crate) mod scales;
pub(crate) mod stacking;
pub(crate) mod train;

#[cfg(test)]
mod tests;
