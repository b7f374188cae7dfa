//! One real number.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::{Conjugate, NormalGamma, Reals, Statistics};
use npb_priors::special::{LN_SQRT_2PI, ln_gamma, ln_normalize};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::support::{
    CellError, Hierarchical, check_values, clusters_in, one_part, pick, positive_gamma, setting,
    standard,
};
use crate::kernel::{CellPart, Kernel, RowLabels};
use crate::numeric::positive;

/// x ~ N(μ_k, 1/λ_k) in cluster k, with μ_k ~ N(m, 1/(s λ_k)), λ_k ~ Gamma(2, b) and learned hyperparameters.
///
/// m ~ N(centre, scale²), s ~ Gamma(1, 2), and b is uniform on scale² 4^−g, g = 0..8: the prior mean b of a cluster's variance runs
/// from that of the whole column down to a standard deviation of 1/256 of it, but not to zero, so that repeated values do
/// no harm. Centre and scale are fixed numbers in the units of the column (mean and standard deviation, as a rule).
///
/// ```
/// use npb_itf::npb_infer::stream;
/// use npb_itf::kernels::{Normal, NormalData};
/// use npb_itf::{Kernel, RowLabels};
///
/// let kernel = Normal::new(10.0, 2.0).unwrap();
/// let data = NormalData::new(&[Some(9.5), None]).unwrap();
/// let mut rng = stream(1, [0; 4]);
/// let mut params = kernel.initial(&mut rng);
/// (0..4).for_each(|_| kernel.push_prior(&mut params, &mut rng));
/// let mut ln = [0.0; 8];
/// kernel.ln_likelihoods(&data, &params, 0..2, 4, RowLabels::NONE, &mut ln);
/// assert_eq!(ln[4..], [0.0; 4]); // row 1 is missing
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normal {
    centre: f64,
    scale: f64,
}

/// Cells of a real column.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalData {
    /// 0 where missing.
    values: Vec<f64>,
    observed: Vec<bool>,
}

/// Hyperparameters, means and precisions of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalParams {
    /// m.
    mean: f64,
    /// s.
    strength: f64,
    /// b.
    rate: f64,
    means: Vec<f64>,
    precisions: Vec<f64>,
    /// ln(λ/2π)/2.
    constants: Vec<f64>,
}

/// Shape of λ.
const SHAPE: f64 = 2.0;
/// Shape and rate of s.
const STRENGTH: (f64, f64) = (1.0, 2.0);
/// Values and means stay within this many scales.
const LIMIT: f64 = 1e100;
/// b is scale² 4^−g for g below this.
const RATES: usize = 9;

impl Normal {
    /// `centre`: finite; `scale`: between 1e-150 and 1e150, so that squares stay in range.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(centre: f64, scale: f64) -> Result<Self, CellError> {
        let fits = centre.is_finite() && (1e-150..=1e150).contains(&scale);
        let rule = "between 1e-150 and 1e150, with a finite centre";
        setting("scale", scale, fits, rule)?;
        Ok(Self { centre, scale })
    }

    /// Whether squares of these values stay in range.
    pub(super) fn check_values(&self, values: &[Option<f64>]) -> Result<(), CellError> {
        let near = |x: f64| ((x - self.centre) / self.scale).abs() <= LIMIT;
        check_values(values, near, "a number within 1e100 scales of the centre")
    }

    /// What numbers are measured from, and in which unit.
    pub fn coordinate(&self) -> (f64, f64) {
        (self.centre, self.scale)
    }

    fn rate(&self, g: usize) -> f64 {
        self.scale * self.scale * 0.25f64.powi(g as i32)
    }

    /// The prior of a cluster given the hyperparameters.
    fn law(&self, params: &NormalParams) -> NormalGamma {
        NormalGamma::new(params.mean, params.strength, SHAPE, params.rate)
            .expect("hyperparameters are finite and positive")
    }

    /// The law of a cluster's parameters given its cells; the prior's where numbers leave the range of f64.
    fn posterior(&self, params: &NormalParams, stats: &Reals) -> NormalGamma {
        let prior = self.law(params);
        prior.posterior(stats).unwrap_or(prior)
    }

    fn set(&self, params: &mut NormalParams, cluster: usize, (mean, precision): (f64, f64)) {
        params.means[cluster] = mean;
        params.precisions[cluster] = precision;
        params.constants[cluster] = 0.5 * precision.ln() - LN_SQRT_2PI;
    }
}

