//! Vectors of numbers that depend on each other within a cluster.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::dist::Wishart;
use npb_priors::special::{LN_SQRT_2PI, ln_multivariate_gamma};
use serde::{Deserialize, Serialize};

use super::band::Band;
use super::diagonal_normal::transposed;
use super::support::{
    CellError, ClusterTable, Hierarchical, clusters_in, pick_ln, positive, positive_gamma,
    push_drawn, seen, setting, standard,
};
use crate::kernel::{Clusters, Kernel, Part, RowLabels};

/// z ~ N(μ_k, Λ_k⁻¹) in cluster k, z_j = (x_j − centre_j)/scale_j, with a normal-Wishart prior:
/// Λ_k ~ W((b I)⁻¹, d + 2), so that E Λ_k⁻¹ = b I, and μ_k ~ N(m, (s Λ_k)⁻¹).
///
/// m ~ N(0, I), s ~ Gamma(1, 2) and b, uniform on 4^−g, g = 0..9, are learned, as in [`Normal`](super::Normal). Missing coordinates are
/// integrated out exactly. When no vector is incomplete (a wholly missing one may be), all parameters can be integrated out; otherwise
/// `update` draws the missing coordinates first.
///
/// Cost of a likelihood: d² multiplications; with m missing coordinates d² + m³/6.
///
/// ```
/// use npb_itf::npb_infer::stream;
/// use npb_itf::kernels::{FullNormal, FullNormalData};
/// use npb_itf::{Kernel, RowLabels};
///
/// let kernel = FullNormal::new(&[(0.0, 1.0), (10.0, 2.0)])?;
/// let data = FullNormalData::new(&kernel, &[vec![Some(0.5), None], vec![None, None]])?;
/// let mut rng = stream(1, [0; 4]);
/// let mut params = kernel.initial(&mut rng);
/// (0..4).for_each(|_| kernel.push_prior(&mut params, &mut rng));
/// let mut ln = [0.0; 8];
/// kernel.ln_likelihoods(&data, &params, 0..2, 4, RowLabels::NONE, &mut ln);
/// assert_eq!(ln[4..], [0.0; 4]); // row 1 is missing
/// # Ok::<(), npb_itf::kernels::CellError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullNormal {
    centres: Vec<f64>,
    scales: Vec<f64>,
}

/// Cells of vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct FullNormalData {
    d: usize,
    /// As they were given, row by row, NaN where missing.
    given: Vec<f64>,
    /// z, row by row, NaN where missing.
    z: Vec<f64>,
    /// Missing coordinates of each row.
    missing: Vec<Vec<usize>>,
    /// −Σ ln scale over the observed coordinates of each row.
    units: Vec<f64>,
}

/// Hyperparameters, means and precisions of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullNormalParams {
    /// m.
    mean: Vec<f64>,
    /// s.
    strength: f64,
    /// b is 4 to minus this.
    rate: usize,
    /// Rows as in [`Rows`].
    table: ClusterTable,
}

/// How many vectors, their sum and the sum of their products.
#[derive(Clone, Debug, PartialEq)]
pub struct FullNormalStats {
    n: u64,
    units: f64,
    sum: Vec<f64>,
    /// Lower triangle, packed.
    products: Vec<f64>,
}

/// Where numbers of a cluster stand in the table.
#[derive(Clone, Copy)]
struct Rows {
    d: usize,
}

const STRENGTH: (f64, f64) = (1.0, 2.0);
const RATES: usize = 9;
/// Values stay within this many scales.
const LIMIT: f64 = 1e100;

