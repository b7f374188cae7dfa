//! What can go wrong.

use npb_infer::ranges::OutOfRange;
use npb_linalg::NotPositiveDefinite;

/// Errors of this crate. A run that was stopped early is not one of them: that is a status of the fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegBayesError {
    /// A configuration value is out of range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// Two arguments that must fit each other do not.
    #[error("{what}: {found}, expected {expected}")]
    Size {
        /// The argument.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The size that fits.
        expected: usize,
    },
    /// A value that is not allowed where it stands.
    #[error("{what}, row {row}: {value} is not allowed: must be {rule}")]
    Row {
        /// The argument.
        what: &'static str,
        /// 0-based row.
        row: usize,
        /// The value.
        value: f64,
        /// What it must be, and what to do.
        rule: &'static str,
    },
    /// An entry that is not allowed.
    #[error("{what}, row {row}, column {column}: {value} is not allowed: must be {rule}")]
    Entry {
        /// The argument.
        what: &'static str,
        /// 0-based row.
        row: usize,
        /// 0-based column.
        column: usize,
        /// The value.
        value: f64,
        /// What it must be, and what to do.
        rule: &'static str,
    },
    /// A class that does not exist, or has nobody.
    #[error("row {row}: class {class} does not exist, there are {classes}")]
    Class {
        /// 0-based row.
        row: usize,
        /// The class.
        class: u32,
        /// How many there are.
        classes: usize,
    },
    /// A number asked for is out of range.
    #[error("{argument} = {value}: must be {rule}")]
    Argument {
        /// Name of the argument.
        argument: &'static str,
        /// The value given.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// No distribution meets the constraints.
    #[error(
        "the constraints cannot be met: {what}; the duals grow without end (constraint {constraint} most of all): make it soft or widen it"
    )]
    Infeasible {
        /// What was found.
        what: &'static str,
        /// The constraint whose dual grew most.
        constraint: usize,
    },
    /// A matrix is not positive definite.
    #[error(
        "iteration {iteration}, {block}: the matrix is not positive definite: pivot {pivot} is {value}; check for extreme values"
    )]
    Numerical {
        /// Iteration, from 1.
        iteration: u64,
        /// Block of variables.
        block: &'static str,
        /// Pivot.
        pivot: usize,
        /// Its value.
        value: f64,
    },
    /// A parameter has left the range of numbers.
    #[error("iteration {iteration}: {what} is {value}; check for extreme values")]
    NotFinite {
        /// Iteration, from 1.
        iteration: u64,
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A state or saved fit contradicts itself or the data.
    #[error("state: {what}")]
    State {
        /// What is wrong.
        what: String,
    },
    /// Bad input found by the data layer.
    #[error(transparent)]
    Data(#[from] npb_data::DataError),
    /// A split that cannot be made.
    #[error(transparent)]
    Split(#[from] npb_data::splits::SplitError),
    /// Reading or writing a saved fit.
    #[error(transparent)]
    Storage(#[from] npb_infer::storage::StorageError),
    /// The checkpoint of a fit.
    #[error(transparent)]
    Checkpoint(#[from] npb_infer::watch::CheckpointError),
    /// The bytes of a saved fit.
    #[error(transparent)]
    Format(#[from] npb_infer::storage::FormatError),
}

impl RegBayesError {
    pub(crate) fn row(what: &'static str, row: usize, value: f64, rule: &'static str) -> Self {
        Self::Row {
            what,
            row,
            value,
            rule,
        }
    }

    pub(crate) fn entry(
        what: &'static str,
        (row, column): (usize, usize),
        value: f64,
        rule: &'static str,
    ) -> Self {
        Self::Entry {
            what,
            row,
            column,
            value,
            rule,
        }
    }

    pub(crate) fn state(what: impl Into<String>) -> Self {
        Self::State { what: what.into() }
    }

    pub(crate) fn numerical(iteration: u64, block: &'static str, e: &NotPositiveDefinite) -> Self {
        Self::Numerical {
            iteration,
            block,
            pivot: e.pivot,
            value: e.value,
        }
    }
}

/// An error unless a size is what it should be.
pub(crate) fn same_size(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), RegBayesError> {
    match found == expected {
        true => Ok(()),
        false => Err(RegBayesError::Size {
            what,
            found,
            expected,
        }),
    }
}
