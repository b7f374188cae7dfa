//! How entries come from latent values.

use serde::{Deserialize, Serialize};

/// How an entry comes from its latent value `x_ij`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Likelihood {
    /// `y ~ N(x, 1 / noise_precision)`.
    Gaussian,
    /// Levels 1, ..., L: `y = l` when `x + e`, e standard normal, lies between threshold l - 1 and threshold l; the first threshold is 0.
    Ordinal {
        /// L, at least 2.
        levels: u32,
    },
    /// 0 or 1: `P(y = 1) = Phi(x)`.
    Binary,
    /// Successes among a number of trials, each of probability `Phi(x)`. What is predicted of a cell is the rate of successes.
    Binomial,
}

impl Likelihood {
    /// Whether latent values are seen through a link; then the units of the model are those of the link and the noise precision is 1.
    pub(crate) fn is_probit(self) -> bool {
        self != Self::Gaussian
    }

    /// Number of thresholds, the fixed one included.
    pub(crate) fn n_thresholds(self) -> usize {
        match self {
            Self::Ordinal { levels } => levels as usize - 1,
            _ => 0,
        }
    }
}
