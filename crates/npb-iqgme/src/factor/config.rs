//! What a user may set.

use npb_infer::VbLimits;
use npb_infer::ranges::{OutOfRange, above, at_least, gamma, moderate, not_negative, up_to};
use npb_priors::GammaPrior;
use serde::{Deserialize, Serialize};

use crate::IqgmeError;
use crate::config::{FeatureScale, MOST_COMPONENTS, MOST_RUNS, check_folds, check_length};

/// Most steps of a feature: bins are counted in bytes.
const MOST_STEPS: usize = 100;

/// Where a run starts: hard responsibilities, and the factors of the first iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorStart {
    /// K-means on the rows' principal components with this many clusters; factors of the residuals of all clusters together, used by all of them.
    Pooled(usize),
    /// The same clusters; each has factors of its own residuals, an equal share of the columns.
    Own(usize),
    /// K-means within each class (unlabelled rows join the nearest cluster), with this many clusters for each class; pooled factors.
    PerClass(usize),
    /// Rows in order of their mean square, cut into so many groups of one size: clusters that differ in spread, not in location. Pooled factors.
    BySpread(usize),
    /// The clusters of `Pooled`, and no factors, which none of the updates brings back: labels rest on clusters and on what rows say themselves.
    NoFactors(usize),
    /// One cluster, no factors, and linear effects of the features in place of steps: labels rest on a regression on values as they are in the table, standardised, moved to the range of the
    /// labelled rows, and 0 where they are missing. The sum of the effects has this prior variance, the same part of it for each feature.
    Linear(f64),
}

impl FactorStart {
    pub(crate) fn clusters(self) -> usize {
        match self {
            Self::Pooled(clusters)
            | Self::Own(clusters)
            | Self::PerClass(clusters)
            | Self::BySpread(clusters)
            | Self::NoFactors(clusters) => clusters,
            Self::Linear(_) => 1,
        }
    }

