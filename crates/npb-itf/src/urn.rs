//! Clusters of rows with everything below them integrated out: what one more row in a cluster is worth.
//!
//! Top-level clusters hold rows; what a row brings is either its lower labels, whose sticks are integrated out (B (15)), or, with one
//! level, its cells, whose parameters are integrated out. Split-merge moves and moves of columns are the same for both.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::{ln_label_probability, predictive_weights};
use rand::RngExt;

use crate::kernels::{Cells, Column, Stats};

/// Rows in clusters.
pub(crate) trait Urn {
    /// Makes room for clusters 0..`n_clusters` and empties them.
    fn reset(&mut self, n_clusters: usize);
    /// Number of clusters there is room for.
    fn n_clusters(&self) -> usize;
    /// One more, empty cluster.
    fn push(&mut self);
    /// ln p(row | rows of the cluster).
    fn ln_weight(&self, cluster: usize, row: usize) -> f64;
    /// Puts a row into a cluster.
    fn add(&mut self, cluster: usize, row: usize);
    /// Puts a row into a cluster when only totals are asked for afterwards.
    fn count(&mut self, cluster: usize, row: usize) {
        self.add(cluster, row);
    }
    /// ln p(rows of the cluster).
    fn ln_total(&self, cluster: usize) -> f64;
    /// ln p(all rows | their clusters); the urn then holds them.
    fn ln_given(&mut self, labels: &[u32]) -> f64 {
        let n = n_labels(labels);
        self.reset(n);
        for (row, &label) in labels.iter().enumerate() {
            self.count(label as usize, row);
        }
        (0..n).map(|cluster| self.ln_total(cluster)).sum()
    }
}

/// The lower labels of one column in top-level clusters.
struct LabelColumn<'a> {
    labels: &'a [u32],
    concentration: &'a dyn Fn(usize) -> f64,
    n_labels: usize,
    /// `counts[cluster * n_labels + label]`.
    counts: Vec<usize>,
    /// Rows of each cluster.
    totals: Vec<usize>,
    /// Predictive weights of the labels, laid out like the counts (B (15), corrected).
    weights: Vec<f64>,
}

impl LabelColumn<'_> {
    fn resize(&mut self, n_clusters: usize) {
        let old = self.totals.len();
        self.counts.resize(n_clusters * self.n_labels, 0);
        self.weights.resize(n_clusters * self.n_labels, 0.0);
        self.totals.resize(n_clusters, 0);
        (old..n_clusters).for_each(|cluster| self.weigh(cluster));
    }

    fn count(&mut self, cluster: usize, row: usize) {
        self.counts[cluster * self.n_labels + self.labels[row] as usize] += 1;
        self.totals[cluster] += 1;
    }

    /// Computes the predictive weights of a cluster.
    fn weigh(&mut self, cluster: usize) {
        let range = cluster * self.n_labels..(cluster + 1) * self.n_labels;
        let beta = (self.concentration)(cluster);
        let counts = &self.counts[range.clone()];
        label_weights(counts, self.totals[cluster], beta, &mut self.weights[range]);
    }
}

/// Predictive weights of all labels with the sticks integrated out (B (15), corrected), `total` the sum of `counts`.
pub(crate) fn label_weights(counts: &[usize], total: usize, beta: f64, out: &mut [f64]) {
    let mut at_or_after = total;
    let mut rest = 1.0;
    for (weight, &m) in out.iter_mut().zip(counts) {
        let inverse = 1.0 / (1.0 + beta + at_or_after as f64);
        at_or_after -= m;
        *weight = rest * (1.0 + m as f64) * inverse;
        rest *= (beta + at_or_after as f64) * inverse;
    }
}

/// Top-level clusters of rows with several columns' lower labels.
pub(crate) struct LabelUrn<'a> {
    columns: Vec<LabelColumn<'a>>,
    n_clusters: usize,
}

impl<'a> LabelUrn<'a> {
    /// Takes a row out of its cluster.
    pub(crate) fn remove(&mut self, cluster: usize, row: usize) {
        for column in &mut self.columns {
            column.counts[cluster * column.n_labels + column.labels[row] as usize] -= 1;
            column.totals[cluster] -= 1;
            column.weigh(cluster);
        }
    }

