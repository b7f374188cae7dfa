//! Truncated normals: moments against mpmath, samplers against their law, near the bulk and 40 standard deviations out.

use crate::support::*;
use npb_priors::dist::{TruncatedNormal, probit_moments, sample_probit, sample_probit_sum};

const N: usize = 20_000;

fn standard(lower: f64, upper: f64) -> TruncatedNormal {
    TruncatedNormal::new(0.0, 1.0, lower, upper).unwrap()
}

/// Rows (lower, upper, mean, variance, ln mass).
fn reference() -> Vec<[f64; 5]> {
    let text = include_str!("../reference/truncated_normal.csv");
    let row = |line: &str| {
        let numbers: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        <[f64; 5]>::try_from(numbers).unwrap()
    };
    text.lines().skip(1).map(row).collect()
}

#[track_caller]
fn assert_close(got: f64, want: f64, tolerance: f64) {
    assert!(
        (got - want).abs() <= tolerance,
        "got {got:e}, want {want:e} within {tolerance:e}"
    );
}

#[test]
fn moments_match_high_precision_values() {
    let rows = reference();
    assert_eq!(rows.len(), 60);
    for [lower, upper, mean, variance, ln_mass] in rows {
        let mirrored = standard(-upper, -lower).moments();
        let moments = standard(lower, upper).moments();
        for (m, sign) in [(moments, 1.0), (mirrored, -1.0)] {
            assert_close(m.variance, variance, 1e-13 * variance);
            assert_close(
                sign * m.mean,
                mean,
                1e-13 * variance.sqrt() + 3e-16 * mean.abs(),
            );
            assert_close(m.ln_mass, ln_mass, 3e-15 * ln_mass.abs().max(0.1));
        }
    }
}

#[test]
fn moments_shift_and_scale() {
    let near = standard(1.0, 2.5).moments();
    let far = TruncatedNormal::new(10.0, 4.0, 14.0, 20.0)
        .unwrap()
        .moments();
    assert_close(far.mean, 10.0 + 4.0 * near.mean, 1e-13);
    assert_close(far.variance, 16.0 * near.variance, 1e-13);
    assert_eq!(far.ln_mass, near.ln_mass);
    let whole = TruncatedNormal::new(3.0, 2.0, f64::NEG_INFINITY, f64::INFINITY).unwrap();
    let moments = whole.moments();
    assert_eq!(
        (moments.mean, moments.variance, moments.ln_mass),
        (3.0, 4.0, 0.0)
    );
    assert_close(whole.cdf(3.0), 0.5, 1e-16);
    assert!(whole.sample(&mut rng(1)).is_finite());
}

/// Intervals of every kind, in standard units.
const INTERVALS: [(f64, f64); 16] = [
    (-1.0, f64::INFINITY),
    (0.0, f64::INFINITY),
    (0.4, f64::INFINITY),
    (40.0, f64::INFINITY),
    (f64::NEG_INFINITY, -40.0),
    (f64::NEG_INFINITY, 2.0),
    (-1.0, 0.5),
    (-0.3, 6.0),
    (-7.0, 1.0),
    (0.0, 3.0),
    (2.0, 2.001),
    (40.0, 40.01),
    (40.0, 41.0),
    (-41.0, -40.0),
    (1e6, 1e6 + 1e-9),
    (1e-3, 50.0),
];

#[test]
fn samples_have_their_law_and_their_moments() {
    for (seed, (lower, upper)) in INTERVALS.into_iter().enumerate() {
        let law = TruncatedNormal::new(0.5, 2.0, 0.5 + 2.0 * lower, 0.5 + 2.0 * upper).unwrap();
        let mut rng = rng(200 + seed as u64);
        let sample: Vec<f64> = (0..N).map(|_| law.sample(&mut rng)).collect();
        assert!(sample.iter().all(|&x| law.lower() <= x && x <= law.upper()));
        let moments = law.moments();
        // Around a million, f64 has only a handful of values within the interval's 2e-9.
        if lower < 1e5 {
            assert_moments(&sample, moments.mean, moments.variance);
            let p = ks_p_value(sample, |x| law.cdf(x));
            assert!(p > LEVEL, "({lower}, {upper}): p = {p}");
        }
    }
}

#[test]
fn density_and_distribution_function_agree() {
    for (lower, upper) in INTERVALS.into_iter().filter(|(lower, _)| *lower < 1e5) {
        let law = standard(lower, upper);
        let moments = law.moments();
        let sd = moments.variance.sqrt();
        for at in [-0.6, 0.1, 0.7] {
            let (x, h) = (moments.mean + at * sd, 1e-4 * sd);
            let slope = (law.cdf(x + h) - law.cdf(x - h)) / (2.0 * h);
            let density = law.ln_density(x).exp();
            assert!(
                (slope / density - 1.0).abs() < 1e-6,
                "({lower}, {upper}) at {x}: {slope} {density}"
            );
        }
        assert_eq!(law.ln_density(lower - 1.0), f64::NEG_INFINITY);
        assert_eq!((law.cdf(lower), law.cdf(upper)), (0.0, 1.0));
    }
}

