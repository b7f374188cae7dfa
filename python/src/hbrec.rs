//! npb-hbrec: recommendations from few ratings for each user and the contents of items.

use npb_hbrec::{
    Content, ContentKernel, HbrecError, Likes, Profile, Recommender, RecommenderConfig,
};
use pyo3::prelude::*;

use crate::arrays::{Array, Matrix, Vector, array, config, dict, features, ratings};
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

    /// The best items that the user has not rated; by one draw, if a seed is given.
    fn top(
        &self,
        py: Python<'_>,
        user: User,
        n: usize,
        explore: Option<u64>,
        threads: usize,
    ) -> PyResult<Best> {
        let found = ask(py, threads, || {
            let profile = self.profile(user)?;
            match explore {
                Some(seed) => self.0.explore(&profile, n, seed),
                None => self.0.top(&profile, n),
            }
        })?;
        let one = |r: &npb_hbrec::Recommendation| (r.item, r.chance.probability, r.chance.sd);
        Ok(found.iter().map(one).collect())
    }
}