    /// `columns`: labels, and the concentration in each top-level cluster (by its place in this urn).
    pub(crate) fn new(
        columns: impl IntoIterator<Item = (&'a [u32], &'a dyn Fn(usize) -> f64)>,
    ) -> Self {
        let column = |(labels, concentration): (&'a [u32], _)| LabelColumn {
            labels,
            concentration,
            n_labels: n_labels(labels),
            counts: Vec::new(),
            totals: Vec::new(),
            weights: Vec::new(),
        };
        Self {
            columns: columns.into_iter().map(column).collect(),
            n_clusters: 0,
        }
    }
}

impl Urn for LabelUrn<'_> {
    fn reset(&mut self, n_clusters: usize) {
        self.n_clusters = n_clusters;
        for column in &mut self.columns {
            column.counts.clear();
            column.totals.clear();
            column.resize(n_clusters);
        }
    }

    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn push(&mut self) {
        self.n_clusters += 1;
        for column in &mut self.columns {
            column.resize(self.n_clusters);
        }
    }

    fn ln_weight(&self, cluster: usize, row: usize) -> f64 {
        let weight = |column: &LabelColumn<'_>| {
            column.weights[cluster * column.n_labels + column.labels[row] as usize]
        };
        // One logarithm for several columns: a product of eight weights stays far inside the range of f64.
        let ln_product =
            |columns: &[LabelColumn<'_>]| columns.iter().map(weight).product::<f64>().ln();
        self.columns.chunks(8).map(ln_product).sum()
    }

    fn add(&mut self, cluster: usize, row: usize) {
        for column in &mut self.columns {
            column.count(cluster, row);
            column.weigh(cluster);
        }
    }

    fn count(&mut self, cluster: usize, row: usize) {
        for column in &mut self.columns {
            column.count(cluster, row);
        }
    }

    fn ln_total(&self, cluster: usize) -> f64 {
        let total = |column: &LabelColumn<'_>| {
            let counts = &column.counts[cluster * column.n_labels..][..column.n_labels];
            ln_label_probability(counts, (column.concentration)(cluster))
        };
        self.columns.iter().map(total).sum()
    }
}

/// The cells of several columns in clusters.
pub(crate) struct CellUrn<'a> {
    columns: Vec<(&'a Column, &'a Cells, Stats)>,
    n_clusters: usize,
}

impl<'a> CellUrn<'a> {
    /// All columns must be collapsed for their cells.
    pub(crate) fn new(columns: impl IntoIterator<Item = (&'a Column, &'a Cells)>) -> Self {
        let columns = columns
            .into_iter()
            .map(|(law, cells)| (law, cells, law.pool()));
        Self {
            columns: columns.collect(),
            n_clusters: 0,
        }
    }

    /// The statistics, column by column.
    pub(crate) fn into_stats(self) -> impl Iterator<Item = Stats> {
        self.columns.into_iter().map(|(_, _, stats)| stats)
    }
}

impl Urn for CellUrn<'_> {
    fn reset(&mut self, n_clusters: usize) {
        self.n_clusters = n_clusters;
        for (law, cells, stats) in &mut self.columns {
            law.urn_reset(cells, stats, n_clusters);
        }
    }

    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn push(&mut self) {
        self.n_clusters += 1;
        for (law, cells, stats) in &mut self.columns {
            law.urn_push(cells, stats);
        }
    }

    fn ln_weight(&self, cluster: usize, row: usize) -> f64 {
        let weight = |(law, cells, stats): &(&Column, &Cells, Stats)| {
            law.urn_ln_predictive(cells, stats, cluster, row)
        };
        self.columns.iter().map(weight).sum()
    }

    fn add(&mut self, cluster: usize, row: usize) {
        for (law, cells, stats) in &mut self.columns {
            law.urn_add(cells, stats, cluster, row);
        }
    }

    fn ln_total(&self, cluster: usize) -> f64 {
        let total = |(law, cells, stats): &(&Column, &Cells, Stats)| {
            law.urn_ln_evidence(cells, stats, cluster)
        };
        self.columns.iter().map(total).sum()
    }
}

