//! What can go wrong.

use npb_data::ColumnKind;
use npb_infer::ranges::OutOfRange;

use crate::kernels::CellError;

/// Errors of this crate. Not having converged is not one of them: diagnostics say how far the chains agree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ItfError {
    /// A configuration value is out of range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// No rows.
    #[error("the table has no rows: a fit needs at least one")]
    NoRows,
    /// No columns.
    #[error("the table has no columns: a fit needs at least one")]
    NoColumns,
    /// A column has another number of rows than the others.
    #[error("column {name:?} has {found} rows, the columns before it have {expected}")]
    RowCount {
        /// The column.
        name: String,
        /// Its number of rows.
        found: usize,
        /// That of the others.
        expected: usize,
    },
    /// Two columns have the same name.
    #[error("column {name:?} is there twice: give every column a name of its own")]
    DuplicateColumn {
        /// The name.
        name: String,
    },
    /// Questions about the rows of the fit need all of them.
    #[error(
        "has {found} rows, the table of the fit had {expected}: give that table, its rows in their order"
    )]
    RowsOfFit {
        /// Number of rows.
        found: usize,
        /// That of the fit.
        expected: usize,
    },
    /// A fit goes on with the rows that it had and further ones.
    #[error(
        "has {found} rows, the table of the fit had {least}: a fit goes on with its own rows, in their order, and new ones after them"
    )]
    FewerRows {
        /// Number of rows.
        found: usize,
        /// That of the fit.
        least: usize,
    },
    /// A row is not the one that the fit had there.
    #[error(
        "row {row} is not that of the fit (it has other cells, or another place): give the rows of the fit as they were, in their order"
    )]
    OtherRow {
        /// 0-based row.
        row: usize,
    },
    /// The cells do not belong to the kernel they come with.
    #[error("column {name:?}: cells of another kernel than the column's")]
    OtherKernel {
        /// The column.
        name: String,
    },
    /// A column cannot be modelled as it is.
    #[error("column {name:?}: {what}")]
    Column {
        /// The column.
        name: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// At prediction a column has another kind than in training.
    #[error("column {name:?} is {found} here and was {expected} in training")]
    Kind {
        /// The column.
        name: String,
        /// The kind found.
        found: ColumnKind,
        /// The kind in training.
        expected: String,
    },
    /// At prediction a cell has a level that training did not know.
    #[error(
        "row {row}, column {name:?}: level {level:?} did not occur among the levels of training; mark the cell as missing or fit again"
    )]
    UnknownLevel {
        /// 0-based row.
        row: usize,
        /// The column.
        name: String,
        /// The level.
        level: String,
    },
    /// A question about a column that is not there, or that cannot be asked of it.
    #[error("{argument} = {value}: must be {rule}")]
    Argument {
        /// Name of the argument.
        argument: &'static str,
        /// The value given.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// Bad input found by the data layer.
    #[error(transparent)]
    Data(#[from] npb_data::DataError),
    /// Reading or writing a saved fit.
    #[error(transparent)]
    Storage(#[from] npb_infer::storage::StorageError),
    /// The bytes of a saved fit.
    #[error(transparent)]
    Format(#[from] npb_infer::storage::FormatError),
    /// A checkpoint that cannot be read or written, or that is of another fit.
    #[error(transparent)]
    Checkpoint(#[from] npb_infer::watch::CheckpointError),
    /// A chain failed.
    #[error(transparent)]
    Chain(#[from] npb_infer::ChainError<Self>),
    /// A state or saved fit contradicts itself or the data.
    #[error("state: {what}")]
    State {
        /// What is wrong.
        what: String,
    },
}

impl ItfError {
    /// Cells that a kernel cannot take.
    pub(crate) fn cells(column: &str, error: &CellError) -> Self {
        Self::Column {
            name: column.to_owned(),
            what: error.to_string(),
        }
    }

    pub(crate) fn state(what: impl Into<String>) -> Self {
        Self::State { what: what.into() }
    }
}
