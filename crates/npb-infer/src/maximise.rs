//! Variational fits and EM: the one loop of all models.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::Stop;
use crate::watch::{Checkpoint, CheckpointError, Part};
use crate::{VbLimits, VbOutcome, VbReport};

/// What a model gives to [`maximise`]: a step, where it is, and what follows the last step.
pub trait Variational {
    /// All that a run needs to go on.
    type State: Clone + Send + Serialize + DeserializeOwned;
    /// The model's error.
    type Error: From<CheckpointError>;

    /// One iteration; returns the objective after it, which must be a number.
    ///
    /// # Errors
    /// Numerical trouble, an objective that is not finite among it.
    fn step(&mut self) -> Result<f64, Self::Error>;

    /// Where the run is; asked for after [`settle`](Self::settle).
    fn state(&self) -> Self::State;

    /// Comes before the state is asked for, and when the run has ended: gets what of it lies elsewhere.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    fn settle(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Follows the last step of a run that was not stopped, before its state is written; never a second time when that is taken from a checkpoint.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    fn finish(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<M: Variational> Variational for &mut M {
    type State = M::State;
    type Error = M::Error;

    fn step(&mut self) -> Result<f64, M::Error> {
        (**self).step()
    }

    fn state(&self) -> M::State {
        (**self).state()
    }

    fn settle(&mut self) -> Result<(), M::Error> {
        (**self).settle()
    }

    fn finish(&mut self) -> Result<(), M::Error> {
        (**self).finish()
    }
}

/// Where a run is. Also what a checkpoint holds of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VbRun<S> {
    /// Where it is.
    pub state: S,
    /// Every iteration so far.
    pub trace: Vec<VbReport>,
}

/// Runs one start from where its place in `checkpoint` left it, until the objective converges, the limits are reached or the watcher stops it.
///
/// `begin(reached)` makes the run: from its start, or where it was; what a checkpoint holds of the model must be checked there. `part` hears of it, and of the
/// objective by the name `objective`: what the part has been told before (a warm-up, say) stays, this is the rest of its work. A run that is not begun when the
/// fit is stopped makes no step; one that has converged or reached its limits has ended, whatever the watcher says then. Several starts or folds are so many
/// places of one checkpoint.
///
/// # Errors
/// The first error of `begin` or of a step, unchanged; a checkpoint that cannot be written, or whose parts contradict one another.
///
/// ```
/// use npb_infer::watch::CheckpointError;
/// use npb_infer::{Stop, Variational, VbLimits, Watch, maximise};
///
/// // A "model" whose bound rises towards zero, each step halving the distance.
/// struct Halving(f64);
/// impl Variational for Halving {
///     type State = f64;
///     type Error = CheckpointError;
///     fn step(&mut self) -> Result<f64, CheckpointError> { self.0 /= 2.0; Ok(-self.0) }
///     fn state(&self) -> f64 { self.0 }
/// }
///
/// let limits = VbLimits { max_iterations: 100, tolerance: 1e-6 };
/// let watch = Watch::none();
/// let checkpoint = watch.checkpoint("demo/halving", "0.1.0", 0, 1)?;       // none is written
/// let (model, outcome) = maximise(&limits, "elbo", &mut watch.part("fit", 1.0), (&checkpoint, 0), |reached| {
///     Ok::<_, CheckpointError>(Halving(reached.map_or(8.0, |run| run.state)))
/// })?;
/// assert!(matches!(outcome.stop, Stop::Converged { .. }) && model.0 < 1e-5);
/// # Ok::<(), CheckpointError>(())
/// ```
pub fn maximise<M: Variational>(
    limits: &VbLimits,
    objective: &str,
    part: &mut Part<'_, '_>,
    (checkpoint, place): (&Checkpoint<VbRun<M::State>>, usize),
    begin: impl FnOnce(Option<VbRun<M::State>>) -> Result<M, M::Error>,
) -> Result<(M, VbOutcome), M::Error> {
    checkpoint.claim(place)?;
    let reached = checkpoint.reached(place);
    let mut trace = reached
        .as_ref()
        .map_or_else(Vec::new, |run| run.trace.clone());
    if !(1..).zip(&trace).all(|(n, report)| report.iteration == n) {
        return Err(checkpoint.contradictory("iterations of a run").into());
    }
    let mut model = begin(reached)?;
    let (names, before) = ([objective.to_owned()], part.share());
    let stop = loop {
        let ended = limits.reached(&trace);
        if let Some(last) = trace.last() {
            let done = match ended {
                None => last.iteration as f64 / limits.max_iterations as f64,
                Some(_) => 1.0,
            };
            let share = before + (1.0 - before) * done;
            let _ = part.report(last.iteration, share, &names, &[last.elbo]);
        }
        if let Some(stop) = ended {
            break stop;
        }
        if part.is_stopped() {
            break Stop::Cancelled;
        }
        let value = model.step()?;
        trace.push(VbReport::after(trace.last(), value));
        if limits.reached(&trace).is_some() {
            model.finish()?;
        }
        if checkpoint.is_due(trace.len() as u64) {
            model.settle()?;
            checkpoint.write(place, || VbRun {
                state: model.state(),
                trace: trace.clone(),
            })?;
        }
    };
    model.settle()?;
    // A start may depend on work that was cut short: there is nothing to go on from before the first step.
    if !trace.is_empty() {
        checkpoint.write(place, || VbRun {
            state: model.state(),
            trace: trace.clone(),
        })?;
    }
    Ok((model, VbOutcome { stop, trace }))
}
