//! npb-itf: joint models of mixed data.

mod blogs;
mod cells;
mod figures;
mod groups;
mod mixed_sets;
mod scaling;
mod scenarios;
mod simulated;
pub(super) mod tables;

use crate::reproduce::Experiment;
pub(crate) use scenarios::{Scenario, Simulated};

/// The default model.
const ITF: &str = "npb:itf";
/// The paper's model: one block of columns.
const ONE_BLOCK: &str = "npb:itf/one-block";
/// The joint mixture: one clustering.
const DPM: &str = "npb:dpm";
/// Who is told the true parameters.
const TRUTH: &str = "truth";

/// In the order of the report.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    simulated::TABLE_1,
    simulated::TABLE_2,
    cells::TABLE_3,
    cells::TABLE_4,
    figures::FIGURE_1,
    figures::FIGURE_2,
    figures::FIGURE_3,
    groups::GROUPS,
    scaling::SCALING,
];
