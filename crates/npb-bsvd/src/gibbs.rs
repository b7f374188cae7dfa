//! The Gibbs sampler: what it holds, and one sweep, whose moves are those of `docs/bsvd.md#updates`.

mod components;
mod group;
mod hyper;
mod latent;
#[cfg(test)]
mod tests;

use npb_data::Features;
use npb_infer::ranges::OutOfRange;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::aligned::Aligned;
use npb_linalg::dot_f32 as dot;
use npb_priors::ParameterError;
use pulp::Arch;
use rand::RngExt;

use crate::axes::rotate_to_svd;
use crate::config::BsvdMove;
use crate::data::BsvdData;
use crate::grouped::Cells;
use crate::probit::Latents;
use crate::products::Candidates;
use crate::regression::{Pass, Pool, Regressors, ResidualSums, Target, Task, fill_design};
use crate::side::Side;
use crate::start::start;
use crate::state::{BsvdState, SideState};
use crate::switches::Switchboard;
use crate::tuning;
use crate::{BsvdConfig, BsvdError};

/// Third words of the keys of random streams; 0 is that of the start.
const ROWS: u64 = 1;
const COLUMNS: u64 = 2;
const SWITCHES: u64 = 3;
const SCALE: u64 = 4;
const OFFSET: u64 = 5;
const NOISE: u64 = 6;
const SCALE_PRECISION: u64 = 7;
const HYPER: u64 = 8;
const LATENTS: u64 = 9;
const THRESHOLDS: u64 = 10;
const LOCATION: u64 = 11;
const MIXING: u64 = 12;
const TRACED: u64 = 13;
const UNIT: u64 = 14;

/// Sweeps at most in which components of a Gaussian likelihood grow undisturbed.
const GROWING: u64 = 10;

/// How many of the largest scales, and how many cells, are traced.
const TRACED_SCALES: usize = 10;
const TRACED_CELLS: usize = 8;

/// The sampler: borrows the data, owns state and scratch memory.
///
/// ```
/// use npb_bsvd::{BsvdConfig, BsvdData, BsvdSampler, SideInformation};
/// use npb_bsvd::npb_data::{Rating, Ratings};
///
/// let entry = |row, column, value| Rating { row, column, value };
/// let ratings = Ratings::new(3, 2, &[entry(0, 0, 4.0), entry(1, 0, 2.0), entry(1, 1, 3.0), entry(2, 1, 5.0)])?;
/// let config = BsvdConfig { candidates: 4, ..BsvdConfig::default() };
/// let data = BsvdData::new(&ratings, SideInformation::default(), &config)?;
/// let mut sampler = BsvdSampler::new(&data, config)?;
/// for _ in 0..10 {
///     sampler.sweep()?;
/// }
/// assert!(sampler.state().rank() <= sampler.state().candidates);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BsvdSampler<'d> {
    data: &'d BsvdData,
    config: BsvdConfig,
    state: BsvdState,
    sweep: u64,
    /// Means of the rows given the rest are asked for.
    follows: bool,
    memory: Memory,
}

/// Kept from sweep to sweep, so that a sweep allocates nothing once sizes have settled.
struct Memory {
    arch: Arch,
    pool: Pool,
    design: Aligned<f32>,
    prior_precision: Vec<f64>,
    prior_linear: Vec<f64>,
    block_sums: Vec<ResidualSums>,
    /// Of the state as it is, when known.
    residuals: Option<ResidualSums>,
    candidates: Candidates,
    parts: Vec<f64>,
    totals: Vec<f64>,
    spare: Vec<f32>,
    lengths: Vec<f64>,
    latents: Latents,
    /// Noise-free latent value of every entry, by rows; of probit likelihoods, when they are drawn.
    linear: Vec<f32>,
    /// Standard deviation of the noise of every entry, likewise; none when all are 1.
    noise_sds: Vec<f32>,
    /// Means of the coefficients of all rows given the rest of the state, when `row_means_known`.
    row_means: Vec<f32>,
    row_means_known: bool,
    /// Of the entries, up to a constant; when residuals were last summed.
    ln_likelihood: f64,
}

impl Memory {
    fn sum_of_blocks(&self) -> ResidualSums {
        let mut total = ResidualSums::default();
        self.block_sums
            .iter()
            .for_each(|block| total.add(block, 1.0));
        total
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            arch: Arch::new(),
            pool: Pool::default(),
            design: Aligned::default(),
            prior_precision: Vec::new(),
            prior_linear: Vec::new(),
            block_sums: Vec::new(),
            residuals: None,
            candidates: Candidates::default(),
            parts: Vec::new(),
            totals: Vec::new(),
            spare: Vec::new(),
            lengths: Vec::new(),
            latents: Latents::default(),
            linear: Vec::new(),
            noise_sds: Vec::new(),
            row_means: Vec::new(),
            row_means_known: false,
            ln_likelihood: f64::NAN,
        }
    }
}

