//! npb-priors: the conjugate warm-ups of the factor analysis slides, and counts under the random measures.

mod coin;
mod heavy_tails;
mod processes;

use std::process::ExitCode;

use npb_kit::{Model, Run};

/// From one weight to infinitely many.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("priors/coin", coin::run),
    ("priors/heavy-tails", heavy_tails::run),
    ("priors/processes", processes::run),
];

const MODEL: Model = Model {
    listed: include_str!("../listed.toml"),
    experiments: EXPERIMENTS,
    checks: &[],
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