fn packed(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

impl Rows {
    fn triangle(self) -> usize {
        self.d * (self.d + 1) / 2
    }

    /// μ_j.
    fn mean(self, j: usize) -> usize {
        j
    }

    /// (L'μ)_j with Λ = L L'.
    fn turned(self, j: usize) -> usize {
        self.d + j
    }

    /// L_ij, i >= j.
    fn factor(self, i: usize, j: usize) -> usize {
        2 * self.d + packed(i, j)
    }

    /// Λ_ij, i >= j.
    fn precision(self, i: usize, j: usize) -> usize {
        2 * self.d + self.triangle() + packed(i.max(j), i.min(j))
    }

    /// ln |Λ| / 2 − d ln(2π)/2.
    fn constant(self) -> usize {
        2 * (self.d + self.triangle())
    }

    fn n(self) -> usize {
        self.constant() + 1
    }
}

/// The posterior of a cluster's parameters.
struct Posterior {
    strength: f64,
    df: f64,
    mean: Vec<f64>,
    /// B_n⁻¹.
    inverse_scale: Mat<f64>,
}

impl FullNormal {
    /// `coordinates`: centre and scale of each (mean and standard deviation, as a rule), at least one; scales from 1e-150 to 1e150.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(coordinates: &[(f64, f64)]) -> Result<Self, CellError> {
        let n = coordinates.len();
        setting("coordinates", n as f64, n >= 1, "at least 1")?;
        for &(centre, scale) in coordinates {
            setting("centre", centre, centre.is_finite(), "finite")?;
            let fits = (1e-150..=1e150).contains(&scale);
            setting("scale", scale, fits, "between 1e-150 and 1e150")?;
        }
        let (centres, scales) = coordinates.iter().copied().unzip();
        Ok(Self { centres, scales })
    }

    fn d(&self) -> usize {
        self.centres.len()
    }

    fn rows(&self) -> Rows {
        Rows { d: self.d() }
    }

    fn df(&self) -> f64 {
        (self.d() + 2) as f64
    }

    fn in_units(&self, j: usize, z: f64) -> f64 {
        self.centres[j] + self.scales[j] * z
    }

    fn posterior(&self, params: &FullNormalParams, stats: &FullNormalStats) -> Posterior {
        let (d, n) = (self.d(), stats.n as f64);
        let strength = params.strength + n;
        let of_mean = |j: usize| (params.strength * params.mean[j] + stats.sum[j]) / strength;
        let mean: Vec<f64> = (0..d).map(of_mean).collect();
        let average: Vec<f64> = stats.sum.iter().map(|s| s / n.max(1.0)).collect();
        let weight = params.strength * n / strength;
        let mut inverse_scale = Mat::zeros(d, d);
        for i in 0..d {
            for j in 0..=i {
                let scatter = stats.products[packed(i, j)] - n * average[i] * average[j];
                // Rounding must not make a sum of squares negative.
                let scatter = if i == j { scatter.max(0.0) } else { scatter };
                let apart = (average[i] - params.mean[i]) * (average[j] - params.mean[j]);
                inverse_scale[(i, j)] = scatter + weight * apart;
            }
            inverse_scale[(i, i)] += rate(params.rate);
        }
        Posterior {
            strength,
            df: self.df() + n,
            mean,
            inverse_scale,
        }
    }

    /// Writes mean and factor of the precision of a cluster.
    fn set(&self, params: &mut FullNormalParams, cluster: usize, mean: &[f64], l: &Mat<f64>) {
        let (d, rows) = (self.d(), self.rows());
        let mut constant = -(d as f64) * LN_SQRT_2PI;
        for j in 0..d {
            let turned: f64 = (j..d).map(|i| l[(i, j)] * mean[i]).sum();
            params.table.set(rows.mean(j), cluster, mean[j]);
            params.table.set(rows.turned(j), cluster, turned);
            constant += l[(j, j)].ln();
            for i in j..d {
                let product: f64 = (0..=j).map(|k| l[(i, k)] * l[(j, k)]).sum();
                params.table.set(rows.factor(i, j), cluster, l[(i, j)]);
                params.table.set(rows.precision(i, j), cluster, product);
            }
        }
        params.table.set(rows.constant(), cluster, constant);
    }

    /// Fills the missing coordinates of z by conditional means or draws; returns ln p(observed coordinates) in units of z.
    fn fill(
        &self,
        params: &FullNormalParams,
        cluster: usize,
        z: &mut [f64],
        missing: &[usize],
        work: &mut Work,
        rng: Option<&mut Xoshiro256PlusPlus>,
    ) -> f64 {
        let (d, rows, table) = (self.d(), self.rows(), &params.table);
        let mean = |j: usize| table.get(rows.mean(j), cluster);
        let precision = |i: usize, j: usize| table.get(rows.precision(i, j), cluster);
        missing.iter().for_each(|&j| z[j] = mean(j));
        work.band.reset(missing.len(), d);
        work.b.clear();
        for (a, &i) in missing.iter().enumerate() {
            let pull: f64 = (0..d).map(|j| precision(i, j) * (z[j] - mean(j))).sum();
            work.b.push(-pull);
            missing[..=a]
                .iter()
                .enumerate()
                .for_each(|(b, &j)| work.band.add(a, b, precision(i, j)));
        }
        let mut squares = 0.0;
        for j in 0..d {
            let entry: f64 = (j..d)
                .map(|i| table.get(rows.factor(i, j), cluster) * (z[i] - mean(i)))
                .sum();
            squares += entry * entry;
        }
        work.band.factor();
        work.band.solve_lower(&mut work.b);
        let gained: f64 = work.b.iter().map(|x| x * x).sum();
        work.band.finish(&mut work.b, rng);
        missing
            .iter()
            .zip(&work.b)
            .for_each(|(&j, x)| z[j] = (z[j] + x).clamp(-LIMIT, LIMIT));
        table.get(rows.constant(), cluster) - 0.5 * (squares - gained)
            + missing.len() as f64 * LN_SQRT_2PI
            - work.band.half_ln_det()
    }
}

