//! Many tasks: atoms, the tasks' weights of them, and what a new task gets.

use npb_data::{Labels, Table};
use npb_infer::{VbLimits, stream};
use npb_iqgme::{
    Expert, Init, IqgmeConfig, MultiTaskFit, MultiTaskState, Task, TaskInit, TaskMember,
    TasksConfig, fit_tasks,
};
use npb_linalg::Cholesky;
use npb_priors::GammaPrior;
use npb_priors::dist::{NormalWishart, Wishart};
use npb_priors::special::digamma;

use super::settings::{experts_are_regressions, the_prior_of_the_experts_follows, two_clusters};
use super::single::{in_units, odd};
use super::written_out::{
    Part, Row, apart, calibrated, classes, inverse, parts, square, standardised, weights_of_sticks,
};
use crate::tasks::data::one_task;

fn config(seed: u64) -> TasksConfig {
    TasksConfig {
        single: IqgmeConfig {
            normal_scores: false,
            elbo_temperature: 2.0,
            ..odd(seed)
        },
        atoms: 9,
        global_concentration: GammaPrior {
            shape: 1.5,
            rate: 0.8,
        },
        starts: vec![TaskInit::Pooled(Init::KMeans(4)), TaskInit::Separate(2)],
    }
}

/// Three tasks of two kinds in units far from one.
fn example(seed: u64) -> Vec<(Table, Labels)> {
    let task = |j: u64| {
        let (table, labels) = one_task(seed + j, j as usize % 2, 35 + 5 * j as usize, 0.2, 0.1);
        (in_units(&table), labels)
    };
    (0..3).map(task).collect()
}

const NAMES: [&str; 3] = ["first", "second", "third"];

fn fitted(sets: &[(Table, Labels)], config: &TasksConfig) -> MultiTaskFit {
    let tasks = NAMES.iter().zip(sets);
    let tasks: Vec<Task<'_>> = tasks
        .map(|(name, (table, labels))| Task {
            name,
            table,
            labels,
        })
        .collect();
    fit_tasks(&tasks, config).unwrap()
}

/// The rows of all tasks in one table.
fn together(sets: &[(Table, Labels)]) -> Table {
    let cells = sets.iter().flat_map(|(table, _)| {
        (0..table.n_rows()).flat_map(move |i| (0..table.n_cols()).map(move |j| table.get(i, j)))
    });
    let cells: Vec<f64> = cells.map(|x| x.unwrap_or(f64::NAN)).collect();
    let p = sets[0].0.n_cols();
    Table::from_nan_coded(cells.len() / p, p, &cells).unwrap()
}

/// Weights of the atoms in task `j`, the last one of all atoms without rows: local components that hold rows as they point, the others by the common weights.
/// As rows of training see them the others have none.
fn weights(state: &MultiTaskState, j: usize, as_in_training: bool) -> Vec<f64> {
    let task = &state.tasks[j];
    let n = state.components.len();
    let local = weights_of_sticks(task.sticks.parameters());
    let mut common = weights_of_sticks(state.global_sticks.sticks().parameters());
    let rest: f64 = common.drain(n..).sum();
    common.push(rest);
    let vacant: f64 = local[task.indicators.len()..].iter().sum();
    let vacant = if as_in_training { 0.0 } else { vacant };
    let of = |s: usize| {
        let pointing = task.indicators.iter().zip(&local);
        let own: f64 = pointing
            .map(|(to, w)| w * to.get(s).copied().unwrap_or(0.0))
            .sum();
        own + vacant * common[s]
    };
    (0..=n).map(of).collect()
}

fn atoms(state: &MultiTaskState, j: usize, student: bool) -> Vec<Part> {
    let mut weights = weights(state, j, !student);
    let mut components = state.components.clone();
    if student {
        components.push(state.vacant.clone());
        return parts(&components, &weights, &[], true);
    }
    weights.pop();
    parts(&components, &weights, &state.experts, false)
}

fn wanted(members: &[TaskMember], j: usize, row: &Row) -> Vec<f64> {
    let mut sums = vec![0.0; 2];
    for member in members {
        let own = classes(&atoms(&member.state, j, false), row, true);
        let own = calibrated(&member.calibration, &own);
        let each = sums.iter_mut().zip(own);
        each.for_each(|(sum, p)| *sum += member.stacking_weight * p);
    }
    sums
}

