//! The normal-gamma distribution of a mean and a precision.

use super::{Gamma, ln_excess};
use crate::error::{Check, ParameterError};
use crate::special::LN_SQRT_2PI;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

/// lambda ~ Gamma(shape, rate), mu | lambda ~ N(mean, 1 / (strength lambda)).
///
/// ```
/// use npb_priors::dist::NormalGamma;
/// let q = NormalGamma::new(2.0, 4.0, 3.0, 6.0).unwrap();
/// assert_eq!(q.precision().mean(), 0.5);
/// assert_eq!(q.mean_square_deviation(3.0), 0.25 + 0.5);
/// assert_eq!(q.kl(&q), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredNormalGamma")]
pub struct NormalGamma {
    mean: f64,
    strength: f64,
    precision: Gamma,
}

impl NormalGamma {
    /// `mean`: finite; `strength` (in pseudo-observations), `shape`, `rate`: finite and positive.
    ///
    /// # Errors
    /// [`ParameterError::Value`] naming the parameter.
    pub fn new(mean: f64, strength: f64, shape: f64, rate: f64) -> Result<Self, ParameterError> {
        let check = Check("normal-gamma");
        check.finite("mean", mean)?;
        check.positive("strength", strength)?;
        check.positive("shape", shape)?;
        check.positive("rate", rate)?;
        Ok(Self {
            mean,
            strength,
            precision: Gamma::new(shape, rate)?,
        })
    }

    /// E mu.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// How many observations the mean is worth.
    pub fn strength(&self) -> f64 {
        self.strength
    }

    /// The law of lambda, whose mean and mean logarithm are E lambda and E ln lambda.
    pub fn precision(&self) -> &Gamma {
        &self.precision
    }

    /// E [lambda mu].
    pub fn mean_precision_times_mean(&self) -> f64 {
        self.precision.mean() * self.mean
    }

    /// E [lambda (x - mu)^2] = 1 / strength + (x - mean)^2 E lambda.
    pub fn mean_square_deviation(&self, x: f64) -> f64 {
        let d = x - self.mean;
        self.strength.recip() + d * d * self.precision.mean()
    }

    /// E ln N(x; mu, 1 / lambda).
    pub fn mean_ln_likelihood(&self, x: f64) -> f64 {
        0.5 * (self.precision.mean_ln() - self.mean_square_deviation(x)) - LN_SQRT_2PI
    }

    /// Log-density at (mu, lambda); minus infinity for lambda < 0.
    pub fn ln_density(&self, mu: f64, lambda: f64) -> f64 {
        let d = mu - self.mean;
        let precision = self.strength * lambda;
        self.precision.ln_density(lambda) + 0.5 * (precision.ln() - precision * d * d) - LN_SQRT_2PI
    }

    /// Entropy in nats.
    pub fn entropy(&self) -> f64 {
        self.precision.entropy()
            + LN_SQRT_2PI
            + 0.5 * (1.0 - self.strength.ln() - self.precision.mean_ln())
    }

    /// KL(self || other) in nats.
    pub fn kl(&self, other: &Self) -> f64 {
        let d = self.mean - other.mean;
        let of_mean = ln_excess(other.strength / self.strength)
            + other.strength * self.precision.mean() * d * d;
        self.precision.kl(&other.precision) + 0.5 * of_mean
    }

    /// Draws (mu, lambda).
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> (f64, f64) {
        let ln_lambda = self.precision.sample_ln(rng);
        let z: f64 = rng.sample(StandardNormal);
        let sd = (-0.5 * (self.strength.ln() + ln_lambda)).exp();
        (self.mean + sd * z, ln_lambda.exp())
    }
}

/// What a file holds, before the constructor has checked it; the rest is computed again, to the same bits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNormalGamma {
    mean: f64,
    strength: f64,
    precision: Gamma,
}

impl TryFrom<StoredNormalGamma> for NormalGamma {
    type Error = ParameterError;

    fn try_from(stored: StoredNormalGamma) -> Result<Self, ParameterError> {
        let (shape, rate) = (stored.precision.shape(), stored.precision.rate());
        Self::new(stored.mean, stored.strength, shape, rate)
    }
}
