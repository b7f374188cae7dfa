//! npb-iqgme: one task and many.

use npb_data::{Labels, Table};
use npb_infer::Interval;
use npb_infer::Stop;
use npb_iqgme::{
    Imputation, IqgmeConfig, IqgmeError, IqgmeFit, MissingCell, MultiTaskFit, Task, TasksConfig,
    fit_tasks_watched, fit_watched,
};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arrays::{
    Array, Matrix, Vector, array, config, dict, labels, nan_coded, of_table, table, vector,
};
use crate::run::{How, ask, saved};

fn rows<'py>(py: Python<'py>, rows: Vec<Vec<f64>>, width: usize) -> PyResult<Array<'py>> {
    array(py, &[rows.len(), width], rows.concat())
}

/// Row, class, lower and upper end.
fn intervals<'py>(
    py: Python<'py>,
    rows: Vec<Vec<Interval>>,
    n_classes: usize,
) -> PyResult<Array<'py>> {
    let ends = rows.iter().flatten().flat_map(|p| [p.lower, p.upper]);
    array(py, &[rows.len(), n_classes, 2], ends.collect())
}

/// Completed cells and their standard deviations.
fn imputed<'py>(py: Python<'py>, imputed: &Imputation) -> PyResult<(Array<'py>, Array<'py>)> {
    Ok((
        of_table(py, &imputed.completed)?,
        of_table(py, &imputed.sd)?,
    ))
}

/// Draw, row, column.
fn draws<'py>(py: Python<'py>, draws: &[Table]) -> PyResult<Array<'py>> {
    let (n, p) = draws.first().map_or((0, 0), |t| (t.n_rows(), t.n_cols()));
    let values = draws.iter().flat_map(nan_coded).collect();
    array(py, &[draws.len(), n, p], values)
}

/// Level, row, column: quantiles of missing cells; observed ones, and those that nothing is known of, as they are in `completed`.
fn quantiles(
    completed: &Table,
    cells: &[Vec<MissingCell>],
    levels: &[f64],
) -> Result<Vec<f64>, IqgmeError> {
    let p = completed.n_cols();
    let mut all = nan_coded(completed).repeat(levels.len());
    let size = completed.n_rows() * p;
    for (values, &level) in all.chunks_mut(size.max(1)).zip(levels) {
        values
            .par_chunks_mut(p.max(1))
            .zip(cells)
            .try_for_each(|(row, cells)| {
                for cell in cells {
                    row[cell.column] = cell.quantile(level)?;
                }
                Ok::<_, IqgmeError>(())
            })?;
    }
    Ok(all)
}

/// A fit of `npb_iqgme::fit`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Iqgme(pub(crate) IqgmeFit);

saved!(Iqgme, IqgmeFit);

impl Iqgme {
    fn table(&self, x: &Matrix<'_>) -> PyResult<Table> {
        table(x, self.0.column_names())
    }
}

