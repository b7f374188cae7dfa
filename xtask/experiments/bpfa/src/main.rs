//! npb-bpfa: images, cubes and matrices.

mod cells;
mod cube;
mod factors;
mod images;
mod pictures;
mod printed;
mod validate;

use std::process::ExitCode;

use npb_kit::{Model, Run};

/// In the order of the paper, then what it does not have.
const EXPERIMENTS: &[(&str, Run)] = &[
    ("bpfa/fa-gibbs", factors::FA_GIBBS),
    ("bpfa/fa-gibbs-generated", factors::FA_GENERATED),
    ("bpfa/fa-vb", factors::FA_VB),
    ("bpfa/active-factors", factors::ACTIVE_FACTORS),
    ("bpfa/denoise", images::denoise),
    ("bpfa/denoise-colour", images::denoise_colour),
    ("bpfa/inpaint", images::inpaint),
    ("bpfa/noise-and-missing", images::noise_and_missing),
    ("bpfa/hyperspectral", cube::run),
    ("bpfa/spikes", images::spikes),
    ("bpfa/dhbp", images::dhbp),
    ("bpfa/lasso", images::lasso),
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
