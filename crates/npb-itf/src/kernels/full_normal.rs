//! Vectors of numbers, with levels beside them, that depend on each other within a cluster (`docs/itf.md#columns-that-share-a-joint-law-ours`).

mod densities;
mod parts;

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::dist::Wishart;
use npb_priors::special::{
    LN_SQRT_2PI, ln_gamma, ln_multivariate_gamma, ln_normalize, log_sum_exp, normal_cdf,
};
use rand::RngExt;

use super::Categorical;
use super::banded_cholesky::BandedCholesky;
use super::support::{
    CellError, Hierarchical, check_lengths, clusters_in, gamma_above, pick_ln, positive_gamma,
    seen, setting, standard,
};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::positive;
use densities::{Densities, MOST_GAPS};
pub use parts::{FullNormal, FullNormalData, FullNormalParams, Number};
use parts::{Rows, Ways, packed};

/// How many cells, their sum and the sum of their products: indicators of levels first, then numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct FullNormalStats {
    n: u64,
    units: f64,
    sum: Vec<f64>,
    /// Lower triangle, packed.
    products: Vec<f64>,
}

const STRENGTH: (f64, f64) = (1.0, 2.0);
const EFFECT_STRENGTH: (f64, f64) = (1.0, 0.25);
/// B ~ W(d + 2, I) over this: its prior pulls large variances, those along a line, down by that over the number of rows.
const SCALE_PRECISION: f64 = 1.0;
/// Of the covariance of all rows, the share that clusters are looked for with at the start.
const NARROW: f64 = 0.1;
/// Prior precision of m_a.
const EFFECT_PRECISION: f64 = 0.25;
/// Positions of the grid of e.
const ALIKE: usize = 8;
/// Least variance of a number given those before it, in B: numbers that are functions of each other stay with densities.
const FLOOR: f64 = 1.0 / 67_108_864.0;
/// Values stay within this many scales.
const LIMIT: f64 = 1e100;
/// Logarithms that are drawn stay within the range of exp.
const LN_LIMIT: f64 = 700.0;
/// Ways to choose all levels of a cell.
const MAX_WAYS: usize = 4096;

/// e at a position of its grid.
fn alike(g: usize) -> f64 {
    (1_u64 << g) as f64
}

/// The posterior of a cluster's parameters.
#[derive(Debug)]
struct Posterior {
    strength: f64,
    df: f64,
    /// Expected indicators, then numbers.
    mean: Vec<f64>,
    /// G of the precision G G' of the effects (times Λ).
    factor: BandedCholesky,
    /// Expected effects times G, effect by effect.
    pull: Vec<f64>,
    /// B_n⁻¹.
    inverse_scale: Mat<f64>,
}

