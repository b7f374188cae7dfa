//! Crammer and Singer's loss: the duals of a row are one number `omega_y >= 0` per wrong class, and their sum has an end or a charge.
//!
//! With `s = sum_y omega_y`, `A = |x|^2` and everything else fixed, the best duals of a row minimise
//! `A/2 (sum_y omega_y^2 + s^2) - sum_y b_y omega_y + h s^2 / 2`, `omega >= 0`, and with linear slack `s <= C`
//! (R 34, corrected: the sum over wrong classes is at most `C`, and with squared slack `h = 1/(2 C)`). So `omega_y = max(0, b_y - level) / A`, with
//! `level = (A + h) s` or the one that makes `s = C`.

use pulp::Simd;

use super::ascent::{Ascent, Start};
use super::kernels;
use crate::inputs::Inputs;
use crate::loss::{Slack, Targets};

/// What is asked of the scores.
#[derive(Clone, Copy)]
pub(super) struct Rule<'r> {
    pub(super) classes: &'r [u32],
    pub(super) n_classes: usize,
    pub(super) margin: f64,
    pub(super) slack: Slack,
}

pub(super) struct Duals<'r, S: Simd> {
    inputs: &'r Inputs<'r>,
    squared_norms: &'r [f64],
    costs: &'r [f64],
    rule: Rule<'r>,
    targets: Targets<'r>,
    weights: kernels::Block<S>,
    /// `n_rows x n_classes`, signed.
    duals: Vec<f64>,
    scores: Vec<f64>,
    best: Vec<f64>,
    step: Vec<f64>,
}

impl<'r, S: Simd> Duals<'r, S> {
    #[inline(always)]
    pub(super) fn new(simd: S, start: &Start<'r, 'r>, rule: Rule<'r>) -> Self {
        let inputs = start.inputs;
        let weights = kernels::Block::new(simd, inputs.n_weights(), rule.n_classes);
        let width = weights.width();
        let mut duals = Self {
            inputs,
            squared_norms: start.squared_norms,
            costs: start.costs,
            rule,
            targets: start.targets,
            weights,
            duals: vec![0.0; inputs.n_rows() * rule.n_classes],
            scores: vec![0.0; width],
            best: vec![0.0; width],
            step: vec![0.0; width],
        };
        if let Some(warm) = start.warm {
            for row in 0..inputs.n_rows() {
                duals.start(row, warm);
            }
        }
        duals
    }

    /// Takes over the duals of a warm start, scaled down where their sum is above its end.
    #[inline(always)]
    fn start(&mut self, row: usize, warm: &[f64]) {
        let n_classes = self.rule.n_classes;
        let own = self.rule.classes[row] as usize;
        let warm = &warm[row * n_classes..][..n_classes];
        let wrong = |y: usize| if y == own { 0.0 } else { warm[y].min(0.0) };
        let sum: f64 = (0..n_classes).map(|y| -wrong(y)).sum();
        let most = self.rule.slack.most(self.costs[row]);
        let scale = if sum > most { most / sum } else { 1.0 };
        if sum == 0.0 || scale == 0.0 {
            return;
        }
        self.step.fill(0.0);
        for y in 0..n_classes {
            self.step[y] = scale * wrong(y);
        }
        self.step[own] = scale * sum;
        self.duals[row * n_classes..][..n_classes].copy_from_slice(&self.step[..n_classes]);
        self.weights.add(self.inputs, row, &self.step);
    }

