//! A task as a linear regression with a normal prior and known noise.

use npb_infer::Xoshiro256PlusPlus;
use npb_infer::ranges::above;
use npb_linalg::{Cholesky, dot};
use rand_distr::{Distribution, StandardNormal};

use crate::laplace::add_outer;
use crate::task::GaussianPrior;
use crate::{AtomRule, GaussianTask, GibbsModel, HbrecError, Task, UserModel};

/// `y = x'w + e`, `e ~ N(0, noise_variance)`, `w` normal: evidence and draws are exact.
///
/// ```
/// use npb_hbrec::{GaussianPrior, LinearTask, Task, UserModel};
/// let model = LinearTask::new(GaussianPrior::isotropic(1, 1.0)?, 1.0)?;
/// let alone = model.fit(&Task::new(1, &[1.0], &[3.0])?)?;
/// assert!((model.predict_alone(&alone, &[2.0]) - 3.0).abs() < 1e-12);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinearTask {
    prior: GaussianPrior,
    noise_variance: f64,
}

/// A normal law of coefficients in precision form, and the evidence.
#[derive(Clone, Debug)]
pub struct NormalPosterior {
    pub(crate) mean: Vec<f64>,
    pub(crate) factor: Cholesky,
    pub(crate) ln_evidence: f64,
}

impl NormalPosterior {
    /// Mean of the coefficients.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }
}

impl LinearTask {
    /// With this base distribution.
    ///
    /// # Errors
    /// A noise variance that is not positive and finite.
    pub fn new(prior: GaussianPrior, noise_variance: f64) -> Result<Self, HbrecError> {
        above("noise_variance", noise_variance, 0.0)?;
        Ok(Self {
            prior,
            noise_variance,
        })
    }

    fn ln_density(&self, residual: f64) -> f64 {
        let variance = self.noise_variance;
        -0.5 * (residual * residual / variance + (std::f64::consts::TAU * variance).ln())
    }
}

/// `Sigma^-1 + weight sum c x x'`, lower triangle column by column, and `Sigma^-1 mu`.
pub(crate) fn prior_system(prior: &GaussianPrior) -> (Vec<f64>, Vec<f64>) {
    let (q, precision) = (prior.width(), prior.precision());
    let matrix = (0..q * q).map(|at| precision[(at % q, at / q)]).collect();
    let mut linear = prior.mean().to_vec();
    prior.factor().solve(&mut linear);
    (matrix, linear)
}

impl UserModel for LinearTask {
    type Data = Task<f64>;
    type Query = [f64];
    type Parameter = Vec<f64>;
    type Posterior = NormalPosterior;

    fn fit_weighted(&self, data: &[(&Task<f64>, f64)]) -> Result<NormalPosterior, HbrecError> {
        let q = self.prior.width();
        let (mut precision, mut linear) = prior_system(&self.prior);
        for (task, weight) in data {
            task.check_width(q)?;
            let weight = weight / self.noise_variance;
            for (x, y) in task.iter() {
                add_outer(x, weight, &mut precision);
                linear
                    .iter_mut()
                    .zip(x)
                    .for_each(|(sum, x)| *sum += weight * x * y);
            }
        }
        let factor = factor_precision(&precision, q)?;
        let mut mean = linear;
        factor.solve(&mut mean);
        // ln p(D, w) at the mean, plus what the normal law around it integrates to.
        let mut deviation: Vec<f64> = mean
            .iter()
            .zip(self.prior.mean())
            .map(|(a, b)| a - b)
            .collect();
        self.prior.factor().solve_l(&mut deviation);
        let terms = data
            .iter()
            .map(|(task, weight)| weight * self.ln_likelihood(&mean, task));
        let ln_evidence = terms.sum::<f64>()
            - 0.5 * (dot(&deviation, &deviation) + self.prior.factor().ln_det() + factor.ln_det());
        Ok(NormalPosterior {
            mean,
            factor,
            ln_evidence,
        })
    }

    fn ln_evidence(&self, posterior: &NormalPosterior) -> f64 {
        posterior.ln_evidence
    }

    /// Mode and mean are the same.
    fn atom(&self, posterior: &NormalPosterior, _rule: AtomRule) -> Vec<f64> {
        posterior.mean.clone()
    }

    fn ln_likelihood(&self, parameter: &Vec<f64>, task: &Task<f64>) -> f64 {
        let term = |(x, y): (&[f64], &f64)| self.ln_density(y - dot(x, parameter));
        task.iter().map(term).sum()
    }

    fn predict(&self, parameter: &Vec<f64>, query: &[f64]) -> f64 {
        assert_eq!(query.len(), parameter.len(), "features of the query");
        dot(parameter, query)
    }

    fn predict_alone(&self, posterior: &NormalPosterior, query: &[f64]) -> f64 {
        assert_eq!(query.len(), posterior.mean.len(), "features of the query");
        dot(&posterior.mean, query)
    }
}

pub(crate) fn factor_precision(precision: &[f64], q: usize) -> Result<Cholesky, HbrecError> {
    let matrix = npb_linalg::faer::MatRef::from_column_major_slice(precision, q, q);
    Cholesky::new(matrix).map_err(|source| HbrecError::Numerical {
        what: "normal posterior",
        iteration: 0,
        block: "task",
        item: 0,
        source,
    })
}

impl GibbsModel for LinearTask {
    fn draw_prior(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        draw_prior(&self.prior, rng)
    }

    fn redraw(
        &self,
        parameter: &mut Vec<f64>,
        members: &[&Task<f64>],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), HbrecError> {
        let data: Vec<(&Task<f64>, f64)> = members.iter().map(|&task| (task, 1.0)).collect();
        *parameter = self.fit_weighted(&data)?.draw(rng);
        Ok(())
    }

    fn draw_exact(
        &self,
        posterior: &NormalPosterior,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Vec<f64>> {
        Some(posterior.draw(rng))
    }

    fn is_valid(&self, parameter: &Vec<f64>) -> bool {
        parameter.len() == self.prior.width() && parameter.iter().all(|w| w.is_finite())
    }
}

pub(crate) fn draw_prior(prior: &GaussianPrior, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let mut w = prior.mean().to_vec();
    prior.factor().sample_moment(&mut w, rng);
    w
}

impl NormalPosterior {
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut z: Vec<f64> = (0..self.mean.len())
            .map(|_| StandardNormal.sample(rng))
            .collect();
        self.factor.solve_lt(&mut z);
        z.iter().zip(&self.mean).map(|(z, m)| z + m).collect()
    }
}

impl GaussianTask for LinearTask {
    fn with_prior(&self, prior: GaussianPrior) -> Self {
        Self {
            prior,
            noise_variance: self.noise_variance,
        }
    }

    fn prior(&self) -> &GaussianPrior {
        &self.prior
    }

    fn moments(&self, posterior: &NormalPosterior) -> (Vec<f64>, npb_linalg::faer::Mat<f64>) {
        (posterior.mean.clone(), posterior.factor.inverse())
    }

    type Hint = ();

    fn moments_from(
        &self,
        task: &Task<f64>,
        (): &mut (),
    ) -> Result<(Vec<f64>, npb_linalg::faer::Mat<f64>, f64), HbrecError> {
        let posterior = self.fit(task)?;
        let (mean, covariance) = self.moments(&posterior);
        Ok((mean, covariance, posterior.ln_evidence))
    }
}
