//! Settings.

use npb_infer::ranges::{OutOfRange, at_least, gamma, up_to};
use npb_infer::{SweepPlan, VbLimits};
use npb_priors::GammaPrior;
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
}

impl Default for BaseConfig {
    /// Rank 12, own tastes, five iterations. More raise the bound and predict new users worse: independent variational laws of users and items shrink
    /// loadings more than the data ask for (`docs/hbrec.md#base`).
    fn default() -> Self {
        Self {
            rank: 12,
            content_tastes: true,
            limits: VbLimits {
                max_iterations: 5,
                tolerance: 1e-5,
            },
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
        self.limits.validate()
    }
}

/// The weight of the active user's own model in (14) of T.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DpConcentration {
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
    pub tau: DpConcentration,
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
            tau: DpConcentration::Inferred,
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
        if let DpConcentration::Given(tau) = self.tau
            && (tau.is_nan() || tau < 0.0)
        {
            return Err(OutOfRange::new("tau", tau, "0 or more"));
        }
        self.limits.validate()
    }
}

/// Where the Dirichlet process is centred.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseDistribution {
    /// Item means and a low-rank covariance, learned from all users.
    Learned(BaseConfig),
    /// As printed: mean zero and the kernel `content + constant`, scales by the summed evidence of users.
    Standard,
}

/// Settings of a fit for items ([`crate::fit`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HbrecConfig {
    /// The base distribution.
    pub base: BaseDistribution,
    /// rho: the share of the noise of a like that belongs to user and item for good.
    pub identity: f64,
    /// Weights of the users as atoms.
    pub weights: WeightsConfig,
    /// Ratings of a user beyond this number are left out of training, chosen at random.
    pub most_ratings: usize,
    /// Seed of the choice of ratings.
    pub seed: u64,
}

impl Default for HbrecConfig {
    /// The learned base, item identity 0.3, at most 500 ratings a user.
    fn default() -> Self {
        Self {
            base: BaseDistribution::Learned(BaseConfig::default()),
            identity: 0.3,
            weights: WeightsConfig::default(),
            most_ratings: 500,
            seed: 0,
        }
    }
}

impl HbrecConfig {
    /// The hybrid as the chapter prints it: standard normal base, no item identity, atoms at the mode, weights by EM, tau = 1.
    pub fn printed() -> Self {
        Self {
            base: BaseDistribution::Standard,
            identity: 0.0,
            weights: WeightsConfig {
                atoms: AtomRule::Map,
                tau: DpConcentration::Given(1.0),
                ..WeightsConfig::default()
            },
            ..Self::default()
        }
    }

    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        if let BaseDistribution::Learned(base) = &self.base {
            base.validate().map_err(|error| error.inside("base"))?;
        }
        if !(0.0..=1.0).contains(&self.identity) {
            return Err(OutOfRange::new("identity", self.identity, "from 0 to 1"));
        }
        self.weights
            .validate()
            .map_err(|error| error.inside("weights"))?;
        at_least("most_ratings", self.most_ratings as u64, 1)
    }
}

/// Settings of a fit for groups ([`crate::fit_groups`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupedConfig {
    /// When to stop learning the base distribution.
    pub limits: VbLimits,
    /// Weights of the groups as atoms.
    pub weights: WeightsConfig,
    /// Seed of the choice of groups that are left out of the base to infer tau.
    pub seed: u64,
}

impl Default for GroupedConfig {
    /// At most 100 iterations, relative change 1e-6.
    fn default() -> Self {
        Self {
            limits: VbLimits {
                max_iterations: 100,
                tolerance: 1e-6,
            },
            weights: WeightsConfig::default(),
            seed: 0,
        }
    }
}

impl GroupedConfig {
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        self.limits.validate()?;
        self.weights
            .validate()
            .map_err(|error| error.inside("weights"))
    }
}

/// One move of the sampler of the infinite model; each leaves the posterior as it is (`docs/hbrec.md#gibbs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DpMove {
    /// Escobar: each user in turn takes the parameter of another, with probability `n_k P(D_j | theta_k)`, or a draw from its own posterior, with
    /// probability `tau P(D_j)`. Conjugate models only.
    Escobar,
    /// Neal's algorithm 3: each user in turn joins a cluster with probability `n_k P(D_j | data of the cluster)`, parameters integrated out, which then are
    /// drawn anew. It mixes best, because no parameter has to suit a user before it may join; cost quadratic in users. Conjugate models only.
    Collapsed,
    /// Neal's algorithm 8: as [`Escobar`](Self::Escobar), but new parameters are so many candidates drawn from the base distribution, each with weight
    /// `tau P(D_j | theta) / components`. For any model.
    Auxiliary {
        /// Candidates, at least 1.
        components: usize,
    },
    /// Blocked: weights of clusters and the sticks beyond are drawn, then all users choose at once; a slice for each user says how many sticks are
    /// needed, so that nothing is truncated.
    Blocked,
    /// MacEachern: the parameter of each cluster is drawn given its users.
    Parameters,
    /// tau given the number of clusters.
    Concentration,
}

/// Settings of the samplers of the infinite model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DpGibbsConfig {
    /// Moves of a sweep, in order.
    pub moves: Vec<DpMove>,
    /// Prior of tau; its mean is where chains start.
    pub concentration: GammaPrior,
    /// Number of chains.
    pub chains: usize,
    /// Sweeps of each chain.
    pub sweeps: SweepPlan,
    /// Kept draws that a chain stores, evenly spread: see [`SweepPlan::is_stored`].
    pub stored_draws: u64,
    /// Seed.
    pub seed: u64,
}

impl Default for DpGibbsConfig {
    /// Algorithm 8 with 3 candidates, blocked, parameters, concentration `Gamma(1, 1/5)`; 2 chains of 200 + 400 sweeps, 100 draws stored.
    fn default() -> Self {
        Self {
            moves: vec![
                DpMove::Auxiliary { components: 3 },
                DpMove::Parameters,
                DpMove::Blocked,
                DpMove::Parameters,
                DpMove::Concentration,
            ],
            concentration: GammaPrior {
                shape: 1.0,
                rate: 0.2,
            },
            chains: 2,
            sweeps: SweepPlan {
                burn_in: 200,
                keep: 400,
                thin: 1,
            },
            stored_draws: 100,
            seed: 0,
        }
    }
}

/// Candidates of algorithm 8 are drawn anew for each user.
const MOST_COMPONENTS: usize = 1000;

impl DpGibbsConfig {
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        if self.moves.is_empty() {
            return Err(OutOfRange::new("moves", "[]", "at least one move"));
        }
        for scheduled in &self.moves {
            if let DpMove::Auxiliary { components } = scheduled {
                up_to("moves.components", *components, MOST_COMPONENTS)?;
            }
        }
        gamma("concentration", self.concentration)?;
        up_to("chains", self.chains, MOST_COMPONENTS)?;
        at_least("sweeps.keep", self.sweeps.keep, 1)?;
        at_least("stored_draws", self.stored_draws, 1)
    }
}
