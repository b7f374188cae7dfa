//! Features on the scale of a normal law.

use npb_data::{DataError, Table};
use npb_priors::NormalScore;
use serde::{Deserialize, Serialize};

/// The maps of all columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NormalScores(Vec<NormalScore>);

impl NormalScores {
    pub(crate) fn fit(table: &Table) -> Self {
        let score = |j: usize| NormalScore::fit(table.observed_in_column(j).collect());
        Self((0..table.n_cols()).map(score).collect())
    }

    /// The columns of `table`, which are those of training, on the scale of the scores.
    pub(crate) fn apply(&self, table: &Table) -> Result<Table, DataError> {
        table.map(|_, j, value| self.0[j].score(value))
    }

    /// The value of a column with this score.
    pub(crate) fn value(&self, column: usize, score: f64) -> f64 {
        self.0[column].value(score)
    }

    pub(crate) fn ln_slope(&self, column: usize, value: f64) -> f64 {
        self.0[column].ln_slope(value)
    }

    pub(crate) fn is_valid(&self, n_columns: usize) -> bool {
        self.0.len() == n_columns && self.0.iter().all(NormalScore::is_valid)
    }
}
