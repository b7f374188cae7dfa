//! Fits of many tasks that may be stopped, or killed, and go on: each run has a checkpoint file of its own.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_infer::VbReport;
use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::storage::StorageError;
use serde::{Deserialize, Serialize};

use super::config::{TaskStart, TasksConfig};
use super::data::{MultiTaskData, Task};
use super::fit::{MultiTaskFit, TaskRun, make_runs};
use super::state::MultiTaskState;
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::checkpoints::fingerprint;

/// Name in checkpoint files.
const MODEL: &str = "npb-iqgme/tasks/run";

/// As [`fit_tasks`](super::fit_tasks), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and
/// returns the same bits as if it had never stopped.
///
/// Files, `watch` and errors: as [`fit_with_checkpoints`](crate::fit_with_checkpoints).
pub fn fit_tasks_with_checkpoints(
    tasks: &[Task<'_>],
    config: &TasksConfig,
    path: impl AsRef<Path>,
    every: Every,
    watch: impl Fn(usize, &VbReport) -> ControlFlow<()> + Sync,
) -> Result<MultiTaskFit, IqgmeError> {
    let data = MultiTaskData::new(tasks, config)?;
    let path = path.as_ref();
    let prints: Vec<u64> = data.tasks.iter().map(fingerprint).collect();
    let runs = make_runs(config, |k, start, restart| {
        let mut path = path.as_os_str().to_owned();
        path.push(format!(".{k}"));
        Resumable {
            data: &data,
            config,
            key: Key {
                start,
                restart,
                data: prints.clone(),
            },
            path: path.into(),
        }
        .run(every, |report| watch(k, report))
    })?;
    MultiTaskFit::new(data, config.clone(), runs)
}

/// What a checkpoint is of, beside the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    start: TaskStart,
    restart: u64,
    /// Fingerprints of the tasks' data.
    data: Vec<u64>,
}

/// What a checkpoint holds, owned or borrowed.
#[derive(Serialize, Deserialize)]
struct Checkpoint<C, K, T, S> {
    config: C,
    key: K,
    trace: T,
    state: S,
}

/// One run with its checkpoint file.
struct Resumable<'a> {
    data: &'a MultiTaskData,
    config: &'a TasksConfig,
    key: Key,
    path: PathBuf,
}

impl Resumable<'_> {
    fn run(
        &self,
        every: Every,
        watch: impl Fn(&VbReport) -> ControlFlow<()>,
    ) -> Result<TaskRun, IqgmeError> {
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
        TaskRun::new(self.key.start, outcome, vb)
    }

    /// The run where it was stopped, or at its start, and its trace.
    fn begin(&self) -> Result<(MultiTaskVb<'_>, Vec<VbReport>), IqgmeError> {
        type Saved = Checkpoint<TasksConfig, Key, Vec<VbReport>, MultiTaskState>;
        let config = self.config.clone();
        let Some(saved) = checkpoint::resume::<Saved>(&self.path, MODEL)? else {
            let Key { start, restart, .. } = self.key;
            let vb = MultiTaskVb::new(self.data, config, start, restart)?;
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
        let vb = MultiTaskVb::resume(self.data, config, saved.state, saved.trace.clone())?;
        Ok((vb, saved.trace))
    }

    fn content<'s>(
        &'s self,
        trace: &'s [VbReport],
        state: &'s MultiTaskState,
    ) -> Checkpoint<&'s TasksConfig, &'s Key, &'s [VbReport], &'s MultiTaskState> {
        Checkpoint {
            config: self.config,
            key: &self.key,
            trace,
            state,
        }
    }
}
