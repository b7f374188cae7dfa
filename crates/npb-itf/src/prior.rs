//! Draws of the state from the prior.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::GammaPrior;
use npb_priors::dp::{LazySticks, draw_concentration_given_labels, sample_urn};

use crate::collapsed;
use crate::kernels::Column;
use crate::state::{Block, ColumnState, ItfState};
use crate::{ItfConfig, ItfData};

impl ItfState {
    /// A draw from the prior: labels, concentrations, blocks and parameters for the rows of `data`, whose cells are not
    /// looked at.
    pub fn prior(data: &ItfData, config: &ItfConfig, rng: &mut Xoshiro256PlusPlus) -> Self {
        let n_rows = data.n_rows();
        let two_levels = config.structure.has_lower();
        let column_concentration = draw_gamma(config.column_concentration, rng);
        let blocks_of = if config.structure.has_blocks() {
            sample_urn(data.n_columns(), column_concentration, rng)
        } else {
            vec![0; data.n_columns()]
        };
        let n_blocks = blocks_of.iter().max().map_or(0, |b| b + 1);
        let blocks = (0..n_blocks).map(|_| {
            let concentration = draw_gamma(config.top_concentration, rng);
            let sticks = LazySticks::new(concentration.min(LazySticks::MAX_ALPHA));
            let mut sticks = sticks.expect("a concentration is positive");
            let labels = (0..n_rows).map(|_| sticks.draw_label(rng) as u32);
            Block {
                concentration,
                labels: labels.collect(),
            }
        });
        let blocks: Vec<Block> = blocks.collect();
        let column = |(block, law): (usize, &Column)| {
            let mut column = ColumnState {
                block,
                concentrations: Vec::new(),
                labels: Vec::new(),
                law: law.fresh(rng),
            };
            let top = &blocks[block].labels;
            if two_levels {
                let n_top = collapsed::n_labels(top);
                grow_concentrations(config, &mut column, n_top, rng);
                let unbroken =
                    |r| LazySticks::new(column.concentration(r).min(LazySticks::MAX_ALPHA));
                let mut sticks: Vec<LazySticks> = (0..n_top).flat_map(unbroken).collect();
                let label = |&r: &u32| sticks[r as usize].draw_label(rng) as u32;
                column.labels = top.iter().map(label).collect();
            }
            let labels = if two_levels { &column.labels } else { top };
            column.law.grow(collapsed::n_labels(labels), rng);
            column
        };
        let columns = blocks_of.into_iter().zip(data.laws()).map(column).collect();
        Self {
            blocks,
            columns,
            column_concentration,
        }
    }
}

pub(crate) fn draw_gamma(prior: GammaPrior, rng: &mut Xoshiro256PlusPlus) -> f64 {
    draw_concentration_given_labels(1.0, [], prior, rng)
}

/// Makes concentrations for top-level clusters up to `n_top`, from the prior.
pub(crate) fn grow_concentrations(
    config: &ItfConfig,
    column: &mut ColumnState,
    n_top: usize,
    rng: &mut Xoshiro256PlusPlus,
) {
    // Never one alone: that would mean a shared one.
    let n = if config.per_top_cluster() {
        n_top.max(2)
    } else {
        1
    };
    while column.concentrations.len() < n {
        let drawn = draw_gamma(config.lower_concentration, rng);
        column.concentrations.push(drawn);
    }
}