#[test]
fn probit_samples_match_probit_moments() {
    for (seed, mu) in [-40.0, -3.0, -0.2, 0.0, 0.7, 5.0].into_iter().enumerate() {
        for positive in [true, false] {
            let mut rng = rng(300 + seed as u64);
            let sample: Vec<f64> = (0..N)
                .map(|_| sample_probit(mu, positive, &mut rng))
                .collect();
            assert!(sample.iter().all(|&t| (t > 0.0) == positive));
            let moments = probit_moments(mu, positive);
            assert_mean(&sample, moments.mean);
            let squares: Vec<f64> = sample.iter().map(|t| t * t).collect();
            assert_mean(&squares, moments.second);
        }
    }
}

#[test]
fn probit_moments_agree_with_the_truncated_normal() {
    for mu in [-1e4, -8.3, -0.5, 0.0, 3.0] {
        let general = TruncatedNormal::new(mu, 1.0, 0.0, f64::INFINITY)
            .unwrap()
            .moments();
        let probit = probit_moments(mu, true);
        assert_close(general.mean, probit.mean, 1e-15 * probit.mean);
        assert_close(
            general.ln_mass,
            probit.ln_mass,
            1e-15 * probit.ln_mass.abs(),
        );
        let variance = probit.second - probit.mean * probit.mean;
        assert_close(general.variance, variance, 1e-13 * variance);
    }
}

#[test]
fn sums_of_probit_latents_have_their_moments() {
    for (seed, (mu, hits, misses)) in [
        (-0.4, 3, 5),
        (2.0, 0, 50),
        (-30.0, 51, 2),
        (0.0, 1_000, 0),
        (1.2, 70, 300),
        (-1e120, 80, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let mut rng = rng(400 + seed as u64);
        let (up, down) = (probit_moments(mu, true), probit_moments(mu, false));
        let unit = if mu < -1e100 { up.mean } else { 1.0 };
        let sample: Vec<f64> = (0..N)
            .map(|_| sample_probit_sum(mu, hits, misses, &mut rng) / unit)
            .collect();
        let mean = (hits as f64 * up.mean + misses as f64 * down.mean) / unit;
        let variance = if mu < -1e100 {
            hits as f64
        } else {
            hits as f64 * (up.second - up.mean.powi(2))
                + misses as f64 * (down.second - down.mean.powi(2))
        };
        assert_moments(&sample, mean, variance);
    }
    assert_eq!(sample_probit_sum(0.3, 0, 0, &mut rng(1)), 0.0);
}

#[test]
fn sums_of_many_terms_have_the_law_of_terms_drawn_one_by_one() {
    for (seed, mu) in [-20.0, 0.0, 1.5].into_iter().enumerate() {
        let mut rng = rng(500 + seed as u64);
        let matched: Vec<f64> = (0..N)
            .map(|_| sample_probit_sum(mu, 51, 0, &mut rng))
            .collect();
        let one_by_one: Vec<f64> = (0..N)
            .map(|_| (0..51).map(|_| sample_probit(mu, true, &mut rng)).sum())
            .collect();
        let third = |s: &[f64], mean: f64, sd: f64| -> Vec<f64> {
            s.iter().map(|x| ((x - mean) / sd).powi(3)).collect()
        };
        let moments = TruncatedNormal::new(mu, 1.0, 0.0, f64::INFINITY)
            .unwrap()
            .moments();
        let (mean, sd) = (51.0 * moments.mean, (51.0 * moments.variance).sqrt());
        let skewness = third(&one_by_one, mean, sd).iter().sum::<f64>() / N as f64;
        assert!((third(&matched, mean, sd).iter().sum::<f64>() / N as f64 - skewness).abs() < 0.15);
        assert!(two_sample_p_value(matched, one_by_one) > LEVEL);
    }
}

/// Far out a sum of n excesses is a gamma variable of shape n, in units of 1 / |mu|.
#[test]
fn sums_far_from_zero_are_finite() {
    let mut rng = rng(11);
    for mu in [-1e8, -1e154, -1e200, -1e300] {
        let total = sample_probit_sum(mu, 10_000, 0, &mut rng) * -mu;
        assert!((total / 10_000.0 - 1.0).abs() < 0.05, "{mu}: {total}");
        let other = sample_probit_sum(mu, 0, 1000, &mut rng) / mu;
        assert!((other / 1000.0 - 1.0).abs() < 1e-6, "{mu}: {other}");
    }
}

#[test]
fn extreme_intervals_give_finite_results() {
    let tiny = 1e-323;
    let intervals = [
        (-1.7e308, 1.7e308),
        (0.0, 1e308),
        (1e200, 1e201),
        (1e300, f64::INFINITY),
        (f64::NEG_INFINITY, -1e300),
        (-tiny, tiny),
        (0.0, tiny),
        (1e300, 1.000_001e300),
        (-1e300, 1e-300),
    ];
    let mut rng = rng(600);
    for (lower, upper) in intervals {
        let law = standard(lower, upper);
        let moments = law.moments();
        assert!(
            lower <= moments.mean && moments.mean <= upper,
            "({lower}, {upper}): {moments:?}"
        );
        assert!(
            moments.variance >= 0.0 && moments.ln_mass <= 0.0,
            "({lower}, {upper}): {moments:?}"
        );
        for _ in 0..100 {
            let x = law.sample(&mut rng);
            assert!(lower <= x && x <= upper);
            assert!(
                (0.0..=1.0).contains(&law.cdf(x)) && !law.ln_density(x).is_nan(),
                "({lower}, {upper}) at {x}"
            );
        }
    }
}
