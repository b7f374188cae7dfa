//! npb-itf: joint models of mixed data.

use crate::reproduce::Experiment;

/// In the order of the report.
pub(crate) const EXPERIMENTS: &[Experiment] = &[];
