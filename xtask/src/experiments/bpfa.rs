//! npb-bpfa: images, cubes and matrices.

mod cells;
mod cube;
mod factors;
mod images;
mod pictures;
mod printed;

use crate::reproduce::Experiment;

/// In the order of the paper, then what it does not have.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
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
