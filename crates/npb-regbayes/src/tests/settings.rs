//! Settings of the factor model and of the alternation, each beside its closed form or the updates that it stands for.

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, dot};
use npb_priors::GammaPrior;

use super::*;
use crate::classes::{ClassMargins, PreparedClasses, problem_of};
use crate::config::{IbpConcentration, IlsvmConfig, LabelUpdate, Start};
use crate::factors::{Factors, Items};
use crate::state::{FeatureState, Spread};
use crate::tasks::{PreparedTasks, TaskMargins};

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    let off = (found - expected).abs();
    assert!(
        off <= 1e-8 * expected.abs().max(1.0),
        "{what}: {found} for {expected}"
    );
}

fn small(truncation: usize) -> FeatureConfig {
    FeatureConfig {
        truncation,
        max_truncation: truncation,
        growth: 0,
        ..FeatureConfig::default()
    }
}

/// Even starts have log-odds of 0, signed ones those of the leading direction, each with noise of the spread that was asked for.
#[test]
fn starts_are_even_or_signed_directions_with_noise() {
    let rng = &mut case(700);
    let table = table(400, 6, 0.0, rng);
    let items = Items::from_rows(&table);
    let started = |start: Start, seed: u64| {
        let config = FeatureConfig { start, ..small(2) };
        Factors::start(&items, config, seed).unwrap().state
    };
    let even = started(Start::Even { noise: 0.0 }, 1);
    assert!((0..400).all(|i| even.indicators.col_as_slice(i) == [0.5; 2]));
    // The leading direction of the rows, by powers.
    let row = |i: usize| table.row(i);
    let mut right = vec![1.0; 6];
    let mut left = vec![0.0; 400];
    for _ in 0..3000 {
        left = (0..400).map(|i| dot(row(i), &right)).collect();
        let length = dot(&left, &left).sqrt();
        left.iter_mut().for_each(|x| *x /= length);
        right = (0..6)
            .map(|d| (0..400).map(|i| left[i] * row(i)[d]).sum())
            .collect();
    }
    let largest = left
        .iter()
        .fold(0.0, |m: f64, x| if x.abs() > m.abs() { *x } else { m });
    if largest < 0.0 {
        left.iter_mut().for_each(|x| *x = -*x);
    }
    let signed = started(Start::SignedSvd { noise: 0.0 }, 1);
    for (i, x) in left.iter().enumerate() {
        // Twice the root mean square of a direction of length 1.
        let p = |x: f64| (x * 20.0 / 2.0).clamp(0.05, 0.95);
        assert!((signed.indicators[(0, i)] - p(*x)).abs() < 1e-6);
        assert!((signed.indicators[(1, i)] - p(-x)).abs() < 1e-6);
    }
    let ln_odds = |p: f64| (p / (1.0 - p)).ln();
    for (start, from) in [
        (Start::Even { noise: 0.8 }, &even),
        (Start::SignedSvd { noise: 0.3 }, &signed),
    ] {
        let (Start::Even { noise } | Start::SignedSvd { noise }) = start;
        let noisy = started(start, 1);
        assert_ne!(noisy, started(start, 2));
        let square: f64 = (0..400)
            .flat_map(|i| [(0, i), (1, i)])
            .map(|at| (ln_odds(noisy.indicators[at]) - ln_odds(from.indicators[at])).powi(2))
            .sum();
        let sd = (square / 800.0).sqrt();
        assert!((sd / noise - 1.0).abs() < 0.1, "{sd} {noise}");
    }
}

/// E |x - W z|^2 over what is observed, cell by cell.
fn squares(state: &FeatureState, table: &Table) -> f64 {
    let k = state.n_features();
    let mut total = 0.0;
    for n in 0..table.n_rows() {
        for (d, x) in table.observed_in_row(n) {
            let (psi, m) = (
                state.indicators.col_as_slice(n),
                state.loadings.col_as_slice(d),
            );
            total += x * x - 2.0 * x * dot(psi, m);
            for a in 0..k {
                for b in 0..k {
                    let on = if a == b { psi[a] } else { psi[a] * psi[b] };
                    let spread = match &state.spread {
                        Spread::Shared(s) => s[(a, b)],
                        Spread::Own(v) if a == b => v[(a, d)],
                        Spread::Own(_) => 0.0,
                    };
                    total += on * (m[a] * m[b] + spread);
                }
            }
        }
    }
    total
}

