//! Unconditional-mean imputation, and what all imputers share.

use npb_data::Table;

use crate::BaselineError;
use crate::error::non_empty;

/// Fills each hole with the mean of the observed training values of its column.
///
/// ```
/// use npb_baselines::MeanImputer;
/// use npb_data::Table;
///
/// let table = Table::from_nan_coded(3, 1, &[1.0, f64::NAN, 4.0])?;
/// let filled = MeanImputer::fit(&table)?.transform(&table)?;
/// assert_eq!(filled.values(), [1.0, 2.5, 4.0]);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MeanImputer {
    start: Start,
}

impl MeanImputer {
    /// Learns the column means of `train`. Cost: one pass.
    ///
    /// # Errors
    /// [`BaselineError::Empty`].
    pub fn fit(train: &Table) -> Result<Self, BaselineError> {
        let start = Start::fit(train)?;
        Ok(Self { start })
    }

    /// `table` (columns as in training, any rows) with its holes filled.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training.
    pub fn transform(&self, table: &Table) -> Result<Table, BaselineError> {
        self.start.finish(table, self.start.fill(table)?)
    }
}

/// Where every imputer starts: column means and the columns that were never observed in training.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) column_names: Vec<String>,
    pub(crate) mean: Vec<f64>,
    /// No observed value in training.
    pub(crate) empty: Vec<bool>,
}

impl Start {
    pub(crate) fn fit(train: &Table) -> Result<Self, BaselineError> {
        non_empty(train)?;
        let stats = train.column_stats();
        Ok(Self {
            column_names: train.column_names().to_vec(),
            mean: stats.iter().map(|s| s.mean).collect(),
            empty: stats.iter().map(|s| s.n_observed == 0).collect(),
        })
    }

    pub(crate) fn n_cols(&self) -> usize {
        self.mean.len()
    }

    /// Row-major values with column means in the holes and 0 in columns that were empty in training.
    pub(crate) fn fill(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(&self.column_names)?;
        let mut values = Vec::with_capacity(table.n_rows() * self.n_cols());
        for i in 0..table.n_rows() {
            for j in 0..self.n_cols() {
                values.push(match table.get(i, j) {
                    _ if self.empty[j] => 0.0,
                    Some(value) => value,
                    None => self.mean[j],
                });
            }
        }
        Ok(values)
    }

    /// A complete table from filled values, named as `table`.
    pub(crate) fn finish(&self, table: &Table, values: Vec<f64>) -> Result<Table, BaselineError> {
        let filled = Table::complete(table.n_rows(), self.n_cols(), values)?;
        Ok(filled.with_column_names(self.column_names.iter().cloned())?)
    }
}
