//! The factor-analytic variant: a row's factors are summed over a grid.

use npb_data::{Labels, Table};
use npb_infer::{Stop, VbLimits};
use npb_iqgme::{
    FactorConfig, FactorData, FactorFit, FactorInit, FactorMember, FactorState, FactorVb,
    FactorVbUpdate, FeatureScale, fit_factor,
};
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::special::{digamma, log_sum_exp, normal_cdf};

use super::written_out::{
    Part, Row, Square, apart, calibrated, quadratic, standardised, weights_of_sticks,
};
use crate::factor::data::Simulation;

/// Settings off their defaults; with two factors at most sums over a plane have them all.
fn odd(seed: u64) -> FactorConfig {
    let gamma = |shape: f64, rate: f64| GammaPrior { shape, rate };
    FactorConfig {
        scale: FeatureScale::Standardised,
        truncation: 5,
        max_factors: 2,
        concentration: gamma(2.0, 0.7),
        indicator_on: 1.3,
        indicator_off: 0.6,
        loading: gamma(0.8, 0.3),
        mean: gamma(1.7, 0.9),
        noise: gamma(2.5, 0.4),
        cluster_noise: 1.9,
        expert: gamma(2.0, 1.5),
        expert_mean_strength: 3.0,
        starts: vec![FactorInit::Pooled(2), FactorInit::PerClass(1)],
        unlabelled_starts: vec![FactorInit::Pooled(2)],
        restarts: 1,
        folds: 3,
        elbo_temperature: 3.0,
        limits: VbLimits {
            max_iterations: 40,
            tolerance: 1e-6,
        },
        seed,
    }
}

fn simulation(n: usize, missing: f64) -> Simulation {
    Simulation {
        n,
        p: 5,
        used: vec![vec![0, 1], vec![1]],
        missing,
        unlabelled: 0.1,
        ..Simulation::small()
    }
}

/// Columns in units far from one.
fn in_units(table: &Table) -> Table {
    let scale = [3.0, -0.01, 20.0, 1.0, 0.2];
    table
        .map(|_, j, x| 50.0 * (j + 1) as f64 + scale[j] * x)
        .unwrap()
}

/// What a cluster makes of a row: the logarithm of weight and evidence, moments of the factors that it uses, and the mean squared error of every observed
/// feature at the means of its parameters.
struct Seen {
    ln: f64,
    mean: Vec<f64>,
    covariance: Square,
    errors: Vec<f64>,
    /// `sum <psi> (x - m'f)^2 + f'Vf` over the observed features.
    squares: f64,
}

/// The points of a grid over so many factors, with the logarithm of their prior density.
fn grid(n: usize) -> Vec<(Vec<f64>, f64)> {
    let step = 0.08;
    let line: Vec<f64> = (-75..=75).map(|k| step * f64::from(k)).collect();
    let ln = |s: f64| -0.5 * s * s - 0.5 * (2.0 * std::f64::consts::PI).ln() + step.ln();
    match n {
        0 => vec![(Vec::new(), 0.0)],
        1 => line.iter().map(|&s| (vec![s], ln(s))).collect(),
        _ => {
            let each = line.iter().flat_map(|&s| line.iter().map(move |&t| [s, t]));
            each.map(|[s, t]| (vec![s, t], ln(s) + ln(t))).collect()
        }
    }
}