/// `E[x_ij]` over the coefficients of the rows, given everything else in the state.
#[derive(Clone, Copy)]
pub(crate) struct GivenColumns<'a> {
    /// Mean coefficients, `width` for each row.
    means: &'a [f32],
    width: usize,
    /// What they are multiplied with, `stride` for each column.
    design: &'a [f32],
    stride: usize,
    offset: f64,
    columns: &'a SideState,
    /// Features of the rows.
    features: Option<&'a Features>,
}

impl GivenColumns<'_> {
    /// Cost: rank and features.
    pub(crate) fn latent(&self, i: usize, j: usize) -> f64 {
        let coefficients = SideState::part(self.means, i, self.width);
        let regressors = &self.design[j * self.stride..][..self.width];
        let intercept = self
            .columns
            .intercepts
            .get(j)
            .map_or(0.0, |&c| f64::from(c));
        let known = self.features.map_or(0.0, |features| {
            let own = SideState::part(&self.columns.coefficients, j, features.n_features());
            features.dot(i, own)
        });
        let root = f64::from(self.design[j * self.stride + self.width]);
        self.offset + intercept + known + dot(coefficients, regressors) / root
    }
}

impl<'d> BsvdSampler<'d> {
    /// Starts a chain: all candidates active, with small random factors.
    ///
    /// # Errors
    /// A configuration out of range, or of another likelihood than the data were prepared for.
    pub fn new(data: &'d BsvdData, config: BsvdConfig) -> Result<Self, BsvdError> {
        config.validate()?;
        prepared_for(data, &config)?;
        let state = start(data, &config);
        Ok(Self::with(data, config, state, 0))
    }

    /// Goes on from a state that so many sweeps led to, in the same bits as if it had never stopped.
    ///
    /// # Errors
    /// As [`new`](Self::new); a state of another size.
    pub fn resume(
        data: &'d BsvdData,
        config: BsvdConfig,
        state: BsvdState,
        sweeps: u64,
    ) -> Result<Self, BsvdError> {
        config.validate()?;
        prepared_for(data, &config)?;
        state.check(&data.shape(&config))?;
        Ok(Self::with(data, config, state, sweeps))
    }

    fn with(data: &'d BsvdData, config: BsvdConfig, state: BsvdState, sweep: u64) -> Self {
        Self {
            data,
            config,
            state,
            sweep,
            follows: true,
            memory: Memory::default(),
        }
    }

    /// Names of the scalars of [`scalars`](Self::scalars).
    pub fn scalar_names() -> Vec<String> {
        trace_names()
    }

    /// The state now.
    pub fn state(&self) -> &BsvdState {
        &self.state
    }

    /// The configuration.
    pub fn config(&self) -> &BsvdConfig {
        &self.config
    }

    /// Sweeps made so far.
    pub fn sweeps(&self) -> u64 {
        self.sweep
    }

    /// The state.
    pub fn into_state(self) -> BsvdState {
        self.state
    }

    /// Makes one sweep: every move that is due.
    ///
    /// Cost: linear in the entries; for each row and column, and each entry in it, quadratic in active components and features.
    ///
    /// # Errors
    /// Numerical trouble, with sweep and row.
    pub fn sweep(&mut self) -> Result<(), BsvdError> {
        self.sweep += 1;
        for n in 0..self.config.moves.len() {
            let scheduled = self.config.moves[n];
            if !self.sweep.is_multiple_of(scheduled.every) {
                continue;
            }
            let burns_in = self.sweep <= self.config.sweeps.burn_in;
            if scheduled.step == BsvdMove::Switches && burns_in {
                if self.is_growing() {
                    continue;
                }
                rotate_to_svd(&mut self.state);
            }
            self.apply(scheduled.step)?;
        }
        self.grow();
        tuning::watch(self.data, &self.config, &mut self.state, self.sweep);
        Ok(())
    }

