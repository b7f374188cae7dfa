//! Users weighted by their correlation with the new one.

use npb_data::Ratings;
use serde::{Deserialize, Serialize};

use super::{Given, check_given, mean_of};
use crate::BaselineError;
use crate::error::{non_empty_ratings, positive};
use crate::means::RatingMeans;

/// How votes of other users are added.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PearsonForm {
    /// Breese, Heckerman and Kadie (UAI 1998), equations 1 and 2: one normaliser, the sum of all absolute weights, so that who did not rate
    /// the item votes for no deviation.
    Breese,
    /// Herlocker, Konstan, Borchers and Riedl (SIGIR 1999): divided by the absolute weights of those who rated the item, correlations of fewer than
    /// `significance` common items shrunk in proportion (50 there).
    Normalised {
        /// Common items that make a correlation count in full.
        significance: f64,
    },
}

/// Collaborative filtering by Pearson correlation.
///
/// The correlation is over the items that both rated, about each user's mean over all their ratings. The score of an item is the new user's mean plus the
/// weighted mean of the others' deviations, on the scale of the ratings.
///
/// ```
/// use npb_baselines::{Pearson, PearsonForm};
/// use npb_data::{Rating, Ratings};
///
/// let entry = |row, column, value| Rating { row, column, value };
/// // User 0 likes items 0 and 2, user 1 likes item 1.
/// let database = Ratings::new(2, 3, &[
///     entry(0, 0, 5.0), entry(0, 1, 1.0), entry(0, 2, 5.0),
///     entry(1, 0, 1.0), entry(1, 1, 5.0), entry(1, 2, 1.0),
/// ])?;
/// let pearson = Pearson::new(&database, PearsonForm::Breese)?;
/// let scores = pearson.scores(&[(0, 4.0), (1, 2.0)])?;
/// assert!(scores[2] > 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pearson<'d> {
    database: &'d Ratings,
    means: RatingMeans,
    form: PearsonForm,
}

impl<'d> Pearson<'d> {
    /// Cost: one pass.
    ///
    /// # Errors
    /// [`BaselineError::NoRatings`]; [`BaselineError::Config`] for a significance that is not positive.
    pub fn new(database: &'d Ratings, form: PearsonForm) -> Result<Self, BaselineError> {
        non_empty_ratings(database)?;
        if let PearsonForm::Normalised { significance } = form {
            positive("significance", significance)?;
        }
        Ok(Self {
            database,
            means: RatingMeans::fit(database)?,
            form,
        })
    }

    /// A score for every item. Cost: the ratings of the given items and those of all users who rated one of them.
    ///
    /// # Errors
    /// [`BaselineError::Given`].
    pub fn scores(&self, given: &[Given]) -> Result<Vec<f64>, BaselineError> {
        check_given(given, self.database.n_cols())?;
        let mean = mean_of(given, self.means.global());
        let weights = self.weights(given, mean);
        let (mut deviations, mut totals) = (
            vec![0.0; self.database.n_cols()],
            vec![0.0; self.database.n_cols()],
        );
        for (user, &weight) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
            let (items, values) = self.database.row(user);
            for (&item, value) in items.iter().zip(values) {
                deviations[item as usize] += weight * (value - self.means.row(user));
                totals[item as usize] += weight.abs();
            }
        }
        let everybody: f64 = weights.iter().map(|w| w.abs()).sum();
        let score = |(deviation, total): (f64, f64)| {
            let total = match self.form {
                PearsonForm::Breese => everybody,
                PearsonForm::Normalised { .. } => total,
            };
            let moved = if total > 0.0 { deviation / total } else { 0.0 };
            mean + moved
        };
        Ok(deviations.into_iter().zip(totals).map(score).collect())
    }

    /// Correlations of the users of the database with the new one; 0 where there is none.
    fn weights(&self, given: &[Given], mean: f64) -> Vec<f64> {
        // Product, squares of the new user and of the other one, common items.
        let mut sums = vec![[0.0_f64; 4]; self.database.n_rows()];
        for &(item, value) in given {
            let (users, values) = self.database.column(item as usize);
            for (&user, theirs) in users.iter().zip(values) {
                let (a, b) = (value - mean, theirs - self.means.row(user as usize));
                let sums = &mut sums[user as usize];
                let terms = [a * b, a * a, b * b, 1.0];
                sums.iter_mut().zip(terms).for_each(|(s, t)| *s += t);
            }
        }
        let weight = |&[product, a, b, common]: &[f64; 4]| {
            let correlation = if a * b > 0.0 {
                product / (a * b).sqrt()
            } else {
                0.0
            };
            match self.form {
                PearsonForm::Breese => correlation,
                PearsonForm::Normalised { significance } => {
                    correlation * (common / significance).min(1.0)
                }
            }
        };
        sums.iter().map(weight).collect()
    }
}
