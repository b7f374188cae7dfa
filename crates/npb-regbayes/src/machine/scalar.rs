//! Losses of one score: hinge and epsilon-insensitive are one problem.
//!
//! With signed duals `b_n` (`w = sum b_n x_n`) both read
//! `max -|w|^2/2 + sum_n (t_n b_n - epsilon |b_n| - h_n b_n^2 / 2)`, `low_n <= b_n <= high_n`: a binary target has `t = y`, `epsilon = 0` and duals of the
//! sign of `y` only (R Lemma 9), a real one has both signs (Lemma 11, `omega` signed).

use pulp::Simd;

use super::ascent::{Ascent, Start};
use super::kernels;
use crate::inputs::{Inputs, Rows};
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
        match self.inputs.rows {
            Rows::Products(_) => npb_linalg::dot(&self.weights, &self.duals),
            _ => npb_linalg::dot(&self.weights, &self.weights),
        }
    }

    fn finish(self) -> (Vec<f64>, Vec<f64>) {
        (self.weights, self.duals)
    }
}

#[cfg(test)]
mod tests {
    use crate::inputs::Inputs;
    use crate::loss::{Slack, Targets};
    use crate::machine::{Machine, MachineLimits, Problem};

    /// Rows and their inner products have the same duals and scores, rows that take no part included; a warm start goes on where it was.
    #[test]
    fn products_of_rows_say_what_rows_do() {
        let (n, d) = (12, 3);
        let rows: Vec<f64> = (0..n * d)
            .map(|k| f64::from((k * k * 7 % 31) as u32) / 15.0 - 1.0)
            .collect();
        let dense = Inputs::dense(&rows, d).unwrap().with_ones(0.5).unwrap();
        let product = |i: usize, j: usize| -> f64 {
            let each = (0..d).map(|c| rows[i * d + c] * rows[j * d + c]);
            each.sum::<f64>() + 0.25
        };
        let products: Vec<f64> = (0..n * n).map(|k| product(k / n, k % n)).collect();
        let positive: Vec<bool> = (0..n).map(|i| i % 3 == 0).collect();
        let mut costs = vec![2.0; n];
        costs[4] = 0.0;
        let targets = Targets::Binary {
            positive: &positive,
            slack: Slack::Linear,
        };
        let problem = Problem {
            targets,
            costs: &costs,
        };
        let limits = MachineLimits {
            tolerance: 1e-10,
            ..MachineLimits::default()
        };
        let one = Machine::new(dense);
        let other = Machine::new(Inputs::products(&products));
        let a = one.solve(&problem, None, &limits).unwrap();
        let b = other.solve(&problem, None, &limits).unwrap();
        let again = other.solve(&problem, Some(&b), &limits).unwrap();
        assert!((a.primal - b.primal).abs() < 1e-8 && again.passes == 0.0);
        for i in 0..n {
            let score = one.inputs().score(i, &a.weights);
            for solution in [&b, &again] {
                let own = other.inputs().score(i, &solution.weights);
                assert!((score - own).abs() < 1e-4, "{score} {own}");
            }
        }
    }
}
