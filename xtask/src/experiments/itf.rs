//! npb-itf: joint models of mixed data.

mod cells;
mod mixed_sets;
mod scenarios;
mod simulated;
mod tables;

use crate::reproduce::Experiment;

/// The default model.
const ITF: &str = "npb:itf";
/// The joint mixture: one clustering.
const DPM: &str = "npb:dpm";
/// Who is told the true parameters.
const TRUTH: &str = "truth";

/// In the order of the report.
pub(crate) const EXPERIMENTS: &[Experiment] =
    &[simulated::TABLE_1, simulated::TABLE_2, cells::TABLE_3];
