//! Series in time.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::special::{LN_SQRT_2PI, ln_gamma, log_sum_exp};
use serde::{Deserialize, Serialize};

use super::banded_cholesky::BandedCholesky;
use super::support::{
    CellError, ClusterTable, clusters_in, draw_all, pick_ln, positive_gamma, seen, setting,
    standard,
};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::positive;

/// Autoregression: z_t = β₀ + φ₁ z_(t−1) + ... + φ_p z_(t−p) + e_t in cluster k, e_t ~ N(0, 1/λ), z = (y − centre)/scale.
///
/// A series has T times; any of them may be missing. Missing times at the end make it shorter, others are gaps: both are
/// integrated out exactly (gaps by a banded Gaussian system, O(p²) for each). The first p values are N(0, 1), the same in all
/// clusters. A cluster draws how smooth it is, h uniform on 0..9, then λ ~ Gamma(2, 2/4^h) and all coefficients
/// (β₀, φ) ~ N(0, 4^h/(4 λ)): innovations of a standard deviation near 2^−h and coefficients near 1/2 in size,
/// stationary or not. Without gaps all parameters can be integrated out; with gaps `update` draws the missing values first.
///
/// Cost of a likelihood: (p + 2)(p + 3)/2 multiplications, however long the series is; with gaps O(T p + p² gaps).
/// Values that an explosive draw would take beyond 1e100 scales are held there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    order: usize,
    n_times: usize,
    centre: f64,
    scale: f64,
}

/// Cells of series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesData {
    n_times: usize,
    order: usize,
    scale: f64,
    /// As they were given, row by row, NaN where missing.
    given: Vec<f64>,
    /// z, row by row, NaN where missing.
    z: Vec<f64>,
    summaries: Vec<Summary>,
    /// Moments of each row without gaps, packed, row by row.
    moments: Vec<f64>,
    n_gaps: usize,
}

/// What is known of a row beforehand.
#[derive(Clone, Debug, Default, PartialEq)]
struct Summary {
    /// Times up to the last observed one.
    length: usize,
    /// Missing times before it.
    gaps: Vec<usize>,
    /// ln density of the first values and of the change of units.
    start: f64,
}

/// Coefficients and precisions of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesParams {
    /// β₀, φ₁, ..., φ_p, λ.
    parameters: ClusterTable,
    /// What each moment of a row contributes to its ln likelihood.
    weights: ClusterTable,
}

/// Sums of the moments of series without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesStats {
    n: u64,
    start: f64,
    moments: Vec<f64>,
}

/// Values of h.
const SMOOTHNESS: usize = 9;
/// Shape of λ.
const SHAPE: f64 = 2.0;
const MAX_ORDER: usize = 8;
/// Values stay within this many scales.
const LIMIT: f64 = 1e100;

