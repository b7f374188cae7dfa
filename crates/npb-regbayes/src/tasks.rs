//! MT-iLSVM: many tasks or labels over one binary projection of the inputs (R 4.3).
//!
//! Each *input column* d has binary features `z_d`; each row has loadings `w_n`, `x_n = Z w_n + noise`; task m scores a row by
//! `f_m(x) = eta_m' Z'x` (and, if asked, the inputs themselves and a bias), with the expected hinge or epsilon-insensitive loss of the scores as
//! the regulariser of the posterior.

mod data;
mod fit;
mod margins;
mod validate;

pub use data::{Task, TaskData, TaskTargets};
pub use fit::{MtIlsvmFit, MtIlsvmVb, PreparedTasks, TaskScores, fit, fit_watched};
pub use validate::{
    Candidate, Chosen, Criterion, HeldOut, Validation, cross_validate, fit_selected,
};

pub(crate) use fit::{Learned, fit_some};
pub(crate) use margins::Goal;
#[cfg(test)]
pub(crate) use margins::TaskMargins;
