//! One real number that is the same in many rows.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Reals;
use serde::{Deserialize, Serialize};

use super::support::{CellError, clusters_in, one_part, setting};
use super::{Categorical, CategoricalData, CategoricalParams, Normal, NormalData, NormalParams};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};

/// x = c with probability π_k in cluster k, otherwise x ~ N(μ_k, 1/λ_k): rain, claims, the area of a pool, numbers that are 0 in many rows
/// and vary in the others.
///
/// Priors and learned hyperparameters of π_k as in [`Categorical`] with two levels, of μ_k and λ_k as in [`Normal`]; c, the spike, is
/// fixed. A density is a probability at c and a density per unit of x elsewhere: a normal law whose variance is free to shrink would
/// earn any density at c.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpikedNormal {
    at: f64,
    side: Categorical,
    rest: Normal,
}

/// Cells of a column with a spike.
#[derive(Clone, Debug, PartialEq)]
pub struct SpikedNormalData {
    at: f64,
    /// Level [`SPIKE`] or [`REST`] of every row.
    sides: CategoricalData,
    /// Missing at the spike.
    rest: NormalData,
}

/// Probabilities of the spike, means and precisions of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpikedNormalParams {
    sides: CategoricalParams,
    rest: NormalParams,
}

/// Numbers of cells at the spike and off it, and statistics of the latter.
#[derive(Clone, Debug, PartialEq)]
pub struct SpikedNormalStats {
    sides: Vec<u64>,
    rest: Reals,
}

const REST: usize = 0;
const SPIKE: usize = 1;

/// A value is a spike when it is found in this share of the rows ...
const SHARE: f64 = 0.1;
/// ... and so many times as often as any other: values on a coarse grid repeat without being special.
const TIMES: usize = 3;

impl SpikedNormal {
    /// `at`: c, finite; `rest`: the kernel of the other values.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(at: f64, rest: Normal) -> Result<Self, CellError> {
        setting("spike", at, at.is_finite(), "finite")?;
        let side = Categorical::new(2)?;
        // One zero, not two.
        let at = at + 0.0;
        Ok(Self { at, side, rest })
    }

    /// The value in a tenth or more of the observed rows that is at least three times as frequent as any other, if there are others.
    pub fn spike_of(values: &[Option<f64>]) -> Option<f64> {
        let mut sorted: Vec<f64> = values.iter().flatten().map(|x| x + 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let mut runs: Vec<(usize, f64)> = sorted
            .chunk_by(|a, b| a == b)
            .map(|run| (run.len(), run[0]))
            .collect();
        runs.sort_by_key(|&(n, _)| std::cmp::Reverse(n));
        let [(n, at), (next, _), ..] = runs[..] else {
            return None;
        };
        (n as f64 >= SHARE * sorted.len() as f64 && n >= TIMES * next).then_some(at)
    }

    /// c.
    pub fn at(&self) -> f64 {
        self.at
    }

    /// Centre and scale of the other values.
    pub fn coordinate(&self) -> (f64, f64) {
        self.rest.coordinate()
    }
}

impl SpikedNormalData {
    /// `values`: finite, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Value`] naming the row.
    pub fn new(kernel: &SpikedNormal, values: &[Option<f64>]) -> Result<Self, CellError> {
        let side = |x: f64| if x == kernel.at { SPIKE } else { REST } as u32;
        let sides: Vec<Option<u32>> = values.iter().map(|x| x.map(side)).collect();
        let rest: Vec<Option<f64>> = values
            .iter()
            .map(|x| x.filter(|&x| x != kernel.at))
            .collect();
        kernel.rest.check_values(&rest)?;
        Ok(Self {
            at: kernel.at,
            sides: CategoricalData::new(2, &sides)?,
            rest: NormalData::new(&rest)?,
        })
    }

    /// The value of a row, `None` where it is missing.
    pub fn value(&self, row: usize) -> Option<f64> {
        let side = self.sides.code(row)?;
        if side as usize == SPIKE {
            Some(self.at)
        } else {
            self.rest.value(row)
        }
    }
}

impl SpikedNormalParams {
    /// Probability of the spike in a cluster.
    pub fn spike(&self, cluster: usize) -> f64 {
        self.sides.probability(SPIKE, cluster)
    }

    /// Mean off the spike.
    pub fn mean(&self, cluster: usize) -> f64 {
        self.rest.mean(cluster)
    }

    /// Precision off the spike.
    pub fn precision(&self, cluster: usize) -> f64 {
        self.rest.precision(cluster)
    }
}

clusters_in!(SpikedNormalParams: sides, rest);

impl Kernel for SpikedNormal {
    type Data = SpikedNormalData;
    type Params = SpikedNormalParams;
    type Stats = SpikedNormalStats;

    const COUPLED: bool = false;

    one_part!(
        |kernel, params, cluster, out| {
            let p = params.spike(cluster);
            out.push(p * kernel.at + (1.0 - p) * params.mean(cluster));
        },
        |kernel, params, cluster, rng| match kernel.side.pick(&params.sides, cluster, rng) as usize
        {
            SPIKE => kernel.at,
            _ => params.rest.cell(cluster, rng),
        }
    );

