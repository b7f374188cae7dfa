//! Several binary measurements that belong together.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Beta;
use npb_priors::special::ln_beta;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::support::{CellError, ClusterTable, clusters_in, pick_ln, push_drawn, setting};
use crate::kernel::{Clusters, Kernel, Part, RowLabels};

/// Parts x_j in {0, 1}, independent in a cluster: x_j = 1 with probability p_jk ~ Beta(s m_j, s (1 − m_j)).
///
/// The strength s, shared by parts and clusters, is uniform on 2^g / 2, g = 0..6, and every m_j on (1, ..., 19) / 20: both are learned.
/// Missing parts drop out of all sums, so that incomplete cells are as exact as complete ones.
///
/// ```
/// use npb_itf::npb_infer::stream;
/// use npb_itf::kernels::{Bernoulli, BernoulliData};
/// use npb_itf::{Kernel, RowLabels};
///
/// let kernel = Bernoulli::new(2)?;
/// let data = BernoulliData::new(2, &[vec![Some(true), None], vec![None, None]])?;
/// let mut rng = stream(1, [0; 4]);
/// let mut params = kernel.initial(&mut rng);
/// (0..4).for_each(|_| kernel.push_prior(&mut params, &mut rng));
/// let mut ln = [0.0; 8];
/// kernel.ln_likelihoods(&data, &params, 0..2, 4, RowLabels::NONE, &mut ln);
/// assert_eq!(ln[0], params.probability(0, 0).ln());
/// assert_eq!(ln[4..], [0.0; 4]); // row 1 is missing
/// # Ok::<(), npb_itf::kernels::CellError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bernoulli {
    n_parts: usize,
}

/// Cells of binary vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct BernoulliData {
    n_parts: usize,
    /// 0, 1 or `MISSING` for every row and part.
    values: Vec<u8>,
}

/// Hyperparameters and probabilities of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BernoulliParams {
    /// Position of s on its grid.
    strength: usize,
    /// Position of every m_j on its grid.
    means: Vec<usize>,
    /// Row 2 j + x: ln p(x_j = x).
    ln_p: ClusterTable,
}

const MISSING: u8 = 2;
const STRENGTHS: usize = 6;
const MEANS: usize = 19;

fn strength(g: usize) -> f64 {
    0.5 * 2f64.powi(g as i32)
}

fn mean(g: usize) -> f64 {
    (g + 1) as f64 / (MEANS + 1) as f64
}

/// a and b of the prior.
fn shapes(s: usize, m: usize) -> (f64, f64) {
    (strength(s) * mean(m), strength(s) * (1.0 - mean(m)))
}

impl Bernoulli {
    /// `n_parts`: at least 1.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(n_parts: usize) -> Result<Self, CellError> {
        setting("n_parts", n_parts as f64, n_parts >= 1, "at least 1")?;
        Ok(Self { n_parts })
    }

    fn ln_evidence_of_part(&self, (a, b): (f64, f64), [zeros, ones]: [u64; 2]) -> f64 {
        ln_beta(a + ones as f64, b + zeros as f64) - ln_beta(a, b)
    }

    /// Draws every m_j, then s, given the counts of all clusters, probabilities integrated out.
    fn move_prior(
        &self,
        params: &mut BernoulliParams,
        pool: &[Vec<[u64; 2]>],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let of_part = |j: usize, s: usize, m: usize| -> f64 {
            let tallies = pool
                .iter()
                .map(|stats| stats[j])
                .filter(|&[n, o]| n + o > 0);
            tallies
                .map(|tally| self.ln_evidence_of_part(shapes(s, m), tally))
                .sum()
        };
        for j in 0..self.n_parts {
            let mut weights: [f64; MEANS] = std::array::from_fn(|m| of_part(j, params.strength, m));
            params.means[j] = pick_ln(&mut weights, rng);
        }
        let whole = |s: usize| {
            (0..self.n_parts)
                .map(|j| of_part(j, s, params.means[j]))
                .sum()
        };
        let mut weights: [f64; STRENGTHS] = std::array::from_fn(whole);
        params.strength = pick_ln(&mut weights, rng);
    }
}

