//! One column, and columns that belong together.

use super::date::DateScale;
use super::error::SchemaError;
use crate::Measure;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// One column of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnSchema {
    /// Name in the header; without a header `x0`, `x1`, ... by position.
    pub name: String,
    /// What it measures.
    pub kind: Kind,
    /// What it is used for.
    #[serde(default)]
    pub role: Role,
    /// Levels of a categorical, ordinal (the lowest first) or binary column; `None`: those that occur, sorted.
    #[serde(default)]
    pub levels: Option<Vec<String>>,
    /// Period of an angle: 360 for degrees, 24 for hours.
    #[serde(default)]
    pub period: Option<f64>,
    /// How dates are written, and their unit as numbers.
    #[serde(default)]
    pub date: Option<DateScale>,
    /// Texts that mean "missing" in this column, beside those of the schema.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// What a column measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A real number.
    Real,
    /// A number above 0, better seen by its logarithm.
    Positive,
    /// A whole number from 0.
    Count,
    /// One of several unordered levels.
    Categorical,
    /// One of several levels in their order.
    Ordinal,
    /// One of two levels.
    Binary,
    /// A direction, the same after every period.
    Angle,
    /// A date, read as a number of units since an origin.
    Date,
    /// A number or name of the row, which says nothing about it.
    Identifier,
}

/// What a column is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// To learn from, or to fill.
    #[default]
    Feature,
    /// To be predicted. Later files may lack it.
    Label,
    /// Names the rows in what is written. Later files may lack it.
    RowId,
    /// Rows of one group belong together: to a person, a place, a task.
    Group,
    /// How much a row counts, from 0.
    Weight,
    /// For nothing.
    Ignored,
}

/// Several columns that are measured together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockSchema {
    /// Name, distinct among blocks and columns.
    pub name: String,
    /// What they are together.
    pub kind: BlockKind,
    /// Names of the columns, in the order that the kind asks for.
    pub columns: Vec<String>,
}

/// What several columns are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Coordinates of a point.
    Vector,
    /// Values at successive times.
    Series,
    /// Links: the column of a row says who is linked to it (second level). As many columns as rows in the file of the fit.
    Network,
}

impl Kind {
    /// As it is written in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Real => "real",
            Kind::Positive => "positive",
            Kind::Count => "count",
            Kind::Categorical => "categorical",
            Kind::Ordinal => "ordinal",
            Kind::Binary => "binary",
            Kind::Angle => "angle",
            Kind::Date => "date",
            Kind::Identifier => "identifier",
        }
    }

    /// True for kinds that have levels.
    pub fn has_levels(self) -> bool {
        matches!(self, Kind::Categorical | Kind::Ordinal | Kind::Binary)
    }
}

impl Role {
    /// As it is written in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Role::Feature => "feature",
            Role::Label => "label",
            Role::RowId => "row_id",
            Role::Group => "group",
            Role::Weight => "weight",
            Role::Ignored => "ignored",
        }
    }

    /// True for roles that one column alone can have.
    pub(super) fn is_single(self) -> bool {
        matches!(self, Role::RowId | Role::Group | Role::Weight)
    }

    /// True for columns that a later file need not have.
    pub(crate) fn is_optional(self) -> bool {
        self != Role::Feature
    }
}

impl BlockKind {
    /// As it is written in a schema.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Vector => "vector",
            BlockKind::Series => "series",
            BlockKind::Network => "network",
        }
    }

    /// What models call it.
    pub(crate) fn measure(self) -> Measure {
        match self {
            BlockKind::Vector => Measure::Vector,
            BlockKind::Series => Measure::Series,
            BlockKind::Network => Measure::Network,
        }
    }

    pub(super) fn holds(self, kind: Kind) -> bool {
        match self {
            BlockKind::Vector | BlockKind::Series => {
                matches!(kind, Kind::Real | Kind::Positive | Kind::Count | Kind::Date)
            }
            BlockKind::Network => kind == Kind::Binary,
        }
    }

    pub(super) fn needs(self) -> &'static str {
        match self {
            BlockKind::Network => "needs binary columns that are features",
            _ => "needs columns of numbers (real, positive, count, date) that are features",
        }
    }
}

impl ColumnSchema {
    /// A feature without levels, period or date.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            role: Role::Feature,
            levels: None,
            period: None,
            date: None,
            missing: Vec::new(),
        }
    }

    /// The column that measures this by itself.
    pub(crate) fn measuring(name: impl Into<String>, measure: Measure) -> Self {
        let kind = match measure {
            Measure::Positive => Kind::Positive,
            Measure::Count => Kind::Count,
            Measure::Binary | Measure::Network => Kind::Binary,
            Measure::Categorical => Kind::Categorical,
            Measure::Ordinal => Kind::Ordinal,
            Measure::Angle { period } => {
                return Self {
                    period: Some(period),
                    ..Self::new(name, Kind::Angle)
                };
            }
            Measure::Real | Measure::Vector | Measure::Series => Kind::Real,
        };
        Self::new(name, kind)
    }

    /// What models call its kind.
    pub fn measure(&self) -> Measure {
        match self.kind {
            Kind::Real | Kind::Date => Measure::Real,
            Kind::Positive => Measure::Positive,
            Kind::Count => Measure::Count,
            Kind::Categorical | Kind::Identifier => Measure::Categorical,
            Kind::Ordinal => Measure::Ordinal,
            Kind::Binary => Measure::Binary,
            Kind::Angle => Measure::Angle {
                period: self.period.unwrap_or(360.0),
            },
        }
    }
}

/// The rules of one column by itself.
pub(super) fn check_column(column: &ColumnSchema, missing: &[String]) -> Result<(), SchemaError> {
    let wrong = |setting, rule| Err(SchemaError::column(&column.name, setting, rule));
    if let Some(levels) = &column.levels {
        let distinct: HashSet<&String> = levels.iter().collect();
        let is_mark = |level: &String| missing.contains(level) || column.missing.contains(level);
        if !column.kind.has_levels() {
            return wrong("levels", "are for categorical, ordinal and binary columns");
        }
        if distinct.len() != levels.len() {
            return wrong("levels", "must differ");
        }
        if column.kind == Kind::Binary && levels.len() != 2 {
            return wrong("levels", "of a binary column must be two");
        }
        if levels.iter().any(is_mark) {
            return wrong("levels", "must not contain a missing mark");
        }
    }
    match (column.kind, column.period) {
        (Kind::Angle, Some(period)) if period.is_finite() && period > 0.0 => {}
        (Kind::Angle, _) => {
            return wrong("period", "must be there, finite and > 0 (360 for degrees)");
        }
        (_, Some(_)) => return wrong("period", "is for angles"),
        (_, None) => {}
    }
    match (column.kind, &column.date) {
        (Kind::Date, None) => {
            return wrong("date", "must be there, such as { order = \"ymd\" }");
        }
        (Kind::Date, Some(scale)) if !scale.has_origin() => {
            return wrong(
                "date.since",
                "must be a date, year first, such as \"1970-01-01\"",
            );
        }
        (Kind::Date, Some(_)) | (_, None) => {}
        (_, Some(_)) => return wrong("date", "is for dates"),
    }
    let numbers = matches!(column.kind, Kind::Real | Kind::Positive | Kind::Count);
    match column.role {
        Role::Weight if !numbers => wrong("role", "weight needs a real, positive or count column"),
        Role::Feature | Role::Label if column.kind == Kind::Identifier => wrong(
            "role",
            "of an identifier must be \"row_id\", \"group\" or \"ignored\"; give the column another kind to use its values",
        ),
        _ => Ok(()),
    }
}
