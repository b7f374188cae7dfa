//! What the classes of labelled rows say about their features.

use std::sync::Arc;

use npb_infer::parallel;
use npb_linalg::faer::Mat;

#[cfg(test)]
use crate::alternate::primal;
use crate::alternate::{Supervision, better, check_solutions};
use crate::dense::sigmoid;
use crate::dense::{axpy, columns_mut};
use crate::error::RegBayesError;
use crate::factors::Factors;
use crate::factors::indicators::sweep_item;
use crate::inputs::Inputs;
use crate::kinks::{Kink, minimise};
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

    /// Position of each row among the labelled ones.
    fn places(&self, n_rows: usize) -> Vec<Option<usize>> {
        let mut places = vec![None; n_rows];
        let rows = self.problem.rows.iter().enumerate();
        rows.for_each(|(n, &row)| places[row] = Some(n));
        places
    }

    /// Scores of the n-th labelled row.
    fn scores(&self, n: usize, psi: &[f64]) -> Vec<f64> {
        let weights = self.solution.as_ref().map_or(&[][..], |s| &s.weights);
        let raw = self.problem.raw(n);
        let width = weights.len() / self.problem.n_classes;
        let score = |w: &[f64]| {
            let (features, rest) = w.split_at(psi.len());
            let (inputs, bias) = rest.split_at(raw.len());
            let bias = bias.first().map_or(0.0, |b| b * self.problem.ones);
            npb_linalg::dot(features, psi) + npb_linalg::dot(inputs, raw) + bias
        };
        weights.chunks_exact(width.max(1)).map(score).collect()
    }
}

impl Supervision for ClassMargins {
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

    /// Cost: that of a sweep, and labelled rows × classes × K.
    fn sweep_exactly(&mut self, factors: &mut Factors<'_>, label_weight: f64) {
        let places = self.places(factors.state.n_items());
        let weights = self.feature_weights();
        let precision = factors.precision();
        let mut odds = vec![0.0; factors.state.n_features()];
        factors.state.sticks.prior_ln_odds(&mut odds);
        let (items, evidence) = (factors.items, &factors.evidence);
        let columns = columns_mut(&mut factors.state.indicators)
            .into_iter()
            .enumerate();
        parallel::for_each(columns, |(i, psi)| {
            let mut own = evidence.of_item(items, i, psi);
            let Some(n) = places[i] else {
                sweep_item(&mut own, psi, precision, &odds, |_, ln_odds, _| {
                    sigmoid(ln_odds)
                });
                return;
            };
            let mut loss = RowLoss {
                scores: self.scores(n, psi),
                class: self.problem.classes[n] as usize,
                cost: label_weight * self.problem.costs[n],
            };
            let mut scratch = Vec::new();
            sweep_item(&mut own, psi, precision, &odds, |k, ln_odds, psi| {
                let rate = |y: usize| weights[y][k];
                let kinks = |sign, reach, out: &mut Vec<Kink>| {
                    loss.kinks(&rate, sign, reach, out);
                };
                let new = minimise(ln_odds, psi, loss.slopes(&rate), kinks, &mut scratch);
                loss.follow(&rate, new - psi);
                new
            });
        });
    }
}

/// `C max(0, max_{y != own} 1 - f_own + f_y)` of one row, along one of its indicators.
struct RowLoss {
    scores: Vec<f64>,
    class: usize,
    cost: f64,
}

impl RowLoss {
    /// Value and slope of each linear piece; the last is the loss of a margin that is kept.
    fn pieces<'a>(
        &'a self,
        rate: &'a impl Fn(usize) -> f64,
    ) -> impl Iterator<Item = (f64, f64)> + 'a {
        let own = self.class;
        let others = (0..self.scores.len()).filter(move |&y| y != own);
        let piece = move |y: usize| {
            let missing = 1.0 - self.scores[own] + self.scores[y];
            (self.cost * missing, self.cost * (rate(y) - rate(own)))
        };
        others.map(piece).chain(std::iter::once((0.0, 0.0)))
    }

    /// Slopes of the loss just below and just above.
    fn slopes(&self, rate: &impl Fn(usize) -> f64) -> [f64; 2] {
        let mut best = (f64::NEG_INFINITY, [0.0; 2]);
        for (value, slope) in self.pieces(rate) {
            if value > best.0 {
                best = (value, [slope, slope]);
            } else if value == best.0 {
                best.1 = [best.1[0].min(slope), best.1[1].max(slope)];
            }
        }
        best.1
    }

    /// The upper envelope of the pieces on the way.
    fn kinks(&self, rate: &impl Fn(usize) -> f64, sign: f64, reach: f64, out: &mut Vec<Kink>) {
        let here = self.pieces(rate).map(|(value, _)| value);
        let mut value = here.fold(f64::NEG_INFINITY, f64::max);
        let [below, above] = self.slopes(rate);
        let (mut slope, mut distance) = (if sign > 0.0 { above } else { -below }, 0.0);
        loop {
            // The piece that overtakes the present one first; of several the steepest.
            let mut next: Option<(f64, f64)> = None;
            for (v, s) in self.pieces(rate) {
                let s = sign * s;
                if s > slope {
                    let at = distance + (value - (v + s * distance)).max(0.0) / (s - slope);
                    if next.is_none_or(|(d, steepest)| at < d || (at == d && s > steepest)) {
                        next = Some((at, s));
                    }
                }
            }
            let Some((at, s)) = next.filter(|&(at, _)| at < reach) else {
                return;
            };
            out.push(Kink {
                distance: at,
                jump: s - slope,
            });
            value += slope * (at - distance);
            (slope, distance) = (s, at);
        }
    }

    fn follow(&mut self, rate: &impl Fn(usize) -> f64, delta: f64) {
        let scores = self.scores.iter_mut().enumerate();
        scores.for_each(|(y, score)| *score += delta * rate(y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinks_are_those_of_the_upper_envelope() {
        let loss = RowLoss {
            scores: vec![1.0, 0.5, -0.5, 0.2],
            class: 0,
            cost: 2.0,
        };
        let rates = [0.0, -1.0, 3.0, 0.5];
        let rate = |y: usize| rates[y];
        let value = |delta: f64| {
            let pieces = loss.pieces(&rate);
            pieces.fold(f64::NEG_INFINITY, |m, (v, s)| m.max(v + s * delta))
        };
        for sign in [1.0, -1.0] {
            let mut kinks = Vec::new();
            loss.kinks(&rate, sign, 2.0, &mut kinks);
            let [below, above] = loss.slopes(&rate);
            let mut slope = if sign > 0.0 { above } else { -below };
            let (mut from, mut reached) = (0.0, value(0.0));
            for kink in &kinks {
                reached += slope * (kink.distance - from);
                assert!((reached - value(sign * kink.distance)).abs() < 1e-12);
                slope += kink.jump;
                from = kink.distance;
            }
            reached += slope * (2.0 - from);
            assert!(
                (reached - value(sign * 2.0)).abs() < 1e-12,
                "{sign}: {kinks:?}"
            );
        }
    }
}
