//! Vectors of numbers that are independent within a cluster.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Reals;
use npb_priors::special::LN_SQRT_2PI;
use serde::{Deserialize, Serialize};

use super::support::{CellError, ClusterTable, check_lengths, setting};
use super::{Normal, NormalData, NormalParams};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};

/// x_j ~ N(μ_jk, 1/λ_jk), independent given cluster k; priors and learned hyperparameters of each coordinate as in [`Normal`].
///
/// Missing coordinates drop out of all sums, so that incomplete cells are as exact as complete ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiagonalNormal {
    coordinates: Vec<Normal>,
}

/// Cells of vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct DiagonalNormalData {
    n_rows: usize,
    /// One per coordinate.
    coordinates: Vec<NormalData>,
}

/// Hyperparameters, means and precisions of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiagonalNormalParams {
    coordinates: Vec<NormalParams>,
    /// Rows 3 j, 3 j + 1, 3 j + 2: mean, half the precision and ln(λ/2π)/2 of coordinate j.
    table: ClusterTable,
}

impl DiagonalNormal {
    /// `coordinates`: centre and scale of each (mean and standard deviation, as a rule), at least one.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(coordinates: &[(f64, f64)]) -> Result<Self, CellError> {
        let n = coordinates.len();
        setting("coordinates", n as f64, n >= 1, "at least 1")?;
        let made = coordinates
            .iter()
            .map(|&(centre, scale)| Normal::new(centre, scale));
        Ok(Self {
            coordinates: made.collect::<Result<_, _>>()?,
        })
    }

    /// Number of coordinates.
    pub fn n_coordinates(&self) -> usize {
        self.coordinates.len()
    }

    /// Copies the parameters of a cluster to where likelihoods look for them.
    fn refresh(&self, params: &mut DiagonalNormalParams, cluster: usize) {
        for (j, of) in params.coordinates.iter().enumerate() {
            let precision = of.precision(cluster);
            params.table.set(3 * j, cluster, of.mean(cluster));
            params.table.set(3 * j + 1, cluster, 0.5 * precision);
            params
                .table
                .set(3 * j + 2, cluster, 0.5 * precision.ln() - LN_SQRT_2PI);
        }
    }

    /// Kernel, parameters and statistics of each coordinate.
    fn parts<'a>(
        &'a self,
        params: &'a DiagonalNormalParams,
        stats: &'a [Reals],
    ) -> impl Iterator<Item = (&'a Normal, &'a NormalParams, &'a Reals)> {
        let kernels = self.coordinates.iter().zip(&params.coordinates);
        kernels.zip(stats).map(|((k, p), s)| (k, p, s))
    }
}

impl DiagonalNormalData {
    /// The coordinates of a row, NaN where missing.
    pub(super) fn row(&self, row: usize) -> Vec<f64> {
        let coordinates = self.coordinates.iter();
        coordinates
            .map(|c| c.value(row).unwrap_or(f64::NAN))
            .collect()
    }

    /// `rows`: one number per coordinate, finite, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Parts`] and [`CellError::Value`] naming the row.
    pub fn new(rows: &[Vec<Option<f64>>]) -> Result<Self, CellError> {
        let n_parts = rows.first().map_or(0, Vec::len);
        check_lengths(rows, n_parts)?;
        let coordinate = |part: usize| {
            let values: Vec<Option<f64>> = rows.iter().map(|row| row[part]).collect();
            NormalData::new(&values).map_err(|e| e.in_part(part))
        };
        Ok(Self {
            n_rows: rows.len(),
            coordinates: (0..n_parts).map(coordinate).collect::<Result<_, _>>()?,
        })
    }
}

impl PerCluster for DiagonalNormalParams {
    fn n_clusters(&self) -> usize {
        self.table.n_clusters()
    }

    fn push_empty(&mut self) {
        let coordinates = self.coordinates.iter_mut();
        coordinates.for_each(PerCluster::push_empty);
        self.table.push_empty();
    }

    fn truncate(&mut self, n_clusters: usize) {
        let coordinates = self.coordinates.iter_mut();
        coordinates.for_each(|of| of.truncate(n_clusters));
        self.table.truncate(n_clusters);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.coordinates.iter_mut().for_each(|of| of.swap(a, b));
        self.table.swap(a, b);
    }
}

impl Kernel for DiagonalNormal {
    type Data = DiagonalNormalData;
    type Params = DiagonalNormalParams;
    type Stats = Vec<Reals>;

    const COUPLED: bool = false;

    fn n_rows(&self, data: &DiagonalNormalData) -> usize {
        data.n_rows
    }

    fn is_observed(&self, data: &DiagonalNormalData, row: usize) -> bool {
        data.coordinates.iter().any(|c| c.value(row).is_some())
    }

    fn n_parts(&self, _: &DiagonalNormalData, _: usize) -> usize {
        self.coordinates.len()
    }

