//! The dual of Theorem 6, one number at a time.

use npb_infer::ranges;
use serde::{Deserialize, Serialize};

use super::exponential::Exponential;
use super::penalty::{self, Constraint, Penalty};
use crate::error::RegBayesError;

/// When a solution is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrincipleLimits {
    /// Largest duality gap, relative to `1 + |primal|`, and largest amount by which a hard constraint may be missed.
    pub tolerance: f64,
    /// Most passes over all duals.
    pub max_passes: u64,
}

impl Default for PrincipleLimits {
    fn default() -> Self {
        Self {
            tolerance: 1e-8,
            max_passes: 100_000,
        }
    }
}

/// The regularised posterior.
#[derive(Clone, Debug, PartialEq)]
pub struct Regularised {
    /// Of a finite space the probabilities of its models; of a Gaussian factor its mean (its covariance is that of the prior).
    pub posterior: Vec<f64>,
    /// `E_q[psi_t]` of every feature.
    pub expectations: Vec<f64>,
    /// `phi` of every constraint, one number per feature of it.
    pub duals: Vec<Vec<f64>>,
    /// `KL(q || p)` and all soft penalties.
    pub primal: f64,
    /// The dual of Theorem 6, a lower bound of the objective of every `q`.
    pub dual: f64,
    /// Largest amount by which a hard constraint is missed.
    pub violation: f64,
    /// Passes made.
    pub passes: u64,
    /// Whether gap and violation are within the tolerance.
    pub converged: bool,
}

impl Regularised {
    /// Distance of primal and dual, relative to `1 + |primal|`.
    pub fn gap(&self) -> f64 {
        (self.primal - self.dual).abs() / (1.0 + self.primal.abs())
    }
}

/// The dual number of one feature of one constraint.
struct Coordinate {
    constraint: usize,
    /// Place within the constraint.
    place: usize,
    feature: usize,
}

/// Solves the dual; see [`FiniteSpace::regularise`](super::FiniteSpace::regularise).
pub(super) fn solve(
    space: &mut impl Exponential,
    constraints: &[Constraint],
    limits: &PrincipleLimits,
) -> Result<Regularised, RegBayesError> {
    ranges::above("tolerance", limits.tolerance, 0.0)?;
    ranges::at_least("max_passes", limits.max_passes, 1)?;
    let n_features = space.n_features();
    for (c, constraint) in constraints.iter().enumerate() {
        constraint.check(c, n_features)?;
    }
    let coordinates: Vec<Coordinate> = constraints
        .iter()
        .enumerate()
        .flat_map(|(constraint, c)| {
            let places = c.features.iter().enumerate();
            places.map(move |(place, &feature)| Coordinate {
                constraint,
                place,
                feature,
            })
        })
        .collect();
    let mut duals: Vec<Vec<f64>> = constraints
        .iter()
        .map(|c| vec![0.0; c.features.len()])
        .collect();
    let most = space.largest_divergence() + penalty::largest_soft(space, constraints);
    for pass in 1.. {
        for coordinate in &coordinates {
            update(space, constraints, &mut duals, coordinate)?;
        }
        let mut found = evaluate(space, constraints, &duals, pass);
        found.converged = found.gap() <= limits.tolerance && found.violation <= limits.tolerance;
        if found.converged || pass >= limits.max_passes {
            if found.violation > MISSED * limits.tolerance {
                return Err(infeasible(
                    "hard ones are still missed after the largest number of passes",
                    &duals,
                ));
            }
            found.posterior = space.posterior();
            return Ok(found);
        }
        // No distribution costs more than `most`, so that a dual above it proves that none meets the constraints.
        if found.dual > most + 1e-6 * (1.0 + most.abs()) {
            return Err(infeasible("no distribution meets all of them", &duals));
        }
    }
    unreachable!("passes end by their limit")
}

/// A constraint that is missed by so many times the tolerance in the end is taken for one that cannot be met.
const MISSED: f64 = 1e4;

