//! Products of the components over the observed cells: all that switches and scales need to know of the data.

use std::ops::Range;
use std::slice::Chunks;

use npb_infer::parallel;
use pulp::Arch;

use crate::grouped::Cells;
use crate::state::SideState;
use npb_data::Features;
use npb_linalg::dot_f32 as dot;
use npb_linalg::row_regression::{Layout, Real};

/// Parts that are summed on their own and then in order.
const PARTS: usize = 32;

/// Factors of candidate components, of one side: n x stride, unscaled, zeros from `width` on.
#[derive(Default)]
pub(crate) struct Candidates {
    pub(crate) rows: Vec<f32>,
    pub(crate) columns: Vec<f32>,
    /// Their means, of rows and of columns.
    pub(crate) means: [Vec<f64>; 2],
    /// Their links to features.
    pub(crate) links: [Vec<f64>; 2],
}

/// The blocks of all rows in parts.
pub(crate) fn parts(blocks: &[Range<usize>]) -> Chunks<'_, Range<usize>> {
    blocks.chunks(blocks.len().div_ceil(PARTS).max(1))
}

/// What the parts come to together.
pub(crate) fn total(layout: Layout, parts: &[f64], totals: &mut Vec<f64>) {
    let len = layout.sums_len();
    totals.clear();
    totals.resize(len, 0.0);
    for part in parts.chunks_exact(len) {
        totals.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
}

/// What the pass knows.
pub(crate) struct ProductPass<'a> {
    pub(crate) arch: Arch,
    pub(crate) cells: &'a Cells,
    pub(crate) values: &'a [f32],
    pub(crate) roots: Option<&'a [f32]>,
    pub(crate) layout: Layout,
    pub(crate) candidates: &'a Candidates,
    /// `s_k` of the components that are on, 0 of the others.
    pub(crate) scales: &'a [f64],
    pub(crate) rows: &'a SideState,
    pub(crate) columns: &'a SideState,
    pub(crate) row_features: Option<&'a Features>,
    pub(crate) column_features: Option<&'a Features>,
    pub(crate) offset: f64,
    /// Noise is so small that single precision would add to it.
    pub(crate) in_double: bool,
}

