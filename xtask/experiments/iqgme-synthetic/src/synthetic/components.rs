//! Figure 3.2: weights, means, covariances and classifiers of the components.

use std::f64::consts::PI;

use npb_iqgme::ComponentSummary;

use super::fitted::{
    Boundary, DOMINANT, Fitted, OURS, X1, X2, ellipse, series, shown, true_components,
};
use super::truth::TRUTH;
use npb_kit::npb_report::{At, Bars, Layer, Panel, Shape, colours, picture};
use npb_kit::tables::overview;
use npb_kit::{Figure, Outcome, Record, Report, Result, TextTable, summarise, text_table};

const METRICS: &str = "dominant mean_distance_max angle_error_max";

/// A dominant component.
struct Dominant {
    weight: f64,
    weight_sd: f64,
    mean: At,
    covariance: [[f64; 2]; 2],
    classifier: Boundary,
}

/// Numbers of a component in a trial's series.
const FIELDS: usize = 10;

impl Dominant {
    fn new(component: &ComponentSummary) -> Result<Self> {
        let classifier = component
            .classifier
            .as_ref()
            .ok_or("a fit without labels")?;
        let c = |i, j| component.covariance[(i, j)];
        Ok(Self {
            weight: component.weight,
            weight_sd: component.weight_sd,
            mean: [component.mean[0], component.mean[1]],
            covariance: [[c(0, 0), c(0, 1)], [c(1, 0), c(1, 1)]],
            classifier: Boundary {
                slope: [classifier.coefficients[0], classifier.coefficients[1]],
                intercept: classifier.intercept,
            },
        })
    }

    fn to_numbers(&self) -> [f64; FIELDS] {
        let [m1, m2] = self.mean;
        let [[c11, c12], [_, c22]] = self.covariance;
        let [w1, w2] = self.classifier.slope;
        let b = self.classifier.intercept;
        [
            self.weight,
            self.weight_sd,
            m1,
            m2,
            c11,
            c12,
            c22,
            w1,
            w2,
            b,
        ]
    }

    fn all_from(numbers: &[f64]) -> Vec<Self> {
        let (components, _) = numbers.as_chunks::<FIELDS>();
        let from = |&[weight, weight_sd, m1, m2, c11, c12, c22, w1, w2, b]: &[f64; FIELDS]| Self {
            weight,
            weight_sd,
            mean: [m1, m2],
            covariance: [[c11, c12], [c12, c22]],
            classifier: Boundary {
                slope: [w1, w2],
                intercept: b,
            },
        };
        components.iter().map(from).collect()
    }

    /// The nearest true component and the distance of its mean.
    fn nearest(&self) -> (usize, f64) {
        let distance = |k: usize| distance(self.mean, TRUTH[k].mean);
        (0..TRUTH.len())
            .map(|k| (k, distance(k)))
            .fold((0, f64::INFINITY), |best, other| {
                if other.1 < best.1 { other } else { best }
            })
    }

    /// Angle in degrees between its boundary and that of the nearest true component.
    fn angle_error(&self) -> f64 {
        let truth = Boundary::of(&TRUTH[self.nearest().0]);
        let turn = (self.classifier.angle() - truth.angle()).abs();
        turn.min(PI - turn).to_degrees()
    }
}

fn distance(a: At, b: At) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

pub(super) fn run(fitted: &Fitted) -> Result<Outcome> {
    let components = fitted.fit.components();
    let dominant = components
        .iter()
        .filter(|component| component.weight > DOMINANT)
        .map(Dominant::new)
        .collect::<Result<Vec<_>>>()?;
    let largest = |f: &dyn Fn(&Dominant) -> f64| dominant.iter().map(f).fold(0.0, f64::max);
    let mut outcome = Outcome::metrics([
        ("dominant", dominant.len() as f64),
        ("mean_distance_max", largest(&|c| c.nearest().1)),
        ("angle_error_max", largest(&Dominant::angle_error)),
    ]);
    for (k, truth) in TRUTH.iter().enumerate() {
        let distances = dominant.iter().map(|c| distance(c.mean, truth.mean));
        let name = format!("mean_distance_{}", k + 1);
        outcome
            .metrics
            .insert(name, distances.fold(f64::INFINITY, f64::min));
    }
    let (negative, positive): (Vec<usize>, Vec<usize>) =
        (0..fitted.sample.points.len()).partition(|&i| !fitted.sample.positive[i]);
    let points = |rows: Vec<usize>| {
        rows.into_iter()
            .flat_map(|i| fitted.sample.points[i])
            .collect()
    };
    let sticks = &fitted.fit.state().sticks;
    let series: [(&str, Vec<f64>); 5] = [
        ("negative", points(negative)),
        ("positive", points(positive)),
        ("weights", sticks.expected_weights()),
        ("weight_sds", sticks.weight_sd()),
        (
            "dominant",
            dominant.iter().flat_map(Dominant::to_numbers).collect(),
        ),
    ];
    outcome
        .series
        .extend(series.map(|(name, values)| (name.to_owned(), values)));
    Ok(outcome)
}

pub(super) fn report(records: &[Record]) -> Result<Report> {
    let first = shown(records)?;
    let dominant = Dominant::all_from(series(first, "dominant")?);
    let paper = |_: &str, _: &str, method: &str, metric: &str| {
        (method == OURS && metric == "dominant").then_some(3.0)
    };
    let note = "Metrics: `dominant`, the number of components of mean weight above 0.005; `mean_distance_k`, from true mean k to \
                the nearest dominant component's; `mean_distance_max`, the largest from a dominant component's mean to the \
                nearest true one; `angle_error_max`, the largest angle in degrees between the boundaries of these two.";
    let results = summarise(records, paper);
    Ok(Report {
        tables: vec![
            components_table(&dominant),
            overview("All trials", &results, METRICS),
        ],

        figures: vec![figure(first, &dominant)?],
        notes: vec![note.to_owned()],
        results,
    })
}

