//! Figures 3.8, 3.9 and 3.12, and iQGME on trial beyond the figures of the paper: small sets, calibration, density without labels, many tasks with five classes, coverage on data
//! from the model.

mod calibration;
mod cells;
mod clusters;
mod coverage;
mod data;
mod density;
mod hospitals;
mod imputed;
mod methods;
mod natural;
mod simulate;
mod small_sets;

pub(super) use calibration::CALIBRATION;
pub(super) use clusters::FIG_3_8;
pub(super) use coverage::COVERAGE;
pub(super) use density::DENSITY;
pub(super) use hospitals::HOSPITALS;
pub(super) use imputed::FIG_3_9;
pub(super) use natural::FIG_3_12;
pub(super) use small_sets::SMALL_SETS;

/// The method on trial, in its default configuration.
const OURS: &str = "npb:iqgme";
