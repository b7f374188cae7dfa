//! Numbers of clusters and factors, missing cells and classes are found again.

use npb_data::{Labels, Table, metrics};
use npb_infer::{VbLimits, stream};
use npb_iqgme::{FactorConfig, FactorFit, FactorInit, FeatureScale, Saved, fit_factor};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::data::Simulation;

fn three_clusters() -> Simulation {
    Simulation {
        n: 240,
        p: 60,
        used: vec![vec![0, 1], vec![2, 3, 4, 5], vec![6, 7, 8]],
        apart: 2.0,
        noise: 1.0,
        missing: 0.05,
        unlabelled: 0.0,
        classes: 2,
    }
}

fn unlabelled(table: &Table, seed: u64) -> FactorFit {
    let none = Labels::from_strings(&vec![None::<&str>; table.n_rows()]);
    let config = FactorConfig {
        scale: FeatureScale::Standardised,
        max_factors: 20,
        limits: VbLimits {
            max_iterations: 60,
            ..FactorConfig::default().limits
        },
        unlabelled_starts: [1, 2, 3, 4].map(FactorInit::Own).to_vec(),
        seed,
        ..FactorConfig::default()
    };
    fit_factor(table, &none, &config).unwrap()
}

/// Number of rows that are with those, and only those, of the rows before that they should be with.
fn pure(fit: &FactorFit, table: &Table, truth: &[usize]) -> usize {
    let rows = fit.responsibilities(table).unwrap();
    let largest = |row: &Vec<f64>| row.iter().position(|r| *r > 0.5);
    let found: Vec<Option<usize>> = rows.iter().map(largest).collect();
    let agree = |i: usize, j: usize| (truth[i] == truth[j]) == (found[i] == found[j]);
    (0..truth.len())
        .filter(|&i| (0..i).all(|j| agree(i, j)))
        .count()
}

