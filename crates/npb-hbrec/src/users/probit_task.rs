//! A task as a probit classifier with a normal prior.

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::dot;
use npb_linalg::faer::Mat;
use npb_priors::dist::sample_probit;
use npb_priors::special::{ln_phi, normal_cdf};

use super::linear::{draw_prior, factor_precision, prior_system};
use crate::ep::{self, Moments};
use crate::laplace::{self, Observations, add_outer};
use crate::task::GaussianPrior;
use crate::{AtomRule, GaussianTask, GibbsModel, HbrecError, Task, UserModel};

/// `P(y | x) = Phi(x'w)`, `w` normal; posterior and evidence by expectation propagation (modes, and rows of weights other than 1, by Laplace's approximation), draws by latent utilities (Albert and Chib 1993).
///
/// ```
/// use npb_hbrec::{GaussianPrior, ProbitTask, Task, UserModel};
/// let model = ProbitTask::new(GaussianPrior::isotropic(2, 4.0)?);
/// // Separable data: the mode is finite all the same.
/// let alone = model.fit(&Task::new(2, &[1.0, 2.0, 1.0, -2.0], &[true, false])?)?;
/// assert!(model.predict_alone(&alone, &[1.0, 1.0]) > 0.65);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbitTask {
    prior: GaussianPrior,
}

/// The normal approximation of the posterior of the coefficients.
#[derive(Clone, Debug)]
pub struct TaskPosterior {
    mode: Vec<f64>,
    mean: Vec<f64>,
    /// q x q, in coordinates in which the prior is standard normal.
    covariance: Vec<f64>,
    ln_evidence: f64,
}

/// A task as a point: coefficients, and how sure they are.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskAtom {
    /// Coefficients.
    pub coefficients: Vec<f64>,
    /// Their covariance, q x q; empty for a point without spread.
    pub covariance: Vec<f64>,
}

impl TaskAtom {
    /// Mean and variance of `x'w`.
    pub(crate) fn utility(&self, x: &[f64]) -> (f64, f64) {
        assert_eq!(x.len(), self.coefficients.len(), "features of the query");
        let rows = self.covariance.chunks_exact(x.len()).zip(x);
        let variance: f64 = rows.map(|(row, xi)| xi * dot(row, x)).sum();
        (dot(x, &self.coefficients), variance.max(0.0))
    }

    fn ratio(&self, x: &[f64]) -> f64 {
        let (mean, variance) = self.utility(x);
        mean / (1.0 + variance).sqrt()
    }
}

impl ProbitTask {
    /// With this base distribution.
    pub fn new(prior: GaussianPrior) -> Self {
        Self { prior }
    }

    /// L'x, the regressors in coordinates in which the prior is standard normal.
    fn whitened(&self, x: &[f64]) -> Vec<f64> {
        let mut a = x.to_vec();
        self.prior.factor().mul_lt(&mut a);
        a
    }
}

impl ProbitTask {
    /// Coefficients from coordinates in which the prior is standard normal.
    fn coloured(&self, mut w: Vec<f64>) -> Vec<f64> {
        self.prior.factor().mul_l(&mut w);
        w.iter_mut()
            .zip(self.prior.mean())
            .for_each(|(w, m)| *w += m);
        w
    }
}

impl UserModel for ProbitTask {
    type Data = Task<bool>;
    type Query = [f64];
    type Parameter = TaskAtom;
    type Posterior = TaskPosterior;

    fn fit_weighted(&self, data: &[(&Task<bool>, f64)]) -> Result<TaskPosterior, HbrecError> {
        let q = self.prior.width();
        let (mut rows, mut offsets) = (Vec::new(), Vec::new());
        let (mut positive, mut weights) = (Vec::new(), Vec::new());
        for (task, weight) in data {
            task.check_width(q)?;
            for (x, &y) in task.iter() {
                rows.extend(self.whitened(x));
                offsets.push(dot(x, self.prior.mean()));
                positive.push(y);
                weights.push(*weight);
            }
        }
        let observations = Observations {
            rows: &rows,
            width: q,
            offsets: &offsets,
            positive: &positive,
            weights: &weights,
        };
        let numerical = |source| HbrecError::Numerical {
            what: "posterior",
            iteration: 0,
            block: "task with rows:",
            item: offsets.len(),
            source,
        };
        let laplace = laplace::fit(&observations).map_err(numerical)?;
        // Moments by expectation propagation: a mode lies nearer to the prior's mean than the posterior's mean does, and a base distribution learned from modes is
        // too narrow. A share of a row's likelihood has no moments in closed form.
        let moments = match weights.iter().all(|&weight| weight == 1.0) {
            true => ep::fit(&observations).map_err(numerical)?,
            false => Moments {
                mean: laplace.mode.clone(),
                covariance: laplace.spread.covariance(q),
                ln_evidence: laplace.ln_evidence,
            },
        };
        Ok(TaskPosterior {
            mode: self.coloured(laplace.mode),
            mean: self.coloured(moments.mean),
            covariance: moments.covariance,
            ln_evidence: moments.ln_evidence,
        })
    }