fn infeasible(what: &'static str, duals: &[Vec<f64>]) -> RegBayesError {
    let size = |c: &usize| duals[*c].iter().map(|phi| phi * phi).sum::<f64>();
    let constraint = (0..duals.len()).max_by(|a, b| size(a).total_cmp(&size(b)));
    RegBayesError::Infeasible {
        what,
        constraint: constraint.unwrap_or(0),
    }
}

/// Sets one dual to its best value.
fn update(
    space: &mut impl Exponential,
    constraints: &[Constraint],
    duals: &mut [Vec<f64>],
    coordinate: &Coordinate,
) -> Result<(), RegBayesError> {
    let Coordinate {
        constraint,
        place,
        feature,
    } = *coordinate;
    let penalty = &constraints[constraint].penalty;
    let own = &duals[constraint];
    let before = own[place];
    let others = (0..own.len())
        .filter(|&i| i != place)
        .map(|i| own[i] * own[i]);
    let scalar = penalty.scalar(place, others.sum());
    if let (Penalty::Ball { .. }, true) = (penalty, own.iter().all(|&phi| phi == 0.0)) {
        return leave_centre(space, &constraints[constraint], &mut duals[constraint]);
    }
    let Some(best) = scalar.best(space, feature, before) else {
        return Err(RegBayesError::Infeasible {
            what: "a bound that no distribution reaches, or only in the limit (Remark 7 of R: ask for a mass below a tolerance)",
            constraint,
        });
    };
    duals[constraint][place] = best;
    space.shift(feature, best - before);
    Ok(())
}

/// A ball's duals are stationary at 0 when the expectations are inside; otherwise one step towards the ball, small enough not to lower the dual.
fn leave_centre(
    space: &mut impl Exponential,
    constraint: &Constraint,
    duals: &mut [f64],
) -> Result<(), RegBayesError> {
    let Penalty::Ball { centre, radius } = &constraint.penalty else {
        return Ok(());
    };
    let pull: Vec<f64> = (constraint.features.iter().zip(centre))
        .map(|(&feature, centre)| centre - space.expectation(feature))
        .collect();
    let distance = pull.iter().map(|p| p * p).sum::<f64>().sqrt();
    if distance <= *radius {
        return Ok(());
    }
    let shrink = 1.0 - radius / distance;
    let start = space.ln_partition();
    let mut step = 1.0;
    loop {
        let steps: Vec<f64> = pull.iter().map(|p| step * shrink * p).collect();
        let features = constraint.features.iter().zip(&steps);
        features
            .clone()
            .for_each(|(&feature, s)| space.shift(feature, *s));
        let size = steps.iter().map(|s| s * s).sum::<f64>().sqrt();
        let reward: f64 = steps.iter().zip(centre).map(|(s, c)| s * c).sum();
        let gain = start - space.ln_partition() + reward - radius * size;
        if gain > 0.0 || step < 1e-12 {
            duals.copy_from_slice(&steps);
            return Ok(());
        }
        features.for_each(|(&feature, s)| space.shift(feature, -s));
        step *= 0.5;
    }
}

/// Primal, dual and violation at the present duals.
fn evaluate(
    space: &mut impl Exponential,
    constraints: &[Constraint],
    duals: &[Vec<f64>],
    passes: u64,
) -> Regularised {
    let expectations: Vec<f64> = (0..space.n_features())
        .map(|t| space.expectation(t))
        .collect();
    let ln_partition = space.ln_partition();
    let (mut primal, mut dual, mut violation) = (-ln_partition, -ln_partition, 0.0_f64);
    for (constraint, phi) in constraints.iter().zip(duals) {
        let values: Vec<f64> = constraint
            .features
            .iter()
            .map(|&t| expectations[t])
            .collect();
        primal += phi.iter().zip(&values).map(|(phi, e)| phi * e).sum::<f64>();
        let (cost, missed) = constraint.penalty.cost(&values);
        primal += cost;
        violation = violation.max(missed);
        dual -= constraint.penalty.conjugate(phi);
    }
    Regularised {
        posterior: Vec::new(),
        expectations,
        duals: duals.to_vec(),
        primal,
        dual,
        violation,
        passes,
        converged: false,
    }
}
