//! npb-regbayes: large-margin learning with latent features.

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

use npb_kit::{Experiment, Model};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[Experiment] = &[
    principle::FIG_1,
    recovery::RECOVERY,
    classes::TABLE_1,
    classes::FIG_4,
    labels::TABLE_2,
    school::FIG_7,
    sensitivity::FIG_8,
    sensitivity::FIG_9,
    medlda::MEDLDA,
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
