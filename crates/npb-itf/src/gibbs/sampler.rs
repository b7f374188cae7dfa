//! The sampler: what it holds, where it begins, what it says.

use npb_infer::{Chain, Sampler, Sweep, Xoshiro256PlusPlus, stream};

use super::rows;
use super::start::start;
use crate::collapsed;
use crate::draw::Draw;
use crate::kernels::Stats;
use crate::state::ItfState;
use crate::{ItfConfig, ItfData, ItfError};

/// One of how many columns a sweep tries in moves of single columns.
pub(super) const COLUMN_SHARE: usize = 20;
/// Columns stay in their blocks for so many sweeps after the start, or half of the burn-in.
const SETTLING: u64 = 100;
/// Key of the stream of the sticks of kept draws.
const KEEP: u64 = u64::MAX - 1;

/// One chain. Borrows the data; owns configuration, state and scratch memory.
///
/// ```
/// use npb_itf::npb_data::{MixedColumn, MixedTable};
/// use npb_itf::{ItfConfig, ItfData, ItfSampler};
///
/// let x = MixedColumn::Real((0..40).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
/// let y = MixedColumn::Binary { levels: ["a".into(), "b".into()], values: (0..40).map(|i| Some(i % 2 == 0)).collect() };
/// let data = ItfData::from_table(&MixedTable::new(vec!["x".into(), "y".into()], vec![x, y])?)?;
/// let mut sampler = ItfSampler::new(&data, ItfConfig::default(), 0)?;
/// for _ in 0..20 {
///     sampler.sweep();
/// }
/// assert_eq!(sampler.state().labels(0).len(), 40);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ItfSampler<'d> {
    pub(super) data: &'d ItfData,
    pub(super) config: ItfConfig,
    pub(super) chain: u64,
    /// Sweeps made so far.
    pub(super) sweep: u64,
    /// Columns stay in their blocks up to this sweep.
    pub(super) settling: u64,
    pub(super) state: ItfState,
    pub(super) pools: Vec<Stats>,
    /// What is alike among the cells of each column.
    pub(super) kinds: Vec<Option<rows::DistinctCells>>,
    pub(super) scratch: rows::Scratch,
    pub(super) ln_likelihood: f64,
}

/// A chain: its last draw, all that it kept, and its trace.
pub type ItfChain = Chain<ItfState, Draw>;

/// Names of the monitored scalars, all of them free of label names.
pub(crate) const SCALARS: [&str; 5] = [
    "ln_likelihood",
    "blocks",
    "top_clusters",
    "lower_clusters",
    "mutual_information",
];

impl<'d> ItfSampler<'d> {
    /// A chain at its start: lower labels allocated row by row, columns in blocks by what explains them (with blocks) or in one
    /// block with one top-level cluster, and no move of columns in its first sweeps (100, or half of the burn-in).
    ///
    /// # Errors
    /// A configuration out of range, or data without rows or columns.
    pub fn new(data: &'d ItfData, config: ItfConfig, chain: u64) -> Result<Self, ItfError> {
        config.validate()?;
        data.check_not_empty()?;
        let state = start(data, &config, chain);
        Ok(Self::with(data, config, chain, state, 0).settling())
    }

    /// The same chain with its columns where they are up to the last sweep of its start: columns that depend on each other part easily before clusters
    /// have found them, and meet seldom.
    pub(crate) fn settling(mut self) -> Self {
        self.settling = SETTLING.min(self.config.sweeps.burn_in / 2);
        self
    }

    /// A chain that goes on from a state after `sweep` sweeps: a stored one, or a prior draw.
    ///
    /// # Errors
    /// As [`new`](Self::new), or a state that does not fit data and configuration.
    pub fn resume(
        data: &'d ItfData,
        config: ItfConfig,
        chain: u64,
        state: ItfState,
        sweep: u64,
    ) -> Result<Self, ItfError> {
        config.validate()?;
        data.check_not_empty()?;
        check_state(data, &config, &state).map_err(ItfError::state)?;
        Ok(Self::with(data, config, chain, state, sweep))
    }

