//! The max-margin machine: against a reference library, its own optimality, warm starts, threads, bad input.

use npb_data::{Rating, Ratings};
use npb_regbayes::{
    Inputs, Machine, MachineLimits, MachineStop, Problem, RegBayesError, Slack, Solution, Targets,
};

const ROWS: usize = 90;
const COLUMNS: usize = 7;
const CLASSES: usize = 4;
const EXACT: MachineLimits = MachineLimits {
    tolerance: 1e-8,
    max_passes: 100_000,
};

/// The rows of `benches/scikit_learn_machines.py`.
struct Rows {
    x: Vec<f64>,
    score: Vec<f64>,
    positive: Vec<bool>,
    classes: Vec<u32>,
    costs: Vec<f64>,
}

fn rows() -> Rows {
    let x: Vec<f64> = (0..ROWS * COLUMNS)
        .map(|k| ((k / COLUMNS) as f64, (k % COLUMNS) as f64))
        .map(|(n, j)| (1.3 * n + 0.7 * j * j + 0.1 * n * j).sin())
        .collect();
    let row = |n: usize| &x[n * COLUMNS..][..COLUMNS];
    let score: Vec<f64> = (0..ROWS)
        .map(|n| row(n)[0] - 0.8 * row(n)[1] + (2.1 * n as f64).cos())
        .collect();
    let positive: Vec<bool> = score.iter().map(|&s| s > 0.2).collect();
    let class = |n: usize| {
        let score = |y: usize| row(n)[y] + 0.5 * (2.1 * n as f64 + 1.7 * y as f64).cos();
        (0..CLASSES).max_by(|&a, &b| score(a).total_cmp(&score(b)))
    };
    let cost = |n: usize| if positive[n] { 2.0 } else { 0.5 } * (1 + n % 3) as f64;
    Rows {
        classes: (0..ROWS).map(|n| class(n).unwrap() as u32).collect(),
        costs: (0..ROWS).map(cost).collect(),
        x,
        score,
        positive,
    }
}

impl Rows {
    fn binary(&self, slack: Slack) -> Targets<'_> {
        Targets::Binary {
            positive: &self.positive,
            slack,
        }
    }

    fn real(&self, slack: Slack) -> Targets<'_> {
        Targets::Real {
            values: &self.score,
            epsilon: 0.3,
            slack,
        }
    }

    fn classes(&self, slack: Slack) -> Targets<'_> {
        Targets::Classes {
            classes: &self.classes,
            n_classes: CLASSES,
            margin: 1.0,
            slack,
        }
    }

    fn all_targets(&self) -> Vec<Targets<'_>> {
        [Slack::Linear, Slack::Squared]
            .into_iter()
            .flat_map(|slack| [self.binary(slack), self.real(slack), self.classes(slack)])
            .collect()
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs::dense(&self.x, COLUMNS).unwrap()
    }

    fn solve(&self, targets: Targets<'_>, costs: &[f64]) -> Solution {
        let problem = Problem { targets, costs };
        let machine = Machine::new(self.inputs());
        machine.solve(&problem, None, &EXACT).unwrap()
    }
}

#[test]
fn objectives_are_those_of_a_reference_library() {
    let rows = rows();
    let scaled = |c: f64| rows.costs.iter().map(|r| c * r).collect::<Vec<_>>();
    let (linear, squared) = (Slack::Linear, Slack::Squared);
    let cases = [
        (rows.binary(linear), scaled(0.1), 7.475554214251391),
        (rows.binary(linear), scaled(10.0), 584.9059873281258),
        (rows.binary(squared), scaled(0.1), 7.808245029021718),
        (rows.binary(squared), scaled(10.0), 715.8827618242811),
        (rows.real(linear), vec![0.1; ROWS], 3.827017449843681),
        (rows.real(linear), vec![10.0; ROWS], 325.5991185306639),
        (rows.real(squared), vec![0.1; ROWS], 2.517685926013033),
        (rows.real(squared), vec![10.0; ROWS], 181.31169570629615),
        (rows.classes(linear), vec![0.1; ROWS], 6.92764187197778),
        (rows.classes(linear), vec![10.0; ROWS], 494.3193232523548),
    ];
    for (targets, costs, theirs) in cases {
        let ours = rows.solve(targets, &costs);
        assert_eq!(ours.stop, MachineStop::Converged, "{targets:?}");
        assert!(ours.gap() <= 1e-8, "gap {}", ours.gap());
        let difference = (ours.primal - theirs) / theirs;
        assert!(difference.abs() < 1e-6, "{targets:?}: {ours:?} {theirs}");
    }
}

