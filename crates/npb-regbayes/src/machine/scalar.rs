//! Losses of one score: hinge and epsilon-insensitive are one problem.
//!
//! With signed duals `b_n` (`w = sum b_n x_n`) both read
//! `max -|w|^2/2 + sum_n (t_n b_n - epsilon |b_n| - h_n b_n^2 / 2)`, `low_n <= b_n <= high_n`: a binary target has `t = y`, `epsilon = 0` and duals of the
//! sign of `y` only (R Lemma 9), a real one has both signs (Lemma 11, `omega` signed).

use pulp::Simd;

use super::ascent::{Ascent, Start};
use super::kernels;
use crate::inputs::Inputs;
use crate::loss::{Slack, Targets};

pub(super) struct Duals<'r, S> {
    simd: S,
    inputs: &'r Inputs<'r>,
    squared_norms: &'r [f64],
    targets: Targets<'r>,
    costs: &'r [f64],
    slack: Slack,
    epsilon: f64,
    weights: Vec<f64>,
    duals: Vec<f64>,
}

impl<'r, S: Simd> Duals<'r, S> {
    #[inline(always)]
    pub(super) fn new(simd: S, start: &Start<'r, 'r>) -> Self {
        let (slack, epsilon) = match start.targets {
            Targets::Real { epsilon, slack, .. } => (slack, epsilon),
            Targets::Binary { slack, .. } | Targets::Classes { slack, .. } => (slack, 0.0),
        };
        let inputs = start.inputs;
        let mut duals = Self {
            simd,
            inputs,
            squared_norms: start.squared_norms,
            targets: start.targets,
            costs: start.costs,
            slack,
            epsilon,
            weights: vec![0.0; inputs.n_weights()],
            duals: vec![0.0; inputs.n_rows()],
        };
        for (row, &dual) in start.warm.unwrap_or(&[]).iter().enumerate() {
            let (low, high) = duals.range(row);
            let dual = dual.clamp(low, high);
            if dual != 0.0 {
                duals.duals[row] = dual;
                kernels::add(simd, inputs, row, dual, &mut duals.weights);
            }
        }
        duals
    }

    /// Smallest and largest dual of a row.
    #[inline(always)]
    fn range(&self, row: usize) -> (f64, f64) {
        let most = self.slack.most(self.costs[row]);
        match self.targets {
            Targets::Binary { positive, .. } if positive[row] => (0.0, most),
            Targets::Binary { .. } => (-most, 0.0),
            _ => (-most, most),
        }
    }

    #[inline(always)]
    fn target(&self, row: usize) -> f64 {
        match self.targets {
            Targets::Real { values, .. } => values[row],
            Targets::Binary { positive, .. } if positive[row] => 1.0,
            _ => -1.0,
        }
    }

    #[inline(always)]
    fn curvature(&self, row: usize) -> f64 {
        self.slack.curvature(self.costs[row])
    }

    /// The best dual of a row given all others.
    #[inline(always)]
    fn best(&self, row: usize, score: f64) -> f64 {
        let (dual, norm) = (self.duals[row], self.squared_norms[row]);
        let (low, high) = self.range(row);
        let pull = norm * dual + self.target(row) - score;
        let pull = pull.signum() * (pull.abs() - self.epsilon).max(0.0);
        let best = pull / (norm + self.curvature(row));
        // An empty row with nothing to win: any dual will do.
        if best.is_nan() {
            dual
        } else {
            best.clamp(low, high)
        }
    }
}

impl<S: Simd> Ascent for Duals<'_, S> {
    #[inline(always)]
    fn update(&mut self, row: usize) -> bool {
        let score = kernels::score(self.simd, self.inputs, row, &self.weights);
        let best = self.best(row, score);
        let step = best - self.duals[row];
        if step == 0.0 {
            return false;
        }
        self.duals[row] = best;
        kernels::add(self.simd, self.inputs, row, step, &mut self.weights);
        true
    }

    #[inline(always)]
    fn look(&mut self, row: usize) -> (f64, bool) {
        let score = kernels::score(self.simd, self.inputs, row, &self.weights);
        let moves = self.best(row, score) != self.duals[row];
        (self.targets.loss(row, &[score]), moves)
    }

    #[inline(always)]
    fn earnings(&self, row: usize) -> f64 {
        let dual = self.duals[row];
        let charge = self.epsilon * dual.abs() + 0.5 * self.curvature(row) * dual * dual;
        self.target(row) * dual - charge
    }

    fn squared_weights(&self) -> f64 {
        npb_linalg::dot(&self.weights, &self.weights)
    }

    fn finish(self) -> (Vec<f64>, Vec<f64>) {
        (self.weights, self.duals)
    }
}
