//! The normal distribution in its tails.
//!
//! Everything here rests on one function of a >= 0. With the Mills ratio M(a) = (1 - Phi(a)) / phi(a), the mean excess of a
//! standard normal above a is e = 1/M(a) - a, and K(a) = 1/e - a. All three differences cancel as written; K, tabulated in
//! `tables.rs`, gives them back by sums of positive terms: e = 1/(a + K), 1/M = a + e, E[excess^2] = 1 - a e = K e.

use super::tables::{TAIL, TAIL_SCALE};
use statrs::function::erf;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

/// ln sqrt(2 pi).
pub const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

const SQRT_2PI: f64 = 2.506_628_274_631_000_7;

/// A standard normal above the point `a`: what it exceeds `a` by, without cancellation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// phi(a) / Phi(-a), the inverse Mills ratio.
    pub(crate) hazard: f64,
    /// E[z - a | z > a].
    pub(crate) excess: f64,
    /// E[(z - a)^2 | z > a].
    pub(crate) excess_square: f64,
    /// Var[z | z > a].
    pub(crate) variance: f64,
    /// The variance over the squared excess, also where both of these underflow.
    pub(crate) relative_variance: f64,
}

impl Tail {
    pub(crate) fn new(a: f64) -> Self {
        if a >= 0.0 {
            Self::beyond(a)
        } else {
            Self::around(a)
        }
    }

    /// a >= 0: from the tabulated K.
    fn beyond(a: f64) -> Self {
        let k = tail_fraction(a);
        let excess = 1.0 / (a + k);
        Self {
            hazard: a + excess,
            excess,
            excess_square: k * excess,
            variance: excess * (k - excess),
            relative_variance: k / excess - 1.0,
        }
    }

    /// a < 0: nothing cancels as written (and NaN comes through).
    fn around(a: f64) -> Self {
        let density = normal_pdf(a);
        let hazard = density / (1.0 - density * mills(-a));
        let excess = hazard - a;
        // The product is 0 far to the left, also where the excess is infinite.
        let lost = if hazard == 0.0 { 0.0 } else { hazard * excess };
        let variance = 1.0 - lost;
        Self {
            hazard,
            excess,
            excess_square: 1.0 - a * excess,
            variance,
            relative_variance: variance / excess / excess,
        }
    }
}

/// Above this point the third cumulant's asymptotic series is better than its closed form.
const FAR: f64 = 100.0;

impl Tail {
    /// E[(excess - E excess)^3] / (E excess)^3, within 1e-7 relatively, for the tail built at `a`.
    pub(crate) fn third_central_moment_over_excess_cubed(&self, a: f64) -> f64 {
        let (h, e, v) = (self.hazard, self.excess, self.variance);
        if a > FAR {
            // e''(a) from e = 1/a - 2/a^3 + 10/a^5 - 74/a^7.
            let r = (a * a).recip();
            return 2.0 * (1.0 + r * (-12.0 + 150.0 * r)) / (a * e).powi(3);
        }
        if a < 0.0 {
            return h * (e * (e + h) - 1.0) / e.powi(3);
        }
        // Derivatives of e = 1 / (a + K): K' = K/e - 2, K'' = K'/e + K v/e^2, and the third cumulant is e''.
        let k = self.excess_square / e;
        let k2 = (k / e - 2.0 + k * v / e) / e;
        (2.0 * v * v / e - e * e * k2) / e.powi(3)
    }
}

/// K(a) = 2/(a + 3/(a + 4/(a + ...))) for a >= 0: 1.25 at 0, 2/a far out. Infinity gives 0.
fn tail_fraction(a: f64) -> f64 {
    let t = TAIL_SCALE / (TAIL_SCALE + a);
    let scaled = t * TAIL.len() as f64;
    let piece = (scaled as usize).min(TAIL.len() - 1);
    let u = 2.0 * (scaled - piece as f64) - 1.0;
    let smooth = TAIL[piece].iter().rev().fold(0.0, |sum, c| sum * u + c);
    smooth * t / TAIL_SCALE
}

/// x^2 as a rounded value and what rounding took from it: at x = 30 the rounding alone would cost e^(x^2) 500 ulp.
fn square(x: f64) -> (f64, f64) {
    let high = x * x;
    // Beyond, the exponential is 0 or infinite anyway, and must not meet a rest that is itself large.
    let low = if high < 1e4 { x.mul_add(x, -high) } else { 0.0 };
    (high, low)
}

