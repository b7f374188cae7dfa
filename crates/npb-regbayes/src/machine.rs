//! The max-margin machine of all models: dual coordinate descent over rows.
//!
//! Given expected inputs `x_n = E[z_n]`, the factor `q(eta)` of a model solves
//!
//! ```text
//! min_w  |w|^2 / 2 + sum_n C_n loss_n(w' x_n)        q(eta) = N(w, I)
//! max_omega  -|sum_n omega_n x_n|^2 / 2 + sum_n (earnings of omega_n)
//! ```
//!
//! (R 28, 34 and Lemma 15; no bias, see [`Inputs::with_ones`]). One row's duals at a time are set to the best given all others, which has a
//! closed form for every loss of [`Targets`]. Rows that rest are left out until the next look at all rows, which also gives the duality gap,
//! the stopping rule. Cost of a pass: rows x weights x scores, in vector registers, without allocation.
//!
//! Equations: `docs/regbayes.md#the-machine`.

mod ascent;
mod classes;
mod kernels;
mod scalar;

use npb_infer::ranges::{self, OutOfRange};
use pulp::{Arch, Simd, WithSimd};
use serde::{Deserialize, Serialize};

use crate::error::{RegBayesError, same_size};
use crate::inputs::Inputs;
use crate::loss::Targets;
use ascent::{Ascent, Start};

/// When a machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineLimits {
    /// Relative duality gap `(primal - dual) / primal` at which the solution is good enough. Rounding ends a run at about 1e-12.
    pub tolerance: f64,
    /// Most passes over all rows (passes over rows that do not rest count by their share).
    pub max_passes: u64,
}

impl Default for MachineLimits {
    fn default() -> Self {
        Self {
            tolerance: 1e-4,
            max_passes: 1000,
        }
    }
}

impl MachineLimits {
    /// Checks the values.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        ranges::not_negative("tolerance", self.tolerance)?;
        ranges::at_least("max_passes", self.max_passes, 1)
    }
}

/// Why a machine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineStop {
    /// The gap is within the tolerance.
    Converged,
    /// No dual moves any more: the gap is as small as rounding allows.
    Stationary,
    /// The largest number of passes was reached first.
    MaxPasses,
}

/// What is asked of the scores, and what each row costs.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Targets and loss.
    pub targets: Targets<'a>,
    /// `C_n` of every row; rows of cost 0 take no part.
    pub costs: &'a [f64],
}

/// Mean of `q(eta) = N(weights, I)`, and the duals that it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Solution {
    /// `n_scores x n_weights`: those of the first score (class), then of the next. The weight of the column of ones is the last of each.
    pub weights: Vec<f64>,
    /// `n_rows x n_scores`, signed: the weights of score `s` are `sum_n duals[n, s] x_n`. Of a binary target `y omega`; of the true class the sum
    /// of the `omega` of all others, of these `-omega`.
    pub duals: Vec<f64>,
    /// `|w|^2 / 2 + sum_n C_n loss_n`.
    pub primal: f64,
    /// Value of the dual, at most `primal` (apart from rounding).
    pub dual: f64,
    /// Passes made, in units of all rows.
    pub passes: f64,
    /// Why it ended.
    pub stop: MachineStop,
}

impl Solution {
    /// Relative duality gap, 0 when nothing costs anything.
    pub fn gap(&self) -> f64 {
        match self.primal {
            0.0 => 0.0,
            primal => (primal - self.dual) / primal,
        }
    }
}

/// Inputs that several problems (labels, values of C) are solved on.
///
/// ```
/// use npb_regbayes::{Inputs, Machine, MachineLimits, Problem, Slack, Targets};
/// // Two points on a line: the widest margin has weight 1, and both are support vectors.
/// let x = [1.0, -1.0];
/// let machine = Machine::new(Inputs::dense(&x, 1)?);
/// let targets = Targets::Binary { positive: &[true, false], slack: Slack::Linear };
/// let problem = Problem { targets, costs: &[10.0, 10.0] };
/// let solution = machine.solve(&problem, None, &MachineLimits { tolerance: 1e-8, ..MachineLimits::default() })?;
/// assert!((solution.weights[0] - 1.0).abs() < 1e-8 && solution.gap() < 1e-8);
/// # Ok::<(), npb_regbayes::RegBayesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    inputs: Inputs<'a>,
    squared_norms: Vec<f64>,
    arch: Arch,
}

