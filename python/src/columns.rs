//! Frames: columns with types, read by a schema as files are.

use npb_data::read::{ReadingReport, ReadingRules, Unexpected, raw_with_schema};
use npb_data::schema::{ColumnSchema, Design, Schema, SchemaData};
use npb_data::{MixedColumn, RawColumn, RawTable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Array, Vector, array, config, dict, nan_coded, vector};
use crate::run::error;

/// How errors call a table that has no file.
const NAME: &str = "X";

/// A column by name: the kind of its cells, and these.
type Columns<'py> = Vec<(String, String, Bound<'py, PyAny>)>;

/// Of a column: why it is what it is, whether somebody should hear of it, whether it only names the rows.
type Guessed = (String, bool, bool);

fn raw(columns: &Columns<'_>) -> PyResult<RawTable> {
    let names = columns.iter().map(|(name, _, _)| name.clone()).collect();
    let cells = columns
        .iter()
        .map(|(_, kind, cells)| raw_column(kind, cells));
    RawTable::new(names, cells.collect::<PyResult<_>>()?).map_err(error)
}

/// Numbers are an array with NaN; other cells go with an array that says which are known; texts are positions in a list, negative where missing.
fn raw_column(kind: &str, cells: &Bound<'_, PyAny>) -> PyResult<RawColumn> {
    fn known<T: Copy, V>(cells: &[T], known: &[bool], value: impl Fn(T) -> V) -> Vec<Option<V>> {
        let cells = cells.iter().zip(known);
        cells.map(|(&v, &known)| known.then(|| value(v))).collect()
    }
    Ok(match kind {
        "numbers" => {
            let cells: Vector<'_> = cells.extract()?;
            let cells = vector(&cells)?.iter();
            RawColumn::Numbers(cells.map(|&v| Some(v).filter(|v| !v.is_nan())).collect())
        }
        "whole" => {
            let (cells, is_known): (Vector<'_, i64>, Vector<'_, bool>) = cells.extract()?;
            RawColumn::Whole(known(vector(&cells)?, vector(&is_known)?, |v| v))
        }
        "booleans" => {
            let (cells, is_known): (Vector<'_, bool>, Vector<'_, bool>) = cells.extract()?;
            RawColumn::Booleans(known(vector(&cells)?, vector(&is_known)?, |v| v))
        }
        "times" => {
            type Times<'py> = (Vector<'py, i64>, Vector<'py, i64>, Vector<'py, bool>);
            let (seconds, nanoseconds, is_known): Times<'_> = cells.extract()?;
            let both = vector(&seconds)?.iter().copied();
            let both: Vec<(i64, i64)> = both.zip(vector(&nanoseconds)?.iter().copied()).collect();
            let time = |(seconds, nanoseconds)| RawColumn::time(seconds, nanoseconds as u32);
            RawColumn::Times(known(&both, vector(&is_known)?, time))
        }
        _ => {
            let (distinct, codes, ordered): (_, Vector<'_, i64>, _) = cells.extract()?;
            let codes = vector(&codes)?.iter();
            RawColumn::Texts {
                distinct,
                codes: codes.map(|&code| u32::try_from(code).ok()).collect(),
                ordered,
            }
        }
    })
}

/// What the columns of a table are: an `npb_data::Schema`, by which frames are read.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Reader(Schema);

#[pymethods]
impl Reader {
    /// What a table suggests, and why, column by column.
    #[staticmethod]
    fn guess(columns: Columns<'_>) -> PyResult<(Self, Vec<Guessed>)> {
        let guess = Schema::guess_raw(NAME, &raw(&columns)?);
        let why = guess.guesses.into_iter().map(|guess| {
            let names_rows = guess.why.starts_with("names or numbers of the rows");
            (guess.why, guess.notable, names_rows)
        });
        let why = why.collect();
        Ok((Self(guess.schema), why))
    }

