//! Top-level clusterings proposed from a launch state by Gibbs scans, with the probability of the last scan (`docs/itf.md#columns`).
//!
//! Allocating rows one after the other from nothing goes wrong early on and ends in a poor clustering when there are many
//! columns. Here rows start in the clusters of a launch clustering, which both directions of a move can compute, some scans
//! improve it, and the probability of one last scan is the proposal's (Jain and Neal 2004). The scans see partitions; names
//! of labels are drawn at the end from their law given the partition, and so drop out of acceptance ratios.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::ln_partition_probability;
use rand::RngExt;

use crate::collapsed::{CollapsedClusters, LabelClusters};
use crate::numeric::{Product, pick};

/// Scans before the one that counts.
const SCANS: usize = 2;
/// Clusters of a launch clustering; the rows of smaller ones start in the largest.
const MAX_CLUSTERS: usize = 16;

/// The clusters of rows that agree in all of `labels`, numbered from the largest, rare ones joined to it.
pub(super) fn agreement(labels: &[&[u32]]) -> Vec<u32> {
    let n = labels.first().map_or(0, |labels| labels.len());
    let mut rows: Vec<u32> = (0..n as u32).collect();
    let key = |row: u32| labels.iter().map(move |labels| labels[row as usize]);
    rows.sort_by(|&a, &b| key(a).cmp(key(b)).then(a.cmp(&b)));
    let mut groups: Vec<&[u32]> = rows.chunk_by(|&a, &b| key(a).eq(key(b))).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), group[0]));
    let mut clusters = vec![0; n];
    for (name, group) in groups.iter().take(MAX_CLUSTERS).enumerate() {
        group
            .iter()
            .for_each(|&row| clusters[row as usize] = name as u32);
    }
    clusters
}

/// A partition on its way from one scan to the next. Names below `n_launch` are those of the launch clusters; a new cluster
/// gets a name that was never used.
struct Scan<'u, 'a> {
    clusters: &'u mut LabelClusters<'a>,
    names: Vec<u32>,
    sizes: Vec<usize>,
    /// Names below this belong to launch clusters.
    n_launch: usize,
    alpha: f64,
}

