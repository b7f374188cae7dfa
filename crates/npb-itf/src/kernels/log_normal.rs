//! One number above 0.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Reals;
use serde::{Deserialize, Serialize};

use super::support::{CellError, check_values, one_part};
use super::{Normal, NormalData, NormalParams};
use crate::kernel::{CellPart, Kernel, RowLabels};

/// ln x ~ N(μ_k, 1/λ_k) in cluster k, with priors and learned hyperparameters of ln x as in [`Normal`].
///
/// Densities are of x, not of ln x. The expected part is the median e^μ, and a prediction the geometric mean of these: predictive means
/// do not exist, the tails of ln x being those of a Student law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogNormal {
    logs: Normal,
}

/// Cells of a column of positive numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct LogNormalData {
    logs: NormalData,
}

/// Statistics of the logarithms, and their sum: the change of units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogNormalStats {
    logs: Reals,
    units: f64,
}

/// Draws of logarithms stay within the range of exp.
const LIMIT: f64 = 700.0;

fn from_log(x: f64) -> f64 {
    x.clamp(-LIMIT, LIMIT).exp()
}

impl LogNormal {
    /// `centre`, `scale`: of the logarithms (mean and standard deviation, as a rule), the scale between 1e-150 and 1e150.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(centre: f64, scale: f64) -> Result<Self, CellError> {
        Normal::new(centre, scale).map(|logs| Self { logs })
    }

    /// Centre and scale of the logarithms.
    pub(crate) fn coordinate(&self) -> (f64, f64) {
        self.logs.coordinate()
    }
}

impl LogNormalData {
    /// `values`: finite and above 0, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Value`] naming the row.
    pub fn new(values: &[Option<f64>]) -> Result<Self, CellError> {
        check_values(
            values,
            |x| x > 0.0 && x.is_finite(),
            "a finite number above 0",
        )?;
        let logs: Vec<Option<f64>> = values.iter().map(|x| x.map(f64::ln)).collect();
        NormalData::new(&logs).map(|logs| Self { logs })
    }

    /// The value of a row, `None` where it is missing.
    pub fn value(&self, row: usize) -> Option<f64> {
        self.logs.value(row).map(f64::exp)
    }
}

impl Kernel for LogNormal {
    type Data = LogNormalData;
    type Params = NormalParams;
    type Stats = LogNormalStats;

    const COUPLED: bool = false;

    one_part!(
        |_kernel, params, cluster, out| out.push(from_log(params.mean(cluster))),
        |_kernel, params, cluster, rng| from_log(params.cell(cluster, rng))
    );

    fn n_rows(&self, data: &LogNormalData) -> usize {
        self.logs.n_rows(&data.logs)
    }

    fn is_observed(&self, data: &LogNormalData, row: usize) -> bool {
        self.logs.is_observed(&data.logs, row)
    }

    fn part(&self, data: &LogNormalData, row: usize, _: usize) -> CellPart {
        data.value(row).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn is_geometric(&self, _: usize) -> bool {
        true
    }

    fn cell_key(&self, data: &LogNormalData, row: usize) -> Option<u64> {
        self.logs.cell_key(&data.logs, row)
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> NormalParams {
        self.logs.initial(rng)
    }

    fn update(
        &self,
        data: &LogNormalData,
        labels: &[u32],
        params: &mut NormalParams,
        _: &mut Vec<LogNormalStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.logs
            .update(&data.logs, labels, params, &mut Vec::new(), rng);
    }

    fn ln_likelihoods(
        &self,
        data: &LogNormalData,
        params: &NormalParams,
        rows: Range<usize>,
        n_clusters: usize,
        others: RowLabels<'_>,
        out: &mut [f64],
    ) {
        self.logs
            .ln_likelihoods(&data.logs, params, rows.clone(), n_clusters, others, out);
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            let units = data.logs.value(row).unwrap_or(0.0);
            out.iter_mut().for_each(|o| *o -= units);
        }
    }

    fn is_collapsed(&self, data: &LogNormalData) -> bool {
        self.logs.is_collapsed(&data.logs)
    }

    fn no_stats(&self) -> LogNormalStats {
        LogNormalStats::default()
    }

    fn add(&self, stats: &mut LogNormalStats, data: &LogNormalData, row: usize) {
        self.logs.add(&mut stats.logs, &data.logs, row);
        stats.units += data.logs.value(row).unwrap_or(0.0);
    }

    fn merge(&self, stats: &mut LogNormalStats, other: &LogNormalStats) {
        self.logs.merge(&mut stats.logs, &other.logs);
        stats.units += other.units;
    }

    fn ln_evidence(&self, params: &NormalParams, stats: &LogNormalStats) -> f64 {
        self.logs.ln_evidence(params, &stats.logs) - stats.units
    }

    fn ln_predictive(
        &self,
        params: &NormalParams,
        stats: &LogNormalStats,
        data: &LogNormalData,
        row: usize,
    ) -> f64 {
        let of_log = self
            .logs
            .ln_predictive(params, &stats.logs, &data.logs, row);
        of_log - data.logs.value(row).unwrap_or(0.0)
    }

    fn draw(
        &self,
        params: &mut NormalParams,
        cluster: usize,
        stats: &LogNormalStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.logs.draw(params, cluster, &stats.logs, rng);
    }

    fn simulate(
        &self,
        params: &NormalParams,
        labels: &[u32],
        data: &mut LogNormalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.logs.simulate(params, labels, &mut data.logs, rng);
    }

    fn check(&self, params: &NormalParams) -> Result<(), String> {
        self.logs.check(params)
    }
}
