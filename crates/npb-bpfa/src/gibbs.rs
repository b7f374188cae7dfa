//! The Gibbs sampler. Equations: `docs/bpfa.md#updates`.

#[cfg(test)]
mod tests;

use std::ops::Range;

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::NotPositiveDefinite;
use npb_priors::beta_bernoulli::WeightPrior;
use npb_priors::dist::{TruncatedNormal, sample_ln_gig};
use pulp::{Arch, Simd, WithSimd};
use rand::RngExt;

use crate::config::{BpfaMove, ScorePrior, SlabPrior};
use crate::dense::DenseDraw;
use crate::dependent::Neighbourhood;
use crate::dictionary::{DictionaryDraw, DictionaryWork};
use crate::error::expect;
use crate::lasso::LassoBlock;
use crate::loadings::{Loadings, PAD};
use crate::precision::{channel_counts, draw_precision, draw_slabs, residual_squares};
use crate::scan::{self, ResidualWork, ScanPrior, ScanRow, ScanWork, TOGETHER};
use crate::scores::{BLOCK_ROWS, ScoreBlock, Scores};
use crate::spikes::SpikeDraw;
use crate::state::{BpfaState, Dictionary, Shared};
use crate::usage::{Collapsed, draw_ln_odds, row_for_scan, summed};
use crate::{BpfaConfig, BpfaError, BpfaRows, init};

/// Third words of the keys of random streams; 0 is that of the start.
const SCORES: u64 = 1;
const COLLAPSED: u64 = 2;
const COLLAPSED_CHOICE: u64 = 3;
const WEIGHTS: u64 = 4;
const DICTIONARY: u64 = 5;
const LENGTHS: u64 = 6;
const SLAB: u64 = 7;
const NOISE: u64 = 8;
const SPIKES: u64 = 9;
const ANCHORS: u64 = 11;
const MEANS: u64 = 12;
const GROW: u64 = 13;
const LATENTS: u64 = 14;

/// Atoms are taken out and brought in every so many sweeps.
const ADAPT_EVERY: u64 = 10;

/// Monitored scalars.
const NAMES: [&str; 5] = [
    "noise_sd",
    "slab_sd",
    "used_atoms",
    "active_per_row",
    "residual_sd",
];

/// The sampler: borrows the rows, owns state and scratch memory.
///
/// Cost of a sweep with spike-and-slab scores: linear in rows; for each row K and its active scores times K (complete rows) or times K and its observed
/// columns (rows with holes), and K^3 for the dictionary, once or for each column.
///
/// ```
/// use npb_bpfa::{BpfaConfig, BpfaRows, BpfaSampler};
///
/// // Forty rows, multiples of one pattern.
/// let pattern = [1.0, -1.0, 0.5, 0.0, 2.0];
/// let values = (0..200).map(|at| ((at / 5) as f32 * 0.7).sin() * pattern[at % 5]).collect();
/// let rows = BpfaRows::complete(40, 5, values)?;
/// let mut sampler = BpfaSampler::new(&rows, BpfaConfig { atoms: 4, ..BpfaConfig::default() })?;
/// for _ in 0..50 {
///     sampler.sweep()?;
/// }
/// let mut fitted = [0.0; 5];
/// sampler.reconstruct(3..4, &mut fitted);
/// assert!((fitted[4] - rows.values(3)[4]).abs() < 0.1);
/// # Ok::<(), npb_bpfa::BpfaError>(())
/// ```
pub struct BpfaSampler<'d> {
    rows: &'d BpfaRows,
    config: BpfaConfig,
    chain: u64,
    state: BpfaState,
    sweep: u64,
    /// The rows with latent values where these are censored; drawn in each sweep, so not part of the state.
    latents: Option<BpfaRows>,
    memory: Memory,
}

/// Kept from sweep to sweep.
struct Memory {
    arch: Arch,
    loadings: Loadings,
    neighbourhood: Neighbourhood,
    dictionary: DictionaryWork,
    slab: Vec<f32>,
    constant: Vec<f32>,
    bar: Vec<f32>,
    slope: Vec<f32>,
    residual_sd: f64,
}

impl<'d> BpfaSampler<'d> {
    /// Starts a chain, atoms at random rows.
    ///
    /// # Errors
    /// A configuration out of range.
    pub fn new(rows: &'d BpfaRows, config: BpfaConfig) -> Result<Self, BpfaError> {
        Self::chain(rows, config, 0, None)
    }

    /// Starts a chain with these atoms.
    ///
    /// # Errors
    /// A configuration out of range; atoms of other number or length.
    pub fn with_atoms(
        rows: &'d BpfaRows,
        config: BpfaConfig,
        atoms: Dictionary,
    ) -> Result<Self, BpfaError> {
        Self::chain(rows, config, 0, Some(atoms))
    }

