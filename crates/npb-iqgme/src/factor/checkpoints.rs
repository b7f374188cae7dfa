//! Fits that may be stopped, or killed, and go on: each run has a checkpoint file of its own.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_data::{Labels, Table};
use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::storage::StorageError;
use npb_infer::{VbReport, stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::config::FactorStart;
use super::data::FactorData;
use super::fit::{FactorFit, FactorRun, make_runs};
use super::state::FactorState;
use super::vb::FactorVb;
use crate::{FactorConfig, IqgmeError};

/// Name in checkpoint files.
const MODEL: &str = "npb-iqgme/factor-run";

/// As [`fit_factor`](crate::fit_factor), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and
/// returns the same bits as if it had never stopped.
///
/// Run `k` writes to the file `path` with `.k` appended, when `every` says so and at its end; delete the files when the fit is saved. `watch` sees the
/// report of every iteration, with the run's number (runs go on in parallel); when it breaks, that run ends there.
///
/// Errors: as [`fit_factor`](crate::fit_factor); a checkpoint that cannot be written or read, or that is of other data, another configuration or run.
pub fn fit_factor_with_checkpoints(
    table: &Table,
    labels: &Labels,
    config: &FactorConfig,
    path: impl AsRef<Path>,
    every: Every,
    watch: impl Fn(usize, &VbReport) -> ControlFlow<()> + Sync,
) -> Result<FactorFit, IqgmeError> {
    let data = FactorData::new(table, labels, config)?;
    let fingerprint = fingerprint(&data);
    let path = path.as_ref();
    let runs = make_runs(&data, config, |k, start, restart| {
        let mut path = path.as_os_str().to_owned();
        path.push(format!(".{k}"));
        let run = Resumable {
            data: &data,
            config,
            key: Key {
                start,
                restart,
                data: fingerprint,
            },
            path: path.into(),
        };
        run.run(every, |report| watch(k, report))
    })?;
    FactorFit::new(data, config.clone(), runs)
}

/// What a checkpoint is of, beside the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    start: FactorStart,
    restart: u64,
    /// Fingerprint of the data.
    data: u64,
}

/// What a checkpoint holds; `C`, `T`, `S`: configuration, trace and state, or references to them.
#[derive(Serialize, Deserialize)]
struct Checkpoint<C, T, S> {
    config: C,
    key: Key,
    trace: T,
    state: S,
}

/// One run with its checkpoint file.
struct Resumable<'a> {
    data: &'a FactorData,
    config: &'a FactorConfig,
    key: Key,
    path: PathBuf,
}

impl Resumable<'_> {
    fn run(
        &self,
        every: Every,
        watch: impl Fn(&VbReport) -> ControlFlow<()>,
    ) -> Result<FactorRun, IqgmeError> {
        let (mut vb, mut trace) = self.begin()?;
        let mut writer = Checkpointer::new(&self.path, MODEL, env!("CARGO_PKG_VERSION"), every);
        let mut failed: Option<StorageError> = None;
        let outcome = vb.run(|report, state| {
            trace.push(*report);
            if let Err(error) = writer.offer(report.iteration, || self.content(&trace, state)) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            watch(report)
        })?;
        match failed {
            Some(error) => return Err(error.into()),
            None => writer.write(&self.content(&trace, vb.state()))?,
        }
        FactorRun::new(self.key.start, outcome, vb)
    }

    /// The run where it was stopped, or at its start, and its trace.
    fn begin(&self) -> Result<(FactorVb<'_>, Vec<VbReport>), IqgmeError> {
        type Saved = Checkpoint<FactorConfig, Vec<VbReport>, FactorState>;
        let config = self.config.clone();
        let Some(saved) = checkpoint::resume::<Saved>(&self.path, MODEL)? else {
            let Key { start, restart, .. } = self.key;
            let vb = FactorVb::new(self.data, config, start, restart)?;
            return Ok((vb, Vec::new()));
        };
        let mut numbered = saved.trace.iter().zip(1..);
        if saved.key != self.key
            || saved.config != config
            || !numbered.all(|(report, number)| report.iteration == number)
        {
            let path = self.path.display();
            return Err(IqgmeError::Saved {
                what: format!(
                    "checkpoint {path} is of other data, another configuration or another run: delete it to start again"
                ),
            });
        }
        let vb = FactorVb::resume(self.data, config, saved.state, saved.trace.clone())?;
        Ok((vb, saved.trace))
    }

    fn content<'s>(
        &'s self,
        trace: &'s [VbReport],
        state: &'s FactorState,
    ) -> Checkpoint<&'s FactorConfig, &'s [VbReport], &'s FactorState> {
        Checkpoint {
            config: self.config,
            key: self.key,
            trace,
            state,
        }
    }
}

/// A number that is, but for chance, another one for other rows or labels.
fn fingerprint(data: &FactorData) -> u64 {
    let cells = &data.cells;
    let missing = cells.patterns.iter().flat_map(|p| {
        let rows = p.rows.iter().map(|&i| i as u64);
        rows.chain(p.missing.iter().map(|&j| j as u64))
    });
    let values = (0..cells.n_features()).flat_map(|j| cells.x.col_as_slice(j));
    let numbers = values.chain(&data.signs).map(|value| value.to_bits());
    let content = [cells.n_rows() as u64, cells.n_features() as u64];
    let content = content.into_iter().chain(missing).chain(numbers);
    content.fold(0, |sum, word| stream(sum, [word, 0, 0, 0]).random())
}
