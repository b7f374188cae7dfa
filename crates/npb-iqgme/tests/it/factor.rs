//! The factor-analytic variant from outside.

mod bound;
mod data;
mod recovery;
