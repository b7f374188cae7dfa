//! Comparators against a reference implementation, on the given splits, and on bad input.

mod cells;
mod classifiers;
mod collaborative;
mod given_splits;
mod input;
mod landmine;
mod linear;
mod reference;
