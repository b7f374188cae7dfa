//! Conditional-mean imputation under one Gaussian fitted by EM.

use npb_data::Table;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::positive;
use crate::impute::Start;

/// Settings of [`GaussianImputer`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GaussianConfig {
    /// Number of EM iterations.
    pub iterations: usize,
    /// Added to every variance at each M-step, in squared units of the columns (standardise them first).
    pub ridge: f64,
}

impl Default for GaussianConfig {
    fn default() -> Self {
        Self {
            iterations: 50,
            ridge: 0.1,
        }
    }
}

/// Fills each hole with its conditional mean given the observed cells of its row, under N(mean, covariance) fitted to the
/// training rows by EM.
///
/// Start: column means, and the covariance of the mean-filled rows. Rows with the same missing pattern share one factor.
/// Cost per iteration: patterns x (o³/6 + o² m) + rows x P², o and m the sizes of a pattern's observed and missing parts.
///
/// ```
/// use npb_baselines::{GaussianConfig, GaussianImputer};
/// use npb_data::Table;
///
/// let nan = f64::NAN;
/// let table = Table::from_nan_coded(4, 2, &[-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 2.0, nan])?;
/// let imputer = GaussianImputer::fit(&table, &GaussianConfig::default())?;
/// let guess = imputer.transform(&table)?.row(3)[1];
/// assert!(guess > 1.0 && guess < 2.0);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GaussianImputer {
    start: Start,
    mean: Vec<f64>,
    covariance: Mat<f64>,
}

/// Completed rows and the summed conditional covariances of their holes.
struct Completed {
    /// Row-major.
    values: Vec<f64>,
    spread: Mat<f64>,
}

impl GaussianImputer {
    /// Fits mean and covariance to `train`.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::NotPositiveDefinite`].
    pub fn fit(train: &Table, config: &GaussianConfig) -> Result<Self, BaselineError> {
        positive("ridge", config.ridge)?;
        let start = Start::fit(train)?;
        let filled = Completed {
            values: start.fill(train)?,
            spread: Mat::zeros(train.n_cols(), train.n_cols()),
        };
        let mut imputer = Self {
            mean: Vec::new(),
            covariance: Mat::zeros(0, 0),
            start,
        };
        imputer.maximise(&filled, config.ridge);
        for iteration in 0..config.iterations {
            let completed = imputer.complete(train, iteration)?;
            imputer.maximise(&completed, config.ridge);
        }
        Ok(imputer)
    }

    /// `table` (columns as in training, any rows) with its holes filled.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::NotPositiveDefinite`].
    pub fn transform(&self, table: &Table) -> Result<Table, BaselineError> {
        // Checks the columns.
        self.start.fill(table)?;
        let completed = self.complete(table, 0)?;
        self.start.finish(table, completed.values)
    }

    /// Mean of the fitted Gaussian, one entry per column.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Covariance of the fitted Gaussian, columns x columns.
    pub fn covariance(&self) -> &Mat<f64> {
        &self.covariance
    }

    /// E-step: conditional means into the holes, conditional covariances summed over the rows.
    fn complete(&self, table: &Table, iteration: usize) -> Result<Completed, BaselineError> {
        let p = table.n_cols();
        let mut completed = Completed {
            values: self.start.fill(table)?,
            spread: Mat::zeros(p, p),
        };
        let mut factor = Cholesky::default();
        for pattern in table.patterns().iter() {
            let (seen, hidden) = (&pattern.observed, &pattern.missing);
            if hidden.is_empty() {
                continue;
            }
            let cov = &self.covariance;
            let block = Mat::from_fn(seen.len(), seen.len(), |a, b| cov[(seen[a], seen[b])]);
            factor
                .factor(block.as_ref())
                .map_err(|e| BaselineError::NotPositiveDefinite {
                    what: "EM for one Gaussian",
                    iteration,
                    pivot: e.pivot,
                })?;
            for (k, &j) in hidden.iter().enumerate() {
                let mut weights: Vec<f64> = seen.iter().map(|&a| cov[(a, j)]).collect();
                factor.solve(&mut weights);
                self.fill_column(&mut completed.values, &pattern.rows, seen, j, &weights);
                for &l in &hidden[k..] {
                    let explained: f64 = seen
                        .iter()
                        .zip(&weights)
                        .map(|(&a, w)| w * cov[(a, l)])
                        .sum();
                    let rest = (cov[(j, l)] - explained) * pattern.rows.len() as f64;
                    completed.spread[(j, l)] += rest;
                    if l != j {
                        completed.spread[(l, j)] += rest;
                    }
                }
            }
        }
        Ok(completed)
    }

    /// Conditional mean of column `j` in `rows`, given the cells in `seen`.
    fn fill_column(
        &self,
        values: &mut [f64],
        rows: &[usize],
        seen: &[usize],
        j: usize,
        weights: &[f64],
    ) {
        if self.start.empty[j] {
            return;
        }
        let p = self.mean.len();
        for &i in rows {
            let row = &mut values[i * p..(i + 1) * p];
            let shift: f64 = seen
                .iter()
                .zip(weights)
                .map(|(&a, w)| w * (row[a] - self.mean[a]))
                .sum();
            row[j] = self.mean[j] + shift;
        }
    }

    /// M-step.
    fn maximise(&mut self, completed: &Completed, ridge: f64) {
        let p = completed.spread.nrows();
        let n = (completed.values.len() / p) as f64;
        let mut mean = vec![0.0; p];
        for row in completed.values.chunks_exact(p) {
            mean.iter_mut().zip(row).for_each(|(m, x)| *m += x / n);
        }
        let mut covariance = completed.spread.clone();
        for row in completed.values.chunks_exact(p) {
            for b in 0..p {
                let db = row[b] - mean[b];
                for a in 0..p {
                    covariance[(a, b)] += (row[a] - mean[a]) * db;
                }
            }
        }
        for b in 0..p {
            for a in 0..p {
                covariance[(a, b)] /= n;
            }
            covariance[(b, b)] += ridge;
        }
        self.mean = mean;
        self.covariance = covariance;
    }
}
