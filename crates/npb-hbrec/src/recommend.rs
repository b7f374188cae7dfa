//! The recommender: lists for users with a few ratings, how sure they are, and why (`docs/hbrec.md#recommender`).

mod config;
mod explain;
mod profile;
mod saved;

use npb_data::{Exposure, Features, Ratings};
use npb_infer::Watch;
use serde::{Deserialize, Serialize};

pub use config::{Filter, RecommenderConfig};
pub use explain::{Because, Reasons};
pub use profile::{Chance, Profile, Recommendation};

use crate::fit::{HbrecFit, fit_watched};
use crate::kernel::{Content, ContentKernel};
use crate::{HbrecError, LikeMatrix, Likes};

/// A hybrid recommender: items by their content and by what other users say of them.
///
/// Training is [`fit`](crate::fit): a base distribution learned from all users, then each user as a point mass with a weight. A new user is one small fit; its
/// predictions are the average of its own model and of the users who agree with it ((14) of T). The recommender knows the database: it leaves out what a user has
/// rated, and names the users who had a say. Users and items are numbers, those of the ratings' rows and columns: keep their identifiers beside it.
///
/// Memory: that of the [`HbrecFit`] and 5 bytes a rating.
///
/// ```
/// use npb_hbrec::npb_data::{Rating, Ratings};
/// use npb_hbrec::{Likes, Recommender, RecommenderConfig};
/// // 60 users of two tastes gave stars to 6 of 8 films.
/// let stars = |u: u32, i: u32| Rating { row: u, column: i, value: if (u + i) % 2 == 0 { 5.0 } else { 2.0 } };
/// let entries: Vec<Rating> = (0..60).flat_map(|u| (0..8).filter(move |i| (i + u / 2) % 4 != 0).map(move |i| stars(u, i))).collect();
/// let ratings = Ratings::new(60, 8, &entries)?;
/// let config = RecommenderConfig { like_from: 4.0, ..Default::default() };
/// let recommender = Recommender::fit(&ratings, None, &config)?;
/// // A new user who likes film 2 and not film 3.
/// let profile = recommender.profile(&Likes::new(8, &[(2, true), (3, false)])?)?;
/// let top = recommender.top(&profile, 3)?;
/// assert!(top.iter().all(|r| r.item % 2 == 0 && r.item != 2 && r.chance.probability > 0.6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommender {
    config: RecommenderConfig,
    /// Of every user of the database.
    likes: Vec<Likes>,
    /// How many users rated each item.
    raters: Vec<u32>,
    /// Who comes to rate what.
    exposure: Exposure,
    #[serde(with = "saved::contents")]
    fit: HbrecFit,
}

impl Content {
    /// From the features of all items. Give items without features to [`Content::new`] instead.
    ///
    /// # Errors
    /// As [`Content::new`].
    pub fn of_features(features: &Features, kernel: ContentKernel) -> Result<Self, HbrecError> {
        let mut row = vec![0.0_f32; features.n_features()];
        let item = |i: usize| {
            features.write(i, &mut row);
            Some(row.iter().map(|&x| f64::from(x)).collect())
        };
        let rows: Vec<Option<Vec<f64>>> = (0..features.n_rows()).map(item).collect();
        Self::new(&rows, kernel)
    }
}

impl Recommender {
    /// Learns from the ratings of all users, users x items. Rows without ratings are users of whom nothing is known.
    ///
    /// `content` must have the items of the ratings; without it collaboration alone decides, and new items cannot be told apart. Cost: see
    /// [`learn_base`](crate::learn_base).
    ///
    /// # Errors
    /// A configuration out of range; content of another number of items; no rating at all; content-based filtering without content.
    pub fn fit(
        ratings: &Ratings,
        content: Option<&Content>,
        config: &RecommenderConfig,
    ) -> Result<Self, HbrecError> {
        Self::fit_watched(ratings, content, config, &Watch::none())
    }