    /// Starts chain number `chain`.
    ///
    /// # Errors
    /// As [`with_atoms`](Self::with_atoms).
    pub fn chain(
        rows: &'d BpfaRows,
        config: BpfaConfig,
        chain: u64,
        atoms: Option<Dictionary>,
    ) -> Result<Self, BpfaError> {
        config.validate()?;
        Self::begin(rows, config, chain, atoms)
    }

    /// The same with a configuration that is checked.
    pub(crate) fn begin(
        rows: &'d BpfaRows,
        config: BpfaConfig,
        chain: u64,
        atoms: Option<Dictionary>,
    ) -> Result<Self, BpfaError> {
        let neighbourhood = neighbourhood(rows, &config)?;
        let state = init::start(rows, &config, chain, atoms, &neighbourhood)?;
        Self::go_on(rows, config, chain, state, 0)
    }

    /// Starts a chain from what rows share, found with other rows. No atom is active; where usage depends on locations, anchors of these rows take the weights
    /// of the others in turn.
    ///
    /// # Errors
    /// A configuration out of range; what is shared is not of these rows and this configuration.
    pub fn with_shared(
        rows: &'d BpfaRows,
        config: BpfaConfig,
        chain: u64,
        shared: Shared,
    ) -> Result<Self, BpfaError> {
        shared.check(rows.n_columns(), rows.n_channels())?;
        let atoms = shared.dictionary.n_atoms();
        let config = BpfaConfig {
            atoms,
            max_atoms: config.max_atoms.map(|most| most.max(atoms)),
            ..config
        };
        let dictionary = shared.dictionary.clone();
        let start = Self::chain(rows, config.clone(), chain, Some(dictionary))?;
        let mut state = start.into_state();
        let weights = state.shared.ln_odds.len();
        state.shared = shared;
        let given = &state.shared.ln_odds;
        state.shared.ln_odds = given.iter().copied().cycle().take(weights).collect();
        Self::resume(rows, config, chain, state, 0)
    }

    /// Goes on from a state that so many sweeps led to, in the same bits as if it had never stopped.
    ///
    /// # Errors
    /// A configuration out of range; a state that is not of these rows and this configuration.
    pub fn resume(
        rows: &'d BpfaRows,
        config: BpfaConfig,
        chain: u64,
        state: BpfaState,
        sweeps: u64,
    ) -> Result<Self, BpfaError> {
        config.validate()?;
        Self::go_on(rows, config, chain, state, sweeps)
    }

    /// The same with a configuration that is checked.
    pub(crate) fn go_on(
        rows: &'d BpfaRows,
        config: BpfaConfig,
        chain: u64,
        state: BpfaState,
        sweeps: u64,
    ) -> Result<Self, BpfaError> {
        state.check(rows)?;
        let neighbourhood = neighbourhood(rows, &config)?;
        check_shape(&state, &config, &neighbourhood)?;
        let mut memory = Memory {
            arch: Arch::new(),
            neighbourhood,
            loadings: Loadings::default(),
            dictionary: DictionaryWork::default(),
            slab: Vec::new(),
            constant: Vec::new(),
            bar: Vec::new(),
            slope: Vec::new(),
            residual_sd: f64::NAN,
        };
        let k = state.n_atoms();
        let dictionary = &state.shared.dictionary.values;
        memory.loadings.set(dictionary, k, None, memory.arch);
        Ok(Self {
            rows,
            config,
            chain,
            sweep: sweeps,
            state,
            latents: None,
            memory,
        })
    }

    /// Names of the [`scalars`](Self::scalars).
    pub fn scalar_names() -> [&'static str; 5] {
        NAMES
    }

    /// The state.
    pub fn state(&self) -> &BpfaState {
        &self.state
    }

    /// The configuration.
    pub fn config(&self) -> &BpfaConfig {
        &self.config
    }

