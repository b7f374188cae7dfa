//! Ratings predicted by averages.

use npb_data::Ratings;
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::non_empty_ratings;

/// Mean rating of the whole matrix, of every row and of every column.
///
/// ```
/// use npb_baselines::RatingMeans;
/// use npb_data::{Rating, Ratings};
///
/// let entry = |row, column, value| Rating { row, column, value };
/// let means = RatingMeans::fit(&Ratings::new(3, 2, &[entry(0, 0, 2.0), entry(1, 0, 4.0), entry(1, 1, 3.0)])?)?;
/// assert_eq!((means.global(), means.row(1), means.column(0)), (3.0, 3.5, 3.0));
/// assert_eq!(means.row(2), 3.0, "a row without ratings has the global mean");
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RatingMeans {
    global: f64,
    rows: Vec<f64>,
    columns: Vec<f64>,
}

impl RatingMeans {
    /// Cost: one pass.
    ///
    /// # Errors
    /// [`BaselineError::NoRatings`] without a single rating.
    pub fn fit(ratings: &Ratings) -> Result<Self, BaselineError> {
        non_empty_ratings(ratings)?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let global = mean(ratings.values());
        let or_global = |values: &[f64]| {
            if values.is_empty() {
                global
            } else {
                mean(values)
            }
        };
        Ok(Self {
            global,
            rows: (0..ratings.n_rows())
                .map(|i| or_global(ratings.row(i).1))
                .collect(),
            columns: (0..ratings.n_cols())
                .map(|j| or_global(ratings.column(j).1))
                .collect(),
        })
    }

    /// Mean of all ratings.
    pub fn global(&self) -> f64 {
        self.global
    }

    /// Mean of a row; the global mean when it has no ratings.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, i: usize) -> f64 {
        self.rows[i]
    }

    /// Mean of a column; the global mean when it has no ratings.
    ///
    /// # Panics
    /// When there is no such column.
    pub fn column(&self, j: usize) -> f64 {
        self.columns[j]
    }
}

/// Settings of [`Biases`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BiasConfig {
    /// Penalty on squared biases, in units of one rating's squared error.
    pub ridge: f64,
    /// Rounds of rows and columns stop when no bias moves by more than this.
    pub tolerance: f64,
    /// Largest number of rounds.
    pub max_rounds: usize,
}

impl Default for BiasConfig {
    /// Least squares (no penalty), to 1e-6, at most 1,000 rounds.
    fn default() -> Self {
        Self {
            ridge: 0.0,
            tolerance: 1e-6,
            max_rounds: 1_000,
        }
    }
}

/// Global mean plus a bias for every row and every column, by (penalised) least squares.
///
/// Rows and columns in turns, from biases of zero. A row or column without ratings has bias 0.
///
/// ```
/// use npb_baselines::{BiasConfig, Biases};
/// use npb_data::{Rating, Ratings};
///
/// let entry = |row, column, value| Rating { row, column, value };
/// let ratings = Ratings::new(2, 2, &[entry(0, 0, 1.0), entry(0, 1, 2.0), entry(1, 0, 4.0)])?;
/// let biases = Biases::fit(&ratings, &BiasConfig::default())?;
/// assert!((biases.predict(1, 1) - 5.0).abs() < 1e-4);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Biases {
    global: f64,
    rows: Vec<f64>,
    columns: Vec<f64>,
    /// Whether the rounds ended before their largest number.
    pub converged: bool,
}

impl Biases {
    /// Cost: two passes per round.
    ///
    /// # Errors
    /// [`BaselineError::NoRatings`] without a single rating, [`BaselineError::Config`] for a negative ridge.
    pub fn fit(ratings: &Ratings, config: &BiasConfig) -> Result<Self, BaselineError> {
        non_empty_ratings(ratings)?;
        // Written so that NaN fails.
        if !(config.ridge >= 0.0 && config.ridge.is_finite()) {
            return Err(BaselineError::Config {
                field: "ridge",
                value: config.ridge,
                rule: "finite and >= 0",
            });
        }
        let global = ratings.values().iter().sum::<f64>() / ratings.n_observed() as f64;
        let mut biases = Self {
            global,
            rows: vec![0.0; ratings.n_rows()],
            columns: vec![0.0; ratings.n_cols()],
            converged: false,
        };
        for _ in 0..config.max_rounds {
            let moved = biases.round(ratings, config.ridge);
            if moved <= config.tolerance {
                biases.converged = true;
                break;
            }
        }
        Ok(biases)
    }

    /// One round; the largest move.
    fn round(&mut self, ratings: &Ratings, ridge: f64) -> f64 {
        let mut moved = 0.0f64;
        let mut update = |bias: &mut f64, (others, values): (&[u32], &[f64]), theirs: &[f64]| {
            if values.is_empty() {
                return;
            }
            let residuals = others
                .iter()
                .zip(values)
                .map(|(&other, value)| value - self.global - theirs[other as usize]);
            let next = residuals.sum::<f64>() / (values.len() as f64 + ridge);
            moved = moved.max((next - *bias).abs());
            *bias = next;
        };
        for (j, bias) in self.columns.iter_mut().enumerate() {
            update(bias, ratings.column(j), &self.rows);
        }
        for (i, bias) in self.rows.iter_mut().enumerate() {
            update(bias, ratings.row(i), &self.columns);
        }
        moved
    }

    /// Prediction of an entry.
    ///
    /// # Panics
    /// When there is no such row or column.
    pub fn predict(&self, row: usize, column: usize) -> f64 {
        self.global + self.rows[row] + self.columns[column]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_data::Rating;

    fn ratings() -> Ratings {
        let value = |i: u32, j: u32| 3.0 + f64::from(i) * 0.5 - f64::from(j) * 0.25;
        let cells = (0..6).flat_map(|i| (0..5).map(move |j| (i, j)));
        let entries: Vec<Rating> = cells
            .filter(|(i, j)| (i * 3 + j) % 4 != 0 && *j != 4)
            .map(|(row, column)| Rating {
                row,
                column,
                value: value(row, column),
            })
            .collect();
        Ratings::new(6, 5, &entries).unwrap()
    }

    #[test]
    fn additive_ratings_are_predicted_exactly() {
        let config = BiasConfig {
            tolerance: 1e-13,
            ..Default::default()
        };
        let biases = Biases::fit(&ratings(), &config).unwrap();
        assert!(biases.converged);
        for (i, j) in [(0, 0), (5, 3), (2, 2)] {
            let truth = 3.0 + 0.5 * i as f64 - 0.25 * j as f64;
            assert!((biases.predict(i, j) - truth).abs() < 1e-9);
        }
    }

    #[test]
    fn a_ridge_pulls_to_the_global_mean() {
        let at = |ridge| {
            let config = BiasConfig {
                ridge,
                ..Default::default()
            };
            Biases::fit(&ratings(), &config).unwrap().predict(5, 0)
        };
        let global = RatingMeans::fit(&ratings()).unwrap().global();
        assert!(at(0.0) > at(1.0) && at(1.0) > at(10.0) && at(10.0) > global);
        assert!((at(1e12) - global).abs() < 1e-9);
        assert!(
            Biases::fit(
                &ratings(),
                &BiasConfig {
                    ridge: -1.0,
                    ..Default::default()
                }
            )
            .is_err()
        );
    }

    #[test]
    fn empty_rows_and_columns_have_the_global_mean() {
        let means = RatingMeans::fit(&ratings()).unwrap();
        assert_eq!(means.column(4), means.global());
        let empty = Ratings::new(1, 1, &[]).unwrap();
        assert!(RatingMeans::fit(&empty).is_err());
    }
}