/// b at a position of its grid.
fn rate(g: usize) -> f64 {
    0.25f64.powi(g as i32)
}

/// Memory for incomplete vectors.
#[derive(Default)]
struct Work {
    band: Band,
    b: Vec<f64>,
    z: Vec<f64>,
}

impl FullNormalData {
    /// `rows`: one number per coordinate, finite and within 1e100 scales of the centre, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Parts`] and [`CellError::Value`] naming the row.
    pub fn new(kernel: &FullNormal, rows: &[Vec<Option<f64>>]) -> Result<Self, CellError> {
        let d = kernel.d();
        transposed(rows)?;
        if let Some(first) = rows.first().filter(|r| r.len() != d) {
            return Err(CellError::Parts {
                row: 0,
                found: first.len(),
                expected: d,
            });
        }
        let mut data = Self {
            d,
            given: Vec::with_capacity(rows.len() * d),
            z: Vec::with_capacity(rows.len() * d),
            missing: Vec::with_capacity(rows.len()),
            units: Vec::with_capacity(rows.len()),
        };
        for (row, cells) in rows.iter().enumerate() {
            for (part, cell) in cells.iter().enumerate() {
                let z = cell.map_or(f64::NAN, |x| {
                    (x - kernel.centres[part]) / kernel.scales[part]
                });
                if z.abs() > LIMIT {
                    return Err(CellError::Value {
                        row,
                        part,
                        value: cell.unwrap_or(f64::NAN),
                        needed: "a number within 1e100 scales of the centre",
                    });
                }
                data.given.push(cell.unwrap_or(f64::NAN));
                data.z.push(z);
            }
            let (missing, seen): (Vec<usize>, Vec<usize>) =
                (0..d).partition(|&j| cells[j].is_none());
            data.missing.push(missing);
            data.units
                .push(-seen.iter().map(|&j| kernel.scales[j].ln()).sum::<f64>());
        }
        Ok(data)
    }

    /// z of a row, NaN where missing.
    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.z[row * self.d..][..self.d]
    }

    fn is_partial(&self, row: usize) -> bool {
        !self.missing[row].is_empty() && self.missing[row].len() < self.d
    }
}

impl FullNormalStats {
    fn add_vector(&mut self, z: &[f64], sign: f64) {
        for (i, x) in z.iter().enumerate() {
            self.sum[i] += sign * x;
            (0..=i).for_each(|j| self.products[packed(i, j)] += sign * x * z[j]);
        }
    }
}

impl FullNormalParams {
    /// Mean of a cluster, in units of the scales about the centres.
    pub fn mean(&self, cluster: usize) -> Vec<f64> {
        (0..self.mean.len())
            .map(|j| self.table.get(j, cluster))
            .collect()
    }

    /// Entry of the precision matrix of a cluster, in the same units.
    pub fn precision(&self, cluster: usize, i: usize, j: usize) -> f64 {
        let rows = Rows { d: self.mean.len() };
        self.table.get(rows.precision(i, j), cluster)
    }
}

clusters_in!(FullNormalParams: table);

impl Kernel for FullNormal {
    type Data = FullNormalData;
    type Params = FullNormalParams;
    type Stats = FullNormalStats;

    const COUPLED: bool = false;
    const GEOMETRIC: bool = false;

    fn n_rows(&self, data: &FullNormalData) -> usize {
        data.missing.len()
    }

    fn is_observed(&self, data: &FullNormalData, row: usize) -> bool {
        data.missing[row].len() < data.d
    }

    fn n_parts(&self, _: &FullNormalData, _: usize) -> usize {
        self.d()
    }

