//! Classifiers of many groups: what they learn, their bits, their files, bad input.

use std::ops::ControlFlow;

use npb_hbrec::npb_data::{Labels, Table};
use npb_hbrec::npb_infer::checkpoint::Every;
use npb_hbrec::npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_hbrec::npb_infer::{Stop, Watch, stream};
use npb_hbrec::npb_priors::dist::Normal;
use npb_hbrec::npb_priors::special::normal_cdf;
use npb_hbrec::{
    DpConcentration, GaussianTask, GroupedConfig, GroupedFit, Saved, WeightsConfig, fit_groups,
    fit_groups_watched,
};
use rand::RngExt;

/// Groups of two kinds, whose intercepts and two slopes are near those of their kind; `n` rows each.
struct World {
    coefficients: Vec<[f64; 3]>,
    table: Table,
    /// Probability of the second class.
    truth: Vec<f64>,
    labels: Labels,
    groups: Labels,
}

impl World {
    fn new(n_groups: usize, n: usize, seed: u64) -> Self {
        let mut rng = stream(seed, [0; 4]);
        let standard = Normal::new(0.0, 1.0).unwrap();
        let mut coefficients = Vec::new();
        let (mut cells, mut truth) = (Vec::new(), Vec::new());
        let (mut labels, mut groups) = (Vec::new(), Vec::new());
        for group in 0..n_groups {
            let kind = [[0.5, 1.5, 0.0], [-0.5, -1.0, 1.0]][group % 2];
            let w = kind.map(|w| w + 0.3 * standard.sample(&mut rng));
            for _ in 0..n {
                let x = [standard.sample(&mut rng), standard.sample(&mut rng)];
                let p = normal_cdf(w[0] + w[1] * x[0] + w[2] * x[1]);
                // Units of which the fit must not depend.
                cells.extend([3.0 * x[0] + 100.0, 0.01 * x[1]]);
                truth.push(p);
                labels.push(Some(["no", "yes"][usize::from(rng.random::<f64>() < p)]));
                groups.push(Some(format!("g{group:02}")));
            }
            coefficients.push(w);
        }
        Self {
            coefficients,
            table: Table::complete(n_groups * n, 2, cells).unwrap(),
            truth,
            labels: Labels::from_strings(&labels),
            groups: Labels::from_strings(&groups),
        }
    }

    fn fit(&self, config: &GroupedConfig) -> GroupedFit {
        fit_groups(&self.table, &self.labels, &self.groups, config).unwrap()
    }

    fn rows(&self, group: usize) -> (Table, Labels) {
        let of: Vec<usize> = (0..self.table.n_rows())
            .filter(|&i| self.groups.codes()[i] == Some(group))
            .collect();
        (self.table.select_rows(&of), self.labels.select_rows(&of))
    }
}

/// Some rows, and their true probabilities in a group.
fn new_rows(w: [f64; 3], n: usize, seed: u64) -> (Table, Vec<f64>) {
    let mut rng = stream(seed, [1, 0, 0, 0]);
    let standard = Normal::new(0.0, 1.0).unwrap();
    let (mut cells, mut truth) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let x = [standard.sample(&mut rng), standard.sample(&mut rng)];
        cells.extend([3.0 * x[0] + 100.0, 0.01 * x[1]]);
        truth.push(normal_cdf(w[0] + w[1] * x[0] + w[2] * x[1]));
    }
    (Table::complete(n, 2, cells).unwrap(), truth)
}

/// Expected log-likelihood of a new label.
fn score(predicted: &[f64], truth: &[f64]) -> f64 {
    let term = |(p, t): (&f64, &f64)| t * p.ln() + (1.0 - t) * (1.0 - p).ln();
    predicted.iter().zip(truth).map(term).sum::<f64>() / truth.len() as f64
}

fn given(tau: f64) -> GroupedConfig {
    GroupedConfig {
        weights: WeightsConfig {
            tau: DpConcentration::Given(tau),
            ..WeightsConfig::default()
        },
        ..GroupedConfig::default()
    }
}

