//! Tests of level 1e-4: a mean, counts, a distribution.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// A p-value below this fails a test.
pub(crate) const LEVEL: f64 = 1e-4;

pub(crate) fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// (mean − expected) / standard error, for independent draws.
pub(crate) fn z_score(draws: &[f64], expected: f64) -> f64 {
    let n = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / n;
    let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if variance == 0.0 && mean == expected {
        0.0
    } else {
        (mean - expected) / (variance / n).sqrt()
    }
}

#[track_caller]
pub(crate) fn assert_mean(draws: &[f64], expected: f64) {
    let z = z_score(draws, expected);
    assert!(z.abs() < 3.9, "z = {z} against {expected}");
}

/// Asserts the mean and, through the squared deviations from the expected mean, the variance.
#[track_caller]
pub(crate) fn assert_moments(draws: &[f64], mean: f64, variance: f64) {
    assert_mean(draws, mean);
    let squares: Vec<f64> = draws.iter().map(|d| (d - mean).powi(2)).collect();
    assert_mean(&squares, variance);
}

/// Pearson chi-square p-value; neighbouring cells are pooled until each expects at least 5.
pub(crate) fn chi_square_p(observed: &[usize], probabilities: &[f64]) -> f64 {
    assert_eq!(observed.len(), probabilities.len());
    let total: usize = observed.iter().sum();
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut o, mut e) = (0.0, 0.0);
    let mut left = total as f64;
    for (&count, &p) in observed.iter().zip(probabilities) {
        o += count as f64;
        e += p * total as f64;
        left -= p * total as f64;
        if e >= 5.0 && left >= 5.0 {
            statistic += (o - e).powi(2) / e;
            cells += 1;
            (o, e) = (0.0, 0.0);
        }
    }
    // The last cell takes what is left, seen or not.
    let e = (e + left).max(1e-300);
    statistic += (o - e).powi(2) / e;
    assert!(cells > 0, "too few draws for a chi-square test");
    1.0 - ChiSquared::new(cells as f64).unwrap().cdf(statistic)
}

/// Kolmogorov-Smirnov p-value (asymptotic with Stephens' correction) against a continuous distribution function.
pub(crate) fn ks_p(mut draws: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    draws.sort_by(f64::total_cmp);
    let n = draws.len() as f64;
    let distance = draws.iter().enumerate().fold(0.0_f64, |d, (i, &x)| {
        let f = cdf(x);
        d.max(f - i as f64 / n).max((i + 1) as f64 / n - f)
    });
    let t = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    let series =
        |k: i32| (if k % 2 == 1 { 2.0 } else { -2.0 }) * (-2.0 * f64::from(k * k) * t * t).exp();
    (1..=100).map(series).sum::<f64>().clamp(0.0, 1.0)
}

/// Counts per value of labels 0..=max.
pub(crate) fn tally(values: impl IntoIterator<Item = usize>, len: usize) -> Vec<usize> {
    let mut counts = vec![0; len];
    for v in values {
        counts[v] += 1;
    }
    counts
}

/// Counts per label.
pub(crate) fn counts_of(labels: &[usize]) -> Vec<usize> {
    tally(
        labels.iter().copied(),
        labels.iter().max().map_or(0, |m| m + 1),
    )
}

#[test]
fn the_checks_have_their_level_and_can_fail() {
    use rand::RngExt;
    let mut rng = rng(100);
    let mut below = [0; 3];
    for _ in 0..2000 {
        let u: Vec<f64> = (0..200).map(|_| rng.random()).collect();
        let cells = tally(u.iter().map(|u| (u * 10.0) as usize), 10);
        below[0] += usize::from(ks_p(u.clone(), |x| x) < 0.05);
        below[1] += usize::from(chi_square_p(&cells, &[0.1; 10]) < 0.05);
        below[2] += usize::from(z_score(&u, 0.5).abs() > 1.96);
    }
    // 100 expected, standard deviation 9.7.
    assert!(below.iter().all(|b| (60..140).contains(b)), "{below:?}");
    let bent: Vec<f64> = (0..2000).map(|_| rng.random::<f64>().powf(1.3)).collect();
    assert!(ks_p(bent.clone(), |x| x) < LEVEL);
    assert!(
        chi_square_p(
            &tally(bent.iter().map(|u| (u * 10.0) as usize), 10),
            &[0.1; 10]
        ) < LEVEL
    );
    assert!(z_score(&bent, 0.5).abs() > 3.9);
}
