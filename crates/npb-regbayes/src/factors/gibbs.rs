//! A Gibbs sampler of the unsupervised model, the check of the variational posterior: no mean field, the same sticks.
//!
//! Truncated sticks: with `u_k = ln pi_k` the prior `nu_k ~ Beta(alpha, 1)` has density `alpha^K exp(alpha u_K)` on `0 > u_1 > ... > u_K` (Teh et al.
//! 2007), so that each `u_k` lies between its neighbours with density proportional to `pi_k^n_k (1 - pi_k)^(I - n_k)`.

use npb_data::Table;
use npb_infer::parallel;
use npb_infer::ranges::{self, OutOfRange};
use npb_infer::stream;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::special::log1mexp;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};
use serde::{Deserialize, Serialize};

use super::Items;
use crate::dense::{axpy, columns_mut, sigmoid};
use crate::error::{RegBayesError, same_size};

/// Moves of the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IbpMove {
    /// `z_ik` given everything else, items in parallel.
    Indicators,
    /// `w_j` given everything else, all K at once.
    Loadings,
    /// `pi_k` given its neighbours, by slice sampling of its logarithm.
    Weights,
    /// Precision of the noise.
    NoisePrecision,
    /// Prior precision of the loadings.
    LoadingPrecision,
    /// Concentration alpha.
    Concentration,
}

/// Settings of the sampler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IbpGibbsConfig {
    /// Number of sticks K.
    pub truncation: usize,
    /// Prior of the noise precision.
    pub noise: GammaPrior,
    /// Prior of the precision of loadings.
    pub loading: GammaPrior,
    /// Prior of alpha.
    pub concentration: GammaPrior,
    /// Moves of one sweep.
    pub moves: Vec<IbpMove>,
    /// Seed of everything random.
    pub seed: u64,
    /// Number of the chain.
    pub chain: u64,
}

impl Default for IbpGibbsConfig {
    fn default() -> Self {
        let unit = GammaPrior {
            shape: 1.0,
            rate: 1.0,
        };
        Self {
            truncation: 10,
            noise: unit,
            loading: unit,
            concentration: unit,
            moves: vec![
                IbpMove::Indicators,
                IbpMove::Loadings,
                IbpMove::Weights,
                IbpMove::NoisePrecision,
                IbpMove::LoadingPrecision,
                IbpMove::Concentration,
            ],
            seed: 0,
            chain: 0,
        }
    }
}

/// One draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IbpDraw {
    /// `ln pi_k`, in descending order.
    pub ln_weights: Vec<f64>,
    /// `z_ik`, 0 or 1: K x I.
    #[serde(with = "npb_linalg::saved")]
    pub indicators: Mat<f64>,
    /// `w_j`, K x J.
    #[serde(with = "npb_linalg::saved")]
    pub loadings: Mat<f64>,
    /// Precision of the noise.
    pub noise_precision: f64,
    /// Prior precision of the loadings.
    pub loading_precision: f64,
    /// alpha.
    pub concentration: f64,
}

/// A fault of size one half that a test can plant, and the place where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Shape of the noise precision too large.
    NoiseShape,
    /// Shape of the precision of loadings too large.
    LoadingShape,
    /// Shape of alpha too small.
    ConcentrationShape,
    /// Half an item too many in each column.
    WeightCount,
    /// Odds without `1 - pi_k`.
    Complement,
    /// Loadings drawn with half of the prior's precision.
    LoadingPrior,
}

/// A chain.
///
/// ```
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::{IbpGibbsConfig, IbpSampler};
/// // Rows of two kinds.
/// let value = |n: usize, d: usize| if n % 2 == d % 2 { 3.0 } else { 0.0 } + ((n * (d + 3)) % 5) as f64 / 10.0;
/// let table = Table::complete(20, 6, (0..120).map(|k| value(k / 6, k % 6)).collect())?;
/// let mut sampler = IbpSampler::new(&table, &IbpGibbsConfig { truncation: 4, ..IbpGibbsConfig::default() })?;
/// for _ in 0..200 {
///     sampler.sweep()?;
/// }
/// assert!(sampler.draw().noise_precision > 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct IbpSampler {
    items: Items,
    config: IbpGibbsConfig,
    draw: IbpDraw,
    sweep: u64,
    /// Planted by tests only.
    fault: Option<Fault>,
}

