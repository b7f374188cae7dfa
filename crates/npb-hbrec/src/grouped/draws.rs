//! Draws of the base distribution of probit tasks, by Gibbs sampling (`docs/hbrec.md#groups`): what few groups leave open about it.

use npb_infer::parallel;
use npb_infer::stream;
use npb_infer::watch::Part;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::dist::Wishart;
use rand::Rng;

use crate::laplace::add_outer;
use crate::task::{GaussianPrior, base_numerical};
use crate::users::prior_system;
use crate::{GaussianTask, HbrecError, ProbitTask, Task, TaskAtom};

/// Of draws of the base.
const KEY: u64 = 32;

/// Sweeps before the first draw, from one draw to the next, and number of draws of up to `MANY` tasks. Of more the base is surer: what its variance is the less,
/// fewer draws take their average as well.
const BURN_IN: u64 = 100;
const THIN: u64 = 10;
const KEPT: usize = 40;
const MANY: usize = 500;
const LEAST_KEPT: usize = 10;

fn kept(tasks: usize) -> usize {
    (KEPT * MANY / tasks.max(MANY)).max(LEAST_KEPT)
}

/// Degrees of freedom of the prior of the covariance beyond the number of coefficients, and the scale of that prior in covariances at which the base starts. The
/// prior is worth three tasks, with standard deviations of about one and a half of those at the start: rows that can be told apart say little of the size of
/// coefficients, and a narrower prior would decide it.
const DF: f64 = 2.0;
const SCALE: f64 = 6.0;
/// Precision of the mean of the base.
const MEAN_PRECISION: f64 = 0.25;

/// Base distribution, and the coefficients of every task.
#[derive(Clone, Debug)]
struct State {
    base: GaussianPrior,
    tasks: Vec<TaskAtom>,
}

/// Prior of the base: `mu ~ N(0, 4 I)`, `Sigma^-1 ~ W(S^-1, q + 2)`.
struct Law {
    /// S.
    scale: Mat<f64>,
}

impl Law {
    fn of(start: &GaussianPrior) -> Self {
        let (q, covariance) = (start.width(), start.covariance());
        Self {
            scale: Mat::from_fn(q, q, |i, j| SCALE * covariance[(i, j)]),
        }
    }

    /// Mean, then covariance given the coefficients of the tasks.
    fn draw(&self, state: &mut State, rng: &mut impl Rng) -> Result<(), HbrecError> {
        let (q, m) = (self.scale.nrows(), state.tasks.len() as f64);
        let precision = state.base.precision();
        let total = |k: usize| state.tasks.iter().map(|t| t.coefficients[k]).sum::<f64>();
        let totals: Vec<f64> = (0..q).map(total).collect();
        let mut mean: Vec<f64> = (0..q)
            .map(|i| (0..q).map(|k| precision[(i, k)] * totals[k]).sum())
            .collect();
        let system = Mat::from_fn(q, q, |i, j| {
            m * precision[(i, j)] + if i == j { MEAN_PRECISION } else { 0.0 }
        });
        let factor = Cholesky::new(system.as_ref()).map_err(|source| base_numerical(0, source))?;
        factor.sample_canonical(&mut mean, rng);
        let inverse_scale = Mat::from_fn(q, q, |i, j| {
            let product =
                |t: &TaskAtom| (t.coefficients[i] - mean[i]) * (t.coefficients[j] - mean[j]);
            self.scale[(i, j)] + state.tasks.iter().map(product).sum::<f64>()
        });
        let law = Wishart::from_inverse_scale(inverse_scale.as_ref(), DF + q as f64 + m)?;
        let covariance = Cholesky::new(law.sample(rng).as_ref())
            .map_err(|source| base_numerical(0, source))?
            .inverse();
        state.base = GaussianPrior::new(mean, covariance.as_ref())?;
        Ok(())
    }
}

/// Tasks, and the sum of products of the rows of each, which no sweep changes.
struct Seen<'d> {
    tasks: &'d [&'d Task<bool>],
    products: Vec<Vec<f64>>,
}

