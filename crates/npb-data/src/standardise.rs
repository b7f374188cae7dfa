//! Columns brought to mean 0 and standard deviation 1.

use crate::{ColumnStats, DataError, Table};
use serde::{Deserialize, Serialize};

/// Shifts and scales columns by the mean and standard deviation (divisor n, ddof 0) of observed training cells.
///
/// A column that is constant or has no observed cell in the training rows is only shifted (standard deviation taken as 1) and is
/// listed in [`constant_columns`](Self::constant_columns) or [`empty_columns`](Self::empty_columns).
/// Column names are kept and checked. Deserialisation checks lengths, finiteness and signs.
///
/// ```
/// use npb_data::{Standardiser, Table};
/// let train = Table::complete(2, 2, vec![1.0, 5.0, 3.0, 5.0])?;
/// let standardiser = Standardiser::fit(&train);
/// assert_eq!(standardiser.apply(&train)?.values(), [-1.0, 0.0, 1.0, 0.0]);
/// assert_eq!(standardiser.constant_columns(), [1]);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire")]
pub struct Standardiser {
    column_names: Vec<String>,
    mean: Vec<f64>,
    sd: Vec<f64>,
    constant_columns: Vec<usize>,
    empty_columns: Vec<usize>,
}

/// What a stored standardiser looks like before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    column_names: Vec<String>,
    mean: Vec<f64>,
    sd: Vec<f64>,
    constant_columns: Vec<usize>,
    empty_columns: Vec<usize>,
}

impl Standardiser {
    /// Learns means and standard deviations from the observed cells of `train`.
    ///
    /// To learn from some rows of a table, pass [`Table::select_rows`].
    pub fn fit(train: &Table) -> Self {
        Self::of(train.column_names(), &train.column_stats())
    }

    /// By what is known of the columns with these names.
    ///
    /// # Panics
    /// When there are not as many names as columns.
    pub fn of(names: &[String], stats: &[ColumnStats]) -> Self {
        assert_eq!(names.len(), stats.len(), "a name for each column");
        let columns =
            |keep: &dyn Fn(usize) -> bool| (0..stats.len()).filter(|&j| keep(j)).collect();
        Self {
            column_names: names.to_vec(),
            mean: stats.iter().map(|s| s.mean).collect(),
            sd: stats
                .iter()
                .map(|s| if s.sd > 0.0 { s.sd } else { 1.0 })
                .collect(),
            constant_columns: columns(&|j| stats[j].n_observed > 0 && stats[j].sd == 0.0),
            empty_columns: columns(&|j| stats[j].n_observed == 0),
        }
    }

    /// Names of the columns it was learnt from.
    pub fn column_names(&self) -> &[String] {
        &self.column_names
    }

    /// Mean of every column; 0 for a column without observed cells.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Standard deviation of every column; 1 for constant columns and columns without observed cells.
    pub fn sd(&self) -> &[f64] {
        &self.sd
    }

    /// Columns with a single observed value in the training rows, ascending.
    pub fn constant_columns(&self) -> &[usize] {
        &self.constant_columns
    }

    /// Columns without any observed cell in the training rows, ascending.
    pub fn empty_columns(&self) -> &[usize] {
        &self.empty_columns
    }

    /// The table in standard units: (value - mean) / sd.
    ///
    /// # Errors
    /// [`DataError::ColumnCount`] or [`DataError::ColumnName`] when the columns differ; [`DataError::NotFinite`] when a value is so
    /// far from the training values that the result overflows.
    pub fn apply(&self, table: &Table) -> Result<Table, DataError> {
        table.check_columns(&self.column_names)?;
        table.map(|_, j, v| (v - self.mean[j]) / self.sd[j])
    }
}

impl TryFrom<Wire> for Standardiser {
    type Error = DataError;

    fn try_from(wire: Wire) -> Result<Self, DataError> {
        let Wire {
            column_names,
            mean,
            sd,
            constant_columns,
            empty_columns,
        } = wire;
        let expected = column_names.len();
        for (what, found) in [("mean", mean.len()), ("sd", sd.len())] {
            if found != expected {
                return Err(DataError::Length {
                    what,
                    found,
                    expected,
                });
            }
        }
        crate::names::check_distinct(&column_names)?;
        for column in 0..expected {
            let (m, s) = (mean[column], sd[column]);
            if !m.is_finite() {
                return Err(DataError::Stored {
                    what: "mean",
                    column,
                    value: m,
                });
            }
            if !(s.is_finite() && s > 0.0) {
                return Err(DataError::Stored {
                    what: "sd",
                    column,
                    value: s,
                });
            }
        }
        if let Some(&column) = constant_columns
            .iter()
            .chain(&empty_columns)
            .find(|&&j| j >= expected)
        {
            return Err(DataError::Stored {
                what: "list of constant or empty columns: entry",
                column,
                value: column as f64,
            });
        }
        Ok(Self {
            column_names,
            mean,
            sd,
            constant_columns,
            empty_columns,
        })
    }
}
