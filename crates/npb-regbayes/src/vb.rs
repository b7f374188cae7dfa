//! Outer iterations: in one call, and driven by hand.

use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{VbOutcome, VbRun, maximise};

use crate::alternate::{Alternation, Margins, Reached};
use crate::config::IlsvmConfig;
use crate::error::RegBayesError;

/// Name of the scalar that watchers are told.
const OBJECTIVE: &str = "minus_objective";

/// The methods of a run that is driven by hand: `$run` has an alternation, a trace, the limits of its configuration and a way to its fit.
macro_rules! driven {
    ($run:ident, $fit:ident) => {
        impl $run<'_> {
            /// One outer iteration; minus the objective.
            ///
            /// # Errors
            /// Numerical trouble, named with iteration and block.
            pub fn step(&mut self) -> Result<f64, RegBayesError> {
                let value = self.alternation.step()?;
                self.trace.push(VbReport::after(self.trace.last(), value));
                Ok(value)
            }

            /// The posterior of the features.
            pub fn state(&self) -> &FeatureState {
                &self.alternation.factors.state
            }

            /// Every iteration so far.
            pub fn trace(&self) -> &[VbReport] {
                &self.trace
            }

            /// Goes on to the limits of the configuration, or until the watcher stops it. No checkpoint is written.
            ///
            /// # Errors
            /// As [`step`](Self::step).
            pub fn run(mut self, watch: &Watch<'_>) -> Result<$fit, RegBayesError> {
                let reached = VbRun {
                    state: self.alternation.state(),
                    trace: std::mem::take(&mut self.trace),
                };
                let memory = Checkpoint::in_memory([Some(reached)]);
                let mut part = watch.part("fit", 1.0);
                let run = (&mut part, &memory);
                let outcome = vb::run(&mut self.alternation, None, self.config, run)?;
                Ok(self.finish(outcome))
            }
        }
    };
}
pub(crate) use driven;

/// Goes on from where the checkpoint left it, or from `before`, or begins with the machine on the present features, until the objective settles, a limit is
/// reached or the watcher stops it; then solves the machine well.
pub(crate) fn run<S: Margins>(
    alternation: &mut Alternation<'_, S>,
    before: Option<Reached>,
    config: &IlsvmConfig,
    (part, checkpoint): (&mut Part<'_, '_>, &Checkpoint<VbRun<Reached>>),
) -> Result<VbOutcome, RegBayesError> {
    let begin = |reached: Option<VbRun<Reached>>| {
        match reached.map(|run| run.state).or(before) {
            Some(reached) => alternation.resume(reached)?,
            None => alternation.solve()?,
        }
        Ok(alternation)
    };
    let (alternation, outcome) = maximise(&config.limits, OBJECTIVE, part, (checkpoint, 0), begin)?;
    alternation.finish()?;
    Ok(outcome)
}
