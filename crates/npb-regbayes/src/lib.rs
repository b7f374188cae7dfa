//! Large-margin learning with nonparametric latent features: iLSVM, multi-task iLSVM and MedLDA, by regularised Bayesian inference.

mod alternate;
pub mod classes;
mod columns;
mod config;
mod dense;
mod error;
mod factors;
mod inputs;
mod kinks;
mod loss;
mod machine;
pub mod principle;
mod state;
pub mod tasks;
pub mod topics;
mod vb;

pub use classes::IlsvmFit;
pub use columns::Columns;
pub use config::{
    ClassCosts, Concentration, FactorConfig, IlsvmConfig, LabelUpdate, LoadingCovariance,
    MtIlsvmConfig, Start, Variance,
};
pub use error::RegBayesError;
pub use inputs::Inputs;
pub use loss::{Slack, Targets};
pub use machine::{Machine, MachineLimits, MachineStop, Problem, Solution};
pub use npb_data;
pub use npb_infer;
pub use npb_infer::Saved;
pub use npb_priors;
pub use state::{FactorState, Spread};
pub use tasks::MtIlsvmFit;
pub use topics::{Form, MedLdaConfig, MedLdaFit, MedLdaVb, Response, Supervision, TopWord};
