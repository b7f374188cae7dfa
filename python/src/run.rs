//! How a fit is run: on a thread of its own, with the interpreter free, watched and stopped from Python; and how errors of the crates are raised.

use std::error::Error;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use npb_infer::checkpoint::Every;
use npb_infer::watch::Progress;
use npb_infer::{Saved, Watch};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};

/// How often Python is asked whether somebody pressed Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

/// What a fit is told beside its data and configuration: a dict with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct How {
    /// Threads; 0 for one on each core.
    threads: usize,
    /// Called with part, step, share of the work done; on the caller's thread.
    progress: Option<Py<PyAny>>,
    checkpoint: Option<PathBuf>,
    /// Seconds between checkpoints; infinity for none before the end of a part.
    every: f64,
    /// Number of this process and of all, and the checkpoints of the others, where the parts of the fit are shared out.
    share: Option<(usize, usize, Vec<PathBuf>)>,
}

create_exception!(
    npb._native,
    Elsewhere,
    PyException,
    "Parts of the fit are made by other processes; the checkpoint holds those that were made by this one."
);

/// What the thread of the fit and that of the caller tell each other.
#[derive(Default)]
struct Shared {
    cancel: Arc<AtomicBool>,
    /// Parts of the fit are made elsewhere.
    is_short: AtomicBool,
    heard: Mutex<Option<(String, u64, f64)>>,
    ended: Mutex<bool>,
    end: Condvar,
}

impl Shared {
    fn hear(&self, progress: &Progress<'_>) -> ControlFlow<()> {
        *lock(&self.heard) = Some((progress.part.to_owned(), progress.step, progress.share));
        match self.cancel.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Waits a little; whether the fit has ended.
    fn has_ended(&self) -> bool {
        let ended = lock(&self.ended);
        let waited = self.end.wait_timeout_while(ended, POLL, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Says that the fit has ended, however it does.
struct AtEnd<'a>(&'a Shared);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        *lock(&self.0.ended) = true;
        self.0.end.notify_all();
    }
}

impl How {
    /// A fit: `work` on a thread of its own, until it ends or is interrupted; then the signal's exception (`KeyboardInterrupt`), or that of the progress
    /// function, is raised, and the checkpoint stays. A fit that ends by itself removes its checkpoint, unless others are to have it.
    pub(crate) fn fit<T: Send, E: Error + Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Watch<'_>) -> Result<T, E> + Send,
    ) -> PyResult<T> {
        self.fit_calling(py, Arc::default(), work)
    }

