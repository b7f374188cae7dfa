//! Directions.

use std::f64::consts::TAU;
use std::ops::Range;
use std::sync::LazyLock;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::special::log_sum_exp;
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::support::{
    CellError, ClusterTable, check_values, clusters_in, draw_all, one_part, pick_ln, setting,
};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::positive;

/// p(x) = exp(κ cos(x − μ)) / (2π I₀(κ)) in cluster k (von Mises), angles x scaled to a circumference of 2π.
///
/// μ = μ_k is uniform and κ = κ_k is 0 or 2^(g/4) / 4, g = 0..60, uniformly: from no preferred direction to a
/// standard deviation of half a degree. With κ on a grid both can be integrated out (μ given κ is von Mises again).
/// The expected part is the mean direction; angles are returned in [0, period).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VonMises {
    period: f64,
}

/// Cells of a column of angles.
#[derive(Clone, Debug, PartialEq)]
pub struct VonMisesData {
    /// Cosine and sine; both 0 where missing.
    points: Vec<[f64; 2]>,
}

/// Directions and concentrations of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VonMisesParams {
    /// Rows: κ cos μ, κ sin μ, ln(period I₀(κ)), then `KAPPA` and `MU`.
    table: ClusterTable,
}

/// How many angles, and the sum of their points.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VonMisesStats {
    n: u64,
    sum: [f64; 2],
}

const KAPPA: usize = 3;
const MU: usize = 4;
const ROWS: usize = 5;
const KAPPAS: usize = 61;

fn kappa(g: usize) -> f64 {
    match g {
        0 => 0.0,
        g => 0.25 * 2f64.powf((g - 1) as f64 / 4.0),
    }
}

/// 1/k² for k = 1, 2, ...: enough terms of the series up to x = 30.
const INVERSE_SQUARES: [f64; 100] = {
    let mut inverse = [0.0; 100];
    let mut k = 0;
    while k < inverse.len() {
        inverse[k] = 1.0 / ((k + 1) * (k + 1)) as f64;
        k += 1;
    }
    inverse
};

/// κ and ln I₀(κ) on the grid.
static GRID: LazyLock<[(f64, f64); KAPPAS]> =
    LazyLock::new(|| std::array::from_fn(|g| (kappa(g), ln_i0(kappa(g)))));

