//! What the targets of many tasks say about the projection.

use std::borrow::Cow;
use std::sync::Arc;

use npb_infer::parallel;
use npb_linalg::faer::Mat;

use super::data::{Task, TaskTargets};
#[cfg(test)]
use crate::alternate::primal;
use crate::alternate::{Supervision, better, check_solutions};
use crate::config::{ClassCosts, IlsvmConfig};
use crate::dense::product;
use crate::error::RegBayesError;
use crate::factors::Factors;
use crate::factors::indicators::sweep_item;
use crate::inputs::Inputs;
use crate::kinks::{Kink, minimise};
use crate::loss::{Slack, Targets};
use crate::machine::{Machine, MachineLimits, Problem, Solution};

/// Targets of one task in the units of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    /// Positions among the training rows.
    pub(crate) places: Vec<usize>,
    pub(crate) targets: TaskTargets,
    pub(crate) costs: Vec<f64>,
}

impl Goal {
    /// `places[row]`: position of a row among the training rows.
    pub(crate) fn new(
        task: &Task,
        places: &[usize],
        (centre, scale): (f64, f64),
        config: &IlsvmConfig,
    ) -> Self {
        let costs = match (&task.targets, config.class_costs) {
            (TaskTargets::Binary(positive), ClassCosts::Balanced) => {
                balanced(positive, config.cost)
            }
            _ => vec![config.cost; task.rows.len()],
        };
        Self {
            places: task.rows.iter().map(|&n| places[n]).collect(),
            targets: match &task.targets {
                TaskTargets::Binary(positive) => TaskTargets::Binary(positive.clone()),
                TaskTargets::Real(values) => {
                    TaskTargets::Real(values.iter().map(|y| (y - centre) / scale).collect())
                }
            },
            costs,
        }
    }

    pub(crate) fn targets(&self, slack: Slack, epsilon: f64) -> Targets<'_> {
        match &self.targets {
            TaskTargets::Binary(positive) => Targets::Binary { positive, slack },
            TaskTargets::Real(values) => Targets::Real {
                values,
                epsilon,
                slack,
            },
        }
    }
}

/// Costs inversely proportional to class sizes, mean `cost`; a class without rows has none to give away.
fn balanced(positive: &[bool], cost: f64) -> Vec<f64> {
    let n = positive.len() as f64;
    let ones = positive.iter().filter(|&&y| y).count() as f64;
    if ones == 0.0 || ones == n {
        return vec![cost; positive.len()];
    }
    let weight = |y: &bool| 0.5 * cost * n / if *y { ones } else { n - ones };
    positive.iter().map(weight).collect()
}

/// All that stays the same in a run.
#[derive(Clone, Debug)]
pub(crate) struct TaskProblem {
    /// D x N: training inputs in standard units, holes filled.
    pub(crate) inputs: Mat<f64>,
    pub(crate) goals: Vec<Goal>,
    pub(crate) slack: Slack,
    pub(crate) epsilon: f64,
    pub(crate) ones: f64,
    /// What is appended to the features of each training row, row-major.
    pub(crate) appended: Vec<f64>,
}

impl TaskProblem {
    /// The rows of one task.
    fn own_rows<'r>(&self, m: usize, rows: &'r [f64], width: usize) -> Cow<'r, [f64]> {
        let places = &self.goals[m].places;
        if places.len() * width == rows.len() {
            return Cow::Borrowed(rows);
        }
        let row = |&n: &usize| rows[n * width..(n + 1) * width].iter().copied();
        Cow::Owned(places.iter().flat_map(row).collect())
    }

    /// What is asked of the scores of one task.
    fn wanted(&self, m: usize) -> Problem<'_> {
        let goal = &self.goals[m];
        Problem {
            targets: goal.targets(self.slack, self.epsilon),
            costs: &goal.costs,
        }
    }

    /// Rows of the machine, row-major, and their width.
    fn rows(&self, indicators: &Mat<f64>) -> (Vec<f64>, usize) {
        let rows = machine_rows(&self.inputs, indicators, &self.appended);
        let width = rows.len() / self.inputs.ncols();
        (rows, width)
    }
}