impl IbpSampler {
    /// A chain for a table whose rows are items, started from the prior. Holes are left out of the likelihood.
    ///
    /// # Errors
    /// Settings out of range; a value beyond 1e100 in size.
    pub fn new(table: &Table, config: &IbpGibbsConfig) -> Result<Self, RegBayesError> {
        config.validate()?;
        check_size(table)?;
        let items = Items::from_rows(table);
        let rng = &mut stream(config.seed, [config.chain, 0, START, 0]);
        let draw = config.prior(items.n_items(), items.n_observations(), rng);
        Ok(Self::from_draw(items, config.clone(), draw))
    }

    /// A chain for a table whose rows are items, started at a given draw.
    ///
    /// # Errors
    /// Settings out of range; a draw of other sizes; a value beyond 1e100 in size.
    pub fn at(
        table: &Table,
        config: &IbpGibbsConfig,
        draw: IbpDraw,
    ) -> Result<Self, RegBayesError> {
        config.validate()?;
        check_size(table)?;
        let items = Items::from_rows(table);
        let (k, i, j) = (config.truncation, items.n_items(), items.n_observations());
        for (what, found, expected) in [
            ("weights of the draw", draw.ln_weights.len(), k),
            ("features of the indicators", draw.indicators.nrows(), k),
            ("items of the indicators", draw.indicators.ncols(), i),
            ("features of the loadings", draw.loadings.nrows(), k),
            ("observations of the loadings", draw.loadings.ncols(), j),
        ] {
            same_size(what, found, expected)?;
        }
        Ok(Self::from_draw(items, config.clone(), draw))
    }

    fn from_draw(items: Items, config: IbpGibbsConfig, draw: IbpDraw) -> Self {
        Self {
            items,
            config,
            draw,
            sweep: 0,
            fault: None,
        }
    }

    /// The present draw.
    pub fn draw(&self) -> &IbpDraw {
        &self.draw
    }

    /// One sweep: every move in order.
    ///
    /// # Errors
    /// A precision that is not positive definite.
    pub fn sweep(&mut self) -> Result<(), RegBayesError> {
        self.sweep += 1;
        for (n, step) in self.config.moves.clone().into_iter().enumerate() {
            self.apply(step, n as u64)?;
        }
        Ok(())
    }

    /// One move; `place` is its place among the moves.
    fn apply(&mut self, step: IbpMove, place: u64) -> Result<(), RegBayesError> {
        let key = [self.config.chain, self.sweep, MOVES + place, 0];
        let rng = &mut stream(self.config.seed, key);
        match step {
            IbpMove::Indicators => self.draw_indicators(place),
            IbpMove::Loadings => self.draw_loadings(place)?,
            IbpMove::Weights => self.draw_weights(rng),
            IbpMove::NoisePrecision => {
                let shape = 0.5 * self.items.n_observed as f64 + self.half(Fault::NoiseShape);
                let prior = self.config.noise;
                self.draw.noise_precision = gamma(prior, shape, 0.5 * self.squares(), rng);
            }
            IbpMove::LoadingPrecision => {
                let w = &self.draw.loadings;
                let squares = |j: usize| npb_linalg::dot(w.col_as_slice(j), w.col_as_slice(j));
                let sum: f64 = (0..w.ncols()).map(squares).sum();
                let shape = 0.5 * (w.nrows() * w.ncols()) as f64 + self.half(Fault::LoadingShape);
                self.draw.loading_precision = gamma(self.config.loading, shape, 0.5 * sum, rng);
            }
            IbpMove::Concentration => {
                let last = self.draw.ln_weights.last().copied().unwrap_or(0.0);
                let shape = self.config.truncation as f64 - self.half(Fault::ConcentrationShape);
                self.draw.concentration = gamma(self.config.concentration, shape, -last, rng);
            }
        }
        Ok(())
    }

    /// `sum_ij o_ij (x_ij - z_i'w_j)^2`.
    fn squares(&self) -> f64 {
        let own = |i: usize| {
            let r = self.residual(i, self.draw.indicators.col_as_slice(i), &self.means());
            npb_linalg::dot(&r, &r)
        };
        (0..self.items.n_items()).map(own).sum()
    }

