//! Every table and figure that can be reproduced, one module per model crate.

mod bpfa;
mod bsvd;
mod films;
mod hbrec;
mod iqgme;
mod itf;
mod priors;
mod regbayes;

use crate::reproduce::Experiment;

pub(crate) use bsvd::{SpeedLine, bsvd_speed};
pub(crate) use hbrec::{SurveyModel, simulated_survey};
pub(crate) use itf::{Scenario, Simulated};

/// All experiments, in the order of the report.
pub(crate) fn all() -> impl Iterator<Item = &'static Experiment> {
    let models = iqgme::EXPERIMENTS.iter().chain(bsvd::EXPERIMENTS);
    let models = models.chain(itf::EXPERIMENTS).chain(regbayes::EXPERIMENTS);
    let models = models.chain(hbrec::EXPERIMENTS).chain(bpfa::EXPERIMENTS);
    models.chain(priors::EXPERIMENTS)
}
