//! Counts that vary more than by chance.

use std::collections::HashMap;
use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Beta;
use npb_priors::special::{ln_beta, ln_gamma, ln_rising_factorial};
use serde::{Deserialize, Serialize};

use super::poisson::check_counts;
use super::support::{CellError, ClusterTable, clusters_in, pick_ln, poisson, positive_gamma};
use crate::kernel::{Clusters, Kernel, RowLabels};
use crate::numeric::{exp_rows, ln_gammas};

/// p(x) = Γ(r + x) / (Γ(r) x!) p^r (1 − p)^x in cluster k, r = r_k uniform on 2^g / 8, g = 0..14, p = p_k ~ Beta(a, b).
///
/// Mean r (1 − p)/p, variance mean / p: from geometric-like tails at small r to nearly Poisson at large r. With r on a grid both
/// parameters of a cluster can be integrated out, so that nothing has to be augmented or sliced. a and b are learned, together,
/// uniform on the grid of a = 2 + 2^g / 2, g = 0..5, and b = 2^g / 2, g = 0..10: with a > 2 predictions have a mean and a variance, so that
/// means over draws settle.
///
/// ```
/// use npb_infer::stream;
/// use npb_itf::kernels::{NegativeBinomial, NegativeBinomialData};
/// use npb_itf::{Kernel, RowLabels};
///
/// let kernel = NegativeBinomial;
/// let data = NegativeBinomialData::new(&[Some(3), None, Some(0)])?;
/// let mut rng = stream(1, [0; 4]);
/// let mut params = kernel.initial(&mut rng);
/// (0..4).for_each(|_| kernel.push_prior(&mut params, &mut rng));
/// let mut ln = [0.0; 12];
/// kernel.ln_likelihoods(&data, &params, 0..3, 4, RowLabels::NONE, &mut ln);
/// assert!(ln[0] < 0.0 && ln[4] == 0.0); // row 1 is missing
/// # Ok::<(), npb_itf::kernels::CellError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NegativeBinomial;

/// Number of values that r can take.
const SIZES: usize = 14;
/// Numbers of values that a and b can take.
const BETAS: (usize, usize) = (5, 10);

fn size(g: usize) -> f64 {
    0.125 * 2f64.powi(g as i32)
}

/// a and b at a position of the grid of both.
fn betas((g, h): (usize, usize)) -> (f64, f64) {
    let half_power = |g: usize| 0.5 * 2f64.powi(g as i32);
    (2.0 + half_power(g), half_power(h))
}

/// Cells of a column of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct NegativeBinomialData {
    /// NaN where missing.
    values: Vec<f64>,
    /// Position in `ways`, 0 where missing.
    codes: Vec<u32>,
    /// ln Γ(r + x) / (Γ(r) x!) of each distinct count x, for every r; zeros at position 0.
    ways: Vec<[f64; SIZES]>,
}