impl<'a> Machine<'a> {
    /// A machine for these inputs. Cost: one pass.
    pub fn new(inputs: Inputs<'a>) -> Self {
        let squared_norms = (0..inputs.n_rows()).map(|n| inputs.squared_norm(n));
        Self {
            squared_norms: squared_norms.collect(),
            inputs,
            arch: Arch::new(),
        }
    }

    /// The inputs.
    pub fn inputs(&self) -> &Inputs<'a> {
        &self.inputs
    }

    /// Solves one problem, from the duals of `warm` (moved into their new ranges) or from 0.
    ///
    /// # Errors
    /// Targets, costs or a warm start that do not fit the inputs; a cost that is negative or not finite, a class that does not exist, a target
    /// that is not finite: each named with its row.
    pub fn solve(
        &self,
        problem: &Problem<'_>,
        warm: Option<&Solution>,
        limits: &MachineLimits,
    ) -> Result<Solution, RegBayesError> {
        self.solve_below(problem, warm, limits, f64::INFINITY)
    }

    /// As [`solve`](Self::solve), for who wants a primal value of at most `ceiling`: a dual value above it says that there is none, and ends the run.
    pub(crate) fn solve_below(
        &self,
        problem: &Problem<'_>,
        warm: Option<&Solution>,
        limits: &MachineLimits,
        ceiling: f64,
    ) -> Result<Solution, RegBayesError> {
        limits.validate()?;
        self.check(problem)?;
        if let Some(warm) = warm {
            same_size(
                "duals of the warm start",
                warm.duals.len(),
                problem.targets.n_rows() * problem.targets.n_scores(),
            )?;
        }
        Ok(self.arch.dispatch(Run {
            machine: self,
            problem,
            warm: warm.map(|s| &s.duals[..]),
            limits,
            ceiling,
        }))
    }

    fn check(&self, problem: &Problem<'_>) -> Result<(), RegBayesError> {
        let n_rows = self.inputs.n_rows();
        same_size("targets", problem.targets.n_rows(), n_rows)?;
        same_size("costs", problem.costs.len(), n_rows)?;
        let bad = |c: &f64| !(c.is_finite() && *c >= 0.0);
        if let Some(row) = problem.costs.iter().position(bad) {
            return Err(RegBayesError::row(
                "costs",
                row,
                problem.costs[row],
                "finite and >= 0 (0 leaves the row out)",
            ));
        }
        check_targets(&problem.targets)
    }
}

pub(crate) fn check_targets(targets: &Targets<'_>) -> Result<(), RegBayesError> {
    match *targets {
        Targets::Binary { .. } => Ok(()),
        Targets::Classes {
            classes,
            n_classes,
            margin,
            ..
        } => {
            ranges::above("margin", margin, 0.0)?;
            match classes.iter().position(|&c| c as usize >= n_classes) {
                None => Ok(()),
                Some(row) => Err(RegBayesError::Class {
                    row,
                    class: classes[row],
                    classes: n_classes,
                }),
            }
        }
        Targets::Real {
            values, epsilon, ..
        } => {
            ranges::not_negative("epsilon", epsilon)?;
            match values.iter().position(|y| !y.is_finite()) {
                None => Ok(()),
                Some(row) => Err(RegBayesError::row(
                    "targets",
                    row,
                    values[row],
                    "a finite number",
                )),
            }
        }
    }
}

/// One run, compiled for each kind of vector register.
struct Run<'r, 'a> {
    machine: &'r Machine<'a>,
    problem: &'r Problem<'r>,
    warm: Option<&'r [f64]>,
    limits: &'r MachineLimits,
    ceiling: f64,
}

