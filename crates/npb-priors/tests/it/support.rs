//! Goodness-of-fit statistics at stated levels, with fixed seeds.

use npb_priors::special::gamma_upper_regularized;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub(crate) fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Level of every distribution test: the probability that a right sampler fails it.
pub(crate) const LEVEL: f64 = 1e-4;

/// P-value of the Kolmogorov-Smirnov test (asymptotic distribution).
pub(crate) fn ks_p_value(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    let n = sample.len() as f64;
    sample.sort_by(f64::total_cmp);
    let distance = sample.iter().enumerate().map(|(i, &x)| {
        let f = cdf(x);
        assert!((0.0..=1.0).contains(&f), "cdf({x}) = {f}");
        (f - i as f64 / n).max((i as f64 + 1.0) / n - f)
    });
    kolmogorov(n.sqrt() * distance.fold(0.0, f64::max))
}

/// P-value of the two-sample Kolmogorov-Smirnov test.
pub(crate) fn two_sample_p_value(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let share = |s: &[f64], x: f64| s.partition_point(|&v| v <= x) as f64 / s.len() as f64;
    let distance = a
        .iter()
        .chain(&b)
        .map(|&x| (share(&a, x) - share(&b, x)).abs())
        .fold(0.0, f64::max);
    let (n, m) = (a.len() as f64, b.len() as f64);
    kolmogorov((n * m / (n + m)).sqrt() * distance)
}

/// Tail probability of the Kolmogorov distribution.
fn kolmogorov(d: f64) -> f64 {
    let terms = (1..100)
        .map(|k| (if k % 2 == 1 { 2.0 } else { -2.0 }) * (-2.0 * (k as f64 * d).powi(2)).exp());
    terms.sum::<f64>().clamp(0.0, 1.0)
}

/// P-value of the chi-square test of counts against expected counts, categories expected less than 5 times pooled.
pub(crate) fn chi_square_p_value(observed: &[u64], expected: &[f64]) -> f64 {
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut rare_observed, mut rare_expected) = (0.0, 0.0);
    for (&o, &e) in observed.iter().zip(expected) {
        if e < 5.0 {
            rare_observed += o as f64;
            rare_expected += e;
        } else {
            statistic += (o as f64 - e).powi(2) / e;
            cells += 1;
        }
    }
    if rare_expected > 0.0 {
        statistic += (rare_observed - rare_expected).powi(2) / rare_expected.max(1.0);
        cells += 1;
    }
    gamma_upper_regularized(0.5 * (cells - 1) as f64, 0.5 * statistic)
}

/// Fails when the sample mean is more than 4.5 standard errors from `want` (7e-6 for a right sampler).
#[track_caller]
pub(crate) fn assert_mean(sample: &[f64], want: f64) {
    let n = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / n;
    let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let z = (mean - want) / (variance / n).sqrt();
    assert!(
        z.abs() < 4.5,
        "mean {mean}, want {want}: {z} standard errors"
    );
}

/// The same for the mean and for the variance, the latter as a mean of squared distances from the true mean.
#[track_caller]
pub(crate) fn assert_moments(sample: &[f64], mean: f64, variance: f64) {
    assert_mean(sample, mean);
    let squares: Vec<f64> = sample.iter().map(|x| (x - mean).powi(2)).collect();
    assert_mean(&squares, variance);
}
