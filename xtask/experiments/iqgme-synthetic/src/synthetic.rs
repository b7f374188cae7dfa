//! Figures 3.2 to 3.4: three Gaussians in the plane, each cut by a line of its own (W 3.5.1).
//!
//! A trial of the same number has the same rows and the same fit in all three figures.

mod beliefs;
mod components;
mod maps;
mod truth;

use npb_data::Table;
use npb_iqgme::{IqgmeConfig, IqgmeFit};

use npb_kit::draw::{At, Layer, Shape, colours};
use npb_kit::{Context, Experiment, Outcome, Record, Report, Result, Scale, Trial};
use truth::{Gaussian, Sample, TRUTH};

pub(crate) const FIG_3_2: Experiment = Experiment {
    id: "iqgme/fig-3.2",
    what: "three Gaussians with a linear classifier each: weights, components and classifiers that are found",
    paper: "a figure without printed numbers: three dominant components",
    data: &[],
    run: |context| reproduce(context, components::run, components::report),
};

pub(crate) const FIG_3_3: Experiment = Experiment {
    id: "iqgme/fig-3.3",
    what: "three Gaussians: prior and posterior of the number of dominant components and of alpha",
    paper: "a figure without printed numbers: broad priors, posteriors around three components",
    data: &[],
    run: |context| reproduce(context, beliefs::run, beliefs::report),
};

pub(crate) const FIG_3_4: Experiment = Experiment {
    id: "iqgme/fig-3.4",
    what: "three Gaussians: predictions over the plane by the full posterior and by posterior means; prior and posteriors of the experts",
    paper: "a figure without printed numbers: the two predictions are fairly similar, the full posterior is less certain where data are scarce",
    data: &[],
    run: |context| reproduce(context, maps::run, maps::report),
};

/// Rows of a trial; the thesis does not say how many it drew.
const ROWS: usize = 300;
/// A component is dominant when its weight is larger (W 3.5.1).
const DOMINANT: f64 = 0.005;
/// What is drawn for: keys of the random streams.
const TRAINING: u64 = 0;
const FRESH: u64 = 1;
const DRAWS: u64 = 2;
/// The trial that the figures show.
const SHOWN: u64 = 0;
const OURS: &str = "npb:iqgme";

/// The part of the plane that is shown: 40 pixels per unit both ways.
const X1: (f64, f64) = (-5.75, 7.75);
const X2: (f64, f64) = (-4.0, 4.0);

/// One trial's rows and their fit.
struct Fitted {
    sample: Sample,
    table: Table,
    fit: IqgmeFit,
    seed: u64,
}

impl Fitted {
    fn new(seed: u64) -> Result<Self> {
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
    fn dominant(&self) -> Vec<usize> {
        let weights = self.fit.state().sticks.expected_weights();
        let n = self.fit.state().components.len();
        (0..n).filter(|&h| weights[h] > DOMINANT).collect()
    }
}

fn reproduce(
    context: &Context<'_>,
    run: fn(&Fitted) -> Result<Outcome>,
    report: fn(&[Record]) -> Result<Report>,
) -> Result<Report> {
    let trials = match context.scale {
        Scale::Smoke => 2,
        Scale::Quick => 10,
        Scale::Paper => 20,
    };
    let trial = |trial| Trial {
        dataset: "simulated".to_owned(),
        setting: format!("rows={ROWS}"),
        method: OURS.to_owned(),
        trial,
        config: format!("{:?}", IqgmeConfig::default()),
        work: (),
    };
    let trials: Vec<Trial<()>> = (0..trials).map(trial).collect();
    let records = context.run_trials(&trials, |trial, seed| {
        let mut outcome = run(&Fitted::new(seed)?)?;
        if trial.trial != SHOWN {
            outcome.series.clear();
        }
        Ok(outcome)
    })?;
    let mut report = report(&records)?;
    report.notes.push(format!(
        "{ROWS} rows per trial (the thesis does not say how many), labels without noise, the default configuration of \
         npb-iqgme. Figures show trial {SHOWN}, tables all trials."
    ));
    Ok(report)
}

/// The trial of the figures.
fn shown(records: &[Record]) -> Result<&Record> {
    let found = records.iter().find(|record| record.key.trial == SHOWN);
    found.ok_or_else(|| format!("trial {SHOWN} is not there").into())
}

/// A longer result of a trial.
fn series<'a>(record: &'a Record, name: &str) -> Result<&'a [f64]> {
    match record.outcome.series.get(name) {
        Some(values) => Ok(values),
        None => Err(format!("trial {}: no series {name:?}", record.key.trial).into()),
    }
}

/// A line in the plane, `slope[0] x1 + slope[1] x2 + intercept = 0`.
#[derive(Clone, Copy)]
struct Boundary {
    slope: [f64; 2],
    intercept: f64,
}

impl Boundary {
    /// The line between the classes of a true component.
    fn of(truth: &Gaussian) -> Self {
        Self {
            slope: [-truth.slope, 1.0],
            intercept: -truth.intercept,
        }
    }

    /// The same line for features in other units, `z = (x - centre) / scale`: this one is in `z`, the result in `x`.
    fn in_units(self, centre: &[f64], scale: &[f64]) -> Self {
        let slope = [self.slope[0] / scale[0], self.slope[1] / scale[1]];
        Self {
            slope,
            intercept: self.intercept - slope[0] * centre[0] - slope[1] * centre[1],
        }
    }

    /// The line's direction as an angle between 0 and pi.
    fn angle(&self) -> f64 {
        self.slope[0]
            .atan2(-self.slope[1])
            .rem_euclid(std::f64::consts::PI)
    }

    /// The segment of `2 half` length around the point of the line that is nearest to `centre`.
    fn segment(&self, centre: At, half: f64) -> Vec<At> {
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
fn ellipse(mean: At, covariance: [[f64; 2]; 2]) -> Vec<At> {
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
fn true_components() -> Vec<Layer> {
    let layer = |name: &str, shape| Layer {
        name: name.to_owned(),
        colour: colours::BLACK,
        shape,
    };
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