    /// Writes the monitored scalars, none of which depends on how components are numbered: rank, candidates, noise standard deviation, offset (both in units
    /// of the data), precision of the scales; the largest scales `s_k sqrt(I J)` in units of the data, in descending order, 0 where there are fewer; the ln likelihood of
    /// the entries (of the latent entries behind a link) when residuals were last summed, up to a constant, in units of the model; the noise-free values of
    /// some cells, drawn from the seed, in units of the data (behind a link: latent values).
    ///
    /// # Panics
    /// When there are not as many as [`scalar_names`](Self::scalar_names).
    pub fn scalars(&self, out: &mut [f64]) {
        let state = &self.state;
        let unit = self.data.scale;
        out[0] = state.rank() as f64;
        out[1] = state.candidates as f64;
        out[2] = unit / state.noise_precision.sqrt();
        out[3] = self.data.centre + unit * state.offset;
        out[4] = state.scale_precision;
        let norm = unit * (self.data.n_rows() as f64 * self.data.n_cols() as f64).sqrt();
        let mut scales = state.scales.clone();
        scales.sort_by(|a, b| b.total_cmp(a));
        let (largest, rest) = out[5..].split_at_mut(TRACED_SCALES);
        for (n, out) in largest.iter_mut().enumerate() {
            *out = scales.get(n).map_or(0.0, |s| s * norm);
        }
        rest[0] = self.memory.ln_likelihood;
        for (n, out) in rest[1..].iter_mut().enumerate() {
            // The same cells in all chains of a seed.
            let mut rng = stream(self.config.seed, [0, 0, TRACED, n as u64]);
            let i = rng.random_range(0..self.data.n_rows());
            let j = rng.random_range(0..self.data.n_cols());
            *out = self.data.centre + unit * state.latent(i, j, &self.data.side);
        }
    }

    /// Makes one move, due or not.
    ///
    /// # Errors
    /// Numerical trouble, with sweep and row; a move of a probit model before [`BsvdMove::Latents`] was made once.
    pub fn apply(&mut self, step: BsvdMove) -> Result<(), BsvdError> {
        let first = matches!(step, BsvdMove::Thresholds | BsvdMove::Latents);
        if self.config.likelihood.is_probit() && !first && self.memory.latents.rows.is_empty() {
            return Err(BsvdError::Argument {
                argument: "step",
                value: format!("{step:?}"),
                rule: "made after Latents, which are not part of the state",
            });
        }
        self.memory.row_means_known = false;
        // Noise weights of rows ask for their residuals.
        let row_task = match self.config.own_noise().0 {
            true => Task::DrawAndSum,
            false => Task::Draw,
        };
        match step {
            BsvdMove::Thresholds => self.thresholds(),
            BsvdMove::Latents => self.latents(),
            BsvdMove::Rows => self.side(Side::Rows, row_task, ROWS),
            BsvdMove::Columns => self.side(Side::Columns, Task::DrawAndSum, COLUMNS),
            BsvdMove::Switches => self.switches(|board, order, rng| board.scan(order, rng)),
            BsvdMove::Scale => {
                self.scale();
                Ok(())
            }
            BsvdMove::Offset => self.offset(),
            BsvdMove::Location => {
                self.location(Side::Rows)?;
                self.location(Side::Columns)
            }
            BsvdMove::Mixing => {
                self.mixing();
                Ok(())
            }
            BsvdMove::Noise => self.noise(),
            BsvdMove::ScalePrecision => self.scale_precision(),
            BsvdMove::Hyper => self.hyper(),
        }
    }

    /// Says whether [`given_columns`](Self::given_columns) is asked after the sweeps to come.
    pub(crate) fn follow(&mut self, follows: bool) {
        self.follows = follows;
    }