/// Twelve rows a group: groups learn from each other what one classifier for all, and each alone, cannot know. A new group, too.
#[test]
fn groups_teach_each_other() {
    let world = World::new(40, 12, 1);
    let fit = world.fit(&GroupedConfig::default());
    let one = Labels::from_strings(&vec![Some("all"); world.table.n_rows()]);
    let config = GroupedConfig::default();
    let pooled = fit_groups(&world.table, &world.labels, &one, &config).unwrap();
    let mut sums = [0.0; 3];
    for (group, &w) in world.coefficients.iter().enumerate() {
        let (rows, truth) = new_rows(w, 200, group as u64);
        let (own, own_labels) = world.rows(group);
        let one = Labels::from_strings(&vec![Some("all"); own.n_rows()]);
        let alone = fit_groups(&own, &own_labels, &one, &config);
        let of = |fit: &GroupedFit, name: &str| {
            let p = fit.predict(fit.group(name).unwrap(), &rows).unwrap();
            score(&p, &truth)
        };
        sums[0] += of(&fit, &format!("g{group:02}"));
        sums[1] += of(&pooled, "all");
        sums[2] += alone.map_or(-1.0, |alone| of(&alone, "all"));
    }
    let [ours, pooled_score, alone] = sums.map(|sum| sum / 40.0);
    assert!(ours > pooled_score + 0.1 && ours > alone + 0.03, "{sums:?}");
    let others = World::new(40, 12, 2);
    let mut sums = [0.0; 2];
    for (group, &w) in others.coefficients.iter().enumerate() {
        let (rows, truth) = new_rows(w, 200, group as u64);
        let (own, labels) = others.rows(group);
        let nobody = fit.fold_in(&own.select_rows(&[]), &labels.select_rows(&[]));
        for (sum, known) in sums.iter_mut().zip([nobody, fit.fold_in(&own, &labels)]) {
            *sum += score(&fit.predict(&known.unwrap(), &rows).unwrap(), &truth) / 40.0;
        }
    }
    assert!(
        sums[1] > sums[0] + 0.1 && sums[1] > ours - 0.03,
        "{sums:?} {ours}"
    );
}

/// Intervals hold the true probabilities as often as they say where the base is right, more often with atoms that are not sure themselves, and narrow with the
/// rows of a group.
#[test]
fn intervals_hold_what_they_say() {
    let mut widths = Vec::new();
    for n in [10, 80] {
        let world = World::new(40, n, 3);
        let mut held = [0.0; 2];
        let configs = [given(f64::INFINITY), GroupedConfig::default()];
        for (held, config) in held.iter_mut().zip(configs) {
            let fit = world.fit(&config);
            let mut width = 0.0;
            for (group, &w) in world.coefficients.iter().enumerate() {
                let (rows, truth) = new_rows(w, 50, group as u64);
                let known = fit.group(&format!("g{group:02}")).unwrap();
                let ends = fit.predict_interval(known, &rows, 0.8).unwrap();
                for (interval, truth) in ends.iter().zip(&truth) {
                    *held += f64::from(u8::from(interval.holds(*truth))) / 2000.0;
                    width += interval.width() / 2000.0;
                    assert!(0.0 <= interval.lower && interval.upper <= 1.0);
                    assert!(interval.width() > 0.0);
                }
            }
            widths.push(width);
        }
        assert!((0.76..0.86).contains(&held[0]), "{n} rows: {held:?}");
        assert!((0.8..0.99).contains(&held[1]), "{n} rows: {held:?}");
    }
    let narrower = widths[2] < 0.6 * widths[0] && widths[3] < 0.6 * widths[1];
    assert!(narrower, "{widths:?}");
}

