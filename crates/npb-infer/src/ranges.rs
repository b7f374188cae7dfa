//! Checks of configurations: the same rules, and the same words, in every model crate.

use std::fmt::Display;

use npb_priors::GammaPrior;
use thiserror::Error;

/// A field of a configuration that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("config: {field} = {value}: must be {rule}")]
pub struct OutOfRange {
    /// Name of the field, with those of the configurations that it is in (`single.folds`).
    pub field: String,
    /// The value given.
    pub value: String,
    /// What it must be.
    pub rule: String,
}

impl OutOfRange {
    /// A field that breaks a rule, written to follow `must be`.
    pub fn new(field: impl Into<String>, value: impl Display, rule: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            value: value.to_string(),
            rule: rule.into(),
        }
    }

    /// The same of a configuration that is the field `outer` of another.
    #[must_use]
    pub fn inside(self, outer: &str) -> Self {
        Self {
            field: format!("{outer}.{}", self.field),
            ..self
        }
    }
}

/// A finite number above a bound. NaN is an error.
///
/// # Errors
/// [`OutOfRange`].
pub fn above(field: &'static str, value: f64, bound: f64) -> Result<(), OutOfRange> {
    if value.is_finite() && value > bound {
        return Ok(());
    }
    Err(OutOfRange::new(
        field,
        format!("{value:?}"),
        format!("finite and > {bound}"),
    ))
}

/// A positive number that is not extreme: products and quotients of a few such numbers and of counts are finite. For parameters of priors.
///
/// ```
/// use npb_infer::ranges::moderate;
/// let error = moderate("mean_strength", 1e308).unwrap_err();
/// assert!(error.to_string().ends_with("must be from 1e-10 to 1e10"));
/// ```
///
/// # Errors
/// [`OutOfRange`].
pub fn moderate(field: &'static str, value: f64) -> Result<(), OutOfRange> {
    if is_moderate(value) {
        return Ok(());
    }
    Err(OutOfRange::new(
        field,
        format!("{value:?}"),
        "from 1e-10 to 1e10",
    ))
}

fn is_moderate(value: f64) -> bool {
    (1e-10..=1e10).contains(&value)
}

/// A gamma prior: shape and rate [moderate].
///
/// # Errors
/// [`OutOfRange`].
pub fn gamma(field: &'static str, prior: GammaPrior) -> Result<(), OutOfRange> {
    if is_moderate(prior.shape) && is_moderate(prior.rate) {
        return Ok(());
    }
    let value = format!("(shape {:?}, rate {:?})", prior.shape, prior.rate);
    Err(OutOfRange::new(field, value, "each from 1e-10 to 1e10"))
}

/// A finite number that is zero or more. NaN is an error.
///
/// # Errors
/// [`OutOfRange`].
pub fn not_negative(field: &'static str, value: f64) -> Result<(), OutOfRange> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(OutOfRange::new(
        field,
        format!("{value:?}"),
        "finite and >= 0",
    ))
}

/// A count that may be as large as one has patience for: iterations, sweeps.
///
/// # Errors
/// [`OutOfRange`].
pub fn at_least(field: &'static str, value: u64, least: u64) -> Result<(), OutOfRange> {
    if value >= least {
        return Ok(());
    }
    Err(OutOfRange::new(field, value, format!("at least {least}")))
}

/// A count from 1 to `most`: whatever memory grows with.
///
/// ```
/// use npb_infer::ranges::up_to;
/// let error = up_to("truncation", 0, 4096).unwrap_err();
/// assert_eq!(error.to_string(), "config: truncation = 0: must be between 1 and 4096");
/// ```
///
/// # Errors
/// [`OutOfRange`].
pub fn up_to(field: &'static str, value: usize, most: usize) -> Result<(), OutOfRange> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(OutOfRange::new(
        field,
        value,
        format!("between 1 and {most}"),
    ))
}
