//! Conjugate pairs: a prior, the sufficient statistics of its data, and what follows from both in closed form.
//!
//! Each pair satisfies three identities that the tests check: the predictive is a ratio of evidences; prior times likelihood
//! is posterior times evidence; the evidence is the prior mean of the likelihood.

mod reals;
mod scatter;
mod tallies;

pub use reals::{ExponentialGamma, NormalMean, NormalPrecision, Reals};
pub use scatter::Scatter;
pub use tallies::{Categories, Counts, Trials};

use crate::error::ParameterError;

/// What a prior needs to know of its data; observations come and go one by one.
pub trait Statistics {
    /// One observation.
    type Datum: ?Sized;

    /// Takes an observation in.
    fn add(&mut self, x: &Self::Datum);

    /// Takes an observation out that was added before (anything else leaves the statistics of no data set; integer
    /// statistics then panic or saturate).
    fn remove(&mut self, x: &Self::Datum);
}

/// A prior whose posterior is of the same family.
///
/// ```
/// use npb_priors::dist::{Beta, Conjugate, Statistics, Trials};
/// let prior = Beta::new(1.0, 1.0)?;
/// let mut seen = Trials::default();
/// seen.add(&true);
/// seen.add(&true);
/// let posterior = prior.posterior(&seen)?;
/// assert_eq!(posterior, Beta::new(3.0, 1.0)?);
/// // The next success, as the posterior predicts it and as a ratio of evidences.
/// let before = prior.ln_evidence(&seen)?;
/// seen.add(&true);
/// assert!((posterior.ln_predictive(&true) - (prior.ln_evidence(&seen)? - before)).abs() < 1e-15);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
pub trait Conjugate: Sized {
    /// The sufficient statistics.
    type Stats: Statistics;

    /// The law of the parameter given the data.
    ///
    /// # Errors
    /// Data so extreme that the parameters of the posterior overflow.
    fn posterior(&self, data: &Self::Stats) -> Result<Self, ParameterError>;

    /// ln p(data), the parameter integrated out. Of the data in a given order: no factor counts the orders.
    ///
    /// # Errors
    /// As [`Self::posterior`].
    fn ln_evidence(&self, data: &Self::Stats) -> Result<f64, ParameterError>;

    /// ln p(x), the parameter integrated out; for p(x | data) ask the posterior.
    fn ln_predictive(&self, x: &<Self::Stats as Statistics>::Datum) -> f64;
}
