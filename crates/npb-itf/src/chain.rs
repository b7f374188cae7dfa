//! One chain: its sweeps, trace and kept draws.

use std::ops::ControlFlow;

use npb_infer::{Stop, SweepReport, Trace};
use serde::{Deserialize, Serialize};

use crate::draw::Draw;
use crate::gibbs::SCALARS;
use crate::{ItfConfig, ItfData, ItfError, ItfSampler, ItfState};

/// A chain with its trace and the draws kept so far; serialise [`Checkpoint`] to go on later.
#[derive(Debug)]
pub struct ItfRun<'d> {
    sampler: ItfSampler<'d>,
    chain: u64,
    trace: Trace,
    draws: Vec<Draw>,
    stop: Stop,
}

/// A chain on file: it goes on, by [`ItfRun::resume`](crate::ItfRun::resume), to the same bits as one that was never stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of the chain.
    pub chain: u64,
    /// Its present draw.
    pub state: ItfState,
    /// Monitored scalars of all sweeps so far.
    pub trace: Trace,
    /// Draws kept so far.
    pub draws: Vec<Draw>,
    /// How it ended last time.
    pub stop: Stop,
}

impl<'d> ItfRun<'d> {
    /// A chain before its first sweep. Groups of columns are those of the data: see [`ItfData::grouped`] for those of the configuration.
    ///
    /// # Errors
    /// As [`ItfSampler::new`].
    pub fn new(data: &'d ItfData, config: ItfConfig, chain: u64) -> Result<Self, ItfError> {
        Ok(Self {
            sampler: ItfSampler::new(data, config, chain)?,
            chain,
            trace: Trace::new(SCALARS),
            draws: Vec::new(),
            // Until it has been run to its end.
            stop: Stop::Cancelled,
        })
    }

    /// A chain that goes on from a checkpoint.
    ///
    /// # Errors
    /// As [`ItfSampler::resume`], or a checkpoint whose parts contradict one another.
    pub fn resume(
        data: &'d ItfData,
        config: ItfConfig,
        checkpoint: Checkpoint,
    ) -> Result<Self, ItfError> {
        let Checkpoint {
            chain,
            state,
            trace,
            draws,
            stop,
        } = checkpoint;
        let sweep = trace.n_sweeps() as u64;
        let kept = (1..=sweep).filter(|&s| config.sweeps.is_kept(s)).count();
        if trace.names() != SCALARS || draws.len() != kept {
            return Err(ItfError::saved("trace or number of draws of a checkpoint"));
        }
        for draw in &draws {
            check_draw(draw, &config, data.n_rows(), data.n_columns())?;
        }
        Ok(Self {
            sampler: ItfSampler::resume(data, config, chain, state, sweep)?,
            chain,
            trace,
            draws,
            stop,
        })
    }

    /// Makes the sweeps that are left, until `watch` stops it. The watcher sees the run as it is after the sweep, trace and kept draws
    /// included, and may take a [`checkpoint`](Self::checkpoint).
    pub fn run(
        &mut self,
        mut watch: impl FnMut(&SweepReport<'_>, &Self) -> ControlFlow<()>,
    ) -> Stop {
        let plan = self.sampler.config().sweeps;
        // What a checkpoint taken by the watcher says; else two runs to the same sweep would differ.
        self.stop = Stop::Cancelled;
        for number in self.trace.n_sweeps() as u64 + 1..=plan.total() {
            let kept = plan.is_kept(number);
            self.traced_sweep(kept);
            let report = SweepReport {
                sweep: number,
                kept,
                trace: &self.trace,
            };
            if watch(&report, self).is_break() {
                return self.stop;
            }
        }
        self.stop = Stop::Completed;
        self.stop
    }

    fn traced_sweep(&mut self, kept: bool) {
        self.sampler.sweep();
        let mut scalars = [f64::NAN; SCALARS.len()];
        let [.., information] = &mut scalars;
        if kept {
            let draw = self.sampler.draw();
            *information = mean_information(&draw);
            self.draws.push(draw);
        }
        self.sampler.summarise(&mut scalars);
        self.trace.push(&scalars);
    }

    /// The sampler.
    pub fn sampler(&self) -> &ItfSampler<'d> {
        &self.sampler
    }

    /// Draws kept so far.
    pub fn draws(&self) -> &[Draw] {
        &self.draws
    }

    /// Monitored scalars of all sweeps so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What [`resume`](Self::resume) needs.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            chain: self.chain,
            state: self.sampler.state().clone(),
            trace: self.trace.clone(),
            draws: self.draws.clone(),
            stop: self.stop,
        }
    }

    /// The chain as it is now.
    pub fn finish(self) -> Checkpoint {
        Checkpoint {
            chain: self.chain,
            state: self.sampler.into_state(),
            trace: self.trace,
            draws: self.draws,
            stop: self.stop,
        }
    }
}

/// Mean mutual information over pairs of columns.
fn mean_information(draw: &Draw) -> f64 {
    let p = draw.columns.len();
    let pairs = (0..p).flat_map(|a| (0..a).map(move |b| (a, b)));
    let total: f64 = pairs.map(|(a, b)| draw.mutual_information(a, b)).sum();
    total / ((p * p.saturating_sub(1)) as f64 / 2.0).max(1.0)
}

/// Whether a draw is one of such data.
pub(crate) fn check_draw(
    draw: &Draw,
    config: &ItfConfig,
    n_rows: usize,
    n_columns: usize,
) -> Result<(), ItfError> {
    if draw.columns.len() != n_columns {
        return Err(ItfError::saved("number of columns of a draw"));
    }
    draw.check(n_rows, config.structure.has_lower())
        .map_err(ItfError::saved)
}
