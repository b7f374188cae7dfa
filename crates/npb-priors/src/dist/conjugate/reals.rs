//! Statistics of real numbers, and their priors.

use super::{Conjugate, Statistics};
use crate::dist::student_t::{ln_t_constant, ln_t_kernel};
use crate::dist::{Gamma, Normal, NormalGamma};
use crate::error::{Check, ParameterError};
use crate::special::{LN_SQRT_2PI, ln_rising_factorial};

/// Number, mean and centred sum of squares, updated without cancellation (Welford 1962, Technometrics 4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reals {
    n: u64,
    mean: f64,
    centred: f64,
}

impl Reals {
    /// How many numbers.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their mean, 0 when there are none.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// sum (x - mean)^2.
    pub fn centred_square_sum(&self) -> f64 {
        self.centred
    }

    /// Takes in all that `other` has seen (Chan, Golub and LeVeque 1983, American Statistician 37).
    pub fn merge(&mut self, other: &Self) {
        let n = self.n + other.n;
        if other.n == 0 {
            return;
        }
        let d = other.mean - self.mean;
        let share = other.n as f64 / n as f64;
        self.centred += other.centred + d * d * share * self.n as f64;
        self.mean += d * share;
        self.n = n;
    }

    /// sum (x - c)^2.
    fn square_sum_about(&self, c: f64) -> f64 {
        let d = self.mean - c;
        self.centred + self.n as f64 * d * d
    }
}

impl Statistics for Reals {
    type Datum = f64;

    fn add(&mut self, x: &f64) {
        self.n += 1;
        let d = x - self.mean;
        self.mean += d / self.n as f64;
        self.centred += d * (x - self.mean);
    }

    fn remove(&mut self, x: &f64) {
        if self.n == 1 {
            *self = Self::default();
            return;
        }
        self.n -= 1;
        let d = x - self.mean;
        self.mean -= d / self.n as f64;
        // Rounding must not make a sum of squares negative.
        self.centred = (self.centred - d * (x - self.mean)).max(0.0);
    }
}

/// mu ~ `law`, x | mu ~ N(mu, `variance`) with the variance known.
///
/// ```
/// use npb_priors::dist::{Conjugate, Normal, NormalMean, Reals, Statistics};
/// let prior = NormalMean::new(Normal::new(0.0, 1.0)?, 4.0)?;
/// let mut seen = Reals::default();
/// [3.0, 5.0].iter().for_each(|x| seen.add(x));
/// // Precision 1 + 2/4, mean (2/4 * 4) / (3/2).
/// let law = *prior.posterior(&seen)?.law();
/// assert!((law.variance() - 2.0 / 3.0).abs() < 1e-15 && (law.mean() - 4.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormalMean {
    law: Normal,
    variance: f64,
}

impl NormalMean {
    /// `law`: of the mean; `variance`: of one observation, finite and positive.
    ///
    /// # Errors
    /// [`ParameterError::Value`] naming the parameter.
    pub fn new(law: Normal, variance: f64) -> Result<Self, ParameterError> {
        Check("normal with known variance").positive("variance", variance)?;
        Ok(Self { law, variance })
    }

    /// The law of the mean.
    pub fn law(&self) -> &Normal {
        &self.law
    }

    /// The variance of one observation.
    pub fn variance(&self) -> f64 {
        self.variance
    }
}

impl Conjugate for NormalMean {
    type Stats = Reals;

    fn posterior(&self, data: &Reals) -> Result<Self, ParameterError> {
        // The share of the data in the posterior mean.
        let n_variance = data.n as f64 * self.law.variance();
        let weight = n_variance / (n_variance + self.variance);
        let mean = self.law.mean() + weight * (data.mean - self.law.mean());
        let law = Normal::new(
            mean,
            self.law.variance() * (self.variance / (n_variance + self.variance)),
        )?;
        Ok(Self { law, ..*self })
    }

    fn ln_evidence(&self, data: &Reals) -> Result<f64, ParameterError> {
        let n = data.n as f64;
        let ratio = n * self.law.variance() / self.variance;
        let d = data.mean - self.law.mean();
        let squares = data.centred / self.variance + n * d * d / (self.variance * (1.0 + ratio));
        Ok(-n * (LN_SQRT_2PI + 0.5 * self.variance.ln()) - 0.5 * (ratio.ln_1p() + squares))
    }

    fn ln_predictive(&self, x: &f64) -> f64 {
        let variance = self.variance + self.law.variance();
        let d = x - self.law.mean();
        -0.5 * (d * d / variance + variance.ln()) - LN_SQRT_2PI
    }
}

/// lambda ~ `law`, x | lambda ~ N(`mean`, 1 / lambda) with the mean known.
///
/// ```
/// use npb_priors::dist::{Conjugate, Gamma, NormalPrecision, Reals, Statistics};
/// let prior = NormalPrecision::new(Gamma::new(2.0, 3.0)?, 1.0)?;
/// let mut seen = Reals::default();
/// [3.0, 5.0].iter().for_each(|x| seen.add(x));
/// // Shape 2 + 2/2, rate 3 + (2^2 + 4^2) / 2.
/// assert_eq!(*prior.posterior(&seen)?.law(), Gamma::new(3.0, 13.0)?);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormalPrecision {
    law: Gamma,
    mean: f64,
}

