//! Members, held-out scores and stacks against other ways to the same numbers.

mod answers;

use npb_infer::stream;
use npb_linalg::faer::Mat;
use rand_distr::{Distribution, StandardNormal};

use super::calibration::Curve;
use super::config::{LabelInputs, LabelsConfig};
use super::held_out::{Found, HeldOutTargets};
use super::members::{Block, Member, blocks, combined};
use crate::inputs::Inputs;
use crate::loss::Slack;
use crate::machine::{Machine, MachineLimits};
use crate::tasks::{Goal, TaskTargets};

const WELL: MachineLimits = MachineLimits {
    tolerance: 1e-10,
    max_passes: 100_000,
};

/// D x N.
fn inputs(d: usize, n: usize, seed: u64) -> Mat<f64> {
    let rng = &mut stream(seed, [0; 4]);
    Mat::from_fn(d, n, |_, _| StandardNormal.sample(rng))
}

fn config(inputs: LabelInputs, landmarks: usize) -> LabelsConfig {
    LabelsConfig {
        inputs,
        landmarks,
        ..LabelsConfig::default()
    }
}

/// One label that is the sign of the sum of the first two inputs, but for some rows, with such costs.
fn asked(x: &Mat<f64>, costs: impl Fn(bool) -> f64) -> HeldOutTargets {
    let n = x.ncols();
    let positive: Vec<bool> = (0..n)
        .map(|n| (x[(0, n)] + x[(1, n)] > 0.3) != (n % 7 == 0))
        .collect();
    HeldOutTargets {
        goals: vec![Goal {
            places: (0..n).collect(),
            costs: positive.iter().map(|&y| costs(y)).collect(),
            targets: TaskTargets::Binary(positive),
        }],
        folds: (0..n).map(|n| n % 3).collect(),
        n_folds: 3,
        slack: Slack::Linear,
        epsilon: 0.1,
        ones: 1.0,
    }
}

/// Weights of a machine on all rows of a block at C = 1, and its scores.
fn solved(asked: &HeldOutTargets, block: &Block) -> (Vec<f64>, Vec<f64>) {
    let inputs = Inputs::dense(&block.rows, block.width).unwrap();
    let machine = Machine::new(inputs.with_ones(1.0).unwrap());
    let solution = asked.solve(&machine, (0, 1.0, None), None, &WELL).unwrap();
    let scores = (0..asked.folds.len()).map(|n| machine.inputs().score(n, &solution.weights));
    let scores = scores.collect();
    (solution.weights, scores)
}

/// Of a table with more columns than rows the machine sees rows in coordinates of their own: the same scores as on the columns, and the same weights of these.
#[test]
fn wide_tables_have_the_weights_of_their_columns() {
    let x = inputs(30, 12, 1);
    let none = Mat::zeros(0, 30);
    let (found, _) = blocks(&x, &none, &config(LabelInputs::Linear, 10)).unwrap();
    let wide = &found[0];
    assert!(wide.is_of_rows() && wide.width == 12);
    let rows: Vec<f64> = (0..12).flat_map(|n| x.col_as_slice(n)).copied().collect();
    let size = (npb_linalg::dot(&rows, &rows) / 12.0).sqrt();
    let rows: Vec<f64> = rows.iter().map(|v| v / size).collect();
    let asked = asked(&x, |_| 1.0);
    let machine = Machine::new(Inputs::dense(&rows, 30).unwrap().with_ones(1.0).unwrap());
    let primal = asked.solve(&machine, (0, 1.0, None), None, &WELL).unwrap();
    let (weights, scores) = solved(&asked, wide);
    let of_columns = combined(&x, &wide.unfold(&weights));
    for (d, w) in of_columns.iter().enumerate() {
        assert!((w - primal.weights[d] / size).abs() < 1e-6);
    }
    for (n, score) in scores.iter().enumerate() {
        assert!((score - machine.inputs().score(n, &primal.weights)).abs() < 1e-6);
        let by_columns = npb_linalg::dot(&of_columns, x.col_as_slice(n)) + weights[12];
        assert!((score - by_columns).abs() < 1e-6);
    }
}

/// Inner products of mapped rows are the kernel, between landmarks exactly; and scores are sums of it over landmarks.
#[test]
fn mapped_rows_have_the_inner_products_of_the_kernel() {
    let x = inputs(4, 25, 2);
    let none = Mat::zeros(0, 4);
    for landmarks in [25, 9] {
        let (found, chosen) = blocks(&x, &none, &config(LabelInputs::Rbf, landmarks)).unwrap();
        assert_eq!((found.len(), chosen.len()), (2, landmarks));
        for block in &found {
            let Member::Rbf { gamma } = block.member else {
                panic!("a kernel");
            };
            let kernel = |i: usize, j: usize| -> f64 {
                let square = (0..4).map(|d| (x[(d, i)] - x[(d, j)]).powi(2));
                (-gamma * square.sum::<f64>()).exp()
            };
            let row = |n: usize| &block.rows[n * block.width..][..block.width];
            let scale = npb_linalg::dot(row(chosen[0]), row(chosen[0]));
            for (&i, &j) in chosen.iter().zip(chosen.iter().rev()) {
                let product = npb_linalg::dot(row(i), row(j)) / scale;
                assert!((product - kernel(i, j)).abs() < 1e-6, "{product}");
            }
            let (weights, scores) = solved(&asked(&x, |_| 1.0), block);
            let own = block.unfold(&weights);
            for (n, score) in scores.iter().enumerate() {
                let each = own.iter().zip(&chosen).map(|(a, &i)| a * kernel(n, i));
                let sum = each.sum::<f64>() + weights[block.width];
                assert!((sum - score).abs() < 1e-6, "{sum} {score}");
            }
        }
        // The narrow one looks three times as near, squared; the wide one at the median distance.
        let gammas: Vec<f64> = (found.iter())
            .map(|block| match block.member {
                Member::Rbf { gamma } => gamma,
                _ => 0.0,
            })
            .collect();
        assert!((gammas[1] / gammas[0] - 3.0).abs() < 1e-12);
        let mut all: Vec<f64> = (chosen.iter().enumerate())
            .flat_map(|(k, &i)| chosen[..k].iter().map(move |&j| (i, j)))
            .map(|(i, j)| (0..4).map(|d| (x[(d, i)] - x[(d, j)]).powi(2)).sum())
            .collect();
        all.sort_by(f64::total_cmp);
        assert!((gammas[0] * all[all.len() / 2] - 1.0).abs() < 1e-12);
    }
}

