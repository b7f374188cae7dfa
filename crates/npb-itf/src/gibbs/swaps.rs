//! Swaps of label names, sticks integrated out.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::{ln_label_probability, ln_occupied_ratio, occupied_labels};
use rand::RngExt;

/// Neighbour swaps tried; the same number whatever the labels are, else the law of the labels would change.
pub(super) const ATTEMPTS: usize = 8;

/// Tries [`ATTEMPTS`] neighbour swaps and one exchange on the labels of several groups that share atoms (top-level clusters, for a column; one
/// group, for the top level), and returns the accepted swaps in order; `counts` follows them.
///
/// `counts[g * n + k]`: items of group g with label k, for n labels, the last [`ATTEMPTS`] of them unoccupied in all groups.
/// `concentration(g)`: of the sticks of group g. For h and h+1 with counts a and b and t items beyond, the sticks integrate to
/// the ratio ∏_g (α + b + t)/(α + a + t), the paper's corrected (17) averaged over sticks.
pub(super) fn propose(
    counts: &mut [usize],
    n: usize,
    concentration: &dyn Fn(usize) -> f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<(usize, usize)> {
    let mut all = vec![0; n];
    for group in counts.chunks_exact(n) {
        all.iter_mut().zip(group).for_each(|(sum, m)| *sum += m);
    }
    let mut accepted = Vec::new();
    for _ in 0..ATTEMPTS {
        let h = rng.random_range(0..occupied_labels(&all));
        let mut ln_ratio = ln_occupied_ratio(&all, h);
        for (g, group) in counts.chunks_exact(n).enumerate() {
            let beyond: usize = group[h + 2..].iter().sum();
            let base = concentration(g) + beyond as f64;
            ln_ratio += ((base + group[h + 1] as f64) / (base + group[h] as f64)).ln();
        }
        if rng.random::<f64>().ln() < ln_ratio {
            swap(counts, &mut all, n, (h, h + 1));
            accepted.push((h, h + 1));
        }
    }
    accepted.extend(exchange(counts, &mut all, n, concentration, rng));
    accepted
}

fn swap(counts: &mut [usize], all: &mut [usize], n: usize, (a, b): (usize, usize)) {
    counts
        .chunks_exact_mut(n)
        .for_each(|group| group.swap(a, b));
    all.swap(a, b);
}

/// Exchanges two occupied labels chosen uniformly.
fn exchange(
    counts: &mut [usize],
    all: &mut [usize],
    n: usize,
    concentration: &dyn Fn(usize) -> f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<(usize, usize)> {
    let occupied: Vec<usize> = (0..n).filter(|&k| all[k] > 0).collect();
    if occupied.len() < 2 {
        return None;
    }
    let first = rng.random_range(0..occupied.len());
    let second = (first + rng.random_range(1..occupied.len())) % occupied.len();
    let pair = (occupied[first], occupied[second]);
    let ln_probability = |counts: &[usize]| -> f64 {
        let groups = counts.chunks_exact(n).enumerate();
        groups
            .map(|(g, group)| ln_label_probability(group, concentration(g)))
            .sum()
    };
    let old = ln_probability(counts);
    swap(counts, all, n, pair);
    if rng.random::<f64>().ln() < ln_probability(counts) - old {
        return Some(pair);
    }
    swap(counts, all, n, pair);
    None
}