fn components_table(dominant: &[Dominant]) -> TextTable {
    let pair = |[a, b]: At| format!("({a:.2}, {b:.2})");
    let line = |boundary: &Boundary| {
        let [a, b] = boundary.slope;
        format!("x2 = {:.2} x1 {:+.2}", -a / b, -boundary.intercept / b)
    };
    let row = |component: &Dominant| {
        let (k, distance) = component.nearest();
        let truth = &TRUTH[k];
        vec![
            format!("{:.3} ({:.3})", component.weight, component.weight_sd),
            pair(component.mean),
            pair(truth.mean),
            format!("{distance:.3}"),
            line(&component.classifier),
            line(&Boundary::of(truth)),
        ]
    };
    text_table(
        "Dominant components of trial 0 (true weights 1/3)",
        "weight (sd) | mean | true mean | distance | boundary | true boundary",
        dominant.iter().map(row),
    )
}

fn figure(record: &Record, dominant: &[Dominant]) -> Result<Figure> {
    let points =
        |name: &str| -> Result<Vec<At>> { Ok(series(record, name)?.as_chunks().0.to_vec()) };
    let rows = [
        Layer::new("class -1", colours::BLUE, Shape::Dots(points("negative")?)),
        Layer::new(
            "class 1",
            colours::ORANGE,
            Shape::Triangles(points("positive")?),
        ),
    ];
    let [negative, positive] = rows;
    let mut truth = vec![negative, positive];
    truth.extend(true_components());
    let mut found = true_components();
    let ellipses = dominant.iter().map(|c| ellipse(c.mean, c.covariance));
    let lines = dominant.iter().map(|c| c.classifier.segment(c.mean, 2.2));
    let means = dominant.iter().map(|c| c.mean).collect();
    found.extend([
        Layer::new(
            "component found (2 sd)",
            colours::PURPLE,
            Shape::Curves(ellipses.collect(), 2),
        ),
        Layer::new(
            "its classifier",
            colours::VERMILLION,
            Shape::Curves(lines.collect(), 3),
        ),
        Layer::new("its mean", colours::PURPLE, Shape::Crosses(means)),
    ]);
    let plane = |title: &str, layers| Panel::new(title, ["x1", "x2"], X1, X2, layers);
    let panels = [
        plane("(a) data and truth", truth),
        weights(series(record, "weights")?, series(record, "weight_sds")?),
        plane("(c) truth and dominant components", found),
    ];
    let caption = "Trial 0. (a) Rows with their labels, and the Gaussians and class boundaries they come from. (b) Posterior mean \
                   of each component's weight; bars are one standard deviation. (c) The components of mean weight above 0.005, \
                   each with its own linear classifier, over the truth. The ellipses that are found are wider along x1 because \
                   the prior of a component has the spread of all rows.";
    Ok(picture(
        "components",
        "Three Gaussians and what is found of them",
        caption,
        &panels,
    )?)
}

fn weights(means: &[f64], sds: &[f64]) -> Panel {
    let bars = Bars {
        bars: means
            .iter()
            .enumerate()
            .map(|(h, &w)| [(h + 1) as f64, w])
            .collect(),
        sds: sds.to_vec(),
        width: 0.7,
        shift: 0.0,
    };
    let highest = means
        .iter()
        .zip(sds)
        .map(|(w, sd)| w + sd)
        .fold(0.0, f64::max);
    Panel::new(
        "(b) weights of the components",
        ["component", "weight"],
        (0.0, means.len() as f64 + 1.0),
        (0.0, 1.15 * highest),
        vec![Layer::new(
            "weight and its sd",
            colours::GREEN,
            Shape::Bars(bars),
        )],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three dominant components, each within 0.3 of its own true mean, with classifiers near the true ones.
    #[test]
    fn the_three_components_are_found() {
        for seed in [11, 12, 13] {
            let metrics = run(&Fitted::new(seed).unwrap()).unwrap().metrics;
            assert_eq!(metrics["dominant"], 3.0, "seed {seed}");
            for name in [
                "mean_distance_max",
                "mean_distance_1",
                "mean_distance_2",
                "mean_distance_3",
            ] {
                assert!(
                    metrics[name] <= 0.3,
                    "seed {seed}: {name} = {}",
                    metrics[name]
                );
            }
            assert!(
                metrics["angle_error_max"] < 15.0,
                "seed {seed}: {}",
                metrics["angle_error_max"]
            );
        }
    }

    #[test]
    fn a_component_comes_back_from_its_numbers() {
        let component = Dominant {
            weight: 0.25,
            weight_sd: 0.125,
            mean: [5.0, 0.3],
            covariance: [[2.0, 0.5], [0.5, 1.0]],
            // Turned by a right angle against the true boundary.
            classifier: Boundary {
                slope: [1.0, 0.75],
                intercept: 4.0,
            },
        };
        let back = Dominant::all_from(&component.to_numbers());
        assert_eq!(back.len(), 1);
        assert_eq!(back[0].to_numbers(), component.to_numbers());
        let (nearest, distance) = back[0].nearest();
        assert_eq!(nearest, 2);
        assert!((distance - 0.3).abs() < 1e-12 && (back[0].angle_error() - 90.0).abs() < 1e-9);
    }
}
