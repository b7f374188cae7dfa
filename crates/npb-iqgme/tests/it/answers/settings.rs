//! Settings: the posterior of two clusters that no row is between is the fixed point of updates that can be written down, priors off their defaults.

use npb_data::clusters::nearest;
use npb_data::{Labels, Table};
use npb_infer::{Stop, VbLimits};
use npb_iqgme::{
    Expert, ExpertPrior, FactorConfig, FactorInit, Init, IqgmeConfig, IqgmeData, IqgmeVb, Task,
    TaskInit, TasksConfig, fit, fit_factor, fit_tasks, fit_unlabelled,
};
use npb_priors::special::{digamma, normal_cdf};

use super::single::odd;
use super::written_out::{apart, inverse, standardised};
use crate::data::three_gaussians;

/// A number that looks random in -1 to 1.
fn noise(k: usize) -> f64 {
    ((k * 7919 + k * k * 31) % 2003) as f64 / 1001.5 - 1.0
}

/// Forty rows to the left and twenty-five to the right; labels by the second column, most of the time, and some rows without.
pub(super) fn two_clusters() -> (Table, Labels) {
    let mut values = Vec::new();
    let mut names = Vec::new();
    for i in 0..65 {
        let side = if i < 40 { -30.0 } else { 30.0 };
        let y = 2.0 * noise(2 * i + 1);
        values.extend([side + noise(2 * i), y + 0.1 * side]);
        let score = y + noise(7 * i + 3);
        let name = if score > 0.0 { "yes" } else { "no" };
        names.push((i % 6 != 2).then_some(name));
    }
    (
        Table::complete(65, 2, values).unwrap(),
        Labels::from_strings(&names),
    )
}

/// What a row's label makes of its utility: the mean of a normal law about `location` that is cut at zero.
pub(super) fn cut(location: f64, positive: bool) -> f64 {
    let sign = if positive { 1.0 } else { -1.0 };
    let density = (-0.5 * location * location).exp() / (2.0 * std::f64::consts::PI).sqrt();
    location + sign * density / normal_cdf(sign * location)
}

/// Sticks, concentration, components, experts and their prior, as the rows have them.
#[test]
fn the_posterior_is_the_fixed_point_of_its_updates() {
    let (table, labels) = two_clusters();
    let config = IqgmeConfig {
        truncation: 2,
        starts: vec![Init::KMeans(2)],
        normal_scores: false,
        folds: 0,
        limits: VbLimits {
            max_iterations: 1000,
            tolerance: 1e-15,
        },
        ..odd(61)
    };
    let fitted = fit(&table, &labels, &config).unwrap();
    let state = fitted.state();
    let rows: Vec<Vec<f64>> = standardised(&table, &table)
        .iter()
        .map(|row| row.iter().map(|x| x.unwrap()).collect())
        .collect();
    // The prior: a covariance of all rows, of which the table has no hole.
    let vb_data = IqgmeData::new(&table, &labels, &config).unwrap();
    let vb = IqgmeVb::new(&vb_data, config.clone(), Init::KMeans(2), 0).unwrap();
    let prior = vb.prior_scale_inverse();
    // E[1/Lambda] is the covariance of the rows: columns have variance one, and degrees of freedom are 2 + 3.5 + 2 0.5.
    let nu0 = 6.5;
    for j in 0..2 {
        let variance = prior[(j, j)] / (nu0 - 2.0 - 1.0);
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
    }
    let groups = [0..40, 40..65];
    for (component, group) in state.components.iter().zip(groups.clone()) {
        let n = group.len() as f64;
        // Hardly a share of a row is on the other side.
        let found = (component.strength, component.dof);
        let mean = |j: usize| group.clone().map(|i| rows[i][j]).sum::<f64>() / (n + 0.4);
        assert!((component.strength - (n + 0.4)).abs() < 1e-3, "{found:?}");
        assert!((component.dof - (n + nu0)).abs() < 1e-3, "{found:?}");
        for j in 0..2 {
            assert!((component.mean[j] - mean(j)).abs() < 1e-4);
            for k in 0..2 {
                let second: f64 = group.clone().map(|i| rows[i][j] * rows[i][k]).sum();
                let wanted = prior[(j, k)] + second - (n + 0.4) * mean(j) * mean(k);
                assert!((component.scale_inverse[(j, k)] - wanted).abs() < 5e-3);
            }
        }
    }
    let (shape, rate) = fitted.concentration();
    let stick = state.sticks.sticks().parameters()[0];
    assert!((stick[0] - 41.0).abs() < 1e-3);
    assert!((stick[1] - (25.0 + shape / rate)).abs() < 1e-3);
    assert!((shape - 3.0).abs() < 1e-12);
    let ln_rest = digamma(stick[1]) - digamma(stick[0] + stick[1]);
    assert!((rate - (0.7 - ln_rest)).abs() < 1e-9, "{rate}");

    experts_are_regressions(&state.experts, &state.expert_prior, |h, location| {
        let of = |i: usize| {
            let label = labels.name(i)?;
            let x = vec![rows[i][0], rows[i][1], 1.0];
            let at = state.utility_means[i];
            assert!((at - location(&x)).abs() < 1e-4, "row {i}: {at}");
            Some((x, cut(at, label == fitted.classes()[1])))
        };
        groups[h].clone().filter_map(of).collect()
    });
    the_prior_of_the_experts_follows(&state.experts, &state.expert_prior);
}

