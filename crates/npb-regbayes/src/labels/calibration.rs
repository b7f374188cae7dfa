//! Scores of a label turned into log-odds, and the F1 that these lead to expect.

use crate::dense::sigmoid;

const STEPS: usize = 100;
const HALVINGS: usize = 30;
/// Largest slope of the log-likelihood at its maximum, per unit of weight.
const TOLERANCE: f64 = 1e-9;

/// `ln odds = slope f + offset`, slope not negative: Platt's curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) slope: f64,
    pub(super) offset: f64,
}

/// A held-out score, whether the target is a yes, and how much it counts.
pub(super) type Scored = (f64, bool, f64);

impl Curve {
    /// By maximum likelihood with Platt's targets: (n+ + 1) / (n+ + 2) for a yes, 1 / (n- + 2) for a no, n the sums of weights. A curve that would turn the order
    /// round has slope 0 instead: the label's share.
    pub(super) fn fit(scored: &[Scored]) -> Self {
        let count = |yes: bool| -> f64 { scored.iter().filter(|s| s.1 == yes).map(|s| s.2).sum() };
        let (ones, zeros) = (count(true), count(false));
        let total = ones + zeros;
        let flat = Self {
            slope: 0.0,
            offset: ((ones + 1.0) / (zeros + 1.0)).ln(),
        };
        let mean = scored.iter().map(|s| s.0 * s.2).sum::<f64>() / total;
        let squares = scored.iter().map(|s| s.2 * (s.0 - mean) * (s.0 - mean));
        let sd = (squares.sum::<f64>() / total).sqrt();
        if sd <= 1e-12 * mean.abs().max(1.0) {
            return flat;
        }
        let target = |yes| match yes {
            true => (ones + 1.0) / (ones + 2.0),
            false => 1.0 / (zeros + 2.0),
        };
        let points: Vec<[f64; 3]> = (scored.iter())
            .map(|&(f, yes, weight)| [(f - mean) / sd, target(yes), weight])
            .collect();
        let [slope, offset] = newton(&points, [0.0, flat.offset]);
        match slope > 0.0 {
            true => Self {
                slope: slope / sd,
                offset: offset - slope * mean / sd,
            },
            false => flat,
        }
    }

    pub(super) fn ln_odds(self, score: f64) -> f64 {
        self.slope * score + self.offset
    }
}

/// Newton's method with halved steps on a convex function of slope and offset. Points: place, target, weight.
fn newton(points: &[[f64; 3]], mut at: [f64; 2]) -> [f64; 2] {
    let total: f64 = points.iter().map(|p| p[2]).sum();
    let value = |[a, b]: [f64; 2]| -> f64 {
        let each = points
            .iter()
            .map(|&[x, t, w]| w * cross_entropy(a * x + b, t));
        each.sum()
    };
    let mut before = value(at);
    for _ in 0..STEPS {
        let (mut g, mut h) = ([0.0; 2], [1e-10 * total, 0.0, 1e-10 * total]);
        for &[x, t, w] in points {
            let p = sigmoid(at[0] * x + at[1]);
            let (d, v) = (w * (p - t), w * p * (1.0 - p));
            g = [g[0] + d * x, g[1] + d];
            h = [h[0] + v * x * x, h[1] + v * x, h[2] + v];
        }
        if g[0].abs().max(g[1].abs()) <= TOLERANCE * total {
            break;
        }
        let determinant = h[0] * h[2] - h[1] * h[1];
        let step = [
            (h[2] * g[0] - h[1] * g[1]) / determinant,
            (h[0] * g[1] - h[1] * g[0]) / determinant,
        ];
        let mut size = 1.0;
        let moved = |size: f64| [at[0] - size * step[0], at[1] - size * step[1]];
        let lower = (0..HALVINGS).find_map(|_| {
            let found = value(moved(size));
            let to = (found < before).then(|| (moved(size), found));
            size *= 0.5;
            to
        });
        let Some((to, found)) = lower else { break };
        (at, before) = (to, found);
    }
    at
}

/// `ln(1 + e^x) - target x`, without overflow: minus the log-likelihood of log-odds x.
pub(super) fn cross_entropy(x: f64, target: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p() - target * x
}

