//! What the random measures share: gamma hyperpriors, typed errors, and expectations under
//! variational Beta and Gamma factors that stay exact when counts are huge.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use statrs::function::gamma::{digamma, ln_gamma};

/// Why the parameters of a random measure were refused.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A number is outside its range (NaN is outside every range).
    #[error("{name} = {value}: must be {rule}")]
    Parameter {
        /// Which parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// A truncation level, a number of groups or of columns is too small.
    #[error("{name} = {value}: must be at least {least}")]
    TooSmall {
        /// Which size.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The smallest value that works.
        least: usize,
    },
    /// Parts of a decoded factor do not fit together.
    #[error("{name} has length {found}, expected {expected}: the saved factor is damaged")]
    Length {
        /// Which part.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length that fits.
        expected: usize,
    },
}

/// `value` if it is finite and positive; written so that NaN fails.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, MeasureError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(MeasureError::Parameter {
            name,
            value,
            rule: "finite and > 0",
        })
    }
}

/// `value` if it is at least `least`.
pub(crate) fn at_least(
    name: &'static str,
    value: usize,
    least: usize,
) -> Result<usize, MeasureError> {
    if value >= least {
        Ok(value)
    } else {
        Err(MeasureError::TooSmall { name, value, least })
    }
}

/// A Gamma(shape, rate) hyperprior of a concentration parameter, as plain data.
///
/// Mean shape / rate, variance shape / rate². It is checked by whatever takes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GammaPrior {
    /// Shape, positive.
    pub shape: f64,
    /// Rate (not scale), positive.
    pub rate: f64,
}

impl GammaPrior {
    /// Checks that both parameters are finite and positive.
    ///
    /// # Errors
    /// [`MeasureError::Parameter`] names the one that is not.
    pub fn validate(&self) -> Result<(), MeasureError> {
        positive("shape", self.shape)?;
        positive("rate", self.rate)?;
        Ok(())
    }
}

/// ½ ln 2π.
const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;

/// From here on the Stirling series below are exact to the last bits.
const STIRLING_FROM: f64 = 16.0;

/// ln Γ(x) − (x − ½) ln x + x − ½ ln 2π for x > 0, the part of ln Γ that does not grow.
fn stirling_remainder(x: f64) -> f64 {
    if x < STIRLING_FROM {
        return ln_gamma(x) - (x - 0.5) * x.ln() + x - HALF_LN_TAU;
    }
    let r = 1.0 / x;
    let s = r * r;
    r * (1.0 / 12.0
        - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0)))))
}

/// ln x − ψ(x) for x > 0: about 1/x for small x, 1/(2x) for large x, always positive.
fn ln_minus_digamma(x: f64) -> f64 {
    if x < STIRLING_FROM {
        return x.ln() - digamma(x);
    }
    let r = 1.0 / x;
    let s = r * r;
    r * (0.5
        + r * (1.0 / 12.0
            - s * (1.0 / 120.0 - s * (1.0 / 252.0 - s * (1.0 / 240.0 - s * (1.0 / 132.0))))))
}

/// ln Γ(x + n) − ln Γ(x) = ln (x (x+1) ... (x+n−1)), x > 0, without cancellation.
pub(crate) fn ln_rising(x: f64, n: usize) -> f64 {
    if n <= 16 {
        return (0..n).map(|i| (x + i as f64).ln()).sum();
    }
    // The first factors one by one, so that the series are used where they hold.
    let mut head = 0.0;
    let (mut x, mut left) = (x, n as f64);
    while x < STIRLING_FROM {
        head += x.ln();
        x += 1.0;
        left -= 1.0;
    }
    let y = x + left;
    head + (x - 0.5) * (left / x).ln_1p() + left * (y.ln() - 1.0) + stirling_remainder(y)
        - stirling_remainder(x)
}

/// The expectations ⟨ln V⟩ and ⟨ln(1 − V)⟩ under V ~ Beta(a, b), a, b > 0.
///
/// ψ(a) − ψ(a+b) and ψ(b) − ψ(a+b), but with small *relative* error also where the two digammas
/// agree in almost all digits (a of 1e12, say): a model multiplies them by counts of that size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BetaLogs {
    /// ⟨ln V⟩.
    pub(crate) ln_v: f64,
    /// ⟨ln(1 − V)⟩.
    pub(crate) ln_rest: f64,
}