impl FullNormal {
    /// Numbers alone. `coordinates`: centre and scale of each (mean and standard deviation, as a rule), at least one; scales from 1e-150 to
    /// 1e150.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(coordinates: &[(f64, f64)]) -> Result<Self, CellError> {
        Self::with_levels(coordinates, &[])
    }

    /// Numbers as in [`new`](Self::new), and beside them columns of so many levels each: no more than 4,096 ways to choose them all.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn with_levels(coordinates: &[(f64, f64)], levels: &[usize]) -> Result<Self, CellError> {
        let n = coordinates.len();
        setting("coordinates", n as f64, n >= 1, "at least 1")?;
        for &(centre, scale) in coordinates {
            setting("centre", centre, centre.is_finite(), "finite")?;
            let fits = (1e-150..=1e150).contains(&scale);
            setting("scale", scale, fits, "between 1e-150 and 1e150")?;
        }
        let ways = levels.iter().map(|&n| n as f64).product::<f64>();
        let rule = "at least 1 in each column, and at most 4,096 ways to choose them all";
        setting("levels", ways, ways <= MAX_WAYS as f64, rule)?;
        let laws = levels.iter().map(|&n| Categorical::new(n));
        let (centres, scales) = coordinates.iter().copied().unzip();
        Ok(Self {
            numbers: vec![Number::Real; n],
            centres,
            scales,
            levels: laws.collect::<Result<_, _>>()?,
        })
    }

    /// The same law, with numbers measured in these ways, one for each. Centres and scales are those of z: of the logarithms, of the values off the spike.
    /// Densities are of the numbers, those of whole numbers and ordered levels per unit.
    ///
    /// # Errors
    /// [`CellError::Setting`] for another number of ways, a spike that is not finite, no level, or too many ways to choose all levels, spikes among them.
    pub fn measured(mut self, numbers: &[Number]) -> Result<Self, CellError> {
        let (d, n) = (self.d(), numbers.len());
        setting("numbers", n as f64, n == d, "one for each coordinate")?;
        self.levels.truncate(self.n_visible());
        for number in numbers {
            match *number {
                Number::Spiked(at) => {
                    setting("spike", at, at.is_finite(), "finite")?;
                    self.levels.push(Categorical::new(2)?);
                }
                Number::Ordinal(n) => setting("levels", n as f64, n >= 1, "at least 1")?,
                _ => {}
            }
        }
        let ways = self
            .levels
            .iter()
            .map(|of| of.size() as f64)
            .product::<f64>();
        let rule = "at most 4,096 ways to choose all levels, spikes among them";
        setting("levels", ways, ways <= MAX_WAYS as f64, rule)?;
        self.numbers = numbers.to_vec();
        Ok(self)
    }

    /// How a number is measured; `None` of a level.
    pub fn number(&self, part: usize) -> Option<Number> {
        self.numbers.get(part).copied()
    }

    /// Number of columns of levels, without those of spikes.
    fn n_visible(&self) -> usize {
        let is_spiked = |number: &&Number| matches!(number, Number::Spiked(_));
        self.levels.len() - self.numbers.iter().filter(is_spiked).count()
    }

    /// The spike of a number, and which of the levels says whether a cell is on it.
    fn spike(&self, j: usize) -> Option<(f64, usize)> {
        let Number::Spiked(at) = self.numbers[j] else {
            return None;
        };
        let is_spiked = |number: &&Number| matches!(number, Number::Spiked(_));
        let before = self.numbers[..j].iter().filter(is_spiked).count();
        Some((at, self.n_visible() + before))
    }

    /// Number of parts of a cell.
    pub fn size(&self) -> usize {
        self.d() + self.n_visible()
    }

    /// Centre and scale of a number (or its logarithm); `None` of a level.
    pub fn coordinate(&self, part: usize) -> Option<(f64, f64)> {
        (part < self.d()).then(|| (self.centres[part], self.scales[part]))
    }

    fn d(&self) -> usize {
        self.centres.len()
    }

    fn rows(&self) -> Rows {
        Rows {
            d: self.d(),
            effects: self.first_effect(self.levels.len()),
        }
    }

    fn of_level(&self, column: usize) -> usize {
        self.levels[column].size()
    }

    /// Place of the first level of a column among all effects.
    fn first_effect(&self, column: usize) -> usize {
        (0..column).map(|l| self.of_level(l)).sum()
    }

    fn df(&self, params: &FullNormalParams) -> f64 {
        (self.d() + 1) as f64 + alike(params.alike)
    }

    fn in_units(&self, j: usize, z: f64) -> f64 {
        let x = self.centres[j] + self.scales[j] * z;
        match self.numbers[j] {
            Number::Logarithm => x.clamp(-LN_LIMIT, LN_LIMIT).exp(),
            Number::Count => x.max(0.0),
            _ => x,
        }
    }

    /// By how much z of a whole number is nearer to its mean before it is rounded and spread, each of which adds the variance of a unit.
    fn unspread(&self, j: usize, sd: f64) -> f64 {
        let added = 2.0 / 12.0 / (self.scales[j] * sd).powi(2);
        (1.0 - added).max(0.25).sqrt()
    }

    fn is_spread(&self, j: usize) -> bool {
        matches!(self.numbers[j], Number::Count | Number::Ordinal(_))
    }

    /// The cell of a number that was drawn.
    fn drawn(&self, j: usize, z: f64) -> f64 {
        let x = self.in_units(j, z);
        match self.numbers[j] {
            Number::Count => x.round(),
            Number::Ordinal(n) => x.round().clamp(0.0, (n - 1) as f64),
            _ => x,
        }
    }

    /// Adds the probabilities of the levels of a number, which is missing in this place, over all ways to choose missing levels of other columns.
    fn add_ways(&self, j: usize, place: usize, work: &Work, out: &mut [f64]) {
        let (n, m) = (out.len(), work.pulls.len() / work.logs.len());
        let (centre, scale) = (self.centres[j], self.scales[j]);
        let sd = sd_of(&work.band, place, m);
        let sd = sd * self.unspread(j, sd);
        for (way, &p) in work.logs.iter().enumerate() {
            let mut mean = work.pulls[way * m..][..m].to_vec();
            work.band.solve_upper(&mut mean);
            let mean = work.z[j] + mean[place];
            let up_to = |level: usize| match level + 1 == n {
                true => 1.0,
                false => normal_cdf((((level as f64 + 0.5) - centre) / scale - mean) / sd),
            };
            let mut below = 0.0;
            for (level, out) in out.iter_mut().enumerate() {
                let above = up_to(level);
                *out += p * (above - below);
                below = above;
            }
        }
        // Sums may round to more.
        out.iter_mut().for_each(|p| *p = p.min(1.0));
    }

    /// z, and ln |dx/dz|.
    fn standardised(&self, j: usize, x: f64) -> (f64, f64) {
        let (y, ln_slope) = match self.numbers[j] {
            Number::Logarithm => (x.ln(), x.ln()),
            _ => (x, 0.0),
        };
        (
            (y - self.centres[j]) / self.scales[j],
            self.scales[j].ln() + ln_slope,
        )
    }

    /// The same of a number in a cell, which may not fit.
    fn checked(&self, row: usize, part: usize, x: f64) -> Result<(f64, f64), CellError> {
        let is_whole = x >= 0.0 && x.fract() == 0.0;
        let (fits, needed) = match self.numbers[part] {
            Number::Count => (is_whole, "a whole number from 0 on"),
            Number::Ordinal(n) => (is_whole && x < n as f64, "a level of its column"),
            _ => (true, ""),
        };
        is_good(row, part, x, fits, needed)?;
        let (z, ln_slope) = self.standardised(part, x);
        let needed = match self.numbers[part] {
            Number::Logarithm => "a finite number above 0",
            _ => "a number within 1e100 scales of the centre",
        };
        // Not a number is out of range as well.
        is_good(row, part, x, (-LIMIT..=LIMIT).contains(&z), needed)?;
        Ok((z, ln_slope))
    }

    fn ways(&self, columns: Vec<usize>) -> Ways {
        let mut ways = vec![Vec::new()];
        for &l in &columns {
            let first = self.first_effect(l);
            let longer = |way: &Vec<usize>| {
                let way = way.clone();
                (0..self.of_level(l)).map(move |level| [&way[..], &[first + level]].concat())
            };
            ways = ways.iter().flat_map(longer).collect();
        }
        Ways {
            columns,
            places: ways.concat(),
        }
    }

    /// All numbers, and all ways to choose all levels.
    fn nothing_known(&self) -> (Vec<usize>, Ways) {
        let every = self.ways((0..self.levels.len()).collect());
        ((0..self.d()).collect(), every)
    }

    /// Source: conjugate multivariate regression of the numbers on the indicators of the levels; prior rows of weight s and t stand for
    /// μ_k and the effects.
    fn posterior(&self, params: &FullNormalParams, stats: &FullNormalStats) -> Posterior {
        let (d, n, effects) = (self.d(), stats.n as f64, self.rows().effects);
        let strength = params.strength + n;
        let of_prior = |i: usize| match i.checked_sub(effects) {
            Some(j) => params.mean[j],
            None => 0.0,
        };
        let all = effects + d;
        let prior_mean: Vec<f64> = (0..all).map(of_prior).collect();
        let of_mean = |i: usize| (params.strength * of_prior(i) + stats.sum[i]) / strength;
        let mean: Vec<f64> = (0..all).map(of_mean).collect();
        let about = stats.about_means(&prior_mean, params.strength);
        let (t, e) = (params.effect_strength, alike(params.alike));
        let mut factor = BandedCholesky::default();
        factor.reset(effects, effects);
        for a in 0..effects {
            (0..=a).for_each(|b| factor.add(a, b, about[packed(a, b)]));
            factor.add(a, a, t);
        }
        factor.factor();
        // Number by number.
        let of_effects = |i: usize| (0..effects).map(move |a| params.mean[(1 + a) * d + i]);
        let mut pulls = vec![0.0; effects * d];
        let mut inverse_scale = Mat::zeros(d, d);
        let prior: Vec<f64> = (0..d).flat_map(of_effects).collect();
        for i in 0..d {
            let line = &about[packed(effects + i, 0)..][..=effects + i];
            let (before, own) = pulls.split_at_mut(i * effects);
            let own = &mut own[..effects];
            let prior_of = |i: usize| &prior[i * effects..][..effects];
            for a in 0..effects {
                own[a] = line[a] + t * prior_of(i)[a];
            }
            factor.solve_lower(own);
            for j in 0..=i {
                let pull: &[f64] = match j == i {
                    true => own,
                    false => &before[j * effects..][..effects],
                };
                let mut entry = line[effects + j] + e * params.scale[packed(i, j)];
                for a in 0..effects {
                    entry += t * prior_of(i)[a] * prior_of(j)[a] - own[a] * pull[a];
                }
                inverse_scale[(i, j)] = entry;
            }
        }
        let pull = (0..effects).flat_map(|a| (0..d).map(move |i| (a, i)));
        let pull = pull.map(|(a, i)| pulls[i * effects + a]).collect();
        Posterior {
            strength,
            df: self.df(params) + n,
            mean,
            factor,
            pull,
            inverse_scale,
        }
    }

    /// Writes means, effects and factor of the precision of a cluster.
    fn set(&self, params: &mut FullNormalParams, cluster: usize, means: &[f64], l: &Mat<f64>) {
        let (d, rows) = (self.d(), self.rows());
        let mut constant = -(d as f64) * LN_SQRT_2PI;
        let entries = (0..d).flat_map(|i| (0..=i).map(move |j| l[(i, j)]));
        let factor: Vec<f64> = entries.collect();
        let line = |i: usize| &factor[packed(i, 0)..][..=i];
        let table = &mut params.table[cluster];
        for (of, mean) in means.chunks_exact(d).enumerate() {
            let mut turned = vec![0.0; d];
            for (i, x) in mean.iter().enumerate() {
                let entries = turned.iter_mut().zip(line(i));
                entries.for_each(|(turned, l)| *turned += l * x);
            }
            let (first, first_turned) = match of.checked_sub(1) {
                None => (rows.mean(0), rows.turned(0)),
                Some(a) => (rows.effect(a, 0), rows.turned_effect(a, 0)),
            };
            table[first..first + d].copy_from_slice(mean);
            table[first_turned..first_turned + d].copy_from_slice(&turned);
        }
        for i in 0..d {
            constant += line(i)[i].ln();
            for j in 0..=i {
                let products = line(i).iter().zip(line(j));
                let product: f64 = products.map(|(x, y)| x * y).sum();
                table[rows.factor(i, j)] = line(i)[j];
                table[rows.precision(i, j)] = product;
            }
        }
        table[rows.constant()] = constant;
    }

    /// What a cluster makes of a cell: `work` then holds the conditional laws of its missing numbers, and the logarithms of the
    /// probabilities (up to a common number) of all ways to choose its missing levels. Missing entries of `work.z` are set.
    fn condition(one: One<'_>, cell: Known<'_>, work: &mut Work) {
        let Known {
            known,
            missing,
            ways,
        } = cell;
        let d = one.rows.d;
        work.d.clear();
        work.d.extend_from_slice(one.mean());
        for &a in known {
            work.d
                .iter_mut()
                .zip(one.effect(a))
                .for_each(|(x, e)| *x += e);
        }
        let Work { z, d: apart, .. } = work;
        for j in 0..d {
            apart[j] = z[j] - apart[j];
        }
        for &j in missing {
            z[j] -= apart[j];
            apart[j] = 0.0;
        }
        work.entries.clear();
        work.entries.resize(d, 0.0);
        for (i, &x) in work.d.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            let entries = work.entries.iter_mut().zip(one.line(i));
            entries.for_each(|(entry, l)| *entry += l * x);
        }
        work.band.reset(missing.len(), d);
        for (a, &i) in missing.iter().enumerate() {
            for (b, &j) in missing[..=a].iter().enumerate() {
                let products = one.line(i).iter().zip(one.line(j));
                work.band.add(a, b, products.map(|(x, y)| x * y).sum());
            }
        }
        work.band.factor();
        work.pulls.clear();
        work.logs.clear();
        let n_open = ways.columns.len();
        for w in 0..ways.n() {
            let way = &ways.places[w * n_open..][..n_open];
            work.d.clone_from(&work.entries);
            for &a in way {
                let turned = one.turned_effect(a);
                work.d.iter_mut().zip(turned).for_each(|(x, t)| *x -= t);
            }
            let first = work.pulls.len();
            for &i in missing {
                let products = one.line(i).iter().zip(&work.d);
                work.pulls.push(-products.map(|(l, x)| l * x).sum::<f64>());
            }
            work.band.solve_lower(&mut work.pulls[first..]);
            let squares: f64 = work.d.iter().map(|x| x * x).sum();
            let gained: f64 = work.pulls[first..].iter().map(|x| x * x).sum();
            let ln_p: f64 = way.iter().map(|&a| one.ln_theta(a)).sum();
            work.logs.push(ln_p - 0.5 * (squares - gained));
        }
    }

    /// Draws the missing parts of the cell in `work.z`; returns the way that was chosen.
    fn fill(one: One<'_>, cell: Known<'_>, work: &mut Work, rng: &mut Xoshiro256PlusPlus) -> usize {
        let missing = cell.missing;
        Self::condition(one, cell, work);
        let way = match work.logs.len() {
            1 => 0,
            _ => pick_ln(&mut work.logs, rng),
        };
        let m = missing.len();
        let pull = &mut work.pulls[way * m..][..m];
        work.mean.clear();
        work.mean.extend_from_slice(pull);
        work.band.finish(pull, Some(rng));
        for (&j, x) in missing.iter().zip(pull) {
            work.z[j] = (work.z[j] + *x).clamp(-LIMIT, LIMIT);
        }
        way
    }

    /// Takes out of drawn numbers that are whole what spreading added to their variance.
    fn take_spread_out(&self, missing: &[usize], way: usize, work: &mut Work) {
        if !missing.iter().any(|&j| self.is_spread(j)) {
            return;
        }
        let m = missing.len();
        work.band.solve_upper(&mut work.mean);
        let drawn = &work.pulls[way * m..][..m];
        for (at, &j) in missing.iter().enumerate() {
            if self.is_spread(j) {
                let by = self.unspread(j, sd_of(&work.band, at, m));
                work.z[j] += (by - 1.0) * (drawn[at] - work.mean[at]);
            }
        }
    }
}