/// Each expert is a ridge regression of expected utilities: `rows(h, score)` gives inputs and utilities of its rows, and is told the score that the expert has at an input.
pub(super) fn experts_are_regressions(
    experts: &[Expert],
    prior: &ExpertPrior,
    rows: impl Fn(usize, &dyn Fn(&[f64]) -> f64) -> Vec<(Vec<f64>, f64)>,
) {
    let width = prior.mean.len();
    let lambda: Vec<f64> = prior.rate.iter().map(|rate| prior.shape / rate).collect();
    for (h, expert) in experts.iter().enumerate() {
        let score = |x: &[f64]| x.iter().zip(&expert.mean).map(|(x, w)| x * w).sum::<f64>();
        let mut precision = vec![vec![0.0; width]; width];
        let mut linear: Vec<f64> = (0..width).map(|p| lambda[p] * prior.mean[p]).collect();
        (0..width).for_each(|p| precision[p][p] = lambda[p]);
        for (x, t) in rows(h, &score) {
            for p in 0..width {
                linear[p] += x[p] * t;
                (0..width).for_each(|q| precision[p][q] += x[p] * x[q]);
            }
        }
        let covariance = inverse(&precision).0;
        for p in 0..width {
            let mean: f64 = (0..width).map(|q| covariance[p][q] * linear[q]).sum();
            let found = expert.mean[p];
            assert!((found - mean).abs() < 2e-4, "{h}, {p}: {found} {mean}");
            for q in 0..width {
                let found = expert.covariance[(p, q)];
                let wanted = covariance[p][q];
                assert!(
                    (found - wanted).abs() < 1e-4,
                    "{h}, {p}, {q}: {found} {wanted}"
                );
            }
        }
    }
}

/// Shape 2 and rate 1.5, and three experts' worth of a mean of zero, beside the experts.
pub(super) fn the_prior_of_the_experts_follows(experts: &[Expert], prior: &ExpertPrior) {
    let n = experts.len() as f64;
    assert!(experts.iter().all(|expert| !expert.at_prior));
    assert!((prior.strength - (3.0 + n)).abs() < 1e-12);
    assert!((prior.shape - (2.0 + 0.5 * n)).abs() < 1e-12);
    for p in 0..prior.mean.len() {
        let sum: f64 = experts.iter().map(|e| e.mean[p]).sum();
        let mean = sum / (3.0 + n);
        // Squares about the mean, that of the prior among them, and variances.
        let about = |e: &Expert| (e.mean[p] - mean).powi(2) + e.covariance[(p, p)];
        let squares = experts.iter().map(about).sum::<f64>() + 3.0 * mean * mean;
        assert!((prior.mean[p] - mean).abs() < 1e-6);
        let rate = 1.5 + 0.5 * squares;
        assert!((prior.rate[p] - rate).abs() < 1e-6, "{p}: {rate}");
    }
}

/// A table whose constant column has cells that do not count, and some that are missing.
fn with_a_constant() -> (Table, Labels, f64) {
    let (table, labels) = three_gaussians(62, 70, 0, 0.2, 0.0);
    let cell = |i: usize, j: usize| match j {
        2 => 4.0,
        _ => table.get(i, j).unwrap_or(f64::NAN),
    };
    let values: Vec<f64> = (0..70)
        .flat_map(|i| (0..3).map(move |j| (i, j)))
        .map(|(i, j)| cell(i, j))
        .collect();
    let n = (140 - table.n_missing()) as f64;
    (Table::from_nan_coded(70, 3, &values).unwrap(), labels, n)
}