impl WithSimd for Run<'_, '_> {
    type Output = Solution;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Solution {
        let start = Start {
            inputs: &self.machine.inputs,
            squared_norms: &self.machine.squared_norms,
            targets: self.problem.targets,
            costs: self.problem.costs,
            warm: self.warm,
        };
        match self.problem.targets {
            Targets::Classes {
                classes,
                n_classes,
                margin,
                slack,
            } => {
                let rule = classes::Rule {
                    classes,
                    n_classes,
                    margin,
                    slack,
                };
                ascend(classes::Duals::new(simd, &start, rule), &self)
            }
            _ => ascend(scalar::Duals::new(simd, &start), &self),
        }
    }
}

/// Objectives at one look at all rows.
struct Look {
    primal: f64,
    dual: f64,
}

/// Coordinate ascent until the gap is closed.
#[inline(always)]
fn ascend<A: Ascent>(mut duals: A, run: &Run<'_, '_>) -> Solution {
    let (costs, limits) = (run.problem.costs, run.limits);
    let taking_part: Vec<u32> = (0..costs.len() as u32)
        .filter(|&n| costs[n as usize] > 0.0)
        .collect();
    let mut active = Vec::with_capacity(taking_part.len());
    let mut idle = vec![0u8; costs.len()];
    let n_rows = taking_part.len().max(1) as u64;
    let (mut updates, mut round) = (0, 0);
    loop {
        let look = look_at_all(&mut duals, costs, &taking_part, &mut active, &mut idle);
        let stop = if look.primal - look.dual <= limits.tolerance * look.primal {
            Some(MachineStop::Converged)
        } else if active.is_empty() {
            Some(MachineStop::Stationary)
        } else if updates >= limits.max_passes * n_rows || look.dual > run.ceiling {
            Some(MachineStop::MaxPasses)
        } else {
            None
        };
        if let Some(stop) = stop {
            let (weights, duals) = duals.finish();
            return Solution {
                weights,
                duals,
                primal: look.primal,
                dual: look.dual,
                passes: updates as f64 / n_rows as f64,
                stop,
            };
        }
        // Looks cost about a pass: one after each fifth of the work so far keeps them cheap. But rows that rest come back at a look only.
        let until = updates + (updates / 5).clamp(n_rows, MOST_PASSES * n_rows);
        while updates < until && !active.is_empty() {
            kernels::shuffle(&mut active, round);
            round += 1;
            updates += active.len() as u64;
            // Not `retain`: its closure would be compiled without vector registers.
            let mut kept = 0;
            let mut place = 0;
            while place < active.len() {
                let n = active[place];
                place += 1;
                let rest = &mut idle[n as usize];
                *rest = if duals.update(n as usize) {
                    0
                } else {
                    *rest + 1
                };
                if *rest < RESTING {
                    active[kept] = n;
                    kept += 1;
                }
            }
            active.truncate(kept);
        }
    }
}

/// Passes between two looks at most: without an end, rounding keeps some rows moving for ever longer while others wait.
const MOST_PASSES: u64 = 20;

/// Visits in a row without a move after which a row is left out until the next look.
const RESTING: u8 = 3;

/// Both objectives; `active` becomes the rows that want to move.
#[inline(always)]
fn look_at_all<A: Ascent>(
    duals: &mut A,
    costs: &[f64],
    taking_part: &[u32],
    active: &mut Vec<u32>,
    idle: &mut [u8],
) -> Look {
    active.clear();
    let (mut losses, mut earnings) = (0.0, 0.0);
    for &n in taking_part {
        let row = n as usize;
        let (loss, moves) = duals.look(row);
        losses += costs[row] * loss;
        earnings += duals.earnings(row);
        if moves {
            active.push(n);
            idle[row] = 0;
        }
    }
    let half = 0.5 * duals.squared_weights();
    Look {
        primal: half + losses,
        dual: earnings - half,
    }
}
