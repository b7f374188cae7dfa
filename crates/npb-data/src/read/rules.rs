//! What to do where a file does not have what a schema expects, and what was found.

use super::delimited::DelimitedOptions;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a file is laid out, and what to do where it does not have what the schema expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadingRules {
    /// Layout of the file. Its `missing` and `skip` are not used: the schema says what is missing and what is read.
    pub layout: DelimitedOptions,
    /// A feature that the file lacks; an error by default.
    pub missing_columns: Unexpected,
    /// A level that the schema does not list; missing by default.
    pub unseen_levels: Unexpected,
    /// A value that its kind cannot be: 0 in a positive column, 2.5 in one of counts, a text in one of numbers or dates; an error by default.
    pub impossible_values: Unexpected,
}

impl Default for ReadingRules {
    fn default() -> Self {
        Self {
            layout: DelimitedOptions::default(),
            missing_columns: Unexpected::Error,
            unseen_levels: Unexpected::Missing,
            impossible_values: Unexpected::Error,
        }
    }
}

/// What to do about something that the schema does not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unexpected {
    /// An error that names place and text.
    Error,
    /// The value is missing (of a column: every value), and the report says so.
    Missing,
}

/// What a file had that the schema does not expect, and the other way round. Displays as one line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingReport {
    /// Columns of the file that the schema does not have.
    pub skipped: Vec<String>,
    /// Features that the file lacks, read as missing.
    pub absent: Vec<String>,
    /// Levels that the schema does not list, read as missing.
    pub unseen: Vec<UnseenLevel>,
    /// Columns with values that their kinds cannot be, read as missing; the first of each.
    pub impossible: Vec<UnseenLevel>,
}

/// A level that the schema does not list, or a number that its kind cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenLevel {
    /// Name of the column.
    pub column: String,
    /// The level, or the number, as written.
    pub level: String,
    /// In how many rows.
    pub n_rows: usize,
    /// Where the first is.
    pub place: Place,
}

/// A place in a file, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Line of a text.
    Line(u64),
    /// Row of a table without lines.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

impl fmt::Display for ReadingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        if !self.skipped.is_empty() {
            lines.push(format!(
                "skipped, not in the schema: {}",
                self.skipped.join(", ")
            ));
        }
        if !self.absent.is_empty() {
            lines.push(format!(
                "not in the file, read as missing: {}",
                self.absent.join(", ")
            ));
        }
        lines.extend(self.unseen.iter().map(|unseen| {
            let UnseenLevel { column, level, n_rows, place } = unseen;
            format!("column {column:?}: {level:?} is no level of the schema, read as missing ({n_rows} rows, first in {place})")
        }));
        lines.extend(self.impossible.iter().map(|unseen| {
            let UnseenLevel { column, level, n_rows, place } = unseen;
            format!("column {column:?}: {level:?} is not what the schema says it holds, read as missing ({n_rows} such rows, first in {place})")
        }));
        f.write_str(&lines.join("\n"))
    }
}
