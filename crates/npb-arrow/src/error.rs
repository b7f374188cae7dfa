//! What can be wrong.

use npb_data::DataError;

/// A file or batch that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrowError {
    /// The bytes are no file of Arrow or Parquet, or a broken one.
    #[error("{file}: cannot read: {message}")]
    File {
        /// The file.
        file: String,
        /// What the reader says.
        message: String,
    },
    /// A column of a type that is no number, text or time.
    #[error(
        "{file}: column {column:?} is of type {found}; numbers, texts, truth values, dates, times and durations are read: convert the column or leave it out"
    )]
    Type {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Its type.
        found: String,
    },
    /// A value that cannot be read.
    #[error("{file}: row {row}: column {column:?}: {value} {rule}")]
    Value {
        /// The file.
        file: String,
        /// Row, from 1.
        row: usize,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// Batches of one table that do not have the same columns.
    #[error("{file}: batch {batch} has other columns than the first")]
    Batches {
        /// The file.
        file: String,
        /// Number of the batch, from 1.
        batch: usize,
    },
    /// The columns do not make a table.
    #[error("{file}: {source}")]
    Data {
        /// The file.
        file: String,
        /// What is wrong.
        source: DataError,
    },
    /// A table that cannot be written.
    #[error("cannot write: {message}")]
    Write {
        /// What the writer says.
        message: String,
    },
}

impl ArrowError {
    pub(crate) fn file(file: &str, error: impl std::fmt::Display) -> Self {
        Self::File {
            file: file.to_owned(),
            message: error.to_string(),
        }
    }

    pub(crate) fn write(error: impl std::fmt::Display) -> Self {
        Self::Write {
            message: error.to_string(),
        }
    }
}
