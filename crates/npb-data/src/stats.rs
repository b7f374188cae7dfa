//! Mean and standard deviation that survive the whole range of f64.

use serde::{Deserialize, Serialize};

/// What is known about the observed cells of one column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnStats {
    /// Number of observed cells.
    pub n_observed: usize,
    /// Mean; 0 when nothing is observed.
    pub mean: f64,
    /// Standard deviation with divisor n (ddof 0); 0 for a constant column and when nothing is observed.
    pub sd: f64,
    /// Smallest value; +infinity when nothing is observed.
    pub min: f64,
    /// Largest value; -infinity when nothing is observed.
    pub max: f64,
}

impl ColumnStats {
    /// Of the cells of both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        if self.n_observed == 0 || other.n_observed == 0 {
            return if self.n_observed == 0 { *other } else { *self };
        }
        let n_observed = self.n_observed + other.n_observed;
        let [own, theirs] = [self, other].map(|of| of.n_observed as f64 / n_observed as f64);
        let apart = other.mean - self.mean;
        let within = (own.sqrt() * self.sd).hypot(theirs.sqrt() * other.sd);
        Self {
            n_observed,
            mean: match apart.is_finite() {
                true => self.mean + theirs * apart,
                false => own * self.mean + theirs * other.mean,
            },
            sd: within.hypot((own * theirs).sqrt() * apart),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// Statistics of the finite values that `values` yields; it is called for every pass.
pub(crate) fn column<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> ColumnStats {
    let (mut n, mut min, mut max) = (0_usize, f64::INFINITY, f64::NEG_INFINITY);
    for v in values() {
        (n, min, max) = (n + 1, min.min(v), max.max(v));
    }
    if n == 0 {
        return ColumnStats {
            n_observed: 0,
            mean: 0.0,
            sd: 0.0,
            min,
            max,
        };
    }
    if min == max {
        return ColumnStats {
            n_observed: n,
            mean: min,
            sd: 0.0,
            min,
            max,
        };
    }
    // Powers of two scale without rounding, so that ordinary data give the plain two-pass result.
    let scale = power_of_two_near(min.abs().max(max.abs()));
    let mean = values().map(|v| v / scale).sum::<f64>() / n as f64;
    // One more scaling: deviations may be far smaller than the values.
    let spread = power_of_two_near((max / scale - mean).abs().max((min / scale - mean).abs()));
    let square = values()
        .map(|v| ((v / scale - mean) / spread).powi(2))
        .sum::<f64>()
        / n as f64;
    // The bounds only bind within rounding of the ends of the range.
    let sd = (square.sqrt() * spread * scale).clamp(f64::MIN_POSITIVE, f64::MAX);
    ColumnStats {
        n_observed: n,
        mean: (mean * scale).clamp(min, max),
        sd,
        min,
        max,
    }
}

/// A power of two within a factor of two of `x`; between 2^-1022 and 2^1023 so that dividing by it is exact for normal numbers.
fn power_of_two_near(x: f64) -> f64 {
    f64::from_bits(x.max(f64::MIN_POSITIVE).to_bits() & (0x7ff << 52))
}
