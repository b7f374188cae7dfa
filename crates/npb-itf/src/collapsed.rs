//! Clusters of rows with everything below them integrated out, and rows allocated to them one after the other.
//!
//! Top-level clusters hold rows; what a row brings is either its lower labels, whose sticks are integrated out (B (15)), or, with one
//! level, its cells, whose parameters are integrated out. Split-merge moves and moves of columns are the same for both.
//!
//! Totals are exact. The weights that rows are allocated by need not be: they are proposals, and the moves divide by the probability of
//! what was proposed. So they are short cuts, close to the predictive distributions.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::{ln_label_probability, predictive_weights};
use rand::RngExt;

use crate::kernel::RowLabels;
use crate::kernels::{Cells, Column, Predictive, Stats};
pub(crate) use crate::numeric::cross_counts;
use crate::numeric::{Product, exp_rows, largest, pick};

/// Weights to allocate by are at least this much of the largest, so that every allocation can be proposed.
const FLOOR: f64 = 1e-150;
/// Clusters are handled in groups of this many.
const LANES: usize = 4;

/// Rows in clusters.
pub(crate) trait CollapsedClusters {
    /// Makes room for clusters 0..`n_clusters` and empties them.
    fn reset(&mut self, n_clusters: usize);
    /// Number of clusters there is room for.
    fn n_clusters(&self) -> usize;
    /// One more, empty cluster.
    fn push(&mut self);
    /// Writes for every cluster a number about proportional to p(row | rows of the cluster), the largest 1, all positive.
    fn weights(&mut self, row: usize, rng: &mut Xoshiro256PlusPlus, out: &mut [f64]);
    /// Puts a row into a cluster.
    fn add(&mut self, cluster: usize, row: usize, rng: &mut Xoshiro256PlusPlus);
    /// Puts a row into a cluster when only totals are asked for afterwards.
    fn count(&mut self, cluster: usize, row: usize);
    /// ln p(rows of the cluster).
    fn ln_total(&self, cluster: usize) -> f64;
    /// ln p(all rows | their clusters); the clusters then hold them.
    fn ln_given(&mut self, labels: &[u32]) -> f64 {
        let n = n_labels(labels);
        self.reset(n);
        for (row, &label) in labels.iter().enumerate() {
            self.count(label as usize, row);
        }
        (0..n).map(|cluster| self.ln_total(cluster)).sum()
    }
}

/// Rows whose labels are put side by side at once.
const ROWS: usize = 256;

/// One number for every label of several columns and every cluster, clusters innermost; rows know their labels by one code for each
/// column.
pub(crate) struct CodedTable {
    n_columns: usize,
    /// First code of every column, and one more for the end.
    offsets: Vec<u32>,
    /// `codes[row * n_columns + column]`.
    codes: Vec<u32>,
    /// Clusters there is room for, a multiple of [`LANES`].
    width: usize,
}

impl CodedTable {
    /// `columns`: the labels of every column.
    pub(crate) fn new(columns: &[&[u32]]) -> Self {
        let mut offsets = vec![0];
        for labels in columns {
            offsets.push(offsets[offsets.len() - 1] + n_labels(labels) as u32);
        }
        let (p, n_rows) = (columns.len(), columns.first().map_or(0, |c| c.len()));
        let mut codes = vec![0; n_rows * p];
        // Rows together that stay in the first cache.
        for (part, codes) in codes.chunks_mut((ROWS * p).max(1)).enumerate() {
            for (j, labels) in columns.iter().enumerate() {
                let rows = codes.chunks_exact_mut(p).zip(&labels[part * ROWS..]);
                rows.for_each(|(codes, &label)| codes[j] = offsets[j] + label);
            }
        }
        Self {
            n_columns: p,
            offsets,
            codes,
            width: LANES,
        }
    }

    /// The codes of a row, column by column.
    pub(crate) fn codes(&self, row: usize) -> &[u32] {
        &self.codes[row * self.n_columns..][..self.n_columns]
    }

