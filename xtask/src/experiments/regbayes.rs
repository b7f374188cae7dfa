//! npb-regbayes: large-margin learning with latent features.

mod classes;
mod data;
mod labels;
mod medlda;
mod principle;
mod recovery;
mod scaling;
mod school;
mod sensitivity;

use crate::reproduce::Experiment;

/// In the order of the paper, then what it does not have.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    principle::FIG_1,
    recovery::RECOVERY,
    classes::TABLE_1,
    classes::FIG_4,
    labels::TABLE_2,
    school::FIG_7,
    sensitivity::FIG_8,
    sensitivity::FIG_9,
    medlda::MEDLDA,
    scaling::SCALING,
    scaling::SPEED,
];
