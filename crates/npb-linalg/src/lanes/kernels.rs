//! The inner loops, written once over vector registers of any width.
//!
//! Each kernel walks over windows of `N` registers, all of whose components go through the same scalar algorithm in step:
//! read every `[S::f64s; N]` below as "the number", for `N * S::F64_LANES` components at once.

use pulp::{Simd, WithSimd};

/// `lanes` is a multiple of this number: the f64 lanes of the widest vector register.
pub(super) const LANE_MULTIPLE: usize = 8;

/// Position of element (i, j) of a symmetric matrix whose lower triangle is stored row by row.
#[inline(always)]
pub(super) fn packed(i: usize, j: usize) -> usize {
    let (row, col) = (i.max(j), i.min(j));
    row * (row + 1) / 2 + col
}

/// Position of element (i, k), k < i, of a strictly lower triangle stored row by row.
#[inline(always)]
pub(super) fn strict(i: usize, k: usize) -> usize {
    i * i.saturating_sub(1) / 2 + k
}

/// Where one window of registers lies in an array of lanes.
#[derive(Clone, Copy)]
struct Window {
    /// Registers per element.
    stride: usize,
    /// First register of the window within an element.
    first: usize,
}

impl Window {
    #[inline(always)]
    fn load<T: Copy, const N: usize>(self, a: &[T], element: usize) -> [T; N] {
        *a[element * self.stride + self.first..]
            .first_chunk()
            .expect("an element lies within its array")
    }

    #[inline(always)]
    fn store<T: Copy, const N: usize>(self, a: &mut [T], element: usize, value: [T; N]) {
        *a[element * self.stride + self.first..]
            .first_chunk_mut()
            .expect("an element lies within its array") = value;
    }
}

/// Runs `$body` for each window, with `$N` registers in each, the largest of 4, 3, 2, 1 that divides the registers per element.
macro_rules! for_each_window {
    ($stride:expr, $kernel:ident::<$S:ident>($($arg:expr),* $(,)?)) => {{
        let stride = $stride;
        let width = [4, 3, 2].into_iter().find(|n| stride % n == 0).unwrap_or(1);
        for first in (0..stride).step_by(width) {
            let window = Window { stride, first };
            match width {
                4 => $kernel::<$S, 4>(window, $($arg),*),
                3 => $kernel::<$S, 3>(window, $($arg),*),
                2 => $kernel::<$S, 2>(window, $($arg),*),
                _ => $kernel::<$S, 1>(window, $($arg),*),
            }
        }
    }};
}

/// a + x y
#[inline(always)]
fn add_mul<S: Simd, const N: usize>(
    simd: S,
    a: [S::f64s; N],
    x: [S::f64s; N],
    y: [S::f64s; N],
) -> [S::f64s; N] {
    std::array::from_fn(|b| simd.mul_add_e_f64s(x[b], y[b], a[b]))
}

/// a - x y
#[inline(always)]
fn sub_mul<S: Simd, const N: usize>(
    simd: S,
    a: [S::f64s; N],
    x: [S::f64s; N],
    y: [S::f64s; N],
) -> [S::f64s; N] {
    std::array::from_fn(|b| simd.negate_mul_add_e_f64s(x[b], y[b], a[b]))
}

#[inline(always)]
fn mul<S: Simd, const N: usize>(simd: S, x: [S::f64s; N], y: [S::f64s; N]) -> [S::f64s; N] {
    std::array::from_fn(|b| simd.mul_f64s(x[b], y[b]))
}

#[inline(always)]
fn neg<S: Simd, const N: usize>(simd: S, x: [S::f64s; N]) -> [S::f64s; N] {
    std::array::from_fn(|b| simd.neg_f64s(x[b]))
}

#[inline(always)]
fn recip<S: Simd, const N: usize>(simd: S, x: [S::f64s; N]) -> [S::f64s; N] {
    let one = simd.splat_f64s(1.0);
    std::array::from_fn(|b| simd.div_f64s(one, x[b]))
}

#[inline(always)]
fn splat<S: Simd, const N: usize>(simd: S, x: f64) -> [S::f64s; N] {
    [simd.splat_f64s(x); N]
}

/// A = L D Lᵀ of one principal block, column by column; true if all pivots are positive.
pub(super) struct Factor<'a> {
    pub(super) lanes: usize,
    pub(super) bank: &'a [f64],
    pub(super) block: &'a [usize],
    pub(super) lower: &'a mut [f64],
    pub(super) pivots: &'a mut [f64],
    pub(super) recips: &'a mut [f64],
    pub(super) work: &'a mut [f64],
    pub(super) ln_det: &'a mut [f64],
}

