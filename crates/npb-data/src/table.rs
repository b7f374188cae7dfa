//! Dense tables with missing cells.

use crate::mask::{check_cells, check_mask_shape};
use crate::names::{check_distinct, default_names};
use crate::{ColumnStats, DataError, Mask, PatternIndex};
use serde::{Deserialize, Serialize};

/// A table of real numbers with missing cells: rows are observations, columns are features.
///
/// Values are stored row by row as f64 beside a bit mask (true = observed). A missing cell holds 0.0, which no model reads.
/// Observed values are finite: a NaN becomes a missing mark only in [`Table::from_nan_coded`] and in the readers, and an
/// infinity is always an error. Tables without rows or without columns are allowed. Column names differ from each other and
/// default to `x0`, `x1`, ...
///
/// Deserialisation checks lengths, padding bits, finiteness and names, so that a forged file cannot make an invalid table.
///
/// ```
/// use npb_data::Table;
/// let table = Table::new(2, 2, vec![1.0, 2.0, 3.0, 9.9], &[true, true, true, false])?;
/// assert_eq!(table.get(0, 1), Some(2.0));
/// assert_eq!(table.get(1, 1), None);
/// assert_eq!(table.row(1), [3.0, 0.0]);
/// assert_eq!(table.column_names(), ["x0", "x1"]);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TableWire")]
pub struct Table {
    column_names: Vec<String>,
    values: Vec<f64>,
    observed: Mask,
}

/// What a stored table looks like before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableWire {
    column_names: Vec<String>,
    values: Vec<f64>,
    observed: Mask,
}

impl Table {
    /// A table from row-major values, which are taken over without a copy, and row-major flags (true = observed).
    ///
    /// `values` and `observed` have `n_rows * n_cols` entries. Values of missing cells are not read and become 0.
    ///
    /// # Errors
    /// [`DataError::Length`] and [`DataError::TooLarge`] for shapes that do not fit; [`DataError::NotFinite`] names the first
    /// observed cell (row, column) that is infinite or NaN.
    pub fn new(
        n_rows: usize,
        n_cols: usize,
        values: Vec<f64>,
        observed: &[bool],
    ) -> Result<Self, DataError> {
        check_cells("values", values.len(), n_rows, n_cols)?;
        Self::from_parts(values, Mask::from_bools(n_rows, n_cols, observed)?)
    }

