//! The Indian buffet process: buffet, sticks, finite limit, and the variational factor.

use std::collections::BTreeMap;

use npb_priors::GammaPrior;
use npb_priors::beta_bernoulli::WeightPrior;
use npb_priors::dist::{Conjugate, Trials};
use npb_priors::ibp::*;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{Beta, Binomial, ContinuousCDF, Discrete, Gamma, Poisson};
use statrs::function::gamma::digamma;

use crate::check::{LEVEL, assert_mean, assert_moments, chi_square_p, ks_p, rng, tally};

/// How many columns have each history (a bit per row).
fn histories(rows: &[Vec<usize>]) -> BTreeMap<usize, usize> {
    let mut bits = vec![0_usize; column_counts(rows).len()];
    for (i, row) in rows.iter().enumerate() {
        row.iter().for_each(|&k| bits[k] |= 1 << i);
    }
    let mut counts = BTreeMap::new();
    bits.into_iter()
        .filter(|&h| h > 0)
        .for_each(|h| *counts.entry(h).or_insert(0) += 1);
    counts
}

/// Rate of the Poisson number of columns with one history of `m` ones in `n` rows.
fn history_rate(n: usize, m: usize, alpha: f64) -> f64 {
    let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
    alpha * factorial(n - m) * factorial(m - 1) / factorial(n)
}

#[test]
fn the_class_probability_is_a_product_of_poissons() {
    let (n, alpha) = (4, 1.7);
    let rates: Vec<f64> = (1..1 << n)
        .map(|h: usize| history_rate(n, h.count_ones() as usize, alpha))
        .collect();
    assert!((rates.iter().sum::<f64>() - alpha * harmonic(n)).abs() < 1e-13);
    let mut rng = rng(300);
    for _ in 0..200 {
        let rows = sample_buffet(n, alpha, &mut rng);
        let seen = histories(&rows);
        let product = |h: usize| {
            Poisson::new(rates[h - 1])
                .unwrap()
                .ln_pmf(seen.get(&h).copied().unwrap_or(0) as u64)
        };
        let expected: f64 = (1..1 << n).map(product).sum();
        assert!((ln_class_probability(&rows, alpha) - expected).abs() < 1e-11);
    }
    // An empty column and another order of columns change nothing.
    let one = ln_class_probability(&[vec![0, 1], vec![1], vec![1, 2]], alpha);
    let other = ln_class_probability(&[vec![0, 4], vec![0], vec![0, 2]], alpha);
    assert!((one - other).abs() < 1e-13);
    assert!((ln_class_probability(&[vec![], vec![]], alpha) + 1.5 * alpha).abs() < 1e-14);
}

#[test]
fn the_buffet_draws_classes_with_their_probability() {
    let alpha = 1.2;
    let mut rng = rng(301);
    let mut cells = [vec![], vec![], vec![]];
    let mut observed = BTreeMap::new();
    let n_draws = 40_000;
    for _ in 0..n_draws {
        let rows = sample_buffet(2, alpha, &mut rng);
        let seen = histories(&rows);
        let key: Vec<usize> = (1..4).map(|h| seen.get(&h).copied().unwrap_or(0)).collect();
        cells.iter_mut().zip(&key).for_each(|(c, k)| c.push(*k));
        observed
            .entry(key)
            .or_insert((0, ln_class_probability(&rows, alpha).exp()))
            .0 += 1;
    }
    let (counts, p): (Vec<usize>, Vec<f64>) = observed.into_values().unzip();
    assert!(chi_square_p(&counts, &p) > LEVEL);
    let wrong: Vec<f64> = p.iter().map(|p| p.powf(1.02)).collect();
    assert!(chi_square_p(&counts, &wrong) < LEVEL);
}