impl BetaLogs {
    pub(crate) fn new([a, b]: [f64; 2]) -> Self {
        let sum = ln_minus_digamma(a + b);
        Self {
            ln_v: -(b / a).ln_1p() - (ln_minus_digamma(a) - sum),
            ln_rest: -(a / b).ln_1p() - (ln_minus_digamma(b) - sum),
        }
    }
}

/// Differential entropy of Beta(a, b): the growing parts of ln Γ and ψ cancel on paper, not in f64.
pub(crate) fn beta_entropy([a, b]: [f64; 2]) -> f64 {
    let s = a + b;
    HALF_LN_TAU
        + 0.5 * (a.ln() + b.ln() - 3.0 * s.ln())
        + stirling_remainder(a)
        + stirling_remainder(b)
        - stirling_remainder(s)
        + (a - 1.0) * ln_minus_digamma(a)
        + (b - 1.0) * ln_minus_digamma(b)
        - (s - 2.0) * ln_minus_digamma(s)
}

/// KL(Gamma(shape, rate) ‖ prior), in the same cancellation-free form.
fn gamma_kl(shape: f64, rate: f64, prior: GammaPrior) -> f64 {
    let GammaPrior {
        shape: shape0,
        rate: rate0,
    } = prior;
    (0.5 - shape0) * shape.ln()
        - (shape - shape0) * ln_minus_digamma(shape)
        - HALF_LN_TAU
        - stirling_remainder(shape)
        + ln_gamma(shape0)
        + shape0 * (rate / rate0).ln()
        + shape * (rate0 / rate)
}

/// A variational Gamma factor of a concentration parameter with its Gamma hyperprior.
///
/// q(α) = Gamma(shape, rate); the sticks it governs are 1 − V ~ Beta(α, 1) or, for the Indian
/// buffet process, V ~ Beta(α, 1); each adds 1 to the shape and −⟨ln ·⟩ to the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ConcentrationWire")]
pub struct ConcentrationFactor {
    prior: GammaPrior,
    shape: f64,
    rate: f64,
}

#[derive(Deserialize)]
struct ConcentrationWire {
    prior: GammaPrior,
    shape: f64,
    rate: f64,
}

impl TryFrom<ConcentrationWire> for ConcentrationFactor {
    type Error = MeasureError;

    fn try_from(wire: ConcentrationWire) -> Result<Self, MeasureError> {
        let mut factor = Self::new(wire.prior)?;
        factor.shape = positive("shape", wire.shape)?;
        factor.rate = positive("rate", wire.rate)?;
        Ok(factor)
    }
}

impl ConcentrationFactor {
    /// A factor that equals its prior.
    ///
    /// # Errors
    /// When the prior's shape or rate is not finite and positive.
    pub fn new(prior: GammaPrior) -> Result<Self, MeasureError> {
        prior.validate()?;
        Ok(Self {
            prior,
            shape: prior.shape,
            rate: prior.rate,
        })
    }

    /// The exact coordinate update given `n_sticks` sticks with `sum_ln` = Σ⟨ln(1 − V)⟩ ≤ 0.
    ///
    /// Source: W (3.5 and 4.3): τ₁ = τ₁₀ + number of sticks, τ₂ = τ₂₀ − Σ⟨ln(1 − V)⟩.
    pub fn update(&mut self, n_sticks: usize, sum_ln: f64) {
        self.shape = self.prior.shape + n_sticks as f64;
        self.rate = self.prior.rate - sum_ln;
    }

    /// The hyperprior.
    pub fn prior(&self) -> GammaPrior {
        self.prior
    }

    /// Shape of q(α).
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// Rate of q(α).
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// ⟨α⟩ = shape / rate.
    pub fn mean(&self) -> f64 {
        self.shape / self.rate
    }

    /// ⟨ln α⟩ = ψ(shape) − ln rate.
    pub fn mean_ln(&self) -> f64 {
        (self.shape / self.rate).ln() - ln_minus_digamma(self.shape)
    }

    /// ⟨ln p(α)⟩ − ⟨ln q(α)⟩ = −KL(q ‖ prior), its part of the evidence lower bound.
    pub fn elbo(&self) -> f64 {
        -gamma_kl(self.shape, self.rate, self.prior)
    }
}

/// Draws a unit exponential.
pub(crate) fn sample_exp<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    rng.sample(rand_distr::Exp1)
}

