//! Exchangeable partitions: the Chinese restaurant process and what it says about α.

use rand::{Rng, RngExt};

use crate::measure::{GammaPrior, sample_concentration, sample_ln_beta};
use crate::special::{ln_gamma, ln_rising_factorial};

/// Draws the labels of `n` items from the urn (Chinese restaurant process) with concentration `alpha`.
///
/// Item i joins cluster h with probability n_h / (i + α) and opens a new one with probability α / (i + α).
/// Labels are numbered in order of appearance. Cost O(n): an item copies the label of a uniform earlier item.
/// Panics if `alpha` is not positive.
///
/// ```
/// use npb_priors::dp::{cluster_count_moments, sample_urn};
/// use rand::SeedableRng;
///
/// let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
/// let labels = sample_urn(100, 2.0, &mut rng);
/// assert_eq!((labels.len(), labels[0]), (100, 0));
/// let (mean, variance) = cluster_count_moments(100, 2.0);
/// assert!(mean > 8.0 && mean < 9.0 && variance < mean);
/// ```
pub fn sample_urn<R: Rng + ?Sized>(n: usize, alpha: f64, rng: &mut R) -> Vec<usize> {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let mut labels: Vec<usize> = Vec::with_capacity(n);
    let mut n_clusters = 0;
    for i in 0..n {
        let u = rng.random::<f64>() * (i as f64 + alpha);
        if u < i as f64 {
            labels.push(labels[u as usize]);
        } else {
            labels.push(n_clusters);
            n_clusters += 1;
        }
    }
    labels
}

/// ln P(partition) = k ln α + Σ ln Γ(n_b) − ln(α (α+1) ... (α+n−1)), `sizes` = the block sizes, in any order.
///
/// Empty blocks are ignored. Cost O(number of blocks). Panics if `alpha` is not positive.
pub fn ln_partition_probability(sizes: &[usize], alpha: f64) -> f64 {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let occupied = sizes.iter().filter(|&&size| size > 0);
    let ln_blocks: f64 = occupied
        .map(|&size| alpha.ln() + ln_gamma(size as f64))
        .sum();
    ln_blocks - ln_rising_factorial(alpha, sizes.iter().sum::<usize>() as f64)
}

/// Mean and variance of the number of clusters of `n` items: sums of the independent events "item i opens one".
///
/// Mean Σ_i α/(α+i), variance Σ_i α i/(α+i)², i = 0..n. Cost O(n).
pub fn cluster_count_moments(n: usize, alpha: f64) -> (f64, f64) {
    let mut moments = (0.0, 0.0);
    for i in 0..n {
        let opens = alpha / (alpha + i as f64);
        moments.0 += opens;
        moments.1 += opens * (i as f64 / (alpha + i as f64));
    }
    moments
}

/// P(number of clusters = k) for k = 0..=n, Antoniak's distribution |s(n, k)| αᵏ / (α (α+1) ... (α+n−1)).
///
/// All terms of the recursion over items are positive, so that every entry above the smallest
/// positive f64 has full relative accuracy. Cost O(n²) time, O(n) memory.
pub fn cluster_count_distribution(n: usize, alpha: f64) -> Vec<f64> {
    let mut p = vec![0.0; n + 1];
    p[0] = 1.0;
    for i in 0..n {
        let total = alpha + i as f64;
        let (opens, joins) = (alpha / total, i as f64 / total);
        for k in (1..=i + 1).rev() {
            p[k] = p[k] * joins + p[k - 1] * opens;
        }
        p[0] *= joins;
    }
    p
}

/// A Gibbs draw of α given partitions of one or several groups that share it.
///
/// `alpha`: its current value. `group_sizes`: number of items of each group (empty ones change nothing).
/// `n_clusters`: clusters summed over groups (tables, for the lower level of a hierarchy). For one group this is
/// Escobar and West's scheme with the mixture indicator as a second auxiliary variable:
/// x_j ~ Beta(α+1, n_j), s_j ~ Bernoulli(n_j / (n_j + α)), α ~ Gamma(a + k − Σ s_j, b − Σ ln x_j).
///
/// Not for states that hold stick labels: see [`draw_concentration_given_labels`](super::draw_concentration_given_labels).
/// Panics if `prior` or `alpha` is not positive.
pub fn draw_concentration_given_partitions<R: Rng + ?Sized>(
    alpha: f64,
    group_sizes: &[usize],
    n_clusters: usize,
    prior: GammaPrior,
    rng: &mut R,
) -> f64 {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let mut shape = prior.shape + n_clusters as f64;
    let mut rate = prior.rate;
    for &size in group_sizes.iter().filter(|&&size| size > 0) {
        let size = size as f64;
        rate -= sample_ln_beta(alpha + 1.0, size, rng);
        if rng.random::<f64>() * (size + alpha) < size {
            shape -= 1.0;
        }
    }
    sample_concentration(shape, rate, rng)
}