    /// Loadings, J x K.
    fn means(&self) -> Mat<f64> {
        self.draw.loadings.transpose().to_owned()
    }

    fn residual(&self, i: usize, z: &[f64], means: &Mat<f64>) -> Vec<f64> {
        let mut r = self.items.values.col_as_slice(i).to_vec();
        for (k, &on) in z.iter().enumerate() {
            if on != 0.0 {
                axpy(&mut r, -on, means.col_as_slice(k));
            }
        }
        if let Some(seen) = &self.items.seen {
            r.iter_mut()
                .zip(seen.col_as_slice(i))
                .for_each(|(r, o)| *r *= o);
        }
        r
    }

    /// Log-odds `ln pi_k - ln (1 - pi_k) + tau sum_j o_j (w_jk r_j - w_jk^2 / 2)`, r without feature k.
    fn draw_indicators(&mut self, place: u64) {
        let (config, sweep) = (&self.config, self.sweep);
        let means = self.means();
        let complement = 1.0 - 2.0 * self.half(Fault::Complement);
        let odds: Vec<f64> = self
            .draw
            .ln_weights
            .iter()
            .map(|&u| u - complement * log1mexp(u))
            .collect();
        let precision = self.draw.noise_precision;
        let mut z = std::mem::replace(&mut self.draw.indicators, Mat::zeros(0, 0));
        let columns = columns_mut(&mut z).into_iter().enumerate();
        parallel::for_each(columns, |(i, z)| {
            let key = [config.chain, sweep, MOVES + place, 1 + i as u64];
            let rng = &mut stream(config.seed, key);
            let mut r = self.residual(i, z, &means);
            let seen = self.items.seen.as_ref().map(|seen| seen.col_as_slice(i));
            for k in 0..z.len() {
                let w = means.col_as_slice(k);
                let seen = |j: usize| seen.map_or(1.0, |seen| seen[j]);
                let squares: f64 = (0..w.len()).map(|j| seen(j) * w[j] * w[j]).sum();
                let slope = npb_linalg::dot(w, &r) + z[k] * squares;
                let ln_odds = odds[k] + precision * (slope - 0.5 * squares);
                let new = f64::from(u8::from(rng.random::<f64>() < sigmoid(ln_odds)));
                let delta = new - z[k];
                for j in 0..w.len() {
                    r[j] -= delta * w[j] * seen(j);
                }
                z[k] = new;
            }
        });
        self.draw.indicators = z;
    }

    /// `w_j ~ N(P^-1 tau Z x_j, P^-1)`, `P = lambda_w I + tau sum_i o_ij z_i z_i'`.
    fn draw_loadings(&mut self, place: u64) -> Result<(), RegBayesError> {
        let (config, sweep, items) = (&self.config, self.sweep, &self.items);
        let (tau, z) = (self.draw.noise_precision, &self.draw.indicators);
        let prior = self.draw.loading_precision * (1.0 - self.half(Fault::LoadingPrior));
        let columns = columns_mut(&mut self.draw.loadings).into_iter().enumerate();
        parallel::try_map(columns, |(j, w)| {
            let k = w.len();
            let mut p = Mat::zeros(k, k);
            (0..k).for_each(|l| p[(l, l)] = prior);
            w.fill(0.0);
            for i in 0..z.ncols() {
                if items.seen.as_ref().is_some_and(|seen| seen[(j, i)] == 0.0) {
                    continue;
                }
                let z = z.col_as_slice(i);
                axpy(w, tau * items.values[(j, i)], z);
                for l in 0..k {
                    axpy(p.col_as_slice_mut(l), tau * z[l], z);
                }
            }
            let factor = Cholesky::new(p.as_ref())
                .map_err(|e| RegBayesError::numerical(sweep, "loadings", &e))?;
            let key = [config.chain, sweep, MOVES + place, 1 + j as u64];
            factor.sample_canonical(w, &mut stream(config.seed, key));
            Ok(())
        })
        .map(drop)
    }