/// Predictive weight of a label with the sticks integrated out (B (15), corrected), `total` the sum of `counts`.
#[inline]
pub(crate) fn label_weight(counts: &[usize], total: usize, beta: f64, label: usize) -> f64 {
    let mut at_or_after = total;
    let mut weight = 1.0;
    for &m in &counts[..label] {
        let whole = 1.0 + beta + at_or_after as f64;
        at_or_after -= m;
        weight *= (beta + at_or_after as f64) / whole;
    }
    weight * (1.0 + counts[label] as f64) / (1.0 + beta + at_or_after as f64)
}

/// One more than the largest label.
pub(crate) fn n_labels(labels: &[u32]) -> usize {
    labels.iter().max().map_or(0, |&k| k as usize + 1)
}

/// Number of rows with each label, for labels up to the largest.
pub(crate) fn counts(labels: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; n_labels(labels)];
    labels.iter().for_each(|&k| counts[k as usize] += 1);
    counts
}

/// Gives rows labels one after the other in the given order, each with the probability that the stick-breaking prior and the rows
/// before it give it, or takes the given labels.
///
/// This visits every labelling with positive probability q. Returns the labels and ln [P(labels) p(rows | labels) / q], with
/// P = exp ln_label_probability(counts, `alpha`) and p = exp Σ `ln_total`: the product of the normalisers met on the way.
/// Afterwards the urn holds the rows.
pub(crate) fn sequential(
    urn: &mut (impl Urn + ?Sized),
    alpha: f64,
    order: &[u32],
    given: Option<&[u32]>,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<u32>, f64) {
    let top = vec![0; order.len()];
    sequential_below(urn, &top, alpha, order, given, rng)
}

/// As [`sequential`], for the lower labels of one column given its top-level labels: every top-level cluster has sticks of its own.
pub(crate) fn sequential_below(
    urn: &mut (impl Urn + ?Sized),
    top: &[u32],
    beta: f64,
    order: &[u32],
    given: Option<&[u32]>,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<u32>, f64) {
    let mut labels = vec![0; order.len()];
    let mut counts: Vec<Vec<usize>> = vec![Vec::new(); n_labels(top)];
    let (mut prior, mut weights) = (Vec::new(), Vec::new());
    let mut ln_weight = 0.0;
    // Labels below k have been given to some row.
    let mut k = 0;
    urn.reset(given.map_or(1, |given| n_labels(given) + 1));
    for &row in order {
        let row = row as usize;
        let counts = &mut counts[top[row] as usize];
        prior.resize(k, 0.0);
        let beyond = predictive_weights(counts, beta, &mut prior);
        weights.clear();
        weights.extend((0..k).map(|label| prior[label].ln() + urn.ln_weight(label, row)));
        weights.push(beyond.ln() + urn.ln_weight(k, row));
        let total = npb_priors::special::log_sum_exp(&weights);
        ln_weight += total;
        let label = match given {
            Some(given) => given[row] as usize,
            None => {
                let place = pick_ln(&weights, total, rng);
                if place < k {
                    place
                } else {
                    k + beyond_label(beta, rng)
                }
            }
        };
        if label >= counts.len() {
            counts.resize(label + 1, 0);
        }
        k = k.max(label + 1);
        while urn.n_clusters() < k + 1 {
            urn.push();
        }
        counts[label] += 1;
        urn.add(label, row);
        labels[row] = label as u32;
    }
    (labels, ln_weight)
}

/// Number of empty labels passed over before one is taken.
fn beyond_label(alpha: f64, rng: &mut Xoshiro256PlusPlus) -> usize {
    let mut passed = 0;
    while rng.random::<f64>() * (1.0 + alpha) < alpha {
        passed += 1;
    }
    passed
}

/// An index with probability exp(weight − total).
pub(crate) fn pick_ln(weights: &[f64], total: f64, rng: &mut Xoshiro256PlusPlus) -> usize {
    let mut left: f64 = rng.random();
    for (k, weight) in weights.iter().enumerate() {
        left -= (weight - total).exp();
        if left < 0.0 {
            return k;
        }
    }
    0
}
