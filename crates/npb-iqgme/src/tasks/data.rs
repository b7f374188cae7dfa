//! Training data of many tasks, checked, in common units.

use npb_data::{DataError, Labels, Table};

use super::TasksConfig;
use crate::data::{IqgmeData, Task, class_of_rows};
use crate::rows::Rows;
use crate::{IqgmeError, Result};

/// Values of a new task that are more standard deviations than this from the mean of the fit's rows are refused: no component that the fit has is of them.
const TOO_FAR: f64 = 1e6;

/// Training data of all tasks ready for the updates: checked, standardised by all tasks' rows together.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{MultiTaskData, Task, TasksConfig};
///
/// let near = Table::complete(3, 1, vec![-1.0, 0.5, 2.0])?;
/// let far = Table::complete(2, 1, vec![7.0, 9.0])?;
/// let [a, b] = [&["no", "no", "yes"][..], &["no", "yes"]].map(|names| {
///     Labels::from_strings(&names.iter().map(|name| Some(*name)).collect::<Vec<_>>())
/// });
/// let tasks = [
///     Task { name: "near", table: &near, labels: &a },
///     Task { name: "far", table: &far, labels: &b },
/// ];
/// let data = MultiTaskData::new(&tasks, &TasksConfig::default())?;
/// assert_eq!((data.n_tasks(), data.n_rows()), (2, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiTaskData {
    /// The rows of all tasks, task after task.
    pub(crate) pooled: IqgmeData,
    pub(crate) names: Vec<String>,
    pub(crate) tasks: Vec<IqgmeData>,
}

impl MultiTaskData {
    /// Checks and prepares the tasks.
    ///
    /// Errors: no tasks, two tasks of one name, other columns than in the first task, one class only among all tasks, two values of a column
    /// with a difference that is beyond f64; a task's name goes along. A task without rows is allowed: it is predicted as the tasks are on average.
    pub fn new(tasks: &[Task<'_>], config: &TasksConfig) -> Result<Self> {
        config.validate()?;
        let first = tasks.first().ok_or(IqgmeError::NoTasks)?;
        for (k, task) in tasks.iter().enumerate() {
            if tasks[..k].iter().any(|other| other.name == task.name) {
                return Err(IqgmeError::SameName {
                    task: task.name.to_owned(),
                });
            }
            check(task, first.table).map_err(|source| in_task(task.name, source))?;
        }
        let (table, labels) = together(tasks)?;
        let pooled = IqgmeData::new(&table, &labels, &config.single)
            .map_err(|source| of_its_task(tasks, source))?;
        Self::in_units(tasks, pooled)
    }

    /// The same tasks on normal scores.
    pub(super) fn on_scores(&self, tasks: &[Task<'_>]) -> Result<Self> {
        let (table, labels) = together(tasks)?;
        Self::in_units(tasks, self.pooled.on_scores(&table, &labels)?)
    }

    /// Prepares tasks in the units, columns and classes of `pooled`.
    pub(crate) fn in_units(tasks: &[Task<'_>], pooled: IqgmeData) -> Result<Self> {
        let names = tasks.iter().map(|task| task.name.to_owned()).collect();
        let tasks = tasks
            .iter()
            .map(|task| one_task(task, &pooled).map_err(|source| in_task(task.name, source)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            pooled,
            names,
            tasks,
        })
    }

    /// Number of tasks.
    pub fn n_tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Number of training rows, all tasks together.
    pub fn n_rows(&self) -> usize {
        self.tasks.iter().map(IqgmeData::n_rows).sum()
    }

    /// Utilities of each expert; 0 without labels.
    pub(crate) fn n_utilities(&self) -> usize {
        self.pooled.n_utilities()
    }
}

/// The rows of a task in common units.
fn one_task(task: &Task<'_>, pooled: &IqgmeData) -> Result<IqgmeData> {
    let classes = class_of_rows(task.table, task.labels, &pooled.classes)?;
    let standardised = pooled.units.apply(task.table)?;
    not_too_far(&standardised, task.table, &pooled.units.active)?;
    Ok(IqgmeData {
        rows: Rows::with_classes(&standardised, &classes, pooled.n_utilities()),
        units: pooled.units.clone(),
        classes: pooled.classes.clone(),
        covariance: pooled.covariance.clone(),
        n_labelled: classes.iter().flatten().count(),
        sharded: None,
    })
}

/// An error that names the first value too far from the mean of its column. `standardised`: the columns `active` of `table`. In training no value is, as units are of
/// the rows themselves: one of `n` rows is no more than `sqrt(n)` away.
fn not_too_far(standardised: &Table, table: &Table, active: &[usize]) -> Result<(), DataError> {
    for row in 0..table.n_rows() {
        for (k, x) in standardised.observed_in_row(row) {
            if x.abs() > TOO_FAR {
                return Err(DataError::TooFar {
                    row,
                    column: active[k],
                    value: table.values()[row * table.n_cols() + active[k]],
                });
            }
        }
    }
    Ok(())
}

/// An error about all rows together; if it names a row, it is told in which task that is.
fn of_its_task(tasks: &[Task<'_>], source: IqgmeError) -> IqgmeError {
    let IqgmeError::Data(DataError::TooFar {
        mut row,
        column,
        value,
    }) = source
    else {
        return source;
    };
    for task in tasks {
        if row < task.table.n_rows() {
            let found = DataError::TooFar { row, column, value };
            return in_task(task.name, found.into());
        }
        row -= task.table.n_rows();
    }
    source
}

pub(super) fn in_task(task: &str, source: IqgmeError) -> IqgmeError {
    IqgmeError::InTask {
        task: task.to_owned(),
        source: Box::new(source),
    }
}

fn check(task: &Task<'_>, first: &Table) -> Result<()> {
    task.table.check_columns(first.column_names())?;
    if task.labels.n_rows() != task.table.n_rows() {
        return Err(IqgmeError::LabelCount {
            labels: task.labels.n_rows(),
            rows: task.table.n_rows(),
        });
    }
    Ok(())
}

/// The rows of all tasks in one table.
fn together(tasks: &[Task<'_>]) -> Result<(Table, Labels)> {
    let columns = tasks[0].table.column_names();
    let n_rows = tasks.iter().map(|task| task.table.n_rows()).sum();
    let (mut values, mut observed, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for task in tasks {
        values.extend_from_slice(task.table.values());
        for row in 0..task.table.n_rows() {
            observed.extend((0..columns.len()).map(|j| task.table.is_observed(row, j)));
            labels.push(task.labels.name(row));
        }
    }
    let table = Table::new(n_rows, columns.len(), values, &observed)?;
    Ok((
        table.with_column_names(columns.to_vec())?,
        Labels::from_strings(&labels),
    ))
}
