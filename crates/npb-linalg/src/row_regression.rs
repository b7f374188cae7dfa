//! Gaussian linear regression of the cells of a row, in vector registers: sums of products over the cells, residuals of the cells, and the draw of
//! the row's coefficients from what was summed.
//!
//! A cell is a row of numbers: `width` regressors, the response, zeros up to `stride` ([`Layout`]). Sums run over a block of cells in single (or, on
//! request, double) precision and are added to totals in double precision, block after block. [`Real`] has the loops, [`draw_coefficients`] the draw.
//!
//! ```
//! use npb_linalg::aligned::Aligned;
//! use npb_linalg::row_regression::{Layout, Real, draw_coefficients};
//!
//! // Two cells of one regressor: y = 3 x.
//! let layout = Layout::new(1);
//! let mut cells = vec![0.0_f64; 2 * layout.stride];
//! cells[..2].copy_from_slice(&[1.0, 3.0]);
//! cells[layout.stride..][..2].copy_from_slice(&[2.0, 6.0]);
//! let arch = pulp::Arch::new();
//! let mut sums = vec![0.0; layout.sums_len()];
//! f64::add_products(arch, &cells, layout, true, &mut sums);
//! let (mut panel, mut x, mut mean) = (Aligned::default(), vec![0.0], vec![0.0]);
//! draw_coefficients(arch, layout, &mut sums, &mut panel, &mut x, &mut mean)?;
//! assert!((mean[0] - 3.0).abs() < 1e-12);
//! # Ok::<(), npb_linalg::NotPositiveDefinite>(())
//! ```

mod draw;

use std::ops::Mul;

use pulp::{Arch, Simd, WithSimd};

pub use draw::draw_coefficients;

use crate::elementary::vectorised;

/// Strides are multiples of this: the widest register in use, of single precision.
pub const PAD: usize = 16;

/// Numbers in a block of cells: they stay in the first cache.
const BLOCK: usize = 4096;

/// How a cell is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Regressors; the response comes next.
    pub width: usize,
    /// Numbers from one cell to the next.
    pub stride: usize,
}

impl Layout {
    /// The layout of cells of `width` regressors.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            stride: (width + 1).next_multiple_of(PAD),
        }
    }

    /// Cells that are summed in one go.
    pub fn cells_in_block(&self) -> usize {
        (BLOCK / self.stride).max(16)
    }

    /// Numbers in a table of sums: row r holds the products of number r of the cells (regressors, then the response) with numbers 0..=r.
    pub fn sums_len(&self) -> usize {
        (self.width + 1) * self.stride
    }
}

/// A number of a cell: f32, or f64 where noise is so small that single precision would add to it.
pub trait Real: Copy + Default + Mul<Output = Self> + Send + Sync + 'static {
    /// From single precision, exactly.
    fn from_f32(x: f32) -> Self;

    /// From double precision, rounded.
    fn from_f64(x: f64) -> Self;

    /// To double precision, exactly.
    fn to_f64(self) -> f64;

    /// Of two factors, without rounding where that matters.
    fn product(a: f32, b: f32) -> Self;

    /// Copies lines of a table, as long as cells, one after the other to `out`.
    fn gather(arch: Arch, table: &[f32], layout: Layout, lines: &[u32], out: &mut [Self]);

    /// Adds a block of cells ([`Layout::cells_in_block`]) to the totals ([`Layout::sums_len`]), or overwrites these when `first`.
    ///
    /// Cost: width^2 / 2 multiplications a cell. Panics when `totals` is too short.
    fn add_products(arch: Arch, cells: &[Self], layout: Layout, first: bool, totals: &mut [f64]);

    /// `sum x^2` and `sum x y`.
    fn square_and_product(arch: Arch, x: &[Self], y: &[Self]) -> (f64, f64);

    /// y <- y + a x.
    fn add_scaled(arch: Arch, a: Self, x: &[Self], y: &mut [Self]);

    /// Response minus fitted value of every cell. `coefficients`: as long as a cell, 0 from `width` on.
    fn residuals(
        arch: Arch,
        cells: &[Self],
        layout: Layout,
        coefficients: &[Self],
        out: &mut [Self],
    );
}

