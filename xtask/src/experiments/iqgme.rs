//! npb-iqgme: figures of chapter 3, and the model on trial beyond them.

mod comparators;
mod factor;
mod finite;
mod gibbs;
mod mcar;
mod quality;
mod scaling;
mod synthetic;

use crate::reproduce::Experiment;

/// In the order of the paper, then the model on trial beyond it.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    synthetic::FIG_3_2,
    synthetic::FIG_3_3,
    synthetic::FIG_3_4,
    mcar::FIG_3_5,
    mcar::FIG_3_6,
    finite::FIG_3_7,
    quality::FIG_3_8,
    quality::FIG_3_9,
    gibbs::FIG_3_10,
    quality::FIG_3_12,
    factor::FIG_3_13,
    quality::SMALL_SETS,
    quality::CALIBRATION,
    quality::DENSITY,
    quality::COVERAGE,
    scaling::SCALING,
];