    /// What a start must be, if it is not.
    fn validate(self) -> Result<(), String> {
        if !(1..=MOST_COMPONENTS).contains(&self.clusters()) {
            return Err(format!("of 1 to {MOST_COMPONENTS} clusters"));
        }
        match self.linear().map(|variance| moderate("variance", variance)) {
            Some(Err(wrong)) => Err(format!("of a variance {}", wrong.rule)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Whether it is made for the labels' sake alone: without factors, which its run cannot get, it cannot tell how the features depend on one another.
    pub(crate) fn without_factors(self) -> bool {
        matches!(self, Self::NoFactors(_) | Self::Linear(_))
    }

    /// Prior variance of the sum of linear effects; none for runs whose features have steps.
    pub(crate) fn linear(self) -> Option<f64> {
        match self {
            Self::Linear(variance) => Some(variance),
            _ => None,
        }
    }
}

/// What a row adds to the score of its label, whatever its cluster: an effect of its spread, and steps of its features, on the model's scale. A score's noise
/// has variance 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RowEffects {
    /// Prior variance of the effect of the row's spread, the logarithm of the mean absolute value of its features, in its standard deviations over the rows
    /// of training; 0 leaves it out.
    pub spread: f64,
    /// Each feature has at most so many steps, evenly spread over the places where the values of the labelled rows change; 0 leaves them out.
    pub steps: usize,
    /// Scale of the steps: at its prior's mean a step's precision is the number of steps divided by this, so that their sum has about this variance.
    pub variance: f64,
    /// Whether [`fit_factor`](crate::fit_factor) learns `variance`: it becomes 1/16, 1/4, 1, 4 or 16 times what it is here (which is the prior's median), the one at which a run without factors foretells labels best in cross-validation, put right as runs are; what it is here without
    /// [`folds`](FactorConfig::folds), or where fewer than two classes have two rows.
    pub learn_variance: bool,
    /// Shape of the Gamma prior of each step's precision. Steps are Student-t a priori with twice as many degrees of freedom: the fewer, the fewer steps matter.
    pub shape: f64,
}

impl Default for RowEffects {
    fn default() -> Self {
        Self {
            spread: 1.0,
            steps: 19,
            variance: 4.0,
            learn_variance: true,
            shape: 0.5,
        }
    }
}

impl RowEffects {
    fn validate(&self) -> Result<(), IqgmeError> {
        if self.spread != 0.0 {
            moderate("row_effects.spread", self.spread)?;
        }
        if self.steps > 0 {
            up_to("row_effects.steps", self.steps, MOST_STEPS)?;
        }
        moderate("row_effects.variance", self.variance)?;
        moderate("row_effects.shape", self.shape)?;
        Ok(())
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
    /// `a` of the switches' weights `Beta(a/L, b(L-1)/L)`: the number of factors that a cluster has a priori, about (W 3.5.4: 1).
    pub switch_on: f64,
    /// `b` of the switches' weights (W 3.5.4: 1).
    pub switch_off: f64,
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
    /// What a row says of its label whatever its cluster.
    pub row_effects: RowEffects,
    /// Starts to try. Of the runs that may have factors the one with the highest bound comes first: summaries are of it, predictions average over runs.
    /// Those without factors come last.
    pub starts: Vec<FactorStart>,
    /// Starts to try instead when no row has a label.
    pub unlabelled_starts: Vec<FactorStart>,
    /// Runs of every start, each with its own random numbers.
    pub restarts: usize,
    /// Runs are weighed by how well they foretell labels in cross-validation with so many folds, and made as sure of their probabilities as these labels
    /// allow ([`FactorRun::sharpness`](crate::FactorRun::sharpness), [`shifts`](crate::FactorRun::shifts)); 0: weighed by their bounds, which those without factors are left out by, and left as sure as they are. So they are without labels, or where fewer than two classes have two rows.
    /// Folds are of rows: where rows depend on each other (several of one patient), leave them out. 1 is an error: one fold leaves nothing to learn from.
    pub folds: usize,
    /// How predictions average over runs that are weighed by their bounds, as [`crate::IqgmeConfig::averaging`].
    pub averaging: f64,
    /// At most this many iterations in a run. Larger sets reach it before the bound has converged; longer runs are no better at foretelling labels.
    pub max_iterations: u64,
    /// A run has converged when the bound's relative change falls below this.
    pub tolerance: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for FactorConfig {
    fn default() -> Self {
        use FactorStart::{BySpread, Linear, NoFactors, Own, PerClass, Pooled};
        Self {
            scale: FeatureScale::NormalScores,
            truncation: 20,
            max_factors: 50,
            concentration: GammaPrior {
                shape: 0.05,
                rate: 0.05,
            },
            switch_on: 1.0,
            switch_off: 1.0,
            loading: GammaPrior {
                shape: 0.1,
                rate: 0.1,
            },
            mean: GammaPrior {
                shape: 1.0,
                rate: 1.0,
            },
            noise: GammaPrior {
                shape: 1.0,
                rate: 0.1,
            },
            cluster_noise: 1.0,
            expert: GammaPrior {
                shape: 0.1,
                rate: 0.1,
            },
            expert_mean_strength: 1.0,
            row_effects: RowEffects::default(),
            starts: vec![
                Pooled(1),
                PerClass(1),
                PerClass(2),
                Own(3),
                BySpread(2),
                NoFactors(1),
                Linear(1.0),
                Linear(4.0),
            ],
            unlabelled_starts: [1, 2, 3, 4, 6].map(Own).to_vec(),
            restarts: 1,
            folds: 5,
            averaging: 0.1,
            max_iterations: 60,
            tolerance: 1e-5,
            seed: 0,
        }
    }
}

impl FactorConfig {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), IqgmeError> {
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
            ("switch_on", self.switch_on),
            ("switch_off", self.switch_off),
            ("expert_mean_strength", self.expert_mean_strength),
        ] {
            moderate(field, value)?;
        }
        above("tolerance", self.tolerance, 0.0)?;
        if self.cluster_noise != 0.0 {
            moderate("cluster_noise", self.cluster_noise)?;
        }
        self.row_effects.validate()?;
        not_negative("averaging", self.averaging)?;
        at_least("max_iterations", self.max_iterations, 1)?;
        for (field, starts) in [
            ("starts", &self.starts),
            ("unlabelled_starts", &self.unlabelled_starts),
        ] {
            check_length(field, starts.len(), "starts")?;
            for (position, start) in starts.iter().enumerate() {
                start.validate().map_err(|rule| {
                    let value = format!("{start:?} at position {position} (from 0)");
                    OutOfRange::new(field, value, rule)
                })?;
            }
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> VbLimits {
        VbLimits {
            max_iterations: self.max_iterations,
            tolerance: self.tolerance,
        }
    }

    /// `ln P(b = 1)` and `ln P(b = 0)` of a switch, its weight integrated out: odds `a / (b (L - 1))`. With one column the odds are those of two.
    pub(crate) fn ln_switch(&self) -> [f64; 2] {
        let off = self.switch_off * (self.max_factors.max(2) - 1) as f64;
        let total = self.switch_on + off;
        [(self.switch_on / total).ln(), (off / total).ln()]
    }
}
