//! npb-iqgme: figures of chapter 3.

mod mcar;

use crate::reproduce::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[mcar::FIG_3_5, mcar::FIG_3_6];
