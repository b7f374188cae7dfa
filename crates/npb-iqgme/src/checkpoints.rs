//! Fits that may be stopped, or killed, and go on: each run has a checkpoint file of its own, and so has what the runs foretell of each fold.

use std::ops::ControlFlow;
use std::path::Path;

use npb_data::{Labels, Table};
use npb_infer::VbReport;
use npb_infer::checkpoint::Every;

use crate::data::fingerprint;
use crate::files::{FoldFiles, Key, RunFile, cancelled};
use crate::fit::{IqgmeFit, Run, foretold_labels, plan};
use crate::runs::run_all;
use crate::scales::Training;
use crate::vb::IqgmeVb;
use crate::{IqgmeConfig, IqgmeError};

/// Names in checkpoint files.
const MODEL: &str = "npb-iqgme/run";
const FOLD: &str = "npb-iqgme/fold";

/// As [`fit`](crate::fit()), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and returns
/// the same bits as if it had never stopped.
///
/// Run `k` of those that the configuration asks for writes to the file `path` with `.k` appended, when `every` says so and at its end, each time
/// replacing what it wrote before; delete the files when the fit is saved. The start of a run is not in them: a run that was stopped
/// before its first checkpoint starts again. What the runs foretell of the labels of fold `k` (`config.folds`) goes to `path` with `.foldk` appended. `watch` sees the
/// report of every iteration, with the run's number (runs go on in parallel); when it breaks, that run ends there. A fit of which a run ended so is a valid one, and the run's
/// `stop` says it; its runs are weighed by their bounds, without folds, so that it is there at once.
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
    let training = Training::new(table, labels, config)?;
    let fingerprint = fingerprint(&training.data.own);
    let path = path.as_ref();
    let plan = plan(&training, config);
    let runs = run_all(&plan, config.restarts, |k, planned, restart| {
        let data = training.data.on(planned.scale);
        let key = Key {
            start: planned,
            restart,
            data: fingerprint,
        };
        let file = RunFile::new(path, k, MODEL, (config, config.limits()), key);
        let (vb, outcome) = file.run(
            every,
            |report| watch(k, report),
            |saved| match saved {
                None => IqgmeVb::new(data, config.clone(), planned.start, restart),
                Some((state, trace)) => IqgmeVb::resume(data, config.clone(), state, trace),
            },
            |vb, watch| vb.run(watch),
            |_| Ok(()),
            IqgmeVb::state,
        )?;
        Run::new(planned, outcome, vb)
    })?;
    let foretold = if cancelled(runs.iter().map(|run| &run.stop)) {
        None
    } else {
        let files = FoldFiles::new(path, FOLD, config, fingerprint);
        foretold_labels((table, labels), &training, &plan, config, Some(&files))?
    };
    IqgmeFit::new(training, config.clone(), runs, foretold)
}
