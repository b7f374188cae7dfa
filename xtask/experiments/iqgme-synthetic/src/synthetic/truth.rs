//! The distribution that the data come from, and draws from it.

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use rand::RngExt;

use npb_kit::Result;

/// One of the Gaussians, with the line `x2 = slope x1 + intercept` that parts its classes.
pub(super) struct Gaussian {
    pub(super) mean: [f64; 2],
    pub(super) covariance: [[f64; 2]; 2],
    pub(super) slope: f64,
    pub(super) intercept: f64,
}

/// The printed parameters; the weights are equal.
pub(super) const TRUTH: [Gaussian; 3] = [
    Gaussian {
        mean: [-3.0, 0.0],
        covariance: [[0.52, -0.36], [-0.36, 0.73]],
        slope: 0.75,
        intercept: 2.25,
    },
    Gaussian {
        mean: [1.0, 0.0],
        covariance: [[0.47, 0.19], [0.19, 0.7]],
        slope: -0.58,
        intercept: 0.58,
    },
    Gaussian {
        mean: [5.0, 0.0],
        covariance: [[0.52, -0.36], [-0.36, 0.73]],
        slope: 0.75,
        intercept: -3.75,
    },
];

impl Gaussian {
    /// Labels have no noise: the second class lies above the line.
    fn is_positive(&self, [x1, x2]: [f64; 2]) -> bool {
        x2 > self.slope * x1 + self.intercept
    }
}

/// Rows drawn from the truth.
pub(super) struct Sample {
    pub(super) points: Vec<[f64; 2]>,
    pub(super) positive: Vec<bool>,
}

impl Sample {
    /// `rows` rows; `purpose` keeps draws of one trial apart.
    pub(super) fn draw(rows: usize, seed: u64, purpose: u64) -> Result<Self> {
        let factor = |truth: &Gaussian| {
            Cholesky::new(Mat::from_fn(2, 2, |i, j| truth.covariance[i][j]).as_ref())
        };
        let factors: Vec<Cholesky> = TRUTH
            .iter()
            .map(factor)
            .collect::<std::result::Result<_, _>>()?;
        let mut rng = stream(seed, [purpose, 0, 0, 0]);
        let (mut points, mut positive) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let component = rng.random_range(0..TRUTH.len());
            let mut point = TRUTH[component].mean;
            factors[component].sample_moment(&mut point, &mut rng);
            positive.push(TRUTH[component].is_positive(point));
            points.push(point);
        }
        Ok(Self { points, positive })
    }

    pub(super) fn table(&self) -> Result<Table> {
        table(&self.points)
    }

    /// Classes `-1` and `1`, in this order.
    pub(super) fn labels(&self) -> Labels {
        let sign = |&positive: &bool| Some(if positive { 1 } else { -1 });
        Labels::from_integers(&self.positive.iter().map(sign).collect::<Vec<_>>())
    }
}

/// Points of the plane as rows without labels.
pub(super) fn table(points: &[[f64; 2]]) -> Result<Table> {
    let table = Table::complete(points.len(), 2, points.concat())?;
    Ok(table.with_column_names(["x1", "x2"])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_moments_of_the_mixture() {
        let n = 20_000;
        let points = Sample::draw(n, 1, 0).unwrap().points;
        let mean =
            |f: &dyn Fn([f64; 2]) -> f64| points.iter().map(|&p| f(p)).sum::<f64>() / n as f64;
        // Between the Gaussians the first feature varies by 32/3, the second not at all.
        let within =
            |i: usize, j: usize| TRUTH.iter().map(|t| t.covariance[i][j]).sum::<f64>() / 3.0;
        for (found, expected, tolerance) in [
            (mean(&|[x, _]| x), 1.0, 0.1),
            (mean(&|[_, y]| y), 0.0, 0.03),
            (
                mean(&|[x, _]| (x - 1.0).powi(2)),
                within(0, 0) + 32.0 / 3.0,
                0.2,
            ),
            (mean(&|[x, y]| (x - 1.0) * y), within(0, 1), 0.1),
            (mean(&|[_, y]| y * y), within(1, 1), 0.05),
        ] {
            assert!(
                (found - expected).abs() < tolerance,
                "{found} is not {expected}"
            );
        }
    }

    #[test]
    fn every_line_parts_its_gaussian_in_halves() {
        for truth in &TRUTH {
            let [x, y] = truth.mean;
            assert!((truth.slope * x + truth.intercept - y).abs() < 1e-12);
            assert!(truth.is_positive([x, y + 0.1]) && !truth.is_positive([x, y - 0.1]));
        }
        let sample = Sample::draw(3_000, 2, 0).unwrap();
        let share = sample.positive.iter().filter(|p| **p).count() as f64 / 3_000.0;
        assert!((share - 0.5).abs() < 0.04, "{share}");
        assert_eq!(sample.labels().classes(), ["-1", "1"]);
    }
}
