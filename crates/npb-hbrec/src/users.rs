//! Models of one user: likes of items, and tasks with data of their own.

mod probit;

pub use probit::{ItemAtom, ProbitItems, ProbitPosterior};
