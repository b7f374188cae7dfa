//! Scores that are never switched off: all of a row at once (docs/bpfa.md#dense).

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::aligned::Aligned;
use npb_linalg::faer::MatRef;
use npb_linalg::row_regression::{Layout, Real, draw_coefficients};
use npb_linalg::{Cholesky, NotPositiveDefinite};
use pulp::Arch;
use rand::RngExt;
use rand_distr::StandardNormal;

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
    panel: Aligned<f64>,
    x: Vec<f64>,
    mean: Vec<f64>,
    /// Of fewer cells than coefficients.
    few: Few,
}

/// Scratch memory for fewer cells than coefficients.
#[derive(Default)]
struct Few {
    regressors: Vec<f32>,
    /// Response less noise of each cell; then what the cells weigh.
    rest: Vec<f64>,
}

impl Regression {
    pub(crate) fn new(arch: Arch, width: usize) -> Self {
        let layout = Layout::new(width);
        Self {
            arch,
            layout,
            cells: Vec::new(),
            sums: vec![0.0; layout.sums_len()],
            panel: Aligned::default(),
            x: vec![0.0; width],
            mean: vec![0.0; width],
            few: Few::default(),
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
            &mut self.panel,
            &mut self.x,
            &mut self.mean,
        )?;
        Ok(&self.x)
    }

    /// As [`draw`](Self::draw), made in the space of the cells, for fewer of them than coefficients: with X the cells, B the diagonal matrix of prior variances, u a
    /// draw of the prior and e of standard normals, `u + B X'(X B X' + I)^-1 (y - X u - e)` is the same draw (Bhattacharya, Chakraborty & Mallick, Biometrika
    /// 103(4), 2016). Coefficients are the cells of the sums here, with u for a response.
    pub(crate) fn draw_few(
        &mut self,
        n: usize,
        mut cell: impl FnMut(usize, &mut [f32]) -> f32,
        prior: impl Fn(usize) -> f64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<&[f64], NotPositiveDefinite> {
        let width = self.layout.width;
        let layout = Layout::new(n);
        let stride = layout.stride;
        let Few { regressors, rest } = &mut self.few;
        regressors.resize(width, 0.0);
        rest.clear();
        self.cells.clear();
        self.cells.resize(width * stride, 0.0);
        for (k, (own, root)) in self
            .cells
            .chunks_exact_mut(stride)
            .zip(&mut self.x)
            .enumerate()
        {
            *root = prior(k).sqrt().recip();
            own[n] = rng.sample(StandardNormal);
        }
        for e in 0..n {
            let response = f64::from(cell(e, regressors));
            rest.push(response - rng.sample::<f64, _>(StandardNormal));
            let all = self.cells.chunks_exact_mut(stride).zip(&*regressors);
            for ((own, &x), &root) in all.zip(&self.x) {
                own[e] = x * root as f32;
            }
        }
        let sums = &mut self.sums[..layout.sums_len()];
        for (at, block) in self
            .cells
            .chunks(layout.cells_in_block() * stride)
            .enumerate()
        {
            f32::add_products(self.arch, block, layout, at == 0, sums);
        }
        for (e, rest) in rest.iter_mut().enumerate() {
            sums[e * stride + e] += 1.0;
            sums[n * stride + e] = *rest - sums[n * stride + e];
            *rest = 0.0;
        }
        let (panel, mean) = (&mut self.panel, &mut self.mean[..n]);
        draw_coefficients(self.arch, layout, sums, panel, rest, mean)?;
        for (own, x) in self.cells.chunks_exact(stride).zip(&mut self.x) {
            let weighed = own.iter().zip(&*rest).map(|(&x, w)| f64::from(x) * w);
            *x *= f64::from(own[n]) + weighed.sum::<f64>();
        }
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
        let blocks: Vec<_> = parallel::map_with(
            0..self.scores.blocks.len(),
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
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use npb_linalg::faer::Mat;
    use rand::RngExt;

    const CELLS: [[f32; 6]; 3] = [
        [1.0, -0.5, 0.0, 2.0, 0.3, 1.5],
        [0.0, 1.0, -1.0, 0.5, 0.7, 0.0],
        [-2.0, 0.4, 0.6, 1.0, 0.0, 0.2],
    ];
    const RESPONSES: [f32; 3] = [1.0, -2.0, 0.5];
    const DRAWS: usize = 40_000;

    fn cell(e: usize, regressors: &mut [f32]) -> f32 {
        regressors.copy_from_slice(&CELLS[e]);
        RESPONSES[e]
    }

    fn prior(k: usize) -> f64 {
        1.0 + k as f64
    }

    /// Largest deviation of means and covariances from those of the law, in standard errors: 27 numbers.
    fn worst(mut draw: impl FnMut(&mut Xoshiro256PlusPlus, &mut [f64])) -> f64 {
        let cells = Mat::from_fn(3, 6, |e, k| f64::from(CELLS[e][k]));
        let mut precision = cells.transpose() * &cells;
        (0..6).for_each(|k| precision[(k, k)] += prior(k));
        let factor = Cholesky::new(precision.as_ref()).unwrap();
        let mut mean: Vec<f64> = (0..6)
            .map(|k| {
                (0..3)
                    .map(|e| cells[(e, k)] * f64::from(RESPONSES[e]))
                    .sum()
            })
            .collect();
        factor.solve(&mut mean);
        let rng = &mut stream(11, [0; 4]);
        let (mut x, mut sums, mut squares) = (vec![0.0; 6], [0.0; 6], [[0.0; 6]; 6]);
        for _ in 0..DRAWS {
            draw(rng, &mut x);
            x.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m);
            for a in 0..6 {
                sums[a] += x[a];
                (0..6).for_each(|b| squares[a][b] += x[a] * x[b]);
            }
        }
        let n = DRAWS as f64;
        let mut largest = 0.0_f64;
        let v = factor.inverse();
        for a in 0..6 {
            largest = largest.max((sums[a] / n).abs() / (v[(a, a)] / n).sqrt());
            for b in 0..6 {
                let sd = ((v[(a, a)] * v[(b, b)] + v[(a, b)].powi(2)) / n).sqrt();
                largest = largest.max((squares[a][b] / n - v[(a, b)]).abs() / sd);
            }
        }
        largest
    }

    /// Both ways to draw a regression have the law that it should have; one with a tenth too much noise has not.
    #[test]
    fn few_cells_draw_the_same_law() {
        let arch = Arch::new();
        let mut regression = Regression::new(arch, 6);
        let many = worst(|rng, x| x.copy_from_slice(regression.draw(3, cell, prior, rng).unwrap()));
        assert!(many < 4.5, "{many}");
        let few =
            worst(|rng, x| x.copy_from_slice(regression.draw_few(3, cell, prior, rng).unwrap()));
        assert!(few < 4.5, "{few}");
        let broken = worst(|rng, x| {
            let own = &mut stream(rng.random(), [1; 4]);
            let noisy = |e: usize, regressors: &mut [f32]| {
                cell(e, regressors) + 0.1_f32.sqrt() * rng.sample::<f32, _>(StandardNormal)
            };
            x.copy_from_slice(regression.draw_few(3, noisy, prior, own).unwrap());
        });
        assert!(broken > 6.0, "{broken}");
    }
}