#[test]
fn answers_of_tasks_are_those_of_the_posterior() {
    let sets = example(91);
    let model = fitted(&sets, &config(91));
    let members = model.members();
    assert!(members.len() == 2 && members.iter().all(|m| m.stacking_weight > 1e-3));
    assert!(
        members
            .iter()
            .any(|m| m.calibration.inverse_temperature != 1.0)
    );
    let all = together(&sets);
    let (new, _) = one_task(95, 0, 14, 0.35, 0.3);
    let new = in_units(&new);
    let rows = standardised(&all, &new);
    for (j, name) in NAMES.into_iter().enumerate() {
        let both = model.predict_classes(name, &new).unwrap();
        let second = model.predict_proba(name, &new).unwrap();
        let best = model.predict(name, &new).unwrap();
        let found = model.task_weights(name).unwrap();
        assert!(apart(&found, &weights(model.state(), j, false)) < 1e-12);
        for (i, row) in rows.iter().enumerate() {
            let p = wanted(members, j, row);
            assert!(
                apart(&both[i], &p) < 1e-9,
                "{name} {i}: {:?} {p:?}",
                both[i]
            );
            let named = &model.classes()[usize::from(p[1] > p[0])];
            assert_eq!((second[i], best[i]), (both[i][1], named.as_str()));
        }
    }
}

/// What tasks share, and how alike they are.
#[test]
fn atoms_and_similarities_are_those_of_the_posterior() {
    let sets = example(101);
    let mut config = config(101);
    config.single.folds = 0;
    let model = fitted(&sets, &config);
    let (state, units) = (model.state(), together(&sets).column_stats());
    let summaries = model.atoms();
    assert_eq!(summaries.len(), state.components.len());
    for (s, (atom, own)) in summaries.iter().zip(&state.components).enumerate() {
        let indicators = state.tasks.iter().flat_map(|task| &task.indicators);
        let pointing: f64 = indicators.map(|to| to[s]).sum();
        assert!((atom.local_components - pointing).abs() < 1e-12);
        assert!((atom.size - (own.strength - 0.4)).abs() < 1e-12);
        assert!((atom.size - (own.dof - 8.0)).abs() < 1e-9);
        let (expert, classifier) = (&state.experts[s], atom.classifier.as_ref().unwrap());
        for j in 0..3 {
            let mean = units[j].mean + units[j].sd * own.mean[j];
            assert!((atom.mean[j] - mean).abs() < 1e-9 * units[j].sd);
            for i in 0..3 {
                let by = units[i].sd * units[j].sd;
                let covariance = own.scale_inverse[(i, j)] / (own.dof - 4.0) * by;
                assert!((atom.covariance[(i, j)] - covariance).abs() < 1e-9 * by);
            }
            assert_eq!(classifier.effects[j], expert.mean[j]);
            let sd = expert.covariance[(j, j)].sqrt();
            assert!((classifier.effect_sds[j] - sd).abs() < 1e-12);
        }
        let standard = expert.mean[0] * 0.5 - expert.mean[2] * 1.5 + expert.mean[3];
        let own = |j: usize, z: f64| units[j].mean + units[j].sd * z;
        let point = [own(0, 0.5), own(1, 0.0), own(2, -1.5)];
        let score: f64 = (0..3).map(|j| classifier.coefficients[j] * point[j]).sum();
        assert!((classifier.intercept + score - standard).abs() < 1e-8);
    }
    let total: f64 = summaries.iter().map(|atom| atom.size).sum();
    assert!((total - 120.0).abs() < 1e-6, "{total}");
    let found = model.similarity();
    for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
        let [a, b] = [i, j].map(|task| weights(state, task, false));
        let towards =
            |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * (a / b).ln()).sum() };
        let divergence = 0.5 * (towards(&a, &b) + towards(&b, &a));
        assert!(
            (found[(i, j)] - (-divergence).exp()).abs() < 1e-9,
            "{i} {j}"
        );
    }
}

fn sampled(state: &MultiTaskState, j: usize, rng: &mut npb_infer::Xoshiro256PlusPlus) -> Vec<Part> {
    use rand::RngExt;
    let task = &state.tasks[j];
    let mut local = vec![0.0; task.sticks.truncation()];
    task.sticks.sample_weights(&mut local, rng);
    let mut weights = vec![0.0; state.components.len()];
    for (to, weight) in task.indicators.iter().zip(local) {
        let mut u: f64 = rng.random();
        let s = to.iter().position(|share| {
            u -= share;
            u < 0.0
        });
        weights[s.unwrap_or(0)] += weight;
    }
    let part = |(s, weight): (usize, f64)| {
        let own = &state.components[s];
        let wishart = Wishart::from_inverse_scale(own.scale_inverse.as_ref(), own.dof).unwrap();
        let law = NormalWishart::new(own.mean.clone(), own.strength, wishart).unwrap();
        let (mean, precision) = law.sample(rng);
        let expert: &Expert = &state.experts[s];
        let mut w = expert.mean.clone();
        Cholesky::new(expert.covariance.as_ref())
            .unwrap()
            .sample_moment(&mut w, rng);
        Part {
            weight,
            mean,
            scale: inverse(&square(&precision)).0,
            dof: f64::INFINITY,
            experts: vec![(w, None)],
        }
    };
    weights.into_iter().enumerate().map(part).collect()
}

