//! Starting values (`docs/itf.md#start`).

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::GammaPrior;
use rand::RngExt;

use super::split_merge::shuffle;
use crate::collapsed::{self, CellClusters};
use crate::kernels::{Cells, Column};
use crate::prior::grow_concentrations;
use crate::state::{Block, ColumnState, ItfState};
use crate::{ItfConfig, ItfData};

/// Categories of more levels than this start like other cells.
const MAX_START_LEVELS: usize = 16;
/// How often the cells of a column are allocated to start from.
const START_ROUNDS: usize = 3;
/// Updates of a column's hyperparameters given labels, to start from.
const ADAPTATIONS: usize = 2;
/// Rows start in so many top-level clusters at most, ...
const MAX_START_TOPS: usize = 20;
/// ... of so many rows each.
const ROWS_OF_A_TOP: usize = 50;
/// Key of the stream of starting values.
const START: u64 = u64::MAX;

/// Starting values: concentrations at their prior means, a cluster for every level of a category, other clusters of cells allocated row
/// by row where parameters can be integrated out. With two levels all columns are in one block, whose top-level labels are drawn evenly: clusters that
/// are not needed are soon left, new ones are found slowly.
pub(super) fn start(data: &ItfData, config: &ItfConfig, chain: u64) -> ItfState {
    let n_rows = data.n_rows();
    let alpha = mean(config.top_concentration);
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
    let rng = &mut keyed(u64::MAX);
    let labels: Vec<u32> = if config.structure.has_lower() {
        let n = (n_rows / ROWS_OF_A_TOP).clamp(1, MAX_START_TOPS) as u32;
        (0..n_rows).map(|_| rng.random_range(0..n)).collect()
    } else if of_all().all(|(c, cells)| c.law.is_collapsed(cells)) {
        let mut clusters = CellClusters::new(of_all().map(|(c, cells)| (&c.law, cells)));
        collapsed::sequential(&mut clusters, alpha, &order, None, rng).0
    } else {
        vec![0; n_rows]
    };
    for (j, column) in columns.iter_mut().enumerate() {
        let labels = match column.labels.is_empty() {
            true => &labels,
            false => &column.labels,
        };
        let rng = &mut keyed((1 << 60) + j as u64);
        column.law.grow(collapsed::n_labels(labels), rng);
        let mut pool = column.law.pool();
        column.law.update(&data.cells()[j], labels, &mut pool, rng);
    }
    let block = Block {
        concentration: alpha,
        labels,
    };
    ItfState {
        blocks: vec![block],
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
