//! Settings of a factor-analytic fit.

use npb_infer::VbLimits;
use npb_infer::ranges::{OutOfRange, gamma, moderate, not_negative, up_to};
use npb_priors::GammaPrior;
use serde::{Deserialize, Serialize};

use crate::config::{
    FeatureScale, MOST_COMPONENTS, MOST_RUNS, check_clusters, check_folds, check_starts,
    gamma_prior,
};

/// Where a run starts: hard responsibilities, and the factors of the first iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorInit {
    /// K-means on the rows' principal components with this many clusters; factors of the residuals of all clusters together, used by all of them.
    Pooled(usize),
    /// The same clusters; each has factors of its own residuals, an equal share of the columns.
    Own(usize),
    /// K-means within each class (unlabelled rows join the nearest cluster), with this many clusters for each class; pooled factors.
    PerClass(usize),
}

impl FactorInit {
    pub(crate) fn clusters(self) -> usize {
        let (Self::Pooled(clusters) | Self::Own(clusters) | Self::PerClass(clusters)) = self;
        clusters
    }
}

/// Configuration of a factor-analytic fit. Gamma priors are (shape, rate) and in units of the features' scale inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FactorConfig {
    /// The scale of the features.
    pub scale: FeatureScale,
    /// Largest number of clusters, `N`.
    pub truncation: usize,
    /// Number of columns of the loadings, `L`: the largest dimension of a cluster (W 3.5.4: 50).
    pub max_factors: usize,
    /// Prior of the concentration `alpha`.
    pub concentration: GammaPrior,
    /// `a` of the indicators' weights `Beta(a/L, b(L-1)/L)`: the number of factors that a cluster has a priori, about (W 3.5.4: 1).
    pub indicator_on: f64,
    /// `b` of the indicators' weights (W 3.5.4: 1).
    pub indicator_off: f64,
    /// Prior of `gamma_l`, the precision of a column of the loadings in units of the noise.
    pub loading: GammaPrior,
    /// Prior of `u`, the precision of the clusters' means in units of the noise.
    pub mean: GammaPrior,
    /// `Gamma(e_0, f_0)`, prior of the features' noise precisions `psi_p`.
    pub noise: GammaPrior,
    /// Shape and rate of the Gamma prior of `kappa_h`, a cluster's noise precision relative to that of the features; 0 fixes all `kappa_h` at 1.
    pub cluster_noise: f64,
    /// Prior of the experts' precisions `lambda_l`.
    pub expert: GammaPrior,
    /// `gamma_0`: how many experts the prior mean (zero) of the experts' common mean is worth.
    pub expert_mean_strength: f64,
    /// Starts to try. The run with the highest bound comes first: summaries are of it, predictions average over runs.
    pub starts: Vec<FactorInit>,
    /// Starts to try instead when no row has a label.
    pub unlabelled_starts: Vec<FactorInit>,
    /// Runs of every start, each with its own random numbers.
    pub restarts: usize,
    /// Runs are calibrated and weighed (stacked) by held-out prediction with so many folds; 0: weighed by their bounds and not calibrated. So they are without labels, or
    /// where fewer than two classes have two rows.
    /// Folds are of rows: where rows depend on each other (several of one patient), leave them out. 1 is an error: one fold leaves nothing to learn from.
    pub folds: usize,
    /// How predictions average over runs that are weighed by their bounds, as [`crate::IqgmeConfig::elbo_temperature`].
    pub elbo_temperature: f64,
    /// When a run ends. Larger sets make all iterations before the bound has converged; longer runs predict labels no better.
    pub limits: VbLimits,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for FactorConfig {
    fn default() -> Self {
        use FactorInit::{Own, PerClass, Pooled};
        Self {
            scale: FeatureScale::NormalScores,
            truncation: 20,
            max_factors: 50,
            concentration: gamma_prior(0.05, 0.05),
            indicator_on: 1.0,
            indicator_off: 1.0,
            loading: gamma_prior(0.1, 0.1),
            mean: gamma_prior(1.0, 1.0),
            noise: gamma_prior(1.0, 0.1),
            cluster_noise: 1.0,
            expert: gamma_prior(0.1, 0.1),
            expert_mean_strength: 1.0,
            starts: vec![Pooled(1), PerClass(1), PerClass(2), Own(3)],
            unlabelled_starts: [1, 2, 3, 4, 6].map(Own).to_vec(),
            restarts: 1,
            folds: 5,
            elbo_temperature: 0.1,
            limits: VbLimits {
                max_iterations: 60,
                tolerance: 1e-5,
            },
            seed: 0,
        }
    }
}

impl FactorConfig {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        up_to("truncation", self.truncation, MOST_COMPONENTS)?;
        up_to("max_factors", self.max_factors, MOST_COMPONENTS)?;
        up_to("restarts", self.restarts, MOST_RUNS)?;
        check_folds(self.folds)?;
        for (field, prior) in [
            ("concentration", self.concentration),
            ("loading", self.loading),
            ("mean", self.mean),
            ("noise", self.noise),
            ("expert", self.expert),
        ] {
            gamma(field, prior)?;
        }
        for (field, value) in [
            ("indicator_on", self.indicator_on),
            ("indicator_off", self.indicator_off),
            ("expert_mean_strength", self.expert_mean_strength),
        ] {
            moderate(field, value)?;
        }
        if self.cluster_noise != 0.0 {
            moderate("cluster_noise", self.cluster_noise)?;
        }
        not_negative("elbo_temperature", self.elbo_temperature)?;
        self.limits.validate()?;
        let rule = |start: FactorInit| check_clusters(start.clusters());
        check_starts("starts", &self.starts, rule)?;
        let unlabelled = &self.unlabelled_starts;
        check_starts("unlabelled_starts", unlabelled, rule)
    }

    /// `ln P(b = 1)` and `ln P(b = 0)` of a indicator, its weight integrated out: odds `a / (b (L - 1))`. With one column the odds are those of two.
    pub(crate) fn ln_indicator(&self) -> [f64; 2] {
        let off = self.indicator_off * (self.max_factors.max(2) - 1) as f64;
        let total = self.indicator_on + off;
        [(self.indicator_on / total).ln(), (off / total).ln()]
    }
}
