//! The normal-Wishart distribution of a mean vector and a precision matrix.

use super::{Wishart, ln_excess};
use crate::error::{Check, ParameterError};
use crate::special::LN_SQRT_2PI;
use npb_linalg::Cholesky;
use npb_linalg::faer::{Mat, MatRef};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

/// Lambda ~ W(B, nu), mu | Lambda ~ N(m, (u Lambda)^-1).
///
/// ```
/// use npb_linalg::faer::Mat;
/// use npb_priors::dist::{NormalWishart, Wishart};
/// let precision = Wishart::new(Mat::<f64>::identity(2, 2).as_ref(), 4.0).unwrap();
/// let q = NormalWishart::new(vec![0.0, 1.0], 2.0, precision).unwrap();
/// assert_eq!(q.mean_square_deviation(&[0.0, 2.0]), 2.0 / 2.0 + 4.0);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "StoredNormalWishart")]
pub struct NormalWishart {
    mean: Vec<f64>,
    strength: f64,
    precision: Wishart,
}

impl NormalWishart {
    /// `mean`: m, length P, finite; `strength`: u, finite and positive; `precision`: the law of Lambda.
    ///
    /// # Errors
    /// A mean of the wrong length or with an entry that is not finite; a strength out of range.
    pub fn new(mean: Vec<f64>, strength: f64, precision: Wishart) -> Result<Self, ParameterError> {
        let check = Check("normal-Wishart");
        check.size("mean", precision.dim(), mean.len())?;
        check.all_finite("mean", &mean)?;
        check.positive("strength", strength)?;
        Ok(Self {
            mean,
            strength,
            precision,
        })
    }

    /// P.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// E mu = m.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// u: how many observations the mean is worth.
    pub fn strength(&self) -> f64 {
        self.strength
    }

    /// The law of Lambda.
    pub fn precision(&self) -> &Wishart {
        &self.precision
    }

    /// E [(x - mu)' Lambda (x - mu)] = P/u + nu (x - m)' B (x - m). Panics when `x` is not of length P. Cost: P^2.
    pub fn mean_square_deviation(&self, x: &[f64]) -> f64 {
        self.dim() as f64 / self.strength + self.precision.df() * self.scaled_distance(x)
    }

    /// E ln N(x; mu, Lambda^-1). Panics when `x` is not of length P. Cost: P^2 and P digammas.
    pub fn mean_ln_likelihood(&self, x: &[f64]) -> f64 {
        0.5 * (self.precision.mean_ln_det() - self.mean_square_deviation(x))
            - self.dim() as f64 * LN_SQRT_2PI
    }

    /// (x - m)' B (x - m), as the squared length of L'(x - m); allocates nothing.
    pub(super) fn scaled_distance(&self, x: &[f64]) -> f64 {
        let p = self.dim();
        assert_eq!(x.len(), p, "a vector of length P is needed");
        let l = self.precision.factor().l();
        let entry = |j: usize| {
            (j..p)
                .map(|i| l[(i, j)] * (x[i] - self.mean[i]))
                .sum::<f64>()
        };
        (0..p).map(|j| entry(j).powi(2)).sum()
    }

    /// Log-density at (mu, Lambda); minus infinity when Lambda (lower triangle read) is not positive definite.
    ///
    /// Panics on wrong sizes. Cost: P^3.
    pub fn ln_density(&self, mu: &[f64], lambda: MatRef<'_, f64>) -> f64 {
        assert_eq!(mu.len(), self.dim(), "a vector of length P is needed");
        let Ok(factor) = Cholesky::new(lambda) else {
            return f64::NEG_INFINITY;
        };
        let mut d: Vec<f64> = mu.iter().zip(&self.mean).map(|(x, m)| x - m).collect();
        factor.mul_lt(&mut d);
        let distance: f64 = d.iter().map(|v| v * v).sum();
        let p = self.dim() as f64;
        let of_mean = 0.5 * (p * self.strength.ln() + factor.ln_det() - self.strength * distance)
            - p * LN_SQRT_2PI;
        self.precision.ln_density(lambda) + of_mean
    }

    /// Entropy in nats.
    pub fn entropy(&self) -> f64 {
        let p = self.dim() as f64;
        let of_mean =
            p * (LN_SQRT_2PI + 0.5 - 0.5 * self.strength.ln()) - 0.5 * self.precision.mean_ln_det();
        self.precision.entropy() + of_mean
    }

    /// KL(self || other) in nats; both must have the same P (panics otherwise). Cost: P^3/2.
    pub fn kl(&self, other: &Self) -> f64 {
        let apart = other.strength * self.precision.df() * self.scaled_distance(&other.mean);
        let of_mean = self.dim() as f64 * ln_excess(other.strength / self.strength) + apart;
        self.precision.kl(&other.precision) + 0.5 * of_mean
    }

    /// Draws (mu, Lambda). Cost: P^3.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> (Vec<f64>, Mat<f64>) {
        let l = self.precision.sample_factor(rng);
        let mut mu: Vec<f64> = (0..self.dim())
            .map(|_| rng.sample(StandardNormal))
            .collect();
        solve_lower_transposed(l.as_ref(), &mut mu);
        let scale = self.strength.sqrt().recip();
        for (x, m) in mu.iter_mut().zip(&self.mean) {
            *x = m + scale * *x;
        }
        let lambda = l.as_ref() * l.as_ref().transpose();
        (mu, lambda)
    }
}

/// b <- L^-T b for a lower triangular L.
fn solve_lower_transposed(l: MatRef<'_, f64>, b: &mut [f64]) {
    for j in (0..b.len()).rev() {
        let below: f64 = (j + 1..b.len()).map(|i| l[(i, j)] * b[i]).sum();
        b[j] = (b[j] - below) / l[(j, j)];
    }
}

/// What a file holds, before the constructor has checked it; the rest is computed again, to the same bits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNormalWishart {
    mean: Vec<f64>,
    strength: f64,
    precision: Wishart,
}

impl TryFrom<StoredNormalWishart> for NormalWishart {
    type Error = ParameterError;

    fn try_from(stored: StoredNormalWishart) -> Result<Self, ParameterError> {
        Self::new(stored.mean, stored.strength, stored.precision)
    }
}