    /// A table without missing cells, from row-major values, which are taken over without a copy.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn complete(n_rows: usize, n_cols: usize, values: Vec<f64>) -> Result<Self, DataError> {
        check_cells("values", values.len(), n_rows, n_cols)?;
        Self::from_parts(values, Mask::new(n_rows, n_cols, true)?)
    }

    /// A table from a borrowed row-major slice of f64 or f32 and row-major flags (true = observed); one copy.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn from_slice<T: Copy + Into<f64>>(
        n_rows: usize,
        n_cols: usize,
        values: &[T],
        observed: &[bool],
    ) -> Result<Self, DataError> {
        Self::new(
            n_rows,
            n_cols,
            values.iter().map(|&v| v.into()).collect(),
            observed,
        )
    }

    /// A table from a row-major slice of f64 or f32 in which NaN marks a missing cell; one copy.
    ///
    /// # Errors
    /// As [`Table::new`]; an infinity is an error.
    pub fn from_nan_coded<T: Copy + Into<f64>>(
        n_rows: usize,
        n_cols: usize,
        values: &[T],
    ) -> Result<Self, DataError> {
        check_cells("values", values.len(), n_rows, n_cols)?;
        Self::from_nan_coded_vec(n_rows, n_cols, values.iter().map(|&v| v.into()).collect())
    }

    /// As [`Table::from_nan_coded`], taking the values over.
    pub(crate) fn from_nan_coded_vec(
        n_rows: usize,
        n_cols: usize,
        values: Vec<f64>,
    ) -> Result<Self, DataError> {
        check_cells("values", values.len(), n_rows, n_cols)?;
        let observed = Mask::from_fn(n_rows, n_cols, |i, j| !values[i * n_cols + j].is_nan())?;
        Self::from_parts(values, observed)
    }

    /// A table from row-major values and the mask of its shape (true = observed), both taken over.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn from_parts(mut values: Vec<f64>, observed: Mask) -> Result<Self, DataError> {
        let (n_rows, n_cols) = (observed.n_rows(), observed.n_cols());
        check_cells("values", values.len(), n_rows, n_cols)?;
        for (i, row) in rows_mut(&mut values, n_cols) {
            for (j, value) in row.iter_mut().enumerate() {
                if !observed.get(i, j) {
                    *value = 0.0;
                } else if !value.is_finite() {
                    return Err(DataError::NotFinite {
                        row: i,
                        column: j,
                        value: *value,
                    });
                }
            }
        }
        Ok(Self {
            column_names: default_names(n_cols),
            values,
            observed,
        })
    }

    /// The same table with other column names.
    ///
    /// # Errors
    /// [`DataError::Length`] when their number does not fit, [`DataError::DuplicateColumn`] when two agree.
    pub fn with_column_names<S: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, DataError> {
        self.column_names = names.into_iter().map(Into::into).collect();
        check_names(&self.column_names, self.n_cols())?;
        Ok(self)
    }

    /// Number of rows (observations).
    pub fn n_rows(&self) -> usize {
        self.observed.n_rows()
    }

    /// Number of columns (features).
    pub fn n_cols(&self) -> usize {
        self.observed.n_cols()
    }

    /// Names of the columns.
    pub fn column_names(&self) -> &[String] {
        &self.column_names
    }

    /// Position of the column with this name.
    ///
    /// # Errors
    /// [`DataError::NoSuchColumn`].
    pub fn column_index(&self, name: &str) -> Result<usize, DataError> {
        crate::names::position(&self.column_names, name)
    }

    /// Checks that this table has exactly these columns in this order, as a fit asks at prediction.
    ///
    /// # Errors
    /// [`DataError::ColumnCount`] or [`DataError::ColumnName`], naming the first difference.
    pub fn check_columns(&self, expected: &[String]) -> Result<(), DataError> {
        crate::names::check_same(&self.column_names, expected)
    }

    /// All values, row by row; missing cells hold 0.0.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values of row `i`; missing cells hold 0.0.
    #[inline]
    pub fn row(&self, i: usize) -> &[f64] {
        assert!(i < self.n_rows(), "row {i} of {}", self.n_rows());
        &self.values[i * self.n_cols()..(i + 1) * self.n_cols()]
    }

    /// True when the cell in row `i`, column `j` is observed.
    #[inline]
    pub fn is_observed(&self, i: usize, j: usize) -> bool {
        self.observed.get(i, j)
    }

    /// The value in row `i`, column `j`, or `None` when it is missing.
    #[inline]
    pub fn get(&self, i: usize, j: usize) -> Option<f64> {
        self.is_observed(i, j)
            .then(|| self.values[i * self.n_cols() + j])
    }

    /// Columns and values of the observed cells of row `i`, in order of columns.
    pub fn observed_in_row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let row = self.row(i);
        self.observed.ones_in_row(i).map(|j| (j, row[j]))
    }

    /// The observed values of column `j`, in order of rows.
    pub fn observed_in_column(&self, j: usize) -> impl Iterator<Item = f64> + '_ {
        (0..self.n_rows()).filter_map(move |i| self.get(i, j))
    }

    /// The mask: true = observed.
    pub fn observed(&self) -> &Mask {
        &self.observed
    }

    /// Number of missing cells.
    pub fn n_missing(&self) -> usize {
        self.values.len() - self.observed.count_ones()
    }

    /// The distinct missing patterns; see [`PatternIndex`].
    pub fn patterns(&self) -> PatternIndex {
        PatternIndex::new(&self.observed)
    }

    /// The rows without any observed cell, ascending. (Without columns: all rows.)
    pub fn empty_rows(&self) -> Vec<usize> {
        (0..self.n_rows())
            .filter(|&i| self.observed.count_ones_in_row(i) == 0)
            .collect()
    }

    /// The rows with at least one observed cell, as a table and as row numbers of this table (ascending), which select the
    /// matching labels.
    pub fn drop_empty_rows(&self) -> (Table, Vec<usize>) {
        let kept: Vec<usize> = (0..self.n_rows())
            .filter(|&i| self.observed.count_ones_in_row(i) > 0)
            .collect();
        (self.select_rows(&kept), kept)
    }

    /// The given rows, in the given order; a row may be repeated.
    pub fn select_rows(&self, rows: &[usize]) -> Table {
        Table {
            column_names: self.column_names.clone(),
            values: rows.iter().flat_map(|&i| self.row(i)).copied().collect(),
            observed: self.observed.select_rows(rows),
        }
    }

    /// The given columns, in the given order.
    ///
    /// # Errors
    /// [`DataError::DuplicateColumn`] when a column is repeated.
    pub fn select_columns(&self, columns: &[usize]) -> Result<Table, DataError> {
        let names: Vec<String> = columns
            .iter()
            .map(|&j| self.column_names[j].clone())
            .collect();
        check_distinct(&names)?;
        let cells = (0..self.n_rows()).flat_map(|i| columns.iter().map(move |&j| (i, j)));
        Ok(Table {
            column_names: names,
            values: cells
                .map(|(i, j)| self.values[i * self.n_cols() + j])
                .collect(),
            observed: Mask::from_fn(self.n_rows(), columns.len(), |i, k| {
                self.is_observed(i, columns[k])
            })?,
        })
    }

    /// The rows of this table followed by those of `below`, which has the same columns.
    ///
    /// # Errors
    /// [`DataError::ColumnCount`] or [`DataError::ColumnName`] when the columns differ.
    pub fn stack(&self, below: &Table) -> Result<Table, DataError> {
        below.check_columns(&self.column_names)?;
        let (top, n_rows) = (self.n_rows(), self.n_rows() + below.n_rows());
        let bit = |i: usize, j| {
            if i < top {
                self.is_observed(i, j)
            } else {
                below.is_observed(i - top, j)
            }
        };
        Ok(Table {
            column_names: self.column_names.clone(),
            values: [&self.values[..], &below.values[..]].concat(),
            observed: Mask::from_fn(n_rows, self.n_cols(), bit)?,
        })
    }

    /// The same table with more cells missing: those that are true in `missing`.
    ///
    /// # Errors
    /// [`DataError::Shape`] when the mask has another shape.
    pub fn hide(&self, missing: &Mask) -> Result<Table, DataError> {
        let (rows, cols) = (self.n_rows(), self.n_cols());
        check_mask_shape((missing.n_rows(), missing.n_cols()), (rows, cols))?;
        let mut table = self.clone();
        table.observed.clear_where(missing);
        for (i, row) in rows_mut(&mut table.values, cols) {
            missing.ones_in_row(i).for_each(|j| row[j] = 0.0);
        }
        Ok(table)
    }

    /// The same table with the value of every observed cell replaced by `f(row, column, value)`.
    ///
    /// # Errors
    /// [`DataError::NotFinite`] when a new value is not finite.
    pub fn map(&self, mut f: impl FnMut(usize, usize, f64) -> f64) -> Result<Table, DataError> {
        let mut table = self.clone();
        for (i, row) in rows_mut(&mut table.values, self.n_cols()) {
            for j in self.observed.ones_in_row(i) {
                let value = row[j];
                row[j] = f(i, j, value);
                if !row[j].is_finite() {
                    return Err(DataError::TooFar {
                        row: i,
                        column: j,
                        value,
                    });
                }
            }
        }
        Ok(table)
    }

    /// Mean, standard deviation and range of the observed cells of every column.
    ///
    /// Two passes; values near the limits of f64 are handled by scaling. The mean is always finite; the standard deviation too.
    pub fn column_stats(&self) -> Vec<ColumnStats> {
        (0..self.n_cols())
            .map(|j| crate::stats::column(|| self.observed_in_column(j)))
            .collect()
    }
}