    /// Puts the best duals of a row, at its `scores`, into `best`.
    #[inline(always)]
    fn solve(&mut self, row: usize) {
        let Rule {
            classes,
            n_classes,
            margin,
            slack,
        } = self.rule;
        let own = classes[row] as usize;
        let (norm, cost) = (self.squared_norms[row], self.costs[row]);
        let old = &self.duals[row * n_classes..][..n_classes];
        let (b, scores) = (&mut self.best[..n_classes], &self.scores[..n_classes]);
        for y in 0..n_classes {
            b[y] = margin - (scores[own] - scores[y]) + norm * (old[own] - old[y]);
        }
        b[own] = f64::NEG_INFINITY;
        let h = slack.curvature(cost);
        if norm == 0.0 {
            // The weights do not see an empty row: its duals earn what its loss, the whole margin, costs.
            let sum = if h == 0.0 { cost } else { margin / h };
            b.fill(-sum / (n_classes - 1).max(1) as f64);
            b[own] = if n_classes > 1 { sum } else { 0.0 };
            return;
        }
        let mut level = free_level(b, norm, h);
        if slack == Slack::Linear && level > norm * cost {
            level = capped_level(b, norm, cost);
        }
        let mut sum = 0.0;
        for b in b.iter_mut() {
            let omega = (*b - level).max(0.0) / norm;
            sum += omega;
            *b = -omega;
        }
        b[own] = sum;
    }
}

/// `(A + h) s` without an end of `s`: `s = sum_{y in use} b_y / (A + m (A + h))`, with the `m` classes in use found by leaving out those below the level.
#[inline(always)]
fn free_level(b: &[f64], norm: f64, h: f64) -> f64 {
    let charge = norm + h;
    rising_level(b, 0.0, |sum, m| charge * sum / (norm + m * charge))
}

/// The level at which `sum_y max(0, b_y - level) = A C`.
#[inline(always)]
fn capped_level(b: &[f64], norm: f64, cost: f64) -> f64 {
    rising_level(b, f64::NEG_INFINITY, |sum, m| (sum - norm * cost) / m)
}

/// Fixed point of `level_of(sum, number)` over the entries above the level. Leaving entries out never lowers it, so that it is reached from below in as many
/// rounds as there are entries at most. An entry at the level may come back by rounding: then it is reached.
#[inline(always)]
fn rising_level(b: &[f64], start: f64, level_of: impl Fn(f64, f64) -> f64) -> f64 {
    let mut level = start;
    let mut last = usize::MAX;
    loop {
        let (mut sum, mut in_use) = (0.0, 0);
        for &b in b {
            if b > level {
                sum += b;
                in_use += 1;
            }
        }
        if in_use >= last || in_use == 0 {
            return level;
        }
        (last, level) = (in_use, level_of(sum, in_use as f64));
    }
}

impl<S: Simd> Ascent for Duals<'_, S> {
    #[inline(always)]
    fn update(&mut self, row: usize) -> bool {
        self.weights.scores(self.inputs, row, &mut self.scores);
        self.solve(row);
        let n_classes = self.rule.n_classes;
        let duals = &mut self.duals[row * n_classes..][..n_classes];
        let mut moved = false;
        for y in 0..n_classes {
            self.step[y] = self.best[y] - duals[y];
            moved |= self.step[y] != 0.0;
            duals[y] = self.best[y];
        }
        if moved {
            self.weights.add(self.inputs, row, &self.step);
        }
        moved
    }

    #[inline(always)]
    fn look(&mut self, row: usize) -> (f64, bool) {
        self.weights.scores(self.inputs, row, &mut self.scores);
        let n_classes = self.rule.n_classes;
        let loss = self.targets.loss(row, &self.scores[..n_classes]);
        self.solve(row);
        let moves = self.best[..n_classes] != self.duals[row * n_classes..][..n_classes];
        (loss, moves)
    }

    #[inline(always)]
    fn earnings(&self, row: usize) -> f64 {
        let sum = self.duals[row * self.rule.n_classes + self.rule.classes[row] as usize];
        self.rule.margin * sum - 0.5 * self.rule.slack.curvature(self.costs[row]) * sum * sum
    }

    fn squared_weights(&self) -> f64 {
        self.weights.squared()
    }

    fn finish(self) -> (Vec<f64>, Vec<f64>) {
        (self.weights.by_score(self.rule.n_classes), self.duals)
    }
}
