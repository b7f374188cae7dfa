//! The best value of one dual: a root of a monotone function.

use super::exponential::Exponential;

/// `min_phi  Lambda(phi) - target phi + epsilon |phi| + curvature phi^2 / 2 + radius sqrt(phi^2 + others) - barrier ln phi`, `low <= phi <= high`, with
/// `Lambda` the log-partition function.
pub(super) struct Scalar {
    pub(super) target: f64,
    pub(super) epsilon: f64,
    pub(super) curvature: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) barrier: f64,
    pub(super) radius: f64,
    /// Sum of squares of the other duals of a ball.
    pub(super) others: f64,
}

/// Halvings that take an interval of any size to rounding.
const HALVINGS: usize = 200;

impl Scalar {
    /// Slope at `phi` of everything but the kink at 0; increasing.
    fn slope(&self, phi: f64, expectation: f64) -> f64 {
        let ball = match self.radius {
            0.0 => 0.0,
            radius => radius * phi / (phi * phi + self.others).sqrt().max(f64::MIN_POSITIVE),
        };
        let barrier = if self.barrier > 0.0 {
            self.barrier / phi
        } else {
            0.0
        };
        expectation - self.target + self.curvature * phi + ball - barrier
    }

    /// The best value; `None` when it is infinite.
    pub(super) fn best(&self, space: &impl Exponential, feature: usize, now: f64) -> Option<f64> {
        let slope = |phi: f64| self.slope(phi, space.expectation_after(feature, phi - now));
        // Where 0 is allowed, its kink decides on which side the minimum lies.
        if self.low <= 0.0 && self.high >= 0.0 && self.barrier == 0.0 {
            let at_zero = slope(0.0);
            let kink = self.epsilon + if self.others == 0.0 { self.radius } else { 0.0 };
            if at_zero.abs() <= kink
                || (at_zero > kink && self.low == 0.0)
                || (at_zero < -kink && self.high == 0.0)
            {
                return Some(0.0);
            }
            let sign = -at_zero.signum();
            if self.is_out_of_reach(sign, space.range(feature)) {
                return None;
            }
            return self.outside(sign, now, |phi| slope(phi) + sign * self.epsilon);
        }
        self.outside(1.0, now, slope)
    }

    /// Whether a hard bound lies at or beyond the end of what the feature can be: then it is met in the limit of an infinite dual, or never.
    fn is_out_of_reach(&self, sign: f64, range: (f64, f64)) -> bool {
        let hard = self.curvature == 0.0 && self.radius == 0.0;
        match sign < 0.0 {
            true => hard && self.low == f64::NEG_INFINITY && self.target + self.epsilon <= range.0,
            false => hard && self.high == f64::INFINITY && self.target - self.epsilon >= range.1,
        }
    }

    /// The root of an increasing function on the side `sign` of 0, or the end of the range.
    fn outside(&self, sign: f64, now: f64, slope: impl Fn(f64) -> f64) -> Option<f64> {
        let end = if sign > 0.0 { self.high } else { -self.low };
        // Sizes between which the root lies; the slope times the sign is negative at the first.
        let mut inner = 0.0;
        let mut outer = now.abs().max(1e-3).min(end);
        while sign * slope(sign * outer) < 0.0 {
            if outer >= end {
                return Some(sign * end);
            }
            if outer > MOST_DUAL {
                return None;
            }
            inner = outer;
            outer = (4.0 * outer).min(end);
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (inner + outer);
            if middle <= inner || middle >= outer {
                break;
            }
            match sign * slope(sign * middle) < 0.0 {
                true => inner = middle,
                false => outer = middle,
            }
        }
        Some(sign * 0.5 * (inner + outer))
    }
}

/// A dual larger than this (in units of the feature it belongs to: nats per unit) is taken for infinite.
const MOST_DUAL: f64 = 1e12;
