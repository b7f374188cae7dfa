//! Settings of the recommender.

use npb_infer::ranges::OutOfRange;
use serde::{Deserialize, Serialize};

use crate::{AtomRule, BaseDistribution, DpConcentration, HbrecConfig, WeightsConfig};

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

/// Settings of [`Recommender`](crate::Recommender).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecommenderConfig {
    /// Ratings of this or more are likes: 1 suits ratings of 0 and 1, 4 suits five stars.
    pub like_from: f64,
    /// Which method.
    pub filter: Filter,
    /// Base distribution, item identity, weights; the filter has the last word on content, base and tau.
    pub fit: HbrecConfig,
}

impl Default for RecommenderConfig {
    /// Likes are 1 or more; hybrid 1.
    fn default() -> Self {
        Self {
            like_from: 1.0,
            filter: Filter::Hybrid1,
            fit: HbrecConfig::default(),
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
        self.fit.validate()
    }

    /// The settings of the fit as the filter has them.
    pub(super) fn of_fit(&self) -> HbrecConfig {
        let with_tau = |tau| WeightsConfig {
            tau: DpConcentration::Given(tau),
            ..self.fit.weights
        };
        match self.filter {
            Filter::Hybrid1 | Filter::Collaborative => self.fit,
            Filter::Hybrid2 => HbrecConfig {
                weights: with_tau(0.0),
                ..self.fit
            },
            // Point masses do not count: the cheapest will do.
            Filter::ContentBased => HbrecConfig {
                base: BaseDistribution::Standard,
                weights: WeightsConfig {
                    atoms: AtomRule::Map,
                    fitted: false,
                    ..with_tau(f64::INFINITY)
                },
                ..self.fit
            },
        }
    }
}