/// Of an own model alone the interval is that of one normal; of atoms alone it is between the atoms' ends.
#[test]
fn intervals_are_quantiles_of_the_mixture() {
    let world = World::new(6, 15, 4);
    let (rows, _) = new_rows(world.coefficients[0], 20, 1);
    let alone = world.fit(&given(f64::INFINITY));
    let group = alone.group("g01").unwrap();
    assert_eq!(group.own_weight, 1.0);
    let ends = alone.predict_interval(group, &rows, 0.9).unwrap();
    let median = alone.predict_interval(group, &rows, 1e-9).unwrap();
    let mut seen = 0;
    for ((p, interval), median) in alone
        .predict(group, &rows)
        .unwrap()
        .iter()
        .zip(ends)
        .zip(median)
    {
        // Probabilities near one have no digits left to say how far.
        let (low, high) = (interval.lower, interval.upper);
        if low < 1e-6 || high > 1.0 - 1e-6 {
            continue;
        }
        seen += 1;
        let z = |p: f64| npb_hbrec::npb_priors::special::normal_quantile(p);
        let (mean, sd) = (z(median.lower), (z(high) - z(low)) / (2.0 * z(0.95)));
        assert!((normal_cdf(mean / (1.0 + sd * sd).sqrt()) - p).abs() < 1e-6);
    }
    assert!(seen >= 10, "{seen}");
    let atoms = world.fit(&given(0.0));
    let group = atoms.group("g01").unwrap();
    assert_eq!(group.own_weight, 0.0);
    let total: f64 = group.weights.iter().sum();
    assert!((total - 1.0).abs() < 1e-9);
    let wide = atoms.predict_interval(group, &rows, 0.999).unwrap();
    let narrow = atoms.predict_interval(group, &rows, 0.5).unwrap();
    assert!(
        wide.iter()
            .zip(&narrow)
            .all(|(w, n)| w.lower < n.lower && n.upper < w.upper)
    );
}

/// Units do not matter; what the base says of them is in standard units.
#[test]
fn the_base_is_learned() {
    let world = World::new(60, 60, 5);
    let fit = world.fit(&GroupedConfig::default());
    let prior = fit.mixture().model().prior();
    // Means of two kinds at equal parts: intercept 0, slopes 0.25 and 0.5; between kinds 0.5, 1.25, 0.5.
    for (found, truth) in prior.mean().iter().zip([0.0, 0.25, 0.5]) {
        assert!((found - truth).abs() < 0.35, "{:?}", prior.mean());
    }
    let c = prior.covariance();
    assert!((1.0..2.5).contains(&c[(1, 1)]) && c[(1, 2)] < -0.3, "{c:?}");
    // Each kind is known by its atoms: a group gives no weight to those of the other.
    assert!(fit.mixture().weights().n_active() < 40);
    assert!(matches!(
        fit.stop(),
        Stop::Converged { .. } | Stop::MaxIterations
    ));
}

#[test]
fn one_group_and_constant_columns_are_ordinary() {
    let world = World::new(1, 30, 6);
    let fit = world.fit(&GroupedConfig::default());
    let p = fit
        .predict(fit.group("g00").unwrap(), &world.table)
        .unwrap();
    assert!(score(&p, &world.truth) > -0.65);
    let constant = world
        .table
        .map(|_, j, v| if j == 0 { 7.0 } else { v })
        .unwrap();
    let config = GroupedConfig::default();
    let fit = fit_groups(&constant, &world.labels, &world.groups, &config).unwrap();
    let p = fit.predict(fit.group("g00").unwrap(), &constant).unwrap();
    assert!(p.iter().all(|p| *p > 0.0 && *p < 1.0));
}

#[test]
fn threads_change_nothing() {
    let world = World::new(20, 8, 7);
    let run = || world.fit(&GroupedConfig::default()).to_bytes().unwrap();
    same_bits_on_threads(&[1, 2, 4], run).unwrap();
}