    /// The codes of a column's labels.
    pub(crate) fn codes_of(&self, column: usize) -> std::ops::Range<usize> {
        self.offsets[column] as usize..self.offsets[column + 1] as usize
    }

    fn n_codes(&self) -> usize {
        self.offsets[self.n_columns] as usize
    }

    /// Clusters there is room for.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Numbers in a table.
    pub(crate) fn len(&self) -> usize {
        self.n_codes() * self.width
    }

    /// Makes room for `n` clusters in all `tables`, filled with `fill`.
    pub(crate) fn widen<const N: usize>(&mut self, n: usize, tables: [(&mut Vec<f64>, f64); N]) {
        if n <= self.width {
            return;
        }
        let (old, n_codes) = (self.width, self.n_codes());
        self.width = n.next_power_of_two();
        for (table, fill) in tables {
            let mut wide = vec![fill; n_codes * self.width];
            let lines = wide.chunks_exact_mut(self.width);
            for (to, from) in lines.zip(table.chunks_exact(old)) {
                to[..old].copy_from_slice(from);
            }
            *table = wide;
        }
    }
}

/// So many predictive weights have a product that stays far inside the range of f64.
pub(crate) const FACTORS: usize = 12;

/// Divides by the largest, which must be positive.
#[inline(always)]
pub(crate) fn scale(products: &mut [f64]) {
    let factor = largest(products).recip();
    products.iter_mut().for_each(|p| *p *= factor);
}

/// Top-level clusters of rows with several columns' lower labels.
///
/// Rows are allocated by (count + 1/2) / (size + labels / 2) for every column, totals are exact.
pub(crate) struct LabelClusters<'a> {
    /// β of every column in each top-level cluster, by its place here.
    concentrations: Vec<&'a dyn Fn(usize) -> f64>,
    coded: CodedTable,
    n_clusters: usize,
    /// Rows with each label in each cluster, plus [`PSEUDO_COUNT`].
    counts: Vec<f64>,
    sizes: Vec<f64>,
    /// 1 / (size + `base`).
    inverses: Vec<f64>,
    /// Pseudo-count of a cluster, averaged over columns.
    base: f64,
    /// Room for the weights of one row.
    products: Vec<f64>,
}

/// What a label counts before it has been seen.
const PSEUDO_COUNT: f64 = 0.5;

impl<'a> LabelClusters<'a> {
    /// `columns`: labels, and the concentration in each top-level cluster (by its place here).
    pub(crate) fn new(
        columns: impl IntoIterator<Item = (&'a [u32], &'a dyn Fn(usize) -> f64)>,
    ) -> Self {
        let (labels, concentrations): (Vec<&[u32]>, Vec<_>) = columns.into_iter().unzip();
        let coded = CodedTable::new(&labels);
        Self {
            base: PSEUDO_COUNT * coded.n_codes() as f64 / labels.len().max(1) as f64,
            concentrations,
            coded,
            n_clusters: 0,
            counts: Vec::new(),
            sizes: Vec::new(),
            products: Vec::new(),
            inverses: Vec::new(),
        }
    }

    /// Takes a row out of its cluster.
    pub(crate) fn remove(&mut self, cluster: usize, row: usize) {
        self.change(cluster, row, -1.0);
    }

    fn change(&mut self, cluster: usize, row: usize, by: f64) {
        let width = self.coded.width();
        for &code in self.coded.codes(row) {
            self.counts[code as usize * width + cluster] += by;
        }
        self.sizes[cluster] += by;
        self.inverses[cluster] = (self.sizes[cluster] + self.base).recip();
    }

    fn make_room(&mut self, n_clusters: usize) {
        self.n_clusters = n_clusters;
        self.coded
            .widen(n_clusters, [(&mut self.counts, PSEUDO_COUNT)]);
        self.sizes.resize(self.coded.width(), 0.0);
        self.inverses.resize(self.coded.width(), self.base.recip());
    }
}