impl WithSimd for Factor<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let (bank, _) = S::as_simd_f64s(self.bank);
        let (lower, _) = S::as_mut_simd_f64s(self.lower);
        let (recips, _) = S::as_mut_simd_f64s(self.recips);
        let (work, _) = S::as_mut_simd_f64s(self.work);
        {
            let (pivots, _) = S::as_mut_simd_f64s(&mut *self.pivots);
            for_each_window!(
                self.lanes / S::F64_LANES,
                factor::<S>(
                    simd,
                    bank,
                    self.block,
                    &mut *lower,
                    &mut *pivots,
                    &mut *recips,
                    &mut *work
                )
            );
        }
        ln_product(self.pivots, self.ln_det)
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn factor<S: Simd, const N: usize>(
    at: Window,
    simd: S,
    bank: &[S::f64s],
    block: &[usize],
    lower: &mut [S::f64s],
    pivots: &mut [S::f64s],
    recips: &mut [S::f64s],
    work: &mut [S::f64s],
) {
    for (j, &source) in block.iter().enumerate() {
        // work_k = L_jk D_k; pivot = A_jj - sum L_jk work_k.
        let mut pivot = at.load::<_, N>(bank, packed(source, source));
        for k in 0..j {
            let l = at.load(lower, strict(j, k));
            let scaled = mul(simd, l, at.load(pivots, k));
            at.store(work, k, scaled);
            pivot = sub_mul(simd, pivot, l, scaled);
        }
        let reciprocal = recip(simd, pivot);
        at.store(pivots, j, pivot);
        at.store(recips, j, reciprocal);
        for i in j + 1..block.len() {
            let mut sum = at.load::<_, N>(bank, packed(block[i], source));
            for k in 0..j {
                sum = sub_mul(simd, sum, at.load(lower, strict(i, k)), at.load(work, k));
            }
            at.store(lower, strict(i, j), mul(simd, sum, reciprocal));
        }
    }
}

/// Adds up ln of the pivots of each lane and tells whether all of them are positive normal numbers.
///
/// Exponents are summed and mantissas multiplied, so that one logarithm per lane is taken and nothing over- or underflows.
#[inline(always)]
fn ln_product(pivots: &[f64], ln_det: &mut [f64]) -> bool {
    const GROUP: usize = LANE_MULTIPLE;
    const MANTISSA: u64 = (1 << 52) - 1;
    const ONE: u64 = 1023 << 52;
    /// Mantissas are below 2: this many of them multiply to a finite number.
    const RUN: usize = 512;

    let lanes = ln_det.len();
    let mut positive = true;
    for group in 0..lanes / GROUP {
        let mut exponents = [0i64; GROUP];
        let mut products = [1.0f64; GROUP];
        let mut sums = [0.0f64; GROUP];
        for (i, row) in pivots.chunks_exact(lanes).enumerate() {
            let pivot: &[f64; GROUP] = row[group * GROUP..]
                .first_chunk()
                .expect("lanes come in whole groups");
            for h in 0..GROUP {
                let bits = pivot[h].to_bits();
                // Sign and exponent: 0 is subnormal or zero, 2047 infinite or NaN, above that negative.
                let high = bits >> 52;
                positive &= high.wrapping_sub(1) < 2046;
                exponents[h] += high as i64 - 1023;
                products[h] *= f64::from_bits((bits & MANTISSA) | ONE);
            }
            if i % RUN == RUN - 1 {
                for h in 0..GROUP {
                    sums[h] += products[h].ln();
                    products[h] = 1.0;
                }
            }
        }
        for h in 0..GROUP {
            ln_det[group * GROUP + h] =
                sums[h] + products[h].ln() + exponents[h] as f64 * std::f64::consts::LN_2;
        }
    }
    positive
}

/// r <- A⁻¹ r and quad <- rᵀ A⁻¹ r of the old r.
pub(super) struct Solve<'a> {
    pub(super) lanes: usize,
    pub(super) lower: &'a [f64],
    pub(super) recips: &'a [f64],
    pub(super) r: &'a mut [f64],
    pub(super) quad: &'a mut [f64],
}

impl WithSimd for Solve<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (lower, _) = S::as_simd_f64s(self.lower);
        let (recips, _) = S::as_simd_f64s(self.recips);
        let (r, _) = S::as_mut_simd_f64s(self.r);
        let (quad, _) = S::as_mut_simd_f64s(self.quad);
        for_each_window!(
            self.lanes / S::F64_LANES,
            solve::<S>(simd, lower, recips, &mut *r, &mut *quad)
        );
    }
}

