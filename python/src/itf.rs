//! npb-itf: tables of columns of mixed kinds.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::Trace;
use npb_itf::{
    CellSummary, ClusterSummary, ClusteringLoss, ColumnDependence, ColumnSummary, DependenceConfig,
    ImputedCell, ItfConfig, ItfData, ItfError, ItfFit, PairDependence, Verdict, fit_data_watched,
    summarise_clusters,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::arrays::{Array, array, config, diagnostics, dict, scalars};
use crate::columns::Rows;
use crate::run::{How, ask, error, saved};

/// Row, column, and of the parts expected values, lower and upper ends, epistemic shares.
type Cells = Vec<(usize, usize, Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>)>;

/// Of a cluster, column by column: name, divergence, mean and standard deviation of numbers, shares of levels.
type Summary = Vec<(String, f64, Option<(f64, f64)>, Option<Vec<f64>>)>;

/// Row, column and surprisal of each cell, and what is usual of each column.
type Surprisals = (Vec<(usize, usize, f64)>, Vec<f64>);

fn told(cells: Vec<ImputedCell>) -> Cells {
    let cells = cells.into_iter();
    let told = cells.map(|c| (c.row, c.column, c.expected, c.lower, c.upper, c.epistemic));
    told.collect()
}

/// A completed table as Python has it.
#[derive(Serialize)]
struct Completed<'t> {
    column_names: &'t [String],
    columns: Vec<Column<'t>>,
}

/// The shape of `npb_data::MixedColumn`.
#[derive(Serialize)]
enum Column<'t> {
    Real(&'t [Option<f64>]),
    Count(&'t [Option<u64>]),
    Categorical {
        levels: &'t [String],
        codes: &'t [Option<u32>],
    },
    Binary {
        levels: &'t [String],
        values: &'t [Option<bool>],
    },
}

impl<'t> Completed<'t> {
    fn of(table: &'t MixedTable) -> Self {
        let column = |column: &'t MixedColumn| match column {
            MixedColumn::Real(values) => Column::Real(values),
            MixedColumn::Count(values) => Column::Count(values),
            MixedColumn::Categorical { levels, codes } => Column::Categorical { levels, codes },
            MixedColumn::Binary { levels, values } => Column::Binary { levels, values },
        };
        Self {
            column_names: table.column_names(),
            columns: table.columns().iter().map(column).collect(),
        }
    }
}

/// A fit of `npb_itf::fit`. Completed tables are dicts in the shape of `Completed`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Itf(ItfFit);

saved!(Itf, ItfFit);

#[pymethods]
impl Itf {
    #[staticmethod]
    fn fit(py: Python<'_>, rows: &Rows, settings: &Bound<'_, PyAny>, how: How) -> PyResult<Self> {
        let config: ItfConfig = config(settings)?;
        let data = ItfData::from_fields(&rows.0.features, &rows.0.fields).map_err(error)?;
        how.fit(py, |watch| fit_data_watched(&data, &config, watch))
            .map(Self)
    }

