//! The sampler on tables so small that every clustering can be written down.
//!
//! Concentrations are held fixed (their move is left out). Label names are summed out: for a column with labels c given top-level labels
//! c_0 the probability of its partition is a sum over all ways to name its blocks, of products over top-level clusters of stick-breaking
//! probabilities. Names up to 13 leave less than 1e-6 out at β = 1/2.

use std::collections::HashMap;

use npb_data::{MixedColumn, MixedTable};
use npb_infer::testing::{Exact, ExactReport, ExactTest, partitions};
use npb_itf::{Grouping, ItfConfig, ItfData, ItfMove, ItfSampler, ItfState, Structure};
use npb_priors::dp::{ln_label_probability, ln_partition_probability};
use npb_priors::special::{ln_rising_factorial, log_sum_exp};
use rand::RngExt;

use ItfMove::*;

pub(crate) const ALPHA: f64 = 0.7;
pub(crate) const BETA: f64 = 0.5;
const GAMMA: f64 = 1.3;
const NAMES: usize = 13;

/// Rows and columns of two levels.
const CELLS: [[Option<bool>; 3]; 4] = [
    [Some(true), Some(true), Some(false)],
    [Some(true), Some(true), Some(true)],
    [Some(false), None, Some(false)],
    [Some(false), Some(false), Some(false)],
];

fn data(n_rows: usize, n_columns: usize) -> ItfData {
    ItfData::from_table(&table(n_rows, n_columns)).unwrap()
}

pub(crate) fn table(n_rows: usize, n_columns: usize) -> MixedTable {
    let column = |j: usize| MixedColumn::Binary {
        levels: ["no", "yes"].map(String::from),
        values: CELLS[..n_rows].iter().map(|row| row[j % 3]).collect(),
    };
    let names = (0..n_columns).map(|j| format!("c{j}")).collect();
    MixedTable::new(names, (0..n_columns).map(column).collect()).unwrap()
}

/// Labels in order of appearance.
pub(crate) fn canonical(labels: &[u32]) -> Vec<usize> {
    let mut seen: Vec<u32> = Vec::new();
    let place = |&label: &u32| {
        seen.iter().position(|&s| s == label).unwrap_or_else(|| {
            seen.push(label);
            seen.len() - 1
        })
    };
    labels.iter().map(place).collect()
}

fn sizes(partition: &[usize]) -> Vec<usize> {
    let mut sizes = vec![0; partition.iter().max().map_or(0, |m| m + 1)];
    partition.iter().for_each(|&b| sizes[b] += 1);
    sizes
}

/// ln P(partition of a column | partition of the top level), names summed out.
fn ln_lower(lower: &[usize], top: &[usize]) -> f64 {
    let n_blocks = sizes(lower).len();
    let n_top = sizes(top).len();
    let mut terms = Vec::new();
    let mut names = vec![0; n_blocks];
    loop {
        let distinct = (0..n_blocks).all(|a| (0..a).all(|b| names[a] != names[b]));
        if distinct {
            let group = |r: usize| {
                let mut counts = [0; NAMES];
                let members = top.iter().zip(lower).filter(|(top, _)| **top == r);
                members.for_each(|(_, &block)| counts[names[block]] += 1);
                ln_label_probability(&counts, BETA)
            };
            terms.push((0..n_top).map(group).sum());
        }
        let Some(place) = (0..n_blocks).find(|&b| names[b] + 1 < NAMES) else {
            return log_sum_exp(&terms);
        };
        names[..place].fill(0);
        names[place] += 1;
    }
}

/// ln p(cells of a column | partition): the level probabilities integrated out, then their concentration (ln a ~ N(ln 1/2, 1)).
fn ln_cells(column: usize, partition: &[usize]) -> f64 {
    let n_blocks = sizes(partition).len();
    let mut counts = vec![[0u32; 2]; n_blocks];
    for (row, &block) in partition.iter().enumerate() {
        if let Some(value) = CELLS[row][column] {
            counts[block][usize::from(value)] += 1;
        }
    }
    let at = |z: f64| -> f64 {
        let a = 0.5 * z.exp();
        let block = |[no, yes]: &[u32; 2]| {
            ln_rising_factorial(a, f64::from(*no)) + ln_rising_factorial(a, f64::from(*yes))
                - ln_rising_factorial(2.0 * a, f64::from(no + yes))
        };
        counts.iter().map(block).sum::<f64>() - 0.5 * z * z
    };
    let grid: Vec<f64> = (-300..=300).map(|i| at(f64::from(i) / 40.0)).collect();
    log_sum_exp(&grid)
}

