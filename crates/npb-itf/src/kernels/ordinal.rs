//! Ordered levels.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::special::{log_sum_exp, normal_cdf, normal_quantile};
use serde::{Deserialize, Serialize};

use super::CategoricalData;
use super::support::{
    CellError, ClusterTable, clusters_in, draw_all, one_part, pick, pick_ln, setting,
};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::exp_rows;

/// Levels 0..L as intervals of a hidden number: level l when c_l < z ≤ c_(l+1), z ~ N(μ_k, σ_k²) in cluster k.
///
/// The cut-points c are fixed (quantiles of a standard normal, as a rule, so that N(0, 1) gives the shares of the whole column).
/// μ is a multiple of 1/5 between −4 and 4 with weights of N(0, 1.5²), σ is 2^(g/2) / 4, g = 0..7, uniformly: a cluster is
/// one of 287 laws of levels, one-peaked and between sharp and flat, so that its parameters can be summed out. One
/// observation in a thousand is of a level drawn uniformly, so that no level is impossible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Ordinal {
    /// Inner cut-points, one less than levels, ascending.
    cuts: Vec<f64>,
    /// ln p of every level under every law: `laws[level * LAWS + law]`.
    laws: Vec<f64>,
    /// Prior ln-weights of the laws.
    ln_weights: Vec<f64>,
}

/// What is stored of an [`Ordinal`]: the rest follows.
#[derive(Serialize, Deserialize)]
struct Wire {
    cuts: Vec<f64>,
}

/// The laws of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrdinalParams {
    /// Which law each cluster follows.
    chosen: Vec<u32>,
    /// `ln_p` of every level; one more row of zeros, for missing cells.
    ln_p: ClusterTable,
}

const LOCATIONS: usize = 41;
const SCALES: usize = 7;
const LAWS: usize = LOCATIONS * SCALES;
/// Share of observations whose level is drawn uniformly.
const STRAY: f64 = 1e-3;
/// With more levels a column is a number.
const MAX_LEVELS: usize = 1000;

fn location(law: usize) -> f64 {
    (law % LOCATIONS) as f64 * 0.2 - 4.0
}

fn scale(law: usize) -> f64 {
    0.25 * 2f64.powf((law / LOCATIONS) as f64 / 2.0)
}

impl Ordinal {
    /// `cuts`: one less than there are levels, ascending and finite; from 0 to 999.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(cuts: Vec<f64>) -> Result<Self, CellError> {
        let n_levels = cuts.len() + 1;
        setting(
            "levels",
            n_levels as f64,
            n_levels <= MAX_LEVELS,
            "at most 1000",
        )?;
        let ascending = cuts.windows(2).all(|c| c[0] < c[1]);
        let fits = ascending && cuts.iter().all(|c| c.is_finite());
        setting(
            "cuts (number of)",
            cuts.len() as f64,
            fits,
            "finite and ascending",
        )?;
        let mut laws = vec![0.0; LAWS * n_levels];
        let mut ln_weights = Vec::with_capacity(LAWS);
        for law in 0..LAWS {
            let standard = |c: f64| (c - location(law)) / scale(law);
            for level in 0..n_levels {
                let inner = level.checked_sub(1).map(|l| standard(cuts[l]));
                let below = inner.unwrap_or(f64::NEG_INFINITY);
                let above = cuts.get(level).map_or(f64::INFINITY, |&c| standard(c));
                let p = interval(below, above);
                laws[level * LAWS + law] = ((1.0 - STRAY) * p + STRAY / n_levels as f64).ln();
            }
            ln_weights.push(-0.5 * (location(law) / 1.5).powi(2));
        }
        let total = log_sum_exp(&ln_weights);
        ln_weights.iter_mut().for_each(|w| *w -= total);
        Ok(Self {
            cuts,
            laws,
            ln_weights,
        })
    }

    /// Cut-points at the quantiles of the observed shares, each level counted once more than it occurs.
    ///
    /// # Errors
    /// As [`Ordinal::new`].
    pub fn for_data(data: &CategoricalData) -> Result<Self, CellError> {
        let n_levels = data.n_levels();
        let mut counts = vec![1.0; n_levels + 1];
        for &code in data.codes() {
            counts[code as usize] += 1.0;
        }
        counts.truncate(n_levels);
        let total: f64 = counts.iter().sum();
        let mut below = 0.0;
        let inner = &counts[..n_levels - 1];
        let cuts = inner.iter().map(|n| {
            below += n;
            normal_quantile(below / total)
        });
        Self::new(cuts.collect())
    }

    /// Number of levels.
    pub(super) fn size(&self) -> usize {
        self.cuts.len() + 1
    }

    fn of_level(&self, level: usize) -> &[f64] {
        &self.laws[level * LAWS..][..LAWS]
    }

    /// ln p(counts, law) for every law.
    fn ln_evidences(&self, stats: &[u64]) -> [f64; LAWS] {
        let mut ln: [f64; LAWS] = std::array::from_fn(|law| self.ln_weights[law]);
        for (level, &n) in stats.iter().enumerate().filter(|(_, n)| **n > 0) {
            let laws = ln.iter_mut().zip(self.of_level(level));
            laws.for_each(|(ln, l)| *ln += n as f64 * l);
        }
        ln
    }
}

/// ln of the sum of the exponentials.
fn ln_total(mut ln_weights: [f64; LAWS]) -> f64 {
    let largest = exp_rows(&mut ln_weights, LAWS);
    largest + ln_weights.iter().sum::<f64>().ln()
}

