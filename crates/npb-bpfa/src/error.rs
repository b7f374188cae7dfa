//! What can go wrong.

use npb_infer::ranges::OutOfRange;

/// Errors of this crate. A run that was stopped early is not one of them: that is a status of the fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfaError {
    /// A configuration value is out of range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// There is no observed entry at all.
    #[error("no entry is observed: a fit needs at least one")]
    NoEntries,
    /// All observed entries are one number: there are no units to work in.
    #[error("all {entries} observed entries are {value}: there is nothing to explain")]
    Constant {
        /// The value.
        value: f64,
        /// How many entries there are.
        entries: usize,
    },
    /// Every column of a table is constant.
    #[error("no column has two different observed values: there is nothing to explain")]
    NothingVaries,
    /// An entry that is not a finite number.
    #[error(
        "row {row}, column {column}: {value} is not a finite number; a missing entry must be marked as missing"
    )]
    Entry {
        /// 0-based row.
        row: usize,
        /// 0-based column.
        column: usize,
        /// The value.
        value: f64,
    },
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
    /// A precision matrix is not positive definite.
    #[error(
        "sweep {sweep}, {block} {item}: the precision matrix is not positive definite: pivot {pivot} is {value}; check for extreme values"
    )]
    Numerical {
        /// Sweep or iteration, from 1.
        sweep: u64,
        /// What was being drawn or updated.
        block: &'static str,
        /// Which one.
        item: usize,
        /// Pivot.
        pivot: usize,
        /// Its value.
        value: f64,
    },
    /// A parameter has left the range of numbers.
    #[error("sweep {sweep}: {what} is {value}; check for extreme values")]
    NotFinite {
        /// Sweep or iteration, from 1.
        sweep: u64,
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A state, checkpoint or saved fit contradicts itself or the data.
    #[error("state: {what}")]
    State {
        /// What is wrong.
        what: String,
    },
    /// Bad input found by the data layer.
    #[error(transparent)]
    Data(#[from] npb_data::DataError),
    /// Reading or writing a file.
    #[error(transparent)]
    Storage(#[from] npb_infer::storage::StorageError),
    /// The bytes of a saved fit.
    #[error(transparent)]
    Format(#[from] npb_infer::storage::FormatError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] npb_infer::watch::CheckpointError),
    /// Numerical trouble in a chain.
    #[error(transparent)]
    Chain(#[from] npb_infer::ChainError<Self>),
    /// Parameters of a distribution out of range.
    #[error(transparent)]
    Parameter(#[from] npb_priors::ParameterError),
}

/// Something that must hold of a state or file.
pub(crate) fn expect(holds: bool, what: &str) -> Result<(), BpfaError> {
    if holds {
        return Ok(());
    }
    Err(BpfaError::State {
        what: format!("{what}: impossible value or size"),
    })
}

/// Arguments that must fit each other do.
pub(crate) fn check_size(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), BpfaError> {
    if found == expected {
        return Ok(());
    }
    Err(BpfaError::Size {
        what,
        found,
        expected,
    })
}
