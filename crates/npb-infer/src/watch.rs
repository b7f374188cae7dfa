//! One way to watch, stop and checkpoint a fit, whatever it is made of: chains, starts, folds or a single run.
//!
//! Whoever calls a `fit_watched` hands in a [`Watch`]: a closure that hears how far the fit has come and may stop it, and a file for checkpoints. A model
//! crate splits its work into [`Part`]s (a chain, a fold), which may run in parallel, and keeps what each has reached in a [`Checkpoint`].
//!
//! ```
//! use npb_infer::{Watch, watch::Progress};
//! use std::ops::ControlFlow;
//!
//! // The caller: a progress bar, and a way to stop.
//! let mut shares = Vec::new();
//! let watch = Watch::new(|progress: &Progress<'_>| {
//!     shares.push(progress.share);
//!     ControlFlow::Continue(())
//! });
//! // The model: two chains of four sweeps; `sample` and `maximise` do this for it.
//! for chain in 0..2 {
//!     let mut part = watch.part(format!("chain {chain}"), 0.5);
//!     for sweep in 1..=4 {
//!         if part.report(sweep, sweep as f64 / 4.0, &[], &[]).is_break() { break; }
//!     }
//! }
//! drop(watch);
//! assert_eq!(shares, [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0]);
//! ```

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::checkpoint::{self, Checkpointer, Every};
use crate::storage::StorageError;

/// How far a fit has come: what its watcher is told.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The part that reports, such as `chain 2` or `fold 3`.
    pub part: &'a str,
    /// Sweeps or iterations that this part has made.
    pub step: u64,
    /// Share of the work of the whole fit that is done, from 0 to 1. It never falls, and is 1 when the last part has come to its end.
    pub share: f64,
    /// Names of the monitored scalars, such as the bound.
    pub names: &'a [String],
    /// Their values after this step.
    pub values: &'a [f64],
}

/// Hears each step; breaks to stop the fit.
type Listener<'w> = Box<dyn FnMut(&Progress<'_>) -> ControlFlow<()> + Send + 'w>;

/// Who watches a fit, and where its checkpoints go. [`Watch::none`] does neither.
///
/// A fit that was stopped returns what is there, its `stop` is [`Stop::Cancelled`](crate::Stop::Cancelled).
pub struct Watch<'w> {
    listener: Option<Mutex<Listener<'w>>>,
    checkpoint: Option<(PathBuf, Every)>,
    stopped: AtomicBool,
    /// Work done, as a share of the whole.
    done: Mutex<f64>,
    share: Option<Arc<Share>>,
}

/// Which parts of a fit are made here, where it is made in several processes.
#[derive(Debug)]
struct Share {
    own: usize,
    of: usize,
    /// Checkpoints that the others have written.
    found: Vec<PathBuf>,
    /// Some part was neither here nor found.
    is_short: AtomicBool,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("listens", &self.listener.is_some())
            .field("checkpoint", &self.checkpoint)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Self::none()
    }
}

impl<'w> Watch<'w> {
    /// Nobody watches and nothing is written.
    pub fn none() -> Self {
        Self {
            listener: None,
            checkpoint: None,
            stopped: AtomicBool::new(false),
            done: Mutex::new(0.0),
            share: None,
        }
    }

