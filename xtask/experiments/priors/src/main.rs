//! npb-priors: the conjugate warm-ups of the factor analysis slides, and counts under the random measures.

mod coin;
mod heavy_tails;
mod processes;

use std::process::ExitCode;

use npb_kit::{Experiment, Model};

/// From one weight to infinitely many.
const EXPERIMENTS: &[Experiment] = &[coin::COIN, heavy_tails::HEAVY_TAILS, processes::PROCESSES];

const MODEL: Model = Model {
    experiments: EXPERIMENTS,
    checks: &[],
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
