use std::ops::{ControlFlow, Range};

use serde::{Deserialize, Serialize};

use crate::{Stop, parallel};

/// How many sweeps a Gibbs run makes and which draws it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Sweeps before the first that can be kept.
    pub burn_in: u64,
    /// Draws to keep.
    pub keep: u64,
    /// Every `thin`-th sweep after the burn-in is kept; 1 keeps all. Taken as 1 when 0.
    pub thin: u64,
}

impl SweepPlan {
    /// Number of sweeps in all: `burn_in + keep * thin`, or `u64::MAX` where that is too large.
    pub fn total(&self) -> u64 {
        self.keep
            .saturating_mul(self.thin.max(1))
            .saturating_add(self.burn_in)
    }

    /// How many draws of the first `made` sweeps are kept.
    pub fn n_kept(&self, made: u64) -> u64 {
        made.min(self.total()).saturating_sub(self.burn_in) / self.thin.max(1)
    }

    /// How many draws are stored of the first `made` sweeps, when `stored_draws` of the kept ones are.
    pub fn n_stored(&self, made: u64, stored_draws: u64) -> u64 {
        let (kept, stored) = (self.n_kept(made), stored_draws.min(self.keep));
        (u128::from(kept) * u128::from(stored) / u128::from(self.keep.max(1))) as u64
    }

    /// Is the draw after sweep number `sweep` stored, when `stored_draws` of the kept ones are? It is the last of each of so many equal parts, the very last draw
    /// among them; every kept draw when no more are kept than are stored.
    ///
    /// ```
    /// use npb_infer::SweepPlan;
    /// let plan = SweepPlan { burn_in: 100, keep: 10, thin: 2 };      // keeps 102, 104, ..., 120
    /// let stored: Vec<u64> = (1..=120).filter(|&sweep| plan.is_stored(sweep, 4)).collect();
    /// assert_eq!(stored, [106, 110, 116, 120]);                       // of each 2.5 kept ones the last
    /// ```
    pub fn is_stored(&self, sweep: u64, stored_draws: u64) -> bool {
        self.is_kept(sweep)
            && self.n_stored(sweep, stored_draws) > self.n_stored(sweep - 1, stored_draws)
    }

    /// Is the draw after sweep number `sweep` (counted from 1) kept?
    pub fn is_kept(&self, sweep: u64) -> bool {
        sweep > self.burn_in
            && sweep <= self.total()
            && (sweep - self.burn_in).is_multiple_of(self.thin.max(1))
    }
}

/// The sweep that a model is asked to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Its number, from 1; the second word of the key of [`crate::stream`].
    pub number: u64,
    /// Whether the draw it ends with belongs to the posterior sample: then the model adds it to its
    /// averages.
    pub kept: bool,
}

/// What the watcher of a run sees after each sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepReport<'a> {
    /// Number of the sweep just made, from 1.
    pub sweep: u64,
    /// Whether its draw is kept.
    pub kept: bool,
    /// The monitored scalars of all sweeps so far, this one last.
    pub trace: &'a Trace,
}

impl SweepReport<'_> {
    /// The monitored scalars after this sweep, in the order of [`Trace::names`].
    pub fn scalars(&self) -> &[f64] {
        self.trace.row(self.trace.n_sweeps() - 1)
    }
}

/// Named scalars of one chain, one row per sweep from sweep 1 on, burn-in included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TraceWire")]
pub struct Trace {
    names: Vec<String>,
    n_sweeps: usize,
    values: Vec<f64>,
}

/// A trace as it comes from a file, its lengths not yet checked.
#[derive(Deserialize)]
struct TraceWire {
    names: Vec<String>,
    n_sweeps: usize,
    values: Vec<f64>,
}

impl TryFrom<TraceWire> for Trace {
    type Error = String;

    fn try_from(wire: TraceWire) -> Result<Self, String> {
        let TraceWire {
            names,
            n_sweeps,
            values,
        } = wire;
        if n_sweeps.checked_mul(names.len()) != Some(values.len()) {
            let (n, m) = (names.len(), values.len());
            return Err(format!(
                "trace: {n_sweeps} sweeps of {n} scalars cannot be {m} values"
            ));
        }
        Ok(Self {
            names,
            n_sweeps,
            values,
        })
    }
}

