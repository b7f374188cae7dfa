//! Rows or columns: everything that is asked of the one can be asked of the other.

use crate::features::SideInformation;
use crate::state::{BsvdState, SideState};
use npb_data::Features;
use serde::{Deserialize, Serialize};

/// Which side of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Side {
    Rows,
    Columns,
}

impl Side {
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Rows => Self::Columns,
            Self::Columns => Self::Rows,
        }
    }

    /// `row` or `column`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rows => "row",
            Self::Columns => "column",
        }
    }

    /// The unknowns of this side.
    pub(crate) fn of(self, state: &BsvdState) -> &SideState {
        match self {
            Self::Rows => &state.rows,
            Self::Columns => &state.columns,
        }
    }

    /// The features of this side.
    pub(crate) fn features(self, side: &SideInformation) -> Option<&Features> {
        match self {
            Self::Rows => side.rows.as_ref(),
            Self::Columns => side.columns.as_ref(),
        }
    }

    /// Number of features of this side.
    pub(crate) fn n_features(self, side: &SideInformation) -> usize {
        self.features(side).map_or(0, Features::n_features)
    }
}

/// One row (or column) in one draw: of the fit, or folded in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) factors: &'a [f32],
    pub(crate) intercept: f32,
    /// On the features of the other side.
    pub(crate) coefficients: &'a [f32],
    /// Its own.
    pub(crate) features: &'a [f32],
    /// Factor of the noise precision.
    pub(crate) noise_weight: f64,
}

impl<'a> Line<'a> {
    /// Row (or column) `i` of a state; `features`: its own.
    pub(crate) fn of(own: &'a SideState, i: usize, rank: usize, features: &'a [f32]) -> Self {
        let q = own.coefficient_mean.len();
        Self {
            factors: SideState::part(&own.factors, i, rank),
            intercept: own.intercepts.get(i).copied().unwrap_or(0.0),
            coefficients: SideState::part(&own.coefficients, i, q),
            features,
            noise_weight: own.noise_weight(i),
        }
    }
}
