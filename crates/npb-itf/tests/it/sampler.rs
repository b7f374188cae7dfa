//! The sampler against the joint law of state and data, move by move; broken twins fail.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::Xoshiro256PlusPlus;
use npb_infer::testing::{JointModel, JointReport, JointTest, StepTest};
use npb_itf::kernels::{Cells, Column, Network, NetworkData};
use npb_itf::{
    Grouping, ItfConfig, ItfData, ItfMove, ItfSampler, ItfState, LowerConcentration, Structure,
};
use npb_priors::GammaPrior;
use npb_priors::dp::{
    draw_concentration_given_partitions, draw_sticks_given_labels, ln_neighbour_swap_ratio,
    ln_occupied_ratio, occupied_labels,
};
use rand::RngExt;

/// What is done instead of, or after, the sampler's own sweep.
#[derive(Clone, Copy, PartialEq)]
enum Twist {
    None,
    /// The concentration given the partition, as printed, although the state holds labels.
    PrintedConcentration,
    /// The label swap with the ratio as printed, upside down.
    PrintedSwap,
    /// The same move with the corrected ratio.
    CorrectedSwap,
}

struct Model {
    data: ItfData,
    config: ItfConfig,
    twist: Twist,
}

/// Four columns of a few rows: real, categorical with three levels, two binary ones; some cells missing.
fn data(n: usize) -> ItfData {
    let observed = |i: usize, j: usize| (i + 2 * j) % 5 != 3;
    let real = (0..n).map(|i| observed(i, 0).then_some([0.3, -1.2, 2.0, 0.9][i % 4]));
    let three = (0..n).map(|i| observed(i, 1).then_some((i % 3) as u32));
    let two = |j: usize| {
        let values = (0..n).map(|i| observed(i, j).then_some(i % j == 0));
        MixedColumn::Binary {
            levels: ["no", "yes"].map(String::from),
            values: values.collect(),
        }
    };
    let columns = vec![
        MixedColumn::Real(real.collect()),
        MixedColumn::Categorical {
            levels: ["a", "b", "c"].map(String::from).to_vec(),
            codes: three.collect(),
        },
        two(2),
        two(3),
    ];
    let names = ["real", "three", "two", "other"].map(String::from).to_vec();
    ItfData::from_table(&MixedTable::new(names, columns).unwrap()).unwrap()
}

fn some_columns(from: &ItfData, columns: &[usize]) -> ItfData {
    let mut data = ItfData::new();
    for (place, &j) in columns.iter().enumerate() {
        let (law, cells) = (from.laws()[j].clone(), from.cells()[j].clone());
        data.push(&format!("column {place}"), law, cells).unwrap();
    }
    data
}

/// A directed network of 7 nodes beside the real and the binary column: rows are drawn one after the other.
fn with_network() -> ItfData {
    let kernel = Network::new(7, true).unwrap();
    let cells = NetworkData::new(&kernel, &[(0, 1), (2, 5), (6, 3)], &[(4, 2), (1, 6)]).unwrap();
    let law = kernel.column(&mut npb_infer::stream(1, [0; 4]));
    let mut data = some_columns(&data(7), &[0, 2]);
    data.push("links", law, Cells::Network(cells)).unwrap();
    data
}

/// The real column and the one of three levels share a law, with holes; a binary column beside them.
fn with_group() -> ItfData {
    let group = vec![["real", "three"].map(String::from).to_vec()];
    some_columns(&data(7).with_groups(&group).unwrap(), &[0, 1])
}

fn size(labels: &[u32], label: u32) -> usize {
    labels.iter().filter(|&&k| k == label).count()
}

fn n_clusters(labels: &[u32]) -> usize {
    let mut seen = labels.to_vec();
    seen.sort_unstable();
    seen.dedup();
    seen.len()
}

impl JointModel for Model {
    type State = ItfState;
    type Data = ItfData;

