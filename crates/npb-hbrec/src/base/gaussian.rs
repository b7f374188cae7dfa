//! A normal base distribution of tasks, by EM.

use npb_infer::{VbLimits, VbOutcome};
use npb_linalg::faer::Mat;
use rayon::prelude::*;

use crate::task::GaussianPrior;
use crate::{GaussianTask, HbrecError};

/// Observations that the prior of the covariance is worth, beyond the number of coefficients.
const PRIOR_TASKS: f64 = 2.0;

/// Parametric hierarchical Bayes (T 3): mean and covariance of the tasks' coefficients by EM, from the model's own base distribution.
///
/// `mu = mean m_j`, `Sigma = (S_0 nu + sum [(m_j - mu)(m_j - mu)' + V_j]) / (M + nu)` with the moments `m_j, V_j` of each task and `S_0` the covariance at
/// the start, `nu = q + 2`: an inverse Wishart prior, without which few tasks give a singular covariance. The summed log-evidence with the logarithm of
/// that prior never falls where evidence and moments are exact (linear tasks). Returns the model with the learned base, and how the run went.
///
/// # Errors
/// No task; tasks that do not fit the model; numerical trouble.
pub fn learn_gaussian<U: GaussianTask>(
    model: &U,
    tasks: &[&U::Data],
    limits: &VbLimits,
) -> Result<(U, VbOutcome), HbrecError> {
    if tasks.is_empty() {
        return Err(HbrecError::NoData);
    }
    let scale = model.prior().clone();
    let mut learned = model.with_prior(scale.clone());
    let outcome = npb_infer::run_vb(
        &mut learned,
        limits,
        |learned: &mut U| step(learned, tasks, &scale),
        |_, _| std::ops::ControlFlow::Continue(()),
    )?;
    Ok((learned, outcome))
}

/// One step; the objective before its M-step.
fn step<U: GaussianTask>(
    learned: &mut U,
    tasks: &[&U::Data],
    scale: &GaussianPrior,
) -> Result<f64, HbrecError> {
    let q = scale.width();
    let moments = |task: &&U::Data| {
        let posterior = learned.fit(task)?;
        let (mean, covariance) = learned.moments(&posterior);
        Ok((mean, covariance, learned.ln_evidence(&posterior)))
    };
    let fits = tasks
        .par_iter()
        .map(moments)
        .collect::<Result<Vec<_>, HbrecError>>()?;
    let n = fits.len() as f64;
    let nu = q as f64 + PRIOR_TASKS;
    let factor = learned.prior().factor();
    let inside: f64 = (0..q)
        .map(|k| {
            let column = |i: usize| scale.covariance()[(i, k)];
            let mut x: Vec<f64> = (0..q).map(column).collect();
            factor.solve(&mut x);
            x[k]
        })
        .sum();
    let ln_prior = -0.5 * nu * (factor.ln_det() + inside);
    let objective = fits.iter().map(|fit| fit.2).sum::<f64>() + ln_prior;
    let mean: Vec<f64> = (0..q)
        .map(|k| fits.iter().map(|f| f.0[k]).sum::<f64>() / n)
        .collect();
    let mut covariance = Mat::from_fn(q, q, |i, j| nu * scale.covariance()[(i, j)]);
    for (m, v, _) in &fits {
        for j in 0..q {
            for i in 0..q {
                covariance[(i, j)] += v[(i, j)] + (m[i] - mean[i]) * (m[j] - mean[j]);
            }
        }
    }
    let covariance = Mat::from_fn(q, q, |i, j| covariance[(i, j)] / (n + nu));
    *learned = learned.with_prior(GaussianPrior::new(mean, covariance.as_ref())?);
    Ok(objective)
}
