//! Truncated variational sticks and draws of truncated weights.

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::dist::dirichlet_entropy;
use crate::error::{Check, ParameterError};
use crate::measure::{
    ConcentrationFactor, GammaPrior, mean_ln, mean_ln_rest, sample_concentration, sample_exp, stick,
};

const CHECK: Check = Check("Dirichlet process");

/// Variational posterior of one truncated set of sticks: q(V_h) = Beta(v_h1, v_h2), V_N = 1.
///
/// A truncation level of N has N − 1 free sticks and N weights; N = 1 works and has weight 1.
///
/// ```
/// use npb_priors::dp::Sticks;
///
/// let mut sticks = Sticks::new(3, 1.0)?;
/// sticks.update(&[6.0, 3.0, 0.0], 1.0);
/// assert_eq!(sticks.parameters(), [[7.0, 4.0], [4.0, 1.0]]);
/// assert!((sticks.expected_weights()[0] - 7.0 / 11.0).abs() < 1e-15);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SticksWire")]
pub struct Sticks {
    parameters: Vec<[f64; 2]>,
}

#[derive(Deserialize)]
struct SticksWire {
    parameters: Vec<[f64; 2]>,
}

impl TryFrom<SticksWire> for Sticks {
    type Error = ParameterError;

    fn try_from(wire: SticksWire) -> Result<Self, ParameterError> {
        for &[a, b] in &wire.parameters {
            CHECK.positive("v_h1", a)?;
            CHECK.positive("v_h2", b)?;
        }
        Ok(Self {
            parameters: wire.parameters,
        })
    }
}

impl Sticks {
    /// Sticks at Beta(1, `alpha`), `truncation` weights.
    ///
    /// # Errors
    /// `truncation` = 0, or `alpha` not finite and positive.
    pub fn new(truncation: usize, alpha: f64) -> Result<Self, ParameterError> {
        CHECK.require(
            truncation >= 1,
            "truncation",
            truncation as f64,
            "at least 1",
        )?;
        CHECK.positive("alpha", alpha)?;
        Ok(Self {
            parameters: vec![[1.0, alpha]; truncation - 1],
        })
    }

    /// Number of weights N.
    pub fn truncation(&self) -> usize {
        self.parameters.len() + 1
    }

    /// The parameters (v_h1, v_h2) of the N − 1 free sticks.
    pub fn parameters(&self) -> &[[f64; 2]] {
        &self.parameters
    }

    /// The exact coordinate update: v_h1 = 1 + N_h, v_h2 = ⟨α⟩ + Σ_{l>h} N_l. Cost O(N).
    ///
    /// `counts`: expected number of items in each of the N components, all ≥ 0.
    /// Source: W (3.5, update of V). Panics if `counts.len()` is not the truncation level.
    pub fn update(&mut self, counts: &[f64], alpha_mean: f64) {
        assert_eq!(counts.len(), self.truncation(), "one count per weight");
        let mut later = 0.0;
        for (h, stick) in self.parameters.iter_mut().enumerate().rev() {
            later += counts[h + 1];
            *stick = [1.0 + counts[h], alpha_mean + later];
        }
    }

    /// Σ_h ⟨ln(1 − V_h)⟩ over the free sticks, what the concentration's update needs.
    pub fn sum_ln_rest(&self) -> f64 {
        self.parameters
            .iter()
            .map(|&stick| mean_ln_rest(stick))
            .sum()
    }

    /// Writes ⟨ln π_h⟩ = ⟨ln V_h⟩ + Σ_{l<h} ⟨ln(1 − V_l)⟩ for all N weights. Cost O(N).
    ///
    /// Panics if `out.len()` is not the truncation level.
    pub fn expected_ln_weights(&self, out: &mut [f64]) {
        assert_eq!(out.len(), self.truncation(), "one place per weight");
        let mut ln_rest = 0.0;
        for (out, &stick) in out.iter_mut().zip(&self.parameters) {
            *out = ln_rest + mean_ln(stick);
            ln_rest += mean_ln_rest(stick);
        }
        out[self.parameters.len()] = ln_rest;
    }

    /// ⟨π_h⟩ = v_h1/(v_h1+v_h2) ∏_{l<h} v_l2/(v_l1+v_l2), the first factor 1 for the last weight.
    pub fn expected_weights(&self) -> Vec<f64> {
        let mut rest = 1.0;
        let mut weights: Vec<f64> = self
            .parameters
            .iter()
            .map(|&[a, b]| {
                let weight = rest * (a / (a + b));
                rest *= b / (a + b);
                weight
            })
            .collect();
        weights.push(rest);
        weights
    }

