//! npb-bpfa: images, cubes and matrices.

mod cells;
mod cube;
mod factors;
mod images;
mod pictures;
mod printed;
mod validate;

use std::process::ExitCode;

use npb_kit::{Experiment, Model};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[Experiment] = &[
    factors::FA_GIBBS,
    factors::FA_GENERATED,
    factors::FA_VB,
    factors::ACTIVE_FACTORS,
    images::DENOISE,
    images::DENOISE_COLOUR,
    images::INPAINT,
    images::NOISE_AND_MISSING,
    cube::HYPERSPECTRAL,
    images::SPIKES,
    images::DHBP,
    images::LASSO,
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
