//! npb-bsvd: matrices most of whose entries are missing.

use npb_bsvd::{
    Acquisition, BsvdConfig, BsvdError, BsvdFit, Cells, Prediction, Ranked, Recommended,
    SideInformation, Wanted, fit_watched,
};
use npb_infer::Trace;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{
    Array, Matrix, Vector, array, config, diagnostics, dict, features, ratings, scalars, vector,
};
use crate::run::{How, ask, error, saved};

/// Numbers of a prediction, in the order of the columns that are handed out.
const WIDTH: usize = 7;

fn numbers(p: &Prediction) -> [f64; WIDTH] {
    let (interval, predictive) = (p.interval, p.predictive_interval);
    [
        p.mean,
        p.sd,
        interval.lower,
        interval.upper,
        p.predictive_sd,
        predictive.lower,
        predictive.upper,
    ]
}

/// Mean, sd, interval, and those of a new entry: one row for each cell.
fn predictions<'py>(py: Python<'py>, found: &[Prediction]) -> PyResult<Array<'py>> {
    let values = found.iter().flat_map(numbers).collect();
    array(py, &[found.len(), WIDTH], values)
}

/// Index, mean, sd, probability of being in the top.
type Best = Vec<(usize, f64, f64, f64)>;

fn best(ranked: Vec<Ranked>) -> Best {
    let one = |r: Ranked| (r.index, r.mean, r.sd, r.in_top);
    ranked.into_iter().map(one).collect()
}

/// A fit of `npb_bsvd::fit`.
/// Column, chance of an entry, chance that it is a like, mean and standard deviation.
type Choice = (usize, f64, f64, f64, f64);

#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Bsvd(pub(crate) BsvdFit);

saved!(Bsvd, BsvdFit);

#[pymethods]
impl Bsvd {
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python")]
    fn fit(
        py: Python<'_>,
        shape: (usize, usize),
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        values: Vector<'_>,
        row_features: Option<Matrix<'_>>,
        column_features: Option<Matrix<'_>>,
        names: (Vec<String>, Vec<String>),
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: BsvdConfig = config(settings)?;
        let entries = ratings(shape, &rows, &columns, &values)?;
        let side = SideInformation {
            rows: features(row_features.as_ref())?,
            columns: features(column_features.as_ref())?,
        };
        let none = Cells::default();
        how.fit(py, |watch| {
            fit_watched(&entries, side, &none, &config, watch)?.with_names(&names.0, &names.1)
        })
        .map(Self)
    }

    /// The fit of these entries, its own among them.
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python")]
    fn further(
        &self,
        py: Python<'_>,
        shape: (usize, usize),
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        values: Vector<'_>,
        row_features: Option<Matrix<'_>>,
        column_features: Option<Matrix<'_>>,
        names: (Vec<String>, Vec<String>),
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: BsvdConfig = config(settings)?;
        let entries = ratings(shape, &rows, &columns, &values)?;
        let side = SideInformation {
            rows: features(row_features.as_ref())?,
            columns: features(column_features.as_ref())?,
        };
        let none = Cells::default();
        how.fit(py, |watch| {
            let fit = (self.0).continue_with(&entries, side, &none, &config, watch)?;
            fit.with_names(&names.0, &names.1)
        })
        .map(Self)
    }

