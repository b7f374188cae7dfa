//! The Beta distribution.

use super::dirichlet::{divergence, entropy};
use super::gamma::ln_standard_gamma;
use crate::error::{Check, ParameterError};
use crate::special::{beta_regularized, digamma_difference, ln_beta};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Beta(a, b): density x^(a-1) (1-x)^(b-1) / B(a, b) on 0 < x < 1.
///
/// ```
/// use npb_priors::dist::Beta;
/// use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
/// let beta = Beta::new(0.02, 1.98).unwrap();
/// let (ln_x, ln_rest) = beta.sample_ln(&mut Xoshiro256PlusPlus::seed_from_u64(1));
/// assert!(ln_x.is_finite() && ln_rest <= 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredBeta")]
pub struct Beta {
    a: f64,
    b: f64,
}

impl Beta {
    /// `a`, `b`: finite and positive.
    ///
    /// # Errors
    /// [`ParameterError::Value`] naming the parameter.
    pub fn new(a: f64, b: f64) -> Result<Self, ParameterError> {
        let check = Check("beta");
        check.positive("a", a)?;
        check.positive("b", b)?;
        check.positive("a + b", a + b)?;
        Ok(Self { a, b })
    }

    /// The first parameter.
    pub fn a(&self) -> f64 {
        self.a
    }

    /// The second parameter.
    pub fn b(&self) -> f64 {
        self.b
    }

    /// E x = a / (a + b).
    pub fn mean(&self) -> f64 {
        self.a / (self.a + self.b)
    }

    /// Var x = a b / ((a + b)^2 (a + b + 1)).
    pub fn variance(&self) -> f64 {
        let total = self.a + self.b;
        (self.a / total) * (self.b / total) / (total + 1.0)
    }

    /// E ln x.
    pub fn mean_ln(&self) -> f64 {
        -digamma_difference(self.a, self.b)
    }

    /// E ln(1 - x).
    pub fn mean_ln_rest(&self) -> f64 {
        -digamma_difference(self.b, self.a)
    }

    /// Log-density at `x`; minus infinity outside [0, 1].
    pub fn ln_density(&self, x: f64) -> f64 {
        if !(0.0..=1.0).contains(&x) {
            return if x.is_nan() { x } else { f64::NEG_INFINITY };
        }
        power_ln(self.a - 1.0, x.ln()) + power_ln(self.b - 1.0, (-x).ln_1p())
            - ln_beta(self.a, self.b)
    }

    /// P(x' <= x), to the absolute accuracy of [`beta_regularized`].
    pub fn cdf(&self, x: f64) -> f64 {
        beta_regularized(self.a, self.b, x)
    }

    /// Entropy in nats, precise for parameters of any size.
    pub fn entropy(&self) -> f64 {
        entropy(&[self.a, self.b])
    }

    /// KL(self || other) in nats. Large parameters cost no digits.
    pub fn kl(&self, other: &Self) -> f64 {
        divergence([(self.a, other.a), (self.b, other.b)].into_iter())
    }

    /// Draws x; for small parameters it may round to 0 or 1, where [`Self::sample_ln`] keeps the digits.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.sample_ln(rng).0.exp()
    }

    /// Draws (ln x, ln(1 - x)), each to full relative precision, also where x rounds to 0 or 1.
    pub fn sample_ln<R: Rng + ?Sized>(&self, rng: &mut R) -> (f64, f64) {
        let ln_odds = self.sample_ln_odds(rng);
        // The smaller of x and 1 - x is e^-|odds| / (1 + e^-|odds|).
        let ln_larger = -(-ln_odds.abs()).exp().ln_1p();
        (ln_larger + ln_odds.min(0.0), ln_larger - ln_odds.max(0.0))
    }

    /// Draws ln(x / (1 - x)), the form that loses nothing at either end.
    pub fn sample_ln_odds<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let ln_success = ln_standard_gamma(self.a, rng);
        ln_success - ln_standard_gamma(self.b, rng)
    }
}

/// power * ln_x, with 0 ln 0 = 0.
fn power_ln(power: f64, ln_x: f64) -> f64 {
    if power == 0.0 { 0.0 } else { power * ln_x }
}

/// What a file holds, before the constructor has checked it; the rest is computed again, to the same bits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBeta {
    a: f64,
    b: f64,
}

impl TryFrom<StoredBeta> for Beta {
    type Error = ParameterError;

    fn try_from(stored: StoredBeta) -> Result<Self, ParameterError> {
        Self::new(stored.a, stored.b)
    }
}
