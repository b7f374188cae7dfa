//! Chains of a sampler: the one loop of all models.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::watch::{Checkpoint, CheckpointError, Part, Watch};
use crate::{Stop, Sweep, SweepPlan, Trace, parallel};

/// What a model gives to [`sample`]: a sweep, where it is, and what is stored of a draw.
///
/// Randomness comes from `stream(seed, [chain, sweep.number, block, item])`; then the state is all that is needed to go on, and results depend neither on the
/// number of threads nor on where a run was stopped.
pub trait Sampler {
    /// All that a chain needs to go on: its draw, and sums over the draws that were kept.
    type State: Clone + Send + Serialize + DeserializeOwned;
    /// What is stored of a draw, for questions to the fit.
    type Draw: Clone + Send + Serialize + DeserializeOwned;
    /// The model's error.
    type Error: fmt::Display + Send + From<CheckpointError> + From<ChainError<Self::Error>>;

    /// Names of the monitored scalars.
    fn names() -> Vec<String>;

    /// Makes one sweep and writes the monitored scalars; NaN stays where nothing is written. A draw that is kept goes into the model's own sums.
    ///
    /// # Errors
    /// Numerical trouble.
    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), Self::Error>;

    /// Where the chain is.
    fn state(&self) -> Self::State;

    /// The present draw, to be stored.
    fn draw(&self) -> Self::Draw;
}

/// How many chains, of how many sweeps, and how many draws of each are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chains {
    /// What a chain is called where it is watched and in errors: `chain`, of which there is a `chain 0`.
    pub name: &'static str,
    /// Number of chains.
    pub chains: usize,
    /// Sweeps of each.
    pub sweeps: SweepPlan,
    /// Draws of each that are stored, see [`SweepPlan::is_stored`].
    pub stored_draws: u64,
}

/// A chain: where it is, what it has stored, and how it went. Also what a checkpoint holds of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain<S, D> {
    /// Where it is.
    pub state: S,
    /// Stored draws, in order.
    pub draws: Vec<D>,
    /// Monitored scalars of every sweep.
    pub trace: Trace,
    /// [`Stop::Completed`], or [`Stop::Cancelled`] before its last sweep.
    pub stop: Stop,
}

/// The chain of a sampler.
pub type ChainOf<M> = Chain<<M as Sampler>::State, <M as Sampler>::Draw>;

/// A sweep failed; says in which chain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{chain}: {error}")]
pub struct ChainError<E: fmt::Display> {
    /// The chain, such as `chain 2`.
    pub chain: String,
    /// What went wrong.
    pub error: Box<E>,
}