impl BernoulliData {
    /// `rows`: `n_parts` values each, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Parts`] naming the row.
    pub fn new(n_parts: usize, rows: &[Vec<Option<bool>>]) -> Result<Self, CellError> {
        if let Some(row) = rows.iter().position(|r| r.len() != n_parts) {
            return Err(CellError::Parts {
                row,
                found: rows[row].len(),
                expected: n_parts,
            });
        }
        let values = rows.iter().flatten().map(|x| x.map_or(MISSING, u8::from));
        Ok(Self {
            n_parts,
            values: values.collect(),
        })
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.values[row * self.n_parts..][..self.n_parts]
    }
}

impl BernoulliParams {
    /// Probability that a part is 1 in a cluster.
    pub fn probability(&self, part: usize, cluster: usize) -> f64 {
        self.ln_p.get(2 * part + 1, cluster).exp()
    }
}

clusters_in!(BernoulliParams: ln_p);

impl Kernel for Bernoulli {
    type Data = BernoulliData;
    type Params = BernoulliParams;
    /// Numbers of zeros and ones of every part.
    type Stats = Vec<[u64; 2]>;

    const COUPLED: bool = false;

    fn n_rows(&self, data: &BernoulliData) -> usize {
        data.values.len() / data.n_parts
    }

    fn is_observed(&self, data: &BernoulliData, row: usize) -> bool {
        data.row(row).iter().any(|&x| x != MISSING)
    }

    fn n_parts(&self, _: &BernoulliData, _: usize) -> usize {
        self.n_parts
    }

    fn part(&self, data: &BernoulliData, row: usize, part: usize) -> Part {
        let value = data.row(row)[part];
        (value != MISSING).then_some(f64::from(value)).into()
    }

    fn cell_key(&self, _: &BernoulliData, _: usize) -> Option<u64> {
        None
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        Some(2)
    }

    fn is_geometric(&self, _: usize) -> bool {
        false
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> BernoulliParams {
        BernoulliParams {
            strength: rng.random_range(0..STRENGTHS),
            means: (0..self.n_parts)
                .map(|_| rng.random_range(0..MEANS))
                .collect(),
            ln_p: ClusterTable::new(2 * self.n_parts),
        }
    }

    fn push_prior(&self, params: &mut BernoulliParams, rng: &mut Xoshiro256PlusPlus) {
        push_drawn(self, params, rng);
    }

    fn update(
        &self,
        data: &BernoulliData,
        labels: &[u32],
        params: &mut BernoulliParams,
        pool: &mut Vec<Vec<[u64; 2]>>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        self.move_prior(params, pool, rng);
        for cluster in 0..params.ln_p.n_clusters() {
            self.draw(params, cluster, &pool[cluster], rng);
        }
    }

    fn ln_likelihoods(
        &self,
        data: &BernoulliData,
        params: &BernoulliParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            out.fill(0.0);
            for (j, &x) in data.row(row).iter().enumerate() {
                if x != MISSING {
                    let terms = params.ln_p.row(2 * j + usize::from(x), n_clusters);
                    out.iter_mut().zip(terms).for_each(|(o, t)| *o += t);
                }
            }
        }
    }

    fn is_collapsed(&self, _: &BernoulliData) -> bool {
        true
    }

    fn no_stats(&self) -> Vec<[u64; 2]> {
        vec![[0; 2]; self.n_parts]
    }

    fn clear(&self, stats: &mut Vec<[u64; 2]>) {
        stats.fill([0; 2]);
    }

    fn add(&self, stats: &mut Vec<[u64; 2]>, data: &BernoulliData, row: usize) {
        for (tally, &x) in stats.iter_mut().zip(data.row(row)) {
            if x != MISSING {
                tally[usize::from(x)] += 1;
            }
        }
    }

    fn remove(&self, stats: &mut Vec<[u64; 2]>, data: &BernoulliData, row: usize) {
        for (tally, &x) in stats.iter_mut().zip(data.row(row)) {
            if x != MISSING {
                tally[usize::from(x)] -= 1;
            }
        }
    }