    fn n_rows(&self, data: &SpikedNormalData) -> usize {
        self.side.n_rows(&data.sides)
    }

    fn is_observed(&self, data: &SpikedNormalData, row: usize) -> bool {
        self.side.is_observed(&data.sides, row)
    }

    fn part(&self, data: &SpikedNormalData, row: usize, _: usize) -> CellPart {
        data.value(row).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn cell_key(&self, data: &SpikedNormalData, row: usize) -> Option<u64> {
        Some(data.value(row).map_or(u64::MAX, f64::to_bits))
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> SpikedNormalParams {
        SpikedNormalParams {
            sides: self.side.initial(rng),
            rest: self.rest.initial(rng),
        }
    }

    fn update(
        &self,
        data: &SpikedNormalData,
        labels: &[u32],
        params: &mut SpikedNormalParams,
        _: &mut Vec<SpikedNormalStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let SpikedNormalParams { sides, rest } = params;
        self.side
            .update(&data.sides, labels, sides, &mut Vec::new(), rng);
        self.rest
            .update(&data.rest, labels, rest, &mut Vec::new(), rng);
    }

    fn ln_likelihoods(
        &self,
        data: &SpikedNormalData,
        params: &SpikedNormalParams,
        rows: Range<usize>,
        n_clusters: usize,
        others: RowLabels<'_>,
        out: &mut [f64],
    ) {
        self.rest.ln_likelihoods(
            &data.rest,
            &params.rest,
            rows.clone(),
            n_clusters,
            others,
            out,
        );
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            if let Some(side) = data.sides.code(row) {
                let ln_p = params.sides.ln_probabilities(side as usize, n_clusters);
                out.iter_mut()
                    .zip(ln_p)
                    .for_each(|(out, ln_p)| *out += ln_p);
            }
        }
    }

    fn is_collapsed(&self, _: &SpikedNormalData) -> bool {
        true
    }

    fn no_stats(&self) -> SpikedNormalStats {
        SpikedNormalStats {
            sides: self.side.no_stats(),
            rest: self.rest.no_stats(),
        }
    }

    fn clear(&self, stats: &mut SpikedNormalStats) {
        self.side.clear(&mut stats.sides);
        self.rest.clear(&mut stats.rest);
    }

    fn add(&self, stats: &mut SpikedNormalStats, data: &SpikedNormalData, row: usize) {
        self.side.add(&mut stats.sides, &data.sides, row);
        if self.rest.is_observed(&data.rest, row) {
            self.rest.add(&mut stats.rest, &data.rest, row);
        }
    }

    fn merge(&self, stats: &mut SpikedNormalStats, other: &SpikedNormalStats) {
        self.side.merge(&mut stats.sides, &other.sides);
        self.rest.merge(&mut stats.rest, &other.rest);
    }

    fn ln_evidence(&self, params: &SpikedNormalParams, stats: &SpikedNormalStats) -> f64 {
        self.side.ln_evidence(&params.sides, &stats.sides)
            + self.rest.ln_evidence(&params.rest, &stats.rest)
    }

    fn ln_predictive(
        &self,
        params: &SpikedNormalParams,
        stats: &SpikedNormalStats,
        data: &SpikedNormalData,
        row: usize,
    ) -> f64 {
        let ln_p = self
            .side
            .ln_predictive(&params.sides, &stats.sides, &data.sides, row);
        if !self.rest.is_observed(&data.rest, row) {
            return ln_p;
        }
        ln_p + self
            .rest
            .ln_predictive(&params.rest, &stats.rest, &data.rest, row)
    }

    fn draw(
        &self,
        params: &mut SpikedNormalParams,
        cluster: usize,
        stats: &SpikedNormalStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.side
            .draw(&mut params.sides, cluster, &stats.sides, rng);
        self.rest.draw(&mut params.rest, cluster, &stats.rest, rng);
    }

    fn simulate(
        &self,
        params: &SpikedNormalParams,
        labels: &[u32],
        data: &mut SpikedNormalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.side
            .simulate(&params.sides, labels, &mut data.sides, rng);
        let is_rest = |row: usize| data.sides.code(row) == Some(REST as u32);
        let places: Vec<Option<f64>> = (0..labels.len())
            .map(|row| is_rest(row).then_some(0.0))
            .collect();
        data.rest = NormalData::new(&places).expect("zeros are finite");
        self.rest
            .simulate(&params.rest, labels, &mut data.rest, rng);
    }

    fn check(&self, params: &SpikedNormalParams) -> Result<(), String> {
        if !self.at.is_finite() || self.side.size() != 2 {
            return Err(format!("spike at {}", self.at));
        }
        self.side.check(&params.sides)?;
        self.rest.check(&params.rest)?;
        match params.sides.n_clusters() == params.rest.n_clusters() {
            true => Ok(()),
            false => Err("clusters of a spike: sizes do not agree".to_owned()),
        }
    }
}
