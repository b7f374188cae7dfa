//! Switches with their weight integrated out, and spike-and-slab odds.

use npb_priors::beta_bernoulli::{Slab, WeightPrior};
use npb_priors::dist::{Beta, Conjugate, Trials, TruncatedNormal};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{Binomial, Discrete, Poisson};

use crate::check::{LEVEL, assert_mean, chi_square_p, ks_p, rng, tally, z_score};

/// ln P of one given pattern of n switches of which `on` are on.
fn ln_marginal(prior: &WeightPrior, on: usize, n: usize) -> f64 {
    let flips = Trials {
        successes: on as u64,
        failures: (n - on) as u64,
    };
    Beta::new(prior.a(), prior.b())
        .unwrap()
        .ln_evidence(&flips)
        .unwrap()
}

fn probability(ln_odds: f64) -> f64 {
    1.0 / (1.0 + (-ln_odds).exp())
}

#[test]
fn marginals_of_all_patterns_sum_to_one() {
    for (a, b) in [(0.02, 1.98), (1.0, 1.0), (5.0, 0.3)] {
        let prior = WeightPrior::new(a, b).unwrap();
        for n in 0..=8 {
            let pattern = |bits: u32| ln_marginal(&prior, bits.count_ones() as usize, n).exp();
            let total: f64 = (0..1_u32 << n).map(pattern).sum();
            assert!((total - 1.0).abs() < 1e-12, "{a} {b} {n}: {total}");
            assert!(
                (prior.active_probability(n) + ln_marginal(&prior, 0, n).exp() - 1.0).abs() < 1e-13
            );
        }
    }
}

#[test]
fn odds_are_ratios_of_marginals() {
    let prior = WeightPrior::new(0.3, 2.0).unwrap();
    for others in 0..6 {
        for on in 0..=others {
            let ratio =
                ln_marginal(&prior, on + 1, others + 1) - ln_marginal(&prior, on, others + 1);
            assert!((prior.ln_odds(on, others) - ratio).abs() < 1e-12);
            let p = prior.predictive(on, others);
            assert!(
                (p - (ln_marginal(&prior, on + 1, others + 1) - ln_marginal(&prior, on, others))
                    .exp())
                .abs()
                    < 1e-13
            );
            assert!((probability(ratio) - p).abs() < 1e-12);
        }
    }
}

#[test]
fn sparse_priors_switch_on_the_stated_number() {
    let (a, b, k) = (3.0, 1.5, 50);
    let prior = WeightPrior::sparse(a, b, k).unwrap();
    let p = prior.predictive(0, 0);
    assert!((p * k as f64 - a * k as f64 / (a + b * (k - 1) as f64)).abs() < 1e-12);
    assert!((prior.ln_odds(0, 0) - (a / (b * (k - 1) as f64)).ln()).abs() < 1e-13);
    let mut rng = rng(400);
    let weight = Beta::new(prior.a(), prior.b()).unwrap();
    let draw = |rng: &mut Xoshiro256PlusPlus| {
        (0..k)
            .filter(|_| rng.random::<f64>() < weight.sample(rng))
            .count()
    };
    let counts = tally((0..20_000).map(|_| draw(&mut rng)), k + 1);
    let law = Binomial::new(p, k as u64).unwrap();
    assert!(
        chi_square_p(
            &counts,
            &(0..=k as u64).map(|m| law.pmf(m)).collect::<Vec<_>>()
        ) > LEVEL
    );
    // Poisson(a/b) in the limit.
    let many = WeightPrior::sparse(a, b, 1_000_000).unwrap();
    let (limit, law) = (
        Poisson::new(a / b).unwrap(),
        Binomial::new(many.predictive(0, 0), 1_000_000).unwrap(),
    );
    assert!((0..10).all(|m| (limit.pmf(m) - law.pmf(m)).abs() < 1e-5));
}

