//! npb-priors: the conjugate warm-ups of the factor analysis slides, and counts under the random measures.

mod coin;
mod heavy_tails;
mod processes;

use crate::reproduce::Experiment;

/// From one weight to infinitely many.
pub(crate) const EXPERIMENTS: &[Experiment] =
    &[coin::COIN, heavy_tails::HEAVY_TAILS, processes::PROCESSES];
