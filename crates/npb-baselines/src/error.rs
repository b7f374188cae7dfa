//! What can go wrong in a comparator.

use npb_data::{DataError, Image, Ratings, Table};

/// Bad input to a comparator, or numerical trouble inside it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// The table does not fit.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A setting is out of range.
    #[error("{field} = {value}: must be {rule}")]
    Config {
        /// Name of the setting.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// No rows or no columns to learn from.
    #[error("nothing to learn from: {n_rows} rows x {n_cols} columns; give at least one of each")]
    Empty {
        /// Number of rows.
        n_rows: usize,
        /// Number of columns.
        n_cols: usize,
    },
    /// A matrix in which nothing is observed.
    #[error(
        "nothing to learn from: no entry of the {n_rows} x {n_cols} matrix is observed; give at least one"
    )]
    NoRatings {
        /// Number of rows.
        n_rows: usize,
        /// Number of columns.
        n_cols: usize,
    },
    /// A classifier met a hole.
    #[error("row {row}, column {column} is missing; impute the table first")]
    Missing {
        /// Row of the cell.
        row: usize,
        /// Column of the cell.
        column: usize,
    },
    /// Another number of labels than rows.
    #[error("{labels} labels for {n_rows} rows; give one label per row")]
    LabelCount {
        /// Number of labels.
        labels: usize,
        /// Number of rows.
        n_rows: usize,
    },
    /// All labels are equal.
    #[error("all {n_rows} labels are {class}; a classifier needs both classes")]
    OneClass {
        /// Number of rows.
        n_rows: usize,
        /// The only class.
        class: bool,
    },
    /// Another number of tasks than rows.
    #[error("{tasks} task numbers for {n_rows} rows; give one task per row")]
    TaskCount {
        /// Number of task numbers.
        tasks: usize,
        /// Number of rows.
        n_rows: usize,
    },
    /// A task with one class, where tasks share nothing.
    #[error(
        "task {task}: all {n_rows} labels are {class}; give it both classes, leave it out, or let tasks share weights"
    )]
    TaskClass {
        /// The task.
        task: usize,
        /// Number of its rows.
        n_rows: usize,
        /// Its only class.
        class: bool,
    },
    /// A row of a task that was not in training, where tasks share nothing.
    #[error("row {row} belongs to task {task}, which training did not have")]
    UnknownTask {
        /// Row of the table.
        row: usize,
        /// Its task.
        task: usize,
    },
    /// Tasks at prediction but not in training, or the other way round.
    #[error("tasks were {}given in training; do the same at prediction", if *.trained { "" } else { "not " })]
    TasksOfTraining {
        /// Whether training had tasks.
        trained: bool,
    },
    /// A covariance or Hessian lost rank.
    #[error(
        "{what}, iteration {iteration}: matrix lost rank at pivot {pivot}; rescale the columns"
    )]
    NotPositiveDefinite {
        /// The computation.
        what: &'static str,
        /// Its iteration, from 0.
        iteration: usize,
        /// Pivot of the failure.
        pivot: usize,
    },
    /// A computation left the range of f64 or did not end.
    #[error("{what} failed at column {column}; rescale the columns")]
    Regression {
        /// The computation.
        what: &'static str,
        /// Column being imputed.
        column: usize,
    },
    /// More hits than trials, or a pair outside the matrix.
    #[error(
        "count {index}: {hits} hits in {trials} trials at row {row}, column {column}; a pair must be in the matrix and have no more hits than trials"
    )]
    Counts {
        /// Position among the counts.
        index: usize,
        /// Row of the pair.
        row: u32,
        /// Column of the pair.
        column: u32,
        /// Hits given.
        hits: u32,
        /// Trials given.
        trials: u32,
    },
    /// An example of a new user that cannot be used.
    #[error("given item {item} {rule}")]
    Given {
        /// The item.
        item: u32,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// A cell to predict that the table holds: its value would be among the inputs.
    #[error("row {row}, column {column} is observed; hide the cells to predict first")]
    Observed {
        /// Row of the cell.
        row: usize,
        /// Column of the cell.
        column: usize,
    },
    /// The trees refused their input or left the range of f64.
    #[error("boosted trees for column {column}: {reason}")]
    Boosting {
        /// Column being predicted.
        column: usize,
        /// What the library said.
        reason: String,
    },
    /// The support vector solver refused its input or diverged.
    #[error("support vector solver: {0}")]
    Solver(String),
    /// Boosted trees or a random forest for labels refused their input or left the range of f64.
    #[error("{what}: {reason}")]
    Trees {
        /// The classifier.
        what: &'static str,
        /// What the library said.
        reason: String,
    },
    /// A fit left the range of f64.
    #[error("{what}, iteration {iteration}: a value is not finite; rescale the columns")]
    NotFinite {
        /// The computation.
        what: &'static str,
        /// Its iteration, from 0.
        iteration: usize,
    },
    /// A filter met a hole in an image.
    #[error("row {row}, column {column}, channel {channel} is missing; fill the image first")]
    MissingPixel {
        /// Row of the pixel.
        row: usize,
        /// Its column.
        column: usize,
        /// Its channel.
        channel: usize,
    },
    /// The triangulation of observed pixels was refused.
    #[error("triangulation of the observed pixels: {0}")]
    Triangulation(String),
    /// A singular value decomposition did not end.
    #[error("a singular value decomposition did not converge; rescale the values")]
    SingularValues,
}

