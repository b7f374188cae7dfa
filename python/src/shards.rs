//! Shards of rows on workers, and a fit that asks them.

use std::sync::Arc;

use npb_iqgme::{
    Asked, IqgmeConfig, IqgmeError, PreparedShard, RowShard, SHARD_ROWS, Shards, fit_shards,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Matrix, Vector, config, labels, table};
use crate::ask::{Caller, bytes};
use crate::iqgme::Iqgme;
use crate::run::{How, ask, error};

/// Rows of a shard; the last one of a table may have fewer.
pub(crate) const ROWS: usize = SHARD_ROWS;

/// The names of questions on the way to a worker.
fn asked(kind: &str) -> PyResult<Asked> {
    Ok(match kind {
        "describe" => Asked::Describe,
        "sample" => Asked::Sample,
        "prepare" => Asked::Prepare(0),
        "begin" => Asked::Begin(0, 0),
        "step" => Asked::Step(0, 0),
        "tell" => Asked::Tell(0, 0),
        other => return Err(PyValueError::new_err(format!("no question {other:?}"))),
    })
}

/// Kind, scale and run of a question.
fn named(asked: Asked) -> (&'static str, usize, u64) {
    match asked {
        Asked::Describe => ("describe", 0, 0),
        Asked::Sample => ("sample", 0, 0),
        Asked::Prepare(scale) => ("prepare", scale, 0),
        Asked::Begin(scale, run) => ("begin", scale, run),
        Asked::Step(scale, run) => ("step", scale, run),
        Asked::Tell(scale, run) => ("tell", scale, run),
    }
}

/// Some rows of a table and their labels.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct ShardOfRows(RowShard);

#[pymethods]
impl ShardOfRows {
    /// From its bytes.
    #[new]
    fn new(data: &[u8]) -> PyResult<Self> {
        RowShard::from_bytes(data).map(Self).map_err(error)
    }

    #[staticmethod]
    fn of(
        first_row: usize,
        x: Matrix<'_>,
        codes: Vector<'_, i64>,
        classes: Vec<String>,
        names: Vec<String>,
    ) -> PyResult<Self> {
        let (table, labels) = (table(&x, &names)?, labels(&codes, classes)?);
        RowShard::new(first_row, table, labels)
            .map(Self)
            .map_err(error)
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>,)> {
        Ok((bytes(py, &self.0.to_bytes().map_err(error)?),))
    }

    fn __sizeof__(&self) -> usize {
        self.0.size()
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        question: &[u8],
        own: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let asked = asked(kind)?;
        let answer = ask(py, 1, || self.0.answer(asked, question, own))?;
        Ok(bytes(py, &answer))
    }

    /// The rows on the scale of the question, and the answer.
    fn prepare<'py>(
        &self,
        py: Python<'py>,
        question: &[u8],
    ) -> PyResult<(PreparedRows, Bound<'py, PyBytes>)> {
        let (made, answer) = ask(py, 1, || self.0.prepare(question))?;
        Ok((PreparedRows(made), bytes(py, &answer)))
    }
}

/// The same on one scale, ready to be summed over.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct PreparedRows(PreparedShard);

/// An answer, and what is kept for the run.
type Answer<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

#[pymethods]
impl PreparedRows {
    /// From its bytes.
    #[new]
    fn new(data: &[u8]) -> PyResult<Self> {
        PreparedShard::from_bytes(data).map(Self).map_err(error)
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>,)> {
        Ok((bytes(py, &self.0.to_bytes().map_err(error)?),))
    }

    fn __sizeof__(&self) -> usize {
        self.0.size()
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        kept: &[u8],
        question: &[u8],
        own: &[u8],
    ) -> PyResult<Answer<'py>> {
        let asked = asked(kind)?;
        let (answer, left) = ask(py, 1, || self.0.answer(asked, kept, question, own))?;
        let left = left.map(|left| bytes(py, &left));
        Ok((bytes(py, &answer), left))
    }
}

/// Shards that are asked by a Python function.
#[derive(Debug)]
struct Elsewhere {
    n_shards: usize,
    caller: Arc<Caller>,
}

impl Shards for Elsewhere {
    fn n_shards(&self) -> usize {
        self.n_shards
    }

    fn ask(
        &self,
        asked: Asked,
        question: &[u8],
        own: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, IqgmeError> {
        let (kind, scale, run) = named(asked);
        let arguments = |py: Python<'_>| {
            let own: Vec<Py<PyBytes>> = own.iter().map(|own| bytes(py, own).unbind()).collect();
            let question = bytes(py, question).unbind();
            (self.caller.interrupted(), kind, scale, run, question, own)
        };
        self.caller.call(arguments).map_err(IqgmeError::Shard)
    }

    fn ask_anyone(
        &self,
        question: &[u8],
        own: &[Vec<u8>],
    ) -> Result<Option<Vec<Vec<u8>>>, IqgmeError> {
        let arguments = |py: Python<'_>| {
            let own: Vec<Py<PyBytes>> = own.iter().map(|own| bytes(py, own).unbind()).collect();
            let question = bytes(py, question).unbind();
            (self.caller.interrupted(), "anyone", 0, 0, question, own)
        };
        let answers = self.caller.call(arguments);
        answers.map(Some).map_err(IqgmeError::Shard)
    }

    fn forget(&self, run: u64) {
        let none = |py: Python<'_>| {
            let question = bytes(py, &[]).unbind();
            let own: Vec<Py<PyBytes>> = Vec::new();
            (self.caller.interrupted(), "forget", 0, run, question, own)
        };
        // Nobody waits for it, and what it raised is told by the next question.
        let _ = self.caller.call(none);
    }
}

/// The answer to a question of kind "anyone".
#[pyfunction]
pub(crate) fn answer_of_sample<'py>(
    py: Python<'py>,
    question: &[u8],
    own: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let answer = ask(py, 1, || npb_iqgme::answer_of_sample(question, own))?;
    Ok(bytes(py, &answer))
}

/// A fit of rows in so many shards. `function` gets what says whether the fit is interrupted, kind, scale and run of a question, the question, and what of it is of
/// one shard alone (a list, or an empty one); it returns the answers of all shards.
#[pyfunction]
pub(crate) fn fit_in_shards(
    py: Python<'_>,
    n_shards: usize,
    function: Py<PyAny>,
    settings: &Bound<'_, PyAny>,
    how: How,
) -> PyResult<Iqgme> {
    let config: IqgmeConfig = config(settings)?;
    let caller = Arc::new(Caller::new(function));
    let shards = Arc::new(Elsewhere {
        n_shards,
        caller: Arc::clone(&caller),
    });
    let fit = how.fit_calling(py, caller.cancel(), |watch| {
        fit_shards(shards, &config, watch)
    });
    caller.outcome(fit).map(Iqgme)
}
