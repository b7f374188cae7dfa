//! One draw, seen in units of the data.

use crate::features::SideInformation;
use crate::likelihood::Likelihood;
use crate::response::Response;
use crate::side::{Line, Side};
use crate::state::BsvdState;
use npb_linalg::dot_f32 as dot;

/// One draw with the features and units that turn it into values of cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a BsvdState,
    pub(crate) side: &'a SideInformation,
    pub(crate) likelihood: Likelihood,
    pub(crate) centre: f64,
    pub(crate) scale: f64,
}

impl<'a> View<'a> {
    /// `x_ij` in units of the model. Cost: rank and features.
    pub(crate) fn latent(&self, i: usize, j: usize) -> f64 {
        self.state.latent(i, j, self.side)
    }

    /// From latent values to entries at a cell.
    pub(crate) fn response_at(&self, i: usize, j: usize) -> Response<'a> {
        let (rows, columns) = (&self.state.rows, &self.state.columns);
        self.response(rows.noise_weight(i) * columns.noise_weight(j))
    }

    /// From latent values to entries where the noise precision has a factor `weight`.
    pub(crate) fn response(&self, weight: f64) -> Response<'a> {
        match self.likelihood {
            Likelihood::Gaussian => Response::Gaussian {
                centre: self.centre,
                scale: self.scale,
                noise_sd: self.scale / (self.state.noise_precision * weight).sqrt(),
            },
            Likelihood::Ordinal { .. } => Response::Ordinal {
                thresholds: &self.state.thresholds,
                noise_sd: weight.sqrt().recip(),
            },
            Likelihood::Binary | Likelihood::Binomial => Response::Bernoulli,
        }
    }

    /// Latent values of one row with the columns `from..from + out.len()` (or of a column with rows).
    ///
    /// Cost: rank and features for each.
    pub(crate) fn latents(&self, side: Side, line: &Line<'_>, from: usize, out: &mut [f64]) {
        let other = side.opposite().of(self.state);
        let other_features = side.opposite().features(self.side);
        let weights: Vec<f64> = line
            .factors
            .iter()
            .zip(&self.state.scales)
            .map(|(&u, s)| f64::from(u) * s)
            .collect();
        let rank = weights.len();
        let known = self.state.offset + f64::from(line.intercept);
        for (n, x) in out.iter_mut().enumerate() {
            let theirs = Line::of(other, from + n, rank, &[]);
            let products = weights.iter().zip(theirs.factors);
            *x = known
                + f64::from(theirs.intercept)
                + products.map(|(w, &v)| w * f64::from(v)).sum::<f64>()
                + dot(line.features, theirs.coefficients)
                + other_features.map_or(0.0, |f| f.dot(from + n, line.coefficients));
        }
    }
}
