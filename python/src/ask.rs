//! Questions that a fit asks of Python while it is under way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Whether the fit that asks has been interrupted: called without arguments.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Interrupted(Arc<AtomicBool>);

#[pymethods]
impl Interrupted {
    fn __call__(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A Python function that the threads of a fit call; what it raises first is kept.
#[derive(Debug)]
pub(crate) struct Caller {
    function: Py<PyAny>,
    cancel: Arc<AtomicBool>,
    raised: Mutex<Option<PyErr>>,
}

impl Caller {
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Self {
            function,
            cancel: Arc::default(),
            raised: Mutex::default(),
        }
    }

    /// Set when the fit is interrupted.
    pub(crate) fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// What says so to the function.
    pub(crate) fn interrupted(&self) -> Interrupted {
        Interrupted(self.cancel())
    }

    /// The function's answer, a list of bytes; what it raised, in words.
    pub(crate) fn call<A>(
        &self,
        arguments: impl FnOnce(Python<'_>) -> A,
    ) -> Result<Vec<Vec<u8>>, String>
    where
        A: for<'py> PyCallArgs<'py>,
    {
        Python::attach(|py| {
            let answer = self.function.call1(py, arguments(py));
            let answer = answer.and_then(|answer| answer.extract::<Vec<Vec<u8>>>(py));
            answer.map_err(|raised| {
                let words = raised.to_string();
                let mut first = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(raised);
                words
            })
        })
    }

    /// The outcome of the fit, or what the function raised; of one that was interrupted, its interruption.
    pub(crate) fn outcome<T>(&self, outcome: PyResult<T>) -> PyResult<T> {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        match (outcome, raised.take()) {
            (Err(_), Some(raised)) if !self.cancel.load(Ordering::Relaxed) => Err(raised),
            (outcome, _) => outcome,
        }
    }
}

/// Bytes for Python.
pub(crate) fn bytes<'py>(py: Python<'py>, of: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, of)
}
