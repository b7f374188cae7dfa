//! Conditional-mean imputation by chained equations.

use npb_data::Table;
use npb_linalg::faer::{Mat, MatRef, Side};
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::positive;
use crate::impute::Start;

/// Settings of [`ChainedImputer`]; the defaults are those of scikit-learn's `IterativeImputer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChainedConfig {
    /// At most this many rounds over the columns.
    pub rounds: usize,
    /// A round that changes no row by more than this (sum of absolute changes, relative to the largest absolute observed
    /// value) is the last.
    pub tolerance: f64,
    /// Settings of the regression of one column on all others.
    pub ridge: RidgeConfig,
}

impl Default for ChainedConfig {
    fn default() -> Self {
        Self {
            rounds: 10,
            tolerance: 1e-3,
            ridge: RidgeConfig::default(),
        }
    }
}

impl ChainedConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`BaselineError::Config`] names the first field out of range.
    pub fn validate(&self) -> Result<(), BaselineError> {
        positive("tolerance", self.tolerance)?;
        self.ridge.validate()
    }
}

/// Fills each hole with the prediction of a Bayesian ridge regression of its column on all others, round after round.
///
/// Start: column means. A round visits the columns in ascending order of their share of missing training cells (ties in
/// column order); a regression is fitted on the training rows in which the column is observed, with the current fills of
/// the others. New rows go through the same sequence of fitted regressions. Nothing is drawn: the result is the
/// conditional mean. Cost: rounds x columns x one thin singular value decomposition of the training matrix.
///
/// Source: van Buuren, Groothuis-Oudshoorn, "mice", J. Statistical Software 45(3), 2011, without its random draws.
///
/// ```
/// use npb_baselines::{ChainedConfig, ChainedImputer};
/// use npb_data::Table;
///
/// let nan = f64::NAN;
/// let table = Table::from_nan_coded(5, 2, &[1.0, 2.0, 2.0, 4.0, 3.0, 6.0, 4.0, 8.0, 5.0, nan])?;
/// let filled = ChainedImputer::fit(&table, &ChainedConfig::default())?.transform(&table)?;
/// assert!((filled.row(4)[1] - 10.0).abs() < 1e-3);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChainedImputer {
    start: Start,
    /// In the order in which they are applied; rounds follow each other.
    steps: Vec<Step>,
}

/// The regression of one column in one round.
#[derive(Clone, Debug)]
struct Step {
    column: usize,
    /// Columns regressed on, ascending.
    others: Vec<usize>,
    ridge: BayesianRidge,
}

impl ChainedImputer {
    /// Learns the sequence of regressions from `train`.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Regression`].
    pub fn fit(train: &Table, config: &ChainedConfig) -> Result<Self, BaselineError> {
        config.validate()?;
        let start = Start::fit(train)?;
        let mut filled = start.fill(train)?;
        let order = ascending_missingness(train, &start);
        let mut imputer = Self {
            start,
            steps: Vec::new(),
        };
        // With nothing to regress on the means are the answer. Complete training rows are regressed on all the same: new rows may have holes.
        if order.len() < 2 {
            return Ok(imputer);
        }
        let largest = train.values().iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        for _ in 0..config.rounds {
            let before = filled.clone();
            for &column in &order {
                let step = fit_step(train, &filled, &order, column, &config.ridge)?;
                step.apply(train, &mut filled);
                imputer.steps.push(step);
            }
            if largest_row_change(&before, &filled, train.n_cols()) < config.tolerance * largest {
                break;
            }
        }
        Ok(imputer)
    }

    /// `table` (columns as in training, any rows) with its holes filled.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training.
    pub fn transform(&self, table: &Table) -> Result<Table, BaselineError> {
        let mut filled = self.start.fill(table)?;
        for step in &self.steps {
            step.apply(table, &mut filled);
        }
        self.start.finish(table, filled)
    }
}

/// Columns with any training value, least missing first; the sort is stable.
fn ascending_missingness(train: &Table, start: &Start) -> Vec<usize> {
    let stats = train.column_stats();
    let mut order: Vec<usize> = (0..train.n_cols()).filter(|&j| !start.empty[j]).collect();
    order.sort_by_key(|&j| train.n_rows() - stats[j].n_observed);
    order
}

fn largest_row_change(before: &[f64], after: &[f64], n_cols: usize) -> f64 {
    let rows = before.chunks_exact(n_cols).zip(after.chunks_exact(n_cols));
    rows.map(|(b, a)| b.iter().zip(a).map(|(b, a)| (a - b).abs()).sum())
        .fold(0.0, f64::max)
}

