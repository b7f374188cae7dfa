//! Quadratic and linear forms of rows, in vector registers.

use crate::Cholesky;
use faer::MatRef;
use pulp::{Arch, Simd, WithSimd};

use super::memory::{Memory, padded};

/// Registers of rows that go through a form together: with two columns at a time, eight independent sums hide the latency of an addition; four make sixteen.
const WINDOW: usize = 4;

/// Rows side by side are padded to a multiple of this number: a window of the widest registers.
pub(super) const ROW_MULTIPLE: usize = 8 * WINDOW;

/// Columns of a factor that go through the rows together, where there are registers enough: loops are longer, and a row is loaded less often.
const COLUMNS: usize = 4;

/// `C` of `L = C C'` (P x P), lower triangle, columns by fours: all start at the row of the first, with zeros above their own.
#[derive(Clone, Debug)]
pub(super) struct PackedFactor {
    columns: Vec<f64>,
}

impl PackedFactor {
    pub(super) fn new(factor: &Cholesky) -> Self {
        let (lower, p) = (factor.l(), factor.l().nrows());
        let mut columns = Vec::with_capacity(p * (p + COLUMNS) / 2);
        for first in (0..p).step_by(COLUMNS) {
            for i in first..p {
                let row = first..first + COLUMNS;
                columns.extend(row.map(|j| if j <= i { lower[(i, j)] } else { 0.0 }));
            }
        }
        Self { columns }
    }
}

/// Rows side by side, `d = x - centre`: `|C'd|^2`, and `a'd` for any number of `a`.
pub(super) struct SideBySide<'a> {
    /// Feature j of row i at `j * stride + i`; `stride` a multiple of [`ROW_MULTIPLE`]. There may be more features than the centre has.
    pub(super) columns: &'a [f64],
    pub(super) centre: &'a [f64],
    pub(super) factor: &'a PackedFactor,
    /// One `a` after the other, as many as there is room for in `out`.
    pub(super) slopes: &'a [f64],
    /// Working memory: `P x ROW_MULTIPLE`.
    pub(super) window: &'a mut [f64],
    /// The square by row (`stride`); `a'd` by `a`, then row.
    pub(super) out: [&'a mut [f64]; 2],
}

impl WithSimd for SideBySide<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let p = self.centre.len();
        let (columns, _) = S::as_simd_f64s(self.columns);
        let (window, _) = S::as_mut_simd_f64s(self.window);
        let (deviation, _) = window[..p * WINDOW].as_chunks_mut::<WINDOW>();
        let [quadratic, slopes] = self.out.map(|x| S::as_mut_simd_f64s(x).0);
        let stride = quadratic.len();
        for first in (0..stride).step_by(WINDOW) {
            for (j, (d, &m)) in deviation.iter_mut().zip(self.centre).enumerate() {
                let m = simd.splat_f64s(m);
                let x = &columns[j * stride + first..][..WINDOW];
                for k in 0..WINDOW {
                    d[k] = simd.sub_f64s(x[k], m);
                }
            }
            let sum = square(simd, &self.factor.columns, deviation);
            quadratic[first..][..WINDOW].copy_from_slice(&sum);
            for (k, slope) in slopes.chunks_exact_mut(stride.max(1)).enumerate() {
                let sum = inner_product(simd, &self.slopes[k * p..][..p], deviation);
                slope[first..][..WINDOW].copy_from_slice(&sum);
            }
        }
    }
}

/// `|C'd|^2`.
#[inline(always)]
fn square<S: Simd>(simd: S, factor: &[f64], d: &[[S::f64s; WINDOW]]) -> [S::f64s; WINDOW] {
    let mut sum = [simd.splat_f64s(0.0); WINDOW];
    let (mut rows, _) = factor.as_chunks::<COLUMNS>();
    for first in (0..d.len()).step_by(COLUMNS) {
        let d = &d[first..];
        let (here, rest) = rows.split_at(d.len());
        rows = rest;
        if S::F64_LANES < 8 {
            add_squares::<S, 2>(simd, here, 0, d, &mut sum);
            add_squares::<S, 2>(simd, here, 2, d, &mut sum);
        } else {
            add_squares::<S, COLUMNS>(simd, here, 0, d, &mut sum);
        }
    }
    sum
}

