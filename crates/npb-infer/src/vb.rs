use serde::{Deserialize, Serialize};

use crate::Stop;
use crate::ranges::{OutOfRange, at_least, not_negative};

/// When a variational run ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VbLimits {
    /// Largest number of iterations in all, those of a continued trace included.
    pub max_iterations: u64,
    /// The run has converged when [`VbReport::rel_change`] was below this number at two iterations
    /// in a row (one flat step is common just before a component dies and the bound rises again).
    /// At 0 the run always makes `max_iterations`.
    pub tolerance: f64,
}

impl VbLimits {
    /// Checks both fields, named within `limits`.
    ///
    /// # Errors
    /// No iteration; a tolerance that is negative or not finite.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        at_least("limits.max_iterations", self.max_iterations, 1)?;
        not_negative("limits.tolerance", self.tolerance)
    }

    /// Why a run with this trace is over; `None` if it is not.
    pub fn reached(&self, trace: &[VbReport]) -> Option<Stop> {
        if let [.., before, last] = trace
            && before.rel_change < self.tolerance
            && last.rel_change < self.tolerance
        {
            return Some(Stop::Converged {
                rel_change: last.rel_change,
            });
        }
        let done = trace.last().map_or(0, |r| r.iteration);
        (done >= self.max_iterations).then_some(Stop::MaxIterations)
    }
}

/// One iteration of a variational run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VbReport {
    /// Number of this iteration, from 1.
    pub iteration: u64,
    /// Evidence lower bound after the iteration, in nats.
    pub elbo: f64,
    /// `|new - old| / max(|new|, 1)`, with `old` the bound one iteration before; infinite at the
    /// first iteration. The 1 is one nat: below that scale only the absolute change means anything.
    pub rel_change: f64,
}

impl VbReport {
    /// The report that follows `last`, the bound being `elbo` now.
    pub fn after(last: Option<&Self>, elbo: f64) -> Self {
        Self {
            iteration: last.map_or(0, |r| r.iteration) + 1,
            elbo,
            rel_change: last.map_or(f64::INFINITY, |r| {
                (elbo - r.elbo).abs() / elbo.abs().max(1.0)
            }),
        }
    }
}

/// How a variational run went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VbOutcome {
    /// Why it ended.
    pub stop: Stop,
    /// Every iteration, in order.
    pub trace: Vec<VbReport>,
}
