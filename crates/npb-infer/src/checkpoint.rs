//! Checkpoints: a long run that is killed goes on from the last one and ends in the same bits as
//! one that was never killed.
//!
//! That holds because randomness is keyed by sweep ([`crate::stream`]): state, seed and trace are
//! all there is to save. When a checkpoint is written changes nothing in the run, so the clock may
//! be as irregular as it likes.
//!
//! The runner ([`sample`](crate::sample()), [`maximise`](crate::maximise())) does all this by way of
//! [`Watch`](crate::Watch); what it comes to is
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("npb-checkpoint-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let path = folder.join("run.npb");
//! use npb_infer::{checkpoint::{self, Checkpointer, Every}, storage::StorageError, stream};
//! use rand::RngExt;
//!
//! /// Starts, or goes on from the checkpoint when there is one; killed after sweep `last`.
//! fn run(path: &std::path::Path, last: u64) -> Result<f64, StorageError> {
//!     let (made, mut x): (u64, f64) = checkpoint::resume(path, "demo/run")?.unwrap_or_default();
//!     let mut writer = Checkpointer::new(path, "demo/run", "0.1.0", Every::sweeps(10));
//!     for sweep in made + 1..=last {
//!         x = 0.5 * x + stream(7, [0, sweep, 0, 0]).random::<f64>();
//!         writer.offer(sweep, || (sweep, x))?;
//!     }
//!     Ok(x)
//! }
//!
//! let uninterrupted = run(&folder.join("other.npb"), 100).unwrap();
//! run(&path, 37).unwrap();                                   // the last checkpoint is that after sweep 30
//! assert_eq!(run(&path, 100).unwrap(), uninterrupted);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! ```

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::storage::{self, StorageError};

/// How often to write a checkpoint: whichever of the two comes first. With neither, none is
/// written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Every {
    /// After each sweep (or iteration) whose number is a multiple of this; 0 counts as never.
    pub sweeps: Option<u64>,
    /// When this much time has passed since the last one.
    pub time: Option<Duration>,
}

impl Every {
    /// Every `n` sweeps.
    pub fn sweeps(n: u64) -> Self {
        Self {
            sweeps: Some(n),
            time: None,
        }
    }

    /// Every so often.
    pub fn time(interval: Duration) -> Self {
        Self {
            sweeps: None,
            time: Some(interval),
        }
    }
}

/// Writes checkpoints when they are due. Each replaces the one before it, atomically (see
/// [`storage::save`]).
///
/// `C` tells the time since some fixed moment and never runs backwards; tests inject their own.
#[derive(Debug)]
pub struct Checkpointer<C = fn() -> Duration> {
    path: PathBuf,
    model: String,
    crate_version: String,
    every: Every,
    clock: C,
    last: Duration,
}

impl Checkpointer {
    /// Writes to `path` with the system's monotonic clock. `model` and `crate_version` as for
    /// [`storage::save`].
    pub fn new(path: impl Into<PathBuf>, model: &str, crate_version: &str, every: Every) -> Self {
        Self::with_clock(path, model, crate_version, every, system_clock)
    }
}

impl<C: FnMut() -> Duration> Checkpointer<C> {
    /// As [`Checkpointer::new`] with another clock.
    pub fn with_clock(
        path: impl Into<PathBuf>,
        model: &str,
        crate_version: &str,
        every: Every,
        mut clock: C,
    ) -> Self {
        let last = clock();
        Self {
            path: path.into(),
            model: model.to_owned(),
            crate_version: crate_version.to_owned(),
            every,
            clock,
            last,
        }
    }

    /// Writes `content()` if a checkpoint is due after sweep number `sweep`; says whether it did.
    /// Otherwise `content` is not called.
    ///
    /// # Errors
    /// The file could not be written; the checkpoint before it is still there.
    pub fn offer<T: Serialize>(
        &mut self,
        sweep: u64,
        content: impl FnOnce() -> T,
    ) -> Result<bool, StorageError> {
        let due = self.is_due(sweep);
        if due {
            self.write(&content())?;
        }
        Ok(due)
    }

    /// Writes `content` now, due or not: at the end of a run, or when the user asks to stop.
    ///
    /// # Errors
    /// The file could not be written; the checkpoint before it is still there.
    pub fn write<T: Serialize + ?Sized>(&mut self, content: &T) -> Result<(), StorageError> {
        storage::save(&self.path, &self.model, &self.crate_version, content)?;
        self.last = (self.clock)();
        Ok(())
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether one is due after sweep number `sweep`.
    pub(crate) fn is_due(&mut self, sweep: u64) -> bool {
        let by_sweep = self
            .every
            .sweeps
            .is_some_and(|k| k > 0 && sweep.is_multiple_of(k));
        by_sweep
            || self
                .every
                .time
                .is_some_and(|t| (self.clock)().saturating_sub(self.last) >= t)
    }
}

/// The content of the checkpoint at `path`, or `None` when there is no such file.
///
/// # Errors
/// There is a file but it is damaged, foreign, of another model or cannot be read.
pub fn resume<T: DeserializeOwned>(
    path: impl AsRef<Path>,
    model: &str,
) -> Result<Option<T>, StorageError> {
    match storage::load(path, model) {
        Err(StorageError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Time since the first call in this process.
fn system_clock() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
