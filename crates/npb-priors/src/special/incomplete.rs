//! Regularised incomplete gamma and beta functions, for distribution functions and goodness-of-fit tests.

use super::gamma::{ln_beta, stirling_correction};
use super::logs::ln_1p_shortfall;
use super::normal::{normal_cdf, normal_pdf};
use statrs::function::gamma;

/// From this shape on the series would need thousands of terms, and the uniform asymptotic expansion is better.
const LARGE_SHAPE: f64 = 1e4;

/// P(a, x), the distribution function at `x` of Gamma(shape a, rate 1).
///
/// Absolute error below 1e-11 for a < 1e4, below 1e-9 beyond. x <= 0 gives 0; a <= 0 or NaN gives NaN.
pub fn gamma_lower_regularized(a: f64, x: f64) -> f64 {
    match domain(a, x) {
        Domain::Outside => f64::NAN,
        Domain::Below => 0.0,
        Domain::Above => 1.0,
        Domain::Series => gamma::gamma_lr(a, x),
        Domain::Asymptotic => 1.0 - upper_asymptotic(a, x),
    }
}

/// Q(a, x) = 1 - P(a, x), the survival function at `x` of Gamma(shape a, rate 1).
///
/// Absolute error below 1e-11 for a < 1e4, below 1e-9 beyond. x <= 0 gives 1; a <= 0 or NaN gives NaN.
pub fn gamma_upper_regularized(a: f64, x: f64) -> f64 {
    match domain(a, x) {
        Domain::Outside => f64::NAN,
        Domain::Below => 1.0,
        Domain::Above => 0.0,
        Domain::Series => gamma::gamma_ur(a, x),
        Domain::Asymptotic => upper_asymptotic(a, x),
    }
}

enum Domain {
    Outside,
    Below,
    Above,
    Series,
    Asymptotic,
}

fn domain(a: f64, x: f64) -> Domain {
    if a.is_nan() || x.is_nan() || a <= 0.0 || a == f64::INFINITY {
        Domain::Outside
    } else if x <= 0.0 {
        Domain::Below
    } else if x == f64::INFINITY {
        Domain::Above
    } else if a < LARGE_SHAPE {
        Domain::Series
    } else {
        Domain::Asymptotic
    }
}

/// Temme (1979), SIAM J. Math. Anal. 10: Phi of a transformed x, and the first correction.
fn upper_asymptotic(a: f64, x: f64) -> f64 {
    let excess = (x - a) / a;
    let eta = (2.0 * ln_1p_shortfall(excess)).sqrt().copysign(excess);
    let correction = if eta.abs() < 1e-4 {
        -1.0 / 3.0 + eta / 12.0
    } else {
        excess.recip() - eta.recip()
    };
    let density = (-0.5 * a * eta * eta).exp() / (std::f64::consts::TAU * a).sqrt();
    (normal_cdf(-eta * a.sqrt()) + density * correction).clamp(0.0, 1.0)
}

/// I_x(a, b), the distribution function at `x` of Beta(a, b).
///
/// Absolute error below 1e-12 while min(a, b) <= 1e4, below 1e-9 beyond. x below 0 or above 1 gives 0 or 1; a, b <= 0 or
/// NaN gives NaN. Cost: O(sqrt(min(a, b))) terms, at most a few thousand.
pub fn beta_regularized(a: f64, b: f64, x: f64) -> f64 {
    let parameters_fit = a > 0.0 && b > 0.0 && (a + b).is_finite();
    if !parameters_fit || x.is_nan() {
        f64::NAN
    } else if x <= 0.0 {
        0.0
    } else if x >= 1.0 {
        1.0
    } else if x > 0.5 {
        // Exact: 1 - x has no rounding here.
        1.0 - beta_below_half(b, a, 1.0 - x)
    } else {
        beta_below_half(a, b, x)
    }
}

/// P(|T| > |t|) for Student's t with `df` > 0 degrees of freedom, not necessarily whole.
///
/// Absolute error as that of [`beta_regularized`] at (df/2, 1/2), of which it is the value at df / (df + t^2). An infinite t
/// gives 0; df <= 0 or NaN gives NaN.
pub fn student_t_two_sided(t: f64, df: f64) -> f64 {
    let ratio = t / df.sqrt();
    let square = ratio * ratio;
    if square < 1.0 {
        // The other end of the unit interval: next to 1 the function is so steep that rounding would show.
        1.0 - beta_regularized(0.5, 0.5 * df, square / (1.0 + square))
    } else {
        beta_regularized(0.5 * df, 0.5, 1.0 / (1.0 + square))
    }
}

