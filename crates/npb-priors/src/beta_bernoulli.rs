//! Bernoulli variables whose Beta weight is integrated out, and the odds of spike-and-slab coefficients.
//!
//! Drawing the weight and then the switch locks a switch that is off: given z = 0 a weight of prior Beta(1/K, (K−1)/K)
//! is practically 0, and no likelihood brings the switch back. All odds here have the weight integrated out, and are
//! logarithms, for [`Bernoulli::from_ln_odds`](crate::dist::Bernoulli::from_ln_odds). The order matters: the switch by its
//! collapsed odds, then its coefficient at once. Source: W, chapters 3 and 5, and Z, corrected.

use crate::error::{Check, ParameterError};
use crate::special::erfcx;

const CHECK: Check = Check("beta-Bernoulli");

/// A weight π ~ Beta(a, b) that governs Bernoulli(π) switches.
///
/// ```
/// use npb_priors::beta_bernoulli::WeightPrior;
///
/// let prior = WeightPrior::sparse(1.0, 1.0, 50)?;    // Beta(a/K, b(K−1)/K)
/// assert!((prior.ln_odds(0, 0) - (1.0_f64 / 49.0).ln()).abs() < 1e-14);
/// assert!(prior.predictive(3, 4) > 0.6);             // 3 of the 4 other switches of this weight are on
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightPrior {
    a: f64,
    b: f64,
}

impl WeightPrior {
    /// Beta(a, b).
    ///
    /// # Errors
    /// A parameter that is not finite and positive.
    pub fn new(a: f64, b: f64) -> Result<Self, ParameterError> {
        CHECK.positive("a", a)?;
        CHECK.positive("b", b)?;
        Ok(Self { a, b })
    }

    /// Beta(a/K, b (K−1)/K), which switches on a K / (a + b (K−1)) of K on average; about Poisson(a/b) for large K.
    ///
    /// # Errors
    /// A parameter that is not finite and positive, or K < 2 (the weight would be 1).
    pub fn sparse(a: f64, b: f64, k: usize) -> Result<Self, ParameterError> {
        CHECK.positive("a", a)?;
        CHECK.positive("b", b)?;
        CHECK.require(k >= 2, "K", k as f64, "at least 2")?;
        Self::new(a / k as f64, b * ((k - 1) as f64 / k as f64))
    }

    /// First parameter.
    pub fn a(&self) -> f64 {
        self.a
    }

    /// Second parameter.
    pub fn b(&self) -> f64 {
        self.b
    }

    /// ln odds of one switch being on, given that `on` of the `others` other switches of the same weight are:
    /// ln (a + on) / (b + others − on). With one switch per weight both are 0.
    ///
    /// Panics if `on` > `others`.
    pub fn ln_odds(&self, on: usize, others: usize) -> f64 {
        assert!(on <= others, "{on} of {others} switches");
        ((self.a + on as f64) / (self.b + (others - on) as f64)).ln()
    }

    /// The same as a probability, (a + on) / (a + b + others).
    pub fn predictive(&self, on: usize, others: usize) -> f64 {
        assert!(on <= others, "{on} of {others} switches");
        (self.a + on as f64) / (self.a + self.b + others as f64)
    }

    /// Probability that at least one of the n switches of a weight is on. Among K such weights the number of active
    /// ones is Binomial(K, this). Exact also for an `a` of 1e-9. Cost O(n).
    pub fn active_probability(&self, n: usize) -> f64 {
        let ln_stays_off = |i: usize| (-self.a / (self.a + self.b + i as f64)).ln_1p();
        -(0..n).map(ln_stays_off).sum::<f64>().exp_m1()
    }
}

/// The conditional of a switched-on coefficient and the Bayes factor of its switch.
///
/// Given that coefficient s is on, the likelihood is exp(l s − p s²/2) up to what does not depend on s, with precision
/// p ≥ 0 and linear term l. The slab has prior precision α_s and zero mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slab {
    /// Conditional precision A = α_s + p.
    pub precision: f64,
    /// Conditional mean (before any truncation) m = l / A.
    pub mean: f64,
    /// ln of p(data | on) / p(data | off), s integrated out. To it comes the prior log-odds of the switch.
    pub ln_bayes_factor: f64,
}

impl Slab {
    /// Two-sided Gaussian slab N(0, 1/α_s): ½ ln(α_s / A) + A m² / 2. When on, s ~ N(m, 1/A). Source: Z.
    pub fn gaussian(slab_precision: f64, likelihood_precision: f64, linear: f64) -> Self {
        let (precision, mean, ln_shrink) =
            conditional(slab_precision, likelihood_precision, linear);
        Self {
            precision,
            mean,
            ln_bayes_factor: ln_shrink + 0.5 * linear * mean,
        }
    }

    /// Half-normal slab N⁺(0, 1/α_s): ln [2 √(α_s/A) exp(A m²/2) Φ(m √A)]. When on, s ~ N⁺(m, 1/A).
    ///
    /// W, chapter 5: p = α Σ U²V², l = α Σ r U V over the observed cells. No overflow or cancellation for any m.
    ///
    /// ```
    /// use npb_priors::beta_bernoulli::Slab;
    ///
    /// // Data that ask for a negative coefficient: the slab cannot follow, the odds fall off slowly.
    /// let slab = Slab::half_normal(1.0, 3.0, -200.0);
    /// assert!(slab.ln_bayes_factor < -4.0 && slab.ln_bayes_factor > -6.0);
    /// ```
    pub fn half_normal(slab_precision: f64, likelihood_precision: f64, linear: f64) -> Self {
        let (precision, mean, ln_shrink) =
            conditional(slab_precision, likelihood_precision, linear);
        // 2 exp(x²/2) Φ(x) = erfcx(−x/√2), x = m √A = l / √A.
        let x = linear / precision.sqrt();
        let ln_mass = if x <= 0.0 {
            erfcx(-x * std::f64::consts::FRAC_1_SQRT_2).ln()
        } else {
            // The same by reflection, 2 exp(x²/2) − erfcx(x/√2), factored so that it cannot overflow.
            let reflected = erfcx(x * std::f64::consts::FRAC_1_SQRT_2);
            0.5 * linear * mean
                + std::f64::consts::LN_2
                + (-0.5 * reflected * (-0.5 * linear * mean).exp()).ln_1p()
        };
        Self {
            precision,
            mean,
            ln_bayes_factor: ln_shrink + ln_mass,
        }
    }
}

/// A, m and ½ ln(α_s / A).
fn conditional(slab_precision: f64, likelihood_precision: f64, linear: f64) -> (f64, f64, f64) {
    let precision = slab_precision + likelihood_precision;
    (
        precision,
        linear / precision,
        -0.5 * (likelihood_precision / slab_precision).ln_1p(),
    )
}