    /// Standard deviation of each π_h under q.
    ///
    /// From the coefficients of variation of the independent factors, so that it is right also where
    /// ⟨π²⟩ and ⟨π⟩² agree in all digits.
    pub fn weight_sd(&self) -> Vec<f64> {
        // 1 + cv² multiplies over independent factors.
        let mut ln_spread_rest = 0.0;
        let spread = self.parameters.iter().map(|&[a, b]| {
            let ln_spread = ln_spread_rest + (b / a / (a + b + 1.0)).ln_1p();
            ln_spread_rest += (a / b / (a + b + 1.0)).ln_1p();
            ln_spread
        });
        let mut spread: Vec<f64> = spread.collect();
        spread.push(ln_spread_rest);
        let mean = self.expected_weights();
        mean.iter()
            .zip(spread)
            .map(|(mean, s)| {
                if s == 0.0 {
                    0.0
                } else {
                    (mean.ln() + half_ln_exp_m1(s)).exp()
                }
            })
            .collect()
    }

    /// ⟨ln p(V | α)⟩ − ⟨ln q(V)⟩ under q(V) q(α), its part of the evidence lower bound.
    pub fn elbo(&self, alpha: &ConcentrationFactor) -> f64 {
        let (alpha, ln_alpha) = (alpha.mean(), alpha.mean_ln());
        self.parameters
            .iter()
            .map(|stick| ln_alpha + (alpha - 1.0) * mean_ln_rest(*stick) + dirichlet_entropy(stick))
            .sum()
    }

    /// Draws the N weights from q into `out`; they add up to 1. Cost O(N).
    ///
    /// Panics if `out.len()` is not the truncation level.
    pub fn sample_weights<R: Rng + ?Sized>(&self, out: &mut [f64], rng: &mut R) {
        assert_eq!(out.len(), self.truncation(), "one place per weight");
        let mut rest = 1.0;
        for (out, &[a, b]) in out.iter_mut().zip(&self.parameters) {
            let ln_odds = stick(a, b).sample_ln_odds(rng);
            *out = rest / (1.0 + (-ln_odds).exp());
            rest /= 1.0 + ln_odds.exp();
        }
        out[self.parameters.len()] = rest;
    }
}

/// ½ ln(eˣ − 1) for x > 0, without overflow.
fn half_ln_exp_m1(x: f64) -> f64 {
    0.5 * if x > 30.0 { x } else { x.exp_m1().ln() }
}

/// Truncated variational Dirichlet process: sticks and their concentration with a gamma hyperprior.
///
/// q(V, α) = ∏_{h<N} Beta(V_h; v_h1, v_h2) · Gamma(α; τ₁, τ₂). Source: W, section 3.5.
///
/// ```
/// use npb_priors::{GammaPrior, dp::StickFactor};
///
/// let mut factor = StickFactor::new(5, GammaPrior { shape: 0.05, rate: 0.05 })?;
/// let counts = [60.0, 30.0, 10.0, 0.0, 0.0];           // expected number of rows per component
/// let mut ln_weights = [0.0; 5];
/// for _ in 0..20 {
///     factor.update_sticks(&counts);
///     factor.update_alpha();
/// }
/// factor.expected_ln_weights(&mut ln_weights);
/// assert!((factor.expected_weights()[0] - 0.6).abs() < 0.02);
/// assert!(factor.elbo() < 0.0 && ln_weights[0] > ln_weights[1]);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StickFactor {
    sticks: Sticks,
    alpha: ConcentrationFactor,
}

impl StickFactor {
    /// Sticks Beta(1, E α) under the prior mean of α, and q(α) = prior; `truncation` ≥ 1 weights.
    ///
    /// # Errors
    /// `truncation` = 0, or a shape or rate that is not finite and positive.
    pub fn new(truncation: usize, alpha_prior: GammaPrior) -> Result<Self, ParameterError> {
        let alpha = ConcentrationFactor::new(alpha_prior)?;
        Ok(Self {
            sticks: Sticks::new(truncation, alpha.mean())?,
            alpha,
        })
    }

    /// Number of weights N.
    pub fn truncation(&self) -> usize {
        self.sticks.truncation()
    }