/// Adds `(c'd)^2` for `N` columns `c` side by side.
#[inline(always)]
fn add_squares<S: Simd, const N: usize>(
    simd: S,
    rows: &[[f64; COLUMNS]],
    first: usize,
    d: &[[S::f64s; WINDOW]],
    sum: &mut [S::f64s; WINDOW],
) {
    let mut products = [[simd.splat_f64s(0.0); WINDOW]; N];
    for (row, d) in rows.iter().zip(d) {
        for (j, product) in products.iter_mut().enumerate() {
            let c = simd.splat_f64s(row[first + j]);
            for k in 0..WINDOW {
                product[k] = simd.mul_add_e_f64s(c, d[k], product[k]);
            }
        }
    }
    for y in products {
        for k in 0..WINDOW {
            sum[k] = simd.mul_add_e_f64s(y[k], y[k], sum[k]);
        }
    }
}

/// `a'd`.
#[inline(always)]
fn inner_product<S: Simd>(simd: S, a: &[f64], d: &[[S::f64s; WINDOW]]) -> [S::f64s; WINDOW] {
    let mut sum = [simd.splat_f64s(0.0); WINDOW];
    for (&a, d) in a.iter().zip(d) {
        let a = simd.splat_f64s(a);
        for k in 0..WINDOW {
            sum[k] = simd.mul_add_e_f64s(a, d[k], sum[k]);
        }
    }
    sum
}

/// Rows one after the other: `d = x - mean` where observed, zero where missing.
pub(super) struct Centre<'a> {
    /// Padded with zeros, and zero where missing.
    pub(super) rows: &'a [f64],
    /// 1 where observed, else 0; padded likewise.
    pub(super) observed: &'a [f64],
    /// Padded with zeros.
    pub(super) mean: &'a [f64],
    pub(super) d: &'a mut [f64],
}

impl WithSimd for Centre<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [rows, observed, mean] =
            [self.rows, self.observed, self.mean].map(|x| S::as_simd_f64s(x).0);
        let (d, _) = S::as_mut_simd_f64s(self.d);
        let n = mean.len();
        for ((d, x), observed) in d
            .chunks_exact_mut(n)
            .zip(rows.chunks_exact(n))
            .zip(observed.chunks_exact(n))
        {
            for k in 0..n {
                d[k] = simd.negate_mul_add_e_f64s(observed[k], mean[k], x[k]);
            }
        }
    }
}

/// Rows one after the other, each with its own product `g`: `d'g + 2 b'd`, and `a'd` for any number of `a`.
pub(super) struct OneByOne<'a> {
    /// Rows of `d` and of `g`, padded with zeros to a multiple of eight features.
    pub(super) d: &'a [f64],
    pub(super) g: &'a [f64],
    /// One `a` after the other, and `b` (padded likewise), or nothing.
    pub(super) linear: Option<[&'a [f64]; 2]>,
    /// The first form by row; `a'd` by row, then `a`.
    pub(super) out: [&'a mut [f64]; 2],
}

impl WithSimd for OneByOne<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (d, _) = S::as_simd_f64s(self.d);
        let (g, _) = S::as_simd_f64s(self.g);
        let [quadratic, slopes] = self.out;
        let registers = d.len() / quadratic.len().max(1);
        let n_slopes = slopes.len() / quadratic.len().max(1);
        let linear = self.linear.map(|forms| forms.map(|x| S::as_simd_f64s(x).0));
        for (row, quadratic) in quadratic.iter_mut().enumerate() {
            let range = row * registers..(row + 1) * registers;
            let (d, g) = (&d[range.clone()], &g[range]);
            let mut sums = [simd.splat_f64s(0.0); 2];
            for k in 0..registers {
                sums[0] = simd.mul_add_e_f64s(d[k], g[k], sums[0]);
            }
            if let Some([a, b]) = linear {
                for k in 0..registers {
                    sums[1] = simd.mul_add_e_f64s(d[k], b[k], sums[1]);
                }
                for (slope, first) in slopes[row * n_slopes..][..n_slopes]
                    .iter_mut()
                    .zip((0..).step_by(registers))
                {
                    let mut sum = simd.splat_f64s(0.0);
                    for k in 0..registers {
                        sum = simd.mul_add_e_f64s(d[k], a[first + k], sum);
                    }
                    *slope = simd.reduce_sum_f64s(sum);
                }
            }
            *quadratic = simd.reduce_sum_f64s(sums[0]) + 2.0 * simd.reduce_sum_f64s(sums[1]);
        }
    }
}

