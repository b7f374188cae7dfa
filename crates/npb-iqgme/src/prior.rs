//! The priors with their data-dependent parts filled in.

use npb_linalg::faer::{Mat, Scale};
use npb_linalg::{Cholesky, NotPositiveDefinite};

use crate::IqgmeConfig;
use crate::config::PriorScale;
use crate::rows::Rows;
use crate::state::{Component, Expected, Expert, ExpertPrior};

/// Priors in standardised, centred units, in the form of the posterior that a vacant component and its expert have.
#[derive(Clone, Debug)]
pub(crate) struct Prior {
    /// `c` in `B_0^-1 = c S`.
    pub(crate) scale: f64,
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
    ) -> Result<Self, NotPositiveDefinite> {
        let n_coefficients = n_utilities.max(1) * (covariance.nrows() + 1);
        let p = covariance.nrows();
        let excess = config.dof_excess + config.dof_per_feature * p as f64;
        let dof = p as f64 + excess;
        // E[Lambda^-1] = B_0^-1 / (nu_0 - P - 1); E[Lambda] = nu_0 B_0.
        let scale = match config.prior_scale {
            PriorScale::Covariance | PriorScale::Bound => excess - 1.0,
            PriorScale::Precision => dof,
        };
        let component = Component {
            mean: vec![0.0; p],
            strength: config.mean_strength,
            dof,
            scale_inverse: covariance * Scale(scale),
        };
        Ok(Self {
            scale,
            expected: component.expected()?,
            component,
            expert: ExpertPrior {
                mean: vec![0.0; n_coefficients],
                strength: config.expert_mean_strength,
                shape: config.expert_shape,
                rate: vec![config.expert_rate; n_coefficients],
            },
        })
    }

    /// `q(zeta, lambda)` given the free ones of some experts, as many of each component as there are utilities.
    pub(crate) fn given_experts(&self, experts: &[Expert], n_utilities: usize) -> ExpertPrior {
        let n_free = experts.iter().filter(|e| !e.tied).count() / n_utilities;
        let mut prior = self.expert.clone();
        prior.strength += n_free as f64;
        prior.shape += 0.5 * n_free as f64;
        let width = prior.mean.len() / n_utilities;
        for i in 0..prior.mean.len() {
            let (k, p) = (i / width, i % width);
            let of_utility = experts.iter().skip(k).step_by(n_utilities);
            let free: Vec<&Expert> = of_utility.filter(|e| !e.tied).collect();
            let sum: f64 = free.iter().map(|e| e.mean[p]).sum();
            let squares: f64 = free
                .iter()
                .map(|e| e.mean[p] * e.mean[p] + e.covariance[(p, p)])
                .sum();
            let mean = sum / prior.strength;
            prior.mean[i] = mean;
            prior.rate[i] += 0.5 * (squares - prior.strength * mean * mean);
        }
        prior
    }

    /// `B_0^-1 = scale * covariance`.
    pub(crate) fn set_scale(
        &mut self,
        scale: f64,
        covariance: &Mat<f64>,
    ) -> Result<(), NotPositiveDefinite> {
        self.scale = scale;
        self.component.scale_inverse = covariance * Scale(scale);
        self.expected = self.component.expected()?;
        Ok(())
    }
}

/// Covariance of incomplete rows that are centred at the available-case means: pairwise correlations of the rows in which both features are
/// seen, shrunk towards zero by their own uncertainty (the ratio of the summed sampling variances to the summed squares), and further
/// until the matrix is positive definite.
pub(crate) fn shrunk_covariance(rows: &Rows) -> Mat<f64> {
    let p = rows.n_features;
    let (products, counts) = pairwise_sums(rows);
    let variance: Vec<f64> = (0..p).map(|j| products[(j, j)] / counts[(j, j)]).collect();
    let mut correlation = Mat::<f64>::identity(p, p);
    let (mut noise, mut signal) = (0.0, 0.0);
    for j in 0..p {
        for i in j + 1..p {
            let n = counts[(i, j)];
            if n < 3.0 {
                continue;
            }
            let r = (products[(i, j)] / n / (variance[i] * variance[j]).sqrt()).clamp(-1.0, 1.0);
            noise += (1.0 - r * r).powi(2) / (n - 1.0);
            signal += r * r;
            correlation[(i, j)] = r;
        }
    }
    let mut shrinkage = if signal > 0.0 {
        (noise / signal).clamp(1e-4, 1.0)
    } else {
        1.0
    };
    loop {
        let covariance = Mat::from_fn(p, p, |i, j| {
            let r = if i == j {
                1.0
            } else {
                (1.0 - shrinkage) * correlation[(i.max(j), i.min(j))]
            };
            r * (variance[i] * variance[j]).sqrt()
        });
        // At shrinkage 1 the matrix is diagonal with positive entries.
        if shrinkage >= 1.0
            || Cholesky::new(covariance.as_ref()).is_ok_and(|f| well_conditioned(&f, &variance))
        {
            return covariance;
        }
        shrinkage = (2.0 * shrinkage).min(1.0);
    }
}

/// Every feature keeps at least a millionth of its variance given those before it.
fn well_conditioned(factor: &Cholesky, variance: &[f64]) -> bool {
    (0..variance.len()).all(|j| factor.l()[(j, j)].powi(2) > 1e-6 * variance[j])
}

fn pairwise_sums(rows: &Rows) -> (Mat<f64>, Mat<f64>) {
    let p = rows.n_features;
    let mut products = Mat::<f64>::zeros(p, p);
    let mut counts = Mat::<f64>::zeros(p, p);
    for group in &rows.groups {
        let observed = &rows.patterns[group.pattern].observed;
        for row in group.rows.clone() {
            let x = rows.row(row);
            for (k, &j) in observed.iter().enumerate() {
                for &i in &observed[k..] {
                    products[(i, j)] += x[i] * x[j];
                    counts[(i, j)] += 1.0;
                }
            }
        }
    }
    (products, counts)
}