    fn part(&self, data: &FullNormalData, row: usize, part: usize) -> Part {
        seen(data.given[row * data.d + part]).into()
    }

    fn n_levels(&self) -> Option<usize> {
        None
    }

    fn cell_key(&self, _: &FullNormalData, _: usize) -> Option<u64> {
        None
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> FullNormalParams {
        FullNormalParams {
            mean: (0..self.d()).map(|_| standard(rng)).collect(),
            strength: positive_gamma(STRENGTH.0, STRENGTH.1, rng),
            rate: pick_ln(&mut [0.0; RATES], rng),
            table: ClusterTable::new(self.rows().n()),
        }
    }

    fn push_prior(&self, params: &mut FullNormalParams, rng: &mut Xoshiro256PlusPlus) {
        push_drawn(self, params, rng);
    }

    fn update(
        &self,
        data: &FullNormalData,
        labels: &[u32],
        params: &mut FullNormalParams,
        pool: &mut Vec<FullNormalStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        let mut work = Work::default();
        for row in (0..labels.len()).filter(|&row| data.is_partial(row)) {
            let cluster = labels[row] as usize;
            let mut z = std::mem::take(&mut work.z);
            z.clear();
            z.extend_from_slice(data.row(row));
            self.fill(
                params,
                cluster,
                &mut z,
                &data.missing[row],
                &mut work,
                Some(rng),
            );
            pool[cluster].add_vector(&z, 1.0);
            work.z = z;
        }
        self.redraw(params, pool, rng);
    }

    fn ln_likelihoods(
        &self,
        data: &FullNormalData,
        params: &FullNormalParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        let mut work = Work::default();
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            if !self.is_observed(data, row) {
                out.fill(0.0);
            } else if data.is_partial(row) {
                let mut z = std::mem::take(&mut work.z);
                for (k, out) in out.iter_mut().enumerate() {
                    z.clear();
                    z.extend_from_slice(data.row(row));
                    let ln = self.fill(params, k, &mut z, &data.missing[row], &mut work, None);
                    *out = data.units[row] + ln;
                }
                work.z = z;
            } else {
                let densities = Densities {
                    rows: self.rows(),
                    table: &params.table,
                    z: data.row(row),
                    units: data.units[row],
                    out,
                };
                pulp::Arch::new().dispatch(densities);
            }
        }
    }

    fn is_collapsed(&self, data: &FullNormalData) -> bool {
        (0..data.missing.len()).all(|row| !data.is_partial(row))
    }

    fn no_stats(&self) -> FullNormalStats {
        FullNormalStats {
            n: 0,
            units: 0.0,
            sum: vec![0.0; self.d()],
            products: vec![0.0; self.rows().triangle()],
        }
    }

    fn clear(&self, stats: &mut FullNormalStats) {
        stats.n = 0;
        stats.units = 0.0;
        stats.sum.fill(0.0);
        stats.products.fill(0.0);
    }

    /// Of an incomplete vector only the number is counted here; `update` adds it when it has been completed.
    fn add(&self, stats: &mut FullNormalStats, data: &FullNormalData, row: usize) {
        stats.n += 1;
        if !data.is_partial(row) {
            stats.units += data.units[row];
            stats.add_vector(data.row(row), 1.0);
        }
    }

    fn remove(&self, stats: &mut FullNormalStats, data: &FullNormalData, row: usize) {
        if stats.n == 1 {
            // No rounding is left behind.
            return self.clear(stats);
        }
        stats.n -= 1;
        stats.units -= data.units[row];
        stats.add_vector(data.row(row), -1.0);
    }

    fn merge(&self, stats: &mut FullNormalStats, other: &FullNormalStats) {
        stats.n += other.n;
        stats.units += other.units;
        stats
            .sum
            .iter_mut()
            .zip(&other.sum)
            .for_each(|(s, o)| *s += o);
        let products = stats.products.iter_mut().zip(&other.products);
        products.for_each(|(s, o)| *s += o);
    }

    fn ln_evidence(&self, params: &FullNormalParams, stats: &FullNormalStats) -> f64 {
        let (d, n) = (self.d(), stats.n as f64);
        let posterior = self.posterior(params, stats);
        let Ok(factor) = Cholesky::new(posterior.inverse_scale.as_ref()) else {
            return f64::NEG_INFINITY;
        };
        let of_gamma = ln_multivariate_gamma(d, 0.5 * posterior.df)
            - ln_multivariate_gamma(d, 0.5 * self.df());
        let of_mean = -0.5 * d as f64 * (n / params.strength).ln_1p();
        let prior = 0.5 * self.df() * d as f64 * rate(params.rate).ln();
        stats.units + of_gamma + of_mean + prior
            - 0.5 * posterior.df * factor.ln_det()
            - 0.5 * n * d as f64 * std::f64::consts::PI.ln()
    }

