//! A mixture of experts whose parameters are known: a stored draw, or what EM ends in.

use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use crate::gibbs::state::{DrawnComponent, check_drawn};
use crate::predict::Predictor;
use crate::state::expect;
use crate::{Expert, Result};

/// Weights, components and experts, in the standardised units of a fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mixture {
    /// `pi_h`; they sum to 1.
    pub weights: Vec<f64>,
    /// `mu_h, Lambda_h`.
    pub components: Vec<DrawnComponent>,
    /// `w_h`: component, utility; length P + 1 each, the intercept last. Empty without labels.
    pub experts: Vec<Vec<f64>>,
}

impl Mixture {
    /// Checks sizes and ranges: `p` features, so many utilities.
    pub(crate) fn check(&self, p: usize, n_utilities: usize) -> Result<()> {
        let n = self.components.len();
        let sum: f64 = self.weights.iter().sum();
        let weights = self.weights.len() == n && self.weights.iter().all(|w| *w >= 0.0);
        expect(weights && (sum - 1.0).abs() <= 1e-6, "weights")?;
        check_drawn(&self.components, &self.experts, p, n_utilities)
    }

    pub(crate) fn predictor(&self) -> Result<Predictor> {
        let p = self.components[0].mean.len();
        let means = Mat::from_fn(p, self.components.len(), |j, h| self.components[h].mean[j]);
        let precisions = self.components.iter().map(|c| c.precision.clone());
        let expert = |w: &Vec<f64>| Expert {
            at_prior: false,
            mean: w.clone(),
            covariance: Mat::identity(p + 1, p + 1),
        };
        let experts = self.experts.iter().map(expert).collect();
        Predictor::of_parameters(&self.weights, means, precisions.collect(), experts)
    }
}