/// Runs all chains in parallel on the caller's rayon pool, each from where `checkpoint` left it, until their sweeps are made or the watcher stops them.
///
/// `begin(chain, reached)` makes the sampler of a chain: from its start, or where it was. What a checkpoint holds of the model must be checked there; trace and
/// number of draws are checked here. All chains together are the share `share` of what `watch` hears of. A chain that is not begun when the fit is stopped makes
/// no sweep; one that has made its last sweep is complete, whatever the watcher says then. When no chain has stored a draw before it was stopped, each stores the
/// one it is at, so that the fit answers.
///
/// # Errors
/// Of the chain with the lowest number: the error of `begin`, unchanged; a [`ChainError`] with that of a sweep; a checkpoint that cannot be written, or whose
/// parts contradict one another.
///
/// ```
/// use npb_infer::watch::{Checkpoint, CheckpointError};
/// use npb_infer::{ChainError, Chains, Sampler, Sweep, SweepPlan, Watch, sample, stream};
/// use rand::RngExt;
///
/// struct Walk { chain: u64, x: f64 }
///
/// #[derive(Debug, thiserror::Error)]
/// enum WalkError {
///     #[error(transparent)]
///     Checkpoint(#[from] CheckpointError),
///     #[error(transparent)]
///     Chain(#[from] ChainError<Self>),
/// }
///
/// impl Sampler for Walk {
///     type State = f64;
///     type Draw = f64;
///     type Error = WalkError;
///     fn names() -> Vec<String> { vec!["x".to_owned()] }
///     fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), WalkError> {
///         self.x = 0.5 * self.x + stream(1, [self.chain, sweep.number, 0, 0]).random::<f64>();
///         scalars[0] = self.x;
///         Ok(())
///     }
///     fn state(&self) -> f64 { self.x }
///     fn draw(&self) -> f64 { self.x }
/// }
///
/// let plan = Chains { name: "chain", chains: 2, sweeps: SweepPlan { burn_in: 10, keep: 100, thin: 2 }, stored_draws: 5 };
/// let watch = Watch::none();
/// let checkpoint = watch.checkpoint("demo/walk", "0.1.0", 0, plan.chains)?;   // none is written
/// let chains = sample(&plan, (&watch, 1.0), &checkpoint, |chain, reached| {
///     Ok::<_, WalkError>(Walk { chain, x: reached.map_or(0.0, |reached| reached.state) })
/// })?;
/// assert_eq!((chains.len(), chains[0].draws.len(), chains[0].trace.n_sweeps()), (2, 5, 210));
/// assert_eq!(chains[1].draws[4], chains[1].state);        // the last draw is stored
/// # Ok::<(), WalkError>(())
/// ```
pub fn sample<M: Sampler>(
    plan: &Chains,
    (watch, share): (&Watch<'_>, f64),
    checkpoint: &Checkpoint<ChainOf<M>>,
    begin: impl Fn(u64, Option<&ChainOf<M>>) -> Result<M, M::Error> + Sync,
) -> Result<Vec<ChainOf<M>>, M::Error> {
    let weight = share / plan.chains as f64;
    let (here, elsewhere): (Vec<_>, Vec<_>) = (0..plan.chains)
        .map(|place| checkpoint.claim(place).map(|()| place))
        .partition(Result::is_ok);
    let ended = parallel::try_map(here.into_iter().flatten(), |place| {
        let reached = checkpoint.reached(place);
        if let Some(reached) = &reached {
            plan.check(reached, &M::names(), checkpoint)?;
        }
        let mut sampler = begin(place as u64, reached.as_ref())?;
        let (draws, trace) = match reached {
            Some(reached) => (reached.draws, reached.trace),
            None => (Vec::new(), Trace::new(M::names())),
        };
        let part = watch.part(plan.called(place), weight);
        let chain = plan.run(&mut sampler, (draws, trace), part, (checkpoint, place))?;
        let present = (plan.stored_draws > 0 && chain.draws.is_empty()).then(|| sampler.draw());
        Ok::<_, M::Error>((chain, present))
    })?;
    elsewhere.into_iter().collect::<Result<Vec<_>, _>>()?;
    let nothing_stored = ended.iter().all(|(chain, _)| chain.draws.is_empty());
    let chain = |(mut chain, present): (ChainOf<M>, Option<M::Draw>)| {
        chain.draws.extend(present.filter(|_| nothing_stored));
        chain
    };
    Ok(ended.into_iter().map(chain).collect())
}

impl Chains {
    fn called(&self, place: usize) -> String {
        format!("{} {place}", self.name)
    }

    /// The loop.
    fn run<M: Sampler>(
        &self,
        sampler: &mut M,
        (mut draws, mut trace): (Vec<M::Draw>, Trace),
        mut part: Part<'_, '_>,
        (checkpoint, place): (&Checkpoint<ChainOf<M>>, usize),
    ) -> Result<ChainOf<M>, M::Error> {
        let total = self.sweeps.total();
        let mut scalars = vec![f64::NAN; trace.names().len()];
        let stop = loop {
            let made = trace.n_sweeps() as u64;
            let stopped = tell(&mut part, &trace, total);
            if made >= total {
                break Stop::Completed;
            }
            if stopped {
                break Stop::Cancelled;
            }
            let number = made + 1;
            let kept = self.sweeps.is_kept(number);
            scalars.fill(f64::NAN);
            let swept = sampler.step(Sweep { number, kept }, &mut scalars);
            swept.map_err(|error| ChainError {
                chain: self.called(place),
                error: Box::new(error),
            })?;
            trace.push(&scalars);
            if self.sweeps.is_stored(number, self.stored_draws) {
                draws.push(sampler.draw());
            }
            checkpoint.offer(place, number, || Chain {
                state: sampler.state(),
                draws: draws.clone(),
                trace: trace.clone(),
                stop: Stop::Cancelled,
            })?;
        };
        let chain = Chain {
            state: sampler.state(),
            draws,
            trace,
            stop,
        };
        // A start may depend on work that was cut short: there is nothing to go on from before the first sweep.
        if chain.trace.n_sweeps() > 0 {
            checkpoint.write(place, || chain.clone())?;
        }
        Ok(chain)
    }

    /// Whether a chain from a file can be one of this plan.
    fn check<S, D>(
        &self,
        chain: &Chain<S, D>,
        names: &[String],
        checkpoint: &Checkpoint<Chain<S, D>>,
    ) -> Result<(), CheckpointError> {
        // Names first: a trace of no scalars could claim any number of sweeps.
        let made = chain.trace.n_sweeps() as u64;
        let possible = chain.trace.names() == names
            && made <= self.sweeps.total()
            && chain.draws.len() as u64 <= self.sweeps.n_kept(made);
        match possible {
            true => Ok(()),
            false => Err(checkpoint.contradictory("trace and draws of a chain")),
        }
    }
}

/// Tells the last sweep, if there was one: of a chain that goes on, or had ended before, the one it was left at. Whether it is to stop.
fn tell(part: &mut Part<'_, '_>, trace: &Trace, total: u64) -> bool {
    let made = trace.n_sweeps();
    if let Some(last) = made.checked_sub(1) {
        let share = made as f64 / total as f64;
        let _ = part.report(made as u64, share, trace.names(), trace.row(last));
    }
    part.is_stopped()
}
