//! Infinite quadratically gated mixture of experts: nonlinear classification and density estimation when features are missing.

mod bound;
mod conditional;
mod config;
mod error;
mod fit;
mod pass;
mod predict;
mod prior;
mod rows;
mod start;
mod state;
mod stats;
mod vb;

pub use bound::Bound;
pub use config::{IqgmeConfig, PriorScale, Start};
pub use error::IqgmeError;
pub use fit::{
    ClassifierSummary, ComponentSummary, Imputation, IqgmeFit, ProbabilityInterval, Run, fit,
    fit_unlabelled,
};
pub use predict::CellTerm;
pub use state::{Component, Expert, ExpertPrior, IqgmeState};
pub use vb::{IqgmeData, IqgmeVb, VbUpdate};
