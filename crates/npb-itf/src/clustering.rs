//! Which rows belong together: co-clustering, row similarity and one clustering that stands for all draws.

use std::collections::HashMap;
use std::ops::Range;

use npb_infer::parallel;
use serde::{Deserialize, Serialize};

use crate::{ItfError, ItfFit};

/// How wrong one clustering is when another is true. Both count pairs or information, not names of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusteringLoss {
    /// Share of the pairs of rows that are together in one clustering and apart in the other (Binder, Biometrika 65, 1978).
    Binder,
    /// Variation of information, in nats (Meilă, J. Multivariate Analysis 98, 2007). Makes fewer small clusters.
    VariationOfInformation,
}

/// One clustering that stands for many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointClustering {
    /// Cluster of every row: 0 for the largest.
    pub labels: Vec<u32>,
    /// Number of rows of every cluster, largest first.
    pub sizes: Vec<usize>,
    /// Mean loss over the draws.
    pub expected_loss: f64,
    /// For every row the mean probability of being together with the other rows of its cluster; 1 for a row alone.
    pub support: Vec<f64>,
}

/// Probabilities of pairs of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairTable {
    rows: Vec<usize>,
    /// Row by row below the diagonal.
    values: Vec<f32>,
}

impl PairTable {
    /// The rows it is about.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The number for the rows `rows()[a]` and `rows()[b]`; 1 for a row with itself.
    ///
    /// # Panics
    /// When there are no such positions.
    pub fn get(&self, a: usize, b: usize) -> f64 {
        let (low, high) = (a.min(b), a.max(b));
        assert!(high < self.rows.len(), "a position beyond the rows");
        if low == high {
            return 1.0;
        }
        f64::from(self.values[high * (high - 1) / 2 + low])
    }

    /// Share of the given label vectors in which rows are together. Cost: pairs x different vectors.
    fn of(draws: &[&[u32]], rows: &[usize]) -> Self {
        let share = (draws.len() as f32).recip();
        // Columns of a group have one vector, which is counted as often as it comes.
        let mut vectors: Vec<(Vec<u32>, u32)> = Vec::new();
        let mut places = HashMap::new();
        for labels in draws {
            let place = *places.entry(labels.as_ptr()).or_insert(vectors.len());
            if place == vectors.len() {
                vectors.push((rows.iter().map(|&row| labels[row]).collect(), 0));
            }
            vectors[place].1 += 1;
        }
        let lines = parallel::map(0..rows.len().div_ceil(LINES), |block| {
            let highs = block * LINES..((block + 1) * LINES).min(rows.len());
            together(&vectors, highs, share)
        });
        Self {
            rows: rows.to_vec(),
            values: lines.concat(),
        }
    }
}

/// Rows of a table of pairs that are filled together: labels are then in the cache for all of them.
const LINES: usize = 32;

/// How often rows are together with those before them, line by line, times `share`.
fn together(vectors: &[(Vec<u32>, u32)], highs: Range<usize>, share: f32) -> Vec<f32> {
    let mut counts: Vec<Vec<u32>> = highs.clone().map(|high| vec![0; high]).collect();
    for (labels, times) in vectors {
        for (high, counts) in highs.clone().zip(&mut counts) {
            let (own, times) = (labels[high], *times);
            pulp::Arch::new().dispatch(CountAlike {
                labels,
                own,
                times,
                counts,
            });
        }
    }
    let counts = counts.iter().flatten();
    counts.map(|&count| count as f32 * share).collect()
}

/// Counts the rows with a label.
struct CountAlike<'a> {
    labels: &'a [u32],
    own: u32,
    times: u32,
    counts: &'a mut [u32],
}

impl pulp::NullaryFnOnce for CountAlike<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (count, &label) in self.counts.iter_mut().zip(self.labels) {
            // Never more than there are vectors; vector instructions do not look at overflow.
            *count = count.wrapping_add(if label == self.own { self.times } else { 0 });
        }
    }
}

impl ItfFit {
    /// How alike two rows are: the share of `columns` (all when empty) in whose clusterings they are together, averaged over draws; of one column the
    /// probability that they are in one cluster. For all pairs among `rows`. Cost: pairs x draws x columns.
    ///
    /// # Errors
    /// An unknown column, a row that does not exist, a fit without labels ([`crate::ItfConfig::keep_labels`]).
    pub fn row_similarity(&self, columns: &[&str], rows: &[usize]) -> Result<PairTable, ItfError> {
        self.check_rows(rows)?;
        Ok(PairTable::of(&self.label_draws_of(columns)?, rows))
    }

