//! Shards of the entries of a matrix on workers, and a fit that asks them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use npb_bsvd::npb_data::Rating;
use npb_bsvd::{
    BsvdConfig, BsvdError, ByShard, Cells, Holder, RatingsInShards, Shard, SideInformation, cuts,
    fit_watched,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Vector, config, vector};
use crate::ask::{Caller, bytes};
use crate::bsvd::Bsvd;
use crate::run::{How, ask, error, saved};

/// Some rows, or columns, with all of their entries.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct ShardOfRatings(Shard);

saved!(ShardOfRatings, Shard);

/// Rows, columns and values.
type Entries<'py> = (Vector<'py, u32>, Vector<'py, u32>, Vector<'py>);

/// First, and the one after the last.
type Ends = (usize, usize);

#[pymethods]
impl ShardOfRatings {
    /// Rows (or columns) from the first to before the last, of so many columns (or rows), whose entries are those of the pieces. An entry that cannot be is an error
    /// with words, row and column.
    #[staticmethod]
    fn of(
        py: Python<'_>,
        by_rows: bool,
        ends: Ends,
        others: usize,
        pieces: Vec<Entries<'_>>,
    ) -> PyResult<Self> {
        let range = ends.0..ends.1;
        let mut entries = Vec::new();
        for (rows, columns, values) in &pieces {
            let (rows, columns, values) = (vector(rows)?, vector(columns)?, vector(values)?);
            entries.reserve_exact(values.len());
            let cells = rows.iter().zip(columns).zip(values);
            entries.extend(cells.map(|((&row, &column), &value)| Rating { row, column, value }));
        }
        let made = py.detach(|| match by_rows {
            true => Shard::rows(range, others, entries),
            false => Shard::columns(range, others, entries),
        });
        made.map(Self).map_err(|refused| match refused {
            BsvdError::Entry { row, column, .. } => {
                PyValueError::new_err((refused.to_string(), row, column))
            }
            other => error(other),
        })
    }

    fn __sizeof__(&self) -> usize {
        self.0.n_bytes()
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        question: &[u8],
        own: &[u8],
        threads: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let answer = ask(py, threads, || self.0.answer(question, own))?;
        Ok(bytes(py, &answer))
    }

    fn derive(&self, py: Python<'_>, question: &[u8], own: &[u8]) -> PyResult<Self> {
        ask(py, 1, || self.0.derive(question, own)).map(Self)
    }
}

/// Where rows (or columns) with so many entries are cut into shards.
#[pyfunction]
pub(crate) fn cuts_of_ratings(counts: Vector<'_, u32>, of: usize) -> PyResult<Vec<Ends>> {
    let cuts = cuts(vector(&counts)?, of);
    Ok(cuts
        .into_iter()
        .map(|range| (range.start, range.end))
        .collect())
}

/// Shards that are asked by a Python function.
#[derive(Debug)]
struct Elsewhere {
    caller: Arc<Caller>,
    sets: AtomicUsize,
}

impl Elsewhere {
    fn call(
        &self,
        kind: &str,
        set: usize,
        question: Vec<u8>,
        own: ByShard,
    ) -> Result<Vec<Vec<u8>>, BsvdError> {
        // Each is let go of as soon as Python has it.
        let arguments = |py: Python<'_>| {
            let given = |of: Vec<u8>| bytes(py, &of).unbind();
            let own = own.into_iter().map(|(shard, own)| (shard, given(own)));
            let own: Vec<(usize, Py<PyBytes>)> = own.collect();
            (self.caller.interrupted(), kind, set, given(question), own)
        };
        self.caller
            .call(arguments)
            .map_err(|what| BsvdError::Shard { what })
    }
}

impl Holder for Elsewhere {
    fn ask(&self, set: usize, common: Vec<u8>, own: ByShard) -> Result<Vec<Vec<u8>>, BsvdError> {
        self.call("ask", set, common, own)
    }

    fn derive(&self, common: &[u8], own: ByShard) -> Result<usize, BsvdError> {
        let set = self.sets.fetch_add(1, Ordering::Relaxed) + 1;
        self.call("derive", set, common.to_vec(), own)?;
        Ok(set)
    }

    fn release(&self, set: usize) {
        // What it raised is told by the next question.
        let _ = self.call("release", set, Vec::new(), Vec::new());
    }
}

/// A fit of entries in shards of these rows and of these columns. `function` gets what says whether the fit is interrupted; "ask", "derive" or "release"; the
/// number of a set of shards (0: those that are there at first); what all shards are asked; and what each is told, with its number. It returns answers in that
/// order, of "derive" and "release" none.
#[pyfunction]
pub(crate) fn fit_ratings_in_shards(
    py: Python<'_>,
    rows: Vec<Ends>,
    columns: Vec<Ends>,
    names: (Vec<String>, Vec<String>),
    function: Py<PyAny>,
    settings: &Bound<'_, PyAny>,
    how: How,
) -> PyResult<Bsvd> {
    let config: BsvdConfig = config(settings)?;
    let caller = Arc::new(Caller::new(function));
    let holder = Arc::new(Elsewhere {
        caller: Arc::clone(&caller),
        sets: AtomicUsize::new(0),
    });
    let ranges = |ends: &[Ends]| -> Vec<Range<usize>> {
        ends.iter().map(|&(first, end)| first..end).collect()
    };
    let (rows, columns) = (ranges(&rows), ranges(&columns));
    let fit = how.fit_calling(py, caller.cancel(), |watch| {
        let entries = RatingsInShards::new(holder, rows, columns)?;
        let none = (SideInformation::default(), Cells::default());
        fit_watched(&entries, none.0, &none.1, &config, watch)?.with_names(&names.0, &names.1)
    });
    caller.outcome(fit).map(Bsvd)
}
