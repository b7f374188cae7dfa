//! Settings of the recommender.

use npb_infer::ranges::{OutOfRange, at_least};
use serde::{Deserialize, Serialize};

use crate::{BaseConfig, WeightsConfig};

/// Which of the chapter's methods is run; all behind one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Own model and other users, tau as [`WeightsConfig`] says.
    Hybrid1,
    /// Other users alone: tau = 0.
    Hybrid2,
    /// The user alone, on content: tau infinite, standard base.
    ContentBased,
    /// Hybrid 1 without content.
    Collaborative,
}

impl Filter {
    pub(super) fn has_atoms(self) -> bool {
        self != Self::ContentBased
    }
}

/// The base distribution of the Dirichlet process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BasePrior {
    /// Mean and low-rank covariance learned from all users.
    Learned(BaseConfig),
    /// As printed: mean zero, kernel of content and a constant, their scales by the summed evidence of users.
    Standard,
}

/// Settings of [`Recommender`](crate::Recommender).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecommenderConfig {
    /// Ratings of this or more are likes. 1 suits ratings of 0 and 1, 4 suits five stars.
    pub like_from: f64,
    /// Which method.
    pub filter: Filter,
    /// The base distribution.
    pub base: BasePrior,
    /// Share of the noise of a like that belongs to user and item for good, from 0 to 1 (`docs/hbrec.md#items`).
    pub identity: f64,
    /// Weights of other users, and tau.
    pub weights: WeightsConfig,
    /// Users with more ratings are learned from so many of them, drawn at random.
    pub max_ratings: usize,
    /// So many users stand for all; with more users than this, drawn at random.
    pub max_atoms: usize,
    /// Seed of what is drawn.
    pub seed: u64,
}

impl Default for RecommenderConfig {
    /// Likes are 1 or more, hybrid 1 on the learned base, half of the noise item identity, at most 500 ratings of a user and 10,000 atoms.
    fn default() -> Self {
        Self {
            like_from: 1.0,
            filter: Filter::Hybrid1,
            base: BasePrior::Learned(BaseConfig::default()),
            identity: 0.5,
            weights: WeightsConfig::default(),
            max_ratings: 500,
            max_atoms: 10_000,
            seed: 0,
        }
    }
}

impl RecommenderConfig {
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        if !self.like_from.is_finite() {
            return Err(OutOfRange::new("like_from", self.like_from, "finite"));
        }
        if let BasePrior::Learned(base) = &self.base {
            base.validate()?;
        }
        if !(0.0..=1.0).contains(&self.identity) {
            return Err(OutOfRange::new("identity", self.identity, "from 0 to 1"));
        }
        self.weights.validate()?;
        at_least("max_ratings", self.max_ratings as u64, 1)?;
        at_least("max_atoms", self.max_atoms as u64, 1)
    }
}