/// e^(-x^2 / 2), within 2 ulp.
pub(crate) fn gaussian_kernel(x: f64) -> f64 {
    let (high, low) = square(x);
    (-0.5 * high).exp() * (1.0 - 0.5 * low)
}

/// Density of the standard normal, within 3 ulp.
pub fn normal_pdf(x: f64) -> f64 {
    gaussian_kernel(x) / SQRT_2PI
}

/// Log-density of the standard normal, within 2 ulp.
pub fn ln_normal_pdf(x: f64) -> f64 {
    -(0.5 * x * x + LN_SQRT_2PI)
}

/// Phi(x), the distribution function of the standard normal, within 4 ulp in both tails.
///
/// Underflows to 0 below -38.5; [`ln_phi`] does not.
pub fn normal_cdf(x: f64) -> f64 {
    if x < 0.0 {
        normal_pdf(x) * mills(-x)
    } else {
        1.0 - normal_pdf(x) * mills(x)
    }
}

/// ln Phi(x) for any x, within 4 ulp.
///
/// About -x^2/2 - ln(-x) - 0.92 far to the left (minus infinity below -1.8e154, where the true value leaves the range of
/// f64), and -Phi(-x) to the right. ln(1 - Phi(x)) is `ln_phi(-x)`.
///
/// ```
/// use npb_priors::special::ln_phi;
/// assert!((ln_phi(-40.0) + 804.608_442_013_753_8).abs() < 1e-12);
/// ```
pub fn ln_phi(x: f64) -> f64 {
    if x < 0.0 {
        -(0.5 * x * x + (LN_SQRT_2PI - mills(-x).ln()))
    } else {
        (-normal_pdf(x) * mills(x)).ln_1p()
    }
}

/// The Mills ratio (1 - Phi(x)) / phi(x), within 3 ulp.
///
/// About 1/x far to the right; plus infinity below -37.6, where the true value leaves the range of f64.
pub fn mills(x: f64) -> f64 {
    if x >= 0.0 {
        mills_beyond(x)
    } else {
        let (high, low) = square(x);
        SQRT_2PI * (0.5 * high).exp() * (1.0 + 0.5 * low) - mills_beyond(-x)
    }
}

/// The Mills ratio at a >= 0.
fn mills_beyond(a: f64) -> f64 {
    1.0 / (a + 1.0 / (a + tail_fraction(a)))
}

/// The inverse Mills ratio phi(x) / (1 - Phi(x)) for any x, within 4 ulp.
///
/// It is the hazard rate of the standard normal, and the slope of -ln(1 - Phi): d ln Phi(x) / dx = `inverse_mills(-x)`.
pub fn inverse_mills(x: f64) -> f64 {
    Tail::new(x).hazard
}

/// The scaled complementary error function e^(x^2) erfc(x), within 4 ulp.
///
/// Plus infinity below -26.6, where the true value leaves the range of f64.
pub fn erfcx(x: f64) -> f64 {
    let beyond = mills_beyond(SQRT_2 * x.abs()) * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
    if x < 0.0 {
        let (high, low) = square(x);
        2.0 * high.exp() * (1.0 + low) - beyond
    } else {
        beyond
    }
}

/// The quantile function of the standard normal: the x with Phi(x) = p, within 4 ulp.
///
/// 0 and 1 give minus and plus infinity; outside [0, 1] NaN. For p next to 1 use `-normal_quantile(1 - p)` with the small
/// tail probability itself, which has more digits.
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        f64::NAN
    } else if p == 0.0 {
        f64::NEG_INFINITY
    } else if p < 0.25 {
        lower_quantile(p)
    } else if p <= 0.75 {
        central_quantile(p - 0.5)
    } else {
        -normal_quantile(1.0 - p)
    }
}

/// A start good to 1e-9, then one Newton step for ln Phi(x) = ln p.
fn lower_quantile(p: f64) -> f64 {
    let start = -SQRT_2 * erf::erfc_inv(2.0 * p);
    start - (ln_phi(start) - p.ln()) / inverse_mills(-start)
}

/// The same for Phi(x) - 1/2 = q, which keeps the digits of a small q.
fn central_quantile(q: f64) -> f64 {
    let start = SQRT_2 * erf::erf_inv(2.0 * q);
    start - (0.5 * libm::erf(start * FRAC_1_SQRT_2) - q) / normal_pdf(start)
}
