//! NumPy arrays and dicts to and from the crates' types.

use npb_data::{Features, Labels, Rating, Ratings, Table};
use npb_infer::diagnostics::ChainDiagnostics;
use npb_infer::{SweepPlan, Trace};
use numpy::ndarray::{ArrayD, Dimension, Ix1, Ix2};
use numpy::{
    Element, IntoPyArray, PyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::{Depythonizer, pythonize};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::run::error;

pub(crate) type Vector<'py, T = f64> = Given<'py, T, Ix1>;
pub(crate) type Matrix<'py, T = f64> = Given<'py, T, Ix2>;
/// An array that is handed in, or a copy of it if its numbers do not begin where numbers do in memory: those that came in a message may not.
pub(crate) struct Given<'py, T: Element, D: Dimension>(PyReadonlyArray<'py, T, D>);

impl<'a, 'py, T: Element + 'a, D: Dimension + 'a> FromPyObject<'a, 'py> for Given<'py, T, D> {
    type Error = PyErr;

    fn extract(x: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let mut array: Bound<'py, PyArray<T, D>> = x.extract()?;
        if !array.is_aligned() {
            array = array.call_method1("copy", ("C",))?.extract()?;
        }
        Ok(Self(array.try_readonly()?))
    }
}

/// An array that is handed out.
pub(crate) type Array<'py, T = f64> = Bound<'py, PyArrayDyn<T>>;

/// Rows, columns and row-major values, borrowed.
pub(crate) fn matrix<'a, T: Element>(x: &'a Matrix<'_, T>) -> PyResult<(usize, usize, &'a [T])> {
    let view = x.0.as_array();
    let (n, p) = view.dim();
    let values = view.to_slice();
    let values = values.ok_or_else(|| PyTypeError::new_err("the array must be C-contiguous"))?;
    Ok((n, p, values))
}

pub(crate) fn vector<'a, T: Element>(x: &'a Vector<'_, T>) -> PyResult<&'a [T]> {
    let values = x.0.as_array().to_slice();
    values.ok_or_else(|| PyTypeError::new_err("the array must be contiguous"))
}

/// The table of an array in which NaN is missing: the one copy that is made, because tables own their values.
pub(crate) fn table(x: &Matrix<'_>, names: &[String]) -> PyResult<Table> {
    let (n, p, values) = matrix(x)?;
    let table = Table::from_nan_coded(n, p, values).map_err(error)?;
    match names.is_empty() {
        true => Ok(table),
        false => table.with_column_names(names).map_err(error),
    }
}

/// Classes of rows from codes, of which negative ones are no class.
pub(crate) fn labels(codes: &Vector<'_, i64>, classes: Vec<String>) -> PyResult<Labels> {
    let codes = vector(codes)?
        .iter()
        .map(|&code| usize::try_from(code).ok());
    Labels::from_codes(classes, codes.collect()).map_err(error)
}

/// An array with NaN where the table has none.
pub(crate) fn of_table<'py>(py: Python<'py>, table: &Table) -> PyResult<Array<'py>> {
    array(py, &[table.n_rows(), table.n_cols()], nan_coded(table))
}

pub(crate) fn nan_coded(table: &Table) -> Vec<f64> {
    let mut values = table.values().to_vec();
    if table.n_missing() > 0 {
        let p = table.n_cols();
        for (k, value) in values.iter_mut().enumerate() {
            if !table.is_observed(k / p, k % p) {
                *value = f64::NAN;
            }
        }
    }
    values
}

/// Takes the values over without a copy.
pub(crate) fn array<'py, T: Element>(
    py: Python<'py>,
    shape: &[usize],
    values: Vec<T>,
) -> PyResult<Array<'py, T>> {
    let array = ArrayD::from_shape_vec(shape, values);
    let array = array.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    Ok(array.into_pyarray(py))
}

/// Observed entries from arrays of rows, columns and values.
pub(crate) fn ratings(
    shape: (usize, usize),
    rows: &Vector<'_, u32>,
    columns: &Vector<'_, u32>,
    values: &Vector<'_>,
) -> PyResult<Ratings> {
    let (rows, columns, values) = (vector(rows)?, vector(columns)?, vector(values)?);
    if rows.len() != columns.len() || rows.len() != values.len() {
        return Err(PyValueError::new_err(format!(
            "{} rows, {} columns, {} values: there must be one of each for every entry",
            rows.len(),
            columns.len(),
            values.len()
        )));
    }
    let cells = rows.iter().zip(columns).zip(values);
    let entry = |((&row, &column), &value)| Rating { row, column, value };
    let entries: Vec<Rating> = cells.map(entry).collect();
    Ratings::new(shape.0, shape.1, &entries).map_err(error)
}

/// A configuration from a dict: what is not in it is the default. The error names the field.
pub(crate) fn config<C: DeserializeOwned>(settings: &Bound<'_, PyAny>) -> PyResult<C> {
    let mut source = Depythonizer::from_object(settings);
    serde_path_to_error::deserialize(&mut source).map_err(|e| {
        let reason = in_words_of_python(&e.inner().to_string());
        let message = match e.path().to_string().as_str() {
            "." => reason,
            path => format!("{path}: {reason}"),
        };
        PyValueError::new_err(message)
    })
}

/// What is said of a value of the wrong type speaks of Rust's types and Python's abstract ones.
fn in_words_of_python(reason: &str) -> String {
    let known = [
        ("instance of 'Mapping'", "must be a dict"),
        ("instance of 'Sequence'", "must be a list"),
        ("negative int to unsigned", "must not be negative"),
        (
            "unit variant, expected",
            "has settings of its own: give a dict of its name and these, {name: {...}}",
        ),
    ];
    let words = known.iter().find(|(rust, _)| reason.contains(rust));
    words.map_or_else(|| reason.to_owned(), |(_, python)| (*python).to_owned())
}

pub(crate) fn dict<'py, C: Serialize>(py: Python<'py>, value: &C) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize(py, value)?)
}

/// Diagnostics of chains, by scalar: a dict of dicts.
pub(crate) fn diagnostics<'py>(
    py: Python<'py>,
    found: &[(String, ChainDiagnostics)],
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, d) in found {
        let one = PyDict::new(py);
        one.set_item("mean", d.mean)?;
        one.set_item("sd", d.sd)?;
        one.set_item("mcse_mean", d.mcse_mean)?;
        one.set_item("rhat", d.rhat)?;
        one.set_item("ess_bulk", d.ess_bulk)?;
        one.set_item("ess_tail", d.ess_tail)?;
        all.set_item(name, one)?;
    }
    Ok(all)
}

/// Kept draws of the monitored scalars, by name: chain, draw.
pub(crate) fn scalars<'py>(
    py: Python<'py>,
    traces: &[&Trace],
    plan: &SweepPlan,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let names = traces.first().map_or(&[][..], |trace| trace.names());
    for (k, name) in names.iter().enumerate() {
        let kept: Vec<Vec<f64>> = traces.iter().map(|trace| trace.kept(plan, k)).collect();
        let shape = [kept.len(), kept[0].len()];
        all.set_item(name, array(py, &shape, kept.concat())?)?;
    }
    Ok(all)
}

/// Features of rows or items: complete ones.
pub(crate) fn features(x: Option<&Matrix<'_>>) -> PyResult<Option<Features>> {
    let Some(x) = x else { return Ok(None) };
    let (n, q, values) = matrix(x)?;
    Features::dense(n, q, values).map(Some).map_err(error)
}
