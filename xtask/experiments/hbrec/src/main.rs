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
mod validate;

use std::process::ExitCode;

use npb_kit::{Experiment, Model};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[Experiment] = &[
    tasks::FIG_1,
    fig_3::FIG_3,
    fig_4::SURVEY,
    fig_4::FIG_4,
    samplers::SAMPLERS,
    cold_items::COLD_ITEMS,
    tasks::TASKS,
];

const MODEL: Model = Model {
    experiments: EXPERIMENTS,
    checks: validate::CHECKS,
    bench: None,
};

fn main() -> ExitCode {
    npb_kit::main(&MODEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_that_of_the_code() {
        npb_kit::testing::assert_listed(&MODEL, include_str!("../listed.toml"));
    }
}