impl<'d> Seen<'d> {
    fn new(tasks: &'d [&'d Task<bool>]) -> Self {
        let products = |task: &&Task<bool>| {
            let mut sums = vec![0.0; task.width() * task.width()];
            task.iter().for_each(|(x, _)| add_outer(x, 1.0, &mut sums));
            sums
        };
        Self {
            products: tasks.iter().map(products).collect(),
            tasks,
        }
    }
}

/// One sweep: the coefficients of every task, then the base.
fn sweep(law: &Law, state: &mut State, data: &Seen<'_>, key: (u64, u64)) -> Result<(), HbrecError> {
    let model = ProbitTask::new(state.base.clone());
    let (prior, linear) = prior_system(&state.base);
    let (seed, sweep) = key;
    let redraw = |(group, atom): (usize, &mut TaskAtom)| {
        let rng = &mut stream(seed, [0, sweep, KEY, 1 + group as u64]);
        let terms = prior.iter().zip(&data.products[group]);
        let precision: Vec<f64> = terms.map(|(a, b)| a + b).collect();
        let tasks = &data.tasks[group..=group];
        model.redraw_given(atom, tasks, (&precision, &linear), rng)
    };
    parallel::try_map(state.tasks.iter_mut().enumerate(), redraw)?;
    law.draw(state, &mut stream(seed, [0, sweep, KEY, 0]))
}

/// Draws of the base given the tasks, from a chain that starts at `start`; `scale` is where its covariance is drawn to. Stopped: those that there are.
pub(super) fn draw_bases(
    start: &ProbitTask,
    scale: &GaussianPrior,
    data: &[&Task<bool>],
    seed: u64,
    part: &mut Part<'_, '_>,
) -> Result<Vec<GaussianPrior>, HbrecError> {
    let law = Law::of(scale);
    let task = |task: &&Task<bool>| -> Result<TaskAtom, HbrecError> {
        Ok(TaskAtom {
            coefficients: start.moments_from(task, &mut Vec::new())?.0,
            covariance: Vec::new(),
        })
    };
    let mut state = State {
        base: start.prior().clone(),
        tasks: parallel::try_map(data, task)?,
    };
    let kept = kept(data.len());
    let mut draws = Vec::with_capacity(kept);
    let total = BURN_IN + THIN * kept as u64;
    let data = Seen::new(data);
    for step in 1..=total {
        sweep(&law, &mut state, &data, (seed, step))?;
        if step > BURN_IN && (step - BURN_IN).is_multiple_of(THIN) {
            draws.push(state.base.clone());
        }
        let share = step as f64 / total as f64;
        if step.is_multiple_of(THIN) && part.report(step, share, &[], &[]).is_break() {
            break;
        }
    }
    Ok(draws)
}

/// The posterior of a task, averaged over draws of the base: each has the weight of the task's evidence under it, or, where the draws have seen the task, all have the same.
pub(super) fn averaged(
    draws: &[ProbitTask],
    task: &Task<bool>,
    seen: bool,
) -> Result<TaskAtom, HbrecError> {
    let mut hint = Vec::new();
    let fit = |model: &ProbitTask| model.moments_from(task, &mut hint);
    let fits = draws
        .iter()
        .map(fit)
        .collect::<Result<Vec<_>, HbrecError>>()?;
    let best = fits.iter().map(|f| f.2).fold(f64::NEG_INFINITY, f64::max);
    let weight = |f: &(Vec<f64>, Mat<f64>, f64)| if seen { 1.0 } else { (f.2 - best).exp() };
    let total: f64 = fits.iter().map(weight).sum();
    let q = fits[0].0.len();
    let mean: Vec<f64> = (0..q)
        .map(|k| fits.iter().map(|f| weight(f) * f.0[k]).sum::<f64>() / total)
        .collect();
    let spread = |at: usize| {
        let (i, j) = (at % q, at / q);
        let term = |f: &(Vec<f64>, Mat<f64>, f64)| {
            weight(f) * (f.1[(i, j)] + (f.0[i] - mean[i]) * (f.0[j] - mean[j]))
        };
        fits.iter().map(term).sum::<f64>() / total
    };
    Ok(TaskAtom {
        covariance: (0..q * q).map(spread).collect(),
        coefficients: mean,
    })
}

