//! npb-bsvd: chapter 5 of the thesis, matrix completion.

mod acquisition;
mod baseball;
mod counts;
mod films_tables;
mod fits;
mod generated;
mod ordinal;
mod recovery;
mod validate;

use std::process::ExitCode;

use npb_kit::{Model, Run};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("bsvd/fig-5.2", recovery::FIG_5_2),
    ("bsvd/fig-5.3", recovery::FIG_5_3),
    ("bsvd/fig-5.4", acquisition::FIG_5_4),
    ("bsvd/fig-5.5", acquisition::FIG_5_5),
    ("bsvd/table-5.2", films_tables::table_5_2),
    ("bsvd/fig-5.6", films_tables::FIG_5_6),
    ("bsvd/ordinal", ordinal::run),
    ("bsvd/table-5.3", baseball::table_5_3),
    ("bsvd/held-out-pairs", baseball::held_out_pairs),
    ("bsvd/fig-5.8", baseball::FIG_5_8),
    ("bsvd/cold-start", films_tables::cold_start),
    ("bsvd/coverage", films_tables::coverage),
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