#[test]
fn a_stopped_fit_goes_on_to_the_same_bits() {
    let world = World::new(20, 8, 8);
    let config = GroupedConfig::default();
    let whole = world.fit(&config).to_bytes().unwrap();
    let file = std::env::temp_dir().join(format!("npb-hbrec-groups-{}", std::process::id()));
    let watched = |config: &GroupedConfig, watch: &Watch<'_>| {
        fit_groups_watched(&world.table, &world.labels, &world.groups, config, watch)
    };
    for (part, step) in [
        ("base", 3),
        ("base", 7),
        ("weights", 1),
        ("tau", 1),
        ("groups", 16),
    ] {
        let watch = Watch::new(
            |progress| match progress.part == part && progress.step >= step {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            },
        )
        .with_checkpoint(&file, Every::sweeps(2));
        let stopped = watched(&config, &watch).unwrap();
        assert_eq!(stopped.stop(), Stop::Cancelled, "{part}");
        // What is there can be asked.
        let group = stopped.group("g03").unwrap();
        stopped.predict(group, &world.table).unwrap();
    }
    let mut shares = Vec::new();
    let watch = Watch::new(|progress| {
        shares.push(progress.share);
        ControlFlow::Continue(())
    })
    .with_checkpoint(&file, Every::sweeps(2));
    let resumed = watched(&config, &watch).unwrap();
    drop(watch);
    assert_eq!(resumed.to_bytes().unwrap(), whole);
    assert!(
        shares.is_sorted() && shares.last() == Some(&1.0),
        "{shares:?}"
    );
    let watch = Watch::none().with_checkpoint(&file, Every::sweeps(2));
    assert!(watched(&given(1.0), &watch).is_err());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn damaged_files_are_refused_or_valid() {
    let world = World::new(4, 6, 9);
    let fit = world.fit(&GroupedConfig::default());
    let bytes = fit.to_bytes().unwrap();
    let (few, labels) = world.rows(1);
    let exercise = |fit: &GroupedFit| {
        let folded = fit.fold_in(&few, &labels).ok();
        let known = fit.groups().iter().map(|name| fit.group(name).ok());
        for group in known.chain([folded.as_ref()]).flatten() {
            let _ = fit.predict(group, &few);
            let _ = fit.predict_interval(group, &few, 0.9);
        }
        fit.to_bytes().unwrap();
    };
    // Each new group is fitted under forty bases: fewer flips than elsewhere.
    attack_file(&bytes, 1000, 1, GroupedFit::from_bytes, exercise).unwrap();
    let again = GroupedFit::from_bytes(&bytes).unwrap();
    assert_eq!(again.to_bytes().unwrap(), bytes);
    let of = |fit: &GroupedFit| {
        fit.predict_interval(fit.group("g02").unwrap(), &few, 0.9)
            .unwrap()
    };
    assert_eq!(of(&again), of(&fit));
}

#[test]
fn bad_input_is_named() {
    let world = World::new(4, 6, 10);
    let config = GroupedConfig::default();
    let fit = world.fit(&config);
    let refused = |table: &Table, labels: &Labels, groups: &Labels, config: &GroupedConfig| {
        let error = fit_groups(table, labels, groups, config)
            .map(|_| ())
            .unwrap_err();
        error.to_string()
    };
    let World {
        table,
        labels,
        groups,
        ..
    } = &world;
    let mut cells = table.values().to_vec();
    cells[2 * 5 + 1] = f64::NAN;
    let holes = Table::from_nan_coded(24, 2, &cells).unwrap();
    let message = refused(&holes, labels, groups, &config);
    assert!(
        message.contains("row 5, column 1: NaN is missing: impute"),
        "{message}"
    );
    let known = fit.group("g00").unwrap();
    assert!(
        fit.predict(known, &holes)
            .unwrap_err()
            .to_string()
            .contains("row 5, column 1")
    );
    let three = Labels::from_codes(
        ["a", "b", "c"].map(str::to_owned).to_vec(),
        vec![Some(0); 24],
    )
    .unwrap();
    assert!(refused(table, &three, groups, &config).contains("classes of the labels: there are 3"));
    let mut codes = labels.codes().to_vec();
    codes[7] = None;
    let some = Labels::from_codes(labels.classes().to_vec(), codes).unwrap();
    assert!(refused(table, &some, groups, &config).contains("row 7 has no label"));
    let short = groups.select_rows(&[0, 1]);
    assert!(refused(table, labels, &short, &config).contains("groups of rows: there are 2"));
    assert!(refused(table, &short, groups, &config).contains("classes of the labels: there are 4"));
    let fewer = table.select_rows(&[0, 1, 2]);
    let message = refused(
        &fewer,
        &labels.select_rows(&[0, 1, 2]),
        &groups.select_rows(&[0, 1, 2]),
        &config,
    );
    assert!(message.contains("group \"g01\" has no row"), "{message}");
    let none = table.select_rows(&[]);
    let no_group = Labels::from_strings::<&str>(&[]);
    assert!(
        refused(&none, &labels.select_rows(&[]), &no_group, &config).contains("nothing to learn")
    );
    assert!(refused(table, labels, groups, &given(-1.0)).contains("weights.tau"));
    let mut endless = config;
    endless.limits.max_iterations = 0;
    assert!(refused(table, labels, groups, &endless).contains("limits.max_iterations"));

    assert!(
        fit.group("g99")
            .unwrap_err()
            .to_string()
            .contains("no group \"g99\"")
    );
    let narrow = table.select_columns(&[0]).unwrap();
    assert!(fit.predict(known, &narrow).is_err());
    let far = table
        .map(|i, j, v| if (i, j) == (3, 0) { 1e200 } else { v })
        .unwrap();
    let message = fit.predict(known, &far).unwrap_err().to_string();
    assert!(
        message.contains("row 3, column 0") && message.contains("too far"),
        "{message}"
    );
    for level in [0.0, 1.0, f64::NAN] {
        assert!(fit.predict_interval(known, table, level).is_err());
    }
    let swapped =
        Labels::from_codes(["yes", "no"].map(str::to_owned).to_vec(), vec![Some(0); 24]).unwrap();
    assert!(
        fit.fold_in(table, &swapped)
            .unwrap_err()
            .to_string()
            .contains("in training they were")
    );
    let larger = World::new(9, 20, 11).fit(&given(f64::INFINITY));
    let other = larger.group("g00").unwrap();
    assert!(other.weights.len() != known.weights.len());
    assert!(
        fit.predict(other, table)
            .unwrap_err()
            .to_string()
            .contains("another fit")
    );
}

