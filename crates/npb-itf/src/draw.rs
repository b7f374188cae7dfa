//! Kept draws of the posterior, complete enough to predict from.

use npb_infer::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::ItfConfig;
use crate::collapsed;
use crate::kernels::Column;
use crate::numeric::{mutual_information, positive};
use crate::prior::grow_concentrations;
use crate::state::ItfState;
use crate::sticks::Sticks;

/// Mass that the last stick of a kept draw takes over from all further ones.
const TAIL: f64 = 1e-3;
/// Sticks are broken no further than this.
const MAX_STICKS: usize = 512;
/// Numbers of clusters are multiples of this (see [`crate::Kernel`]).
const LANES: usize = 4;

/// A block of a kept draw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockDraw {
    /// λ, with sum 1.
    pub weights: Vec<f64>,
    /// α.
    pub concentration: f64,
    /// Top-level label of every training row; empty when labels are not kept.
    pub labels: Vec<u32>,
}

/// A column of a kept draw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ColumnDraw {
    /// Its block.
    pub block: usize,
    /// Number of clusters with parameters.
    pub n_clusters: usize,
    /// ψ, `weights[r * n_clusters + k]`, sum 1 for every top-level cluster r; empty with one level, where the block's clusters are the column's.
    pub weights: Vec<f64>,
    /// β; empty with one level.
    pub concentrations: Vec<f64>,
    /// Label of every training row; empty when labels are not kept, or with one level.
    pub labels: Vec<u32>,
    /// Kernel and parameters.
    pub law: Column,
}

/// One kept draw: weights of both levels and the parameters of all clusters.
///
/// Sticks are broken until less than a thousandth of the mass is left, and the last one, a cluster without rows, takes it: its
/// parameters are a prior draw, so that the expected density of a cell is that of the infinite mixture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Draw {
    /// The chain it is from.
    pub chain: u64,
    /// Blocks.
    pub blocks: Vec<BlockDraw>,
    /// Columns, in the order of training.
    pub columns: Vec<ColumnDraw>,
    /// γ of the partition of the columns.
    pub column_concentration: f64,
}

impl Draw {
    /// Draws the sticks that belong to a state.
    pub(crate) fn new(
        state: &ItfState,
        config: &ItfConfig,
        chain: u64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let kept = |labels: &[u32]| match config.keep_labels {
            true => labels.to_vec(),
            false => Vec::new(),
        };
        let blocks = state.blocks.iter().map(|block| BlockDraw {
            weights: top(&block.labels, block.concentration, rng),
            concentration: block.concentration,
            labels: kept(&block.labels),
        });
        let blocks: Vec<BlockDraw> = blocks.collect();
        let columns = state.columns.iter().map(|column| {
            let top = &blocks[column.block].weights;
            let mut column = column.clone();
            if config.per_top_cluster() {
                grow_concentrations(config, &mut column, top.len(), rng);
            }
            let (n_clusters, weights) = if config.structure.has_lower() {
                let top_labels = &state.blocks[column.block].labels;
                lower(&column, top_labels, top, rng)
            } else {
                (top.len(), Vec::new())
            };
            column.law.truncate(n_clusters);
            column.law.grow(n_clusters, rng);
            ColumnDraw {
                block: column.block,
                n_clusters,
                weights,
                concentrations: column.concentrations,
                // None with one level.
                labels: kept(&column.labels),
                law: column.law,
            }
        });
        Self {
            chain,
            columns: columns.collect(),
            blocks,
            column_concentration: state.column_concentration,
        }
    }

    /// Labels that cluster a column's training cells, `None` when labels are not kept.
    pub fn labels(&self, column: usize) -> Option<&[u32]> {
        let column = &self.columns[column];
        let labels = if column.weights.is_empty() {
            &self.blocks[column.block].labels
        } else {
            &column.labels
        };
        (!labels.is_empty()).then_some(labels)
    }

