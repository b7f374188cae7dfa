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
    /// ln p(rows of the cluster).
    fn ln_total(&self, cluster: usize) -> f64;
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
}

/// Top-level clusters of rows with several columns' lower labels.
pub(crate) struct LabelUrn<'a> {
    columns: Vec<LabelColumn<'a>>,
    n_clusters: usize,
}

impl<'a> LabelUrn<'a> {
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
            column.counts.resize(n_clusters * column.n_labels, 0);
            column.totals.clear();
            column.totals.resize(n_clusters, 0);
        }
    }

    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn push(&mut self) {
        self.n_clusters += 1;
        for column in &mut self.columns {
            column.counts.resize(self.n_clusters * column.n_labels, 0);
            column.totals.push(0);
        }
    }

    fn ln_weight(&self, cluster: usize, row: usize) -> f64 {
        let weight = |column: &LabelColumn<'_>| {
            let counts = &column.counts[cluster * column.n_labels..][..column.n_labels];
            let beta = (column.concentration)(cluster);
            label_weight(
                counts,
                column.totals[cluster],
                beta,
                column.labels[row] as usize,
            )
            .ln()
        };
        self.columns.iter().map(weight).sum()
    }

    fn add(&mut self, cluster: usize, row: usize) {
        for column in &mut self.columns {
            column.counts[cluster * column.n_labels + column.labels[row] as usize] += 1;
            column.totals[cluster] += 1;
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
/// before it give it, or takes the given labels; returns the labels and the logarithm of their probability under this scheme.
///
/// The scheme visits every labelling with positive probability: it is a proposal for labels whose joint law is
/// proportional to ln_label_probability(counts, `alpha`) + Σ `ln_total`. Afterwards the urn holds the rows.
pub(crate) fn sequential(
    urn: &mut impl Urn,
    alpha: f64,
    order: &[u32],
    given: Option<&[u32]>,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<u32>, f64) {
    let mut labels = vec![0; order.len()];
    let mut counts: Vec<usize> = Vec::new();
    let (mut prior, mut weights) = (Vec::new(), Vec::new());
    let mut ln_q = 0.0;
    urn.reset(given.map_or(1, |given| n_labels(given) + 1));
    for &row in order {
        let row = row as usize;
        let k = counts.len();
        prior.resize(k, 0.0);
        let beyond = predictive_weights(&counts, alpha, &mut prior);
        // Labels from k on have no rows; they share one weight, kept in the last place.
        weights.clear();
        weights.extend((0..k).map(|label| prior[label].ln() + urn.ln_weight(label, row)));
        weights.push(beyond.ln() + urn.ln_weight(k, row));
        let total = npb_priors::special::log_sum_exp(&weights);
        let label = match given {
            Some(given) => given[row] as usize,
            None => {
                let place = pick_ln(&weights, total, rng);
                if place < k {
                    place
                } else {
                    k + beyond_label(alpha, rng)
                }
            }
        };
        ln_q += weights[label.min(k)] - total;
        if label >= k {
            // Geometric: each of the labels from k on is passed over with probability α / (1 + α).
            ln_q += (label - k) as f64 * (alpha / (1.0 + alpha)).ln() - alpha.ln_1p();
            counts.resize(label + 1, 0);
            while urn.n_clusters() < label + 2 {
                urn.push();
            }
        }
        counts[label] += 1;
        urn.add(label, row);
        labels[row] = label as u32;
    }
    (labels, ln_q)
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
fn pick_ln(weights: &[f64], total: f64, rng: &mut Xoshiro256PlusPlus) -> usize {
    let mut left: f64 = rng.random();
    for (k, weight) in weights.iter().enumerate() {
        left -= (weight - total).exp();
        if left < 0.0 {
            return k;
        }
    }
    0
}
