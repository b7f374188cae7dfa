//! Settings of iLSVM and MT-iLSVM.

use npb_infer::VbLimits;
use npb_infer::ranges::{self, OutOfRange, at_least, not_negative, up_to};
use npb_priors::GammaPrior;
use serde::{Deserialize, Serialize};

use crate::inputs::MapConfig;
use crate::loss::Slack;
use crate::machine::MachineLimits;

/// More features than any machine would bear.
const MOST_FEATURES: usize = 4096;

/// A variance that is learned, or known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variance {
    /// The value that maximises the bound: R (29) and (35) for loadings, (30) and (36) for noise.
    Learned,
    /// This value, in standard units (inputs have variance 1).
    Fixed(f64),
}

/// The concentration alpha of the Indian buffet process: how many features an item has on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IbpConcentration {
    /// The value that maximises bound plus log prior.
    Learned {
        /// Gamma prior of alpha.
        prior: GammaPrior,
    },
    /// This value.
    Fixed(f64),
}

/// Form of the covariance of `q(w_j)`, the loadings of one observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadingCovariance {
    /// K x K, the same for all observations (R 25, corrected); where there are holes, diagonal.
    Full,
    /// A variance for each loading.
    Diagonal,
    /// One variance for all loadings of an observation, R (25): the paper's, and fit only for K below the number of observed entries.
    Isotropic,
}

/// Where the indicators start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Two features for each leading singular direction, one for its positive and one for its negative part, with normal noise of this standard
    /// deviation on the log-odds.
    SignedSvd {
        /// Standard deviation of the noise.
        noise: f64,
    },
    /// `psi = 1/2` with the same noise: R, Algorithm 3. Near a symmetric saddle; kept for comparison.
    Even {
        /// Standard deviation of the noise.
        noise: f64,
    },
}

/// The latent-feature posterior of `X ~ Z W'`, shared by both models.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeatureConfig {
    /// Features to start with, K. Few that grow end at a lower objective than many that are pruned.
    pub truncation: usize,
    /// Features never grow beyond this number.
    pub max_truncation: usize,
    /// Features that are tried when all are in use, or a quarter of those there are if that is more; 0: never.
    pub growth: usize,
    /// Concentration of the Indian buffet process.
    pub concentration: IbpConcentration,
    /// Variance of the noise around `Z W'`.
    pub noise_variance: Variance,
    /// Prior variance of loadings.
    pub loading_variance: Variance,
    /// Covariance of `q(W)`.
    pub covariance: LoadingCovariance,
    /// Weight of the log-likelihood of the inputs; 1 counts each input once, however many labels share it. R's notation counts it once for each
    /// label.
    pub input_weight: f64,
    /// Sweeps without labels before labels are looked at: what the two-stage comparator (IBP + SVM) stops after.
    pub warm_up: u64,
    /// Where the indicators start.
    pub start: Start,
}

impl Default for FeatureConfig {
    fn default() -> Self {
        Self {
            truncation: 10,
            max_truncation: 300,
            growth: 5,
            concentration: IbpConcentration::Learned {
                prior: GammaPrior {
                    shape: 1.0,
                    rate: 1.0,
                },
            },
            noise_variance: Variance::Learned,
            loading_variance: Variance::Learned,
            covariance: LoadingCovariance::Full,
            input_weight: 1.0,
            warm_up: 20,
            start: Start::SignedSvd { noise: 0.5 },
        }
    }
}

impl FeatureConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        up_to("max_truncation", self.max_truncation, MOST_FEATURES)?;
        up_to("truncation", self.truncation, self.max_truncation)?;
        if self.growth > MOST_FEATURES {
            return Err(OutOfRange::new("growth", self.growth, "at most 4096"));
        }
        match self.concentration {
            IbpConcentration::Learned { prior } => ranges::gamma("concentration.prior", prior)?,
            IbpConcentration::Fixed(alpha) => ranges::moderate("concentration", alpha)?,
        }
        for (field, variance) in [
            ("noise_variance", self.noise_variance),
            ("loading_variance", self.loading_variance),
        ] {
            if let Variance::Fixed(value) = variance {
                ranges::moderate(field, value)?;
            }
        }
        ranges::moderate("input_weight", self.input_weight)?;
        let (Start::SignedSvd { noise } | Start::Even { noise }) = self.start;
        not_negative("start.noise", noise)
    }
}

