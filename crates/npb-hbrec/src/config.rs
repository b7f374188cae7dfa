//! What a user may set.

use npb_infer::VbLimits;
use npb_infer::ranges::{OutOfRange, at_least, not_negative, up_to};
use serde::{Deserialize, Serialize};

use crate::AtomRule;

/// Settings of the learned base distribution (`docs/hbrec.md#base`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BaseConfig {
    /// Most loadings an item can have; those that the users do not ask for shrink away and are dropped.
    pub rank: usize,
    /// Whether users have tastes of their own in content, apart from the loadings (which follow content as well).
    pub content_tastes: bool,
    /// When to stop.
    pub limits: VbLimits,
    /// Seed of the start.
    pub seed: u64,
}

impl Default for BaseConfig {
    /// Rank 12, own tastes, at most 60 iterations, relative change of the bound 1e-5.
    fn default() -> Self {
        Self {
            rank: 12,
            content_tastes: true,
            limits: VbLimits {
                max_iterations: 60,
                tolerance: 1e-5,
            },
            seed: 0,
        }
    }
}

/// Memory of a user grows with the square of this.
const MOST_RANK: usize = 256;

impl BaseConfig {
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        if self.rank > 0 {
            up_to("rank", self.rank, MOST_RANK)?;
        }
        check_limits(&self.limits)
    }
}

fn check_limits(limits: &VbLimits) -> Result<(), OutOfRange> {
    at_least("limits.max_iterations", limits.max_iterations, 1)?;
    not_negative("limits.tolerance", limits.tolerance)
}

/// The weight of the active user's own model in (14) of T.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concentration {
    /// tau, not negative: 0 is hybrid 2 of T; infinity is every user alone.
    Given(f64),
    /// The maximum of the users' likelihood, each with its own atom left out.
    Inferred,
}

/// Settings of the weights of point masses (`docs/hbrec.md#weights`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WeightsConfig {
    /// Which point of a user's posterior is its atom.
    pub atoms: AtomRule,
    /// The weight of the own model.
    pub tau: Concentration,
    /// Whether the weights of atoms are fitted; otherwise all are 1 (the one-step form).
    pub fitted: bool,
    /// When to stop: relative change of J.
    pub limits: VbLimits,
}

impl Default for WeightsConfig {
    /// Means, tau inferred, fitted weights, at most 200 iterations, relative change 1e-7.
    fn default() -> Self {
        Self {
            atoms: AtomRule::Mean,
            tau: Concentration::Inferred,
            fitted: true,
            limits: VbLimits {
                max_iterations: 200,
                tolerance: 1e-7,
            },
        }
    }
}

impl WeightsConfig {
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        if let Concentration::Given(tau) = self.tau
            && !(tau >= 0.0)
        {
            return Err(OutOfRange::new("tau", tau, "0 or more"));
        }
        check_limits(&self.limits)
    }
}
