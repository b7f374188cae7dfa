//! What can go wrong.

use npb_data::DataError;
use npb_infer::ranges::OutOfRange;
use npb_infer::storage::{FormatError, StorageError};

/// Errors of this crate. A run that was stopped early is not one of them: that is a status of the fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HbrecError {
    /// A configuration value is out of range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// Rows, labels or names that cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// There is no user with data.
    #[error("no user has any data: there is nothing to learn from")]
    NoData,
    /// A count that does not fit the rest.
    #[error("{what}: there are {found}, there must be {expected}")]
    Size {
        /// What was counted.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// An item that does not exist.
    #[error("there is no item {item}: there are {n_items} (give a new item by its features)")]
    NoSuchItem {
        /// The item asked for.
        item: usize,
        /// Items of the model.
        n_items: usize,
    },
    /// A user that does not exist.
    #[error("there is no user {user}: there are {n_users}")]
    NoSuchUser {
        /// The user asked for.
        user: usize,
        /// Users of the model.
        n_users: usize,
    },
    /// A group that does not exist.
    #[error("there is no group {group:?}: fold it in by its own rows")]
    NoSuchGroup {
        /// The group asked for.
        group: String,
    },
    /// One item rated twice by one user.
    #[error("item {item} is given twice: keep one of the two")]
    Twice {
        /// The item.
        item: usize,
    },
    /// A number that cannot be used.
    #[error("{what}, row {row}, column {column}: {value} {rule}")]
    Value {
        /// What the number belongs to.
        what: &'static str,
        /// 0-based row (user, item or observation).
        row: usize,
        /// 0-based column.
        column: usize,
        /// The number.
        value: f64,
        /// What it must be, and what to do.
        rule: &'static str,
    },
    /// A matrix that should be positive definite is not, to working precision.
    #[error("{what}, iteration {iteration}, {block} {item}: {source}")]
    Numerical {
        /// The computation.
        what: &'static str,
        /// Iteration or sweep.
        iteration: u64,
        /// `user`, `item` or `cluster`.
        block: &'static str,
        /// Its number.
        item: usize,
        /// The pivot.
        source: npb_linalg::NotPositiveDefinite,
    },
    /// Contents that contradict one another.
    #[error("{what}")]
    State {
        /// What is wrong.
        what: String,
    },
    /// A checkpoint could not be written, read, or is of another fit.
    #[error(transparent)]
    Checkpoint(#[from] npb_infer::watch::CheckpointError),
    /// Numerical trouble in a chain.
    #[error(transparent)]
    Chain(#[from] npb_infer::ChainError<Self>),
    /// Parameters of a distribution out of range.
    #[error(transparent)]
    Parameter(#[from] npb_priors::ParameterError),
    /// A file could not be written or read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Bytes are not those of a fit.
    #[error(transparent)]
    Format(#[from] FormatError),
}
