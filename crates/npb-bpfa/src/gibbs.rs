//! The Gibbs sampler.

use std::ops::ControlFlow;
use std::ops::Range;

use npb_infer::{Stop, SweepOutcome, SweepReport, Trace, Xoshiro256PlusPlus, stream};
use npb_priors::beta_bernoulli::WeightPrior;
use pulp::{Arch, Simd, WithSimd};
use rand::RngExt;
use rayon::prelude::*;

use crate::config::{BpfaMove, ScorePrior};
use crate::dictionary::{DictionaryDraw, DictionaryWork};
use crate::loadings::{Loadings, PAD};
use crate::precision::{draw_precision, draw_slabs, residual_squares};
use crate::scan::{self, ScanPrior, ScanWork};
use crate::scores::{BLOCK_ROWS, ScoreBlock, Scores};
use crate::state::{BpfaState, Dictionary};
use crate::usage::{Collapsed, draw_ln_odds, scan_row};
use crate::{BpfaConfig, BpfaError, BpfaRows, init};

/// Third words of the keys of random streams; 0 is that of the start.
const SCORES: u64 = 1;
const COLLAPSED: u64 = 2;
const COLLAPSED_CHOICE: u64 = 3;
const WEIGHTS: u64 = 4;
const DICTIONARY: u64 = 5;
const SLAB: u64 = 7;
const NOISE: u64 = 8;

/// Scalars of the trace.
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
    trace: Trace,
    sweep: u64,
    memory: Memory,
}

