//! The sampler: a chain of moves on labels, concentrations, blocks and parameters.

mod columns;
mod launch;
mod rows;
mod split_merge;
mod sticks;
mod swaps;
mod top;

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::GammaPrior;
use npb_priors::dp::{
    LazySticks, draw_concentration_given_labels, draw_concentration_given_partitions,
    ln_label_probability, sample_urn,
};
use rand::RngExt;
use rayon::prelude::*;

pub(crate) use sticks::Sticks;

use crate::draw::Draw;
use crate::kernels::{Cells, Column, Stats};
use crate::state::{Block, ColumnState, ItfState};
use crate::urn::{self, CellUrn, LabelUrn, Urn};
use crate::{ItfConfig, ItfData, ItfError, ItfMove, Structure};
pub(crate) use split_merge::shuffle;
use split_merge::{Plan, Sides, allocate, ln_anchors, plan};

/// One of how many columns a sweep tries in moves of single columns.
const COLUMN_SHARE: usize = 20;
/// Splits or merges of top-level clusters tried in a sweep.
const TOP_ATTEMPTS: u64 = 2;
/// Splits or merges of the clusters of columns tried in a sweep: so many, or more with many columns.
const LOWER_ATTEMPTS: usize = 2;
/// Categories of more levels than this start like other cells.
const MAX_START_LEVELS: usize = 16;
/// How often the cells of a column are allocated to start from.
const START_ROUNDS: usize = 3;
/// Updates of a column's hyperparameters given labels, to start from.
const ADAPTATIONS: usize = 2;
/// Draws of hyperparameters that are compared where a clustering is judged by its evidence.
const START_DRAWS: usize = 6;
/// By how much (in nats) another clustering must beat none for a column to start in its block: more than evidence is off by.
const START_MARGIN: f64 = 5.0;
/// Key of the stream of starting values.
const START: u64 = u64::MAX;
/// Key of the stream of the sticks of kept draws.
const KEEP: u64 = u64::MAX - 1;

/// One chain. Borrows the data; owns configuration, state and scratch memory.
///
/// ```
/// use npb_itf::npb_data::{MixedColumn, MixedTable};
/// use npb_itf::{ItfConfig, ItfData, ItfSampler};
///
/// let x = MixedColumn::Real((0..40).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
/// let y = MixedColumn::Binary { levels: ["a".into(), "b".into()], values: (0..40).map(|i| Some(i % 2 == 0)).collect() };
/// let data = ItfData::from_table(&MixedTable::new(vec!["x".into(), "y".into()], vec![x, y])?)?;
/// let mut sampler = ItfSampler::new(&data, ItfConfig::default(), 0)?;
/// for _ in 0..20 {
///     sampler.sweep();
/// }
/// assert_eq!(sampler.state().labels(0).len(), 40);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ItfSampler<'d> {
    data: &'d ItfData,
    config: ItfConfig,
    chain: u64,
    /// Sweeps made so far.
    sweep: u64,
    state: ItfState,
    pools: Vec<Stats>,
    /// What is alike among the cells of each column.
    kinds: Vec<Option<rows::Kinds>>,
    scratch: rows::Scratch,
    ln_likelihood: f64,
}

/// Names of the monitored scalars, all of them free of label names.
pub(crate) const SCALARS: [&str; 5] = [
    "ln_likelihood",
    "blocks",
    "top_clusters",
    "lower_clusters",
    "mutual_information",
];

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
            let labels = draw_labels(concentration, n_rows, rng);
            Block {
                concentration,
                labels,
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
                let n_top = urn::n_labels(top);
                grow_concentrations(config, &mut column, n_top, rng);
                let unbroken =
                    |r| LazySticks::new(column.concentration(r).min(LazySticks::MAX_ALPHA));
                let mut sticks: Vec<LazySticks> = (0..n_top).flat_map(unbroken).collect();
                let label = |&r: &u32| sticks[r as usize].draw_label(rng) as u32;
                column.labels = top.iter().map(label).collect();
            }
            let labels = if two_levels { &column.labels } else { top };
            column.law.grow(urn::n_labels(labels), rng);
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