/// Features `psi'x` of each row of `inputs` (D x N), then what is appended to it. Row-major.
pub(crate) fn machine_rows(inputs: &Mat<f64>, indicators: &Mat<f64>, appended: &[f64]) -> Vec<f64> {
    let features = product(indicators.as_ref(), inputs.as_ref(), 1.0);
    let own = appended.len() / inputs.ncols().max(1);
    let row = |n: usize| {
        let features = features.col_as_slice(n).iter();
        features.chain(&appended[n * own..][..own]).copied()
    };
    (0..inputs.ncols()).flat_map(row).collect()
}

/// The machines of all tasks.
#[derive(Clone, Debug)]
pub(crate) struct TaskMargins {
    problem: Arc<TaskProblem>,
    pub(crate) solutions: Vec<Solution>,
    n_features: usize,
}

impl TaskMargins {
    pub(crate) fn new(problem: TaskProblem) -> Self {
        Self {
            problem: Arc::new(problem),
            solutions: Vec::new(),
            n_features: 0,
        }
    }

    /// Weights of the features, M x K.
    fn feature_weights(&self) -> Mat<f64> {
        Mat::from_fn(self.solutions.len(), self.n_features, |m, k| {
            self.solutions[m].weights[k]
        })
    }

    /// Solves one task on its rows of `rows`.
    fn solve(
        &self,
        m: usize,
        (rows, width): (&[f64], usize),
        limits: &MachineLimits,
    ) -> Result<Solution, RegBayesError> {
        let own = self.problem.own_rows(m, rows, width);
        let machine = Machine::new(Inputs::dense(&own, width)?.with_ones(self.problem.ones)?);
        let wanted = self.problem.wanted(m);
        let warm = self.solutions.get(m);
        let solution = machine.solve(&wanted, warm, limits)?;
        Ok(match warm {
            Some(last) => better(&machine, &wanted, last, solution),
            None => solution,
        })
    }
}

impl Supervision for TaskMargins {
    fn refit(
        &mut self,
        indicators: &Mat<f64>,
        limits: &MachineLimits,
        _ceiling: f64,
    ) -> Result<(), RegBayesError> {
        let (rows, width) = self.problem.rows(indicators);
        self.n_features = indicators.nrows();
        let tasks = 0..self.problem.goals.len();
        let solutions: Result<Vec<Solution>, RegBayesError> =
            parallel::try_map(tasks, |m| self.solve(m, (&rows, width), limits));
        self.solutions = solutions?;
        Ok(())
    }

    fn objective(&self) -> f64 {
        self.solutions.iter().map(|s| s.primal).sum()
    }

    /// `sum_m mu_mk sum_n (signed omega_mn) x_nd`. Cost: N D M + D M K.
    fn pull(&self, _indicators: &Mat<f64>) -> Mat<f64> {
        let mut duals = Mat::zeros(self.problem.inputs.ncols(), self.solutions.len());
        for (m, solution) in self.solutions.iter().enumerate() {
            let column = duals.col_as_slice_mut(m);
            for (&n, dual) in self.problem.goals[m].places.iter().zip(&solution.duals) {
                column[n] = *dual;
            }
        }
        let directions = product(self.problem.inputs.as_ref(), duals.as_ref(), 1.0);
        let weights = self.feature_weights();
        product(weights.transpose(), directions.transpose(), 1.0)
    }

    #[cfg(test)]
    fn objective_at(&self, indicators: &Mat<f64>) -> Result<f64, RegBayesError> {
        let (rows, width) = self.problem.rows(indicators);
        let mut sum = 0.0;
        for (m, solution) in self.solutions.iter().enumerate() {
            let own = self.problem.own_rows(m, &rows, width);
            let inputs = Inputs::dense(&own, width)?.with_ones(self.problem.ones)?;
            sum += primal(&inputs, &self.problem.wanted(m), &solution.weights);
        }
        Ok(sum)
    }

    fn solutions(&self) -> Vec<Solution> {
        self.solutions.clone()
    }

    fn take_back(
        &mut self,
        solutions: Vec<Solution>,
        n_features: usize,
    ) -> Result<(), RegBayesError> {
        let problem = &self.problem;
        let appended = problem.appended.len() / problem.inputs.ncols();
        let n_weights = n_features + appended + usize::from(problem.ones > 0.0);
        let sizes = problem.goals.iter().map(|goal| (1, goal.places.len()));
        check_solutions(&solutions, sizes, n_weights)?;
        self.solutions = solutions;
        self.n_features = n_features;
        Ok(())
    }