    fn ln_evidence(&self, posterior: &TaskPosterior) -> f64 {
        posterior.ln_evidence
    }

    fn atom(&self, posterior: &TaskPosterior, rule: AtomRule) -> TaskAtom {
        match rule {
            AtomRule::Map => TaskAtom {
                coefficients: posterior.mode.clone(),
                covariance: Vec::new(),
            },
            AtomRule::Mean => {
                let (coefficients, covariance) = self.moments(posterior);
                let q = covariance.nrows();
                TaskAtom {
                    coefficients,
                    covariance: (0..q * q).map(|at| covariance[(at % q, at / q)]).collect(),
                }
            }
        }
    }

    fn ln_likelihood(&self, atom: &TaskAtom, task: &Task<bool>) -> f64 {
        let term = |(x, &y): (&[f64], &bool)| {
            let t = atom.ratio(x);
            ln_phi(if y { t } else { -t })
        };
        task.iter().map(term).sum()
    }

    fn predict(&self, atom: &TaskAtom, query: &[f64]) -> f64 {
        normal_cdf(atom.ratio(query))
    }

    fn predict_alone(&self, posterior: &TaskPosterior, query: &[f64]) -> f64 {
        assert_eq!(query.len(), posterior.mean.len(), "features of the query");
        let white = self.whitened(query);
        let rows = posterior.covariance.chunks_exact(white.len()).zip(&white);
        let variance: f64 = rows.map(|(row, a)| a * dot(row, &white)).sum();
        normal_cdf(dot(query, &posterior.mean) / (1.0 + variance.max(0.0)).sqrt())
    }
}

impl GibbsModel for ProbitTask {
    fn draw_prior(&self, rng: &mut Xoshiro256PlusPlus) -> TaskAtom {
        TaskAtom {
            coefficients: draw_prior(&self.prior, rng),
            covariance: Vec::new(),
        }
    }

    /// Utilities given the coefficients, then coefficients given the utilities.
    fn redraw(
        &self,
        atom: &mut TaskAtom,
        members: &[&Task<bool>],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), HbrecError> {
        let (mut precision, mut linear) = prior_system(&self.prior);
        for task in members {
            task.check_width(self.prior.width())?;
            for (x, &y) in task.iter() {
                let z = sample_probit(dot(x, &atom.coefficients), y, rng);
                add_outer(x, 1.0, &mut precision);
                linear.iter_mut().zip(x).for_each(|(sum, x)| *sum += z * x);
            }
        }
        let factor = factor_precision(&precision, self.prior.width())?;
        factor.sample_canonical(&mut linear, rng);
        atom.coefficients = linear;
        Ok(())
    }

    /// None: the evidence is an approximation.
    fn draw_exact(&self, _: &TaskPosterior, _: &mut Xoshiro256PlusPlus) -> Option<TaskAtom> {
        None
    }

    fn is_valid(&self, atom: &TaskAtom) -> bool {
        let q = self.prior.width();
        let sized = atom.coefficients.len() == q
            && (atom.covariance.is_empty() || atom.covariance.len() == q * q);
        sized
            && atom
                .coefficients
                .iter()
                .chain(&atom.covariance)
                .all(|w| w.is_finite())
    }
}

impl GaussianTask for ProbitTask {
    fn with_prior(&self, prior: GaussianPrior) -> Self {
        Self { prior }
    }

    fn prior(&self) -> &GaussianPrior {
        &self.prior
    }

    fn moments(&self, posterior: &TaskPosterior) -> (Vec<f64>, Mat<f64>) {
        let q = self.prior.width();
        let white = Mat::from_fn(q, q, |i, j| posterior.covariance[i * q + j]);
        let l = self.prior.factor().l();
        (posterior.mean.clone(), l * white * l.transpose())
    }
}
