//! Curves on a grid of points.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::special::{LN_SQRT_2PI, ln_gamma};
use serde::{Deserialize, Serialize};

use super::support::{
    CellError, ClusterTable, Hierarchical, check_lengths, clusters_in, positive_gamma, seen,
    setting, standard,
};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::positive;

/// The basis in which the mean curves of clusters are expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wavelet {
    /// Steps: each wavelet is constant on the two halves of an interval. Any number of points.
    Haar,
    /// Daubechies' wavelet with four coefficients, continued periodically. A power of two of points, at least 4.
    Daubechies4,
}

/// Functional data: z_t = f_k(t) + e_t at T points in cluster k, e_t ~ N(0, 1/λ_k), z = (y − centre)/scale, and
/// f_k = Σ_w θ_kw ψ_w in an orthonormal wavelet basis.
///
/// θ_kw ~ N(0, v_l/λ_k) for the wavelets w of level l, λ_k ~ Gamma(2, 1/2); the v_l ~ InverseGamma(1, 1), learned, say how
/// rough curves are at each scale. Any point of a curve may be missing: it drops out of the likelihood, exactly. When no curve is
/// incomplete (a wholly missing one may be), all parameters of a cluster can be integrated out; otherwise `update` draws the missing points first.
/// The basis has T functions, so that any curve can be approached; small v_l keep it smooth.
///
/// Cost of a likelihood: T multiplications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Curve {
    wavelet: Wavelet,
    n_points: usize,
    centre: f64,
    scale: f64,
    /// Level of every wavelet; the last wavelets are the finest.
    levels: Vec<usize>,
    /// Orthonormal, one row of T values per wavelet.
    basis: Vec<f64>,
}

/// What is stored of a [`Curve`]: the basis follows.
#[derive(Serialize, Deserialize)]
struct Wire {
    wavelet: Wavelet,
    n_points: usize,
    centre: f64,
    scale: f64,
}

/// Cells of curves.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveData {
    n_points: usize,
    /// As they were given, row by row, NaN where missing.
    given: Vec<f64>,
    /// z, row by row, NaN where missing.
    z: Vec<f64>,
    n_observed: Vec<usize>,
    /// −ln scale.
    unit: f64,
}

/// Hyperparameters, curves and precisions of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveParams {
    /// v_l.
    roughness: Vec<f64>,
    /// Row t: f(t), then θ_w, then λ.
    table: ClusterTable,
}

/// How many curves, their sum point by point, and the sum of all squares.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveStats {
    n: u64,
    sum: Vec<f64>,
    squares: f64,
    units: f64,
}

/// Shape and rate of λ.
const PRECISION: (f64, f64) = (2.0, 0.5);
/// Shape and rate of 1/v.
const ROUGHNESS: (f64, f64) = (1.0, 1.0);
/// More points take too much memory for a basis.
const MAX_POINTS: usize = 4096;
/// Values stay within this many scales.
const LIMIT: f64 = 1e100;

/// Steps on intervals halved again and again; the first function is constant. Levels count halvings.
fn haar(n: usize) -> (Vec<usize>, Vec<f64>) {
    let mut levels = vec![0];
    let mut basis = vec![(n as f64).sqrt().recip(); n];
    let mut intervals = vec![(0, n)];
    let mut level = 1;
    while !intervals.is_empty() {
        let mut halves = Vec::new();
        for (from, to) in intervals.into_iter().filter(|(from, to)| to - from > 1) {
            let middle = from + (to - from).div_ceil(2);
            let (left, right) = ((middle - from) as f64, (to - middle) as f64);
            let heights = (
                (right / left / (left + right)).sqrt(),
                (left / right / (left + right)).sqrt(),
            );
            let mut row = vec![0.0; n];
            row[from..middle].fill(heights.0);
            row[middle..to].fill(-heights.1);
            levels.push(level);
            basis.extend(row);
            halves.extend([(from, middle), (middle, to)]);
        }
        intervals = halves;
        level += 1;
    }
    (levels, basis)
}

