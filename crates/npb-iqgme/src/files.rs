//! The files of a fit that may be stopped, or killed, and goes on: one for each run, and one for what the runs foretell of each fold.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::storage::{self, StorageError};
use npb_infer::{Stop, VbLimits, VbOutcome, VbReport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::IqgmeError;

/// Numbers that runs, made without a label's row, say of that label: run; label, number.
pub(crate) type Foretold = Vec<Vec<f64>>;

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