/// What the cells of a cluster say of one more, parameters integrated out.
#[derive(Debug)]
pub(crate) struct Predictive {
    posterior: Posterior,
    /// Factor of B_n⁻¹.
    factor: BandedCholesky,
    constant: f64,
    /// ln E θ of every level.
    ln_theta: Vec<f64>,
}

impl Predictive {
    pub(crate) fn new(
        kernel: &FullNormal,
        params: &FullNormalParams,
        stats: &FullNormalStats,
    ) -> Self {
        let posterior = kernel.posterior(params, stats);
        let (d, df) = (kernel.d(), posterior.df);
        let mut factor = BandedCholesky::default();
        factor.reset(d, d);
        for i in 0..d {
            (0..=i).for_each(|j| factor.add(i, j, posterior.inverse_scale[(i, j)]));
        }
        factor.factor();
        let ln_theta = kernel.levels.iter().enumerate().flat_map(|(l, levels)| {
            let a = params.concentrations[l];
            let all = a * levels.size() as f64 + stats.n as f64;
            let counts = &stats.sum[kernel.first_effect(l)..][..levels.size()];
            counts.iter().map(move |n| ((a + n) / all).ln())
        });
        Self {
            ln_theta: ln_theta.collect(),
            constant: ln_gamma(0.5 * (df + 1.0))
                - ln_gamma(0.5 * (df + 1.0 - d as f64))
                - 0.5 * d as f64 * std::f64::consts::PI.ln()
                - factor.half_ln_det(),
            posterior,
            factor,
        }
    }

    /// ln p of a complete cell. Source: the matrix-t law of conjugate regression, r = z − E z: with c⁻¹ = 1 + the variance of E z in units of the
    /// covariance, p(z) ∝ c^(d/2) (1 + c r'B_n r)^(−(df + 1)/2).
    pub(crate) fn ln(&self, data: &FullNormalData, row: usize) -> f64 {
        let (of, z) = (&self.posterior, data.numbers(row));
        let d = z.len();
        let mut levels: Vec<f64> = of.mean[..self.ln_theta.len()].iter().map(|m| -m).collect();
        data.known[row].iter().for_each(|&a| levels[a] += 1.0);
        of.factor.solve_lower(&mut levels);
        let means = &of.mean[levels.len()..];
        let mut rest: Vec<f64> = z.iter().zip(means).map(|(z, mean)| z - mean).collect();
        for (level, pull) in levels.iter().zip(of.pull.chunks_exact(d)) {
            let entries = rest.iter_mut().zip(pull);
            entries.for_each(|(rest, pull)| *rest -= level * pull);
        }
        self.factor.solve_lower(&mut rest);
        let square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
        let inverse = 1.0 + of.strength.recip() + square(&levels);
        let of_levels: f64 = data.known[row].iter().map(|&a| self.ln_theta[a]).sum();
        data.units[row] + of_levels + self.constant
            - 0.5 * d as f64 * inverse.ln()
            - 0.5 * (of.df + 1.0) * (square(&rest) / inverse).ln_1p()
    }
}

impl FullNormal {
    /// Mutual information between parts in nats, as a matrix, when clusters have these weights (which need not sum to 1): see
    /// [`Draw::information_within`](crate::Draw::information_within).
    pub fn information(&self, params: &FullNormalParams, weights: &[f64]) -> Vec<f64> {
        let (d, n) = (self.d(), self.size());
        let total: f64 = weights.iter().sum();
        let laws: Vec<ClusterLaw> = (weights.iter().enumerate())
            .filter(|&(_, &w)| w > 1e-6 * total)
            .filter_map(|(k, &w)| ClusterLaw::new(self, params, k, w / total))
            .collect();
        let mean = |of: &dyn Fn(&ClusterLaw) -> f64| -> f64 {
            laws.iter().map(|law| law.weight * of(law)).sum()
        };
        let centre: Vec<f64> = (0..d).map(|j| mean(&|law| law.mean[j])).collect();
        let covariance = |i: usize, j: usize| {
            mean(&|law| {
                law.covariance[(i, j)] + (law.mean[i] - centre[i]) * (law.mean[j] - centre[j])
            })
        };
        let variances: Vec<f64> = (0..d).map(|j| covariance(j, j)).collect();
        let of_squared = |r: f64| -0.5 * (1.0 - r.clamp(0.0, 1.0 - 1e-12)).ln();
        let of_level =
            |j: usize, l: usize| of_squared(self.between(&laws, j, l, centre[j]) / variances[j]);
        let of_levels = |l: usize, m: usize| {
            let [rows, columns] = [l, m].map(|l| self.first_effect(l)..self.first_effect(l + 1));
            let joint = rows.flat_map(|a| columns.clone().map(move |b| (a, b)));
            let joint = joint.map(|(a, b)| mean(&|law| law.theta[a] * law.theta[b]));
            crate::numeric::mutual_information(&joint.collect::<Vec<_>>(), self.of_level(m))
        };
        let of_numbers = |a: usize, b: usize| {
            let told_by = |spiked: usize, other: usize| {
                (self.spike(spiked)).map_or(0.0, |(_, l)| of_level(other, l))
            };
            let both = self.spike(a).zip(self.spike(b));
            let both = both.map_or(0.0, |((_, l), (_, m))| of_levels(l, m));
            of_squared(covariance(a, b).powi(2) / (variances[a] * variances[b]))
                .max(told_by(a, b))
                .max(told_by(b, a))
                .max(both)
        };
        let mut matrix = vec![0.0; n * n];
        for (a, b) in (0..n).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let information = match (a.checked_sub(d), b.checked_sub(d)) {
                (None, _) => of_numbers(a, b),
                (Some(l), None) => of_level(b, l),
                (Some(l), Some(m)) => of_levels(l, m),
            };
            matrix[a * n + b] = information;
            matrix[b * n + a] = information;
        }
        matrix
    }

    /// The part of a number's variance that is between the levels of a column.
    fn between(&self, laws: &[ClusterLaw], j: usize, l: usize, centre: f64) -> f64 {
        let d = self.d();
        let mean = |of: &dyn Fn(&ClusterLaw) -> f64| -> f64 {
            laws.iter().map(|law| law.weight * of(law)).sum()
        };
        let levels = self.first_effect(l)..self.first_effect(l + 1);
        let apart = |law: &ClusterLaw, a: usize| {
            let effect = |a: usize| law.effects[a * d + j];
            let shift: f64 = levels.clone().map(|a| law.theta[a] * effect(a)).sum();
            law.mean[j] - shift + effect(a) - centre
        };
        let of_level = |a: usize| {
            let p = mean(&|law| law.theta[a]);
            let sum = mean(&|law| law.theta[a] * apart(law, a));
            if p > 0.0 { sum * sum / p } else { 0.0 }
        };
        levels.clone().map(of_level).sum()
    }
}

