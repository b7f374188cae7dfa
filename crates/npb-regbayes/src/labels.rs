//! Labels and numbers scored by latent features *and* inputs, weighed by held-out scores: what [`fit`] does by default.
//!
//! ```text
//! f_m(x) = eta_m' Z'x + w_m'x + sum_i a_mi exp(-gamma |x - x_i|^2) + b_m
//! ```
//!
//! Each term is a *member*: the max-margin machine of the crate on the features that the inputs have by themselves (MT-IBP), on the inputs, or on what Gaussian
//! kernels of two widths make of them. Each is solved in folds at rising costs; its held-out scores say which C is best, become log-odds by Platt's curve, and
//! stacking weights average these. So what carries nothing weighs nothing, scores of labels are log-odds, and decisions can be settled by their expected F1.
//! `inputs: none` is the paper's MT-iLSVM as [`tasks::fit`](crate::tasks::fit) has it.
//!
//! Equations: `docs/regbayes.md#labels-by-features-and-inputs`.

mod calibration;
mod config;
mod fit;
mod held_out;
mod members;
#[cfg(test)]
mod tests;

pub use config::{Decisions, LabelInputs, LabelsConfig};
pub use fit::{LabelNote, LabelsFit, MemberReport, fit, fit_watched};
pub use members::Member;