macro_rules! real {
    ($real:ident, $as_simd:ident, $as_mut_simd:ident, $splat:ident, $mul_add:ident, $reduce:ident, $register:ident, $lanes:ident, $module:ident) => {
        impl Real for $real {
            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                x.into()
            }

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $real
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn product(a: f32, b: f32) -> Self {
                $real::from(a) * $real::from(b)
            }

            fn gather(arch: Arch, table: &[f32], layout: Layout, lines: &[u32], out: &mut [Self]) {
                vectorised(
                    arch,
                    #[inline(always)]
                    || {
                        for (to, &line) in out.chunks_exact_mut(layout.stride).zip(lines) {
                            let from = &table[line as usize * layout.stride..][..layout.stride];
                            let (to, _) = to.as_chunks_mut::<PAD>();
                            let (from, _) = from.as_chunks::<PAD>();
                            for (to, from) in to.iter_mut().zip(from) {
                                *to = from.map(Self::from);
                            }
                        }
                    },
                );
            }

            fn add_products(
                arch: Arch,
                cells: &[Self],
                layout: Layout,
                first: bool,
                totals: &mut [f64],
            ) {
                arch.dispatch($module::AddProducts {
                    cells,
                    layout,
                    first,
                    totals,
                });
            }

            fn square_and_product(arch: Arch, x: &[Self], y: &[Self]) -> (f64, f64) {
                arch.dispatch($module::SquareAndProduct { x, y })
            }

            fn add_scaled(arch: Arch, a: Self, x: &[Self], y: &mut [Self]) {
                arch.dispatch($module::AddScaled { a, x, y });
            }

            fn residuals(
                arch: Arch,
                cells: &[Self],
                layout: Layout,
                coefficients: &[Self],
                out: &mut [Self],
            ) {
                arch.dispatch($module::Residuals {
                    cells,
                    layout,
                    coefficients,
                    out,
                });
            }
        }

        mod $module {
            use super::*;

            pub(super) struct AddProducts<'a> {
                pub(super) cells: &'a [$real],
                pub(super) layout: Layout,
                pub(super) first: bool,
                pub(super) totals: &'a mut [f64],
            }

            impl WithSimd for AddProducts<'_> {
                type Output = ();

                #[inline(always)]
                fn with_simd<S: Simd>(mut self, simd: S) {
                    // As many sums at once as registers allow: they hide the latency of an addition.
                    let tall = if S::REGISTER_COUNT >= 32 { 8 } else { 4 };
                    let rows = self.layout.width + 1;
                    let mut row = 0;
                    while row < rows {
                        let height = match rows - row {
                            left if left >= tall => tall,
                            left if left >= 4 => 4,
                            left if left >= 2 => 2,
                            _ => 1,
                        };
                        // Products are symmetric: registers up to the diagonal.
                        let registers = (row + height).div_ceil(S::$lanes);
                        let mut register = 0;
                        while register < registers {
                            let wide = (registers - register).min(3);
                            let at = (row, register);
                            match (height, wide) {
                                (8, 3) => self.tile::<S, 8, 3>(simd, at),
                                (8, 2) => self.tile::<S, 8, 2>(simd, at),
                                (8, _) => self.tile::<S, 8, 1>(simd, at),
                                (4, 3) => self.tile::<S, 4, 3>(simd, at),
                                (4, 2) => self.tile::<S, 4, 2>(simd, at),
                                (4, _) => self.tile::<S, 4, 1>(simd, at),
                                (2, 3) => self.tile::<S, 2, 3>(simd, at),
                                (2, 2) => self.tile::<S, 2, 2>(simd, at),
                                (2, _) => self.tile::<S, 2, 1>(simd, at),
                                (_, 3) => self.tile::<S, 1, 3>(simd, at),
                                (_, 2) => self.tile::<S, 1, 2>(simd, at),
                                (_, _) => self.tile::<S, 1, 1>(simd, at),
                            }
                            register += wide;
                        }
                        row += height;
                    }
                }
            }

            impl AddProducts<'_> {
                /// Products of `R` numbers of each cell with `C` registers of regressors.
                #[inline(always)]
                fn tile<S: Simd, const R: usize, const C: usize>(
                    &mut self,
                    simd: S,
                    (row, register): (usize, usize),
                ) {
                    let mut sums = [[simd.$splat(0.0); C]; R];
                    for cell in self.cells.chunks_exact(self.layout.stride) {
                        let (registers, _) = S::$as_simd(cell);
                        let (Some(across), Some(down)) = (
                            registers[register..].first_chunk::<C>(),
                            cell[row..].first_chunk::<R>(),
                        ) else {
                            return;
                        };
                        for r in 0..R {
                            let factor = simd.$splat(down[r]);
                            for c in 0..C {
                                sums[r][c] = simd.$mul_add(factor, across[c], sums[r][c]);
                            }
                        }
                    }
                    let mut lanes = [0.0 as $real; PAD];
                    for r in 0..R {
                        let start = (row + r) * self.layout.stride + register * S::$lanes;
                        for c in 0..C {
                            S::$as_mut_simd(&mut lanes).0[0] = sums[r][c];
                            let totals = &mut self.totals[start + c * S::$lanes..][..S::$lanes];
                            if self.first {
                                totals
                                    .iter_mut()
                                    .zip(&lanes)
                                    .for_each(|(total, &sum)| *total = sum.into());
                            } else {
                                totals
                                    .iter_mut()
                                    .zip(&lanes)
                                    .for_each(|(total, &sum)| *total += f64::from(sum));
                            }
                        }
                    }
                }
            }

            pub(super) struct SquareAndProduct<'a> {
                pub(super) x: &'a [$real],
                pub(super) y: &'a [$real],
            }

            impl WithSimd for SquareAndProduct<'_> {
                type Output = (f64, f64);

                #[inline(always)]
                fn with_simd<S: Simd>(self, simd: S) -> (f64, f64) {
                    let (mut square, mut product) = (0.0, 0.0);
                    for (x, y) in self.x.chunks(BLOCK).zip(self.y.chunks(BLOCK)) {
                        let (x, x_rest) = S::$as_simd(x);
                        let (y, y_rest) = S::$as_simd(y);
                        let zero = simd.$splat(0.0);
                        let (mut xx, mut xy) = ([zero; 2], [zero; 2]);
                        for (x, y) in x.chunks(2).zip(y.chunks(2)) {
                            for (n, (&x, &y)) in x.iter().zip(y).enumerate() {
                                xx[n] = simd.$mul_add(x, x, xx[n]);
                                xy[n] = simd.$mul_add(x, y, xy[n]);
                            }
                        }
                        for n in 0..2 {
                            square += f64::from(simd.$reduce(xx[n]));
                            product += f64::from(simd.$reduce(xy[n]));
                        }
                        for (&x, &y) in x_rest.iter().zip(y_rest) {
                            square += f64::from(x) * f64::from(x);
                            product += f64::from(x) * f64::from(y);
                        }
                    }
                    (square, product)
                }
            }

            pub(super) struct AddScaled<'a> {
                pub(super) a: $real,
                pub(super) x: &'a [$real],
                pub(super) y: &'a mut [$real],
            }

            impl WithSimd for AddScaled<'_> {
                type Output = ();

                #[inline(always)]
                fn with_simd<S: Simd>(self, simd: S) {
                    let (x, x_rest) = S::$as_simd(self.x);
                    let (y, y_rest) = S::$as_mut_simd(self.y);
                    let a = simd.$splat(self.a);
                    for (&x, y) in x.iter().zip(y) {
                        *y = simd.$mul_add(a, x, *y);
                    }
                    for (&x, y) in x_rest.iter().zip(y_rest) {
                        *y += self.a * x;
                    }
                }
            }

            pub(super) struct Residuals<'a> {
                pub(super) cells: &'a [$real],
                pub(super) layout: Layout,
                pub(super) coefficients: &'a [$real],
                pub(super) out: &'a mut [$real],
            }

            impl WithSimd for Residuals<'_> {
                type Output = ();

                #[inline(always)]
                fn with_simd<S: Simd>(self, simd: S) {
                    let Layout { width, stride } = self.layout;
                    let registers = width.div_ceil(S::$lanes);
                    let coefficients = &S::$as_simd(self.coefficients).0[..registers];
                    for (cell, out) in self.cells.chunks_exact(stride).zip(self.out) {
                        let mut sum = simd.$splat(0.0);
                        for (x, c) in S::$as_simd(cell).0.iter().zip(coefficients) {
                            sum = simd.$mul_add(*x, *c, sum);
                        }
                        *out = cell[width] - simd.$reduce(sum);
                    }
                }
            }
        }
    };
}

