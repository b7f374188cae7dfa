//! What is asked of expectations, what missing it costs, and the conjugates of these costs.

use super::root::Scalar;
use super::space::Exponential;
use crate::error::RegBayesError;

/// How strictly a constraint is meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Softness {
    /// It must hold.
    Hard,
    /// Each unit by which it is missed costs so much (L1).
    Slack(f64),
    /// The square of what it is missed by costs so much.
    SquaredSlack(f64),
}

/// A penalty of expectations `e = E_q[psi]`. Those of one number apply to each feature of the constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum Penalty {
    /// `e <= bound`.
    AtMost {
        /// The bound.
        bound: f64,
        /// How strictly.
        softness: Softness,
    },
    /// `e >= bound`: the margins of R 28 have bound 1 and slack C.
    AtLeast {
        /// The bound.
        bound: f64,
        /// How strictly.
        softness: Softness,
    },
    /// `|e - target| <= epsilon`: epsilon-insensitive (R Lemma 11); an equality with `epsilon = 0`.
    Within {
        /// The target.
        target: f64,
        /// Half the width of the band.
        epsilon: f64,
        /// How strictly.
        softness: Softness,
    },
    /// `|e - centre| <= radius`, Euclidean, over all features of the constraint (R Lemma 5).
    Ball {
        /// Centre, a number per feature.
        centre: Vec<f64>,
        /// Radius, positive.
        radius: f64,
    },
    /// `cost |e - centre|^2`.
    SquaredDistance {
        /// Centre, a number per feature.
        centre: Vec<f64>,
        /// Cost of a unit.
        cost: f64,
    },
    /// `cost KL(given || e)`: expected shares of labels against given ones. The features are the probabilities (or indicators) of the labels under a model.
    Labels {
        /// Given share of each label; they sum to 1.
        given: Vec<f64>,
        /// Cost of a nat.
        cost: f64,
    },
}

/// A penalty and the features that it is of.
///
/// ```
/// use npb_regbayes::principle::{Constraint, FiniteSpace, Penalty, PrincipleLimits, Softness};
/// // Three models; the first two must not have more than half of the mass together.
/// let space = FiniteSpace::new(vec![0.5_f64.ln(), 0.3_f64.ln(), 0.2_f64.ln()], vec![1.0, 1.0, 0.0], 1)?;
/// let penalty = Penalty::AtMost { bound: 0.5, softness: Softness::Hard };
/// let found = space.regularise(&[Constraint { features: vec![0], penalty }], &PrincipleLimits::default())?;
/// assert!((found.posterior[2] - 0.5).abs() < 1e-8 && (found.posterior[0] - 0.3125).abs() < 1e-8);
/// # Ok::<(), npb_regbayes::RegBayesError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// Features, from 0.
    pub features: Vec<usize>,
    /// The penalty.
    pub penalty: Penalty,
}

impl Constraint {
    /// Checks values and sizes.
    pub(super) fn check(&self, index: usize, n_features: usize) -> Result<(), RegBayesError> {
        let wrong = |value: f64, rule: &'static str| RegBayesError::Row {
            what: "constraints",
            row: index,
            value,
            rule,
        };
        if let Some(&feature) = self.features.iter().find(|t| **t >= n_features) {
            return Err(wrong(feature as f64, "a feature of the space"));
        }
        let (values, sizes): (Vec<f64>, Option<usize>) = match &self.penalty {
            Penalty::AtMost { bound, softness } | Penalty::AtLeast { bound, softness } => {
                softness.check(&wrong)?;
                (vec![*bound], None)
            }
            Penalty::Within {
                target,
                epsilon,
                softness,
            } => {
                softness.check(&wrong)?;
                if epsilon.is_nan() || *epsilon < 0.0 {
                    return Err(wrong(*epsilon, "a half width >= 0"));
                }
                (vec![*target, *epsilon], None)
            }
            Penalty::Ball { centre, radius } => {
                if !(*radius > 0.0 && radius.is_finite()) {
                    return Err(wrong(*radius, "a radius > 0 (an equality is `Within`)"));
                }
                (centre.clone(), Some(centre.len()))
            }
            Penalty::SquaredDistance { centre, cost } => {
                positive(*cost, &wrong)?;
                (centre.clone(), Some(centre.len()))
            }
            Penalty::Labels { given, cost } => {
                positive(*cost, &wrong)?;
                let sum: f64 = given.iter().sum();
                if given.iter().any(|g| *g < 0.0) || sum.is_nan() || (sum - 1.0).abs() > 1e-9 {
                    return Err(wrong(sum, "shares >= 0 that sum to 1"));
                }
                (given.clone(), Some(given.len()))
            }
        };
        if let Some(value) = values.iter().find(|v| !v.is_finite()) {
            return Err(wrong(*value, "a finite number"));
        }
        match sizes {
            Some(size) if size != self.features.len() => Err(RegBayesError::Size {
                what: "numbers of a constraint",
                found: size,
                expected: self.features.len(),
            }),
            _ => Ok(()),
        }
    }
}

fn positive(
    value: f64,
    wrong: &impl Fn(f64, &'static str) -> RegBayesError,
) -> Result<(), RegBayesError> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(wrong(value, "a finite cost > 0")),
    }
}

