//! The Bernoulli distribution, known by its probability or by its log-odds.

use crate::error::{Check, ParameterError};
use crate::special::ln_add_exp;
use rand::{Rng, RngExt};

/// Bernoulli(p), with ln p and ln(1 - p) kept apart so that neither tail rounds away.
///
/// ```
/// use npb_priors::dist::Bernoulli;
/// let switch = Bernoulli::from_ln_odds(100.0).unwrap();
/// assert_eq!(switch.ln_density(true), -(-100f64).exp());
/// assert!((switch.ln_density(false) + 100.0).abs() < 1e-13);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bernoulli {
    p: f64,
    ln_p: f64,
    ln_q: f64,
}

impl Bernoulli {
    /// `p`: between 0 and 1, both allowed.
    ///
    /// # Errors
    /// [`ParameterError::Value`] when `p` is not a probability.
    pub fn new(p: f64) -> Result<Self, ParameterError> {
        Check("bernoulli").require((0.0..=1.0).contains(&p), "p", p, "between 0 and 1")?;
        Ok(Self {
            p,
            ln_p: p.ln(),
            ln_q: (-p).ln_1p(),
        })
    }

    /// `ln_odds`: ln(p / (1 - p)); infinities mean certainty.
    ///
    /// # Errors
    /// [`ParameterError::Value`] when it is NaN.
    pub fn from_ln_odds(ln_odds: f64) -> Result<Self, ParameterError> {
        Check("bernoulli").require(!ln_odds.is_nan(), "log-odds", ln_odds, "a number")?;
        let ln_p = if ln_odds == f64::INFINITY {
            0.0
        } else {
            -ln_add_exp(0.0, -ln_odds)
        };
        let ln_q = if ln_odds == f64::NEG_INFINITY {
            0.0
        } else {
            -ln_add_exp(0.0, ln_odds)
        };
        Ok(Self {
            p: ln_p.exp(),
            ln_p,
            ln_q,
        })
    }

    /// P(x) = p.
    pub fn mean(&self) -> f64 {
        self.p
    }

    /// p (1 - p).
    pub fn variance(&self) -> f64 {
        self.p * self.ln_q.exp()
    }

    /// ln p or ln(1 - p).
    pub fn ln_density(&self, x: bool) -> f64 {
        if x { self.ln_p } else { self.ln_q }
    }

    /// Entropy in nats.
    pub fn entropy(&self) -> f64 {
        -[self.ln_p, self.ln_q]
            .into_iter()
            .filter(|l| l.is_finite())
            .map(|l| l.exp() * l)
            .sum::<f64>()
    }

    /// KL(self || other) in nats; infinite when `other` excludes what `self` allows.
    pub fn kl(&self, other: &Self) -> f64 {
        [(self.ln_p, other.ln_p), (self.ln_q, other.ln_q)]
            .into_iter()
            .filter(|(q, _)| q.is_finite())
            .map(|(q, p)| match p {
                // Also where the probability of `self` underflows.
                f64::NEG_INFINITY => f64::INFINITY,
                _ => q.exp() * (q - p),
            })
            .sum()
    }

    /// Draws x.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> bool {
        rng.random::<f64>() < self.p
    }
}
