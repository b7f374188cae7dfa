//! Comparators against a reference implementation, on the given splits, and on bad input.

mod cells;
mod given_splits;
mod input;
mod reference;
