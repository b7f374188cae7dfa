//! Exponentials of many numbers at once.

use pulp::Arch;

/// Turns rows of `width` log-weights into weights, the largest of each row 1; a row of minus infinities becomes zeros.
/// Returns the sum of the largest log-weights.
pub(crate) fn exp_rows(out: &mut [f64], width: usize) -> f64 {
    Arch::new().dispatch(ExpRows { out, width })
}

struct ExpRows<'a> {
    out: &'a mut [f64],
    width: usize,
}

impl pulp::NullaryFnOnce for ExpRows<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let rows = self.out.chunks_exact_mut(self.width);
        rows.map(exp_row).sum()
    }
}

/// One row of [`exp_rows`]; inlined into loops that run under vector instructions.
#[inline(always)]
fn exp_row(row: &mut [f64]) -> f64 {
    let mut largest = f64::NEG_INFINITY;
    for &x in row.iter() {
        largest = if x > largest { x } else { largest };
    }
    if largest == f64::NEG_INFINITY {
        row.fill(0.0);
        return largest;
    }
    for x in row {
        *x = exp_below_zero(*x - largest);
    }
    largest
}

/// e^x for x <= 0 within 2 ulp, exactly 1 at 0, and 0 below -700. Without branches, so that loops over it are turned into
/// vector instructions.
#[inline(always)]
fn exp_below_zero(x: f64) -> f64 {
    // x = n ln 2 + r with |r| <= ln 2 / 2; adding 1.5 2^52 rounds to the nearest whole number and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let inside = x > -700.0;
    let x = if inside { x } else { -700.0 };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // Taylor's series to r^13: the rest is below 2^-53 for |r| <= 0.347.
    let mut p = 1.0 / 6_227_020_800.0;
    p = p * r + 1.0 / 479_001_600.0;
    p = p * r + 1.0 / 39_916_800.0;
    p = p * r + 1.0 / 3_628_800.0;
    p = p * r + 1.0 / 362_880.0;
    p = p * r + 1.0 / 40_320.0;
    p = p * r + 1.0 / 5_040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    let power_of_2 = f64::from_bits(shifted.to_bits().wrapping_add(1023).wrapping_shl(52));
    let value = p * power_of_2;
    if inside { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right_to_two_ulp() {
        for i in 0..200_000 {
            let x = -f64::from(i) * 0.0034;
            let (ours, theirs) = (exp_below_zero(x), x.exp());
            assert!(
                (ours - theirs).abs() <= 2.0 * f64::EPSILON * theirs,
                "{x}: {ours} {theirs}"
            );
        }
        assert_eq!(exp_below_zero(0.0), 1.0);
        assert_eq!(exp_below_zero(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp_below_zero(-1e300), 0.0);
    }

    #[test]
    fn rows_are_scaled_one_by_one() {
        let inf = f64::NEG_INFINITY;
        let mut rows = [-1000.0, -1001.0, 5.0, inf, inf, inf];
        assert_eq!(exp_rows(&mut rows[..4], 2), -995.0);
        assert_eq!(exp_rows(&mut rows[4..], 2), inf);
        assert_eq!(rows[0], 1.0);
        assert!((rows[1] - (-1f64).exp()).abs() < 1e-15);
        assert_eq!(rows[2..], [1.0, 0.0, 0.0, 0.0]);
    }
}
