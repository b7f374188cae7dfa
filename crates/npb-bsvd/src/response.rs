//! From latent values to entries, in one draw.

use npb_priors::special::{ln_normal_pdf, normal_cdf, normal_quantile};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// How a draw makes entries of latent values `x`; answers are in units of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Response {
    /// `y ~ N(centre + scale x, noise_sd^2)`.
    Gaussian {
        centre: f64,
        scale: f64,
        noise_sd: f64,
    },
}

impl Response {
    /// `E[y | x]`.
    pub(crate) fn mean(&self, x: f64) -> f64 {
        match *self {
            Self::Gaussian { centre, scale, .. } => centre + scale * x,
        }
    }

    /// `Var[y | x]`.
    pub(crate) fn variance(&self, _: f64) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => noise_sd * noise_sd,
        }
    }

    /// Probabilities that a new entry is below `y`, and that it is at most `y`.
    pub(crate) fn cdf(&self, y: f64, x: f64) -> (f64, f64) {
        match *self {
            Self::Gaussian { noise_sd, .. } => {
                let p = normal_cdf((y - self.mean(x)) / noise_sd);
                (p, p)
            }
        }
    }

    /// ln density (or probability) of an entry.
    pub(crate) fn ln_density(&self, y: f64, x: f64) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => {
                ln_normal_pdf((y - self.mean(x)) / noise_sd) - noise_sd.ln()
            }
        }
    }

    /// The quantile of a new entry.
    pub(crate) fn quantile(&self, p: f64, x: f64) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => self.mean(x) + noise_sd * normal_quantile(p),
        }
    }

    /// A new entry.
    pub(crate) fn sample<R: Rng + ?Sized>(&self, x: f64, rng: &mut R) -> f64 {
        match *self {
            Self::Gaussian { noise_sd, .. } => {
                let z: f64 = rng.sample(StandardNormal);
                self.mean(x) + noise_sd * z
            }
        }
    }
}
