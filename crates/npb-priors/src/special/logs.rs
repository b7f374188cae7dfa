//! Sums and differences of numbers known by their logarithms.

use std::f64::consts::LN_2;

/// ln sum exp(x_i), without overflow or underflow.
///
/// Empty or all minus infinity gives minus infinity; one plus infinity gives plus infinity; any NaN gives NaN.
/// Absolute error below (n + 2) 1.2e-16 plus one ulp of the largest entry. Cost: n exponentials.
pub fn log_sum_exp(x: &[f64]) -> f64 {
    let top = max_or_nan(x);
    if !top.is_finite() {
        return top;
    }
    top + x.iter().map(|v| (v - top).exp()).sum::<f64>().ln()
}

/// ln(e^a + e^b), without overflow or underflow.
pub fn ln_add_exp(a: f64, b: f64) -> f64 {
    let top = max_or_nan(&[a, b]);
    if !top.is_finite() {
        return top;
    }
    top + (-(a - b).abs()).exp().ln_1p()
}

/// ln(1 - e^x) for x <= 0, within 2 ulp.
///
/// x = 0 gives minus infinity, x > 0 gives NaN. Source: Maechler (2012), "Accurately computing log(1 - exp(-|a|))": the
/// change of formula at -ln 2.
pub fn log1mexp(x: f64) -> f64 {
    if x > -LN_2 {
        (-x.exp_m1()).ln()
    } else {
        (-x.exp()).ln_1p()
    }
}

/// y - ln(1 + y) for y > -1: about y^2/2 next to 0, where the difference as written has no digits left.
pub(crate) fn ln_1p_shortfall(y: f64) -> f64 {
    if y.abs() > 0.1 {
        return y - y.ln_1p();
    }
    // y^2/2 - y^3/3 + ..., by Horner from the far end; the first term left out is 1e-17 of the first.
    let series = (2..=18)
        .rev()
        .fold(0.0, |sum, k| f64::from(k).recip() - y * sum);
    y * y * series
}

/// Turns log-weights into probabilities in place and returns [`log_sum_exp`] of what was there.
///
/// When the sum is zero, infinite or NaN there is nothing to normalise: `weights` is left as it was, and the returned value
/// (minus infinity, plus infinity, NaN) says so. Cost: n exponentials, no allocation.
pub fn ln_normalize(weights: &mut [f64]) -> f64 {
    let top = max_or_nan(weights);
    if !top.is_finite() {
        return top;
    }
    let mut total = 0.0;
    for w in weights.iter_mut() {
        *w = (*w - top).exp();
        total += *w;
    }
    for w in weights.iter_mut() {
        *w /= total;
    }
    top + total.ln()
}

/// The largest entry (minus infinity when empty), or NaN when any entry is NaN.
fn max_or_nan(x: &[f64]) -> f64 {
    x.iter().fold(
        f64::NEG_INFINITY,
        |m, &v| {
            if v > m || v.is_nan() { v } else { m }
        },
    )
}