    /// q(V).
    pub fn sticks(&self) -> &Sticks {
        &self.sticks
    }

    /// q(α).
    pub fn alpha(&self) -> &ConcentrationFactor {
        &self.alpha
    }

    /// ⟨α⟩.
    pub fn alpha_mean(&self) -> f64 {
        self.alpha.mean()
    }

    /// Exact coordinate update of q(V) from the N expected counts, see [`Sticks::update`].
    pub fn update_sticks(&mut self, counts: &[f64]) {
        self.sticks.update(counts, self.alpha.mean());
    }

    /// Exact coordinate update of q(α): τ₁ = τ₁₀ + N − 1, τ₂ = τ₂₀ − Σ ⟨ln(1 − V_h)⟩.
    pub fn update_alpha(&mut self) {
        self.alpha
            .update(self.sticks.parameters.len(), self.sticks.sum_ln_rest());
    }

    /// Writes ⟨ln π_h⟩ for all N weights, see [`Sticks::expected_ln_weights`].
    pub fn expected_ln_weights(&self, out: &mut [f64]) {
        self.sticks.expected_ln_weights(out);
    }

    /// ⟨π_h⟩, see [`Sticks::expected_weights`].
    pub fn expected_weights(&self) -> Vec<f64> {
        self.sticks.expected_weights()
    }

    /// Standard deviation of π_h, see [`Sticks::weight_sd`].
    pub fn weight_sd(&self) -> Vec<f64> {
        self.sticks.weight_sd()
    }

    /// ⟨ln p(V|α)⟩ + ⟨ln p(α)⟩ − ⟨ln q(V)⟩ − ⟨ln q(α)⟩ ≤ 0, exact, stable for shapes near 0 and counts near 1e12.
    ///
    /// A model adds Σ_i ⟨ln π_{z_i}⟩ − ⟨ln q(z)⟩ and its likelihood.
    pub fn elbo(&self) -> f64 {
        self.sticks.elbo(&self.alpha) + self.alpha.elbo()
    }

    /// Draws the N weights from q into `out`, see [`Sticks::sample_weights`].
    pub fn sample_weights<R: Rng + ?Sized>(&self, out: &mut [f64], rng: &mut R) {
        self.sticks.sample_weights(out, rng);
    }

    /// Draws α from its hyperprior, then the N weights into `out`; they add up to 1.
    ///
    /// Panics if `out` is empty.
    pub fn sample_prior_weights<R: Rng + ?Sized>(&self, out: &mut [f64], rng: &mut R) {
        let GammaPrior { shape, rate } = self.alpha.prior();
        sample_weights(sample_concentration(shape, rate, rng), out, rng);
    }
}

/// Draws the weights of a Dirichlet process truncated at `out.len()` ≥ 1 into `out`; they add up to 1.
///
/// The last weight is what is left of the stick. `alpha` ≥ 0 (0 puts everything on the first weight).
/// Cost O(N). Panics if `out` is empty or `alpha` is negative or NaN.
pub fn sample_weights<R: Rng + ?Sized>(alpha: f64, out: &mut [f64], rng: &mut R) {
    assert!(alpha >= 0.0, "a concentration is not negative: {alpha}");
    let (last, free) = out.split_last_mut().expect("at least one weight");
    let mut rest = 1.0;
    for weight in free {
        let ln_rest = -sample_exp(rng) / alpha; // ln(1 - V), V ~ Beta(1, alpha)
        *weight = -rest * ln_rest.exp_m1();
        rest *= ln_rest.exp();
    }
    *last = rest;
}

/// Monte Carlo distribution of the number of weights above `threshold`; entry k is P(count = k).
///
/// `draw` fills a slice of length `truncation` with weights, for example
/// `|w| factor.sample_weights(w, &mut rng)`. The result has length `truncation` + 1. Panics if `draws` is 0.
pub fn dominant_count_distribution(
    truncation: usize,
    threshold: f64,
    draws: usize,
    mut draw: impl FnMut(&mut [f64]),
) -> Vec<f64> {
    assert!(draws > 0, "at least one draw");
    let mut weights = vec![0.0; truncation];
    let mut tally = vec![0_usize; truncation + 1];
    for _ in 0..draws {
        draw(&mut weights);
        tally[weights.iter().filter(|w| **w > threshold).count()] += 1;
    }
    tally.into_iter().map(|n| n as f64 / draws as f64).collect()
}

#[cfg(test)]
mod tests;