fn fit_step(
    train: &Table,
    filled: &[f64],
    columns: &[usize],
    column: usize,
    config: &RidgeConfig,
) -> Result<Step, BaselineError> {
    let p = train.n_cols();
    let mut others: Vec<usize> = columns.iter().copied().filter(|&j| j != column).collect();
    others.sort_unstable();
    let rows: Vec<usize> = (0..train.n_rows())
        .filter(|&i| train.is_observed(i, column))
        .collect();
    let x = Mat::from_fn(rows.len(), others.len(), |i, k| {
        filled[rows[i] * p + others[k]]
    });
    let y: Vec<f64> = rows.iter().map(|&i| filled[i * p + column]).collect();
    let what = "Bayesian ridge regression";
    let ridge =
        BayesianRidge::fit(x, y, config).ok_or(BaselineError::Regression { what, column })?;
    Ok(Step {
        column,
        others,
        ridge,
    })
}

impl Step {
    /// Refills the holes of this step's column.
    fn apply(&self, table: &Table, filled: &mut [f64]) {
        let p = table.n_cols();
        for (i, row) in filled.chunks_exact_mut(p).enumerate() {
            if !table.is_observed(i, self.column) {
                let inputs = self.others.iter().map(|&k| row[k]);
                row[self.column] = self.ridge.predict(inputs);
            }
        }
    }
}

/// Settings of the Bayesian ridge regression inside [`ChainedImputer`]; the defaults are those of scikit-learn.
///
/// y ~ N(X w + b, 1 / alpha), w ~ N(0, I / lambda), alpha ~ Gamma(`alpha_shape`, `alpha_rate`), lambda ~
/// Gamma(`lambda_shape`, `lambda_rate`), Gamma as (shape, rate).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RidgeConfig {
    /// At most this many updates of alpha and lambda.
    pub iterations: usize,
    /// Stop when the sum of absolute changes of the weights is below this.
    pub tolerance: f64,
    /// Shape of the prior on the noise precision alpha.
    pub alpha_shape: f64,
    /// Rate of the prior on the noise precision alpha.
    pub alpha_rate: f64,
    /// Shape of the prior on the weight precision lambda.
    pub lambda_shape: f64,
    /// Rate of the prior on the weight precision lambda.
    pub lambda_rate: f64,
}

impl Default for RidgeConfig {
    fn default() -> Self {
        Self {
            iterations: 300,
            tolerance: 1e-3,
            alpha_shape: 1e-6,
            alpha_rate: 1e-6,
            lambda_shape: 1e-6,
            lambda_rate: 1e-6,
        }
    }
}

impl RidgeConfig {
    pub(crate) fn validate(&self) -> Result<(), BaselineError> {
        positive("ridge.tolerance", self.tolerance)?;
        positive("ridge.alpha_shape", self.alpha_shape)?;
        positive("ridge.alpha_rate", self.alpha_rate)?;
        positive("ridge.lambda_shape", self.lambda_shape)?;
        positive("ridge.lambda_rate", self.lambda_rate)
    }
}

/// Evidence-maximising ridge regression with an unpenalised intercept.
///
/// Source: MacKay, "Bayesian interpolation", Neural Computation 4(3), 1992.
#[derive(Clone, Debug)]
pub(crate) struct BayesianRidge {
    weights: Vec<f64>,
    intercept: f64,
}

impl BayesianRidge {
    /// `None` when the decomposition does not converge (values beyond the range of f64).
    fn fit(mut x: Mat<f64>, mut y: Vec<f64>, config: &RidgeConfig) -> Option<Self> {
        let n = y.len() as f64;
        let x_mean: Vec<f64> = (0..x.ncols())
            .map(|j| x.col(j).iter().sum::<f64>() / n)
            .collect();
        for (j, mean) in x_mean.iter().enumerate() {
            x.col_mut(j).iter_mut().for_each(|v| *v -= mean);
        }
        let y_mean = y.iter().sum::<f64>() / n;
        y.iter_mut().for_each(|v| *v -= y_mean);
        let weights = Spectrum::new(&x, &y)?.maximise_evidence(n, config);
        Some(Self::new(weights, &x_mean, y_mean))
    }

    /// From weights of centred columns, and the means that were taken off.
    pub(crate) fn new(weights: Vec<f64>, x_mean: &[f64], y_mean: f64) -> Self {
        let shift: f64 = weights.iter().zip(x_mean).map(|(w, m)| w * m).sum();
        Self {
            weights,
            intercept: y_mean - shift,
        }
    }

