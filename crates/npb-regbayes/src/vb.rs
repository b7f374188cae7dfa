//! The loop over outer iterations: watched, stopped, resumed.

use std::ops::ControlFlow;

use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{Stop, VbLimits, VbOutcome, VbReport, resume_vb};

use crate::alternate::{Alternation, Reached, Supervision};
use crate::config::IlsvmConfig;
use crate::error::RegBayesError;
use crate::factors::Factors;

/// Name of the scalar that watchers are told.
const OBJECTIVE: &str = "minus_objective";

/// One iteration; its number for errors. Returns minus the objective.
fn step<S: Supervision>(
    alternation: &mut Alternation<'_, S>,
    iteration: u64,
) -> Result<f64, RegBayesError> {
    let objective = alternation.step(iteration)?;
    if objective.is_finite() {
        return Ok(-objective);
    }
    Err(RegBayesError::NotFinite {
        iteration,
        what: "the objective",
        value: objective,
    })
}

/// Iterations until the objective settles, a limit is reached or `watch` breaks. Reports hold minus the objective.
pub(crate) fn go_on<'d, S: Supervision>(
    alternation: &mut Alternation<'d, S>,
    limits: &VbLimits,
    trace: Vec<VbReport>,
    mut watch: impl FnMut(&VbReport, &Alternation<'d, S>) -> ControlFlow<()>,
) -> Result<VbOutcome, RegBayesError> {
    let mut iteration = trace.last().map_or(0, |r| r.iteration);
    resume_vb(
        alternation,
        limits,
        trace,
        |alternation| {
            iteration += 1;
            step(alternation, iteration)
        },
        |report, alternation| watch(report, alternation),
    )
}

/// The methods of a run that is driven by hand: `$run` has an alternation, a trace, the limits of its configuration and a way to its fit.
macro_rules! driven {
    ($run:ident, $fit:ident) => {
        impl $run<'_> {
            /// One outer iteration; minus the objective.
            ///
            /// # Errors
            /// Numerical trouble, named with iteration and block.
            pub fn step(&mut self) -> Result<f64, RegBayesError> {
                let limits = VbLimits {
                    max_iterations: self.trace.len() as u64 + 1,
                    tolerance: 0.0,
                };
                self.go_on(&limits, |_, _| ControlFlow::Continue(()))?;
                Ok(-self.alternation.objective())
            }

            /// The posterior of the features.
            pub fn state(&self) -> &FactorState {
                &self.alternation.factors.state
            }

            /// Every iteration so far.
            pub fn trace(&self) -> &[VbReport] {
                &self.trace
            }

            /// Goes on to the limits of the configuration or until `watch` breaks.
            ///
            /// # Errors
            /// As [`step`](Self::step).
            pub fn run(
                mut self,
                watch: impl FnMut(&VbReport, &FactorState) -> ControlFlow<()>,
            ) -> Result<$fit, RegBayesError> {
                let limits = self.config.limits;
                let outcome = self.go_on(&limits, watch)?;
                self.alternation.finish()?;
                Ok(self.finish(outcome))
            }

            fn go_on(
                &mut self,
                limits: &VbLimits,
                mut watch: impl FnMut(&VbReport, &FactorState) -> ControlFlow<()>,
            ) -> Result<VbOutcome, RegBayesError> {
                let trace = std::mem::take(&mut self.trace);
                let outcome = vb::go_on(&mut self.alternation, limits, trace, |report, run| {
                    watch(report, &run.factors.state)
                })?;
                self.trace.clone_from(&outcome.trace);
                Ok(outcome)
            }
        }
    };
}
pub(crate) use driven;

/// Sweeps without labels, then as many features as the inputs alone ask for: the first part of the work, told to the watcher; `false` when it asked to stop.
pub(crate) fn warm_up(
    factors: &mut Factors<'_>,
    config: &IlsvmConfig,
    part: &mut Part<'_, '_>,
) -> Result<bool, RegBayesError> {
    for sweep in 1..=config.factors.warm_up {
        factors.sweep(0, None)?;
        if part.report(0, config.share(sweep, 0), &[], &[]).is_break() {
            return Ok(false);
        }
    }
    factors.keep_used()?;
    let whole = config.share(config.factors.warm_up, 0);
    while factors.grow()? {
        if part.report(0, whole, &[], &[]).is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl IlsvmConfig {
    /// Share of the work done, in sweeps.
    fn share(&self, warm_up: u64, iterations: u64) -> f64 {
        let sweeps = |iterations: u64| iterations as f64 * self.inner_sweeps as f64;
        (warm_up as f64 + sweeps(iterations))
            / (self.factors.warm_up as f64 + sweeps(self.limits.max_iterations)).max(1.0)
    }
}

/// Goes on from `reached`, or begins with the machine on the present features, until the objective settles, a limit is reached or the watcher stops
/// it; then solves the machine well. Reports hold minus the objective.
pub(crate) fn run<S: Supervision>(
    alternation: &mut Alternation<'_, S>,
    reached: Option<Reached>,
    config: &IlsvmConfig,
    part: &mut Part<'_, '_>,
    checkpoint: Option<&Checkpoint<Reached>>,
) -> Result<VbOutcome, RegBayesError> {
    let mut trace = Vec::new();
    match reached {
        Some(reached) => {
            reached.state.check()?;
            trace = alternation.resume(reached)?;
        }
        None => alternation.solve()?,
    }
    let mut so_far = trace.clone();
    let names = [OBJECTIVE.to_owned()];
    let mut failed = None;
    let mut outcome = go_on(alternation, &config.limits, trace, |report, alternation| {
        so_far.push(*report);
        let kept = checkpoint.map_or(Ok(()), |checkpoint| {
            checkpoint.offer(0, report.iteration, || alternation.reached(&so_far))
        });
        if let Err(error) = kept {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        let over = config.limits.reached(&so_far).is_some();
        let share = if over {
            1.0
        } else {
            config.share(config.factors.warm_up, report.iteration)
        };
        part.report(report.iteration, share, &names, &[report.elbo])
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if outcome.stop == Stop::Cancelled {
        if let Some(checkpoint) = checkpoint {
            checkpoint.write(0, || alternation.reached(&outcome.trace))?;
        }
        // Asked to stop at its last step: it is complete all the same.
        if let Some(stop) = config.limits.reached(&outcome.trace) {
            outcome.stop = stop;
        }
    }
    alternation.finish()?;
    Ok(outcome)
}