/// How indicators learn from labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelUpdate {
    /// A sweep of the Lagrangian (R (27), (33)) is a proposal; the machine is solved again, warm; what does not lower the objective is halved.
    Profiled,
    /// Not at all: features are those of the inputs alone, and the machine is trained once (IBP + SVM, MT-IBP + SVM).
    TwoStage,
}

/// What an error costs for the different classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassCosts {
    /// The same for every row.
    #[default]
    Equal,
    /// Inversely proportional to the number of rows of the class, mean 1 over rows.
    Balanced,
}

/// Settings of iLSVM and MT-iLSVM: the second is the first transposed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IlsvmConfig {
    /// Seed of everything random.
    pub seed: u64,
    /// Outer iterations.
    pub limits: VbLimits,
    /// The latent features: of rows (iLSVM), or of *input columns*, where rows have loadings (MT-iLSVM).
    pub factors: FeatureConfig,
    /// Cost C of a unit of missing margin (or of error beyond epsilon); 0: labels are ignored, all scores are 0.
    pub cost: f64,
    /// Weight of what labels say beside what inputs say of the features: prior precision of `eta`, in whose units C is. R has 1. In iLSVM a label then moves the
    /// features of its own row to where they fit it, which rows without a label cannot do, and these are predicted worse than without any pull of labels.
    pub label_weight: f64,
    /// How missing margins count.
    pub slack: Slack,
    /// Half the width of the band without cost around a real target, in standard deviations of the targets. Classes and labels have none.
    pub epsilon: f64,
    /// How indicators learn from labels.
    pub label_update: LabelUpdate,
    /// Sweeps over loadings and indicators between two updates of scales and features in use.
    pub inner_sweeps: u64,
    /// How well the machine is solved at the start and at the end.
    pub machine: MachineLimits,
    /// Classes that count alike, or rows; each binary task by itself.
    pub class_costs: ClassCosts,
    /// Number in the machine's column of ones: its weight is the bias.
    pub ones: f64,
    /// Inputs appended to the features (the paper's superscript f, footnote 8), in standard units times this scale; 0: none.
    pub raw_inputs: f64,
    /// A non-linear map that appended inputs are seen through: machines then see what a Gaussian kernel sees, beside the features. Mapped rows are as long as
    /// rows of inputs are, times `raw_inputs`.
    pub map: Option<MapConfig>,
}

/// Settings of an MT-iLSVM.
pub type MtIlsvmConfig = IlsvmConfig;

impl Default for IlsvmConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            limits: VbLimits {
                max_iterations: 50,
                tolerance: 1e-6,
            },
            factors: FeatureConfig::default(),
            cost: 1.0,
            label_weight: 0.1,
            slack: Slack::Linear,
            epsilon: 0.1,
            label_update: LabelUpdate::Profiled,
            inner_sweeps: 10,
            machine: MachineLimits::default(),
            class_costs: ClassCosts::Equal,
            ones: 1.0,
            raw_inputs: 0.0,
            map: None,
        }
    }
}

impl IlsvmConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        self.factors.validate().map_err(|e| e.inside("factors"))?;
        self.limits.validate()?;
        at_least("inner_sweeps", self.inner_sweeps, 1)?;
        self.machine.validate().map_err(|e| e.inside("machine"))?;
        ranges::moderate("label_weight", self.label_weight)?;
        for (field, value) in [
            ("epsilon", self.epsilon),
            ("cost", self.cost),
            ("ones", self.ones),
            ("raw_inputs", self.raw_inputs),
        ] {
            not_negative(field, value)?;
        }
        Ok(())
    }
}