    /// P(c_0 = r, c_a = k, c_b = l) summed over r: the joint law of the latent indices of two columns of one block,
    /// `out[k * n_b + l]`; `None` for columns of different blocks, which are independent.
    pub fn joint_weights(&self, a: usize, b: usize) -> Option<Vec<f64>> {
        let (a, b) = (&self.columns[a], &self.columns[b]);
        if a.block != b.block {
            return None;
        }
        let top = &self.blocks[a.block].weights;
        let mut joint = vec![0.0; a.n_clusters * b.n_clusters];
        for (r, &weight) in top.iter().enumerate() {
            if a.weights.is_empty() {
                joint[r * b.n_clusters + r] = weight;
                continue;
            }
            let of_b = &b.weights[r * b.n_clusters..][..b.n_clusters];
            for (k, row) in joint.chunks_exact_mut(b.n_clusters).enumerate() {
                let weight = weight * a.weights[r * a.n_clusters + k];
                for (joint, &of_b) in row.iter_mut().zip(of_b) {
                    *joint += weight * of_b;
                }
            }
        }
        Some(joint)
    }

    /// Mutual information of the latent indices of two columns, in nats: 0 for columns of different blocks.
    ///
    /// Source: B (21), with both data types told apart and the table normalised; clusters without rows are part of it.
    pub fn mutual_information(&self, a: usize, b: usize) -> f64 {
        match self.joint_weights(a, b) {
            Some(joint) => mutual_information(&joint, self.columns[b].n_clusters),
            None => 0.0,
        }
    }

    /// Mutual information of the latent indices of two columns given those of others, in nats. 0 when these and one of the two
    /// settle it: columns of different blocks, one level, or one of the two among `given`.
    ///
    /// Source: B (21) within each cluster of the other columns. Cost: the product of all these columns' numbers of clusters times
    /// that of top-level clusters.
    pub fn conditional_mutual_information(&self, a: usize, b: usize, given: &[usize]) -> f64 {
        let Some(mut joint) = self.joint_weights(a, b) else {
            return 0.0;
        };
        let (of_a, of_b) = (&self.columns[a], &self.columns[b]);
        if given.contains(&a) || given.contains(&b) {
            return 0.0;
        }
        let inside = |&&j: &&usize| self.columns[j].block == of_a.block;
        match given.iter().find(inside) {
            None => return mutual_information(&joint, of_b.n_clusters),
            Some(&third) if self.columns[third].weights.is_empty() => return 0.0,
            Some(_) => {}
        }
        let mut information = 0.0;
        for top in self.tops_given(of_a.block, given) {
            joint.fill(0.0);
            for (r, &weight) in top.iter().enumerate() {
                let of_b = &of_b.weights[r * of_b.n_clusters..][..of_b.n_clusters];
                let of_a = &of_a.weights[r * of_a.n_clusters..][..of_a.n_clusters];
                for (&of_a, line) in of_a.iter().zip(joint.chunks_exact_mut(of_b.len())) {
                    let weight = weight * of_a;
                    line.iter_mut()
                        .zip(of_b)
                        .for_each(|(p, &of_b)| *p += weight * of_b);
                }
            }
            let mass: f64 = joint.iter().sum();
            if mass > 0.0 {
                information += mass * mutual_information(&joint, of_b.n_clusters);
            }
        }
        information
    }

    /// Weights of a block's top-level clusters together with each way in which the latent indices of some columns may be; those of other blocks say
    /// nothing.
    fn tops_given(&self, block: usize, given: &[usize]) -> Vec<Vec<f64>> {
        let mut ways = vec![self.blocks[block].weights.clone()];
        let inside = given.iter().map(|&j| &self.columns[j]);
        for third in inside.filter(|column| column.block == block) {
            let with = |(top, m): (&Vec<f64>, usize)| {
                let top = top.iter().enumerate();
                top.map(|(r, weight)| weight * third.share(r, m)).collect()
            };
            let ms = || 0..third.n_clusters;
            let all = ways.iter().flat_map(|top| ms().map(move |m| (top, m)));
            ways = all.map(with).collect();
        }
        ways
    }