    fn with(data: &'d ItfData, config: ItfConfig, chain: u64, state: ItfState, sweep: u64) -> Self {
        Self {
            pools: state.columns.iter().map(|c| c.law.pool()).collect(),
            kinds: (data.laws().iter().zip(data.cells()))
                .map(|(law, cells)| rows::DistinctCells::new(law, cells))
                .collect(),
            data,
            config,
            chain,
            sweep,
            settling: 0,
            state,
            scratch: rows::Scratch::default(),
            ln_likelihood: f64::NAN,
        }
    }

    /// The present draw.
    pub fn state(&self) -> &ItfState {
        &self.state
    }

    /// The present draw, taken out.
    pub fn into_state(self) -> ItfState {
        self.state
    }

    /// Sweeps made so far.
    pub fn n_sweeps(&self) -> u64 {
        self.sweep
    }

    /// Log likelihood of all cells given sticks and parameters, labels summed out, as of the last
    /// [`ItfMove::Rows`](crate::ItfMove::Rows) or [`ItfMove::LowerLabels`](crate::ItfMove::LowerLabels); NaN before it.
    pub fn ln_likelihood(&self) -> f64 {
        self.ln_likelihood
    }

    /// The present draw with sticks, ready to predict from.
    pub fn draw(&self) -> Draw {
        let rng = &mut stream(self.config.seed, [self.chain, self.sweep, KEEP, 0]);
        Draw::new(&self.state, &self.config, self.chain, rng)
    }

    /// Writes the monitored scalars, all but the last, which takes a draw.
    pub(crate) fn summarise(&self, scalars: &mut [f64]) {
        let occupied =
            |labels: &[u32]| collapsed::counts(labels).iter().filter(|&&m| m > 0).count() as f64;
        let labels = (0..self.state.columns.len()).map(|j| self.state.labels(j));
        scalars[0] = self.ln_likelihood;
        scalars[1] = self.state.blocks.len() as f64;
        scalars[2] = self.state.blocks.iter().map(|b| occupied(&b.labels)).sum();
        scalars[3] = labels.map(occupied).sum();
    }

    pub(super) fn stream(&self, position: u64, item: u64) -> Xoshiro256PlusPlus {
        stream(
            self.config.seed,
            [self.chain, self.sweep, position << 32, item],
        )
    }
}

impl Sampler for ItfSampler<'_> {
    type State = ItfState;
    type Draw = Draw;
    type Error = ItfError;

    fn names() -> Vec<String> {
        SCALARS.map(str::to_owned).to_vec()
    }

    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), ItfError> {
        self.sweep();
        self.summarise(scalars);
        if sweep.kept {
            scalars[SCALARS.len() - 1] = mean_information(&self.draw());
        }
        Ok(())
    }

    fn state(&self) -> ItfState {
        self.state().clone()
    }

    fn draw(&self) -> Draw {
        self.draw()
    }
}

/// Mean mutual information over pairs of columns.
fn mean_information(draw: &Draw) -> f64 {
    let p = draw.columns.len();
    let pairs = (0..p).flat_map(|a| (0..a).map(move |b| (a, b)));
    let total: f64 = pairs.map(|(a, b)| draw.mutual_information(a, b)).sum();
    total / ((p * p.saturating_sub(1)) as f64 / 2.0).max(1.0)
}

/// Whether a state fits data and configuration.
pub(crate) fn check_state(
    data: &ItfData,
    config: &ItfConfig,
    state: &ItfState,
) -> Result<(), String> {
    let (two_levels, per_top) = (config.structure.has_lower(), config.per_top_cluster());
    state.check(data.n_rows(), two_levels, per_top)?;
    if state.columns.len() != data.n_columns() {
        return Err("number of columns".to_owned());
    }
    if !config.structure.has_blocks() && state.blocks.len() != 1 {
        return Err("several blocks".to_owned());
    }
    let mut pairs = state.columns.iter().zip(data.cells());
    match pairs.position(|(column, cells)| !column.law.fits(cells)) {
        Some(j) => Err(format!("column {j}: another kernel")),
        None => Ok(()),
    }
}
