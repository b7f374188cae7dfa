//! What can go wrong.

use npb_infer::ranges::OutOfRange;

/// A number as people write it: large ones by their power of ten.
fn short(value: f64) -> String {
    match value.abs() < 1e16 {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// Errors of this crate. A run that was stopped early is not one of them: that is a status of the fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BsvdError {
    /// A configuration value is out of range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// There is no entry at all.
    #[error("no entry is observed: a fit needs at least one")]
    NoEntries,
    /// Entries without spread have no units.
    #[error(
        "all {entries} entries are {value}: there is nothing to explain (for a fit on such data give the units in the configuration)"
    )]
    Constant {
        /// The value.
        value: f64,
        /// How many entries there are.
        entries: usize,
    },
    /// An entry that the likelihood does not allow.
    #[error("row {row}, column {column}: {} {rule}", short(*value))]
    Entry {
        /// 0-based row.
        row: usize,
        /// 0-based column.
        column: usize,
        /// The value.
        value: f64,
        /// What it must be, and what to do.
        rule: &'static str,
    },
    /// A cell that does not exist.
    #[error("{what} {index}: {axis} {found} does not exist, there are {size}")]
    Index {
        /// List in which it was given.
        what: &'static str,
        /// Place in that list.
        index: usize,
        /// `row` or `column`.
        axis: &'static str,
        /// The number given.
        found: usize,
        /// Rows or columns of the matrix.
        size: usize,
    },
    /// A row or column that was asked for does not exist.
    #[error("there is no {axis} {key}: there are {size}, and names are those given to the fit")]
    NoSuch {
        /// `row` or `column`.
        axis: &'static str,
        /// What was asked for.
        key: String,
        /// Rows or columns of the fit.
        size: usize,
    },
    /// A new row with two entries in one column (or the other way round).
    #[error("{axis} {index} is given twice")]
    Twice {
        /// `row` or `column`.
        axis: &'static str,
        /// Its place.
        index: usize,
    },
    /// An entry of a new row or column that the likelihood does not allow.
    #[error("new entry at {axis} {index}: {} {rule}", short(*value))]
    NewEntry {
        /// `row` or `column`.
        axis: &'static str,
        /// Its place.
        index: usize,
        /// The value, or the number of successes.
        value: f64,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// A question that makes no sense for the likelihood of the fit.
    #[error("{question}: not for the {likelihood:?} likelihood of this fit")]
    Likelihood {
        /// What was asked for.
        question: &'static str,
        /// The likelihood.
        likelihood: crate::Likelihood,
    },
    /// Two rows (or columns) of one name.
    #[error("the {axis} name {name:?} is given twice: to {axis} {first} and to {axis} {second}")]
    DuplicateName {
        /// `row` or `column`.
        axis: &'static str,
        /// The name.
        name: String,
        /// The first that has it, from 0.
        first: usize,
        /// The second.
        second: usize,
    },
    /// A question that stored draws answer, and too few of them.
    #[error(
        "the fit stores {found} draws, {least} are needed: raise stored_draws in the configuration"
    )]
    TooFewDraws {
        /// Draws in the fit.
        found: usize,
        /// Draws that are needed.
        least: usize,
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
    /// More entries than can be numbered.
    #[error("{entries} entries: at most {limit} can be held")]
    TooMany {
        /// Entries given.
        entries: usize,
        /// The limit.
        limit: usize,
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
        /// Sweep, from 1.
        sweep: u64,
        /// `row` or `column`.
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
        /// Sweep, from 1.
        sweep: u64,
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
    /// Ratings in shards: a question to a shard was not answered.
    #[error("{what}")]
    Shard {
        /// What went wrong, in the words of those who hold the shards.
        what: String,
    },
    /// A writer refused.
    #[error("cannot be written: {0}")]
    Write(#[from] std::io::Error),
    /// Bad input found by the data layer.
    #[error(transparent)]
    Data(#[from] npb_data::DataError),
    /// Reading or writing a saved fit.
    #[error(transparent)]
    Storage(#[from] npb_infer::storage::StorageError),
    /// The checkpoint of a fit.
    #[error(transparent)]
    Checkpoint(#[from] npb_infer::watch::CheckpointError),
    /// Numerical trouble in a chain.
    #[error(transparent)]
    Chain(#[from] npb_infer::ChainError<Self>),
    /// The bytes of a saved fit.
    #[error(transparent)]
    Format(#[from] npb_infer::storage::FormatError),
    /// Parameters of a distribution out of range.
    #[error(transparent)]
    Parameter(#[from] npb_priors::ParameterError),
}