/// Entry (i, j), j <= i, of a packed lower triangle.
fn packed(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

/// Number of moments for an order: products of (1, z_(t-1), ..., z_(t-p), z_t).
fn n_moments(order: usize) -> usize {
    (order + 2) * (order + 3) / 2
}

/// Adds the moments of a series without gaps.
fn add_moments(order: usize, z: &[f64], out: &mut [f64]) {
    for t in order..z.len() {
        let at = |i: usize| match i {
            0 => 1.0,
            i if i <= order => z[t - i],
            _ => z[t],
        };
        for i in 0..order + 2 {
            for j in 0..=i {
                out[packed(i, j)] += at(i) * at(j);
            }
        }
    }
}

impl Series {
    /// `order`: p, from 1 to 8; `n_times`: T, at least 1; `centre`, `scale`: of the values (mean and standard deviation over all
    /// series, as a rule), the scale between 1e-150 and 1e150.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(order: usize, n_times: usize, centre: f64, scale: f64) -> Result<Self, CellError> {
        let orders = (1..=MAX_ORDER).contains(&order);
        setting("order", order as f64, orders, "from 1 to 8")?;
        setting("n_times", n_times as f64, n_times >= 1, "at least 1")?;
        setting("centre", centre, centre.is_finite(), "finite")?;
        let fits = (1e-150..=1e150).contains(&scale);
        setting("scale", scale, fits, "between 1e-150 and 1e150")?;
        Ok(Self {
            order,
            n_times,
            centre,
            scale,
        })
    }

    /// T.
    pub(crate) fn n_times(&self) -> usize {
        self.n_times
    }

    fn in_units(&self, z: f64) -> f64 {
        self.centre + self.scale * z
    }

    /// ln p(values | h) for every h, computed in the memory of `work`.
    fn ln_evidences(&self, stats: &SeriesStats, work: &mut Regression) -> [f64; SMOOTHNESS] {
        // SHAPE is 2: ln Γ(SHAPE) is 0.
        let ln_constant = ln_gamma(SHAPE + 0.5 * stats.moments[0]) - stats.moments[0] * LN_SQRT_2PI;
        std::array::from_fn(|h| self.regress(stats, h, work) + ln_constant)
    }

    /// The regression with one h; returns ln p(values | h) up to what does not depend on h.
    fn regress(&self, stats: &SeriesStats, h: usize, out: &mut Regression) -> f64 {
        let (d, n) = (self.order + 1, stats.moments[0]);
        let spread = 4f64.powi(h as i32);
        let ln_spread = h as f64 * 2.0 * std::f64::consts::LN_2;
        let Regression {
            shape,
            rate,
            factor,
            half_solved,
        } = out;
        factor.reset(d, d);
        for i in 0..d {
            (0..=i).for_each(|j| factor.add(i, j, stats.moments[packed(i, j)]));
            factor.add(i, i, 4.0 / spread);
        }
        factor.factor();
        half_solved.clear();
        half_solved.extend((0..d).map(|j| stats.moments[packed(d, j)]));
        factor.solve_lower(half_solved);
        let explained: f64 = half_solved.iter().map(|x| x * x).sum();
        let unexplained = (stats.moments[packed(d, d)] - explained).max(0.0);
        (*shape, *rate) = (SHAPE + 0.5 * n, SHAPE / spread + 0.5 * unexplained);
        let of_coefficients =
            0.5 * d as f64 * (2.0 * std::f64::consts::LN_2 - ln_spread) - factor.half_ln_det();
        of_coefficients + SHAPE * (SHAPE.ln() - ln_spread) - *shape * rate.ln()
    }

    fn set(&self, params: &mut SeriesParams, cluster: usize, coefficients: &[f64], lambda: f64) {
        let d = self.order + 1;
        for (i, &b) in coefficients.iter().enumerate() {
            params.parameters.set(i, cluster, b);
        }
        params.parameters.set(d, cluster, lambda);
        for i in 0..=d {
            for j in 0..=i {
                params
                    .weights
                    .set(packed(i, j), cluster, weight(coefficients, lambda, i, j));
            }
        }
    }

    fn read(&self, params: &SeriesParams, cluster: usize) -> Autoregression {
        let get = |i: usize| params.parameters.get(i, cluster);
        let mut coefficients = [0.0; MAX_ORDER + 1];
        (0..=self.order).for_each(|i| coefficients[i] = get(i));
        Autoregression {
            order: self.order,
            coefficients,
            lambda: get(self.order + 1),
        }
    }
}

/// −λ/2 w_i w_j for the vector w = (−β, 1), twice that off the diagonal; the count, entry (0, 0), also brings the constant.
fn weight(coefficients: &[f64], lambda: f64, i: usize, j: usize) -> f64 {
    let w = |i: usize| coefficients.get(i).map_or(1.0, |b| -b);
    let times = if i == j { -0.5 } else { -1.0 };
    let constant = if i == 0 {
        0.5 * lambda.ln() - LN_SQRT_2PI
    } else {
        0.0
    };
    times * lambda * w(i) * w(j) + constant
}

/// Posterior of one regression.
#[derive(Default)]
struct Regression {
    shape: f64,
    rate: f64,
    /// Of the posterior precision of the coefficients over λ.
    factor: BandedCholesky,
    /// L^-1 X'y.
    half_solved: Vec<f64>,
}

/// The law of one cluster.
struct Autoregression {
    order: usize,
    coefficients: [f64; MAX_ORDER + 1],
    lambda: f64,
}

impl Autoregression {
    /// E z_t given the values before.
    fn ahead(&self, z: &[f64], t: usize) -> f64 {
        if t < self.order {
            return 0.0;
        }
        let lags = (1..=self.order).map(|l| self.coefficients[l] * z[t - l]);
        (self.coefficients[0] + lags.sum::<f64>()).clamp(-LIMIT, LIMIT)
    }

    /// Fills z from time `from` on: expected values, or draws.
    fn go_on(&self, z: &mut [f64], from: usize, mut rng: Option<&mut Xoshiro256PlusPlus>) {
        for t in from..z.len() {
            let sd = if t < self.order {
                1.0
            } else {
                self.lambda.sqrt().recip()
            };
            let shock = rng.as_mut().map_or(0.0, |rng| sd * standard(*rng));
            z[t] = (self.ahead(z, t) + shock).clamp(-LIMIT, LIMIT);
        }
    }

