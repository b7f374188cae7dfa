//! Several targets per row.

use crate::{DataError, Table};

/// What the targets of [`Targets`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Labels -1 and +1.
    Sign,
    /// Real numbers.
    Real,
}

/// Several named targets per row, all of one kind: -1/+1 labels (multi-label data, binary tasks) or real numbers; any may be unknown.
///
/// Rows are those of the inputs, columns are targets: labels that share inputs, or tasks with rows of their own (each row then
/// has one known target). A row or a target without a known value is allowed.
///
/// ```
/// use npb_data::{Table, Targets};
/// let nan = f64::NAN;
/// let table = Table::from_nan_coded(2, 2, &[1.0, -1.0, nan, 1.0])?.with_column_names(["beach", "urban"])?;
/// let targets = Targets::signs(table)?;
/// assert_eq!((targets.get(0, 1), targets.get(1, 0)), (Some(-1.0), None));
/// assert_eq!(targets.known(1).collect::<Vec<_>>(), [(0, -1.0), (1, 1.0)]);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    kind: TargetKind,
    table: Table,
}

impl Targets {
    /// Labels -1 and +1, one column per target; a missing cell is an unknown label.
    ///
    /// # Errors
    /// [`DataError::NotSign`] names the first cell that holds another value.
    pub fn signs(table: Table) -> Result<Self, DataError> {
        for row in 0..table.n_rows() {
            let mut cells = table.observed_in_row(row);
            if let Some((column, value)) = cells.find(|(_, value)| value.abs() != 1.0) {
                return Err(DataError::NotSign { row, column, value });
            }
        }
        let kind = TargetKind::Sign;
        Ok(Self { kind, table })
    }

    /// Real targets, one column per target; a missing cell is an unknown value.
    pub fn real(table: Table) -> Self {
        let kind = TargetKind::Real;
        Self { kind, table }
    }

    /// Labels from row-major decisions, `None` where unknown; one name per target.
    ///
    /// # Errors
    /// [`DataError::Length`] when the number of labels is not a multiple of the number of names; [`DataError::DuplicateColumn`].
    pub fn from_bools<S: Into<String>>(
        names: impl IntoIterator<Item = S>,
        labels: &[Option<bool>],
    ) -> Result<Self, DataError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let n_rows = labels.len() / names.len().max(1);
        let values = labels.iter().map(|label| match label {
            Some(true) => 1.0,
            Some(false) => -1.0,
            None => f64::NAN,
        });
        let table = Table::from_nan_coded_vec(n_rows, names.len(), values.collect())?;
        Self::signs(table.with_column_names(names)?)
    }

    /// Targets of rows that belong to tasks: row i has the value `values[i]` for target `tasks[i]` and no other; one name per task.
    ///
    /// # Errors
    /// [`DataError::Length`] when the lengths differ, [`DataError::Code`] for a task without a name, [`DataError::NotSign`] when
    /// `kind` says so, [`DataError::NotFinite`], [`DataError::DuplicateColumn`].
    pub fn of_tasks<S: Into<String>>(
        kind: TargetKind,
        names: impl IntoIterator<Item = S>,
        tasks: &[usize],
        values: &[f64],
    ) -> Result<Self, DataError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let (n_rows, n_tasks) = (tasks.len(), names.len());
        if values.len() != n_rows {
            let (what, found, expected) = ("values", values.len(), n_rows);
            return Err(DataError::Length {
                what,
                found,
                expected,
            });
        }
        let mut cells = vec![0.0; n_rows * n_tasks];
        let mut known = vec![false; n_rows * n_tasks];
        for (row, (&task, &value)) in tasks.iter().zip(values).enumerate() {
            if task >= n_tasks {
                let (code, n_classes) = (task, n_tasks);
                return Err(DataError::Code {
                    row,
                    code,
                    n_classes,
                });
            }
            cells[row * n_tasks + task] = value;
            known[row * n_tasks + task] = true;
        }
        let table = Table::new(n_rows, n_tasks, cells, &known)?.with_column_names(names)?;
        match kind {
            TargetKind::Sign => Self::signs(table),
            TargetKind::Real => Ok(Self::real(table)),
        }
    }

    /// What the targets are.
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.table.n_rows()
    }

    /// Number of targets.
    pub fn n_targets(&self) -> usize {
        self.table.n_cols()
    }

    /// Names of the targets.
    pub fn names(&self) -> &[String] {
        self.table.column_names()
    }

    /// The values as a table, rows x targets; unknown ones are missing.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The value of a target in a row, `None` when it is unknown.
    #[inline]
    pub fn get(&self, row: usize, target: usize) -> Option<f64> {
        self.table.get(row, target)
    }

    /// Row and value of every known value of a target, in order of rows.
    pub fn known(&self, target: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..self.n_rows()).filter_map(move |row| Some((row, self.get(row, target)?)))
    }

    /// The given rows, in the given order; a row may be repeated.
    pub fn select_rows(&self, rows: &[usize]) -> Self {
        Self {
            kind: self.kind,
            table: self.table.select_rows(rows),
        }
    }
}