    /// As [`fit`](Self::fit), of work that calls Python and hears by `cancel` that it is interrupted.
    pub(crate) fn fit_calling<T: Send, E: Error + Send + 'static>(
        &self,
        py: Python<'_>,
        cancel: Arc<AtomicBool>,
        work: impl FnOnce(&Watch<'_>) -> Result<T, E> + Send,
    ) -> PyResult<T> {
        if !(self.every >= 0.0 && (self.every < 1e9 || self.every == f64::INFINITY)) {
            let message = format!("checkpoint_every={}: must be seconds", self.every);
            return Err(PyValueError::new_err(message));
        }
        let shared = Shared {
            cancel,
            ..Shared::default()
        };
        let (checkpoint, every) = (
            self.checkpoint.clone(),
            Every {
                time: Duration::try_from_secs_f64(self.every).ok(),
                sweeps: None,
            },
        );
        let in_thread = || {
            let _end = AtEnd(&shared);
            let watch = Watch::new(|progress: &Progress<'_>| shared.hear(progress));
            let watch = match checkpoint {
                Some(path) => watch.with_checkpoint(path, every),
                None => watch,
            };
            let watch = match self.share.clone() {
                Some((own, of, found)) => watch.with_share(own, of, found),
                None => watch,
            };
            let fit = on_threads(self.threads, || work(&watch));
            shared.is_short.store(watch.is_short(), Ordering::Relaxed);
            fit
        };
        let (outcome, raised) = thread::scope(|scope| {
            let fit = thread::Builder::new()
                .name("npb-fit".to_owned())
                .spawn_scoped(scope, in_thread)?;
            let mut raised = None;
            while !py.detach(|| shared.has_ended()) {
                if raised.is_none()
                    && let Err(error) = py.check_signals().and_then(|()| self.tell(py, &shared))
                {
                    shared.cancel.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            Ok::<_, io::Error>((py.detach(|| fit.join()), raised))
        })?;
        if let Some(error) = raised {
            return Err(error);
        }
        let fit = outcome.map_err(panicked)?.map_err(no_threads)?;
        let fit = fit.map_err(|e| match shared.is_short.load(Ordering::Relaxed) {
            true => Elsewhere::new_err(e.to_string()),
            false => error(e),
        })?;
        self.tell(py, &shared)?;
        if let (Some(path), None) = (&self.checkpoint, &self.share) {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
        }
        Ok(fit)
    }

    /// Tells the progress function what was heard since it was last told.
    fn tell(&self, py: Python<'_>, shared: &Shared) -> PyResult<()> {
        let heard = lock(&shared.heard).take();
        if let (Some(progress), Some(heard)) = (&self.progress, heard) {
            progress.call1(py, heard)?;
        }
        Ok(())
    }
}

/// A question to a fit, with the interpreter free.
pub(crate) fn ask<T: Send, E: Error + Send + 'static>(
    py: Python<'_>,
    threads: usize,
    question: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    free(py, threads, question)?.map_err(error)
}

/// Work on these threads, with the interpreter free.
pub(crate) fn free<T: Send>(
    py: Python<'_>,
    threads: usize,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(|| on_threads(threads, work)).map_err(no_threads)
}

/// `work` on threads of its own, which have ended when it returns: none is left behind, and a process that forks afterwards misses none.
fn on_threads<T: Send>(
    threads: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, ThreadPoolBuildError> {
    let pool = ThreadPoolBuilder::new().num_threads(threads);
    pool.build_scoped(|thread| thread.run(), |pool| pool.install(work))
}

fn no_threads(error: ThreadPoolBuildError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// `OSError` for files, else `ValueError`: the crates' errors say what is wrong with data, settings or files, and where.
pub(crate) fn error(error: impl Error + 'static) -> PyErr {
    let message = error.to_string();
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(e) = cause {
        if e.is::<io::Error>() {
            return PyOSError::new_err(message);
        }
        cause = e.source();
    }
    PyValueError::new_err(message)
}

/// The crates are written not to panic; if one does all the same, Python goes on.
fn panicked(payload: Box<dyn std::any::Any + Send>) -> PyErr {
    let message = match (
        payload.downcast_ref::<String>(),
        payload.downcast_ref::<&str>(),
    ) {
        (Some(message), _) => message.clone(),
        (_, Some(message)) => (*message).to_owned(),
        _ => String::new(),
    };
    PyRuntimeError::new_err(format!("internal error: {message}; please report it"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of a fit, as in its file.
pub(crate) fn bytes_of<F: Saved<Error: Error + 'static>>(fit: &F) -> PyResult<Vec<u8>> {
    fit.to_bytes().map_err(error)
}

/// Pickling, files, and the configuration as a dict: the same for every fit.
macro_rules! saved {
    ($class:ident, $fit:ty) => {
        #[pymethods]
        impl $class {
            /// The fit in bytes that `to_bytes`, a file or another process has.
            #[new]
            fn new(bytes: &[u8]) -> PyResult<Self> {
                let fit = <$fit as npb_infer::Saved>::from_bytes(bytes);
                fit.map(Self).map_err($crate::run::error)
            }

            fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
                let bytes = $crate::run::bytes_of(&self.0)?;
                Ok(pyo3::types::PyBytes::new(py, &bytes))
            }

            fn __getnewargs__<'py>(
                &self,
                py: Python<'py>,
            ) -> PyResult<(Bound<'py, pyo3::types::PyBytes>,)> {
                Ok((self.to_bytes(py)?,))
            }

            /// Writes the file that `load`, and the Rust crate, read.
            fn save(&self, path: std::path::PathBuf) -> PyResult<()> {
                npb_infer::Saved::save(&self.0, path).map_err($crate::run::error)
            }

            #[staticmethod]
            fn load(path: std::path::PathBuf) -> PyResult<Self> {
                let fit = <$fit as npb_infer::Saved>::load(path);
                fit.map(Self).map_err($crate::run::error)
            }
        }
    };
}
pub(crate) use saved;