impl Seen {
    fn new(state: &FactorState, h: usize, row: &Row) -> Self {
        let (used, features) = (state.used(h), &state.features);
        let at: Vec<usize> = used
            .iter()
            .copied()
            .chain([state.n_factors() + h])
            .collect();
        let (noise, ln_noise) = state.noise.get(h).map_or((1.0, 0.0), |g| {
            (g.shape() / g.rate(), digamma(g.shape()) - g.rate().ln())
        });
        let observed: Vec<usize> = (0..row.len()).filter(|&p| row[p].is_some()).collect();
        let weights = weights_of_sticks(state.sticks.sticks().parameters());
        let total: f64 = weights[..state.n_clusters()].iter().sum();
        let mut constant = (weights[h] / total).ln();
        let psi = |p: usize| features.shape[p] / features.rate[p];
        let mut gram = vec![vec![0.0; at.len()]; at.len()];
        for &p in &observed {
            let ln_psi = digamma(features.shape[p]) - features.rate[p].ln();
            constant += 0.5 * (ln_psi + ln_noise - (2.0 * std::f64::consts::PI).ln());
            let v = &features.covariance[features.pattern[p]];
            for (k, &a) in at.iter().enumerate() {
                at.iter()
                    .enumerate()
                    .for_each(|(l, &b)| gram[k][l] += v[(a, b)]);
            }
        }
        let error = |p: usize, f: &[f64]| {
            let along: f64 = at
                .iter()
                .zip(f)
                .map(|(&a, f)| features.mean[(p, a)] * f)
                .sum();
            (row[p].unwrap() - along).powi(2)
        };
        let points = grid(used.len());
        let with_one = |s: &[f64]| [s, &[1.0]].concat();
        let squares = |f: &[f64]| {
            let each = observed.iter().map(|&p| psi(p) * error(p, f));
            each.sum::<f64>() + quadratic(&gram, f, f)
        };
        let ln: Vec<f64> = points
            .iter()
            .map(|(s, prior)| prior - 0.5 * noise * squares(&with_one(s)))
            .collect();
        let total = log_sum_exp(&ln);
        let mut seen = Self {
            ln: constant + total,
            mean: vec![0.0; used.len()],
            covariance: vec![vec![0.0; used.len()]; used.len()],
            errors: vec![0.0; row.len()],
            squares: 0.0,
        };
        for ((s, _), ln) in points.iter().zip(&ln) {
            let weight = (ln - total).exp();
            if weight < 1e-14 {
                continue;
            }
            let f = with_one(s);
            for k in 0..s.len() {
                seen.mean[k] += weight * s[k];
                (0..s.len()).for_each(|l| seen.covariance[k][l] += weight * s[k] * s[l]);
            }
            observed
                .iter()
                .for_each(|&p| seen.errors[p] += weight * error(p, &f));
            seen.squares += weight * squares(&f);
        }
        for k in 0..used.len() {
            for l in 0..used.len() {
                seen.covariance[k][l] -= seen.mean[k] * seen.mean[l];
            }
        }
        seen
    }

    fn all(state: &FactorState, row: &Row) -> Vec<Self> {
        (0..state.n_clusters())
            .map(|h| Self::new(state, h, row))
            .collect()
    }

    fn shares(all: &[Self]) -> Vec<f64> {
        let ln: Vec<f64> = all.iter().map(|seen| seen.ln).collect();
        let total = log_sum_exp(&ln);
        ln.iter().map(|ln| (ln - total).exp()).collect()
    }

    /// Probability of the second class under the cluster's expert.
    fn second(&self, state: &FactorState, h: usize) -> f64 {
        let (used, expert) = (state.used(h), &state.experts[h]);
        let own: Vec<usize> = used.iter().copied().chain([state.n_factors()]).collect();
        let pick = |m: &Mat<f64>| -> Square {
            own.iter()
                .map(|&i| own.iter().map(|&j| m[(i, j)]).collect())
                .collect()
        };
        let w: Vec<f64> = own.iter().map(|&l| expert.mean[l]).collect();
        let (full, covariance) = ([&self.mean[..], &[1.0]].concat(), pick(&expert.covariance));
        let score: f64 = w.iter().zip(&full).map(|(w, s)| w * s).sum();
        let n = used.len();
        let mut variance = 1.0 + quadratic(&covariance, &full, &full);
        variance += quadratic(&self.covariance, &w[..n], &w[..n]);
        for i in 0..n {
            variance += (0..n)
                .map(|j| covariance[i][j] * self.covariance[i][j])
                .sum::<f64>();
        }
        normal_cdf(score / variance.sqrt())
    }