impl NormalPrecision {
    /// `law`: of the precision; `mean`: of the observations, finite.
    ///
    /// # Errors
    /// [`ParameterError::Value`] naming the mean.
    pub fn new(law: Gamma, mean: f64) -> Result<Self, ParameterError> {
        Check("normal with known mean").finite("mean", mean)?;
        Ok(Self { law, mean })
    }

    /// The law of the precision.
    pub fn law(&self) -> &Gamma {
        &self.law
    }

    /// The known mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }
}

impl Conjugate for NormalPrecision {
    type Stats = Reals;

    fn posterior(&self, data: &Reals) -> Result<Self, ParameterError> {
        let rate = self.law.rate() + 0.5 * data.square_sum_about(self.mean);
        Ok(Self {
            law: Gamma::new(self.law.shape() + 0.5 * data.n as f64, rate)?,
            ..*self
        })
    }

    fn ln_evidence(&self, data: &Reals) -> Result<f64, ParameterError> {
        let half_n = 0.5 * data.n as f64;
        let half_squares = 0.5 * data.square_sum_about(self.mean);
        Ok(ln_gamma_integral(&self.law, half_n, half_squares) - data.n as f64 * LN_SQRT_2PI)
    }

    fn ln_predictive(&self, x: &f64) -> f64 {
        ln_t(
            2.0 * self.law.shape(),
            x - self.mean,
            self.law.rate() / self.law.shape(),
        )
    }
}

/// The unknown mean and precision of normal observations.
impl Conjugate for NormalGamma {
    type Stats = Reals;

    fn posterior(&self, data: &Reals) -> Result<Self, ParameterError> {
        let n = data.n as f64;
        let strength = self.strength() + n;
        let mean = self.mean() + n / strength * (data.mean - self.mean());
        let law = self.precision();
        NormalGamma::new(
            mean,
            strength,
            law.shape() + 0.5 * n,
            law.rate() + half_square_gain(self, data),
        )
    }

    fn ln_evidence(&self, data: &Reals) -> Result<f64, ParameterError> {
        let n = data.n as f64;
        let of_precision =
            ln_gamma_integral(self.precision(), 0.5 * n, half_square_gain(self, data));
        Ok(of_precision - 0.5 * (n / self.strength()).ln_1p() - n * LN_SQRT_2PI)
    }

    fn ln_predictive(&self, x: &f64) -> f64 {
        let law = self.precision();
        let scale = law.rate() * (1.0 + self.strength().recip()) / law.shape();
        ln_t(2.0 * law.shape(), x - self.mean(), scale)
    }
}

/// What the data add to the rate of the precision.
fn half_square_gain(prior: &NormalGamma, data: &Reals) -> f64 {
    let n = data.n as f64;
    let d = data.mean - prior.mean();
    0.5 * (data.centred + prior.strength() * n / (prior.strength() + n) * d * d)
}

/// lambda ~ `law`, x | lambda exponential with rate lambda.
///
/// ```
/// use npb_priors::dist::{Conjugate, ExponentialGamma, Gamma, Reals, Statistics};
/// let prior = ExponentialGamma::new(Gamma::new(2.0, 3.0)?);
/// let mut seen = Reals::default();
/// [3.0, 5.0].iter().for_each(|x| seen.add(x));
/// assert_eq!(*prior.posterior(&seen)?.law(), Gamma::new(4.0, 11.0)?);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialGamma {
    law: Gamma,
}

impl ExponentialGamma {
    /// `law`: of the rate.
    pub fn new(law: Gamma) -> Self {
        Self { law }
    }

    /// The law of the rate.
    pub fn law(&self) -> &Gamma {
        &self.law
    }
}

impl Conjugate for ExponentialGamma {
    type Stats = Reals;

    fn posterior(&self, data: &Reals) -> Result<Self, ParameterError> {
        let n = data.n as f64;
        Ok(Self::new(Gamma::new(
            self.law.shape() + n,
            self.law.rate() + n * data.mean,
        )?))
    }

    fn ln_evidence(&self, data: &Reals) -> Result<f64, ParameterError> {
        let n = data.n as f64;
        Ok(ln_gamma_integral(&self.law, n, n * data.mean))
    }

    fn ln_predictive(&self, x: &f64) -> f64 {
        ln_gamma_integral(&self.law, 1.0, *x)
    }
}

/// ln E[lambda^power exp(-s lambda)] under a gamma law.
fn ln_gamma_integral(law: &Gamma, power: f64, s: f64) -> f64 {
    let (a, b) = (law.shape(), law.rate());
    ln_rising_factorial(a, power) - a * (s / b).ln_1p() - power * (b + s).ln()
}

/// Log-density of a univariate t at distance `d` from its centre, `scale` its squared scale.
fn ln_t(df: f64, d: f64, scale: f64) -> f64 {
    ln_t_constant(df, 1, scale.ln()) + ln_t_kernel(df, 1, d * d / scale)
}
