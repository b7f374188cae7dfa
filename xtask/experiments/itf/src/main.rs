//! npb-itf: joint models of mixed data.

mod blogs;
mod cells;
mod figures;
mod groups;
mod mixed_sets;
mod names;
mod scenarios;
mod simulated;
mod validate;

use std::process::ExitCode;

use npb_kit::{Experiment, Model};

/// In the order of the report.
const EXPERIMENTS: &[Experiment] = &[
    simulated::TABLE_1,
    simulated::TABLE_2,
    cells::TABLE_3,
    cells::TABLE_4,
    figures::FIGURE_1,
    figures::FIGURE_2,
    figures::FIGURE_3,
    groups::GROUPS,
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
