//! Input columns as a fit sees them: in standard units of the training rows, without those that say nothing.

use npb_data::{Standardiser, Table};
use serde::{Deserialize, Serialize};

use crate::error::RegBayesError;

/// Which input columns a fit uses, and their units.
///
/// Means and standard deviations are those of the observed cells of training rows. Columns that are constant there, and columns without an
/// observed cell, say nothing: they are left out and listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    standardiser: Standardiser,
    kept: Vec<usize>,
}

impl Columns {
    /// Learns from some rows of a table.
    ///
    /// # Errors
    /// No row; no column that varies.
    pub(crate) fn learn(table: &Table, rows: &[usize]) -> Result<Self, RegBayesError> {
        let standardiser = Standardiser::fit(&table.select_rows(rows));
        let silent = [
            standardiser.constant_columns(),
            standardiser.empty_columns(),
        ];
        let kept: Vec<usize> = (0..table.n_cols())
            .filter(|j| !silent.iter().any(|list| list.contains(j)))
            .collect();
        if kept.is_empty() {
            return Err(RegBayesError::state(format!(
                "none of {} input columns varies among the {} training rows: there is nothing to learn from",
                table.n_cols(),
                rows.len()
            )));
        }
        Ok(Self { standardiser, kept })
    }

    /// The columns in use, in standard units.
    ///
    /// # Errors
    /// Other columns than those of the fit; a value that overflows.
    pub(crate) fn apply(&self, table: &Table) -> Result<Table, RegBayesError> {
        Ok(self.standardiser.apply(table)?.select_columns(&self.kept)?)
    }

    /// Names of all columns, as tables for this fit must have them.
    pub fn names(&self) -> &[String] {
        self.standardiser.column_names()
    }

    /// Positions of the columns in use.
    pub fn kept(&self) -> &[usize] {
        &self.kept
    }

    /// Positions of columns that were left out because they are constant among training rows.
    pub fn constant(&self) -> &[usize] {
        self.standardiser.constant_columns()
    }

    /// Positions of columns that were left out because they have no observed cell among training rows: they stay missing.
    pub fn empty(&self) -> &[usize] {
        self.standardiser.empty_columns()
    }

    /// What methods of a fit rely on.
    pub(crate) fn check(&self) -> Result<(), RegBayesError> {
        let rising = self.kept.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = self.kept.last().is_some_and(|&j| j < self.names().len());
        if rising && inside {
            return Ok(());
        }
        Err(RegBayesError::state(
            "the list of columns in use is not one",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows without labels have no say: neither in the units, nor in which columns vary.
    #[test]
    fn units_are_those_of_the_training_rows() {
        let cells = [1.0, 5.0, 3.0, 5.0, 100.0, 7.0, f64::NAN, 9.0];
        let table = Table::from_nan_coded(4, 2, &cells).unwrap();
        let columns = Columns::learn(&table, &[0, 1]).unwrap();
        assert_eq!((columns.kept(), columns.constant()), (&[0][..], &[1][..]));
        let applied = columns.apply(&table).unwrap();
        let column: Vec<Option<f64>> = (0..4).map(|i| applied.get(i, 0)).collect();
        assert_eq!(column, [Some(-1.0), Some(1.0), Some(98.0), None]);
    }
}
