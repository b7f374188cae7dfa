//! One accepted step of the alternation between the posterior of the features and the machine: R, Algorithms 1 to 3,
//! with a step accepted only where the objective does not rise (`docs/regbayes.md#what-labels-do-to-indicators`).
//!
//! The objective is `F = L(q) + |mu|^2 / 2 + sum_n C_n loss_n`: minus the bound of the factor model, plus the machine's primal value. Sticks,
//! loadings and scales lower it by themselves. Indicators are in the loss as well: a sweep of the Lagrangian lowers `L - sum omega margin`, not
//! `F`, so that its result is a proposal, and `F` after the machine was solved again decides.
//!
//! Equations: `docs/regbayes.md#the-loop`.

use npb_infer::Variational;
use npb_linalg::faer::{Mat, Scale};
use serde::{Deserialize, Serialize};

use crate::config::LabelUpdate;
use crate::error::RegBayesError;
use crate::factors::Factors;
use crate::inputs::Inputs;
use crate::machine::{Machine, MachineLimits, Problem, Solution};
use crate::state::FeatureState;

/// Halvings of a proposal before it is given up.
const HALVINGS: u32 = 3;

/// How well the machine is solved for a proposal: from warm duals, and well enough to judge it. The objective is that of the weights found, whatever
/// the gap.
const PROPOSAL: MachineLimits = MachineLimits {
    tolerance: 1e-3,
    max_passes: 20,
};

/// Relative change of the objective at which inner sweeps stop. R says 1e-3; but the objective is mostly what the inputs' noise says, and labels are a
/// small part of it.
const INNER_TOLERANCE: f64 = 1e-5;

/// What labels say: the machine of one model and the inputs that features make for it.
pub(crate) trait Margins: Clone + Sync {
    /// Solves the machine at these indicators, from its last duals; may give up when its objective cannot be at most `ceiling`.
    fn refit(
        &mut self,
        indicators: &Mat<f64>,
        limits: &MachineLimits,
        ceiling: f64,
    ) -> Result<(), RegBayesError>;

    /// `|mu|^2 / 2 + sum_n C_n loss_n` at the indicators of the last [`refit`](Self::refit).
    fn objective(&self) -> f64;

    /// `sum_n omega_n d margin_n / d psi`, K x I: what the Lagrangian adds to the log-odds of the indicators.
    fn pull(&self, indicators: &Mat<f64>) -> Mat<f64>;

    /// The objective of the present weights at other indicators.
    #[cfg(test)]
    fn objective_at(&self, indicators: &Mat<f64>) -> Result<f64, RegBayesError>;

    /// The solutions of the machine.
    fn solutions(&self) -> Vec<Solution>;

    /// Takes back the solutions of an earlier run with so many features.
    ///
    /// # Errors
    /// They do not fit the labels.
    fn take_back(
        &mut self,
        solutions: Vec<Solution>,
        n_features: usize,
    ) -> Result<(), RegBayesError>;
}

/// What a run has reached: all that its next iteration depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reached {
    pub(crate) state: FeatureState,
    pub(crate) solutions: Vec<Solution>,
    pub(crate) iteration: u64,
}

/// Features, machine, and how they are brought together.
#[derive(Clone, Debug)]
pub(crate) struct Alternation<'d, S> {
    pub(crate) factors: Factors<'d>,
    pub(crate) labels: S,
    pub(crate) update: LabelUpdate,
    pub(crate) label_weight: f64,
    pub(crate) inner_sweeps: u64,
    /// How well the machine is solved at the start and at the end.
    pub(crate) machine: MachineLimits,
    /// Outer iterations made.
    pub(crate) iteration: u64,
}

impl<'d, S: Margins> Alternation<'d, S> {
    /// F, what is minimised; of two stages the first alone.
    pub(crate) fn objective(&self) -> f64 {
        self.objective_with(self.factors.elbo())
    }

    fn objective_with(&self, elbo: f64) -> f64 {
        match self.update {
            LabelUpdate::TwoStage => -elbo,
            LabelUpdate::Profiled => self.label_weight * self.labels.objective() - elbo,
        }
    }