    /// As [`fit`](Self::fit), watched, stopped or checkpointed as [`fit_watched`](crate::fit_watched) is.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); a checkpoint that cannot be read or written, or is of another fit.
    pub fn fit_watched(
        ratings: &Ratings,
        content: Option<&Content>,
        config: &RecommenderConfig,
        watch: &Watch<'_>,
    ) -> Result<Self, HbrecError> {
        config.validate()?;
        if config.filter == Filter::ContentBased && content.is_none() {
            return Err(HbrecError::State {
                what: "filter: content-based filtering needs content of items".to_owned(),
            });
        }
        let content = content.filter(|_| config.filter != Filter::Collaborative);
        let likes = LikeMatrix::new(ratings, config.like_from)?;
        check_threshold(ratings, &likes, config.like_from)?;
        let fit = fit_watched(&likes, content, &config.of_fit(), watch)?;
        Ok(Self {
            config: *config,
            raters: (0..likes.n_items())
                .map(|item| likes.raters(item).len() as u32)
                .collect(),
            exposure: Exposure::learn(likes.n_items(), likes.users().iter().map(Likes::items))?,
            likes: likes.users().to_vec(),
            fit,
        })
    }

    /// Items, those without ratings included.
    pub fn n_items(&self) -> usize {
        self.fit.n_items()
    }

    /// Users of the database.
    pub fn n_users(&self) -> usize {
        self.likes.len()
    }

    /// The settings.
    pub fn config(&self) -> &RecommenderConfig {
        &self.config
    }

    /// What was fitted: base, point masses, weights.
    pub fn fitted(&self) -> &HbrecFit {
        &self.fit
    }

    /// How many users rated an item.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn n_raters(&self, item: usize) -> usize {
        self.raters[item] as usize
    }

    /// The same with another weight of the own model, without training: 0 is hybrid 2, infinity the base distribution alone. The settings say so: the filter is
    /// then hybrid 1 (or collaborative, as it was) with tau given.
    ///
    /// # Errors
    /// A tau that is negative or NaN.
    pub fn with_tau(mut self, tau: f64) -> Result<Self, HbrecError> {
        self.fit = self.fit.with_tau(tau)?;
        self.config.fit = *self.fit.config();
        if self.config.filter != Filter::Collaborative {
            self.config.filter = Filter::Hybrid1;
        }
        Ok(self)
    }

    /// Adds a user: one fit, a point mass of weight 1, no retraining; its number. The weights of the others stay.
    ///
    /// # Errors
    /// Unknown items; numerical trouble.
    pub fn add_user(&mut self, likes: Likes) -> Result<usize, HbrecError> {
        let user = self.fit.add_user(&likes)?;
        likes
            .items()
            .iter()
            .for_each(|&item| self.raters[item as usize] += 1);
        self.likes.push(likes);
        Ok(user)
    }

    /// Adds an item that nobody rated, by its features or by nothing; its number.
    ///
    /// # Errors
    /// Features that do not fit those of the fit.
    pub fn add_item(&mut self, features: Option<&[f64]>) -> Result<usize, HbrecError> {
        let item = self.fit.add_item(features)?;
        self.raters.push(0);
        Ok(item)
    }
}

/// Ratings of several levels that all lie on one side of the threshold: five stars read as if they were 0 and 1. Ratings of one level, nothing but likes
/// say, are ordinary data.
fn check_threshold(
    ratings: &Ratings,
    likes: &LikeMatrix,
    like_from: f64,
) -> Result<(), HbrecError> {
    let (rated, liked) = (likes.n_rated(), likes.n_liked());
    let mut values = ratings.iter().map(|entry| entry.value);
    let first = values.next();
    let alike = values.all(|value| Some(value) == first);
    if alike || (0 < liked && liked < rated) {
        return Ok(());
    }
    let kind = if liked == 0 { "none" } else { "every one" };
    Err(HbrecError::State {
        what: format!(
            "{kind} of {rated} ratings is a like with like_from = {like_from}: set it between what is liked and what is not (4 suits five stars)"
        ),
    })
}
