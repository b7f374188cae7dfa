//! One sweep: moves on labels, concentrations, blocks and parameters (`docs/itf.md#updates`).

mod clusters;
mod columns;
mod concentrations;
mod restricted_gibbs;
mod rows;
mod sampler;
mod split_merge;
mod start;
mod swaps;
mod top;

use npb_infer::parallel;

use crate::kernels::Cells;
use crate::prior::grow_concentrations;
use crate::state::{Block, ColumnState};
use crate::{ItfMove, collapsed};
pub use sampler::{ItfChain, ItfSampler};
pub(crate) use sampler::{SCALARS, check_state};
pub(crate) use split_merge::{shuffle, shuffle_from};

impl ItfSampler<'_> {
    /// Makes one sweep: all moves of the configuration in order, those of columns left out of the first sweeps after the start.
    pub fn sweep(&mut self) {
        self.sweep += 1;
        for position in 0..self.config.moves.len() {
            let which = self.config.moves[position];
            if self.sweep > self.settling || !which.moves_columns() {
                self.apply(which, position as u64);
            }
        }
    }

    /// Makes one move, as in place `position` of the list of moves of the present sweep: random numbers are keyed by it.
    /// A move that means nothing for the structure does nothing.
    pub fn apply(&mut self, which: ItfMove, position: u64) {
        let two_levels = self.config.structure.has_lower();
        let has_blocks = self.config.structure.has_blocks();
        match which {
            ItfMove::Concentrations => self.draw_concentrations(position),
            ItfMove::Swaps => self.swap_labels(position),
            ItfMove::TopLabels if two_levels => self.draw_top_labels(position),
            ItfMove::Rows => self.draw_rows(rows::Levels::Both, position),
            ItfMove::LowerLabels if two_levels => self.draw_rows(rows::Levels::Lower, position),
            ItfMove::TopSplitMerge => self.split_merge_top(position),
            ItfMove::LowerSplitMerge if two_levels => self.split_merge_lower(position),
            ItfMove::ColumnGibbs if has_blocks => self.move_columns(position),
            ItfMove::ColumnRelabel if has_blocks => self.relabel_column(position),
            ItfMove::ColumnSplitMerge if has_blocks => self.split_merge_blocks(position),
            ItfMove::Parameters => self.draw_parameters(position),
            _ => {}
        }
    }

    fn draw_top_labels(&mut self, position: u64) {
        for b in 0..self.state.blocks.len() {
            let rng = &mut self.stream(position, b as u64);
            let config = &self.config;
            let mut columns: Vec<&mut ColumnState> = self
                .state
                .columns
                .iter_mut()
                .filter(|c| c.block == b)
                .collect();
            let Block {
                concentration,
                labels,
            } = &mut self.state.blocks[b];
            top::draw_top_labels(
                *concentration,
                labels,
                &mut columns,
                &mut |column, n, rng| grow_concentrations(config, column, n, rng),
                rng,
            );
        }
    }

    fn draw_rows(&mut self, levels: rows::Levels, position: u64) {
        let mut ln_likelihood = 0.0;
        for b in 0..self.state.blocks.len() {
            let config = &self.config;
            let two_levels = config.structure.has_lower();
            let inside = self.state.columns_of(b);
            let cells: Vec<&Cells> = inside.iter().map(|&j| &self.data.cells()[j]).collect();
            let kinds: Vec<_> = inside.iter().map(|&j| self.kinds[j].as_ref()).collect();
            let mut columns: Vec<&mut ColumnState> = self
                .state
                .columns
                .iter_mut()
                .filter(|c| c.block == b)
                .collect();
            let Block {
                concentration,
                labels,
            } = &mut self.state.blocks[b];
            let labels = rows::BlockLabels {
                levels,
                two_levels,
                alpha: *concentration,
                top_labels: labels,
                columns: &mut columns,
                cells: &cells,
                kinds: &kinds,
                key: rows::Key {
                    seed: config.seed,
                    chain: self.chain,
                    sweep: self.sweep,
                    block: (position << 32) + 1 + b as u64,
                },
            };
            ln_likelihood += labels.update(
                &mut |column, n, rng| grow_concentrations(config, column, n, rng),
                &mut self.scratch,
            );
        }
        self.ln_likelihood = ln_likelihood;
    }

    fn draw_parameters(&mut self, position: u64) {
        let keys: Vec<_> = (0..self.state.columns.len())
            .map(|j| self.stream(position, j as u64))
            .collect();
        let blocks = &self.state.blocks;
        let columns = self.state.columns.iter_mut().zip(&mut self.pools);
        let columns = columns.zip(self.data.cells()).zip(keys);
        parallel::for_each(columns, |(((column, pool), cells), mut rng)| {
            let labels = if column.labels.is_empty() {
                &blocks[column.block].labels
            } else {
                &column.labels
            };
            let n = collapsed::n_labels(labels);
            column.law.truncate(n);
            column.law.grow(n, &mut rng);
            column.law.update(cells, labels, pool, &mut rng);
        });
    }
}