/// The law of a cluster, levels summed out of mean and covariance.
struct ClusterLaw {
    weight: f64,
    mean: Vec<f64>,
    covariance: Mat<f64>,
    theta: Vec<f64>,
    effects: Vec<f64>,
}

impl ClusterLaw {
    /// `None` when the precision cannot be inverted in numbers.
    fn new(kernel: &FullNormal, params: &FullNormalParams, k: usize, weight: f64) -> Option<Self> {
        let (d, n) = (kernel.d(), kernel.rows().effects);
        let precision = Mat::from_fn(d, d, |i, j| params.precision(k, i, j));
        let mut covariance = Cholesky::new(precision.as_ref()).ok()?.inverse();
        let theta: Vec<f64> = (0..n).map(|a| params.probability(k, a)).collect();
        let effects: Vec<f64> = (0..n).flat_map(|a| params.effect(k, a)).collect();
        let mut mean = params.mean(k);
        for l in 0..kernel.levels.len() {
            let levels = kernel.first_effect(l)..kernel.first_effect(l + 1);
            let of =
                |j: usize| -> f64 { levels.clone().map(|a| theta[a] * effects[a * d + j]).sum() };
            let shift: Vec<f64> = (0..d).map(of).collect();
            for i in 0..d {
                mean[i] += shift[i];
                for j in 0..d {
                    let product: f64 = (levels.clone())
                        .map(|a| theta[a] * effects[a * d + i] * effects[a * d + j])
                        .sum();
                    covariance[(i, j)] += product - shift[i] * shift[j];
                }
            }
        }
        Some(Self {
            weight,
            mean,
            covariance,
            theta,
            effects,
        })
    }
}

/// The numbers of one cluster.
#[derive(Clone, Copy)]
struct One<'a> {
    rows: Rows,
    numbers: &'a [f64],
}

impl<'a> One<'a> {
    fn new(rows: Rows, params: &'a FullNormalParams, cluster: usize) -> Self {
        Self {
            rows,
            numbers: &params.table[cluster],
        }
    }

    fn mean(self) -> &'a [f64] {
        &self.numbers[self.rows.mean(0)..][..self.rows.d]
    }

    /// L_i0, ..., L_ii.
    fn line(self, i: usize) -> &'a [f64] {
        &self.numbers[self.rows.factor(i, 0)..][..=i]
    }

    fn effect(self, a: usize) -> &'a [f64] {
        &self.numbers[self.rows.effect(a, 0)..][..self.rows.d]
    }

    fn turned_effect(self, a: usize) -> &'a [f64] {
        &self.numbers[self.rows.turned_effect(a, 0)..][..self.rows.d]
    }

    fn ln_theta(self, a: usize) -> f64 {
        self.numbers[self.rows.ln_theta(a)]
    }
}

/// What is observed of a cell besides its numbers.
#[derive(Clone, Copy)]
struct Known<'a> {
    known: &'a [usize],
    missing: &'a [usize],
    ways: &'a Ways,
}

/// Memory for incomplete vectors.
#[derive(Default)]
struct Work {
    band: BandedCholesky,
    z: Vec<f64>,
    d: Vec<f64>,
    entries: Vec<f64>,
    pulls: Vec<f64>,
    /// What `fill` added noise to: solved, the mean.
    mean: Vec<f64>,
    logs: Vec<f64>,
}

impl Work {
    /// Mean of the missing numbers over the ways that count, whose probabilities are in `logs`.
    fn mean_over(&self, cell: Known<'_>, counts: impl Fn(&[usize]) -> bool) -> Vec<f64> {
        let m = cell.missing.len();
        let (mut mean, mut total) = (vec![0.0; m], 0.0);
        for (way, &p) in self.logs.iter().enumerate() {
            if counts(cell.ways.way(way)) {
                total += p;
                let pulls = mean.iter_mut().zip(&self.pulls[way * m..]);
                pulls.for_each(|(x, pull)| *x += p * pull);
            }
        }
        mean.iter_mut().for_each(|x| *x /= total.max(1e-300));
        self.band.solve_upper(&mut mean);
        mean
    }
}

impl FullNormalData {
    /// `rows`: one number per coordinate, finite and within 1e100 scales of the centre, then the levels, whole numbers from 0 on; `None`
    /// where missing.
    ///
    /// # Errors
    /// [`CellError::Parts`] and [`CellError::Value`] naming the row.
    pub fn new(kernel: &FullNormal, rows: &[Vec<Option<f64>>]) -> Result<Self, CellError> {
        let (d, n_levels) = (kernel.d(), kernel.n_visible());
        let mut data = Self {
            d,
            given: Vec::with_capacity(rows.len() * d),
            z: Vec::with_capacity(rows.len() * d),
            missing: Vec::with_capacity(rows.len()),
            gaps: vec![Vec::new()],
            units: Vec::with_capacity(rows.len()),
            codes: Vec::with_capacity(rows.len() * n_levels),
            known: Vec::with_capacity(rows.len()),
            open: Vec::with_capacity(rows.len()),
            ways: vec![kernel.ways(Vec::new())],
        };
        check_lengths(rows, d + n_levels)?;
        for (row, cells) in rows.iter().enumerate() {
            data.push_row(kernel, row, cells)?;
        }
        Ok(data)
    }

    fn push_row(
        &mut self,
        kernel: &FullNormal,
        row: usize,
        cells: &[Option<f64>],
    ) -> Result<(), CellError> {
        let (d, n_levels) = (kernel.d(), kernel.n_visible());
        let mut units = 0.0;
        let (mut open, mut known) = (Vec::new(), Vec::new());
        let mut missing = Vec::new();
        let mut of_spikes = Vec::new();
        for (part, cell) in cells[..d].iter().enumerate() {
            let mut shown = *cell;
            if let Some((at, l)) = kernel.spike(part) {
                of_spikes.push((l, cell.map(|x| x == at)));
                shown = cell.filter(|&x| x != at);
            }
            if shown.is_none() {
                missing.push(part);
            }
            let (z, ln_slope) = match shown {
                Some(x) => kernel.checked(row, part, x)?,
                None => (0.0, 0.0),
            };
            units -= ln_slope;
            self.given.push(cell.unwrap_or(f64::NAN));
            self.z.push(z);
        }
        for l in 0..n_levels {
            if let Some(x) = cells[d + l] {
                let fits = x.fract() == 0.0 && (0.0..kernel.of_level(l) as f64).contains(&x);
                is_good(row, d + l, x, fits, "a level of its column")?;
            }
            let code = cells[d + l].map(|x| x as u32);
            match code {
                Some(code) => known.push(kernel.first_effect(l) + code as usize),
                None => open.push(l),
            }
            self.codes.push(code);
        }
        for (l, on) in of_spikes {
            match on {
                Some(on) => known.push(kernel.first_effect(l) + usize::from(on)),
                None => open.push(l),
            }
        }
        let missing = self.gap(missing);
        self.missing.push(missing);
        self.units.push(units);
        self.known.push(known);
        let place = self.ways.iter().position(|ways| ways.columns == open);
        self.open.push(place.unwrap_or(self.ways.len()));
        if place.is_none() {
            self.ways.push(kernel.ways(open));
        }
        Ok(())
    }

    /// Spreads whole numbers and ordered levels over the units around them: their density is then that of numbers without repetition, which no cluster
    /// earns by having one value.
    pub(crate) fn spread(&mut self, kernel: &FullNormal, rng: &mut Xoshiro256PlusPlus) {
        // Row by row, so that rows do not depend on those after them.
        for row in 0..self.missing.len() {
            for j in (0..self.d).filter(|&j| kernel.is_spread(j)) {
                // Also where it is missing, so that the others do not depend on that.
                let by = rng.random::<f64>() - 0.5;
                if !self.given[row * self.d + j].is_nan() {
                    self.z[row * self.d + j] += by / kernel.scales[j];
                }
            }
        }
    }

    /// z of a row, NaN where missing.
    pub(super) fn row(&self, row: usize) -> Vec<f64> {
        let mut z = self.z[row * self.d..][..self.d].to_vec();
        self.missing(row).iter().for_each(|&j| z[j] = f64::NAN);
        z
    }

    fn missing(&self, row: usize) -> &[usize] {
        &self.gaps[self.missing[row]]
    }

