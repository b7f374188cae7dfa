//! The variant for many features (W 3.2.3): clusters that share the columns of one loading matrix, classifiers in the space of the factors.
//!
//! The model is in `docs/iqgme.md`, updates and bound are in `docs/iqgme-updates.md#factor-analytic-variant`.

mod bound;
mod cells;
mod config;
mod data;
mod experts;
mod features;
mod fit;
mod forms;
mod indicators;
mod predict;
mod rows;
mod start;
mod state;
mod vb;

pub use bound::FactorBound;
pub use config::{FactorConfig, FactorInit};
pub use data::FactorData;
pub use fit::{
    ClusterRows, FactorComponent, FactorFit, FactorMember, fit_factor, fit_factor_watched,
};
pub use state::{FactorState, FeatureFactor};
pub use vb::{FactorVb, FactorVbUpdate};

#[cfg(test)]
mod tests;
