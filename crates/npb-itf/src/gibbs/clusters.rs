//! Splits and merges of the clusters of rows at both levels (`docs/itf.md#split-and-merge`).

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::ln_label_probability;
use rand::RngExt;

use super::sampler::{COLUMN_SHARE, ItfSampler};
use super::split_merge::{Plan, Sides, allocate, ln_anchors, plan, proposed};
use crate::collapsed::{self, CellClusters, CollapsedClusters, LabelClusters, cross_counts};
use crate::kernels::{Cells, Column};
use crate::prior::grow_concentrations;
use crate::state::{Block, ColumnState};

impl ItfSampler<'_> {
    /// Tries a split or merge in a block drawn at random: one in fifty is accepted.
    pub(super) fn split_merge_top(&mut self, position: u64) {
        let rng = &mut self.stream(position, 0);
        let b = rng.random_range(0..self.state.blocks.len());
        self.split_merge_block(b, rng);
    }

    pub(super) fn split_merge_block(&mut self, b: usize, rng: &mut Xoshiro256PlusPlus) {
        let two_levels = self.config.structure.has_lower();
        let columns = self.state.columns_of(b);
        if !two_levels && !columns.iter().all(|&j| self.is_collapsed(j)) {
            return;
        }
        let all_rows: Vec<u32> = (0..self.data.n_rows() as u32).collect();
        let block = &self.state.blocks[b];
        let counts = collapsed::counts(&block.labels);
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
            let mut clusters = LabelClusters::new(pairs);
            let block = &self.state.blocks[b];
            try_split_merge(&mut clusters, plan, ln_choice, block, &counts, rng).map(|m| (m, None))
        } else {
            let pairs = columns.iter().map(|&j| self.law_and_cells(j));
            let mut clusters = CellClusters::new(pairs);
            let block = &self.state.blocks[b];
            let members = try_split_merge(&mut clusters, plan, ln_choice, block, &counts, rng);
            members.map(|m| (m, Some(clusters.into_stats().collect::<Vec<_>>())))
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
            law.collapsed_draw(cells, stats, 0, plan.keep, rng);
            law.collapsed_draw(cells, stats, 1, plan.other, rng);
        }
    }

    pub(super) fn law_and_cells(&self, j: usize) -> (&Column, &Cells) {
        (&self.state.columns[j].law, &self.data.cells()[j])
    }

    pub(super) fn is_collapsed(&self, j: usize) -> bool {
        let (law, cells) = self.law_and_cells(j);
        law.is_collapsed(cells)
    }

    pub(super) fn split_merge_lower(&mut self, position: u64) {
        let n_columns = self.state.columns.len();
        // Of few columns one: one in two hundred is accepted.
        for attempt in 0..n_columns.div_ceil(COLUMN_SHARE) {
            let rng = &mut self.stream(position, attempt as u64);
            let j = rng.random_range(0..n_columns);
            self.split_merge_column(j, rng);
        }
    }

    pub(super) fn split_merge_column(&mut self, j: usize, rng: &mut Xoshiro256PlusPlus) {
        let column = &self.state.columns[j];
        let (law, cells) = (&column.law, &self.data.cells()[j]);
        let rows: Vec<u32> = (0..self.data.n_rows() as u32)
            .filter(|&row| law.is_observed(cells, row as usize))
            .collect();
        let counts = collapsed::counts(&column.labels);
        let Some((plan, ln_choice)) = plan(&rows, &column.labels, &counts, rng) else {
            return;
        };
        let both = [plan.keep, plan.other];
        let completed = match law.is_collapsed(cells) {
            true => None,
            false => match law.completed(cells, &column.labels, &both, rng) {
                Some(completed) => Some(completed),
                None => return,
            },
        };
        let cells = completed.as_ref().unwrap_or(cells);
        let (members, labels) = (&mut members_of(plan, &column.labels), &column.labels);
        let top = &self.state.blocks[column.block].labels;
        let mut sides = LowerSides::new((law, cells), top);
        let (choice, ln_q) = proposed(plan, members, labels, &mut sides, rng);
        let observed = |side: bool| {
            let placed = (members.iter().zip(&choice)).filter(|&(_, &other)| other == side);
            let observed = placed.filter(|&(&row, _)| law.is_observed(cells, row as usize));
            1 + observed.count()
        };
        let ln_anchors = ln_anchors(observed(false), observed(true), rows.len());
        let mut ln_split = sides.ln_labels(plan, column, counts.len());
        let mut stats = sides.clusters.into_stats().next().unwrap_or(law.pool());
        ln_split += law.collapsed_ln_evidence(cells, &stats, 0)
            + law.collapsed_ln_evidence(cells, &stats, 1);
        law.collapsed_merge(cells, &mut stats, 0, 1, 2);
        ln_split -= law.collapsed_ln_evidence(cells, &stats, 2);
        let sign = if plan.split { 1.0 } else { -1.0 };
        let ln_ratio = sign * (ln_split - ln_q + ln_anchors) + ln_choice;
        let ln_u = rng.random::<f64>().ln();
        if ln_u >= ln_ratio {
            return;
        }
        if !plan.split {
            // The probability of the way back makes it smaller still.
            let mut sides = LowerSides::new((law, cells), top);
            let ln_least = ln_u - ln_ratio;
            if allocate(plan, members, labels, ln_least, &mut sides, rng).is_none() {
                return;
            }
        }
        let column = &mut self.state.columns[j];
        for (row, label) in relabelled(plan, members, &choice) {
            column.labels[row as usize] = label;
        }
        column.law.grow(plan.keep.max(plan.other) + 1, rng);
        let places = if plan.split { [0, 1] } else { [2, 3] };
        for (place, cluster) in places.into_iter().zip(both) {
            (column.law).collapsed_draw(cells, &stats, place, cluster, rng);
        }
    }
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

