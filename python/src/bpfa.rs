//! npb-bpfa: images, and factor analysis of tables.

use npb_bpfa::{BpfaConfig, BpfaFit, ImageConfig, Restored, fit_watched, restore_watched};
use npb_data::Image;
use npb_infer::{Interval, Trace};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Array, Matrix, array, config, dict, matrix, of_table, scalars, table};
use crate::run::{How, ask, error, saved};

/// Height x (width * channels) values, NaN where missing.
fn image(x: &Matrix<'_>, channels: usize) -> PyResult<Image> {
    let (height, width, values) = matrix(x)?;
    Image::from_nan_coded(height, width / channels.max(1), channels, values).map_err(error)
}

/// A restored image of `npb_bpfa::restore`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Picture(Restored);

saved!(Picture, Restored);

#[pymethods]
impl Picture {
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        x: Matrix<'_>,
        channels: usize,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: ImageConfig = config(settings)?;
        let image = image(&x, channels)?;
        how.fit(py, |watch| restore_watched(&image, &config, watch))
            .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &ImageConfig::default())
    }

    /// The settings that suit an image.
    #[staticmethod]
    fn suited_to<'py>(
        py: Python<'py>,
        x: Matrix<'_>,
        channels: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &ImageConfig::suited_to(&image(&x, channels)?))
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.0.config)
    }

    /// Posterior mean: height, width, channel; NaN in channels of which nothing was observed.
    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Array<'py, f32>> {
        let image = self.0.image().map_err(error)?;
        let width = image.width() * image.channels();
        let known = image.observed();
        let value = |(k, &v): (usize, &f32)| match known.get(k / width, k % width) {
            true => v,
            false => f32::NAN,
        };
        let values = image.values().iter().enumerate().map(value).collect();
        array(py, &image.size(), values)
    }

    fn shape(&self) -> PyResult<[usize; 3]> {
        Ok(self.0.image().map_err(error)?.size())
    }

    fn sd<'py>(&self, py: Python<'py>) -> PyResult<Array<'py, f32>> {
        array(py, &self.shape()?, self.0.sd().to_vec())
    }

    fn interval<'py>(
        &self,
        py: Python<'py>,
        level: f64,
    ) -> PyResult<(Array<'py, f32>, Array<'py, f32>)> {
        let (found, shape) = (self.0.interval(level).map_err(error)?, self.shape()?);
        let ends = |end: fn(&Interval) -> f64| found.iter().map(|i| end(i) as f32).collect();
        Ok((
            array(py, &shape, ends(|i| i.lower))?,
            array(py, &shape, ends(|i| i.upper))?,
        ))
    }

    fn noise_sd(&self) -> Vec<f64> {
        self.0.noise_sd.clone()
    }

    /// Of each channel.
    fn roles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.0.roles())
    }

    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let traces: Vec<&Trace> = self.0.traces.iter().collect();
        scalars(py, &traces, &self.0.config.model.sweeps)
    }

    /// Atom, entry of a patch.
    fn dictionary<'py>(&self, py: Python<'py>) -> PyResult<Array<'py, f32>> {
        let dictionary = &self.0.dictionary;
        let shape = [dictionary.n_atoms(), dictionary.n_columns()];
        let atoms = (0..shape[0]).flat_map(|k| dictionary.atom(k));
        array(py, &shape, atoms.collect())
    }

    /// Share of patches that use each atom.
    fn usage(&self) -> Vec<f64> {
        self.0.usage.clone()
    }
}

/// A fit of `npb_bpfa::fit`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Factors(BpfaFit);

saved!(Factors, BpfaFit);

#[pymethods]
impl Factors {
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        x: Matrix<'_>,
        names: Vec<String>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: BpfaConfig = config(settings)?;
        let table = table(&x, &names)?;
        how.fit(py, |watch| fit_watched(&table, &config, watch))
            .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &BpfaConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.0.config)
    }

    /// x0, x1, ... without names.
    fn column_names(&self) -> Vec<String> {
        match self.0.column_names() {
            [] => (0..self.0.n_columns()).map(|j| format!("x{j}")).collect(),
            names => names.to_vec(),
        }
    }

    /// Of each column.
    fn roles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.0.roles())
    }

    /// Atoms in use, in each stored draw.
    fn used_atoms(&self) -> Vec<usize> {
        self.0.used_atoms()
    }

    /// Factors of the last stored draw.
    fn n_factors(&self) -> usize {
        self.0.draws.last().map_or(0, |draw| draw.n_atoms())
    }

    /// Scores of rows on the atoms of the last stored draw.
    fn transform<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        names: Vec<String>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = table(&x, &names)?;
        of_table(py, &ask(py, threads, || self.0.transform(&table))?)
    }

    fn impute<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        names: Vec<String>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = table(&x, &names)?;
        of_table(py, &ask(py, threads, || self.0.impute(&table))?)
    }
}