#[test]
fn columns_are_poisson_and_rows_too() {
    let (n, alpha) = (25, 2.2);
    let mut rng = rng(302);
    let (mut used, mut last_row, mut ones) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..30_000 {
        let rows = sample_buffet(n, alpha, &mut rng);
        used.push(column_counts(&rows).len());
        last_row.push(rows[n - 1].len());
        ones.push(rows.iter().map(Vec::len).sum::<usize>() as f64);
    }
    assert_mean(&ones, n as f64 * alpha);
    for (draws, mean) in [(used, alpha * harmonic(n)), (last_row, alpha)] {
        assert_moments(
            &draws.iter().map(|&k| k as f64).collect::<Vec<_>>(),
            mean,
            mean,
        );
        let law = Poisson::new(mean).unwrap();
        let p: Vec<f64> = (0..60).map(|k| law.pmf(k)).collect();
        assert!(chi_square_p(&tally(draws, 60), &p) > LEVEL);
    }
}

#[test]
fn the_finite_model_tends_to_the_buffet() {
    let (n, alpha) = (6, 1.5);
    let mut rng = rng(303);
    for k in [1, 5, 400] {
        let prior = WeightPrior::new(alpha / k as f64, 1.0).unwrap();
        let draws: Vec<Vec<Vec<usize>>> = (0..8_000)
            .map(|_| sample_finite(n, k, alpha, &mut rng))
            .collect();
        let used = draws
            .iter()
            .map(|rows| column_counts(rows).iter().filter(|&&m| m > 0).count());
        let binomial = Binomial::new(prior.active_probability(n), k as u64).unwrap();
        let p: Vec<f64> = (0..=k.min(40) as u64).map(|u| binomial.pmf(u)).collect();
        assert!(chi_square_p(&tally(used, p.len()), &p) > LEVEL, "K = {k}");
        let ones: Vec<f64> = draws
            .iter()
            .map(|rows| rows.iter().map(Vec::len).sum::<usize>() as f64)
            .collect();
        assert_mean(&ones, n as f64 * alpha / (1.0 + alpha / k as f64));
    }
    assert_eq!(
        sample_finite(3, 0, alpha, &mut rng),
        vec![Vec::<usize>::new(); 3]
    );

    // K!/((K - used)! prod K_h!) prod P(column) tends to the class probability.
    let rows = vec![vec![0, 1, 2], vec![0], vec![0, 1, 2]];
    let k = 1e9;
    let prior = WeightPrior::new(alpha / k, 1.0).unwrap();
    let weight = npb_priors::dist::Beta::new(alpha / k, 1.0).unwrap();
    let columns: f64 = column_counts(&rows)
        .iter()
        .map(|&m| {
            weight
                .ln_evidence(&Trials {
                    successes: m as u64,
                    failures: 3 - m as u64,
                })
                .unwrap()
        })
        .sum();
    let ln_finite =
        3.0 * f64::ln(k) - 2f64.ln() + columns + (k - 3.0) * (-prior.active_probability(3)).ln_1p();
    assert!((ln_finite - ln_class_probability(&rows, alpha)).abs() < 1e-6);
}

#[test]
fn sticks_decrease_with_their_moments() {
    let alpha = 2.0;
    let mut rng = rng(304);
    let mut columns = vec![Vec::new(); 5];
    let mut row_means = Vec::new();
    for _ in 0..20_000 {
        let mut ln_mu = [0.0; 60];
        sample_sticks(alpha, &mut ln_mu, &mut rng);
        assert!(ln_mu.windows(2).all(|w| w[1] <= w[0]) && ln_mu[0] <= 0.0);
        row_means.push(ln_mu.iter().map(|l| l.exp()).sum());
        columns
            .iter_mut()
            .zip(ln_mu)
            .for_each(|(c, l)| c.push(l.exp()));
    }
    let shrink: f64 = alpha / (1.0 + alpha);
    assert_mean(&row_means, alpha * (1.0 - shrink.powi(60)));
    for (k, column) in columns.iter().enumerate() {
        let (first, second) = (
            shrink.powi(k as i32 + 1),
            (alpha / (2.0 + alpha)).powi(k as i32 + 1),
        );
        assert_moments(column, first, second - first * first);
    }
    assert!(ks_p(columns.swap_remove(0), |x| x.powf(alpha)) > LEVEL);
}

