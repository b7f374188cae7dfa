//! Draws of feature matrices and the probability of one.
//!
//! A matrix is a list of rows, each the ascending list of the columns that are on.

use rand::{Rng, RngExt};
use rand_distr::Poisson;

use crate::beta_bernoulli::WeightPrior;
use crate::measure::{GammaPrior, sample_concentration, sample_exp};
use crate::special::ln_gamma;

/// H_n = 1 + 1/2 + ... + 1/n, added from the small end. Cost O(n).
pub fn harmonic(n: usize) -> f64 {
    (1..=n).rev().map(|i| 1.0 / i as f64).sum()
}

/// How many rows have each column on; the last entry is not 0.
pub fn column_counts(rows: &[Vec<usize>]) -> Vec<usize> {
    let mut counts = vec![0; rows.iter().flatten().max().map_or(0, |k| k + 1)];
    rows.iter().flatten().for_each(|&k| counts[k] += 1);
    counts
}

/// Draws `n_rows` rows from the buffet: customer i = 1, 2, ... takes dish k with probability m_k / i and
/// Poisson(α / i) new ones.
///
/// Columns are numbered in order of appearance, so none is empty. Cost O(rows × columns).
/// Panics if `alpha` is not finite and positive.
///
/// ```
/// use npb_priors::ibp::{column_counts, sample_buffet};
/// use rand::SeedableRng;
///
/// let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(5);
/// let rows = sample_buffet(10, 3.0, &mut rng);
/// assert_eq!(rows.len(), 10);
/// assert!(column_counts(&rows).iter().all(|&m| m > 0));
/// ```
pub fn sample_buffet<R: Rng + ?Sized>(n_rows: usize, alpha: f64, rng: &mut R) -> Vec<Vec<usize>> {
    let mut counts: Vec<usize> = Vec::new();
    let mut rows = Vec::with_capacity(n_rows);
    for i in 1..=n_rows {
        let taken = |&k: &usize| rng.random::<f64>() * (i as f64) < counts[k] as f64;
        let mut row: Vec<usize> = (0..counts.len()).filter(taken).collect();
        let fresh: f64 = rng.sample(
            Poisson::new(alpha / i as f64).expect("a concentration is finite and positive"),
        );
        row.extend(counts.len()..counts.len() + fresh as usize);
        counts.resize(counts.len() + fresh as usize, 0);
        row.iter().for_each(|&k| counts[k] += 1);
        rows.push(row);
    }
    rows
}

/// ln P of the matrix up to the order of its columns:
/// K₊ ln α − Σ_h ln K_h! − α H_n + Σ_k ln [(n − m_k)! (m_k − 1)! / n!].
///
/// K_h counts columns that are on in exactly the same rows; empty columns are ignored. Cost O(ones · ln K).
/// Panics if `alpha` is not positive.
pub fn ln_class_probability(rows: &[Vec<usize>], alpha: f64) -> f64 {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let ln_factorial = |n: usize| ln_gamma(n as f64 + 1.0);
    let mut columns = vec![Vec::new(); column_counts(rows).len()];
    for (i, row) in rows.iter().enumerate() {
        row.iter().for_each(|&k| columns[k].push(i));
    }
    columns.retain(|history| !history.is_empty());
    columns.sort_unstable();

    let n = rows.len();
    let each = |m: usize| alpha.ln() + ln_factorial(n - m) + ln_factorial(m - 1) - ln_factorial(n);
    let columns_ln: f64 = columns.iter().map(|history| each(history.len())).sum();
    let repeats: f64 = columns
        .chunk_by(|a, b| a == b)
        .map(|same| ln_factorial(same.len()))
        .sum();
    columns_ln - repeats - alpha * harmonic(n)
}

/// Draws the first `out.len()` stick weights μ_1 > μ_2 > ... in decreasing order, as logarithms (Teh et al.'s sticks).
///
/// E μ_k = (α / (1 + α))ᵏ. Panics if `alpha` is not positive.
pub fn sample_sticks<R: Rng + ?Sized>(alpha: f64, out: &mut [f64], rng: &mut R) {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let mut ln_weight = 0.0;
    for out in out {
        ln_weight -= sample_exp(rng) / alpha; // ln ν, ν ~ Beta(α, 1)
        *out = ln_weight;
    }
}

/// Draws `n_rows` rows of the finite model: `n_columns` columns with weights Beta(α / K, 1), integrated out.
///
/// Unused columns keep their numbers. As K grows the law of the used columns tends to the buffet's.
/// Panics if `alpha` is not finite and positive (with `n_columns` > 0).
pub fn sample_finite<R: Rng + ?Sized>(
    n_rows: usize,
    n_columns: usize,
    alpha: f64,
    rng: &mut R,
) -> Vec<Vec<usize>> {
    if n_columns == 0 {
        return vec![Vec::new(); n_rows];
    }
    let prior = WeightPrior::new(alpha / n_columns as f64, 1.0)
        .expect("a concentration is finite and positive");
    let mut counts = vec![0; n_columns];
    let mut rows = Vec::with_capacity(n_rows);
    for i in 0..n_rows {
        let on = |&k: &usize| rng.random::<f64>() < prior.predictive(counts[k], i);
        let row: Vec<usize> = (0..n_columns).filter(on).collect();
        row.iter().for_each(|&k| counts[k] += 1);
        rows.push(row);
    }
    rows
}

/// The exact conjugate draw of α given a matrix: Gamma(a + K₊, b + H_n).
///
/// `n_used`: number of columns that are on at all. Panics if `prior` is not positive.
pub fn draw_concentration<R: Rng + ?Sized>(
    n_rows: usize,
    n_used: usize,
    prior: GammaPrior,
    rng: &mut R,
) -> f64 {
    sample_concentration(
        prior.shape + n_used as f64,
        prior.rate + harmonic(n_rows),
        rng,
    )
}
