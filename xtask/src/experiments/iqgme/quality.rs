//! iQGME on trial beyond the figures of the paper: small sets, calibration, density without labels, coverage on data from the model.

mod calibration;
mod cells;
mod coverage;
mod data;
mod density;
mod methods;
mod simulate;
mod small_sets;
mod tables;

pub(super) use calibration::CALIBRATION;
pub(super) use coverage::COVERAGE;
pub(super) use density::DENSITY;
pub(super) use small_sets::SMALL_SETS;

/// The method on trial, in its default configuration.
const OURS: &str = "npb:iqgme";