fn fixed(structure: Structure, moves: &[ItfMove]) -> ItfConfig {
    ItfConfig {
        structure,
        moves: moves.to_vec(),
        groups: Grouping::Off,
        ..ItfConfig::default()
    }
}

/// A state at given clusterings with the concentrations of this file; some sweeps make parameters and names fit them.
fn start(
    data: &ItfData,
    config: &ItfConfig,
    labels: &[Vec<usize>],
    blocks: &[usize],
    seed: u64,
) -> ItfState {
    let config = ItfConfig {
        seed,
        ..config.clone()
    };
    let rng = &mut npb_infer::stream(seed, [9; 4]);
    let mut state = loop {
        // Prior draws have parameters for their own labels; ask for enough of them.
        let state = ItfState::prior(data, &config, rng);
        let enough = |j: usize| state.labels(j).iter().any(|&k| k >= 3);
        if state.blocks.len() > *blocks.iter().max().unwrap()
            && (0..state.columns.len()).all(enough)
        {
            break state;
        }
    };
    state.column_concentration = GAMMA;
    state.blocks.truncate(blocks.iter().max().unwrap() + 1);
    let n_blocks = state.blocks.len();
    let named = |labels: &Vec<usize>| labels.iter().map(|&k| k as u32).collect();
    for (block, labels) in state.blocks.iter_mut().zip(labels) {
        (block.concentration, block.labels) = (ALPHA, named(labels));
    }
    for (j, column) in state.columns.iter_mut().enumerate() {
        column.block = blocks[j];
        if let Some(labels) = labels.get(n_blocks + j) {
            (column.concentrations, column.labels) = (vec![BETA], named(labels));
        }
    }
    let mut sampler = ItfSampler::resume(data, config, 0, state, 0).unwrap();
    (0..20).for_each(|_| sampler.sweep());
    sampler.into_state()
}

fn sweep(data: &ItfData, config: &ItfConfig, state: &mut ItfState, seed: u64) {
    let config = ItfConfig {
        seed,
        ..config.clone()
    };
    let mut sampler = ItfSampler::resume(data, config, 0, state.clone(), 0).unwrap();
    sampler.sweep();
    *state = sampler.into_state();
    // A column that moved into a new block brought a concentration from the prior; here it is known.
    state
        .blocks
        .iter_mut()
        .for_each(|block| block.concentration = ALPHA);
}

const TEST: ExactTest = ExactTest {
    seed: 5,
    chains: 24,
    length: 1000,
    false_alarm: 0.001,
};

/// Four rows, two columns: clusterings of the top level and of both columns.
pub(crate) fn tensor() -> Exact<Vec<Vec<usize>>> {
    let all = partitions(4);
    let lower: HashMap<_, f64> = (all.iter())
        .flat_map(|c| {
            all.iter()
                .map(move |top| ((c.clone(), top.clone()), ln_lower(c, top)))
        })
        .collect();
    let cells: Vec<HashMap<_, f64>> = (0..2)
        .map(|j| all.iter().map(|c| (c.clone(), ln_cells(j, c))).collect())
        .collect();
    let points = all.iter().flat_map(|top| {
        let all = &all;
        all.iter().flat_map(move |a| {
            all.iter()
                .map(move |b| vec![top.clone(), a.clone(), b.clone()])
        })
    });
    Exact::new(points.collect(), |point| {
        let column =
            |j: usize| lower[&(point[1 + j].clone(), point[0].clone())] + cells[j][&point[1 + j]];
        ln_partition_probability(&sizes(&point[0]), ALPHA) + column(0) + column(1)
    })
}

/// `seldom`: moves made in one sweep of a hundred instead.
fn run_tensor(
    exact: &Exact<Vec<Vec<usize>>>,
    moves: &[ItfMove],
    seldom: &[ItfMove],
) -> ExactReport {
    let data = data(4, 2);
    let config = fixed(Structure::Tensor, moves);
    let now_and_then = fixed(Structure::Tensor, seldom);
    // Names and parameters that fit the clusterings, which stay.
    let settle = fixed(Structure::Tensor, &[Swaps, Parameters]);
    TEST.run(
        exact,
        |point| start(&data, &settle, point, &[0, 0], 17),
        |state, rng| {
            let config = match rng.random_range(0..100) {
                0 => &now_and_then,
                _ => &config,
            };
            sweep(&data, config, state, rng.random());
        },
        |state| {
            let columns = state.columns.iter().map(|c| canonical(&c.labels));
            [canonical(&state.blocks[0].labels)]
                .into_iter()
                .chain(columns)
                .collect()
        },
    )
}

