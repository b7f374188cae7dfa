//! Scores that are never switched off: all of a row at once (docs/bpfa.md#dense).

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::faer::MatRef;
use npb_linalg::row_regression::{Layout, Real, draw_coefficients};
use npb_linalg::{Cholesky, NotPositiveDefinite};
use pulp::Arch;
use rand::RngExt;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::loadings::Loadings;
use crate::rows::BpfaRows;
use crate::scan;
use crate::scores::{BLOCK_ROWS, ScoreBlock, Scores};

/// One regression after another, all of one width: of a row on atoms, or of a column on scores.
pub(crate) struct Regression {
    arch: Arch,
    layout: Layout,
    cells: Vec<f32>,
    sums: Vec<f64>,
    column: Vec<f64>,
    x: Vec<f64>,
    mean: Vec<f64>,
}

impl Regression {
    pub(crate) fn new(arch: Arch, width: usize) -> Self {
        let layout = Layout::new(width);
        Self {
            arch,
            layout,
            cells: Vec::new(),
            sums: vec![0.0; layout.sums_len()],
            column: vec![0.0; layout.stride],
            x: vec![0.0; width],
            mean: vec![0.0; width],
        }
    }

    /// Draws the coefficients of `n` cells: number e has regressors and response written by `cell(e, regressors)`, both times the root of its precision; the
    /// coefficients have prior N(0, 1/prior).
    pub(crate) fn draw(
        &mut self,
        n: usize,
        mut cell: impl FnMut(usize, &mut [f32]) -> f32,
        prior: impl Fn(usize) -> f64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<&[f64], NotPositiveDefinite> {
        let Layout { width, stride } = self.layout;
        self.sums.fill(0.0);
        let block = self.layout.cells_in_block();
        for first in (0..n).step_by(block) {
            let count = (n - first).min(block);
            self.cells.clear();
            self.cells.resize(count * stride, 0.0);
            for (e, own) in self.cells.chunks_exact_mut(stride).enumerate() {
                own[width] = cell(first + e, &mut own[..width]);
            }
            f32::add_products(
                self.arch,
                &self.cells,
                self.layout,
                first == 0,
                &mut self.sums,
            );
        }
        for k in 0..width {
            self.sums[k * stride + k] += prior(k);
            self.x[k] = rng.sample(StandardNormal);
        }
        draw_coefficients(
            self.arch,
            self.layout,
            &mut self.sums,
            &mut self.column,
            &mut self.x,
            &mut self.mean,
        )?;
        Ok(&self.x)
    }
}

/// What the draw needs to know.
pub(crate) struct DenseDraw<'a> {
    pub(crate) arch: Arch,
    pub(crate) rows: &'a BpfaRows,
    pub(crate) loadings: &'a Loadings,
    pub(crate) scores: &'a Scores,
    pub(crate) column_weights: &'a [f32],
    pub(crate) entry_weights: &'a [f32],
    /// Prior precision of the scores on each atom.
    pub(crate) slabs: &'a [f64],
    pub(crate) seed: u64,
    pub(crate) key: [u64; 3],
}

impl DenseDraw<'_> {
    /// Draws the scores of all rows; the row without solution with its pivot.
    pub(crate) fn draw(&self) -> Result<Vec<ScoreBlock>, (usize, NotPositiveDefinite)> {
        let shared = self.rows.is_complete() && self.entry_weights.is_empty();
        let factor = match shared {
            true => Some(self.shared_factor().map_err(|bad| (0, bad))?),
            false => None,
        };
        let k = self.scores.n_atoms();
        let blocks: Vec<_> = (0..self.scores.blocks.len())
            .into_par_iter()
            .map_init(
                || Regression::new(self.arch, k),
                |regression, block| {
                    let first = block * BLOCK_ROWS;
                    let last = (first + BLOCK_ROWS).min(self.rows.n_rows());
                    let mut values = Vec::with_capacity((last - first) * k);
                    for i in first..last {
                        match &factor {
                            Some(factor) => self.draw_shared(i, factor, &mut values),
                            None => {
                                let drawn = self.draw_row(i, regression);
                                let drawn = drawn.map_err(|bad| (i, bad))?;
                                values.extend(drawn.iter().map(|&s| s as f32));
                            }
                        }
                    }
                    Ok(ScoreBlock {
                        values,
                        ..ScoreBlock::default()
                    })
                },
            )
            .collect();
        blocks.into_iter().collect()
    }

    fn rng(&self, row: usize) -> Xoshiro256PlusPlus {
        let [chain, sweep, block] = self.key;
        stream(self.seed, [chain, sweep, block, row as u64])
    }

    fn shared_factor(&self) -> Result<Cholesky, NotPositiveDefinite> {
        let k = self.scores.n_atoms();
        let mut precision = vec![0.0; k * k];
        for (p, &w) in self.column_weights.iter().enumerate() {
            let own = self.loadings.column(p);
            for b in 0..k {
                let factor = f64::from(w) * f64::from(own[b]);
                for a in b..k {
                    precision[b * k + a] += factor * f64::from(own[a]);
                }
            }
        }
        (0..k).for_each(|k_| precision[k_ * (k + 1)] += self.slabs[k_]);
        Cholesky::new(MatRef::from_column_major_slice(&precision, k, k))
    }

    fn draw_shared(&self, i: usize, factor: &Cholesky, values: &mut Vec<f32>) {
        let k = self.scores.n_atoms();
        let mut x = vec![0.0; k];
        for ((p, &y), &w) in self
            .rows
            .values(i)
            .iter()
            .enumerate()
            .zip(self.column_weights)
        {
            let weighted = f64::from(w) * f64::from(y);
            let own = x.iter_mut().zip(self.loadings.column(p));
            own.for_each(|(x, &d)| *x += weighted * f64::from(d));
        }
        factor.sample_canonical(&mut x, &mut self.rng(i));
        values.extend(x.iter().map(|&s| s as f32));
    }

    fn draw_row<'r>(
        &self,
        i: usize,
        regression: &'r mut Regression,
    ) -> Result<&'r [f64], NotPositiveDefinite> {
        let k = self.scores.n_atoms();
        let columns = self.rows.columns(i);
        let values = self.rows.values(i);
        let start = self.rows.range(i).start;
        let cell = |e: usize, regressors: &mut [f32]| {
            let p = scan::place(columns, e);
            let w = self.entry_weights.get(start + e).map_or(1.0, |&w| w) * self.column_weights[p];
            let root = w.sqrt();
            let own = regressors.iter_mut().zip(&self.loadings.column(p)[..k]);
            own.for_each(|(x, &d)| *x = root * d);
            root * values[e]
        };
        regression.draw(values.len(), cell, |k| self.slabs[k], &mut self.rng(i))
    }
}