/// Intervals are quantiles of probabilities under draws of weights, components and experts from the posterior: the shares of such draws that are below them, on average
/// over fits.
#[test]
fn intervals_are_quantiles_of_draws_from_the_posterior() {
    const FITS: u64 = 24;
    const DRAWS: usize = 1000;
    let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
    for seed in 0..FITS {
        let sets = example(1000 + 10 * seed);
        let mut config = config(1000 + seed);
        (config.single.folds, config.starts) = (0, config.starts[..1].to_vec());
        let model = fitted(&sets, &config);
        let (new, _) = one_task(2000 + seed, 1, 4, 0.2, 0.0);
        let new = in_units(&new);
        let rows = standardised(&together(&sets), &new);
        let found = model.predict_class_intervals("second", &new, 0.8).unwrap();
        let of_second = model.predict_interval("second", &new, 0.8).unwrap();
        let means = model.predict_proba("second", &new).unwrap();
        let rng = &mut stream(7, [seed, 0, 0, 0]);
        let draws: Vec<Vec<Part>> = (0..DRAWS).map(|_| sampled(model.state(), 1, rng)).collect();
        for (i, row) in rows.iter().enumerate() {
            let p = draws.iter().map(|parts| classes(parts, row, false)[1]);
            let p: Vec<f64> = p.collect();
            let interval = found[i][1];
            let ends = [(interval.lower, 0.1), (interval.upper, 0.9)];
            for (k, (end, level)) in ends.into_iter().enumerate() {
                // Where the mean is beyond the quantile it is the end.
                if end != means[i] {
                    let below = p.iter().filter(|p| **p < end).count() as f64 / DRAWS as f64;
                    (sums[k], counts[k]) = (sums[k] + below - level, counts[k] + 1.0);
                }
            }
            assert_eq!(of_second[i], interval);
            assert!((found[i][0].upper - (1.0 - interval.lower)).abs() < 1e-9);
        }
    }
    // The share of an end of 200 draws has a standard error of .02, about the same for the rows of a fit.
    for (sum, count) in sums.iter().zip(counts) {
        assert!(count > 3.0 * FITS as f64, "{count}");
        assert!((sum / count).abs() < 0.02, "{}", sum / count);
    }
}