/// The periodic transform of Daubechies (Communications on Pure and Applied Mathematics 41, 1988) with four coefficients, applied to unit
/// vectors of wavelet space.
fn daubechies4(n: usize) -> (Vec<usize>, Vec<f64>) {
    let root = 3f64.sqrt();
    let norm = (4.0 * 2f64.sqrt()).recip();
    let low = [1.0 + root, 3.0 + root, 3.0 - root, 1.0 - root].map(|h| h * norm);
    let high = [low[3], -low[2], low[1], -low[0]];
    // One step back: coarse and fine halves to values.
    let merge = |halves: &[f64]| {
        let half = halves.len() / 2;
        let mut values = vec![0.0; halves.len()];
        for i in 0..half {
            for k in 0..4 {
                let at = (2 * i + k) % halves.len();
                values[at] += low[k] * halves[i] + high[k] * halves[half + i];
            }
        }
        values
    };
    let level = |w: usize| (w / 2).checked_ilog2().map_or(0, |l| l as usize + 1);
    let mut basis = Vec::with_capacity(n * n);
    for w in 0..n {
        // The coarsest two functions are the values of the coarsest level; a length below 4 cannot be split.
        let mut values = vec![0.0; 2];
        if w < 2 {
            values[w] = 1.0;
        }
        while values.len() < n {
            let mut halves = values.clone();
            halves.resize(2 * values.len(), 0.0);
            if (values.len()..2 * values.len()).contains(&w) {
                halves[w] = 1.0;
            }
            values = merge(&halves);
        }
        basis.extend(values);
    }
    ((0..n).map(level).collect(), basis)
}

impl Curve {
    /// `n_points`: T, from 1 to 4096 (Daubechies: a power of two from 4); `centre`, `scale`: of the values (mean and standard
    /// deviation over all curves, as a rule), the scale between 1e-150 and 1e150.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(
        wavelet: Wavelet,
        n_points: usize,
        centre: f64,
        scale: f64,
    ) -> Result<Self, CellError> {
        let n = n_points as f64;
        setting(
            "n_points",
            n,
            (1..=MAX_POINTS).contains(&n_points),
            "from 1 to 4096",
        )?;
        let dyadic = n_points >= 4 && n_points.is_power_of_two();
        let fits = wavelet == Wavelet::Haar || dyadic;
        setting(
            "n_points",
            n,
            fits,
            "a power of two from 4 for Daubechies' wavelet",
        )?;
        setting("centre", centre, centre.is_finite(), "finite")?;
        let fits = (1e-150..=1e150).contains(&scale);
        setting("scale", scale, fits, "between 1e-150 and 1e150")?;
        let (levels, basis) = match wavelet {
            Wavelet::Haar => haar(n_points),
            Wavelet::Daubechies4 => daubechies4(n_points),
        };
        Ok(Self {
            wavelet,
            n_points,
            centre,
            scale,
            levels,
            basis,
        })
    }

    fn n_levels(&self) -> usize {
        self.levels.iter().max().map_or(0, |l| l + 1)
    }

    fn in_units(&self, z: f64) -> f64 {
        self.centre + self.scale * z
    }

    fn wavelet_at(&self, w: usize) -> &[f64] {
        &self.basis[w * self.n_points..][..self.n_points]
    }

    /// Coefficients of a curve.
    fn coefficients(&self, curve: &[f64]) -> Vec<f64> {
        let dot = |w: usize| {
            self.wavelet_at(w)
                .iter()
                .zip(curve)
                .map(|(b, x)| b * x)
                .sum()
        };
        (0..self.n_points).map(dot).collect()
    }

    /// Posterior of a cluster: shape and rate of λ, then means and variances (over 1/λ) of the coefficients.
    fn posterior(&self, params: &CurveParams, stats: &CurveStats) -> Posterior {
        let n = stats.n as f64;
        let sums = self.coefficients(&stats.sum);
        let mut explained = 0.0;
        let mut ln_shrunk = 0.0;
        let mut coefficients = Vec::with_capacity(sums.len());
        for (sum, &level) in sums.iter().zip(&self.levels) {
            let v = params.roughness[level];
            let variance = v / (1.0 + n * v);
            explained += variance * sum * sum;
            ln_shrunk -= 0.5 * (n * v).ln_1p();
            coefficients.push((variance * sum, variance));
        }
        let points = n * self.n_points as f64;
        Posterior {
            shape: PRECISION.0 + 0.5 * points,
            rate: PRECISION.1 + 0.5 * (stats.squares - explained).max(0.0),
            ln_shrunk,
            points,
            coefficients,
        }
    }

    fn set(&self, params: &mut CurveParams, cluster: usize, theta: &[f64], lambda: f64) {
        let mut curve = vec![0.0; self.n_points];
        for (w, &c) in theta.iter().enumerate() {
            let values = curve.iter_mut().zip(self.wavelet_at(w));
            values.for_each(|(f, b)| *f += c * b);
            params.table.set(self.n_points + w, cluster, c);
        }
        for (t, f) in curve.into_iter().enumerate() {
            params.table.set(t, cluster, f);
        }
        params.table.set(2 * self.n_points, cluster, lambda);
    }

    /// A point of a row: expected, or drawn.
    fn point(
        &self,
        params: &CurveParams,
        cluster: usize,
        t: usize,
        rng: Option<&mut Xoshiro256PlusPlus>,
    ) -> f64 {
        let sd = params.precision(cluster).sqrt().recip();
        let noise = rng.map_or(0.0, |rng| sd * standard(rng));
        (params.table.get(t, cluster) + noise).clamp(-LIMIT, LIMIT)
    }

    /// All points of a row: observed ones as they are, the others expected or drawn.
    #[allow(clippy::too_many_arguments)] // as `Kernel::complete`
    fn whole(
        &self,
        params: &CurveParams,
        cluster: usize,
        data: &CurveData,
        row: usize,
        ignore_observed: bool,
        mut rng: Option<&mut Xoshiro256PlusPlus>,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        for (t, &given) in data.given[row * self.n_points..][..self.n_points]
            .iter()
            .enumerate()
        {
            let given = seen(given).filter(|_| !ignore_observed);
            let filled = |rng| self.in_units(self.point(params, cluster, t, rng));
            out.push(given.unwrap_or_else(|| filled(rng.as_deref_mut())));
        }
    }
}

