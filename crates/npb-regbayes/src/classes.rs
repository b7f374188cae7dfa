//! iLSVM: classes predicted through latent features whose number nobody has to choose (R 4.2).
//!
//! Each *row* n of a table has binary features `z_n`, `x_n = W z_n + noise`; class y scores a row by `f_y(x_n) = eta_y' z_n` (and, if asked, the
//! inputs themselves and a bias), with the expected multi-class hinge loss of labelled rows as the regulariser of the posterior. Rows without a
//! label take part in the features: those that are to be predicted can be in the fit (the paper's joint inference), or come later.

mod fit;
mod margins;

pub use fit::{ClassScores, IlsvmFit, IlsvmVb, PreparedClasses, fit, fit_watched};

#[cfg(test)]
pub(crate) use {fit::problem_of, margins::ClassMargins};
