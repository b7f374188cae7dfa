//! A normal base distribution of tasks, by EM.

use npb_infer::parallel;
use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{Variational, VbLimits, VbOutcome, VbRun, Watch, maximise};
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, dot};
use serde::{Deserialize, Serialize};

use crate::task::{GaussianPrior, base_numerical};
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
    let watch = Watch::none();
    let run = (&mut watch.part("base", 1.0), &Checkpoint::in_memory([None]));
    learn_gaussian_watched(model, tasks, (0.0, model.prior()), limits, run)
}

/// Where EM is: the base, and where the fit of each task ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GaussianRun<H> {
    prior: GaussianPrior,
    hints: Vec<H>,
}

/// As [`learn_gaussian`], from where the checkpoint left it, and with the prior `mu ~ N(0, I / mean_precision)`: without it few tasks, and those whose classes
/// can be told apart without error, take the mean as far as it goes (`docs/hbrec.md#groups`). It begins at `from`; the base of `model` is the scale of the prior.
pub(crate) fn learn_gaussian_watched<U: GaussianTask>(
    model: &U,
    tasks: &[&U::Data],
    (mean_precision, from): (f64, &GaussianPrior),
    limits: &VbLimits,
    (part, checkpoint): (&mut Part<'_, '_>, &Checkpoint<VbRun<GaussianRun<U::Hint>>>),
) -> Result<(U, VbOutcome), HbrecError> {
    if tasks.is_empty() {
        return Err(HbrecError::NoData);
    }
    let start = model.prior();
    let begin = |reached: Option<VbRun<GaussianRun<U::Hint>>>| {
        let run = reached.map_or_else(
            || GaussianRun {
                prior: from.clone(),
                hints: vec![U::Hint::default(); tasks.len()],
            },
            |run| run.state,
        );
        if (run.prior.width(), run.hints.len()) != (start.width(), tasks.len()) {
            return Err(HbrecError::State {
                what: "checkpoint of the learned base: impossible size".to_owned(),
            });
        }
        Ok(GaussianEm {
            learned: model.with_prior(run.prior),
            hints: run.hints,
            tasks,
            start,
            mean_precision,
        })
    };
    let (em, outcome) = maximise(limits, "objective", part, (checkpoint, 0), begin)?;
    Ok((em.learned, outcome))
}

struct GaussianEm<'d, U: GaussianTask> {
    learned: U,
    hints: Vec<U::Hint>,
    tasks: &'d [&'d U::Data],
    start: &'d GaussianPrior,
    mean_precision: f64,
}

impl<U: GaussianTask> Variational for GaussianEm<'_, U> {
    type State = GaussianRun<U::Hint>;
    type Error = HbrecError;

    fn step(&mut self) -> Result<f64, HbrecError> {
        let (tasks, start) = (self.tasks, self.start);
        step(
            (&mut self.learned, &mut self.hints),
            tasks,
            start,
            self.mean_precision,
        )
    }

    fn state(&self) -> GaussianRun<U::Hint> {
        GaussianRun {
            prior: self.learned.prior().clone(),
            hints: self.hints.clone(),
        }
    }
}

/// One step; the objective before its M-step. The mean is updated given the covariance, then the covariance given the mean.
fn step<U: GaussianTask>(
    (learned, hints): (&mut U, &mut [U::Hint]),
    tasks: &[&U::Data],
    scale: &GaussianPrior,
    mean_precision: f64,
) -> Result<f64, HbrecError> {
    let q = scale.width();
    let moments = |(task, hint): (&&U::Data, &mut U::Hint)| learned.moments_from(task, hint);
    let fits = parallel::try_map(tasks.iter().zip(hints), moments)?;
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
    let before = learned.prior().mean();
    let ln_prior = -0.5 * (nu * (factor.ln_det() + inside) + mean_precision * dot(before, before));
    let objective = fits.iter().map(|fit| fit.2).sum::<f64>() + ln_prior;
    let mut mean: Vec<f64> = (0..q)
        .map(|k| fits.iter().map(|f| f.0[k]).sum::<f64>() / n)
        .collect();
    // (I + Sigma mean_precision / n)^-1 times the mean of the tasks.
    let before = learned.prior().covariance();
    let shrinkage = Mat::from_fn(q, q, |i, j| {
        f64::from(i == j) + mean_precision / n * before[(i, j)]
    });
    let shrinkage =
        Cholesky::new(shrinkage.as_ref()).map_err(|source| base_numerical(0, source))?;
    shrinkage.solve(&mut mean);
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

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use rand::RngExt;

    use super::*;
    use crate::{LinearTask, ProbitTask, Task};

    const LIMITS: VbLimits = VbLimits {
        max_iterations: 300,
        tolerance: 0.0,
    };

    fn learned<U: GaussianTask>(model: &U, tasks: &[&U::Data], precision: f64) -> (U, VbOutcome) {
        let watch = Watch::none();
        let run = (&mut watch.part("base", 1.0), &Checkpoint::in_memory([None]));
        learn_gaussian_watched(model, tasks, (precision, model.prior()), &LIMITS, run).unwrap()
    }

    /// Evidence and both priors never fall where posteriors are exact; the mean is drawn to zero, the more the fewer tasks there are.
    #[test]
    fn the_objective_with_a_prior_of_the_mean_never_falls() {
        let mut rng = stream(3, [0; 4]);
        let mut uniform = || rng.random::<f64>() * 2.0 - 1.0;
        let mut task = || {
            let rows: Vec<f64> = (0..12).map(|_| uniform()).collect();
            let y = |x: &[f64]| 3.0 * x[0] - 2.0 * x[1];
            let y: Vec<f64> = rows.chunks(2).map(|x| y(x) + 0.3 * uniform()).collect();
            Task::new(2, &rows, &y).unwrap()
        };
        let tasks: Vec<Task<f64>> = (0..6).map(|_| task()).collect();
        let tasks: Vec<&Task<f64>> = tasks.iter().collect();
        let model = LinearTask::new(GaussianPrior::isotropic(2, 0.5).unwrap(), 0.1).unwrap();
        let mut means = Vec::new();
        for (precision, tasks) in [(0.0, &tasks[..]), (1.0, &tasks[..]), (1.0, &tasks[..2])] {
            let (learned, outcome) = learned(&model, tasks, precision);
            let bound: Vec<f64> = outcome.trace.iter().map(|r| r.elbo).collect();
            let rises = |w: &[f64]| w[1] >= w[0] - 1e-10 * w[0].abs();
            assert!(bound.windows(2).all(rises), "{bound:?}");
            means.push(learned.prior().mean()[0]);
        }
        assert!(
            means[0] > means[1] && means[1] > means[2] && means[2] > 0.0,
            "{means:?}"
        );
    }

    /// One group whose classes can be told apart without error: without a prior the mean would go as far as it is let.
    #[test]
    fn separable_classes_do_not_take_the_mean_away() {
        let rows: Vec<f64> = (-10..10).map(|i| f64::from(i) + 0.5).collect();
        let y: Vec<bool> = rows.iter().map(|x| *x > 0.0).collect();
        let task = Task::new(1, &rows, &y).unwrap();
        let model = ProbitTask::new(GaussianPrior::isotropic(1, 1.0).unwrap());
        let slope = |precision| learned(&model, &[&task], precision).0.prior().mean()[0];
        assert!(slope(1.0) < 2.0, "{}", slope(1.0));
        assert!(slope(0.0) > 3.0, "{}", slope(0.0));
    }
}
