//! Elementary functions without branches, tables or calls, and loops over them in the widest registers of the machine.
//!
//! ```
//! use npb_linalg::elementary::{exp, vectorised};
//!
//! let mut x = [0.0, -1.0, -2.0];
//! vectorised(pulp::Arch::new(), || x.iter_mut().for_each(|x| *x = exp(*x)));
//! assert!((x[1] - (-1f64).exp()).abs() < 1e-15);
//! ```

use pulp::{Arch, NullaryFnOnce};

/// Below this, e^x counts as e^LEAST: far under anything that is kept.
pub const LEAST: f64 = -700.0;

/// Bits of the significand.
const SIGNIFICAND: u32 = 52;
const ONE: u64 = 1023 << SIGNIFICAND;

const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// e^x for x <= 0, within 2 ulp down to -700 and 1e-304 from there; NaN gives NaN.
///
/// 2^n times a Taylor polynomial on [-ln 2 / 2, ln 2 / 2].
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    /// Adding this number rounds to an integer, which is then in the lowest bits.
    const ROUND: f64 = 1.5 * (1u64 << SIGNIFICAND) as f64;
    let x = if x < LEAST { LEAST } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let two_to_n = f64::from_bits((shifted.to_bits() << SIGNIFICAND).wrapping_add(ONE));
    two_to_n * exp_near_zero(r)
}

/// The first 14 terms of the series: the next is below 5e-18 for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_near_zero(r: f64) -> f64 {
    const C: [f64; 14] = reciprocal_factorials();
    let pair = |k: usize| C[2 * k] + C[2 * k + 1] * r;
    let (r2, r4) = (r * r, (r * r) * (r * r));
    let four = |k: usize| pair(2 * k) + r2 * pair(2 * k + 1);
    let low = four(0) + r4 * four(1);
    let high = four(2) + r4 * pair(6);
    low + (r4 * r4) * high
}

const fn reciprocal_factorials() -> [f64; 14] {
    let mut c = [1.0; 14];
    let mut factorial = 1.0;
    let mut k = 1;
    while k < c.len() {
        factorial *= k as f64;
        c[k] = 1.0 / factorial;
        k += 1;
    }
    c
}

/// ln x for positive normal x, within 3 ulp; elsewhere it means nothing.
///
/// x = 2^n (1 + f) with 1 + f in [sqrt 1/2, sqrt 2], and ln(1 + f) = 2 artanh(f / (2 + f)).
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    /// An integer in the lowest bits of this number adds itself to its value.
    const WHOLE: f64 = (1u64 << SIGNIFICAND) as f64;
    let shifted = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let n = f64::from_bits((shifted >> SIGNIFICAND) | WHOLE.to_bits()) - (WHOLE + 1023.0);
    let rest = (shifted & ((1 << SIGNIFICAND) - 1)) + SQRT_HALF;
    let f = f64::from_bits(rest) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    n * LN_2_HIGH + (2.0 * s + (2.0 * s * z * artanh_rest(z) + n * LN_2_LOW))
}

/// `(artanh s / s - 1) / z` with z = s^2 <= 0.0295: the first ten terms of the series; the next is below 7e-17 of it.
#[inline(always)]
fn artanh_rest(z: f64) -> f64 {
    let c = |k: usize| 1.0 / (2 * k + 3) as f64;
    let pair = |k: usize| c(2 * k) + c(2 * k + 1) * z;
    let (z2, z4) = (z * z, (z * z) * (z * z));
    let low = pair(0) + z2 * pair(1);
    let high = pair(2) + z2 * pair(3);
    low + z4 * (high + z4 * pair(4))
}

/// ln(1 + x) for -1/2 <= x, within 4 ulp; from 1e300 on what it is there. NaN gives NaN.
#[inline(always)]
pub fn ln_1p(x: f64) -> f64 {
    let x = if x > 1e300 { 1e300 } else { x };
    let sum = 1.0 + x;
    // What rounding took from the sum, to first order.
    ln(sum) + (x - (sum - 1.0)) / sum
}

/// A closure that borrows what it works on. Given to [`Arch::dispatch`] itself it would be called through a shim, which the compiler
/// may leave out of line, and so without wide registers, however the closure is marked.
struct Inlined<F>(F);

impl<R, F: FnMut() -> R> NullaryFnOnce for Inlined<F> {
    type Output = R;

    #[inline(always)]
    fn call(mut self) -> R {
        (self.0)()
    }
}

/// Runs `work`, a closure marked `#[inline(always)]`. One that consumes what it captures needs no help and goes to [`Arch::dispatch`].
#[inline(always)]
pub fn vectorised<R>(arch: Arch, work: impl FnMut() -> R) -> R {
    arch.dispatch(Inlined(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(name: &str, x: f64, found: f64, wanted: f64, ulps: f64) {
        let error = (found / wanted - 1.0).abs();
        let exact = found == wanted;
        assert!(
            exact || error < ulps * f64::EPSILON,
            "{name} {x}: {found} {wanted}"
        );
    }

    #[test]
    fn exponential_is_that_of_the_standard_library() {
        for i in 0..70_000 {
            let x = -0.01 * f64::from(i) - 1e-3 / f64::from(i + 1);
            assert_near("exp", x, exp(x), x.exp(), 2.1);
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f64::NEG_INFINITY) < 1e-303 && exp(f64::NAN).is_nan());
    }

    #[test]
    fn logarithms_are_those_of_the_standard_library() {
        let mut x = 1e-306;
        while x < 1e306 {
            assert_near("ln", x, ln(x), x.ln(), 3.0);
            assert_near("ln_1p", x, ln_1p(x), x.min(1e300).ln_1p(), 4.0);
            x *= 1.0137;
        }
        for i in 1..5_000 {
            let x = f64::from(i) * 1e-4;
            assert_near("ln", 1.0 + x, ln(1.0 + x), (1.0 + x).ln(), 3.0);
            assert_near("ln", 1.0 - x, ln(1.0 - x), (1.0 - x).ln(), 3.0);
            assert_near("ln_1p", -x, ln_1p(-x), (-x).ln_1p(), 4.0);
        }
        assert_eq!((ln(1.0), ln_1p(0.0)), (0.0, 0.0));
        assert!(ln_1p(f64::NAN).is_nan() && (ln_1p(f64::INFINITY) - 1e300f64.ln()).abs() < 1e-12);
    }
}