    /// The machine on the present features, solved well: IBP + SVM before the first iteration, the weights of the fit after the last.
    pub(crate) fn solve(&mut self) -> Result<(), RegBayesError> {
        self.labels
            .refit(&self.factors.state.indicators, &self.machine, f64::INFINITY)
    }

    /// The end of a run: features in order of use, those that are not in use dropped, and the machine on them solved well. The order is almost always that
    /// of the last iteration; where the objective had refused a change of places it may rise a little here.
    pub(crate) fn finish(&mut self) -> Result<(), RegBayesError> {
        let order = self.factors.in_order_of_use();
        let in_order = order.iter().enumerate().all(|(k, &own)| k == own);
        if !in_order || order.len() < self.factors.state.n_features() {
            self.factors.keep_used()?;
        }
        self.solve()
    }

    /// Goes back to what an earlier run had reached.
    pub(crate) fn resume(&mut self, reached: Reached) -> Result<(), RegBayesError> {
        reached.state.check()?;
        let (state, items) = (reached.state, self.factors.items);
        if state.n_items() != items.n_items() || state.n_observations() != items.n_observations() {
            return Err(RegBayesError::state(
                "the checkpoint is of inputs of another size",
            ));
        }
        self.labels
            .take_back(reached.solutions, state.n_features())?;
        self.factors = Factors::new(items, self.factors.config, state);
        self.iteration = reached.iteration;
        Ok(())
    }

    /// One outer iteration; the objective.
    pub(crate) fn iterate(&mut self, iteration: u64) -> Result<f64, RegBayesError> {
        let mut last = f64::INFINITY;
        for _ in 0..self.inner_sweeps {
            let (objective, moved) = self.sweep(iteration)?;
            let settled = (last - objective).abs() <= INNER_TOLERANCE * objective.abs();
            last = objective;
            if settled || !moved {
                break;
            }
        }
        self.factors.update_noise();
        self.factors.update_loading_scale();
        self.factors.update_concentration();
        self.grow(iteration)?;
        self.prune(iteration)?;
        Ok(self.objective())
    }

    /// Sticks, loadings, indicators and machine once; the objective, and whether indicators were free to move.
    pub(crate) fn sweep(&mut self, iteration: u64) -> Result<(f64, bool), RegBayesError> {
        self.factors.update_sticks();
        self.factors.update_loadings(iteration)?;
        match self.update {
            LabelUpdate::TwoStage => self.factors.sweep_indicators(None),
            LabelUpdate::Profiled => return self.propose(),
        }
        Ok((self.objective(), true))
    }

    /// A sweep of the Lagrangian, the machine solved again; halved until the objective does not rise, or given up. The objective, and whether it was accepted.
    fn propose(&mut self) -> Result<(f64, bool), RegBayesError> {
        let before = self.objective();
        let (labels, from) = (self.labels.clone(), self.factors.state.indicators.clone());
        let pull = labels.pull(&from) * Scale(self.label_weight);
        self.factors.sweep_indicators(Some(&pull));
        let to = self.factors.state.indicators.clone();
        for halving in 0..=HALVINGS {
            if halving > 0 {
                let share = 0.5f64.powi(halving as i32);
                self.factors.state.indicators = between(&from, &to, share);
            }
            let elbo = self.factors.elbo();
            let psi = &self.factors.state.indicators;
            let ceiling = (before + elbo) / self.label_weight;
            self.labels.refit(psi, &PROPOSAL, ceiling)?;
            let objective = self.objective_with(elbo);
            if objective <= before {
                return Ok((objective, true));
            }
        }
        self.labels = labels;
        self.factors.state.indicators = from;
        Ok((before, false))
    }

    /// Features that are not in use go, the others are put in order of use; kept if the objective does not rise.
    fn prune(&mut self, iteration: u64) -> Result<(), RegBayesError> {
        let used = self.factors.in_order_of_use();
        let same = used.len() == self.factors.state.n_features();
        if same && used.iter().enumerate().all(|(k, &own)| k == own) {
            return Ok(());
        }
        let mut chosen = self.factors.clone();
        chosen.state = chosen.select(&used);
        chosen.update_loadings(iteration)?;
        self.try_features(chosen)
    }