/// Members weigh as `exp((L - L_best) / (T c))`, with `c` the observed cells of the model.
fn by_bounds(elbos: &[f64], weights: &[f64], temperature: f64, n_observed: f64) {
    let odds = elbos
        .iter()
        .map(|elbo| ((elbo - elbos[0]) / (temperature * n_observed)).exp());
    // One that has less than a thousandth of the best one's is left out.
    let odds: Vec<f64> = odds.map(|w| if w > 1e-3 { w } else { 0.0 }).collect();
    let total: f64 = odds.iter().sum();
    let wanted: Vec<f64> = odds.iter().map(|w| w / total).collect();
    assert!(
        wanted.iter().filter(|w| **w > 0.01).count() > 1,
        "{wanted:?}"
    );
    assert!(apart(weights, &wanted) < 1e-12, "{weights:?} {wanted:?}");
    assert!(elbos.windows(2).all(|w| w[0] >= w[1]));
}

/// Of each kind of fit: which starts are made, how often, and what they weigh where no fold says.
#[test]
fn members_are_made_from_their_starts_and_weigh_by_their_bounds() {
    let (table, labels, n) = with_a_constant();
    let starts = [Init::KMeans(1), Init::KMeans(3), Init::PerClass(2)];
    let config = IqgmeConfig {
        starts: starts.to_vec(),
        restarts: 2,
        folds: 0,
        elbo_temperature: 0.6,
        ..odd(62)
    };
    let fitted = fit(&table, &labels, &config).unwrap();
    let members = fitted.members();
    assert_eq!(members.len(), 6);
    for start in starts {
        assert_eq!(members.iter().filter(|m| m.start == start).count(), 2);
    }
    let elbos: Vec<f64> = members.iter().map(|m| m.elbo()).collect();
    let weights: Vec<f64> = members.iter().map(|m| m.elbo_weight).collect();
    by_bounds(&elbos, &weights, 0.6, n);
    assert!(members.iter().all(|m| m.stacking_weight == m.elbo_weight));
    assert_eq!(
        (fitted.best().elbo(), fitted.trace().len()),
        (elbos[0], members[0].trace.len())
    );
    let one = fit_unlabelled(
        &table,
        &IqgmeConfig {
            unlabelled_starts: vec![Init::KMeans(2)],
            ..config.clone()
        },
    );
    let made: Vec<Init> = one.unwrap().members().iter().map(|m| m.start).collect();
    assert_eq!(made, [Init::KMeans(2); 2]);

    let second = table
        .map(|_, j, x| if j == 2 { x } else { 0.5 - x })
        .unwrap();
    let tasks = [("a", &table), ("b", &second)].map(|(name, table)| Task {
        name,
        table,
        labels: &labels,
    });
    let starts = [TaskInit::Separate(1), TaskInit::Pooled(Init::KMeans(3))];
    let config = TasksConfig {
        single: IqgmeConfig {
            elbo_temperature: 0.8,
            normal_scores: false,
            ..config
        },
        starts: starts.to_vec(),
        ..TasksConfig::default()
    };
    let fitted = fit_tasks(&tasks, &config).unwrap();
    let members = fitted.members();
    assert_eq!(members.len(), 4);
    for start in starts {
        assert_eq!(members.iter().filter(|m| m.start == start).count(), 2);
    }
    let elbos: Vec<f64> = members.iter().map(|m| m.elbo()).collect();
    let weights: Vec<f64> = members.iter().map(|m| m.stacking_weight).collect();
    by_bounds(&elbos, &weights, 0.8, 2.0 * n);

    let starts = [FactorInit::Pooled(1), FactorInit::Own(2)];
    let config = FactorConfig {
        starts: starts.to_vec(),
        unlabelled_starts: vec![FactorInit::PerClass(1)],
        restarts: 2,
        folds: 0,
        elbo_temperature: 0.9,
        ..FactorConfig::default()
    };
    let fitted = fit_factor(&table, &labels, &config).unwrap();
    let members = fitted.members();
    assert_eq!(members.len(), 4);
    for start in starts {
        assert_eq!(members.iter().filter(|m| m.start == start).count(), 2);
    }
    let elbos: Vec<f64> = members.iter().map(|m| m.elbo()).collect();
    let weights: Vec<f64> = members.iter().map(|m| m.elbo_weight).collect();
    by_bounds(&elbos, &weights, 0.9, n);
    let none = Labels::from_strings(&[None::<&str>; 70]);
    let made = fit_factor(&table, &none, &config).unwrap();
    assert!(
        made.members()
            .iter()
            .all(|m| m.start == FactorInit::PerClass(1))
    );
}