/// What is believed of a group of training does not count its own atom, which has seen its rows; as a new group the same rows would be more likely.
#[test]
fn a_group_is_no_witness_for_itself() {
    let world = World::new(30, 12, 7);
    let fit = world.fit(&given(5.0));
    let mut gain = 0.0;
    for group in 0..30 {
        let (own, labels) = world.rows(group);
        let as_new = fit.fold_in(&own, &labels).unwrap();
        let known = fit.group(&format!("g{group:02}")).unwrap();
        gain += as_new.ln_evidence - known.ln_evidence;
    }
    let active = fit.mixture().weights().n_active();
    assert!(gain > 0.1 * active as f64, "{gain} with {active} atoms");
}

/// With all of a group's weight on one atom, probabilities and intervals are those of draws of its coefficients.
#[test]
fn uncertainty_is_that_of_draws() {
    let world = World::new(6, 8, 8);
    let fit = world.fit(&given(f64::INFINITY));
    let group = fit.group("g02").unwrap();
    let atom = &group.alone;
    let q = atom.coefficients.len();
    // Rows of the Cholesky factor of the covariance.
    let mut factor = vec![vec![0.0; q]; q];
    for i in 0..q {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| factor[i][k] * factor[j][k]).sum();
            let left = atom.covariance[i * q + j] - sum;
            factor[i][j] = if i == j {
                left.sqrt()
            } else {
                left / factor[j][j]
            };
        }
    }
    let rows = world.table.select_rows(&[1, 17, 40]);
    let scale = npb_hbrec::npb_data::Standardiser::fit(&world.table);
    let standard = scale.apply(&rows).unwrap();
    let p = fit.predict(group, &rows).unwrap();
    let ends = fit.predict_interval(group, &rows, 0.8).unwrap();
    let mut rng = stream(9, [0; 4]);
    const DRAWS: usize = 20_000;
    let standard_normal = Normal::new(0.0, 1.0).unwrap();
    let draw = |_| -> Vec<f64> {
        let z: Vec<f64> = (0..q).map(|_| standard_normal.sample(&mut rng)).collect();
        let of = |i: usize| (0..q).map(|k| factor[i][k] * z[k]).sum::<f64>();
        (0..q).map(|i| atom.coefficients[i] + of(i)).collect()
    };
    let draws: Vec<Vec<f64>> = (0..DRAWS).map(draw).collect();
    for row in 0..3 {
        let x = standard.row(row);
        let of = |w: &Vec<f64>| normal_cdf(w[0] + w[1] * x[0] + w[2] * x[1]);
        let mut drawn: Vec<f64> = draws.iter().map(of).collect();
        drawn.sort_by(f64::total_cmp);
        let mean = drawn.iter().sum::<f64>() / DRAWS as f64;
        assert!((mean - p[row]).abs() < 0.01, "{mean} {}", p[row]);
        let ends = [ends[row].lower, ends[row].upper];
        for (end, at) in ends.iter().zip([DRAWS / 10, DRAWS - DRAWS / 10]) {
            assert!((end - drawn[at]).abs() < 0.015, "{end} {}", drawn[at]);
        }
    }
}
