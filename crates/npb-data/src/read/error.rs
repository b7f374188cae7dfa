//! What is wrong with a file, and where.

use crate::DataError;
use crate::schema::SchemaError;

/// A file that cannot be read: which, where and why.
///
/// Displays as `file:line: column 3 ("age"): problem`, with the parts that are known.
#[derive(Debug, thiserror::Error)]
#[error("{file}{place}: {problem}", place = self.place())]
#[non_exhaustive]
pub struct ReadError {
    /// Name of the file, as passed to the reader.
    pub file: String,
    /// Line, from 1; the last line for something missing at the end of the file.
    pub line: Option<u64>,
    /// Row, from 1, of a table that has no lines.
    pub row: Option<u64>,
    /// Column (field within the line), from 1. For [`ReadProblem::InvalidUtf8`] the byte within the line, from 1.
    pub column: Option<usize>,
    /// Name of the column.
    pub column_name: Option<String>,
    /// What is wrong.
    pub problem: Box<ReadProblem>,
}

/// What can be wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadProblem {
    /// The input cannot be read.
    #[error("cannot read the input: {0}")]
    Io(std::io::Error),
    /// The bytes are not UTF-8.
    #[error(
        "the bytes here are not UTF-8; convert the file, or read it as Latin-1 where the reader has that option"
    )]
    InvalidUtf8,
    /// The bytes begin as UTF-16 does, and are not.
    #[error("the bytes begin as UTF-16 does and are not; convert the file to UTF-8")]
    InvalidUtf16,
    /// Options that contradict each other or cannot work.
    #[error("option {option}: {rule}")]
    Options {
        /// The option.
        option: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// A line with too few or too many fields.
    #[error("{found} fields, expected {expected}")]
    Fields {
        /// Number of fields found.
        found: usize,
        /// Number of fields expected.
        expected: usize,
    },
    /// A field that is not what it should be.
    #[error("{text:?} is not {expected}")]
    Cell {
        /// The field, cut to 40 characters.
        text: String,
        /// What it should be, including what to do.
        expected: &'static str,
    },
    /// A quoted field that never ends.
    #[error("a quote opened in this record is never closed")]
    UnclosedQuote,
    /// A column that the options name does not exist.
    #[error("there is no column {column}: {known}")]
    NoSuchColumn {
        /// The column asked for.
        column: String,
        /// The columns that there are.
        known: String,
    },
    /// A declaration in a header that cannot be understood.
    #[error("{text:?}: {rule}")]
    Header {
        /// The text, cut to 40 characters.
        text: String,
        /// What was expected.
        rule: &'static str,
    },
    /// Another number of entries than the header announced.
    #[error("the header announces {announced} {what}, the file has {found}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// Number in the header.
        announced: u64,
        /// Number found; counting stops at the first too many.
        found: u64,
    },
    /// A (row, column) pair that was given before.
    #[error("entry ({row}, {column}) was given before, in line {first_line}")]
    Duplicate {
        /// Row identifier as in the file.
        row: String,
        /// Column identifier as in the file.
        column: String,
        /// Line of the first entry.
        first_line: u64,
    },
    /// A column declared binary that does not have two levels.
    #[error("a binary column needs two distinct values, found {found}")]
    Levels {
        /// Number of distinct values.
        found: usize,
    },
    /// A level that is not listed.
    #[error(
        "{level:?} is not one of the declared levels {known}; correct it, add it to the levels, or let the option unseen_levels be \"missing\""
    )]
    UnseenLevel {
        /// The level, cut to 40 characters.
        level: String,
        /// The first levels that are listed.
        known: String,
    },
    /// A feature that the schema has and the file has not.
    #[error(
        "there is no column {column:?}, which the schema has; add it, or let the option missing_columns be \"missing\". {known}"
    )]
    MissingColumn {
        /// Name of the column.
        column: String,
        /// The columns that there are.
        known: String,
    },
    /// A schema that cannot be used.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Sparse rows that would fill far more memory than the file.
    #[error(
        "sparse rows fill more than {limit} cells; too sparse for a table, convert the file to triplets"
    )]
    TooSparse {
        /// Cells that a file of this size may fill.
        limit: usize,
    },
    /// Every field can be read, but together they are not valid data.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl ReadError {
    pub(crate) fn new(file: &str, problem: ReadProblem) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            row: None,
            column: None,
            column_name: None,
            problem: Box::new(problem),
        }
    }

    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// Adds the column, counted from 0 here.
    pub(crate) fn at_column(mut self, column: usize) -> Self {
        self.column = Some(column + 1);
        self
    }

    pub(crate) fn named(mut self, name: Option<&str>) -> Self {
        self.column_name = name.map(str::to_owned);
        self
    }

    fn place(&self) -> String {
        let line = self
            .line
            .map_or_else(String::new, |line| format!(":{line}"));
        let row = self
            .row
            .map_or_else(String::new, |row| format!(": row {row}"));
        let unit = if matches!(*self.problem, ReadProblem::InvalidUtf8) {
            "byte"
        } else {
            "column"
        };
        let column = self
            .column
            .map_or_else(String::new, |column| format!(": {unit} {column}"));
        let name = self
            .column_name
            .as_ref()
            .map_or_else(String::new, |name| format!(" ({:?})", excerpt(name)));
        line + &row + &column + &name
    }
}

impl ReadProblem {
    pub(crate) fn cell(text: &str, expected: &'static str) -> Self {
        Self::Cell {
            text: excerpt(text),
            expected,
        }
    }

    pub(crate) fn not_finite(text: &str) -> Self {
        Self::cell(text, "a finite number; correct it or mark it as missing")
    }

    pub(crate) fn unseen_level(level: &str, known: &[String]) -> Self {
        Self::UnseenLevel {
            level: excerpt(level),
            known: first_of(known),
        }
    }

    pub(crate) fn missing_column(column: &str, known: &[String]) -> Self {
        Self::MissingColumn {
            column: column.to_owned(),
            known: match known.is_empty() {
                true => "The file is empty".to_owned(),
                false => format!("The file has {}", first_of(known)),
            },
        }
    }

    pub(crate) fn header(text: &str, rule: &'static str) -> Self {
        Self::Header {
            text: excerpt(text),
            rule,
        }
    }
}

/// The first 40 characters.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(40) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// The first ten names, quoted, and how many more there are.
pub(crate) fn first_of(names: &[String]) -> String {
    let mut first: Vec<String> = names.iter().take(10).map(|n| format!("{n:?}")).collect();
    if names.len() > first.len() {
        first.push(format!("{} more", names.len() - first.len()));
    }
    first.join(", ")
}
