//! npb-hbrec: recommendations from few ratings for each user and the contents of items; classifiers of many groups.

use npb_data::Table;
use npb_hbrec::{
    ActiveUser, Content, ContentKernel, GroupedConfig, GroupedFit, HbrecError, Likes, Profile,
    Recommender, RecommenderConfig, TaskAtom, fit_groups_watched,
};
use npb_infer::Stop;
use pyo3::prelude::*;

use crate::arrays::{Array, Matrix, Vector, array, config, dict, features, labels, ratings, table};
use crate::run::{How, ask, error, saved};

/// Item, probability of a like, its standard deviation.
type Best = Vec<(usize, f64, f64)>;

/// A fit of `npb_hbrec::Recommender::fit`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Hbrec(Recommender);

saved!(Hbrec, Recommender);

/// A user of the database by number, or a new one by what it likes and does not.
#[derive(FromPyObject)]
enum User {
    Known(usize),
    New(Vec<(u32, bool)>),
}

impl Hbrec {
    fn profile(&self, user: User) -> Result<Profile, HbrecError> {
        match user {
            User::Known(user) => self.0.user_profile(user),
            User::New(pairs) => self.0.profile(&Likes::new(self.0.n_items(), &pairs)?),
        }
    }
}

#[pymethods]
impl Hbrec {
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python")]
    fn fit(
        py: Python<'_>,
        shape: (usize, usize),
        rows: Vector<'_, u32>,
        columns: Vector<'_, u32>,
        values: Vector<'_>,
        item_features: Option<Matrix<'_>>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: RecommenderConfig = config(settings)?;
        let entries = ratings(shape, &rows, &columns, &values)?;
        let content = features(item_features.as_ref())?
            .map(|features| Content::of_features(&features, ContentKernel::Linear))
            .transpose()
            .map_err(error)?;
        how.fit(py, |watch| {
            Recommender::fit_watched(&entries, content.as_ref(), &config, watch)
        })
        .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &RecommenderConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, self.0.config())
    }

    fn shape(&self) -> (usize, usize) {
        (self.0.n_users(), self.0.n_items())
    }

    /// Probability of a like of every item.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        user: User,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let found = ask(py, threads, || self.0.probabilities(&self.profile(user)?))?;
        array(py, &[found.len()], found)
    }

    /// The best items that the user has not rated, by what it would choose and like, or like alone; by one draw, if a seed is given.
    fn top(
        &self,
        py: Python<'_>,
        user: User,
        n: usize,
        by_choice: bool,
        explore: Option<u64>,
        threads: usize,
    ) -> PyResult<Best> {
        let found = ask(py, threads, || {
            let profile = self.profile(user)?;
            match explore {
                Some(seed) => self.0.explore(&profile, n, seed),
                None if by_choice => self.0.top(&profile, n),
                None => self.0.top_liked(&profile, n),
            }
        })?;
        let one = |r: &npb_hbrec::Recommendation| (r.item, r.chance.probability, r.chance.sd);
        Ok(found.iter().map(one).collect())
    }
}

/// A fit of `npb_hbrec::fit_groups`.
#[pyclass(module = "npb._native", frozen)]
pub(crate) struct Grouped(GroupedFit);

saved!(Grouped, GroupedFit);

/// A group of the fit by name, or a new one by its rows and their classes.
#[derive(FromPyObject)]
enum Group<'py> {
    Known(String),
    New(Matrix<'py>, Vector<'py, i64>),
}

impl Grouped {
    fn table(&self, x: &Matrix<'_>) -> PyResult<Table> {
        table(x, self.0.column_names())
    }

    /// An answer for the rows of a group.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        group: &Group<'_>,
        threads: usize,
        question: impl FnOnce(&ActiveUser<TaskAtom>) -> Result<T, HbrecError> + Send,
    ) -> PyResult<T> {
        match group {
            Group::Known(name) => ask(py, threads, || question(self.0.group(name)?)),
            Group::New(x, codes) => {
                let table = self.table(x)?;
                let labels = labels(codes, self.0.classes().to_vec())?;
                ask(py, threads, || question(&self.0.fold_in(&table, &labels)?))
            }
        }
    }
}

#[pymethods]
impl Grouped {
    /// `codes`, `group_of`: class and group of each row.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of Python")]
    fn fit(
        py: Python<'_>,
        x: Matrix<'_>,
        codes: Vector<'_, i64>,
        classes: Vec<String>,
        group_of: Vector<'_, i64>,
        groups: Vec<String>,
        names: Vec<String>,
        settings: &Bound<'_, PyAny>,
        how: How,
    ) -> PyResult<Self> {
        let config: GroupedConfig = config(settings)?;
        let table = table(&x, &names)?;
        let (labels, groups) = (labels(&codes, classes)?, labels(&group_of, groups)?);
        how.fit(py, |watch| {
            fit_groups_watched(&table, &labels, &groups, &config, watch)
        })
        .map(Self)
    }

    #[staticmethod]
    fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        dict(py, &GroupedConfig::default())
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, self.0.config())
    }

    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    fn groups(&self) -> Vec<String> {
        self.0.groups().to_vec()
    }

    fn column_names(&self) -> Vec<String> {
        self.0.column_names().to_vec()
    }

    /// The objective of the base distribution, iteration by iteration.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let objective: Vec<f64> = self.0.trace().iter().map(|report| report.elbo).collect();
        array(py, &[objective.len()], objective)
    }

    fn has_converged(&self) -> bool {
        matches!(self.0.stop(), Stop::Converged { .. })
    }

    /// Probability of the second class.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        group: Group<'_>,
        x: Matrix<'_>,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = self.ask(py, &group, threads, |group| self.0.predict(group, &table))?;
        array(py, &[found.len()], found)
    }

    /// Row, lower and upper end for the second class.
    fn predict_interval<'py>(
        &self,
        py: Python<'py>,
        group: Group<'_>,
        x: Matrix<'_>,
        level: f64,
        threads: usize,
    ) -> PyResult<Array<'py>> {
        let table = self.table(&x)?;
        let found = self.ask(py, &group, threads, |group| {
            self.0.predict_interval(group, &table, level)
        })?;
        let ends = found.iter().flat_map(|i| [i.lower, i.upper]).collect();
        array(py, &[found.len(), 2], ends)
    }
}
