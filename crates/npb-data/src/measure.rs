//! What columns measure, alone or several together.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a column measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// A real number.
    Real,
    /// A whole number from 0.
    Count,
    /// One of several unordered levels.
    Categorical,
    /// One of two levels.
    Binary,
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnKind::Real => "real",
            ColumnKind::Count => "count",
            ColumnKind::Categorical => "categorical",
            ColumnKind::Binary => "binary",
        })
    }
}

/// What one field of a row measures.
///
/// Those of one column but angles are guessed from values ([`Schema::guess`](crate::schema::Schema::guess)); the others are known to the owner of the data only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// A real number: one real or count column.
    Real,
    /// A number above 0, better seen by its logarithm: one real or count column.
    Positive,
    /// A whole number from 0: one count column.
    Count,
    /// One of two levels: one binary column.
    Binary,
    /// One of several unordered levels: one categorical or binary column.
    Categorical,
    /// One of several levels in their order, the lowest first: one categorical or binary column.
    Ordinal,
    /// A direction, the same after every `period` (360 for degrees, 24 for hours): one real or count column.
    Angle {
        /// Finite and positive.
        period: f64,
    },
    /// A point: real or count columns, one per coordinate. A coordinate may be missing alone.
    Vector,
    /// A series in time: real or count columns, one per time, in order. Missing times at the end make it shorter, others are gaps.
    Series,
    /// Links: binary columns (second level = linked), as many as there are rows; row i, column j says whether i is linked to j.
    Network,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Real => "real",
            Measure::Positive => "positive",
            Measure::Count => "count",
            Measure::Binary => "binary",
            Measure::Categorical => "categorical",
            Measure::Ordinal => "ordinal",
            Measure::Angle { period } => return write!(f, "angle (period {period})"),
            Measure::Vector => "vector",
            Measure::Series => "series",
            Measure::Network => "network",
        })
    }
}
