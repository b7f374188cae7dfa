//! Documents as bags of words, and what is known of them.

use npb_data::Ratings;

use crate::error::{RegBayesError, same_size};
use crate::loss::{Slack, Targets};
use crate::machine::check_targets;

/// What a document is labelled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Response<'a> {
    /// Nothing: latent Dirichlet allocation.
    None,
    /// A number each.
    Real(&'a [f64]),
    /// A class each, from 0.
    Classes {
        /// One per document.
        classes: &'a [u32],
        /// How many there are.
        n_classes: usize,
    },
}

impl Response<'_> {
    /// Checks the responses of so many documents.
    pub(crate) fn check(&self, n_docs: usize) -> Result<(), RegBayesError> {
        let slack = Slack::Linear;
        let targets = match *self {
            Self::None => return Ok(()),
            Self::Real(values) => Targets::Real {
                values,
                epsilon: 0.0,
                slack,
            },
            Self::Classes { classes, n_classes } => Targets::Classes {
                classes,
                n_classes,
                margin: 1.0,
                slack,
            },
        };
        same_size("responses", targets.n_rows(), n_docs)?;
        check_targets(&targets)
    }
}

/// Checks counts: numbers from 0 (weights that are no whole numbers are allowed).
pub(crate) fn check_counts(documents: &Ratings) -> Result<(), RegBayesError> {
    match documents.iter().find(|entry| entry.value < 0.0) {
        None => Ok(()),
        Some(entry) => Err(RegBayesError::entry(
            "documents",
            (entry.row as usize, entry.column as usize),
            entry.value,
            "a count, 0 or more",
        )),
    }
}

/// Number of tokens of each document.
pub(crate) fn lengths(documents: &Ratings) -> Vec<f64> {
    let length = |n| documents.row(n).1.iter().sum();
    (0..documents.n_rows()).map(length).collect()
}
