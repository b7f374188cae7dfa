//! Rows without missing features, side by side in vector registers.

use super::sides::{CompleteSide, INACTIVE, RowFactors};
use super::worker::{CompleteScratch, Worker};
use npb_linalg::mixture::{Block, CompleteRows, LnTotals};

impl CompleteScratch {
    fn reserve(&mut self, n_components: usize, n_utilities: usize) {
        let n = self.columns.stride();
        for table in [&mut self.ln_rho, &mut self.rho] {
            table.reserve(n_components * n);
        }
        self.slopes.reserve(n_components * n_utilities * n);
        self.soft.reserve(n_utilities * n);
        for row in [&mut self.top, &mut self.rest, &mut self.out] {
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
        let scratch = &mut self.scratch.complete;
        scratch.reserve(side.forms.len(), side.n_utilities);
        self.complete_ln_weights(side, factors.soft);
        let entropy = self.weigh_complete(side.forms.len(), factors.responsibilities);
        self.add_entropy(entropy);
        if block.labelled {
            self.complete_expected_utilities(block, side, factors);
        }
        self.accumulate_complete(block, factors.soft);
    }

    /// `ln rho` up to a constant of the row, and the slopes.
    fn complete_ln_weights(&mut self, side: &CompleteSide, soft: &[f64]) {
        let scratch = &mut self.scratch.complete;
        let stacked = scratch.columns.stacked();
        let (n, n_utilities) = (stacked.len, side.n_utilities);
        let padded_soft = scratch.soft.get_mut(n_utilities * n);
        for (k, padded) in padded_soft.chunks_exact_mut(n).enumerate() {
            padded.fill(0.0);
            let soft = soft.iter().skip(k).step_by(n_utilities);
            padded.iter_mut().zip(soft).for_each(|(to, t)| *to = *t);
        }
        for (h, form) in side.forms.iter().enumerate() {
            let ln_rho = scratch.ln_rho.part_mut(h, n);
            let slopes = scratch.slopes.part_mut(h, n_utilities * n);
            scratch.columns.apply(form, [&mut *ln_rho, &mut *slopes]);
            let constant = side.constant[h];
            stacked.map(ln_rho, |quadratic| constant - 0.5 * quadratic);
            let intercepts = &side.intercepts[h * n_utilities..][..n_utilities];
            let each = slopes.chunks_exact_mut(n).zip(padded_soft.chunks_exact(n));
            for ((slope, soft), intercept) in each.zip(intercepts) {
                let each = ln_rho.iter_mut().zip(slope).zip(soft);
                stacked.arch.dispatch(
                    #[inline(always)]
                    || {
                        for ((ln_rho, slope), soft) in each {
                            *slope += intercept;
                            *ln_rho += soft * *slope;
                        }
                    },
                );
            }
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

    fn complete_expected_utilities(
        &mut self,
        block: &Block,
        side: &CompleteSide,
        factors: &mut RowFactors<'_>,
    ) {
        let scratch = &mut self.scratch.complete;
        let stacked = scratch.columns.stacked();
        let size = side.forms.len() * stacked.len;
        for k in 0..side.n_utilities {
            if !self.update.utility_means {
                break;
            }
            let rho = scratch.rho.get(size);
            let slopes = scratch.slopes.get(side.n_utilities * size);
            let averages = scratch.out.get_mut(stacked.len);
            stacked.averages(rho, slopes, [k, side.n_utilities], averages);
            let of_utility = factors.locations.iter_mut().skip(k);
            for (location, average) in of_utility.step_by(side.n_utilities).zip(averages) {
                *location = *average;
            }
        }
        self.update_expected_utilities(block, factors);
    }

    fn accumulate_complete(&mut self, block: &Block, soft: &[f64]) {
        let scratch = &self.scratch.complete;
        let stride = scratch.columns.stride();
        let n_components = self.parameters.n_components();
        let sums = self.totals.sums(block.labelled, self.parameters);
        sums.add_complete(&CompleteRows {
            n_rows: block.rows.len(),
            features: self.rows.block(block),
            soft: if block.labelled { soft } else { &[] },
            weights: scratch.rho.get(n_components * stride),
            stride,
        });
    }
}