    /// The place of missing numbers among those of all rows; later ones may be there twice.
    fn gap(&mut self, missing: Vec<usize>) -> usize {
        let mut known = self.gaps.iter().take(MOST_GAPS);
        let place = known.position(|known| *known == missing);
        place.unwrap_or_else(|| {
            self.gaps.push(missing);
            self.gaps.len() - 1
        })
    }

    fn numbers(&self, row: usize) -> &[f64] {
        &self.z[row * self.d..][..self.d]
    }

    fn is_seen(&self, row: usize) -> bool {
        self.missing(row).len() < self.d || !self.known[row].is_empty()
    }

    fn is_partial(&self, row: usize) -> bool {
        self.is_seen(row) && !(self.missing(row).is_empty() && self.open[row] == 0)
    }

    fn known(&self, row: usize) -> Known<'_> {
        Known {
            known: &self.known[row],
            missing: self.missing(row),
            ways: &self.ways[self.open[row]],
        }
    }
}

impl FullNormalStats {
    /// Products about the means, the prior row of this weight included.
    fn about_means(&self, prior_mean: &[f64], prior_weight: f64) -> Vec<f64> {
        let n = self.n as f64;
        let average: Vec<f64> = self.sum.iter().map(|s| s / n.max(1.0)).collect();
        let weight = prior_weight * n / (prior_weight + n);
        let mut about = self.products.clone();
        for i in 0..average.len() {
            let apart = weight * (average[i] - prior_mean[i]);
            let of_row = n * average[i];
            let line = &mut about[packed(i, 0)..][..=i];
            for (x, average) in line.iter_mut().zip(&average) {
                *x -= of_row * average;
            }
            // Rounding must not make a sum of squares negative.
            line[i] = line[i].max(0.0);
            for (j, x) in line.iter_mut().enumerate() {
                *x += apart * (average[j] - prior_mean[j]);
            }
        }
        about
    }

    /// `levels`: places of the levels among all effects.
    fn add_vector(&mut self, z: &[f64], levels: impl Iterator<Item = usize> + Clone, sign: f64) {
        let first = self.sum.len() - z.len();
        for a in levels.clone() {
            self.sum[a] += sign;
            for b in levels.clone().filter(|&b| b <= a) {
                self.products[packed(a, b)] += sign;
            }
        }
        for (i, x) in z.iter().enumerate() {
            self.sum[first + i] += sign * x;
            let line = &mut self.products[packed(first + i, 0)..];
            levels.clone().for_each(|a| line[a] += sign * x);
            let products = line[first..].iter_mut().zip(&z[..=i]);
            products.for_each(|(p, y)| *p += sign * x * y);
        }
    }
}

impl FullNormalParams {
    fn d(&self) -> usize {
        // The larger root of d (d + 1) / 2 = length.
        let doubled = 8.0 * self.scale.len() as f64 + 1.0;
        ((doubled.sqrt() - 1.0) / 2.0).round() as usize
    }

    fn rows(&self) -> Rows {
        let d = self.d();
        let effects = self.mean.len() / d.max(1) - 1;
        Rows { d, effects }
    }

    /// Lets clusters be narrow and unlike each other: with the covariance of all rows none is found.
    pub(crate) fn loosen(&mut self) {
        self.alike = 0;
        self.ln_det_scale += self.d() as f64 * NARROW.ln();
        self.scale.iter_mut().for_each(|x| *x *= NARROW);
    }

    /// Mean of a cluster, in units of the scales about the centres: without the effects of levels.
    pub fn mean(&self, cluster: usize) -> Vec<f64> {
        (0..self.d()).map(|j| self.table[cluster][j]).collect()
    }

    /// By how much a level moves the mean; levels of all columns counted together.
    pub fn effect(&self, cluster: usize, level: usize) -> Vec<f64> {
        let rows = self.rows();
        let entry = |j: usize| self.table[cluster][rows.effect(level, j)];
        (0..rows.d).map(entry).collect()
    }

    /// Probability of a level; levels of all columns counted together.
    pub fn probability(&self, cluster: usize, level: usize) -> f64 {
        self.table[cluster][self.rows().ln_theta(level)].exp()
    }

    /// Entry of the precision matrix of a cluster, in the same units.
    pub fn precision(&self, cluster: usize, i: usize, j: usize) -> f64 {
        self.table[cluster][self.rows().precision(i, j)]
    }

    /// B.
    fn scale(&self) -> Mat<f64> {
        let d = self.d();
        Mat::from_fn(d, d, |i, j| self.scale[packed(i.max(j), i.min(j))])
    }
}

clusters_in!(FullNormalParams: table);

fn is_good(
    row: usize,
    part: usize,
    value: f64,
    fits: bool,
    needed: &'static str,
) -> Result<(), CellError> {
    match fits {
        true => Ok(()),
        false => Err(CellError::Value {
            row,
            part,
            value,
            needed,
        }),
    }
}

