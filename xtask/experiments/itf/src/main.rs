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

use npb_kit::{Model, Run};

/// In the order of the report.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("itf/table-1", simulated::TABLE_1),
    ("itf/table-2", simulated::TABLE_2),
    ("itf/table-3", cells::run),
    ("itf/table-4", cells::run_grouped),
    ("itf/fig-1", figures::FIGURE_1),
    ("itf/fig-2", figures::FIGURE_2),
    ("itf/fig-3", figures::leanings),
    ("itf/groups", groups::run),
];

const MODEL: Model = Model {
    listed: include_str!("../listed.toml"),
    experiments: EXPERIMENTS,
    checks: validate::CHECKS,
};

fn main() -> ExitCode {
    npb_kit::main(&MODEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_that_of_the_code() {
        npb_kit::testing::assert_listed(&MODEL);
    }
}