    /// 1, −φ₁, ..., −φ_p.
    fn filter(&self, lag: usize) -> f64 {
        if lag == 0 {
            1.0
        } else {
            -self.coefficients[lag]
        }
    }

    /// Fills the gaps of z, observed up to its end, by conditional means or draws; returns ln p(observed values).
    fn fill(
        &self,
        z: &mut [f64],
        gaps: &[usize],
        work: &mut Work,
        rng: Option<&mut Xoshiro256PlusPlus>,
    ) -> f64 {
        let (p, length) = (self.order, z.len());
        gaps.iter().for_each(|&s| z[s] = 0.0);
        let innovation = |z: &[f64], t: usize| z[t] - self.ahead(z, t);
        // Minus the gradient, and the Hessian, of −ln p in the missing values, which are 0 here.
        work.band.reset(gaps.len(), p);
        work.b.clear();
        for (a, &s) in gaps.iter().enumerate() {
            let times = s.max(p)..(s + p + 1).min(length);
            let pull = times.map(|t| self.filter(t - s) * innovation(z, t));
            work.b.push(-self.lambda * pull.sum::<f64>());
            for (b, &r) in gaps[..=a].iter().enumerate().filter(|(_, r)| **r + p >= s) {
                let times = s.max(p)..(r + p + 1).min(length);
                let shared = times.map(|t| self.filter(t - s) * self.filter(t - r));
                let first = if a == b && s < p { 1.0 } else { 0.0 };
                work.band
                    .add(a, b, first + self.lambda * shared.sum::<f64>());
            }
        }
        let starts: f64 = z.iter().take(p).map(|x| x * x).sum();
        let squares: f64 = (p..length).map(|t| innovation(z, t).powi(2)).sum();
        work.band.factor();
        work.band.solve_lower(&mut work.b);
        let gained: f64 = work.b.iter().map(|x| x * x).sum();
        work.band.finish(&mut work.b, rng);
        gaps.iter()
            .zip(&work.b)
            .for_each(|(&s, x)| z[s] = x.clamp(-LIMIT, LIMIT));
        let innovations = length.saturating_sub(p) as f64;
        0.5 * (innovations * self.lambda.ln() + gained - starts - self.lambda * squares)
            - (length - gaps.len()) as f64 * LN_SQRT_2PI
            - work.band.half_ln_det()
    }
}

/// Memory for rows with gaps.
#[derive(Default)]
struct Work {
    band: BandedCholesky,
    b: Vec<f64>,
    z: Vec<f64>,
}

impl SeriesData {
    /// `rows`: the values of each series in the order of time, finite, `None` where missing; at most T of them.
    ///
    /// # Errors
    /// [`CellError::Parts`] for a series longer than T, [`CellError::Value`], naming the row.
    pub fn new(kernel: &Series, rows: &[Vec<Option<f64>>]) -> Result<Self, CellError> {
        let n_times = kernel.n_times;
        let mut given = vec![f64::NAN; rows.len() * n_times];
        let mut z = given.clone();
        for (row, values) in rows.iter().enumerate() {
            if values.len() > n_times {
                return Err(CellError::Parts {
                    row,
                    found: values.len(),
                    expected: n_times,
                });
            }
            for (part, value) in values.iter().enumerate() {
                let Some(value) = *value else { continue };
                let scaled = (value - kernel.centre) / kernel.scale;
                if scaled.is_nan() || scaled.abs() > LIMIT {
                    return Err(CellError::Value {
                        row,
                        part,
                        value,
                        needed: "a finite number within 1e100 scales of the centre",
                    });
                }
                let at = row * n_times + part;
                (given[at], z[at]) = (value, scaled);
            }
        }
        let mut data = Self {
            n_times,
            order: kernel.order,
            scale: kernel.scale,
            given,
            z,
            summaries: vec![Summary::default(); rows.len()],
            moments: vec![0.0; rows.len() * n_moments(kernel.order)],
            n_gaps: 0,
        };
        (0..rows.len()).for_each(|row| data.refresh(row));
        data.n_gaps = data.summaries.iter().map(|s| s.gaps.len()).sum();
        Ok(data)
    }

    fn series(&self, row: usize) -> &[f64] {
        &self.z[row * self.n_times..][..self.summaries[row].length]
    }

    fn moments(&self, row: usize) -> &[f64] {
        let n = n_moments(self.order);
        &self.moments[row * n..][..n]
    }