struct Posterior {
    shape: f64,
    rate: f64,
    /// −Σ ln(1 + n v)/2.
    ln_shrunk: f64,
    /// Number of values.
    points: f64,
    coefficients: Vec<(f64, f64)>,
}

impl TryFrom<Wire> for Curve {
    type Error = CellError;

    fn try_from(wire: Wire) -> Result<Self, CellError> {
        Self::new(wire.wavelet, wire.n_points, wire.centre, wire.scale)
    }
}

impl From<Curve> for Wire {
    fn from(kernel: Curve) -> Self {
        Wire {
            wavelet: kernel.wavelet,
            n_points: kernel.n_points,
            centre: kernel.centre,
            scale: kernel.scale,
        }
    }
}

impl CurveData {
    /// `rows`: T values each, finite and within 1e100 scales of the centre, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Parts`] and [`CellError::Value`] naming the row.
    pub fn new(kernel: &Curve, rows: &[Vec<Option<f64>>]) -> Result<Self, CellError> {
        let n_points = kernel.n_points;
        let mut given = Vec::with_capacity(rows.len() * n_points);
        let mut z = Vec::with_capacity(rows.len() * n_points);
        check_lengths(rows, n_points)?;
        for (row, values) in rows.iter().enumerate() {
            for (part, value) in values.iter().enumerate() {
                given.push(value.unwrap_or(f64::NAN));
                let Some(value) = *value else {
                    z.push(f64::NAN);
                    continue;
                };
                let scaled = (value - kernel.centre) / kernel.scale;
                if scaled.is_nan() || scaled.abs() > LIMIT {
                    return Err(CellError::Value {
                        row,
                        part,
                        value,
                        needed: "a finite number within 1e100 scales of the centre",
                    });
                }
                z.push(scaled);
            }
        }
        let mut data = Self {
            n_points,
            given,
            z,
            n_observed: vec![0; rows.len()],
            unit: -kernel.scale.ln(),
        };
        (0..rows.len()).for_each(|row| data.refresh(row));
        Ok(data)
    }

    /// z of a row, NaN where missing.
    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.z[row * self.n_points..][..self.n_points]
    }

    fn is_partial(&self, row: usize) -> bool {
        (1..self.n_points).contains(&self.n_observed[row])
    }

    fn refresh(&mut self, row: usize) {
        self.n_observed[row] = self.row(row).iter().filter(|z| !z.is_nan()).count();
    }
}

impl CurveStats {
    fn add_curve(&mut self, z: &[f64], sign: f64) {
        self.sum.iter_mut().zip(z).for_each(|(s, z)| *s += sign * z);
        self.squares += sign * z.iter().map(|z| z * z).sum::<f64>();
    }
}

impl CurveParams {
    /// The mean curve of a cluster, in units of the scale about the centre.
    pub fn curve(&self, cluster: usize) -> Vec<f64> {
        let n = (self.table.n_rows() - 1) / 2;
        (0..n).map(|t| self.table.get(t, cluster)).collect()
    }

