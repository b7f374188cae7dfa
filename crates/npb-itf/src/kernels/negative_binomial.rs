//! Counts that vary more than by chance.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Beta;
use npb_priors::special::{ln_beta, ln_gamma, ln_rising_factorial};
use serde::{Deserialize, Serialize};

use super::support::{
    CellError, ClusterTable, Hierarchical, MAX_COUNT, check_values, clusters_in, one_part, pick_ln,
    poisson, positive_gamma,
};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::{cross_counts, exp_rows, ln_gammas};

/// p(x) = Γ(r + x) / (Γ(r) x!) p^r (1 − p)^x in cluster k, r = r_k uniform on 2^g / 8, g = 0..14, p = p_k ~ Beta(2 + r t, s) given r.
///
/// Mean r (1 − p)/p, variance mean / p: from geometric-like tails at small r to nearly Poisson at large r, where the mean is about
/// Gamma(s, t). With r on a grid both parameters of a cluster can be integrated out, so that nothing has to be augmented or sliced. s and t
/// are learned, together, uniform on the grid of s = 2^h / 2, h = 0..8, and t = 4^(1 − j), j = 0..8. That p depends on r keeps the means
/// of clusters of all sizes on the scale of the counts, also of clusters that no row is in; and with 2 + r t > 2 predictions have a mean and a
/// variance, so that means over draws settle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NegativeBinomial;

/// Number of values that r can take.
const SIZES: usize = 14;
/// Numbers of values that s and t can take.
const PRIORS: (usize, usize) = (8, 8);

fn size(g: usize) -> f64 {
    0.125 * 2f64.powi(g as i32)
}

/// Positions of s and t on their grids.
type Prior = (usize, usize);

/// s and t.
fn shape_and_rate((h, j): Prior) -> (f64, f64) {
    (0.5 * 2f64.powi(h as i32), 4f64.powi(1 - j as i32))
}

/// The parameters of the law of p given r.
fn betas(prior: Prior, g: usize) -> (f64, f64) {
    let (s, t) = shape_and_rate(prior);
    (2.0 + t * size(g), s)
}

/// ln B of these for every r, at `h * PRIORS.1 + j`.
static LN_BETAS: LazyLock<Vec<[f64; SIZES]>> = LazyLock::new(|| {
    let all = (0..PRIORS.0).flat_map(|h| (0..PRIORS.1).map(move |j| (h, j)));
    let ln_betas = |prior| {
        std::array::from_fn(|g| {
            let (a, b) = betas(prior, g);
            ln_beta(a, b)
        })
    };
    all.map(ln_betas).collect()
});

fn ln_betas((h, j): Prior) -> &'static [f64; SIZES] {
    &LN_BETAS[h * PRIORS.1 + j]
}

/// Cells of a column of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct NegativeBinomialData {
    /// NaN where missing.
    values: Vec<f64>,
    /// Position in `ways`, 0 where missing.
    codes: Vec<u32>,
    /// Each distinct count x; 0 at position 0.
    distinct: Vec<f64>,
    /// ln Γ(r + x) / (Γ(r) x!) of these, for every r; zeros at position 0.
    ways: Vec<[f64; SIZES]>,
}

/// Hyperparameters and parameters of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NegativeBinomialParams {
    prior: Prior,
    /// Position of r of every cluster.
    sizes: Vec<u32>,
    /// Rows `R_LN_P`, `LN_P` and `LN_Q`.
    logs: ClusterTable,
}

/// How many counts of a cluster, their sum, and the sums of `ways`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NegativeBinomialStats {
    n: u64,
    total: u128,
    ways: [f64; SIZES],
}

/// r ln p, ln p, ln(1 − p).
const R_LN_P: usize = 0;
const LN_P: usize = 1;
const LN_Q: usize = 2;

impl NegativeBinomial {
    /// ln p(counts, r) for every r, p integrated out, without the uniform prior of r.
    fn ln_evidences(
        &self,
        params: &NegativeBinomialParams,
        stats: &NegativeBinomialStats,
    ) -> [f64; SIZES] {
        let (n, total) = (stats.n as f64, stats.total as f64);
        let none = ln_betas(params.prior);
        if n * size(SIZES - 1) + total > 1e9 {
            return std::array::from_fn(|g| {
                let (a, b) = betas(params.prior, g);
                stats.ways[g] + ln_beta(a + n * size(g), b + total) - none[g]
            });
        }
        // The same with all log gamma functions at once.
        let (b, _) = shape_and_rate(params.prior);
        let mut x = [b + total; 2 * SIZES + 4];
        for g in 0..SIZES {
            let (a, _) = betas(params.prior, g);
            x[g] = a + n * size(g);
            x[SIZES + g] = x[g] + b + total;
        }
        let ln = ln_gammas(x);
        std::array::from_fn(|g| stats.ways[g] + ln[g] - ln[SIZES + g] + ln[2 * SIZES] - none[g])
    }

