//! The factor-analytic variant from outside.

mod bits;
mod bound;
mod data;
mod gibbs;
mod input;
mod recovery;