impl CollapsedClusters for LabelClusters<'_> {
    fn reset(&mut self, n_clusters: usize) {
        self.counts.clear();
        self.sizes.clear();
        self.inverses.clear();
        self.counts.resize(self.coded.len(), PSEUDO_COUNT);
        self.make_room(n_clusters);
    }

    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn push(&mut self) {
        self.make_room(self.n_clusters + 1);
    }

    fn weights(&mut self, row: usize, _: &mut Xoshiro256PlusPlus, out: &mut [f64]) {
        let (width, products) = (self.coded.width(), &mut self.products);
        products.clear();
        products.resize(width, 1.0);
        for (part, codes) in self.coded.codes(row).chunks(FACTORS).enumerate() {
            if part > 0 {
                scale(products);
            }
            // Four clusters by four, which stay in registers.
            let clusters = products.as_chunks_mut::<LANES>().0.iter_mut();
            let clusters = clusters.zip(self.inverses.as_chunks::<LANES>().0);
            for (at, (products, inverses)) in clusters.enumerate() {
                for &code in codes {
                    let counts = &self.counts[code as usize * width + at * LANES..][..LANES];
                    for lane in 0..LANES {
                        products[lane] *= counts[lane] * inverses[lane];
                    }
                }
            }
        }
        scale(products);
        for (out, p) in out.iter_mut().zip(products) {
            *out = p.max(FLOOR);
        }
    }

    fn add(&mut self, cluster: usize, row: usize, _: &mut Xoshiro256PlusPlus) {
        self.change(cluster, row, 1.0);
    }

    fn count(&mut self, cluster: usize, row: usize) {
        self.change(cluster, row, 1.0);
    }

    fn ln_total(&self, cluster: usize) -> f64 {
        let (width, mut counts) = (self.coded.width(), Vec::new());
        let total = |(j, concentration): (usize, &&dyn Fn(usize) -> f64)| {
            let codes = self.coded.codes_of(j);
            counts.clear();
            counts.extend(codes.map(|code| self.counts[code * width + cluster] as usize));
            ln_label_probability(&counts, concentration(cluster))
        };
        self.concentrations.iter().enumerate().map(total).sum()
    }
}

/// From this many cells on a cluster's cells are weighed by drawn parameters.
const DRAWN_FROM: usize = 16;

/// The cells of one column in clusters.
struct CellColumn<'a> {
    law: &'a Column,
    cells: &'a Cells,
    stats: Stats,
    /// The law with parameters drawn given the cells of the clusters.
    drawn: Column,
    /// Cells in each cluster, and how many there were when its parameters were drawn (0 for not at all).
    sizes: Vec<[usize; 2]>,
    /// What each cluster says of one more cell, where that is costly and has been asked for since a cell came in.
    predictives: Vec<Option<Predictive>>,
}

impl CellColumn<'_> {
    /// ln p(cell | cells of a cluster).
    fn ln_predictive(&mut self, cluster: usize, row: usize) -> f64 {
        let (law, cells, stats) = (self.law, self.cells, &self.stats);
        let known = &mut self.predictives[cluster];
        if known.is_none() {
            *known = law.predictive(stats, cluster);
        }
        match (known, cells) {
            (Some(known), Cells::FullNormal(data)) => known.ln(data, row),
            _ => law.collapsed_ln_predictive(cells, stats, cluster, row),
        }
    }
}

/// The cells of several columns in clusters.
///
/// Cells are allocated to small clusters by predictive densities, to others by parameters drawn given their cells, again whenever a
/// cluster has grown by a quarter. Such draws have the same law whether labels are proposed or followed, and cancel.
pub(crate) struct CellClusters<'a> {
    columns: Vec<CellColumn<'a>>,
    n_clusters: usize,
    ln_weights: Vec<f64>,
    likelihoods: Vec<f64>,
}

