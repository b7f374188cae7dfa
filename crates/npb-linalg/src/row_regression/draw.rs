//! The draw of a row's coefficients from its sums, eight columns of the factor at a time.

use pulp::{Arch, Simd, WithSimd};

use super::Layout;
use crate::NotPositiveDefinite;
use crate::aligned::Aligned;

/// Columns that are factored together: a line of them is the widest register.
const BLOCK: usize = 8;

/// Draws x ~ N(P^-1 b, P^-1) in place of `x`, which brings standard normals; `mean`: P^-1 b, whose entry values do not matter, or empty where nobody asks.
///
/// `sums`: P in its first `width` rows, lower triangle read; b in row `width`. Destroyed. `panel`: scratch.
/// The rows are factored together with b, so that the forward substitution costs nothing extra.
/// Cost: width^3/3 flops.
///
/// # Errors
/// [`NotPositiveDefinite`] names the first pivot that is not a positive finite number.
pub fn draw_coefficients(
    arch: Arch,
    layout: Layout,
    sums: &mut [f64],
    panel: &mut Aligned<f64>,
    x: &mut [f64],
    mean: &mut [f64],
) -> Result<(), NotPositiveDefinite> {
    panel.resize(layout.stride * BLOCK);
    let factor = Factor {
        layout,
        sums,
        panel,
    };
    arch.dispatch(Draw { factor, x, mean })
}

struct Draw<'a> {
    factor: Factor<'a>,
    x: &'a mut [f64],
    mean: &'a mut [f64],
}

impl WithSimd for Draw<'_> {
    type Output = Result<(), NotPositiveDefinite>;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> Self::Output {
        let Self { factor, x, mean } = &mut self;
        // As many registers as make a line.
        match S::F64_LANES {
            8 => factor.draw::<S, 1>(simd, x, mean),
            4 => factor.draw::<S, 2>(simd, x, mean),
            2 => factor.draw::<S, 4>(simd, x, mean),
            _ => factor.draw::<S, 8>(simd, x, mean),
        }
    }
}

/// `BLOCK` numbers in `N` registers.
type Line<S, const N: usize> = [<S as Simd>::f64s; N];

#[inline(always)]
fn load<S: Simd, const N: usize>(from: &[f64]) -> Line<S, N> {
    let (registers, _) = S::as_simd_f64s(from);
    *registers.first_chunk().expect("a whole line")
}

#[inline(always)]
fn store<S: Simd, const N: usize>(line: Line<S, N>, to: &mut [f64]) {
    let (registers, _) = S::as_mut_simd_f64s(to);
    registers[..N].copy_from_slice(&line);
}

/// `to += factor * line`.
#[inline(always)]
fn add<S: Simd, const N: usize>(simd: S, to: &mut Line<S, N>, factor: f64, line: &Line<S, N>) {
    let factor = simd.splat_f64s(factor);
    for (to, line) in to.iter_mut().zip(line) {
        *to = simd.mul_add_e_f64s(factor, *line, *to);
    }
}

/// P = L L' with b as a further row. On the diagonal the inverses of the blocks of L take the place of these.
struct Factor<'a> {
    layout: Layout,
    sums: &'a mut [f64],
    /// The block of columns that was factored last, transposed: column, row.
    panel: &'a mut [f64],
}

