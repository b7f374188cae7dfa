//! Counts that vary no more than by chance within a cluster.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::special::{ln_gamma, ln_rising_factorial};
use serde::{Deserialize, Serialize};

use super::support::{
    CellError, ClusterTable, Hierarchical, MAX_COUNT, clusters_in, pick_ln, poisson, positive,
    positive_gamma, push_drawn, setting,
};
use crate::kernel::{Clusters, Kernel, Part, RowLabels};

/// x ~ Poisson(m ρ_k) in cluster k, with ρ_k ~ Gamma(a, b) and learned hyperparameters.
///
/// m is a fixed number, as a rule the mean of the column; a is uniform on 4^g / 4, g = 0..4; b ~ Gamma(2, 2). Counts that vary
/// more than a Poisson law allows need [`NegativeBinomial`](super::NegativeBinomial), or many clusters.
///
/// ```
/// use npb_itf::npb_infer::stream;
/// use npb_itf::kernels::{Poisson, PoissonData};
/// use npb_itf::{Kernel, RowLabels};
///
/// let kernel = Poisson::new(4.0)?;
/// let data = PoissonData::new(&[Some(3), None, Some(0)])?;
/// let mut rng = stream(1, [0; 4]);
/// let mut params = kernel.initial(&mut rng);
/// (0..4).for_each(|_| kernel.push_prior(&mut params, &mut rng));
/// let mut ln = [0.0; 12];
/// kernel.ln_likelihoods(&data, &params, 0..3, 4, RowLabels::NONE, &mut ln);
/// assert_eq!(ln[8], -params.mean(0)); // ln p(0) = -mean
/// # Ok::<(), npb_itf::kernels::CellError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Poisson {
    scale: f64,
}

/// Cells of a column of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct PoissonData {
    /// NaN where missing.
    values: Vec<f64>,
    /// ln x!.
    ln_factorials: Vec<f64>,
}

/// Hyperparameters and means of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoissonParams {
    /// a.
    shape: f64,
    /// b.
    rate: f64,
    /// m ρ and its logarithm.
    means: ClusterTable,
}

/// How many counts of a cluster, and their sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoissonStats {
    n: u64,
    total: u128,
    ln_factorials: f64,
}

const MEAN: usize = 0;
const LN_MEAN: usize = 1;
/// a is one of these.
const SHAPES: [f64; 4] = [0.25, 1.0, 4.0, 16.0];
/// Shape and rate of b.
const RATE: (f64, f64) = (2.0, 2.0);

impl Poisson {
    /// `scale`: m, between 1e-100 and 1e100.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(scale: f64) -> Result<Self, CellError> {
        let fits = (1e-100..=1e100).contains(&scale);
        setting("scale", scale, fits, "between 1e-100 and 1e100")?;
        Ok(Self { scale })
    }
}

impl PoissonData {
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
            ln_factorials: vec![0.0; values.len()],
            values,
        };
        (0..counts.len()).for_each(|row| data.refresh(row));
        Ok(data)
    }

    /// The count of a row, `None` where it is missing.
    pub fn value(&self, row: usize) -> Option<f64> {
        Some(self.values[row]).filter(|x| !x.is_nan())
    }

    fn refresh(&mut self, row: usize) {
        self.ln_factorials[row] = self.value(row).map_or(0.0, |x| ln_gamma(x + 1.0));
    }
}

/// Names the first number that is no count; NaN is missing.
pub(super) fn check_counts(values: &[f64]) -> Result<(), CellError> {
    let bad = values
        .iter()
        .position(|&x| !(x.is_nan() || (0.0..=MAX_COUNT).contains(&x)));
    bad.map_or(Ok(()), |row| {
        Err(CellError::Value {
            row,
            part: 0,
            value: values[row],
            needed: "a count (a whole number from 0 to 2^53)",
        })
    })
}

impl PoissonParams {
    /// Mean of a cluster.
    pub fn mean(&self, cluster: usize) -> f64 {
        self.means.get(MEAN, cluster)
    }
}

clusters_in!(PoissonParams: means);

impl Kernel for Poisson {
    type Data = PoissonData;
    type Params = PoissonParams;
    type Stats = PoissonStats;

    const COUPLED: bool = false;

    fn n_rows(&self, data: &PoissonData) -> usize {
        data.values.len()
    }

    fn is_observed(&self, data: &PoissonData, row: usize) -> bool {
        !data.values[row].is_nan()
    }

    fn n_parts(&self, _: &PoissonData, _: usize) -> usize {
        1
    }