/// Covariances of all forms, variances and the concentration by their closed forms, or as they were given; the weight of the inputs counts in the loadings alone.
#[test]
fn scales_and_covariances_have_their_closed_forms() {
    for (number, missing) in [(710, 0.0), (711, 0.3)] {
        for covariance in [
            LoadingCovariance::Full,
            LoadingCovariance::Diagonal,
            LoadingCovariance::Isotropic,
        ] {
            let rng = &mut case(number);
            let table = table(30, 5, missing, rng);
            let items = Items::from_rows(&table);
            let prior = GammaPrior {
                shape: 2.5,
                rate: 4.0,
            };
            let config = FeatureConfig {
                covariance,
                input_weight: 0.4,
                concentration: IbpConcentration::Learned { prior },
                ..small(3)
            };
            let mut factors = Factors::start(&items, config, 1).unwrap();
            near(factors.state.sticks.alpha(), 2.5 / 4.0, "mean of the prior");
            for _ in 0..3 {
                factors.sweep(1, None).unwrap();
            }
            let what = format!("{covariance:?}, missing {missing}");
            let state = factors.state.clone();
            // At rest: one loading is found after the other where there are holes.
            for _ in 0..300 {
                factors.update_loadings(1).unwrap();
            }
            let precision = 0.4 / state.noise_variance;
            for d in 0..5 {
                let seen: Vec<usize> = (0..30).filter(|&n| table.is_observed(n, d)).collect();
                let psi = |n: usize| state.indicators.col_as_slice(n);
                // E[Z'Z] of the rows that are seen, and its diagonal.
                let second = |a: usize, b: usize| -> f64 {
                    let term = |&n: &usize| {
                        if a == b {
                            psi(n)[a]
                        } else {
                            psi(n)[a] * psi(n)[b]
                        }
                    };
                    seen.iter().map(term).sum()
                };
                let one = |a: usize, b: usize| {
                    precision * second(a, b)
                        + if a == b {
                            1.0 / state.loading_variance
                        } else {
                            0.0
                        }
                };
                let variance = |a: usize| match &factors.state.spread {
                    Spread::Shared(s) => s[(a, a)],
                    Spread::Own(v) => v[(a, d)],
                };
                let full = covariance == LoadingCovariance::Full && missing == 0.0;
                let inverse = Cholesky::new(Mat::from_fn(3, 3, one).as_ref())
                    .unwrap()
                    .inverse();
                for a in 0..3 {
                    let expected = match covariance {
                        _ if full => inverse[(a, a)],
                        LoadingCovariance::Isotropic => {
                            3.0 / (0..3).map(|b| one(b, b)).sum::<f64>()
                        }
                        _ => 1.0 / one(a, a),
                    };
                    near(variance(a), expected, &what);
                }
                let mut mean: Vec<f64> = (0..3)
                    .map(|a| {
                        let term = |&n: &usize| psi(n)[a] * table.row(n)[d];
                        precision * seen.iter().map(term).sum::<f64>()
                    })
                    .collect();
                Cholesky::new(Mat::from_fn(3, 3, one).as_ref())
                    .unwrap()
                    .solve(&mut mean);
                for a in 0..3 {
                    near(factors.state.loadings[(a, d)], mean[a], &what);
                }
            }
            factors.update_noise();
            let noise = squares(&factors.state, &table) / items.n_observed as f64;
            near(factors.state.noise_variance, noise, &what);
            factors.update_loading_scale();
            let mut sum = 0.0;
            for d in 0..5 {
                for a in 0..3 {
                    sum += factors.state.loadings[(a, d)].powi(2);
                    sum += match &factors.state.spread {
                        Spread::Shared(s) => s[(a, a)],
                        Spread::Own(v) => v[(a, d)],
                    };
                }
            }
            near(factors.state.loading_variance, sum / 15.0, &what);
            factors.update_concentration();
            let mut ln_weights = vec![0.0; 3];
            factors.state.sticks.expected_ln_weights(&mut ln_weights);
            let alpha = (2.5 - 1.0 + 3.0) / (4.0 - ln_weights[2]);
            near(factors.state.sticks.alpha(), alpha, &what);
            // What is given stays.
            let config = FeatureConfig {
                noise_variance: Variance::Fixed(0.37),
                loading_variance: Variance::Fixed(2.3),
                concentration: IbpConcentration::Fixed(1.9),
                ..config
            };
            let mut fixed = Factors::start(&items, config, 1).unwrap();
            for _ in 0..3 {
                fixed.sweep(1, None).unwrap();
            }
            let state = &fixed.state;
            assert_eq!((state.noise_variance, state.loading_variance), (0.37, 2.3));
            assert_eq!(state.sticks.alpha(), 1.9);
        }
    }
}

