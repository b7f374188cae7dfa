//! Starting values (`docs/itf.md#start`).

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::GammaPrior;
use rand::RngExt;

use super::split_merge::shuffle;
use crate::collapsed::{self, CellClusters, CollapsedClusters, ln_labels_given};
use crate::kernels::{Cells, Column};
use crate::prior::grow_concentrations;
use crate::state::{Block, ColumnState, ItfState};
use crate::{ItfConfig, ItfData, Structure};

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
/// Rows of a block of columns that several clusterings explain start in so many top-level clusters at most, ...
const MAX_START_TOPS: usize = 20;
/// ... of so many rows each.
const ROWS_OF_A_TOP: usize = 50;
/// Key of the stream of starting values.
const START: u64 = u64::MAX;

/// Starting values: concentrations at their prior means, a cluster for every level of a category, other clusters of cells allocated row
/// by row where parameters can be integrated out.
pub(super) fn start(data: &ItfData, config: &ItfConfig, chain: u64) -> ItfState {
    let n_rows = data.n_rows();
    let alpha = mean(config.top_concentration);
    let beta = mean(config.lower_concentration);
    let keyed = |item: u64| stream(config.seed, [chain, 0, START, item]);
    let mut order: Vec<u32> = (0..n_rows as u32).collect();
    shuffle(&mut order, &mut keyed(0));
    let pairs = data.laws().iter().zip(data.cells());
    let mut columns: Vec<ColumnState> = parallel::map(
        pairs.enumerate(),
        |(j, (law, cells)): (usize, (&Column, &Cells))| {
            start_column(config, law, cells, &order, &mut keyed(1 + j as u64))
        },
    );
    let of_all = || columns.iter().zip(data.cells());
    let labels = if config.structure == Structure::TensorBlocks {
        put_together(data, &mut columns, beta, |item| keyed((2 << 32) + item))
    } else if !config.structure.has_lower() && of_all().all(|(c, cells)| c.law.is_collapsed(cells))
    {
        let mut clusters = CellClusters::new(of_all().map(|(c, cells)| (&c.law, cells)));
        let rng = &mut keyed(u64::MAX);
        vec![collapsed::sequential(&mut clusters, alpha, &order, None, rng).0]
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
        column.law.grow(collapsed::n_labels(labels), rng);
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

fn mean(prior: GammaPrior) -> f64 {
    prior.shape / prior.rate
}

/// A column in the first block.
fn start_column(
    config: &ItfConfig,
    law: &Column,
    cells: &Cells,
    order: &[u32],
    rng: &mut Xoshiro256PlusPlus,
) -> ColumnState {
    let mut law = law.fresh(rng);
    let beta = mean(config.lower_concentration);
    let (mut concentrations, mut labels) = (Vec::new(), Vec::new());
    if config.structure.has_lower() {
        concentrations.push(beta);
        labels = levels_as_clusters(&law, cells, rng)
            .unwrap_or_else(|| allocate_cells(&mut law, cells, beta, order, rng));
    } else if law.is_collapsed(cells) {
        adapt(&mut law, cells, &vec![0; order.len()], rng);
        law.truncate(0);
    }
    let mut column = ColumnState {
        block: 0,
        concentrations,
        labels,
        law,
    };
    if config.structure.has_lower() {
        grow_concentrations(config, &mut column, 1, rng);
    }
    column
}

/// The levels of a category as its clusters, or of a number and a category that share a law; a missing cell gets the level of another row. `None` for other
/// columns, and for more than [`MAX_START_LEVELS`] levels.
///
/// The cells of a category alone cannot tell its clusterings apart, so that one allocated row by row means nothing, and says
/// nothing about other columns. In its levels is all that other columns may depend on, and moves of top-level labels and of
/// columns, which see lower labels alone, find it.
fn levels_as_clusters(
    law: &Column,
    cells: &Cells,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<Vec<u32>> {
    let n_rows = law.n_rows(cells);
    let n_parts = (n_rows > 0).then(|| law.n_parts(cells, 0))?;
    let part = (0..n_parts.min(2)).find(|&part| law.n_levels(part).is_some())?;
    law.n_levels(part).filter(|&n| n <= MAX_START_LEVELS)?;
    let level = |row| law.part(cells, row, part).value().map(|level| level as u32);
    let observed: Vec<u32> = (0..n_rows).filter_map(level).collect();
    let any = |rng: &mut Xoshiro256PlusPlus| observed[rng.random_range(0..observed.len())];
    let label = |row| level(row).unwrap_or_else(|| any(rng));
    (!observed.is_empty()).then(|| (0..n_rows).map(label).collect())
}

/// Draws hyperparameters and clusters of a column given labels.
fn adapt(law: &mut Column, cells: &Cells, labels: &[u32], rng: &mut Xoshiro256PlusPlus) {
    let mut pool = law.pool();
    law.truncate(0);
    law.grow(collapsed::n_labels(labels), rng);
    (0..ADAPTATIONS).for_each(|_| law.update(cells, labels, &mut pool, rng));
}

/// Clusters of cells, allocated row by row: first with hyperparameters that one cluster of all rows suggests (a prior draw of them can leave
/// dozens of clusters), then with those that the clusters found suggest. What is missing of incomplete cells is drawn before; a kernel whose
/// parameters cannot be integrated out then, either, starts with one cluster.
fn allocate_cells(
    law: &mut Column,
    cells: &Cells,
    beta: f64,
    order: &[u32],
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<u32> {
    let mut labels = vec![0; order.len()];
    let is_collapsed = law.is_collapsed(cells);
    if !is_collapsed && law.completed(cells, &labels, &[], rng).is_none() {
        return labels;
    }
    for round in 0..START_ROUNDS {
        adapt(law, cells, &labels, rng);
        if round == 0 {
            law.loosen();
        }
        let clusters: Vec<usize> = (0..collapsed::n_labels(&labels)).collect();
        let completed = match is_collapsed {
            true => None,
            false => law.completed(cells, &labels, &clusters, rng),
        };
        law.truncate(0);
        let mut clusters = CellClusters::new([(&*law, completed.as_ref().unwrap_or(cells))]);
        labels = collapsed::sequential(&mut clusters, beta, order, None, rng).0;
    }
    labels
}

/// Puts columns into blocks to start from, and returns the blocks' top-level labels.
///
/// Columns come in order of how much more probable their cells and clusters are than without clusters. (None need be: clusters that show in
/// one column hardly at all may be plain in all that share them.) Each joins all blocks of which a founder's clustering explains its cells
/// better than none does, or whose clusters its own make more probable, which are one from then on: columns of independent blocks find together seldom, and those of one block that have nothing to do with
/// each other leave it easily. It takes over the clustering that explains it best if this makes cells and lower labels more probable. A column that none
/// explains founds a block. Blocks of one column start with one top-level cluster, those of one founder with its clusters, those of several with
/// clusters drawn evenly: what is not needed is soon left, and new clusters are found slowly.
fn put_together(
    data: &ItfData,
    columns: &mut [ColumnState],
    beta: f64,
    keyed: impl Fn(u64) -> Xoshiro256PlusPlus + Sync,
) -> Vec<Vec<u32>> {
    let n_rows = data.n_rows();
    let none = vec![0; n_rows];
    let explained = |column: &ColumnState, j: usize, labels: &[u32], rng: &mut _| {
        ln_explained(&column.law, &data.cells()[j], labels, rng)
    };
    let ln_labels = |labels: &[u32], top: &[u32]| ln_labels_given(labels, top, |_| beta);
    let alone: Vec<[f64; 2]> = parallel::map(columns.iter().enumerate(), |(j, column)| {
        let rng = &mut keyed(j as u64);
        [&none, &column.labels].map(|labels| explained(column, j, labels, rng))
    });
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

    let mut founders = Founders::default();
    for j in order {
        let [by_none, by_itself] = alone[j];
        let of_founders = founders.labels.iter().enumerate();
        // How much more probable a founder's clusters make the cells of the column, and its clusters those of the founder.
        let gained: Vec<[f64; 2]> = parallel::map(of_founders, |(f, founder)| {
            let rng = &mut keyed(((1 + f as u64) << 32) + j as u64);
            let by_founder = match founder == &none {
                true => f64::NEG_INFINITY,
                false => explained(&columns[j], j, founder, rng) - by_none,
            };
            let of_founder = ln_labels(founder, &columns[j].labels) - ln_labels(founder, &none);
            [by_founder, of_founder]
        });
        let depend = |&f: &usize| gained[f].iter().any(|&gain| gain > START_MARGIN);
        let all: Vec<usize> = (0..gained.len()).filter(depend).collect();
        let best = (all.iter()).max_by(|&&a, &&b| gained[a][0].total_cmp(&gained[b][0]));
        match best {
            Some(&best) => {
                let founder = &founders.labels[best];
                let own = by_itself - by_none + ln_labels(&columns[j].labels, founder);
                if gained[best][0] + ln_labels(founder, founder) > own {
                    columns[j].labels.clone_from(founder);
                }
                columns[j].block = best;
                all.iter().for_each(|&f| founders.join(f, best));
            }
            None => columns[j].block = founders.push(columns[j].labels.clone()),
        }
    }
    founders.blocks(columns, |n_rows| {
        let n = (n_rows / ROWS_OF_A_TOP).clamp(1, MAX_START_TOPS) as u32;
        let rng = &mut keyed(u64::MAX >> 32);
        (0..n_rows).map(|_| rng.random_range(0..n)).collect()
    })
}

/// Columns that no clustering of others explains, and which of them are in one block.
#[derive(Default)]
struct Founders {
    /// Their clusterings.
    labels: Vec<Vec<u32>>,
    /// Their blocks, each called by one of its founders.
    blocks: Vec<usize>,
}

impl Founders {
    fn push(&mut self, labels: Vec<u32>) -> usize {
        self.labels.push(labels);
        self.blocks.push(self.blocks.len());
        self.blocks.len() - 1
    }

    /// Makes the blocks of two founders one.
    fn join(&mut self, a: usize, b: usize) {
        let [a, b] = [self.blocks[a], self.blocks[b]];
        let of_a = self.blocks.iter_mut().filter(|block| **block == a);
        of_a.for_each(|block| *block = b);
    }

    /// Gives the columns, which hold the numbers of founders, their blocks and returns the top-level labels of these.
    fn blocks(
        self,
        columns: &mut [ColumnState],
        even: impl Fn(usize) -> Vec<u32>,
    ) -> Vec<Vec<u32>> {
        let mut names = self.blocks.clone();
        names.sort_unstable();
        names.dedup();
        for column in columns.iter_mut() {
            let block = names.binary_search(&self.blocks[column.block]);
            column.block = block.expect("a block of a founder");
        }
        let labels = names.iter().enumerate().map(|(b, name)| {
            let mut inside = (self.labels.iter().zip(&self.blocks)).filter(|(_, of)| *of == name);
            let founder = inside.next().map_or(&[][..], |(labels, _)| labels);
            if columns.iter().filter(|column| column.block == b).count() == 1 {
                return vec![0; founder.len()];
            }
            match inside.next() {
                Some(_) => even(founder.len()),
                None => founder.to_vec(),
            }
        });
        labels.collect()
    }
}

/// ln p(cells | labels), with hyperparameters that suit these labels: the best of some draws, for one alone is off by several nats, and a column in the
/// wrong block stays there for long.
fn ln_explained(law: &Column, cells: &Cells, labels: &[u32], rng: &mut Xoshiro256PlusPlus) -> f64 {
    if !law.is_collapsed(cells) {
        return 0.0;
    }
    let mut law = law.clone();
    let draws = (0..START_DRAWS).map(|_| {
        adapt(&mut law, cells, labels, rng);
        law.truncate(0);
        CellClusters::new([(&law, cells)]).ln_given(labels)
    });
    draws.fold(f64::NEG_INFINITY, f64::max)
}
