//! The gamma function's relatives.

use super::LN_SQRT_2PI;
use super::tables::{DIGAMMA, DIGAMMA_ZERO, DIGAMMA_ZERO_REST};

/// From here on the asymptotic series below reach full precision.
const ASYMPTOTIC: f64 = 10.0;

const LN_PI: f64 = 1.144_729_885_849_400_2;

/// ln Gamma(x) for x > 0, within 3 ulp or 3e-16 absolutely, whichever is larger.
///
/// 0 gives plus infinity, below 0 NaN. Cost: about one logarithm.
pub fn ln_gamma(x: f64) -> f64 {
    if x < 0.0 { f64::NAN } else { libm::lgamma(x) }
}

/// digamma(x) = d ln Gamma(x) / dx for x > 0, within 4 ulp, next to its zero at 1.4616 as well.
///
/// 0 gives minus infinity, below 0 NaN. Cost: 24 multiplications below 2, a logarithm above 10, up to 8 divisions between.
pub fn digamma(x: f64) -> f64 {
    if x >= ASYMPTOTIC {
        x.ln() - digamma_correction(x)
    } else if x > 2.0 {
        let steps = (x - 1.0).ceil() - 1.0;
        let base = x - steps;
        digamma_near_zero(base)
            + (0..steps as usize)
                .map(|i| 1.0 / (base + i as f64))
                .sum::<f64>()
    } else if x >= 1.0 {
        digamma_near_zero(x)
    } else if x >= 0.0 {
        digamma_near_zero(x + 1.0) - 1.0 / x
    } else {
        f64::NAN
    }
}

/// On [1, 2], as a product with the distance to the zero, so that small values keep their digits.
fn digamma_near_zero(x: f64) -> f64 {
    let u = 2.0 * x - 3.0;
    let slope = DIGAMMA.iter().rev().fold(0.0, |sum, c| sum * u + c);
    ((x - DIGAMMA_ZERO) - DIGAMMA_ZERO_REST) * slope
}

/// ln x - digamma(x) for x >= 10: 1/(2x) + sum B_2k / (2k x^2k).
fn digamma_correction(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32_760.0,
        1.0 / 12.0,
        -3_617.0 / 8_160.0,
    ];
    let r = 1.0 / x;
    r * (0.5 + r * horner(&TERMS, r * r))
}

/// ln x - digamma(x) for x > 0, to full relative precision where it is small.
pub(crate) fn ln_minus_digamma(x: f64) -> f64 {
    if x < ASYMPTOTIC {
        x.ln() - digamma(x)
    } else {
        digamma_correction(x)
    }
}

/// digamma(a + d) - digamma(a) for a, d > 0, without cancellation when a is large.
pub(crate) fn digamma_difference(a: f64, d: f64) -> f64 {
    if a >= ASYMPTOTIC {
        (d / a).ln_1p() + digamma_correction(a) - digamma_correction(a + d)
    } else {
        digamma(a + d) - digamma(a)
    }
}

/// trigamma(x) = d^2 ln Gamma(x) / dx^2 for x > 0, within 4 ulp.
///
/// 0 gives plus infinity, below 0 NaN. Cost: up to 10 divisions.
pub fn trigamma(x: f64) -> f64 {
    // B_2k of the series 1/x + 1/(2x^2) + sum B_2k / x^(2k+1).
    const TERMS: [f64; 8] = [
        1.0 / 6.0,
        -1.0 / 30.0,
        1.0 / 42.0,
        -1.0 / 30.0,
        5.0 / 66.0,
        -691.0 / 2_730.0,
        7.0 / 6.0,
        -3_617.0 / 510.0,
    ];
    if x < 0.0 || x.is_nan() {
        return f64::NAN;
    }
    let mut below = 0.0;
    let mut x = x;
    // Small terms last in x are large terms here: add from the far end for the last digits.
    let steps = (ASYMPTOTIC - x).max(0.0).ceil() as usize;
    for i in (0..steps).rev() {
        let y = x + i as f64;
        below += 1.0 / (y * y);
    }
    x += steps as f64;
    let r = 1.0 / x;
    r * (1.0 + r * (0.5 + r * horner(&TERMS, r * r))) + below
}

fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// ln Gamma(x) - [(x - 1/2) ln x - x + ln sqrt(2 pi)] for x >= 10.
pub(crate) fn stirling_correction(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1_260.0,
        -1.0 / 1_680.0,
        1.0 / 1_188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
        -3_617.0 / 122_400.0,
    ];
    let r = 1.0 / x;
    r * horner(&TERMS, r * r)
}

/// ln Gamma(x) - [(x - 1/2) ln x - x + ln sqrt(2 pi)] for x > 0: what is left when the parts that grow are cancelled on paper.
pub(crate) fn ln_gamma_rest(x: f64) -> f64 {
    if x < ASYMPTOTIC {
        ln_gamma(x) - (x - 0.5) * x.ln() + x - LN_SQRT_2PI
    } else {
        stirling_correction(x)
    }
}

/// ln B(a, b) = ln Gamma(a) + ln Gamma(b) - ln Gamma(a + b) for a, b > 0.
///
/// Error below 4e-15 times max(1, |ln B|): the large log-gammas are cancelled in Stirling's form, not in numbers.
/// Outside the domain NaN, or plus infinity when an argument is 0.
/// Source: Didonato and Morris (1992), ACM TOMS 18, section 2, for the grouping of terms.
pub fn ln_beta(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if small < 0.0 || small.is_nan() || large.is_nan() {
        return f64::NAN;
    }
    if small == 0.0 {
        return f64::INFINITY;
    }
    let total = small + large;
    if large < ASYMPTOTIC {
        return ln_gamma(small) + ln_gamma(large) - ln_gamma(total);
    }
    let correction = stirling_correction(large) - stirling_correction(total);
    // ln(large / total), which is next to 0 when large dominates.
    let ln_large_share = -(small / large).ln_1p();
    if small < ASYMPTOTIC {
        let rest = small - small * total.ln() + (large - 0.5) * ln_large_share;
        ln_gamma(small) + (rest + correction)
    } else {
        let ln_small_share = -(large / small).ln_1p();
        let correction = correction + stirling_correction(small);
        LN_SQRT_2PI - 0.5 * large.ln()
            + correction
            + (small - 0.5) * ln_small_share
            + large * ln_large_share
    }
}

/// ln [Gamma(x + n) / Gamma(x)] for x > 0 and n >= 0, the logarithm of x (x + 1) ... (x + n - 1) when n is whole.
///
/// Error below 5e-15 times max(1, |ln Gamma(n)|, |ln B(x, n)|). Cost: about four logarithms, whatever n is.
pub fn ln_rising_factorial(x: f64, n: f64) -> f64 {
    if n == 0.0 {
        0.0
    } else {
        ln_gamma(n) - ln_beta(x, n)
    }
}

/// ln Gamma_p(a) = p (p - 1) / 4 ln pi + sum_{j < p} ln Gamma(a - j/2), for a > (p - 1) / 2.
///
/// Error below 1e-15 times the sum of the absolute values of its terms; p = 0 gives 0; outside the domain NaN or infinity.
/// Cost: p log-gammas.
pub fn ln_multivariate_gamma(p: usize, a: f64) -> f64 {
    let pairs = 0.25 * p as f64 * (p as f64 - 1.0);
    pairs * LN_PI + half_steps(p, a).map(ln_gamma).sum::<f64>()
}

/// sum_{j < p} digamma(a - j/2), the derivative of [`ln_multivariate_gamma`] in a, for a > (p - 1) / 2.
///
/// Error below 1e-15 times the sum of the absolute values of its terms. Cost: p digammas.
pub fn multivariate_digamma(p: usize, a: f64) -> f64 {
    half_steps(p, a).map(digamma).sum()
}

fn half_steps(p: usize, a: f64) -> impl Iterator<Item = f64> {
    (0..p).map(move |j| a - 0.5 * j as f64)
}