/// Draws ln x with x ~ Gamma(shape, 1); a shape of 1e-8, where x itself underflows, is fine.
pub(crate) fn sample_ln_gamma<R: Rng + ?Sized>(shape: f64, rng: &mut R) -> f64 {
    let boosted = if shape < 1.0 { shape + 1.0 } else { shape };
    let draw: f64 =
        rng.sample(rand_distr::Gamma::new(boosted, 1.0).expect("shape is positive and finite"));
    if shape < 1.0 {
        draw.ln() - sample_exp(rng) / shape
    } else {
        draw.ln()
    }
}

/// Draws a concentration ~ Gamma(shape, rate), kept above 0 where it would underflow.
pub(crate) fn sample_gamma<R: Rng + ?Sized>(shape: f64, rate: f64, rng: &mut R) -> f64 {
    (sample_ln_gamma(shape, rng) - rate.ln())
        .exp()
        .max(f64::MIN_POSITIVE)
}

/// Draws (V, 1 − V) with V ~ Beta(a, b), each to full relative accuracy.
pub(crate) fn sample_beta_pair<R: Rng + ?Sized>(a: f64, b: f64, rng: &mut R) -> (f64, f64) {
    let ln_odds = sample_ln_gamma(a, rng) - sample_ln_gamma(b, rng);
    (1.0 / (1.0 + (-ln_odds).exp()), 1.0 / (1.0 + ln_odds.exp()))
}

/// Draws ln V with V ~ Beta(a, b), to full relative accuracy also where V rounds to 0 or 1.
pub(crate) fn sample_ln_beta<R: Rng + ?Sized>(a: f64, b: f64, rng: &mut R) -> f64 {
    let ln_inverse_odds = sample_ln_gamma(b, rng) - sample_ln_gamma(a, rng);
    -ln_inverse_odds.max(0.0) - (-ln_inverse_odds.abs()).exp().ln_1p()
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::reference::{BETA_REFERENCE, GAMMA_KL_REFERENCE, LN_RISING_REFERENCE};
    use super::*;

    fn close(found: f64, expected: f64) {
        let tolerance = 1e-13 * expected.abs() + 1e-15;
        assert!(
            (found - expected).abs() <= tolerance,
            "{found:e} is not {expected:e}"
        );
    }

    #[test]
    fn beta_expectations_keep_their_digits_at_huge_counts() {
        for &(a, b, ln_v, ln_rest, entropy) in BETA_REFERENCE {
            let logs = BetaLogs::new([a, b]);
            close(logs.ln_v, ln_v);
            close(logs.ln_rest, ln_rest);
            let scale = 1.0 + a.ln().abs() + b.ln().abs() + 1.0 / a + 1.0 / b;
            assert!(
                (beta_entropy([a, b]) - entropy).abs() <= 4e-15 * scale,
                "a {a:e} b {b:e}"
            );
        }
    }

    #[test]
    fn the_plain_digamma_difference_would_fail() {
        let wrong = BETA_REFERENCE.iter().any(|&(a, b, ln_v, ..)| {
            let plain = digamma(a) - digamma(a + b);
            (plain - ln_v).abs() > 1e-6 * ln_v.abs()
        });
        assert!(wrong);
    }

    #[test]
    fn gamma_divergence_agrees_with_long_arithmetic() {
        for &(shape, rate, shape0, rate0, kl) in GAMMA_KL_REFERENCE {
            let found = gamma_kl(
                shape,
                rate,
                GammaPrior {
                    shape: shape0,
                    rate: rate0,
                },
            );
            assert!(
                (found - kl).abs() <= 1e-13 * (1.0 + kl.abs() + shape0.ln().abs()),
                "{found:e} is not {kl:e}"
            );
        }
    }

    #[test]
    fn rising_factorials_agree_with_long_arithmetic() {
        for &(x, n, expected) in LN_RISING_REFERENCE {
            let found = ln_rising(x, n);
            assert!(
                (found - expected).abs() <= 2e-14 * (1.0 + expected.abs()),
                "x {x:e} n {n}: {found:e}"
            );
        }
    }

    #[test]
    fn refuses_what_is_not_positive() {
        for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            assert!(
                GammaPrior {
                    shape: bad,
                    rate: 1.0
                }
                .validate()
                .is_err()
            );
            let err = GammaPrior {
                shape: 1.0,
                rate: bad,
            }
            .validate()
            .unwrap_err();
            assert!(err.to_string().starts_with("rate = "));
        }
    }
}
