//! MedLDA: topics of documents that serve a prediction (R appendix B, `docs/regbayes.md#medlda`).
//!
//! ```text
//! beta_k ~ Dir(word_prior)   theta_n ~ Dir(alpha)   z_nm ~ theta_n   w_nm ~ beta_{z_nm}   eta ~ N(0, I)
//! min_q  KL(q || p) + C sum_n loss(y_n, E[eta]' E[zbar_n])
//! ```
//!
//! `zbar_n` holds the shares of the topics among the tokens of document n. A real response has the epsilon-insensitive loss, classes that of
//! Crammer and Singer with one `eta_y` per class.

mod config;
mod corpus;
mod cross;
mod documents;
mod eta;
mod fit;
mod start;
#[cfg(test)]
mod tests;
mod vb;

pub use config::{Form, MedLdaConfig, Supervision};
pub use corpus::Response;
pub use cross::cross_validate;
pub use fit::{MedLdaFit, TopWord, fit, fit_watched};
pub use vb::MedLdaVb;