    fn part(&self, data: &PoissonData, row: usize, _: usize) -> Part {
        data.value(row).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn is_geometric(&self, _: usize) -> bool {
        false
    }

    fn cell_key(&self, data: &PoissonData, row: usize) -> Option<u64> {
        Some(data.values[row].to_bits())
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> PoissonParams {
        PoissonParams {
            shape: SHAPES[pick_ln(&mut [0.0; SHAPES.len()], rng)],
            rate: positive_gamma(RATE.0, RATE.1, rng),
            means: ClusterTable::new(2),
        }
    }

    fn push_prior(&self, params: &mut PoissonParams, rng: &mut Xoshiro256PlusPlus) {
        push_drawn(self, params, rng);
    }

    fn update(
        &self,
        data: &PoissonData,
        labels: &[u32],
        params: &mut PoissonParams,
        pool: &mut Vec<PoissonStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        self.redraw(params, pool, rng);
    }

    fn ln_likelihoods(
        &self,
        data: &PoissonData,
        params: &PoissonParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        pulp::Arch::new().dispatch(Densities {
            values: &data.values[rows.clone()],
            ln_factorials: &data.ln_factorials[rows],
            means: params.means.row(MEAN, n_clusters),
            ln_means: params.means.row(LN_MEAN, n_clusters),
            out,
        });
    }

    fn is_collapsed(&self, _: &PoissonData) -> bool {
        true
    }

    fn no_stats(&self) -> PoissonStats {
        PoissonStats::default()
    }

    fn add(&self, stats: &mut PoissonStats, data: &PoissonData, row: usize) {
        stats.n += 1;
        stats.total += data.values[row] as u128;
        stats.ln_factorials += data.ln_factorials[row];
    }

    fn remove(&self, stats: &mut PoissonStats, data: &PoissonData, row: usize) {
        stats.n -= 1;
        stats.total -= data.values[row] as u128;
        stats.ln_factorials -= data.ln_factorials[row];
    }

    fn merge(&self, stats: &mut PoissonStats, other: &PoissonStats) {
        stats.n += other.n;
        stats.total += other.total;
        stats.ln_factorials += other.ln_factorials;
    }

    fn ln_evidence(&self, params: &PoissonParams, stats: &PoissonStats) -> f64 {
        let (n, total) = (stats.n as f64, stats.total as f64);
        // Rate in the units of the column.
        let (a, b) = (params.shape, params.rate / self.scale);
        ln_rising_factorial(a, total)
            - a * (n / b).ln_1p()
            - total * (b + n).ln()
            - stats.ln_factorials
    }

    fn ln_predictive(
        &self,
        params: &PoissonParams,
        stats: &PoissonStats,
        data: &PoissonData,
        row: usize,
    ) -> f64 {
        let x = data.values[row];
        let a = params.shape + stats.total as f64;
        let b = params.rate / self.scale + stats.n as f64;
        ln_rising_factorial(a, x) - a * b.recip().ln_1p() - x * b.ln_1p() - data.ln_factorials[row]
    }

    fn draw(
        &self,
        params: &mut PoissonParams,
        cluster: usize,
        stats: &PoissonStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let shape = params.shape + stats.total as f64;
        let rate = params.rate + stats.n as f64 * self.scale;
        let mean = self.scale * positive_gamma(shape, rate, rng);
        params.means.set(MEAN, cluster, mean);
        params.means.set(LN_MEAN, cluster, mean.ln());
    }

    fn expected(
        &self,
        params: &PoissonParams,
        cluster: usize,
        data: &PoissonData,
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
        params: &PoissonParams,
        cluster: usize,
        data: &PoissonData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    ) {
        let value = data.value(row).filter(|_| !ignore_observed);
        out.clear();
        out.push(value.unwrap_or_else(|| poisson(params.mean(cluster), rng)));
    }

    fn simulate(
        &self,
        params: &PoissonParams,
        labels: &[u32],
        data: &mut PoissonData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (row, &label) in labels.iter().enumerate() {
            if self.is_observed(data, row) {
                data.values[row] = poisson(params.mean(label as usize), rng);
                data.refresh(row);
            }
        }
    }

    fn check(&self, params: &PoissonParams) -> Result<(), String> {
        Self::new(self.scale).map_err(|e| format!("Poisson {e}"))?;
        if !SHAPES.contains(&params.shape) || !positive(params.rate) {
            return Err("Poisson hyperparameters".to_owned());
        }
        let range = |row: usize, x: f64| {
            if row == MEAN {
                positive(x)
            } else {
                x.is_finite()
            }
        };
        params.means.check("Poisson means", 2, range)
    }
}

impl Hierarchical for Poisson {
    /// Draws a and b given the clusters with cells.
    fn move_hyperparameters(
        &self,
        params: &mut PoissonParams,
        pool: &[PoissonStats],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let clusters = 0..params.means.n_clusters();
        let occupied = clusters.filter(|&k| pool[k].n > 0);
        let (mut n, mut sum, mut ln_sum) = (0.0, 0.0, 0.0);
        for k in occupied {
            n += 1.0;
            sum += params.means.get(MEAN, k) / self.scale;
            ln_sum += params.means.get(LN_MEAN, k) - self.scale.ln();
        }
        let ln_weight = |&a: &f64| a * (n * params.rate.ln() + ln_sum) - n * ln_gamma(a);
        let mut weights = SHAPES.each_ref().map(ln_weight);
        params.shape = SHAPES[pick_ln(&mut weights, rng)];
        params.rate = positive_gamma(RATE.0 + n * params.shape, RATE.1 + sum, rng);
    }

    fn has_cells(&self, stats: &PoissonStats) -> bool {
        stats.n > 0
    }
}

struct Densities<'a> {
    values: &'a [f64],
    ln_factorials: &'a [f64],
    means: &'a [f64],
    ln_means: &'a [f64],
    out: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Densities<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let n_clusters = self.means.len();
        let cells = self.values.iter().zip(self.ln_factorials);
        for ((&x, &ln_factorial), out) in cells.zip(self.out.chunks_exact_mut(n_clusters)) {
            if x.is_nan() {
                out.fill(0.0);
                continue;
            }
            for k in 0..n_clusters {
                out[k] = x * self.ln_means[k] - self.means[k] - ln_factorial;
            }
        }
    }
}