/// The figure of the errata: at K = 50, off, a likelihood ratio of 1e10 switches on 36% of the time when the weight is
/// drawn, and practically always when it is integrated out.
#[test]
fn drawing_the_weight_locks_the_switch() {
    let prior = WeightPrior::sparse(1.0, 1.0, 50).unwrap();
    let ln_ratio = 1e10_f64.ln();
    assert!(probability(prior.ln_odds(0, 0) + ln_ratio) > 1.0 - 1e-8);
    let given_off = Beta::new(prior.a(), prior.b() + 1.0).unwrap();
    let mut rng = rng(401);
    let on: Vec<f64> = (0..20_000)
        .map(|_| {
            let (ln_pi, ln_rest) = given_off.sample_ln(&mut rng);
            probability(ln_pi - ln_rest + ln_ratio)
        })
        .collect();
    let share = on.iter().sum::<f64>() / on.len() as f64;
    assert!((share - 0.36).abs() < 0.01, "{share}");
}

/// ln ∫ slab(s) exp(l s − p s²/2) ds by the trapezoid rule around the mode.
fn ln_evidence(slab_precision: f64, p: f64, l: f64, one_sided: bool) -> f64 {
    let precision = slab_precision + p;
    let mode = if one_sided {
        (l / precision).max(0.0)
    } else {
        l / precision
    };
    // A mode at the boundary falls off like exp(l s) when l is far below 0.
    let width = 14.0 / (precision.sqrt() + if one_sided { (-l).max(0.0) / 3.0 } else { 0.0 });
    let lower = if one_sided {
        (mode - width).max(0.0)
    } else {
        mode - width
    };
    let (n, upper) = (40_000, mode + width);
    let step = (upper - lower) / n as f64;
    let ln_f = |s: f64| l * s - 0.5 * precision * s * s;
    let top = ln_f(mode);
    let value = |i: usize| (ln_f(lower + i as f64 * step) - top).exp();
    // Simpson, for the boundary.
    let sum: f64 = (0..=n).map(|i| if i == 0 || i == n { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 } * value(i)).sum();
    let sides = if one_sided { 2.0 } else { 1.0_f64 };
    top + (sum * step / 3.0).ln() + 0.5 * (slab_precision / std::f64::consts::TAU).ln() + sides.ln()
}

#[test]
fn bayes_factors_are_integrals_over_the_slab() {
    for slab_precision in [1e-4, 1.0, 50.0] {
        for p in [0.0, 0.3, 400.0] {
            for l in [-300.0, -7.0, -0.1, 0.0, 1e-6, 2.0, 90.0] {
                for one_sided in [false, true] {
                    let slab = if one_sided {
                        Slab::half_normal(slab_precision, p, l)
                    } else {
                        Slab::gaussian(slab_precision, p, l)
                    };
                    let expected = ln_evidence(slab_precision, p, l, one_sided);
                    let close =
                        (slab.ln_bayes_factor - expected).abs() < 1e-8 * (1.0 + expected.abs());
                    assert!(
                        close,
                        "{slab_precision} {p} {l} {one_sided}: {} {expected}",
                        slab.ln_bayes_factor
                    );
                    assert!((slab.mean * slab.precision - l).abs() <= 1e-12 * l.abs());
                }
            }
        }
    }
}

#[test]
fn extreme_likelihoods_stay_finite() {
    // Far below: 2 √(α/A) e^{x²/2} Φ(x) → 2 √(α/A) / (|x| √2π).
    let far = Slab::half_normal(1.0, 3.0, -2e9);
    assert!(
        (far.ln_bayes_factor - (2.0 * 0.5 / (1e9 * std::f64::consts::TAU.sqrt())).ln()).abs()
            < 1e-12
    );
    // Far above: twice the Gaussian's.
    let (half, full) = (
        Slab::half_normal(1.0, 3.0, 2e9),
        Slab::gaussian(1.0, 3.0, 2e9),
    );
    assert!(
        (half.ln_bayes_factor / full.ln_bayes_factor - 1.0).abs() < 1e-15
            && half.ln_bayes_factor > 4e17
    );
    // No data: no preference.
    assert!(Slab::half_normal(2.0, 0.0, 0.0).ln_bayes_factor.abs() < 1e-15);
    assert_eq!(Slab::gaussian(2.0, 0.0, 0.0).ln_bayes_factor, 0.0);
    // Continuous through 0.
    let [below, above] = [-1e-9, 1e-9].map(|l| Slab::half_normal(1.0, 1.0, l).ln_bayes_factor);
    assert!(above > below && above - below < 1e-8);
}

