//! The categorical distribution, given by log-weights.

use crate::error::{Check, ParameterError};
use crate::special::{ln_normalize, log_sum_exp};
use rand::{Rng, RngExt};

/// A distribution over 0..K, given by K log-weights of any common offset; minus infinity is weight 0.
///
/// ```
/// use npb_priors::dist::Categorical;
/// let c = Categorical::from_ln_weights(&[-1000.0, -1000.0 + 3f64.ln()]).unwrap();
/// assert!((c.probabilities()[1] - 0.75).abs() < 1e-12);
/// assert!(Categorical::from_ln_weights(&[f64::NEG_INFINITY]).is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Categorical {
    probabilities: Vec<f64>,
    ln_probabilities: Vec<f64>,
}

impl Categorical {
    /// `ln_weights`: not NaN, below plus infinity, not all minus infinity.
    ///
    /// # Errors
    /// [`ParameterError::Entry`] naming the weight, or [`ParameterError::Value`] when nothing has positive weight.
    pub fn from_ln_weights(ln_weights: &[f64]) -> Result<Self, ParameterError> {
        let mut probabilities = ln_weights.to_vec();
        let total = ln_normalize(&mut probabilities);
        check_ln_weights(ln_weights, total)?;
        let ln_probabilities = ln_weights.iter().map(|w| w - total).collect();
        Ok(Self {
            probabilities,
            ln_probabilities,
        })
    }

    /// The normalised probabilities.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// ln P(x); panics when `x` is not below K.
    pub fn ln_density(&self, x: usize) -> f64 {
        self.ln_probabilities[x]
    }

    /// Entropy in nats.
    pub fn entropy(&self) -> f64 {
        -self.terms(|_, l| l)
    }

    /// KL(self || other) in nats, infinite when `other` excludes what `self` allows; panics on unequal K.
    pub fn kl(&self, other: &Self) -> f64 {
        assert_eq!(
            self.probabilities.len(),
            other.probabilities.len(),
            "equal numbers of categories are needed"
        );
        self.terms(|k, l| l - other.ln_probabilities[k])
    }

    /// sum p_k f(k, ln p_k) over the categories with positive probability.
    fn terms(&self, f: impl Fn(usize, f64) -> f64) -> f64 {
        let pairs = self.probabilities.iter().zip(&self.ln_probabilities);
        pairs
            .enumerate()
            .filter(|(_, (p, _))| **p > 0.0)
            .map(|(k, (p, l))| p * f(k, *l))
            .sum()
    }

    /// Draws a category by one uniform. Cost: K.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        pick(self.probabilities.iter().copied(), rng.random()).unwrap_or(0)
    }
}

/// Draws an index with probability proportional to exp(`ln_weights`), without allocating: for weights used once.
///
/// Cost: 2 K exponentials.
///
/// # Errors
/// As [`Categorical::from_ln_weights`].
pub fn sample_ln_weights<R: Rng + ?Sized>(
    ln_weights: &[f64],
    rng: &mut R,
) -> Result<usize, ParameterError> {
    let total = log_sum_exp(ln_weights);
    check_ln_weights(ln_weights, total)?;
    let weights = ln_weights.iter().map(|w| (w - total).exp());
    Ok(pick(weights, rng.random()).unwrap_or(0))
}

/// The first position at which the running sum of `weights` exceeds `u`; the last of positive weight when rounding leaves the
/// sum below, `None` when there is none.
///
/// With `u` uniform from 0 to the sum of the weights this is a draw by weight, from one number that may serve several questions.
///
/// ```
/// use npb_priors::dist::pick;
/// assert_eq!(pick([0.25, 0.0, 0.5, 0.25], 0.3), Some(2));
/// assert_eq!(pick([0.5, 0.5, 0.0], 1.0), Some(1));
/// assert_eq!(pick([0.0, 0.0], 0.0), None);
/// ```
#[inline(always)] // Inside the loops over rows of samplers, some of which are compiled for wider vectors.
pub fn pick(weights: impl IntoIterator<Item = f64>, u: f64) -> Option<usize> {
    let mut left = u;
    let mut last = None;
    for (k, weight) in weights.into_iter().enumerate() {
        if weight > 0.0 {
            last = Some(k);
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

/// `total` is their log-sum-exp: finite exactly when the weights can be normalised.
fn check_ln_weights(ln_weights: &[f64], total: f64) -> Result<(), ParameterError> {
    let check = Check("categorical");
    check.every("log-weight", ln_weights, "a number below +infinity", |w| {
        w < f64::INFINITY
    })?;
    check.require(
        total.is_finite(),
        "log of the total weight",
        total,
        "finite: at least one weight must be positive",
    )
}