impl Softness {
    fn check(
        self,
        wrong: &impl Fn(f64, &'static str) -> RegBayesError,
    ) -> Result<(), RegBayesError> {
        match self {
            Self::Hard => Ok(()),
            Self::Slack(cost) | Self::SquaredSlack(cost) => positive(cost, wrong),
        }
    }

    /// Cost of a miss, and the miss itself where it must not be.
    fn cost(self, missed: f64) -> (f64, f64) {
        let missed = missed.max(0.0);
        match self {
            Self::Hard => (0.0, missed),
            Self::Slack(cost) => (cost * missed, 0.0),
            Self::SquaredSlack(cost) => (cost * missed * missed, 0.0),
        }
    }

    /// Largest size of a dual, and the charge `h` in `h phi^2 / 2`.
    fn dual(self) -> (f64, f64) {
        match self {
            Self::Hard => (f64::INFINITY, 0.0),
            Self::Slack(cost) => (cost, 0.0),
            Self::SquaredSlack(cost) => (f64::INFINITY, 0.5 / cost),
        }
    }
}

impl Penalty {
    /// Cost at these expectations, and the largest miss of a hard constraint.
    pub(super) fn cost(&self, e: &[f64]) -> (f64, f64) {
        let each = |softness: Softness, missed: &dyn Fn(f64) -> f64| {
            e.iter().fold((0.0, 0.0_f64), |(cost, most), &e| {
                let (own, miss) = softness.cost(missed(e));
                (cost + own, most.max(miss))
            })
        };
        match self {
            Self::AtMost { bound, softness } => each(*softness, &|e| e - bound),
            Self::AtLeast { bound, softness } => each(*softness, &|e| bound - e),
            Self::Within {
                target,
                epsilon,
                softness,
            } => each(*softness, &|e| (e - target).abs() - epsilon),
            Self::Ball { centre, radius } => {
                let distance = squared_distance(e, centre).sqrt();
                (0.0, (distance - radius).max(0.0))
            }
            Self::SquaredDistance { centre, cost } => (cost * squared_distance(e, centre), 0.0),
            Self::Labels { given, cost } => {
                let terms = given.iter().zip(e).filter(|(g, _)| **g > 0.0);
                (
                    cost * terms.map(|(g, e)| g * (g / e).ln()).sum::<f64>(),
                    0.0,
                )
            }
        }
    }

    /// `g*(-phi)`.
    pub(super) fn conjugate(&self, phi: &[f64]) -> f64 {
        let place = |i: usize| {
            let scalar = self.scalar(i, 0.0);
            let phi = phi[i];
            let barrier = match scalar.barrier {
                0.0 => 0.0,
                w => {
                    let cost = w / self.given(i);
                    w * ((cost / phi).ln() - 1.0)
                }
            };
            let band = scalar.epsilon * phi.abs() + 0.5 * scalar.curvature * phi * phi;
            band + barrier - scalar.target * phi
        };
        let separable: f64 = (0..phi.len()).map(place).sum();
        match self {
            Self::Ball { radius, .. } => {
                separable + radius * phi.iter().map(|p| p * p).sum::<f64>().sqrt()
            }
            _ => separable,
        }
    }

    fn given(&self, place: usize) -> f64 {
        match self {
            Self::Labels { given, .. } => given[place],
            _ => 1.0,
        }
    }

    /// The problem of one dual, given the sum of squares of the others of its constraint.
    pub(super) fn scalar(&self, place: usize, others: f64) -> Scalar {
        let free = Scalar {
            target: 0.0,
            epsilon: 0.0,
            curvature: 0.0,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            barrier: 0.0,
            radius: 0.0,
            others,
        };
        match self {
            Self::AtMost { bound, softness } => {
                let (most, curvature) = softness.dual();
                Scalar {
                    target: *bound,
                    curvature,
                    low: -most,
                    high: 0.0,
                    ..free
                }
            }
            Self::AtLeast { bound, softness } => {
                let (most, curvature) = softness.dual();
                Scalar {
                    target: *bound,
                    curvature,
                    low: 0.0,
                    high: most,
                    ..free
                }
            }
            Self::Within {
                target,
                epsilon,
                softness,
            } => {
                let (most, curvature) = softness.dual();
                Scalar {
                    target: *target,
                    epsilon: *epsilon,
                    curvature,
                    low: -most,
                    high: most,
                    ..free
                }
            }
            Self::Ball { centre, radius } => Scalar {
                target: centre[place],
                radius: *radius,
                ..free
            },
            Self::SquaredDistance { centre, cost } => Scalar {
                target: centre[place],
                curvature: 0.5 / cost,
                ..free
            },
            Self::Labels { given, cost } => Scalar {
                barrier: cost * given[place],
                low: 0.0,
                high: if given[place] > 0.0 {
                    f64::INFINITY
                } else {
                    0.0
                },
                ..free
            },
        }
    }

    fn is_hard(&self) -> bool {
        match self {
            Self::AtMost { softness, .. }
            | Self::AtLeast { softness, .. }
            | Self::Within { softness, .. } => *softness == Softness::Hard,
            Self::Ball { .. } => true,
            Self::SquaredDistance { .. } | Self::Labels { .. } => false,
        }
    }
}

fn squared_distance(e: &[f64], centre: &[f64]) -> f64 {
    e.iter().zip(centre).map(|(e, c)| (e - c) * (e - c)).sum()
}

/// What all soft penalties cost at most, whatever the distribution: convex functions are largest at single models.
pub(super) fn largest_soft(space: &impl Exponential, constraints: &[Constraint]) -> f64 {
    let soft = constraints.iter().filter(|c| !c.penalty.is_hard());
    soft.map(|c| space.largest(&c.features, &|e| c.penalty.cost(e).0))
        .sum()
}
