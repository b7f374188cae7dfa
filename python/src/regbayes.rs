//! npb-regbayes: many labels of a row, and topics of documents.

use npb_infer::Stop;
use npb_regbayes::labels;
use npb_regbayes::tasks::{Task, TaskData};
use npb_regbayes::topics::{self, Response};
use npb_regbayes::{LabelsConfig, LabelsFit, MedLdaConfig, MedLdaFit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Array, Matrix, Vector, array, config, dict, matrix, ratings, table, vector};
use crate::run::{How, ask, error, saved};

/// A fit of `npb_regbayes::labels::fit`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct ManyLabels(LabelsFit);

saved!(ManyLabels, LabelsFit);

#[pymethods]
impl ManyLabels {
    /// `y`: one column for each label, NaN where unknown; `real`: which are numbers, the others are 0 or 1.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python")]
    fn fit(
        py: Python<'_>,
        x: Matrix<'_>,
        y: Matrix<'_>,
        label_names: Vec<String>,
        real: Vec<bool>,
        names: Vec<String>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: LabelsConfig = config(settings)?;
        let (_, width, values) = matrix(&y)?;
        let task = |(m, (name, real)): (usize, (String, bool))| {
            let column = values.iter().skip(m).step_by(width.max(1));
            let known = column.map(|v| Some(*v).filter(|v| !v.is_nan()));
            match real {
                true => Task::real(name, &known.collect::<Vec<_>>()),
                false => {
                    let known = known.map(|v| v.map(|v| v > 0.5));
                    Ok(Task::label(name, &known.collect::<Vec<_>>()))
                }
            }
        };
        let each = label_names.into_iter().zip(real).enumerate();
        let all = each.map(task).collect::<Result<_, _>>().map_err(error)?;
        let data = TaskData::new(table(&x, &names)?, all).map_err(error)?;
        how.fit(py, |watch| labels::fit_watched(&data, &config, watch))
            .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &LabelsConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.0.config)
    }

    fn column_names(&self) -> Vec<String> {
        self.0.columns().names().to_vec()
    }

    fn label_names(&self) -> Vec<String> {
        self.0.task_names()
    }

    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let all: Vec<f64> = self.0.trace().iter().map(|report| report.elbo).collect();
        array(py, &[all.len()], all)
    }

    fn has_converged(&self) -> bool {
        matches!(self.0.stop(), Stop::Converged { .. })
    }

    /// What should be known of labels before they are relied on.
    fn notes(&self) -> Vec<String> {
        self.0.notes().iter().map(ToString::to_string).collect()
    }

    /// What held-out targets say of members.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0.members().iter().map(|m| dict(py, m)).collect()
    }

    /// Row, label: scores of labels, values of numbers; for each label whether it is one, and the probability that it is (NaN for numbers, and where there is none).
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'_>,
        names: Vec<String>,
        threads: usize,
    ) -> PyResult<(Array<'py>, Array<'py>, Array<'py>)> {
        let table = table(&x, &names)?;
        let found = ask(py, threads, || self.0.predict(&table))?;
        let (n, m) = (found.n_rows(), found.names().len());
        let scores = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
        let scores = scores.map(|(i, j)| found.score(i, j)).collect();
        let mut labels = vec![f64::NAN; n * m];
        let mut probabilities = labels.clone();
        for j in 0..m {
            for (i, label) in found.labels(j).into_iter().flatten().enumerate() {
                labels[i * m + j] = f64::from(u8::from(label));
            }
            for (i, p) in found.probabilities(j).into_iter().flatten().enumerate() {
                probabilities[i * m + j] = p;
            }
        }
        let shaped = |values| array(py, &[n, m], values);
        Ok((shaped(scores)?, shaped(labels)?, shaped(probabilities)?))
    }

    /// The latent features: expected use, columns that load on them, labels that they drive.
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let one = |feature: npb_regbayes::FeatureReport| {
            let dict = PyDict::new(py);
            dict.set_item("feature", feature.feature)?;
            dict.set_item("expected_use", feature.expected_use)?;
            dict.set_item("columns", feature.columns)?;
            dict.set_item("drives", feature.drives)?;
            Ok(dict)
        };
        self.0.features().into_iter().map(one).collect()
    }
}

/// A fit of `npb_regbayes::topics::fit`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Topics(MedLdaFit);

saved!(Topics, MedLdaFit);

#[pymethods]
impl Topics {
    /// Counts of words as entries; classes from 0 and their number, or numbers, or neither.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python")]
    fn fit(
        py: Python<'_>,
        shape: (usize, usize),
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        values: Vector<'_>,
        classes: Option<(Vector<'_, u32>, usize)>,
        targets: Option<Vector<'_>>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: MedLdaConfig = config(settings)?;
        let counts = ratings(shape, &rows, &columns, &values)?;
        let response = match (&classes, &targets) {
            (Some((classes, n_classes)), _) => Response::Classes {
                classes: vector(classes)?,
                n_classes: *n_classes,
            },
            (None, Some(targets)) => Response::Real(vector(targets)?),
            (None, None) => Response::None,
        };
        how.fit(py, |watch| {
            topics::fit_watched(&counts, response, &config, watch)
        })
        .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &MedLdaConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, self.0.config())
    }

    fn n_words(&self) -> usize {
        self.0.n_words()
    }

    fn n_topics(&self) -> usize {
        self.0.n_topics()
    }

    fn n_scores(&self) -> usize {
        self.0.n_scores()
    }

    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let all: Vec<f64> = self.0.trace().iter().map(|report| report.elbo).collect();
        array(py, &[all.len()], all)
    }

    fn has_converged(&self) -> bool {
        matches!(self.0.stop(), Stop::Converged { .. })
    }

    /// Word and probability of the most probable words of a topic.
    fn top_words(&self, topic: usize, n: usize) -> PyResult<Vec<(usize, f64)>> {
        let words = self.0.top_words(topic, n).map_err(error)?;
        Ok(words.iter().map(|w| (w.word, w.probability)).collect())
    }

    /// Shares of topics: document, topic.
    fn shares<'py>(
        &self,
        py: Python<'py>,
        shape: (usize, usize),
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        values: Vector<'_>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let counts = ratings(shape, &rows, &columns, &values)?;
        let found = ask(py, threads, || self.0.shares(&counts))?;
        array(py, &[shape.0, self.0.n_topics()], found)
    }

    /// Scores of classes, or numbers: document, score.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        shape: (usize, usize),
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        values: Vector<'_>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let counts = ratings(shape, &rows, &columns, &values)?;
        let found = ask(py, threads, || self.0.predict(&counts))?;
        array(py, &[shape.0, self.0.n_scores()], found)
    }
}