    /// Recomputes what is known of a row.
    fn refresh(&mut self, row: usize) {
        let z = &self.z[row * self.n_times..][..self.n_times];
        let length = z
            .iter()
            .rposition(|x| !x.is_nan())
            .map_or(0, |last| last + 1);
        let gaps: Vec<usize> = (0..length).filter(|&t| z[t].is_nan()).collect();
        let firsts = &z[..length.min(self.order)];
        let of_firsts: f64 = firsts.iter().map(|x| -0.5 * x * x - LN_SQRT_2PI).sum();
        let units = (length - gaps.len()) as f64 * self.scale.ln();
        let n = n_moments(self.order);
        let moments = &mut self.moments[row * n..][..n];
        moments.fill(0.0);
        let start = if gaps.is_empty() {
            add_moments(self.order, &z[..length], moments);
            of_firsts - units
        } else {
            -units
        };
        self.summaries[row] = Summary {
            length,
            gaps,
            start,
        };
    }
}

impl SeriesParams {
    /// β₀, φ₁, ..., φ_p of a cluster, for values in units of the scale about the centre.
    pub fn coefficients(&self, cluster: usize) -> Vec<f64> {
        let rows = 0..self.parameters.n_rows() - 1;
        rows.map(|i| self.parameters.get(i, cluster)).collect()
    }

    /// λ of a cluster, in inverse squared scales.
    pub fn precision(&self, cluster: usize) -> f64 {
        self.parameters.get(self.parameters.n_rows() - 1, cluster)
    }
}

clusters_in!(SeriesParams: parameters, weights);

impl Kernel for Series {
    type Data = SeriesData;
    type Params = SeriesParams;
    type Stats = SeriesStats;

    const COUPLED: bool = false;

    fn n_rows(&self, data: &SeriesData) -> usize {
        data.summaries.len()
    }

    fn is_observed(&self, data: &SeriesData, row: usize) -> bool {
        data.summaries[row].length > 0
    }

    fn n_parts(&self, _: &SeriesData, _: usize) -> usize {
        self.n_times
    }

    fn part(&self, data: &SeriesData, row: usize, part: usize) -> CellPart {
        seen(data.given[row * data.n_times + part]).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn initial(&self, _: &mut Xoshiro256PlusPlus) -> SeriesParams {
        SeriesParams {
            parameters: ClusterTable::new(self.order + 2),
            weights: ClusterTable::new(n_moments(self.order)),
        }
    }

    fn update(
        &self,
        data: &SeriesData,
        labels: &[u32],
        params: &mut SeriesParams,
        pool: &mut Vec<SeriesStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        let mut work = Work::default();
        for (row, summary) in data.summaries.iter().enumerate() {
            if summary.gaps.is_empty() {
                continue;
            }
            let cluster = labels[row] as usize;
            let mut z = std::mem::take(&mut work.z);
            z.clear();
            z.extend_from_slice(data.series(row));
            self.read(params, cluster)
                .fill(&mut z, &summary.gaps, &mut work, Some(rng));
            add_moments(self.order, &z, &mut pool[cluster].moments);
            work.z = z;
        }
        draw_all(self, params, pool, rng);
    }

    fn ln_likelihoods(
        &self,
        data: &SeriesData,
        params: &SeriesParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        let mut work = Work::default();
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            let summary = &data.summaries[row];
            if summary.length == 0 {
                out.fill(0.0);
            } else if summary.gaps.is_empty() {
                out.fill(summary.start);
                for (entry, m) in data.moments(row).iter().enumerate() {
                    let weights = params.weights.row(entry, n_clusters);
                    out.iter_mut().zip(weights).for_each(|(o, w)| *o += m * w);
                }
            } else {
                let mut z = std::mem::take(&mut work.z);
                for (k, out) in out.iter_mut().enumerate() {
                    z.clear();
                    z.extend_from_slice(data.series(row));
                    let law = self.read(params, k);
                    *out = summary.start + law.fill(&mut z, &summary.gaps, &mut work, None);
                }
                work.z = z;
            }
        }
    }

    fn is_collapsed(&self, data: &SeriesData) -> bool {
        data.n_gaps == 0
    }

    fn no_stats(&self) -> SeriesStats {
        SeriesStats {
            n: 0,
            start: 0.0,
            moments: vec![0.0; n_moments(self.order)],
        }
    }

    fn clear(&self, stats: &mut SeriesStats) {
        stats.n = 0;
        stats.start = 0.0;
        stats.moments.fill(0.0);
    }

