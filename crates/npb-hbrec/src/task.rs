//! Tasks: data of a user that are rows of features with responses, instead of ratings of shared items.

use npb_linalg::faer::{Mat, MatRef};
use npb_linalg::{Cholesky, NotPositiveDefinite};
use serde::{Deserialize, Serialize};

use crate::HbrecError;

/// Observations of one task: rows of features, each with a response (a number, or a label). It may be empty.
///
/// ```
/// use npb_hbrec::Task;
/// let task = Task::new(2, &[1.0, 0.5, 1.0, -0.5], &[true, false])?;
/// assert_eq!((task.len(), task.row(1)), (2, &[1.0, -0.5][..]));
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task<Y> {
    width: usize,
    rows: Vec<f64>,
    responses: Vec<Y>,
}

impl<Y: Copy + Into<f64>> Task<Y> {
    /// From n x `width` features, row by row, and n responses. Add a constant feature for an intercept.
    ///
    /// # Errors
    /// Numbers that do not fit together; a feature or response that is not finite.
    pub fn new(width: usize, rows: &[f64], responses: &[Y]) -> Result<Self, HbrecError>
    where
        f64: From<Y>,
    {
        let expected = width.saturating_mul(responses.len());
        if width == 0 || rows.len() != expected {
            return Err(HbrecError::Size {
                what: "features of a task, rows times width",
                found: rows.len(),
                expected,
            });
        }
        let finite = |what, values: &mut dyn Iterator<Item = f64>, width: usize| {
            let bad = values.enumerate().find(|(_, value)| !value.is_finite());
            bad.map_or(Ok(()), |(at, value)| {
                Err(HbrecError::Value {
                    what,
                    row: at / width,
                    column: at % width,
                    value,
                    rule: "must be finite: leave out rows that have holes, or fill them in first",
                })
            })
        };
        finite("features of a task", &mut rows.iter().copied(), width)?;
        finite(
            "responses of a task",
            &mut responses.iter().map(|&y| y.into()),
            1,
        )?;
        Ok(Self {
            width,
            rows: rows.to_vec(),
            responses: responses.to_vec(),
        })
    }
}

impl<Y> Task<Y> {
    /// Number of features.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.responses.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// Features of a row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.rows[i * self.width..(i + 1) * self.width]
    }

    /// Responses, row by row.
    pub fn responses(&self) -> &[Y] {
        &self.responses
    }

    /// Features and response of each row.
    pub fn iter(&self) -> impl Iterator<Item = (&[f64], &Y)> {
        self.rows.chunks_exact(self.width).zip(&self.responses)
    }

    pub(crate) fn check_width(&self, expected: usize) -> Result<(), HbrecError> {
        if self.width == expected {
            return Ok(());
        }
        Err(HbrecError::Size {
            what: "features of a task",
            found: self.width,
            expected,
        })
    }
}

/// A normal law of the coefficients of a new task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Moments", into = "Moments")]
pub struct GaussianPrior {
    mean: Vec<f64>,
    covariance: Mat<f64>,
    factor: Cholesky,
    precision: Mat<f64>,
}

/// What is stored of a normal law: q means and the q x q covariance.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moments {
    mean: Vec<f64>,
    covariance: Vec<f64>,
}

impl From<GaussianPrior> for Moments {
    fn from(prior: GaussianPrior) -> Self {
        let q = prior.width();
        let covariance = (0..q * q).map(|at| prior.covariance[(at % q, at / q)]);
        Self {
            covariance: covariance.collect(),
            mean: prior.mean,
        }
    }
}

impl TryFrom<Moments> for GaussianPrior {
    type Error = HbrecError;

    fn try_from(moments: Moments) -> Result<Self, HbrecError> {
        let q = moments.mean.len();
        let (found, expected) = (moments.covariance.len(), q * q);
        if found != expected {
            return Err(HbrecError::Size {
                what: "covariances of a base distribution",
                found,
                expected,
            });
        }
        let covariance = MatRef::from_column_major_slice(&moments.covariance, q, q);
        Self::new(moments.mean, covariance)
    }
}

impl GaussianPrior {
    /// N(mean, covariance).
    ///
    /// # Errors
    /// Sizes that do not fit; a covariance that is not positive definite, or a mean that is not finite.
    pub fn new(mean: Vec<f64>, covariance: MatRef<'_, f64>) -> Result<Self, HbrecError> {
        if (covariance.nrows(), covariance.ncols()) != (mean.len(), mean.len()) || mean.is_empty() {
            return Err(HbrecError::Size {
                what: "rows of the covariance of a base distribution",
                found: covariance.nrows(),
                expected: mean.len(),
            });
        }
        if let Some(column) = mean.iter().position(|m| !m.is_finite()) {
            return Err(HbrecError::Value {
                what: "mean of a base distribution",
                row: 0,
                column,
                value: mean[column],
                rule: "must be finite",
            });
        }
        let factor = Cholesky::new(covariance).map_err(|source| base_numerical(0, source))?;
        Ok(Self {
            mean,
            covariance: covariance.to_owned(),
            precision: factor.inverse(),
            factor,
        })
    }

    /// N(0, variance I).
    ///
    /// # Errors
    /// No features; a variance that is not positive and finite.
    pub fn isotropic(width: usize, variance: f64) -> Result<Self, HbrecError> {
        let covariance = Mat::from_fn(width, width, |i, j| if i == j { variance } else { 0.0 });
        Self::new(vec![0.0; width], covariance.as_ref())
    }

    /// Its mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Its covariance.
    pub fn covariance(&self) -> MatRef<'_, f64> {
        self.covariance.as_ref()
    }

    pub(crate) fn precision(&self) -> &Mat<f64> {
        &self.precision
    }

    pub(crate) fn factor(&self) -> &Cholesky {
        &self.factor
    }

    pub(crate) fn width(&self) -> usize {
        self.mean.len()
    }
}

pub(crate) fn base_numerical(iteration: u64, source: NotPositiveDefinite) -> HbrecError {
    HbrecError::Numerical {
        what: "normal base distribution",
        iteration,
        block: "covariance",
        item: 0,
        source,
    }
}
