//! The variational posterior of the latent features.

use npb_linalg::faer::Mat;
use npb_priors::ibp::IbpFactor;
use serde::{Deserialize, Serialize};

use crate::error::RegBayesError;

/// Covariance of the loadings of each observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Spread {
    /// One K x K matrix for all observations.
    Shared(#[serde(with = "npb_linalg::saved")] Mat<f64>),
    /// Variances, K x J: a column for each observation.
    Own(#[serde(with = "npb_linalg::saved")] Mat<f64>),
}

/// `q(nu) q(Z) q(W)` and the scales of the factor model `x_ij = z_i' w_j + noise` of I items in J observations, R (16).
///
/// iLSVM: items are rows of the table, observations its columns. MT-iLSVM: items are input columns, observations are rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureState {
    /// `q(nu_k) = Beta(gamma_k1, gamma_k2)` and alpha.
    pub sticks: IbpFactor,
    /// `psi`, K x I: `psi[(k, i)] = q(z_ik = 1)`.
    #[serde(with = "npb_linalg::saved")]
    pub indicators: Mat<f64>,
    /// Means of the loadings, K x J.
    #[serde(with = "npb_linalg::saved")]
    pub loadings: Mat<f64>,
    /// Their covariance.
    pub spread: Spread,
    /// `lambda^2`: of the noise around `Z W`; R calls it `sigma_n0^2` in iLSVM.
    pub noise_variance: f64,
    /// Prior variance of loadings, `sigma_0^2`.
    pub loading_variance: f64,
}

impl FeatureState {
    /// Number of features K that are kept.
    pub fn n_features(&self) -> usize {
        self.indicators.nrows()
    }

    /// Number of items I.
    pub fn n_items(&self) -> usize {
        self.indicators.ncols()
    }

    /// Number of observations J.
    pub fn n_observations(&self) -> usize {
        self.loadings.ncols()
    }

    /// Expected number of items that have each feature, `sum_i psi_ik`.
    pub fn expected_use(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.n_features()];
        for i in 0..self.n_items() {
            let psi = self.indicators.col_as_slice(i);
            sums.iter_mut().zip(psi).for_each(|(sum, p)| *sum += p);
        }
        sums
    }

    /// Number of features with an expected use of one item or more.
    pub fn features_in_use(&self) -> usize {
        self.expected_use().iter().filter(|&&n| n >= 1.0).count()
    }

    /// What the methods of a fit rely on, of a state that comes from a file.
    pub(crate) fn check(&self) -> Result<(), RegBayesError> {
        let k = self.n_features();
        let wrong = |what: &str| Err(RegBayesError::state(what));
        let spread = match &self.spread {
            Spread::Shared(s) if s.shape() == (k, k) => s,
            Spread::Own(v) if v.shape() == self.loadings.shape() => v,
            _ => return wrong("the covariance of the loadings has another size than they have"),
        };
        if self.loadings.nrows() != k || self.sticks.truncation() != k {
            return wrong("indicators, loadings and sticks differ in the number of features");
        }
        let all = |m: &Mat<f64>, fits: &dyn Fn(f64) -> bool| {
            (0..m.ncols()).all(|j| m.col_as_slice(j).iter().all(|&x| fits(x)))
        };
        if !all(&self.indicators, &|p| (0.0..=1.0).contains(&p)) {
            return wrong("an indicator is no probability");
        }
        if !all(&self.loadings, &f64::is_finite) || !all(spread, &f64::is_finite) {
            return wrong("a loading is not finite");
        }
        let diagonal = match &self.spread {
            Spread::Shared(s) => (0..k).all(|i| s[(i, i)] > 0.0),
            Spread::Own(v) => all(v, &|x| x > 0.0),
        };
        if !diagonal {
            return wrong("a variance of a loading is not positive");
        }
        for scale in [self.noise_variance, self.loading_variance] {
            if !(scale > 0.0 && scale.is_finite()) {
                return wrong("a scale is not positive");
            }
        }
        Ok(())
    }
}
