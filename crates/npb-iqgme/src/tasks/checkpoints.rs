//! Fits of many tasks that may be stopped, or killed, and go on: each run and each fold has a checkpoint file of its own.

use std::ops::ControlFlow;
use std::path::Path;

use npb_infer::checkpoint::Every;
use npb_infer::{VbReport, stream};
use rand::RngExt;

use super::config::TasksConfig;
use super::data::{Task, TrainingTasks};
use super::fit::{MultiTaskFit, make_runs};
use super::run::TaskRun;
use super::stacking::votes;
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::data::fingerprint;
use crate::files::{FoldFiles, Key, RunFile, cancelled};

/// Names in checkpoint files.
const MODEL: &str = "npb-iqgme/tasks/run";
const FOLD: &str = "npb-iqgme/tasks/fold";

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
    let training = TrainingTasks::of(tasks, config)?;
    let path = path.as_ref();
    let prints = training.data.own.tasks.iter().map(fingerprint);
    let fingerprint = prints.fold(0, |sum, print| stream(sum, [print, 0, 0, 0]).random());
    let runs = make_runs(&training, config, |k, planned, restart| {
        let data = training.data.on(planned.scale);
        let key = Key {
            start: planned,
            restart,
            data: fingerprint,
        };
        let file = RunFile::new(path, k, MODEL, (config, config.single.limits()), key);
        let (vb, outcome) = file.run(
            every,
            |report| watch(k, report),
            |saved| match saved {
                None => MultiTaskVb::new(data, config.clone(), planned.start, restart),
                Some((state, trace)) => MultiTaskVb::resume(data, config.clone(), state, trace),
            },
            |vb, watch| vb.run(watch),
            MultiTaskVb::settle,
            MultiTaskVb::state,
        )?;
        TaskRun::new(planned, outcome, vb)
    })?;
    let votes = if cancelled(runs.iter().map(|run| &run.stop)) {
        None
    } else {
        let files = FoldFiles::new(path, FOLD, config, fingerprint);
        votes(tasks, &training, config, Some(&files))?
    };
    MultiTaskFit::new(training, config.clone(), runs, votes)
}