/// Hyperparameters and parameters of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NegativeBinomialParams {
    /// Positions of a and b on their grids.
    prior: (usize, usize),
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
        let (a, b) = betas(params.prior);
        let (n, total) = (stats.n as f64, stats.total as f64);
        let none = ln_beta(a, b);
        if n * size(SIZES - 1) + total > 1e9 {
            let evidence = |g: usize| stats.ways[g] + ln_beta(a + n * size(g), b + total) - none;
            return std::array::from_fn(evidence);
        }
        // The same with all log gamma functions at once.
        let mut x = [b + total; 2 * SIZES + 4];
        for g in 0..SIZES {
            x[g] = a + n * size(g);
            x[SIZES + g] = x[g] + b + total;
        }
        let ln = ln_gammas(x);
        let common = ln[2 * SIZES] - none;
        std::array::from_fn(|g| stats.ways[g] + ln[g] - ln[SIZES + g] + common)
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
        let values: Vec<f64> = counts
            .iter()
            .map(|x| x.map_or(f64::NAN, |x| x as f64))
            .collect();
        check_counts(&values)?;
        let mut data = Self {
            codes: Vec::new(),
            ways: Vec::new(),
            values,
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
        self.ways.clear();
        self.ways.push([0.0; SIZES]);
        for &x in &self.values {
            if x.is_nan() {
                self.codes.push(0);
                continue;
            }
            let code = *seen.entry(x.to_bits()).or_insert(self.ways.len() as u32);
            if code as usize == self.ways.len() {
                let ln_factorial = ln_gamma(x + 1.0);
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

    fn n_rows(&self, data: &NegativeBinomialData) -> usize {
        data.values.len()
    }

    fn is_observed(&self, data: &NegativeBinomialData, row: usize) -> bool {
        data.codes[row] != 0
    }

    fn cell_key(&self, data: &NegativeBinomialData, row: usize) -> Option<u64> {
        Some(u64::from(data.codes[row]))
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> NegativeBinomialParams {
        let g = pick_ln(&mut [0.0; BETAS.0 * BETAS.1], rng);
        NegativeBinomialParams {
            prior: (g / BETAS.1, g % BETAS.1),
            sizes: Vec::new(),
            logs: ClusterTable::new(3),
        }
    }

    /// Draws a and b given the clusters with cells.
    fn move_hyperparameters(
        &self,
        params: &mut NegativeBinomialParams,
        pool: &[NegativeBinomialStats],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (mut n, mut ln_p, mut ln_q) = (0.0, 0.0, 0.0);
        for k in (0..params.sizes.len()).filter(|&k| pool[k].n > 0) {
            n += 1.0;
            ln_p += params.logs.get(LN_P, k);
            ln_q += params.logs.get(LN_Q, k);
        }
        let mut weights: [f64; BETAS.0 * BETAS.1] = std::array::from_fn(|g| {
            let (a, b) = betas((g / BETAS.1, g % BETAS.1));
            a * ln_p + b * ln_q - n * ln_beta(a, b)
        });
        let g = pick_ln(&mut weights, rng);
        params.prior = (g / BETAS.1, g % BETAS.1);
    }

    fn has_cells(&self, stats: &NegativeBinomialStats) -> bool {
        stats.n > 0
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
        stats.total += data.values[row] as u128;
        let ways = &data.ways[data.codes[row] as usize];
        stats.ways.iter_mut().zip(ways).for_each(|(s, w)| *s += w);
    }

    fn remove(&self, stats: &mut NegativeBinomialStats, data: &NegativeBinomialData, row: usize) {
        stats.n -= 1;
        stats.total -= data.values[row] as u128;
        let ways = &data.ways[data.codes[row] as usize];
        stats.ways.iter_mut().zip(ways).for_each(|(s, w)| *s -= w);
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
        let (a, b) = betas(params.prior);
        let law = Beta::new(a + stats.n as f64 * size(g), b + stats.total as f64);
        let (ln_p, ln_q) = law.map_or((-1.0, -1.0), |law| law.sample_ln(rng));
        // Finite also where p rounds to 0 or 1.
        let (ln_p, ln_q) = (ln_p.max(-500.0), ln_q.max(-500.0));
        params.sizes[cluster] = g as u32;
        params.logs.set(R_LN_P, cluster, size(g) * ln_p);
        params.logs.set(LN_P, cluster, ln_p);
        params.logs.set(LN_Q, cluster, ln_q);
    }

    fn expected(
        &self,
        params: &NegativeBinomialParams,
        cluster: usize,
        data: &NegativeBinomialData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        let value = data.value(row).filter(|_| !ignore_observed);
        out.clear();
        out.push(value.unwrap_or_else(|| params.mean(cluster)));
    }

    fn complete(
        &self,
        params: &NegativeBinomialParams,
        cluster: usize,
        data: &NegativeBinomialData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    ) {
        let value = data.value(row).filter(|_| !ignore_observed);
        out.clear();
        out.push(value.unwrap_or_else(|| self.sample(params, cluster, rng)));
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
        if params.prior.0 >= BETAS.0 || params.prior.1 >= BETAS.1 {
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
