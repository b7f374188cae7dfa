use serde::{Deserialize, Serialize};

/// A central interval: as much of the law it is of lies below as above, and `level` within.
///
/// ```
/// use npb_infer::Interval;
/// let uniform = Interval::central(0.9, |p| 2.0 * p);      // on (0, 2)
/// assert!((uniform.lower - 0.1).abs() < 1e-12 && (uniform.upper - 1.9).abs() < 1e-12);
/// assert!(uniform.holds(1.0) && !uniform.holds(1.95));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
    /// Share of the law that lies within.
    pub level: f64,
}

impl Interval {
    /// That of a law with these quantiles.
    pub fn central(level: f64, quantile: impl Fn(f64) -> f64) -> Self {
        Self {
            lower: quantile(0.5 - 0.5 * level),
            upper: quantile(0.5 + 0.5 * level),
            level,
        }
    }

    /// Whether a value lies within, ends included.
    pub fn holds(&self, value: f64) -> bool {
        (self.lower..=self.upper).contains(&value)
    }

    /// Upper less lower end.
    pub fn width(&self) -> f64 {
        self.upper - self.lower
    }
}