/// ln Γ(a + 1/2) − ln Γ(a), from 32 on by its asymptotic series, whose next term is below 1e-15.
fn ln_gamma_half_step(a: f64) -> f64 {
    if a < 32.0 {
        return ln_gamma(a + 0.5) - ln_gamma(a);
    }
    let r = a.recip();
    let r2 = r * r;
    0.5 * a.ln() - r * (0.125 - r2 * (1.0 / 192.0 - r2 * (1.0 / 640.0 - r2 * (17.0 / 14_336.0))))
}

impl NormalData {
    /// `values`: finite, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Value`] naming the row.
    pub fn new(values: &[Option<f64>]) -> Result<Self, CellError> {
        check_values(values, f64::is_finite, "a finite number")?;
        Ok(Self {
            values: values.iter().map(|x| x.unwrap_or(0.0)).collect(),
            observed: values.iter().map(Option::is_some).collect(),
        })
    }

    /// The value of a row, `None` where it is missing.
    pub fn value(&self, row: usize) -> Option<f64> {
        self.observed[row].then(|| self.values[row])
    }
}

impl NormalParams {
    /// Mean of a cluster.
    pub fn mean(&self, cluster: usize) -> f64 {
        self.means[cluster]
    }

    /// Precision of a cluster.
    pub fn precision(&self, cluster: usize) -> f64 {
        self.precisions[cluster]
    }
}

clusters_in!(NormalParams: means, precisions, constants);

impl Kernel for Normal {
    type Data = NormalData;
    type Params = NormalParams;
    type Stats = Reals;

    const COUPLED: bool = false;

    one_part!(
        |_kernel, params, cluster, out| out.push(params.means[cluster]),
        |_kernel, params, cluster, rng| params.cell(cluster, rng)
    );

    fn n_rows(&self, data: &NormalData) -> usize {
        data.values.len()
    }

    fn is_observed(&self, data: &NormalData, row: usize) -> bool {
        data.observed[row]
    }

    fn part(&self, data: &NormalData, row: usize, _: usize) -> CellPart {
        data.value(row).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        None
    }