    fn names(&self) -> Vec<String> {
        let of_block = |b: &str| {
            [
                "alpha",
                "largest top label",
                "first top",
                "top clusters",
                "alpha x largest label",
            ]
            .map(|name| format!("{name} of the {b} column"))
        };
        let of_column = |j: usize| {
            [
                "beta",
                "largest label",
                "first",
                "clusters",
                "beta x largest label",
                "agree",
                "together",
                "cell",
                "size x cell",
                "fit",
            ]
            .map(move |name| format!("{name} in {j}"))
        };
        let columns = 0..self.data.n_columns();
        (["gamma", "blocks", "gamma x blocks", "tops alike"].map(String::from))
            .into_iter()
            .chain(["first", "last"].into_iter().flat_map(of_block))
            .chain(columns.flat_map(of_column))
            .collect()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> ItfState {
        ItfState::prior(&self.data, &self.config, rng)
    }

    fn simulate(&self, state: &ItfState, rng: &mut Xoshiro256PlusPlus) -> ItfData {
        let cells = self.data.cells().iter().enumerate().map(|(j, cells)| {
            let mut cells = cells.clone();
            state.columns[j]
                .law
                .simulate(state.labels(j), &mut cells, rng);
            cells
        });
        self.data.with_cells(cells.collect()).unwrap()
    }

    fn sweep(&self, state: &mut ItfState, data: &ItfData, rng: &mut Xoshiro256PlusPlus) {
        let config = ItfConfig {
            seed: rng.random(),
            ..self.config.clone()
        };
        let mut sampler = ItfSampler::resume(data, config, 0, state.clone(), 0).unwrap();
        sampler.sweep();
        *state = sampler.into_state();
        match self.twist {
            Twist::None => {}
            Twist::PrintedConcentration => printed_concentration(state, &self.config, rng),
            Twist::PrintedSwap => stick_swap(state, -1.0, rng),
            Twist::CorrectedSwap => stick_swap(state, 1.0, rng),
        }
    }

    fn summary(&self, state: &ItfState, data: &ItfData) -> Vec<f64> {
        let gamma = state.column_concentration;
        let n_blocks = state.blocks.len() as f64;
        let last = state.columns.len() - 1;
        let ends = [0, last].map(|j| &state.blocks[state.columns[j].block]);
        // Of different blocks: labels of one block are trivially alike.
        let alike = match state.columns[0].block == state.columns[last].block {
            true => 0,
            false => 1 + agreement(&ends[0].labels, &ends[1].labels),
        };
        let mut out = vec![gamma, n_blocks, gamma * n_blocks, alike as f64];
        for block in ends {
            let top = &block.labels;
            out.extend([
                block.concentration,
                f64::from(*top.iter().max().unwrap()),
                size(top, 0) as f64,
                n_clusters(top) as f64,
                block.concentration * f64::from(1 + *top.iter().max().unwrap()),
            ]);
        }
        for (j, column) in state.columns.iter().enumerate() {
            let labels = state.labels(j);
            let own_top = &state.blocks[column.block].labels;
            let cell = match &column.law {
                Column::Normal(fitted) => fitted.params.mean(labels[0] as usize).atan(),
                Column::Categorical(fitted) => fitted.params.probability(0, labels[0] as usize),
                Column::FullNormal(fitted) => {
                    let mean = fitted.params.mean(labels[0] as usize)[0];
                    let effect = fitted.params.effect(labels[0] as usize, 1)[0];
                    (mean + effect).atan() * fitted.params.probability(labels[0] as usize, 1)
                }
                Column::Network(fitted) => {
                    let label = |row: usize| labels[row] as usize;
                    fitted.params.probability(label(0), label(1))
                }
                _ => 0.0,
            };
            let mut drawn = Vec::new();
            let counts: Vec<usize> = (0..=*labels.iter().max().unwrap())
                .map(|k| size(labels, k))
                .collect();
            let others = npb_itf::RowLabels {
                labels,
                counts: &counts,
            };
            column.law.expected(
                labels[0] as usize,
                &data.cells()[j],
                0,
                false,
                others,
                &mut drawn,
            );
            // Of the cluster of the first row when each has its own.
            let beta = match column.concentrations[..] {
                [] => 0.0,
                [shared] => shared,
                ref own => own[own_top[0] as usize],
            };
            let together = state.labels((j + 1) % state.columns.len());
            out.extend([
                beta,
                f64::from(*labels.iter().max().unwrap()),
                size(labels, 0) as f64,
                n_clusters(labels) as f64,
                beta * f64::from(1 + *labels.iter().max().unwrap()),
                agreement(labels, own_top) as f64,
                agreement(labels, together) as f64,
                cell,
                cell * drawn[0].atan() * size(labels, labels[0]) as f64,
                fit(&column.law, &data.cells()[j], labels),
            ]);
        }
        out
    }
}

/// ln p(cells | labels, parameters) but for a constant.
fn fit(law: &Column, cells: &Cells, labels: &[u32]) -> f64 {
    let of_row = |(row, &label): (usize, &u32)| match (law, cells) {
        (Column::Normal(fitted), Cells::Normal(cells)) => cells.value(row).map(|x| {
            let mean = fitted.params.mean(label as usize);
            let precision = fitted.params.precision(label as usize);
            0.5 * (precision.ln() - precision * (x - mean).powi(2))
        }),
        (Column::Categorical(fitted), Cells::Categorical(cells)) => {
            let p = |code| fitted.params.probability(code as usize, label as usize);
            cells.code(row).map(|code| p(code).ln())
        }
        (Column::FullNormal(_), _) => {
            let mut ln = vec![0.0; law.n_clusters()];
            let (rows, none) = (row..row + 1, npb_itf::RowLabels::NONE);
            law.ln_likelihoods(cells, rows, ln.len(), none, &mut ln);
            Some(ln[label as usize])
        }
        _ => None,
    };
    labels.iter().enumerate().filter_map(of_row).sum()
}

/// Rows that are with the first one in both clusterings or in neither.
fn agreement(a: &[u32], b: &[u32]) -> usize {
    (1..a.len())
        .filter(|&i| (a[i] == a[0]) == (b[i] == b[0]))
        .count()
}

/// Steps 1(a) and 3(a) as printed, the latter (16): right for partitions, wrong for labels.
fn printed_concentration(state: &mut ItfState, config: &ItfConfig, rng: &mut Xoshiro256PlusPlus) {
    let block = &mut state.blocks[0];
    for column in &mut state.columns {
        let mut pairs: Vec<_> = block.labels.iter().zip(&column.labels).collect();
        let sizes: Vec<usize> = (0..50).map(|r| size(&block.labels, r)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        column.concentrations[0] = draw_concentration_given_partitions(
            column.concentrations[0],
            &sizes,
            pairs.len(),
            config.lower_concentration,
            rng,
        );
    }
    block.concentration = draw_concentration_given_partitions(
        block.concentration,
        &[block.labels.len()],
        n_clusters(&block.labels),
        config.top_concentration,
        rng,
    );
}

/// Step 1(c)ii with sticks: swaps a label with the next one, its ratio to the power `sign`.
fn stick_swap(state: &mut ItfState, sign: f64, rng: &mut Xoshiro256PlusPlus) {
    let block = &mut state.blocks[0];
    let mut counts = vec![0; *block.labels.iter().max().unwrap() as usize + 2];
    block.labels.iter().for_each(|&k| counts[k as usize] += 1);
    let mut sticks = vec![0.0; counts.len()];
    draw_sticks_given_labels(&counts, block.concentration, &mut sticks, rng);
    let h = rng.random_range(0..occupied_labels(&counts));
    let ln_sticks = ln_neighbour_swap_ratio([counts[h], counts[h + 1]], [sticks[h], sticks[h + 1]]);
    if rng.random::<f64>().ln() < sign * ln_sticks + ln_occupied_ratio(&counts, h) {
        let (a, b) = (h as u32, h as u32 + 1);
        block.labels.iter_mut().for_each(|k| {
            *k = if *k == a {
                b
            } else if *k == b {
                a
            } else {
                *k
            }
        });
    }
}

/// Concentrations at which there is one cluster as a rule, a few, and nearly as many as rows.
const FEW_TO_MANY: [GammaPrior; 3] = [
    GammaPrior {
        shape: 2.0,
        rate: 8.0,
    },
    GammaPrior {
        shape: 3.0,
        rate: 3.0,
    },
    GammaPrior {
        shape: 2.0,
        rate: 0.4,
    },
];

fn config(structure: Structure, moves: &[ItfMove], prior: GammaPrior) -> ItfConfig {
    ItfConfig {
        structure,
        moves: moves.to_vec(),
        top_concentration: prior,
        lower_concentration: prior,
        column_concentration: prior,
        groups: Grouping::Off,
        ..ItfConfig::default()
    }
}

fn model(structure: Structure, moves: &[ItfMove], prior: GammaPrior) -> Model {
    Model {
        data: data(7),
        config: config(structure, moves, prior),
        twist: Twist::None,
    }
}

/// A whole sweep, again and again.
fn long(model: &Model, length: usize) -> JointReport {
    let test = JointTest {
        seed: 11,
        chains: 32,
        length,
        false_alarm: 0.001,
    };
    test.run(model)
}

/// One move.
fn step(model: &Model, replications: usize) -> JointReport {
    let test = StepTest {
        seed: 12,
        replications,
        false_alarm: 0.001,
    };
    test.run(model)
}

fn check(model: &Model, report: JointReport) {
    let ItfConfig {
        structure, moves, ..
    } = &model.config;
    assert!(report.passed(), "{structure:?} {moves:?}\n{report}");
}

use ItfMove::*;

#[test]
fn whole_sweeps_leave_the_joint_law_alone() {
    let some = FEW_TO_MANY[1];
    for structure in [Structure::Tensor, Structure::TensorBlocks, Structure::Joint] {
        let model = model(structure, &ItfMove::ALL, some);
        check(&model, long(&model, 100));
    }
    let model = model(Structure::Tensor, &ItfMove::PAPER, some);
    check(&model, long(&model, 100));
}

#[test]
fn every_move_alone_leaves_the_joint_law_alone() {
    let mut failed = Vec::new();
    for which in ItfMove::ALL.into_iter().chain([LowerLabels]) {
        // Some are made seldom, or accepted seldom.
        let times = match which {
            ColumnRelabel => 16,
            ColumnSplitMerge | TopSplitMerge | LowerSplitMerge => 4,
            _ => 1,
        };
        for prior in FEW_TO_MANY {
            for structure in [Structure::TensorBlocks, Structure::Joint] {
                // With one level and one block these do nothing.
                let of_levels = [TopLabels, LowerLabels, LowerSplitMerge, ColumnGibbs];
                let of_blocks = [ColumnRelabel, ColumnSplitMerge];
                let idle = of_levels.contains(&which) || of_blocks.contains(&which);
                if idle && structure == Structure::Joint {
                    continue;
                }
                let model = model(structure, &vec![which; times], prior);
                let report = step(&model, 1500);
                if !report.passed() {
                    failed.push(format!("{which:?} {structure:?} {prior:?}\n{report}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// So many clusters that rows leave the table of sticks all the time.
#[test]
fn rows_beyond_the_table_leave_the_joint_law_alone() {
    let many = GammaPrior {
        shape: 300.0,
        rate: 300.0 / 180.0,
    };
    let mut model = model(Structure::Tensor, &[Rows], FEW_TO_MANY[1]);
    model.data = some_columns(&data(6), &[0]);
    model.config.lower_concentration = many;
    check(&model, step(&model, 800));
    model.config.structure = Structure::Joint;
    model.config.top_concentration = many;
    check(&model, step(&model, 800));
}

#[test]
fn rows_that_see_each_other_leave_the_joint_law_alone() {
    for structure in [Structure::Tensor, Structure::Joint] {
        for which in [Swaps, TopLabels, Rows, Parameters] {
            let mut model = model(structure, &[which], FEW_TO_MANY[1]);
            model.data = with_network();
            check(&model, step(&model, 1500));
        }
    }
}

#[test]
fn concentrations_of_top_level_clusters_leave_the_joint_law_alone() {
    for which in [Concentrations, Swaps, TopSplitMerge, TopLabels, Rows] {
        let mut model = model(Structure::Tensor, &[which], FEW_TO_MANY[1]);
        model.config.lower_sharing = LowerConcentration::PerTopCluster;
        check(&model, step(&model, 1500));
    }
}

/// A swap of names leaves every cluster its concentration.
#[test]
fn concentrations_go_with_their_clusters() {
    let mut model = model(Structure::Tensor, &[Swaps], FEW_TO_MANY[2]);
    model.config.lower_sharing = LowerConcentration::PerTopCluster;
    let of_rows = |state: &ItfState| -> Vec<f64> {
        let top = &state.blocks[0].labels;
        let columns = state.columns.iter();
        let of_column = |c: &npb_itf::ColumnState| {
            let own = top.iter().map(|&r| c.concentrations[r as usize]);
            own.collect::<Vec<f64>>()
        };
        columns.flat_map(of_column).collect()
    };
    let mut swapped = 0;
    for seed in 0..40 {
        let before = model.prior(&mut npb_infer::stream(seed, [6; 4]));
        let config = model.config.clone();
        let mut sampler = ItfSampler::resume(&model.data, config, 0, before.clone(), seed).unwrap();
        sampler.apply(Swaps, 0);
        assert_eq!(of_rows(sampler.state()), of_rows(&before));
        swapped += usize::from(sampler.state().blocks[0].labels != before.blocks[0].labels);
    }
    assert!(swapped > 5, "{swapped}");
}

#[test]
fn moves_of_groups_leave_the_joint_law_alone() {
    for (which, times) in [(LowerSplitMerge, 4), (Rows, 1), (Parameters, 1)] {
        for prior in FEW_TO_MANY {
            let mut model = model(Structure::Tensor, &vec![which; times], prior);
            model.data = with_group();
            check(&model, step(&model, 1500));
        }
    }
}

#[test]
fn printed_rules_are_found_out() {
    let twisted = |twist| Model {
        twist,
        ..model(Structure::Tensor, &[Swaps], FEW_TO_MANY[2])
    };
    for broken in [Twist::PrintedConcentration, Twist::PrintedSwap] {
        let report = step(&twisted(broken), 2000);
        assert!(!report.passed(), "{report}");
    }
    let right = step(&twisted(Twist::CorrectedSwap), 2000);
    assert!(right.passed(), "{right}");
}