    fn sample(
        &self,
        params: &NegativeBinomialParams,
        cluster: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) -> f64 {
        let r = params.size(cluster);
        let ln_odds = params.logs.get(LN_P, cluster) - params.logs.get(LN_Q, cluster);
        poisson(
            positive_gamma(r, 1.0, rng) * (-ln_odds).exp().min(1e100),
            rng,
        )
    }
}

impl NegativeBinomialData {
    /// `counts`: one per row, up to 2^53, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Value`] naming the row.
    pub fn new(counts: &[Option<u64>]) -> Result<Self, CellError> {
        let values: Vec<Option<f64>> = counts.iter().map(|x| x.map(|x| x as f64)).collect();
        let needed = "a count (a whole number from 0 to 2^53)";
        check_values(&values, |x| x <= MAX_COUNT, needed)?;
        let mut data = Self {
            codes: Vec::new(),
            distinct: Vec::new(),
            ways: Vec::new(),
            values: values.into_iter().map(|x| x.unwrap_or(f64::NAN)).collect(),
        };
        data.refresh();
        Ok(data)
    }

    /// The count of a row, `None` where it is missing.
    pub fn value(&self, row: usize) -> Option<f64> {
        Some(self.values[row]).filter(|x| !x.is_nan())
    }

    fn refresh(&mut self) {
        let mut seen: HashMap<u64, u32> = HashMap::new();
        self.codes.clear();
        (self.distinct, self.ways) = (vec![0.0], vec![[0.0; SIZES]]);
        for &x in &self.values {
            if x.is_nan() {
                self.codes.push(0);
                continue;
            }
            let code = *seen.entry(x.to_bits()).or_insert(self.ways.len() as u32);
            if code as usize == self.ways.len() {
                let ln_factorial = ln_gamma(x + 1.0);
                self.distinct.push(x);
                self.ways.push(std::array::from_fn(|g| {
                    ln_rising_factorial(size(g), x) - ln_factorial
                }));
            }
            self.codes.push(code);
        }
    }
}

impl NegativeBinomialParams {
    /// r of a cluster.
    pub fn size(&self, cluster: usize) -> f64 {
        size(self.sizes[cluster] as usize)
    }

    /// Mean of a cluster, at most 1e100.
    pub fn mean(&self, cluster: usize) -> f64 {
        let ln_odds = self.logs.get(LN_Q, cluster) - self.logs.get(LN_P, cluster);
        (self.size(cluster) * ln_odds.exp()).min(1e100)
    }
}

clusters_in!(NegativeBinomialParams: logs, sizes);

impl Kernel for NegativeBinomial {
    type Data = NegativeBinomialData;
    type Params = NegativeBinomialParams;
    type Stats = NegativeBinomialStats;

    const COUPLED: bool = false;

    one_part!(
        |_kernel, params, cluster, out| out.push(params.mean(cluster)),
        |kernel, params, cluster, rng| kernel.sample(params, cluster, rng)
    );

    fn n_rows(&self, data: &NegativeBinomialData) -> usize {
        data.values.len()
    }

    fn is_observed(&self, data: &NegativeBinomialData, row: usize) -> bool {
        data.codes[row] != 0
    }