    /// How alike each row of training is to one of them, as in [`row_similarity`](Self::row_similarity); 1 to itself.
    ///
    /// ```
    /// use npb_itf::npb_data::{MixedColumn, MixedTable};
    /// use npb_itf::npb_infer::SweepPlan;
    /// use npb_itf::{ItfConfig, fit};
    ///
    /// let x = MixedColumn::Real((0..60).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
    /// let table = MixedTable::new(vec!["x".into()], vec![x])?;
    /// let config = ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 50, keep: 20, thin: 1 }, ..ItfConfig::default() };
    /// let alike = fit(&table, &config)?.similar_rows(&["x"], 0)?;
    /// assert_eq!((alike.len(), alike[0]), (60, 1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`row_similarity`](Self::row_similarity).
    pub fn similar_rows(&self, columns: &[&str], row: usize) -> Result<Vec<f64>, ItfError> {
        self.check_rows(&[row])?;
        let draws = self.label_draws_of(columns)?;
        let together = |other| {
            draws
                .iter()
                .filter(|labels| labels[other] == labels[row])
                .count()
        };
        let shares = (0..self.n_rows()).map(|other| together(other) as f64 / draws.len() as f64);
        Ok(shares.collect())
    }

    /// Labels of columns, all when empty, in all kept draws.
    fn label_draws_of(&self, columns: &[&str]) -> Result<Vec<&[u32]>, ItfError> {
        for column in columns {
            self.column_index(column)?;
        }
        let mut draws = Vec::new();
        for info in self.columns() {
            if columns.is_empty() || columns.contains(&info.name.as_str()) {
                draws.extend(self.label_draws(&info.name)?);
            }
        }
        Ok(draws)
    }

    /// The clustering of a column's cells with the least expected loss that [`point_clustering`] finds.
    ///
    /// # Errors
    /// An unknown column, a fit without labels ([`crate::ItfConfig::keep_labels`]).
    pub fn point_clustering(
        &self,
        column: &str,
        loss: ClusteringLoss,
    ) -> Result<PointClustering, ItfError> {
        Ok(point_clustering(&self.label_draws(column)?, loss))
    }

    /// Labels of a column in all kept draws.
    fn label_draws(&self, column: &str) -> Result<Vec<&[u32]>, ItfError> {
        let column = self.places()[self.column_index(column)?].column;
        let labels = self.draws().iter().map(|draw| draw.labels(column));
        let labels: Option<Vec<&[u32]>> = labels.collect();
        labels.ok_or_else(|| ItfError::Argument {
            argument: "config.keep_labels",
            value: "false".to_owned(),
            rule: "true: questions about training rows need their labels; fit again",
        })
    }

    fn check_rows(&self, rows: &[usize]) -> Result<(), ItfError> {
        let missing = rows.iter().find(|&&row| row >= self.n_rows());
        missing.map_or(Ok(()), |row| {
            Err(ItfError::Argument {
                argument: "rows",
                value: row.to_string(),
                rule: "rows of training, counted from 0",
            })
        })
    }
}

/// Starts of the search.
const STARTS: usize = 8;
/// Passes over the rows; fewer than ten are made as a rule.
const PASSES: usize = 100;