/// The parts of the gap, computed from what is returned and nothing else: `|w|^2 / 2 + sum C loss` at `w = sum_n duals_n x_n`.
#[test]
fn weights_are_the_sum_of_rows_times_duals_and_the_primal_is_theirs() {
    let rows = rows();
    let inputs = rows.inputs().with_ones(0.5).unwrap();
    let machine = Machine::new(inputs);
    for targets in rows.all_targets() {
        let costs = &rows.costs[..];
        let problem = Problem { targets, costs };
        let found = machine.solve(&problem, None, &EXACT).unwrap();
        let (scores, width) = (targets.n_scores(), inputs.n_weights());
        let mut weights = vec![0.0; scores * width];
        for n in 0..ROWS {
            for s in 0..scores {
                let dual = found.duals[n * scores + s];
                for j in 0..width {
                    let x = if j < COLUMNS {
                        rows.x[n * COLUMNS + j]
                    } else {
                        0.5
                    };
                    weights[s * width + j] += dual * x;
                }
            }
        }
        for (a, b) in weights.iter().zip(&found.weights) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
        let losses = (0..ROWS).map(|n| {
            let scores: Vec<f64> = weights.chunks(width).map(|w| inputs.score(n, w)).collect();
            costs[n] * targets.loss(n, &scores)
        });
        let primal = 0.5 * npb_linalg::dot(&weights, &weights) + losses.sum::<f64>();
        assert!((primal - found.primal).abs() < 1e-9 * primal);
        // The dual of the duals that are returned, which are in their ranges: together with the primal a proof of the gap.
        let mut dual = -0.5 * npb_linalg::dot(&weights, &weights);
        for n in 0..ROWS {
            let own = &found.duals[n * scores..][..scores];
            let (earned, size, slack) = match targets {
                Targets::Binary { positive, slack } => {
                    let omega = if positive[n] { own[0] } else { -own[0] };
                    assert!(omega >= 0.0);
                    (omega, omega, slack)
                }
                Targets::Real {
                    values,
                    epsilon,
                    slack,
                } => {
                    let size = own[0].abs();
                    (values[n] * own[0] - epsilon * size, size, slack)
                }
                Targets::Classes {
                    classes,
                    margin,
                    slack,
                    ..
                } => {
                    let class = classes[n] as usize;
                    let wrong = (0..scores).filter(|&y| y != class).map(|y| -own[y]);
                    assert!(wrong.clone().all(|omega| omega >= 0.0));
                    let sum: f64 = wrong.sum();
                    assert!((sum - own[class]).abs() < 1e-12 * (1.0 + sum));
                    (margin * sum, sum, slack)
                }
            };
            dual += earned
                - match slack {
                    Slack::Linear => {
                        assert!(size <= costs[n] * (1.0 + 1e-12));
                        0.0
                    }
                    Slack::Squared => size * size / (4.0 * costs[n]),
                };
        }
        assert!(
            primal - dual <= 1.01e-8 * primal,
            "{:?} {primal} {dual}",
            found.stop
        );
        assert!((dual - found.dual).abs() < 1e-9 * primal);
    }
}

#[test]
fn sparse_rows_are_dense_rows_with_zeros() {
    let mut rows = rows();
    rows.x
        .iter_mut()
        .filter(|x| **x < 0.1)
        .for_each(|x| *x = 0.0);
    rows.x[5 * COLUMNS..6 * COLUMNS].fill(0.0); // An empty row.
    let entries: Vec<Rating> = (0..ROWS * COLUMNS)
        .filter(|&k| rows.x[k] != 0.0)
        .map(|k| Rating {
            row: (k / COLUMNS) as u32,
            column: (k % COLUMNS) as u32,
            value: rows.x[k],
        })
        .collect();
    let sparse = Ratings::new(ROWS, COLUMNS, &entries).unwrap();
    for ones in [0.0, 1.0] {
        let solve = |inputs: Inputs<'_>, targets| {
            let machine = Machine::new(inputs.with_ones(ones).unwrap());
            let costs = &rows.costs[..];
            machine.solve(&Problem { targets, costs }, None, &EXACT)
        };
        for targets in rows.all_targets() {
            let dense = solve(rows.inputs(), targets).unwrap();
            let sparse = solve(Inputs::sparse(&sparse), targets).unwrap();
            assert_eq!(dense.stop, MachineStop::Converged, "{targets:?}");
            let size = dense.primal;
            assert!((dense.primal - sparse.primal).abs() < 2e-8 * size);
        }
    }
}