impl Trace {
    /// An empty trace of these scalars.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self {
            names,
            n_sweeps: 0,
            values: Vec::new(),
        }
    }

    /// Names of the scalars.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of sweeps recorded.
    pub fn n_sweeps(&self) -> usize {
        self.n_sweeps
    }

    /// The scalars after sweep `index + 1`.
    ///
    /// # Panics
    /// When `index >= n_sweeps()`.
    pub fn row(&self, index: usize) -> &[f64] {
        assert!(
            index < self.n_sweeps,
            "row {index} of a trace of {} sweeps",
            self.n_sweeps
        );
        &self.values[index * self.names.len()..][..self.names.len()]
    }

    /// Scalar number `scalar` at every sweep.
    ///
    /// # Panics
    /// When `scalar >= names().len()`.
    pub fn column(&self, scalar: usize) -> impl Iterator<Item = f64> + '_ {
        assert!(
            scalar < self.names.len(),
            "scalar {scalar} of a trace of {}",
            self.names.len()
        );
        self.values
            .iter()
            .skip(scalar)
            .step_by(self.names.len())
            .copied()
    }

    /// Scalar number `scalar` at the sweeps that `plan` keeps.
    ///
    /// # Panics
    /// When `scalar >= names().len()`.
    pub fn kept(&self, plan: &SweepPlan, scalar: usize) -> Vec<f64> {
        let numbered = (1..).zip(self.column(scalar));
        numbered
            .filter(|&(sweep, _)| plan.is_kept(sweep))
            .map(|(_, value)| value)
            .collect()
    }

    /// Adds the scalars of the next sweep: for loops that keep a trace of their own.
    ///
    /// # Panics
    /// When there are not as many as names.
    pub fn push(&mut self, scalars: &[f64]) {
        assert_eq!(scalars.len(), self.names.len(), "one number for each name");
        let row = self.push_row();
        self.values[row].copy_from_slice(scalars);
    }

    /// Adds a row of NaN for the next sweep to fill.
    fn push_row(&mut self) -> Range<usize> {
        let start = self.values.len();
        self.values.resize(start + self.names.len(), f64::NAN);
        self.n_sweeps += 1;
        start..self.values.len()
    }
}

/// How a Gibbs run went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepOutcome {
    /// Why it ended: [`Stop::Completed`] or [`Stop::Cancelled`].
    pub stop: Stop,
    /// Monitored scalars of every sweep.
    pub trace: Trace,
}

/// Makes the sweeps of `plan`, recording the scalars called `names`, until all are made or `watch`
/// breaks.
///
/// `sweep(model, which, scalars)` makes one sweep and writes the monitored scalars (as many as
/// `names`; NaN stays where it writes nothing). Randomness comes from `stream(seed, [chain,
/// which.number, block, item])`, so that nothing but the model and the trace is needed to go on
/// later. `watch` may end the run with [`ControlFlow::Break`]; all work so far is kept.
///
/// # Errors
/// The first error of `sweep`, unchanged.
///
/// ```
/// use npb_infer::{SweepPlan, run_sweeps, stream};
/// use rand::RngExt;
/// use std::{convert::Infallible, ops::ControlFlow};
///
/// let mut x = 0.0;
/// let plan = SweepPlan { burn_in: 10, keep: 100, thin: 2 };
/// let outcome = run_sweeps(&mut x, &plan, ["x"], |x, sweep, scalars| {
///     *x = 0.5 * *x + stream(1, [0, sweep.number, 0, 0]).random::<f64>();
///     scalars[0] = *x;
///     Ok::<_, Infallible>(())
/// }, |_, _| ControlFlow::Continue(())).unwrap();
/// assert_eq!(outcome.trace.n_sweeps(), 210);
/// assert_eq!(outcome.trace.kept(&plan, 0).len(), 100);
/// ```
pub fn run_sweeps<M, E>(
    model: &mut M,
    plan: &SweepPlan,
    names: impl IntoIterator<Item = impl Into<String>>,
    sweep: impl FnMut(&mut M, Sweep, &mut [f64]) -> Result<(), E>,
    watch: impl FnMut(&SweepReport<'_>, &M) -> ControlFlow<()>,
) -> Result<SweepOutcome, E> {
    resume_sweeps(model, plan, Trace::new(names), sweep, watch)
}

/// Continues a run from its model and trace, as if it had never stopped. Otherwise as
/// [`run_sweeps`].
///
/// # Errors
/// The first error of `sweep`, unchanged.
pub fn resume_sweeps<M, E>(
    model: &mut M,
    plan: &SweepPlan,
    mut trace: Trace,
    mut sweep: impl FnMut(&mut M, Sweep, &mut [f64]) -> Result<(), E>,
    mut watch: impl FnMut(&SweepReport<'_>, &M) -> ControlFlow<()>,
) -> Result<SweepOutcome, E> {
    for number in trace.n_sweeps() as u64 + 1..=plan.total() {
        let kept = plan.is_kept(number);
        let row = trace.push_row();
        sweep(model, Sweep { number, kept }, &mut trace.values[row])?;
        if watch(
            &SweepReport {
                sweep: number,
                kept,
                trace: &trace,
            },
            model,
        )
        .is_break()
        {
            return Ok(SweepOutcome {
                stop: Stop::Cancelled,
                trace,
            });
        }
    }
    Ok(SweepOutcome {
        stop: Stop::Completed,
        trace,
    })
}

/// Runs chains `0..n` in parallel on the caller's rayon pool and returns their results in order.
///
/// `run(chain)` must take its randomness from `chain` (the first word of the key of
/// [`crate::stream`]); then the results do not depend on the number of threads.
///
/// # Errors
/// When chains fail, the error of the one with the lowest number. All chains are run to their end
/// first, so that this, too, is the same for any number of threads.
pub fn run_chains<T: Send, E: Send>(
    n: usize,
    run: impl Fn(u64) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let chains: Vec<Result<T, E>> = parallel::map(0..n as u64, run);
    chains.into_iter().collect()
}