/// Standard deviation of a number among `m` with this factor of their precision.
fn sd_of(band: &BandedCholesky, at: usize, m: usize) -> f64 {
    let mut unit = vec![0.0; m];
    unit[at] = 1.0;
    band.solve_lower(&mut unit);
    unit.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// A draw of B with its log determinant: Wishart, but no number's variance given the numbers before it is below the floor. These variances are the
/// squared diagonal of the Cholesky factor, independent gamma variables in Bartlett's decomposition, so that each is drawn above its own bound and all
/// else as it comes. `None` beyond the range of f64.
fn draw_scale(
    inverse_scale: &Mat<f64>,
    df: f64,
    floor: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<(Vec<f64>, f64)> {
    let law = Wishart::from_inverse_scale(inverse_scale.as_ref(), df).ok()?;
    let of_law = law.factor().l();
    let mut l = law.sample_factor(rng);
    let d = l.nrows();
    for j in 0..d {
        if l[(j, j)].powi(2) < floor {
            let unit = of_law[(j, j)];
            let square = gamma_above(0.5 * (df - j as f64), 0.5 * floor / unit.powi(2), rng);
            let by = (2.0 * square).sqrt() - l[(j, j)] / unit;
            (j..d).for_each(|i| l[(i, j)] += by * of_law[(i, j)]);
            l[(j, j)] = l[(j, j)].max(floor.sqrt());
        }
    }
    let entry = |i: usize, j: usize| (0..=j.min(i)).map(|k| l[(i, k)] * l[(j, k)]).sum::<f64>();
    let scale = (0..d).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let scale: Vec<f64> = scale.map(|(i, j)| entry(i, j)).collect();
    let ln_det = 2.0 * (0..d).map(|j| l[(j, j)].ln()).sum::<f64>();
    (ln_det.is_finite() && scale.iter().all(|x| x.is_finite())).then_some((scale, ln_det))
}

impl Kernel for FullNormal {
    type Data = FullNormalData;
    type Params = FullNormalParams;
    type Stats = FullNormalStats;

    const COUPLED: bool = false;

    fn n_rows(&self, data: &FullNormalData) -> usize {
        data.missing.len()
    }

    fn is_observed(&self, data: &FullNormalData, row: usize) -> bool {
        data.is_seen(row)
    }

    fn n_parts(&self, _: &FullNormalData, _: usize) -> usize {
        self.size()
    }

    fn part(&self, data: &FullNormalData, row: usize, part: usize) -> CellPart {
        match part.checked_sub(data.d) {
            None => seen(data.given[row * data.d + part]).into(),
            Some(l) => (data.codes[row * self.n_visible() + l])
                .map(f64::from)
                .into(),
        }
    }

    fn n_levels(&self, part: usize) -> Option<usize> {
        match (part.checked_sub(self.d()), self.number(part)) {
            (Some(l), _) => Some(self.of_level(l)),
            (None, Some(Number::Ordinal(n))) => Some(n),
            (None, _) => None,
        }
    }

    fn is_geometric(&self, part: usize) -> bool {
        self.number(part) == Some(Number::Logarithm)
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> FullNormalParams {
        let (d, effects) = (self.d(), self.rows().effects);
        let df = (d + 2) as f64;
        let prior = Mat::from_fn(d, d, |i, j| if i == j { SCALE_PRECISION } else { 0.0 });
        let (scale, ln_det_scale) =
            draw_scale(&prior, df, FLOOR, rng).expect("a Wishart law about the identity");
        let mut mean = |at: usize| match at < d {
            true => standard(rng),
            false => standard(rng) / EFFECT_PRECISION.sqrt(),
        };
        let mean: Vec<f64> = (0..d * (1 + effects)).map(&mut mean).collect();
        let effect_strength = match effects {
            0 => 1.0,
            _ => positive_gamma(EFFECT_STRENGTH.0, EFFECT_STRENGTH.1, rng),
        };
        FullNormalParams {
            mean,
            strength: positive_gamma(STRENGTH.0, STRENGTH.1, rng),
            effect_strength,
            alike: pick_ln(&mut [0.0; ALIKE], rng),
            scale,
            ln_det_scale,
            concentrations: (self.levels.iter())
                .map(|_| Categorical::prior_concentration(rng))
                .collect(),
            table: Vec::new(),
        }
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
        self.complete_each(
            data,
            labels,
            |_| true,
            params,
            rng,
            |row, z, way| {
                let cell = data.known(row);
                let levels = cell.known.iter().chain(cell.ways.way(way)).copied();
                pool[labels[row] as usize].add_vector(z, levels, 1.0);
            },
        );
        for (l, levels) in self.levels.iter().enumerate() {
            let first = self.first_effect(l);
            let counts = |stats: &FullNormalStats| -> Vec<u64> {
                let sums = &stats.sum[first..][..levels.size()];
                sums.iter().map(|&n| n.round() as u64).collect()
            };
            let counts: Vec<Vec<u64>> = pool[..params.n_clusters()].iter().map(counts).collect();
            levels.move_concentration(&mut params.concentrations[l], &counts, rng);
        }
        // As `redraw`, but clusters without cells are drawn once: hyperparameters do not look at them.
        let (occupied, empty): (Vec<usize>, Vec<usize>) =
            (0..params.n_clusters()).partition(|&k| pool[k].n > 0);
        occupied
            .iter()
            .for_each(|&k| self.draw(params, k, &pool[k], rng));
        self.move_hyperparameters(params, pool, rng);
        empty
            .iter()
            .for_each(|&k| self.draw(params, k, &pool[k], rng));
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
        let densities = Densities {
            kernel: self,
            params,
            data,
            first: rows.start,
            n_clusters,
            out: &mut out[..rows.len() * n_clusters],
        };
        pulp::Arch::new().dispatch(densities);
    }

    fn is_collapsed(&self, data: &FullNormalData) -> bool {
        (0..data.missing.len()).all(|row| !data.is_partial(row))
    }

    fn completed(
        &self,
        data: &FullNormalData,
        labels: &[u32],
        clusters: &[usize],
        params: &FullNormalParams,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<FullNormalData> {
        let mut completed = data.clone();
        let inside = |k: usize| clusters.contains(&k);
        self.complete_each(data, labels, inside, params, rng, |row, z, way| {
            completed.z[row * data.d..][..data.d].copy_from_slice(z);
            completed.missing[row] = 0;
            completed.known[row].extend_from_slice(data.known(row).ways.way(way));
            completed.open[row] = 0;
        });
        Some(completed)
    }

    fn no_stats(&self) -> FullNormalStats {
        let all = self.d() + self.rows().effects;
        FullNormalStats {
            n: 0,
            units: 0.0,
            sum: vec![0.0; all],
            products: vec![0.0; all * (all + 1) / 2],
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
            stats.add_vector(data.numbers(row), data.known[row].iter().copied(), 1.0);
        }
    }

    fn merge(&self, stats: &mut FullNormalStats, other: &FullNormalStats) {
        stats.n += other.n;
        stats.units += other.units;
        let sums = stats.sum.iter_mut().zip(&other.sum);
        sums.for_each(|(s, o)| *s += o);
        let products = stats.products.iter_mut().zip(&other.products);
        products.for_each(|(s, o)| *s += o);
    }

    fn ln_evidence(&self, params: &FullNormalParams, stats: &FullNormalStats) -> f64 {
        let (d, n, df) = (self.d(), stats.n as f64, self.df(params));
        let effects = self.rows().effects as f64;
        let posterior = self.posterior(params, stats);
        let Ok(factor) = Cholesky::new(posterior.inverse_scale.as_ref()) else {
            return f64::NEG_INFINITY;
        };
        let of_gamma =
            ln_multivariate_gamma(d, 0.5 * posterior.df) - ln_multivariate_gamma(d, 0.5 * df);
        let of_mean = -0.5 * d as f64 * (n / params.strength).ln_1p();
        let of_effects = 0.5 * d as f64 * effects * params.effect_strength.ln()
            - d as f64 * posterior.factor.half_ln_det();
        let prior = 0.5 * df * (params.ln_det_scale + d as f64 * alike(params.alike).ln());
        let of_levels = self.levels.iter().enumerate().map(|(l, levels)| {
            let counts = &stats.sum[self.first_effect(l)..][..levels.size()];
            let counts: Vec<u64> = counts.iter().map(|&n| n.round() as u64).collect();
            levels.ln_evidence_at(params.concentrations[l], &counts)
        });
        stats.units + of_levels.sum::<f64>() + of_gamma + of_mean + of_effects + prior
            - 0.5 * posterior.df * factor.ln_det()
            - 0.5 * n * d as f64 * std::f64::consts::PI.ln()
    }

    fn ln_predictive(
        &self,
        params: &FullNormalParams,
        stats: &FullNormalStats,
        data: &FullNormalData,
        row: usize,
    ) -> f64 {
        Predictive::new(self, params, stats).ln(data, row)
    }

    fn draw(
        &self,
        params: &mut FullNormalParams,
        cluster: usize,
        stats: &FullNormalStats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (d, effects) = (self.d(), self.rows().effects);
        let posterior = self.posterior(params, stats);
        params.table[cluster].resize(self.rows().n(), 0.0);
        for (l, levels) in self.levels.iter().enumerate() {
            let first = self.first_effect(l);
            let counts = &stats.sum[first..][..levels.size()];
            let ln_theta =
                levels.draw_ln_theta(params.concentrations[l], counts.iter().copied(), rng);
            for (level, ln) in ln_theta.into_iter().enumerate() {
                let row = self.rows().ln_theta(first + level);
                params.table[cluster][row] = ln;
            }
        }
        let law = Wishart::from_inverse_scale(posterior.inverse_scale.as_ref(), posterior.df);
        // Numbers beyond the range of f64 leave the old value; the limit on z keeps them out.
        let Ok(law) = law else { return };
        let l = law.sample_factor(rng);
        // From N(0, I) to N(0, Λ⁻¹).
        let turn = |x: &mut [f64]| {
            for j in (0..d).rev() {
                let below: f64 = (j + 1..d).map(|i| l[(i, j)] * x[i]).sum();
                x[j] = (x[j] - below) / l[(j, j)];
            }
        };
        let mut means: Vec<f64> = (0..d * (1 + effects)).map(|_| standard(rng)).collect();
        means.chunks_exact_mut(d).for_each(turn);
        let (mean, of_effects) = means.split_at_mut(d);
        let pulls = of_effects.iter_mut().zip(&posterior.pull);
        pulls.for_each(|(x, pull)| *x += pull);
        let mut of_number = vec![0.0; effects];
        let sd = posterior.strength.sqrt().recip();
        for j in 0..d {
            (0..effects).for_each(|a| of_number[a] = of_effects[a * d + j]);
            posterior.factor.solve_upper(&mut of_number);
            let mut centre = posterior.mean[effects + j];
            for (a, effect) in of_number.iter().enumerate() {
                of_effects[a * d + j] = *effect;
                centre -= posterior.mean[a] * effect;
            }
            mean[j] = centre + sd * mean[j];
        }
        self.set(params, cluster, &means, &l);
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
        let nothing = ignore_observed.then(|| self.nothing_known());
        let cell = match &nothing {
            Some((missing, ways)) => Known {
                known: &[],
                missing,
                ways,
            },
            None => data.known(row),
        };
        let mut work = Work::default();
        work.z.extend_from_slice(data.numbers(row));
        let one = One::new(self.rows(), params, cluster);
        Self::condition(one, cell, &mut work);
        ln_normalize(&mut work.logs);
        let mut theta = vec![0.0; self.rows().effects];
        cell.known.iter().for_each(|&a| theta[a] = 1.0);
        for (way, &p) in work.logs.iter().enumerate() {
            cell.ways.way(way).iter().for_each(|&a| theta[a] += p);
        }
        let mean = work.mean_over(cell, |_| true);
        let place = |j: usize| cell.missing.iter().position(|&i| i == j);
        out.clear();
        for (j, &z) in work.z.iter().enumerate() {
            let given = seen(data.given[row * data.d + j]).filter(|_| !ignore_observed);
            let at = |mean: &[f64]| {
                let apart = place(j).map_or(0.0, |at| mean[at]);
                (z + apart).clamp(-LIMIT, LIMIT)
            };
            match (self.numbers[j], given) {
                (Number::Ordinal(n), Some(level)) => {
                    out.extend((0..n).map(|l| f64::from(u8::from(l as f64 == level))));
                }
                (_, Some(x)) => out.push(x),
                (Number::Ordinal(n), None) => {
                    let from = out.len();
                    out.resize(from + n, 0.0);
                    self.add_ways(j, place(j).unwrap_or(0), &work, &mut out[from..]);
                }
                (Number::Spiked(_), None) => {
                    let (spike, l) = self.spike(j).unwrap_or_default();
                    let on = self.first_effect(l) + 1;
                    let off = work.mean_over(cell, |way| !way.contains(&on));
                    out.push(theta[on] * spike + (1.0 - theta[on]) * self.in_units(j, at(&off)));
                }
                (_, None) => out.push(self.in_units(j, at(&mean))),
            }
        }
        let visible = self.first_effect(self.n_visible());
        out.extend(&theta[..visible]);
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
        let nothing = ignore_observed.then(|| self.nothing_known());
        let cell = match &nothing {
            Some((missing, ways)) => Known {
                known: &[],
                missing,
                ways,
            },
            None => data.known(row),
        };
        let mut work = Work::default();
        work.z.extend_from_slice(data.numbers(row));
        let one = One::new(self.rows(), params, cluster);
        let way = Self::fill(one, cell, &mut work, rng);
        self.take_spread_out(cell.missing, way, &mut work);
        let level = |l: usize| {
            let (first, n) = (self.first_effect(l), self.of_level(l));
            let mut places = cell.known.iter().chain(cell.ways.way(way));
            let place = places.find(|&&a| (first..first + n).contains(&a));
            place.map(|a| a - first)
        };
        out.clear();
        for (j, &z) in work.z.iter().enumerate() {
            let given = seen(data.given[row * data.d + j]).filter(|_| !ignore_observed);
            let spike = self.spike(j).filter(|&(_, l)| level(l) == Some(1));
            let drawn = || spike.map_or_else(|| self.drawn(j, z), |(at, _)| at);
            out.push(given.unwrap_or_else(drawn));
        }
        let visible = (0..self.n_visible()).filter_map(level);
        out.extend(visible.map(|level| level as f64));
    }

    fn simulate(
        &self,
        params: &FullNormalParams,
        labels: &[u32],
        data: &mut FullNormalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (missing, ways) = self.nothing_known();
        let nothing = Known {
            known: &[],
            missing: &missing,
            ways: &ways,
        };
        let (d, n_levels) = (self.d(), self.n_visible());
        let mut work = Work::default();
        data.gaps.truncate(1);
        for (row, &label) in labels.iter().enumerate() {
            let one = One::new(self.rows(), params, label as usize);
            work.z.clear();
            work.z.resize(d, 0.0);
            let way = Self::fill(one, nothing, &mut work, rng);
            // One place for every column of levels, in their order.
            let places = ways.way(way);
            let level = |l: usize| places[l] - self.first_effect(l);
            data.units[row] = 0.0;
            data.known[row].clear();
            let mut missing = Vec::new();
            for l in 0..n_levels {
                let code = &mut data.codes[row * n_levels + l];
                if code.is_some() {
                    *code = Some(level(l) as u32);
                    data.known[row].push(places[l]);
                }
            }
            for j in 0..d {
                let given = &mut data.given[row * d + j];
                let spike = self.spike(j);
                let on = spike.filter(|&(_, l)| level(l) == 1);
                if given.is_nan() {
                    missing.push(j);
                    continue;
                }
                data.known[row].extend(spike.map(|(_, l)| places[l]));
                if let Some((at, _)) = on {
                    *given = at;
                    missing.push(j);
                    data.z[row * d + j] = 0.0;
                    continue;
                }
                // Of whole numbers and levels z stays as it was drawn, between them.
                *given = self.drawn(j, work.z[j]);
                let (z, ln_slope) = match self.numbers[j] {
                    Number::Count | Number::Ordinal(_) => (work.z[j], self.scales[j].ln()),
                    _ => self.standardised(j, *given),
                };
                data.z[row * d + j] = z;
                data.units[row] -= ln_slope;
            }
            data.missing[row] = data.gap(missing);
        }
    }

    fn check(&self, params: &FullNormalParams) -> Result<(), String> {
        self.check_hyperparameters(params)?;
        let rows = self.rows();
        let fits =
            |numbers: &Vec<f64>| numbers.len() == rows.n() && numbers.iter().all(|x| x.is_finite());
        if !params.table.iter().all(fits) {
            return Err("vector: numbers of clusters".to_owned());
        }
        let mut fresh = params.clone();
        (0..params.table.n_clusters()).try_for_each(|k| self.check_cluster(params, &mut fresh, k))
    }
}

impl Ways {
    /// Places of the levels of a way.
    fn way(&self, way: usize) -> &[usize] {
        let n_open = self.columns.len();
        &self.places[way * n_open..][..n_open]
    }
}

impl FullNormal {
    /// Draws what is missing of all incomplete cells in some clusters, and hands on row, numbers and way of the levels.
    fn complete_each(
        &self,
        data: &FullNormalData,
        labels: &[u32],
        inside: impl Fn(usize) -> bool,
        params: &FullNormalParams,
        rng: &mut Xoshiro256PlusPlus,
        mut take: impl FnMut(usize, &[f64], usize),
    ) {
        let mut of_cluster = vec![Vec::new(); params.n_clusters()];
        let partial =
            (0..labels.len()).filter(|&row| inside(labels[row] as usize) && data.is_partial(row));
        partial.for_each(|row| of_cluster[labels[row] as usize].push(row));
        let mut work = Work::default();
        let occupied = of_cluster.iter().enumerate();
        for (k, of_cluster) in occupied.filter(|(_, own)| !own.is_empty()) {
            let one = One::new(self.rows(), params, k);
            for &row in of_cluster {
                work.z.clear();
                work.z.extend_from_slice(data.numbers(row));
                let way = Self::fill(one, data.known(row), &mut work, rng);
                take(row, &work.z, way);
            }
        }
    }
}

impl FullNormal {
    fn check_hyperparameters(&self, params: &FullNormalParams) -> Result<(), String> {
        let coordinates = self
            .centres
            .iter()
            .copied()
            .zip(self.scales.iter().copied());
        let coordinates: Vec<(f64, f64)> = coordinates.collect();
        let is_spiked = |number: &&Number| matches!(number, Number::Spiked(_));
        let n_spikes = self.numbers.iter().filter(is_spiked).count();
        let n_visible = self.levels.len().saturating_sub(n_spikes);
        let visible = self.levels[..n_visible].iter();
        let sizes: Vec<usize> = visible.map(Categorical::size).collect();
        let same = Self::with_levels(&coordinates, &sizes).and_then(|k| k.measured(&self.numbers));
        if same.as_ref() != Ok(self) || self.scales.len() != self.d() {
            return Err("vector: centres, scales or levels".to_owned());
        }
        let (d, rows) = (self.d(), self.rows());
        // Rounding of products of factors may take a little off the floor.
        let is_scale = |factor: Cholesky| {
            let above = (0..d).all(|j| factor.l()[(j, j)].powi(2) > 0.5 * FLOOR);
            let off = (factor.ln_det() - params.ln_det_scale).abs();
            above && off < 1e-4 * (1.0 + params.ln_det_scale.abs())
        };
        let fits = params.mean.len() == d * (1 + rows.effects)
            && params.scale.len() == rows.triangle()
            && Cholesky::new(params.scale().as_ref()).is_ok_and(is_scale)
            && params.concentrations.len() == self.levels.len()
            && params.concentrations.iter().all(|&a| positive(a))
            && params.mean.iter().all(is_within)
            && positive(params.strength)
            && positive(params.effect_strength)
            && params.alike < ALIKE;
        match fits {
            true => Ok(()),
            false => Err("vector: hyperparameters".to_owned()),
        }
    }

    /// Checks a cluster, whose derived numbers are made again in `fresh`.
    fn check_cluster(
        &self,
        params: &FullNormalParams,
        fresh: &mut FullNormalParams,
        k: usize,
    ) -> Result<(), String> {
        let (d, rows, numbers) = (self.d(), self.rows(), &params.table[k]);
        let at = |i: usize, j: usize| {
            if i >= j {
                numbers[rows.factor(i, j)]
            } else {
                0.0
            }
        };
        let l = Mat::from_fn(d, d, at);
        if (0..d).any(|j| !positive(l[(j, j)])) {
            return Err(format!("vector: precision of cluster {k}"));
        }
        let effects = (0..rows.effects).flat_map(|a| params.effect(k, a));
        let means: Vec<f64> = params.mean(k).into_iter().chain(effects).collect();
        if !means.iter().all(is_within) {
            return Err(format!("vector: mean of cluster {k}"));
        }
        self.set(fresh, k, &means, &l);
        let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-9 * (1.0 + a.abs());
        if fresh.table[k].iter().zip(numbers).any(differs) {
            return Err(format!("vector: cluster {k}"));
        }
        for (l, levels) in self.levels.iter().enumerate() {
            let places = (0..levels.size()).map(|c| rows.ln_theta(self.first_effect(l) + c));
            let logs: Vec<f64> = places.map(|row| numbers[row]).collect();
            if log_sum_exp(&logs).abs() > 1e-9 {
                return Err(format!("vector: levels of cluster {k}"));
            }
        }
        Ok(())
    }
}

/// In scales from the centre, like the cells; their squares are numbers.
fn is_within(mean: &f64) -> bool {
    mean.abs() <= LIMIT
}

impl Hierarchical for FullNormal {
    /// Draws all hyperparameters but concentrations given the clusters with cells.
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
        // Σ Λ_k over these clusters.
        let mut sum = Mat::<f64>::zeros(d, d);
        for i in 0..d {
            for j in 0..d {
                let row = rows.precision(i, j);
                sum[(i, j)] = occupied.iter().map(|&k| params.table[k][row]).sum();
            }
        }
        self.move_means(params, &occupied, &sum, 0..1, rng);
        let lengths = self.lengths(params, &occupied, 0..1);
        let shape = STRENGTH.0 + 0.5 * n * d as f64;
        params.strength = positive_gamma(shape, STRENGTH.1 + 0.5 * lengths, rng);
        if rows.effects > 0 {
            let effects = 1..1 + rows.effects;
            self.move_means(params, &occupied, &sum, effects.clone(), rng);
            let lengths = self.lengths(params, &occupied, effects);
            let shape = EFFECT_STRENGTH.0 + 0.5 * n * (d * rows.effects) as f64;
            params.effect_strength = positive_gamma(shape, EFFECT_STRENGTH.1 + 0.5 * lengths, rng);
        }
        self.move_scale(params, &occupied, &sum, rng);
    }

    fn has_cells(&self, stats: &FullNormalStats) -> bool {
        stats.n > 0
    }
}

impl FullNormal {
    /// Number j of the mean (`of` 0) or of an effect (1, 2, ...) of a cluster.
    fn place(&self, of: usize, j: usize) -> usize {
        match of.checked_sub(1) {
            None => self.rows().mean(j),
            Some(a) => self.rows().effect(a, j),
        }
    }

    /// Draws m, or m_a of some effects.
    fn move_means(
        &self,
        params: &mut FullNormalParams,
        occupied: &[usize],
        sum: &Mat<f64>,
        which: Range<usize>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (d, rows) = (self.d(), self.rows());
        let s = match which.start {
            0 => params.strength,
            _ => params.effect_strength,
        };
        let own = match which.start {
            0 => 1.0,
            _ => EFFECT_PRECISION,
        };
        let entry = |i: usize, j: usize| s * sum[(i, j)] + if i == j { own } else { 0.0 };
        let Ok(factor) = Cholesky::new(Mat::from_fn(d, d, entry).as_ref()) else {
            return;
        };
        for of in which {
            let table = &params.table;
            let pull = |i: usize| -> f64 {
                let of_cluster = |&k: &usize| -> f64 {
                    let terms = (0..d)
                        .map(|j| table[k][rows.precision(i, j)] * table[k][self.place(of, j)]);
                    terms.sum()
                };
                s * occupied.iter().map(of_cluster).sum::<f64>()
            };
            let mut mean: Vec<f64> = (0..d).map(pull).collect();
            factor.sample_canonical(&mut mean, rng);
            params.mean[of * d..][..d].copy_from_slice(&mean);
        }
    }

    /// Σ (β − m)'Λ(β − m) over clusters and some of μ and the effects.
    fn lengths(&self, params: &FullNormalParams, occupied: &[usize], which: Range<usize>) -> f64 {
        let (d, rows, table) = (self.d(), self.rows(), &params.table);
        let length = |of: usize, k: usize| -> f64 {
            let entry = |j: usize| -> f64 {
                let terms = (j..d).map(|i| {
                    table[k][rows.factor(i, j)]
                        * (table[k][self.place(of, i)] - params.mean[of * d + i])
                });
                terms.sum()
            };
            (0..d).map(|j| entry(j).powi(2)).sum()
        };
        which
            .map(|of| occupied.iter().map(|&k| length(of, k)).sum::<f64>())
            .sum()
    }

    /// Draws B and e.
    fn move_scale(
        &self,
        params: &mut FullNormalParams,
        occupied: &[usize],
        sum: &Mat<f64>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (d, n) = (self.d(), occupied.len() as f64);
        let prior = (d + 2) as f64;
        let e = alike(params.alike);
        let own = |i: usize, j: usize| if i == j { SCALE_PRECISION } else { 0.0 };
        let entry = |i: usize, j: usize| e * sum[(i, j)] + own(i, j);
        let inverse_scale = Mat::from_fn(d, d, entry);
        let df = prior + n * self.df(params);
        if let Some((scale, ln_det)) = draw_scale(&inverse_scale, df, FLOOR, rng) {
            (params.scale, params.ln_det_scale) = (scale, ln_det);
        }
        let scale = params.scale();
        let of_constant = |&k: &usize| params.table[k][self.rows().constant()];
        // Σ ln |Λ_k|, and the trace of B Σ Λ_k.
        let ln_dets: f64 =
            2.0 * occupied.iter().map(of_constant).sum::<f64>() + 2.0 * n * d as f64 * LN_SQRT_2PI;
        let terms = (0..d).flat_map(|i| (0..d).map(move |j| (i, j)));
        let trace: f64 = terms.map(|(i, j)| scale[(i, j)] * sum[(i, j)]).sum();
        let mut weights: [f64; ALIKE] = std::array::from_fn(|g| {
            let (e, df) = (alike(g), (d + 1) as f64 + alike(g));
            let of_scale = d as f64 * (0.5 * e).ln() + params.ln_det_scale;
            n * (0.5 * df * of_scale - ln_multivariate_gamma(d, 0.5 * df))
                + 0.5 * e * (ln_dets - trace)
        });
        params.alike = pick_ln(&mut weights, rng);
    }
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;

    use super::*;

    /// Means and standard errors of the entries of B, their squares and ln |B| over draws.
    fn moments(mut draw: impl FnMut() -> (Vec<f64>, f64), n: usize) -> Vec<(f64, f64)> {
        let mut sums = vec![(0.0, 0.0); 7];
        for _ in 0..n {
            let (scale, ln_det) = draw();
            let squares = scale.iter().map(|x| x * x);
            let all = scale.iter().copied().chain(squares).chain([ln_det]);
            for (sum, x) in sums.iter_mut().zip(all) {
                *sum = (sum.0 + x, sum.1 + x * x);
            }
        }
        let n = n as f64;
        let of = |(sum, squares): (f64, f64)| {
            let mean = sum / n;
            (mean, ((squares / n - mean * mean) / n).sqrt())
        };
        sums.into_iter().map(of).collect()
    }

    /// Draws above a floor that matters have the law of the draws without it that happen to be above it.
    #[test]
    fn scales_are_drawn_above_their_floor() {
        let inverse = Mat::from_fn(2, 2, |i, j| if i == j { 6.0 } else { -4.0 });
        let (df, rng) = (5.0, &mut stream(44, [1, 0, 0, 0]));
        for floor in [0.3, 1.2] {
            let direct = moments(|| draw_scale(&inverse, df, floor, rng).unwrap(), 40_000);
            let rng = &mut stream(44, [2, 0, 0, 0]);
            let law = Wishart::from_inverse_scale(inverse.as_ref(), df).unwrap();
            let rejected = || loop {
                let l = law.sample_factor(rng);
                if (0..2).all(|j| l[(j, j)].powi(2) >= floor) {
                    let entry = |i: usize, j: usize| l[(i, 0)] * l[(j, 0)] + l[(i, 1)] * l[(j, 1)];
                    let scale = vec![entry(0, 0), entry(1, 0), entry(1, 1)];
                    return (scale, 2.0 * (l[(0, 0)] * l[(1, 1)]).ln());
                }
            };
            for (a, b) in direct.iter().zip(moments(rejected, 40_000)) {
                let z = (a.0 - b.0) / a.1.hypot(b.1);
                assert!(z.abs() < 4.0, "floor {floor}: {a:?} and {b:?}");
            }
        }
    }
}