    fn draw_weights(&mut self, rng: &mut impl Rng) {
        let (n, last) = (self.items.n_items() as f64, self.config.truncation - 1);
        let extra = self.half(Fault::WeightCount);
        for k in 0..=last {
            let z = &self.draw.indicators;
            let count: f64 = extra + (0..z.ncols()).map(|i| z[(k, i)]).sum::<f64>();
            let u = &mut self.draw.ln_weights;
            let above = if k == 0 { 0.0 } else { u[k - 1] };
            let below = u.get(k + 1).copied().unwrap_or(f64::NEG_INFINITY);
            let power = count
                + if k == last {
                    self.draw.concentration
                } else {
                    0.0
                };
            let ln_density = |u: f64| power * u + (n - count) * log1mexp(u);
            u[k] = slice(u[k], (below, above), 1.0 / power.max(0.1), ln_density, rng);
        }
    }

    /// One half if the sampler has this fault, else 0.
    fn half(&self, fault: Fault) -> f64 {
        if self.fault == Some(fault) { 0.5 } else { 0.0 }
    }
}

/// Third words of the keys of random streams.
const START: u64 = 0;
const MOVES: u64 = 1;

impl IbpGibbsConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        ranges::up_to("truncation", self.truncation, 4096)?;
        ranges::gamma("noise", self.noise)?;
        ranges::gamma("loading", self.loading)?;
        ranges::gamma("concentration", self.concentration)
    }

    /// A draw from the prior, for so many items with so many observations each.
    pub fn prior(&self, n_items: usize, n_observations: usize, rng: &mut impl Rng) -> IbpDraw {
        let concentration = gamma(self.concentration, 0.0, 0.0, rng);
        let loading_precision = gamma(self.loading, 0.0, 0.0, rng);
        let mut ln_weights = vec![0.0; self.truncation];
        npb_priors::ibp::sample_sticks(concentration, &mut ln_weights, rng);
        let indicators = Mat::from_fn(self.truncation, n_items, |k, _| {
            f64::from(u8::from(rng.random::<f64>() < ln_weights[k].exp()))
        });
        let sd = loading_precision.sqrt().recip();
        let loadings = Mat::from_fn(self.truncation, n_observations, |_, _| {
            let z: f64 = rand_distr::StandardNormal.sample(rng);
            sd * z
        });
        IbpDraw {
            ln_weights,
            indicators,
            loadings,
            noise_precision: gamma(self.noise, 0.0, 0.0, rng),
            loading_precision,
            concentration,
        }
    }
}

/// Values are modelled in their own units, and their squares must be finite.
fn check_size(table: &Table) -> Result<(), RegBayesError> {
    let columns = table.n_cols();
    let bad = |&at: &usize| table.values()[at].abs() > 1e100;
    let Some(at) = (0..table.values().len()).find(bad) else {
        return Ok(());
    };
    Err(RegBayesError::Entry {
        what: "table",
        row: at / columns,
        column: at % columns,
        value: table.values()[at],
        rule: "at most 1e100 in size: standardise the columns",
    })
}

/// Gamma(shape + `shape`, rate + `rate`), never 0.
fn gamma(prior: GammaPrior, shape: f64, rate: f64, rng: &mut impl Rng) -> f64 {
    let gamma = Gamma::new(prior.shape + shape, 1.0 / (prior.rate + rate));
    let gamma =
        gamma.unwrap_or_else(|_| unreachable!("priors are checked, counts and squares positive"));
    gamma.sample(rng).max(f64::MIN_POSITIVE)
}

/// One step of Neal's slice sampler (2003, stepping out and shrinkage) within bounds.
fn slice(
    from: f64,
    (below, above): (f64, f64),
    width: f64,
    ln_density: impl Fn(f64) -> f64,
    rng: &mut impl Rng,
) -> f64 {
    let level = ln_density(from) + (1.0 - rng.random::<f64>()).ln();
    let mut low = from - width * rng.random::<f64>();
    let mut high = low + width;
    while low > below && ln_density(low) > level {
        low -= width;
    }
    while high < above && ln_density(high) > level {
        high += width;
    }
    (low, high) = (low.max(below), high.min(above));
    loop {
        let new = low + (high - low) * rng.random::<f64>();
        if new >= above || new <= below {
            // Only by rounding, at an end of a very short interval.
            return from;
        }
        if ln_density(new) >= level {
            return new;
        }
        if new < from {
            low = new;
        } else {
            high = new;
        }
    }
}

#[cfg(test)]
mod tests;