    /// More features, from what the present ones leave over; kept if the objective does not rise.
    fn grow(&mut self, iteration: u64) -> Result<(), RegBayesError> {
        let pull = match self.update {
            LabelUpdate::TwoStage => None,
            LabelUpdate::Profiled => {
                let pull = self.labels.pull(&self.factors.state.indicators);
                Some(pull * Scale(self.label_weight))
            }
        };
        match self.factors.grown(iteration, pull.as_ref())? {
            Some(grown) => self.try_features(grown),
            None => Ok(()),
        }
    }

    /// Goes on with other features if the objective, with the machine solved again, is not higher.
    fn try_features(&mut self, factors: Factors<'d>) -> Result<(), RegBayesError> {
        let mut labels = self.labels.clone();
        labels.refit(&factors.state.indicators, &PROPOSAL, f64::INFINITY)?;
        let other = Self {
            factors,
            labels,
            ..*self
        };
        if other.objective() <= self.objective() {
            *self = other;
        }
        Ok(())
    }
}

/// The bound is minus the objective.
impl<S: Margins> Variational for Alternation<'_, S> {
    type State = Reached;
    type Error = RegBayesError;

    fn step(&mut self) -> Result<f64, RegBayesError> {
        self.iteration += 1;
        let (iteration, value) = (self.iteration, self.iterate(self.iteration)?);
        match value.is_finite() {
            true => Ok(-value),
            false => Err(RegBayesError::NotFinite {
                iteration,
                what: "the objective",
                value,
            }),
        }
    }

    fn state(&self) -> Reached {
        Reached {
            state: self.factors.state.clone(),
            solutions: self.labels.solutions(),
            iteration: self.iteration,
        }
    }
}

/// `(1 - share) from + share to`.
fn between(from: &Mat<f64>, to: &Mat<f64>, share: f64) -> Mat<f64> {
    Mat::from_fn(from.nrows(), from.ncols(), |k, i| {
        from[(k, i)] + share * (to[(k, i)] - from[(k, i)])
    })
}

/// The new solution, unless the last one's weights have the smaller objective at the new inputs: a machine stops at a small gap, and the
/// objective must not rise by it.
pub(crate) fn better(
    machine: &Machine<'_>,
    problem: &Problem<'_>,
    last: &Solution,
    new: Solution,
) -> Solution {
    if last.weights.len() != new.weights.len() {
        return new;
    }
    let primal = primal(machine.inputs(), problem, &last.weights);
    if primal >= new.primal {
        return new;
    }
    Solution {
        weights: last.weights.clone(),
        primal,
        ..new
    }
}

/// `|w|^2 / 2 + sum_n C_n loss_n`.
pub(crate) fn primal(inputs: &Inputs<'_>, problem: &Problem<'_>, weights: &[f64]) -> f64 {
    let n_scores = problem.targets.n_scores();
    let width = inputs.n_weights();
    let mut scores = vec![0.0; n_scores];
    let mut losses = 0.0;
    for row in 0..inputs.n_rows() {
        if problem.costs[row] == 0.0 {
            continue;
        }
        for (s, score) in scores.iter_mut().enumerate() {
            *score = inputs.score(row, &weights[s * width..(s + 1) * width]);
        }
        losses += problem.costs[row] * problem.targets.loss(row, &scores);
    }
    0.5 * npb_linalg::dot(weights, weights) + losses
}

/// Whether solutions fit so many problems of these numbers of scores and rows, and so many weights at least.
pub(crate) fn check_solutions(
    solutions: &[Solution],
    sizes: impl ExactSizeIterator<Item = (usize, usize)>,
    n_weights: usize,
) -> Result<(), RegBayesError> {
    let fits = |solution: &Solution, (n_scores, n_rows): (usize, usize)| {
        let numbers = [&solution.weights[..], &solution.duals[..]];
        solution.weights.len() == n_scores * n_weights
            && solution.duals.len() == n_scores * n_rows
            && numbers.concat().iter().all(|x| x.is_finite())
    };
    if solutions.len() == sizes.len() && solutions.iter().zip(sizes).all(|(s, size)| fits(s, size))
    {
        return Ok(());
    }
    Err(RegBayesError::state(
        "the machine's solutions in the checkpoint do not fit the labels",
    ))
}