#[inline(always)]
fn solve<S: Simd, const N: usize>(
    at: Window,
    simd: S,
    lower: &[S::f64s],
    recips: &[S::f64s],
    r: &mut [S::f64s],
    quad: &mut [S::f64s],
) {
    let n = recips.len() / at.stride;
    let mut square = splat::<S, N>(simd, 0.0);
    for i in 0..n {
        let mut y = at.load::<_, N>(r, i);
        for k in 0..i {
            y = sub_mul(simd, y, at.load(lower, strict(i, k)), at.load(r, k));
        }
        at.store(r, i, y);
        square = add_mul(simd, square, mul(simd, y, y), at.load(recips, i));
    }
    at.store(quad, 0, square);
    for i in (0..n).rev() {
        let mut x = mul(simd, at.load::<_, N>(r, i), at.load(recips, i));
        for k in i + 1..n {
            x = sub_mul(simd, x, at.load(lower, strict(k, i)), at.load(r, k));
        }
        at.store(r, i, x);
    }
}

/// square <- A⁻¹, by bordering from the last row up.
pub(super) struct Invert<'a> {
    pub(super) lanes: usize,
    pub(super) n: usize,
    pub(super) lower: &'a [f64],
    pub(super) recips: &'a [f64],
    pub(super) square: &'a mut [f64],
    pub(super) work: &'a mut [f64],
}

impl WithSimd for Invert<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (lower, _) = S::as_simd_f64s(self.lower);
        let (recips, _) = S::as_simd_f64s(self.recips);
        let (square, _) = S::as_mut_simd_f64s(self.square);
        let (work, _) = S::as_mut_simd_f64s(self.work);
        for_each_window!(
            self.lanes / S::F64_LANES,
            invert::<S>(simd, self.n, lower, recips, &mut *square, &mut *work)
        );
    }
}

/// With A = [1 0; v L₂] diag(d, D₂) [1 0; v L₂]ᵀ and S = (L₂ D₂ L₂ᵀ)⁻¹ known, A⁻¹ = [1/d + vᵀ S v, -vᵀ S; -S v, S].
#[inline(always)]
fn invert<S: Simd, const N: usize>(
    at: Window,
    simd: S,
    n: usize,
    lower: &[S::f64s],
    recips: &[S::f64s],
    square: &mut [S::f64s],
    work: &mut [S::f64s],
) {
    for j in (0..n).rev() {
        for k in j + 1..n {
            let v = at.load::<_, N>(lower, strict(k, j));
            at.store(work, k, neg(simd, v));
        }
        let mut corner = at.load::<_, N>(recips, j);
        for i in j + 1..n {
            let mut sum = splat::<S, N>(simd, 0.0);
            for k in j + 1..n {
                sum = add_mul(simd, sum, at.load(square, i * n + k), at.load(work, k));
            }
            at.store(square, i * n + j, sum);
            at.store(square, j * n + i, sum);
            corner = add_mul(simd, corner, sum, at.load(work, i));
        }
        at.store(square, j * n + j, corner);
    }
}

/// square <- S_mm - S_mo S_oo⁻¹ S_om from the factor of S_oo.
pub(super) struct Schur<'a> {
    pub(super) lanes: usize,
    pub(super) bank: &'a [f64],
    pub(super) observed: &'a [usize],
    pub(super) missing: &'a [usize],
    pub(super) lower: &'a [f64],
    pub(super) recips: &'a [f64],
    pub(super) half: &'a mut [f64],
    pub(super) scaled_half: &'a mut [f64],
    pub(super) square: &'a mut [f64],
}

impl WithSimd for Schur<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (bank, _) = S::as_simd_f64s(self.bank);
        let (lower, _) = S::as_simd_f64s(self.lower);
        let (recips, _) = S::as_simd_f64s(self.recips);
        let (half, _) = S::as_mut_simd_f64s(self.half);
        let (scaled_half, _) = S::as_mut_simd_f64s(self.scaled_half);
        let (square, _) = S::as_mut_simd_f64s(self.square);
        let (observed, missing) = (self.observed, self.missing);
        let stride = self.lanes / S::F64_LANES;
        for_each_window!(
            stride,
            half_solve::<S>(
                simd,
                bank,
                observed,
                missing,
                lower,
                recips,
                &mut *half,
                &mut *scaled_half
            )
        );
        for_each_window!(
            stride,
            subtract_product::<S>(
                simd,
                bank,
                observed.len(),
                missing,
                half,
                scaled_half,
                &mut *square
            )
        );
    }
}