    /// λ of a cluster, in inverse squared scales.
    pub fn precision(&self, cluster: usize) -> f64 {
        self.table.get(self.table.n_rows() - 1, cluster)
    }
}

clusters_in!(CurveParams: table);

impl Kernel for Curve {
    type Data = CurveData;
    type Params = CurveParams;
    type Stats = CurveStats;

    const COUPLED: bool = false;

    fn n_rows(&self, data: &CurveData) -> usize {
        data.n_observed.len()
    }

    fn is_observed(&self, data: &CurveData, row: usize) -> bool {
        data.n_observed[row] > 0
    }

    fn n_parts(&self, _: &CurveData, _: usize) -> usize {
        self.n_points
    }

    fn part(&self, data: &CurveData, row: usize, part: usize) -> CellPart {
        seen(data.given[row * data.n_points + part]).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> CurveParams {
        let v = |_| positive_gamma(ROUGHNESS.0, ROUGHNESS.1, rng).recip();
        CurveParams {
            roughness: (0..self.n_levels()).map(v).collect(),
            table: ClusterTable::new(2 * self.n_points + 1),
        }
    }

    fn update(
        &self,
        data: &CurveData,
        labels: &[u32],
        params: &mut CurveParams,
        pool: &mut Vec<CurveStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        let mut z = Vec::new();
        for row in (0..labels.len()).filter(|&row| data.is_partial(row)) {
            let cluster = labels[row] as usize;
            z.clear();
            for (t, &value) in data.row(row).iter().enumerate() {
                z.push(match value.is_nan() {
                    true => self.point(params, cluster, t, Some(rng)),
                    false => value,
                });
            }
            pool[cluster].add_curve(&z, 1.0);
        }
        self.redraw(params, pool, rng);
    }

    fn ln_likelihoods(
        &self,
        data: &CurveData,
        params: &CurveParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        let precisions = params.table.row(2 * self.n_points, n_clusters);
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            out.fill(0.0);
            let n = data.n_observed[row] as f64;
            if n == 0.0 {
                continue;
            }
            for (t, &z) in data
                .row(row)
                .iter()
                .enumerate()
                .filter(|(_, z)| !z.is_nan())
            {
                let curves = params.table.row(t, n_clusters);
                out.iter_mut()
                    .zip(curves)
                    .for_each(|(o, f)| *o += (z - f) * (z - f));
            }
            for (o, lambda) in out.iter_mut().zip(precisions) {
                *o = n * (0.5 * lambda.ln() - LN_SQRT_2PI + data.unit) - 0.5 * lambda * *o;
            }
        }
    }

    fn is_collapsed(&self, data: &CurveData) -> bool {
        (0..data.n_observed.len()).all(|row| !data.is_partial(row))
    }

    fn no_stats(&self) -> CurveStats {
        CurveStats {
            n: 0,
            sum: vec![0.0; self.n_points],
            squares: 0.0,
            units: 0.0,
        }
    }

    fn clear(&self, stats: &mut CurveStats) {
        stats.n = 0;
        stats.sum.fill(0.0);
        stats.squares = 0.0;
        stats.units = 0.0;
    }

    /// Of an incomplete curve only the number is counted here; `update` adds it when it has been completed.
    fn add(&self, stats: &mut CurveStats, data: &CurveData, row: usize) {
        stats.n += 1;
        if !data.is_partial(row) {
            stats.add_curve(data.row(row), 1.0);
            stats.units += self.n_points as f64 * data.unit;
        }
    }

    fn merge(&self, stats: &mut CurveStats, other: &CurveStats) {
        stats.n += other.n;
        stats.squares += other.squares;
        stats.units += other.units;
        stats
            .sum
            .iter_mut()
            .zip(&other.sum)
            .for_each(|(s, o)| *s += o);
    }

    fn ln_evidence(&self, params: &CurveParams, stats: &CurveStats) -> f64 {
        let of = self.posterior(params, stats);
        stats.units + of.ln_shrunk + ln_gamma(of.shape) - ln_gamma(PRECISION.0)
            + PRECISION.0 * PRECISION.1.ln()
            - of.shape * of.rate.ln()
            - of.points * LN_SQRT_2PI
    }