#[cfg(test)]
mod tests {
    use npb_infer::Xoshiro256PlusPlus;
    use npb_infer::testing::{JointModel, JointTest};
    use npb_priors::dist::Normal;
    use npb_priors::special::normal_cdf;
    use rand::RngExt;

    use super::*;
    use crate::GibbsModel;

    /// What a tired statistician gets wrong.
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        /// One task is missing from the degrees of freedom.
        OneTaskFewer,
        /// The scale of the prior counts by half.
        HalfScale,
        /// The mean has no prior.
        FlatMean,
    }

    /// Four tasks of three rows with two features.
    struct Joint {
        law: Law,
        rows: Vec<[f64; 2]>,
        fault: Fault,
    }

    const TASKS: usize = 4;
    const ROWS: usize = 3;

    impl Joint {
        fn new(fault: Fault) -> Self {
            let rng = &mut stream(2, [0; 4]);
            let rows = (0..TASKS * ROWS).map(|_| [1.0, 3.0 * rng.random::<f64>() - 1.5]);
            Self {
                law: Law {
                    scale: Mat::from_fn(2, 2, |i, j| if i == j { 2.0 - i as f64 } else { 0.3 }),
                },
                rows: rows.collect(),
                fault,
            }
        }

        fn tasks(&self, answers: &[bool]) -> Vec<Task<bool>> {
            let task = |j: usize| {
                let own = j * ROWS..(j + 1) * ROWS;
                Task::new(2, &self.rows[own.clone()].concat(), &answers[own]).unwrap()
            };
            (0..TASKS).map(task).collect()
        }

        /// What a faulty update makes of the state, after the right one.
        fn spoil(&self, state: &mut State, rng: &mut Xoshiro256PlusPlus) {
            let (mut df, mut factor) = (DF + 2.0 + TASKS as f64, 1.0);
            match self.fault {
                Fault::None => return,
                Fault::OneTaskFewer => df -= 1.0,
                Fault::HalfScale => factor = 0.5,
                Fault::FlatMean => {
                    let mean = |k: usize| {
                        state.tasks.iter().map(|t| t.coefficients[k]).sum::<f64>() / TASKS as f64
                    };
                    let mut mean: Vec<f64> = (0..2).map(mean).collect();
                    let covariance =
                        Mat::from_fn(2, 2, |i, j| state.base.covariance()[(i, j)] / TASKS as f64);
                    Cholesky::new(covariance.as_ref())
                        .unwrap()
                        .sample_moment(&mut mean, rng);
                    let covariance = state.base.covariance().to_owned();
                    state.base = GaussianPrior::new(mean, covariance.as_ref()).unwrap();
                    return;
                }
            }
            let mean = state.base.mean().to_vec();
            let inverse_scale = Mat::from_fn(2, 2, |i, j| {
                let product =
                    |t: &TaskAtom| (t.coefficients[i] - mean[i]) * (t.coefficients[j] - mean[j]);
                factor * self.law.scale[(i, j)] + state.tasks.iter().map(product).sum::<f64>()
            });
            let law = Wishart::from_inverse_scale(inverse_scale.as_ref(), df).unwrap();
            let covariance = Cholesky::new(law.sample(rng).as_ref()).unwrap().inverse();
            state.base = GaussianPrior::new(mean, covariance.as_ref()).unwrap();
        }
    }

    impl JointModel for Joint {
        type State = State;
        type Data = Vec<bool>;

        fn names(&self) -> Vec<String> {
            let names = [
                "mean 0",
                "mean 1",
                "sd 0",
                "sd 1",
                "correlation",
                "task 0",
                "task 1",
                "distance of tasks",
                "answers",
                "answers times coefficients",
            ];
            names.map(str::to_owned).to_vec()
        }

        fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> State {
            let law = Wishart::from_inverse_scale(self.law.scale.as_ref(), DF + 2.0).unwrap();
            let covariance = Cholesky::new(law.sample(rng).as_ref()).unwrap().inverse();
            let normal = Normal::new(0.0, 1.0 / MEAN_PRECISION).unwrap();
            let mean = vec![normal.sample(rng), normal.sample(rng)];
            let base = GaussianPrior::new(mean, covariance.as_ref()).unwrap();
            let model = ProbitTask::new(base.clone());
            let tasks = (0..TASKS).map(|_| model.draw_prior(rng)).collect();
            State { base, tasks }
        }

        fn simulate(&self, state: &State, rng: &mut Xoshiro256PlusPlus) -> Vec<bool> {
            let answer = |(at, x): (usize, &[f64; 2])| {
                let w = &state.tasks[at / ROWS].coefficients;
                rng.random::<f64>() < normal_cdf(w[0] * x[0] + w[1] * x[1])
            };
            self.rows.iter().enumerate().map(answer).collect()
        }

        fn sweep(&self, state: &mut State, answers: &Vec<bool>, rng: &mut Xoshiro256PlusPlus) {
            let tasks = self.tasks(answers);
            let data: Vec<&Task<bool>> = tasks.iter().collect();
            sweep(&self.law, state, &Seen::new(&data), (rng.random(), 1)).unwrap();
            self.spoil(state, rng);
        }

        fn summary(&self, state: &State, answers: &Vec<bool>) -> Vec<f64> {
            let c = state.base.covariance();
            let w = |task: usize, k: usize| state.tasks[task].coefficients[k];
            let sign = |at: usize| if answers[at] { 1.0 } else { -1.0 };
            let agreement = |at: usize| sign(at) * w(at / ROWS, 1) * self.rows[at][1];
            vec![
                state.base.mean()[0],
                state.base.mean()[1],
                c[(0, 0)],
                c[(1, 1)],
                c[(0, 1)] / (c[(0, 0)] * c[(1, 1)]).sqrt(),
                w(0, 0),
                w(1, 1),
                (w(2, 0) - w(3, 0)).abs(),
                answers.iter().filter(|a| **a).count() as f64,
                (0..TASKS * ROWS).map(agreement).sum(),
            ]
        }
    }

    #[test]
    fn draws_leave_the_joint_law_alone() {
        let test = JointTest {
            seed: 3,
            chains: 48,
            length: 600,
            false_alarm: 0.001,
        };
        let right = test.run(&Joint::new(Fault::None));
        assert!(right.passed(), "{right}");
        for fault in [Fault::OneTaskFewer, Fault::HalfScale, Fault::FlatMean] {
            let wrong = test.run(&Joint::new(fault));
            assert!(!wrong.passed(), "{wrong}");
        }
    }

    /// Averages over draws against a plain sum over both draws and a grid of the one coefficient.
    #[test]
    fn averages_weigh_draws_by_evidence() {
        let task = Task::new(1, &[1.0, 0.5, -1.0], &[true, true, true]).unwrap();
        let base = |mean: f64, variance: f64| {
            let covariance = Mat::from_fn(1, 1, |_, _| variance);
            GaussianPrior::new(vec![mean], covariance.as_ref()).unwrap()
        };
        let draws = [base(1.5, 0.2), base(-1.0, 0.8)];
        let models = draws.clone().map(ProbitTask::new);
        for seen in [false, true] {
            let (mut mass, mut sum, mut square) = (0.0, 0.0, 0.0);
            for draw in &draws {
                let sd = draw.covariance()[(0, 0)].sqrt();
                let point = |at: usize| -6.0 + 0.002 * at as f64;
                let density = |w: f64| {
                    let likelihood: f64 = task.iter().map(|(x, _)| normal_cdf(x[0] * w)).product();
                    let z = (w - draw.mean()[0]) / sd;
                    likelihood * (-0.5 * z * z).exp() / sd
                };
                let all: f64 = (0..6000).map(|at| density(point(at))).sum();
                let share = if seen { 1.0 / all } else { 1.0 };
                for w in (0..6000).map(point) {
                    let p = share * density(w);
                    mass += p;
                    sum += p * w;
                    square += p * w * w;
                }
            }
            let (mean, variance) = (sum / mass, square / mass - (sum / mass).powi(2));
            let found = averaged(&models, &task, seen).unwrap();
            assert!(
                (found.coefficients[0] - mean).abs() < 0.02,
                "{found:?} {mean}"
            );
            assert!(
                (found.covariance[0] / variance - 1.0).abs() < 0.03,
                "{found:?} {variance}"
            );
        }
    }
}