    /// Mean and mean square of a missing feature.
    fn cell(&self, state: &FactorState, h: usize, p: usize) -> [f64; 2] {
        let (used, features) = (state.used(h), &state.features);
        let at: Vec<usize> = used
            .iter()
            .copied()
            .chain([state.n_factors() + h])
            .collect();
        let full = [&self.mean[..], &[1.0]].concat();
        let theta: Vec<f64> = at.iter().map(|&a| features.mean[(p, a)]).collect();
        let mean: f64 = theta.iter().zip(&full).map(|(t, f)| t * f).sum();
        let v = &features.covariance[features.pattern[p]];
        let v: Square = at
            .iter()
            .map(|&a| at.iter().map(|&b| v[(a, b)]).collect())
            .collect();
        let n = used.len();
        let mut uncertain = quadratic(&v, &full, &full);
        for i in 0..n {
            uncertain += (0..n).map(|j| v[i][j] * self.covariance[i][j]).sum::<f64>();
        }
        let kappa = state.noise.get(h).map_or(1.0, |g| g.shape() / g.rate());
        let noise = features.rate[p] / (features.shape[p] - 1.0);
        let variance = noise * (1.0 / kappa + uncertain)
            + quadratic(&self.covariance, &theta[..n], &theta[..n]);
        [mean, variance + mean * mean]
    }
}

/// The clusters as normal laws of the features, all parameters at their means.
fn at_means(state: &FactorState) -> Vec<Part> {
    let (features, n) = (&state.features, state.n_clusters());
    let weights = weights_of_sticks(state.sticks.sticks().parameters());
    let total: f64 = weights[..n].iter().sum();
    let p = features.rate.len();
    let part = |h: usize| {
        let kappa = state.noise.get(h).map_or(1.0, |g| g.shape() / g.rate());
        let cell = |i: usize, j: usize| {
            let shared = state.used(h).into_iter();
            let shared: f64 = shared
                .map(|l| features.mean[(i, l)] * features.mean[(j, l)])
                .sum();
            let own = features.rate[i] / features.shape[i] / kappa;
            shared + if i == j { own } else { 0.0 }
        };
        Part {
            weight: weights[h] / total,
            mean: (0..p)
                .map(|j| features.mean[(j, state.n_factors() + h)])
                .collect(),
            scale: (0..p)
                .map(|i| (0..p).map(|j| cell(i, j)).collect())
                .collect(),
            dof: f64::INFINITY,
            experts: Vec::new(),
        }
    };
    (0..n).map(part).collect()
}

#[test]
fn answers_of_factors_are_those_of_the_posterior() {
    let (table, labels, _) = simulation(100, 0.2).draw(141);
    let table = in_units(&table);
    let rows: Vec<usize> = (0..70).collect();
    let new = table.select_rows(&(70..82).collect::<Vec<_>>());
    let (table, labels) = (table.select_rows(&rows), labels.select_rows(&rows));
    let fit = fit_factor(&table, &labels, &odd(141)).unwrap();
    let members = fit.members();
    assert!(
        members.len() == 2
            && members
                .iter()
                .all(|m| m.elbo_weight > 1e-3 && m.stacking_weight > 1e-3)
    );
    assert!(
        members
            .iter()
            .any(|m| m.calibration.inverse_temperature != 1.0)
    );
    assert!(members.iter().any(|m| m.state.n_factors() > 0));
    let (rows, units) = (standardised(&table, &new), table.column_stats());
    let density = fit.ln_density(&new).unwrap();
    let both = fit.predict_classes(&new).unwrap();
    let second = fit.predict_proba(&new).unwrap();
    let names = fit.predict(&new).unwrap();
    let shares = fit.responsibilities(&new).unwrap();
    let clusters = fit.clusters(&new).unwrap();
    let imputed = fit.impute(&new).unwrap();
    for (i, row) in rows.iter().enumerate() {
        let observed = (0..5).filter(|&j| row[j].is_some());
        let jacobian: f64 = observed.map(|j| units[j].sd.ln()).sum();
        let each = members.iter().map(|m| {
            m.elbo_weight * super::written_out::ln_density(&at_means(&m.state), row).exp()
        });
        let ln = each.sum::<f64>().ln() - jacobian;
        assert!((density[i] - ln).abs() < 1e-8, "{i}: {} {ln}", density[i]);
        let mut p = 0.0;
        let mut cells = [[0.0; 2]; 5];
        for (
            k,
            FactorMember {
                state,
                calibration,
                stacking_weight,
                elbo_weight,
                ..
            },
        ) in members.iter().enumerate()
        {
            let seen = Seen::all(state, row);
            let own = Seen::shares(&seen);
            if k == 0 {
                assert!(
                    apart(&shares[i], &own) < 1e-5,
                    "{i}: {:?} {own:?}",
                    shares[i]
                );
                assert!(shares[i].iter().all(|r| *r <= shares[i][clusters[i]]));
            }
            let of: f64 = (0..seen.len())
                .map(|h| own[h] * seen[h].second(state, h))
                .sum();
            p += stacking_weight * calibrated(calibration, &[1.0 - of, of])[1];
            for j in (0..5).filter(|&j| row[j].is_none()) {
                for h in 0..seen.len() {
                    let moments = seen[h].cell(state, h, j);
                    (0..2).for_each(|m| cells[j][m] += elbo_weight * own[h] * moments[m]);
                }
            }
        }
        assert!((both[i][1] - p).abs() < 1e-5, "{i}: {} {p}", both[i][1]);
        assert!((both[i][0] + both[i][1] - 1.0).abs() < 1e-12);
        assert_eq!(
            (second[i], names[i]),
            (both[i][1], &*fit.classes()[usize::from(p > 0.5)])
        );
        for j in (0..5).filter(|&j| row[j].is_none()) {
            let [mean, square] = cells[j];
            let sd = (square - mean * mean).sqrt() * units[j].sd;
            let mean = units[j].mean + units[j].sd * mean;
            let found = imputed.completed.get(i, j).unwrap();
            assert!((found - mean).abs() < 1e-5 * units[j].sd, "{i} {j}");
            let found = imputed.sd.get(i, j).unwrap();
            assert!((found / sd - 1.0).abs() < 1e-5, "{i} {j}: {found} {sd}");
        }
    }
}

