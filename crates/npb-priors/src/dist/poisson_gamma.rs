//! Poisson counts with a Gamma-distributed rate: the negative binomial.

use super::Gamma;
use super::conjugate::{Conjugate, Counts};
use crate::error::ParameterError;
use crate::special::{ln_beta, ln_rising_factorial};
use rand::{Rng, RngExt};

/// lambda ~ Gamma(a, b), x | lambda ~ Poisson(lambda); marginally P(x) = Gamma(a+x)/(Gamma(a) x!) (b/(b+1))^a (1/(b+1))^x.
///
/// ```
/// use npb_priors::dist::{Gamma, PoissonGamma};
/// let x = PoissonGamma::new(Gamma::new(1.0, 1.0).unwrap());
/// assert!((x.ln_density(2).exp() - 0.125).abs() < 1e-15);
/// assert_eq!((x.mean(), x.variance()), (1.0, 2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonGamma {
    rate: Gamma,
}

impl PoissonGamma {
    /// `rate`: the law of the Poisson rate lambda.
    pub fn new(rate: Gamma) -> Self {
        Self { rate }
    }

    /// The law of the Poisson rate.
    pub fn rate(&self) -> &Gamma {
        &self.rate
    }

    /// E x = a / b.
    pub fn mean(&self) -> f64 {
        self.rate.mean()
    }

    /// Var x = a (b + 1) / b^2.
    pub fn variance(&self) -> f64 {
        self.rate.mean() + self.rate.variance()
    }

    /// ln P(x), also where a is tiny or huge.
    pub fn ln_density(&self, x: u64) -> f64 {
        let (a, b, x) = (self.rate.shape(), self.rate.rate(), x as f64);
        // Gamma(a+x) / (Gamma(a) x!) = 1 / ((a+x) B(a, x+1)).
        let ways = -(a + x).ln() - ln_beta(a, x + 1.0);
        ways - a * b.recip().ln_1p() - x * b.ln_1p()
    }

    /// Draws x (counts beyond 1e18 to the relative precision of f64).
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        let lambda = self.rate.sample(rng);
        match rand_distr::Poisson::new(lambda) {
            Ok(poisson) => rng.sample::<f64, _>(poisson) as u64,
            // Zero (underflow), or so large that the rate and a draw agree to nine digits.
            Err(_) => lambda as u64,
        }
    }
}

impl Conjugate for PoissonGamma {
    type Stats = Counts;

    fn posterior(&self, data: &Counts) -> Result<Self, ParameterError> {
        let shape = self.rate.shape() + data.total() as f64;
        Ok(Self::new(Gamma::new(
            shape,
            self.rate.rate() + data.n() as f64,
        )?))
    }

    fn ln_evidence(&self, data: &Counts) -> Result<f64, ParameterError> {
        let (a, b) = (self.rate.shape(), self.rate.rate());
        let (n, total) = (data.n() as f64, data.total() as f64);
        let rate_part = a * (n / b).ln_1p() + total * (b + n).ln();
        Ok(ln_rising_factorial(a, total) - rate_part - data.ln_factorials())
    }

    fn ln_predictive(&self, x: &u64) -> f64 {
        self.ln_density(*x)
    }
}
