//! npb-bsvd: chapter 5 of the thesis, matrix completion.

use crate::reproduce::Experiment;

/// In the order of the report.
pub(crate) const EXPERIMENTS: &[Experiment] = &[];