/// Rows of a fold that cost nothing are rows that are not there, and costs are copies.
#[test]
fn held_out_scores_are_those_of_fits_without_the_rows() {
    let x = inputs(3, 40, 3);
    let none = Mat::zeros(0, 3);
    let (found, _) = blocks(&x, &none, &config(LabelInputs::Linear, 10)).unwrap();
    let block = &found[0];
    let asked = asked(&x, |yes| if yes { 3.0 } else { 1.0 });
    let own = asked.at_costs((0, block), &[0.5], |_, _| {
        std::ops::ControlFlow::Continue(())
    });
    let own = own.unwrap().unwrap();
    let TaskTargets::Binary(positive) = &asked.goals[0].targets else {
        panic!("a label");
    };
    let inputs = Inputs::dense(&block.rows, 3).unwrap();
    let all = Machine::new(inputs.with_ones(1.0).unwrap());
    let curve = own[0].curves[0];
    for fold in 0..3 {
        let kept = (0..40).filter(|n| n % 3 != fold);
        let kept = kept.flat_map(|n| vec![n; if positive[n] { 3 } else { 1 }]);
        let kept: Vec<usize> = kept.collect();
        let row = |&n: &usize| block.rows[n * 3..][..3].iter().copied();
        let rows: Vec<f64> = kept.iter().flat_map(row).collect();
        let machine = Machine::new(Inputs::dense(&rows, 3).unwrap().with_ones(1.0).unwrap());
        let labels: Vec<bool> = kept.iter().map(|&n| positive[n]).collect();
        let problem = crate::Problem {
            targets: crate::Targets::Binary {
                positive: &labels,
                slack: Slack::Linear,
            },
            costs: &vec![0.5; kept.len()],
        };
        let weights = machine.solve(&problem, None, &WELL).unwrap().weights;
        let same = asked.solve(&all, (0, 0.5, Some(fold)), None, &WELL);
        for (a, b) in same.unwrap().weights.iter().zip(&weights) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        // In folds machines are solved to a hundredth of their objective.
        for n in (fold..40).step_by(3) {
            let found = (own[0].scores[0][n] - curve.offset) / curve.slope;
            assert!((found - all.inputs().score(n, &weights)).abs() < 0.3);
        }
    }
    let copies: Vec<(f64, bool, f64)> = (0..40)
        .flat_map(|n| {
            vec![
                (
                    (own[0].scores[0][n] - curve.offset) / curve.slope,
                    positive[n],
                    1.0
                );
                if positive[n] { 3 } else { 1 }
            ]
        })
        .collect();
    let other = Curve::fit(&copies);
    assert!((other.slope - curve.slope).abs() < 1e-6 && (other.offset - curve.offset).abs() < 1e-6);
}

/// Twenty draws are the best of all ways to share twenty among three members, or next to it, and what carries nothing gets nothing.
#[test]
fn stacks_are_about_the_best_of_all() {
    let x = inputs(3, 60, 4);
    let asked = asked(&x, |_| 1.0);
    let TaskTargets::Binary(positive) = &asked.goals[0].targets else {
        panic!("a label");
    };
    let rng = &mut stream(5, [0; 4]);
    let mut member = |signal: f64| {
        let noise = |y: &bool| {
            let e: f64 = StandardNormal.sample(rng);
            signal * if *y { 1.0 } else { -1.0 } + e
        };
        Found {
            block: 0,
            cost: 1.0,
            losses: [0.0; 2],
            scores: vec![positive.iter().map(noise).collect()],
            curves: Vec::new(),
        }
    };
    let members = [member(1.0), member(0.8), member(-0.5)];
    let loss = |weights: &[f64]| -> f64 {
        let mean = asked.mean(&members, weights, 0);
        let each = mean
            .iter()
            .zip(positive)
            .map(|(x, y)| (1.0 + (if *y { -x } else { *x }).exp()).ln());
        each.sum()
    };
    let found = asked.stack(&members, 0);
    assert!(
        (found.iter().sum::<f64>() - 1.0).abs() < 1e-12 && found[2] == 0.0,
        "{found:?}"
    );
    let all = (0..=20)
        .flat_map(|a| (0..=20 - a).map(move |b| [a, b, 20 - a - b].map(|n| f64::from(n) / 20.0)));
    let best = all.map(|w| loss(&w)).fold(f64::INFINITY, f64::min);
    assert!(loss(&found) < best + 0.02, "{} {best}", loss(&found));
    assert!(best < loss(&[1.0, 0.0, 0.0]) - 0.5);
}
