//! Documents as bags of words, and what is known of them.

use npb_data::Ratings;

use crate::error::RegBayesError;

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
        let length = |found: usize| match found == n_docs {
            true => Ok(()),
            false => Err(RegBayesError::Size {
                what: "responses",
                found,
                expected: n_docs,
            }),
        };
        match *self {
            Self::None => Ok(()),
            Self::Real(values) => {
                length(values.len())?;
                match values.iter().position(|y| !y.is_finite()) {
                    None => Ok(()),
                    Some(row) => Err(RegBayesError::Row {
                        what: "responses",
                        row,
                        value: values[row],
                        rule: "a finite number",
                    }),
                }
            }
            Self::Classes { classes, n_classes } => {
                length(classes.len())?;
                match classes.iter().position(|&c| c as usize >= n_classes) {
                    None => Ok(()),
                    Some(row) => Err(RegBayesError::Class {
                        row,
                        class: classes[row],
                        classes: n_classes,
                    }),
                }
            }
        }
    }
}

/// Checks counts: numbers from 0 (weights that are no whole numbers are allowed).
pub(crate) fn check_counts(documents: &Ratings) -> Result<(), RegBayesError> {
    match documents.iter().find(|entry| entry.value < 0.0) {
        None => Ok(()),
        Some(entry) => Err(RegBayesError::Entry {
            what: "documents",
            row: entry.row as usize,
            column: entry.column as usize,
            value: entry.value,
            rule: "a count, 0 or more",
        }),
    }
}

/// Number of tokens of each document.
pub(crate) fn lengths(documents: &Ratings) -> Vec<f64> {
    let length = |n| documents.row(n).1.iter().sum();
    (0..documents.n_rows()).map(length).collect()
}
