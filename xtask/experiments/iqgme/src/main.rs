//! npb-iqgme: figures of chapters 3 and 4 beside comparators, and the model on trial beyond them.

mod comparators;
mod data;
mod factor;
mod finite;
mod gibbs;
mod given;
mod mcar;
mod quality;
mod tasks;
mod validate;

use std::process::ExitCode;

use npb_kit::{Experiment, Model};

/// In the order of the paper, then the model on trial beyond it.
const EXPERIMENTS: &[Experiment] = &[
    mcar::FIG_3_5,
    mcar::FIG_3_6,
    finite::FIG_3_7,
    quality::FIG_3_8,
    quality::FIG_3_9,
    gibbs::FIG_3_10,
    quality::FIG_3_12,
    factor::FIG_3_13,
    tasks::FIG_4_3,
    tasks::FIG_4_4,
    tasks::FIG_4_5,
    tasks::FIG_4_6,
    tasks::FIG_4_8,
    quality::CALIBRATION,
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
