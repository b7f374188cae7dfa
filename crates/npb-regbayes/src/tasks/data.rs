//! Inputs and targets of many tasks.

use npb_data::{Table, TargetKind, Targets};
use serde::{Deserialize, Serialize};

use crate::error::{RegBayesError, same_size};

/// What a task asks for in its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskTargets {
    /// Yes or no.
    Binary(Vec<bool>),
    /// A number.
    Real(Vec<f64>),
}

impl TaskTargets {
    /// Number of targets.
    pub fn len(&self) -> usize {
        match self {
            Self::Binary(values) => values.len(),
            Self::Real(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One task: the rows whose target is known, and these targets. A label of many, or the pupils of one school.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub(crate) name: String,
    /// Of the inputs that it was made for.
    n_rows: usize,
    pub(crate) rows: Vec<usize>,
    pub(crate) targets: TaskTargets,
}

impl Task {
    /// A label: one entry per row of the inputs, `None` where it is not known.
    pub fn label(name: impl Into<String>, labels: &[Option<bool>]) -> Self {
        let (rows, values) = known(labels);
        Self {
            name: name.into(),
            n_rows: labels.len(),
            rows,
            targets: TaskTargets::Binary(values),
        }
    }

    /// A label coded -1 and 1, one entry per row of the inputs.
    ///
    /// # Errors
    /// Another number, named with its row.
    pub fn signs(name: impl Into<String>, signs: &[Option<f64>]) -> Result<Self, RegBayesError> {
        let (rows, values) = known(signs);
        if let Some(n) = values.iter().position(|&y| y != 1.0 && y != -1.0) {
            return Err(RegBayesError::row("labels", rows[n], values[n], "-1 or 1"));
        }
        Ok(Self {
            name: name.into(),
            n_rows: signs.len(),
            rows,
            targets: TaskTargets::Binary(values.iter().map(|&y| y > 0.0).collect()),
        })
    }

    /// A real target: one entry per row of the inputs, `None` where it is not known.
    ///
    /// # Errors
    /// A number that is not finite, named with its row.
    pub fn real(name: impl Into<String>, values: &[Option<f64>]) -> Result<Self, RegBayesError> {
        let n_rows = values.len();
        let (rows, values) = known(values);
        if let Some(n) = values.iter().position(|y| !y.is_finite()) {
            return Err(RegBayesError::row(
                "targets",
                rows[n],
                values[n],
                "finite; leave out (None) what is not known",
            ));
        }
        Ok(Self {
            name: name.into(),
            n_rows,
            rows,
            targets: TaskTargets::Real(values),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Rows of the inputs whose target is known, ascending.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Their targets.
    pub fn targets(&self) -> &TaskTargets {
        &self.targets
    }

    /// One entry for each row of inputs: a list that is too short or too long has slipped.
    pub(crate) fn check_rows(&self, n_rows: usize) -> Result<(), RegBayesError> {
        if self.n_rows == n_rows {
            return Ok(());
        }
        Err(RegBayesError::state(format!(
            "task {} has {} entries for {n_rows} rows of inputs: give one for each, None where it is not known",
            self.name, self.n_rows
        )))
    }

    /// The same task with the targets of some rows only; perhaps none.
    pub(crate) fn restricted(&self, keep: impl Fn(usize) -> bool) -> Self {
        let kept: Vec<usize> = (0..self.rows.len())
            .filter(|&n| keep(self.rows[n]))
            .collect();
        Self {
            name: self.name.clone(),
            n_rows: self.n_rows,
            rows: kept.iter().map(|&n| self.rows[n]).collect(),
            targets: match &self.targets {
                TaskTargets::Binary(v) => TaskTargets::Binary(kept.iter().map(|&n| v[n]).collect()),
                TaskTargets::Real(v) => TaskTargets::Real(kept.iter().map(|&n| v[n]).collect()),
            },
        }
    }
}

fn known<T: Copy>(values: &[Option<T>]) -> (Vec<usize>, Vec<T>) {
    let entries = values.iter().enumerate();
    entries.filter_map(|(n, v)| v.map(|v| (n, v))).unzip()
}

/// Inputs with the tasks that are to be learned on them. A row counts once, however many tasks have a target for it; rows without any target take
/// part in the features (the paper's joint inference with test rows).
///
/// ```
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::tasks::{Task, TaskData};
/// let inputs = Table::complete(3, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0])?;
/// let beach = Task::label("beach", &[Some(true), Some(false), None]);
/// let data = TaskData::new(inputs, vec![beach])?;
/// assert_eq!((data.n_rows(), data.tasks().len()), (3, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TaskData {
    pub(crate) inputs: Table,
    pub(crate) tasks: Vec<Task>,
}

impl TaskData {
    /// Inputs and tasks.
    ///
    /// # Errors
    /// No task; a task of another number of rows, or without any target; two tasks of one name.
    pub fn new(inputs: Table, tasks: Vec<Task>) -> Result<Self, RegBayesError> {
        let wrong = |what: String| Err(RegBayesError::state(what));
        if tasks.is_empty() {
            return wrong("there is no task: a fit needs at least one".to_owned());
        }
        for (m, task) in tasks.iter().enumerate() {
            task.check_rows(inputs.n_rows())?;
            if task.rows.is_empty() {
                return wrong(format!("task {m} ({}) has no known target", task.name));
            }
            if tasks[..m].iter().any(|other| other.name == task.name) {
                return wrong(format!("two tasks are called {}", task.name));
            }
        }
        Ok(Self { inputs, tasks })
    }

    /// Inputs with several targets per row: labels that share inputs, or tasks with rows of their own.
    ///
    /// # Errors
    /// Another number of rows; as [`new`](Self::new).
    pub fn from_targets(inputs: Table, targets: &Targets) -> Result<Self, RegBayesError> {
        same_size("rows of the targets", targets.n_rows(), inputs.n_rows())?;
        let task = |m: usize| {
            let (rows, values): (Vec<usize>, Vec<f64>) = targets.known(m).unzip();
            Task {
                name: targets.names()[m].clone(),
                n_rows: targets.n_rows(),
                rows,
                targets: match targets.kind() {
                    TargetKind::Sign => {
                        TaskTargets::Binary(values.iter().map(|&y| y > 0.0).collect())
                    }
                    TargetKind::Real => TaskTargets::Real(values),
                },
            }
        };
        Self::new(inputs, (0..targets.n_targets()).map(task).collect())
    }

    /// The inputs.
    pub fn inputs(&self) -> &Table {
        &self.inputs
    }

    /// The tasks.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.inputs.n_rows()
    }

    /// Rows with a target of any task, ascending.
    pub(crate) fn training_rows(&self) -> Vec<usize> {
        let mut has = vec![false; self.n_rows()];
        for task in &self.tasks {
            task.rows.iter().for_each(|&n| has[n] = true);
        }
        (0..has.len()).filter(|&n| has[n]).collect()
    }
}