    /// Latent values averaged over the rows given everything else, when the last move drew the rows jointly.
    pub(crate) fn given_columns(&self) -> Option<GivenColumns<'_>> {
        let memory = &self.memory;
        memory.row_means_known.then(|| GivenColumns {
            means: &memory.row_means,
            width: memory.row_means.len() / self.data.n_rows().max(1),
            design: &memory.design,
            stride: memory.design.len() / self.data.n_cols().max(1),
            offset: self.state.offset,
            columns: &self.state.columns,
            features: self.data.side.rows.as_ref(),
        })
    }

    /// The generator of a move that is one unit of work.
    fn rng(&self, code: u64, item: u64) -> Xoshiro256PlusPlus {
        stream(
            self.config.seed,
            [self.config.chain, self.sweep, code, item],
        )
    }

    /// At the start of the burn-in components grow, and none is switched off before it could. Behind a link, where latent entries move slowly along,
    /// they need longer.
    fn is_growing(&self) -> bool {
        let third = self.config.sweeps.burn_in / 3;
        let growing = match self.config.likelihood.is_probit() {
            true => third,
            false => third.min(GROWING),
        };
        self.sweep <= growing
    }

    /// When all candidates are still active in the second half of the burn-in there may be too few of them.
    fn grow(&mut self) {
        let state = &mut self.state;
        let burn_in = self.config.sweeps.burn_in;
        let in_time = self.sweep <= burn_in && self.sweep > burn_in / 2;
        if in_time && state.rank() == state.candidates {
            let more = state.candidates + state.candidates.div_ceil(2);
            state.candidates = more.min(self.config.max_candidates).max(state.candidates);
        }
    }

    /// The regression of a side: its design, from the other side, and the prior of the coefficients, into memory.
    fn lay_out(&mut self, side: Side) -> Regressors {
        let (state, memory) = (&self.state, &mut self.memory);
        let (own, other, n_other) = match side {
            Side::Rows => (&state.rows, &state.columns, self.data.n_cols()),
            Side::Columns => (&state.columns, &state.rows, self.data.n_rows()),
        };
        let features = side.opposite().features(&self.data.side);
        let regressors = regressors(state.scales.len(), own, features);
        prior_of(own, &mut memory.prior_precision, &mut memory.prior_linear);
        // Shards fill it themselves; that of the rows is asked about afterwards.
        if self.data.shards.is_some() && !(side == Side::Rows && self.follows) {
            return regressors;
        }
        fill_design(
            &regressors,
            &other.factors,
            &state.scales,
            features,
            &other.noise_weights,
            n_other,
            &mut memory.design,
        );
        regressors
    }

    /// A pass over the rows, or over the columns (`docs/bsvd.md#rows-and-columns`).
    fn side(&mut self, side: Side, task: Task, code: u64) -> Result<(), BsvdError> {
        let regressors = self.lay_out(side);
        let Self {
            data,
            config,
            state,
            memory,
            sweep,
            follows,
        } = self;
        let coordinates = tuning::coordinates(config, state);
        let (cells, own, other) = match side {
            Side::Rows => (&data.rows, &mut state.rows, &state.columns),
            Side::Columns => (&data.columns, &mut state.columns, &state.rows),
        };
        let drawn = config.likelihood.is_probit() && task != Task::Latents;
        let values = match side {
            _ if !drawn => &cells.values,
            Side::Rows => &memory.latents.rows,
            Side::Columns => &memory.latents.columns,
        };
        memory.row_means_known = *follows && side == Side::Rows && task.draws() && !coordinates;
        let width = match memory.row_means_known {
            true => regressors.layout().width,
            false => 0,
        };
        memory.row_means.resize(cells.len() * width, 0.0);
        if task != Task::Latents {
            memory.residuals = None;
        }
        memory.block_sums.clear();
        let sums = ResidualSums::default();
        memory.block_sums.resize(cells.blocks.len(), sums);
        let pass = Pass {
            arch: memory.arch,
            first: 0,
            cells,
            values,
            roots: roots(data, side),
            regressors,
            design: &memory.design,
            other,
            features: side.features(&data.side),
            offset: state.offset,
            noise_precision: state.noise_precision,
            prior_precision: &memory.prior_precision,
            prior_linear: &memory.prior_linear,
            links: &own.links,
            factor_weights: &own.factor_weights,
            task,
            coordinates,
            noise_shape: own.noise_shape,
            key: (config.seed, [config.chain, *sweep, code]),
            block_name: side.name(),
            pool: &memory.pool,
        };
        let target = Target {
            means: &mut memory.row_means,
            factors: &mut own.factors,
            intercepts: &mut own.intercepts,
            coefficients: &mut own.coefficients,
            weights: &mut own.noise_weights,
            latents: &mut memory.linear,
            sums: &mut memory.block_sums,
        };
        match &data.shards {
            Some(shards) => shards.pass(side, &pass, &state.scales, target)?,
            None => pass.run(&cells.blocks, target)?,
        }
        if task.sums() {
            let total = memory.sum_of_blocks();
            memory.residuals = Some(total);
            memory.ln_likelihood = ln_likelihood(data, state, total.second);
        }
        Ok(())
    }

    /// Residual sums of the state as it is, by a pass over the cells when they are not at hand.
    fn residuals(&mut self) -> Result<ResidualSums, BsvdError> {
        if self.memory.residuals.is_none() {
            self.side(Side::Columns, Task::Sum, COLUMNS)?;
        }
        let sums = self.memory.residuals.unwrap_or_default();
        finite(self.sweep, "sum of squared residuals", sums.second)?;
        Ok(sums)
    }

    /// Noise-free latent values of all entries, into `memory.linear`, and the standard deviations of their noise, into `memory.noise_sds`.
    fn linear(&mut self) -> Result<(), BsvdError> {
        self.memory.linear.resize(self.data.n_observed(), 0.0);
        let (rows, columns) = (&self.state.rows, &self.state.columns);
        if !(rows.noise_weights.is_empty() && columns.noise_weights.is_empty()) {
            let cells = &self.data.rows;
            let noise_sds = &mut self.memory.noise_sds;
            noise_sds.clear();
            for i in 0..cells.len() {
                let weight = rows.noise_weight(i);
                let of_entry = |&j: &u32| weight * columns.noise_weight(j as usize);
                let others = cells.others[cells.range(i)].iter();
                noise_sds.extend(others.map(|j| of_entry(j).sqrt().recip() as f32));
            }
        }
        self.side(Side::Rows, Task::Latents, ROWS)
    }
}