/// Two top-level clusters in places 0 and 1.
struct TopSides<'a, U> {
    clusters: &'a mut U,
    sizes: [f64; 2],
}

impl<'a, U: CollapsedClusters> TopSides<'a, U> {
    fn new(clusters: &'a mut U) -> Self {
        clusters.reset(2);
        Self {
            clusters,
            sizes: [0.0; 2],
        }
    }
}

impl<U: CollapsedClusters> Sides for TopSides<'_, U> {
    fn weights(&mut self, row: usize, rng: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        let mut weights = [0.0; 2];
        self.clusters.weights(row, rng, &mut weights);
        [0, 1].map(|side| self.sizes[side] * weights[side])
    }

    fn place(&mut self, other: bool, row: usize, rng: &mut Xoshiro256PlusPlus) {
        self.sizes[usize::from(other)] += 1.0;
        self.clusters.add(usize::from(other), row, rng);
    }

    fn count(&mut self, other: bool, row: usize) {
        self.sizes[usize::from(other)] += 1.0;
        self.clusters.count(usize::from(other), row);
    }
}

/// Two clusters of a column in places 0 and 1.
struct LowerSides<'a> {
    clusters: CellClusters<'a>,
    top: &'a [u32],
    /// Rows of each side by top-level cluster.
    counts: Vec<[usize; 2]>,
}

impl<'a> LowerSides<'a> {
    fn new(column: (&'a Column, &'a Cells), top: &'a [u32]) -> Self {
        let mut clusters = CellClusters::new([column]);
        clusters.reset(2);
        Self {
            clusters,
            top,
            counts: vec![[0; 2]; collapsed::n_labels(top)],
        }
    }

    /// ln P(labels when the clusters are two) / P(labels when they are one), of a column whose labels were below `n`.
    fn ln_labels(&self, plan: Plan, column: &ColumnState, n: usize) -> f64 {
        let n = n.max(plan.other + 1);
        let mut split = cross_counts(self.top, &column.labels, self.counts.len(), n);
        let mut merged = split.clone();
        for (r, [kept, other]) in self.counts.iter().enumerate() {
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
        ln_labels(&split) - ln_labels(&merged)
    }
}

impl Sides for LowerSides<'_> {
    fn weights(&mut self, row: usize, rng: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        let mut weights = [0.0; 2];
        self.clusters.weights(row, rng, &mut weights);
        let sizes = self.counts[self.top[row] as usize].map(|m| m as f64 + 0.5);
        [0, 1].map(|side| sizes[side] * weights[side])
    }

    fn place(&mut self, other: bool, row: usize, rng: &mut Xoshiro256PlusPlus) {
        self.counts[self.top[row] as usize][usize::from(other)] += 1;
        self.clusters.add(usize::from(other), row, rng);
    }

    fn count(&mut self, other: bool, row: usize) {
        self.counts[self.top[row] as usize][usize::from(other)] += 1;
        self.clusters.count(usize::from(other), row);
    }
}

/// Tries a split or merge of top-level clusters; returns the new labels if it is accepted. The clusters then hold the clusters of the new state
/// in places 0 (kept) and 1 (the other, empty after a merge).
fn try_split_merge(
    clusters: &mut impl CollapsedClusters,
    plan: Plan,
    ln_choice: f64,
    block: &Block,
    counts: &[usize],
    rng: &mut Xoshiro256PlusPlus,
) -> Option<Vec<(u32, u32)>> {
    let (members, labels) = (&mut members_of(plan, &block.labels), &block.labels);
    // All in place 0: the merged cluster.
    clusters.reset(2);
    let two = [plan.first as u32, plan.second as u32];
    let both = members.iter().chain(&two);
    both.for_each(|&row| clusters.count(0, row as usize));
    let ln_merged = clusters.ln_total(0);

    let mut sides = TopSides::new(clusters);
    let (choice, ln_q) = proposed(plan, members, labels, &mut sides, rng);
    let sizes = sides.sizes;
    let mut ln_split = clusters.ln_total(0) + clusters.ln_total(1) - ln_merged;
    let mut split = counts.to_vec();
    split.resize(counts.len().max(plan.other + 1), 0);
    split[plan.keep] = sizes[0] as usize;
    split[plan.other] = sizes[1] as usize;
    let mut merged = split.clone();
    merged[plan.keep] += merged[plan.other];
    merged[plan.other] = 0;
    let alpha = block.concentration;
    ln_split += ln_label_probability(&split, alpha) - ln_label_probability(&merged, alpha);
    let sign = if plan.split { 1.0 } else { -1.0 };
    let ln_anchors = ln_anchors(sizes[0] as usize, sizes[1] as usize, block.labels.len());
    let ln_ratio = sign * (ln_split - ln_q + ln_anchors) + ln_choice;
    let ln_u = rng.random::<f64>().ln();
    if ln_u >= ln_ratio {
        return None;
    }
    if !plan.split {
        // The probability of the way back makes it smaller still.
        let sides = &mut TopSides::new(clusters);
        allocate(plan, members, labels, ln_u - ln_ratio, sides, rng)?;
    }
    let new = relabelled(plan, members, &choice);
    clusters.reset(2);
    for &(row, label) in &new {
        clusters.count(usize::from(label as usize == plan.other), row as usize);
    }
    Some(new)
}