/// NaN is not positive.
pub(crate) fn positive(field: &'static str, value: f64) -> Result<(), BaselineError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    let rule = "finite and > 0";
    Err(BaselineError::Config { field, value, rule })
}

/// A count of at least one.
pub(crate) fn at_least_one(field: &'static str, value: usize) -> Result<(), BaselineError> {
    if value == 0 {
        let rule = "at least 1";
        let value = 0.0;
        return Err(BaselineError::Config { field, value, rule });
    }
    Ok(())
}

pub(crate) fn non_empty(table: &Table) -> Result<(), BaselineError> {
    let (n_rows, n_cols) = (table.n_rows(), table.n_cols());
    if n_rows == 0 || n_cols == 0 {
        return Err(BaselineError::Empty { n_rows, n_cols });
    }
    Ok(())
}

/// At least one rating.
pub(crate) fn non_empty_ratings(ratings: &Ratings) -> Result<(), BaselineError> {
    if ratings.n_observed() == 0 {
        let (n_rows, n_cols) = (ratings.n_rows(), ratings.n_cols());
        return Err(BaselineError::NoRatings { n_rows, n_cols });
    }
    Ok(())
}

pub(crate) fn complete(table: &Table) -> Result<(), BaselineError> {
    for row in 0..table.n_rows() {
        if let Some(column) = (0..table.n_cols()).find(|&j| !table.is_observed(row, j)) {
            return Err(BaselineError::Missing { row, column });
        }
    }
    Ok(())
}

/// An image without holes.
pub(crate) fn complete_image(image: &Image) -> Result<(), BaselineError> {
    let [height, width, channels] = image.size();
    let hole = (0..height * width * channels).find(|entry| {
        let row = entry / (width * channels);
        !image.observed().get(row, entry % (width * channels))
    });
    match hole {
        None => Ok(()),
        Some(entry) => Err(BaselineError::MissingPixel {
            row: entry / (width * channels),
            column: entry / channels % width,
            channel: entry % channels,
        }),
    }
}

/// What a classifier asks of its training set when it cannot take holes.
pub(crate) fn training_set(table: &Table, labels: &[bool]) -> Result<(), BaselineError> {
    non_empty(table)?;
    complete(table)?;
    labelled(table, labels)
}

/// What every classifier asks of its training set.
pub(crate) fn labelled(table: &Table, labels: &[bool]) -> Result<(), BaselineError> {
    non_empty(table)?;
    if labels.len() != table.n_rows() {
        return Err(BaselineError::LabelCount {
            labels: labels.len(),
            n_rows: table.n_rows(),
        });
    }
    let first = labels[0];
    if labels.iter().all(|&label| label == first) {
        return Err(BaselineError::OneClass {
            n_rows: labels.len(),
            class: first,
        });
    }
    Ok(())
}
