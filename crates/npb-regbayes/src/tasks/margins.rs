//! What the targets of many tasks say about the projection.

use std::borrow::Cow;
use std::sync::Arc;

use npb_infer::parallel;
use npb_linalg::faer::Mat;

use super::data::{Task, TaskTargets};
#[cfg(test)]
use crate::alternate::primal;
use crate::alternate::{Margins, better, check_solutions};
use crate::config::{ClassCosts, IlsvmConfig};
use crate::dense::product;
use crate::error::RegBayesError;
use crate::inputs::Inputs;
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

impl Margins for TaskMargins {
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
}