    fn cell_key(&self, data: &NormalData, row: usize) -> Option<u64> {
        Some(data.value(row).map_or(u64::MAX, f64::to_bits))
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> NormalParams {
        let (shape, rate) = STRENGTH;
        NormalParams {
            mean: self.centre + self.scale * standard(rng),
            strength: positive_gamma(shape, rate, rng),
            rate: self.rate(rng.random_range(0..RATES)),
            means: Vec::new(),
            precisions: Vec::new(),
            constants: Vec::new(),
        }
    }

    fn update(
        &self,
        data: &NormalData,
        labels: &[u32],
        params: &mut NormalParams,
        pool: &mut Vec<Reals>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        self.redraw(params, pool, rng);
    }

    fn ln_likelihoods(
        &self,
        data: &NormalData,
        params: &NormalParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        pulp::Arch::new().dispatch(Densities {
            values: &data.values[rows.clone()],
            observed: &data.observed[rows],
            means: &params.means[..n_clusters],
            precisions: &params.precisions[..n_clusters],
            constants: &params.constants[..n_clusters],
            out,
        });
    }

    fn is_collapsed(&self, _: &NormalData) -> bool {
        true
    }

    fn no_stats(&self) -> Reals {
        Reals::default()
    }

    fn add(&self, stats: &mut Reals, data: &NormalData, row: usize) {
        stats.add(&data.values[row]);
    }

    fn merge(&self, stats: &mut Reals, other: &Reals) {
        stats.merge(other);
    }

    fn ln_evidence(&self, params: &NormalParams, stats: &Reals) -> f64 {
        let law = self.law(params);
        law.ln_evidence(stats).unwrap_or(f64::NEG_INFINITY)
    }

    fn ln_predictive(
        &self,
        params: &NormalParams,
        stats: &Reals,
        data: &NormalData,
        row: usize,
    ) -> f64 {
        // Student's t with 2a degrees of freedom, written out: this is asked once for every row and side of a split.
        let n = stats.n() as f64;
        let strength = params.strength + n;
        let d = stats.mean() - params.mean;
        let rate = params.rate
            + 0.5 * (stats.centred_square_sum() + params.strength * n / strength * d * d);
        let shape = SHAPE + 0.5 * n;
        let spread = 2.0 * rate * (1.0 + strength.recip());
        let e = data.values[row] - params.mean - n / strength * d;
        ln_gamma_half_step(shape)
            - 0.5 * (std::f64::consts::PI * spread).ln()
            - (shape + 0.5) * (e * e / spread).ln_1p()
    }

    fn draw(
        &self,
        params: &mut NormalParams,
        cluster: usize,
        stats: &Reals,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let drawn = self.posterior(params, stats).sample(rng);
        self.set(params, cluster, drawn);
    }

    fn simulate(
        &self,
        params: &NormalParams,
        labels: &[u32],
        data: &mut NormalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (row, &label) in labels.iter().enumerate() {
            if data.observed[row] {
                data.values[row] = params.cell(label as usize, rng);
            }
        }
    }

    fn check(&self, params: &NormalParams) -> Result<(), String> {
        let NormalParams {
            mean,
            strength,
            rate,
            means,
            precisions,
            constants,
        } = params;
        if Self::new(self.centre, self.scale).is_err() {
            return Err(format!(
                "normal scale {} or centre {}",
                self.scale, self.centre
            ));
        }
        // Squares and inverses are numbers.
        let within = |m: &f64| ((m - self.centre) / self.scale).abs() <= LIMIT;
        let usual = |p: &f64| (1e-100..=1e100).contains(&(p * self.scale * self.scale));
        if !within(mean) || !positive(*strength) || !positive(*rate) {
            return Err("normal hyperparameters".to_owned());
        }
        if means.len() != precisions.len() || means.len() != constants.len() {
            return Err("normal clusters: sizes do not agree".to_owned());
        }
        if !means.iter().all(within) || !precisions.iter().all(usual) {
            return Err("normal clusters: mean or precision".to_owned());
        }
        let agrees = |(p, c): (&f64, &f64)| (0.5 * p.ln() - LN_SQRT_2PI - c).abs() < 1e-9;
        if !precisions.iter().zip(constants).all(agrees) {
            return Err("normal clusters: constants".to_owned());
        }
        Ok(())
    }
}

impl Hierarchical for Normal {
    /// Draws m, s and b given means and precisions of the clusters with cells.
    fn move_hyperparameters(
        &self,
        params: &mut NormalParams,
        pool: &[Reals],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let clusters = params.means.iter().zip(&params.precisions).zip(pool);
        let occupied = clusters.filter(|(_, stats)| stats.n() > 0).map(|(c, _)| c);
        let (mut n, mut weight, mut weighted, mut precisions) = (0.0, 0.0, 0.0, 0.0);
        for (&mean, &precision) in occupied.clone() {
            n += 1.0;
            weight += params.strength * precision;
            weighted += params.strength * precision * (mean - self.centre);
            precisions += precision;
        }
        let total = weight + (self.scale * self.scale).recip();
        params.mean = self.centre + weighted / total + total.sqrt().recip() * standard(rng);

        let square = |(&mean, &precision)| precision * (mean - params.mean) * (mean - params.mean);
        let squares: f64 = occupied.map(square).sum();
        let (shape, rate) = STRENGTH;
        params.strength = positive_gamma(shape + 0.5 * n, rate + 0.5 * squares, rng);

        let mut weights = [0.0; RATES];
        for (g, weight) in weights.iter_mut().enumerate() {
            let rate = self.rate(g);
            // Shape times ln(rate), up to a constant.
            *weight = -SHAPE * n * g as f64 * 4f64.ln() - rate * precisions;
        }
        ln_normalize(&mut weights);
        params.rate = self.rate(pick(&weights, rng));
    }