    fn draw(
        &self,
        params: &mut CurveParams,
        cluster: usize,
        stats: &CurveStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let of = self.posterior(params, stats);
        let lambda = positive_gamma(of.shape, of.rate, rng);
        let theta = of.coefficients.iter().map(|(mean, variance)| {
            let drawn = mean + (variance / lambda).sqrt() * standard(rng);
            drawn.clamp(-LIMIT, LIMIT)
        });
        let theta: Vec<f64> = theta.collect();
        self.set(params, cluster, &theta, lambda);
    }

    fn expected(
        &self,
        params: &CurveParams,
        cluster: usize,
        data: &CurveData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        self.whole(params, cluster, data, row, ignore_observed, None, out);
    }

    fn complete(
        &self,
        params: &CurveParams,
        cluster: usize,
        data: &CurveData,
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
        params: &CurveParams,
        labels: &[u32],
        data: &mut CurveData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (row, &label) in labels.iter().enumerate() {
            for t in 0..self.n_points {
                let at = row * self.n_points + t;
                if !data.z[at].is_nan() {
                    let z = self.point(params, label as usize, t, Some(rng));
                    (data.z[at], data.given[at]) = (z, self.in_units(z));
                }
            }
            data.refresh(row);
        }
    }

    fn check(&self, params: &CurveParams) -> Result<(), String> {
        let n = self.n_points;
        let roughness = params.roughness.len() == self.n_levels();
        if !roughness || !params.roughness.iter().all(|&v| positive(v)) {
            return Err("curve hyperparameters".to_owned());
        }
        let range = |row: usize, x: f64| {
            if row == 2 * n {
                positive(x)
            } else {
                x.is_finite()
            }
        };
        params.table.check("curves", 2 * n + 1, range)?;
        for k in 0..params.table.n_clusters() {
            let found = self.coefficients(&params.curve(k));
            let size = found.iter().fold(1.0_f64, |m, c| m.max(c.abs()));
            for (w, found) in found.iter().enumerate() {
                let stored = params.table.get(n + w, k);
                if (found - stored).abs() > 1e-9 * size.max(stored.abs()) {
                    return Err(format!("curve of cluster {k}"));
                }
            }
        }
        Ok(())
    }
}

impl Hierarchical for Curve {
    /// Draws the v_l given the clusters with cells.
    fn move_hyperparameters(
        &self,
        params: &mut CurveParams,
        pool: &[CurveStats],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let mut shapes = vec![ROUGHNESS.0; self.n_levels()];
        let mut rates = vec![ROUGHNESS.1; self.n_levels()];
        for k in (0..params.table.n_clusters()).filter(|&k| pool[k].n > 0) {
            let lambda = params.table.get(2 * self.n_points, k);
            for (w, &level) in self.levels.iter().enumerate() {
                let theta = params.table.get(self.n_points + w, k);
                shapes[level] += 0.5;
                rates[level] += 0.5 * lambda * theta * theta;
            }
        }
        for (level, v) in params.roughness.iter_mut().enumerate() {
            *v = positive_gamma(shapes[level], rates[level], rng).recip();
        }
    }

    fn has_cells(&self, stats: &CurveStats) -> bool {
        stats.n > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_orthonormal() {
        let kinds = (1..=17).map(|n| (Wavelet::Haar, n));
        let kinds = kinds.chain([4, 8, 32].map(|n| (Wavelet::Daubechies4, n)));
        for (wavelet, n) in kinds {
            let kernel = Curve::new(wavelet, n, 0.0, 1.0).expect("valid");
            assert_eq!((kernel.levels.len(), kernel.basis.len()), (n, n * n));
            for a in 0..n {
                let products = kernel.coefficients(kernel.wavelet_at(a));
                for (b, p) in products.iter().enumerate() {
                    let expected = f64::from(u8::from(a == b));
                    assert!((p - expected).abs() < 1e-12, "{wavelet:?} {n}: {a} {b} {p}");
                }
            }
        }
    }

    /// The fine wavelets do not see constants, nor, away from the seam, straight lines.
    #[test]
    fn fine_wavelets_vanish_on_lines() {
        let kernel = Curve::new(Wavelet::Daubechies4, 32, 0.0, 1.0).expect("valid");
        let flat = kernel.coefficients(&[1.0; 32]);
        assert!(flat[2..].iter().all(|c| c.abs() < 1e-12), "{flat:?}");
        let line: Vec<f64> = (0..32).map(f64::from).collect();
        let zeros = kernel.coefficients(&line)[16..]
            .iter()
            .filter(|c| c.abs() < 1e-10)
            .count();
        assert!(zeros >= 15, "{zeros}");
    }
}