#[test]
fn components_and_loadings_are_told_in_the_units_of_the_table() {
    let (table, labels, _) = simulation(70, 0.2).draw(142);
    let table = in_units(&table);
    let fit = fit_factor(
        &table,
        &labels,
        &FactorConfig {
            folds: 0,
            ..odd(142)
        },
    )
    .unwrap();
    let (state, units, derived) = (fit.state(), table.column_stats(), &fit.best().derived);
    let weights = weights_of_sticks(state.sticks.sticks().parameters());
    let components = fit.components();
    assert_eq!(components.len(), state.n_clusters());
    let n = state.n_factors();
    for (h, cluster) in components.iter().enumerate() {
        assert!((cluster.weight - weights[h]).abs() < 1e-12);
        assert_eq!(
            (cluster.size, &cluster.factors),
            (derived.sizes[h], &state.used(h))
        );
        for j in 0..5 {
            let mean = units[j].mean + units[j].sd * state.features.mean[(j, n + h)];
            assert!((cluster.mean[j] - mean).abs() < 1e-9 * units[j].sd);
        }
        // All ways to use columns or not, each with its probability.
        let mut dimension = vec![0.0; n + 1];
        for set in 0..1usize << n {
            let of = |l: usize| {
                let p = derived.inclusion_probabilities[h][l];
                if set >> l & 1 == 1 { p } else { 1.0 - p }
            };
            dimension[set.count_ones() as usize] += (0..n).map(of).product::<f64>();
        }
        assert!(apart(&cluster.dimension, &dimension) < 1e-12);
        let expert = &state.experts[h];
        let effects = cluster
            .factors
            .iter()
            .map(|&l| (expert.mean[l], expert.covariance[(l, l)].sqrt()));
        assert_eq!(cluster.effects, Some(effects.collect()));
        assert!(cluster.utilities.is_empty());
    }
    let total: f64 = components.iter().map(|c| c.size).sum();
    assert!((total - 70.0).abs() < 1e-6, "{total}");
    assert_eq!(
        fit.n_clusters(),
        components.iter().filter(|c| c.size >= 1.0).count()
    );
    let loadings = fit.loadings();
    assert_eq!(loadings.shape(), (5, n));
    for (j, l) in (0..5).flat_map(|j| (0..n).map(move |l| (j, l))) {
        assert_eq!(loadings[(j, l)], state.features.mean[(j, l)]);
    }
}