    /// The rows.
    pub fn rows(&self) -> &'d BpfaRows {
        self.rows
    }

    /// Number of sweeps made.
    pub fn n_sweeps(&self) -> u64 {
        self.sweep
    }

    /// The state.
    pub fn into_state(self) -> BpfaState {
        self.state
    }

    /// Makes one sweep.
    ///
    /// # Errors
    /// Numerical trouble, naming sweep, block, item and pivot.
    pub fn sweep(&mut self) -> Result<(), BpfaError> {
        let moves = self.config.moves.clone();
        self.sweep_with(&moves)
    }

    /// Makes one sweep of these moves instead of the configuration's.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub fn sweep_with(&mut self, moves: &[BpfaMove]) -> Result<(), BpfaError> {
        self.sweep += 1;
        for &step in moves {
            self.apply(step)?;
        }
        self.adapt_atoms()
    }

    /// Makes one move, as part of the sweep that is being made.
    ///
    /// # Errors
    /// Numerical trouble.
    pub fn apply(&mut self, step: BpfaMove) -> Result<(), BpfaError> {
        match step {
            BpfaMove::Latents => self.draw_latents(),
            BpfaMove::Scores => self.draw_scores(),
            BpfaMove::CollapsedSwitches => self.scan_collapsed(),
            BpfaMove::Weights => self.draw_weights(),
            BpfaMove::Dictionary => self.draw_dictionary(),
            BpfaMove::Lengths => self.draw_lengths(),
            BpfaMove::SlabPrecision => self.draw_slabs(),
            BpfaMove::Spikes => self.draw_spikes(),
            BpfaMove::NoisePrecision => self.draw_noise(),
        }
    }

    /// Writes `D s_i`, all P columns, of these rows to `out`.
    ///
    /// # Panics
    /// When a row does not exist, or `out` has another length than rows times P.
    pub fn reconstruct(&self, rows: Range<usize>, out: &mut [f32]) {
        let p = self.rows.n_columns();
        assert_eq!(out.len(), rows.len() * p, "P numbers for each row");
        self.memory.arch.dispatch(Reconstruct {
            loadings: &self.memory.loadings,
            scores: &self.state.scores,
            rows,
            p,
            out,
        });
    }

    /// The generator of an item of a block of this sweep.
    fn rng(&self, block: u64, item: u64) -> Xoshiro256PlusPlus {
        stream(self.config.seed, [self.chain, self.sweep, block, item])
    }

    fn refresh_loadings(&mut self, weights: Option<&[f32]>) {
        let k = self.state.n_atoms();
        let dictionary = &self.state.shared.dictionary.values;
        let arch = self.memory.arch;
        self.memory.loadings.set(dictionary, k, weights, arch);
    }

    /// Noise precision of each column, and relative weight of each entry.
    fn noise_weights(&self) -> (Vec<f32>, Vec<f32>) {
        let columns = self.state.shared.column_weights(self.rows);
        let entries = self.state.spikes.entry_weights(self.rows, &columns);
        (columns, entries)
    }

    /// Number of rows at each anchor.
    fn group_rows(&self) -> Vec<u64> {
        let mut rows = vec![0; self.n_groups()];
        (0..self.rows.n_rows()).for_each(|i| rows[self.state.dependence.group(i)] += 1);
        rows
    }

    fn n_groups(&self) -> usize {
        self.state.shared.ln_odds.len() / self.state.n_atoms()
    }

    /// Number of rows of each anchor that use each atom, at `anchor * K + k`.
    fn group_counts(&self) -> Vec<u64> {
        let k = self.state.n_atoms();
        if self.n_groups() == 1 {
            return self.state.scores.counts();
        }
        let mut counts = vec![0; self.n_groups() * k];
        for i in 0..self.rows.n_rows() {
            let group = self.state.dependence.group(i);
            let own = self.state.scores.row(i);
            own.iter()
                .for_each(|(atom, _)| counts[group * k + atom] += 1);
        }
        counts
    }

    /// Gives rows without scores those that are most probable, one atom after the other: a start for all rows of a chain that some of them have begun. Of
    /// spike-and-slab scores.
    pub(crate) fn start_scores(&mut self) {
        let (columns, entries) = self.noise_weights();
        let shared = self.rows.is_complete() && entries.is_empty();
        self.refresh_loadings(shared.then_some(&columns));
        self.state.scores.blocks = self.scan_rows(&columns, &entries, true);
    }

    fn draw_scores(&mut self) -> Result<(), BpfaError> {
        let (columns, entries) = self.noise_weights();
        let shared = self.rows.is_complete() && entries.is_empty();
        self.refresh_loadings(shared.then_some(&columns));
        let blocks = match self.config.scores {
            ScorePrior::SpikeSlab => self.scan_rows(&columns, &entries, false),
            ScorePrior::Dense => self.draw_dense(&columns, &entries)?,
            ScorePrior::Lasso { .. } => self.draw_laplace(&columns, &entries),
        };
        self.state.scores.blocks = blocks;
        Ok(())
    }

    /// Switches and scores given the weights.
    fn scan_rows(
        &mut self,
        columns: &[f32],
        entries: &[f32],
        from_nothing: bool,
    ) -> Vec<ScoreBlock> {
        self.scan_prior(columns);
        let memory = &self.memory;
        let blocks = 0..self.state.scores.blocks.len();
        parallel::map_with(blocks, ScanWork::default, |work, block| {
            memory.arch.dispatch(ScanBlock {
                rows: self.latents.as_ref().unwrap_or(self.rows),
                loadings: &memory.loadings,
                column_weights: columns,
                entry_weights: entries,
                slab: &memory.slab,
                constants: &memory.constant,
                bars: &memory.bar,
                slopes: &memory.slope,
                state: &self.state,
                block,
                from_nothing,
                seed: self.config.seed,
                key: [self.chain, self.sweep, SCORES],
                work,
            })
        })
    }

    fn draw_dense(&self, columns: &[f32], entries: &[f32]) -> Result<Vec<ScoreBlock>, BpfaError> {
        let k = self.state.n_atoms();
        let slabs: Vec<f64> = (0..k)
            .map(|k| self.state.shared.slab_precision(k))
            .collect();
        let draw = DenseDraw {
            arch: self.memory.arch,
            rows: self.latents.as_ref().unwrap_or(self.rows),
            loadings: &self.memory.loadings,
            scores: &self.state.scores,
            column_weights: columns,
            entry_weights: entries,
            slabs: &slabs,
            seed: self.config.seed,
            key: [self.chain, self.sweep, SCORES],
        };
        draw.draw()
            .map_err(|(item, bad)| self.numerical("scores, row", item, bad))
    }

    fn draw_laplace(&self, columns: &[f32], entries: &[f32]) -> Vec<ScoreBlock> {
        let blocks = 0..self.state.scores.blocks.len();
        parallel::map_with(blocks, ScanWork::default, |work, block| {
            LassoBlock {
                rows: self.latents.as_ref().unwrap_or(self.rows),
                loadings: &self.memory.loadings,
                column_weights: columns,
                entry_weights: entries,
                scores: &self.state.scores,
                scales: &self.state.lasso,
                noise: self.state.shared.noise_precisions[0] as f32,
                block,
                seed: self.config.seed,
                key: [self.chain, self.sweep, SCORES],
                work,
            }
            .draw(self.memory.arch)
        })
    }

    fn numerical(&self, block: &'static str, item: usize, bad: NotPositiveDefinite) -> BpfaError {
        BpfaError::Numerical {
            sweep: self.sweep,
            block,
            item,
            pivot: bad.pivot,
            value: bad.value,
        }
    }

    /// What the scan compares with, for each atom.
    fn scan_prior(&mut self, columns: &[f32]) {
        let norms = self.typical_norms(columns);
        let shared = &self.state.shared;
        let k = shared.dictionary.n_atoms();
        let kp = k.next_multiple_of(PAD);
        let Memory {
            slab,
            constant,
            bar,
            slope,
            ..
        } = &mut self.memory;
        slab.clear();
        slab.extend((0..k).map(|k| shared.slab_precision(k) as f32));
        slab.resize(kp, 1.0);
        constant.clear();
        for own in shared.ln_odds.chunks_exact(k) {
            let ln = own
                .iter()
                .enumerate()
                .map(|(k, &ln_odds)| (2.0 * ln_odds + shared.slab_precision(k).ln()) as f32);
            constant.extend(ln);
            constant.resize(constant.len().next_multiple_of(kp), f32::NEG_INFINITY);
        }
        bar.clear();
        slope.clear();
        for constant in constant.chunks_exact(kp) {
            let (bars, slopes) = scan::tangents_at(&norms, slab, constant);
            bar.extend(bars);
            slope.extend(slopes);
        }
    }

    /// `d_k' W d_k` of complete rows; of a row that sees as much as rows do on average.
    fn typical_norms(&self, columns: &[f32]) -> Vec<f32> {
        let d = &self.memory.loadings;
        if !d.norms.is_empty() {
            return d.norms.clone();
        }
        let cells = self.rows.n_rows() as f32 * self.rows.n_columns() as f32;
        let share = self.rows.n_entries() as f32 / cells;
        let mut norms = vec![0.0; d.kp];
        for (p, weight) in columns.iter().enumerate() {
            let own = norms.iter_mut().zip(d.column(p));
            own.for_each(|(sum, x)| *sum += share * weight * x * x);
        }
        norms
    }

    fn scan_collapsed(&mut self) -> Result<(), BpfaError> {
        let k = self.state.n_atoms();
        let m = self.config.collapsed_atoms.min(k);
        if !self.config.has_switches() || m == 0 {
            return Ok(());
        }
        let atoms = choose(k, m, &mut self.rng(COLLAPSED_CHOICE, 0));
        let priors = self.weight_priors(&atoms)?;
        let group_rows = self.group_rows();
        let all_counts = self.group_counts();
        let of_atoms = |own: &[u64]| atoms.iter().map(|&k| own[k]).collect::<Vec<_>>();
        let mut counts: Vec<u64> = all_counts.chunks_exact(k).flat_map(of_atoms).collect();
        let shared = &self.state.shared;
        let slabs: Vec<f64> = atoms.iter().map(|&k| shared.slab_precision(k)).collect();
        let (columns, entries) = self.noise_weights();
        let products = self.products(&atoms, &columns, &entries);
        Collapsed {
            arch: self.memory.arch,
            rows: self.latents.as_ref().unwrap_or(self.rows),
            loadings: &self.memory.loadings,
            column_weights: &columns,
            entry_weights: &entries,
            atoms: &atoms,
            slabs: &slabs,
            products: &products,
            priors: &priors,
            dependence: &self.state.dependence,
            group_rows: &group_rows,
            seed: self.config.seed,
            key: [self.chain, self.sweep, COLLAPSED],
        }
        .scan(&mut self.state.scores, &mut counts);
        let rng = &mut self.rng(COLLAPSED_CHOICE, 1);
        for (group, counts) in counts.chunks_exact(m).enumerate() {
            for (j, (&atom, &on)) in atoms.iter().zip(counts).enumerate() {
                let ln_odds = draw_ln_odds(priors[j], on, group_rows[group], rng)?;
                self.state.shared.ln_odds[group * k + atom] = ln_odds;
            }
        }
        Ok(())
    }

    /// `d_k' W d_l` of these atoms, when all rows share it.
    fn products(&self, atoms: &[usize], columns: &[f32], entries: &[f32]) -> Vec<f32> {
        if !(self.rows.is_complete() && entries.is_empty()) {
            return Vec::new();
        }
        let atom = |k: usize| self.memory.loadings.atom(k);
        let row = |&k: &usize| {
            atoms
                .iter()
                .map(move |&l| summed(atom(k), columns, atom(l)))
        };
        atoms.iter().flat_map(row).collect()
    }

    fn weight_priors(&self, atoms: &[usize]) -> Result<Vec<WeightPrior>, BpfaError> {
        let (k, n) = (self.state.n_atoms(), self.rows.n_rows());
        let dependence = &self.state.dependence;
        let of = |&atom: &usize| self.config.usage.weight(k, n, atom, dependence);
        Ok(atoms.iter().map(of).collect::<Result<_, _>>()?)
    }

    fn draw_weights(&mut self) -> Result<(), BpfaError> {
        if !self.config.has_switches() {
            return Ok(());
        }
        if let Some(prior) = self.config.usage.dependent() {
            let BpfaState {
                shared,
                scores,
                dependence,
                ..
            } = &mut self.state;
            self.memory.neighbourhood.draw_anchors(
                dependence,
                scores,
                &shared.ln_odds,
                self.config.seed,
                [self.chain, self.sweep, ANCHORS],
            )?;
            let (counts, rows) = (self.group_counts(), self.group_rows());
            let key = [self.chain, self.sweep, MEANS];
            let means = &mut self.state.dependence;
            means.draw_means(prior, &counts, &rows, self.config.seed, key)?;
        }
        let k = self.state.n_atoms();
        let priors = self.weight_priors(&(0..k).collect::<Vec<_>>())?;
        let rng = &mut self.rng(WEIGHTS, 0);
        let (counts, rows) = (self.group_counts(), self.group_rows());
        for (at, ln_odds) in self.state.shared.ln_odds.iter_mut().enumerate() {
            *ln_odds = draw_ln_odds(priors[at % k], counts[at], rows[at / k], rng)?;
        }
        Ok(())
    }

    fn draw_dictionary(&mut self) -> Result<(), BpfaError> {
        if self.sweep <= self.config.hold_dictionary {
            return Ok(());
        }
        let (columns, entries) = self.noise_weights();
        let BpfaState { shared, scores, .. } = &mut self.state;
        let drawn = DictionaryDraw {
            arch: self.memory.arch,
            rows: self.latents.as_ref().unwrap_or(self.rows),
            scores,
            weights: &columns,
            entry_weights: &entries,
            overrelaxation: self.config.overrelaxation,
            seed: self.config.seed,
            key: [self.chain, self.sweep, DICTIONARY],
        }
        .draw(&mut self.memory.dictionary, &mut shared.dictionary.values);
        drawn.map_err(|(item, bad)| self.numerical("dictionary, column", item, bad))?;
        self.refresh_loadings(None);
        Ok(())
    }

    /// `t^2 ~ GIG((P - n_k)/2, P |d_k|^2, sum of precision times s^2)`, `d_k <- t d_k`, `s_k <- s_k / t` (`docs/bpfa.md#lengths`).
    fn draw_lengths(&mut self) -> Result<(), BpfaError> {
        if self.sweep <= self.config.hold_dictionary {
            return Ok(());
        }
        let p = self.rows.n_columns() as f64;
        let counts = self.state.scores.counts();
        let lengths = self.state.shared.dictionary.squares();
        let squares = self.prior_squares();
        let rng = &mut self.rng(LENGTHS, 0);
        let mut factors = vec![1.0; counts.len()];
        for (k, factor) in factors.iter_mut().enumerate() {
            let (a, b) = (p * lengths[k], squares[k]);
            if counts[k] > 0 && a > 0.0 && b > 0.0 {
                let lambda = 0.5 * (p - counts[k] as f64);
                *factor = (0.5 * sample_ln_gig(lambda, a, b, rng)).exp();
            }
        }
        let dictionary = &mut self.state.shared.dictionary.values;
        for column in dictionary.chunks_exact_mut(factors.len()) {
            let both = column.iter_mut().zip(&factors);
            both.for_each(|(d, &t)| *d = (f64::from(*d) * t) as f32);
        }
        let inverse: Vec<f32> = factors.iter().map(|t| (1.0 / t) as f32).collect();
        self.state.scores.scale(&inverse);
        self.refresh_loadings(None);
        Ok(())
    }

    /// Squared scores times their prior precisions, of each atom.
    fn prior_squares(&self) -> Vec<f64> {
        let BpfaState {
            shared,
            scores,
            lasso,
            ..
        } = &self.state;
        let (mut squares, precision): (Vec<f64>, Box<dyn Fn(usize) -> f64>) =
            match self.config.scores {
                ScorePrior::Lasso { .. } => {
                    let noise = shared.noise_precisions[0];
                    (lasso.squares(scores), Box::new(move |_| noise))
                }
                _ => (
                    scores.squares(),
                    Box::new(|k| self.state.shared.slab_precision(k)),
                ),
            };
        let all = squares.iter_mut().enumerate();
        all.for_each(|(k, square)| *square *= precision(k));
        squares
    }

    fn draw_slabs(&mut self) -> Result<(), BpfaError> {
        if let ScorePrior::Lasso { rate, .. } = self.config.scores {
            let BpfaState {
                shared,
                scores,
                lasso,
                ..
            } = &mut self.state;
            let key = [self.chain, self.sweep, SLAB];
            lasso.draw(
                scores,
                shared.noise_precisions[0],
                rate,
                self.config.seed,
                key,
            )?;
            return Ok(());
        }
        let rng = &mut self.rng(SLAB, 0);
        let (counts, squares) = (self.state.scores.counts(), self.state.scores.squares());
        let shared = &mut self.state.shared;
        let own = (&mut shared.slab_precisions[..], &mut shared.slab_rate);
        draw_slabs(self.config.slab, &counts, &squares, own, rng)?;
        Ok(())
    }

    fn draw_spikes(&mut self) -> Result<(), BpfaError> {
        let Some(prior) = self.config.spikes else {
            return Ok(());
        };
        let columns = self.state.shared.column_weights(self.rows);
        let residuals = self.residuals();
        let rng = &mut self.rng(SPIKES, 0);
        SpikeDraw {
            rows: self.latents.as_ref().unwrap_or(self.rows),
            residuals: &residuals,
            column_weights: &columns,
            prior,
        }
        .switches(&mut self.state.spikes, rng)?;
        Ok(())
    }

    /// Values behind censored entries: N(D s, variance of noise and spike), beyond the bound.
    fn draw_latents(&mut self) -> Result<(), BpfaError> {
        let Some((low, high)) = self.rows.bounds() else {
            return Ok(());
        };
        let (columns, entries) = self.noise_weights();
        self.latents = None;
        let residuals = self.residuals();
        let mut values = self.rows.all_values().to_vec();
        for i in 0..self.rows.n_rows() {
            let mut rng = None;
            for (e, entry) in self.rows.range(i).enumerate() {
                let y = values[entry];
                if y > low && y < high {
                    continue;
                }
                let rng = rng.get_or_insert_with(|| self.rng(LATENTS, i as u64));
                let column = scan::place(self.rows.columns(i), e);
                let precision = columns[column] * entries.get(entry).map_or(1.0, |&w| w);
                let mean = f64::from(y - residuals[entry]);
                let sd = f64::from(precision).sqrt().recip();
                let (from, to) = match y >= high {
                    true => (f64::from(high), f64::INFINITY),
                    false => (f64::NEG_INFINITY, f64::from(low)),
                };
                values[entry] = TruncatedNormal::new(mean, sd, from, to)?.sample(rng) as f32;
            }
        }
        self.latents = Some(self.rows.with_values(values));
        Ok(())
    }

    /// Entry minus D s, of every entry.
    fn residuals(&self) -> Vec<f32> {
        let memory = &self.memory;
        let blocks = 0..self.state.scores.blocks.len();
        let parts: Vec<Vec<f32>> = parallel::map(blocks, |block| {
            memory.arch.dispatch(Residuals {
                rows: self.latents.as_ref().unwrap_or(self.rows),
                loadings: &memory.loadings,
                scores: &self.state.scores,
                block,
            })
        });
        parts.concat()
    }

    fn draw_noise(&mut self) -> Result<(), BpfaError> {
        let rng = &mut self.rng(NOISE, 0);
        let squares = match self.config.spikes {
            None => residual_squares(
                self.memory.arch,
                self.latents.as_ref().unwrap_or(self.rows),
                &self.memory.loadings,
                &self.state.scores,
            ),
            Some(prior) => {
                let columns = self.state.shared.column_weights(self.rows);
                let residuals = self.residuals();
                let draw = SpikeDraw {
                    rows: self.latents.as_ref().unwrap_or(self.rows),
                    residuals: &residuals,
                    column_weights: &columns,
                    prior,
                };
                draw.precision(&mut self.state.spikes, rng)?
            }
        };
        let counts = channel_counts(self.rows);
        let total: f64 = squares.iter().sum();
        if !total.is_finite() {
            return Err(BpfaError::NotFinite {
                sweep: self.sweep,
                what: "sum of squared residuals",
                value: total,
            });
        }
        let prior = self.config.noise;
        self.memory.residual_sd = (total / self.rows.n_entries() as f64).sqrt();
        if self.state.shared.noise_precisions.len() == 1 {
            let mut n: u64 = counts.iter().sum();
            let mut square = total;
            if let ScorePrior::Lasso { .. } = self.config.scores {
                // Scores are on the scale of the noise.
                n += self.rows.n_rows() as u64 * self.state.n_atoms() as u64;
                square += self
                    .state
                    .lasso
                    .squares(&self.state.scores)
                    .iter()
                    .sum::<f64>();
            }
            self.state.shared.noise_precisions[0] = draw_precision(prior, n as f64, square, rng)?;
        } else {
            let precisions = &mut self.state.shared.noise_precisions;
            for (channel, g) in precisions.iter_mut().enumerate() {
                *g = draw_precision(prior, counts[channel] as f64, squares[channel], rng)?;
            }
        }
        Ok(())
    }

    /// In the second half of the burn-in: takes atoms out that no row uses, or brings new ones in when all are used (`docs/bpfa.md#number-of-atoms`).
    fn adapt_atoms(&mut self) -> Result<(), BpfaError> {
        let burn_in = self.config.sweeps.burn_in;
        let second_half = self.sweep > burn_in / 2 && self.sweep <= burn_in;
        if !self.config.has_switches() || !second_half || !self.sweep.is_multiple_of(ADAPT_EVERY) {
            return Ok(());
        }
        let k = self.state.n_atoms();
        let most = self.config.max_atoms.unwrap_or(self.config.atoms);
        let counts = self.state.scores.counts();
        let used = counts.iter().filter(|&&n| n > 0).count();
        let spare = used / 8 + 1;
        if self.config.prune && used + spare < k {
            let mut left = spare;
            let keep: Vec<bool> = counts
                .iter()
                .map(|&n| {
                    n > 0
                        || (left > 0 && {
                            left -= 1;
                            true
                        })
                })
                .collect();
            self.state.keep_atoms(&keep);
        } else if used == k && k < most {
            let more = (k / 2 + 1).min(most - k);
            let rng = &mut self.rng(GROW, 0);
            self.state.add_atoms(more, rng);
            self.new_weights(k, rng)?;
        }
        self.refresh_loadings(None);
        Ok(())
    }

    /// Draws weights and slab precisions of atoms from number `first` on, which no row uses yet.
    fn new_weights(&mut self, first: usize, rng: &mut Xoshiro256PlusPlus) -> Result<(), BpfaError> {
        let k = self.state.n_atoms();
        let rows = self.group_rows();
        let priors = self.weight_priors(&(0..k).collect::<Vec<_>>())?;
        for (group, &n) in rows.iter().enumerate() {
            for atom in first..k {
                let ln_odds = draw_ln_odds(priors[atom], 0, n, rng)?;
                self.state.shared.ln_odds[group * k + atom] = ln_odds;
            }
        }
        Ok(())
    }

    /// Monitored scalars, none of which depends on how atoms are numbered.
    pub fn scalars(&self) -> [f64; 5] {
        let shared = &self.state.shared;
        let n = self.rows.n_rows() as f64;
        let noise = shared.noise_precisions.iter().map(|g| g.sqrt().recip());
        [
            noise.sum::<f64>() / shared.noise_precisions.len() as f64,
            shared.slab_precisions[0].sqrt().recip(),
            self.state.n_used() as f64,
            self.state.scores.n_active() as f64 / n,
            self.memory.residual_sd,
        ]
    }
}