    /// `listener` hears each step of each part, one at a time, from whichever thread made it; when it breaks, the fit stops after the steps that are under
    /// way.
    pub fn new(listener: impl FnMut(&Progress<'_>) -> ControlFlow<()> + Send + 'w) -> Self {
        Self {
            listener: Some(Mutex::new(Box::new(listener))),
            ..Self::none()
        }
    }

    /// Writes checkpoints to the file at `path`, each replacing the one before it, and begins from the one that is there: a fit that is called again
    /// with the same data and configuration goes on where it was stopped or killed, and ends in the same bits. Delete the file when the fit is saved.
    pub fn with_checkpoint(self, path: impl Into<PathBuf>, every: Every) -> Self {
        Self {
            checkpoint: Some((path.into(), every)),
            ..self
        }
    }

    /// The fit is made in `of` processes, of which this is number `own` (from 0; `of` or more: one that makes nothing and only puts together): parts (chains, starts,
    /// folds) are dealt out in turn, and `found` are checkpoints that the others have written of the parts that they have made.
    ///
    /// Where a part is needed that belongs to another process and was not found, the fit ends with [`CheckpointError::Elsewhere`], and its own checkpoint (see
    /// [`with_checkpoint`](Self::with_checkpoint)) holds what was made here. Call it again everywhere with the checkpoints of all, until one finds everything: it ends in the same bits
    /// as a fit in one process. Parts that follow from others (folds from nothing, weights from folds) take a round each.
    #[must_use]
    pub fn with_share(self, own: usize, of: usize, found: Vec<PathBuf>) -> Self {
        let is_short = AtomicBool::new(false);
        let share = Share {
            own,
            of,
            found,
            is_short,
        };
        Self {
            share: Some(Arc::new(share)),
            ..self
        }
    }

    /// Whether a part was needed that belongs to another process and was not found.
    pub fn is_short(&self) -> bool {
        let short = |share: &Arc<Share>| share.is_short.load(Ordering::Relaxed);
        self.share.as_ref().is_some_and(short)
    }

    /// Whether the listener has asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A part of the fit that is `weight` of all its work; the weights of all parts sum to 1.
    pub fn part(&self, name: impl Into<String>, weight: f64) -> Part<'_, 'w> {
        Part {
            watch: self,
            name: name.into(),
            weight,
            done: 0.0,
        }
    }

    /// The checkpoint of a fit with so many parts: what the file holds, if there is one and it is of the same `key` (see
    /// [`fingerprint`](crate::storage::fingerprint)) and number of parts; nothing without a checkpoint file.
    ///
    /// `model` and `crate_version` as for [`storage::save`](crate::storage::save). What a state holds must be checked by whoever takes it.
    ///
    /// # Errors
    /// [`CheckpointError`]: the file cannot be read, is damaged, or is of another fit.
    pub fn checkpoint<S: Serialize + DeserializeOwned>(
        &self,
        model: &str,
        crate_version: &str,
        key: u64,
        n_parts: usize,
    ) -> Result<Checkpoint<S>, CheckpointError> {
        let mut content = Content {
            key,
            parts: (0..n_parts).map(|_| Vec::new()).collect(),
        };
        let mut writer = None;
        if let Some((path, every)) = &self.checkpoint {
            content.complete(of_fit(path, model, (key, n_parts))?);
            writer = Some(Checkpointer::new(path, model, crate_version, *every));
        }
        for path in self.share.iter().flat_map(|share| &share.found) {
            content.complete(of_fit(path, model, (key, n_parts))?);
        }
        Ok(Checkpoint {
            inner: Mutex::new(Inner { writer, content }),
            share: self.share.clone(),
        })
    }

    fn tell(&self, name: &str, step: u64, gained: f64, scalars: (&[String], &[f64])) {
        let Some(listener) = &self.listener else {
            return;
        };
        // The listener is taken before the share is raised, so that the shares it hears never fall.
        let mut listener = lock(listener);
        let share = {
            let mut done = lock(&self.done);
            *done += gained;
            // Weights are fractions; their sum may miss 1 by a rounding.
            if *done > 1.0 - 1e-9 { 1.0 } else { *done }
        };
        let progress = Progress {
            part: name,
            step,
            share,
            names: scalars.0,
            values: scalars.1,
        };
        if listener(&progress).is_break() {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }
}

/// One chain, start or fold of a fit that is watched.
#[derive(Debug)]
pub struct Part<'a, 'w> {
    watch: &'a Watch<'w>,
    name: String,
    weight: f64,
    /// Share of this part that was told.
    done: f64,
}

impl Part<'_, '_> {
    /// Tells the watcher that this part has made `step` steps, which are `share` of its own work (1 at its last step, early ends included), with the
    /// monitored scalars. Breaks when the fit is to stop.
    pub fn report(
        &mut self,
        step: u64,
        share: f64,
        names: &[String],
        values: &[f64],
    ) -> ControlFlow<()> {
        let share = share.clamp(self.done, 1.0);
        let gained = (share - self.done) * self.weight;
        self.done = share;
        self.watch.tell(&self.name, step, gained, (names, values));
        match self.is_stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Whether the fit is to stop.
    pub fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    /// Share of this part that was told.
    pub(crate) fn share(&self) -> f64 {
        self.done
    }
}

/// What the parts of a fit have reached, in one file. Parts may offer from several threads.
#[derive(Debug)]
pub struct Checkpoint<S> {
    inner: Mutex<Inner<S>>,
    share: Option<Arc<Share>>,
}

#[derive(Debug)]
struct Inner<S> {
    writer: Option<Checkpointer>,
    content: Content<S>,
}

/// States of the parts, none or one each: an `Option` costs a saved file more than it is worth (see [`crate::storage`]).
#[derive(Debug, Serialize, Deserialize)]
struct Content<S> {
    key: u64,
    parts: Vec<Vec<S>>,
}

impl<S> Content<S> {
    /// Takes over parts that it has nothing of.
    fn complete(&mut self, other: Option<Self>) {
        let others = other.into_iter().flat_map(|other| other.parts);
        let missing = self.parts.iter_mut().zip(others);
        for (part, other) in missing.filter(|(part, _)| part.is_empty()) {
            *part = other;
        }
    }
}

/// What a file holds, if there is one, of the fit with this key and number of parts.
fn of_fit<S: DeserializeOwned>(
    path: &Path,
    model: &str,
    (key, n_parts): (u64, usize),
) -> Result<Option<Content<S>>, CheckpointError> {
    let found = checkpoint::resume::<Content<S>>(path, model)?;
    let is_other = |found: &Content<S>| found.key != key || found.parts.len() != n_parts;
    match found.as_ref().is_some_and(is_other) {
        true => Err(CheckpointError::OtherFit { path: path.into() }),
        false => Ok(found),
    }
}

impl<S> Checkpoint<S> {
    /// No file: parts begin from these states, or from their start, and nothing is written.
    pub fn in_memory(parts: impl IntoIterator<Item = Option<S>>) -> Self {
        let parts = parts.into_iter().map(|part| part.into_iter().collect());
        let content = Content {
            key: 0,
            parts: parts.collect(),
        };
        Self {
            inner: Mutex::new(Inner {
                writer: None,
                content,
            }),
            share: None,
        }
    }

    /// Must be asked before part number `part` is worked on.
    ///
    /// # Errors
    /// [`CheckpointError::Elsewhere`]: the part belongs to another process and has not been found (see [`Watch::with_share`]).
    pub fn claim(&self, part: usize) -> Result<(), CheckpointError> {
        let Some(share) = &self.share else {
            return Ok(());
        };
        if part % share.of.max(1) == share.own || !lock(&self.inner).content.parts[part].is_empty()
        {
            return Ok(());
        }
        share.is_short.store(true, Ordering::Relaxed);
        Err(CheckpointError::Elsewhere { part })
    }

    /// The file holds what a run cannot have written.
    pub(crate) fn contradictory(&self, what: &'static str) -> CheckpointError {
        let inner = lock(&self.inner);
        let path = inner.writer.as_ref().map(|writer| writer.path().to_owned());
        CheckpointError::Content {
            path: path.unwrap_or_default(),
            what,
        }
    }
}

impl<S: Serialize + Clone> Checkpoint<S> {
    /// What part number `part` had reached when the file was written; nothing when it had not begun.
    pub fn reached(&self, part: usize) -> Option<S> {
        let inner = lock(&self.inner);
        inner.content.parts[part].first().cloned()
    }

    /// Whether a checkpoint is due after step number `step` of a part.
    pub fn is_due(&self, step: u64) -> bool {
        let writer = &mut lock(&self.inner).writer;
        writer.as_mut().is_some_and(|writer| writer.is_due(step))
    }

    /// Keeps `state()` of part number `part` and writes the file, if a checkpoint is due after its step number `step`; otherwise `state` is not called.
    ///
    /// # Errors
    /// The file could not be written; the checkpoint before it is still there.
    pub fn offer(
        &self,
        part: usize,
        step: u64,
        state: impl FnOnce() -> S,
    ) -> Result<(), CheckpointError> {
        let mut inner = lock(&self.inner);
        let Inner { writer, content } = &mut *inner;
        let Some(writer) = writer else {
            return Ok(());
        };
        if writer.is_due(step) {
            content.parts[part] = vec![state()];
            writer.write(&*content)?;
        }
        Ok(())
    }

    /// Keeps `state()` of part number `part` and writes the file, due or not: at the end of a part, or when the fit is stopped.
    ///
    /// # Errors
    /// As [`offer`](Self::offer).
    pub fn write(&self, part: usize, state: impl FnOnce() -> S) -> Result<(), CheckpointError> {
        let mut inner = lock(&self.inner);
        let Inner { writer, content } = &mut *inner;
        if let Some(writer) = writer {
            content.parts[part] = vec![state()];
            writer.write(&*content)?;
        }
        Ok(())
    }
}

/// What can go wrong with the checkpoint of a fit.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file cannot be read or written, or is damaged.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The file is a checkpoint of another fit.
    #[error(
        "{}: checkpoint of other data or another configuration; delete it to start again, or name another file",
        .path.display()
    )]
    OtherFit {
        /// The file.
        path: PathBuf,
    },
    /// A part of the fit belongs to another process, whose checkpoint was not given.
    #[error(
        "part {part} of the fit is made by another process: give the checkpoint that it writes"
    )]
    Elsewhere {
        /// Its number.
        part: usize,
    },
    /// The file is of this fit, but what it holds cannot be: it was not written by a run.
    #[error("{}: {what} in this checkpoint contradict one another; delete it to start again", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What does not fit together.
        what: &'static str,
    },
}

impl CheckpointError {
    /// The file; empty where there is none.
    pub fn path(&self) -> &Path {
        match self {
            Self::Storage(StorageError::Io { path, .. } | StorageError::Format { path, .. }) => {
                path
            }
            Self::OtherFit { path } | Self::Content { path, .. } => path,
            Self::Elsewhere { .. } => Path::new(""),
        }
    }
}

/// What a panicking listener leaves behind is whole: every lock guards one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
