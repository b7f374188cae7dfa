//! npb-bsvd: chapter 5 of the thesis, matrix completion.

mod acquisition;
mod baseball;
mod bench;
mod counts;
mod films_tables;
mod fits;
mod generated;
mod ordinal;
mod recovery;
mod speed;
mod validate;

use std::process::ExitCode;

use npb_kit::{Experiment, Model};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[Experiment] = &[
    recovery::FIG_5_2,
    recovery::FIG_5_3,
    acquisition::FIG_5_4,
    acquisition::FIG_5_5,
    films_tables::TABLE_5_2,
    films_tables::FIG_5_6,
    ordinal::ORDINAL,
    baseball::TABLE_5_3,
    baseball::HELD_OUT_PAIRS,
    baseball::FIG_5_8,
    films_tables::COLD_START,
    films_tables::COVERAGE,
];

const MODEL: Model = Model {
    experiments: EXPERIMENTS,
    checks: validate::CHECKS,
    bench: Some(bench::run),
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