impl Scan<'_, '_> {
    /// Visits all rows, drawing or, when `forced`, following given names; returns the logarithm of the probability, `None` when
    /// drawing could not have led to the given names.
    fn run(
        &mut self,
        order: &[u32],
        forced: Option<&[u32]>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<f64> {
        let mut weights = Vec::new();
        let mut q = Product::default();
        for &row in order {
            let row = row as usize;
            let old = self.names[row] as usize;
            self.clusters.remove(old, row);
            self.sizes[old] -= 1;
            let n = self.sizes.len();
            weights.resize(self.clusters.n_clusters(), 0.0);
            self.clusters.weights(row, rng, &mut weights);
            // The place past the last name is always an empty cluster.
            weights.truncate(n + 1);
            let sizes = self.sizes.iter().map(|&m| m as f64).chain([self.alpha]);
            weights.iter_mut().zip(sizes).for_each(|(w, m)| *w *= m);
            let total: f64 = weights.iter().sum();
            // A row that was alone and stays alone keeps its name.
            let alone = self.sizes[old] == 0;
            let (place, name) = match forced.map(|forced| forced[row] as usize) {
                Some(wanted) if self.sizes.get(wanted).is_some_and(|&m| m > 0) => (wanted, wanted),
                Some(wanted) if alone && wanted != old => return None,
                Some(wanted) if !alone && wanted < self.n_launch => return None,
                Some(wanted) => (n, wanted),
                None => match pick(&weights, rng.random::<f64>() * total) {
                    place if place < n => (place, place),
                    _ => (n, if alone { old } else { n }),
                },
            };
            q.times(weights[place] / total);
            if self.sizes.len() <= name {
                self.sizes.resize(name + 1, 0);
            }
            while self.clusters.n_clusters() < self.sizes.len() + 1 {
                self.clusters.push();
            }
            self.sizes[name] += 1;
            self.clusters.add(name, row, rng);
            self.names[row] = name as u32;
        }
        Some(q.ln())
    }
}

/// Proposes top-level labels, or takes the given ones: labels and ln [P(labels) p(columns | labels) / q], the law of the names
/// given the partition left out of P and q alike. `None` when the partition would not be proposed by the path that led to it.
pub(super) fn propose(
    clusters: &mut LabelClusters<'_>,
    alpha: f64,
    launch: Vec<u32>,
    order: &[u32],
    given: Option<&[u32]>,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<(Vec<u32>, f64)> {
    let sizes = crate::collapsed::counts(&launch);
    clusters.reset(sizes.len() + 1);
    for (row, &name) in launch.iter().enumerate() {
        clusters.count(name as usize, row);
    }
    let mut scan = Scan {
        clusters,
        names: launch,
        n_launch: sizes.len(),
        sizes,
        alpha,
    };
    for _ in 0..SCANS {
        scan.run(order, None, rng)?;
    }
    // Names without rows are forgotten: what the last scan starts from is a partition.
    let launch = scan.names.clone();
    let n_launch = scan.sizes.len();
    scan.n_launch = n_launch;
    let forced = given.map(|given| matched(given, &launch, n_launch));
    let ln_q = scan.run(order, forced.as_deref(), rng)?;
    if forced.is_none() {
        let by_match = matched(&scan.names, &launch, n_launch);
        let same = |(&name, &matched): (&u32, &u32)| {
            name == matched || name.min(matched) as usize >= n_launch
        };
        if !scan.names.iter().zip(&by_match).all(same) {
            return None;
        }
    }
    let Scan {
        clusters,
        names,
        sizes,
        ..
    } = scan;
    let ln_rows: f64 = (0..sizes.len()).map(|name| clusters.ln_total(name)).sum();
    let ln_weight = ln_partition_probability(&sizes, alpha) + ln_rows - ln_q;
    let labels = match given {
        Some(given) => given.to_vec(),
        None => named(&names, sizes, alpha, rng),
    };
    Some((labels, ln_weight))
}

/// Gives every cluster of `labels` the name of the launch cluster it shares most rows with, each used once, larger overlaps first;
/// those left over get new names.
fn matched(labels: &[u32], launch: &[u32], n_launch: usize) -> Vec<u32> {
    // Clusters in order of their first row, so that the result depends on the partition alone.
    let mut place = vec![u32::MAX; crate::collapsed::n_labels(labels)];
    let mut n = 0;
    for &label in labels {
        if place[label as usize] == u32::MAX {
            place[label as usize] = n;
            n += 1;
        }
    }
    let n = n as usize;
    let mut overlaps = vec![0; n * n_launch];
    for (&label, &name) in labels.iter().zip(launch) {
        overlaps[place[label as usize] as usize * n_launch + name as usize] += 1;
    }
    let mut pairs: Vec<usize> = (0..overlaps.len())
        .filter(|&pair| overlaps[pair] > 0)
        .collect();
    pairs.sort_by_key(|&pair| (std::cmp::Reverse(overlaps[pair]), pair));
    let mut names = vec![u32::MAX; n];
    let mut taken = vec![false; n_launch];
    for pair in pairs {
        let (cluster, name) = (pair / n_launch, pair % n_launch);
        if names[cluster] == u32::MAX && !taken[name] {
            names[cluster] = name as u32;
            taken[name] = true;
        }
    }
    let unmatched = names.iter_mut().filter(|name| **name == u32::MAX);
    for (new, name) in (n_launch as u32..).zip(unmatched) {
        *name = new;
    }
    labels
        .iter()
        .map(|&label| names[place[label as usize] as usize])
        .collect()
}

/// Draws the labels of a partition's clusters from their law under the stick-breaking prior: the next label goes to a cluster of n
/// rows with probability n / (α + N), N the rows without label so far, and stays empty with probability α / (α + N).
fn named(
    names: &[u32],
    mut sizes: Vec<usize>,
    alpha: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<u32> {
    let mut left: usize = sizes.iter().sum();
    let mut labels = vec![0; sizes.len()];
    let mut next = 0;
    while left > 0 {
        let mut u = rng.random::<f64>() * (alpha + left as f64) - alpha;
        if u >= 0.0 {
            let inside = |&size: &usize| {
                u -= size as f64;
                u < 0.0
            };
            let cluster = sizes.iter().position(inside);
            if let Some(cluster) = cluster {
                labels[cluster] = next;
                left -= sizes[cluster];
                sizes[cluster] = 0;
            }
        }
        next += 1;
    }
    names.iter().map(|&name| labels[name as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_law_of_stick_labels() {
        use npb_priors::dp::ln_label_probability;
        let rng = &mut npb_infer::stream(3, [0; 4]);
        let (alpha, n) = (0.8, 40_000);
        let names = [0, 0, 0, 1];
        let hits = (0..n)
            .filter(|_| named(&names, vec![3, 1], alpha, rng) == [1, 1, 1, 0])
            .count();
        // P(labels) over the sum for all labels of the same partition.
        let labels = |big: usize, small: usize| {
            let mut counts = vec![0; big.max(small) + 1];
            (counts[big], counts[small]) = (3, 1);
            ln_label_probability(&counts, alpha)
        };
        let expected = (labels(1, 0) - ln_partition_probability(&[3, 1], alpha)).exp();
        let sd = (expected * (1.0 - expected) / f64::from(n)).sqrt();
        assert!((hits as f64 / f64::from(n) - expected).abs() < 4.0 * sd);
    }

    #[test]
    fn clusters_keep_the_names_they_overlap_with() {
        let launch = [0, 0, 0, 1, 1, 2];
        assert_eq!(matched(&[7, 7, 7, 3, 3, 3], &launch, 3), [0, 0, 0, 1, 1, 1]);
        assert_eq!(matched(&[0, 1, 1, 1, 2, 3], &launch, 3), [3, 0, 0, 0, 1, 2]);
        assert_eq!(agreement(&[&[1, 1, 0, 1], &[5, 5, 5, 2]]), [0, 0, 1, 2]);
    }
}
