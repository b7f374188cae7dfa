//! What all variants share: members trained from several starts, weighed by held-out prediction, calibrated, and asked together.
//!
//! [`train`] makes members, watched; [`crossval`] makes them again without the rows of each fold and predicts these; [`stacking`] calibrates and
//! weighs them by that; [`member`] is what questions are asked of, [`questions`] puts them.

pub(crate) mod crossval;
pub(crate) mod member;
pub(crate) mod questions;
pub(crate) mod scales;
pub(crate) mod stacking;
pub(crate) mod train;

#[cfg(test)]
mod tests;
