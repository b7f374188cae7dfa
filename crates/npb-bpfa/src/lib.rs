//! Factor analysis and dictionary learning with the beta process, for incomplete images and matrices.
//!
//! ```text
//! x_i = D (z_i * s_i) + e_i,   d_k ~ N(0, I/P),   z_ik ~ Bernoulli(pi_k),   s_ik ~ N(0, 1/g_s),   e_ip ~ N(0, 1/g)
//! ```
//!
//! Source: M. Zhou, slides on Bayesian factor analysis, 2016, corrected. Model and updates are in the repository's `docs/bpfa.md`.

mod config;
mod dense;
mod dependent;
mod dictionary;
mod error;
mod fit;
mod gibbs;
mod init;
mod lasso;
mod loadings;
mod precision;
mod rows;
mod scan;
mod scores;
mod spikes;
mod state;
mod units;
mod usage;
mod vb;

pub use config::{BpfaConfig, BpfaMove, ScorePrior, SlabPrior, UsagePrior};
pub use dependent::{Dependence, DependentPrior};
pub use error::BpfaError;
pub use fit::{
    BpfaFit, CellMoments, Cells, HeldOut, Prediction, compare_atoms, fit, fit_ratings, fit_watched,
};
pub use gibbs::BpfaSampler;
pub use lasso::LassoScales;
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_priors;
pub use rows::BpfaRows;
pub use scores::{RowScores, Scores};
pub use spikes::{SpikePrior, Spikes};
pub use state::{BpfaState, Dictionary, Shared};
pub use units::{Centring, Units};
pub use vb::{BpfaPosterior, BpfaVb, BpfaVbConfig, BpfaVbUpdate, Factorisation};
