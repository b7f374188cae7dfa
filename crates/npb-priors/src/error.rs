//! What can be wrong with the parameters of a distribution.

use npb_linalg::faer::MatRef;
use npb_linalg::{Cholesky, NotPositiveDefinite};

/// A parameter no distribution can have: which one, its value, and what would do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A number out of its range (NaN is out of every range).
    #[error("{distribution}: {parameter} = {value}: must be {rule}")]
    Value {
        /// The distribution under construction.
        distribution: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// What was given.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// An entry of a vector or matrix (column-major index) out of its range.
    #[error("{distribution}: {parameter}[{index}] = {value}: must be {rule}")]
    Entry {
        /// The distribution under construction.
        distribution: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// Position of the offending entry.
        index: usize,
        /// What was given.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// A vector or matrix of the wrong size.
    #[error("{distribution}: {parameter} has size {found}: must be {expected}")]
    Size {
        /// The distribution under construction.
        distribution: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// What it must be.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// A matrix that must be positive definite is not.
    #[error("{distribution}: {parameter} must be positive definite")]
    NotPositiveDefinite {
        /// The distribution under construction.
        distribution: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// Where its factorisation stopped.
        source: NotPositiveDefinite,
    },
}

/// Checks of one distribution's parameters, so that every message is worded alike.
#[derive(Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    pub(crate) fn positive(
        self,
        parameter: &'static str,
        value: f64,
    ) -> Result<(), ParameterError> {
        self.require(
            value > 0.0 && value.is_finite(),
            parameter,
            value,
            "finite and > 0",
        )
    }

    pub(crate) fn finite(self, parameter: &'static str, value: f64) -> Result<(), ParameterError> {
        self.require(value.is_finite(), parameter, value, "finite")
    }

    /// `holds` must be written so that NaN makes it false.
    pub(crate) fn require(
        self,
        holds: bool,
        parameter: &'static str,
        value: f64,
        rule: &'static str,
    ) -> Result<(), ParameterError> {
        let distribution = self.0;
        if holds {
            Ok(())
        } else {
            Err(ParameterError::Value {
                distribution,
                parameter,
                value,
                rule,
            })
        }
    }

    pub(crate) fn factor(
        self,
        parameter: &'static str,
        matrix: MatRef<'_, f64>,
    ) -> Result<Cholesky, ParameterError> {
        let distribution = self.0;
        Cholesky::new(matrix).map_err(|source| ParameterError::NotPositiveDefinite {
            distribution,
            parameter,
            source,
        })
    }

    pub(crate) fn all_finite(
        self,
        parameter: &'static str,
        values: &[f64],
    ) -> Result<(), ParameterError> {
        self.every(parameter, values, "finite", f64::is_finite)
    }

    pub(crate) fn every(
        self,
        parameter: &'static str,
        values: &[f64],
        rule: &'static str,
        holds: impl Fn(f64) -> bool,
    ) -> Result<(), ParameterError> {
        let distribution = self.0;
        match values.iter().position(|&v| !holds(v)) {
            None => Ok(()),
            Some(index) => Err(ParameterError::Entry {
                distribution,
                parameter,
                index,
                value: values[index],
                rule,
            }),
        }
    }

    pub(crate) fn size(
        self,
        parameter: &'static str,
        expected: usize,
        found: usize,
    ) -> Result<(), ParameterError> {
        let distribution = self.0;
        if expected == found {
            Ok(())
        } else {
            Err(ParameterError::Size {
                distribution,
                parameter,
                expected,
                found,
            })
        }
    }
}
