//! Large-margin learning with nonparametric latent features: iLSVM, multi-task iLSVM and MedLDA, by regularised Bayesian inference.

mod error;
mod inputs;
mod loss;
mod machine;
mod topics;

pub use error::RegBayesError;
pub use inputs::Inputs;
pub use loss::{Slack, Targets};
pub use machine::{Machine, MachineLimits, MachineStop, Problem, Solution};
pub use npb_data;
pub use npb_infer;
pub use npb_priors;
pub use topics::{
    Form, MedLdaConfig, MedLdaFit, MedLdaVb, Response, Supervision, TopWord, fit_medlda,
};