impl TryFrom<TableWire> for Table {
    type Error = DataError;

    fn try_from(wire: TableWire) -> Result<Self, DataError> {
        let TableWire {
            column_names,
            values,
            observed,
        } = wire;
        check_names(&column_names, observed.n_cols())?;
        check_cells("values", values.len(), observed.n_rows(), observed.n_cols())?;
        for (k, &value) in values.iter().enumerate() {
            let (row, column) = (k / observed.n_cols(), k % observed.n_cols());
            if !observed.get(row, column) && value.to_bits() != 0 {
                return Err(DataError::MissingNotZero { row, column, value });
            }
        }
        let table = Self::from_parts(values, observed)?;
        Ok(Self {
            column_names,
            ..table
        })
    }
}

fn check_names(names: &[String], n_cols: usize) -> Result<(), DataError> {
    if names.len() != n_cols {
        return Err(DataError::Length {
            what: "column names",
            found: names.len(),
            expected: n_cols,
        });
    }
    check_distinct(names)
}

/// Rows of a row-major slice with their numbers; no rows when there are no columns.
fn rows_mut(values: &mut [f64], n_cols: usize) -> impl Iterator<Item = (usize, &mut [f64])> {
    values.chunks_exact_mut(n_cols.max(1)).enumerate()
}
