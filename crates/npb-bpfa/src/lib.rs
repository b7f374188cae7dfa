//! Factor analysis and dictionary learning with the beta process, for incomplete images and matrices.
//!
//! ```text
//! x_i = D (z_i * s_i) + e_i,   d_k ~ N(0, I/P),   z_ik ~ Bernoulli(pi_k),   s_ik ~ N(0, 1/g_s),   e_ip ~ N(0, 1/g)
//! ```
//!
//! Source: M. Zhou, slides on Bayesian factor analysis, 2016, corrected. Model and updates are in the repository's `docs/bpfa.md`.

mod config;
mod dictionary;
mod error;
mod gibbs;
mod init;
mod loadings;
mod precision;
mod rows;
mod scan;
mod scores;
mod state;
mod usage;

pub use config::{BpfaConfig, BpfaMove, ScorePrior, SlabPrior, UsagePrior};
pub use error::BpfaError;
pub use gibbs::BpfaSampler;
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_priors;
pub use rows::BpfaRows;
pub use scores::{RowScores, Scores};
pub use state::{BpfaState, Dictionary, Shared};