/// Scales, noise, sticks, concentration and the experts' prior: closed forms, given what they depend on.
#[test]
fn the_posterior_of_factors_is_the_fixed_point_of_its_updates() {
    let (table, _, _) = simulation(60, 0.2).draw(143);
    let labels = Labels::from_strings(&[None::<&str>; 60]);
    let config = FactorConfig {
        folds: 0,
        limits: VbLimits {
            max_iterations: 1500,
            tolerance: 1e-13,
        },
        ..odd(143)
    };
    let fit = fit_factor(&table, &labels, &config).unwrap();
    let (state, features) = (fit.state(), &fit.state().features);
    let (n, k) = (state.n_factors(), state.n_clusters());
    assert!(n + k > 1);
    let psi = |p: usize| features.shape[p] / features.rate[p];
    let square = |d: usize| -> f64 {
        let of = |p: usize| {
            let v = &features.covariance[features.pattern[p]];
            psi(p) * features.mean[(p, d)].powi(2) + v[(d, d)]
        };
        (0..5).map(of).sum()
    };
    for (l, precision) in state.loading_precisions.iter().enumerate() {
        assert!((precision.shape() - (0.8 + 2.5)).abs() < 1e-12);
        assert!((precision.rate() - (0.3 + 0.5 * square(l))).abs() < 1e-9);
    }
    let means: f64 = (n..n + k).map(square).sum();
    assert!((state.mean_precision.shape() - (1.7 + 2.5 * k as f64)).abs() < 1e-12);
    assert!((state.mean_precision.rate() - (0.9 + 0.5 * means)).abs() < 1e-9);
    let alpha = state.sticks.alpha();
    assert!((alpha.shape() - (2.0 + 4.0)).abs() < 1e-12);
    let ln_rest = state.sticks.sticks().parameters().iter();
    let ln_rest: f64 = ln_rest.map(|[a, b]| digamma(*b) - digamma(a + b)).sum();
    assert!((alpha.rate() - (0.7 - ln_rest)).abs() < 1e-9);
    // What follows from the rows, by sums over the grid.
    let rows = standardised(&table, &table);
    let sticks = state.sticks.sticks().parameters();
    let ln_weight = |h: usize| {
        let own = sticks
            .get(h)
            .map_or(0.0, |[a, b]| digamma(*a) - digamma(a + b));
        let before = sticks[..h].iter();
        own + before
            .map(|[a, b]| digamma(*b) - digamma(a + b))
            .sum::<f64>()
    };
    let weights = weights_of_sticks(sticks);
    let total: f64 = weights[..k].iter().sum();
    let (mut sizes, mut cells, mut squares) = (vec![0.0; k], vec![0.0; k], vec![0.0; k]);
    let mut errors = [0.0; 5];
    for row in &rows {
        let mut seen = Seen::all(state, row);
        for h in 0..k {
            // Rows of training are shared by expected logarithms of the weights.
            seen[h].ln += ln_weight(h) - (weights[h] / total).ln();
        }
        let shares = Seen::shares(&seen);
        let observed = row.iter().filter(|x| x.is_some()).count() as f64;
        for h in 0..k {
            let kappa = state.noise[h].shape() / state.noise[h].rate();
            sizes[h] += shares[h];
            cells[h] += shares[h] * observed;
            squares[h] += shares[h] * seen[h].squares;
            (0..5).for_each(|p| errors[p] += shares[h] * kappa * seen[h].errors[p]);
        }
    }
    for h in 0..k {
        let noise = &state.noise[h];
        assert!(
            (noise.shape() - (1.9 + 0.5 * cells[h])).abs() < 0.03,
            "{h}: {} {}",
            noise.shape(),
            cells[h]
        );
        assert!(
            (noise.rate() / (1.9 + 0.5 * squares[h]) - 1.0).abs() < 2e-3,
            "{h}: {} {}",
            noise.rate(),
            squares[h]
        );
        assert!((fit.best().derived.sizes[h] - sizes[h]).abs() < 0.01);
        let [a, _] = state.sticks.sticks().parameters()[h];
        assert!((a - 1.0 - sizes[h]).abs() < 0.01);
    }
    for p in 0..5 {
        let seen = table.observed_in_column(p).count() as f64;
        assert!((features.shape[p] - (2.5 + 0.5 * seen)).abs() < 1e-12);
        let precision = |d: usize| match d < n {
            true => state.loading_precisions[d].shape() / state.loading_precisions[d].rate(),
            false => state.mean_precision.shape() / state.mean_precision.rate(),
        };
        let pull: f64 = (0..n + k)
            .map(|d| precision(d) * features.mean[(p, d)].powi(2))
            .sum();
        let rate = 0.4 + 0.5 * (errors[p] + pull);
        assert!(
            (features.rate[p] / rate - 1.0).abs() < 5e-3,
            "{p}: {} {rate}",
            features.rate[p]
        );
    }
}