/// p(a < z <= b) of a standard normal, without cancellation in the upper tail.
fn interval(a: f64, b: f64) -> f64 {
    let (a, b) = if a > 0.0 { (-b, -a) } else { (a, b) };
    (normal_cdf(b) - normal_cdf(a)).max(0.0)
}

impl TryFrom<Wire> for Ordinal {
    type Error = CellError;

    fn try_from(wire: Wire) -> Result<Self, CellError> {
        Self::new(wire.cuts)
    }
}

impl From<Ordinal> for Wire {
    fn from(kernel: Ordinal) -> Self {
        Wire { cuts: kernel.cuts }
    }
}

impl OrdinalParams {
    /// Probability of a level in a cluster.
    pub fn probability(&self, level: usize, cluster: usize) -> f64 {
        self.ln_p.get(level, cluster).exp()
    }

    fn sample(&self, n_levels: usize, cluster: usize, rng: &mut Xoshiro256PlusPlus) -> u32 {
        let p: Vec<f64> = (0..n_levels)
            .map(|l| self.probability(l, cluster))
            .collect();
        pick(&p, rng) as u32
    }
}

clusters_in!(OrdinalParams: ln_p, chosen);

impl Kernel for Ordinal {
    type Data = CategoricalData;
    type Params = OrdinalParams;
    /// Number of cells of each level.
    type Stats = Vec<u64>;

    const COUPLED: bool = false;

    one_part!(
        |kernel, params, cluster, out| out
            .extend((0..kernel.size()).map(|level| params.probability(level, cluster))),
        |kernel, params, cluster, rng| f64::from(params.sample(kernel.size(), cluster, rng))
    );

    fn n_rows(&self, data: &CategoricalData) -> usize {
        data.codes().len()
    }

    fn is_observed(&self, data: &CategoricalData, row: usize) -> bool {
        data.code(row).is_some()
    }

    fn part(&self, data: &CategoricalData, row: usize, _: usize) -> CellPart {
        data.code(row).map(f64::from).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        Some(self.size())
    }

    fn cell_key(&self, data: &CategoricalData, row: usize) -> Option<u64> {
        Some(u64::from(data.codes()[row]))
    }

    fn initial(&self, _: &mut Xoshiro256PlusPlus) -> OrdinalParams {
        OrdinalParams {
            chosen: Vec::new(),
            ln_p: ClusterTable::new(self.size() + 1),
        }
    }

    fn update(
        &self,
        data: &CategoricalData,
        labels: &[u32],
        params: &mut OrdinalParams,
        pool: &mut Vec<Vec<u64>>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        draw_all(self, params, pool, rng);
    }

    fn ln_likelihoods(
        &self,
        data: &CategoricalData,
        params: &OrdinalParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        for (&code, out) in data.codes()[rows]
            .iter()
            .zip(out.chunks_exact_mut(n_clusters))
        {
            out.copy_from_slice(params.ln_p.row(code as usize, n_clusters));
        }
    }

    fn is_collapsed(&self, _: &CategoricalData) -> bool {
        true
    }

    fn no_stats(&self) -> Vec<u64> {
        vec![0; self.size()]
    }

    fn clear(&self, stats: &mut Vec<u64>) {
        stats.fill(0);
    }

    fn add(&self, stats: &mut Vec<u64>, data: &CategoricalData, row: usize) {
        stats[data.codes()[row] as usize] += 1;
    }

    fn merge(&self, stats: &mut Vec<u64>, other: &Vec<u64>) {
        stats.iter_mut().zip(other).for_each(|(n, m)| *n += m);
    }

    fn ln_evidence(&self, _: &OrdinalParams, stats: &Vec<u64>) -> f64 {
        ln_total(self.ln_evidences(stats))
    }

    fn ln_predictive(
        &self,
        _: &OrdinalParams,
        stats: &Vec<u64>,
        data: &CategoricalData,
        row: usize,
    ) -> f64 {
        let ln = self.ln_evidences(stats);
        let of_level = self.of_level(data.codes()[row] as usize);
        let mut with = ln;
        with.iter_mut().zip(of_level).for_each(|(ln, l)| *ln += l);
        ln_total(with) - ln_total(ln)
    }

    fn draw(
        &self,
        params: &mut OrdinalParams,
        cluster: usize,
        stats: &Vec<u64>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let law = pick_ln(&mut self.ln_evidences(stats), rng);
        params.chosen[cluster] = law as u32;
        let levels = self.size();
        for level in 0..levels {
            params.ln_p.set(level, cluster, self.of_level(level)[law]);
        }
    }

    fn simulate(
        &self,
        params: &OrdinalParams,
        labels: &[u32],
        data: &mut CategoricalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (row, &label) in labels.iter().enumerate() {
            if self.is_observed(data, row) {
                data.set(row, params.sample(self.size(), label as usize, rng));
            }
        }
    }

    fn check(&self, params: &OrdinalParams) -> Result<(), String> {
        let levels = self.size();
        let known = params.chosen.iter().all(|&law| (law as usize) < LAWS);
        if !known || params.chosen.len() != params.ln_p.n_clusters() {
            return Err("ordinal laws".to_owned());
        }
        params
            .ln_p
            .check("ordinal probabilities", levels + 1, |_, l| l.is_finite())?;
        for (cluster, &law) in params.chosen.iter().enumerate() {
            for level in 0..=levels {
                let expected = match level {
                    l if l == levels => 0.0,
                    l => self.of_level(l)[law as usize],
                };
                if (params.ln_p.get(level, cluster) - expected).abs() > 1e-9 {
                    return Err(format!("ordinal probabilities of cluster {cluster}"));
                }
            }
        }
        Ok(())
    }
}
