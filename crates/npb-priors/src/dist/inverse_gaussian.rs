//! The inverse Gaussian distribution.

use crate::error::{Check, ParameterError};
use crate::special::{LN_SQRT_2PI, ln_phi, normal_cdf};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// Inverse Gaussian with mean mu and shape lambda: density sqrt(lambda / (2 pi x^3)) exp(-lambda (x - mu)^2 / (2 mu^2 x)).
///
/// The mean may be plus infinity, the limit in which it is the law of lambda / z^2 for a standard normal z: what a Bayesian
/// lasso asks for when a weight is 0.
///
/// ```
/// use npb_priors::dist::InverseGaussian;
/// use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
/// let huge = InverseGaussian::new(1e300, 2.0).unwrap();
/// assert!(huge.sample(&mut Xoshiro256PlusPlus::seed_from_u64(1)) > 0.0); // the textbook root gives 0 or NaN
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InverseGaussian {
    mean: f64,
    shape: f64,
}

impl InverseGaussian {
    /// `mean`: positive, plus infinity allowed; `shape`: finite and positive.
    ///
    /// # Errors
    /// [`ParameterError::Value`] naming the parameter.
    pub fn new(mean: f64, shape: f64) -> Result<Self, ParameterError> {
        let check = Check("inverse gaussian");
        check.require(mean > 0.0, "mean", mean, "> 0")?;
        check.positive("shape", shape)?;
        Ok(Self { mean, shape })
    }

    /// E x = mu.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// lambda.
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// Var x = mu^3 / lambda.
    pub fn variance(&self) -> f64 {
        self.mean * (self.mean / self.shape) * self.mean
    }

    /// E 1/x = 1/mu + 1/lambda.
    pub fn mean_inverse(&self) -> f64 {
        self.mean.recip() + self.shape.recip()
    }

    /// Log-density at `x`; minus infinity for x <= 0.
    pub fn ln_density(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return f64::NEG_INFINITY;
        }
        // (x - mu)^2 / (mu^2 x), with an infinite mean allowed.
        let d = x / self.mean - 1.0;
        0.5 * (self.shape.ln() - 3.0 * x.ln() - self.shape * d * d / x) - LN_SQRT_2PI
    }

    /// P(x' <= x).
    pub fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        let root = (self.shape / x).sqrt();
        let ratio = x / self.mean;
        let reflected = 2.0 * self.shape / self.mean + ln_phi(-root * (ratio + 1.0));
        (normal_cdf(root * (ratio - 1.0)) + reflected.exp()).min(1.0)
    }

    /// Draws x.
    ///
    /// Source: Michael, Schucany and Haas (1976), The American Statistician 30, with the smaller root written as the
    /// reciprocal of a sum of positive terms; the textbook difference loses all digits when mu z^2 / lambda is large.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let z: f64 = rng.sample(StandardNormal);
        let half = 0.5 * z * z / self.shape;
        let inverse_mean = self.mean.recip();
        let root = half.sqrt() * (half + 2.0 * inverse_mean).sqrt();
        // The minimum matters for z = 0 and an infinite mean only.
        let small = (inverse_mean + half + root).recip().min(f64::MAX);
        let ratio = small * inverse_mean;
        if rng.random::<f64>() * (1.0 + ratio) <= 1.0 {
            small
        } else {
            self.mean / ratio
        }
    }
}
