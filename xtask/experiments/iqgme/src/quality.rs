//! Figures 3.8, 3.9 and 3.12, and whether probabilities and intervals are what they say.

mod calibration;
mod clusters;
mod imputed;
mod natural;

pub(super) use calibration::CALIBRATION;
pub(super) use clusters::FIG_3_8;
pub(super) use imputed::FIG_3_9;
pub(super) use natural::FIG_3_12;
