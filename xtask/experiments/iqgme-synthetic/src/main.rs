//! npb-iqgme on three Gaussians: figures 3.2 to 3.4. A package of its own, since the tour begins with it: no comparator is built before the first figure.

mod synthetic;

use std::process::ExitCode;

use npb_kit::{Model, Run};

/// In the order of the paper.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("iqgme/fig-3.2", synthetic::FIG_3_2),
    ("iqgme/fig-3.3", synthetic::FIG_3_3),
    ("iqgme/fig-3.4", synthetic::FIG_3_4),
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
