//! npb-iqgme: figures of chapters 3 and 4, and the model on trial beyond them.

mod comparators;
mod factor;
mod finite;
mod gibbs;
mod given;
mod mcar;
mod quality;
mod scaling;
mod synthetic;
mod tasks;

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
    tasks::FIG_4_3,
    tasks::FIG_4_4,
    tasks::FIG_4_5,
    tasks::FIG_4_6,
    tasks::FIG_4_8,
    quality::SMALL_SETS,
    quality::CALIBRATION,
    quality::DENSITY,
    quality::HOSPITALS,
    quality::COVERAGE,
    scaling::SCALING,
];