    /// The fit of these rows, the first of which are its own.
    fn further(
        &self,
        py: Python<'_>,
        rows: &Rows,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: ItfConfig = config(settings)?;
        let (table, fields) = (&rows.0.features, &rows.0.fields);
        how.fit(py, |watch| {
            self.0.continue_with(table, fields, &config, watch)
        })
        .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &ItfConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, self.0.config())
    }

    fn n_rows(&self) -> usize {
        self.0.n_rows()
    }

    fn column_names(&self) -> Vec<String> {
        let columns = self.0.columns().iter();
        columns.map(|column| column.name.clone()).collect()
    }

    /// One fit of several with other seeds.
    #[staticmethod]
    fn pooled(py: Python<'_>, fits: Vec<Py<Self>>) -> PyResult<Self> {
        let fits = fits.iter().map(|fit| fit.get().0.clone()).collect();
        py.detach(|| ItfFit::pooled(fits)).map(Self).map_err(error)
    }

    fn diagnostics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        diagnostics(py, &self.0.diagnostics())
    }

    /// What has not settled, in words.
    fn unmet(&self) -> Vec<String> {
        self.0.unmet()
    }

    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let traces: Vec<&Trace> = self.0.chains().iter().map(|chain| &chain.trace).collect();
        scalars(py, &traces, &self.0.config().sweeps)
    }

    /// Completed table, and the cells that were missing.
    fn impute<'py>(
        &self,
        py: Python<'py>,
        rows: &Rows,
        level: f64,
        training: bool,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Cells)> {
        let found = ask(py, threads, || {
            self.0
                .impute_fields(&rows.0.features, &rows.0.fields, level, training)
        })?;
        let completed = dict(py, &Completed::of(&found.completed))?;
        Ok((completed, told(found.cells)))
    }

    /// The cells of some columns of new rows, given the others.
    fn predict_columns(
        &self,
        py: Python<'_>,
        rows: &Rows,
        columns: Vec<String>,
        level: f64,
        threads: usize,
    ) -> PyResult<Cells> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let (table, fields) = (&rows.0.features, &rows.0.fields);
        let found = ask(py, threads, || {
            self.0.predict_columns(table, fields, &columns, level)
        })?;
        Ok(told(found))
    }

    /// Rows that have what one row has, all else drawn.
    fn simulate<'py>(
        &self,
        py: Python<'py>,
        rows: &Rows,
        n: usize,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (table, fields) = (&rows.0.features, &rows.0.fields);
        let found = ask(py, threads, || self.0.simulate(table, fields, 0..n))?;
        dict(py, &Completed::of(&found))
    }

    /// Row, column and surprisal of every known cell, and what is usual of each column.
    fn surprisals(
        &self,
        py: Python<'_>,
        rows: &Rows,
        training: bool,
        threads: usize,
    ) -> PyResult<Surprisals> {
        let (found, usual) = ask(py, threads, || {
            let rows = self
                .0
                .field_rows(&rows.0.features, &rows.0.fields, training)?;
            let usual = self.0.usual_surprisals(&rows)?;
            Ok::<_, ItfError>((self.0.surprisals(&rows)?, usual))
        })?;
        let cells = found.into_iter().map(|c| (c.row, c.column, c.surprisal));
        Ok((cells.collect(), usual))
    }

    /// Completed tables, each a joint draw.
    fn impute_draws<'py>(
        &self,
        py: Python<'py>,
        rows: &Rows,
        n: usize,
        training: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = ask(py, threads, || {
            self.0
                .impute_field_draws(&rows.0.features, &rows.0.fields, n, training)
        })?;
        let found: Vec<Completed<'_>> = found.iter().map(Completed::of).collect();
        dict(py, &found)
    }

    fn ln_density<'py>(
        &self,
        py: Python<'py>,
        rows: &Rows,
        training: bool,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let found = ask(py, threads, || {
            let rows = self
                .0
                .field_rows(&rows.0.features, &rows.0.fields, training)?;
            self.0.ln_density(&rows)
        })?;
        array(py, &[found.len()], found)
    }

    /// Which column of the model each column is in.
    fn places(&self) -> Vec<usize> {
        self.0.places().iter().map(|place| place.column).collect()
    }

    /// How alike each row of the fit is to one of them.
    fn similar_rows(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        row: usize,
        threads: usize,
    ) -> PyResult<Vec<f64>> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        ask(py, threads, || self.0.similar_rows(&columns, row))
    }

    /// Labels and support of the rows of the fit by a column, and what each cluster is.
    fn clusters(
        &self,
        py: Python<'_>,
        rows: &Rows,
        column: &str,
        threads: usize,
    ) -> PyResult<(Vec<u32>, Vec<f64>, Vec<Summary>)> {
        let (table, fields) = (&rows.0.features, &rows.0.fields);
        let (point, clusters) = ask(py, threads, || {
            self.0.field_rows(table, fields, true)?;
            let loss = ClusteringLoss::VariationOfInformation;
            let point = self.0.point_clustering(column, loss)?;
            let clusters = summarise_clusters(table, &point.labels)?;
            Ok::<_, ItfError>((point, clusters))
        })?;
        let column = |column: ColumnSummary| {
            let (numbers, shares) = match column.cells {
                CellSummary::Nothing => (None, None),
                CellSummary::Numbers { mean, sd, .. } => (Some((mean, sd)), None),
                CellSummary::Levels { shares } => (None, Some(shares)),
            };
            (column.column, column.divergence, numbers, shares)
        };
        let cluster = |cluster: ClusterSummary| cluster.columns.into_iter().map(column).collect();
        let clusters = clusters.into_iter().map(cluster).collect();
        Ok((point.labels, point.support, clusters))
    }

    #[staticmethod]
    fn dependence_defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &DependenceConfig::default())
    }

    /// Pairs of columns, with their mutual information.
    fn dependence<'py>(
        &self,
        py: Python<'py>,
        rows: &Rows,
        settings: &Bound<'py, PyAny>,
        training: bool,
        threads: usize,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let config: DependenceConfig = config(settings)?;
        let found = ask(py, threads, || {
            let rows = self
                .0
                .field_rows(&rows.0.features, &rows.0.fields, training)?;
            self.0.dependence(&rows, &config)
        })?;
        let pairs = found.pairs().iter();
        pairs.map(|one| pair(py, &found, one)).collect()
    }
}

fn pair<'py>(
    py: Python<'py>,
    found: &ColumnDependence,
    one: &PairDependence,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("a", &found.names()[one.a])?;
    dict.set_item("b", &found.names()[one.b])?;
    dict.set_item("rows", one.n_rows)?;
    // Draws without information do not say how strong a dependence is that they do not have.
    let known = |x: f64| match one.verdict {
        Verdict::Unexplained => f64::NAN,
        _ => x,
    };
    let ends = &one.information.quantiles;
    dict.set_item("information", known(one.information.mean))?;
    dict.set_item("lower", ends.first().map(|&x| known(x)))?;
    dict.set_item("upper", ends.last().map(|&x| known(x)))?;
    dict.set_item("sd", known(one.information.sd))?;
    dict.set_item("same_block", one.same_block)?;
    dict.set_item("p_value", one.p_value)?;
    dict.set_item("adjusted_p_value", one.adjusted_p_value)?;
    dict.set_item("least_p_value", one.least_p_value)?;
    dict.set_item("dependent", one.dependent)?;
    dict.set_item("verdict", one.verdict.word())?;
    Ok(dict)
}
