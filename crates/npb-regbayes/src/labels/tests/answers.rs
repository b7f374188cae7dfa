//! Scores, decisions and reports of a fit, put together again from held-out scores, stacking weights and machines on all rows.

use npb_data::Table;
use npb_data::splits::k_fold;
use npb_infer::stream;
use npb_linalg::dot;
use rand_distr::{Distribution, StandardNormal};

use super::super::calibration::Scored;
use super::super::config::{Decisions, LabelInputs, LabelsConfig};
use super::super::fit::{LabelsFit, fit};
use super::super::held_out::{Found, HeldOutTargets};
use super::super::members::{Block, Member, blocks};
use super::WELL;
use crate::config::{ClassCosts, FeatureConfig, IlsvmConfig, LabelUpdate};
use crate::dense::centre_and_scale;
use crate::inputs::Inputs;
use crate::machine::Machine;
use crate::tasks::{Goal, Task, TaskData, TaskTargets};

const ROWS: usize = 60;
const TRAINING: usize = 48;

/// Four normal columns in units of their own.
fn table() -> Table {
    let rng = &mut stream(11, [0; 4]);
    let cell =
        |at: usize, z: f64| [3.0, -20.0, 0.0, 1.0][at % 4] + [1.0, 8.0, 0.1, 2.0][at % 4] * z;
    let cells = (0..ROWS * 4).map(|at| cell(at, StandardNormal.sample(rng)));
    Table::complete(ROWS, 4, cells.collect()).unwrap()
}

/// A ring, a line and a number, known in different rows of the first.
fn data(table: &Table) -> TaskData {
    let z = |n: usize, d: usize| {
        (table.row(n)[d] - [3.0, -20.0, 0.0, 1.0][d]) / [1.0, 8.0, 0.1, 2.0][d]
    };
    let known = |m: usize, n: usize| n < TRAINING && !(n + m).is_multiple_of(6);
    let ring = |n: usize| z(n, 0).powi(2) + z(n, 1).powi(2) < 0.9;
    let line = |n: usize| z(n, 0) - z(n, 2) > 0.8;
    let label = |name: &str, m: usize, of: &dyn Fn(usize) -> bool| {
        let one = |n: usize| known(m, n).then(|| of(n));
        Task::label(name, &(0..ROWS).map(one).collect::<Vec<_>>())
    };
    let number = |n: usize| known(2, n).then(|| 100.0 + 9.0 * z(n, 1) + 4.0 * z(n, 3) * z(n, 0));
    let number: Vec<Option<f64>> = (0..ROWS).map(number).collect();
    let tasks = vec![
        label("ring", 0, &ring),
        Task::real("number", &number).unwrap(),
        label("line", 1, &line),
    ];
    TaskData::new(table.clone(), tasks).unwrap()
}

fn config(inputs: LabelInputs, decisions: Decisions) -> LabelsConfig {
    LabelsConfig {
        inputs,
        decisions,
        costs: vec![0.2, 1.0, 6.0],
        folds: 5,
        landmarks: 17,
        latent: IlsvmConfig {
            seed: 8,
            factors: FeatureConfig {
                truncation: 3,
                growth: 0,
                ..FeatureConfig::default()
            },
            class_costs: ClassCosts::Balanced,
            ones: 0.7,
            machine: WELL,
            ..IlsvmConfig::default()
        },
    }
}

/// What a fit is made of, found again.
struct Parts {
    asked: HeldOutTargets,
    blocks: Vec<Block>,
    landmarks: Vec<usize>,
    found: Vec<Found>,
    /// Of labels, of numbers.
    stacks: [Vec<f64>; 2],
    /// Rows in standard units.
    standard: Vec<Vec<f64>>,
    units: (f64, f64),
}

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (square / n).sqrt())
}

