//! Logistic regression with an L2 penalty.

use npb_data::Table;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::{complete, positive, training_set};

/// Settings of [`LogisticRegression`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogisticConfig {
    /// Weight of the data against the penalty.
    pub c: f64,
    /// Newton stops when no component of the gradient exceeds this.
    pub tolerance: f64,
    /// At most this many Newton steps.
    pub iterations: usize,
}

impl Default for LogisticConfig {
    fn default() -> Self {
        Self {
            c: 1.0,
            tolerance: 1e-10,
            iterations: 100,
        }
    }
}

/// Minimises w'w / 2 + C sum_i ln(1 + exp(-y_i (w'x_i + b))), y in {-1, 1}, by damped Newton steps; b is not penalised.
///
/// Cost per step: n P² / 2 + P³ / 6.
///
/// ```
/// use npb_baselines::{LogisticConfig, LogisticRegression};
/// use npb_data::Table;
///
/// let x = Table::complete(4, 1, vec![-2.0, -1.0, 1.0, 2.0])?;
/// let model = LogisticRegression::fit(&x, &[false, false, true, true], &LogisticConfig::default())?;
/// assert!(model.weights()[0] > 0.5 && model.intercept().abs() < 1e-9);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogisticRegression {
    column_names: Vec<String>,
    /// Weights, then the intercept.
    coefficients: Vec<f64>,
}

impl LogisticRegression {
    /// Fits to complete rows; `labels` has one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Missing`], [`BaselineError::LabelCount`],
    /// [`BaselineError::OneClass`], [`BaselineError::NotPositiveDefinite`].
    pub fn fit(
        train: &Table,
        labels: &[bool],
        config: &LogisticConfig,
    ) -> Result<Self, BaselineError> {
        positive("c", config.c)?;
        positive("tolerance", config.tolerance)?;
        training_set(train, labels)?;
        let problem = Problem {
            table: train,
            signs: labels.iter().map(|&l| if l { 1.0 } else { -1.0 }).collect(),
            c: config.c,
        };
        let mut coefficients = vec![0.0; train.n_cols() + 1];
        for iteration in 0..config.iterations {
            let (gradient, hessian) = problem.derivatives(&coefficients);
            if gradient.iter().all(|g| g.abs() <= config.tolerance) {
                break;
            }
            let factor = Cholesky::new(hessian.as_ref()).map_err(|e| {
                BaselineError::NotPositiveDefinite {
                    what: "logistic regression",
                    iteration,
                    pivot: e.pivot,
                }
            })?;
            let mut step = gradient;
            factor.solve(&mut step);
            if !problem.descend(&mut coefficients, &step) {
                break;
            }
        }
        Ok(Self {
            column_names: train.column_names().to_vec(),
            coefficients,
        })
    }

    /// w'x + b for every row of `table` (complete, columns as in training): the log-odds of the positive class.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`].
    pub fn decision(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        self.check(table)?;
        Ok((0..table.n_rows())
            .map(|i| self.score(table.row(i)))
            .collect())
    }

    /// Whether the columns are those of training, without holes.
    pub(crate) fn check(&self, table: &Table) -> Result<(), BaselineError> {
        table.check_columns(&self.column_names)?;
        complete(table)
    }

    /// w'x + b for one row.
    pub(crate) fn score(&self, row: &[f64]) -> f64 {
        linear(&self.coefficients, row)
    }

    /// Weights, one per column.
    pub fn weights(&self) -> &[f64] {
        &self.coefficients[..self.column_names.len()]
    }

    /// Intercept.
    pub fn intercept(&self) -> f64 {
        self.coefficients[self.column_names.len()]
    }
}

/// Weights and intercept applied to a row.
fn linear(coefficients: &[f64], row: &[f64]) -> f64 {
    let intercept = coefficients[row.len()];
    row.iter()
        .zip(coefficients)
        .map(|(x, w)| x * w)
        .sum::<f64>()
        + intercept
}

/// ln(1 + exp(z)) without overflow.
pub(crate) fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

struct Problem<'a> {
    table: &'a Table,
    signs: Vec<f64>,
    c: f64,
}

impl Problem<'_> {
    fn objective(&self, coefficients: &[f64]) -> f64 {
        let p = self.table.n_cols();
        let penalty: f64 = coefficients[..p].iter().map(|w| w * w).sum();
        let losses = self.signs.iter().enumerate();
        let loss: f64 = losses
            .map(|(i, y)| softplus(-y * linear(coefficients, self.table.row(i))))
            .sum();
        0.5 * penalty + self.c * loss
    }

    /// Gradient, and Hessian (lower triangle) of the objective.
    fn derivatives(&self, coefficients: &[f64]) -> (Vec<f64>, Mat<f64>) {
        let p = self.table.n_cols();
        let mut gradient = coefficients.to_vec();
        gradient[p] = 0.0;
        let mut hessian = Mat::from_fn(p + 1, p + 1, |a, b| f64::from(a == b && a < p));
        for (i, y) in self.signs.iter().enumerate() {
            let row = self.table.row(i);
            // Probability of the wrong class, exact in the far tail.
            let wrong = (-softplus(y * linear(coefficients, row))).exp();
            let curvature = self.c * wrong * (1.0 - wrong);
            let at = |a: usize| if a < p { row[a] } else { 1.0 };
            for b in 0..=p {
                if at(b) == 0.0 {
                    continue;
                }
                gradient[b] -= self.c * wrong * y * at(b);
                for a in b..=p {
                    hessian[(a, b)] += curvature * at(a) * at(b);
                }
            }
        }
        (gradient, hessian)
    }

    /// Goes the first of 1, 1/2, 1/4, ... of the step that lowers the objective; false when none does (at the minimum, to
    /// rounding).
    fn descend(&self, coefficients: &mut Vec<f64>, step: &[f64]) -> bool {
        let here = self.objective(coefficients);
        let mut scale = 1.0;
        while scale > 1e-10 {
            let there: Vec<f64> = coefficients
                .iter()
                .zip(step)
                .map(|(c, s)| c - scale * s)
                .collect();
            if self.objective(&there) < here {
                *coefficients = there;
                return true;
            }
            scale *= 0.5;
        }
        false
    }
}