    /// Mutual information between the columns of a group in nats, as a matrix in the order of parts, of laws with the covariances that
    /// the group's law has, clusters summed out: −ln(1 − R²) / 2, with R² the squared correlation of two numbers, or the share of
    /// a number's variance that is between levels; of two columns of levels their mutual information itself.
    pub fn information_within(&self, column: usize) -> Vec<f64> {
        let own = &self.columns[column];
        let tops = &self.blocks[own.block].weights;
        own.law.information(&self.cluster_weights(column, tops))
    }

    /// The same given the latent indices of other columns, averaged over these; given the group's own index when it is among them.
    pub fn information_within_given(&self, column: usize, given: &[usize]) -> Vec<f64> {
        let own = &self.columns[column];
        let tops = &self.blocks[own.block].weights;
        let ways: Vec<(f64, Vec<f64>)> = if given.contains(&column) {
            let one = |k: usize| (0..own.n_clusters).map(move |l| f64::from(u8::from(k == l)));
            let shares = self.cluster_weights(column, tops).into_iter().enumerate();
            shares.map(|(k, share)| (share, one(k).collect())).collect()
        } else if given.iter().all(|&j| self.columns[j].block != own.block) {
            return self.information_within(column);
        } else {
            let ways = self.tops_given(own.block, given).into_iter();
            let way = |top: Vec<f64>| (top.iter().sum(), self.cluster_weights(column, &top));
            ways.map(way).collect()
        };
        let mut mean = Vec::new();
        for (share, weights) in ways {
            let information = own.law.information(&weights);
            mean.resize(information.len(), 0.0);
            mean.iter_mut()
                .zip(information)
                .for_each(|(mean, x)| *mean += share * x);
        }
        mean
    }

    /// Probabilities of the clusters of a column by those of the top-level clusters.
    fn cluster_weights(&self, column: usize, tops: &[f64]) -> Vec<f64> {
        let own = &self.columns[column];
        let mut weights = vec![0.0; own.n_clusters];
        for (r, &top) in tops.iter().enumerate() {
            let weights = weights.iter_mut().enumerate();
            weights.for_each(|(k, weight)| *weight += top * own.share(r, k));
        }
        weights
    }

    /// Checks a draw that comes from a file.
    pub(crate) fn check(
        &self,
        config: &ItfConfig,
        n_rows: usize,
        n_columns: usize,
    ) -> Result<(), String> {
        let two_levels = config.structure.has_lower();
        if self.columns.len() != n_columns {
            return Err("number of columns of a draw".to_owned());
        }
        if !positive(self.column_concentration) {
            return Err("concentration of columns".to_owned());
        }
        for (b, block) in self.blocks.iter().enumerate() {
            let sizes = !block.weights.is_empty() && block.weights.len() % LANES == 0;
            if !sizes || !is_law(&block.weights) || !positive(block.concentration) {
                return Err(format!("block {b}: weights"));
            }
            if !fits(&block.labels, n_rows, block.weights.len()) {
                return Err(format!("block {b}: labels"));
            }
        }
        for (j, column) in self.columns.iter().enumerate() {
            let Some(block) = self.blocks.get(column.block) else {
                return Err(format!("column {j}: its block"));
            };
            let checked = column.check(block, n_rows, two_levels);
            checked.map_err(|what| format!("column {j}: {what}"))?;
        }
        Ok(())
    }
}

impl ColumnDraw {
    /// The share of cluster k in top-level cluster r.
    fn share(&self, r: usize, k: usize) -> f64 {
        match self.weights.is_empty() {
            true => f64::from(u8::from(r == k)),
            false => self.weights[r * self.n_clusters + k],
        }
    }