/// Runs end at the limit or when two changes in a row are below the tolerance, and other seeds start elsewhere.
#[test]
fn runs_end_where_the_limits_say_and_seeds_tell_them_apart() {
    let (table, labels) = three_gaussians(63, 70, 1, 0.2, 0.0);
    let with = |max_iterations: u64, tolerance: f64, seed: u64| {
        let config = IqgmeConfig {
            starts: vec![Init::KMeans(6)],
            folds: 0,
            limits: VbLimits {
                max_iterations,
                tolerance,
            },
            ..odd(seed)
        };
        fit(&table, &labels, &config).unwrap()
    };
    let seven = with(7, 1e-9, 1);
    assert_eq!(
        (seven.trace().len(), seven.stop()),
        (7, Stop::MaxIterations)
    );
    let long = with(500, 1e-4, 1);
    let relative = |w: &[npb_infer::VbReport]| ((w[1].elbo - w[0].elbo) / w[1].elbo).abs();
    let changes: Vec<f64> = long.trace().windows(2).map(relative).collect();
    let first = changes
        .windows(2)
        .position(|w| w[0] < 1e-4 && w[1] < 1e-4)
        .unwrap();
    assert_eq!(long.trace().len(), first + 3);
    assert!(matches!(long.stop(), Stop::Converged { rel_change } if rel_change < 1e-4));
    assert_eq!(with(7, 1e-9, 1).trace(), seven.trace());
    assert_ne!(with(7, 1e-9, 2).trace(), seven.trace());
}

/// First responsibilities: clusters are where k-means stands still, classes are kept apart, and no more components are made than there may be.
#[test]
fn starts_are_what_their_names_say() {
    let (table, labels) = two_clusters();
    let config = odd(64);
    let data = IqgmeData::new(&table, &labels, &config).unwrap();
    let rows: Vec<Vec<f64>> = standardised(&table, &table)
        .iter()
        .map(|row| row.iter().map(|x| x.unwrap()).collect())
        .collect();
    let first = |start: Init, truncation: usize| {
        let config = IqgmeConfig {
            truncation,
            ..config.clone()
        };
        let vb = IqgmeVb::new(&data, config, start, 0).unwrap();
        let all = vb.responsibilities();
        let n = all.len() / 65;
        let of = |i: usize| all[i * n..][..n].iter().position(|r| *r == 1.0);
        assert_eq!(vb.state().sticks.truncation(), truncation);
        // Beside those with rows there may be a vacant component.
        let holds = |h: &usize| (0..65).any(|i| all[i * n + h] > 0.0);
        let occupied = (0..n).filter(holds).count();
        (occupied, (0..65).map(of).collect::<Vec<_>>())
    };
    let means = |of: &[Option<usize>], n: usize, with: &dyn Fn(usize) -> bool| -> Vec<Vec<f64>> {
        let mean = |h: usize| {
            let own: Vec<usize> = (0..65).filter(|&i| of[i] == Some(h) && with(i)).collect();
            let sum = |j: usize| own.iter().map(|&i| rows[i][j]).sum::<f64>();
            (0..2).map(|j| sum(j) / own.len() as f64).collect()
        };
        (0..n).map(mean).collect()
    };
    let (n, of) = first(Init::KMeans(3), 6);
    assert_eq!(n, 3);
    let centres = means(&of, n, &|_| true);
    assert!((0..65).all(|i| of[i] == Some(nearest(&rows[i], &centres).0)));
    let counts = |of: &[Option<usize>], n: usize| -> Vec<usize> {
        (0..n)
            .map(|h| of.iter().filter(|o| **o == Some(h)).count())
            .collect()
    };
    assert!(counts(&of, n).windows(2).all(|w| w[0] >= w[1]));
    // One for each class; rows without a label are with the nearer one.
    let (n, of) = first(Init::PerClass(1), 6);
    assert_eq!(n, 2);
    let labelled = |i: usize| labels.name(i).is_some();
    let centres = means(&of, n, &labelled);
    for i in 0..65 {
        match labels.name(i) {
            None => assert_eq!(of[i], Some(nearest(&rows[i], &centres).0)),
            Some(name) => assert_eq!(of[i] == of[0], labels.name(0) == Some(name)),
        }
    }
    assert_eq!(first(Init::KMeans(5), 2).0, 2);
    // Components of a mixture share rows out.
    let (n, of) = first(Init::Mixture(3), 6);
    assert!(n >= 2 && of.len() == 65);
}