const SLAB_PRECISION: f64 = 0.8;
const NOISE_PRECISION: f64 = 6.0;

fn draw_half_normal<R: Rng + ?Sized>(mean: f64, precision: f64, rng: &mut R) -> f64 {
    TruncatedNormal::new(mean, precision.sqrt().recip(), 0.0, f64::INFINITY)
        .unwrap()
        .sample(rng)
}

/// (z, s) from the prior, y = z s w + noise, then both again in the given order. Returns the new s, and z-scores of
/// how the mean of z y moved and how far the mean squared residual is from the noise variance.
fn redraw(s_first: bool, seed: u64) -> (Vec<f64>, f64, f64) {
    let prior = WeightPrior::new(1.0, 1.0).unwrap();
    let mut rng = rng(seed);
    let (mut slabs, mut zy, mut squares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..40_000 {
        let on = rng.random::<f64>() < prior.predictive(0, 0);
        let s = draw_half_normal(0.0, SLAB_PRECISION, &mut rng);
        let w = 1.2;
        let noise: f64 = rng.sample(StandardNormal);
        let y = if on { s * w } else { 0.0 } + noise / NOISE_PRECISION.sqrt();
        let slab = Slab::half_normal(
            SLAB_PRECISION,
            NOISE_PRECISION * w * w,
            NOISE_PRECISION * w * y,
        );
        let draw_s = |on: bool, rng: &mut Xoshiro256PlusPlus| {
            let (mean, precision) = if on {
                (slab.mean, slab.precision)
            } else {
                (0.0, SLAB_PRECISION)
            };
            draw_half_normal(mean, precision, rng)
        };
        let p_on = probability(prior.ln_odds(0, 0) + slab.ln_bayes_factor);
        let (new_s, new_on) = if s_first {
            let new_s = draw_s(on, &mut rng);
            (new_s, rng.random::<f64>() < p_on)
        } else {
            let new_on = rng.random::<f64>() < p_on;
            (draw_s(new_on, &mut rng), new_on)
        };
        slabs.push(new_s);
        let (new_z, z) = (f64::from(u8::from(new_on)), f64::from(u8::from(on)));
        zy.push((new_z - z) * y);
        squares.push((y - new_z * new_s * w).powi(2));
    }
    (
        slabs,
        z_score(&zy, 0.0),
        z_score(&squares, 1.0 / NOISE_PRECISION),
    )
}

#[test]
fn the_switch_then_its_coefficient_leave_the_joint_law() {
    let (slabs, zy, squares) = redraw(false, 402);
    assert!(zy.abs() < 3.9 && squares.abs() < 3.9, "{zy} {squares}");
    let half_normal = |x: f64| libm::erf(x * (SLAB_PRECISION / 2.0).sqrt());
    assert!(ks_p(slabs, half_normal) > LEVEL);
}

/// The paper's order with collapsed odds.
#[test]
fn the_coefficient_then_its_switch_do_not() {
    let (_, _, squares) = redraw(true, 402);
    assert!(squares.abs() > 8.0, "{squares}");
}

#[test]
fn a_weight_of_many_switches_learns_from_them() {
    let prior = WeightPrior::new(0.5, 2.0).unwrap();
    let weight = Beta::new(0.5, 2.0).unwrap();
    let mut rng = rng(403);
    let mut shift = Vec::new();
    for _ in 0..40_000 {
        let pi = weight.sample(&mut rng);
        let switches: Vec<bool> = (0..5).map(|_| rng.random::<f64>() < pi).collect();
        let others = switches[1..].iter().filter(|&&z| z).count();
        shift.push(f64::from(u8::from(switches[0])) - prior.predictive(others, 4));
    }
    assert_mean(&shift, 0.0);
}

#[test]
fn bad_parameters_are_named() {
    let err = WeightPrior::new(1.0, 0.0).unwrap_err();
    assert_eq!(
        err.to_string(),
        "beta-Bernoulli: b = 0: must be finite and > 0"
    );
    let err = WeightPrior::sparse(1.0, 1.0, 1).unwrap_err();
    assert_eq!(err.to_string(), "beta-Bernoulli: K = 1: must be at least 2");
}
