//! The Gamma distribution, (shape, rate).

use super::scaled_ln_excess;
use crate::error::{Check, ParameterError};
use crate::special::{
    LN_SQRT_2PI, digamma, gamma_lower_regularized, ln_gamma, ln_gamma_rest, ln_minus_digamma,
};
use rand::{Rng, RngExt};
use rand_distr::Exp1;
use serde::{Deserialize, Serialize};

/// Gamma(shape a, rate b): density b^a x^(a-1) e^(-bx) / Gamma(a) on x > 0.
///
/// ```
/// use npb_priors::dist::Gamma;
/// use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
/// let prior = Gamma::new(1e-8, 1.0).unwrap();
/// let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// assert!(prior.sample_ln(&mut rng).is_finite()); // the draw itself would underflow
/// assert!(Gamma::new(f64::NAN, 1.0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredGamma")]
pub struct Gamma {
    shape: f64,
    rate: f64,
}

impl Gamma {
    /// `shape`, `rate`: finite and positive.
    ///
    /// # Errors
    /// [`ParameterError::Value`] naming the parameter.
    pub fn new(shape: f64, rate: f64) -> Result<Self, ParameterError> {
        let check = Check("gamma");
        check.positive("shape", shape)?;
        check.positive("rate", rate)?;
        Ok(Self { shape, rate })
    }

    /// The shape a.
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// The rate b.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// E x = a / b.
    pub fn mean(&self) -> f64 {
        self.shape / self.rate
    }

    /// Var x = a / b^2.
    pub fn variance(&self) -> f64 {
        self.shape / self.rate / self.rate
    }

    /// E ln x = digamma(a) - ln b.
    pub fn mean_ln(&self) -> f64 {
        digamma(self.shape) - self.rate.ln()
    }

    /// Log-density at `x`; minus infinity for x < 0.
    pub fn ln_density(&self, x: f64) -> f64 {
        if x < 0.0 {
            f64::NEG_INFINITY
        } else {
            self.ln_density_at_ln(x.ln()) - x.ln()
        }
    }

    /// Log-density of ln x (not of x) at `ln_x`: usable where x itself underflows.
    pub fn ln_density_at_ln(&self, ln_x: f64) -> f64 {
        let ln_bx = self.rate.ln() + ln_x;
        self.shape * ln_bx - ln_bx.exp() - ln_gamma(self.shape)
    }

    /// P(x' <= x), to the absolute accuracy of [`gamma_lower_regularized`].
    pub fn cdf(&self, x: f64) -> f64 {
        gamma_lower_regularized(self.shape, self.rate * x)
    }

    /// Entropy in nats, with full absolute precision for any shape.
    pub fn entropy(&self) -> f64 {
        unit_entropy(self.shape) - self.rate.ln()
    }

    /// KL(self || other) in nats.
    ///
    /// Large shapes cost no digits: what is computed grows with the distance of the means, not with the shapes.
    pub fn kl(&self, other: &Self) -> f64 {
        rate_ratio_kl(self.shape, other.shape, other.rate / self.rate)
    }

    /// Draws x; may underflow to 0 for shapes below about 0.01, where [`Self::sample_ln`] does not.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        if self.shape < 1.0 {
            self.sample_ln(rng).exp()
        } else {
            standard_gamma(self.shape, rng) / self.rate
        }
    }

    /// Draws ln x, finite for any shape.
    pub fn sample_ln<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        ln_standard_gamma(self.shape, rng) - self.rate.ln()
    }
}

/// Entropy of Gamma(a, 1). In Stirling's form, as all that follows: what grows in ln Gamma and digamma is cancelled on paper.
pub(super) fn unit_entropy(a: f64) -> f64 {
    0.5 * a.ln() + LN_SQRT_2PI + ln_gamma_rest(a) + (a - 1.0) * ln_minus_digamma(a)
}

/// KL(Gamma(a, 1) || Gamma(a0, ratio)): a0 times the excess of the ratio of the means, and what depends on the shapes alone.
pub(super) fn rate_ratio_kl(a: f64, a0: f64, ratio: f64) -> f64 {
    scaled_ln_excess(a * ratio, a0) + shape_rest(a, a0)
}

/// What Stirling's form leaves of the shapes in a divergence: of size ln(a / a0) when both are large, 0 when they are equal.
pub(super) fn shape_rest(a: f64, a0: f64) -> f64 {
    if a == a0 {
        return 0.0;
    }
    0.5 * (a.ln() - a0.ln()) + ln_gamma_rest(a0) - ln_gamma_rest(a) + (a0 - a) * ln_minus_digamma(a)
}

/// Draws from Gamma(shape, 1), shape >= 1.
pub(super) fn standard_gamma<R: Rng + ?Sized>(shape: f64, rng: &mut R) -> f64 {
    let gamma = rand_distr::Gamma::new(shape, 1.0).expect("the shape was checked at construction");
    rng.sample(gamma)
}

/// Draws the logarithm of a Gamma(shape, 1) variable: below shape 1 as that of shape + 1, minus an exponential over shape.
pub(super) fn ln_standard_gamma<R: Rng + ?Sized>(shape: f64, rng: &mut R) -> f64 {
    if shape < 1.0 {
        standard_gamma(shape + 1.0, rng).ln() - rng.sample::<f64, _>(Exp1) / shape
    } else {
        standard_gamma(shape, rng).ln()
    }
}

/// What a file holds, before the constructor has checked it; the rest is computed again, to the same bits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredGamma {
    shape: f64,
    rate: f64,
}

impl TryFrom<StoredGamma> for Gamma {
    type Error = ParameterError;

    fn try_from(stored: StoredGamma) -> Result<Self, ParameterError> {
        Self::new(stored.shape, stored.rate)
    }
}
