//! Models of one user: likes of items, and tasks with data of their own.

mod bernoulli;
mod linear;
mod probit;
mod probit_task;

pub use bernoulli::{BernoulliItems, BetaPosterior};
pub(crate) use linear::prior_system;
pub use linear::{LinearTask, NormalPosterior};
pub use probit::{ItemAtom, ProbitItems, ProbitPosterior};
pub(crate) use probit::{ln_of_number, ratio};
pub use probit_task::{ProbitTask, TaskAtom, TaskPosterior};