    pub(crate) fn predict(&self, inputs: impl Iterator<Item = f64>) -> f64 {
        let sum: f64 = self.weights.iter().zip(inputs).map(|(w, x)| w * x).sum();
        sum + self.intercept
    }
}

/// The regression in the basis of singular vectors, where every update costs O(min(n, d)).
pub(crate) struct Spectrum {
    /// Singular values of the centred X.
    s: Vec<f64>,
    /// Right singular vectors, d x min(n, d).
    v: Mat<f64>,
    /// U' y.
    uy: Vec<f64>,
    /// Squared length of the part of y that no weights can reach.
    unreachable: f64,
    /// Squared length of the centred y.
    yy: f64,
}

impl Spectrum {
    fn new(x: &Mat<f64>, y: &[f64]) -> Option<Self> {
        let svd = x.thin_svd().ok()?;
        let u = svd.U();
        let dot = |k: usize| u.col(k).iter().zip(y).map(|(u, y)| u * y).sum::<f64>();
        let uy: Vec<f64> = (0..u.ncols()).map(dot).collect();
        let residual = |(i, y): (usize, &f64)| {
            let reached: f64 = uy.iter().enumerate().map(|(k, c)| c * u[(i, k)]).sum();
            (y - reached).powi(2)
        };
        Some(Self {
            s: svd.S().column_vector().iter().copied().collect(),
            v: svd.V().to_owned(),
            unreachable: y.iter().enumerate().map(residual).sum(),
            yy: y.iter().map(|y| y * y).sum(),
            uy,
        })
    }

    /// From X'X, X'y and y'y: half the digits of [`Spectrum::new`], at d³ instead of n d².
    pub(crate) fn of_gram(gram: MatRef<'_, f64>, xy: &[f64], yy: f64) -> Option<Self> {
        let eigen = gram.self_adjoint_eigen(Side::Lower).ok()?;
        let v = eigen.U().to_owned();
        let squares: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
        let floor = squares.iter().fold(0.0_f64, |m, s| m.max(*s)) * 1e-13;
        let along = |k: usize| v.col(k).iter().zip(xy).map(|(v, xy)| v * xy).sum::<f64>();
        let s: Vec<f64> = squares
            .iter()
            .map(|&s2| if s2 > floor { s2.sqrt() } else { 0.0 })
            .collect();
        let uy: Vec<f64> = (0..s.len())
            .map(|k| if s[k] > 0.0 { along(k) / s[k] } else { 0.0 })
            .collect();
        let reached: f64 = uy.iter().map(|c| c * c).sum();
        Some(Self {
            unreachable: (yy - reached).max(0.0),
            s,
            v,
            uy,
            yy,
        })
    }

    /// Alternates the weights' posterior mean with MacKay's updates of the two precisions.
    pub(crate) fn maximise_evidence(&self, n: f64, config: &RidgeConfig) -> Vec<f64> {
        let mut alpha = 1.0 / (self.yy / n + f64::EPSILON);
        let mut lambda = 1.0;
        let mut previous: Option<Vec<f64>> = None;
        for _ in 0..config.iterations {
            let c = self.posterior_mean(lambda / alpha);
            let s2 = || self.s.iter().map(|s| s * s);
            let effective: f64 = s2().map(|s2| alpha * s2 / (lambda + alpha * s2)).sum();
            let length: f64 = c.iter().map(|c| c * c).sum();
            let sse: f64 = self.unreachable
                + (0..c.len())
                    .map(|k| (self.uy[k] - self.s[k] * c[k]).powi(2))
                    .sum::<f64>();
            lambda = (effective + 2.0 * config.lambda_shape) / (length + 2.0 * config.lambda_rate);
            alpha = (n - effective + 2.0 * config.alpha_shape) / (sse + 2.0 * config.alpha_rate);
            let weights = self.rotate(&c);
            let change = previous.map_or(f64::INFINITY, |old| {
                old.iter().zip(&weights).map(|(o, w)| (o - w).abs()).sum()
            });
            if change < config.tolerance {
                break;
            }
            previous = Some(weights);
        }
        self.rotate(&self.posterior_mean(lambda / alpha))
    }

    /// Posterior mean of the weights, in the basis of right singular vectors.
    fn posterior_mean(&self, ratio: f64) -> Vec<f64> {
        let terms = self.s.iter().zip(&self.uy);
        terms.map(|(s, uy)| s * uy / (s * s + ratio)).collect()
    }

    fn rotate(&self, c: &[f64]) -> Vec<f64> {
        (0..self.v.nrows())
            .map(|j| c.iter().enumerate().map(|(k, c)| c * self.v[(j, k)]).sum())
            .collect()
    }
}