/// half <- L⁻¹ S_om and scaled_half <- D⁻¹ L⁻¹ S_om, one missing coordinate after the other.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn half_solve<S: Simd, const N: usize>(
    at: Window,
    simd: S,
    bank: &[S::f64s],
    observed: &[usize],
    missing: &[usize],
    lower: &[S::f64s],
    recips: &[S::f64s],
    half: &mut [S::f64s],
    scaled_half: &mut [S::f64s],
) {
    let n = observed.len();
    for (j, &m) in missing.iter().enumerate() {
        for (i, &o) in observed.iter().enumerate() {
            let mut y = at.load::<_, N>(bank, packed(o, m));
            for k in 0..i {
                y = sub_mul(
                    simd,
                    y,
                    at.load(lower, strict(i, k)),
                    at.load(half, j * n + k),
                );
            }
            at.store(half, j * n + i, y);
            at.store(scaled_half, j * n + i, mul(simd, y, at.load(recips, i)));
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn subtract_product<S: Simd, const N: usize>(
    at: Window,
    simd: S,
    bank: &[S::f64s],
    n: usize,
    missing: &[usize],
    half: &[S::f64s],
    scaled_half: &[S::f64s],
    square: &mut [S::f64s],
) {
    let m = missing.len();
    for i in 0..m {
        for j in 0..=i {
            let mut sum = at.load::<_, N>(bank, packed(missing[i], missing[j]));
            for k in 0..n {
                sum = sub_mul(
                    simd,
                    sum,
                    at.load(half, i * n + k),
                    at.load(scaled_half, j * n + k),
                );
            }
            at.store(square, i * m + j, sum);
            at.store(square, j * m + i, sum);
        }
    }
}

/// y <- y + sign * A x for a rectangular block A of the bank.
pub(super) struct AddProduct<'a> {
    pub(super) lanes: usize,
    pub(super) bank: &'a [f64],
    pub(super) rows: &'a [usize],
    pub(super) cols: &'a [usize],
    pub(super) sign: f64,
    pub(super) x: &'a [f64],
    pub(super) y: &'a mut [f64],
}

impl WithSimd for AddProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (bank, _) = S::as_simd_f64s(self.bank);
        let (x, _) = S::as_simd_f64s(self.x);
        let (y, _) = S::as_mut_simd_f64s(self.y);
        let sign = simd.splat_f64s(self.sign);
        for_each_window!(
            self.lanes / S::F64_LANES,
            add_product::<S>(simd, bank, self.rows, self.cols, sign, x, &mut *y)
        );
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn add_product<S: Simd, const N: usize>(
    at: Window,
    simd: S,
    bank: &[S::f64s],
    rows: &[usize],
    cols: &[usize],
    sign: S::f64s,
    x: &[S::f64s],
    y: &mut [S::f64s],
) {
    for (i, &row) in rows.iter().enumerate() {
        let mut sum = splat::<S, N>(simd, 0.0);
        for (j, &col) in cols.iter().enumerate() {
            sum = add_mul(simd, sum, at.load(bank, packed(row, col)), at.load(x, j));
        }
        at.store(y, i, add_mul(simd, at.load(y, i), sum, [sign; N]));
    }
}

/// y <- A x for a full square A.
pub(super) struct Product<'a> {
    pub(super) lanes: usize,
    pub(super) square: &'a [f64],
    pub(super) x: &'a [f64],
    pub(super) y: &'a mut [f64],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (square, _) = S::as_simd_f64s(self.square);
        let (x, _) = S::as_simd_f64s(self.x);
        let (y, _) = S::as_mut_simd_f64s(self.y);
        for_each_window!(
            self.lanes / S::F64_LANES,
            product::<S>(simd, square, x, &mut *y)
        );
    }
}

#[inline(always)]
fn product<S: Simd, const N: usize>(
    at: Window,
    simd: S,
    square: &[S::f64s],
    x: &[S::f64s],
    y: &mut [S::f64s],
) {
    let n = x.len() / at.stride;
    for i in 0..n {
        let mut sum = splat::<S, N>(simd, 0.0);
        for k in 0..n {
            sum = add_mul(simd, sum, at.load(square, i * n + k), at.load(x, k));
        }
        at.store(y, i, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::ln_product;

    /// The mantissas, all near 2, and the exponents would each overflow if they were multiplied or added up as they stand.
    #[test]
    fn many_pivots_neither_overflow_nor_lose_digits() {
        let lanes = 8;
        let scales = [
            1.9,
            1.9e300,
            1.9e-300,
            1.0,
            f64::MIN_POSITIVE,
            f64::MAX,
            3.0,
            0.3,
        ];
        let pivots: Vec<f64> = (0..1500 * lanes).map(|k| scales[k % lanes]).collect();
        let mut ln_det = vec![f64::NAN; lanes];
        assert!(ln_product(&pivots, &mut ln_det));
        for (found, scale) in ln_det.iter().zip(scales) {
            let expected = 1500.0 * scale.ln();
            assert!((found - expected).abs() <= 1e-13 * expected.abs());
        }
    }

    #[test]
    fn pivots_that_are_not_positive_normal_numbers_are_seen_in_every_lane() {
        for value in [
            0.0,
            -0.0,
            -1.0,
            f64::MIN_POSITIVE / 2.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
        ] {
            for place in [0, 7, 8, 31] {
                let mut pivots = vec![1.0; 32];
                pivots[place] = value;
                assert!(!ln_product(&pivots, &mut [0.0; 16]), "{value} at {place}");
            }
        }
    }
}
