//! What can go wrong.

use npb_data::DataError;
use npb_infer::ChainError;
use npb_infer::ranges::OutOfRange;
use npb_infer::storage::{FormatError, StorageError};
use npb_infer::watch::CheckpointError;
use npb_linalg::NotPositiveDefinite;
use npb_linalg::lanes::ComponentNotPositiveDefinite;

/// What may fail as this crate's work does.
pub type Result<T, E = IqgmeError> = std::result::Result<T, E>;

impl IqgmeError {
    /// Of a part of a table that begins at this row, as an error of the table.
    pub(crate) fn in_rows_from(mut self, first_row: usize) -> Self {
        match &mut self {
            Self::Data(DataError::NotFinite { row, .. }) | Self::UnknownClass { row, .. } => {
                *row += first_row;
            }
            _ => {}
        }
        self
    }

    /// A number asked for that is out of range.
    pub(crate) fn argument(
        argument: &'static str,
        value: impl ToString,
        rule: &'static str,
    ) -> Self {
        let value = value.to_string();
        Self::Argument {
            argument,
            value,
            rule,
        }
    }

    /// What is wrong with something that comes from a file.
    pub(crate) fn saved(what: impl Into<String>) -> Self {
        Self::State { what: what.into() }
    }

    /// What makes an error of a matrix that is not positive definite.
    pub(crate) fn at<E: Into<Failed>>(
        iteration: u64,
        block: &'static str,
    ) -> impl Fn(E) -> Self + Copy {
        move |failed| {
            let Failed(component, source) = failed.into();
            Self::Numerical {
                iteration,
                block,
                component,
                source,
            }
        }
    }

    /// A bound that is a number, or an error.
    pub(crate) fn finite_bound(iteration: u64, value: f64) -> Result<f64> {
        let finite = value.is_finite().then_some(value);
        finite.ok_or(Self::Bound { iteration, value })
    }
}

/// The component whose matrix is not positive definite, the first where there is but one, and where the matrix fails.
pub(crate) struct Failed(usize, NotPositiveDefinite);

impl From<NotPositiveDefinite> for Failed {
    fn from(source: NotPositiveDefinite) -> Self {
        Self(0, source)
    }
}

impl From<(usize, NotPositiveDefinite)> for Failed {
    fn from((component, source): (usize, NotPositiveDefinite)) -> Self {
        Self(component, source)
    }
}

impl From<ComponentNotPositiveDefinite> for Failed {
    fn from(of: ComponentNotPositiveDefinite) -> Self {
        Self(of.component, of.source)
    }
}

/// Errors of this crate. Not having converged is not one of them: it is a status of the fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IqgmeError {
    /// A configuration value is out of range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// The training table has no rows.
    #[error("the table has no rows: a fit needs at least one")]
    NoRows,
    /// The training table has no columns.
    #[error("the table has no columns: a fit needs at least one feature")]
    NoColumns,
    /// Labels and rows differ in number.
    #[error("{labels} labels for {rows} rows: give one label (or a missing mark) for each row")]
    LabelCount {
        /// Number of labels.
        labels: usize,
        /// Number of rows.
        rows: usize,
    },
    /// More classes than this variant of the model has.
    #[error(
        "label {label:?} is a third class (after {first:?} and {second:?}): the finite mixture has two; fit takes any number, or merge classes"
    )]
    ThirdClass {
        /// First class.
        first: String,
        /// Second class.
        second: String,
        /// The class too many.
        label: String,
    },
    /// One probability cannot say it all.
    #[error(
        "{question} speaks of the second of two classes, this fit has {}: {instead}", classes.len()
    )]
    TwoClassesOnly {
        /// What was asked.
        question: &'static str,
        /// Classes of the fit.
        classes: Vec<String>,
        /// What can be asked with more classes.
        instead: &'static str,
    },
    /// Only one class among the labelled rows.
    #[error(
        "all {rows} labelled rows are of class {class:?}: a classifier needs two classes or more (give no labels at all for a mixture without classifier)"
    )]
    OneClass {
        /// The class.
        class: String,
        /// Number of labelled rows.
        rows: usize,
    },
    /// A fit of many tasks was asked for without any.
    #[error("no tasks: give at least one")]
    NoTasks,
    /// Two tasks have one name.
    #[error("two tasks are named {task:?}: give each a name of its own")]
    SameName {
        /// The name.
        task: String,
    },
    /// Something is wrong with one of several tasks.
    #[error("task {task:?}: {source}")]
    InTask {
        /// Its name.
        task: String,
        /// What is wrong.
        source: Box<IqgmeError>,
    },
    /// A task that the fit does not have.
    #[error("no task is named {task:?}; the fit has {tasks:?}")]
    UnknownTask {
        /// The name asked for.
        task: String,
        /// Names of the fit's tasks.
        tasks: Vec<String>,
    },
    /// A label that the fit does not know.
    #[error("row {row}: label {label:?} is not one of the classes of the fit, {classes:?}")]
    UnknownClass {
        /// 0-based row.
        row: usize,
        /// The label.
        label: String,
        /// Classes of the fit.
        classes: Vec<String>,
    },
    /// What was asked of the rows of training was asked of others.
    #[error(
        "{question}: these {rows} rows are not the table and labels of training; give those, or ask {instead} for new rows"
    )]
    NotOfTraining {
        /// What was asked.
        question: &'static str,
        /// Number of rows given.
        rows: usize,
        /// What to ask for other rows.
        instead: &'static str,
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
    /// Predictions of a label were asked of a fit without labels.
    #[error(
        "this fit was made without labels: it has a density and clusters, but no class probability"
    )]
    Unlabelled,
    /// A matrix that must be positive definite is not.
    #[error("iteration {iteration}, {block} of component {component}: {source}")]
    Numerical {
        /// VB iteration, 0 for the start.
        iteration: u64,
        /// Which update.
        block: &'static str,
        /// Which component.
        component: usize,
        /// Pivot and value.
        source: NotPositiveDefinite,
    },
    /// Sticks are broken into more components than a sweep may have.
    #[error(
        "sweep {sweep}: sticks without truncation ask for more than {most} components at alpha = {concentration:.3e}: give the concentration a prior with a smaller mean"
    )]
    TooManyComponents {
        /// Gibbs sweep, 0 for the start.
        sweep: u64,
        /// As many as a sweep may have.
        most: usize,
        /// `alpha`.
        concentration: f64,
    },
    /// No chain has stored a draw.
    #[error(
        "no draw was stored: the chains were stopped before, or keep too few sweeps for stored_draws"
    )]
    NoDraws,
    /// The bound is not a number.
    #[error("iteration {iteration}: the bound is {value}; check the data for extreme values")]
    Bound {
        /// VB iteration.
        iteration: u64,
        /// The bound's value.
        value: f64,
    },
    /// Bad input found by the data layer.
    #[error(transparent)]
    Data(#[from] npb_data::DataError),
    /// Of rows that lie in shards: what one of them answered, or what happened on the way to it.
    #[error("{0}")]
    Shard(String),
    /// Reading or writing a saved fit.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The bytes of a saved fit.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A checkpoint of another fit.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A sweep of one of several chains failed.
    #[error(transparent)]
    Chain(#[from] ChainError<Self>),
    /// A parameter drawn from the posterior was not valid.
    #[error(transparent)]
    Parameter(#[from] npb_priors::ParameterError),
    /// A saved fit was read whole, but its contents contradict one another; or a state is not of the data or the run that it was given to.
    #[error("saved state: {what}")]
    State {
        /// What is wrong.
        what: String,
    },
}