fn parts(data: &TaskData, model: &LabelsFit, config: &LabelsConfig) -> Parts {
    let table = data.inputs();
    let training: Vec<usize> = (0..ROWS)
        .filter(|n| data.tasks().iter().any(|task| task.rows().contains(n)))
        .collect();
    assert!(training.len() > 40 && training.len() <= TRAINING);
    let units: Vec<(f64, f64)> = (0..4)
        .map(|d| {
            moments(
                &training
                    .iter()
                    .map(|&n| table.row(n)[d])
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let standard: Vec<Vec<f64>> = (0..ROWS)
        .map(|n| {
            (0..4)
                .map(|d| (table.row(n)[d] - units[d].0) / units[d].1)
                .collect()
        })
        .collect();
    // Machines in folds are solved to a hundredth: a rounding may decide where they stop.
    let filled = model.latent().filled(table).unwrap();
    for (n, row) in standard.iter().enumerate() {
        (0..4).for_each(|d| assert!((filled[(d, n)] - row[d]).abs() < 1e-12));
    }
    let inputs = npb_linalg::faer::Mat::from_fn(4, training.len(), |d, n| filled[(d, training[n])]);
    let TaskTargets::Real(values) = data.tasks()[1].targets() else {
        panic!("a number");
    };
    let of_numbers = centre_and_scale(values);
    let (mean, sd) = moments(values);
    assert!((of_numbers.0 - mean).abs() < 1e-9 && (of_numbers.1 - sd).abs() < 1e-9);
    let mut places = vec![0; ROWS];
    training
        .iter()
        .enumerate()
        .for_each(|(n, &row)| places[row] = n);
    let at_one = IlsvmConfig {
        cost: 1.0,
        ..config.latent.clone()
    };
    let rng = &mut stream(config.latent.seed, [0, u64::MAX, 0, 0]);
    let mut folds = vec![0; training.len()];
    for (fold, split) in k_fold(training.len(), 5, rng).unwrap().iter().enumerate() {
        split.test.iter().for_each(|&n| folds[n] = fold);
    }
    let goal = |task| Goal::new(task, &places, of_numbers, &at_one);
    let asked = HeldOutTargets {
        goals: data.tasks().iter().map(goal).collect(),
        folds,
        n_folds: 5,
        slack: at_one.slack,
        epsilon: at_one.epsilon,
        ones: at_one.ones,
    };
    let (blocks, landmarks) = blocks(&inputs, &model.state().indicators, config).unwrap();
    let mut found = Vec::new();
    for (k, block) in blocks.iter().enumerate() {
        let go_on = |_, _| std::ops::ControlFlow::Continue(());
        let own = asked.at_costs((k, block), &config.costs, go_on);
        found.extend(own.unwrap().unwrap());
    }
    let stacks = [0, 1].map(|kind| asked.stack(&found, kind));
    let landmarks = landmarks.into_iter().map(|n| training[n]).collect();
    Parts {
        asked,
        blocks,
        landmarks,
        found,
        stacks,
        standard,
        units: of_numbers,
    }
}

impl Parts {
    /// Score of a row for a task, member by member.
    fn score(&self, m: usize, row: usize, model: &LabelsFit) -> f64 {
        let stack = &self.stacks[self.asked.kind(m)];
        let mean = self.asked.mean(&self.found, stack, m);
        let (last, _) = self.asked.calibrate(m, mean);
        let mut total = last.offset;
        for (found, weight) in self.found.iter().zip(stack).filter(|x| *x.1 > 0.0) {
            let block = &self.blocks[found.block];
            let rows = self.asked.rows(m, block);
            let inputs = Inputs::dense(&rows, block.width).unwrap();
            let machine = Machine::new(inputs.with_ones(0.7).unwrap());
            let solution = self
                .asked
                .solve(&machine, (m, found.cost, None), None, &WELL);
            let weights = solution.unwrap().weights;
            let x = &self.standard[row];
            let seen: Vec<f64> = match block.member {
                Member::Linear => x.clone(),
                Member::Rbf { gamma } => {
                    let distance = |y: &Vec<f64>| -> f64 {
                        x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum()
                    };
                    let kernel = |&l: &usize| (-gamma * distance(&self.standard[l])).exp();
                    self.landmarks.iter().map(kernel).collect()
                }
                Member::Latent => {
                    let psi = &model.state().indicators;
                    let of = |k: usize| (0..4).map(|d| psi[(k, d)] * x[d]).sum();
                    (0..psi.nrows()).map(of).collect()
                }
            };
            let own = dot(&block.unfold(&weights), &seen) + 0.7 * weights[block.width];
            let curve = found.curves[m];
            total += last.slope * weight * (curve.slope * own + curve.offset);
        }
        match self.asked.kind(m) {
            0 => total,
            _ => self.units.0 + self.units.1 * total,
        }
    }
}

/// Scores of rows of the fit and of new ones, for each of the inputs that can be asked for, and what is said of members.
#[test]
fn scores_are_the_stacked_members() {
    let table = table();
    let data = data(&table);
    for inputs in [LabelInputs::Linear, LabelInputs::Rbf, LabelInputs::Select] {
        let config = config(inputs, Decisions::Both);
        let model = fit(&data, &config).unwrap();
        assert_eq!(model.latent().config.label_update, LabelUpdate::TwoStage);
        let parts = parts(&data, &model, &config);
        let found = model.predict(&table).unwrap();
        assert_eq!(found.names(), ["ring", "number", "line"]);
        for m in 0..3 {
            for row in (0..ROWS).step_by(7) {
                let expected = parts.score(m, row, &model);
                let off = (found.score(row, m) - expected).abs();
                let what = format!("{inputs:?}, task {m}, row {row}");
                assert!(off < 1e-4 * expected.abs().max(1.0), "{what}: {off}");
            }
            let p = found.probabilities(m);
            assert_eq!(p.is_none(), m == 1);
            for (p, x) in p.iter().flatten().zip(found.of_task(m)) {
                assert!((p - 1.0 / (1.0 + (-x).exp())).abs() < 1e-12);
            }
        }
        // Labels before numbers, a member at each cost that was tried.
        let n = parts.found.len();
        assert_eq!(model.members().len(), 2 * n);
        for (at, report) in model.members().iter().enumerate() {
            let (kind, found) = (at / n, &parts.found[at % n]);
            assert_eq!(report.numbers, kind == 1);
            assert_eq!(report.member, parts.blocks[found.block].member);
            assert_eq!(report.cost, found.cost);
            assert_eq!(report.stacking_weight, parts.stacks[kind][at % n]);
            // Cross entropies or half the squared errors, by the costs of the rows.
            let (mut loss, mut size) = (0.0, 0.0);
            for (m, goal) in parts.asked.goals.iter().enumerate() {
                if parts.asked.kind(m) != kind {
                    continue;
                }
                for (i, cost) in goal.costs.iter().enumerate() {
                    let x = found.scores[m][i];
                    loss += cost
                        * match &goal.targets {
                            TaskTargets::Binary(y) => {
                                (1.0 + (if y[i] { -x } else { x }).exp()).ln()
                            }
                            TaskTargets::Real(y) => 0.5 * (x - y[i]).powi(2),
                        };
                    size += cost;
                }
            }
            assert!((found.losses[kind] - loss).abs() < 1e-9 * loss.abs().max(1.0));
            let off = (report.held_out_loss - loss / size).abs();
            assert!(off < 1e-9, "{at}: {} {}", report.held_out_loss, loss / size);
        }
        // Members of each kind of inputs.
        let kinds = |of: fn(&Member) -> bool| model.members().iter().any(|r| of(&r.member));
        let linear = kinds(|m| *m == Member::Linear);
        let kernel = kinds(|m| matches!(m, Member::Rbf { .. }));
        assert_eq!(linear, inputs != LabelInputs::Rbf);
        assert_eq!(kernel, inputs != LabelInputs::Linear);
        if kernel {
            assert_eq!(parts.landmarks.len(), 17);
        }
    }
}

/// The largest F1 that probabilities lead to expect, over all numbers of yeses.
fn best_f1(scored: &[Scored]) -> f64 {
    let p: Vec<(f64, f64)> = scored
        .iter()
        .map(|s| (1.0 / (1.0 + (-s.0).exp()), s.2))
        .collect();
    let all: f64 = p.iter().map(|(p, w)| p * w).sum();
    let at = |cut: f64| {
        let called = p.iter().filter(|x| x.0 >= cut);
        let (hits, size) = called.fold((0.0, 0.0), |(h, s), (p, w)| (h + p * w, s + w));
        2.0 * hits / (size + all)
    };
    p.iter().map(|x| at(x.0)).fold(0.0, f64::max)
}

/// Thresholds of each kind of decisions, by trying all of them on held-out scores; numbers have none.
#[test]
fn thresholds_are_those_of_the_decisions() {
    let table = table();
    let data = data(&table);
    let of = |decisions| {
        let config = config(LabelInputs::Linear, decisions);
        let model = fit(&data, &config).unwrap();
        (model.latent().thresholds(), model, config)
    };
    let (accuracy, model, config) = of(Decisions::Accuracy);
    assert_eq!(accuracy, [0.0; 3]);
    let parts = parts(&data, &model, &config);
    let scored = |m: usize| {
        let mean = parts.asked.mean(&parts.found, &parts.stacks[0], m);
        let (_, held_out) = parts.asked.calibrate(m, mean);
        parts.asked.scored(m, &held_out)
    };
    let (ring, line) = (scored(0), scored(2));
    let ln_odds = |f1: f64| (0.5 * f1 / (1.0 - 0.5 * f1)).ln();
    let own = [ln_odds(best_f1(&ring)), ln_odds(best_f1(&line))];
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    let (each, ..) = of(Decisions::F1Macro);
    close(each[0], own[0]);
    close(each[2], own[1]);
    assert_eq!(each[1], 0.0);
    let together = ln_odds(best_f1(&[&ring[..], &line[..]].concat()));
    let (micro, ..) = of(Decisions::F1Micro);
    close(micro[0], together);
    close(micro[2], together);
    assert_eq!(micro[1], 0.0);
    // Half of the way, or as far as loses no more than .01 of the accuracy at 0.
    let right = |share: f64| {
        let of = |scored: &[Scored], at: f64| -> f64 {
            let right = scored.iter().filter(|s| (s.0 > share * at) == s.1);
            right.map(|s| s.2).sum()
        };
        of(&ring, own[0]) + of(&line, own[1])
    };
    let all: f64 = ring.iter().chain(&line).map(|s| s.2).sum();
    let allowed = |step: &u32| right(0.05 * f64::from(*step)) >= right(0.0) - 0.01 * all;
    let share = 0.05 * f64::from((0..=10).rev().find(allowed).unwrap());
    let (both, model, _) = of(Decisions::Both);
    close(both[0], share * own[0]);
    close(both[2], share * own[1]);
    let found = model.predict(&table).unwrap();
    for m in [0, 2] {
        let above: Vec<bool> = found.of_task(m).iter().map(|x| *x > both[m]).collect();
        assert_eq!(found.labels(m).unwrap(), above);
    }
    assert!(found.labels(1).is_none());
}

/// What a fit passes on of its features is that of the fit of the features; holes are filled by them.
#[test]
fn labels_pass_on_what_their_features_say() {
    let table = table();
    let data = data(&table);
    let config = config(LabelInputs::Select, Decisions::Accuracy);
    let model = fit(&data, &config).unwrap();
    let features = IlsvmConfig {
        label_update: LabelUpdate::TwoStage,
        ..config.latent.clone()
    };
    let alone = crate::tasks::fit(&data, &features).unwrap();
    assert_eq!(model.state(), alone.state());
    assert_eq!(model.columns(), alone.columns());
    assert_eq!(
        (model.stop(), model.trace()),
        (alone.stop, &alone.trace[..])
    );
    assert_eq!(model.task_names(), ["ring", "number", "line"]);
    assert_eq!(model.features(), model.latent().features());
    for (found, expected) in model.features().iter().zip(alone.features()) {
        assert_eq!(found.columns, expected.columns);
        assert_eq!(found.expected_use, expected.expected_use);
    }
    let mut cells = table.values().to_vec();
    (0..ROWS)
        .step_by(4)
        .for_each(|n| cells[n * 4 + n % 3] = f64::NAN);
    let holes = Table::from_nan_coded(ROWS, 4, &cells).unwrap();
    let filled = alone.filled(&holes).unwrap();
    let standard = alone.filled(&table).unwrap();
    // Units of the columns from two rows without holes.
    let unit = |d: usize| {
        let (a, b) = (table.row(1)[d], table.row(2)[d]);
        let scale = (a - b) / (standard[(d, 1)] - standard[(d, 2)]);
        (a - scale * standard[(d, 1)], scale)
    };
    let units = [0, 1, 2, 3].map(unit);
    let cell = |at: usize| units[at % 4].0 + units[at % 4].1 * filled[(at % 4, at / 4)];
    let whole = Table::complete(ROWS, 4, (0..ROWS * 4).map(cell).collect()).unwrap();
    let (a, b) = (
        model.predict(&holes).unwrap(),
        model.predict(&whole).unwrap(),
    );
    for m in 0..3 {
        for (a, b) in a.of_task(m).iter().zip(b.of_task(m)) {
            assert!((a - b).abs() < 1e-8 * b.abs().max(1.0), "{a} {b}");
        }
    }
    assert_ne!(a.of_task(0), model.predict(&table).unwrap().of_task(0));
}