/// Anchors, where usage depends on locations.
fn neighbourhood(rows: &BpfaRows, config: &BpfaConfig) -> Result<Neighbourhood, BpfaError> {
    match config.usage.dependent() {
        Some(prior) if config.has_switches() => Neighbourhood::new(rows, prior),
        _ => Ok(Neighbourhood::default()),
    }
}

/// Whether a state is one of this configuration.
fn check_shape(
    state: &BpfaState,
    config: &BpfaConfig,
    neighbourhood: &Neighbourhood,
) -> Result<(), BpfaError> {
    let switches = config.has_switches();
    let dependent = switches && config.usage.dependent().is_some();
    let groups = match (switches, dependent) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => neighbourhood.n_anchors,
    };
    let shared = &state.shared;
    let k = state.n_atoms();
    let per_atom = matches!(config.slab, SlabPrior::PerAtom { .. });
    let laplace = matches!(config.scores, ScorePrior::Lasso { .. });
    let sound = state.scores.is_dense() != switches
        && shared.ln_odds.len() == groups * k
        && (shared.slab_precisions.len() == k && per_atom
            || shared.slab_precisions.len() == 1 && !per_atom)
        && state.lasso.rates.is_empty() != laplace
        && state.dependence.is_modelled() == dependent
        && state.spikes.is_modelled() == config.spikes.is_some();
    expect(
        sound,
        "parts of the state that are not of this configuration",
    )?;
    neighbourhood.check(&state.dependence)
}

