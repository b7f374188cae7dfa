//! Settings of a fit of one table.

use std::fmt::Debug;

use npb_infer::VbLimits;
use npb_infer::ranges::{OutOfRange, above, gamma, moderate, not_negative, up_to};
use npb_priors::GammaPrior;
use serde::{Deserialize, Serialize};

/// Memory and time grow with the number of components; nobody needs more.
pub(crate) const MOST_COMPONENTS: usize = 4096;
/// Starts, restarts or chains: all of them are kept.
pub(crate) const MOST_RUNS: usize = 4096;
/// Most folds of a configuration.
const MOST_FOLDS: usize = 100;
/// More degrees of freedom than there could be rows.
const MOST_DOF: f64 = 1e10;

/// Where a run starts: the responsibilities of the first iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// K-means on the completed rows of all classes together, with this many clusters.
    KMeans(usize),
    /// K-means within each class (unlabelled rows join the nearest cluster), with this many clusters for each class.
    PerClass(usize),
    /// The components of a mixture fitted to the features alone, itself started from k-means with this many clusters.
    Mixture(usize),
}

impl Init {
    pub(crate) fn clusters(self) -> usize {
        let (Self::KMeans(clusters) | Self::PerClass(clusters) | Self::Mixture(clusters)) = self;
        clusters
    }
}

/// The scale on which features are modelled as normal in each cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureScale {
    /// Their own, standardised.
    Standardised,
    /// Normal scores of their ranks in training, standardised: heavy tails and outliers lose their weight. Only the order of a feature's values matters.
    NormalScores,
}

impl FeatureScale {
    /// Both, in the order of what is by scale.
    pub(crate) const ALL: [Self; 2] = [Self::Standardised, Self::NormalScores];

    /// Its place in what is by scale.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// Configuration of a fit. Where the default is not that of W section 3.5 the field says so (W: ..); why is in
/// `docs/iqgme-defaults.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IqgmeConfig {
    /// Largest number of components, `N` of the variational family.
    pub truncation: usize,
    /// Prior of the concentration `alpha`.
    pub concentration: GammaPrior,
    /// `u_0`: how many rows the prior mean of a component is worth (W: 0.1).
    pub mean_strength: f64,
    /// Degrees of freedom of the Wishart prior: `nu_0 = P + dof_excess + dof_per_feature P`; `dof_excess` more than 1 (W: 2).
    pub dof_excess: f64,
    /// Further degrees of freedom for each feature (W: 0): with few rows for each feature, components need a prior worth more than one row.
    pub dof_per_feature: f64,
    /// Prior of the experts' precisions `lambda_p` (W: 0.01, 0.01).
    pub expert: GammaPrior,
    /// `gamma_0`: how many experts the prior mean (zero) of the experts' common mean is worth.
    pub expert_mean_strength: f64,
    /// Starts to try. The run with the highest bound comes first: summaries are of it, predictions average over runs.
    pub starts: Vec<Init>,
    /// Starts to try instead when no row has a label: runs lose clusters but seldom gain one, so k-means with several numbers of clusters, of which the bound
    /// picks.
    pub unlabelled_starts: Vec<Init>,
    /// Runs of every start, each with its own random numbers.
    pub restarts: usize,
    /// Whether runs from `starts` are made on normal scores of the features, too ([`FeatureScale::NormalScores`]), for class probabilities alone: where folds can weigh them, and where a
    /// feature has more than two values. They help where features are skewed or have heavy tails; a fit takes twice as long.
    pub normal_scores: bool,
    /// How predictions average over runs: weights proportional to `exp((L - L_best) / (elbo_temperature c))`, with `L` a run's bound and `c` the number of
    /// observed cells; 0 keeps the best run alone. Runs end in different optima, and differences of the bound that are small for each cell say little
    /// about which of them predicts better.
    pub elbo_temperature: f64,
    /// In class probabilities runs are calibrated and weighed (stacked) by held-out prediction with so many folds; 0: weighed by their bounds, as in all
    /// else, and not calibrated. Nearly all of the bound is about the features. Where fewer than two classes have two labels bounds decide, too. Folds are of rows: where rows depend on each other (several
    /// of one patient), leave them out. 1 is an error: one fold leaves nothing to learn from.
    pub folds: usize,
    /// When a run ends.
    pub limits: VbLimits,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for IqgmeConfig {
    fn default() -> Self {
        Self {
            truncation: 20,
            concentration: gamma_prior(0.05, 0.05),
            mean_strength: 1.0,
            dof_excess: 2.0,
            dof_per_feature: 0.25,
            expert: gamma_prior(0.1, 0.1),
            expert_mean_strength: 1.0,
            starts: vec![
                Init::KMeans(1),
                Init::PerClass(1),
                Init::PerClass(2),
                Init::Mixture(10),
            ],
            unlabelled_starts: [1, 2, 3, 4, 5, 6, 8, 12].map(Init::KMeans).to_vec(),
            restarts: 1,
            normal_scores: true,
            elbo_temperature: 0.1,
            folds: 5,
            limits: VbLimits {
                max_iterations: 300,
                tolerance: 1e-6,
            },
            seed: 0,
        }
    }
}

impl IqgmeConfig {
    /// Where runs start, by whether there are labels.
    pub(crate) fn starts_for(&self, n_labelled: usize) -> &[Init] {
        match n_labelled {
            0 => &self.unlabelled_starts,
            _ => &self.starts,
        }
    }

    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        up_to("truncation", self.truncation, MOST_COMPONENTS)?;
        up_to("restarts", self.restarts, MOST_RUNS)?;
        gamma("concentration", self.concentration)?;
        moderate("mean_strength", self.mean_strength)?;
        above("dof_excess", self.dof_excess, 1.0)?;
        not_negative("dof_per_feature", self.dof_per_feature)?;
        for (field, value) in [
            ("dof_excess", self.dof_excess),
            ("dof_per_feature", self.dof_per_feature),
        ] {
            if value > MOST_DOF {
                let (value, rule) = (format!("{value:?}"), format!("at most {MOST_DOF:e}"));
                return Err(OutOfRange::new(field, value, rule));
            }
        }
        not_negative("elbo_temperature", self.elbo_temperature)?;
        check_folds(self.folds)?;
        gamma("expert", self.expert)?;
        moderate("expert_mean_strength", self.expert_mean_strength)?;
        self.limits.validate()?;
        let rule = |start: Init| check_clusters(start.clusters());
        check_starts("starts", &self.starts, rule)?;
        let unlabelled = &self.unlabelled_starts;
        check_starts("unlabelled_starts", unlabelled, rule)
    }
}

