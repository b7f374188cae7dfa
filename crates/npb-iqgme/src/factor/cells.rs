//! Rows with holes, in columns.

use npb_data::{Mask, PatternIndex, Table};
use npb_linalg::faer::Mat;

/// Values further out than this many standard deviations are moved here, so that their squares are finite.
const FARTHEST: f64 = 1e100;

/// Rows with holes, features as columns, standardised.
#[derive(Clone, Debug)]
pub struct Cells {
    /// n x P on the model's scale, zero where missing.
    pub(crate) x: Mat<f64>,
    /// Rows by the features that they miss.
    pub(crate) patterns: PatternIndex,
}

impl Cells {
    /// Rows of a table in the units of the model.
    pub(crate) fn new(table: &Table) -> Self {
        Self {
            x: Mat::from_fn(table.n_rows(), table.n_cols(), |i, j| bounded(table, i, j)),
            patterns: table.patterns(),
        }
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.x.nrows()
    }

    pub(crate) fn n_features(&self) -> usize {
        self.x.ncols()
    }

    /// Features by the rows that miss them.
    pub(crate) fn columns(&self) -> PatternIndex {
        let (n, p) = (self.n_rows(), self.n_features());
        let mut observed = Mask::new(p, n, true).expect("as large as the table");
        for pattern in self.patterns.patterns() {
            for &i in &pattern.rows {
                for &j in &pattern.missing {
                    observed.set(j, i, false);
                }
            }
        }
        PatternIndex::new(&observed)
    }
}

/// A cell, not too far out; zero where it is missing.
fn bounded(table: &Table, row: usize, column: usize) -> f64 {
    let value = table.get(row, column).unwrap_or(0.0);
    value.clamp(-FARTHEST, FARTHEST)
}