    fn part(&self, data: &DiagonalNormalData, row: usize, part: usize) -> CellPart {
        data.coordinates[part].value(row).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> DiagonalNormalParams {
        DiagonalNormalParams {
            coordinates: self.coordinates.iter().map(|k| k.initial(rng)).collect(),
            table: ClusterTable::new(3 * self.coordinates.len()),
        }
    }

    fn update(
        &self,
        data: &DiagonalNormalData,
        labels: &[u32],
        params: &mut DiagonalNormalParams,
        pool: &mut Vec<Vec<Reals>>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        // One coordinate's clusters at a time.
        pool.resize(pool.len().max(1), Vec::new());
        let kernels = self.coordinates.iter().zip(&mut params.coordinates);
        for ((kernel, params), data) in kernels.zip(&data.coordinates) {
            kernel.update(data, labels, params, &mut pool[0], rng);
        }
        (0..params.table.n_clusters()).for_each(|k| self.refresh(params, k));
    }

    fn ln_likelihoods(
        &self,
        data: &DiagonalNormalData,
        params: &DiagonalNormalParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        pulp::Arch::new().dispatch(Densities {
            data,
            table: &params.table,
            rows,
            n_clusters,
            out,
        });
    }

    fn is_collapsed(&self, _: &DiagonalNormalData) -> bool {
        true
    }

    fn no_stats(&self) -> Vec<Reals> {
        vec![Reals::default(); self.coordinates.len()]
    }

    fn add(&self, stats: &mut Vec<Reals>, data: &DiagonalNormalData, row: usize) {
        for ((kernel, data), stats) in self.coordinates.iter().zip(&data.coordinates).zip(stats) {
            if data.value(row).is_some() {
                kernel.add(stats, data, row);
            }
        }
    }

    fn merge(&self, stats: &mut Vec<Reals>, other: &Vec<Reals>) {
        let kernels = self.coordinates.iter().zip(stats).zip(other);
        kernels.for_each(|((kernel, stats), other)| kernel.merge(stats, other));
    }

    fn ln_evidence(&self, params: &DiagonalNormalParams, stats: &Vec<Reals>) -> f64 {
        self.parts(params, stats)
            .map(|(k, p, s)| k.ln_evidence(p, s))
            .sum()
    }

    fn ln_predictive(
        &self,
        params: &DiagonalNormalParams,
        stats: &Vec<Reals>,
        data: &DiagonalNormalData,
        row: usize,
    ) -> f64 {
        let parts = self.parts(params, stats).zip(&data.coordinates);
        let observed = parts.filter(|(_, data)| data.value(row).is_some());
        observed
            .map(|((k, p, s), data)| k.ln_predictive(p, s, data, row))
            .sum()
    }

    fn draw(
        &self,
        params: &mut DiagonalNormalParams,
        cluster: usize,
        stats: &Vec<Reals>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let kernels = self
            .coordinates
            .iter()
            .zip(&mut params.coordinates)
            .zip(stats);
        kernels.for_each(|((kernel, params), stats)| kernel.draw(params, cluster, stats, rng));
        self.refresh(params, cluster);
    }

    fn expected(
        &self,
        params: &DiagonalNormalParams,
        cluster: usize,
        data: &DiagonalNormalData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        for (data, params) in data.coordinates.iter().zip(&params.coordinates) {
            let value = data.value(row).filter(|_| !ignore_observed);
            out.push(value.unwrap_or_else(|| params.mean(cluster)));
        }
    }

    fn complete(
        &self,
        params: &DiagonalNormalParams,
        cluster: usize,
        data: &DiagonalNormalData,
        row: usize,
        ignore_observed: bool,
        others: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        let mut one = Vec::with_capacity(1);
        let kernels = self.coordinates.iter().zip(&params.coordinates);
        for ((kernel, params), data) in kernels.zip(&data.coordinates) {
            kernel.complete(
                params,
                cluster,
                data,
                row,
                ignore_observed,
                others,
                rng,
                &mut one,
            );
            out.extend(&one);
        }
    }

    fn simulate(
        &self,
        params: &DiagonalNormalParams,
        labels: &[u32],
        data: &mut DiagonalNormalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let kernels = self.coordinates.iter().zip(&params.coordinates);
        for ((kernel, params), data) in kernels.zip(&mut data.coordinates) {
            kernel.simulate(params, labels, data, rng);
        }
    }

    fn check(&self, params: &DiagonalNormalParams) -> Result<(), String> {
        let n = self.coordinates.len();
        if n == 0 || params.coordinates.len() != n {
            return Err("vector: coordinates".to_owned());
        }
        params.table.check("vector", 3 * n, |_, x| x.is_finite())?;
        for (kernel, of) in self.coordinates.iter().zip(&params.coordinates) {
            kernel.check(of)?;
            if of.n_clusters() != params.table.n_clusters() {
                return Err("vector: sizes do not agree".to_owned());
            }
        }
        let mut fresh = params.clone();
        (0..params.table.n_clusters()).for_each(|k| self.refresh(&mut fresh, k));
        for k in 0..params.table.n_clusters() {
            for row in 0..3 * n {
                let (a, b) = (fresh.table.get(row, k), params.table.get(row, k));
                if (a - b).abs() > 1e-9 * (1.0 + a.abs()) {
                    return Err(format!("vector: cluster {k}"));
                }
            }
        }
        Ok(())
    }
}

struct Densities<'a> {
    data: &'a DiagonalNormalData,
    table: &'a ClusterTable,
    rows: Range<usize>,
    n_clusters: usize,
    out: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Densities<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let n = self.n_clusters;
        for (row, out) in self.rows.zip(self.out.chunks_exact_mut(n)) {
            out.fill(0.0);
            for (j, data) in self.data.coordinates.iter().enumerate() {
                let Some(x) = data.value(row) else { continue };
                let means = self.table.row(3 * j, n);
                let halves = self.table.row(3 * j + 1, n);
                let constants = self.table.row(3 * j + 2, n);
                for k in 0..n {
                    let d = x - means[k];
                    out[k] += constants[k] - halves[k] * d * d;
                }
            }
        }
    }
}
