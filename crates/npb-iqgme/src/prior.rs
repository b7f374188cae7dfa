//! The priors with their data-dependent parts filled in.

use npb_linalg::faer::{Mat, Scale};

use crate::state::{Component, Expected, ExpertPrior};
use crate::{IqgmeConfig, IqgmeError, Result};

/// Priors in standardised, centred units, in the form of the posterior that a vacant component and its expert have.
#[derive(Clone, Debug)]
pub(crate) struct Prior {
    /// `p(mu_h, Lambda_h)`, with `m_0 = 0`.
    pub(crate) component: Component,
    pub(crate) expected: Expected,
    /// `p(zeta_p, lambda_p)`.
    pub(crate) expert: ExpertPrior,
}

impl Prior {
    pub(crate) fn new(
        config: &IqgmeConfig,
        covariance: &Mat<f64>,
        n_utilities: usize,
    ) -> Result<Self> {
        let n_coefficients = n_utilities.max(1) * (covariance.nrows() + 1);
        let p = covariance.nrows();
        let dof = p as f64 + config.dof_excess + config.dof_per_feature * p as f64;
        let component = Component {
            mean: vec![0.0; p],
            strength: config.mean_strength,
            dof,
            scale_inverse: covariance * Scale(Self::scale(config, p)),
        };
        Ok(Self {
            expected: component.expected().map_err(IqgmeError::at(0, "prior"))?,
            component,
            expert: ExpertPrior {
                mean: vec![0.0; n_coefficients],
                strength: config.expert_mean_strength,
                shape: config.expert.shape,
                rate: vec![config.expert.rate; n_coefficients],
            },
        })
    }

    /// What all components are at the start, before they have rows: at the mean and with the covariance of all rows.
    pub(crate) fn pooled(&self, covariance: &Mat<f64>) -> Component {
        let dof = covariance.nrows() as f64 + 2.0;
        Component {
            scale_inverse: covariance * Scale(dof),
            dof,
            ..self.component.clone()
        }
    }

    /// `c` in `B_0^-1 = c S`: `E[Lambda^-1] = B_0^-1 / (nu_0 - P - 1)` is the covariance `S` of all rows (the thesis read with `B_0 = S^-1`).
    pub(crate) fn scale(config: &IqgmeConfig, p: usize) -> f64 {
        let excess = config.dof_excess + config.dof_per_feature * p as f64;
        excess - 1.0
    }
}

#[cfg(test)]
mod tests {
    use npb_linalg::faer::mat;

    use super::*;

    /// The mean of the inverse Wishart law of covariances.
    #[test]
    fn the_prior_expects_the_covariance_of_all_rows() {
        let covariance = mat![[2.0, 0.6], [0.6, 0.9]];
        let config = IqgmeConfig {
            dof_excess: 3.0,
            dof_per_feature: 0.5,
            ..IqgmeConfig::default()
        };
        let prior = Prior::new(&config, &covariance, 1).unwrap();
        let Component {
            dof, scale_inverse, ..
        } = prior.component;
        assert_eq!(dof, 6.0);
        for (i, j) in [(0, 0), (1, 0), (1, 1)] {
            let apart = scale_inverse[(i, j)] / (dof - 2.0 - 1.0) - covariance[(i, j)];
            assert!(apart.abs() < 1e-12, "{i} {j}: {apart}");
        }
    }
}