    fn add(&self, stats: &mut SeriesStats, data: &SeriesData, row: usize) {
        stats.n += 1;
        stats.start += data.summaries[row].start;
        let moments = stats.moments.iter_mut().zip(data.moments(row));
        moments.for_each(|(s, m)| *s += m);
    }

    fn merge(&self, stats: &mut SeriesStats, other: &SeriesStats) {
        stats.n += other.n;
        stats.start += other.start;
        let moments = stats.moments.iter_mut().zip(&other.moments);
        moments.for_each(|(s, m)| *s += m);
    }

    fn ln_evidence(&self, _: &SeriesParams, stats: &SeriesStats) -> f64 {
        let evidences = self.ln_evidences(stats, &mut Regression::default());
        stats.start + log_sum_exp(&evidences) - (SMOOTHNESS as f64).ln()
    }

    fn draw(
        &self,
        params: &mut SeriesParams,
        cluster: usize,
        stats: &SeriesStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let mut law = Regression::default();
        let mut weights = self.ln_evidences(stats, &mut law);
        self.regress(stats, pick_ln(&mut weights, rng), &mut law);
        let lambda = positive_gamma(law.shape, law.rate, rng);
        let sd = lambda.sqrt().recip();
        let mut coefficients = law.half_solved;
        coefficients
            .iter_mut()
            .for_each(|x| *x += sd * standard(rng));
        law.factor.solve_upper(&mut coefficients);
        self.set(params, cluster, &coefficients, lambda);
    }

    fn expected(
        &self,
        params: &SeriesParams,
        cluster: usize,
        data: &SeriesData,
        row: usize,
        ignore_observed: bool,
        _: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        self.whole(params, cluster, data, row, ignore_observed, None, out);
    }

    fn complete(
        &self,
        params: &SeriesParams,
        cluster: usize,
        data: &SeriesData,
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
        params: &SeriesParams,
        labels: &[u32],
        data: &mut SeriesData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let mut z = Vec::new();
        for (row, &label) in labels.iter().enumerate() {
            z.clear();
            z.resize(data.summaries[row].length, 0.0);
            self.read(params, label as usize)
                .go_on(&mut z, 0, Some(rng));
            for (t, &z) in z.iter().enumerate() {
                let at = row * self.n_times + t;
                if !data.z[at].is_nan() {
                    (data.z[at], data.given[at]) = (z, self.in_units(z));
                }
            }
            data.refresh(row);
        }
    }

    fn check(&self, params: &SeriesParams) -> Result<(), String> {
        Self::new(self.order, self.n_times, self.centre, self.scale)
            .map_err(|e| format!("series: {e}"))?;
        let d = self.order + 1;
        let range = |row: usize, x: f64| if row == d { positive(x) } else { x.is_finite() };
        params.parameters.check("series parameters", d + 1, range)?;
        params
            .weights
            .check("series weights", n_moments(self.order), |_, x| {
                x.is_finite()
            })?;
        if params.parameters.n_clusters() != params.weights.n_clusters() {
            return Err("series: sizes do not agree".to_owned());
        }
        for k in 0..params.weights.n_clusters() {
            let (coefficients, lambda) = (params.coefficients(k), params.precision(k));
            for i in 0..=d {
                for j in 0..=i {
                    let expected = weight(&coefficients, lambda, i, j);
                    let found = params.weights.get(packed(i, j), k);
                    if (found - expected).abs() > 1e-9 * (1.0 + expected.abs()) {
                        return Err(format!("series weights of cluster {k}"));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Series {
    /// All times of a row: observed ones as they are, the others expected or drawn.
    #[allow(clippy::too_many_arguments)] // as `Kernel::complete`
    fn whole(
        &self,
        params: &SeriesParams,
        cluster: usize,
        data: &SeriesData,
        row: usize,
        ignore_observed: bool,
        mut rng: Option<&mut Xoshiro256PlusPlus>,
        out: &mut Vec<f64>,
    ) {
        let law = self.read(params, cluster);
        out.clear();
        if !ignore_observed {
            out.extend_from_slice(data.series(row));
            law.fill(
                out,
                &data.summaries[row].gaps,
                &mut Work::default(),
                rng.as_deref_mut(),
            );
        }
        let known = out.len();
        out.resize(self.n_times, 0.0);
        law.go_on(out, known, rng);
        for (t, out) in out.iter_mut().enumerate() {
            let given = seen(data.given[row * data.n_times + t]).filter(|_| !ignore_observed);
            *out = given.unwrap_or_else(|| self.in_units(*out));
        }
    }
}