impl Factor<'_> {
    #[inline(always)]
    fn draw<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        x: &mut [f64],
        mean: &mut [f64],
    ) -> Result<(), NotPositiveDefinite> {
        let Layout { width, stride } = self.layout;
        let blocks = width.div_ceil(BLOCK);
        for block in 0..blocks {
            let inverse = self.invert_block::<S, N>(simd, block)?;
            self.below::<S, N>(simd, block, &inverse);
            for column in block + 1..blocks {
                self.update::<S, N>(simd, block, column);
            }
        }
        let half = &self.sums[width * stride..][..width];
        x.iter_mut().zip(half).for_each(|(x, half)| *x += half);
        if !mean.is_empty() {
            mean.copy_from_slice(half);
        }
        for block in (0..blocks).rev() {
            self.solve_block::<S, N>(simd, block, x);
            if !mean.is_empty() {
                self.solve_block::<S, N>(simd, block, mean);
            }
        }
        Ok(())
    }

    /// The line of a row in a block of columns.
    #[inline(always)]
    fn at(&self, row: usize, block: usize) -> usize {
        row * self.layout.stride + block * BLOCK
    }

    /// Columns of a block.
    #[inline(always)]
    fn columns(&self, block: usize) -> usize {
        (self.layout.width - block * BLOCK).min(BLOCK)
    }

    /// The transposed inverse of the factor of a block on the diagonal, of which the inverse itself takes the place; beyond a short block it is zero.
    #[inline(always)]
    fn invert_block<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        block: usize,
    ) -> Result<[[f64; BLOCK]; BLOCK], NotPositiveDefinite> {
        let first = block * BLOCK;
        // Short blocks are worth a loop of their own: ranks are powers of two, and an intercept makes one more.
        let inverse = match self.columns(block) {
            BLOCK => self.inverse::<S, N>(simd, block, BLOCK),
            n => self.inverse::<S, N>(simd, block, n),
        };
        let inverse = inverse.map_err(|(pivot, value)| NotPositiveDefinite {
            pivot: first + pivot,
            value,
        })?;
        for i in 0..self.columns(block) {
            let at = self.at(first + i, block);
            let to = &mut self.sums[at..at + BLOCK];
            to.iter_mut()
                .zip(&inverse)
                .for_each(|(to, row)| *to = row[i]);
        }
        Ok(inverse)
    }

    /// Of the first `n` columns; or the pivot that is not positive.
    #[inline(always)]
    fn inverse<S: Simd, const N: usize>(
        &self,
        simd: S,
        block: usize,
        n: usize,
    ) -> Result<[[f64; BLOCK]; BLOCK], (usize, f64)> {
        // Row j of D L', unscaled: what stands left of the diagonal is not used.
        let mut upper = [[0.0; BLOCK]; BLOCK];
        for i in 0..n {
            let row = &self.sums[self.at(block * BLOCK + i, block)..][..BLOCK];
            (0..=i).for_each(|c| upper[c][i] = row[c]);
        }
        let mut scales = [0.0; BLOCK];
        for j in 0..n {
            let pivot = upper[j][j];
            if !(pivot > 0.0 && pivot.is_finite()) {
                return Err((j, pivot));
            }
            scales[j] = pivot;
            let scale = -pivot.recip();
            let line = load::<S, N>(&upper[j]);
            for i in j + 1..n {
                let mut to = load::<S, N>(&upper[i]);
                add(simd, &mut to, scale * upper[j][i], &line);
                store::<S, N>(to, &mut upper[i]);
            }
        }
        // Roots stay out of the loop above, where each pivot waits for the one before.
        scales[..n]
            .iter_mut()
            .for_each(|pivot| *pivot = pivot.sqrt().recip());
        let mut inverse = [[0.0; BLOCK]; BLOCK];
        for j in (0..n).rev() {
            // Row j of L' is that of `upper` times its scale, with 1 / scale on the diagonal.
            let mut unit = [0.0; BLOCK];
            unit[j] = scales[j];
            let mut row = load::<S, N>(&unit);
            let scale = -scales[j] * scales[j];
            for i in j + 1..n {
                let line = load::<S, N>(&inverse[i]);
                add(simd, &mut row, scale * upper[j][i], &line);
            }
            store::<S, N>(row, &mut inverse[j]);
        }
        Ok(inverse)
    }

    /// The factor in the rows below a block on the diagonal, and the same transposed.
    #[inline(always)]
    fn below<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        block: usize,
        inverse: &[[f64; BLOCK]; BLOCK],
    ) {
        let Layout { width, stride } = self.layout;
        let n = self.columns(block);
        let inverse: [Line<S, N>; BLOCK] = std::array::from_fn(|l| load::<S, N>(&inverse[l]));
        for row in block * BLOCK + n..=width {
            let at = self.at(row, block);
            let line = &mut self.sums[at..at + BLOCK];
            // Whatever it is, it must not be multiplied.
            line[n..].fill(0.0);
            let mut sum = [[simd.splat_f64s(0.0); N]; 2];
            for l in 0..BLOCK {
                add(simd, &mut sum[l % 2], line[l], &inverse[l]);
            }
            let sum = std::array::from_fn(|k| simd.add_f64s(sum[0][k], sum[1][k]));
            store::<S, N>(sum, line);
            for l in 0..BLOCK {
                self.panel[l * stride + row] = line[l];
            }
        }
    }

    /// Takes the products of a block of columns from a later one.
    #[inline(always)]
    fn update<S: Simd, const N: usize>(&mut self, simd: S, block: usize, column: usize) {
        let (mut row, rows) = (column * BLOCK, self.layout.width + 1);
        while row < rows {
            row += match rows - row {
                left if left >= BLOCK => self.tile::<S, N, BLOCK>(simd, block, column, row),
                left if left >= 4 => self.tile::<S, N, 4>(simd, block, column, row),
                left if left >= 2 => self.tile::<S, N, 2>(simd, block, column, row),
                _ => self.tile::<S, N, 1>(simd, block, column, row),
            };
        }
    }

    /// The same for `R` rows, which it counts.
    #[inline(always)]
    fn tile<S: Simd, const N: usize, const R: usize>(
        &mut self,
        simd: S,
        block: usize,
        column: usize,
        row: usize,
    ) -> usize {
        let stride = self.layout.stride;
        let mut sums: [Line<S, N>; R] =
            std::array::from_fn(|r| load::<S, N>(&self.sums[self.at(row + r, column)..]));
        let factors: [&[f64; BLOCK]; R] = std::array::from_fn(|r| {
            self.sums[self.at(row + r, block)..]
                .first_chunk()
                .expect("a whole line")
        });
        for l in 0..BLOCK {
            let across = load::<S, N>(&self.panel[l * stride + column * BLOCK..]);
            for r in 0..R {
                add(simd, &mut sums[r], -factors[r][l], &across);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            let at = self.at(row + r, column);
            store::<S, N>(sum, &mut self.sums[at..]);
        }
        R
    }

    /// Solves `L' x = b` for a block, given the later blocks of x.
    #[inline(always)]
    fn solve_block<S: Simd, const N: usize>(&self, simd: S, block: usize, x: &mut [f64]) {
        let (first, n) = (block * BLOCK, self.columns(block));
        let (head, later) = x.split_at_mut(first + n);
        let own = &mut head[first..];
        let mut rest = [0.0; BLOCK];
        rest[..n].copy_from_slice(own);
        let zero = [simd.splat_f64s(0.0); N];
        let mut sum = [load::<S, N>(&rest), zero, zero, zero];
        for (k, &x) in later.iter().enumerate() {
            let line = load::<S, N>(&self.sums[self.at(first + n + k, block)..]);
            add(simd, &mut sum[k % 4], -x, &line);
        }
        let sum = std::array::from_fn(|k| {
            let pairs = [0, 2].map(|i| simd.add_f64s(sum[i][k], sum[i + 1][k]));
            simd.add_f64s(pairs[0], pairs[1])
        });
        store::<S, N>(sum, &mut rest);
        let mut sum = zero;
        for (k, &rest) in rest[..n].iter().enumerate() {
            let line = load::<S, N>(&self.sums[self.at(first + k, block)..]);
            add(simd, &mut sum, rest, &line);
        }
        store::<S, N>(sum, &mut rest);
        own.copy_from_slice(&rest[..n]);
    }
}