/// The largest F1 that probabilities with these log-odds (and weights) lead to expect of decisions above a threshold: `max 2 sum_{i <= k} p_i / (k + sum_i p_i)`.
pub(super) fn expected_f1(ln_odds: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut p: Vec<(f64, f64)> = ln_odds.map(|(x, w)| (sigmoid(x), w)).collect();
    p.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: f64 = p.iter().map(|(p, w)| p * w).sum();
    let (mut hits, mut called, mut best) = (0.0, 0.0, 0.0_f64);
    for (p, w) in p {
        hits += p * w;
        called += w;
        best = best.max(2.0 * hits / (called + all));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored() -> Vec<Scored> {
        let score = |i: u32| f64::from(i * 7 % 31) / 8.0 - 1.5;
        let noise = |i: u32| f64::from(i * 13 % 17) / 8.0 - 1.0;
        let one = |i: u32| (score(i), score(i) + noise(i) > 0.6, 1.0);
        (0..60).map(one).collect()
    }

    /// No slope and offset of a fine grid is more probable, and at the maximum the log-likelihood is flat: residuals and their products with scores sum to 0.
    #[test]
    fn curves_are_the_most_probable() {
        let scored = scored();
        let curve = Curve::fit(&scored);
        let ones = scored.iter().filter(|s| s.1).count() as f64;
        let target = |yes| match yes {
            true => (ones + 1.0) / (ones + 2.0),
            false => 1.0 / (62.0 - ones),
        };
        let loss = |c: Curve| -> f64 {
            let each = scored.iter().map(|s| (c.ln_odds(s.0), target(s.1)));
            each.map(|(x, t)| (1.0 + x.exp()).ln() - t * x).sum()
        };
        for (a, b) in (-20..=20).flat_map(|a| (-20..=20).map(move |b| (a, b))) {
            let other = Curve {
                slope: curve.slope + 0.05 * f64::from(a),
                offset: curve.offset + 0.05 * f64::from(b),
            };
            assert!(loss(other) >= loss(curve) - 1e-9);
        }
        let residual = |s: &Scored| target(s.1) - 1.0 / (1.0 + (-curve.ln_odds(s.0)).exp());
        let flat: f64 = scored.iter().map(residual).sum();
        let steep: f64 = scored.iter().map(|s| s.0 * residual(s)).sum();
        assert!(flat.abs() < 1e-6 && steep.abs() < 1e-6, "{flat} {steep}");
    }

    /// A weight counts as so many copies of the row.
    #[test]
    fn weights_count_as_copies() {
        let heavy: Vec<Scored> = scored()
            .iter()
            .map(|s| (s.0, s.1, if s.1 { 3.0 } else { 1.0 }))
            .collect();
        let copies: Vec<Scored> = (scored().iter())
            .flat_map(|s| vec![*s; if s.1 { 3 } else { 1 }])
            .collect();
        let (a, b) = (Curve::fit(&heavy), Curve::fit(&copies));
        assert!((a.slope - b.slope).abs() < 1e-7 && (a.offset - b.offset).abs() < 1e-7);
        let x = [(-1.0, 2.0), (0.5, 1.0), (2.0, 3.0)];
        let each = x.iter().flat_map(|&(x, w)| vec![(x, 1.0); w as usize]);
        assert!((expected_f1(x.into_iter()) - expected_f1(each)).abs() < 1e-12);
    }

    #[test]
    fn scores_that_say_nothing_leave_the_share() {
        let share = (11.0_f64 / 31.0).ln();
        let of = |score: fn(usize) -> f64| {
            let scored: Vec<Scored> = (0..40).map(|i| (score(i), i % 4 == 0, 1.0)).collect();
            Curve::fit(&scored)
        };
        for curve in [of(|_| 3.0), of(|i| if i % 4 == 0 { -1.0 } else { 1.0 })] {
            assert_eq!(curve.slope, 0.0);
            assert!((curve.offset - share).abs() < 1e-12);
        }
        // Separated ones stay finite, and those of one class alone.
        assert!(
            of(|i| if i % 4 == 0 { 1.0 } else { -1.0 })
                .slope
                .is_finite()
        );
        let one = Curve::fit(&[(1.0, false, 1.0), (2.0, false, 1.0)]);
        assert!(one.slope.is_finite() && one.ln_odds(1.5) < 0.0);
    }

    /// Decisions above half of the expected F1 have it: found by trying every number of yeses.
    #[test]
    fn half_of_the_expected_f1_is_its_threshold() {
        let x: Vec<f64> = (0..40)
            .map(|i| f64::from(i * 11 % 40) / 8.0 - 4.0)
            .collect();
        let best = expected_f1(x.iter().map(|&x| (x, 1.0)));
        let of = |threshold: f64| {
            let p = x.iter().map(|x| 1.0 / (1.0 + (-x).exp()));
            let (all, called): (f64, Vec<f64>) =
                (p.clone().sum(), p.filter(|p| *p > threshold).collect());
            2.0 * called.iter().sum::<f64>() / (called.len() as f64 + all)
        };
        let largest = (0..1000)
            .map(|t| of(f64::from(t) / 1000.0))
            .fold(0.0, f64::max);
        assert!((best - largest).abs() < 1e-12);
        assert!((of(best / 2.0) - best).abs() < 1e-12);
    }
}
