//! Infinite quadratically gated mixture of experts: nonlinear classification and density estimation when features are missing.
//!
//! For numeric rows with holes in any pattern, all, some or none of them with one of two or more labels. The model finds clusters, each a Gaussian with its
//! own linear (probit) classifier, and as many of them as the data ask for; missing features are part of the inference, in training and in
//! prediction, and nothing is imputed beforehand.
//!
//! ```text
//! pi ~ stick-breaking(alpha),  z_i ~ pi,  x_i | z_i = h ~ N(mu_h, Lambda_h^-1),  y_i = sign(t_i),  t_i | z_i = h ~ N(w_h' [x_i; 1], 1)
//! ```
//!
//! with conjugate priors on `alpha, mu, Lambda, w` and on the prior of `w`. Source: C. Wang, thesis 2010, chapter 3. Model, updates, bound, prediction
//! and what differs from the source are in the repository's `docs/iqgme.md`.
//!
//! ```
//! use npb_iqgme::npb_data::{Labels, Table};
//! use npb_iqgme::{IqgmeConfig, fit};
//!
//! // Eight rows, two columns; NaN marks a hole.
//! let gap = f64::NAN;
//! let values = [
//!     -2.0, -1.9, -1.7, gap, -2.2, -2.1, -1.9, -2.3, //
//!     2.1, 1.8, gap, 2.2, 1.9, 2.0, 2.3, 1.7,
//! ];
//! let table = Table::from_nan_coded(8, 2, &values)?;
//! let labels = Labels::from_strings(&["low", "low", "low", "low", "high", "high", "high", "high"].map(Some));
//! let model = fit(&table, &labels, &IqgmeConfig::default())?;
//!
//! let new = Table::from_nan_coded(2, 2, &[2.0, gap, -2.0, -2.0])?;
//! assert_eq!(model.predict(&new)?, ["high", "low"]);
//! let imputed = model.impute(&new)?;
//! assert!(imputed.completed.get(0, 1).unwrap() > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | fit in one call | [`fit`], [`fit_unlabelled`]; watched, stopped and checkpointed [`fit_watched`], [`Watch`]; so are all fits below |
//! | settings | [`IqgmeConfig`], [`Init`], [`FeatureScale`] |
//! | questions to a fit: probabilities and intervals, clusters, densities, imputation, summaries | [`IqgmeFit`] |
//! | drive the inference: single updates, bound, stop and resume | [`IqgmeData`], [`IqgmeVb`], [`VbUpdate`], [`Bound`] |
//! | the posterior | [`IqgmeState`], [`Component`], [`Expert`], [`ExpertPrior`] |
//! | many tasks that share components and experts | [`fit_tasks`], [`fit_tasks_watched`], [`Task`], [`TasksConfig`], [`MultiTaskFit`], [`AtomSummary`]; driven by hand [`MultiTaskData`], [`MultiTaskVb`] |
//! | the exact posterior by Gibbs sampling | [`fit_gibbs`], [`GibbsFit`], [`IqgmeSampler`], [`GibbsMove`] |
//! | so many components and no more, by EM | [`fit_qgme`], [`QgmeFit`] |
//! | many features, few rows: the factor-analytic variant | [`fit_factor`], [`FactorFit`], [`FactorConfig`]; driven by hand [`FactorData`], [`FactorVb`], [`FactorVbUpdate`], [`FactorState`] |
//! | rows that lie on several machines | [`fit_shards`], [`Shards`], [`RowShard`], [`PreparedShard`], [`Asked`], [`SHARD_ROWS`] |
//! | errors | [`IqgmeError`] |

// Tests of the crate share simulations with the integration tests, which name it.
#[cfg(test)]
extern crate self as npb_iqgme;

mod answers;
mod bound;
mod config;
mod data;
mod e_step;
mod em;
mod ensemble;
mod error;
mod factor;
mod fit;
mod gibbs;
mod laplace;
mod mixture;
mod predict;
mod prior;
mod responsibilities;
mod row_state;
mod rows;
mod shards;
mod start;
mod state;
mod stats;
mod tasks;
mod units;
mod vb;

pub use answers::{ClassifierSummary, ComponentSummary, Imputation, MissingCell};
pub use bound::Bound;
pub use config::{FeatureScale, Init, IqgmeConfig};
pub use data::{IqgmeData, Task};
pub use em::{QgmeConfig, QgmeFit, fit_qgme, fit_qgme_watched};
pub use ensemble::member::Member;
pub use ensemble::questions::Fit;
pub use error::{IqgmeError, Result};
pub use factor::{
    ClusterRows, FactorBound, FactorComponent, FactorConfig, FactorData, FactorFit, FactorInit,
    FactorMember, FactorState, FactorVb, FactorVbUpdate, FeatureFactor, fit_factor,
    fit_factor_watched,
};
pub use fit::{IqgmeFit, answer_of_sample, fit, fit_shards, fit_unlabelled, fit_watched};
pub use gibbs::IqgmeSampler;
pub use gibbs::config::{GibbsConfig, GibbsMove};
pub use gibbs::fit::{GibbsChain, GibbsDraw, GibbsFit, TrainingCell, fit_gibbs, fit_gibbs_watched};
pub use gibbs::state::{DrawnComponent, GibbsParameters, GibbsState};
pub use mixture::Mixture;
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_infer::Watch;
pub use npb_infer::checkpoint::Every;
pub use npb_infer::ensemble::Calibration;
pub use npb_priors;
pub use predict::CellTerm;
pub use shards::shard::{PreparedShard, RowShard};
pub use shards::{Asked, SHARD_ROWS, Shards};
pub use state::{Component, Expert, ExpertPrior, IqgmeState};
pub use tasks::{
    AtomSummary, Gaussians, MultiTaskData, MultiTaskFit, MultiTaskState, MultiTaskVb, TaskInit,
    TaskMember, TaskState, TaskUpdate, TasksConfig, fit_tasks, fit_tasks_watched,
};
pub use vb::{IqgmeVb, VbUpdate};