/// Mean and covariance of an expert's coefficients, padded.
#[derive(Clone, Debug)]
pub struct PackedExpert {
    mean: Memory,
    covariance: Memory,
    size: usize,
}

impl PackedExpert {
    /// `covariance`: as wide as `mean` is long.
    pub fn new(mean: &[f64], covariance: MatRef<'_, f64>) -> Self {
        let (size, stride) = (mean.len(), padded(mean.len()));
        let mut packed = Self {
            mean: Memory::zeros(stride),
            covariance: Memory::zeros(size * stride),
            size,
        };
        packed.mean.get_mut(size).copy_from_slice(mean);
        for j in 0..size {
            for (i, value) in packed.covariance.part_mut(j, stride)[..size]
                .iter_mut()
                .enumerate()
            {
                *value = covariance[(i, j)];
            }
        }
        packed
    }

    /// Mean and variance of `w'x`; `x` is padded with zeros.
    pub fn score(&self, arch: Arch, x: &[f64]) -> (f64, f64) {
        let stride = padded(self.size);
        arch.dispatch(Score {
            mean: self.mean.get(stride),
            covariance: self.covariance.get(self.size * stride),
            x: &x[..stride],
        })
    }
}

struct Score<'a> {
    mean: &'a [f64],
    covariance: &'a [f64],
    x: &'a [f64],
}

impl WithSimd for Score<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> (f64, f64) {
        let (mean, _) = S::as_simd_f64s(self.mean);
        let (covariance, _) = S::as_simd_f64s(self.covariance);
        let (x, _) = S::as_simd_f64s(self.x);
        let product = |y: &[S::f64s]| {
            let mut sum = simd.splat_f64s(0.0);
            for (y, x) in y.iter().zip(x) {
                sum = simd.mul_add_e_f64s(*y, *x, sum);
            }
            sum
        };
        let mut variance = simd.splat_f64s(0.0);
        for (row, &x) in covariance.chunks_exact(x.len()).zip(self.x) {
            variance = simd.mul_add_e_f64s(simd.splat_f64s(x), product(row), variance);
        }
        (
            simd.reduce_sum_f64s(product(mean)),
            simd.reduce_sum_f64s(variance),
        )
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::mixture::archs;

    fn value(k: usize) -> f64 {
        (k as f64 * 0.7).sin()
    }

    fn matrix(p: usize) -> Mat<f64> {
        Mat::from_fn(p, p, |i, j| {
            if i == j {
                p as f64 + value(i)
            } else {
                value(i.max(j) * p + i.min(j))
            }
        })
    }

    fn quadratic(matrix: &Mat<f64>, x: &[f64]) -> f64 {
        let row = |i: usize| -> f64 { (0..x.len()).map(|j| matrix[(i, j)] * x[j]).sum() };
        (0..x.len()).map(|i| x[i] * row(i)).sum()
    }

