//! Concentrations given labels, sticks integrated out (steps 1(a) and 3(a) of the paper, corrected, `docs/itf.md#updates`).

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::{draw_concentration_given_labels, draw_concentration_given_partitions};

use super::sampler::ItfSampler;
use crate::collapsed::{self, cross_counts};
use crate::prior::grow_concentrations;

impl ItfSampler<'_> {
    pub(super) fn draw_concentrations(&mut self, position: u64) {
        let rng = &mut self.stream(position, 0);
        for block in &mut self.state.blocks {
            let counts = collapsed::counts(&block.labels);
            let prior = self.config.top_concentration;
            block.concentration =
                draw_concentration_given_labels(block.concentration, [&counts[..]], prior, rng);
        }
        for j in 0..self.state.columns.len() {
            self.draw_lower_concentration(j, rng);
        }
        if self.config.structure.has_blocks() {
            self.state.column_concentration = draw_concentration_given_partitions(
                self.state.column_concentration,
                &[self.state.columns.len()],
                self.state.blocks.len(),
                self.config.column_concentration,
                rng,
            );
        }
    }

    pub(super) fn draw_lower_concentration(&mut self, j: usize, rng: &mut Xoshiro256PlusPlus) {
        if !self.config.structure.has_lower() {
            return;
        }
        let prior = self.config.lower_concentration;
        let column = &mut self.state.columns[j];
        let top = &self.state.blocks[column.block].labels;
        let n_labels = collapsed::n_labels(&column.labels);
        let counts = cross_counts(top, &column.labels, collapsed::n_labels(top), n_labels);
        let groups = counts.chunks_exact(n_labels);
        if self.config.per_top_cluster() {
            let n_top = groups.len();
            grow_concentrations(&self.config, column, n_top, rng);
            // Those past the last occupied cluster are made again when they come up.
            column.concentrations.truncate(n_top.max(2));
            for (r, beta) in column.concentrations.iter_mut().enumerate() {
                let group = counts.get(r * n_labels..(r + 1) * n_labels);
                *beta = draw_concentration_given_labels(*beta, group, prior, rng);
            }
        } else {
            let beta = column.concentrations[0];
            column.concentrations[0] = draw_concentration_given_labels(beta, groups, prior, rng);
        }
    }
}
