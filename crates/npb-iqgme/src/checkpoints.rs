//! Fits that may be stopped, or killed, and go on: each run has a checkpoint file of its own.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_data::{Labels, Table};
use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::storage::StorageError;
use npb_infer::{VbReport, stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::fit::{IqgmeFit, Run, make_runs};
use crate::vb::{IqgmeData, IqgmeVb};
use crate::{IqgmeConfig, IqgmeError, IqgmeState, Start};

/// Name in checkpoint files.
const MODEL: &str = "npb-iqgme/run";

/// As [`fit`](crate::fit()), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and returns
/// the same bits as if it had never stopped.
///
/// Run `k` of those that the configuration asks for writes to the file `path` with `.k` appended, when `every` says so and at its end, each time
/// replacing what it wrote before; delete the files when the fit is saved. The start of a run is not in them: a run that was stopped
/// before its first checkpoint starts again. `watch` sees the report of every iteration, with the run's number (runs go on in parallel); when it
/// breaks, that run ends there. A fit of runs that ended so is a valid one, and their `stop` says it.
///
/// Errors: as [`fit`](crate::fit()); a checkpoint that cannot be written or read, or that is of other data, another configuration or another run.
pub fn fit_with_checkpoints(
    table: &Table,
    labels: &Labels,
    config: &IqgmeConfig,
    path: impl AsRef<Path>,
    every: Every,
    watch: impl Fn(usize, &VbReport) -> ControlFlow<()> + Sync,
) -> Result<IqgmeFit, IqgmeError> {
    let data = IqgmeData::new(table, labels, config)?;
    let fingerprint = fingerprint(&data);
    let path = path.as_ref();
    let runs = make_runs(&data, config, |k, start, restart| {
        let mut path = path.as_os_str().to_owned();
        path.push(format!(".{k}"));
        Resumable {
            data: &data,
            config,
            key: Key {
                start,
                restart,
                data: fingerprint,
            },
            path: path.into(),
        }
        .run(every, |report| watch(k, report))
    })?;
    IqgmeFit::new(data, config.clone(), runs)
}

/// What a checkpoint is of, beside the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    start: Start,
    restart: u64,
    /// Fingerprint of the data.
    data: u64,
}

/// What a checkpoint holds; `S` is the state or a reference to it.
#[derive(Serialize, Deserialize)]
struct Checkpoint<C, T, S> {
    config: C,
    key: Key,
    trace: T,
    state: S,
}

/// One run with its checkpoint file.
struct Resumable<'a> {
    data: &'a IqgmeData,
    config: &'a IqgmeConfig,
    key: Key,
    path: PathBuf,
}

impl Resumable<'_> {
    fn run(
        &self,
        every: Every,
        watch: impl Fn(&VbReport) -> ControlFlow<()>,
    ) -> Result<Run, IqgmeError> {
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
        Run::new(self.key.start, outcome, vb)
    }

    /// The run where it was stopped, or at its start, and its trace.
    fn begin(&self) -> Result<(IqgmeVb<'_>, Vec<VbReport>), IqgmeError> {
        type Saved = Checkpoint<IqgmeConfig, Vec<VbReport>, IqgmeState>;
        let config = self.config.clone();
        let Some(saved) = checkpoint::resume::<Saved>(&self.path, MODEL)? else {
            let Key { start, restart, .. } = self.key;
            let vb = IqgmeVb::new(self.data, config, start, restart)?;
            return Ok((vb, Vec::new()));
        };
        let numbered = saved.trace.iter().zip(1..);
        if saved.key != self.key
            || saved.config != config
            || !numbered
                .into_iter()
                .all(|(report, number)| report.iteration == number)
        {
            let path = self.path.display();
            return Err(IqgmeError::Saved {
                what: format!(
                    "checkpoint {path} is of other data, another configuration or another run: delete it to start again"
                ),
            });
        }
        let vb = IqgmeVb::resume(self.data, config, saved.state, saved.trace.clone())?;
        Ok((vb, saved.trace))
    }

    fn content<'s>(
        &'s self,
        trace: &'s [VbReport],
        state: &'s IqgmeState,
    ) -> Checkpoint<&'s IqgmeConfig, &'s [VbReport], &'s IqgmeState> {
        Checkpoint {
            config: self.config,
            key: self.key,
            trace,
            state,
        }
    }
}

/// A number that is, but for chance, another one for other rows or labels.
pub(crate) fn fingerprint(data: &IqgmeData) -> u64 {
    let rows = &data.rows;
    let words = |n: usize| n as u64;
    let pattern = |group: &crate::rows::Group| {
        let observed = &rows.patterns[group.pattern].observed;
        std::iter::once(words(group.rows.end)).chain(observed.iter().copied().map(words))
    };
    let numbers = rows.values.iter().chain(&rows.signs);
    let classes = rows
        .classes
        .iter()
        .map(|class| class.map_or(0, |c| words(c + 1)));
    let content = std::iter::once(words(rows.n_features))
        .chain(classes)
        .chain(rows.order.iter().copied().map(words))
        .chain(rows.groups.iter().flat_map(pattern))
        .chain(numbers.map(|value| value.to_bits()));
    content.fold(0, |sum, word| stream(sum, [word, 0, 0, 0]).random())
}
