//! Rows with holes, in columns.

use npb_data::{Mask, PatternIndex, Table};
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

/// Values further out than this many standard deviations are moved here, so that their squares are finite.
const FARTHEST: f64 = 1e100;

/// Rows with holes, features as columns, standardised.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    /// n x P on the model's scale, zero where missing.
    pub(crate) x: Mat<f64>,
    /// n x P as they are in the table but for location and scale, zero where missing.
    pub(crate) plain: Mat<f64>,
    /// Rows by the features that they miss.
    pub(crate) patterns: PatternIndex,
    /// Logarithm of the mean absolute value of what is observed of a row; none where that is nothing but zeros.
    pub(crate) ln_spreads: Vec<Option<f64>>,
}

/// Mean and standard deviation of the rows' log spreads in training: the units of [`RowEffects::spread`](crate::RowEffects).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpreadUnits {
    pub(crate) location: f64,
    pub(crate) scale: f64,
}

impl SpreadUnits {
    pub(super) fn of(ln_spreads: &[Option<f64>]) -> Self {
        let known = || ln_spreads.iter().flatten();
        let n = known().count().max(1) as f64;
        let location = known().sum::<f64>() / n;
        let square = known()
            .map(|x| (x - location) * (x - location))
            .sum::<f64>()
            / n;
        // Rows that are all alike have no spread to speak of.
        let scale = if square > 1e-20 { square.sqrt() } else { 1.0 };
        Self { location, scale }
    }

    /// Spreads of rows in these units; zero for a row of which nothing is known.
    pub(crate) fn apply(&self, cells: &Cells) -> Vec<f64> {
        let unit = |ln: &Option<f64>| ln.map_or(0.0, |ln| (ln - self.location) / self.scale);
        cells.ln_spreads.iter().map(unit).collect()
    }
}

impl Cells {
    /// `table`: rows on the model's scale; `plain`: the same rows on their own.
    pub(crate) fn new(table: &Table, plain: &Table) -> Self {
        let (n, p) = (table.n_rows(), table.n_cols());
        let value = |i: usize, j: usize| bounded(table, i, j);
        let patterns = table.patterns();
        let mut ln_spreads = vec![None; n];
        for pattern in patterns.iter() {
            let seen = pattern.observed.len() as f64;
            for &i in &pattern.rows {
                let sum: f64 = pattern.observed.iter().map(|&j| value(i, j).abs()).sum();
                ln_spreads[i] = (sum > 0.0).then(|| (sum / seen).ln());
            }
        }
        Self {
            x: Mat::from_fn(n, p, value),
            plain: Mat::from_fn(n, p, |i, j| bounded(plain, i, j)),
            patterns,
            ln_spreads,
        }
    }

    /// By feature: what these rows have of it, of one of the two matrices.
    pub(crate) fn observed(&self, of: &Mat<f64>, rows: &[usize]) -> Vec<Vec<f64>> {
        let patterns = &self.patterns;
        let mut observed: Vec<Vec<f64>> = vec![Vec::new(); self.n_features()];
        for &i in rows {
            for &j in &patterns.patterns()[patterns.pattern_of_row(i)].observed {
                observed[j].push(of[(i, j)]);
            }
        }
        observed
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