#[test]
fn every_clustering_of_four_rows_comes_up_as_often_as_it_should() {
    let exact = tensor();
    let rows = [Parameters, Rows];
    for moves in [
        &[
            Swaps,
            TopSplitMerge,
            TopLabels,
            LowerSplitMerge,
            Parameters,
            Rows,
        ][..],
        &[Swaps, TopLabels, LowerLabels, Parameters],
        &rows,
        // What rows do one by one in one sweep of a hundred cannot mend what splits and merges do.
        &[Swaps, TopSplitMerge, LowerSplitMerge],
    ] {
        let report = run_tensor(&exact, moves, &rows);
        assert!(report.passed(), "{moves:?}\n{report}");
    }
}

/// Top-level labels alone, given lower labels of columns that agree on some rows and not on others: what a row counts itself for shows here.
#[test]
fn top_labels_given_lower_ones_come_up_as_often_as_they_should() {
    const LOWER: [[usize; 4]; 6] = [
        [0, 0, 1, 1],
        [0, 1, 0, 1],
        [0, 0, 0, 1],
        [0, 1, 1, 0],
        [1, 0, 0, 0],
        [0, 0, 1, 2],
    ];
    let exact = Exact::new(partitions(4), |top| {
        let group = |labels: &[usize; 4], r: usize| {
            let mut counts = [0; 3];
            let members = top.iter().zip(labels).filter(|(top, _)| **top == r);
            members.for_each(|(_, &k)| counts[k] += 1);
            ln_label_probability(&counts, BETA)
        };
        let n_top = sizes(top).len();
        let column = |labels: &[usize; 4]| (0..n_top).map(|r| group(labels, r)).sum::<f64>();
        ln_partition_probability(&sizes(top), ALPHA) + LOWER.iter().map(column).sum::<f64>()
    });
    let data = data(4, 6);
    let config = fixed(Structure::Tensor, &[TopLabels]);
    let report = TEST.run(
        &exact,
        |top| {
            let lower = LOWER.iter().map(|labels| labels.to_vec());
            let labels: Vec<Vec<usize>> = [top.clone()].into_iter().chain(lower).collect();
            start(&data, &config, &labels, &[0; 6], 17)
        },
        |state, rng| sweep(&data, &config, state, rng.random()),
        |state| canonical(&state.blocks[0].labels),
    );
    assert!(report.passed(), "{report}");
}

/// Three rows and three columns: the partition of the columns alone, everything else summed.
#[test]
fn every_partition_of_three_columns_comes_up_as_often_as_it_should() {
    let rows = partitions(3);
    // ln p(cells of a column | top-level clustering).
    let column = |j: usize, top: &[usize]| {
        let terms: Vec<f64> = rows
            .iter()
            .map(|c| ln_lower(c, top) + ln_cells(j, c))
            .collect();
        log_sum_exp(&terms)
    };
    let given: Vec<Vec<f64>> = (0..3)
        .map(|j| rows.iter().map(|top| column(j, top)).collect())
        .collect();
    let exact = Exact::new(partitions(3), |blocks| {
        let block = |b: usize| {
            let inside = || (0..3).filter(|&j| blocks[j] == b);
            let terms = rows.iter().enumerate().map(|(t, top)| {
                ln_partition_probability(&sizes(top), ALPHA)
                    + inside().map(|j| given[j][t]).sum::<f64>()
            });
            log_sum_exp(&terms.collect::<Vec<_>>())
        };
        let n_blocks = sizes(blocks).len();
        ln_partition_probability(&sizes(blocks), GAMMA) + (0..n_blocks).map(block).sum::<f64>()
    });
    let data = data(3, 3);
    // A new block's concentration is drawn from its prior: a prior that knows it.
    let sharp = npb_priors::GammaPrior {
        shape: 1e8,
        rate: 1e8 / ALPHA,
    };
    for moves in [
        vec![ColumnGibbs, TopLabels, Swaps, Parameters, Rows],
        vec![
            ColumnGibbs,
            ColumnRelabel,
            ColumnSplitMerge,
            TopSplitMerge,
            LowerSplitMerge,
            Swaps,
            Parameters,
            Rows,
        ],
    ] {
        let config = ItfConfig {
            top_concentration: sharp,
            ..fixed(Structure::TensorBlocks, &moves)
        };
        let report = TEST.run(
            &exact,
            |blocks| {
                let labels = vec![vec![0; 3]; sizes(blocks).len() + 3];
                start(&data, &config, &labels, blocks, 17)
            },
            |state, rng| sweep(&data, &config, state, rng.random()),
            |state| {
                let named: Vec<u32> = state.columns.iter().map(|c| c.block as u32).collect();
                canonical(&named)
            },
        );
        assert!(report.passed(), "{moves:?}\n{report}");
    }
}
