//! npb-hbrec.

mod cold_items;
mod data;
mod fig_3;
mod fig_4;
mod methods;
mod protocol;
mod runs;
mod samplers;
mod tasks;

use crate::reproduce::Experiment;

/// In the order of the paper, then what it does not have.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    tasks::FIG_1,
    fig_3::FIG_3,
    fig_4::SURVEY,
    fig_4::FIG_4,
    samplers::SAMPLERS,
    cold_items::COLD_ITEMS,
    tasks::TASKS,
];
