//! Large-margin learning with nonparametric latent features: iLSVM, multi-task iLSVM and MedLDA, by regularised Bayesian inference.
//!
//! For labels that are predicted *through* latent features whose number nobody has to choose, from tables with holes.
//!
//! ```text
//! min_q  KL(q || prior) - E_q ln p(X | Z, W) + sum_n C_n loss(y_n, E_q f(x_n))
//!
//! X ~ Z W' + noise,   Z ~ Indian buffet process
//! iLSVM     f_y(x_n) = eta_y' z_n          rows have features
//! MT-iLSVM  f_m(x_n) = eta_m' Z' x_n       input columns have features: one projection for all tasks
//! ```
//!
//! Source: Zhu, Chen and Xing, JMLR 15 (2014). Models, updates and what differs from the source are in the repository's `docs/regbayes.md`.
//!
//! ```
//! use npb_regbayes::npb_data::{Labels, Table};
//! use npb_regbayes::tasks::{Task, TaskData};
//! use npb_regbayes::{IlsvmConfig, MtIlsvmConfig, Saved, classes, tasks};
//!
//! // Rows of three kinds, with holes; the last ten have no label.
//! let value = |n: usize, d: usize| match (n + 2 * d) % 11 {
//!     0 => f64::NAN,
//!     noise => f64::from(u8::from(n % 3 == d % 3)) * 2.0 + noise as f64 / 20.0,
//! };
//! let inputs = Table::from_nan_coded(70, 6, &(0..420).map(|k| value(k / 6, k % 6)).collect::<Vec<_>>())?;
//! let kind = |n: usize| (n < 60).then_some(["left", "middle", "right"][n % 3]);
//! let labels = Labels::from_strings(&(0..70).map(kind).collect::<Vec<_>>());
//!
//! // Classes through features of rows.
//! let model = classes::fit(&inputs, &labels, &IlsvmConfig::default())?;
//! assert_eq!(model.classes()[model.scores().class(66)], "left");
//! assert!(model.state().features_in_use() < 20);
//!
//! // Two labels over one projection of the inputs.
//! let label = |m: usize| Task::label(format!("not {m}"), &(0..70).map(|n| (n < 60).then_some(n % 3 != m)).collect::<Vec<_>>());
//! let data = TaskData::new(inputs.clone(), vec![label(0), label(1)])?;
//! let model = tasks::fit(&data, &MtIlsvmConfig::default())?;
//! let found = model.predict(&inputs)?.labels(0).ok_or("a label")?;
//! assert!(!found[66] && found[67] && found[68]);
//! let most_used = &model.features()[0];                 // which inputs it sums, which labels it drives
//! assert!(most_used.expected_use >= 1.0);
//! assert_eq!(npb_regbayes::MtIlsvmFit::from_bytes(&model.to_bytes()?)?, model);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | classes through features of rows (iLSVM) | [`classes::fit`], [`IlsvmConfig`], [`IlsvmFit`], [`classes::ClassScores`] |
//! | many tasks or labels over one projection (MT-iLSVM) | [`tasks::fit`], [`MtIlsvmConfig`], [`MtIlsvmFit`], [`tasks::TaskData`], [`tasks::Task`], [`tasks::TaskScores`] |
//! | labels and numbers by features, inputs and kernels, weighed by held-out scores | [`labels::fit`], [`LabelsConfig`], [`LabelsFit`], [`labels::Member`], [`labels::LabelNote`] |
//! | C and thresholds by cross-validation | [`tasks::fit_selected`], [`tasks::cross_validate`], [`tasks::Validation`], [`tasks::HeldOut`] |
//! | watched, stopped, resumed | [`classes::fit_watched`], [`tasks::fit_watched`] |
//! | driven by hand | [`classes::IlsvmVb`], [`tasks::MtIlsvmVb`], [`classes::PreparedClasses`], [`tasks::PreparedTasks`] |
//! | the latent features | [`FeatureConfig`], [`FeatureState`], [`Spread`], [`FeatureReport`], [`Columns`] |
//! | a sampler as their check | [`IbpSampler`], [`IbpGibbsConfig`], [`IbpMove`], [`IbpDraw`] |
//! | topics that predict (MedLDA; LDA, LDA + SVM) | [`topics::fit`], [`topics::fit_watched`], [`MedLdaConfig`], [`MedLdaFit`], [`Response`], [`topics::cross_validate`], [`MedLdaVb`] |
//! | the principle by itself | [`principle::FiniteSpace`], [`principle::GaussianFactor`], [`principle::Constraint`], [`principle::Penalty`] |
//! | C of anything by cross-validation; non-linear inputs | [`select_cost`], [`Selection`]; [`InputMap`], [`MapConfig`] |
//! | max-margin machine | [`Machine`], [`Problem`], [`Targets`], [`Slack`], [`Inputs`], [`Solution`], [`MachineLimits`] |
//! | keep in a file (its format: [`npb_infer::storage`]) | [`Saved`] |
//! | errors | [`RegBayesError`] |

mod alternate;
pub mod classes;
mod columns;
mod config;
mod dense;
mod error;
mod factors;
mod fit;
mod inputs;
pub mod labels;
mod loss;
mod machine;
mod prepared;
pub mod principle;
mod select;
mod state;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod topics;
mod vb;

pub use classes::IlsvmFit;
pub use columns::Columns;
pub use config::{
    ClassCosts, FeatureConfig, IbpConcentration, IlsvmConfig, LabelUpdate, LoadingCovariance,
    MtIlsvmConfig, Start, Variance,
};
pub use error::RegBayesError;
pub use factors::gibbs::{IbpDraw, IbpGibbsConfig, IbpMove, IbpSampler};
pub use fit::FeatureReport;
pub use inputs::{InputMap, Inputs, MapConfig};
pub use labels::{LabelsConfig, LabelsFit};
pub use loss::{Slack, Targets};
pub use machine::{Machine, MachineLimits, MachineStop, Problem, Solution};
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_linalg;
pub use npb_priors;
pub use select::{Selection, select_cost};
pub use state::{FeatureState, Spread};
pub use tasks::MtIlsvmFit;
pub use topics::{Form, MedLdaConfig, MedLdaFit, MedLdaVb, Response, Supervision, TopWord};
