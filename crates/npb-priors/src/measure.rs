//! What the random measures share: gamma hyperpriors of concentrations, their variational factor, and draws in log space.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use crate::dist::{Beta, Gamma};
use crate::error::ParameterError;
use crate::special::{digamma, digamma_difference};

/// A Gamma(shape, rate) hyperprior of a concentration parameter, as plain data for configurations.
///
/// Mean shape / rate, variance shape / rate². It is checked by whatever takes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GammaPrior {
    /// Shape, finite and positive.
    pub shape: f64,
    /// Rate (not scale), finite and positive.
    pub rate: f64,
}

impl GammaPrior {
    /// Checks that both parameters are finite and positive.
    ///
    /// # Errors
    /// [`ParameterError::Value`] names the one that is not.
    pub fn validate(&self) -> Result<(), ParameterError> {
        Gamma::new(self.shape, self.rate).map(|_| ())
    }
}

/// A variational Gamma factor q(α) = Gamma(shape, rate) of a concentration with its Gamma hyperprior.
///
/// The sticks it governs have V ~ Beta(1, α); each adds 1 to the shape and −⟨ln(1 − V)⟩ to the rate.
///
/// ```
/// use npb_priors::{GammaPrior, dp::ConcentrationFactor};
///
/// let mut alpha = ConcentrationFactor::new(GammaPrior { shape: 1.0, rate: 0.5 })?;
/// assert_eq!((alpha.mean(), alpha.elbo()), (2.0, 0.0));
/// alpha.update(4, -2.5);                              // four sticks, Σ⟨ln(1 − V)⟩ = −2.5
/// assert_eq!((alpha.shape(), alpha.rate()), (5.0, 3.0));
/// assert!(alpha.elbo() < 0.0);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
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
    type Error = ParameterError;

    fn try_from(
        ConcentrationWire { prior, shape, rate }: ConcentrationWire,
    ) -> Result<Self, ParameterError> {
        prior.validate()?;
        Gamma::new(shape, rate)?;
        Ok(Self { prior, shape, rate })
    }
}

impl ConcentrationFactor {
    /// A factor that equals its prior.
    ///
    /// # Errors
    /// When the prior's shape or rate is not finite and positive.
    pub fn new(prior: GammaPrior) -> Result<Self, ParameterError> {
        prior.validate()?;
        Ok(Self {
            prior,
            shape: prior.shape,
            rate: prior.rate,
        })
    }

    /// The exact coordinate update given `n_sticks` sticks with `sum_ln` = Σ⟨ln(1 − V)⟩ ≤ 0.
    ///
    /// Source: W, sections 3.5 and 4.3: τ₁ = τ₁₀ + number of sticks, τ₂ = τ₂₀ − Σ⟨ln(1 − V)⟩.
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
        digamma(self.shape) - self.rate.ln()
    }

    /// ⟨ln p(α)⟩ − ⟨ln q(α)⟩ = −KL(q ‖ prior), its part of the evidence lower bound. NaN after an update with NaN.
    pub fn elbo(&self) -> f64 {
        let gammas = (
            Gamma::new(self.shape, self.rate),
            Gamma::new(self.prior.shape, self.prior.rate),
        );
        if let (Ok(q), Ok(prior)) = gammas {
            -q.kl(&prior)
        } else {
            f64::NAN
        }
    }
}

/// ⟨ln V⟩ under V ~ Beta(a, b), to small relative error at any a and b; NaN in, NaN out.
pub(crate) fn mean_ln([a, b]: [f64; 2]) -> f64 {
    -digamma_difference(a, b)
}

/// ⟨ln(1 − V)⟩ under V ~ Beta(a, b), likewise.
pub(crate) fn mean_ln_rest([a, b]: [f64; 2]) -> f64 {
    -digamma_difference(b, a)
}

/// Draws a unit exponential.
pub(crate) fn sample_exp<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    rng.sample(rand_distr::Exp1)
}

/// Draws a concentration ~ Gamma(shape, rate), kept within the positive numbers where it would underflow or overflow.
///
/// Panics if a parameter is not finite and positive.
pub(crate) fn sample_concentration<R: Rng + ?Sized>(shape: f64, rate: f64, rng: &mut R) -> f64 {
    let gamma = Gamma::new(shape, rate).expect("a hyperprior that passes `validate`");
    gamma
        .sample_ln(rng)
        .exp()
        .clamp(f64::MIN_POSITIVE, f64::MAX)
}

/// Draws ln V with V ~ Beta(a, b), to full relative accuracy also where V rounds to 1.
///
/// Panics if a parameter is not finite and positive.
pub(crate) fn sample_ln_beta<R: Rng + ?Sized>(a: f64, b: f64, rng: &mut R) -> f64 {
    stick(a, b).sample_ln(rng).0
}

/// Beta(a, b), for parameters that are a prior's plus counts.
pub(crate) fn stick(a: f64, b: f64) -> Beta {
    Beta::new(a, b).expect("parameters of a stick are positive")
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::reference::{BETA_REFERENCE, GAMMA_KL_REFERENCE};
    use super::*;
    use crate::dist::dirichlet_entropy;
    use crate::special::ln_gamma;

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
            close(mean_ln([a, b]), ln_v);
            close(mean_ln_rest([a, b]), ln_rest);
            let scale = 1.0 + a.ln().abs() + b.ln().abs() + 1.0 / a + 1.0 / b;
            assert!(
                (dirichlet_entropy(&[a, b]) - entropy).abs() <= 4e-15 * scale,
                "a {a:e} b {b:e}"
            );
        }
    }

    #[test]
    fn the_plain_formulas_would_fail() {
        let far = |found: f64, expected: f64| (found - expected).abs() > 1e-6 * expected.abs();
        assert!(
            BETA_REFERENCE
                .iter()
                .any(|&(a, b, ln_v, ..)| far(digamma(a) - digamma(a + b), ln_v))
        );
        assert!(
            BETA_REFERENCE
                .iter()
                .any(|&(a, b, ln_v, ln_rest, entropy)| {
                    let ln_beta = ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
                    far(ln_beta - (a - 1.0) * ln_v - (b - 1.0) * ln_rest, entropy)
                })
        );
    }

    #[test]
    fn the_concentration_bound_agrees_with_long_arithmetic() {
        for &(shape, rate, shape0, rate0, kl) in GAMMA_KL_REFERENCE {
            let factor = ConcentrationFactor {
                prior: GammaPrior {
                    shape: shape0,
                    rate: rate0,
                },
                shape,
                rate,
            };
            assert!(
                (factor.elbo() + kl).abs() <= 1e-13 * (1.0 + kl.abs() + shape0.ln().abs()),
                "{shape} {rate} {kl:e}"
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
            assert!(err.to_string().starts_with("gamma: rate = "), "{err}");
        }
    }
}