/// Kept from sweep to sweep.
struct Memory {
    arch: Arch,
    loadings: Loadings,
    /// What `loadings.gram` was made for: it is remade for each scan.
    dictionary: DictionaryWork,
    slab: Vec<f32>,
    constant: Vec<f32>,
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
        let state = init::start(rows, &config, chain, atoms)?;
        Self::resume(rows, config, chain, state, Trace::new(NAMES))
    }

    /// Goes on from a state and the trace of the sweeps that led to it, in the same bits as if it had never stopped. With an empty trace: starts from the
    /// state.
    ///
    /// # Errors
    /// A configuration out of range; a state that is not of these rows and this configuration.
    pub fn resume(
        rows: &'d BpfaRows,
        config: BpfaConfig,
        chain: u64,
        state: BpfaState,
        trace: Trace,
    ) -> Result<Self, BpfaError> {
        config.validate()?;
        state.check(rows)?;
        let dense = config.scores != ScorePrior::SpikeSlab;
        crate::error::expect(
            state.scores.is_dense() == dense && state.shared.ln_odds.is_empty() == dense,
            "state of other scores than the configuration's",
        )?;
        crate::error::expect(trace.names() == NAMES, "scalars of the trace")?;
        let mut memory = Memory {
            arch: Arch::new(),
            loadings: Loadings::default(),
            dictionary: DictionaryWork::default(),
            slab: Vec::new(),
            constant: Vec::new(),
            residual_sd: f64::NAN,
        };
        let k = state.n_atoms();
        let dictionary = &state.shared.dictionary.values;
        memory.loadings.set(dictionary, k, None, memory.arch);
        Ok(Self {
            rows,
            config,
            chain,
            sweep: trace.n_sweeps() as u64,
            state,
            trace,
            memory,
        })
    }

    /// Names of the scalars of the trace.
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

    /// Scalars of every sweep.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Number of sweeps made.
    pub fn n_sweeps(&self) -> u64 {
        self.sweep
    }

    /// State and trace.
    pub fn into_parts(self) -> (BpfaState, Trace) {
        (self.state, self.trace)
    }

    /// Makes one sweep and adds its scalars to the trace.
    ///
    /// # Errors
    /// Numerical trouble, naming sweep, block, item and pivot.
    pub fn sweep(&mut self) -> Result<(), BpfaError> {
        self.sweep += 1;
        for step in self.config.moves.clone() {
            self.apply(step)?;
        }
        let scalars = self.scalars();
        self.trace.push(&scalars);
        Ok(())
    }

    /// Makes the sweeps that remain of the plan; `watch` sees each and may stop the run.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub fn run(
        &mut self,
        mut watch: impl FnMut(&SweepReport<'_>, &Self) -> ControlFlow<()>,
    ) -> Result<SweepOutcome, BpfaError> {
        let plan = self.config.sweeps;
        let mut stop = Stop::Completed;
        while self.sweep < plan.total() {
            self.sweep()?;
            let report = SweepReport {
                sweep: self.sweep,
                kept: plan.is_kept(self.sweep),
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

    /// Makes one move, as part of the sweep that is being made.
    ///
    /// # Errors
    /// Numerical trouble.
    pub fn apply(&mut self, step: BpfaMove) -> Result<(), BpfaError> {
        match step {
            BpfaMove::Scores => self.draw_scores(),
            BpfaMove::CollapsedSwitches => self.scan_collapsed(),
            BpfaMove::Weights => self.draw_weights(),
            BpfaMove::Dictionary => self.draw_dictionary(),
            BpfaMove::Lengths => Ok(()),
            BpfaMove::SlabPrecision => self.draw_slabs(),
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

    fn weight_prior(&self) -> Result<WeightPrior, BpfaError> {
        self.config
            .usage
            .weight(self.state.n_atoms(), self.rows.n_rows())
    }

    fn refresh_loadings(&mut self, weights: Option<&[f32]>) {
        let k = self.state.n_atoms();
        let dictionary = &self.state.shared.dictionary.values;
        let arch = self.memory.arch;
        self.memory.loadings.set(dictionary, k, weights, arch);
    }

    /// Switches and scores given the weights.
    fn draw_scores(&mut self) -> Result<(), BpfaError> {
        let weights = self.state.shared.column_weights(self.rows);
        self.refresh_loadings(self.rows.is_complete().then_some(&weights));
        self.scan_prior();
        let memory = &self.memory;
        let scores = std::mem::replace(&mut self.state.scores, Scores::zeros(0, 1, false));
        let drawn: Vec<ScoreBlock> = (0..scores.blocks.len())
            .into_par_iter()
            .map_init(ScanWork::default, |work, block| {
                memory.arch.dispatch(ScanBlock {
                    rows: self.rows,
                    loadings: &memory.loadings,
                    column_weights: &weights,
                    entry_weights: &[],
                    prior: ScanPrior {
                        slab: &memory.slab,
                        constant: &memory.constant,
                    },
                    scores: &scores,
                    block,
                    seed: self.config.seed,
                    key: [self.chain, self.sweep, SCORES],
                    work,
                })
            })
            .collect();
        self.state.scores = scores.with_blocks(drawn);
        Ok(())
    }

    /// What the scan compares with, for each atom.
    fn scan_prior(&mut self) {
        let shared = &self.state.shared;
        let k = shared.dictionary.n_atoms();
        let kp = k.next_multiple_of(PAD);
        self.memory.slab.clear();
        self.memory.constant.clear();
        for k in 0..k {
            let slab = shared.slab_precision(k);
            self.memory.slab.push(slab as f32);
            let constant = 2.0 * shared.ln_odds[k] + slab.ln();
            self.memory.constant.push(constant as f32);
        }
        self.memory.slab.resize(kp, 1.0);
        self.memory.constant.resize(kp, f32::NEG_INFINITY);
    }

    fn scan_collapsed(&mut self) -> Result<(), BpfaError> {
        let k = self.state.n_atoms();
        let m = self.config.collapsed_atoms.min(k);
        if !self.config.has_switches() || m == 0 {
            return Ok(());
        }
        let atoms = choose(k, m, &mut self.rng(COLLAPSED_CHOICE, 0));
        let prior = self.weight_prior()?;
        let all_counts = self.state.scores.counts();
        let mut counts: Vec<u64> = atoms.iter().map(|&k| all_counts[k]).collect();
        let shared = &self.state.shared;
        let slabs: Vec<f64> = atoms.iter().map(|&k| shared.slab_precision(k)).collect();
        let weights = shared.column_weights(self.rows);
        Collapsed {
            arch: self.memory.arch,
            rows: self.rows,
            loadings: &self.memory.loadings,
            column_weights: &weights,
            entry_weights: &[],
            atoms: &atoms,
            slabs: &slabs,
            prior,
            seed: self.config.seed,
            key: [self.chain, self.sweep, COLLAPSED],
        }
        .scan(&mut self.state.scores, &mut counts);
        let rng = &mut self.rng(COLLAPSED_CHOICE, 1);
        for (&k, on) in atoms.iter().zip(counts) {
            let n = self.rows.n_rows();
            self.state.shared.ln_odds[k] = draw_ln_odds(prior, on, n, rng)?;
        }
        Ok(())
    }

    fn draw_weights(&mut self) -> Result<(), BpfaError> {
        if !self.config.has_switches() {
            return Ok(());
        }
        let prior = self.weight_prior()?;
        let rng = &mut self.rng(WEIGHTS, 0);
        let counts = self.state.scores.counts();
        for (ln_odds, on) in self.state.shared.ln_odds.iter_mut().zip(counts) {
            *ln_odds = draw_ln_odds(prior, on, self.rows.n_rows(), rng)?;
        }
        Ok(())
    }

    fn draw_dictionary(&mut self) -> Result<(), BpfaError> {
        if self.sweep <= self.config.hold_dictionary {
            return Ok(());
        }
        let weights = self.state.shared.column_weights(self.rows);
        let BpfaState { shared, scores } = &mut self.state;
        DictionaryDraw {
            rows: self.rows,
            scores,
            weights: &weights,
            entry_weights: &[],
            seed: self.config.seed,
            key: [self.chain, self.sweep, DICTIONARY],
        }
        .draw(&mut self.memory.dictionary, &mut shared.dictionary.values)
        .map_err(|(item, bad)| BpfaError::Numerical {
            sweep: self.sweep,
            block: "dictionary, column",
            item,
            pivot: bad.pivot,
            value: bad.value,
        })?;
        self.refresh_loadings(None);
        Ok(())
    }

    fn draw_slabs(&mut self) -> Result<(), BpfaError> {
        let rng = &mut self.rng(SLAB, 0);
        let (counts, squares) = (self.state.scores.counts(), self.state.scores.squares());
        let shared = &mut self.state.shared;
        draw_slabs(self.config.slab, &counts, &squares, shared, rng)?;
        Ok(())
    }

    fn draw_noise(&mut self) -> Result<(), BpfaError> {
        let (squares, counts) = residual_squares(
            self.memory.arch,
            self.rows,
            &self.memory.loadings,
            &self.state.scores,
            &[],
        );
        let total: f64 = squares.iter().sum();
        if !total.is_finite() {
            return Err(BpfaError::NotFinite {
                sweep: self.sweep,
                what: "sum of squared residuals",
                value: total,
            });
        }
        let rng = &mut self.rng(NOISE, 0);
        let prior = self.config.noise;
        self.memory.residual_sd = (total / self.rows.n_entries() as f64).sqrt();
        let precisions = &mut self.state.shared.noise_precisions;
        if precisions.len() == 1 {
            let n: u64 = counts.iter().sum();
            precisions[0] = draw_precision(prior, n as f64, total, rng)?;
        } else {
            for (channel, g) in precisions.iter_mut().enumerate() {
                *g = draw_precision(prior, counts[channel] as f64, squares[channel], rng)?;
            }
        }
        Ok(())
    }

    fn scalars(&self) -> [f64; 5] {
        let shared = &self.state.shared;
        let n = self.rows.n_rows() as f64;
        [
            shared.noise_precisions[0].sqrt().recip(),
            shared.slab_precisions[0].sqrt().recip(),
            self.state.n_used() as f64,
            self.state.scores.n_active() as f64 / n,
            self.memory.residual_sd,
        ]
    }
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
    prior: ScanPrior<'a>,
    scores: &'a Scores,
    block: usize,
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
        for i in first..(first + BLOCK_ROWS).min(self.rows.n_rows()) {
            let row = scan_row(
                self.rows,
                self.scores,
                self.column_weights,
                self.entry_weights,
                i,
                &mut weights,
            );
            let rng = &mut stream(self.seed, [chain, sweep, block, i as u64]);
            scan::scan_row(simd, self.loadings, row, self.prior, work, rng);
            starts.push(work.atoms.len() as u32);
        }
        ScoreBlock {
            starts,
            atoms: work.atoms.clone(),
            values: work.values.clone(),
        }
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