#[test]
fn clusters_and_their_dimensions_are_found() {
    for seed in 0..3 {
        let (table, _, truth) = three_clusters().draw(seed);
        let fit = unlabelled(&table, seed);
        let mut dimensions: Vec<usize> = fit.components().iter().map(|c| c.factors.len()).collect();
        dimensions.sort_unstable();
        let found = (fit.n_clusters(), dimensions, pure(&fit, &table, &truth));
        let bounds: Vec<_> = fit
            .members()
            .iter()
            .map(|r| (r.start, r.elbo(), r.derived.sizes.clone()))
            .collect();
        assert_eq!(found, (3, vec![2, 3, 4], 240), "seed {seed}: {bounds:?}");
        for cluster in fit.components() {
            assert!((cluster.dimension.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}

#[test]
fn missing_cells_are_found_within_their_spread() {
    let whole = Simulation {
        missing: 0.0,
        ..three_clusters()
    };
    let (truth, _, _) = whole.draw(7);
    let holes: Vec<bool> = (0..truth.n_rows() * truth.n_cols())
        .map(|k| (k * 7919) % 101 >= 15)
        .collect();
    let table = Table::new(
        truth.n_rows(),
        truth.n_cols(),
        truth.values().to_vec(),
        &holes,
    )
    .unwrap();
    let imputed = unlabelled(&table, 7).impute(&table).unwrap();
    let (mut error, mut total, mut inside, mut n) = (0.0, 0.0, 0.0, 0.0);
    for i in 0..truth.n_rows() {
        for j in 0..truth.n_cols() {
            if table.is_observed(i, j) {
                continue;
            }
            let value = truth.get(i, j).unwrap();
            let miss = value - imputed.completed.get(i, j).unwrap();
            error += miss * miss;
            total += value * value;
            inside += f64::from(u8::from(miss.abs() < 1.645 * imputed.sd.get(i, j).unwrap()));
            n += 1.0;
        }
    }
    // The noise has variance 1 of about 8.
    assert!(error / n < 1.35, "{}", error / n);
    assert!(total / n > 2.0);
    assert!((0.87..0.93).contains(&(inside / n)), "{}", inside / n);
}

#[test]
fn classes_of_new_rows_are_found() {
    let simulation = Simulation {
        n: 450,
        p: 80,
        used: vec![vec![0, 1, 2]],
        apart: 0.0,
        noise: 1.0,
        missing: 0.2,
        unlabelled: 0.0,
        classes: 2,
    };
    let (table, labels, _) = simulation.draw(2);
    let rows = |range: std::ops::Range<usize>| range.collect::<Vec<usize>>();
    let fit = fit_factor(
        &table.select_rows(&rows(0..300)),
        &labels.select_rows(&rows(0..300)),
        &FactorConfig {
            scale: FeatureScale::Standardised,
            starts: vec![FactorInit::Pooled(1), FactorInit::PerClass(1)],
            max_factors: 10,
            limits: VbLimits {
                max_iterations: 40,
                ..FactorConfig::default().limits
            },
            ..FactorConfig::default()
        },
    )
    .unwrap();
    let test = table.select_rows(&rows(300..450));
    let second = &fit.classes()[1];
    let truth: Vec<bool> = (300..450)
        .map(|i| labels.name(i) == Some(second.as_str()))
        .collect();
    let auc = metrics::auc(&fit.predict_proba(&test).unwrap(), &truth).unwrap();
    assert!(auc > 0.95, "{auc}");
    for interval in fit.predict_interval(&test, 0.9).unwrap() {
        assert!(0.0 <= interval.lower && interval.lower <= interval.upper && interval.upper <= 1.0);
    }
    assert!(fit.ln_density(&test).unwrap().iter().all(|d| d.is_finite()));
    assert_eq!(fit.loadings().nrows(), 80);
}

/// `n` rows of `p` features that one factor moves, and labels that it tells, a class rarer than the other; a share of the cells hidden. Complete and
/// with holes.
fn one_factor(n: usize, p: usize, missing: f64) -> (Table, Table, Labels) {
    let mut rng = stream(23, [0; 4]);
    let (mut values, mut seen, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let s: f64 = rng.sample(StandardNormal);
        for j in 0..p {
            let noise: f64 = rng.sample(StandardNormal);
            values.push(s * if j % 2 == 0 { 1.0 } else { -1.0 } + noise);
            seen.push(rng.random::<f64>() >= missing);
        }
        let noise: f64 = rng.sample(StandardNormal);
        names.push(Some(if 2.0 * s - 2.5 + noise > 0.0 {
            "rare"
        } else {
            "usual"
        }));
    }
    let complete = Table::complete(n, p, values.clone()).unwrap();
    let holes = Table::new(n, p, values, &seen).unwrap();
    (complete, holes, Labels::from_strings(&names))
}

/// Labels have their own weights of the runs: what is said of features is as good as without them.
#[test]
fn features_are_described_as_well_with_labels_as_without() {
    let (complete, holes, labels) = one_factor(80, 20, 0.3);
    let config = FactorConfig::default();
    let labelled = fit_factor(&holes, &labels, &config).unwrap();
    // Without folds bounds decide of labels, too.
    let by_bounds = FactorConfig {
        folds: 0,
        ..config.clone()
    };
    for run in fit_factor(&holes, &labels, &by_bounds).unwrap().members() {
        assert_eq!(run.stacking_weight, run.elbo_weight);
    }
    assert_eq!(labelled.components()[0].factors.len(), 1);
    assert_eq!(labelled.loadings().ncols(), 1);
    let unlabelled = Labels::from_strings(&vec![None::<&str>; 80]);
    let alone = fit_factor(&holes, &unlabelled, &config).unwrap();
    let error = |fit: &FactorFit| {
        let filled = fit.impute(&holes).unwrap().completed;
        let (mut sum, mut n) = (0.0, 0);
        for (i, j) in (0..80).flat_map(|i| (0..20).map(move |j| (i, j))) {
            if !holes.is_observed(i, j) {
                sum += (filled.get(i, j).unwrap() - complete.get(i, j).unwrap()).powi(2);
                n += 1;
            }
        }
        (sum / f64::from(n)).sqrt()
    };
    let (with, without) = (error(&labelled), error(&alone));
    assert!(
        with < 1.03 * without,
        "{with} with labels, {without} without"
    );
}

/// A row of which nothing is seen gets the marginal probability of its class, near its share among the labels.
#[test]
fn a_row_of_which_nothing_is_seen_has_about_the_share_of_the_labels() {
    let (complete, _, labels) = one_factor(300, 6, 0.0);
    let fit = fit_factor(&complete, &labels, &FactorConfig::default()).unwrap();
    let second = fit.classes()[1].as_str();
    let count = (0..300).filter(|&i| labels.name(i) == Some(second)).count();
    let share = count as f64 / 300.0;
    let unseen = Table::new(2, 6, vec![0.0; 12], &[[false; 6], [true; 6]].concat()).unwrap();
    let found = fit.predict_proba(&unseen).unwrap();
    assert!((found[0] - share).abs() < 0.05, "{found:?}, {share}");
    let interval = fit.predict_interval(&unseen, 0.9).unwrap()[0];
    assert!(
        interval.lower < share && share < interval.upper,
        "{interval:?}, {share}"
    );
}

#[test]
fn a_rare_class_that_no_feature_tells_keeps_its_share() {
    let (n, p, share) = (360, 12, 1.0 / 12.0);
    let mut rng = stream(9, [0; 4]);
    let mut noise = || {
        let values = (0..n * p).map(|_| rng.sample(StandardNormal)).collect();
        Table::complete(n, p, values).unwrap()
    };
    let (table, new) = (noise(), noise());
    let names: Vec<Option<&str>> = (0..n)
        .map(|i| Some(if i % 12 == 0 { "rare" } else { "usual" }))
        .collect();
    let labels = Labels::from_strings(&names);
    let config = FactorConfig {
        starts: vec![FactorInit::Pooled(1), FactorInit::PerClass(1)],
        limits: VbLimits {
            max_iterations: 20,
            ..FactorConfig::default().limits
        },
        ..FactorConfig::default()
    };
    let fit = fit_factor(&table, &labels, &config).unwrap();
    let predicted = fit.predict_proba(&new).unwrap();
    let mean = predicted.iter().sum::<f64>() / n as f64;
    assert!((mean - (1.0 - share)).abs() < 0.03, "{mean}");
    let off = |p: &&f64| (**p - mean).abs() > 0.1;
    assert!(predicted.iter().filter(off).count() < n / 50);
    let loaded = FactorFit::from_bytes(&fit.to_bytes().unwrap()).unwrap();
    assert_eq!(loaded.predict_proba(&new).unwrap(), predicted);
}
