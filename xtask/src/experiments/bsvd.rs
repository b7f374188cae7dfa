//! npb-bsvd: chapter 5 of the thesis, matrix completion.

mod acquisition;
mod baseball;
mod counts;
mod films_tables;
mod fits;
mod generated;
mod ordinal;
mod recovery;
mod speed;
pub(super) mod tables;

use crate::reproduce::Experiment;

pub(crate) use speed::{SpeedLine, bsvd_speed};

/// In the order of the paper, then what it does not have.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    recovery::FIG_5_2,
    recovery::FIG_5_3,
    acquisition::FIG_5_4,
    acquisition::FIG_5_5,
    films_tables::TABLE_5_2,
    films_tables::FIG_5_6,
    ordinal::ORDINAL,
    baseball::TABLE_5_3,
    baseball::HELD_OUT_PAIRS,
    baseball::FIG_5_8,
    films_tables::NINETY_TEN,
    films_tables::HUNDRED_THOUSAND,
    films_tables::COLD_START,
    films_tables::COVERAGE,
];