/// What the rows of a side are regressed on.
fn regressors(rank: usize, own: &SideState, other_features: Option<&Features>) -> Regressors {
    Regressors {
        rank,
        intercept: !own.intercepts.is_empty(),
        features: other_features.map_or(0, Features::n_features),
    }
}

/// Square roots of the weights of the entries in the order of a side; none when all are 1.
fn roots(data: &BsvdData, side: Side) -> Option<&[f32]> {
    let roots = match side {
        Side::Rows => &data.roots.0,
        Side::Columns => &data.roots.1,
    };
    (!roots.is_empty()).then_some(&roots[..])
}

/// Prior precisions of the coefficients of a row, and precisions times means; those of the factors are yet to be multiplied by the weight of the row.
fn prior_of(own: &SideState, precision: &mut Vec<f64>, linear: &mut Vec<f64>) {
    let means = &own.factor_mean;
    precision.clear();
    linear.clear();
    precision.resize(means.len(), 1.0);
    linear.extend_from_slice(means);
    if !own.intercepts.is_empty() {
        precision.push(own.intercept_precision);
        linear.push(0.0);
    }
    for (mean, &p) in own.coefficient_mean.iter().zip(&own.coefficient_precision) {
        precision.push(p);
        linear.push(p * mean);
    }
}

/// ln likelihood of normal entries up to a constant, given their weighted squared residuals.
fn ln_likelihood(data: &BsvdData, state: &BsvdState, squares: f64) -> f64 {
    let ln_weights = |cells: &Cells, own: &SideState| -> f64 {
        let ln_weight = |(i, &w): (usize, &f32)| cells.range(i).len() as f64 * f64::from(w).ln();
        own.noise_weights.iter().enumerate().map(ln_weight).sum()
    };
    let alpha = state.noise_precision;
    let ln_precisions = data.n_observed() as f64 * alpha.ln()
        + ln_weights(&data.rows, &state.rows)
        + ln_weights(&data.columns, &state.columns);
    0.5 * (ln_precisions - alpha * squares)
}

/// One time through the switches; a parameter, so that tests can put a wrong one in its place.
type Scan =
    fn(&mut Switchboard<'_>, &[usize], &mut Xoshiro256PlusPlus) -> Result<(), ParameterError>;

fn finite(sweep: u64, what: &'static str, value: f64) -> Result<(), BsvdError> {
    if value.is_finite() {
        Ok(())
    } else {
        Err(BsvdError::NotFinite { sweep, what, value })
    }
}

/// Data know the likelihood that they were prepared for.
fn prepared_for(data: &BsvdData, config: &BsvdConfig) -> Result<(), BsvdError> {
    if data.likelihood == config.likelihood {
        return Ok(());
    }
    Err(OutOfRange::new(
        "likelihood",
        format!("{:?}", config.likelihood),
        format!("that of the data, {:?}", data.likelihood),
    )
    .into())
}

/// Names of the traced scalars.
pub(crate) fn trace_names() -> Vec<String> {
    let fixed = [
        "rank",
        "candidates",
        "noise_sd",
        "offset",
        "scale_precision",
    ];
    let scales = (1..=TRACED_SCALES).map(|k| format!("scale_{k}"));
    let cells = (1..=TRACED_CELLS).map(|n| format!("cell_{n}"));
    let fixed = fixed.into_iter().map(str::to_owned);
    let rest = std::iter::once("ln_likelihood".to_owned()).chain(cells);
    fixed.chain(scales).chain(rest).collect()
}