#[test]
fn the_concentration_draw_leaves_the_joint_law() {
    let prior = GammaPrior {
        shape: 2.0,
        rate: 1.5,
    };
    let law = Gamma::new(2.0, 1.5).unwrap();
    let mut rng = rng(305);
    let (mut moved, mut products, mut twin) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..30_000 {
        let alpha: f64 = law.inverse_cdf(rng.random());
        let used = column_counts(&sample_buffet(9, alpha, &mut rng)).len();
        let new = draw_concentration(9, used, prior, &mut rng);
        products.push((new - alpha) * used as f64);
        moved.push(new);
        // Wrong: ln n for H_n.
        twin.push(draw_concentration(5, used, prior, &mut rng));
    }
    assert_mean(&products, 0.0);
    assert!(ks_p(moved, |x| law.cdf(x)) > LEVEL);
    assert!(ks_p(twin, |x| law.cdf(x)) < LEVEL);
}

/// A factor with given parameters, through its saved form.
fn factor(alpha: f64, gamma: &[[f64; 2]]) -> IbpFactor {
    serde_json::from_value(serde_json::json!({ "alpha": alpha, "gamma": gamma })).unwrap()
}

fn random_gamma(k: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<[f64; 2]> {
    (0..k)
        .map(|_| [0, 1].map(|_| 10f64.powf(rng.random_range(-1.0..1.5))))
        .collect()
}

/// The bound as printed in R, for any multinomial q over 0..=k.
fn printed_bound(gamma: &[[f64; 2]], q: &[f64]) -> f64 {
    let tail = |m: usize| q[m..].iter().sum::<f64>();
    (0..q.len())
        .map(|m| {
            let [a, b] = gamma[m];
            let entropy = if q[m] > 0.0 { -q[m] * q[m].ln() } else { 0.0 };
            q[m] * digamma(b) + tail(m + 1) * digamma(a) - tail(m) * digamma(a + b) + entropy
        })
        .sum()
}

#[test]
fn the_multivariate_bound_is_the_best_printed_one() {
    let mut rng = rng(306);
    for _ in 0..50 {
        let gamma = random_gamma(7, &mut rng);
        let factor = factor(1.0, &gamma);
        let mut bounds = [0.0; 7];
        factor.ln_complement_bounds(&mut bounds);
        let [a, b] = gamma[0];
        assert!(
            (bounds[0] - (digamma(b) - digamma(a + b))).abs() < 1e-12 * bounds[0].abs().max(1.0)
        );
        for k in 0..7 {
            let q = factor.bound_weights(k);
            assert!((q.iter().sum::<f64>() - 1.0).abs() < 1e-13);
            assert!(
                (printed_bound(&gamma, &q) - bounds[k]).abs() < 1e-11 * (1.0 + bounds[k].abs())
            );
            let mut other: Vec<f64> = q.iter().map(|q| q * rng.random_range(0.5..2.0)).collect();
            let sum: f64 = other.iter().sum();
            other.iter_mut().for_each(|q| *q /= sum);
            assert!(k == 0 || printed_bound(&gamma, &other) < bounds[k]);
        }
    }
}

#[test]
fn the_multivariate_bound_lies_below_and_near() {
    let mut rng = rng(307);
    for _ in 0..10 {
        let gamma: Vec<[f64; 2]> = (0..4)
            .map(|_| [rng.random_range(0.5..8.0), rng.random_range(0.5..8.0)])
            .collect();
        let mut bounds = [0.0; 4];
        factor(1.0, &gamma).ln_complement_bounds(&mut bounds);
        let sticks: Vec<Beta> = gamma
            .iter()
            .map(|&[a, b]| Beta::new(a, b).unwrap())
            .collect();
        let draws: Vec<f64> = (0..4_000)
            .map(|_| {
                let mu: f64 = sticks.iter().map(|s| s.inverse_cdf(rng.random())).product();
                (-mu).ln_1p()
            })
            .collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!(
            bounds[3] < mean + 0.02 && bounds[3] > mean - 0.7,
            "{} {mean}",
            bounds[3]
        );
    }
}

/// The update as printed in R (26), with its double sums.
fn printed_update(alpha: f64, factor: &IbpFactor, counts: &[f64], n: f64) -> Vec<[f64; 2]> {
    let k_max = counts.len();
    let q: Vec<Vec<f64>> = (0..k_max).map(|k| factor.bound_weights(k)).collect();
    (0..k_max)
        .map(|k| {
            let ones: f64 = counts[k..].iter().sum();
            let later: f64 = (k + 1..k_max)
                .map(|m| (n - counts[m]) * q[m][k + 1..=m].iter().sum::<f64>())
                .sum();
            let here: f64 = (k..k_max).map(|m| (n - counts[m]) * q[m][k]).sum();
            [alpha + ones + later, 1.0 + here]
        })
        .collect()
}

#[test]
fn updates_are_the_printed_ones_and_never_lower_the_bound() {
    let mut rng = rng(308);
    for _ in 0..60 {
        let k = rng.random_range(1..20);
        let n = 10f64.powf(rng.random_range(0.0..9.0));
        let alpha = 10f64.powf(rng.random_range(-3.0..1.0));
        let counts: Vec<f64> = (0..k)
            .map(|_| n * rng.random::<f64>().powi(rng.random_range(0..12)))
            .collect();
        let mut now = IbpFactor::new(k, alpha).unwrap();
        let mut last = f64::NEG_INFINITY;
        for _ in 0..15 {
            let printed = printed_update(alpha, &now, &counts, n);
            now.update(&counts, n);
            for (found, expected) in now.gamma().iter().flatten().zip(printed.iter().flatten()) {
                assert!(
                    (found - expected).abs() <= 1e-10 * expected,
                    "{found} {expected}"
                );
            }
            let bound = now.elbo() + now.feature_elbo(&counts, n);
            assert!(bound >= last - 1e-12 * last.abs(), "{last} to {bound}");
            last = bound;
        }
    }
}

#[test]
fn an_update_that_forgets_the_zeros_lowers_the_bound() {
    let (alpha, n) = (1.0, 50.0);
    let counts = [40.0, 20.0, 3.0];
    let mut best = IbpFactor::new(3, alpha).unwrap();
    for _ in 0..50 {
        best.update(&counts, n);
    }
    let bound = |f: &IbpFactor| f.elbo() + f.feature_elbo(&counts, n);
    let mut gamma = best.gamma().to_vec();
    for k in 0..3 {
        gamma[k][0] = alpha + counts[k..].iter().sum::<f64>();
    }
    assert!(bound(&factor(alpha, &gamma)) < bound(&best) - 0.1);
}

#[test]
fn prior_odds_are_the_derivative_of_the_feature_bound() {
    let factor = factor(1.0, &[[3.0, 1.0], [2.0, 0.7], [0.4, 6.0]]);
    let mut ln_odds = [0.0; 3];
    factor.prior_ln_odds(&mut ln_odds);
    let at = |counts: &[f64]| factor.feature_elbo(counts, 10.0);
    for k in 0..3 {
        let mut more = [4.0, 2.0, 1.0];
        let before = at(&more);
        more[k] += 1.0;
        assert!((at(&more) - before - ln_odds[k]).abs() < 1e-12);
    }
}

#[test]
fn elbo_of_the_prior_is_zero_and_bad_parameters_are_named() {
    for alpha in [1e-3, 0.5, 7.0] {
        assert!(IbpFactor::new(5, alpha).unwrap().elbo().abs() < 1e-12 / alpha);
    }
    let mut empty = IbpFactor::new(0, 1.0).unwrap();
    empty.update(&[], 5.0);
    assert_eq!(empty.elbo() + empty.feature_elbo(&[], 5.0), 0.0);
    let err = IbpFactor::new(3, f64::NAN).unwrap_err();
    assert_eq!(
        err.to_string(),
        "Indian buffet process: alpha = NaN: must be finite and > 0"
    );
    let forged = serde_json::json!({ "alpha": 1.0, "gamma": [[1.0, 0.0]] });
    assert!(serde_json::from_value::<IbpFactor>(forged).is_err());
}

/// A factor at its optimum for counts that fall.
fn settled(counts: &[f64], n_rows: f64) -> IbpFactor {
    let mut factor = IbpFactor::new(counts.len(), 1.5).unwrap();
    for _ in 0..200 {
        factor.update(counts, n_rows);
    }
    factor
}

#[test]
fn new_and_dropped_columns_leave_the_odds_of_the_others() {
    let counts = [30.0, 12.0, 4.0, 0.3];
    let odds = |factor: &IbpFactor| {
        let mut odds = vec![0.0; factor.truncation()];
        factor.prior_ln_odds(&mut odds);
        odds
    };
    let whole = settled(&counts, 40.0);
    let mut factor = whole.clone();
    factor.resize(7);
    assert_eq!(odds(&factor)[..4], odds(&whole)[..]);
    assert_eq!(factor.gamma()[4..], [[1.5, 1.0]; 3]);
    // Sticks at their prior cost nothing.
    assert!((factor.elbo() - whole.elbo()).abs() < 1e-12);
    factor.resize(2);
    assert_eq!(odds(&factor)[..], odds(&whole)[..2]);
    factor.resize(0);
    assert_eq!((factor.truncation(), factor.elbo()), (0, 0.0));
}

#[test]
fn the_order_of_use_has_the_highest_bound() {
    let (falling, rising) = ([30.0, 12.0, 4.0, 0.3], [0.3, 4.0, 12.0, 30.0]);
    let bound =
        |factor: &IbpFactor, counts: &[f64]| factor.elbo() + factor.feature_elbo(counts, 40.0);
    let mut factor = settled(&rising, 40.0);
    let before = bound(&factor, &rising);
    let sticks = factor.gamma().to_vec();
    factor.reorder(&[3, 2, 1, 0]);
    assert_eq!(factor.gamma(), [sticks[3], sticks[2], sticks[1], sticks[0]]);
    for _ in 0..200 {
        factor.update(&falling, 40.0);
    }
    assert!(bound(&factor, &falling) > before + 1.0);
    factor.reorder(&[2, 0]);
    assert_eq!(factor.truncation(), 2);
    for bad in [&[0, 0][..], &[2]] {
        let mut factor = factor.clone();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| factor.reorder(bad)));
        assert!(result.is_err());
    }
}

#[test]
fn another_concentration_moves_the_sticks_at_the_next_update() {
    let counts = [30.0, 12.0, 4.0, 0.3];
    let mut factor = settled(&counts, 40.0);
    let before = factor.gamma().to_vec();
    assert!(factor.set_alpha(f64::NAN).is_err() && factor.set_alpha(0.0).is_err());
    factor.set_alpha(3.0).unwrap();
    assert_eq!((factor.alpha(), factor.gamma()), (3.0, &before[..]));
    // The stated update of q(alpha) is the highest point of the bound in alpha, sticks fixed: with a flat prior K / -sum.
    let mut weights = [0.0; 4];
    factor.expected_ln_weights(&mut weights);
    let best = -4.0 / weights[3];
    let elbo = |alpha: f64| {
        let mut factor = factor.clone();
        factor.set_alpha(alpha).unwrap();
        factor.elbo()
    };
    assert!(elbo(best) > elbo(best * 1.01) && elbo(best) > elbo(best * 0.99));
    factor.update(&counts, 40.0);
    assert!((0..4).all(|k| (factor.gamma()[k][0] - before[k][0] - 1.5).abs() < 2.0));
}
