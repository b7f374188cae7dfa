//! Settings of MedLDA.

use npb_infer::VbLimits;
use npb_infer::ranges::{self, OutOfRange};
use serde::{Deserialize, Serialize};

use crate::loss::Slack;
use crate::machine::MachineLimits;

/// Whether topics know of the responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supervision {
    /// MedLDA: topics, document proportions and the machine are fitted together.
    Joint,
    /// LDA + SVM: topics are fitted to the words alone, the machine to what they say.
    TwoStage,
}

/// What a real response is to the model; classes are always partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Nothing but the constraints: responses have no likelihood.
    Partial,
    /// `y_n ~ N(eta' zbar_n, delta^2)` besides: supervised LDA with constraints.
    Full,
}

/// How a MedLDA model is fitted.
///
/// ```
/// use npb_regbayes::MedLdaConfig;
/// let config = MedLdaConfig { topics: 10, cost: 16.0, ..MedLdaConfig::default() };
/// assert!(config.validate().is_ok());
/// assert!(MedLdaConfig { topics: 0, ..config }.validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MedLdaConfig {
    /// Seed of all randomness.
    pub seed: u64,
    /// Number of topics, K.
    pub topics: usize,
    /// Parameter of the symmetric Dirichlet prior of topic proportions, where learning starts.
    pub alpha: f64,
    /// Whether that parameter is learned.
    pub learn_alpha: bool,
    /// Parameter of the symmetric Dirichlet prior of topics over words.
    pub word_prior: f64,
    /// C, cost of a unit of missing margin; for real responses in units of their standard deviation.
    pub cost: f64,
    /// How a missing margin counts.
    pub slack: Slack,
    /// Half the width of the band in which an error of a real response costs nothing, in standard deviations.
    pub epsilon: f64,
    /// Margin asked for between the true class and the others.
    pub margin: f64,
    /// Likelihood of real responses, or none.
    pub form: Form,
    /// Joint, or in two stages.
    pub supervision: Supervision,
    /// Most updates of a document's proportions in one iteration, and in folding in.
    pub inner_iterations: usize,
    /// Change of proportions, as a share of the document, at which its updates end.
    pub inner_tolerance: f64,
    /// When the run ends.
    pub limits: VbLimits,
    /// When the machine is good enough.
    pub machine: MachineLimits,
}

impl Default for MedLdaConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            topics: 20,
            alpha: 0.1,
            learn_alpha: true,
            word_prior: 0.01,
            cost: 1.0,
            slack: Slack::Linear,
            epsilon: 0.1,
            margin: 1.0,
            form: Form::Partial,
            supervision: Supervision::Joint,
            inner_iterations: 10,
            inner_tolerance: 1e-3,
            limits: VbLimits {
                max_iterations: 60,
                tolerance: 1e-5,
            },
            machine: MachineLimits::default(),
        }
    }
}

/// Below this the logarithms of proportions leave the range of `exp`.
const LEAST_PRIOR: f64 = 1e-3;
const MOST_PRIOR: f64 = 1e10;
const MOST_TOPICS: usize = 4096;

impl MedLdaConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        ranges::up_to("topics", self.topics, MOST_TOPICS)?;
        for (field, value) in [("alpha", self.alpha), ("word_prior", self.word_prior)] {
            if !(LEAST_PRIOR..=MOST_PRIOR).contains(&value) {
                let rule = format!("from {LEAST_PRIOR} to {MOST_PRIOR:e}");
                return Err(OutOfRange::new(field, value, rule));
            }
        }
        ranges::not_negative("cost", self.cost)?;
        ranges::not_negative("epsilon", self.epsilon)?;
        ranges::above("margin", self.margin, 0.0)?;
        ranges::at_least("inner_iterations", self.inner_iterations as u64, 1)?;
        ranges::not_negative("inner_tolerance", self.inner_tolerance)?;
        self.limits.validate()?;
        self.machine.validate().map_err(|e| e.inside("machine"))
    }
}
