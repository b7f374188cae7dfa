//! The factor model without labels.

use npb_infer::storage;
use npb_infer::testing::{BoundMonitor, check_stationary, largest_z};
use npb_priors::ibp::IbpFactor;

use npb_linalg::faer::Mat;

use super::*;
use crate::config::IbpConcentration;
use crate::factors::gibbs::{IbpDraw, IbpGibbsConfig, IbpSampler};
use crate::factors::{Factors, Items};
use crate::state::{FeatureState, Spread};

type Update = fn(&mut Factors<'_>);

const UPDATES: [(&str, Update); 6] = [
    ("sticks", |f| f.update_sticks()),
    ("loadings", |f| f.update_loadings(1).unwrap()),
    ("indicators", |f| f.sweep_indicators(None)),
    ("noise", |f| f.update_noise()),
    ("loading scale", |f| f.update_loading_scale()),
    ("concentration", |f| f.update_concentration()),
];

#[test]
fn the_bound_never_falls_whatever_is_updated_next() {
    for number in 0..40 {
        let rng = &mut case(number);
        let missing = if number % 2 == 0 { 0.0 } else { 0.4 };
        let table = table(12 + number as usize % 7, 5, missing, rng);
        let k = rng.random_range(1..7);
        let config = factors(rng, k);
        let items = if number % 4 < 2 {
            Items::from_rows(&table)
        } else {
            Items::from_columns(&table)
        };
        let mut factors = Factors::start(&items, config, number).unwrap();
        let mut monitor = BoundMonitor::new();
        monitor.check("start", &factors.elbo_terms()).unwrap();
        for _ in 0..30 {
            let (name, update) = UPDATES[rng.random_range(0..UPDATES.len())];
            update(&mut factors);
            let checked = monitor.check(name, &factors.elbo_terms());
            assert!(checked.is_ok(), "case {number}: {checked:?}");
        }
    }
}

#[test]
fn a_bound_with_half_of_a_variance_would_be_seen_to_fall() {
    // The noise updated as if indicators were certain: the paper's K sigma^2 counted once too often is grosser.
    let rng = &mut case(100);
    let table = table(20, 6, 0.0, rng);
    let items = Items::from_rows(&table);
    let config = FeatureConfig {
        truncation: 4,
        warm_up: 0,
        ..FeatureConfig::default()
    };
    let mut factors = Factors::start(&items, config, 1).unwrap();
    for _ in 0..3 {
        factors.sweep(1, None).unwrap();
    }
    factors.update_noise();
    let mut monitor = BoundMonitor::new();
    monitor.check("noise", &factors.elbo_terms()).unwrap();
    factors.state.noise_variance *= 1.02;
    assert!(
        monitor
            .check("noise, 2% more", &factors.elbo_terms())
            .is_err()
    );
}

/// Runs and numbers of features are compared by the bound, so that its constants count: without the part of the sticks, which npb-priors checks, it is the
/// mean of `ln p(X | Z, W) p(W) / (q(Z) q(W))` under q, by draws.
#[test]
fn the_bound_is_the_mean_of_its_definition() {
    for (number, missing) in [(500, 0.0), (501, 0.3)] {
        let rng = &mut case(number);
        let table = table(8, 3, missing, rng);
        let items = Items::from_rows(&table);
        let config = FeatureConfig {
            truncation: 2,
            warm_up: 0,
            ..FeatureConfig::default()
        };
        let mut factors = Factors::start(&items, config, 1).unwrap();
        for _ in 0..3 {
            factors.sweep(1, None).unwrap();
        }
        let terms = factors.elbo_terms();
        let bound = terms[..6].iter().sum::<f64>() + terms[8];
        let draws: Vec<Vec<f64>> = (0..4000)
            .map(|_| vec![ln_ratio(&factors.state, &table, rng)])
            .collect();
        let z = largest_z(&draws, &[bound]);
        assert!(
            z < 4.5,
            "missing {missing}: {z} standard errors from {bound}"
        );
    }
}

/// One draw of it, two features.
fn ln_ratio(state: &FeatureState, table: &Table, rng: &mut Xoshiro256PlusPlus) -> f64 {
    let ln_normal = |x: f64, variance: f64| {
        -0.5 * (std::f64::consts::TAU * variance).ln() - 0.5 * x * x / variance
    };
    let mut total = 0.0;
    let mut on = Mat::<f64>::zeros(2, table.n_rows());
    for i in 0..table.n_rows() {
        for k in 0..2 {
            let p = state.indicators[(k, i)];
            let is_on = rng.random::<f64>() < p;
            total -= if is_on { p.ln() } else { (-p).ln_1p() };
            on[(k, i)] = f64::from(u8::from(is_on));
        }
    }
    for j in 0..table.n_cols() {
        let (first, cross, second) = match &state.spread {
            Spread::Shared(s) => (s[(0, 0)], s[(0, 1)], s[(1, 1)]),
            Spread::Own(v) => (v[(0, j)], 0.0, v[(1, j)]),
        };
        let a = first.sqrt() * normal(rng);
        let rest = second - cross * cross / first;
        let b = rest.sqrt() * normal(rng);
        total -= ln_normal(a, first) + ln_normal(b, rest);
        let w = [
            state.loadings[(0, j)] + a,
            state.loadings[(1, j)] + b + cross / first * a,
        ];
        total += w
            .iter()
            .map(|&w| ln_normal(w, state.loading_variance))
            .sum::<f64>();
        for i in 0..table.n_rows() {
            if let Some(x) = table.get(i, j) {
                let fitted = on[(0, i)] * w[0] + on[(1, i)] * w[1];
                total += ln_normal(x - fitted, state.noise_variance);
            }
        }
    }
    total
}

#[test]
fn updates_end_where_the_bound_is_highest() {
    for (number, missing) in [(200, 0.0), (201, 0.3)] {
        let rng = &mut case(number);
        let table = table(14, 4, missing, rng);
        let items = Items::from_rows(&table);
        let config = FeatureConfig {
            truncation: 3,
            warm_up: 0,
            ..FeatureConfig::default()
        };
        let mut factors = Factors::start(&items, config, 1).unwrap();
        for _ in 0..5 {
            factors.sweep(1, None).unwrap();
        }
        for _ in 0..400 {
            // With holes each sweep goes through the loadings of an observation one by one.
            factors.update_loadings(1).unwrap();
        }
        let mut moved = factors.clone();
        let means: Vec<f64> = (0..4)
            .flat_map(|j| factors.state.loadings.col_as_slice(j).to_vec())
            .collect();
        check_stationary(&means, 1e-6, |p| {
            for j in 0..4 {
                moved
                    .state
                    .loadings
                    .col_as_slice_mut(j)
                    .copy_from_slice(&p[3 * j..3 * j + 3]);
            }
            Factors::new(&items, config, moved.state.clone()).elbo()
        })
        .unwrap();

        // The covariance, by its diagonal.
        let spread = factors.state.spread.clone();
        let diagonal: Vec<f64> = match &spread {
            Spread::Shared(s) => (0..3).map(|k| s[(k, k)].ln()).collect(),
            Spread::Own(v) => v.col_as_slice(0).iter().map(|v| v.ln()).collect(),
        };
        let mut moved = factors.clone();
        check_stationary(&diagonal, 1e-6, |p| {
            moved.state.spread = match spread.clone() {
                Spread::Shared(mut s) => {
                    (0..3).for_each(|k| s[(k, k)] = p[k].exp());
                    Spread::Shared(s)
                }
                Spread::Own(mut v) => {
                    (0..3).for_each(|k| v[(k, 0)] = p[k].exp());
                    Spread::Own(v)
                }
            };
            Factors::new(&items, config, moved.state.clone()).elbo()
        })
        .unwrap();

        // Sticks.
        for _ in 0..3000 {
            factors.update_sticks();
        }
        let gamma: Vec<f64> = factors
            .state
            .sticks
            .gamma()
            .iter()
            .flatten()
            .map(|g| g.ln())
            .collect();
        let alpha = factors.state.sticks.alpha();
        let mut moved = factors.clone();
        check_stationary(&gamma, 1e-6, |p| {
            let pairs: Vec<[f64; 2]> = p.chunks(2).map(|g| [g[0].exp(), g[1].exp()]).collect();
            let bytes = storage::to_bytes("sticks", "0", &(alpha, pairs)).unwrap();
            moved.state.sticks = storage::from_bytes::<IbpFactor>("sticks", &bytes).unwrap();
            moved.elbo()
        })
        .unwrap();
    }
}

#[test]
fn a_known_concentration_stays_and_a_learned_one_maximises_the_bound() {
    let rng = &mut case(300);
    let table = table(15, 5, 0.0, rng);
    let items = Items::from_rows(&table);
    let mut config = FeatureConfig {
        truncation: 4,
        ..FeatureConfig::default()
    };
    let mut learned = Factors::start(&items, config, 1).unwrap();
    learned.update_concentration();
    let alpha = learned.state.sticks.alpha();
    check_stationary(&[alpha.ln()], 1e-6, |p| {
        let mut moved = learned.clone();
        moved.state.sticks.set_alpha(p[0].exp()).unwrap();
        moved.elbo()
    })
    .unwrap();
    config.concentration = IbpConcentration::Fixed(1.7);
    let mut fixed = Factors::start(&items, config, 1).unwrap();
    fixed.sweep(1, None).unwrap();
    assert_eq!(fixed.state.sticks.alpha(), 1.7);
}

/// Rows with features that data show clearly: three of them, on in a third of the rows or more, some cells not seen.
fn clear_table(missing: bool) -> Table {
    let rng = &mut case(400);
    let loadings: Vec<f64> = (0..24).map(|_| 2.0 * normal(rng)).collect();
    let on = |n: usize, k: usize| n.is_multiple_of(k + 2) || n % 7 == k;
    let (mut values, mut seen) = (Vec::new(), Vec::new());
    for n in 0..60 {
        for d in 0..8 {
            let mean: f64 = (0..3)
                .filter(|&k| on(n, k))
                .map(|k| loadings[8 * k + d])
                .sum();
            values.push(mean + 0.5 * normal(rng));
            seen.push(!missing || (3 * n + 5 * d) % 10 > 0);
        }
    }
    let mask = Mask::from_fn(60, 8, |n, d| seen[8 * n + d]).unwrap();
    Table::from_parts(values, mask).unwrap()
}

/// The chain starts where the variational posterior is, so that labels of features stay; both then say the same of the data.
#[test]
fn the_variational_posterior_is_where_the_sampler_stays() {
    for missing in [false, true] {
        let table = clear_table(missing);
        let items = Items::from_rows(&table);
        let config = FeatureConfig {
            truncation: 3,
            ..FeatureConfig::default()
        };
        let mut factors = Factors::start(&items, config, 1).unwrap();
        for _ in 0..200 {
            factors.sweep(1, None).unwrap();
        }
        let state = &factors.state;
        let mut ln_weights = vec![0.0; 3];
        state.sticks.expected_ln_weights(&mut ln_weights);
        let draw = IbpDraw {
            ln_weights,
            indicators: Mat::from_fn(3, 60, |k, i| state.indicators[(k, i)].round()),
            loadings: state.loadings.clone(),
            noise_precision: 1.0 / state.noise_variance,
            loading_precision: 1.0 / state.loading_variance,
            concentration: state.sticks.alpha(),
        };
        let config = IbpGibbsConfig {
            truncation: 3,
            ..IbpGibbsConfig::default()
        };
        let mut sampler = IbpSampler::at(&table, &config, draw).unwrap();
        let mut noise = 0.0;
        let (mut fitted, mut on) = (Mat::<f64>::zeros(60, 8), Mat::<f64>::zeros(3, 60));
        for sweep in 0..1100 {
            sampler.sweep().unwrap();
            if sweep >= 100 {
                let draw = sampler.draw();
                noise += 1e-3 / draw.noise_precision;
                fitted += draw.indicators.transpose() * &draw.loadings * 1e-3;
                on += &draw.indicators * 1e-3;
            }
        }
        let ours = state.indicators.transpose() * &state.loadings;
        let far = (&ours - &fitted).norm_l2() / 480f64.sqrt();
        let apart = (&on - &state.indicators).norm_max();
        let ratio = state.noise_variance / noise;
        // Posterior standard deviations of fitted cells are about .1, that of the noise variance 7%.
        assert!(
            far < 0.03 && apart < 0.1 && (ratio - 1.0).abs() < 0.07,
            "{missing}: cells {far}, indicators {apart}, noise {ratio}"
        );
    }
}
