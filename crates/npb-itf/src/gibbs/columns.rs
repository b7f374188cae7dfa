//! Moves of columns between blocks, the top-level labels of new blocks proposed row by row (`docs/itf.md#columns`).
//!
//! What a new block brings along, its concentration and labels, is an auxiliary variable drawn from q: the concentration from the prior, the labels one
//! row after the other given the column. The weight of the new block has P(labels | concentration) / q in it, and for a column that is alone in its block
//! the present labels take the place of the drawn ones: the exact Gibbs step on the extended space of state and auxiliary variable.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::{ln_label_probability, ln_partition_probability};
use npb_priors::special::{ln_gamma, ln_normalize};
use rand::RngExt;

use super::restricted_gibbs;
use super::sampler::{COLUMN_SHARE, ItfSampler};
use super::split_merge::shuffle;
use crate::collapsed::{self, CellClusters, LabelClusters, ln_labels_given};
use crate::numeric::pick;
use crate::prior::draw_gamma;
use crate::state::{Block, ColumnState};

/// Top-level labels for some columns.
struct Proposal {
    labels: Vec<u32>,
    /// ln [P(labels) p(columns | labels) / q(labels)].
    ln_weight: f64,
}

/// Two columns whose block is to be split, or whose blocks are to be merged.
struct Pair {
    founders: [usize; 2],
    /// The blocks that they are in.
    blocks: [usize; 2],
    /// All columns in these.
    concerned: Vec<usize>,
    /// Those that are with the second founder when the blocks are two.
    going: Vec<usize>,
}

