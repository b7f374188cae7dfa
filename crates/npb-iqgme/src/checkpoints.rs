//! Fits that may be stopped, or killed, and go on: each run has a checkpoint file of its own, and so has what the runs foretell of each fold.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_data::{Labels, Table};
use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::storage::{self, StorageError};
use npb_infer::{Stop, VbLimits, VbOutcome, VbReport, stream};
use rand::RngExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::IqgmeData;
use crate::fit::{IqgmeFit, Run, foretold_labels, plan};
use crate::runs::run_all;
use crate::scales::Training;
use crate::stacking::Foretold;
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

/// What a run is of, beside the configuration; `S` is its start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Key<S> {
    pub(crate) start: S,
    pub(crate) restart: u64,
    /// Fingerprint of the data.
    pub(crate) data: u64,
}

/// What a checkpoint holds, owned or borrowed: configuration, key, trace and state.
#[derive(Serialize, Deserialize)]
struct Checkpoint<C, K, T, S> {
    config: C,
    key: K,
    trace: T,
    state: S,
}

/// The checkpoint file of one variational run.
pub(crate) struct RunFile<'a, C, K> {
    model: &'static str,
    config: &'a C,
    limits: VbLimits,
    key: K,
    path: PathBuf,
}

impl<'a, C, K> RunFile<'a, C, K>
where
    C: PartialEq + Serialize + DeserializeOwned,
    K: PartialEq + Serialize + DeserializeOwned,
{
    /// Of run `k`: `path` with `.k` appended. `model`: name in the file.
    pub(crate) fn new(
        path: &Path,
        k: usize,
        model: &'static str,
        (config, limits): (&'a C, VbLimits),
        key: K,
    ) -> Self {
        let path = appended(path, &format!(".{k}"));
        Self {
            model,
            config,
            limits,
            key,
            path,
        }
    }

    /// Makes the run, from what the file holds or from its start, with checkpoints. `begin`: the run at a saved state and its trace, or at its
    /// start; `run`: makes its iterations and shows each one; `end`: what follows the last one. A file with a whole trace is of a run that has ended: no other checkpoint is
    /// written then.
    pub(crate) fn run<V, S: Serialize + DeserializeOwned>(
        &self,
        every: Every,
        watch: impl Fn(&VbReport) -> ControlFlow<()>,
        begin: impl FnOnce(Option<(S, Vec<VbReport>)>) -> Result<V, IqgmeError>,
        run: impl FnOnce(
            &mut V,
            &mut dyn FnMut(&VbReport, &S) -> ControlFlow<()>,
        ) -> Result<VbOutcome, IqgmeError>,
        end: impl FnOnce(&mut V) -> Result<(), IqgmeError>,
        state: impl Fn(&V) -> &S,
    ) -> Result<(V, VbOutcome), IqgmeError> {
        let saved = self.saved()?;
        let mut trace = saved.as_ref().map_or(Vec::new(), |saved| saved.1.clone());
        let mut vb = begin(saved)?;
        let mut writer =
            Checkpointer::new(&self.path, self.model, env!("CARGO_PKG_VERSION"), every);
        let mut failed: Option<StorageError> = None;
        let outcome = run(&mut vb, &mut |report, state| {
            trace.push(*report);
            let whole = self.limits.reached(&trace).is_some();
            let offered = || writer.offer(report.iteration, || self.content(&trace, state));
            if let Some(error) = (!whole).then(offered).and_then(Result::err) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            watch(report)
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if self.limits.reached(&trace).is_some() {
            end(&mut vb)?;
        }
        writer.write(&self.content(&trace, state(&vb)))?;
        Ok((vb, outcome))
    }

    /// State and trace where the run was stopped, if it was.
    fn saved<S: DeserializeOwned>(&self) -> Result<Option<(S, Vec<VbReport>)>, IqgmeError> {
        let Some(saved) =
            checkpoint::resume::<Checkpoint<C, K, Vec<VbReport>, S>>(&self.path, self.model)?
        else {
            return Ok(None);
        };
        let mut numbered = saved.trace.iter().zip(1..);
        if saved.key != self.key
            || saved.config != *self.config
            || !numbered.all(|(report, number)| report.iteration == number)
        {
            return Err(of_something_else(&self.path));
        }
        Ok(Some((saved.state, saved.trace)))
    }

    fn content<'s, S>(
        &'s self,
        trace: &'s [VbReport],
        state: &'s S,
    ) -> Checkpoint<&'s C, &'s K, &'s [VbReport], &'s S> {
        Checkpoint {
            config: self.config,
            key: &self.key,
            trace,
            state,
        }
    }
}

/// The files of what is foretold of each fold's labels.
pub(crate) struct FoldFiles<'a, C> {
    path: &'a Path,
    model: &'static str,
    config: &'a C,
    /// Fingerprint of the data.
    data: u64,
}

/// What such a file holds, owned or borrowed.
#[derive(Serialize, Deserialize)]
struct SavedFold<C, F> {
    config: C,
    data: u64,
    fold: usize,
    foretold: F,
}

impl<'a, C: PartialEq + Serialize + DeserializeOwned> FoldFiles<'a, C> {
    /// `path` with `.fold` and a fold's number appended. `model`: name in the files.
    pub(crate) fn new(path: &'a Path, model: &'static str, config: &'a C, data: u64) -> Self {
        Self {
            path,
            model,
            config,
            data,
        }
    }

    /// What the file of a fold holds, or what `make` finds, which then goes there: what each of `n_runs` says of labels, in so many numbers.
    pub(crate) fn of_fold(
        &self,
        fold: usize,
        [n_runs, n_numbers]: [usize; 2],
        make: impl FnOnce() -> Result<Foretold, IqgmeError>,
    ) -> Result<Foretold, IqgmeError> {
        let path = appended(self.path, &format!(".fold{fold}"));
        if let Some(saved) = checkpoint::resume::<SavedFold<C, Foretold>>(&path, self.model)? {
            let possible =
                |run: &Vec<f64>| run.len() == n_numbers && run.iter().all(|p| p.is_finite());
            return if saved.config == *self.config
                && (saved.data, saved.fold) == (self.data, fold)
                && saved.foretold.len() == n_runs
                && saved.foretold.iter().all(possible)
            {
                Ok(saved.foretold)
            } else {
                Err(of_something_else(&path))
            };
        }
        let foretold = make()?;
        let content = SavedFold {
            config: self.config,
            data: self.data,
            fold,
            foretold: &foretold,
        };
        storage::save(&path, self.model, env!("CARGO_PKG_VERSION"), &content)?;
        Ok(foretold)
    }
}

/// Whether the watcher ended one of these runs: who stops a fit does not wait for votes.
pub(crate) fn cancelled<'a>(mut stops: impl Iterator<Item = &'a Stop>) -> bool {
    stops.any(|stop| *stop == Stop::Cancelled)
}

pub(crate) fn appended(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn of_something_else(path: &Path) -> IqgmeError {
    let path = path.display();
    IqgmeError::Saved {
        what: format!(
            "checkpoint {path} is of other data, another configuration or another run: delete it to start again"
        ),
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