#[test]
fn a_warm_start_is_the_same_solution_sooner() {
    let rows = rows();
    let machine = Machine::new(rows.inputs());
    for targets in rows.all_targets() {
        let costs = |c: f64| vec![c; ROWS];
        let solve = |costs: &[f64], warm: Option<&Solution>| {
            machine
                .solve(&Problem { targets, costs }, warm, &EXACT)
                .unwrap()
        };
        let first = solve(&costs(1.0), None);
        assert_eq!(solve(&costs(1.0), Some(&first)).passes, 0.0);
        // Smaller costs cut the duals off, larger ones leave them room.
        for c in [0.7, 1.3] {
            let (cold, warm) = (solve(&costs(c), None), solve(&costs(c), Some(&first)));
            assert!((cold.primal - warm.primal).abs() < 2e-8 * cold.primal);
        }
    }
}

#[test]
fn rows_of_cost_zero_take_no_part() {
    let rows = rows();
    let half = ROWS / 2;
    for targets in rows.all_targets() {
        let mut costs = vec![1.0; ROWS];
        costs[half..].fill(0.0);
        let masked = rows.solve(targets, &costs);
        let short = match targets {
            Targets::Binary { positive, slack } => Targets::Binary {
                positive: &positive[..half],
                slack,
            },
            Targets::Real {
                values,
                epsilon,
                slack,
            } => Targets::Real {
                values: &values[..half],
                epsilon,
                slack,
            },
            Targets::Classes {
                classes,
                n_classes,
                margin,
                slack,
            } => Targets::Classes {
                classes: &classes[..half],
                n_classes,
                margin,
                slack,
            },
        };
        let machine = Machine::new(Inputs::dense(&rows.x[..half * COLUMNS], COLUMNS).unwrap());
        let problem = Problem {
            targets: short,
            costs: &costs[..half],
        };
        let alone = machine.solve(&problem, None, &EXACT).unwrap();
        assert!((masked.primal - alone.primal).abs() < 2e-8 * alone.primal);
        // Nothing costs anything: nothing is learned.
        let nothing = rows.solve(targets, &vec![0.0; ROWS]);
        assert_eq!((nothing.primal, nothing.gap()), (0.0, 0.0));
        assert!(nothing.weights.iter().all(|&w| w == 0.0));
    }
}

#[test]
fn bad_input_is_named() {
    let rows = rows();
    let costs = vec![1.0; ROWS];
    let machine = Machine::new(rows.inputs());
    let error = |targets: Targets<'_>, costs: &[f64]| {
        let problem = Problem { targets, costs };
        let solved = machine.solve(&problem, None, &EXACT);
        solved.unwrap_err().to_string()
    };
    let linear = Slack::Linear;
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let mut costs = costs.clone();
        costs[3] = bad;
        assert!(error(rows.binary(linear), &costs).starts_with("costs, row 3"));
        let mut values = rows.score.clone();
        values[4] = if bad == -1.0 { f64::NEG_INFINITY } else { bad };
        let targets = Targets::Real {
            values: &values,
            epsilon: 0.1,
            slack: linear,
        };
        assert!(error(targets, &vec![1.0; ROWS]).starts_with("targets, row 4"));
        let mut x = rows.x.clone();
        x[COLUMNS + 2] = values[4];
        let message = Inputs::dense(&x, COLUMNS).unwrap_err().to_string();
        assert!(message.starts_with("inputs, row 1, column 2"), "{message}");
    }
    let targets = Targets::Classes {
        classes: &rows.classes,
        n_classes: 3,
        margin: 1.0,
        slack: linear,
    };
    assert!(error(targets, &costs).contains("class 3 does not exist"));
    assert!(error(rows.binary(linear), &costs[1..]).starts_with("costs: 89"));
    let short = Targets::Binary {
        positive: &rows.positive[1..],
        slack: linear,
    };
    assert!(error(short, &costs).starts_with("targets: 89"));
    let limits = MachineLimits {
        tolerance: f64::NAN,
        ..EXACT
    };
    let problem = Problem {
        targets: rows.binary(linear),
        costs: &costs,
    };
    let solved = machine.solve(&problem, None, &limits);
    assert!(matches!(solved, Err(RegBayesError::Config(_))));
    assert!(Inputs::dense(&rows.x[1..], COLUMNS).is_err());
    assert!(rows.inputs().with_ones(-1.0).is_err());
    // A single class has nothing to learn, which is no error.
    let targets = Targets::Classes {
        classes: &[0; ROWS],
        n_classes: 1,
        margin: 1.0,
        slack: linear,
    };
    assert_eq!(rows.solve(targets, &costs).primal, 0.0);
}
