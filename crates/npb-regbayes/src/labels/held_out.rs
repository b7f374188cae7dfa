//! Held-out scores of members at rising costs, and how members are weighed by them.

use std::borrow::Cow;
use std::ops::ControlFlow;

use npb_infer::parallel;
use npb_linalg::faer::MatRef;

use super::calibration::{Curve, Scored, cross_entropy};
use super::members::Block;
use crate::dense::product;
use crate::error::RegBayesError;
use crate::inputs::Inputs;
use crate::loss::Slack;
use crate::machine::{Machine, MachineLimits, Problem, Solution};
use crate::tasks::{Goal, TaskTargets};

/// How well machines are solved in folds: a hundredth does not change which cost is best.
const IN_FOLDS: MachineLimits = MachineLimits {
    tolerance: 1e-2,
    max_passes: 100,
};
/// Rows whose inner products are held, at most: 32 MB.
const MOST_PRODUCTS: usize = 2000;
/// Costs in a row that make the loss larger before larger ones are given up.
const RISES: usize = 2;
/// Members, with repetition, that a stack is made of.
const ROUNDS: usize = 20;

/// Targets of the training rows, and the fold that each is held out in.
pub(super) struct HeldOutTargets {
    /// At cost 1.
    pub(super) goals: Vec<Goal>,
    /// Fold of each training row.
    pub(super) folds: Vec<usize>,
    pub(super) n_folds: usize,
    pub(super) slack: Slack,
    pub(super) epsilon: f64,
    pub(super) ones: f64,
}

/// A member at one cost: held-out scores of all targets, those of labels as log-odds.
pub(super) struct Found {
    /// Which block it sees.
    pub(super) block: usize,
    pub(super) cost: f64,
    /// Of all labels, of all numbers.
    pub(super) losses: [f64; 2],
    /// Task by task.
    pub(super) scores: Vec<Vec<f64>>,
    /// Of labels; that of numbers changes nothing.
    pub(super) curves: Vec<Curve>,
}

impl HeldOutTargets {
    /// 0 for labels, 1 for numbers.
    pub(super) fn kind(&self, m: usize) -> usize {
        match self.goals[m].targets {
            TaskTargets::Binary(_) => 0,
            TaskTargets::Real(_) => 1,
        }
    }

    /// Solves the machine of a task; rows of one fold take no part.
    pub(super) fn solve(
        &self,
        machine: &Machine<'_>,
        (m, cost, left_out): (usize, f64, Option<usize>),
        warm: Option<&Solution>,
        limits: &MachineLimits,
    ) -> Result<Solution, RegBayesError> {
        let goal = &self.goals[m];
        let cost = |(&n, c): (&usize, &f64)| match left_out == Some(self.folds[n]) {
            true => 0.0,
            false => cost * c,
        };
        let costs: Vec<f64> = goal.places.iter().zip(&goal.costs).map(cost).collect();
        let problem = Problem {
            targets: goal.targets(self.slack, self.epsilon),
            costs: &costs,
        };
        machine.solve(&problem, warm, limits)
    }

