//! From latent values to entries, in one draw.

use npb_priors::special::{ln_normal_pdf, ln_phi, normal_cdf, normal_quantile};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::probit::{ends, ln_between};

/// How a draw makes entries of latent values `x`; answers are in units of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Response<'a> {
    /// `y ~ N(centre + scale x, noise_sd^2)`.
    Gaussian {
        centre: f64,
        scale: f64,
        noise_sd: f64,
    },
    /// Levels 1, ..., L: where `x` plus noise lies between these thresholds.
    Ordinal {
        thresholds: &'a [f64],
        noise_sd: f64,
    },
    /// 1 with probability `Phi(x)`, else 0; rates of successes between them are scored per trial.
    Bernoulli,
}

impl Response<'_> {
    /// `E[y | x]`.
    pub(crate) fn mean(&self, x: f64) -> f64 {
        match *self {
            Self::Gaussian { centre, scale, .. } => centre + scale * x,
            Self::Ordinal {
                thresholds,
                noise_sd,
            } => {
                let passed = |t: &f64| normal_cdf((x - t) / noise_sd);
                1.0 + thresholds.iter().map(passed).sum::<f64>()
            }
            Self::Bernoulli => normal_cdf(x),
        }
    }

    /// `Var[y | x]`.
    pub(crate) fn variance(&self, x: f64) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => noise_sd * noise_sd,
            Self::Ordinal {
                thresholds,
                noise_sd,
            } => {
                // Sum over the levels passed: y - 1 = sum of indicators, one within the other.
                let passed = |t: &f64| normal_cdf((x - t) / noise_sd);
                let mean: f64 = thresholds.iter().map(passed).sum();
                let weighted = (0..)
                    .zip(thresholds)
                    .map(|(l, t)| (2.0 * f64::from(l) + 1.0) * passed(t));
                (weighted.sum::<f64>() - mean * mean).max(0.0)
            }
            Self::Bernoulli => normal_cdf(x) * normal_cdf(-x),
        }
    }

    /// Probabilities that a new entry is below `y`, and that it is at most `y`.
    pub(crate) fn cdf(&self, y: f64, x: f64) -> (f64, f64) {
        match *self {
            Self::Gaussian { noise_sd, .. } => {
                let p = normal_cdf((y - self.mean(x)) / noise_sd);
                (p, p)
            }
            Self::Ordinal {
                thresholds,
                noise_sd,
            } => {
                let up_to = |level: f64| match level {
                    l if l < 1.0 => 0.0,
                    l if l > thresholds.len() as f64 => 1.0,
                    l => normal_cdf((thresholds[l as usize - 1] - x) / noise_sd),
                };
                (up_to(y.ceil() - 1.0), up_to(y.floor()))
            }
            Self::Bernoulli => {
                let up_to = |y: f64| match y {
                    y if y < 0.0 => 0.0,
                    y if y >= 1.0 => 1.0,
                    _ => normal_cdf(-x),
                };
                (
                    if y > 0.0 {
                        up_to(y - f64::EPSILON)
                    } else {
                        0.0
                    },
                    up_to(y),
                )
            }
        }
    }

    /// ln density (or probability) of an entry.
    pub(crate) fn ln_density(&self, y: f64, x: f64) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => {
                ln_normal_pdf((y - self.mean(x)) / noise_sd) - noise_sd.ln()
            }
            Self::Ordinal {
                thresholds,
                noise_sd,
            } => {
                if y.fract() != 0.0 || y < 1.0 || y > thresholds.len() as f64 + 1.0 {
                    return f64::NEG_INFINITY;
                }
                let (lower, upper) = ends(thresholds, y as usize - 1);
                ln_between((lower - x) / noise_sd, (upper - x) / noise_sd)
            }
            Self::Bernoulli => {
                if !(0.0..=1.0).contains(&y) {
                    return f64::NEG_INFINITY;
                }
                let part = |share: f64, x: f64| if share > 0.0 { share * ln_phi(x) } else { 0.0 };
                part(y, x) + part(1.0 - y, -x)
            }
        }
    }

    /// The quantile of a new entry.
    pub(crate) fn quantile(&self, p: f64, x: f64) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => self.mean(x) + noise_sd * normal_quantile(p),
            Self::Ordinal {
                thresholds,
                noise_sd,
            } => {
                let z = noise_sd * normal_quantile(p) + x;
                1.0 + thresholds.iter().filter(|&&t| z > t).count() as f64
            }
            Self::Bernoulli => f64::from(u8::from(normal_quantile(p) + x > 0.0)),
        }
    }

    /// A new entry.
    pub(crate) fn sample<R: Rng + ?Sized>(&self, x: f64, rng: &mut R) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => {
                let z: f64 = rng.sample(StandardNormal);
                self.mean(x) + noise_sd * z
            }
            Self::Ordinal { .. } | Self::Bernoulli => self.quantile(rng.random(), x),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of a level are sums over its law.
    #[test]
    fn moments_of_levels_are_sums() {
        let response = Response::Ordinal {
            thresholds: &[-0.7, 0.0, 1.9],
            noise_sd: 1.3,
        };
        for x in [-3.0, -0.2, 0.4, 2.5] {
            let moment = |power: i32| -> f64 {
                let term = |y: f64| y.powi(power) * response.ln_density(y, x).exp();
                [1.0, 2.0, 3.0, 4.0].map(term).iter().sum()
            };
            assert!((moment(0) - 1.0).abs() < 1e-12);
            assert!((response.mean(x) - moment(1)).abs() < 1e-12);
            let variance = moment(2) - moment(1) * moment(1);
            assert!((response.variance(x) - variance).abs() < 1e-12, "{x}");
        }
    }
}