/// I_x(a, b) for 0 < x <= 1/2.
fn beta_below_half(a: f64, b: f64, x: f64) -> f64 {
    if a.min(b) > LARGE_SHAPE {
        return beta_asymptotic(a, b, x);
    }
    let ln_kernel = ln_beta_kernel(a, b, x);
    let value = if x * (a + b + 2.0) < a + 1.0 {
        ln_kernel.exp() * beta_fraction(a, b, x) / a
    } else if ln_kernel < -45.0 {
        1.0
    } else if x < 0.01 {
        // The fraction below would see x only through the rounding of 1 - x.
        ln_kernel.exp() * beta_series(a, b, x) / a
    } else {
        1.0 - ln_kernel.exp() * beta_fraction(b, a, 1.0 - x) / b
    };
    value.clamp(0.0, 1.0)
}

/// 1 + (a+b)/(a+1) x + (a+b)(a+b+1)/((a+1)(a+2)) x^2 + ..., positive terms that fall once they are past the mean.
fn beta_series(a: f64, b: f64, x: f64) -> f64 {
    let (mut term, mut total, mut n) = (1.0, 1.0, 0.0);
    loop {
        let ratio = (a + b + n) / (a + 1.0 + n) * x;
        term *= ratio;
        total += term;
        n += 1.0;
        // Past the largest term, what is left is a small multiple of this one.
        if ratio < 1.0 && term <= 1e-17 * total {
            return total;
        }
    }
}

/// ln [x^a (1-x)^b / B(a, b)]; when both parameters are large, through the distance of x from the mean, where nothing
/// cancels.
fn ln_beta_kernel(a: f64, b: f64, x: f64) -> f64 {
    if a.min(b) < 10.0 {
        return a * x.ln() + b * (-x).ln_1p() - ln_beta(a, b);
    }
    let total = a + b;
    let corrections = stirling_correction(total) - stirling_correction(a) - stirling_correction(b);
    let at_mean = 0.5 * (a / total * b / std::f64::consts::TAU).ln() + corrections;
    at_mean - total * beta_fall(a, b, x)
}

/// How far (a ln x + b ln(1-x)) / (a + b) lies below its maximum, at the mean.
fn beta_fall(a: f64, b: f64, x: f64) -> f64 {
    let (mean, rest) = (a / (a + b), b / (a + b));
    let distance = x - mean;
    mean * ln_1p_shortfall(distance / mean) + rest * ln_1p_shortfall(-distance / rest)
}

/// The continued fraction of DLMF 8.17.22 by Lentz's method, for x below the mean or little above.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const NEVER_ZERO: f64 = 1e-300;
    const MOST_STEPS: u32 = 10_000;
    let guarded = |v: f64| if v.abs() < NEVER_ZERO { NEVER_ZERO } else { v };
    let mut c = 1.0;
    let mut d = guarded(1.0 - (a + b) * x / (a + 1.0)).recip();
    let mut value = d;
    for step in 1..=MOST_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = value;
        for term in [even, odd] {
            d = guarded(1.0 + term * d).recip();
            c = guarded(1.0 + term / c);
            value *= c * d;
        }
        if (value - before).abs() <= f64::EPSILON * value.abs() {
            break;
        }
    }
    value
}

/// Both parameters large: Phi of a transformed x, and the first correction, as for the incomplete gamma function.
fn beta_asymptotic(a: f64, b: f64, x: f64) -> f64 {
    let total = a + b;
    let distance = x - a / total;
    let deviation = (2.0 * total * beta_fall(a, b, x)).sqrt().copysign(distance);
    let spread = (a / total * b / total).sqrt();
    // Both parts are infinite at the mean, their difference is not.
    let correction = if deviation.abs() < 1e-4 {
        (a - b) / total / (3.0 * spread * total.sqrt())
    } else {
        spread / (distance * total.sqrt()) - deviation.recip()
    };
    (normal_cdf(deviation) - normal_pdf(deviation) * correction).clamp(0.0, 1.0)
}