pub(crate) fn gamma_prior(shape: f64, rate: f64) -> GammaPrior {
    GammaPrior { shape, rate }
}

/// A list of starts: not empty, and each as it must be, which `rule` tells of one that is not.
pub(crate) fn check_starts<I: Copy + Debug>(
    field: &'static str,
    starts: &[I],
    rule: impl Fn(I) -> Result<(), String>,
) -> Result<(), OutOfRange> {
    check_length(field, starts.len(), "starts")?;
    let mut each = starts.iter().enumerate();
    each.try_for_each(|(position, &start)| {
        let value = || format!("{start:?} at position {position} (from 0)");
        rule(start).map_err(|rule| OutOfRange::new(field, value(), rule))
    })
}

/// Clusters that a start may have; else the rule.
pub(crate) fn check_clusters(clusters: usize) -> Result<(), String> {
    if (1..=MOST_COMPONENTS).contains(&clusters) {
        return Ok(());
    }
    Err(format!("of 1 to {MOST_COMPONENTS} clusters"))
}

/// The length of a list of `items`.
pub(crate) fn check_length(
    field: &'static str,
    found: usize,
    items: &str,
) -> Result<(), OutOfRange> {
    if (1..=MOST_RUNS).contains(&found) {
        return Ok(());
    }
    let rule = format!("a list of 1 to {MOST_RUNS} {items}");
    Err(OutOfRange::new(field, format!("a list of {found}"), rule))
}

/// A number of folds that a configuration may have.
pub(crate) fn check_folds(folds: usize) -> Result<(), OutOfRange> {
    if folds == 1 || folds > MOST_FOLDS {
        let rule = format!("0 (runs are weighed by their bounds) or 2 to {MOST_FOLDS}");
        return Err(OutOfRange::new("folds", folds, rule));
    }
    Ok(())
}
