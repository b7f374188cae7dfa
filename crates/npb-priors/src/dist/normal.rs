//! The univariate normal distribution, (mean, variance).

use super::ln_excess;
use crate::error::{Check, ParameterError};
use crate::special::{LN_SQRT_2PI, normal_cdf};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

/// N(mean, variance).
///
/// ```
/// use npb_priors::dist::Normal;
/// let n = Normal::new(1.0, 4.0).unwrap();
/// assert_eq!((n.cdf(1.0), n.mean_square()), (0.5, 5.0));
/// assert!(Normal::new(0.0, 0.0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredNormal")]
pub struct Normal {
    mean: f64,
    variance: f64,
}

impl Normal {
    /// `mean`: finite; `variance`: finite and positive.
    ///
    /// # Errors
    /// [`ParameterError::Value`] naming the parameter.
    pub fn new(mean: f64, variance: f64) -> Result<Self, ParameterError> {
        let check = Check("normal");
        check.finite("mean", mean)?;
        check.positive("variance", variance)?;
        Ok(Self { mean, variance })
    }

    /// E x.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Var x.
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// E x^2.
    pub fn mean_square(&self) -> f64 {
        self.mean * self.mean + self.variance
    }

    /// Log-density at `x`.
    pub fn ln_density(&self, x: f64) -> f64 {
        let d = x - self.mean;
        -0.5 * (d * d / self.variance + self.variance.ln()) - LN_SQRT_2PI
    }

    /// P(x' <= x).
    pub fn cdf(&self, x: f64) -> f64 {
        normal_cdf((x - self.mean) / self.variance.sqrt())
    }

    /// Entropy in nats.
    pub fn entropy(&self) -> f64 {
        LN_SQRT_2PI + 0.5 + 0.5 * self.variance.ln()
    }

    /// KL(self || other) in nats.
    pub fn kl(&self, other: &Self) -> f64 {
        let d = self.mean - other.mean;
        0.5 * (ln_excess(self.variance / other.variance) + d * d / other.variance)
    }

    /// Draws x.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let z: f64 = rng.sample(StandardNormal);
        self.mean + self.variance.sqrt() * z
    }
}

/// What a file holds, before the constructor has checked it; the rest is computed again, to the same bits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNormal {
    mean: f64,
    variance: f64,
}

impl TryFrom<StoredNormal> for Normal {
    type Error = ParameterError;

    fn try_from(stored: StoredNormal) -> Result<Self, ParameterError> {
        Self::new(stored.mean, stored.variance)
    }
}
