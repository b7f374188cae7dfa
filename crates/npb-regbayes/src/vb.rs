//! The loop over outer iterations.

use std::ops::ControlFlow;

use npb_infer::{VbLimits, VbOutcome, VbReport, resume_vb};

use crate::alternate::{Alternation, Supervision};
use crate::error::RegBayesError;

/// Goes on from `trace` until the objective settles, a limit is reached or `watch` breaks. Reports hold minus the objective.
pub(crate) fn run<'d, S: Supervision>(
    alternation: &mut Alternation<'d, S>,
    limits: &VbLimits,
    trace: Vec<VbReport>,
    watch: impl FnMut(&VbReport, &Alternation<'d, S>) -> ControlFlow<()>,
) -> Result<VbOutcome, RegBayesError> {
    let mut iteration = trace.last().map_or(0, |r| r.iteration);
    let step = |alternation: &mut Alternation<'d, S>| {
        iteration += 1;
        let objective = alternation.step(iteration)?;
        if objective.is_finite() {
            return Ok(-objective);
        }
        Err(RegBayesError::NotFinite {
            iteration,
            what: "the objective",
            value: objective,
        })
    };
    resume_vb(alternation, limits, trace, step, watch)
}