    /// Cost: D K times the number of targets.
    fn sweep_exactly(&mut self, factors: &mut Factors<'_>, label_weight: f64) {
        let weights = self.feature_weights();
        let (rows, _) = self.problem.rows(&factors.state.indicators);
        let mut scores = Scores::new(self, &rows, label_weight);
        let precision = factors.precision();
        let mut odds = vec![0.0; factors.state.n_features()];
        factors.state.sticks.prior_ln_odds(&mut odds);
        let mut scratch = Vec::new();
        for item in 0..factors.state.n_items() {
            let psi = factors.state.indicators.col_as_slice_mut(item);
            let mut evidence = factors.evidence.of_item(factors.items, item, psi);
            sweep_item(&mut evidence, psi, precision, &odds, |k, ln_odds, psi| {
                let slopes = scores.slopes(&weights, item, k);
                let kinks = |sign, reach, out: &mut Vec<Kink>| scores.kinks(sign, reach, out);
                let new = minimise(ln_odds, psi, slopes, kinks, &mut scratch);
                scores.follow(new - psi);
                new
            });
        }
    }
}

/// Scores of all targets, and how they follow one indicator.
struct Scores<'a> {
    problem: &'a TaskProblem,
    /// All targets, task by task.
    scores: Vec<f64>,
    /// Places where the loss of a target has kinks: (target, score, slope below, slope above).
    places: Vec<(u32, f64, f64, f64)>,
    /// d score / d psi for the indicator at hand.
    rates: Vec<f64>,
}

impl<'a> Scores<'a> {
    fn new(margins: &'a TaskMargins, rows: &[f64], label_weight: f64) -> Self {
        let problem = &*margins.problem;
        let width = rows.len() / problem.inputs.ncols();
        let (mut scores, mut places) = (Vec::new(), Vec::new());
        for (goal, solution) in problem.goals.iter().zip(&margins.solutions) {
            let (own, bias) = solution.weights.split_at(width);
            let bias = bias.first().map_or(0.0, |b| b * problem.ones);
            for (i, &n) in goal.places.iter().enumerate() {
                let (target, c) = (scores.len() as u32, label_weight * goal.costs[i]);
                scores.push(bias + npb_linalg::dot(&rows[n * width..(n + 1) * width], own));
                match &goal.targets {
                    TaskTargets::Binary(y) if y[i] => places.push((target, 1.0, -c, 0.0)),
                    TaskTargets::Binary(_) => places.push((target, -1.0, 0.0, c)),
                    TaskTargets::Real(y) => {
                        places.push((target, y[i] - problem.epsilon, -c, 0.0));
                        places.push((target, y[i] + problem.epsilon, 0.0, c));
                    }
                }
            }
        }
        Self {
            problem,
            rates: vec![0.0; scores.len()],
            scores,
            places,
        }
    }

    /// Slopes of the loss in indicator k of input column `item`, below and above; sets the rates.
    fn slopes(&mut self, weights: &Mat<f64>, item: usize, k: usize) -> [f64; 2] {
        let mut rates = self.rates.iter_mut();
        for (m, goal) in self.problem.goals.iter().enumerate() {
            let weight = weights[(m, k)];
            for &n in &goal.places {
                if let Some(rate) = rates.next() {
                    *rate = weight * self.problem.inputs[(item, n)];
                }
            }
        }
        let mut slopes = [0.0; 2];
        for &(target, place, below, above) in &self.places {
            let (score, rate) = (self.scores[target as usize], self.rates[target as usize]);
            let (first, second) = if score < place {
                (below, below)
            } else if score > place {
                (above, above)
            } else if rate > 0.0 {
                (below, above)
            } else {
                (above, below)
            };
            slopes[0] += rate * first;
            slopes[1] += rate * second;
        }
        slopes
    }

    fn kinks(&self, sign: f64, reach: f64, out: &mut Vec<Kink>) {
        for &(target, place, below, above) in &self.places {
            let rate = self.rates[target as usize];
            let distance = sign * (place - self.scores[target as usize]) / rate;
            if distance > 0.0 && distance < reach {
                let jump = rate.abs() * (above - below);
                out.push(Kink { distance, jump });
            }
        }
        out.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    }

    fn follow(&mut self, delta: f64) {
        if delta != 0.0 {
            crate::dense::axpy(&mut self.scores, delta, &self.rates);
        }
    }
}
