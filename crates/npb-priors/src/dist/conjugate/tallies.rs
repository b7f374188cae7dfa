//! Statistics of discrete data, and their priors.

use super::{Conjugate, Statistics};
use crate::dist::{Beta, Dirichlet};
use crate::error::ParameterError;
use crate::special::{ln_beta, ln_gamma, ln_rising_factorial};

/// Successes and failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// Number of successes.
    pub successes: u64,
    /// Number of failures.
    pub failures: u64,
}

impl Trials {
    fn tally(&mut self, success: bool) -> &mut u64 {
        if success {
            &mut self.successes
        } else {
            &mut self.failures
        }
    }
}

impl Statistics for Trials {
    type Datum = bool;

    fn add(&mut self, x: &bool) {
        *self.tally(*x) += 1;
    }

    fn remove(&mut self, x: &bool) {
        *self.tally(*x) -= 1;
    }
}

/// The success probability of Bernoulli trials.
impl Conjugate for Beta {
    type Stats = Trials;

    fn posterior(&self, data: &Trials) -> Result<Self, ParameterError> {
        Beta::new(
            self.a() + data.successes as f64,
            self.b() + data.failures as f64,
        )
    }

    fn ln_evidence(&self, data: &Trials) -> Result<f64, ParameterError> {
        let posterior = self.posterior(data)?;
        Ok(ln_beta(posterior.a(), posterior.b()) - ln_beta(self.a(), self.b()))
    }

    fn ln_predictive(&self, x: &bool) -> f64 {
        let (this, other) = if *x {
            (self.a(), self.b())
        } else {
            (self.b(), self.a())
        };
        -(other / this).ln_1p()
    }
}

/// How often each of K categories was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Categories {
    counts: Vec<u64>,
}

impl Categories {
    /// Nothing seen yet of `k` categories.
    pub fn new(k: usize) -> Self {
        Self { counts: vec![0; k] }
    }

    /// The counts.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

impl Statistics for Categories {
    type Datum = usize;

    /// Panics when `x` is not below K.
    fn add(&mut self, x: &usize) {
        self.counts[*x] += 1;
    }

    /// Panics when `x` is not below K.
    fn remove(&mut self, x: &usize) {
        self.counts[*x] -= 1;
    }
}

/// The probabilities of K categories.
impl Conjugate for Dirichlet {
    type Stats = Categories;

    /// Panics when the data have another number of categories, as does the evidence.
    fn posterior(&self, data: &Categories) -> Result<Self, ParameterError> {
        assert_eq!(
            data.counts.len(),
            self.dim(),
            "equal numbers of categories are needed"
        );
        let pairs = self.concentrations().iter().zip(&data.counts);
        Dirichlet::new(pairs.map(|(a, n)| a + *n as f64).collect())
    }

    fn ln_evidence(&self, data: &Categories) -> Result<f64, ParameterError> {
        assert_eq!(
            data.counts.len(),
            self.dim(),
            "equal numbers of categories are needed"
        );
        let pairs = self.concentrations().iter().zip(&data.counts);
        let seen: f64 = pairs.map(|(&a, &n)| ln_rising_factorial(a, n as f64)).sum();
        let n: u64 = data.counts.iter().sum();
        Ok(seen - ln_rising_factorial(self.total(), n as f64))
    }

    fn ln_predictive(&self, x: &usize) -> f64 {
        self.concentrations()[*x].ln() - self.total().ln()
    }
}

/// Poisson counts: how many, their sum, and the sum of ln x!.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    n: u64,
    /// Wide enough for any number of any counts.
    total: u128,
    ln_factorials: f64,
}

impl Counts {
    /// How many counts.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their sum.
    pub fn total(&self) -> u128 {
        self.total
    }

    /// The sum of ln x!.
    pub fn ln_factorials(&self) -> f64 {
        self.ln_factorials
    }
}

impl Statistics for Counts {
    type Datum = u64;

    fn add(&mut self, x: &u64) {
        self.n += 1;
        self.total += u128::from(*x);
        self.ln_factorials += ln_gamma(*x as f64 + 1.0);
    }

    fn remove(&mut self, x: &u64) {
        self.n -= 1;
        self.total -= u128::from(*x);
        self.ln_factorials -= ln_gamma(*x as f64 + 1.0);
    }
}