#[test]
fn the_prior_of_the_experts_follows_from_those_that_use_a_factor() {
    let (table, labels, _) = simulation(80, 0.1).draw(144);
    let fit = fit_factor(
        &table,
        &labels,
        &FactorConfig {
            folds: 0,
            ..odd(144)
        },
    )
    .unwrap();
    for run in fit.members() {
        let state = &run.state;
        for (l, law) in state.expert_prior.iter().enumerate() {
            let uses = |h: &usize| l == state.n_factors() || state.indicators[*h][l];
            let own: Vec<usize> = (0..state.n_clusters())
                .filter(uses)
                .filter(|h| !state.experts[*h].at_prior)
                .collect();
            let n = own.len() as f64;
            let mean = own.iter().map(|&h| state.experts[h].mean[l]).sum::<f64>() / (3.0 + n);
            let about = |h: &usize| {
                let expert = &state.experts[*h];
                (expert.mean[l] - mean).powi(2) + expert.covariance[(l, l)]
            };
            let squares = own.iter().map(about).sum::<f64>() + 3.0 * mean * mean;
            assert!((law.mean() - mean).abs() < 1e-9);
            assert!((law.strength() - 3.0 - n).abs() < 1e-12);
            let precision = law.precision();
            assert!((precision.shape() - 2.0 - 0.5 * n).abs() < 1e-12);
            assert!((precision.rate() - 1.5 - 0.5 * squares).abs() < 1e-9);
        }
    }
}

/// The odds of a column a priori are `a / (b (L - 1))`, and go into its odds in the posterior as they are.
#[test]
fn odds_of_columns_are_those_of_the_prior_times_the_evidence() {
    let weak = Simulation {
        noise: 1.0,
        ..simulation(20, 0.1)
    };
    let (table, labels, _) = weak.draw(145);
    let config = FactorConfig {
        max_factors: 4,
        ..odd(145)
    };
    let data = FactorData::new(&table, &labels, &config).unwrap();
    let mut vb = FactorVb::new(&data, config.clone(), FactorInit::Pooled(2), 0).unwrap();
    let trace: Vec<_> = (0..5).map(|_| vb.step().unwrap()).collect();
    assert_eq!(trace.len(), 5);
    let state = vb.state().clone();
    let ln_odds = |config: FactorConfig| -> Vec<f64> {
        let mut vb = FactorVb::resume(&data, config, state.clone(), &[]).unwrap();
        vb.apply(FactorVbUpdate::Rows).unwrap();
        let all = vb.inclusion_probabilities().unwrap().concat();
        all.iter().map(|p| p.ln() - (-p).ln_1p()).collect()
    };
    let before = ln_odds(config.clone());
    let other = FactorConfig {
        indicator_on: 2.0,
        indicator_off: 0.9,
        ..config.clone()
    };
    let wanted = (2.0_f64 / (0.9 * 3.0)).ln() - (1.3_f64 / (0.6 * 3.0)).ln();
    let mut compared = 0;
    for (before, after) in before.iter().zip(ln_odds(other)) {
        // Beyond this rounding decides.
        if before.abs() < 20.0 {
            compared += 1;
            assert!((after - before - wanted).abs() < 1e-5, "{before} {after}");
        }
    }
    let more = FactorConfig {
        max_factors: 8,
        ..config
    };
    let wanted = (3.0_f64 / 7.0).ln();
    for (before, after) in before.iter().zip(ln_odds(more)) {
        if before.abs() < 20.0 {
            assert!((after - before - wanted).abs() < 1e-5, "{before} {after}");
        }
    }
    assert!(compared > 0, "{before:?}");
}

