//! A trial's rows and their fit, and what figures draw of both.

use npb_data::Table;
use npb_iqgme::{IqgmeConfig, IqgmeFit};

use super::truth::{Gaussian, Sample, TRUTH};
use npb_kit::npb_report::{At, Layer, Shape, colours};
use npb_kit::{Record, Result};

/// Rows of a trial; the thesis does not say how many it drew.
pub(super) const ROWS: usize = 300;
/// A component is dominant when its weight is larger (W 3.5.1).
pub(super) const DOMINANT: f64 = 0.005;
/// What is drawn for: keys of the random streams.
pub(super) const TRAINING: u64 = 0;
pub(super) const FRESH: u64 = 1;
pub(super) const DRAWS: u64 = 2;
/// The trial that the figures show.
pub(super) const SHOWN: u64 = 0;
pub(super) const OURS: &str = "npb:iqgme";

/// The part of the plane that is shown: 40 pixels per unit both ways.
pub(super) const X1: (f64, f64) = (-5.75, 7.75);
pub(super) const X2: (f64, f64) = (-4.0, 4.0);

/// One trial's rows and their fit.
pub(super) struct Fitted {
    pub(super) sample: Sample,
    pub(super) table: Table,
    pub(super) fit: IqgmeFit,
    pub(super) seed: u64,
}

impl Fitted {
    pub(super) fn new(seed: u64) -> Result<Self> {
        let sample = Sample::draw(ROWS, seed, TRAINING)?;
        let table = sample.table()?;
        let config = IqgmeConfig {
            seed,
            ..Default::default()
        };
        let fit = npb_iqgme::fit(&table, &sample.labels(), &config)?;
        Ok(Self {
            sample,
            table,
            fit,
            seed,
        })
    }

    /// Positions of the dominant components, heavier ones first.
    pub(super) fn dominant(&self) -> Vec<usize> {
        let weights = self.fit.state().sticks.expected_weights();
        let n = self.fit.state().components.len();
        (0..n).filter(|&h| weights[h] > DOMINANT).collect()
    }
}

/// The trial of the figures.
pub(super) fn shown(records: &[Record]) -> Result<&Record> {
    let found = records.iter().find(|record| record.key.trial == SHOWN);
    found.ok_or_else(|| format!("trial {SHOWN} is not there").into())
}

/// A longer result of a trial.
pub(super) fn series<'a>(record: &'a Record, name: &str) -> Result<&'a [f64]> {
    match record.outcome.series.get(name) {
        Some(values) => Ok(values),
        None => Err(format!("trial {}: no series {name:?}", record.key.trial).into()),
    }
}

/// A line in the plane, `slope[0] x1 + slope[1] x2 + intercept = 0`.
#[derive(Clone, Copy)]
pub(super) struct Boundary {
    pub(super) slope: [f64; 2],
    pub(super) intercept: f64,
}

impl Boundary {
    /// The line between the classes of a true component.
    pub(super) fn of(truth: &Gaussian) -> Self {
        Self {
            slope: [-truth.slope, 1.0],
            intercept: -truth.intercept,
        }
    }

    /// The same line for features in other units, `z = (x - centre) / scale`: this one is in `z`, the result in `x`.
    pub(super) fn in_units(self, centre: &[f64], scale: &[f64]) -> Self {
        let slope = [self.slope[0] / scale[0], self.slope[1] / scale[1]];
        Self {
            slope,
            intercept: self.intercept - slope[0] * centre[0] - slope[1] * centre[1],
        }
    }

    /// The line's direction as an angle between 0 and pi.
    pub(super) fn angle(&self) -> f64 {
        self.slope[0]
            .atan2(-self.slope[1])
            .rem_euclid(std::f64::consts::PI)
    }

    /// The segment of `2 half` length around the point of the line that is nearest to `centre`.
    pub(super) fn segment(&self, centre: At, half: f64) -> Vec<At> {
        let [a, b] = self.slope;
        let norm = a.hypot(b);
        let distance = (a * centre[0] + b * centre[1] + self.intercept) / norm;
        let foot = [
            centre[0] - distance * a / norm,
            centre[1] - distance * b / norm,
        ];
        let end = |s: f64| [foot[0] - s * b / norm, foot[1] + s * a / norm];
        vec![end(-half), end(half)]
    }
}

/// The ellipse at two standard deviations of a Gaussian.
pub(super) fn ellipse(mean: At, covariance: [[f64; 2]; 2]) -> Vec<At> {
    let l11 = covariance[0][0].sqrt();
    let l21 = covariance[1][0] / l11;
    let l22 = (covariance[1][1] - l21 * l21).sqrt();
    let point = |k: u32| {
        let (sin, cos) = (f64::from(k) / 48.0 * std::f64::consts::TAU).sin_cos();
        [
            mean[0] + 2.0 * l11 * cos,
            mean[1] + 2.0 * (l21 * cos + l22 * sin),
        ]
    };
    (0..=48).map(point).collect()
}

/// The true components: means, ellipses and the lines between their classes.
pub(super) fn true_components() -> Vec<Layer> {
    let layer = |name: &str, shape| Layer::new(name, colours::BLACK, shape);
    let ellipses = TRUTH.iter().map(|t| ellipse(t.mean, t.covariance));
    let lines = TRUTH.iter().map(|t| Boundary::of(t).segment(t.mean, 2.2));
    vec![
        layer("true Gaussian (2 sd)", Shape::Dashed(ellipses.collect())),
        layer("true class boundary", Shape::Curves(lines.collect(), 1)),
        layer(
            "true mean",
            Shape::Dots(TRUTH.iter().map(|t| t.mean).collect()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_pass_where_they_should() {
        let truth = &TRUTH[1];
        let line = Boundary::of(truth);
        for [x1, x2] in line.segment([1.0, 3.0], 2.0) {
            assert!((x2 - truth.slope * x1 - truth.intercept).abs() < 1e-12);
        }
        assert!((line.angle() - (truth.slope.atan() + std::f64::consts::PI)).abs() < 1e-12);
        // z = (x - 2) / 4 on the first axis, (y + 1) / 3 on the second.
        let moved = line.in_units(&[2.0, -1.0], &[4.0, 3.0]);
        let (z1, z2) = (0.7, truth.slope * 0.7 + truth.intercept);
        let (x1, x2) = (2.0 + 4.0 * z1, -1.0 + 3.0 * z2);
        let value = moved.slope[0] * x1 + moved.slope[1] * x2 + moved.intercept;
        assert!(value.abs() < 1e-12, "{value}");
    }

    #[test]
    fn an_ellipse_is_two_standard_deviations_wide() {
        let truth = &TRUTH[0];
        let points = ellipse(truth.mean, truth.covariance);
        let right = points.iter().map(|p| p[0]).fold(f64::MIN, f64::max);
        assert!((right - (-3.0 + 2.0 * 0.52_f64.sqrt())).abs() < 1e-12);
        let [[a, b], [_, c]] = truth.covariance;
        for [x, y] in points {
            let (x, y) = (x + 3.0, y);
            let square = (c * x * x - 2.0 * b * x * y + a * y * y) / (a * c - b * b);
            assert!((square - 4.0).abs() < 1e-9, "{square}");
        }
    }
}
