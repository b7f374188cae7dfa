//! The sampler against the joint law of state and data, move by move; broken twins fail.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::Xoshiro256PlusPlus;
use npb_infer::testing::{JointModel, JointTest};
use npb_itf::kernels::{Cells, Column, Network, NetworkData};
use npb_itf::{ItfConfig, ItfData, ItfMove, ItfSampler, ItfState, LowerConcentration, Structure};
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

/// Three columns of a few rows: real, categorical with three levels, binary; some cells missing.
fn data(n: usize) -> ItfData {
    let observed = |i: usize, j: usize| (i + 2 * j) % 5 != 3;
    let real = (0..n).map(|i| observed(i, 0).then_some([0.3, -1.2, 2.0, 0.9][i % 4]));
    let three = (0..n).map(|i| observed(i, 1).then_some((i % 3) as u32));
    let two = (0..n).map(|i| observed(i, 2).then_some(i % 2 == 0));
    let columns = vec![
        MixedColumn::Real(real.collect()),
        MixedColumn::Categorical {
            levels: ["a", "b", "c"].map(String::from).to_vec(),
            codes: three.collect(),
        },
        MixedColumn::Binary {
            levels: ["no", "yes"].map(String::from),
            values: two.collect(),
        },
    ];
    let names = ["real", "three", "two"].map(String::from).to_vec();
    ItfData::from_table(&MixedTable::new(names, columns).unwrap()).unwrap()
}

/// A directed network of 7 nodes beside the real and the binary column: rows are drawn one after the other.
fn with_network() -> ItfData {
    let kernel = Network::new(7, true).unwrap();
    let cells = NetworkData::new(&kernel, &[(0, 1), (2, 5), (6, 3)], &[(4, 2), (1, 6)]).unwrap();
    let law = kernel.column(&mut npb_infer::stream(1, [0; 4]));
    let table = data(7);
    let mut data = ItfData::new();
    for j in [0, 2] {
        let name = &table.infos()[j].name;
        data.push(name, table.laws()[j].clone(), table.cells()[j].clone())
            .unwrap();
    }
    data.push("links", law, Cells::Network(cells)).unwrap();
    data
}

fn config(structure: Structure, moves: &[ItfMove]) -> ItfConfig {
    let prior = GammaPrior {
        shape: 3.0,
        rate: 3.0,
    };
    ItfConfig {
        structure,
        moves: moves.to_vec(),
        top_concentration: prior,
        lower_concentration: prior,
        column_concentration: prior,
        ..ItfConfig::default()
    }
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
        let mut names = vec![
            "alpha",
            "gamma",
            "blocks",
            "largest top label",
            "first top",
            "top clusters",
        ];
        for _ in 0..3 {
            names.extend([
                "beta",
                "largest label",
                "first",
                "clusters",
                "agree",
                "cell",
                "size x cell",
            ]);
        }
        names.into_iter().map(String::from).collect()
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
        let block = &state.blocks[state.columns[0].block];
        let top = &block.labels;
        let mut out = vec![
            block.concentration,
            state.column_concentration,
            state.blocks.len() as f64,
            f64::from(*top.iter().max().unwrap()),
            size(top, 0) as f64,
            n_clusters(top) as f64,
        ];
        for (j, column) in state.columns.iter().enumerate() {
            let labels = state.labels(j);
            let own_top = &state.blocks[column.block].labels;
            let cell = match &column.law {
                Column::Normal(fitted) => fitted.params.mean(labels[0] as usize).atan(),
                Column::Categorical(fitted) => fitted.params.probability(0, labels[0] as usize),
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
            let agree = (1..labels.len())
                .filter(|&i| (labels[i] == labels[0]) == (own_top[i] == own_top[0]));
            out.extend([
                column.concentrations.first().copied().unwrap_or(0.0),
                f64::from(*labels.iter().max().unwrap()),
                size(labels, 0) as f64,
                n_clusters(labels) as f64,
                agree.count() as f64,
                cell,
                cell * drawn[0].atan() * size(labels, labels[0]) as f64,
            ]);
        }
        out
    }
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

const CHAINS: usize = 32;

fn report(model: &Model, length: usize) -> npb_infer::testing::JointReport {
    let test = JointTest {
        seed: 11,
        chains: CHAINS,
        length,
        false_alarm: 0.001,
    };
    test.run(model)
}

fn check(structure: Structure, moves: &[ItfMove], length: usize) {
    let model = Model {
        data: data(7),
        config: config(structure, moves),
        twist: Twist::None,
    };
    let report = report(&model, length);
    assert!(report.passed(), "{structure:?} {moves:?}\n{report}");
}

use ItfMove::*;

#[test]
fn the_default_sweep_leaves_the_joint_law_alone() {
    check(Structure::Tensor, &ItfMove::ALL, 300);
    check(Structure::TensorBlocks, &ItfMove::ALL, 300);
}

#[test]
fn the_sweep_of_the_paper_leaves_the_joint_law_alone() {
    check(Structure::Tensor, &ItfMove::PAPER, 400);
}

#[test]
fn one_clustering_leaves_the_joint_law_alone() {
    check(Structure::Joint, &ItfMove::ALL, 300);
    check(Structure::JointBlocks, &ItfMove::ALL, 300);
}

#[test]
fn every_move_alone_leaves_the_joint_law_alone() {
    for which in ItfMove::ALL.into_iter().chain([LowerLabels]) {
        check(Structure::TensorBlocks, &[which], 150);
        check(Structure::JointBlocks, &[which], 150);
    }
}

#[test]
fn rows_that_see_each_other_leave_the_joint_law_alone() {
    for structure in [Structure::Tensor, Structure::Joint] {
        let model = Model {
            data: with_network(),
            config: config(structure, &[Swaps, TopLabels, Rows, Parameters]),
            twist: Twist::None,
        };
        let report = report(&model, 200);
        assert!(report.passed(), "{structure:?}\n{report}");
    }
}

#[test]
fn concentrations_of_top_level_clusters_leave_the_joint_law_alone() {
    let model = Model {
        data: data(7),
        config: ItfConfig {
            lower_sharing: LowerConcentration::PerTopCluster,
            ..config(Structure::Tensor, &ItfMove::ALL)
        },
        twist: Twist::None,
    };
    let report = report(&model, 400);
    assert!(report.passed(), "{report}");
}

#[test]
fn printed_rules_are_found_out() {
    let twisted = |twist, moves: &[ItfMove]| Model {
        data: data(7),
        config: config(Structure::Tensor, moves),
        twist,
    };
    let without = [Swaps, TopLabels, Rows];
    let wide = GammaPrior {
        shape: 2.0,
        rate: 0.4,
    };
    let mut model = twisted(Twist::PrintedConcentration, &without);
    model.data = data(8);
    (
        model.config.top_concentration,
        model.config.lower_concentration,
    ) = (wide, wide);
    let broken = report(&model, 300);
    assert!(!broken.passed(), "{broken}");
    let broken = report(&twisted(Twist::PrintedSwap, &ItfMove::PAPER), 200);
    assert!(!broken.passed(), "{broken}");
    let right = report(&twisted(Twist::CorrectedSwap, &ItfMove::PAPER), 200);
    assert!(right.passed(), "{right}");
}