    /// From TOML, which is the pickle, too.
    #[new]
    fn new(toml: &str) -> PyResult<Self> {
        Schema::from_toml(toml).map(Self).map_err(error)
    }

    fn __getnewargs__(&self) -> (String,) {
        (self.0.to_toml(),)
    }

    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    fn has_blocks(&self) -> bool {
        !self.0.blocks.is_empty()
    }

    /// The columns as dicts in the shape of `npb_data::ColumnSchema`.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.0.columns)
    }

    /// Names of the columns of numbers that the features become.
    fn number_names(&self) -> Vec<String> {
        Design::new(&self.0).names().concat()
    }

    /// How many of these each feature becomes.
    fn number_widths(&self) -> Vec<usize> {
        Design::new(&self.0).names().iter().map(Vec::len).collect()
    }

    /// With other columns.
    fn with_columns(&self, columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        let columns: Vec<ColumnSchema> = config(columns)?;
        let schema = Schema {
            columns,
            ..self.0.clone()
        };
        schema.validate().map_err(error)?;
        Ok(Self(schema))
    }

    /// The rows of a table, and what was not as expected, in words. What a column cannot be is missing, in the columns of `strict` an error.
    fn read(&self, columns: Columns<'_>, strict: Vec<String>) -> PyResult<(Rows, String)> {
        let table = raw(&columns)?;
        let rules = ReadingRules {
            impossible_values: Unexpected::Missing,
            ..ReadingRules::default()
        };
        let (data, report) =
            raw_with_schema(NAME, table.clone(), &self.0, &rules).map_err(in_python)?;
        self.refuse(table, &report, &strict)?;
        Ok((Rows(data), report.to_string()))
    }
}

impl Reader {
    /// The error of the first value that a column of `strict` cannot have.
    fn refuse(&self, table: RawTable, report: &ReadingReport, strict: &[String]) -> PyResult<()> {
        let unexpected = report.impossible.iter().chain(&report.unseen);
        let wrong: Vec<&String> = unexpected.map(|cell| &cell.column).collect();
        let of_both = |name: &String| strict.contains(name) && wrong.contains(&name);
        if !strict.iter().any(|name| wrong.contains(&name)) {
            return Ok(());
        }
        let mut schema = self.0.clone();
        schema.columns.retain(|column| of_both(&column.name));
        schema.blocks.clear();
        let rules = ReadingRules {
            impossible_values: Unexpected::Error,
            unseen_levels: Unexpected::Error,
            ..ReadingRules::default()
        };
        let read = raw_with_schema(NAME, table, &schema, &rules);
        read.map(|_| ()).map_err(in_python)
    }
}

/// The options of files are none here.
fn in_python(e: npb_data::read::ReadError) -> PyErr {
    let text = e.to_string();
    let plain = text.split("; let the option").next().unwrap_or(&text);
    PyValueError::new_err(plain.to_owned())
}

/// A table that was read.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Rows(pub(crate) SchemaData);

#[pymethods]
impl Rows {
    /// The columns with the levels of those that were read.
    fn reader(&self) -> Reader {
        Reader(self.0.schema.clone())
    }

    /// Names of the features.
    fn names(&self) -> Vec<String> {
        self.0.features.column_names().to_vec()
    }

    /// Of each feature the rows in which it is missing.
    fn missing(&self) -> Vec<Vec<usize>> {
        let missing = |cells: &MixedColumn| {
            let rows = 0..self.0.n_rows;
            rows.filter(|&row| !cells.is_observed(row)).collect()
        };
        self.0.features.columns().iter().map(missing).collect()
    }

    /// The features as numbers, with the names of the columns that they become.
    fn numbers<'py>(&self, py: Python<'py>) -> PyResult<(Array<'py>, Vec<String>)> {
        let design = Design::new(&self.0.schema);
        let table = design.table(&self.0.features).map_err(error)?;
        let values = array(py, &[table.n_rows(), table.n_cols()], nan_coded(&table))?;
        Ok((values, design.names().concat()))
    }
}
