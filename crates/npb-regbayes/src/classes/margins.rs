//! What the classes of labelled rows say about their features.

use std::sync::Arc;

use npb_linalg::faer::Mat;

#[cfg(test)]
use crate::alternate::primal;
use crate::alternate::{Margins, better, check_solutions};
use crate::dense::axpy;
use crate::error::RegBayesError;
use crate::inputs::Inputs;
use crate::loss::{Slack, Targets};
use crate::machine::{Machine, MachineLimits, Problem, Solution};

/// All that stays the same in a run.
#[derive(Clone, Debug)]
pub(crate) struct ClassProblem {
    /// Labelled rows.
    pub(crate) rows: Vec<usize>,
    /// Their classes.
    pub(crate) classes: Vec<u32>,
    pub(crate) n_classes: usize,
    /// Their costs.
    pub(crate) costs: Vec<f64>,
    /// Their appended inputs, row-major, already scaled; empty when none are wanted.
    pub(crate) raw: Vec<f64>,
    pub(crate) slack: Slack,
    pub(crate) ones: f64,
}

impl ClassProblem {
    fn problem(&self) -> Problem<'_> {
        Problem {
            targets: Targets::Classes {
                classes: &self.classes,
                n_classes: self.n_classes,
                margin: 1.0,
                slack: self.slack,
            },
            costs: &self.costs,
        }
    }

    /// Appended inputs of the n-th labelled row.
    fn raw(&self, n: usize) -> &[f64] {
        let width = self.raw.len() / self.rows.len().max(1);
        &self.raw[n * width..(n + 1) * width]
    }

    /// What the machine sees: features, appended inputs. Row-major.
    fn inputs(&self, indicators: &Mat<f64>) -> Vec<f64> {
        let mut inputs = Vec::new();
        for (n, &row) in self.rows.iter().enumerate() {
            inputs.extend_from_slice(indicators.col_as_slice(row));
            inputs.extend_from_slice(self.raw(n));
        }
        inputs
    }
}

/// The multi-class machine.
#[derive(Clone, Debug)]
pub(crate) struct ClassMargins {
    problem: Arc<ClassProblem>,
    pub(crate) solution: Option<Solution>,
    n_features: usize,
}

impl ClassMargins {
    pub(crate) fn new(problem: ClassProblem) -> Self {
        Self {
            problem: Arc::new(problem),
            solution: None,
            n_features: 0,
        }
    }

    /// Weights of the features, class by class.
    fn feature_weights(&self) -> Vec<&[f64]> {
        let weights = self.solution.as_ref().map_or(&[][..], |s| &s.weights);
        let width = weights.len() / self.problem.n_classes;
        let own = weights.chunks_exact(width.max(1));
        own.map(|w| &w[..self.n_features]).collect()
    }
}

impl Margins for ClassMargins {
    fn refit(
        &mut self,
        indicators: &Mat<f64>,
        limits: &MachineLimits,
        ceiling: f64,
    ) -> Result<(), RegBayesError> {
        let rows = self.problem.inputs(indicators);
        let width = rows.len() / self.problem.rows.len();
        self.n_features = indicators.nrows();
        let machine = Machine::new(Inputs::dense(&rows, width)?.with_ones(self.problem.ones)?);
        let problem = self.problem.problem();
        let warm = self.solution.as_ref();
        let solution = machine.solve_below(&problem, warm, limits, ceiling)?;
        self.solution = Some(match warm {
            Some(last) => better(&machine, &problem, last, solution),
            None => solution,
        });
        Ok(())
    }

    fn objective(&self) -> f64 {
        self.solution.as_ref().map_or(0.0, |s| s.primal)
    }

    /// `sum_y omega_n^y E[eta_{y_n} - eta_y]`. Cost: labelled rows × classes × K.
    fn pull(&self, indicators: &Mat<f64>) -> Mat<f64> {
        let mut pull = Mat::zeros(indicators.nrows(), indicators.ncols());
        let weights = self.feature_weights();
        let duals = self.solution.as_ref().map_or(&[][..], |s| &s.duals);
        let rows = duals.chunks_exact(self.problem.n_classes);
        for (duals, &row) in rows.zip(&self.problem.rows) {
            let column = pull.col_as_slice_mut(row);
            for (&dual, weights) in duals.iter().zip(&weights) {
                if dual != 0.0 {
                    axpy(column, dual, weights);
                }
            }
        }
        pull
    }

    #[cfg(test)]
    fn objective_at(&self, indicators: &Mat<f64>) -> Result<f64, RegBayesError> {
        let rows = self.problem.inputs(indicators);
        let width = rows.len() / self.problem.rows.len();
        let inputs = Inputs::dense(&rows, width)?.with_ones(self.problem.ones)?;
        let problem = self.problem.problem();
        let own = |s: &Solution| primal(&inputs, &problem, &s.weights);
        Ok(self.solution.as_ref().map_or(0.0, own))
    }

    fn solutions(&self) -> Vec<Solution> {
        self.solution.iter().cloned().collect()
    }

    fn take_back(
        &mut self,
        mut solutions: Vec<Solution>,
        n_features: usize,
    ) -> Result<(), RegBayesError> {
        let problem = &self.problem;
        let size = (problem.n_classes, problem.rows.len());
        let n_weights = n_features + problem.raw(0).len() + usize::from(problem.ones > 0.0);
        check_solutions(&solutions, std::iter::once(size), n_weights)?;
        self.solution = solutions.pop();
        self.n_features = n_features;
        Ok(())
    }
}