/// Two tasks with rows of one cluster each and one with both, which no row is between: sticks, concentrations, atoms and experts as they must be.
#[test]
fn the_posterior_of_tasks_is_the_fixed_point_of_its_updates() {
    let (table, labels) = two_clusters();
    let rows = |range: std::ops::Range<usize>| -> (Table, Labels) {
        let rows: Vec<usize> = range.collect();
        (table.select_rows(&rows), labels.select_rows(&rows))
    };
    let sets = vec![rows(0..25), rows(50..65), rows(25..50)];
    let mut config = config(121);
    config.starts = vec![TaskInit::Pooled(Init::KMeans(2))];
    config.atoms = 2;
    config.single.truncation = 2;
    config.single.folds = 0;
    config.single.limits = VbLimits {
        max_iterations: 1000,
        tolerance: 1e-15,
    };
    let model = fitted(&sets, &config);
    let state = model.state();
    let all = together(&sets);
    let standard: Vec<Vec<f64>> = standardised(&all, &all)
        .iter()
        .map(|row| row.iter().map(|x| x.unwrap()).collect())
        .collect();
    // Rows of the left cluster come first in the first and third task.
    let groups: [Vec<usize>; 2] = [
        (0..25).chain(40..55).collect(),
        (25..40).chain(55..65).collect(),
    ];
    assert_eq!((groups[0].len(), groups[1].len()), (40, 25));
    let left = usize::from(state.components[0].mean[0] > 0.0);
    let groups = [groups[left].clone(), groups[1 - left].clone()];
    let mut pointing = [0.0; 2];
    let mut ln_rest = 0.0;
    let alpha = state.alpha.mean();
    for (task, counts) in state
        .tasks
        .iter()
        .zip([vec![25.0], vec![15.0], vec![15.0, 10.0]])
    {
        let [a, b] = task.sticks.parameters()[0];
        let more: f64 = counts[1..].iter().sum();
        assert!((a - 1.0 - counts[0]).abs() < 1e-3, "{a}");
        assert!((b - alpha - more).abs() < 1e-3, "{b} {alpha}");
        ln_rest += digamma(b) - digamma(a + b);
        for to in &task.indicators {
            (0..2).for_each(|s| pointing[s] += to[s]);
        }
    }
    // One free stick for each of three tasks.
    let alpha = (state.alpha.shape(), state.alpha.rate());
    assert!((alpha.0 - (2.0 + 3.0)).abs() < 1e-12);
    assert!(
        (alpha.1 - (0.7 - ln_rest)).abs() < 1e-3,
        "{alpha:?} {ln_rest}"
    );
    let beta = state.global_sticks.alpha();
    let [a, b] = state.global_sticks.sticks().parameters()[0];
    assert!((beta.shape() - 2.5).abs() < 1e-12);
    assert!((beta.rate() - (0.8 - digamma(b) + digamma(a + b))).abs() < 1e-4);
    assert!((a - 1.0 - pointing[0]).abs() < 1e-4, "{a} {pointing:?}");
    assert!(
        (b - beta.mean() - pointing[1]).abs() < 1e-4,
        "{b} {pointing:?}"
    );
    for (component, group) in state.components.iter().zip(&groups) {
        let n = group.len() as f64;
        assert!((component.strength - (n + 0.4)).abs() < 1e-6);
        assert!((component.dof - (n + 6.5)).abs() < 1e-6);
        let mean = |j: usize| group.iter().map(|&i| standard[i][j]).sum::<f64>() / (n + 0.4);
        for j in 0..2 {
            assert!((component.mean[j] - mean(j)).abs() < 1e-6);
            for k in 0..2 {
                let second: f64 = group.iter().map(|&i| standard[i][j] * standard[i][k]).sum();
                let wanted =
                    state.vacant.scale_inverse[(j, k)] + second - (n + 0.4) * mean(j) * mean(k);
                assert!((component.scale_inverse[(j, k)] - wanted).abs() < 1e-5);
            }
        }
    }
    assert!((state.vacant.strength, state.vacant.dof) == (0.4, 6.5));
    let label = |i: usize| {
        let (task, first) = [(0, 0), (1, 25), (2, 40)]
            .into_iter()
            .rfind(|(_, first)| *first <= i)
            .unwrap();
        sets[task].1.name(i - first)
    };
    experts_are_regressions(&state.experts, &state.expert_prior, |h, score| {
        let of = |&i: &usize| {
            let x = vec![standard[i][0], standard[i][1], 1.0];
            let at = score(&x);
            let positive = label(i)? == model.classes()[1];
            Some((x, super::settings::cut(at, positive)))
        };
        groups[h].iter().filter_map(of).collect()
    });
    the_prior_of_the_experts_follows(&state.experts, &state.expert_prior);
}

/// A copy of a task of training gets what the task has; one without rows the common weights of the atoms.
#[test]
fn a_copy_of_a_task_is_put_where_the_task_is() {
    let sets = example(131);
    let mut config = config(131);
    (config.single.folds, config.starts) = (0, config.starts[..1].to_vec());
    config.single.limits = VbLimits {
        max_iterations: 1000,
        tolerance: 1e-10,
    };
    let model = fitted(&sets, &config);
    let (new, _) = one_task(135, 1, 20, 0.3, 0.0);
    let new = in_units(&new);
    for (name, (table, labels)) in NAMES.into_iter().zip(&sets) {
        let copy = Task {
            name: "copy",
            table,
            labels,
        };
        let grown = model.with_task(&copy).unwrap();
        assert_eq!(grown.tasks(), [&NAMES[..], &["copy"]].concat());
        let [own, copied] = [name, "copy"].map(|task| grown.task_weights(task).unwrap());
        assert!(apart(&own, &copied) < 0.1, "{own:?} {copied:?}");
        // The others stay as they are.
        let own = grown.predict_proba(name, &new).unwrap();
        assert!(apart(&own, &model.predict_proba(name, &new).unwrap()) < 1e-12);
    }
    let none = Table::complete(0, 3, Vec::new()).unwrap();
    let empty = Task {
        name: "empty",
        table: &none,
        labels: &Labels::from_strings::<&str>(&[]),
    };
    let grown = model.with_task(&empty).unwrap();
    let n = model.state().components.len();
    let mut common = weights_of_sticks(model.state().global_sticks.sticks().parameters());
    let rest: f64 = common.drain(n..).sum();
    common.push(rest);
    assert!(apart(&grown.task_weights("empty").unwrap(), &common) < 1e-12);
}