    /// The rows of a task.
    pub(super) fn rows<'b>(&self, m: usize, block: &'b Block) -> Cow<'b, [f64]> {
        let (places, width) = (&self.goals[m].places, block.width);
        if places.len() == self.folds.len() {
            return Cow::Borrowed(&block.rows);
        }
        let row = |&n: &usize| block.rows[n * width..][..width].iter().copied();
        Cow::Owned(places.iter().flat_map(row).collect())
    }

    /// Inner products of the rows of a block, the column of ones included; none where rows are many, or longer vectors than what a member sees of them.
    fn products(&self, block: &Block) -> Vec<f64> {
        let (n, width) = (self.folds.len(), block.width);
        if n > MOST_PRODUCTS || n > 2 * width {
            return Vec::new();
        }
        let rows = MatRef::from_row_major_slice(&block.rows, n, width);
        let products = product(rows, rows.transpose(), 1.0);
        let all = (0..n).flat_map(|i| products.col_as_slice(i));
        all.map(|x| x + self.ones * self.ones).collect()
    }

    /// Products of the rows of a task.
    fn own_products<'b>(&self, m: usize, products: &'b [f64]) -> Cow<'b, [f64]> {
        let (places, n) = (&self.goals[m].places, self.folds.len());
        if places.len() == n {
            return Cow::Borrowed(products);
        }
        let row = |&i: &usize| places.iter().map(move |&j| products[i * n + j]);
        Cow::Owned(places.iter().flat_map(row).collect())
    }

    /// Held-out scores of a task at a cost, by machines that begin where those in `warm` ended.
    fn left_out(
        &self,
        (block, products): (&Block, &[f64]),
        (m, cost): (usize, f64),
        warm: &mut Vec<Solution>,
    ) -> Result<Vec<f64>, RegBayesError> {
        let rows = match products.is_empty() {
            true => self.rows(m, block),
            false => self.own_products(m, products),
        };
        let inputs = match products.is_empty() {
            true => Inputs::dense(&rows, block.width)?.with_ones(self.ones)?,
            false => Inputs::products(&rows),
        };
        let machine = Machine::new(inputs);
        *warm = parallel::try_map(0..self.n_folds, |fold| {
            self.solve(&machine, (m, cost, Some(fold)), warm.get(fold), &IN_FOLDS)
        })?;
        let places = self.goals[m].places.iter().enumerate();
        Ok(places
            .map(|(i, &n)| machine.inputs().score(i, &warm[self.folds[n]].weights))
            .collect())
    }

    /// Scores and targets of a label with their weights.
    pub(super) fn scored(&self, m: usize, scores: &[f64]) -> Vec<Scored> {
        let goal = &self.goals[m];
        let TaskTargets::Binary(positive) = &goal.targets else {
            return Vec::new();
        };
        let each = scores.iter().zip(positive).zip(&goal.costs);
        each.map(|((&f, &y), &c)| (f, y, c)).collect()
    }

    /// The curve of a label, and its scores as log-odds; numbers stay as they are.
    pub(super) fn calibrate(&self, m: usize, scores: Vec<f64>) -> (Curve, Vec<f64>) {
        if self.kind(m) == 1 {
            let same = Curve {
                slope: 1.0,
                offset: 0.0,
            };
            return (same, scores);
        }
        let curve = Curve::fit(&self.scored(m, &scores));
        let ln_odds = scores.into_iter().map(|f| curve.ln_odds(f));
        (curve, ln_odds.collect())
    }

    /// Minus the log-likelihood of log-odds, or half the squared error.
    fn loss(&self, m: usize, scores: &[f64]) -> f64 {
        let goal = &self.goals[m];
        let each = scores.iter().zip(&goal.costs);
        match &goal.targets {
            TaskTargets::Binary(y) => {
                let each = each.zip(y);
                let loss = |((&x, c), &y): ((&f64, &f64), &bool)| {
                    c * cross_entropy(x, f64::from(u8::from(y)))
                };
                each.map(loss).sum()
            }
            TaskTargets::Real(y) => each
                .zip(y)
                .map(|((f, c), y)| 0.5 * c * (f - y).powi(2))
                .sum(),
        }
    }

    /// Held-out scores of a member at rising costs, to where neither labels nor numbers gain. `tell` hears the share of costs that are done; `None` when it breaks.
    pub(super) fn at_costs(
        &self,
        (place, block): (usize, &Block),
        costs: &[f64],
        mut tell: impl FnMut(usize, f64) -> ControlFlow<()>,
    ) -> Result<Option<Vec<Found>>, RegBayesError> {
        let products = self.products(block);
        let mut warm = vec![Vec::new(); self.goals.len()];
        let mut all: Vec<Found> = Vec::new();
        for (step, &cost) in costs.iter().enumerate() {
            let one = |(m, warm): (usize, &mut Vec<Solution>)| -> Result<_, RegBayesError> {
                let scores = self.left_out((block, &products), (m, cost), warm)?;
                Ok(self.calibrate(m, scores))
            };
            let found = parallel::try_map(warm.iter_mut().enumerate(), one)?;
            let (curves, scores): (Vec<Curve>, Vec<Vec<f64>>) = found.into_iter().unzip();
            let mut losses = [0.0; 2];
            for (m, scores) in scores.iter().enumerate() {
                losses[self.kind(m)] += self.loss(m, scores);
            }
            all.push(Found {
                block: place,
                cost,
                losses,
                scores,
                curves,
            });
            let over = (0..2).all(|kind| {
                let best = (1..all.len()).fold(0, |best, k| {
                    if all[k].losses[kind] < all[best].losses[kind] {
                        k
                    } else {
                        best
                    }
                });
                step >= best + RISES
            });
            let share = match over {
                true => 1.0,
                false => (step + 1) as f64 / costs.len() as f64,
            };
            if tell(step + 1, share).is_break() {
                return Ok(None);
            }
            if over {
                break;
            }
        }
        Ok(Some(all))
    }

    /// Stacking weights of members for one kind of targets: members are drawn in with repetition, each time the one that makes the loss of the mean least (Caruana,
    /// Niculescu-Mizil, Crew and Ksikes 2004). One that carries nothing is never drawn.
    pub(super) fn stack(&self, members: &[Found], kind: usize) -> Vec<f64> {
        let tasks: Vec<usize> = (0..self.goals.len())
            .filter(|&m| self.kind(m) == kind)
            .collect();
        let mut counts = vec![0.0; members.len()];
        let mut sums: Vec<Vec<f64>> = tasks
            .iter()
            .map(|&m| vec![0.0; self.goals[m].places.len()])
            .collect();
        for round in 1..=ROUNDS {
            let loss = |member: &Found| -> f64 {
                let each = parallel::map(tasks.iter().zip(&sums), |(&m, sum)| {
                    let mean = |(a, b): (&f64, &f64)| (a + b) / round as f64;
                    let mean: Vec<f64> = sum.iter().zip(&member.scores[m]).map(mean).collect();
                    self.loss(m, &mean)
                });
                each.into_iter().sum()
            };
            let losses: Vec<f64> = members.iter().map(loss).collect();
            let best = (1..losses.len())
                .fold(0, |best, k| if losses[k] < losses[best] { k } else { best });
            counts[best] += 1.0 / ROUNDS as f64;
            for (&m, sum) in tasks.iter().zip(&mut sums) {
                sum.iter_mut()
                    .zip(&members[best].scores[m])
                    .for_each(|(s, x)| *s += x);
            }
        }
        counts
    }

    /// Means of the members' scores of a task.
    pub(super) fn mean(&self, members: &[Found], weights: &[f64], m: usize) -> Vec<f64> {
        let mut mean = vec![0.0; self.goals[m].places.len()];
        for (member, &weight) in members.iter().zip(weights) {
            crate::dense::axpy(&mut mean, weight, &member.scores[m]);
        }
        mean
    }
}
