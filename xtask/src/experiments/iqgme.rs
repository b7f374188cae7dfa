//! npb-iqgme: figures of chapter 3.

mod mcar;
mod synthetic;

use crate::reproduce::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    synthetic::FIG_3_2,
    synthetic::FIG_3_3,
    synthetic::FIG_3_4,
    mcar::FIG_3_5,
    mcar::FIG_3_6,
];