    fn product(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn assert_near(found: f64, wanted: f64) {
        let scale = 1.0 + wanted.abs();
        assert!((found - wanted).abs() < 1e-12 * scale, "{found} {wanted}");
    }

    /// Both ways through the forms, on every instruction set, for even and odd numbers of features.
    #[test]
    fn forms_are_those_of_plain_loops() {
        for (p, arch) in [1, 2, 5, 8, 17]
            .into_iter()
            .flat_map(|p| archs().into_iter().map(move |arch| (p, arch)))
        {
            let (n, stride, matrix) = (ROW_MULTIPLE + 1, padded(p), matrix(p));
            let [mean, a, b]: [Vec<f64>; 3] = [10, 20, 30].map(|k| {
                (0..stride)
                    .map(|j| if j < p { value(k + j) } else { 0.0 })
                    .collect()
            });
            let x = |i: usize, j: usize| value(100 + i * p + j);
            let wanted = |i: usize| {
                let d: Vec<f64> = (0..p).map(|j| x(i, j) - mean[j]).collect();
                let [a, b] = [&a, &b].map(|c| product(c, &d));
                (quadratic(&matrix, &d), a, b)
            };

            let wide = n.next_multiple_of(ROW_MULTIPLE);
            let mut columns = vec![0.0; p * wide];
            (0..n * p).for_each(|k| columns[(k % p) * wide + k / p] = x(k / p, k % p));
            // Two slopes: `a` and `b`.
            let both: Vec<f64> = a[..p].iter().chain(&b[..p]).copied().collect();
            let (mut quadratics, mut slopes) = (vec![0.0; wide], vec![0.0; 2 * wide]);
            arch.dispatch(SideBySide {
                columns: &columns,
                centre: &mean[..p],
                factor: &PackedFactor::new(
                    &Cholesky::new(matrix.as_ref()).expect("positive definite"),
                ),
                slopes: &both,
                window: &mut vec![0.0; p * ROW_MULTIPLE],
                out: [&mut quadratics, &mut slopes],
            });
            for i in 0..n {
                let (square, slope, offset) = wanted(i);
                assert_near(quadratics[i], square);
                assert_near(slopes[i], slope);
                assert_near(slopes[wide + i], offset);
            }

            let (mut rows, mut g) = (vec![0.0; n * stride], vec![0.0; n * stride]);
            (0..n * p).for_each(|k| rows[k / p * stride + k % p] = x(k / p, k % p));
            let mut d = vec![0.0; n * stride];
            arch.dispatch(Centre {
                rows: &rows,
                observed: &vec![1.0; n * stride],
                mean: &mean,
                d: &mut d,
            });
            for (g, d) in g.chunks_exact_mut(stride).zip(d.chunks_exact(stride)) {
                (0..p).for_each(|i| g[i] = (0..p).map(|j| matrix[(i, j)] * d[j]).sum());
            }
            let (mut quadratics, mut slopes) = (vec![0.0; n], vec![0.0; n]);
            arch.dispatch(OneByOne {
                d: &d,
                g: &g,
                linear: Some([&a, &b]),
                out: [&mut quadratics, &mut slopes],
            });
            for i in 0..n {
                let (square, slope, offset) = wanted(i);
                assert_near(quadratics[i], square + 2.0 * offset);
                assert_near(slopes[i], slope);
            }

            let (mean, variance) = PackedExpert::new(&a[..p], matrix.as_ref()).score(arch, &rows);
            assert_near(mean, product(&a[..p], &rows[..p]));
            assert_near(variance, quadratic(&matrix, &rows[..p]));
        }
    }

    #[test]
    fn missing_features_are_centred_at_zero() {
        for arch in archs() {
            let mut d = [7.0; 8];
            let (mut rows, mut observed, mut mean) = ([0.0; 8], [1.0; 8], [0.0; 8]);
            (rows[0], mean[0], mean[1], observed[1]) = (3.0, 1.0, 5.0, 0.0);
            arch.dispatch(Centre {
                rows: &rows,
                observed: &observed,
                mean: &mean,
                d: &mut d,
            });
            assert_eq!(d[..3], [2.0, 0.0, 0.0]);
        }
    }
}
