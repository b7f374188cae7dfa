//! Settings of labels by latent features and inputs.

use npb_infer::ranges::{self, OutOfRange, at_least};
use serde::{Deserialize, Serialize};

use crate::config::IlsvmConfig;

/// What scores see of a row beside its latent features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelInputs {
    /// Nothing: MT-iLSVM as the source has it, at its C; labels take part in the features, scores are margins.
    None,
    /// The inputs.
    Linear,
    /// Gaussian kernels of the inputs, of two widths: the median distance of rows, and a narrower one.
    Rbf,
    /// Both, weighed by held-out scores.
    #[default]
    Select,
}

/// Where a label becomes a yes, by its calibrated probability. `F` is the F1 that these probabilities of held-out rows lead to expect; the best decisions for it are
/// those above `F / 2` (Lipton, Elkan and Naryanaswamy 2014).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decisions {
    /// On the way, in log-odds, from 1/2 to the label's own `F / 2`: half of it, or less where held-out decisions of all labels together would lose more than .01
    /// of accuracy.
    #[default]
    Both,
    /// Above 1/2.
    Accuracy,
    /// Above `F / 2` of all labels together.
    F1Micro,
    /// Above the label's own `F / 2`.
    F1Macro,
}

/// Settings of [`fit`](super::fit).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelsConfig {
    /// What scores see beside latent features.
    pub inputs: LabelInputs,
    /// Where labels become yeses; not with `inputs: none`, where it is a margin above 0.
    pub decisions: Decisions,
    /// Costs C that held-out scores choose from, ascending, for rows of mean squared length 1. Larger ones are tried until the loss has risen twice. Not with
    /// `inputs: none`.
    pub costs: Vec<f64>,
    /// Number of folds.
    pub folds: usize,
    /// Rows that kernels are made of, at random; all where there are no more.
    pub landmarks: usize,
    /// Seed, latent features, slack, epsilon, class costs, the column of ones. C and what labels do to features (`cost`, `label_weight`, `label_update`,
    /// `raw_inputs`, `map`) are heard with `inputs: none` only: beside inputs, features are those of the inputs by themselves.
    pub latent: IlsvmConfig,
}

impl Default for LabelsConfig {
    fn default() -> Self {
        Self {
            inputs: LabelInputs::default(),
            decisions: Decisions::default(),
            costs: vec![0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
            folds: 10,
            landmarks: 1500,
            latent: IlsvmConfig::default(),
        }
    }
}

impl LabelsConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        self.latent.validate()?;
        at_least("folds", self.folds as u64, 2)?;
        at_least("landmarks", self.landmarks as u64, 1)?;
        at_least("costs", self.costs.len() as u64, 1)?;
        for &cost in &self.costs {
            ranges::moderate("costs", cost)?;
        }
        if let Some(pair) = self.costs.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(OutOfRange::new("costs", pair[1], "above the one before"));
        }
        Ok(())
    }
}
