//! The Dirichlet distribution.

use super::gamma::{ln_standard_gamma, shape_rest, unit_entropy};
use super::scaled_ln_excess;
use crate::error::{Check, ParameterError};
use crate::special::{
    LN_SQRT_2PI, digamma_difference, ln_beta, ln_gamma_rest, ln_minus_digamma, log_sum_exp,
};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Dirichlet(alpha_1, ..., alpha_K), concentrations down to 1e-300.
///
/// ```
/// use npb_priors::dist::Dirichlet;
/// use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
/// let sparse = Dirichlet::new(vec![1e-6; 4]).unwrap();
/// let mut ln_x = [0.0; 4];
/// sparse.sample_ln(&mut ln_x, &mut Xoshiro256PlusPlus::seed_from_u64(1));
/// assert!(ln_x.iter().all(|l| l.is_finite())); // although three of the four round to 0
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredDirichlet", into = "StoredDirichlet")]
pub struct Dirichlet {
    concentrations: Vec<f64>,
    total: f64,
}

impl Dirichlet {
    /// `concentrations`: at least one, each finite and positive, with a finite sum.
    ///
    /// # Errors
    /// [`ParameterError::Entry`] naming the concentration; [`ParameterError::Value`] for their number or sum.
    pub fn new(concentrations: Vec<f64>) -> Result<Self, ParameterError> {
        let check = Check("dirichlet");
        let k = concentrations.len();
        check.require(k > 0, "number of concentrations", k as f64, "at least 1")?;
        check.every("concentrations", &concentrations, "finite and > 0", |v| {
            v > 0.0 && v.is_finite()
        })?;
        let total = concentrations.iter().sum();
        check.positive("sum of concentrations", total)?;
        Ok(Self {
            concentrations,
            total,
        })
    }

    /// K equal concentrations.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn symmetric(k: usize, concentration: f64) -> Result<Self, ParameterError> {
        Self::new(vec![concentration; k])
    }

    /// K.
    pub fn dim(&self) -> usize {
        self.concentrations.len()
    }

    /// alpha.
    pub fn concentrations(&self) -> &[f64] {
        &self.concentrations
    }

    /// sum alpha_k.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// E x_k. Panics when k is out of range, as do the next two.
    pub fn mean(&self, k: usize) -> f64 {
        self.concentrations[k] / self.total
    }

    /// Var x_k.
    pub fn variance(&self, k: usize) -> f64 {
        let mean = self.mean(k);
        mean * (1.0 - mean) / (self.total + 1.0)
    }

    /// E ln x_k.
    pub fn mean_ln(&self, k: usize) -> f64 {
        let others = self.total - self.concentrations[k];
        if others > 0.0 {
            -digamma_difference(self.concentrations[k], others)
        } else {
            0.0
        }
    }

    /// Log-density (with respect to the first K - 1 coordinates) at the point with logarithms `ln_x`, which is taken to
    /// lie on the simplex. Panics when `ln_x` is not of length K.
    pub fn ln_density(&self, ln_x: &[f64]) -> f64 {
        assert_eq!(ln_x.len(), self.dim(), "a point of length K is needed");
        let powers = self
            .concentrations
            .iter()
            .zip(ln_x)
            .filter(|(a, _)| **a != 1.0);
        powers.map(|(a, l)| (a - 1.0) * l).sum::<f64>() - self.ln_normalizer()
    }

    /// sum ln Gamma(alpha_k) - ln Gamma(sum alpha), the logarithm of the multivariate beta function.
    ///
    /// Computed as a chain of [`ln_beta`], which does not cancel when concentrations are large.
    pub fn ln_normalizer(&self) -> f64 {
        let (first, rest) = self
            .concentrations
            .split_first()
            .expect("there is at least one concentration");
        let mut before = *first;
        let mut total = 0.0;
        for &a in rest {
            total += ln_beta(before, a);
            before += a;
        }
        total
    }

    /// Entropy in nats, precise for concentrations of any size.
    pub fn entropy(&self) -> f64 {
        entropy(&self.concentrations)
    }

    /// KL(self || other) in nats; panics on unequal K. Large concentrations cost no digits.
    pub fn kl(&self, other: &Self) -> f64 {
        assert_eq!(
            self.dim(),
            other.dim(),
            "equal numbers of categories are needed"
        );
        divergence(
            self.concentrations
                .iter()
                .copied()
                .zip(other.concentrations.iter().copied()),
        )
    }

    /// Draws x into `out`; panics when it is not of length K.
    pub fn sample<R: Rng + ?Sized>(&self, out: &mut [f64], rng: &mut R) {
        self.sample_ln(out, rng);
        out.iter_mut().for_each(|l| *l = l.exp());
    }

    /// Draws ln x into `out`; panics when it is not of length K.
    pub fn sample_ln<R: Rng + ?Sized>(&self, out: &mut [f64], rng: &mut R) {
        assert_eq!(out.len(), self.dim(), "room for K numbers is needed");
        for (l, &a) in out.iter_mut().zip(&self.concentrations) {
            *l = ln_standard_gamma(a, rng);
        }
        let total = log_sum_exp(out);
        out.iter_mut().for_each(|l| *l -= total);
    }
}

/// Entropy of Dirichlet(a), in Stirling's form: what grows in log-gammas and digammas is cancelled on paper. NaN in, NaN out.
pub(crate) fn entropy(a: &[f64]) -> f64 {
    let (k, s) = (a.len() as f64, a.iter().sum::<f64>());
    let of_sum =
        LN_SQRT_2PI + (k - 0.5) * s.ln() + ln_gamma_rest(s) + (s - k) * ln_minus_digamma(s);
    a.iter().map(|&a| unit_entropy(a)).sum::<f64>() - of_sum
}

/// KL(Dirichlet(a) || Dirichlet(a0)) for the pairs (a_k, a0_k).
///
/// A Dirichlet is a set of gamma variables divided by their sum. With log-gammas and digammas in Stirling's form, the parts that
/// grow with the concentrations are a sum of positive terms, and the others are small.
pub(super) fn divergence(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let sum = |total: (f64, f64), (a, a0): (f64, f64)| (total.0 + a, total.1 + a0);
    let (s, s0) = pairs.clone().fold((0.0, 0.0), sum);
    // A mean of self, in the units of other.
    let each = pairs.map(|(a, a0)| scaled_ln_excess(a / s * s0, a0) + shape_rest(a, a0));
    each.sum::<f64>() - shape_rest(s, s0)
}

/// What a file holds, before the constructor has checked it; the rest is computed again, to the same bits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDirichlet {
    concentrations: Vec<f64>,
}

impl From<Dirichlet> for StoredDirichlet {
    fn from(dirichlet: Dirichlet) -> Self {
        Self {
            concentrations: dirichlet.concentrations().to_vec(),
        }
    }
}

impl TryFrom<StoredDirichlet> for Dirichlet {
    type Error = ParameterError;

    fn try_from(stored: StoredDirichlet) -> Result<Self, ParameterError> {
        Self::new(stored.concentrations)
    }
}
