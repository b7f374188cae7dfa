//! Numbers on the scale of a normal law: a monotone map learned from a sample.

use serde::{Deserialize, Serialize};

use crate::special::normal_quantile;

/// Knots of a map at most: enough for its shape, few enough to be stored for every column.
const MOST_KNOTS: usize = 100;

/// A monotone map from values to normal scores: the quantile of the normal law at a value's rank among the training values, linear in
/// between. Beyond them it goes on with the map's mean slope, and grows like a logarithm.
///
/// ```
/// use npb_priors::NormalScore;
///
/// let map = NormalScore::fit(vec![1.0, 10.0, 100.0]);
/// assert!(map.score(10.0).abs() < 1e-12 && map.score(1e6) > map.score(100.0));
/// assert!((map.value(map.score(50.0)) - 50.0).abs() < 1e-9);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NormalScore {
    /// Training values, increasing.
    values: Vec<f64>,
    /// Their scores, increasing.
    scores: Vec<f64>,
}

impl NormalScore {
    /// `observed`: training values in any order.
    pub fn fit(mut observed: Vec<f64>) -> Self {
        observed.sort_by(f64::total_cmp);
        let n = observed.len() as f64;
        // Distinct values, with the middle of their ranks.
        let mut knots: Vec<(f64, f64)> = Vec::new();
        let mut first = 0;
        for group in observed.chunk_by(|a, b| a == b) {
            let rank = first as f64 + 0.5 * group.len() as f64;
            knots.push((group[0], normal_quantile(rank / n)));
            first += group.len();
        }
        let last = knots.len().saturating_sub(1);
        let kept = MOST_KNOTS.min(knots.len());
        let (values, scores) = (0..kept)
            .map(|k| knots[if kept < 2 { 0 } else { k * last / (kept - 1) }])
            .unzip();
        Self { values, scores }
    }

    /// Mean slope, for what lies outside.
    fn slope(&self) -> f64 {
        match (self.values.as_slice(), self.scores.as_slice()) {
            ([a, .., b], [p, .., q]) => {
                ((q - p) / between(*a, *b).max(f64::MIN_POSITIVE)).min(f64::MAX)
            }
            _ => 1.0,
        }
    }

    /// The score of a value.
    pub fn score(&self, value: f64) -> f64 {
        let last = self.values.len().saturating_sub(1);
        if self.values.is_empty() {
            return value;
        }
        let outside = |by: f64| (self.slope() * by).min(f64::MAX).ln_1p();
        if value <= self.values[0] {
            return self.scores[0] - outside(between(value, self.values[0]));
        }
        if value >= self.values[last] {
            return self.scores[last] + outside(between(self.values[last], value));
        }
        let k = self.values.partition_point(|v| *v <= value) - 1;
        let (a, b) = (self.values[k], self.values[k + 1]);
        // Half of the smallest numbers is zero.
        let span = 0.5 * b - 0.5 * a;
        let part = match span > 0.0 {
            true => (0.5 * value - 0.5 * a) / span,
            false => (value - a) / (b - a),
        };
        self.scores[k] + part * (self.scores[k + 1] - self.scores[k])
    }

    /// The value with this score; none for none.
    pub fn value(&self, score: f64) -> f64 {
        let last = self.scores.len().saturating_sub(1);
        if self.scores.is_empty() || score.is_nan() {
            return score;
        }
        if last == 0 {
            return self.values[0];
        }
        let outside = |by: f64| by.min(300.0).exp_m1() / self.slope();
        let value = if score <= self.scores[0] {
            self.values[0] - outside(self.scores[0] - score)
        } else if score >= self.scores[last] {
            self.values[last] + outside(score - self.scores[last])
        } else {
            let k = self.scores.partition_point(|s| *s <= score) - 1;
            let part = (score - self.scores[k]) / (self.scores[k + 1] - self.scores[k]);
            self.values[k] * (1.0 - part) + self.values[k + 1] * part
        };
        value.clamp(f64::MIN, f64::MAX)
    }

    /// `ln` of the map's slope; at a knot that of the mean of both sides.
    pub fn ln_slope(&self, value: f64) -> f64 {
        let last = self.values.len().saturating_sub(1);
        if last == 0 {
            return 0.0;
        }
        let side = |k: usize| {
            let step = between(self.values[k], self.values[k + 1]).max(f64::MIN_POSITIVE);
            (self.scores[k + 1] - self.scores[k]) / step
        };
        let outside = |by: f64| self.slope() / (1.0 + self.slope() * by);
        let slope = if value < self.values[0] {
            outside(between(value, self.values[0]))
        } else if value > self.values[last] {
            outside(between(self.values[last], value))
        } else {
            let k = self.values.partition_point(|v| *v <= value) - 1;
            if value > self.values[k] {
                side(k)
            } else if k == 0 {
                side(0)
            } else if k == last {
                side(last - 1)
            } else {
                0.5 * (side(k - 1) + side(k))
            }
        };
        slope.max(f64::MIN_POSITIVE).ln()
    }

    /// Whether values and scores are finite and increase, as [`Self::fit`] leaves them: for maps that come from a file.
    pub fn is_valid(&self) -> bool {
        let increasing = |values: &[f64]| {
            values.iter().all(|v| v.is_finite()) && values.windows(2).all(|w| w[0] < w[1])
        };
        self.values.len() == self.scores.len()
            && increasing(&self.values)
            && increasing(&self.scores)
    }
}

/// `b - a`, finite for finite numbers.
fn between(a: f64, b: f64) -> f64 {
    (b - a).min(f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_values_are_inverse() {
        let values: Vec<f64> = (0..300)
            .map(|k| f64::from((k * 37) % 211).powi(3))
            .collect();
        let margin = NormalScore::fit(values);
        for value in [-1e4, 0.0, 5.0, 1234.5, 9e6, 3e7] {
            let back = margin.value(margin.score(value));
            assert!(
                (back - value).abs() < 1e-6 * (1.0 + value.abs()),
                "{value} {back}"
            );
        }
        assert!(margin.is_valid() && margin.values.len() == MOST_KNOTS);
        // The slope is the derivative.
        let h = 1e-3;
        for value in [-50.0, 1234.5, 2e7] {
            let slope = (margin.score(value + h) - margin.score(value - h)) / (2.0 * h);
            assert!(
                (margin.ln_slope(value) - slope.ln()).abs() < 1e-4,
                "{value}"
            );
        }
    }

    #[test]
    fn ranks_alone_matter_and_ties_share_one() {
        let margin = NormalScore::fit(vec![1.0, 1.0, 5.0, 1e300]);
        assert!((margin.score(1.0) - normal_quantile(0.25)).abs() < 1e-12);
        assert!((margin.score(1e300) - normal_quantile(0.875)).abs() < 1e-12);
        for value in [f64::MIN, -1e300, 0.0, f64::MAX] {
            let score = margin.score(value);
            assert!(score.is_finite() && score.abs() < 1500.0, "{value} {score}");
            assert!(margin.value(score).is_finite());
        }
        assert_eq!(NormalScore::fit(vec![2.0; 3]).value(7.0), 2.0);
    }
}