/// The clustering with the least mean loss against `draws` (label vectors of equal length, names without meaning): the best
/// of the draws and of eight searches, each of which starts from a good draw and moves row after row to where the mean loss falls most, until none
/// falls. The loss is exact, not a bound; that the search ends at the overall minimum is likely, not certain.
///
/// Source: the greedy search of Dahl, Johnson and Müller (J. Computational and Graphical Statistics 31, 2022), on exact
/// losses. Cost of a pass: rows x clusters x draws.
///
/// ```
/// use npb_itf::{ClusteringLoss, point_clustering};
/// let draws: [&[u32]; 3] = [&[0, 0, 1, 1, 1], &[4, 4, 2, 2, 2], &[0, 0, 0, 1, 1]];
/// let point = point_clustering(&draws, ClusteringLoss::VariationOfInformation);
/// assert_eq!(point.labels, [1, 1, 0, 0, 0]);
/// ```
///
/// # Panics
/// Without draws, or when their lengths differ.
pub fn point_clustering(draws: &[&[u32]], loss: ClusteringLoss) -> PointClustering {
    let draws = Draws::new(draws, loss);
    let mut by_loss: Vec<(f64, usize)> = parallel::map(0..draws.labels.len(), |s| {
        (draws.expected_loss(&draws.labels[s]), s)
    });
    by_loss.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Draws of equal loss are often the same clustering.
    by_loss.dedup_by(|a, b| a.0 == b.0);
    let starts: Vec<usize> = by_loss.iter().take(STARTS).map(|&(_, s)| s).collect();
    let ends: Vec<(f64, Vec<u32>)> = parallel::map(starts, |s| {
        let labels = Search::new(&draws, &draws.labels[s]).run();
        (draws.expected_loss(&labels), labels)
    });
    let best = ends.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, labels) = best.expect("at least one draw");
    draws.report(&labels)
}

/// Label vectors with compact names, and the loss between clusterings: F(c) + F(d) − 2 F(c and d), F = Σ f(cluster size).
struct Draws {
    n_rows: usize,
    labels: Vec<Vec<u32>>,
    /// Where the clusters of each draw begin when those of all draws are numbered through; one more for the end.
    offsets: Vec<usize>,
    /// f(0), f(1), ..., f(n).
    f: Vec<f64>,
    /// Mean over draws of F(d).
    mean_f: f64,
}

impl Draws {
    fn new(draws: &[&[u32]], loss: ClusteringLoss) -> Self {
        let n_rows = draws.first().expect("at least one draw").len();
        assert!(
            draws.iter().all(|d| d.len() == n_rows),
            "draws of equal lengths"
        );
        let n = n_rows as f64;
        let f = (0..=n_rows).map(|size| {
            let x = size as f64;
            match loss {
                ClusteringLoss::Binder => x * (x - 1.0) / (n * (n - 1.0)).max(1.0),
                ClusteringLoss::VariationOfInformation if size == 0 => 0.0,
                ClusteringLoss::VariationOfInformation => x * x.ln() / n,
            }
        });
        let f: Vec<f64> = f.collect();
        let labels: Vec<Vec<u32>> = draws.iter().map(|d| compact(d)).collect();
        let mut offsets = vec![0];
        let mut mean_f = 0.0;
        for labels in &labels {
            let sizes = sizes(labels);
            offsets.push(offsets[offsets.len() - 1] + sizes.len());
            mean_f += sizes.iter().map(|&s| f[s]).sum::<f64>() / draws.len() as f64;
        }
        Self {
            n_rows,
            labels,
            offsets,
            f,
            mean_f,
        }
    }

    fn n_cells(&self) -> usize {
        self.offsets[self.labels.len()]
    }

    /// Numbers of the clusters, numbered through, that a row is in.
    fn cells(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        let draws = self.labels.iter().zip(&self.offsets);
        draws.map(move |(labels, offset)| offset + labels[row] as usize)
    }

    /// Sizes of the intersections of every cluster with every cluster of every draw.
    fn intersections(&self, labels: &[u32], n_clusters: usize) -> Vec<Vec<u32>> {
        let mut tables = vec![vec![0_u32; self.n_cells()]; n_clusters];
        for (row, &label) in labels.iter().enumerate() {
            let table = &mut tables[label as usize];
            self.cells(row).for_each(|cell| table[cell] += 1);
        }
        tables
    }

    fn expected_loss(&self, labels: &[u32]) -> f64 {
        let sizes = sizes(labels);
        let own: f64 = sizes.iter().map(|&s| self.f[s]).sum();
        let tables = self.intersections(labels, sizes.len());
        let shared: f64 = tables.iter().flatten().map(|&s| self.f[s as usize]).sum();
        (own + self.mean_f - 2.0 * shared / self.labels.len() as f64).max(0.0)
    }