#[pymethods]
impl Iqgme {
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        x: Matrix<'_>,
        codes: Vector<'_, i64>,
        classes: Vec<String>,
        names: Vec<String>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: IqgmeConfig = config(settings)?;
        let (table, labels) = (table(&x, &names)?, labels(&codes, classes)?);
        how.fit(py, |watch| fit_watched(&table, &labels, &config, watch))
            .map(Self)
    }

    /// The fit of these rows, the first of which are its own, without labels.
    fn further(
        &self,
        py: Python<'_>,
        x: Matrix<'_>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: IqgmeConfig = config(settings)?;
        let table = table(&x, self.0.column_names())?;
        how.fit(py, |watch| self.0.continue_with(&table, &config, watch))
            .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &IqgmeConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, self.0.config())
    }

    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    fn column_names(&self) -> Vec<String> {
        self.0.column_names().to_vec()
    }

    fn ignored_columns(&self) -> Vec<usize> {
        self.0.ignored_columns()
    }

    fn n_clusters(&self) -> usize {
        self.0.n_clusters()
    }

    /// The bound, iteration by iteration.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let bounds: Vec<f64> = self.0.trace().iter().map(|report| report.elbo).collect();
        array(py, &[bounds.len()], bounds)
    }

    fn has_converged(&self) -> bool {
        matches!(self.0.stop(), Stop::Converged { .. })
    }

    /// Weights, means and covariances of the components, for the columns `model_columns`.
    fn components<'py>(&self, py: Python<'py>) -> PyResult<(Array<'py>, Array<'py>, Array<'py>)> {
        let (all, p) = (self.0.components(), self.0.model_columns().len());
        let weights = all.iter().map(|c| c.weight).collect();
        let means = all.iter().flat_map(|c| c.mean.iter().copied()).collect();
        let cells = (0..p).flat_map(|i| (0..p).map(move |j| (i, j)));
        let covariances = all
            .iter()
            .flat_map(|c| cells.clone().map(|(i, j)| c.covariance[(i, j)]))
            .collect();
        let k = all.len();
        Ok((
            array(py, &[k], weights)?,
            array(py, &[k, p], means)?,
            array(py, &[k, p, p], covariances)?,
        ))
    }

    fn model_columns(&self) -> Vec<usize> {
        self.0.model_columns().to_vec()
    }

    fn predict_proba<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = ask(py, threads, || self.0.predict_classes(&table))?;
        rows(py, found, self.0.classes().len())
    }

    fn predict_interval<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        level: f64,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = ask(py, threads, || {
            self.0.predict_class_intervals(&table, level)
        })?;
        intervals(py, found, self.0.classes().len())
    }

    fn responsibilities<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = ask(py, threads, || self.0.responsibilities(&table))?;
        let width = found.first().map_or(0, Vec::len);
        rows(py, found, width)
    }

    fn ln_density<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = ask(py, threads, || self.0.ln_density(&table))?;
        array(py, &[found.len()], found)
    }

    fn impute<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<(Array<'py>, Array<'py>)> {
        let table = self.table(&x)?;
        imputed(py, &ask(py, threads, || self.0.impute(&table))?)
    }

    fn impute_draws<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        n_draws: usize,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = ask(py, threads, || self.0.impute_draws(&table, n_draws))?;
        draws(py, &found)
    }

    fn impute_quantiles<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        levels: Vec<f64>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = ask(py, threads, || {
            let completed = self.0.impute(&table)?.completed;
            quantiles(&completed, &self.0.cells_by_row(&table)?, &levels)
        })?;
        array(py, &[levels.len(), table.n_rows(), table.n_cols()], found)
    }
}

/// A fit of `npb_iqgme::fit_tasks`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Tasks(MultiTaskFit);

saved!(Tasks, MultiTaskFit);

#[pymethods]
impl Tasks {
    /// `codes`, `task_of`: class and task of each row.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python")]
    fn fit(
        py: Python<'_>,
        x: Matrix<'_>,
        codes: Vector<'_, i64>,
        classes: Vec<String>,
        task_of: Vector<'_, i64>,
        tasks: Vec<String>,
        names: Vec<String>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: TasksConfig = config(settings)?;
        let (table, labels) = (table(&x, &names)?, labels(&codes, classes)?);
        let task_of = vector(&task_of)?;
        let of_task = |task: usize| {
            let rows: Vec<usize> = (0..task_of.len())
                .filter(|&i| task_of[i] == task as i64)
                .collect();
            (table.select_rows(&rows), labels.select_rows(&rows))
        };
        let parts: Vec<(Table, Labels)> = (0..tasks.len()).map(of_task).collect();
        let named = tasks.iter().zip(&parts);
        let all: Vec<Task<'_>> = named
            .map(|(name, (table, labels))| Task {
                name,
                table,
                labels,
            })
            .collect();
        how.fit(py, |watch| fit_tasks_watched(&all, &config, watch))
            .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &TasksConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, self.0.config())
    }

    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    fn tasks(&self) -> Vec<String> {
        self.0.tasks().to_vec()
    }

    fn column_names(&self) -> Vec<String> {
        self.0.column_names().to_vec()
    }

    /// The bound of the best run, iteration by iteration.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let bounds: Vec<f64> = self.0.trace().iter().map(|report| report.elbo).collect();
        array(py, &[bounds.len()], bounds)
    }

    fn has_converged(&self) -> bool {
        matches!(self.0.stop(), Stop::Converged { .. })
    }

    /// How alike the tasks are: J x J, from 0 to 1.
    fn similarity<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let (all, n) = (self.0.similarity(), self.0.tasks().len());
        let cells = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        array(py, &[n, n], cells.map(|(i, j)| all[(i, j)]).collect())
    }

    fn predict_proba<'py>(
        &self,
        py: Python<'py>,
        task: &str,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = table(&x, self.0.column_names())?;
        let found = ask(py, threads, || self.0.predict_classes(task, &table))?;
        rows(py, found, self.0.classes().len())
    }

    fn predict_interval<'py>(
        &self,
        py: Python<'py>,
        task: &str,
        x: Matrix<'_>,
        level: f64,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = table(&x, self.0.column_names())?;
        let found = ask(py, threads, || {
            self.0.predict_class_intervals(task, &table, level)
        })?;
        intervals(py, found, self.0.classes().len())
    }
}
