//! Moves of columns between blocks, the top-level labels of new blocks proposed row by row.
//!
//! A column's lower labels stay; its lower sticks (with one level: its parameters) are integrated out. So a column with labels
//! c_j has probability ∏_r P(its labels in cluster r) under any block's top-level labels, and the partition of the columns has a Chinese
//! restaurant prior. What a new block brings along, its concentration and labels, is an auxiliary variable drawn from
//! q: the concentration from the prior, the labels one row after the other given the column. The weight of the new block has
//! P(labels | concentration) / q in it, and for a column that is alone in its block the present labels take the place of
//! the drawn ones: the exact Gibbs step on the extended space of state and auxiliary variable.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::ln_label_probability;
use npb_priors::special::{ln_gamma, ln_normalize};
use rand::RngExt;

use super::{COLUMN_SHARE, ItfSampler, draw_gamma, shuffle};
use crate::state::Block;
use crate::urn::{self, CellUrn, LabelUrn, Urn};

impl ItfSampler<'_> {
    /// Columns that can be moved: with one level their parameters must be integrated out.
    fn is_movable(&self, j: usize) -> bool {
        self.config.structure.has_lower() || self.is_collapsed(j)
    }

    /// Evaluates something on the urn of one column.
    fn with_urn<T>(&self, j: usize, ask: impl FnOnce(&mut dyn DynUrn) -> T) -> T {
        let column = &self.state.columns[j];
        if self.config.structure.has_lower() {
            let concentration = |r| column.concentration(r);
            let pair = (&column.labels[..], &concentration as &dyn Fn(usize) -> f64);
            ask(&mut LabelUrn::new([pair]))
        } else {
            ask(&mut CellUrn::new([self.law_and_cells(j)]))
        }
    }

    /// ln p(column | top-level labels).
    fn ln_column(&self, j: usize, labels: &[u32]) -> f64 {
        self.with_urn(j, |urn| urn.ln_given(labels))
    }

    /// Proposes top-level labels for a block made from one column, or takes the given ones: labels and ln q.
    fn propose_labels(
        &self,
        j: usize,
        alpha: f64,
        given: Option<&[u32]>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> (Vec<u32>, f64) {
        let mut order: Vec<u32> = (0..self.data.n_rows() as u32).collect();
        shuffle(&mut order, rng);
        self.with_urn(j, |urn| urn.propose(alpha, &order, given, rng))
    }

    /// Tries some columns, drawn at random, against all blocks and a new one.
    pub(super) fn move_columns(&mut self, position: u64) {
        let n_columns = self.state.columns.len();
        for attempt in 0..n_columns.div_ceil(COLUMN_SHARE) {
            let rng = &mut self.stream(position, attempt as u64);
            let j = rng.random_range(0..n_columns);
            if self.is_movable(j) {
                self.move_column(j, rng);
            }
        }
    }

    fn move_column(&mut self, j: usize, rng: &mut Xoshiro256PlusPlus) {
        let present = self.state.columns[j].block;
        let mut sizes = vec![0.0_f64; self.state.blocks.len()];
        self.state
            .columns
            .iter()
            .for_each(|c| sizes[c.block] += 1.0);
        let alone = sizes[present] == 1.0;
        sizes[present] -= 1.0;

        let prior = self.config.top_concentration;
        let alpha = if alone {
            self.state.blocks[present].concentration
        } else {
            draw_gamma(prior, rng)
        };
        let given = alone.then(|| &self.state.blocks[present].labels[..]);
        let (labels, ln_q) = self.propose_labels(j, alpha, given, rng);
        let ln_new = self.state.column_concentration.ln()
            + ln_label_probability(&urn::counts(&labels), alpha)
            + self.ln_column(j, &labels)
            - ln_q;
        let ln_old = |b: usize| sizes[b].ln() + self.ln_column(j, &self.state.blocks[b].labels);
        let occupied: Vec<usize> = (0..sizes.len()).filter(|&b| sizes[b] > 0.0).collect();
        let mut weights: Vec<f64> = occupied.iter().map(|&b| ln_old(b)).collect();
        weights.push(ln_new);
        ln_normalize(&mut weights);
        let mut left: f64 = rng.random();
        let chosen = weights.iter().position(|w| {
            left -= w;
            left < 0.0
        });
        let block = match chosen.and_then(|place| occupied.get(place)) {
            Some(&block) => block,
            None if alone => present,
            None => {
                self.state.blocks.push(Block {
                    concentration: alpha,
                    labels,
                });
                self.state.blocks.len() - 1
            }
        };
        if block != present {
            self.put(j, block, rng);
            self.state.drop_empty_blocks();
        }
    }

    /// Moves a column; with one level its clusters are now others, and so are their parameters.
    fn put(&mut self, j: usize, block: usize, rng: &mut Xoshiro256PlusPlus) {
        self.state.columns[j].block = block;
        if self.config.structure.has_lower() {
            return;
        }
        let labels = &self.state.blocks[block].labels;
        let cells = &self.data.cells()[j];
        let law = &mut self.state.columns[j].law;
        let n = urn::n_labels(labels);
        law.grow(n, rng);
        let mut stats = law.pool();
        law.urn_reset(cells, &mut stats, law.n_clusters());
        for (row, &label) in labels.iter().enumerate() {
            law.urn_add(cells, &mut stats, label as usize, row);
        }
        for cluster in 0..law.n_clusters() {
            law.urn_draw(cells, &stats, cluster, cluster, rng);
        }
    }

    /// Tries to split a block in two or to merge two blocks.
    ///
    /// Two columns are drawn. If they share a block, the second is to found a new one, with labels proposed from it alone, and
    /// every other column of the block goes with it with the probability that the two blocks' labels give; if not, the second's
    /// block is to be dissolved into the first's.
    pub(super) fn split_merge_blocks(&mut self, position: u64) {
        let n_columns = self.state.columns.len();
        if n_columns < 2 {
            return;
        }
        let rng = &mut self.stream(position, 0);
        let first = rng.random_range(0..n_columns);
        let second = (first + rng.random_range(1..n_columns)) % n_columns;
        let (keep, other) = (
            self.state.columns[first].block,
            self.state.columns[second].block,
        );
        let split = keep == other;
        let alpha = if split {
            draw_gamma(self.config.top_concentration, rng)
        } else {
            self.state.blocks[other].concentration
        };
        let concerned: Vec<usize> = (0..n_columns)
            .filter(|&j| [keep, other].contains(&self.state.columns[j].block))
            .collect();
        if !concerned.iter().all(|&j| self.is_movable(j)) {
            return;
        }
        let given = (!split).then(|| &self.state.blocks[other].labels[..]);
        let (labels, mut ln_q) = self.propose_labels(second, alpha, given, rng);

        let mut goes = Vec::with_capacity(concerned.len());
        let mut ln_gain = 0.0;
        for &j in &concerned {
            let stays = self.ln_column(j, &self.state.blocks[keep].labels);
            let ln_odds = self.ln_column(j, &labels) - stays;
            let go = if j == first {
                false
            } else if j == second {
                true
            } else {
                let ln_p = |x: f64| -((-x).exp().ln_1p());
                let go = if split {
                    rng.random::<f64>().ln() < ln_p(ln_odds)
                } else {
                    self.state.columns[j].block == other
                };
                ln_q += ln_p(if go { ln_odds } else { -ln_odds });
                go
            };
            if go {
                ln_gain += ln_odds;
            }
            goes.push(go);
        }
        let n_going = goes.iter().filter(|&&go| go).count() as f64;
        let n_all = concerned.len() as f64;
        let ln_partition =
            self.state.column_concentration.ln() + ln_gamma(n_going) + ln_gamma(n_all - n_going)
                - ln_gamma(n_all);
        let ln_labels = ln_label_probability(&urn::counts(&labels), alpha);
        let ln_split = ln_partition + ln_labels + ln_gain - ln_q;
        let ln_ratio = if split { ln_split } else { -ln_split };
        if rng.random::<f64>().ln() >= ln_ratio {
            return;
        }
        let target = if split {
            self.state.blocks.push(Block {
                concentration: alpha,
                labels,
            });
            self.state.blocks.len() - 1
        } else {
            keep
        };
        for (&j, go) in concerned.iter().zip(goes) {
            if go {
                self.put(j, target, rng);
            }
        }
        self.state.drop_empty_blocks();
    }
}

/// The two questions that moves of columns ask of an urn, whatever it holds.
trait DynUrn {
    fn ln_given(&mut self, labels: &[u32]) -> f64;
    fn propose(
        &mut self,
        alpha: f64,
        order: &[u32],
        given: Option<&[u32]>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> (Vec<u32>, f64);
}

impl<U: Urn> DynUrn for U {
    fn ln_given(&mut self, labels: &[u32]) -> f64 {
        let n = urn::n_labels(labels);
        self.reset(n);
        for (row, &label) in labels.iter().enumerate() {
            self.add(label as usize, row);
        }
        (0..n).map(|cluster| self.ln_total(cluster)).sum()
    }

    fn propose(
        &mut self,
        alpha: f64,
        order: &[u32],
        given: Option<&[u32]>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> (Vec<u32>, f64) {
        urn::sequential(self, alpha, order, given, rng)
    }
}