/// ln I₀(x) for x >= 0, the modified Bessel function of order 0, to about 1e-15 relative to max(1, ln I₀).
fn ln_i0(x: f64) -> f64 {
    if x > 30.0 {
        // Asymptotic series; its smallest term is far below 1e-17 here.
        let (mut term, mut sum) = (1.0, 1.0);
        for k in 1..30 {
            let odd = f64::from(2 * k - 1);
            term *= odd * odd / (f64::from(8 * k) * x);
            sum += term;
            if term < 1e-17 {
                break;
            }
        }
        return x - 0.5 * (TAU * x).ln() + sum.ln();
    }
    let quarter = 0.25 * x * x;
    let (mut term, mut sum) = (1.0, 0.0);
    for inverse in INVERSE_SQUARES {
        term *= quarter * inverse;
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    sum.ln_1p()
}

/// Draws from the von Mises law by the rejection method of Best and Fisher (Applied Statistics 28, 1979).
fn sample<R: Rng + ?Sized>(mu: f64, kappa: f64, rng: &mut R) -> f64 {
    if kappa < 1e-8 {
        return TAU * rng.random::<f64>();
    }
    if kappa > 1e8 {
        // Normal to all digits.
        return mu + super::support::standard(rng) / kappa.sqrt();
    }
    let tau = 1.0 + (1.0 + 4.0 * kappa * kappa).sqrt();
    let rho = (tau - (2.0 * tau).sqrt()) / (2.0 * kappa);
    let r = (1.0 + rho * rho) / (2.0 * rho);
    loop {
        let z = (std::f64::consts::PI * rng.random::<f64>()).cos();
        let f = (1.0 + r * z) / (r + z);
        let c = kappa * (r - f);
        let u: f64 = rng.random();
        if c * (2.0 - c) - u > 0.0 || (c / u).ln() + 1.0 - c >= 0.0 {
            let side = if rng.random::<bool>() { 1.0 } else { -1.0 };
            return mu + side * f.clamp(-1.0, 1.0).acos();
        }
    }
}

impl VonMises {
    /// `period`: of the angles, finite and positive (360 for degrees, 24 for hours).
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(period: f64) -> Result<Self, CellError> {
        let fits = (1e-100..=1e100).contains(&period);
        setting("period", period, fits, "between 1e-100 and 1e100")?;
        Ok(Self { period })
    }

    /// The period of the angles.
    pub fn period(&self) -> f64 {
        self.period
    }

    /// ln p(angles, κ) for every κ, μ integrated out, without the uniform prior of κ.
    fn ln_evidences(&self, stats: &VonMisesStats) -> [f64; KAPPAS] {
        let length = stats.sum[0].hypot(stats.sum[1]);
        let n = stats.n as f64;
        let ln_period = self.period.ln();
        GRID.map(|(kappa, ln_i0_kappa)| ln_i0(kappa * length) - n * (ln_period + ln_i0_kappa))
    }

    /// From a circumference of 2π to [0, period).
    fn in_period(&self, x: f64) -> f64 {
        let turns = x / TAU;
        let share = turns - turns.floor();
        // A share just below 1 may round up.
        if share < 1.0 {
            share * self.period
        } else {
            0.0
        }
    }
}

impl VonMisesData {
    /// `angles`: any finite numbers in units of which `period` make a circle, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Value`] naming the row, [`CellError::Setting`].
    pub fn new(period: f64, angles: &[Option<f64>]) -> Result<Self, CellError> {
        VonMises::new(period)?;
        check_values(angles, f64::is_finite, "a finite angle")?;
        let point = |x: f64| {
            let (sin, cos) = (TAU * ((x % period) / period)).sin_cos();
            [cos, sin]
        };
        Ok(Self {
            points: angles.iter().map(|x| x.map_or([0.0; 2], point)).collect(),
        })
    }

    fn is_observed(&self, row: usize) -> bool {
        self.points[row] != [0.0; 2]
    }
}

impl VonMisesParams {
    /// Mean direction of a cluster, in radians from 0 to 2π.
    pub fn direction(&self, cluster: usize) -> f64 {
        self.table.get(MU, cluster)
    }

    /// κ of a cluster.
    pub fn concentration(&self, cluster: usize) -> f64 {
        self.table.get(KAPPA, cluster)
    }
}

clusters_in!(VonMisesParams: table);

impl Kernel for VonMises {
    type Data = VonMisesData;
    type Params = VonMisesParams;
    type Stats = VonMisesStats;

    const COUPLED: bool = false;

    one_part!(
        |kernel, params, cluster, out| out.push(kernel.in_period(params.direction(cluster))),
        |kernel, params, cluster, rng| kernel.in_period(params.sample(cluster, rng))
    );

    fn n_rows(&self, data: &VonMisesData) -> usize {
        data.points.len()
    }

    fn is_observed(&self, data: &VonMisesData, row: usize) -> bool {
        data.is_observed(row)
    }

    fn part(&self, data: &VonMisesData, row: usize, _: usize) -> CellPart {
        let angle = |[x, y]: [f64; 2]| self.in_period(y.atan2(x));
        data.is_observed(row)
            .then(|| angle(data.points[row]))
            .into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn initial(&self, _: &mut Xoshiro256PlusPlus) -> VonMisesParams {
        VonMisesParams {
            table: ClusterTable::new(ROWS),
        }
    }

    fn update(
        &self,
        data: &VonMisesData,
        labels: &[u32],
        params: &mut VonMisesParams,
        pool: &mut Vec<VonMisesStats>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        draw_all(self, params, pool, rng);
    }

    fn ln_likelihoods(
        &self,
        data: &VonMisesData,
        params: &VonMisesParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        let [cos, sin, ln_norm] =
            std::array::from_fn::<_, 3, _>(|r| params.table.row(r, n_clusters));
        for (row, out) in rows.zip(out.chunks_exact_mut(n_clusters)) {
            if !data.is_observed(row) {
                out.fill(0.0);
                continue;
            }
            let [x, y] = data.points[row];
            for k in 0..n_clusters {
                out[k] = cos[k] * x + sin[k] * y - ln_norm[k];
            }
        }
    }

    fn is_collapsed(&self, _: &VonMisesData) -> bool {
        true
    }

    fn no_stats(&self) -> VonMisesStats {
        VonMisesStats::default()
    }

    fn add(&self, stats: &mut VonMisesStats, data: &VonMisesData, row: usize) {
        stats.n += 1;
        stats.sum[0] += data.points[row][0];
        stats.sum[1] += data.points[row][1];
    }

    fn merge(&self, stats: &mut VonMisesStats, other: &VonMisesStats) {
        stats.n += other.n;
        stats.sum[0] += other.sum[0];
        stats.sum[1] += other.sum[1];
    }

    fn ln_evidence(&self, _: &VonMisesParams, stats: &VonMisesStats) -> f64 {
        log_sum_exp(&self.ln_evidences(stats)) - (KAPPAS as f64).ln()
    }

    fn draw(
        &self,
        params: &mut VonMisesParams,
        cluster: usize,
        stats: &VonMisesStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let kappa = kappa(pick_ln(&mut self.ln_evidences(stats), rng));
        let length = stats.sum[0].hypot(stats.sum[1]);
        let mu = sample(stats.sum[1].atan2(stats.sum[0]), kappa * length, rng).rem_euclid(TAU);
        let (sin, cos) = mu.sin_cos();
        let norm = self.period.ln() + ln_i0(kappa);
        for (row, value) in [kappa * cos, kappa * sin, norm, kappa, mu]
            .into_iter()
            .enumerate()
        {
            params.table.set(row, cluster, value);
        }
    }

    fn simulate(
        &self,
        params: &VonMisesParams,
        labels: &[u32],
        data: &mut VonMisesData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (row, &label) in labels.iter().enumerate() {
            if data.is_observed(row) {
                let (sin, cos) = params.sample(label as usize, rng).sin_cos();
                data.points[row] = [cos, sin];
            }
        }
    }

    fn check(&self, params: &VonMisesParams) -> Result<(), String> {
        Self::new(self.period).map_err(|e| format!("angles: {e}"))?;
        params.table.check("angles", ROWS, |_, x| x.is_finite())?;
        for k in 0..params.table.n_clusters() {
            let [cos, sin, norm, kappa, mu] = std::array::from_fn(|r| params.table.get(r, k));
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
            let fits = kappa == 0.0 || positive(kappa) && kappa < 1e5;
            if !(fits
                && near(cos, kappa * mu.cos())
                && near(sin, kappa * mu.sin())
                && near(norm, self.period.ln() + ln_i0(kappa)))
            {
                return Err(format!("angles: cluster {k}"));
            }
        }
        Ok(())
    }
}

impl VonMisesParams {
    fn sample(&self, cluster: usize, rng: &mut Xoshiro256PlusPlus) -> f64 {
        sample(self.direction(cluster), self.concentration(cluster), rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ln of the integral (1/2π) ∫ exp(x cos t) dt by the trapezoidal rule, which converges geometrically.
    fn by_quadrature(x: f64) -> f64 {
        let n = 4000;
        let terms: Vec<f64> = (0..n)
            .map(|i| x * (TAU * f64::from(i) / f64::from(n)).cos())
            .collect();
        log_sum_exp(&terms) - f64::from(n).ln()
    }

    #[test]
    fn bessel_function_agrees_with_its_integral() {
        for i in 0..400 {
            let x = 1e-3 * 1.04f64.powi(i);
            let (ours, theirs) = (ln_i0(x), by_quadrature(x));
            assert!(
                (ours - theirs).abs() < 2e-13 * (1.0 + theirs),
                "{x}: {ours} {theirs}"
            );
        }
        assert_eq!(ln_i0(0.0), 0.0);
        assert!((ln_i0(1e-8) - 2.5e-17).abs() < 1e-31);
        assert!((ln_i0(1e300) / 1e300 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn draws_have_the_right_resultant() {
        let mut rng = npb_infer::stream(1, [0; 4]);
        for kappa in [0.0, 0.3, 2.0, 50.0, 5000.0] {
            let n = 40_000;
            let mean = (0..n)
                .map(|_| (sample(1.0, kappa, &mut rng) - 1.0).cos())
                .sum::<f64>()
                / f64::from(n);
            // E cos(x - mu) = I1/I0, the derivative of ln I0.
            let h = 1e-4 * (1.0 + kappa);
            let exact = match kappa {
                0.0 => 0.0,
                k => (ln_i0(k + h) - ln_i0(k - h)) / (2.0 * h),
            };
            let spread = if kappa > 1.0 { 1.0 / kappa } else { 1.0 };
            assert!(
                (mean - exact).abs() < 4.5 * spread / f64::from(n).sqrt(),
                "{kappa}: {mean} {exact}"
            );
        }
    }
}
