//! Swaps of label names, sticks integrated out (`docs/itf.md#swaps`).

use npb_infer::Xoshiro256PlusPlus;
use npb_infer::parallel;
use npb_priors::dp::{ln_occupied_ratio, occupied_labels};
use rand::RngExt;

use super::sampler::ItfSampler;
use crate::collapsed::{self, cross_counts};
use crate::kernels::Column;
use crate::numeric::Product;
use crate::prior::grow_concentrations;

/// Neighbour swaps tried; the same number whatever the labels are, else the law of the labels would change.
const ATTEMPTS: usize = 8;

impl ItfSampler<'_> {
    pub(super) fn swap_labels(&mut self, position: u64) {
        let two_levels = self.config.structure.has_lower();
        for b in 0..self.state.blocks.len() {
            let rng = &mut self.stream(position, b as u64);
            let block = &mut self.state.blocks[b];
            let mut counts = collapsed::counts(&block.labels);
            let n = counts.len() + ATTEMPTS;
            counts.resize(n, 0);
            let alpha = block.concentration;
            let accepted = propose(&mut counts, n, &|_| alpha, rng);
            rename(&mut block.labels, n, &accepted);
            for column in self.state.columns.iter_mut().filter(|c| c.block == b) {
                if two_levels && self.config.per_top_cluster() {
                    let highest = accepted.iter().map(|&(a, b)| a.max(b)).max();
                    grow_concentrations(&self.config, column, highest.map_or(0, |h| h + 1), rng);
                    accepted
                        .iter()
                        .for_each(|&(a, b)| column.concentrations.swap(a, b));
                } else if !two_levels {
                    swap_parameters(&mut column.law, &accepted, rng);
                }
            }
        }
        if !two_levels {
            return;
        }
        let keys: Vec<_> = (0..self.state.columns.len())
            .map(|j| self.stream(position, (1 << 32) + j as u64))
            .collect();
        let blocks = &self.state.blocks;
        let columns = self.state.columns.iter_mut().zip(keys);
        parallel::for_each(columns, |(column, mut rng)| {
            let top = &blocks[column.block].labels;
            let n = collapsed::n_labels(&column.labels) + ATTEMPTS;
            let mut counts = cross_counts(top, &column.labels, collapsed::n_labels(top), n);
            let accepted = propose(&mut counts, n, &|r| column.concentration(r), &mut rng);
            rename(&mut column.labels, n, &accepted);
            swap_parameters(&mut column.law, &accepted, &mut rng);
        });
    }
}

/// Renames labels by swaps made one after the other.
fn rename(labels: &mut [u32], n: usize, swaps: &[(usize, usize)]) {
    if swaps.is_empty() {
        return;
    }
    // `at[k]`: what is now called k was called at[k].
    let mut at: Vec<u32> = (0..n as u32).collect();
    swaps.iter().for_each(|&(a, b)| at.swap(a, b));
    let mut new = vec![0; n];
    at.iter()
        .enumerate()
        .for_each(|(now, &was)| new[was as usize] = now as u32);
    labels.iter_mut().for_each(|k| *k = new[*k as usize]);
}

fn swap_parameters(law: &mut Column, swaps: &[(usize, usize)], rng: &mut Xoshiro256PlusPlus) {
    let highest = swaps.iter().map(|&(a, b)| a.max(b)).max();
    law.grow(highest.map_or(0, |h| h + 1), rng);
    swaps.iter().for_each(|&(a, b)| law.swap(a, b));
}

/// Tries [`ATTEMPTS`] neighbour swaps and one exchange on the labels of several groups that share atoms (top-level clusters, for a column; one
/// group, for the top level), and returns the accepted swaps in order; `counts` follows them.
///
/// `counts[g * n + k]`: items of group g with label k, for n labels, the last [`ATTEMPTS`] of them unoccupied in all groups.
/// `concentration(g)`: of the sticks of group g. For h and h+1 with counts a and b and t items beyond, the sticks integrate to
/// the ratio ∏_g (α + b + t)/(α + a + t), the paper's corrected (17) averaged over sticks.
fn propose(
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
        let ln_ratio =
            ln_occupied_ratio(&all, h) + ln_swap_ratio(counts, n, (h, h + 1), concentration);
        if rng.random::<f64>().ln() < ln_ratio {
            swap(counts, &mut all, n, (h, h + 1));
            accepted.push((h, h + 1));
        }
    }
    accepted.extend(exchange(counts, &mut all, n, concentration, rng));
    accepted
}

