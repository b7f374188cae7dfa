//! Every table and figure that can be reproduced, one module per model crate.

mod iqgme;
mod priors;

use crate::reproduce::Experiment;

/// All experiments, in the order of the report.
pub(crate) fn all() -> impl Iterator<Item = &'static Experiment> {
    iqgme::EXPERIMENTS.iter().chain(priors::EXPERIMENTS)
}
