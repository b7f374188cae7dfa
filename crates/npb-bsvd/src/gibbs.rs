//! The Gibbs sampler.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use npb_infer::ranges::OutOfRange;
use npb_infer::{Stop, SweepOutcome, SweepReport, Trace, Xoshiro256PlusPlus, stream};
use npb_priors::dist::{Gamma, Normal};
use npb_priors::{GammaPrior, ParameterError};
use pulp::Arch;
use rand::RngExt;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::axes::turn_to_axes;
use crate::config::BsvdMove;
use crate::data::{self, BsvdData};
use crate::links::{self, deviations, draw_shape, draw_spreads};
use crate::probit::{self, Latents};
use crate::products::{Candidates, ProductPass, column_sums, squared_deviations};
use crate::regression::{
    DOUBLE_BEYOND, Pass, Pool, Regressors, ResidualSums, Target, Task, fill_design,
};
use crate::rescale::normals;
use crate::shear::{Moments, exchange};
use crate::side::Side;
use crate::start::start;
use crate::state::{BsvdState, SideState};
use crate::stretch;
use crate::switches::Switchboard;
use crate::tuning;
use crate::{BsvdConfig, BsvdError};
use npb_data::Features;
use npb_linalg::dot_f32 as dot;
use npb_linalg::row_regression::{Layout, Real, draw_coefficients};
use npb_priors::dist::sample_ln_gig;

/// Third words of the keys of random streams; 0 is that of the start.
const ROWS: u64 = 1;
const COLUMNS: u64 = 2;
const SWITCHES: u64 = 3;
const RESCALE: u64 = 4;
const OFFSET: u64 = 5;
const NOISE: u64 = 6;
const SCALE_PRECISION: u64 = 7;
const HYPER: u64 = 8;
const LATENTS: u64 = 9;
const THRESHOLDS: u64 = 10;
const TRANSLATE: u64 = 11;
const SHEAR: u64 = 12;
const TRACED: u64 = 13;
const UNIT: u64 = 14;

/// Scans of the switches for one pass over the cells: they cost next to nothing.
const SCANS: usize = 3;

/// Sweeps at most in which components of a Gaussian likelihood grow undisturbed.
const GROWING: u64 = 10;

/// Rows whose inactive factors are drawn by one generator.
const CANDIDATE_ROWS: usize = 512;

/// Precisions are kept within these, where vague priors and no data would send them to 0 or infinity.
const LEAST_PRECISION: f64 = 1e-100;
const MOST_PRECISION: f64 = 1e15;

/// Share of accepted moves of thresholds that the adaptation aims at.
const ACCEPTANCE: f64 = 0.3;

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
    trace: Trace,
    sweep: u64,
    memory: Memory,
}