    /// Names of rows and columns; empty without.
    fn names(&self) -> (Vec<String>, Vec<String>) {
        (self.0.row_names().to_vec(), self.0.column_names().to_vec())
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &BsvdConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.0.config)
    }

    fn shape(&self) -> (usize, usize) {
        (self.0.n_rows(), self.0.n_cols())
    }

    fn diagnostics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        diagnostics(py, &self.0.diagnostics())
    }

    /// What has not settled, in words.
    fn unmet(&self) -> Vec<String> {
        self.0.unmet()
    }

    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let traces: Vec<&Trace> = self.0.traces().collect();
        scalars(py, &traces, &self.0.config.sweeps)
    }

    /// One fit of several that differ in chain and seed only.
    #[staticmethod]
    fn pooled(py: Python<'_>, fits: Vec<Py<Self>>) -> PyResult<Self> {
        let fits = fits.iter().map(|fit| fit.get().0.clone()).collect();
        py.detach(|| BsvdFit::pooled(fits)).map(Self).map_err(error)
    }

    /// Row, column, sd and remaining sd of the cells that are most worth asking for.
    fn next_cells(
        &self,
        py: Python<'_>,
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        n: usize,
        how: &str,
        threads: usize,
    ) -> PyResult<Vec<(u32, u32, f64, f64)>> {
        let how = match how {
            "uncorrelated" => Acquisition::Uncorrelated,
            "largest_sd" => Acquisition::LargestSd,
            _ => {
                let message = format!("how={how:?}: must be \"uncorrelated\" or \"largest_sd\"");
                return Err(PyValueError::new_err(message));
            }
        };
        let candidates = Cells {
            rows: vector(&rows)?.to_vec(),
            columns: vector(&columns)?.to_vec(),
            values: Vec::new(),
        };
        let found = ask(py, threads, || self.0.next_cells(&candidates, n, how))?;
        let one = |w: Wanted| (w.row, w.column, w.sd, w.remaining_sd);
        Ok(found.into_iter().map(one).collect())
    }

    /// Posterior probabilities of ranks 0, 1, ...
    fn rank_distribution<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let ranks = self.0.rank_distribution().map_err(error)?;
        array(py, &[ranks.len()], ranks)
    }

    fn predict<'py>(
        &self,
        py: Python<'py>,
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        level: f64,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let cells = Cells {
            rows: vector(&rows)?.to_vec(),
            columns: vector(&columns)?.to_vec(),
            values: Vec::new(),
        };
        let found = ask(py, threads, || self.0.predict_all(&cells, level))?;
        predictions(py, &found)
    }

    /// Noise-free values of cells: draw, cell.
    fn draws<'py>(
        &self,
        py: Python<'py>,
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        threads: usize,
    ) -> PyResult<Array<'py, f32>> {
        let cells = Cells {
            rows: vector(&rows)?.to_vec(),
            columns: vector(&columns)?.to_vec(),
            values: Vec::new(),
        };
        let found = ask(py, threads, || self.0.cell_draws(&cells))?;
        array(py, &[found.len(), cells.rows.len()], found.concat())
    }

    fn top(
        &self,
        py: Python<'_>,
        row: usize,
        n: usize,
        exclude: Vec<u32>,
        threads: usize,
    ) -> PyResult<Best> {
        ask(py, threads, || self.0.top(row, n, &exclude)).map(best)
    }

    /// Index, exposure, probability of a like, mean and sd of what the row would come to have entries in and like.
    fn recommend(
        &self,
        py: Python<'_>,
        row: usize,
        n: usize,
        like_from: Option<f64>,
        exclude: Option<Vec<u32>>,
        threads: usize,
    ) -> PyResult<Vec<Choice>> {
        let found = ask(py, threads, || {
            self.0.recommend(row, n, like_from, exclude.as_deref())
        })?;
        let one = |r: Recommended| (r.index, r.exposure, r.liked, r.mean, r.sd);
        Ok(found.into_iter().map(one).collect())
    }

    /// How many entries each row has, and their columns, row by row.
    fn observed<'py>(&self, py: Python<'py>) -> PyResult<(Array<'py, u32>, Array<'py, u32>)> {
        let columns: Vec<u32> = self.0.observed().flatten().copied().collect();
        Ok((
            array(py, &[self.0.n_rows()], self.0.row_counts().to_vec())?,
            array(py, &[columns.len()], columns)?,
        ))
    }

    /// A new row by its entries and features: what is believed of each of its cells.
    fn fold_in<'py>(
        &self,
        py: Python<'py>,
        entries: Vec<(usize, f64)>,
        features: Vec<f64>,
        level: f64,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let found = ask(py, threads, || {
            let row = self.0.fold_in_row(&entries, &features)?;
            let cell = |j: usize| row.cell(j)?.summary(level);
            (0..self.0.n_cols())
                .map(cell)
                .collect::<Result<Vec<_>, BsvdError>>()
        })?;
        predictions(py, &found)
    }
}