    fn report(&self, labels: &[u32]) -> PointClustering {
        let labels = largest_first(labels);
        let sizes = sizes(&labels);
        let tables = self.intersections(&labels, sizes.len());
        let support = (0..self.n_rows).map(|row| {
            let cluster = labels[row] as usize;
            let others = (sizes[cluster] - 1) * self.labels.len();
            let together: u64 = self
                .cells(row)
                .map(|c| u64::from(tables[cluster][c] - 1))
                .sum();
            if others == 0 {
                1.0
            } else {
                together as f64 / others as f64
            }
        });
        PointClustering {
            expected_loss: self.expected_loss(&labels),
            support: support.collect(),
            sizes,
            labels,
        }
    }
}

/// The same clustering with names 0, 1, ... in the order of first rows.
fn compact(labels: &[u32]) -> Vec<u32> {
    let mut names = std::collections::HashMap::new();
    let name = |&label: &u32| {
        let next = names.len() as u32;
        *names.entry(label).or_insert(next)
    };
    labels.iter().map(name).collect()
}

/// The same clustering with names in the order of sizes; equal ones in the order of first rows.
fn largest_first(labels: &[u32]) -> Vec<u32> {
    let labels = compact(labels);
    let sizes = sizes(&labels);
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&k| std::cmp::Reverse(sizes[k]));
    let mut names = vec![0; sizes.len()];
    order.iter().zip(0..).for_each(|(&k, name)| names[k] = name);
    labels.iter().map(|&l| names[l as usize]).collect()
}

/// Sizes of the clusters of compact labels.
fn sizes(labels: &[u32]) -> Vec<usize> {
    let mut sizes = Vec::new();
    for &label in labels {
        if sizes.len() <= label as usize {
            sizes.resize(label as usize + 1, 0);
        }
        sizes[label as usize] += 1;
    }
    sizes
}

/// A clustering that moves row by row to a lower loss.
struct Search<'a> {
    draws: &'a Draws,
    labels: Vec<u32>,
    sizes: Vec<usize>,
    tables: Vec<Vec<u32>>,
}

impl<'a> Search<'a> {
    fn new(draws: &'a Draws, labels: &[u32]) -> Self {
        let sizes = sizes(labels);
        Self {
            tables: draws.intersections(labels, sizes.len()),
            labels: labels.to_vec(),
            sizes,
            draws,
        }
    }

    fn run(mut self) -> Vec<u32> {
        for _ in 0..PASSES {
            let moved = (0..self.labels.len())
                .filter(|&row| self.place(row))
                .count();
            if moved == 0 {
                break;
            }
        }
        compact(&self.labels)
    }

    /// Moves a row to the cluster, or the new one, where the loss is least; false when it stays.
    fn place(&mut self, row: usize) -> bool {
        let old = self.labels[row] as usize;
        self.count(row, old, false);
        let (mut best, mut least) = (old, self.cost(row, old));
        // All empty clusters are alike.
        let empty = (0..self.sizes.len()).find(|&k| self.sizes[k] == 0);
        let new = empty.unwrap_or(self.sizes.len());
        for k in (0..self.sizes.len())
            .filter(|&k| self.sizes[k] > 0)
            .chain([new])
        {
            let cost = self.cost(row, k);
            // Rounding alone moves nothing.
            if cost < least - 1e-12 {
                (best, least) = (k, cost);
            }
        }
        if best == self.sizes.len() {
            self.sizes.push(0);
            self.tables.push(vec![0; self.draws.n_cells()]);
        }
        self.count(row, best, true);
        self.labels[row] = best as u32;
        best != old
    }

    fn count(&mut self, row: usize, cluster: usize, enter: bool) {
        let table = &mut self.tables[cluster];
        if enter {
            self.sizes[cluster] += 1;
            self.draws.cells(row).for_each(|cell| table[cell] += 1);
        } else {
            self.sizes[cluster] -= 1;
            self.draws.cells(row).for_each(|cell| table[cell] -= 1);
        }
    }

    /// What the loss grows by when the row enters the cluster.
    fn cost(&self, row: usize, cluster: usize) -> f64 {
        let f = &self.draws.f;
        let step = |size: usize| f[size + 1] - f[size];
        let (Some(&size), Some(table)) = (self.sizes.get(cluster), self.tables.get(cluster)) else {
            return -step(0);
        };
        let shared: f64 = self
            .draws
            .cells(row)
            .map(|cell| step(table[cell] as usize))
            .sum();
        step(size) - 2.0 * shared / self.draws.labels.len() as f64
    }
}