    fn part(&self, data: &NegativeBinomialData, row: usize, _: usize) -> CellPart {
        data.value(row).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn cell_key(&self, data: &NegativeBinomialData, row: usize) -> Option<u64> {
        Some(u64::from(data.codes[row]))
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> NegativeBinomialParams {
        let place = pick_ln(&mut [0.0; PRIORS.0 * PRIORS.1], rng);
        NegativeBinomialParams {
            prior: (place / PRIORS.1, place % PRIORS.1),
            sizes: Vec::new(),
            logs: ClusterTable::new(3),
        }
    }

    fn update(
        &self,
        data: &NegativeBinomialData,
        labels: &[u32],
        params: &mut NegativeBinomialParams,
        pool: &mut Vec<NegativeBinomialStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        self.redraw(params, pool, rng);
    }

    /// By how many cells of each cluster have each count, where counts repeat.
    fn tally(
        &self,
        data: &NegativeBinomialData,
        labels: &[u32],
        params: &NegativeBinomialParams,
        pool: &mut Vec<NegativeBinomialStats>,
    ) {
        let (n, n_codes) = (params.n_clusters(), data.ways.len());
        pool.clear();
        pool.resize(n, self.no_stats());
        if n * n_codes > labels.len() {
            let observed = labels
                .iter()
                .enumerate()
                .filter(|&(row, _)| data.codes[row] != 0);
            observed.for_each(|(row, &label)| self.add(&mut pool[label as usize], data, row));
            return;
        }
        let counts = cross_counts(labels, &data.codes, n, n_codes);
        for (stats, counts) in pool.iter_mut().zip(counts.chunks_exact(n_codes)) {
            for (code, &cells) in counts.iter().enumerate().skip(1).filter(|(_, n)| **n > 0) {
                stats.n += cells as u64;
                stats.total += cells as u128 * u128::from(data.distinct[code] as u64);
                let ways = stats.ways.iter_mut().zip(&data.ways[code]);
                ways.for_each(|(sum, way)| *sum += cells as f64 * way);
            }
        }
    }

    fn ln_likelihoods(
        &self,
        data: &NegativeBinomialData,
        params: &NegativeBinomialParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        let sizes = &params.sizes[..n_clusters];
        let r_ln_p = params.logs.row(R_LN_P, n_clusters);
        let ln_q = params.logs.row(LN_Q, n_clusters);
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            let (x, ways) = (data.values[row], &data.ways[data.codes[row] as usize]);
            if x.is_nan() {
                out.fill(0.0);
                continue;
            }
            for k in 0..n_clusters {
                out[k] = ways[sizes[k] as usize] + r_ln_p[k] + x * ln_q[k];
            }
        }
    }

    fn is_collapsed(&self, _: &NegativeBinomialData) -> bool {
        true
    }

    fn no_stats(&self) -> NegativeBinomialStats {
        NegativeBinomialStats::default()
    }

    fn add(&self, stats: &mut NegativeBinomialStats, data: &NegativeBinomialData, row: usize) {
        stats.n += 1;
        stats.total += u128::from(data.values[row] as u64);
        let ways = &data.ways[data.codes[row] as usize];
        stats.ways.iter_mut().zip(ways).for_each(|(s, w)| *s += w);
    }

    fn merge(&self, stats: &mut NegativeBinomialStats, other: &NegativeBinomialStats) {
        stats.n += other.n;
        stats.total += other.total;
        stats
            .ways
            .iter_mut()
            .zip(&other.ways)
            .for_each(|(s, w)| *s += w);
    }

    fn ln_evidence(&self, params: &NegativeBinomialParams, stats: &NegativeBinomialStats) -> f64 {
        let mut evidences = self.ln_evidences(params, stats);
        let largest = exp_rows(&mut evidences, SIZES);
        largest + (evidences.iter().sum::<f64>() / SIZES as f64).ln()
    }

    fn draw(
        &self,
        params: &mut NegativeBinomialParams,
        cluster: usize,
        stats: &NegativeBinomialStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let g = pick_ln(&mut self.ln_evidences(params, stats), rng);
        let (a, b) = betas(params.prior, g);
        let law = Beta::new(a + stats.n as f64 * size(g), b + stats.total as f64);
        let (ln_p, ln_q) = law.map_or((-1.0, -1.0), |law| law.sample_ln(rng));
        // Finite also where p rounds to 0 or 1.
        let (ln_p, ln_q) = (ln_p.max(-500.0), ln_q.max(-500.0));
        params.sizes[cluster] = g as u32;
        params.logs.set(R_LN_P, cluster, size(g) * ln_p);
        params.logs.set(LN_P, cluster, ln_p);
        params.logs.set(LN_Q, cluster, ln_q);
    }

    fn simulate(
        &self,
        params: &NegativeBinomialParams,
        labels: &[u32],
        data: &mut NegativeBinomialData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (row, &label) in labels.iter().enumerate() {
            if self.is_observed(data, row) {
                data.values[row] = self.sample(params, label as usize, rng);
            }
        }
        data.refresh();
    }

    fn check(&self, params: &NegativeBinomialParams) -> Result<(), String> {
        if params.prior.0 >= PRIORS.0 || params.prior.1 >= PRIORS.1 {
            return Err("negative binomial hyperparameters".to_owned());
        }
        let sizes = params.sizes.len() == params.logs.n_clusters();
        if !sizes || params.sizes.iter().any(|&g| g as usize >= SIZES) {
            return Err("negative binomial sizes".to_owned());
        }
        let range = |_, x: f64| x.is_finite() && x <= 0.0;
        params
            .logs
            .check("negative binomial probabilities", 3, range)
    }
}

impl Hierarchical for NegativeBinomial {
    /// Draws s and t given the clusters with cells.
    fn move_hyperparameters(
        &self,
        params: &mut NegativeBinomialParams,
        pool: &[NegativeBinomialStats],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        // Clusters of each size, and sums of ln p, r ln p and ln(1 - p) over all of them.
        let mut n = [0.0; SIZES];
        let (mut ln_p, mut r_ln_p, mut ln_q) = (0.0, 0.0, 0.0);
        for k in (0..params.sizes.len()).filter(|&k| pool[k].n > 0) {
            n[params.sizes[k] as usize] += 1.0;
            ln_p += params.logs.get(LN_P, k);
            r_ln_p += params.logs.get(R_LN_P, k);
            ln_q += params.logs.get(LN_Q, k);
        }
        let mut weights: [f64; PRIORS.0 * PRIORS.1] = std::array::from_fn(|place| {
            let prior = (place / PRIORS.1, place % PRIORS.1);
            let (s, t) = shape_and_rate(prior);
            let constants = n.iter().zip(ln_betas(prior)).map(|(n, ln)| n * ln);
            2.0 * ln_p + t * r_ln_p + s * ln_q - constants.sum::<f64>()
        });
        let place = pick_ln(&mut weights, rng);
        params.prior = (place / PRIORS.1, place % PRIORS.1);
    }

    fn has_cells(&self, stats: &NegativeBinomialStats) -> bool {
        stats.n > 0
    }
}