impl<'a> CellClusters<'a> {
    /// All columns must be collapsed for their cells.
    pub(crate) fn new(columns: impl IntoIterator<Item = (&'a Column, &'a Cells)>) -> Self {
        let column = |(law, cells): (&'a Column, &'a Cells)| {
            let mut drawn = law.clone();
            drawn.truncate(0);
            CellColumn {
                law,
                cells,
                stats: law.pool(),
                drawn,
                sizes: Vec::new(),
                predictives: Vec::new(),
            }
        };
        Self {
            columns: columns.into_iter().map(column).collect(),
            n_clusters: 0,
            ln_weights: Vec::new(),
            likelihoods: Vec::new(),
        }
    }

    /// The statistics, column by column.
    pub(crate) fn into_stats(self) -> impl Iterator<Item = Stats> {
        self.columns.into_iter().map(|column| column.stats)
    }
}

impl CollapsedClusters for CellClusters<'_> {
    fn reset(&mut self, n_clusters: usize) {
        self.n_clusters = n_clusters;
        for column in &mut self.columns {
            column.sizes.clear();
            column.sizes.resize(n_clusters, [0; 2]);
            column.predictives.clear();
            column.predictives.resize_with(n_clusters, || None);
            let CellColumn {
                law, cells, stats, ..
            } = column;
            law.collapsed_reset(cells, stats, n_clusters);
        }
    }

    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn push(&mut self) {
        self.n_clusters += 1;
        for column in &mut self.columns {
            column.sizes.push([0; 2]);
            column.predictives.push(None);
            column
                .law
                .collapsed_reserve(column.cells, &mut column.stats, self.n_clusters);
        }
    }

    fn weights(&mut self, row: usize, rng: &mut Xoshiro256PlusPlus, out: &mut [f64]) {
        let n = self.n_clusters;
        let padded = n.next_multiple_of(LANES);
        let (sum, likelihoods) = (&mut self.ln_weights, &mut self.likelihoods);
        sum.clear();
        sum.resize(n, 0.0);
        likelihoods.resize(padded, 0.0);
        for column in &mut self.columns {
            let (law, cells) = (column.law, column.cells);
            if !law.is_observed(cells, row) {
                continue;
            }
            if column.sizes.iter().any(|&[_, drawn]| drawn > 0) {
                column.drawn.grow(padded, rng);
                let rows = row..row + 1;
                let others = RowLabels::NONE;
                (column.drawn).ln_likelihoods(cells, rows, padded, others, likelihoods);
            }
            for (cluster, sum) in sum.iter_mut().enumerate() {
                let [_, drawn] = column.sizes[cluster];
                *sum += match drawn > 0 {
                    true => likelihoods[cluster],
                    false => column.ln_predictive(cluster, row),
                };
            }
        }
        exp_rows(sum, n);
        for (out, weight) in out.iter_mut().zip(sum) {
            *out = weight.max(FLOOR);
        }
    }

    fn add(&mut self, cluster: usize, row: usize, rng: &mut Xoshiro256PlusPlus) {
        for column in &mut self.columns {
            let (law, cells, stats) = (column.law, column.cells, &mut column.stats);
            if !law.is_observed(cells, row) {
                continue;
            }
            law.collapsed_add(cells, stats, cluster, row);
            column.predictives[cluster] = None;
            let [size, drawn] = &mut column.sizes[cluster];
            *size += 1;
            if *size >= DRAWN_FROM && *size >= *drawn + *drawn / 4 {
                *drawn = *size;
                column.drawn.grow(cluster + 1, rng);
                column
                    .drawn
                    .collapsed_draw(cells, stats, cluster, cluster, rng);
            }
        }
    }

    fn count(&mut self, cluster: usize, row: usize) {
        for column in &mut self.columns {
            column
                .law
                .collapsed_add(column.cells, &mut column.stats, cluster, row);
            column.predictives[cluster] = None;
        }
    }

    fn ln_total(&self, cluster: usize) -> f64 {
        let total = |column: &CellColumn<'_>| {
            column
                .law
                .collapsed_ln_evidence(column.cells, &column.stats, cluster)
        };
        self.columns.iter().map(total).sum()
    }
}