/// `m` of the numbers below `k`, ascending.
fn choose(k: usize, m: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut all: Vec<usize> = (0..k).collect();
    for at in 0..m {
        let other = rng.random_range(at..k);
        all.swap(at, other);
    }
    all.truncate(m);
    all.sort_unstable();
    all
}

/// Scans a block of rows.
struct ScanBlock<'a> {
    rows: &'a BpfaRows,
    loadings: &'a Loadings,
    column_weights: &'a [f32],
    entry_weights: &'a [f32],
    slab: &'a [f32],
    /// Of each anchor.
    constants: &'a [f32],
    bars: &'a [f32],
    slopes: &'a [f32],
    state: &'a BpfaState,
    block: usize,
    /// Rows have no scores yet, and start with the most probable ones.
    from_nothing: bool,
    seed: u64,
    key: [u64; 3],
    work: &'a mut ScanWork,
}

impl WithSimd for ScanBlock<'_> {
    type Output = ScoreBlock;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> ScoreBlock {
        let work = self.work;
        work.atoms.clear();
        work.values.clear();
        let mut starts = vec![0];
        let first = self.block * BLOCK_ROWS;
        let mut weights = Vec::new();
        let [chain, sweep, block] = self.key;
        let kp = self.loadings.kp;
        let last = (first + BLOCK_ROWS).min(self.rows.n_rows());
        let shared = self.rows.is_complete() && self.entry_weights.is_empty();
        for i in first..last {
            let together = (i - first) % TOGETHER;
            if shared && together == 0 {
                let rows = (i..(i + TOGETHER).min(last)).map(|i| ScanRow {
                    columns: None,
                    values: self.rows.values(i),
                    weights: self.column_weights,
                    scores: self.state.scores.row(i),
                    shared,
                });
                scan::correlate_together(simd, self.loadings, rows, work);
            }
            let row = row_for_scan(
                self.rows,
                &self.state.scores,
                self.column_weights,
                self.entry_weights,
                i,
                &mut weights,
            );
            if shared {
                work.take(together, kp);
            }
            let group = self.state.dependence.group(i);
            let prior = ScanPrior {
                slab: self.slab,
                constant: &self.constants[group * kp..(group + 1) * kp],
                bar: &self.bars[group * kp..(group + 1) * kp],
                slope: &self.slopes[group * kp..(group + 1) * kp],
            };
            let rng = &mut stream(self.seed, [chain, sweep, block, i as u64]);
            match self.from_nothing {
                true => scan::pursue_row(simd, self.loadings, row, prior, work),
                false => scan::scan_row(simd, self.loadings, row, prior, work, rng),
            }
            starts.push(work.atoms.len() as u32);
        }
        ScoreBlock {
            starts,
            atoms: work.atoms.clone(),
            values: work.values.clone(),
        }
    }
}

/// Residuals of a block of rows.
struct Residuals<'a> {
    rows: &'a BpfaRows,
    loadings: &'a Loadings,
    scores: &'a Scores,
    block: usize,
}

impl WithSimd for Residuals<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let rows = self.rows;
        let first = self.block * BLOCK_ROWS;
        let (mut all, mut own) = (Vec::new(), ResidualWork::default());
        for i in first..(first + BLOCK_ROWS).min(rows.n_rows()) {
            let scores = self.scores.row(i);
            let columns = rows.columns(i);
            scan::residual(
                simd,
                self.loadings,
                columns,
                rows.values(i),
                scores,
                &mut own,
            );
            all.extend_from_slice(&own.values);
        }
        all
    }
}

struct Reconstruct<'a> {
    loadings: &'a Loadings,
    scores: &'a Scores,
    rows: Range<usize>,
    p: usize,
    out: &'a mut [f32],
}

impl WithSimd for Reconstruct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut padded = Vec::new();
        for (i, out) in self.rows.zip(self.out.chunks_exact_mut(self.p)) {
            scan::reconstruct(simd, self.loadings, self.scores.row(i), &mut padded);
            out.copy_from_slice(&padded[..self.p]);
        }
    }
}
