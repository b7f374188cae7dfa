//! What is asked of expectations, what missing it costs, and the conjugates of these costs.

use super::exponential::Exponential;
use super::root::Scalar;
use crate::error::{RegBayesError, same_size};

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
        let wrong =
            |value: f64, rule: &'static str| RegBayesError::row("constraints", index, value, rule);
        if let Some(&feature) = self.features.iter().find(|t| **t >= n_features) {
            return Err(wrong(feature as f64, "a feature of the space"));
        }
        if let Some(band) = self.penalty.band() {
            band.softness.check(&wrong)?;
            if band.epsilon.is_nan() || band.epsilon < 0.0 {
                return Err(wrong(band.epsilon, "a half width >= 0"));
            }
        }
        let (values, sizes): (Vec<f64>, Option<usize>) = match &self.penalty {
            Penalty::AtMost { bound, .. } | Penalty::AtLeast { bound, .. } => (vec![*bound], None),
            Penalty::Within {
                target, epsilon, ..
            } => (vec![*target, *epsilon], None),
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
        sizes.map_or(Ok(()), |size| {
            same_size("numbers of a constraint", size, self.features.len())
        })
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

/// What `AtMost`, `AtLeast` and `Within` have in common: a target, and on which sides of it a distance beyond `epsilon` is a miss.
struct Band {
    target: f64,
    epsilon: f64,
    below: bool,
    above: bool,
    softness: Softness,
}

impl Penalty {
    fn band(&self) -> Option<Band> {
        let (target, epsilon, below, above, softness) = match *self {
            Self::AtMost { bound, softness } => (bound, 0.0, false, true, softness),
            Self::AtLeast { bound, softness } => (bound, 0.0, true, false, softness),
            Self::Within {
                target,
                epsilon,
                softness,
            } => (target, epsilon, true, true, softness),
            _ => return None,
        };
        Some(Band {
            target,
            epsilon,
            below,
            above,
            softness,
        })
    }

    /// Cost at these expectations, and the largest miss of a hard constraint.
    pub(super) fn cost(&self, e: &[f64]) -> (f64, f64) {
        if let Some(band) = self.band() {
            return e.iter().fold((0.0, 0.0_f64), |(cost, most), e| {
                let off = e - band.target;
                let counts = if off > 0.0 { band.above } else { band.below };
                let missed = if counts {
                    off.abs() - band.epsilon
                } else {
                    0.0
                };
                let (own, miss) = band.softness.cost(missed);
                (cost + own, most.max(miss))
            });
        }
        match self {
            Self::Ball { centre, radius } => {
                let distance = squared_distance(e, centre).sqrt();
                (0.0, (distance - radius).max(0.0))
            }
            Self::SquaredDistance { centre, cost } => (cost * squared_distance(e, centre), 0.0),
            Self::Labels { given, cost } => {
                let terms = given.iter().zip(e).filter(|(g, _)| **g > 0.0);
                let divergence: f64 = terms.map(|(g, e)| g * (g / e).ln()).sum();
                (cost * divergence, 0.0)
            }
            _ => unreachable!("bands are above"),
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
        if let Some(band) = self.band() {
            let (most, curvature) = band.softness.dual();
            return Scalar {
                target: band.target,
                epsilon: band.epsilon,
                curvature,
                low: if band.above { -most } else { 0.0 },
                high: if band.below { most } else { 0.0 },
                ..free
            };
        }
        match self {
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
            _ => unreachable!("bands are above"),
        }
    }

    fn is_hard(&self) -> bool {
        let hard = |band: Band| band.softness == Softness::Hard;
        self.band().map_or(matches!(self, Self::Ball { .. }), hard)
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