/// Truncations hold, runs end where the limits say, seeds tell starts apart, and the noise of clusters can be one and the same.
#[test]
fn sizes_limits_and_seeds_are_taken_from_the_configuration() {
    let (table, labels, _) = simulation(70, 0.1).draw(146);
    let config = FactorConfig {
        truncation: 3,
        starts: vec![FactorInit::Pooled(7)],
        folds: 0,
        limits: VbLimits {
            max_iterations: 6,
            tolerance: 1e-12,
        },
        ..odd(146)
    };
    let fitted = |config: &FactorConfig| fit_factor(&table, &labels, config).unwrap();
    let six = fitted(&config);
    assert_eq!((six.trace().len(), six.stop()), (6, Stop::MaxIterations));
    assert_eq!(six.state().sticks.truncation(), 3);
    assert!(six.state().n_clusters() <= 3 && six.state().n_factors() <= 2);
    assert_eq!(six.state().noise.len(), six.state().n_clusters());
    let elbos = |fit: &FactorFit| -> Vec<f64> { fit.trace().iter().map(|r| r.elbo).collect() };
    assert_eq!(elbos(&six), elbos(&fitted(&config)));
    assert_ne!(
        elbos(&six),
        elbos(&fitted(&FactorConfig {
            seed: 147,
            ..config.clone()
        }))
    );
    let alike = fitted(&FactorConfig {
        cluster_noise: 0.0,
        ..config.clone()
    });
    assert!(alike.state().noise.is_empty());
    let long = fitted(&FactorConfig {
        limits: VbLimits {
            max_iterations: 500,
            tolerance: 1e-3,
        },
        ..config
    });
    let relative = |w: &[f64]| ((w[1] - w[0]) / w[1]).abs();
    let changes: Vec<f64> = elbos(&long).windows(2).map(relative).collect();
    let first = changes
        .windows(2)
        .position(|w| w[0] < 1e-3 && w[1] < 1e-3)
        .unwrap();
    assert_eq!(long.trace().len(), first + 3);
}

/// On normal scores only the order of values counts; a value between two of training lies between theirs.
#[test]
fn normal_scores_are_of_ranks_alone() {
    let (table, labels, _) = simulation(50, 0.1).draw(148);
    let bent = |_: usize, j: usize, x: f64| {
        if j.is_multiple_of(2) {
            x.exp()
        } else {
            x * x * x + x
        }
    };
    let config = FactorConfig {
        scale: FeatureScale::NormalScores,
        folds: 0,
        ..odd(148)
    };
    let other = table.map(bent).unwrap();
    let [a, b] = [&table, &other].map(|table| fit_factor(table, &labels, &config).unwrap());
    assert!((a.best().elbo() - b.best().elbo()).abs() < 1e-9 * a.best().elbo().abs());
    let [p, q] = [
        a.predict_proba(&table).unwrap(),
        b.predict_proba(&other).unwrap(),
    ];
    assert!(apart(&p, &q) < 1e-9);
    let own = fit_factor(
        &table,
        &labels,
        &FactorConfig {
            scale: FeatureScale::Standardised,
            ..config
        },
    )
    .unwrap();
    assert!(apart(&own.predict_proba(&table).unwrap(), &p) > 1e-4);
    // A density of the user's units: it integrates to one along a column.
    let (low, steps) = (-15.0, 30_000);
    let step = 30.0 / f64::from(steps);
    let mut cells = Vec::new();
    for k in 0..steps {
        let x = low + step * (f64::from(k) + 0.5);
        cells.extend([x, f64::NAN, f64::NAN, f64::NAN, f64::NAN]);
    }
    let along = Table::from_nan_coded(steps as usize, 5, &cells).unwrap();
    let density = a.ln_density(&along).unwrap();
    let mass: f64 = density.iter().map(|d| step * d.exp()).sum();
    assert!((mass - 1.0).abs() < 0.02, "{mass}");
}
