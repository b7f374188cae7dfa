//! Rows without missing features, side by side in vector registers.

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};

use super::shared::CompleteRows;
use super::{INACTIVE, RowFactors, Terms, Worker};
use crate::conditional::columns::{Columns, Form};
use crate::conditional::memory::Memory;
use crate::conditional::softmax::LnTotals;
use crate::rows::Block;
use crate::state::dot;

/// What complete rows need of the components.
pub(super) struct CompleteSide {
    forms: Vec<Form>,
    /// The part of `ln rho` that is the same for all rows.
    constant: Vec<f64>,
    /// What is to be added to the slope of the form; none for unlabelled rows.
    intercept: Option<Vec<f64>>,
}

impl CompleteSide {
    /// The offset `b'd` is absorbed by the square: `d'L d + 2 b'd = |C'(d + s)|^2 - b's` with `s = L^-1 b`.
    pub(super) fn new(
        terms: &Terms,
        means: &Mat<f64>,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let p = means.nrows();
        let mut side = Self {
            forms: Vec::with_capacity(means.ncols()),
            constant: terms.constant.clone(),
            intercept: terms
                .linear
                .as_ref()
                .map(|_| Vec::with_capacity(means.ncols())),
        };
        for (h, precision) in terms.precision.iter().enumerate() {
            let factor = Cholesky::new(precision.as_ref()).map_err(|source| (h, source))?;
            let mean = means.col_as_slice(h);
            let (Some(linear), Some(intercept)) = (&terms.linear, &mut side.intercept) else {
                side.forms.push(Form::with_factor(mean, &factor, None));
                continue;
            };
            let [slope, offset] = linear.coefficients(h).map(|x| &x[..p]);
            let mut shift = offset.to_vec();
            factor.solve(&mut shift);
            let centre: Vec<f64> = mean.iter().zip(&shift).map(|(m, s)| m - s).collect();
            side.forms
                .push(Form::with_factor(&centre, &factor, Some(slope)));
            side.constant[h] += 0.5 * dot(offset, &shift);
            intercept.push(linear.intercept(h) - dot(slope, &shift));
        }
        Ok(side)
    }
}

/// Memory of one thread of work. Tables are of one block: component, row.
#[derive(Default)]
pub(super) struct CompleteScratch {
    columns: Columns,
    /// `<t>`, by row.
    soft: Memory,
    /// `ln rho` up to a constant of the row, the slopes `<c> + <w_x>'d`, and `rho`.
    ln_rho: Memory,
    slope: Memory,
    rho: Memory,
    /// The constant of each row, in two parts, and a number for each row.
    top: Memory,
    rest: Memory,
    out: Memory,
}

impl CompleteScratch {
    fn reserve(&mut self, n_components: usize) {
        let n = self.columns.stride();
        for table in [&mut self.ln_rho, &mut self.slope, &mut self.rho] {
            table.reserve(n_components * n);
        }
        for row in [&mut self.soft, &mut self.top, &mut self.rest, &mut self.out] {
            row.reserve(n);
        }
    }
}

impl Worker<'_> {
    pub(super) fn complete_block(
        &mut self,
        block: &Block,
        side: &CompleteSide,
        factors: &mut RowFactors<'_>,
    ) {
        self.scratch.complete.columns.load(self.rows, block);
        self.scratch.complete.reserve(side.forms.len());
        self.complete_ln_weights(side, factors.soft);
        let entropy = self.weigh_complete(side.forms.len(), factors.responsibilities);
        self.add_entropy(entropy);
        if block.labelled {
            self.complete_soft_labels(block, side.forms.len(), factors);
        }
        self.accumulate_complete(block, factors.soft);
    }

    /// `ln rho` up to a constant of the row, and the slopes.
    fn complete_ln_weights(&mut self, side: &CompleteSide, soft: &[f64]) {
        let scratch = &mut self.scratch.complete;
        let stacked = scratch.columns.stacked();
        let n = stacked.len;
        let padded_soft = scratch.soft.get_mut(n);
        padded_soft[..soft.len()].copy_from_slice(soft);
        padded_soft[soft.len()..].fill(0.0);
        for (h, form) in side.forms.iter().enumerate() {
            let (ln_rho, slope) = (scratch.ln_rho.part_mut(h, n), scratch.slope.part_mut(h, n));
            scratch.columns.apply(form, [&mut *ln_rho, &mut *slope]);
            let constant = side.constant[h];
            let Some(intercept) = side.intercept.as_ref().map(|intercept| intercept[h]) else {
                stacked.map(ln_rho, |quadratic| constant - 0.5 * quadratic);
                continue;
            };
            let each = ln_rho.iter_mut().zip(slope).zip(padded_soft.iter());
            stacked.arch.dispatch(
                #[inline(always)]
                || {
                    for ((ln_rho, slope), soft) in each {
                        *slope += intercept;
                        *ln_rho = constant - 0.5 * *ln_rho + soft * *slope;
                    }
                },
            );
        }
    }

    /// Responsibilities of the rows of the block; returns their entropy.
    fn weigh_complete(&mut self, n_components: usize, stored: &mut [f64]) -> f64 {
        let scratch = &mut self.scratch.complete;
        let stacked = scratch.columns.stacked();
        let (n_rows, n) = (scratch.columns.n_rows(), stacked.len);
        let rho = scratch.rho.get_mut(n_components * n);
        let stored = stored.chunks_exact_mut(n_rows);
        if !self.update.responsibilities {
            let mut entropy = 0.0;
            for (rho, stored) in rho.chunks_exact_mut(n).zip(stored) {
                rho[..n_rows].copy_from_slice(stored);
                let active = stored.iter().filter(|weight| **weight > 0.0);
                entropy -= active.map(|weight| weight * weight.ln()).sum::<f64>();
            }
            return entropy;
        }
        let ln_rho = scratch.ln_rho.get(n_components * n);
        let mut ln_totals = LnTotals {
            top: scratch.top.get_mut(n),
            rest: scratch.rest.get_mut(n),
        };
        let entropies = scratch.out.get_mut(n);
        stacked.softmax(ln_rho, INACTIVE, rho, &mut ln_totals);
        stacked.entropies(ln_rho, rho, &ln_totals, entropies);
        for (rho, stored) in rho.chunks_exact(n).zip(stored) {
            stored.copy_from_slice(&rho[..n_rows]);
        }
        entropies[..n_rows].iter().sum()
    }

    fn complete_soft_labels(
        &mut self,
        block: &Block,
        n_components: usize,
        factors: &mut RowFactors<'_>,
    ) {
        let scratch = &mut self.scratch.complete;
        let stacked = scratch.columns.stacked();
        if self.update.soft_labels {
            let [rho, slope] =
                [&scratch.rho, &scratch.slope].map(|table| table.get(n_components * stacked.len));
            let averages = scratch.out.get_mut(stacked.len);
            stacked.averages(rho, slope, averages);
            factors
                .locations
                .copy_from_slice(&averages[..block.rows.len()]);
        }
        self.update_soft_labels(block, factors);
    }

    fn accumulate_complete(&mut self, block: &Block, soft: &[f64]) {
        let scratch = &self.scratch.complete;
        let stride = scratch.columns.stride();
        let n_components = self.parameters.n_components();
        let sums = self.totals.sums(block.labelled, self.parameters);
        sums.add_complete(&CompleteRows {
            features: self.rows.block(block),
            soft,
            weights: scratch.rho.get(n_components * stride),
            stride,
        });
    }
}