    fn merge(&self, stats: &mut Vec<[u64; 2]>, other: &Vec<[u64; 2]>) {
        for (tally, more) in stats.iter_mut().zip(other) {
            tally[0] += more[0];
            tally[1] += more[1];
        }
    }

    fn ln_evidence(&self, params: &BernoulliParams, stats: &Vec<[u64; 2]>) -> f64 {
        let parts = stats.iter().zip(&params.means);
        parts
            .map(|(&tally, &m)| self.ln_evidence_of_part(shapes(params.strength, m), tally))
            .sum()
    }

    fn ln_predictive(
        &self,
        params: &BernoulliParams,
        stats: &Vec<[u64; 2]>,
        data: &BernoulliData,
        row: usize,
    ) -> f64 {
        let cells = data.row(row).iter().zip(stats).zip(&params.means);
        let terms = cells
            .filter(|((x, _), _)| **x != MISSING)
            .map(|((&x, tally), &m)| {
                let (a, b) = shapes(params.strength, m);
                let (zeros, ones) = (b + tally[0] as f64, a + tally[1] as f64);
                let this = if x == 1 { ones } else { zeros };
                (this / (zeros + ones)).ln()
            });
        terms.sum()
    }

    fn draw(
        &self,
        params: &mut BernoulliParams,
        cluster: usize,
        stats: &Vec<[u64; 2]>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (j, &[zeros, ones]) in stats.iter().enumerate() {
            let (a, b) = shapes(params.strength, params.means[j]);
            let law = Beta::new(a + ones as f64, b + zeros as f64);
            let (ln_one, ln_zero) = law.map_or((-0.7, -0.7), |law| law.sample_ln(rng));
            params.ln_p.set(2 * j, cluster, ln_zero);
            params.ln_p.set(2 * j + 1, cluster, ln_one);
        }
    }

    fn expected(
        &self,
        params: &BernoulliParams,
        cluster: usize,
        data: &BernoulliData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        for (j, &x) in data.row(row).iter().enumerate() {
            let p = match x {
                x if x == MISSING || ignore_observed => params.probability(j, cluster),
                x => f64::from(x),
            };
            out.extend([1.0 - p, p]);
        }
    }

    fn complete(
        &self,
        params: &BernoulliParams,
        cluster: usize,
        data: &BernoulliData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        for (j, &x) in data.row(row).iter().enumerate() {
            out.push(match x {
                x if x == MISSING || ignore_observed => params.sample(j, cluster, rng),
                x => f64::from(x),
            });
        }
    }

    fn simulate(
        &self,
        params: &BernoulliParams,
        labels: &[u32],
        data: &mut BernoulliData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (cells, &label) in data.values.chunks_exact_mut(data.n_parts).zip(labels) {
            for (j, x) in cells.iter_mut().enumerate().filter(|(_, x)| **x != MISSING) {
                *x = params.sample(j, label as usize, rng) as u8;
            }
        }
    }

    fn check(&self, params: &BernoulliParams) -> Result<(), String> {
        Self::new(self.n_parts).map_err(|e| format!("binary vector: {e}"))?;
        let means = params.means.len() == self.n_parts && params.means.iter().all(|&m| m < MEANS);
        if !means || params.strength >= STRENGTHS {
            return Err("binary vector: hyperparameters".to_owned());
        }
        let rows = self.n_parts.saturating_mul(2);
        params
            .ln_p
            .check("binary vector: probabilities", rows, |_, l| {
                l.is_finite() && l <= 0.0
            })?;
        for j in 0..self.n_parts {
            for k in 0..params.ln_p.n_clusters() {
                let total = params.ln_p.get(2 * j, k).exp() + params.ln_p.get(2 * j + 1, k).exp();
                if (total - 1.0).abs() > 1e-9 {
                    return Err(format!("binary vector: probabilities that sum to {total}"));
                }
            }
        }
        Ok(())
    }
}

impl BernoulliParams {
    /// 0 or 1.
    fn sample(&self, part: usize, cluster: usize, rng: &mut Xoshiro256PlusPlus) -> f64 {
        f64::from(u8::from(
            rng.random::<f64>() < self.probability(part, cluster),
        ))
    }
}
