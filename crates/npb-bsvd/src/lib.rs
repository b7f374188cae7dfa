//! Bayesian SVD: matrix completion that infers its own rank and states its uncertainty.
//!
//! For matrices most of whose entries are unknown: ratings, records of meetings, any table of interactions.
//!
//! ```text
//! y_ij = offset + r_i + c_j + sum_k z_k s_k U_ik V_jk + G_C,i . C_j + G_R,j . R_i + noise
//! ```
//!
//! `z_k` switches components on and off, so that the rank is part of the posterior; `R` and `C` are known features of rows and columns. Source: C.
//! Wang, thesis 2010, chapter 5. Model, updates and what differs from the source are in the repository's `docs/bsvd.md`.
//!
//! | what | where |
//! |---|---|
//! | fit in one call | [`fit`] |
//! | settings, moves as values | [`BsvdConfig`], [`BsvdMove`], [`Scheduled`] |
//! | what comes out | [`BsvdFit`], [`CellMoments`] |
//! | drive the chain | [`BsvdData`], [`BsvdSampler`], [`Record`] |
//! | one draw | [`BsvdState`], [`SideState`] |
//! | features | [`Features`], [`SideInformation`] |
//! | errors | [`BsvdError`] |

mod acquire;
mod cells;
mod config;
mod data;
mod error;
mod evaluate;
mod export;
mod features;
mod fit;
mod fold_in;
mod gibbs;
mod kernel;
mod names;
mod posterior;
mod predict;
mod probit;
mod products;
mod profile;
mod regression;
mod rescale;
mod response;
mod saved;
mod side;
mod similar;
mod state;
mod summary;
mod switches;
mod tuning;
mod view;

pub use acquire::{Acquisition, Wanted};
pub use cells::{CellMoments, Cells};
pub use config::{BsvdConfig, BsvdMove, FactorUpdate, Likelihood, Scheduled, Units};
pub use data::BsvdData;
pub use error::BsvdError;
pub use evaluate::Evaluation;
pub use export::Part;
pub use features::{Features, SideInformation, missingness};
pub use fit::{BsvdFit, Record, fit};
pub use fold_in::Folded;
pub use gibbs::BsvdSampler;
pub use names::Key;
pub use npb_data;
pub use npb_infer;
pub use npb_priors;
pub use posterior::{Components, Loadings};
pub use predict::{CellPosterior, Prediction};
pub use profile::Ranked;
pub use similar::Similar;
pub use state::{BsvdState, SideState};
pub use tuning::Tuning;
pub use summary::Summary;
