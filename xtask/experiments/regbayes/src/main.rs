//! npb-regbayes: large-margin learning with latent features.

mod by_default;
mod classes;
mod data;
mod labels;
mod medlda;
mod principle;
mod recovery;
mod school;
mod sensitivity;
mod validate;

use std::process::ExitCode;

use npb_kit::{Model, Run};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("regbayes/fig-1", principle::run),
    ("regbayes/recovery", recovery::run),
    ("regbayes/table-1", classes::table_1),
    ("regbayes/fig-4", classes::figures_4_to_6),
    ("regbayes/table-2", labels::table_2),
    ("regbayes/fig-7", school::fig_7),
    ("regbayes/fig-8", sensitivity::fig_8),
    ("regbayes/fig-9", sensitivity::fig_9),
    ("regbayes/medlda", medlda::run),
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