impl ProductPass<'_> {
    /// Sums over the cells of each part, some blocks of rows, of `w W_k W_l` (row k, l <= k) and, in row `width`, of `w r W_k`.
    pub(crate) fn run<'b>(
        &self,
        parts: impl ExactSizeIterator<Item = &'b [Range<usize>]>,
        sums: &mut Vec<f64>,
    ) {
        let len = self.layout.sums_len();
        sums.clear();
        sums.resize(parts.len() * len, 0.0);
        let pairs = sums.chunks_mut(len).zip(parts);
        parallel::for_each(pairs, |(part, blocks)| match self.in_double {
            true => self.part::<f64>(blocks, part),
            false => self.part::<f32>(blocks, part),
        });
    }

    fn part<T: Real>(&self, blocks: &[Range<usize>], sums: &mut [f64]) {
        let block = self.layout.cells_in_block();
        let mut work = Block::<T> {
            cells: vec![T::default(); block * self.layout.stride],
            scales: vec![T::default(); self.layout.stride],
            residuals: vec![T::default(); block],
            row_features: vec![0.0; self.row_features.map_or(0, Features::n_features)],
            column_features: vec![0.0; self.column_features.map_or(0, Features::n_features)],
        };
        for (to, &s) in work.scales.iter_mut().zip(self.scales) {
            *to = T::from_f64(s);
        }
        for i in blocks.iter().flat_map(Clone::clone) {
            if let Some(features) = self.row_features {
                features.write(i, &mut work.row_features);
            }
            let range = self.cells.range(i);
            for start in range.clone().step_by(block) {
                let count = block.min(range.end - start);
                self.fill(i, start, count, &mut work);
                let cells = &work.cells[..count * self.layout.stride];
                T::add_products(self.arch, cells, self.layout, false, sums);
            }
        }
    }

    /// Products of the components for some cells of a row, and their residuals.
    fn fill<T: Real>(&self, i: usize, start: usize, count: usize, work: &mut Block<T>) {
        let Layout { width, stride } = self.layout;
        let own = &self.candidates.rows[i * stride..(i + 1) * stride];
        let others = &self.cells.others[start..start + count];
        let values = &self.values[start..start + count];
        for (n, (&j, &y)) in others.iter().zip(values).enumerate() {
            let j = j as usize;
            let cell = &mut work.cells[n * stride..(n + 1) * stride];
            let theirs = &self.candidates.columns[j * stride..(j + 1) * stride];
            for ((w, &u), &v) in cell.iter_mut().zip(own).zip(theirs) {
                *w = T::product(u, v);
            }
            let known = self.known(i, j, &work.row_features, &mut work.column_features);
            cell[width] = T::from_f64(f64::from(y) - known);
        }
        let cells = &work.cells[..count * stride];
        let residuals = &mut work.residuals[..count];
        T::residuals(self.arch, cells, self.layout, &work.scales, residuals);
        for (n, &r) in residuals.iter().enumerate() {
            work.cells[n * stride + width] = r;
        }
        if let Some(roots) = self.roots {
            let cells = work.cells.chunks_exact_mut(stride);
            for (cell, &root) in cells.zip(&roots[start..start + count]) {
                weigh(cell, f64::from(root));
            }
        }
        if !(self.rows.noise_weights.is_empty() && self.columns.noise_weights.is_empty()) {
            let own = self.rows.noise_weight(i);
            for (cell, &j) in work.cells.chunks_exact_mut(stride).zip(others) {
                let weight = own * self.columns.noise_weight(j as usize);
                weigh(cell, weight.sqrt());
            }
        }
    }

    /// The latent value of a cell without its components.
    fn known(&self, i: usize, j: usize, row: &[f32], column: &mut [f32]) -> f64 {
        let mut known = self.offset;
        known += self.rows.intercepts.get(i).map_or(0.0, |&r| f64::from(r));
        known += self
            .columns
            .intercepts
            .get(j)
            .map_or(0.0, |&c| f64::from(c));
        if let Some(features) = self.column_features {
            features.write(j, column);
            known += dot(
                SideState::part(&self.rows.coefficients, i, column.len()),
                column,
            );
        }
        known
            + dot(
                SideState::part(&self.columns.coefficients, j, row.len()),
                row,
            )
    }
}

/// Multiplies a cell by the root of its weight.
fn weigh<T: Real>(cell: &mut [T], root: f64) {
    let root = T::from_f64(root);
    cell.iter_mut().for_each(|x| *x = *x * root);
}

struct Block<T> {
    cells: Vec<T>,
    scales: Vec<T>,
    residuals: Vec<T>,
    row_features: Vec<f32>,
    column_features: Vec<f32>,
}

/// Lines that are summed in one go.
const LINES: usize = 4096;

/// Column sums of a table of `width` columns.
pub(crate) fn column_sums(table: &[f32], width: usize, out: &mut Vec<f64>) {
    sum_columns(table, width, |x, _| x, out);
}

/// Column sums of squared deviations from the means of the columns.
pub(crate) fn squared_deviations(table: &[f32], means: &[f64], out: &mut Vec<f64>) {
    let squared = |x: f64, k: usize| (x - means[k]) * (x - means[k]);
    sum_columns(table, means.len(), squared, out);
}

/// Column sums of a function of number and column: block by block, the blocks in order.
fn sum_columns(
    table: &[f32],
    width: usize,
    f: impl Fn(f64, usize) -> f64 + Sync,
    out: &mut Vec<f64>,
) {
    out.clear();
    out.resize(width, 0.0);
    if width == 0 {
        return;
    }
    let block = |lines: &[f32]| {
        let mut sums = vec![0.0; width];
        for line in lines.chunks_exact(width) {
            for (k, (sum, &x)) in sums.iter_mut().zip(line).enumerate() {
                *sum += f(f64::from(x), k);
            }
        }
        sums
    };
    let blocks: Vec<Vec<f64>> = parallel::map(table.chunks(LINES * width), block);
    for sums in blocks {
        out.iter_mut()
            .zip(sums)
            .for_each(|(total, sum)| *total += sum);
    }
}
