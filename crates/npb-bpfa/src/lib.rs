//! Factor analysis and dictionary learning with the beta process, for incomplete images and matrices.
//!
//! For matrices with holes whose rows are sums of a few patterns: patches of images of which pixels are noisy or missing, tables, ratings. The patterns are
//! learned from the incomplete rows themselves; neither the noise level nor the number of patterns, nor how many a row uses, needs to be known.
//!
//! ```text
//! y_i = D (z_i * s_i) + e_i,   d_k ~ N(0, I/P),   z_ik ~ Bernoulli(pi_k),   s_ik ~ N(0, 1/g_s),   e_ip ~ N(0, 1/g)
//! ```
//!
//! Scores can also be dense or Laplace, usage can depend on where rows lie, and entries can be spiky. Source: M. Zhou, slides on Bayesian factor analysis, 2016,
//! corrected. Model, updates and what differs from the source are in the repository's `docs/bpfa.md`.
//!
//! ```
//! use npb_bpfa::npb_data::Table;
//! use npb_bpfa::npb_infer::SweepPlan;
//! use npb_bpfa::{BpfaConfig, fit};
//!
//! // A hundred rows, each one of two patterns times a number; every fifth value is missing.
//! let patterns = [[1.0, -1.0, 2.0, 0.5, 0.0, 1.5], [0.0, 2.0, 1.0, -1.0, 1.0, -0.5]];
//! let value = |at: usize| (1.0 + (at / 6) as f64 * 0.7).sin() * patterns[at / 6 % 2][at % 6];
//! let cells: Vec<f64> = (0..600).map(|at| if at % 5 == 1 { f64::NAN } else { value(at) }).collect();
//! let table = Table::from_nan_coded(100, 6, &cells)?;
//!
//! let sweeps = SweepPlan { burn_in: 150, keep: 100, thin: 1 };
//! let model = fit(&table, &BpfaConfig { atoms: 8, sweeps, seed: 1, ..BpfaConfig::default() })?;
//!
//! // What was missing, and how sure that is.
//! let cell = model.predict(5, 1)?;
//! assert!((cell.mean - value(31)).abs() < 0.3 && cell.sd < 0.3);
//! // New rows need no new fit.
//! let new = Table::from_nan_coded(1, 6, &[0.5, -0.5, 1.0, 0.25, 0.0, f64::NAN])?;
//! let filled = model.impute(&new)?;
//! assert!(filled.is_observed(0, 5) && filled.row(0)[5] > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | fit a table or ratings | [`fit`], [`fit_watched`], [`fit_ratings`], [`Cells`] |
//! | settings, moves as values | [`BpfaConfig`], [`BpfaMove`], [`ScorePrior`], [`UsagePrior`], [`DependentPrior`], [`SlabPrior`], [`SpikePrior`], [`Centring`] |
//! | missing cells, any cell, held-out entries | [`BpfaFit::impute_training`], [`BpfaFit::predict`], [`BpfaFit::ln_density`], [`Prediction`] |
//! | new rows | [`BpfaFit::transform`], [`BpfaFit::impute`], [`BpfaSampler::encoder`] |
//! | columns and channels that are constant, or copies of others | [`Role`] |
//! | number of dense factors | [`compare_atoms`], [`HeldOut`]; the bound of [`BpfaVb`] |
//! | variational Bayes, step by step | [`BpfaVb`], [`BpfaVbConfig`], [`Factorisation`], [`BpfaPosterior`], [`BpfaVbUpdate`] |
//! | images | [`restore`], [`ImageConfig`], [`AtomStart`], [`Restored`] |
//! | drive the chain | [`BpfaRows`], [`BpfaSampler`] |
//! | one draw | [`BpfaState`], [`Shared`], [`Dictionary`], [`Scores`], [`Spikes`], [`Dependence`], [`LassoScales`] |
//! | errors | [`BpfaError`] |

mod config;
mod dense;
mod dependent;
mod dictionary;
mod error;
mod fit;
mod gibbs;
mod image;
mod init;
mod lasso;
mod loadings;
mod patches;
mod precision;
mod roles;
mod rows;
mod scan;
mod scores;
mod spikes;
mod state;
mod units;
mod usage;
mod vb;

pub use config::{BpfaConfig, BpfaMove, ScorePrior, SlabPrior, SpikePrior, UsagePrior};
pub use dependent::{Dependence, DependentPrior};
pub use error::BpfaError;
pub use fit::{
    BpfaFit, CellMoments, Cells, HeldOut, Prediction, compare_atoms, fit, fit_ratings, fit_watched,
};
pub use gibbs::BpfaSampler;
pub use image::{AtomStart, ImageConfig, Restored, restore, restore_watched};
pub use lasso::LassoScales;
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_priors;
pub use roles::Role;
pub use rows::BpfaRows;
pub use scores::{RowScores, Scores};
pub use spikes::Spikes;
pub use state::{BpfaState, Dictionary, Shared};
pub use units::{BpfaUnits, Centring};
pub use vb::{BpfaPosterior, BpfaVb, BpfaVbConfig, BpfaVbUpdate, Factorisation};