impl ItfSampler<'_> {
    /// Evaluates something on the clusters of some columns' lower labels.
    fn with_clusters<T>(
        &self,
        columns: &[usize],
        ask: impl FnOnce(&mut LabelClusters<'_>) -> T,
    ) -> T {
        let states = || columns.iter().map(|&j| &self.state.columns[j]);
        let concentrations: Vec<_> = states()
            .map(|column| move |r| column.concentration(r))
            .collect();
        let pairs = states()
            .zip(&concentrations)
            .map(|(column, concentration)| {
                (&column.labels[..], concentration as &dyn Fn(usize) -> f64)
            });
        ask(&mut LabelClusters::new(pairs))
    }

    /// ln p(columns | top-level labels).
    fn ln_columns(&self, columns: &[usize], top: &[u32]) -> f64 {
        let columns = columns.iter().map(|&j| &self.state.columns[j]);
        let ln = |column: &ColumnState| {
            ln_labels_given(&column.labels, top, |r| column.concentration(r))
        };
        columns.map(ln).sum()
    }

    /// Proposes top-level labels for a block of columns, or takes the given ones.
    fn propose_top(
        &self,
        columns: &[usize],
        alpha: f64,
        given: Option<&[u32]>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Proposal {
        let mut order: Vec<u32> = (0..self.data.n_rows() as u32).collect();
        shuffle(&mut order, rng);
        let (labels, ln_weight) = self.with_clusters(columns, |clusters| {
            collapsed::sequential(clusters, alpha, &order, given, rng)
        });
        Proposal { labels, ln_weight }
    }

    /// As [`propose_top`](Self::propose_top), by scans from where the founders' lower labels agree; `None` when the move must be
    /// given up.
    fn propose_anew(
        &self,
        columns: &[usize],
        founders: &[usize],
        alpha: f64,
        given: Option<&[u32]>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Proposal> {
        let mut order: Vec<u32> = (0..self.data.n_rows() as u32).collect();
        shuffle(&mut order, rng);
        let labels = |&j: &usize| &self.state.columns[j].labels[..];
        let launch = restricted_gibbs::agreement(&founders.iter().map(labels).collect::<Vec<_>>());
        let (labels, ln_weight) = self.with_clusters(columns, |clusters| {
            restricted_gibbs::propose(clusters, alpha, launch, &order, given, rng)
        })?;
        Some(Proposal { labels, ln_weight })
    }

    /// Tries some columns, drawn at random, against all blocks and a new one, in every second sweep on average: one in 150 moves.
    pub(super) fn move_columns(&mut self, position: u64) {
        let n_columns = self.state.columns.len();
        if self.stream(position, 1 << 32).random() {
            return;
        }
        for attempt in 0..n_columns.div_ceil(COLUMN_SHARE) {
            let rng = &mut self.stream(position, attempt as u64);
            let j = rng.random_range(0..n_columns);
            self.move_column(j, rng);
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
        let proposal = self.propose_top(&[j], alpha, given, rng);
        let ln_new = self.state.column_concentration.ln() + proposal.ln_weight;
        let ln_old = |b: usize| sizes[b].ln() + self.ln_columns(&[j], &self.state.blocks[b].labels);
        let occupied: Vec<usize> = (0..sizes.len()).filter(|&b| sizes[b] > 0.0).collect();
        let mut weights: Vec<f64> = occupied.iter().map(|&b| ln_old(b)).collect();
        weights.push(ln_new);
        ln_normalize(&mut weights);
        let chosen = pick(&weights, rng.random());
        let block = match occupied.get(chosen) {
            Some(&block) => block,
            None if alone => present,
            None => {
                self.state.blocks.push(Block {
                    concentration: alpha,
                    labels: proposal.labels,
                });
                self.state.blocks.len() - 1
            }
        };
        if block != present {
            self.state.columns[j].block = block;
            self.state.drop_empty_blocks();
        }
    }

    /// Which columns go with the second founder, and the log probability of that; drawn, or those of the block that is there.
    fn going(
        &self,
        concerned: &[usize],
        [first, second]: [usize; 2],
        there: Option<usize>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> (Vec<usize>, f64) {
        let mut ln_q = 0.0;
        let mut going = Vec::with_capacity(concerned.len());
        for &j in concerned {
            if j == first || j == second {
                going.extend((j == second).then_some(j));
                continue;
            }
            let ln_odds = self.ln_odds_of_going(j, second);
            let ln_p = |x: f64| -((-x).exp().ln_1p());
            let goes = match there {
                None => rng.random::<f64>().ln() < ln_p(ln_odds),
                Some(block) => self.state.columns[j].block == block,
            };
            ln_q += ln_p(if goes { ln_odds } else { -ln_odds });
            going.extend(goes.then_some(j));
        }
        (going, ln_q)
    }

    /// Tries to split a block in two or to merge two blocks.
    ///
    /// Two columns are drawn. If they share a block, the second founds a new one: every other column of the block goes with it
    /// with a probability that depends on the lower labels of the two columns alone, and the new
    /// block's labels are proposed from all columns that go. If they do not, the second's block is to be dissolved into the
    /// first's, with the same probabilities for the way back.
    ///
    /// One time in eight the labels of the other block, or of the merged one, are proposed anew as well: a block of two independent
    /// groups has clusters for all their combinations, which neither half of it needs.
    pub(super) fn split_merge_blocks(&mut self, position: u64) {
        let n_columns = self.state.columns.len();
        let rng = &mut self.stream(position, 0);
        // In every fourth sweep on average: it costs as much as several other moves, and one in a thousand is accepted.
        if n_columns < 2 || rng.random_range(0..4) > 0 {
            return;
        }
        let first = rng.random_range(0..n_columns);
        let second = (first + rng.random_range(1..n_columns)) % n_columns;
        let (keep, other) = (
            self.state.columns[first].block,
            self.state.columns[second].block,
        );
        let split = keep == other;
        let concerned: Vec<usize> = (0..n_columns)
            .filter(|&j| [keep, other].contains(&self.state.columns[j].block))
            .collect();
        let going_now = (!split).then_some(other);
        let (going, ln_q) = self.going(&concerned, [first, second], going_now, rng);
        let alpha = if split {
            draw_gamma(self.config.top_concentration, rng)
        } else {
            self.state.blocks[other].concentration
        };
        let (n_going, n_all) = (going.len() as f64, concerned.len() as f64);
        let pair = Pair {
            founders: [first, second],
            blocks: [keep, other],
            concerned,
            going,
        };
        let ln_partition =
            self.state.column_concentration.ln() + ln_gamma(n_going) + ln_gamma(n_all - n_going)
                - ln_gamma(n_all);
        let ln_u = rng.random::<f64>().ln();
        let proposed = self.propose_blocks(&pair, alpha, (ln_partition - ln_q, ln_u), rng);
        let Some([new, rest, whole]) = proposed else {
            return;
        };
        let ln_split = ln_partition - ln_q + new.ln_weight + rest.ln_weight - whole.ln_weight;
        let ln_ratio = if split { ln_split } else { -ln_split };
        if ln_u >= ln_ratio {
            return;
        }
        let target = if split {
            self.state.blocks[keep].labels = rest.labels;
            self.state.blocks.push(Block {
                concentration: alpha,
                labels: new.labels,
            });
            self.state.blocks.len() - 1
        } else {
            self.state.blocks[keep].labels = whole.labels;
            keep
        };
        for j in pair.going {
            self.state.columns[j].block = target;
        }
        self.state.drop_empty_blocks();
    }

    /// Labels of the block that goes, of the one that stays, and of both together; `None` when the move must be given up.
    ///
    /// The weights of present labels stand in the denominator, and grow by how improbable it is to propose these. So a move is given up before that
    /// is known if it fails even with probability 1.
    fn propose_blocks(
        &self,
        pair: &Pair,
        alpha: f64,
        (ln_choice, ln_u): (f64, f64),
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<[Proposal; 3]> {
        let Pair {
            blocks: [keep, other],
            going,
            ..
        } = pair;
        let (split, kept) = (keep == other, &self.state.blocks[*keep]);
        let given = (!split).then(|| &self.state.blocks[*other].labels[..]);
        if rng.random_range(0..8) == 0 {
            return self.propose_blocks_anew(pair, alpha, (ln_choice, ln_u), rng);
        }
        // What stays is the same on both sides but for the columns that go.
        let ln_whole = self.ln_columns(going, &kept.labels);
        let ln_least = |labels: &[u32]| {
            ln_label_probability(&collapsed::counts(labels), alpha) + self.ln_columns(going, labels)
        };
        if given.is_some_and(|labels| ln_u >= ln_whole - ln_choice - ln_least(labels)) {
            return None;
        }
        let new = self.propose_top(going, alpha, given, rng);
        let same = |ln_weight| Proposal {
            labels: kept.labels.clone(),
            ln_weight,
        };
        Some([new, same(0.0), same(ln_whole)])
    }

    /// The same with the labels of all three proposed anew.
    fn propose_blocks_anew(
        &self,
        pair: &Pair,
        alpha: f64,
        (ln_choice, ln_u): (f64, f64),
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<[Proposal; 3]> {
        let Pair {
            founders,
            blocks: [keep, other],
            concerned,
            going,
        } = pair;
        let (split, kept) = (keep == other, &self.state.blocks[*keep]);
        let given = (!split).then(|| &self.state.blocks[*other].labels[..]);
        let staying = concerned.iter().copied().filter(|j| !going.contains(j));
        let staying: Vec<usize> = staying.collect();
        let ln_least = |columns: &[usize], block: usize| {
            let block = &self.state.blocks[block];
            ln_partition_probability(&collapsed::counts(&block.labels), block.concentration)
                + self.ln_columns(columns, &block.labels)
        };
        let (alpha_kept, present) = (kept.concentration, Some(&kept.labels[..]));
        let new = |rng: &mut _| self.propose_anew(going, &founders[1..], alpha, given, rng);
        let rest = |given, rng: &mut _| {
            self.propose_anew(&staying, &founders[..1], alpha_kept, given, rng)
        };
        let whole =
            |given, rng: &mut _| self.propose_anew(concerned, founders, alpha_kept, given, rng);
        if split {
            let (new, rest) = (new(rng)?, rest(None, rng)?);
            let ln_most = ln_choice + new.ln_weight + rest.ln_weight - ln_least(concerned, *keep);
            let whole = if ln_u < ln_most {
                whole(present, rng)
            } else {
                None
            };
            return Some([new, rest, whole?]);
        }
        let whole = whole(None, rng)?;
        let ln_most =
            whole.ln_weight - ln_choice - ln_least(going, *other) - ln_least(&staying, *keep);
        if ln_u >= ln_most {
            return None;
        }
        Some([new(rng)?, rest(present, rng)?, whole])
    }

    /// How readily a column follows another into a new block: whether its lower labels are better explained with those of the
    /// other as top-level labels than with a single cluster, within bounds that leave the way back open.
    fn ln_odds_of_going(&self, j: usize, founder: usize) -> f64 {
        let (column, top) = (&self.state.columns[j], &self.state.columns[founder].labels);
        let all = collapsed::counts(&column.labels);
        let ln_none = ln_label_probability(&all, column.concentration(0));
        (self.ln_columns(&[j], top) - ln_none).clamp(-4.0, 4.0)
    }

    /// Tries one column in all blocks, its lower labels proposed anew in each: a column whose cells tell little by themselves
    /// (a category) has the clustering of the wrong block, and keeps it unless labels change together with the block.
    ///
    /// In every block labels are proposed row by row given its top-level labels and the column's cells, parameters integrated out; in
    /// the present block the present labels take the place of proposed ones. The weight of a block is its number of other
    /// columns times P(labels, cells) / q, which is the product of the normalisers met on the way.
    pub(super) fn relabel_column(&mut self, position: u64) {
        let rng = &mut self.stream(position, 1 << 32);
        // Seldom: it costs many times the other moves.
        if rng.random_range(0..16) > 0 {
            return;
        }
        let j = rng.random_range(0..self.state.columns.len());
        let present = self.state.columns[j].block;
        let mut sizes = vec![0.0_f64; self.state.blocks.len()];
        self.state
            .columns
            .iter()
            .for_each(|c| sizes[c.block] += 1.0);
        if sizes[present] == 1.0 || sizes.len() == 1 || !self.is_collapsed(j) {
            return;
        }
        sizes[present] -= 1.0;
        let mut order: Vec<u32> = (0..self.data.n_rows() as u32).collect();
        shuffle(&mut order, rng);
        let mut proposals = Vec::with_capacity(sizes.len());
        let mut weights = Vec::with_capacity(sizes.len());
        for (b, block) in self.state.blocks.iter().enumerate() {
            let column = &self.state.columns[j];
            let given = (b == present).then_some(&column.labels[..]);
            let mut clusters = CellClusters::new([self.law_and_cells(j)]);
            let beta = column.concentration(0);
            let (labels, ln_weight) =
                collapsed::sequential_below(&mut clusters, &block.labels, beta, &order, given, rng);
            proposals.push(labels);
            weights.push(sizes[b].ln() + ln_weight);
        }
        if !ln_normalize(&mut weights).is_finite() {
            return;
        }
        let block = pick(&weights, rng.random());
        if block == present {
            return;
        }
        let column = &mut self.state.columns[j];
        column.block = block;
        column.labels = proposals.swap_remove(block);
        self.draw_parameters_of(j, rng);
    }

    /// Draws the parameters of a collapsed column given its labels.
    fn draw_parameters_of(&mut self, j: usize, rng: &mut Xoshiro256PlusPlus) {
        let column = &mut self.state.columns[j];
        let labels = if column.labels.is_empty() {
            &self.state.blocks[column.block].labels
        } else {
            &column.labels
        };
        let cells = &self.data.cells()[j];
        let law = &mut column.law;
        law.grow(collapsed::n_labels(labels), rng);
        let mut stats = law.pool();
        law.collapsed_reset(cells, &mut stats, law.n_clusters());
        for (row, &label) in labels.iter().enumerate() {
            law.collapsed_add(cells, &mut stats, label as usize, row);
        }
        for cluster in 0..law.n_clusters() {
            law.collapsed_draw(cells, &stats, cluster, cluster, rng);
        }
    }
}
