//! Pages about fits, made as the command makes them.

use npb_data::schema::{Role, Schema};
use npb_data::{Labels, MixedColumn, MixedTable};
use npb_infer::Saved;
use npb_pages::{Context, Rows};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Matrix, table};
use crate::columns;
use crate::run::free;

/// What a page is told beside the fit: a dict with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Told<'py> {
    /// What the model is called on the page.
    name: String,
    n_rows: Option<usize>,
    /// What the columns are, as TOML.
    schema: Option<String>,
    /// Rows to try the model on: a frame that was read, or numbers.
    rows: Option<Bound<'py, columns::Rows>>,
    x: Option<Matrix<'py>>,
    /// Names of the columns of numbers.
    names: Vec<String>,
    labels: Option<Vec<Option<String>>>,
    /// Task or group of each row.
    parts: Option<Vec<Option<String>>>,
    seed: u64,
    threads: usize,
}

/// What rows are called that have no file.
const FILE: &str = "X";

impl Told<'_> {
    fn rows(&self) -> PyResult<Option<Rows>> {
        let (features, fields) = match (&self.rows, &self.x) {
            (Some(rows), _) => {
                let data = &rows.get().0;
                (data.features.clone(), data.fields.clone())
            }
            (None, Some(x)) => (numbers(x, &self.names)?, Vec::new()),
            (None, None) => return Ok(None),
        };
        let n_rows = features.n_rows();
        Ok(Some(Rows {
            file: FILE.to_owned(),
            features,
            fields,
            labels: self
                .labels
                .as_ref()
                .map(|labels| Labels::from_strings(labels)),
            names: Some((0..n_rows).map(|row| Some(row.to_string())).collect()),
            parts: self.parts.clone(),
            may_be_of_fit: self.n_rows.is_none_or(|n| n == n_rows),
            ..Rows::default()
        }))
    }
}

/// An array as a table of real numbers.
fn numbers(x: &Matrix<'_>, names: &[String]) -> PyResult<MixedTable> {
    let table = table(x, names)?;
    let column = |j: usize| (0..table.n_rows()).map(|i| table.get(i, j)).collect();
    let columns = (0..table.n_cols()).map(|j| MixedColumn::Real(column(j)));
    let names = table.column_names().to_vec();
    MixedTable::new(names, columns.collect()).map_err(crate::run::error)
}

/// The page about a fit of a kind, in bytes as `to_bytes` gives them.
#[pyfunction]
pub(crate) fn report(py: Python<'_>, kind: &str, fit: &[u8], told: Told<'_>) -> PyResult<String> {
    let rows = told.rows()?;
    let schema = told.schema.as_deref().map(Schema::from_toml);
    let schema = schema.transpose().map_err(crate::run::error)?;
    // Without features the schema says nothing of the columns.
    let schema = schema.filter(|schema| schema.with_role(Role::Feature).next().is_some());
    let context = Context {
        kind,
        name: told.name.clone(),
        n_rows: told.n_rows,
        schema: schema.as_ref(),
        seed: told.seed,
        ..Context::default()
    };
    free(py, told.threads, || {
        page(kind, fit, &context, rows.as_ref()).map(|page| page.html())
    })?
    .map_err(PyValueError::new_err)
}

fn page(
    kind: &str,
    fit: &[u8],
    context: &Context<'_>,
    rows: Option<&Rows>,
) -> Result<npb_pages::Page, String> {
    fn read<F: Saved<Error: std::fmt::Display>>(fit: &[u8]) -> Result<F, String> {
        F::from_bytes(fit).map_err(|e| e.to_string())
    }
    let page = match kind {
        "classifier" => npb_pages::classifier::page(&read(fit)?, context, rows),
        "mixture" => npb_pages::mixture::page(&read(fit)?, context, rows),
        "tasks" => npb_pages::tasks::page(&read(fit)?, context, rows),
        "table" => npb_pages::table::page(&read(fit)?, context, rows),
        "grouped" => npb_pages::grouped::page(&read(fit)?, context, rows),
        "labels" => npb_pages::labels::page(&read(fit)?, context, rows),
        "ratings" => npb_pages::ratings::page(&read(fit)?, context, None),
        "groups" => npb_pages::groups::page(&read(fit)?, context, &[], None),
        "topics" => {
            let names = npb_pages::topics::Names {
                words: &[],
                classes: &[],
            };
            npb_pages::topics::page(&read(fit)?, context, names, None)
        }
        kind => return Err(format!("there is no page of models of kind {kind:?}")),
    };
    page.map_err(|e| e.to_string())
}