/// Sweeps before labels are looked at, as many as were asked for, and then features that are in use; growth tries so many, up to the most.
#[test]
fn features_begin_with_sweeps_of_the_inputs() {
    let rng = &mut case(720);
    let table = table(40, 6, 0.1, rng);
    let labels = classes(&table, rng);
    let data = tasks(&table, rng);
    for warm_up in [0, 4] {
        let factors = FeatureConfig {
            warm_up,
            ..small(4)
        };
        let config = IlsvmConfig {
            factors,
            seed: 6,
            ..IlsvmConfig::default()
        };
        let expected = |items: &Items| {
            let mut factors = Factors::start(items, config.factors, 6).unwrap();
            (0..warm_up).for_each(|_| factors.sweep(0, None).unwrap());
            let used = factors.state.expected_use();
            let mut order: Vec<usize> = (0..used.len()).filter(|&k| used[k] >= 0.5).collect();
            order.sort_by(|&a, &b| used[b].total_cmp(&used[a]));
            let psi = factors.state.indicators;
            Mat::from_fn(order.len(), psi.ncols(), |k, i| psi[(order[k], i)])
        };
        let prepared = PreparedClasses::new(&table, &labels, &config).unwrap();
        let found = &prepared.0;
        assert_eq!(found.state.indicators, expected(&found.items));
        let prepared = PreparedTasks::new(&data, &config).unwrap();
        let found = &prepared.core;
        assert_eq!(found.state.indicators, expected(&found.items));
    }
    let items = Items::from_rows(&table);
    let started = |truncation: usize, max_truncation: usize, growth: usize| {
        let config = FeatureConfig {
            truncation,
            max_truncation,
            growth,
            ..small(truncation)
        };
        let factors = Factors::start(&items, config, 6).unwrap();
        assert_eq!(factors.state.n_features(), truncation);
        let grown = factors.grown(0, None).unwrap();
        grown.map_or(truncation, |grown| grown.state.n_features())
    };
    assert_eq!(started(2, 20, 3), 5);
    assert_eq!(started(2, 4, 3), 4);
    assert_eq!(started(2, 20, 0), 2);
    // A quarter of those there are.
    assert_eq!(started(12, 20, 1), 15);
    // All of it in a fit.
    let config = IlsvmConfig {
        factors: FeatureConfig {
            max_truncation: 3,
            growth: 2,
            ..small(1)
        },
        ..IlsvmConfig::default()
    };
    let fit = crate::classes::fit(&table, &labels, &config).unwrap();
    assert!(fit.state().n_features() <= 3);
}