fn draw_labels(concentration: f64, n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<u32> {
    let mut sticks = LazySticks::new(concentration.min(LazySticks::MAX_ALPHA))
        .expect("a concentration is positive");
    (0..n).map(|_| sticks.draw_label(rng) as u32).collect()
}

fn draw_gamma(prior: GammaPrior, rng: &mut Xoshiro256PlusPlus) -> f64 {
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

impl<'d> ItfSampler<'d> {
    /// A chain at its start: lower labels allocated row by row, columns in blocks by what explains them (with blocks) or in one
    /// block with one top-level cluster.
    ///
    /// # Errors
    /// A configuration out of range, or data without rows or columns.
    pub fn new(data: &'d ItfData, config: ItfConfig, chain: u64) -> Result<Self, ItfError> {
        config.validate()?;
        data.check_not_empty()?;
        let state = start(data, &config, chain);
        Ok(Self::with(data, config, chain, state, 0))
    }

    /// A chain that goes on from a state after `sweep` sweeps: a stored one, or a prior draw.
    ///
    /// # Errors
    /// As [`new`](Self::new), or a state that does not fit data and configuration.
    pub fn resume(
        data: &'d ItfData,
        config: ItfConfig,
        chain: u64,
        state: ItfState,
        sweep: u64,
    ) -> Result<Self, ItfError> {
        config.validate()?;
        data.check_not_empty()?;
        check_state(data, &config, &state).map_err(ItfError::saved)?;
        Ok(Self::with(data, config, chain, state, sweep))
    }

    fn with(data: &'d ItfData, config: ItfConfig, chain: u64, state: ItfState, sweep: u64) -> Self {
        Self {
            pools: state.columns.iter().map(|c| c.law.pool()).collect(),
            kinds: (data.laws().iter().zip(data.cells()))
                .map(|(law, cells)| rows::Kinds::new(law, cells))
                .collect(),
            data,
            config,
            chain,
            sweep,
            state,
            scratch: rows::Scratch::default(),
            ln_likelihood: f64::NAN,
        }
    }

    /// The present draw.
    pub fn state(&self) -> &ItfState {
        &self.state
    }

    /// The present draw, taken out.
    pub fn into_state(self) -> ItfState {
        self.state
    }

    /// Sweeps made so far.
    pub fn n_sweeps(&self) -> u64 {
        self.sweep
    }

    /// The configuration.
    pub fn config(&self) -> &ItfConfig {
        &self.config
    }

    /// Log likelihood of all cells given sticks and parameters, labels summed out, as of the last
    /// [`ItfMove::Rows`] or [`ItfMove::LowerLabels`]; NaN before it.
    pub fn ln_likelihood(&self) -> f64 {
        self.ln_likelihood
    }

    /// The present draw with sticks, ready to predict from.
    pub fn draw(&self) -> Draw {
        let rng = &mut stream(self.config.seed, [self.chain, self.sweep, KEEP, 0]);
        Draw::new(&self.state, &self.config, self.chain, rng)
    }

    /// Makes one sweep: all moves of the configuration in order.
    pub fn sweep(&mut self) {
        self.sweep += 1;
        for position in 0..self.config.moves.len() {
            self.apply(self.config.moves[position], position as u64);
        }
    }

    /// Writes the monitored scalars, all but the last, which takes a draw.
    pub(crate) fn summarise(&self, scalars: &mut [f64; SCALARS.len()]) {
        let occupied =
            |labels: &[u32]| urn::counts(labels).iter().filter(|&&m| m > 0).count() as f64;
        let labels = (0..self.state.columns.len()).map(|j| self.state.labels(j));
        scalars[0] = self.ln_likelihood;
        scalars[1] = self.state.blocks.len() as f64;
        scalars[2] = self.state.blocks.iter().map(|b| occupied(&b.labels)).sum();
        scalars[3] = labels.map(occupied).sum();
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
            ItfMove::Rows => self.draw_rows(rows::Draw::Both, position),
            ItfMove::LowerLabels if two_levels => self.draw_rows(rows::Draw::Lower, position),
            ItfMove::TopSplitMerge => self.split_merge_top(position),
            ItfMove::LowerSplitMerge if two_levels => self.split_merge_lower(position),
            ItfMove::ColumnGibbs if has_blocks => self.move_columns(position),
            ItfMove::ColumnRelabel if has_blocks && two_levels => self.relabel_column(position),
            ItfMove::ColumnSplitMerge if has_blocks => self.split_merge_blocks(position),
            ItfMove::Parameters => self.draw_parameters(position),
            ItfMove::TopLabels
            | ItfMove::LowerLabels
            | ItfMove::LowerSplitMerge
            | ItfMove::ColumnGibbs
            | ItfMove::ColumnRelabel
            | ItfMove::ColumnSplitMerge => {}
        }
    }

    fn stream(&self, position: u64, item: u64) -> Xoshiro256PlusPlus {
        stream(
            self.config.seed,
            [self.chain, self.sweep, position << 32, item],
        )
    }

    fn draw_concentrations(&mut self, position: u64) {
        let rng = &mut self.stream(position, 0);
        for block in &mut self.state.blocks {
            let counts = urn::counts(&block.labels);
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

    fn draw_lower_concentration(&mut self, j: usize, rng: &mut Xoshiro256PlusPlus) {
        if !self.config.structure.has_lower() {
            return;
        }
        let prior = self.config.lower_concentration;
        let column = &mut self.state.columns[j];
        let top = &self.state.blocks[column.block].labels;
        let n_labels = urn::n_labels(&column.labels);
        let counts = cross_counts(top, &column.labels, urn::n_labels(top), n_labels);
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

    fn swap_labels(&mut self, position: u64) {
        let two_levels = self.config.structure.has_lower();
        for b in 0..self.state.blocks.len() {
            let rng = &mut self.stream(position, b as u64);
            let block = &mut self.state.blocks[b];
            let mut counts = urn::counts(&block.labels);
            let n = counts.len() + swaps::ATTEMPTS;
            counts.resize(n, 0);
            let alpha = block.concentration;
            let accepted = swaps::propose(&mut counts, n, &|_| alpha, rng);
            rename(&mut block.labels, n, &accepted);
            for column in self.state.columns.iter_mut().filter(|c| c.block == b) {
                if two_levels && self.config.per_top_cluster() {
                    let highest = accepted.iter().map(|&(a, b)| a.max(b)).max();
                    grow_concentrations(&self.config, column, highest.map_or(0, |h| h + 1), rng);
                    accepted
                        .iter()
                        .for_each(|&(a, b)| column.concentrations.swap(a, b));
                } else if !two_levels {
                    swap_parameters(&mut column.law, &accepted, rng);
                }
            }
        }
        if !two_levels {
            return;
        }
        let keys: Vec<_> = (0..self.state.columns.len())
            .map(|j| self.stream(position, (1 << 32) + j as u64))
            .collect();
        let blocks = &self.state.blocks;
        let columns = self.state.columns.par_iter_mut().zip(keys);
        columns.for_each(|(column, mut rng)| {
            let top = &blocks[column.block].labels;
            let n = urn::n_labels(&column.labels) + swaps::ATTEMPTS;
            let mut counts = cross_counts(top, &column.labels, urn::n_labels(top), n);
            let accepted = swaps::propose(&mut counts, n, &|r| column.concentration(r), &mut rng);
            rename(&mut column.labels, n, &accepted);
            swap_parameters(&mut column.law, &accepted, &mut rng);
        });
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

    fn draw_rows(&mut self, draw: rows::Draw, position: u64) {
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
            ln_likelihood += rows::draw_labels(
                draw,
                two_levels,
                *concentration,
                labels,
                &mut columns,
                &cells,
                &kinds,
                &mut |column, n, rng| grow_concentrations(config, column, n, rng),
                rows::Key {
                    seed: config.seed,
                    chain: self.chain,
                    sweep: self.sweep,
                    block: (position << 32) + 1 + b as u64,
                },
                &mut self.scratch,
            );
        }
        self.ln_likelihood = ln_likelihood;
    }

    /// Tries splits and merges in blocks drawn at random.
    fn split_merge_top(&mut self, position: u64) {
        for attempt in 0..TOP_ATTEMPTS {
            let rng = &mut self.stream(position, attempt);
            let b = rng.random_range(0..self.state.blocks.len());
            self.split_merge_block(b, rng);
        }
    }

    fn split_merge_block(&mut self, b: usize, rng: &mut Xoshiro256PlusPlus) {
        let two_levels = self.config.structure.has_lower();
        let columns = self.state.columns_of(b);
        if !two_levels && !columns.iter().all(|&j| self.is_collapsed(j)) {
            return;
        }
        let all_rows: Vec<u32> = (0..self.data.n_rows() as u32).collect();
        let block = &self.state.blocks[b];
        let counts = urn::counts(&block.labels);
        let Some((plan, ln_choice)) = plan(&all_rows, &block.labels, &counts, rng) else {
            return;
        };
        for &j in columns.iter().filter(|_| two_levels) {
            let n = plan.other.max(plan.keep) + 1;
            grow_concentrations(&self.config, &mut self.state.columns[j], n, rng);
        }
        let accepted = if two_levels {
            let concentrations: Vec<_> = (columns.iter())
                .map(|&j| {
                    let column = &self.state.columns[j];
                    move |side| column.concentration([plan.keep, plan.other][side])
                })
                .collect();
            let pairs = columns
                .iter()
                .zip(&concentrations)
                .map(|(&j, concentration)| {
                    let labels = &self.state.columns[j].labels[..];
                    (labels, concentration as &dyn Fn(usize) -> f64)
                });
            let mut urn = LabelUrn::new(pairs);
            let block = &self.state.blocks[b];
            try_split_merge(&mut urn, plan, ln_choice, block, &counts, rng).map(|m| (m, None))
        } else {
            let pairs = columns.iter().map(|&j| self.law_and_cells(j));
            let mut urn = CellUrn::new(pairs);
            let block = &self.state.blocks[b];
            let members = try_split_merge(&mut urn, plan, ln_choice, block, &counts, rng);
            members.map(|m| (m, Some(urn.into_stats().collect::<Vec<_>>())))
        };
        let Some((relabelled, stats)) = accepted else {
            return;
        };
        let labels = &mut self.state.blocks[b].labels;
        relabelled
            .into_iter()
            .for_each(|(row, label)| labels[row as usize] = label);
        for (&j, stats) in columns.iter().zip(stats.iter().flatten()) {
            let law = &mut self.state.columns[j].law;
            let cells = &self.data.cells()[j];
            law.grow(plan.keep.max(plan.other) + 1, rng);
            // After a merge the statistics of the second side, place 1, are empty (see `try_split_merge`).
            law.urn_draw(cells, stats, 0, plan.keep, rng);
            law.urn_draw(cells, stats, 1, plan.other, rng);
        }
    }

    fn law_and_cells(&self, j: usize) -> (&Column, &Cells) {
        (&self.state.columns[j].law, &self.data.cells()[j])
    }

    fn is_collapsed(&self, j: usize) -> bool {
        let (law, cells) = self.law_and_cells(j);
        law.is_collapsed(cells)
    }

    fn split_merge_lower(&mut self, position: u64) {
        let n_columns = self.state.columns.len();
        for attempt in 0..LOWER_ATTEMPTS.max(n_columns.div_ceil(COLUMN_SHARE)) {
            let rng = &mut self.stream(position, attempt as u64);
            let j = rng.random_range(0..n_columns);
            self.split_merge_column(j, rng);
        }
    }

    fn split_merge_column(&mut self, j: usize, rng: &mut Xoshiro256PlusPlus) {
        let data = self.data;
        let column = &self.state.columns[j];
        let (law, cells) = (&column.law, &data.cells()[j]);
        let top = &self.state.blocks[column.block].labels;
        let rows: Vec<u32> = (0..self.data.n_rows() as u32)
            .filter(|&row| law.is_observed(cells, row as usize))
            .collect();
        let counts = urn::counts(&column.labels);
        let Some((plan, ln_choice)) = plan(&rows, &column.labels, &counts, rng) else {
            return;
        };
        let both = [plan.keep, plan.other];
        let completed = match law.is_collapsed(cells) {
            true => None,
            false => match law.completed(cells, &column.labels, both, rng) {
                Some(completed) => Some(completed),
                None => return,
            },
        };
        let cells = completed.as_ref().unwrap_or(cells);
        let mut members = members_of(plan, &column.labels);
        shuffle(&mut members, rng);
        let n_top = urn::n_labels(top);
        let mut sides = LowerSides {
            urn: CellUrn::new([(law, cells)]),
            top,
            counts: vec![[0; 2]; n_top],
        };
        sides.urn.reset(2);
        let (choice, ln_q) = allocate(plan, &members, &column.labels, &mut sides, rng);
        let observed = |side: bool| {
            let placed = members
                .iter()
                .zip(&choice)
                .filter(|&(_, &other)| other == side);
            1 + placed
                .filter(|&(&row, _)| law.is_observed(cells, row as usize))
                .count()
        };
        let ln_anchors = ln_anchors(observed(false), observed(true), rows.len());

        // The labels' prior, by top-level cluster, and the evidence of the cells.
        let n = counts.len().max(plan.other + 1);
        let mut split = cross_counts(top, &column.labels, n_top, n);
        let mut merged = split.clone();
        for (r, [kept, other]) in sides.counts.iter().enumerate() {
            split[r * n + plan.keep] = *kept;
            split[r * n + plan.other] = *other;
            merged[r * n + plan.keep] = kept + other;
            merged[r * n + plan.other] = 0;
        }
        let ln_labels = |counts: &[usize]| -> f64 {
            let groups = counts.chunks_exact(n).enumerate();
            groups
                .map(|(r, group)| ln_label_probability(group, column.concentration(r)))
                .sum()
        };
        let mut ln_split = ln_labels(&split) - ln_labels(&merged);
        let mut stats = sides.urn.into_stats().next().unwrap_or(law.pool());
        ln_split += law.urn_ln_evidence(cells, &stats, 0) + law.urn_ln_evidence(cells, &stats, 1);
        law.urn_merge(cells, &mut stats, 0, 1, 2);
        ln_split -= law.urn_ln_evidence(cells, &stats, 2);
        let sign = if plan.split { 1.0 } else { -1.0 };
        let ln_ratio = sign * (ln_split - ln_q + ln_anchors) + ln_choice;
        if rng.random::<f64>().ln() >= ln_ratio {
            return;
        }
        let column = &mut self.state.columns[j];
        let labels = relabelled(plan, &members, &choice);
        labels
            .into_iter()
            .for_each(|(row, label)| column.labels[row as usize] = label);
        column.law.grow(plan.keep.max(plan.other) + 1, rng);
        let places = if plan.split { [0, 1] } else { [2, 3] };
        column
            .law
            .urn_draw(cells, &stats, places[0], plan.keep, rng);
        column
            .law
            .urn_draw(cells, &stats, places[1], plan.other, rng);
    }

    fn draw_parameters(&mut self, position: u64) {
        let keys: Vec<_> = (0..self.state.columns.len())
            .map(|j| self.stream(position, j as u64))
            .collect();
        let blocks = &self.state.blocks;
        (self.state.columns.par_iter_mut())
            .zip(&mut self.pools)
            .zip(self.data.cells())
            .zip(keys)
            .for_each(|(((column, pool), cells), mut rng)| {
                let labels = if column.labels.is_empty() {
                    &blocks[column.block].labels
                } else {
                    &column.labels
                };
                let n = urn::n_labels(labels);
                column.law.truncate(n);
                column.law.grow(n, &mut rng);
                column.law.update(cells, labels, pool, &mut rng);
            });
    }
}

/// Whether a state fits data and configuration.
pub(crate) fn check_state(
    data: &ItfData,
    config: &ItfConfig,
    state: &ItfState,
) -> Result<(), String> {
    let (two_levels, per_top) = (config.structure.has_lower(), config.per_top_cluster());
    state.check(data.n_rows(), two_levels, per_top)?;
    if state.columns.len() != data.n_columns() {
        return Err("number of columns".to_owned());
    }
    if !config.structure.has_blocks() && state.blocks.len() != 1 {
        return Err("several blocks".to_owned());
    }
    let mut pairs = state.columns.iter().zip(data.cells());
    match pairs.position(|(column, cells)| !column.law.fits(cells)) {
        Some(j) => Err(format!("column {j}: another kernel")),
        None => Ok(()),
    }
}

/// Starting values: concentrations at their prior means, a cluster for every level of a category, other clusters of cells allocated row
/// by row where parameters can be integrated out.
fn start(data: &ItfData, config: &ItfConfig, chain: u64) -> ItfState {
    let n_rows = data.n_rows();
    let mean = |prior: GammaPrior| prior.shape / prior.rate;
    let alpha = mean(config.top_concentration);
    let beta = mean(config.lower_concentration);
    let keyed = |item: u64| stream(config.seed, [chain, 0, START, item]);
    let mut order: Vec<u32> = (0..n_rows as u32).collect();
    shuffle(&mut order, &mut keyed(0));
    let column = |(j, (law, cells)): (usize, (&Column, &Cells))| {
        let rng = &mut keyed(1 + j as u64);
        let mut law = law.fresh(rng);
        let labels = if !config.structure.has_lower() {
            if law.is_collapsed(cells) {
                adapt(&mut law, cells, &vec![0; n_rows], rng);
            }
            Vec::new()
        } else if let Some(labels) = levels_as_clusters(&law, cells, rng) {
            labels
        } else if law.is_collapsed(cells) {
            allocate_cells(&mut law, cells, beta, &order, rng)
        } else {
            vec![0; n_rows]
        };
        let mut column = ColumnState {
            block: 0,
            concentrations: if config.structure.has_lower() {
                vec![beta]
            } else {
                Vec::new()
            },
            labels,
            law,
        };
        if config.structure.has_lower() {
            grow_concentrations(config, &mut column, 1, rng);
        }
        column
    };
    let pairs = data.laws().iter().zip(data.cells());
    let mut columns: Vec<ColumnState> = pairs
        .collect::<Vec<_>>()
        .into_par_iter()
        .enumerate()
        .map(column)
        .collect();
    let rng = &mut keyed(u64::MAX);
    let all_collapsed = columns
        .iter()
        .zip(data.cells())
        .all(|(c, cells)| c.law.is_collapsed(cells));
    let labels = if config.structure == Structure::TensorBlocks {
        group_columns(data, &mut columns, beta, |item| keyed((2 << 32) + item))
    } else if !config.structure.has_lower() && all_collapsed {
        let pairs = columns
            .iter()
            .zip(data.cells())
            .map(|(c, cells)| (&c.law, cells));
        let mut urn = CellUrn::new(pairs);
        vec![urn::sequential(&mut urn, alpha, &order, None, rng).0]
    } else {
        vec![vec![0; n_rows]]
    };
    for (j, column) in columns.iter_mut().enumerate() {
        let labels = if column.labels.is_empty() {
            &labels[column.block]
        } else {
            &column.labels
        };
        let rng = &mut keyed((1 << 60) + j as u64);
        column.law.grow(urn::n_labels(labels), rng);
        let mut pool = column.law.pool();
        column.law.update(&data.cells()[j], labels, &mut pool, rng);
    }
    let block = |labels| Block {
        concentration: alpha,
        labels,
    };
    ItfState {
        blocks: labels.into_iter().map(block).collect(),
        columns,
        column_concentration: mean(config.column_concentration),
    }
}

/// The levels of a category as its clusters; a missing cell gets the level of another row. `None` for other columns, and for more than
/// [`MAX_START_LEVELS`] levels.
///
/// The cells of a category alone cannot tell its clusterings apart, so that one allocated row by row means nothing, and says
/// nothing about other columns. In its levels is all that other columns may depend on, and moves of top-level labels and of
/// columns, which see lower labels alone, find it.
fn levels_as_clusters(
    law: &Column,
    cells: &Cells,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<Vec<u32>> {
    law.n_levels(0).filter(|&n| n <= MAX_START_LEVELS)?;
    let n_rows = law.n_rows(cells);
    let observed: Vec<u32> = (0..n_rows).filter_map(|row| cells.level(row)).collect();
    let any = |rng: &mut Xoshiro256PlusPlus| observed[rng.random_range(0..observed.len())];
    let label = |row| cells.level(row).unwrap_or_else(|| any(rng));
    (!observed.is_empty()).then(|| (0..n_rows).map(label).collect())
}

/// Draws the hyperparameters of a column without clusters given labels.
fn adapt(law: &mut Column, cells: &Cells, labels: &[u32], rng: &mut Xoshiro256PlusPlus) {
    let mut pool = law.pool();
    law.grow(urn::n_labels(labels), rng);
    (0..ADAPTATIONS).for_each(|_| law.update(cells, labels, &mut pool, rng));
    law.truncate(0);
}

/// Clusters of cells, allocated row by row: first with hyperparameters that one cluster of all rows suggests (a prior draw of them can leave
/// dozens of clusters), then with those that the clusters found suggest.
fn allocate_cells(
    law: &mut Column,
    cells: &Cells,
    beta: f64,
    order: &[u32],
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<u32> {
    let mut labels = vec![0; order.len()];
    for _ in 0..START_ROUNDS {
        adapt(law, cells, &labels, rng);
        let mut urn = CellUrn::new([(&*law, cells)]);
        labels = urn::sequential(&mut urn, beta, order, None, rng).0;
    }
    labels
}

/// Puts columns into blocks to start from, and returns the blocks' top-level labels.
///
/// Columns come in order of how much more probable their cells and clusters are than without clusters. (None need be: clusters that show in
/// one column hardly at all may be plain in all that share them.) Each joins the block whose founder's clustering explains its cells
/// best, if that is better than none, and takes over that clustering if this makes cells and lower labels more probable; otherwise it
/// founds a block. Blocks of one column start with one top-level cluster.
fn group_columns(
    data: &ItfData,
    columns: &mut [ColumnState],
    beta: f64,
    keyed: impl Fn(u64) -> Xoshiro256PlusPlus + Sync,
) -> Vec<Vec<u32>> {
    let n_rows = data.n_rows();
    let none = vec![0; n_rows];
    // ln p(cells | labels), with hyperparameters that suit these labels: the best of some draws, for one alone is off by several nats, and
    // a column in the wrong block stays there for long.
    let explained = |column: &ColumnState, j: usize, labels: &[u32], rng: &mut _| {
        let cells = &data.cells()[j];
        if !column.law.is_collapsed(cells) {
            return 0.0;
        }
        let mut law = column.law.clone();
        let draws = (0..START_DRAWS).map(|_| {
            adapt(&mut law, cells, labels, rng);
            CellUrn::new([(&law, cells)]).ln_given(labels)
        });
        draws.fold(f64::NEG_INFINITY, f64::max)
    };
    // ln p(lower labels | top-level labels).
    let ln_labels = |labels: &[u32], top: &[u32]| {
        let n_labels = urn::n_labels(labels).max(1);
        let counts = cross_counts(top, labels, urn::n_labels(top), n_labels);
        let of_cluster = |counts: &[usize]| ln_label_probability(counts, beta);
        counts.chunks_exact(n_labels).map(of_cluster).sum::<f64>()
    };
    let alone: Vec<[f64; 2]> = (columns.par_iter().enumerate())
        .map(|(j, column)| {
            let rng = &mut keyed(j as u64);
            [&none, &column.labels].map(|labels| explained(column, j, labels, rng))
        })
        .collect();
    // Labels of missing cells say nothing.
    let gain = |(j, (column, [by_none, by_itself])): (usize, (&ColumnState, &[f64; 2]))| {
        let shown = (0..n_rows).filter(|&i| column.law.is_observed(&data.cells()[j], i));
        let labels: Vec<u32> = shown.map(|i| column.labels[i]).collect();
        by_itself + ln_labels(&labels, &none[..labels.len()]) - by_none
    };
    let gains = columns.iter().zip(&alone).enumerate().map(gain);
    let gains: Vec<f64> = gains.collect();
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by(|&a, &b| gains[b].total_cmp(&gains[a]));

    let mut founders: Vec<Vec<u32>> = Vec::new();
    for j in order {
        let [by_none, by_itself] = alone[j];
        let by_founder: Vec<f64> = (founders.par_iter().enumerate())
            .map(|(b, labels)| {
                let rng = &mut keyed(((1 + b as u64) << 32) + j as u64);
                match labels == &none {
                    true => f64::NEG_INFINITY,
                    false => explained(&columns[j], j, labels, rng),
                }
            })
            .collect();
        let best = (0..founders.len()).max_by(|&a, &b| by_founder[a].total_cmp(&by_founder[b]));
        match best.filter(|&b| by_founder[b] > by_none + START_MARGIN) {
            Some(b) => {
                columns[j].block = b;
                let founder = &founders[b];
                let own = by_itself + ln_labels(&columns[j].labels, founder);
                if by_founder[b] + ln_labels(founder, founder) > own {
                    columns[j].labels.clone_from(founder);
                }
            }
            None => {
                columns[j].block = founders.len();
                founders.push(columns[j].labels.clone());
            }
        }
    }
    let mut sizes = vec![0; founders.len()];
    columns.iter().for_each(|column| sizes[column.block] += 1);
    let top = |(size, labels): (usize, Vec<u32>)| if size == 1 { none.clone() } else { labels };
    sizes.into_iter().zip(founders).map(top).collect()
}

/// `counts[r * n_labels + k]`: rows with top label r and lower label k.
pub(crate) fn cross_counts(
    top: &[u32],
    labels: &[u32],
    n_top: usize,
    n_labels: usize,
) -> Vec<usize> {
    let mut counts = vec![0; n_top * n_labels];
    for (&r, &k) in top.iter().zip(labels) {
        counts[r as usize * n_labels + k as usize] += 1;
    }
    counts
}

/// Renames labels by swaps made one after the other.
fn rename(labels: &mut [u32], n: usize, swaps: &[(usize, usize)]) {
    if swaps.is_empty() {
        return;
    }
    // `at[k]`: what is now called k was called at[k].
    let mut at: Vec<u32> = (0..n as u32).collect();
    swaps.iter().for_each(|&(a, b)| at.swap(a, b));
    let mut new = vec![0; n];
    at.iter()
        .enumerate()
        .for_each(|(now, &was)| new[was as usize] = now as u32);
    labels.iter_mut().for_each(|k| *k = new[*k as usize]);
}

fn swap_parameters(law: &mut Column, swaps: &[(usize, usize)], rng: &mut Xoshiro256PlusPlus) {
    let highest = swaps.iter().map(|&(a, b)| a.max(b)).max();
    law.grow(highest.map_or(0, |h| h + 1), rng);
    swaps.iter().for_each(|&(a, b)| law.swap(a, b));
}

/// The rows of both clusters of a plan but the two that were chosen, in order.
fn members_of(plan: Plan, labels: &[u32]) -> Vec<u32> {
    let inside = |&row: &u32| {
        let (row, label) = (row as usize, labels[row as usize] as usize);
        (label == plan.keep || label == plan.other) && row != plan.first && row != plan.second
    };
    (0..labels.len() as u32).filter(inside).collect()
}

/// Labels after an accepted move of all rows concerned.
fn relabelled(plan: Plan, members: &[u32], choice: &[bool]) -> Vec<(u32, u32)> {
    let label = |other: bool| if other && plan.split { plan.other } else { plan.keep } as u32;
    let chosen = members
        .iter()
        .zip(choice)
        .map(|(&row, &other)| (row, label(other)));
    chosen
        .chain([
            (plan.first as u32, label(false)),
            (plan.second as u32, label(true)),
        ])
        .collect()
}

/// Two top-level clusters in places 0 and 1 of an urn.
struct UrnSides<'a, U> {
    urn: &'a mut U,
    sizes: [f64; 2],
}

impl<U: Urn> Sides for UrnSides<'_, U> {
    fn weights(&mut self, row: usize, rng: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        let mut weights = [0.0; 2];
        self.urn.weights(row, rng, &mut weights);
        [0, 1].map(|side| self.sizes[side] * weights[side])
    }

    fn place(&mut self, other: bool, row: usize, rng: &mut Xoshiro256PlusPlus) {
        self.sizes[usize::from(other)] += 1.0;
        self.urn.add(usize::from(other), row, rng);
    }
}

/// Two clusters of a column in places 0 and 1 of an urn.
struct LowerSides<'a> {
    urn: CellUrn<'a>,
    top: &'a [u32],
    /// Rows of each side by top-level cluster.
    counts: Vec<[usize; 2]>,
}

impl Sides for LowerSides<'_> {
    fn weights(&mut self, row: usize, rng: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        let mut weights = [0.0; 2];
        self.urn.weights(row, rng, &mut weights);
        let sizes = self.counts[self.top[row] as usize].map(|m| m as f64 + 0.5);
        [0, 1].map(|side| sizes[side] * weights[side])
    }

    fn place(&mut self, other: bool, row: usize, rng: &mut Xoshiro256PlusPlus) {
        self.counts[self.top[row] as usize][usize::from(other)] += 1;
        self.urn.add(usize::from(other), row, rng);
    }
}

/// Tries a split or merge of top-level clusters; returns the new labels if it is accepted. The urn then holds the clusters of the new state
/// in places 0 (kept) and 1 (the other, empty after a merge).
fn try_split_merge(
    urn: &mut impl Urn,
    plan: Plan,
    ln_choice: f64,
    block: &Block,
    counts: &[usize],
    rng: &mut Xoshiro256PlusPlus,
) -> Option<Vec<(u32, u32)>> {
    let mut members = members_of(plan, &block.labels);
    shuffle(&mut members, rng);
    urn.reset(2);
    let mut sides = UrnSides {
        urn,
        sizes: [0.0; 2],
    };
    let (choice, ln_q) = allocate(plan, &members, &block.labels, &mut sides, rng);
    let sizes = sides.sizes;
    let mut ln_split = urn.ln_total(0) + urn.ln_total(1);
    let mut split = counts.to_vec();
    split.resize(counts.len().max(plan.other + 1), 0);
    split[plan.keep] = sizes[0] as usize;
    split[plan.other] = sizes[1] as usize;
    let mut merged = split.clone();
    merged[plan.keep] += merged[plan.other];
    merged[plan.other] = 0;
    let alpha = block.concentration;
    ln_split += ln_label_probability(&split, alpha) - ln_label_probability(&merged, alpha);

    // All in place 0: the merged cluster.
    urn.reset(2);
    let two = [plan.first as u32, plan.second as u32];
    members
        .iter()
        .chain(&two)
        .for_each(|&row| urn.count(0, row as usize));
    ln_split -= urn.ln_total(0);
    let sign = if plan.split { 1.0 } else { -1.0 };
    let ln_anchors = ln_anchors(sizes[0] as usize, sizes[1] as usize, block.labels.len());
    let ln_ratio = sign * (ln_split - ln_q + ln_anchors) + ln_choice;
    if rng.random::<f64>().ln() >= ln_ratio {
        return None;
    }
    let new = relabelled(plan, &members, &choice);
    if plan.split {
        urn.reset(2);
        for &(row, label) in &new {
            urn.count(usize::from(label as usize == plan.other), row as usize);
        }
    }
    Some(new)
}