/// Kept from sweep to sweep, so that a sweep allocates nothing once sizes have settled.
struct Memory {
    arch: Arch,
    pool: Pool,
    design: Vec<f32>,
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

impl Default for Memory {
    fn default() -> Self {
        Self {
            arch: Arch::new(),
            pool: Pool::default(),
            design: Vec::new(),
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
        Ok(Self::with(data, config, state, Trace::new(trace_names())))
    }

    /// Goes on from a state and the trace of the sweeps that led to it, in the same bits as if it had never stopped.
    ///
    /// # Errors
    /// As [`new`](Self::new); a state of another size.
    pub fn resume(
        data: &'d BsvdData,
        config: BsvdConfig,
        state: BsvdState,
        trace: Trace,
    ) -> Result<Self, BsvdError> {
        config.validate()?;
        prepared_for(data, &config)?;
        state.check(&data.shape(&config))?;
        if trace.names() != trace_names() {
            return Err(BsvdError::State {
                what: "the trace holds other scalars".to_owned(),
            });
        }
        Ok(Self::with(data, config, state, trace))
    }

    fn with(data: &'d BsvdData, config: BsvdConfig, state: BsvdState, trace: Trace) -> Self {
        let sweep = trace.n_sweeps() as u64;
        Self {
            data,
            config,
            state,
            trace,
            sweep,
            memory: Memory::default(),
        }
    }

    /// Names of the scalars of [`trace`](Self::trace), for an empty one.
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

    /// Scalars of the sweeps made by [`run`](Self::run), none of which depends on how components are numbered: rank, candidates, noise standard deviation,
    /// offset (both in units of the data), precision of the scales; the largest scales `s_k sqrt(I J)` in units of the data, falling, 0 where there are
    /// fewer; the ln likelihood of the entries (of the latent entries behind a link) when residuals were last summed, up to a constant, in units of the
    /// model; the noise-free values of some cells, drawn from the seed, in units of the data (behind a link: latent values).
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The state, the trace and the configuration.
    pub fn into_parts(self) -> (BsvdState, Trace, BsvdConfig) {
        (self.state, self.trace, self.config)
    }

    /// Makes one sweep: every move of the schedule that is due.
    ///
    /// Cost: linear in the entries; for each row and column, and each entry in it, quadratic in active components and features.
    ///
    /// # Errors
    /// Numerical trouble, with sweep and row.
    pub fn sweep(&mut self) -> Result<(), BsvdError> {
        self.sweep += 1;
        for n in 0..self.config.schedule.len() {
            let scheduled = self.config.schedule[n];
            if !self.sweep.is_multiple_of(scheduled.every) {
                continue;
            }
            if scheduled.step == BsvdMove::Switches && self.sweep <= self.config.sweeps.burn_in {
                if self.is_growing() {
                    continue;
                }
                turn_to_axes(&mut self.state);
            }
            self.apply(scheduled.step)?;
        }
        self.grow();
        tuning::watch(self.data, &self.config, &mut self.state, self.sweep);
        Ok(())
    }

    /// Makes all remaining sweeps of `config.sweeps`, unless `watch` breaks. The watcher sees each sweep's report and the sampler.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub fn run(
        &mut self,
        mut watch: impl FnMut(&SweepReport<'_>, &Self) -> ControlFlow<()>,
    ) -> Result<SweepOutcome, BsvdError> {
        let plan = self.config.sweeps;
        let mut scalars = vec![f64::NAN; self.trace.names().len()];
        let mut stop = Stop::Completed;
        for sweep in self.trace.n_sweeps() as u64 + 1..=plan.total() {
            self.sweep()?;
            self.scalars(&mut scalars);
            self.trace.push(&scalars);
            let report = SweepReport {
                sweep,
                kept: plan.is_kept(sweep),
                trace: &self.trace,
            };
            if watch(&report, self).is_break() {
                stop = Stop::Cancelled;
                break;
            }
        }
        Ok(SweepOutcome {
            stop,
            trace: self.trace.clone(),
        })
    }

    fn scalars(&self, out: &mut [f64]) {
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
            BsvdMove::Rows => self.side(Side::Rows, row_task),
            BsvdMove::Columns => self.side(Side::Columns, Task::DrawAndSum),
            BsvdMove::Switches => self.switches(|board, order, rng| board.scan(order, rng)),
            BsvdMove::Rescale => {
                self.rescale();
                Ok(())
            }
            BsvdMove::Offset => self.offset(),
            BsvdMove::Translate => {
                self.translate(Side::Rows)?;
                self.translate(Side::Columns)
            }
            BsvdMove::Shear => {
                self.shear();
                Ok(())
            }
            BsvdMove::Noise => self.noise(),
            BsvdMove::ScalePrecision => self.scale_precision(),
            BsvdMove::Hyper => self.hyper(),
        }
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

    /// A pass over the rows, or over the columns.
    fn side(&mut self, side: Side, task: Task) -> Result<(), BsvdError> {
        let Self {
            data,
            config,
            state,
            memory,
            sweep,
            ..
        } = self;
        let coordinates = tuning::coordinates(config, state);
        let (cells, own_features, other_features, own, other, code, name, n_other) = match side {
            Side::Rows => (
                &data.rows,
                data.side.rows.as_ref(),
                data.side.columns.as_ref(),
                &mut state.rows,
                &state.columns,
                ROWS,
                "row",
                data.n_cols(),
            ),
            Side::Columns => (
                &data.columns,
                data.side.columns.as_ref(),
                data.side.rows.as_ref(),
                &mut state.columns,
                &state.rows,
                COLUMNS,
                "column",
                data.n_rows(),
            ),
        };
        let regressors = Regressors {
            rank: state.scales.len(),
            intercept: !own.intercepts.is_empty(),
            features: other_features.map_or(0, Features::n_features),
        };
        fill_design(
            &regressors,
            other,
            &state.scales,
            other_features,
            &other.noise_weights,
            n_other,
            &mut memory.design,
        );
        memory.prior_precision.clear();
        memory.prior_linear.clear();
        memory.prior_precision.resize(regressors.rank, 1.0);
        memory.prior_linear.extend_from_slice(&own.factor_mean);
        if regressors.intercept {
            memory.prior_precision.push(own.intercept_precision);
            memory.prior_linear.push(0.0);
        }
        for (mean, precision) in own.coefficient_mean.iter().zip(&own.coefficient_precision) {
            memory.prior_precision.push(*precision);
            memory.prior_linear.push(precision * mean);
        }
        let latents = &memory.latents;
        let (values, roots) = match side {
            Side::Rows => (&latents.rows, &data.roots.0),
            Side::Columns => (&latents.columns, &data.roots.1),
        };
        let drawn = config.likelihood.is_probit() && task != Task::Latents;
        let values = if drawn { values } else { &cells.values };
        let roots = (!roots.is_empty()).then_some(&roots[..]);
        let drawing = matches!(task, Task::Draw | Task::DrawAndSum);
        let wants_means = side == Side::Rows && drawing && !coordinates;
        let mut means = std::mem::take(&mut memory.row_means);
        if wants_means {
            means.resize(cells.len() * regressors.layout().width, 0.0);
        }
        memory.block_sums.clear();
        memory
            .block_sums
            .resize(cells.blocks.len(), ResidualSums::default());
        let pass = Pass {
            arch: memory.arch,
            cells,
            values,
            roots,
            regressors,
            design: &memory.design,
            other,
            features: own_features,
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
            block_name: name,
            pool: &memory.pool,
        };
        if task != Task::Latents {
            memory.residuals = None;
        }
        let done = pass.run(Target {
            means: if wants_means { &mut means } else { &mut [] },
            factors: &mut own.factors,
            intercepts: &mut own.intercepts,
            coefficients: &mut own.coefficients,
            weights: &mut own.noise_weights,
            latents: &mut memory.linear,
            sums: &mut memory.block_sums,
        });
        memory.row_means = means;
        memory.row_means_known = wants_means;
        done?;
        if matches!(task, Task::DrawAndSum | Task::Sum) {
            let mut total = ResidualSums::default();
            for block in &memory.block_sums {
                total.add(block, 1.0);
            }
            memory.residuals = Some(total);
            memory.ln_likelihood = ln_likelihood(data, state, total.second);
        }
        Ok(())
    }

    /// Residual sums of the state as it is, by a pass over the cells when they are not at hand.
    fn residuals(&mut self) -> Result<ResidualSums, BsvdError> {
        if self.memory.residuals.is_none() {
            self.side(Side::Columns, Task::Sum)?;
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
        self.side(Side::Rows, Task::Latents)
    }

    fn latents(&mut self) -> Result<(), BsvdError> {
        if !self.config.likelihood.is_probit() {
            return Ok(());
        }
        self.linear()?;
        let key = (self.config.seed, [self.config.chain, self.sweep, LATENTS]);
        let memory = &mut self.memory;
        memory.residuals = None;
        memory.latents.draw(
            self.data,
            &self.state.thresholds,
            (&memory.linear, &memory.noise_sds),
            key,
        );
        Ok(())
    }

    /// Thresholds given noise-free values; then the unit of both, where noise weights leave one open.
    fn thresholds(&mut self) -> Result<(), BsvdError> {
        if self.state.thresholds.len() < 2 {
            return Ok(());
        }
        self.move_thresholds()?;
        if self.config.own_noise() != (false, false) {
            let mut rng = self.rng(UNIT, 0);
            stretch::draw(&mut self.state, &self.config, &mut rng);
        }
        Ok(())
    }

    /// One Metropolis step for all free thresholds together; the size of the step is adapted in the second half of the burn-in, in whose first half they climb.
    fn move_thresholds(&mut self) -> Result<(), BsvdError> {
        self.linear()?;
        let burn_in = self.config.sweeps.burn_in;
        if self.sweep <= burn_in / 2 {
            probit::climb_thresholds(
                self.data,
                (&self.memory.linear, &self.memory.noise_sds),
                self.config.threshold_precision,
                &mut self.state.thresholds,
            );
            return Ok(());
        }
        let mut rng = self.rng(THRESHOLDS, 0);
        let accepted = probit::move_thresholds(
            &mut self.state.thresholds,
            self.state.threshold_step,
            self.config.threshold_precision,
            |thresholds| {
                let cells = (&self.memory.linear[..], &self.memory.noise_sds[..]);
                probit::ln_likelihood(self.data, cells, thresholds)
            },
            &mut rng,
        );
        if self.sweep <= burn_in {
            let gain = ((self.sweep - burn_in / 2) as f64).powf(-0.6);
            let step = self.state.threshold_step * (gain * (accepted - ACCEPTANCE)).exp();
            self.state.threshold_step = step.clamp(1e-6, 10.0);
        }
        Ok(())
    }

    fn noise(&mut self) -> Result<(), BsvdError> {
        if self.config.likelihood.is_probit() {
            return Ok(());
        }
        let sums = self.residuals()?;
        let mut rng = self.rng(NOISE, 0);
        let n = self.data.n_observed() as f64;
        self.state.noise_precision = draw_precision(self.config.noise, n, sums.second, &mut rng)?;
        Ok(())
    }

    /// The offset given the rest.
    fn offset(&mut self) -> Result<(), BsvdError> {
        let mut sums = self.residuals()?;
        let mut rng = self.rng(OFFSET, 0);
        let state = &mut self.state;
        let weight = if self.config.likelihood.is_probit() {
            self.data.total_weight()
        } else {
            sums.weight
        };
        let alpha = state.noise_precision;
        let precision = self.config.offset_precision + alpha * weight;
        let linear = alpha * (sums.first + weight * state.offset);
        let z: f64 = rng.sample(StandardNormal);
        let new = linear / precision + z / precision.sqrt();
        let step = new - state.offset;
        sums.second += step * (step * weight - 2.0 * sums.first);
        sums.first -= step * weight;
        sums.second = sums.second.max(0.0);
        state.offset = new;
        self.memory.residuals = Some(sums);
        finite(self.sweep, "offset", state.offset)
    }

    /// What the intercepts of a side and the means on the other side can exchange without any latent value changing: the offset, the means of the
    /// factors (all factors of a component move along) and the means of the coefficients (likewise). The amounts are the coefficients of a regression
    /// of the intercepts, and are drawn together.
    fn translate(&mut self, side: Side) -> Result<(), BsvdError> {
        let mut rng = self.rng(TRANSLATE, u64::from(side == Side::Columns));
        let Self {
            data,
            config,
            state,
            memory,
            sweep,
            ..
        } = self;
        let (giving, taking, features, n) = match side {
            Side::Rows => (
                &mut state.rows,
                &mut state.columns,
                &data.side.rows,
                data.n_rows(),
            ),
            Side::Columns => (
                &mut state.columns,
                &mut state.rows,
                &data.side.columns,
                data.n_cols(),
            ),
        };
        if giving.intercepts.is_empty() {
            return Ok(());
        }
        let features = features.as_ref().filter(|_| config.common_coefficients);
        let regressors = Regressors {
            rank: if config.factor_means {
                state.scales.len()
            } else {
                0
            },
            intercept: true,
            features: features.map_or(0, Features::n_features),
        };
        fill_design(
            &regressors,
            giving,
            &state.scales,
            features,
            &[],
            n,
            &mut memory.design,
        );
        let layout = regressors.layout();
        for (line, &intercept) in memory
            .design
            .chunks_exact_mut(layout.stride)
            .zip(&giving.intercepts)
        {
            line[layout.width] = intercept;
        }
        let sums = &mut memory.totals;
        sums.clear();
        sums.resize(layout.sums_len(), 0.0);
        // In double precision: a large precision of the intercepts would turn rounding into negative pivots.
        let block = layout.cells_in_block() * layout.stride;
        let mut double = Vec::with_capacity(block);
        for lines in memory.design.chunks(block) {
            double.clear();
            double.extend(lines.iter().map(|&x| f64::from(x)));
            f64::add_products(memory.arch, &double, layout, false, sums);
        }
        let rank = regressors.rank;
        let means = taking.factor_mean[..rank].iter();
        let prior = means
            .map(|&mean| (1.0, mean))
            .chain([(config.offset_precision, state.offset)])
            .chain(
                taking.coefficient_mean[..regressors.features]
                    .iter()
                    .map(|&mean| (taking.common_precision, mean)),
            );
        for (r, (precision, value)) in prior.enumerate() {
            for v in &mut sums[r * layout.stride..][..=r] {
                *v *= giving.intercept_precision;
            }
            sums[r * layout.stride + r] += precision;
            let linear = &mut sums[layout.width * layout.stride + r];
            *linear = *linear * giving.intercept_precision - precision * value;
        }
        let amounts = &mut memory.lengths;
        amounts.resize(layout.width, 0.0);
        normals(amounts, &mut rng);
        let mut column = vec![0.0; layout.stride];
        let mut mean = vec![0.0; layout.width];
        let drawn = draw_coefficients(memory.arch, layout, sums, &mut column, amounts, &mut mean);
        drawn.map_err(|bad| BsvdError::Numerical {
            sweep: *sweep,
            block: "means against intercepts of side",
            item: usize::from(side == Side::Columns),
            pivot: bad.pivot,
            value: bad.value,
        })?;
        for (line, intercept) in memory
            .design
            .chunks_exact(layout.stride)
            .zip(&mut giving.intercepts)
        {
            let given: f64 = line
                .iter()
                .zip(&*amounts)
                .map(|(&x, t)| f64::from(x) * t)
                .sum();
            *intercept = (f64::from(*intercept) - given) as f32;
        }
        state.offset += amounts[rank];
        shift(
            &mut taking.factors,
            &mut taking.factor_mean,
            &amounts[..rank],
        );
        shift(
            &mut taking.coefficients,
            &mut taking.coefficient_mean,
            &amounts[rank + 1..],
        );
        finite(*sweep, "offset", state.offset)
    }

    /// For each component and each side: the factor and its mean grow by a number and the scale shrinks by it. The likelihood does not see it; the
    /// number's square is generalised inverse Gaussian.
    fn rescale(&mut self) {
        for (side, name) in [(Side::Rows, 0), (Side::Columns, 1)] {
            let mut rng = self.rng(RESCALE, name);
            let state = &mut self.state;
            let rank = state.scales.len();
            let own = match side {
                Side::Rows => &mut state.rows,
                Side::Columns => &mut state.columns,
            };
            if rank == 0 {
                return;
            }
            let memory = &mut self.memory;
            let lengths = &mut memory.lengths;
            deviations(
                own,
                side.features(&self.data.side),
                rank,
                &mut memory.design,
            );
            squared_deviations(&memory.design, &vec![0.0; rank], lengths);
            let means = f64::from(u8::from(self.config.factor_means));
            let links = own.links.len() / rank;
            let n = (own.factors.len() / rank + links) as f64 + means;
            let scales = state.scales.iter_mut().zip(&mut own.factor_mean);
            for (k, (length, (s, mean))) in lengths.iter_mut().zip(scales).enumerate() {
                let own_links = &mut own.links[k * links..(k + 1) * links];
                let squares: f64 = own_links.iter().map(|b| b * b).sum();
                *length += *mean * *mean + own.link_precision * squares;
                let prior = state.scale_precision * *s * *s;
                let usable =
                    length.is_finite() && *length > 0.0 && prior.is_finite() && prior > 0.0;
                let growth = if usable {
                    (0.5 * sample_ln_gig(0.5 * (n - 1.0), *length, prior, &mut rng)).exp()
                } else {
                    1.0
                };
                *s = (*s / growth).max(f64::MIN_POSITIVE);
                *mean *= growth;
                own_links.iter_mut().for_each(|b| *b *= growth);
                *length = growth;
            }
            let lines = own.factors.par_chunks_exact_mut(rank).with_min_len(1024);
            lines.for_each(|line| {
                for (x, &growth) in line.iter_mut().zip(&*lengths) {
                    *x = (f64::from(*x) * growth) as f32;
                }
            });
        }
    }

    /// Exchanges between components; see [`exchange`].
    fn shear(&mut self) {
        if self.state.rank() < 2 {
            return;
        }
        let mut rng = self.rng(SHEAR, 0);
        let (state, memory) = (&mut self.state, &mut self.memory);
        let known = &self.data.side;
        let mut moments = |side: Side, own: &SideState| {
            Moments::new(memory.arch, own, side.features(known), &mut memory.design)
        };
        let mut rows = moments(Side::Rows, &state.rows);
        let mut columns = moments(Side::Columns, &state.columns);
        exchange(&mut rows, &mut columns, &state.scales, &mut rng);
        rows.apply(&mut state.rows);
        columns.apply(&mut state.columns);
    }

    fn scale_precision(&mut self) -> Result<(), BsvdError> {
        let mut rng = self.rng(SCALE_PRECISION, 0);
        let squares = self.state.scales.iter().map(|s| s * s).sum();
        let n = self.state.rank() as f64;
        self.state.scale_precision = draw_precision(self.config.scale, n, squares, &mut rng)?;
        Ok(())
    }

    fn hyper(&mut self) -> Result<(), BsvdError> {
        for side in [Side::Rows, Side::Columns] {
            let mut rng = self.rng(HYPER, u64::from(side == Side::Columns));
            let own = match side {
                Side::Rows => &mut self.state.rows,
                Side::Columns => &mut self.state.columns,
            };
            if !own.intercepts.is_empty() {
                let squares = own.intercepts.iter().map(|&r| f64::from(r).powi(2)).sum();
                let n = own.intercepts.len() as f64;
                own.intercept_precision =
                    draw_precision(self.config.intercept, n, squares, &mut rng)?;
            }
            let features = side.features(&self.data.side);
            let features = features.filter(|_| self.config.feature_links);
            links::draw(
                own,
                features,
                self.config.factor_means,
                self.config.link,
                self.sweep,
                &mut rng,
            )?;
            if !own.factor_weights.is_empty() {
                let shapes = self.config.spread_shapes();
                draw_spreads(own, features, &shapes, &mut self.memory.design, &mut rng)?;
            }
            if !own.coefficient_mean.is_empty() {
                coefficients(own, &self.config, &mut rng)?;
            }
            if !own.noise_weights.is_empty() {
                let shapes = self.config.noise_shapes();
                own.noise_shape = draw_shape(&own.noise_weights, &shapes, &mut rng)?;
            }
        }
        Ok(())
    }

    /// Draws the switches and scales of all candidates, given products over the cells; each `scan` once through all candidates in random order.
    fn switches(&mut self, scan: Scan) -> Result<(), BsvdError> {
        self.memory.residuals = None;
        let rank = self.state.rank();
        let layout = Layout::new(self.state.candidates);
        self.lay_out_candidates(layout);
        let mut scales = self.state.scales.clone();
        scales.resize(layout.width, 0.0);
        let memory = &mut self.memory;
        let pass = ProductPass {
            arch: memory.arch,
            cells: &self.data.rows,
            values: if self.config.likelihood.is_probit() {
                &memory.latents.rows
            } else {
                &self.data.rows.values
            },
            roots: (!self.data.roots.0.is_empty()).then_some(&self.data.roots.0[..]),
            layout,
            candidates: &memory.candidates,
            scales: &scales,
            rows: &self.state.rows,
            columns: &self.state.columns,
            row_features: self.data.side.rows.as_ref(),
            column_features: self.data.side.columns.as_ref(),
            offset: self.state.offset,
        };
        if self.state.noise_precision > DOUBLE_BEYOND {
            pass.run::<f64>(&mut memory.parts, &mut memory.totals);
        } else {
            pass.run::<f32>(&mut memory.parts, &mut memory.totals);
        }
        let mut on: Vec<bool> = (0..layout.width).map(|k| k < rank).collect();
        let (products, gradient) = memory.totals.split_at_mut(layout.width * layout.stride);
        let mut board = Switchboard {
            products,
            stride: layout.stride,
            gradient: &mut gradient[..layout.width],
            on: &mut on,
            scales: &mut scales,
            noise_precision: self.state.noise_precision,
            scale_precision: self.state.scale_precision,
            ln_prior_odds: self.config.ln_prior_odds(self.state.candidates),
        };
        let mut rng = stream(
            self.config.seed,
            [self.config.chain, self.sweep, SWITCHES, 0],
        );
        let mut order: Vec<usize> = (0..layout.width).collect();
        for _ in 0..SCANS {
            shuffle(&mut order, &mut rng);
            scan(&mut board, &order, &mut rng)?;
        }
        self.keep_active(layout, &on, &scales);
        Ok(())
    }

    /// Factors of all candidates side by side; those of inactive ones are drawn from their prior.
    fn lay_out_candidates(&mut self, layout: Layout) {
        let rank = self.state.rank();
        let Layout { width, stride } = layout;
        let key = (self.config.seed, [self.config.chain, self.sweep, SWITCHES]);
        let candidates = &mut self.memory.candidates;
        let sides = [
            (&self.state.rows, self.data.n_rows(), &mut candidates.rows),
            (
                &self.state.columns,
                self.data.n_cols(),
                &mut candidates.columns,
            ),
        ];
        for (n_side, (own, n, to)) in sides.into_iter().enumerate() {
            to.clear();
            to.resize(n * stride, 0.0);
            let (seed, [chain, sweep, block]) = key;
            let item = n_side as u64 + 1;
            let mut rng = stream(seed, [chain, sweep, block, item]);
            let means = &mut candidates.means[n_side];
            means.clone_from(&own.factor_mean);
            means.resize(width, 0.0);
            if self.config.factor_means {
                normals(&mut means[rank..], &mut rng);
            }
            let means = &means[rank..];
            let features = [&self.data.side.rows, &self.data.side.columns][n_side].as_ref();
            let features = features.filter(|_| self.config.feature_links);
            let q = features.map_or(0, Features::n_features);
            let links = &mut candidates.links[n_side];
            links.clone_from(&own.links);
            links.resize(width * q, 0.0);
            let new_links = &mut links[rank * q..];
            normals(new_links, &mut rng);
            let link_sd = own.link_precision.sqrt().recip();
            new_links.iter_mut().for_each(|b| *b *= link_sd);
            let new_links = &*new_links;
            let blocks = to.par_chunks_mut(CANDIDATE_ROWS * stride).enumerate();
            blocks.for_each(|(n_block, lines)| {
                let mut rng = stream(seed, [chain, sweep, block, item + 2 * (n_block as u64 + 1)]);
                let (mut known, mut expected) = (vec![0.0f32; q], means.to_vec());
                for (n, line) in lines.chunks_exact_mut(stride).enumerate() {
                    let i = n_block * CANDIDATE_ROWS + n;
                    line[..rank].copy_from_slice(SideState::part(&own.factors, i, rank));
                    if let Some(features) = features {
                        features.write(i, &mut known);
                        expected.copy_from_slice(means);
                        links::add_expected(new_links, &known, &mut expected);
                    }
                    let sd = own.factor_weight(i).sqrt().recip();
                    for (x, &mean) in line[rank..width].iter_mut().zip(&expected) {
                        let z: f64 = rng.sample(StandardNormal);
                        *x = (mean + sd * z) as f32;
                    }
                }
            });
        }
    }

    /// The state after the switches were drawn.
    fn keep_active(&mut self, layout: Layout, on: &[bool], scales: &[f64]) {
        let active: Vec<usize> = (0..layout.width).filter(|&k| on[k]).collect();
        self.state.scales.clear();
        self.state.scales.extend(active.iter().map(|&k| scales[k]));
        let candidates = &self.memory.candidates;
        let state = &mut self.state;
        let sides = [
            (&mut state.rows, &candidates.rows),
            (&mut state.columns, &candidates.columns),
        ];
        for (n_side, (own, from)) in sides.into_iter().enumerate() {
            let (means, links) = (&candidates.means[n_side], &candidates.links[n_side]);
            own.factor_mean.clear();
            own.factor_mean.extend(active.iter().map(|&k| means[k]));
            let q = links.len() / layout.width;
            own.links.clear();
            let kept = active.iter().flat_map(|&k| &links[k * q..(k + 1) * q]);
            own.links.extend(kept);
            let spare = &mut self.memory.spare;
            spare.clear();
            for line in from.chunks_exact(layout.stride) {
                spare.extend(active.iter().map(|&k| line[k]));
            }
            std::mem::swap(&mut own.factors, spare);
        }
    }
}

/// ln likelihood of normal entries up to a constant, given their weighted squared residuals.
fn ln_likelihood(data: &BsvdData, state: &BsvdState, squares: f64) -> f64 {
    let ln_weights = |cells: &data::Cells, own: &SideState| -> f64 {
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

/// All lines of a table, and their means, move by the same amounts.
fn shift(table: &mut [f32], means: &mut [f64], amounts: &[f64]) {
    if amounts.is_empty() {
        return;
    }
    for line in table.chunks_exact_mut(amounts.len()) {
        for (x, t) in line.iter_mut().zip(amounts) {
            *x = (f64::from(*x) + t) as f32;
        }
    }
    means
        .iter_mut()
        .zip(amounts)
        .for_each(|(mean, t)| *mean += t);
}

/// Fisher and Yates.
fn shuffle(order: &mut [usize], rng: &mut Xoshiro256PlusPlus) {
    for n in (1..order.len()).rev() {
        order.swap(n, rng.random_range(0..=n));
    }
}

/// Precision of n normal variables with mean zero, given the sum of their squares.
fn draw_precision(
    prior: GammaPrior,
    n: f64,
    squares: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<f64, BsvdError> {
    let posterior = Gamma::new(prior.shape + 0.5 * n, prior.rate + 0.5 * squares)?;
    let drawn = posterior.sample_ln(rng).exp();
    Ok(drawn.clamp(LEAST_PRECISION, MOST_PRECISION))
}

/// Common means of the coefficients of each feature, the precision of these means, then the precisions of the coefficients.
fn coefficients(
    own: &mut SideState,
    config: &BsvdConfig,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), BsvdError> {
    let q = own.coefficient_mean.len();
    let n = (own.coefficients.len() / q) as f64;
    let mut sums = Vec::new();
    column_sums(&own.coefficients, q, &mut sums);
    let laws = own
        .coefficient_mean
        .iter_mut()
        .zip(&own.coefficient_precision);
    for ((mean, precision), sum) in laws.zip(&sums) {
        if config.common_coefficients {
            let posterior = own.common_precision + n * precision;
            *mean = Normal::new(precision * sum / posterior, posterior.recip())?.sample(rng);
        }
    }
    if config.common_coefficients {
        let squares = own.coefficient_mean.iter().map(|g| g * g).sum();
        own.common_precision = draw_precision(config.common, q as f64, squares, rng)?;
    }
    squared_deviations(&own.coefficients, &own.coefficient_mean, &mut sums);
    for (precision, &squares) in own.coefficient_precision.iter_mut().zip(&sums) {
        *precision = draw_precision(config.coefficient, n, squares, rng)?;
    }
    Ok(())
}

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