    fn draw(
        &self,
        params: &mut FullNormalParams,
        cluster: usize,
        stats: &FullNormalStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let posterior = self.posterior(params, stats);
        let law = Wishart::from_inverse_scale(posterior.inverse_scale.as_ref(), posterior.df);
        // Numbers beyond the range of f64 leave the old value; the limit on z keeps them out.
        let Ok(law) = law else { return };
        let l = law.sample_factor(rng);
        let d = self.d();
        let mut mean: Vec<f64> = (0..d).map(|_| standard(rng)).collect();
        for j in (0..d).rev() {
            let below: f64 = (j + 1..d).map(|i| l[(i, j)] * mean[i]).sum();
            mean[j] = (mean[j] - below) / l[(j, j)];
        }
        let sd = posterior.strength.sqrt().recip();
        mean.iter_mut()
            .zip(&posterior.mean)
            .for_each(|(x, m)| *x = m + sd * *x);
        self.set(params, cluster, &mean, &l);
    }

    fn expected(
        &self,
        params: &FullNormalParams,
        cluster: usize,
        data: &FullNormalData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        self.whole(params, cluster, data, row, ignore_observed, None, out);
    }

    fn complete(
        &self,
        params: &FullNormalParams,
        cluster: usize,
        data: &FullNormalData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    ) {
        self.whole(params, cluster, data, row, ignore_observed, Some(rng), out);
    }

    fn simulate(
        &self,
        params: &FullNormalParams,
        labels: &[u32],
        data: &mut FullNormalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let all: Vec<usize> = (0..self.d()).collect();
        let mut work = Work::default();
        let mut z = vec![0.0; self.d()];
        for (row, &label) in labels.iter().enumerate() {
            self.fill(params, label as usize, &mut z, &all, &mut work, Some(rng));
            for (j, &z) in z.iter().enumerate() {
                let at = row * data.d + j;
                if !data.z[at].is_nan() {
                    (data.z[at], data.given[at]) = (z, self.in_units(j, z));
                }
            }
        }
    }

    fn check(&self, params: &FullNormalParams) -> Result<(), String> {
        let coordinates = self
            .centres
            .iter()
            .copied()
            .zip(self.scales.iter().copied());
        let coordinates: Vec<(f64, f64)> = coordinates.collect();
        let same = Self::new(&coordinates).is_ok_and(|k| k == *self);
        if !same {
            return Err("vector: centres or scales".to_owned());
        }
        let means = params.mean.len() == self.d() && params.mean.iter().all(|m| m.is_finite());
        if !means || !positive(params.strength) || params.rate >= RATES {
            return Err("vector: hyperparameters".to_owned());
        }
        let (d, rows) = (self.d(), self.rows());
        params
            .table
            .check("vector", rows.n(), |_, x| x.is_finite())?;
        let mut fresh = params.clone();
        for k in 0..params.table.n_clusters() {
            let at = |i: usize, j: usize| {
                if i >= j {
                    params.table.get(rows.factor(i, j), k)
                } else {
                    0.0
                }
            };
            let l = Mat::from_fn(d, d, at);
            if (0..d).any(|j| !positive(l[(j, j)])) {
                return Err(format!("vector: precision of cluster {k}"));
            }
            self.set(&mut fresh, k, &params.mean(k), &l);
            for row in 0..rows.n() {
                let (a, b) = (fresh.table.get(row, k), params.table.get(row, k));
                if (a - b).abs() > 1e-9 * (1.0 + a.abs()) {
                    return Err(format!("vector: cluster {k}"));
                }
            }
        }
        Ok(())
    }
}