    fn has_cells(&self, stats: &Reals) -> bool {
        stats.n() > 0
    }
}

impl NormalParams {
    pub(super) fn cell(&self, cluster: usize, rng: &mut Xoshiro256PlusPlus) -> f64 {
        self.means[cluster] + standard(rng) / self.precisions[cluster].sqrt()
    }
}

/// Clusters side by side.
const LANES: usize = 4;

struct Densities<'a> {
    values: &'a [f64],
    observed: &'a [bool],
    means: &'a [f64],
    precisions: &'a [f64],
    constants: &'a [f64],
    out: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Densities<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let n_clusters = self.means.len();
        let whole = n_clusters - n_clusters % LANES;
        let cells = self.values.iter().zip(self.observed);
        for ((&x, &observed), out) in cells.zip(self.out.chunks_exact_mut(n_clusters)) {
            if !observed {
                out.fill(0.0);
                continue;
            }
            let of = |k: usize| {
                let d = x - self.means[k];
                self.constants[k] - 0.5 * self.precisions[k] * d * d
            };
            // Four by four, by value: so few clusters would not be turned into vector instructions otherwise.
            let (means, _) = self.means.as_chunks::<LANES>();
            let (precisions, _) = self.precisions.as_chunks::<LANES>();
            let (constants, _) = self.constants.as_chunks::<LANES>();
            for at in 0..means.len() {
                let (means, precisions) = (means[at], precisions[at]);
                let mut these = constants[at];
                for lane in 0..LANES {
                    let d = x - means[lane];
                    these[lane] -= 0.5 * precisions[lane] * d * d;
                }
                out[at * LANES..][..LANES].copy_from_slice(&these);
            }
            (whole..n_clusters).for_each(|k| out[k] = of(k));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_infer::stream;

    #[test]
    fn predictives_are_ratios_of_evidences() {
        let kernel = Normal::new(3.0, 2.0).unwrap();
        let params = kernel.initial(&mut stream(1, [0; 4]));
        let values: Vec<Option<f64>> = (0..200)
            .map(|i| Some(f64::from(i * i % 23) - 4.0))
            .collect();
        let data = NormalData::new(&values).unwrap();
        let mut stats = kernel.no_stats();
        for row in 0..values.len() {
            let before = kernel.ln_evidence(&params, &stats);
            let predicted = kernel.ln_predictive(&params, &stats, &data, row);
            kernel.add(&mut stats, &data, row);
            let gain = kernel.ln_evidence(&params, &stats) - before;
            assert!((predicted - gain).abs() < 1e-9, "{row}: {predicted} {gain}");
        }
        let merged = |cut: usize| {
            let mut sides = [kernel.no_stats(), kernel.no_stats()];
            (0..values.len())
                .for_each(|row| kernel.add(&mut sides[usize::from(row < cut)], &data, row));
            let [mut all, rest] = sides;
            kernel.merge(&mut all, &rest);
            kernel.ln_evidence(&params, &all)
        };
        let whole = kernel.ln_evidence(&params, &stats);
        assert!(
            [0, 60, 200]
                .iter()
                .all(|&cut| (merged(cut) - whole).abs() < 1e-8)
        );
    }

    #[test]
    fn clusters_far_from_all_cells_are_refused() {
        for scale in [1e-150, 2.0, 1e150] {
            let kernel = Normal::new(3.0 * scale, scale).unwrap();
            let params = kernel.initial(&mut stream(1, [0; 4]));
            let check = |mean: f64, precision: f64| {
                kernel.check(&NormalParams {
                    means: vec![mean * scale],
                    precisions: vec![precision / scale / scale],
                    constants: vec![0.5 * (precision / scale / scale).ln() - LN_SQRT_2PI],
                    ..params.clone()
                })
            };
            assert!(check(-40.0, 1e6).is_ok());
            assert!(check(1e110, 1.0).is_err());
            assert!(check(0.0, 1e-120).is_err());
        }
    }

    #[test]
    fn half_steps_of_the_gamma_function() {
        for a in [2.0, 31.9, 32.0, 33.5, 100.0, 1e4] {
            let exact = npb_priors::special::ln_rising_factorial(a, 0.5);
            assert!((ln_gamma_half_step(a) - exact).abs() < 1e-13, "{a}");
        }
    }
}