/// The objective is the primal of the machines times the weight of the labels, less the bound of the inputs: with losses and norms one by one.
#[test]
fn the_objective_weighs_labels_against_inputs() {
    let rng = &mut case(730);
    let table = table(30, 5, 0.0, rng);
    let config = IlsvmConfig {
        label_weight: 0.3,
        cost: 0.8,
        ones: 0.5,
        epsilon: 0.2,
        factors: small(3),
        ..IlsvmConfig::default()
    };
    let data = tasks(&table, rng);
    let prepared = PreparedTasks::new(&data, &config).unwrap();
    let problem = prepared.problem(&data.tasks, &config);
    let mut run = prepared
        .core
        .alternation(TaskMargins::new(problem), &config);
    run.solve().unwrap();
    run.iterate(1).unwrap();
    let state = &run.factors.state;
    let k = state.n_features();
    let mut total = 0.0;
    for (task, solution) in data.tasks.iter().zip(&run.labels.solutions) {
        let w = &solution.weights;
        total += 0.5 * dot(w, w);
        for (i, &n) in task.rows.iter().enumerate() {
            let x = prepared.core.inputs.col_as_slice(n);
            let feature = |a: usize| (0..5).map(|d| state.indicators[(a, d)] * x[d]).sum::<f64>();
            let score = (0..k).map(|a| w[a] * feature(a)).sum::<f64>() + 0.5 * w[k];
            total += 0.8
                * match &task.targets {
                    crate::tasks::TaskTargets::Binary(y) => {
                        (1.0 - if y[i] { score } else { -score }).max(0.0)
                    }
                    crate::tasks::TaskTargets::Real(y) => {
                        let y = (y[i] - prepared.units.0) / prepared.units.1;
                        ((y - score).abs() - 0.2).max(0.0)
                    }
                };
        }
    }
    near(run.objective(), 0.3 * total - run.factors.elbo(), "tasks");
    let labels = classes(&table, rng);
    let prepared = PreparedClasses::new(&table, &labels, &config).unwrap();
    let problem = problem_of(&prepared, &labels, &config);
    let mut run = prepared.0.alternation(ClassMargins::new(problem), &config);
    run.solve().unwrap();
    run.iterate(1).unwrap();
    let state = &run.factors.state;
    let k = state.n_features();
    let w = run.labels.solution.as_ref().unwrap().weights.clone();
    let mut total = 0.5 * dot(&w, &w);
    for (n, code) in labels.codes().iter().enumerate() {
        let Some(own) = *code else { continue };
        let psi = state.indicators.col_as_slice(n);
        let score = |y: usize| dot(&w[y * (k + 1)..][..k], psi) + 0.5 * w[y * (k + 1) + k];
        let others = (0..labels.n_classes()).filter(|&y| y != own);
        let missing = others.map(|y| 1.0 - score(own) + score(y));
        total += 0.8 * missing.fold(0.0, f64::max);
    }
    near(run.objective(), 0.3 * total - run.factors.elbo(), "classes");
    let two_stage = IlsvmConfig {
        label_update: LabelUpdate::TwoStage,
        ..config
    };
    let problem = problem_of(&prepared, &labels, &two_stage);
    let run = prepared
        .0
        .alternation(ClassMargins::new(problem), &two_stage);
    near(run.objective(), -run.factors.elbo(), "two stages");
}

/// An iteration makes as many sweeps as were asked for, unless the objective rests, and then learns the scales.
#[test]
fn iterations_make_so_many_sweeps() {
    let rng = &mut case(740);
    let table = table(30, 5, 0.0, rng);
    let labels = classes(&table, rng);
    let mut states = Vec::new();
    for inner_sweeps in [1, 3] {
        let config = IlsvmConfig {
            inner_sweeps,
            factors: FeatureConfig {
                warm_up: 1,
                ..small(3)
            },
            ..IlsvmConfig::default()
        };
        let prepared = PreparedClasses::new(&table, &labels, &config).unwrap();
        let run = || {
            let problem = problem_of(&prepared, &labels, &config);
            let mut run = prepared.0.alternation(ClassMargins::new(problem), &config);
            run.solve().unwrap();
            run
        };
        let (mut by_step, mut by_hand) = (run(), run());
        by_step.iterate(1).unwrap();
        for _ in 0..inner_sweeps {
            let (_, moved) = by_hand.sweep(1).unwrap();
            assert!(moved);
        }
        by_hand.factors.update_noise();
        by_hand.factors.update_loading_scale();
        by_hand.factors.update_concentration();
        let (a, b) = (by_step.factors.state, by_hand.factors.state);
        assert_eq!(a.noise_variance, b.noise_variance);
        assert_eq!(a.sticks.alpha(), b.sticks.alpha());
        states.push(a.noise_variance);
    }
    assert_ne!(states[0], states[1]);
}