impl Hierarchical for FullNormal {
    /// Draws m, s and b given the clusters with cells.
    fn move_hyperparameters(
        &self,
        params: &mut FullNormalParams,
        pool: &[FullNormalStats],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (d, rows) = (self.d(), self.rows());
        let occupied: Vec<usize> = (0..params.table.n_clusters())
            .filter(|&k| pool[k].n > 0)
            .collect();
        let n = occupied.len() as f64;
        let (table, s) = (&params.table, params.strength);
        let of_pair = |i: usize, j: usize| {
            let precisions = occupied.iter().map(|&k| table.get(rows.precision(i, j), k));
            s * precisions.sum::<f64>() + f64::from(u8::from(i == j))
        };
        let precision = Mat::from_fn(d, d, of_pair);
        let pull = |i: usize| -> f64 {
            let of_cluster = |&k: &usize| -> f64 {
                let terms =
                    (0..d).map(|j| table.get(rows.precision(i, j), k) * table.get(rows.mean(j), k));
                terms.sum()
            };
            s * occupied.iter().map(of_cluster).sum::<f64>()
        };
        let mut mean: Vec<f64> = (0..d).map(pull).collect();
        if let Ok(factor) = Cholesky::new(precision.as_ref()) {
            factor.sample_canonical(&mut mean, rng);
            params.mean = mean;
        }
        let table = &params.table;
        let length = |&k: &usize| -> f64 {
            let entry = |j: usize| -> f64 {
                let terms = (j..d).map(|i| {
                    table.get(rows.factor(i, j), k) * (table.get(rows.mean(i), k) - params.mean[i])
                });
                terms.sum()
            };
            (0..d).map(|j| entry(j).powi(2)).sum()
        };
        let lengths: f64 = occupied.iter().map(length).sum();
        let trace = |&k: &usize| {
            (0..d)
                .map(|j| table.get(rows.precision(j, j), k))
                .sum::<f64>()
        };
        let traces: f64 = occupied.iter().map(trace).sum();
        let shape = STRENGTH.0 + 0.5 * n * d as f64;
        params.strength = positive_gamma(shape, STRENGTH.1 + 0.5 * lengths, rng);
        let mut weights: [f64; RATES] = std::array::from_fn(|g| {
            0.5 * n * d as f64 * self.df() * rate(g).ln() - 0.5 * rate(g) * traces
        });
        params.rate = pick_ln(&mut weights, rng);
    }

    fn has_cells(&self, stats: &FullNormalStats) -> bool {
        stats.n > 0
    }
}

impl FullNormal {
    /// All coordinates of a row: observed ones as they are, the others expected or drawn.
    #[allow(clippy::too_many_arguments)] // as `Kernel::complete`
    fn whole(
        &self,
        params: &FullNormalParams,
        cluster: usize,
        data: &FullNormalData,
        row: usize,
        ignore_observed: bool,
        rng: Option<&mut Xoshiro256PlusPlus>,
        out: &mut Vec<f64>,
    ) {
        let all: Vec<usize> = (0..self.d()).collect();
        let missing = if ignore_observed {
            &all
        } else {
            &data.missing[row]
        };
        out.clear();
        out.extend_from_slice(data.row(row));
        self.fill(params, cluster, out, missing, &mut Work::default(), rng);
        for (j, out) in out.iter_mut().enumerate() {
            let given = seen(data.given[row * data.d + j]).filter(|_| !ignore_observed);
            *out = given.unwrap_or_else(|| self.in_units(j, *out));
        }
    }
}

/// A complete vector in all clusters.
struct Densities<'a> {
    rows: Rows,
    table: &'a ClusterTable,
    z: &'a [f64],
    units: f64,
    out: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Densities<'_> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        let n = self.out.len();
        let whole = n - n % 4;
        (0..whole).step_by(4).for_each(|k| self.some::<4>(k));
        (whole..n).for_each(|k| self.some::<1>(k));
    }
}

impl Densities<'_> {
    /// Clusters k, k + 1, ..., k + N − 1 side by side.
    #[inline(always)]
    fn some<const N: usize>(&mut self, k: usize) {
        let (n, rows) = (self.out.len(), self.rows);
        let mut squares = [0.0; N];
        for j in 0..rows.d {
            let turned = &self.table.row(rows.turned(j), n)[k..k + N];
            let mut entry = [0.0; N];
            for i in j..rows.d {
                let factor = &self.table.row(rows.factor(i, j), n)[k..k + N];
                for lane in 0..N {
                    entry[lane] += factor[lane] * self.z[i];
                }
            }
            for lane in 0..N {
                let e = entry[lane] - turned[lane];
                squares[lane] += e * e;
            }
        }
        let constants = &self.table.row(rows.constant(), n)[k..k + N];
        for lane in 0..N {
            self.out[k + lane] = self.units + constants[lane] - 0.5 * squares[lane];
        }
    }
}