/// One more than the largest label.
pub(crate) fn n_labels(labels: &[u32]) -> usize {
    // By vector instructions: it is asked for all columns many times a sweep.
    let largest = pulp::Arch::new().dispatch(|| labels.iter().fold(0, |a: u32, &b| a.max(b)));
    largest as usize + usize::from(!labels.is_empty())
}

/// Number of rows with each label, for labels up to the largest.
pub(crate) fn counts(labels: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; n_labels(labels)];
    labels.iter().for_each(|&k| counts[k as usize] += 1);
    counts
}

/// ln p(lower labels | top-level labels) of a column, sticks integrated out, with these concentrations in top-level clusters.
pub(crate) fn ln_labels_given(
    labels: &[u32],
    top: &[u32],
    concentration: impl Fn(usize) -> f64,
) -> f64 {
    let n_labels = n_labels(labels).max(1);
    let counts = cross_counts(top, labels, self::n_labels(top), n_labels);
    let clusters = counts.chunks_exact(n_labels).enumerate();
    clusters
        .map(|(r, counts)| ln_label_probability(counts, concentration(r)))
        .sum()
}

/// Gives rows labels one after the other in the given order, each about with the probability that the stick-breaking prior and the rows
/// before it give it, or takes the given labels.
///
/// This visits every labelling with positive probability q. Returns the labels and ln [P(labels) p(rows | labels) / q], with
/// P = exp ln_label_probability(counts, `alpha`) and p = exp Σ `ln_total`. Afterwards the clusters hold the rows.
pub(crate) fn sequential(
    clusters: &mut impl CollapsedClusters,
    alpha: f64,
    order: &[u32],
    given: Option<&[u32]>,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<u32>, f64) {
    let top = vec![0; order.len()];
    sequential_below(clusters, &top, alpha, order, given, rng)
}

/// As [`sequential`], for the lower labels of one column given its top-level labels: every top-level cluster has sticks of its own.
pub(crate) fn sequential_below(
    clusters: &mut impl CollapsedClusters,
    top: &[u32],
    beta: f64,
    order: &[u32],
    given: Option<&[u32]>,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<u32>, f64) {
    let mut labels = vec![0; order.len()];
    let mut counts: Vec<Vec<usize>> = vec![Vec::new(); n_labels(top)];
    let (mut prior, mut weights) = (Vec::new(), Vec::new());
    let mut q = Product::default();
    // Labels below k have been given to some row.
    let mut k = 0;
    clusters.reset(given.map_or(1, |given| n_labels(given) + 1));
    for &row in order {
        let row = row as usize;
        let counts = &mut counts[top[row] as usize];
        prior.resize(k, 0.0);
        let beyond = predictive_weights(counts, beta, &mut prior);
        weights.resize(clusters.n_clusters(), 0.0);
        clusters.weights(row, rng, &mut weights);
        weights.truncate(k + 1);
        weights.iter_mut().zip(&prior).for_each(|(w, p)| *w *= p);
        weights[k] *= beyond;
        let total: f64 = weights.iter().sum();
        let label = match given {
            Some(given) => given[row] as usize,
            None => match pick(&weights, rng.random::<f64>() * total) {
                place if place < k => place,
                _ => k + beyond_label(beta, rng),
            },
        };
        q.times(weights[label.min(k)] / total);
        if let Some(passed) = label.checked_sub(k) {
            q.times((1.0 + beta).recip());
            q.times_ln(passed as f64 * (beta / (1.0 + beta)).ln());
        }
        if label >= counts.len() {
            counts.resize(label + 1, 0);
        }
        k = k.max(label + 1);
        while clusters.n_clusters() < k + 1 {
            clusters.push();
        }
        counts[label] += 1;
        clusters.add(label, row, rng);
        labels[row] = label as u32;
    }
    let ln_labels = counts.iter().map(|c| ln_label_probability(c, beta));
    let ln_rows = (0..k).map(|cluster| clusters.ln_total(cluster));
    let ln_weight = ln_labels.sum::<f64>() + ln_rows.sum::<f64>() - q.ln();
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