real!(
    f32,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    mul_add_e_f32s,
    reduce_sum_f32s,
    f32s,
    F32_LANES,
    single
);
real!(
    f64,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    mul_add_e_f64s,
    reduce_sum_f64s,
    f64s,
    F64_LANES,
    double
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aligned::Aligned;
    use rand::RngExt;
    use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};

    /// Cells with regressors and response between -1 and 1, exact in single precision.
    fn cells<T: Real>(layout: Layout, n: usize) -> Vec<T> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64((1000 * layout.width + n) as u64);
        let mut cells = vec![T::default(); n * layout.stride];
        for cell in cells.chunks_exact_mut(layout.stride) {
            for x in &mut cell[..=layout.width] {
                *x = T::from_f32(rng.random::<f32>() * 2.0 - 1.0);
            }
        }
        cells
    }

    fn check_products<T: Real>(tolerance: f64) {
        for width in (1..40).chain([47, 48, 49, 64, 90]) {
            let layout = Layout::new(width);
            let cells = cells::<T>(layout, 21);
            let mut totals = vec![f64::NAN; layout.sums_len()];
            T::add_products(Arch::new(), &cells, layout, true, &mut totals);
            T::add_products(Arch::new(), &cells, layout, false, &mut totals);
            for r in 0..=width {
                for c in 0..=r {
                    let product = |cell: &[T]| cell[r].to_f64() * cell[c].to_f64();
                    let sum: f64 = cells.chunks_exact(layout.stride).map(product).sum();
                    let found = totals[r * layout.stride + c];
                    assert!(
                        (found - 2.0 * sum).abs() < tolerance,
                        "{width}: {r}, {c}: {found} for {sum}"
                    );
                }
            }
        }
    }

    #[test]
    fn products_of_all_widths() {
        check_products::<f32>(1e-4);
        check_products::<f64>(1e-12);
    }

    #[test]
    fn residuals_and_sums_of_pairs() {
        for width in [1, 15, 16, 17, 40] {
            let layout = Layout::new(width);
            let cells = cells::<f64>(layout, 7);
            let mut coefficients = vec![0.0; layout.stride];
            (0..width).for_each(|k| coefficients[k] = (k as f64).cos());
            let mut out = vec![0.0; 7];
            f64::residuals(Arch::new(), &cells, layout, &coefficients, &mut out);
            for (cell, r) in cells.chunks_exact(layout.stride).zip(&out) {
                let fitted: f64 = cell[..width]
                    .iter()
                    .zip(&coefficients)
                    .map(|(x, c)| x * c)
                    .sum();
                assert!((cell[width] - fitted - r).abs() < 1e-12);
            }
            let (x, y) = (
                &cells[..width],
                &cells[layout.stride..layout.stride + width],
            );
            let (square, product) = f64::square_and_product(Arch::new(), x, y);
            assert!((square - x.iter().map(|x| x * x).sum::<f64>()).abs() < 1e-12);
            assert!((product - x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>()).abs() < 1e-12);
            let mut moved = y.to_vec();
            f64::add_scaled(Arch::new(), 0.5, x, &mut moved);
            let expected = x.iter().zip(y).map(|(x, y)| y + 0.5 * x);
            assert!(
                moved
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| (a - b).abs() < 1e-15)
            );
        }
    }

    /// With no noise added the draw solves P x = b.
    #[test]
    fn draws_solve_the_equations() {
        for width in (1..20).chain([31, 32, 33, 64]) {
            let layout = Layout::new(width);
            let cells = cells::<f64>(layout, 2 * width + 3);
            let mut sums = vec![0.0; layout.sums_len()];
            f64::add_products(Arch::new(), &cells, layout, true, &mut sums);
            let before = sums.clone();
            // What stands beside the table is nobody's business.
            for line in sums.chunks_exact_mut(layout.stride) {
                line[width..].fill(f64::NAN);
            }
            let at = |r: usize, c: usize| before[r.max(c) * layout.stride + r.min(c)];
            let mut sums_again = sums.clone();
            let mut x = vec![0.0; width];
            let mut panel = Aligned::default();
            let mut mean = vec![0.0; width];
            let arch = Arch::new();
            draw_coefficients(arch, layout, &mut sums, &mut panel, &mut x, &mut mean).unwrap();
            assert_eq!(x, mean);
            let (mut alone, mean) = (vec![0.0; width], &mut []);
            draw_coefficients(arch, layout, &mut sums_again, &mut panel, &mut alone, mean).unwrap();
            assert_eq!(x, alone);
            for r in 0..width {
                let left: f64 = (0..width).map(|c| at(r, c) * x[c]).sum();
                assert!((left - at(width, r)).abs() < 1e-9, "{width}: {r}");
            }
        }
        let layout = Layout::new(2);
        let mut sums = vec![0.0; layout.sums_len()];
        let (mut panel, mut x) = (Aligned::default(), vec![0.0; 2]);
        let mut mean = vec![0.0; 2];
        let arch = Arch::new();
        let bad = draw_coefficients(arch, layout, &mut sums, &mut panel, &mut x, &mut mean);
        assert_eq!(bad.unwrap_err().pivot, 0);
    }

    /// Without b and with the unit vectors for normals the draws are the columns of a root of P^-1.
    #[test]
    fn draws_spread_as_the_inverse() {
        for width in [1, 2, 7, 8, 9, 17, 24, 33] {
            let layout = Layout::new(width);
            let cells = cells::<f64>(layout, 2 * width + 3);
            let mut sums = vec![0.0; layout.sums_len()];
            f64::add_products(Arch::new(), &cells, layout, true, &mut sums);
            sums[width * layout.stride..].fill(0.0);
            let at = |r: usize, c: usize| sums[r.max(c) * layout.stride + r.min(c)];
            let mut spread = vec![0.0; width * width];
            for k in 0..width {
                let mut x = vec![0.0; width];
                x[k] = 1.0;
                let mut mean = vec![f64::NAN; width];
                let (arch, mut panel) = (Arch::new(), Aligned::default());
                draw_coefficients(
                    arch,
                    layout,
                    &mut sums.clone(),
                    &mut panel,
                    &mut x,
                    &mut mean,
                )
                .unwrap();
                assert!(mean.iter().all(|&m| m == 0.0));
                for (r, row) in spread.chunks_exact_mut(width).enumerate() {
                    row.iter_mut().zip(&x).for_each(|(s, c)| *s += x[r] * c);
                }
            }
            for r in 0..width {
                for c in 0..width {
                    let product: f64 = (0..width).map(|k| at(r, k) * spread[k * width + c]).sum();
                    let unit = f64::from(u8::from(r == c));
                    assert!((product - unit).abs() < 1e-9, "{width}: {r}, {c}");
                }
            }
        }
    }
}