/// ln P(labels with a and b swapped) / P(labels): with M_h items from label h on, P is proportional to ∏_h 1/(α + M_h).
fn ln_swap_ratio(
    counts: &[usize],
    n: usize,
    (a, b): (usize, usize),
    concentration: &dyn Fn(usize) -> f64,
) -> f64 {
    let (low, high) = (a.min(b), a.max(b));
    let mut ratio = Product::default();
    for (g, group) in counts.chunks_exact(n).enumerate() {
        let gained = group[low] as f64 - group[high] as f64;
        if gained == 0.0 {
            continue;
        }
        let beyond: usize = group[high + 1..].iter().sum();
        let mut from = concentration(g) + beyond as f64;
        for &m in group[low + 1..=high].iter().rev() {
            from += m as f64;
            ratio.times(from / (from + gained));
        }
    }
    ratio.ln()
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
    let accepted = rng.random::<f64>().ln() < ln_swap_ratio(counts, n, pair, concentration);
    accepted.then(|| {
        swap(counts, all, n, pair);
        pair
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_infer::stream;
    use npb_infer::testing::largest_z;
    use npb_priors::dp::{LazySticks, ln_label_probability};

    #[test]
    fn the_ratio_is_that_of_the_probabilities_of_the_labels() {
        let counts = [7, 2, 0, 3, 1, 0, 0, 4, 5, 1, 0, 0];
        let concentration = |g: usize| [0.3, 1.7][g];
        let ln_probability = |counts: &[usize]| -> f64 {
            let groups = counts.chunks_exact(6).enumerate();
            let of_group = |(g, group)| ln_label_probability(group, concentration(g));
            groups.map(of_group).sum()
        };
        for (a, b) in (0..6).flat_map(|a| (0..6).map(move |b| (a, b))) {
            let mut swapped = counts;
            swapped.chunks_exact_mut(6).for_each(|g| g.swap(a, b));
            let exact = ln_probability(&swapped) - ln_probability(&counts);
            let found = ln_swap_ratio(&counts, 6, (a, b), &concentration);
            assert!((found - exact).abs() < 1e-12, "{a}, {b}: {found} {exact}");
        }
    }

    /// Labels drawn from sticks keep their law: functions of them have the same means before the swaps and after. Two groups
    /// share labels, one of them with few clusters, one with many.
    #[test]
    fn labels_keep_their_law() {
        const CONCENTRATIONS: [f64; 2] = [0.4, 1.5];
        const ROWS: usize = 8;
        let functions = |counts: &[usize], n: usize| -> Vec<f64> {
            let size = |g: usize, k: usize| counts[g * n + k] as f64;
            let both = |k: usize| size(0, k) + size(1, k);
            let largest = (0..n).rfind(|&k| both(k) > 0.0).unwrap_or(0) as f64;
            let mut of = vec![largest.min(10.0), both(0) * both(1)];
            for g in 0..2 {
                of.extend([size(g, 0), size(g, 1), size(g, 0) * size(g, 1)]);
            }
            of
        };
        let rng = &mut stream(3, [0; 4]);
        let differences: Vec<Vec<f64>> = (0..20_000)
            .map(|_| {
                let mut labels = Vec::new();
                for concentration in CONCENTRATIONS {
                    let mut sticks = LazySticks::new(concentration).unwrap();
                    labels.push([(); ROWS].map(|()| sticks.draw_label(rng)));
                }
                let n = labels.iter().flatten().max().unwrap() + 1 + ATTEMPTS;
                let mut counts = vec![0; 2 * n];
                for (g, labels) in labels.iter().enumerate() {
                    labels.iter().for_each(|&k| counts[g * n + k] += 1);
                }
                let before = functions(&counts, n);
                propose(&mut counts, n, &|g| CONCENTRATIONS[g], rng);
                let after = functions(&counts, n);
                after.iter().zip(before).map(|(a, b)| a - b).collect()
            })
            .collect();
        let z = largest_z(&differences, &vec![0.0; differences[0].len()]);
        assert!(z < 4.5, "{z}");
    }
}
