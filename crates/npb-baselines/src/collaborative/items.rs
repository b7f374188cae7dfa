//! What ignores the user.

use npb_data::Ratings;

use crate::BaselineError;
use crate::error::{non_empty_ratings, positive};

/// How often every item was rated, and which share of its raters liked it.
///
/// ```
/// use npb_baselines::ItemRates;
/// use npb_data::{Rating, Ratings};
///
/// let entry = |row, column, value| Rating { row, column, value };
/// let likes = Ratings::new(2, 3, &[entry(0, 0, 1.0), entry(1, 0, 1.0), entry(0, 1, -1.0)])?;
/// let rates = ItemRates::fit(&likes, 1.0)?;
/// assert_eq!(rates.popularity(), [2.0, 1.0, 0.0]);
/// // Two of three are likes; each item has one more vote of that rate.
/// assert!((rates.like_rates()[1] - (2.0 / 3.0) / 2.0).abs() < 1e-15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ItemRates {
    counts: Vec<f64>,
    rates: Vec<f64>,
}

impl ItemRates {
    /// A value above 0 is a like; `votes` votes at the rate of all ratings are added to every item. Cost: one pass.
    ///
    /// # Errors
    /// [`BaselineError::NoRatings`]; [`BaselineError::Config`] for votes that are not positive.
    pub fn fit(likes: &Ratings, votes: f64) -> Result<Self, BaselineError> {
        non_empty_ratings(likes)?;
        positive("votes", votes)?;
        let liked = |values: &[f64]| values.iter().filter(|&&v| v > 0.0).count() as f64;
        let overall = liked(likes.values()) / likes.n_observed() as f64;
        let columns = || (0..likes.n_cols()).map(|j| likes.column(j).1);
        let rate =
            |values: &[f64]| (liked(values) + votes * overall) / (values.len() as f64 + votes);
        Ok(Self {
            counts: columns().map(|values| values.len() as f64).collect(),
            rates: columns().map(rate).collect(),
        })
    }

    /// Number of ratings of every item.
    pub fn popularity(&self) -> &[f64] {
        &self.counts
    }

    /// Smoothed share of likes of every item.
    pub fn like_rates(&self) -> &[f64] {
        &self.rates
    }
}