    fn check(&self, block: &BlockDraw, n_rows: usize, two_levels: bool) -> Result<(), String> {
        self.law.check()?;
        let n = self.n_clusters;
        if n == 0 || !n.is_multiple_of(LANES) || self.law.n_clusters() != n {
            return Err("number of clusters".to_owned());
        }
        let n_weights = match two_levels {
            true => n.checked_mul(block.weights.len()),
            false => Some(0),
        };
        let sizes =
            n_weights == Some(self.weights.len()) && (two_levels || n == block.weights.len());
        if !sizes || !self.weights.chunks_exact(n).all(is_law) {
            return Err("weights".to_owned());
        }
        let labels = fits(&self.labels, n_rows, n)
            && (!two_levels || self.labels.is_empty() == block.labels.is_empty());
        if !labels || !self.concentrations.iter().all(|&x| positive(x)) {
            return Err("labels or concentrations".to_owned());
        }
        Ok(())
    }
}

fn is_law(weights: &[f64]) -> bool {
    let total: f64 = weights.iter().sum();
    weights.iter().all(|w| (0.0..=1.0 + 1e-9).contains(w)) && (total - 1.0).abs() < 1e-6
}

/// Whether labels, if there are any, are of so many rows and below `n`.
fn fits(labels: &[u32], n_rows: usize, n: usize) -> bool {
    labels.is_empty() || (labels.len() == n_rows && collapsed::n_labels(labels) <= n)
}

/// The first `n` weights, the last of them with all that is left.
fn closed(sticks: Sticks, n: usize) -> Vec<f64> {
    let rest = sticks.rest(n);
    let mut weights = sticks.weights;
    weights.truncate(n);
    if let Some(last) = weights.last_mut() {
        *last += rest;
    }
    weights
}

/// λ.
fn top(labels: &[u32], alpha: f64, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let mut sticks = Sticks::default();
    sticks.draw(&collapsed::counts(labels), alpha, rng);
    let mut n = (sticks.len() + 1).next_multiple_of(LANES);
    sticks.extend_to(n, alpha, rng);
    while sticks.rest(n) > TAIL && n < MAX_STICKS {
        n += LANES;
        sticks.extend_to(n, alpha, rng);
    }
    closed(sticks, n)
}

/// ψ of one column for all top-level clusters.
fn lower(
    column: &crate::ColumnState,
    top_labels: &[u32],
    top: &[f64],
    rng: &mut Xoshiro256PlusPlus,
) -> (usize, Vec<f64>) {
    let n_labels = collapsed::n_labels(&column.labels);
    let counts = collapsed::cross_counts(top_labels, &column.labels, top.len(), n_labels);
    let mut n = (n_labels + 1).next_multiple_of(LANES);
    let mut all: Vec<Sticks> = counts
        .chunks_exact(n_labels)
        .enumerate()
        .map(|(r, counts)| {
            let mut sticks = Sticks::default();
            sticks.draw(counts, column.concentration(r), rng);
            sticks.extend_to(n, column.concentration(r), rng);
            sticks
        })
        .collect();
    let left = |all: &[Sticks], n: usize| -> f64 {
        all.iter()
            .zip(top)
            .map(|(sticks, weight)| weight * sticks.rest(n))
            .sum()
    };
    while left(&all, n) > TAIL && n < MAX_STICKS {
        n += LANES;
        for (r, sticks) in all.iter_mut().enumerate() {
            sticks.extend_to(n, column.concentration(r), rng);
        }
    }
    let weights = all.into_iter().flat_map(|sticks| closed(sticks, n));
    (n, weights.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_of_a_table() {
        assert_eq!(mutual_information(&[0.25; 4], 2), 0.0);
        let whole = mutual_information(&[0.5, 0.0, 0.0, 0.5], 2);
        assert!((whole - std::f64::consts::LN_2).abs() < 1e-15);
        // Not normalised: the same.
        let double = mutual_information(&[1.0, 0.0, 0.0, 1.0], 2);
        assert!((double - whole).abs() < 1e-15);
        // Clusters that no row will ever be in.
        let rare = mutual_information(&[0.5, 0.0, 1e-320, 0.0, 0.5, 0.0, 0.0, 0.0, 5e-324], 3);
        assert!((rare - whole).abs() < 1e-15);
    }
}
