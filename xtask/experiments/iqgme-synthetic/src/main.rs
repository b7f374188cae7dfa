//! npb-iqgme on three Gaussians: figures 3.2 to 3.4. A package of its own, since the tour begins with it: no comparator is built before the first figure.

mod synthetic;

use std::process::ExitCode;

use npb_kit::{Experiment, Model};

/// In the order of the paper.
const EXPERIMENTS: &[Experiment] = &[synthetic::FIG_3_2, synthetic::FIG_3_3, synthetic::FIG_3_4];

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
