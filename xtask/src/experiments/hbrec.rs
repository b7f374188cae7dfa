//! npb-hbrec.

mod samplers;

use crate::reproduce::Experiment;

/// In the order of the paper, then what it does not have.
pub(crate) const EXPERIMENTS: &[Experiment] = &[samplers::SAMPLERS];
