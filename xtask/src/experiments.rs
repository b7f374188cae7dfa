//! Every table and figure that can be reproduced, one module per model crate.

mod bsvd;
mod iqgme;
mod itf;
mod priors;

use crate::reproduce::Experiment;

pub(crate) use bsvd::{SpeedLine, bsvd_speed};
pub(crate) use itf::{Scenario, Simulated};

/// All experiments, in the order of the report.
pub(crate) fn all() -> impl Iterator<Item = &'static Experiment> {
    let models = iqgme::EXPERIMENTS.iter().chain(bsvd::EXPERIMENTS);
    models.chain(itf::EXPERIMENTS).chain(priors::EXPERIMENTS)
}
