//! Figure 3.4: predictions over the plane, and the experts before and after the data.

use npb_data::{Standardiser, metrics};
use npb_infer::stream;
use npb_linalg::Cholesky;
use npb_priors::dist::{Gamma, Normal};

use super::fitted::{Boundary, DRAWS, FRESH, Fitted, X1, X2, series, shown, true_components};
use super::truth::{self, Sample};
use npb_kit::npb_report::{At, Cells, Colour, Layer, Panel, Shape, centres, colours, picture};
use npb_kit::{Figure, Outcome, Record, Report, Result, summarise};

/// Cells of a map, across and up.
const CELLS: (usize, usize) = (60, 40);
/// Rows on which predictions are scored.
const FRESH_ROWS: usize = 2_000;
/// Draws of an expert: for its spread, and how many of them are shown.
const EXPERT_DRAWS: usize = 500;
const SHOWN_DRAWS: usize = 40;
/// Series of one dominant expert each; experts beyond the last colour are not shown.
const EXPERTS: [(&str, Colour); 4] = [
    ("expert 1", colours::GREEN),
    ("expert 2", colours::PURPLE),
    ("expert 3", colours::ORANGE),
    ("expert 4", colours::BLUE),
];

pub(super) fn run(fitted: &Fitted) -> Result<Outcome> {
    let grid = truth::table(&centres(CELLS.0, CELLS.1, X1, X2))?;
    let full = fitted.fit.predict_proba(&grid)?;
    let plug_in = fitted.fit.predict_plug_in(&grid)?;
    let (largest, mean) = differences(&full, &plug_in);
    let fresh = Sample::draw(FRESH_ROWS, fitted.seed, FRESH)?;
    let rows = fresh.table()?;
    let (accuracy, brier) = scores(&fitted.fit.predict_proba(&rows)?, &fresh)?;
    let (plug_accuracy, plug_brier) = scores(&fitted.fit.predict_plug_in(&rows)?, &fresh)?;
    let prior = prior_draws(fitted)?;
    let experts = expert_draws(fitted)?;
    let posterior_spread =
        experts.iter().map(|draws| spread(draws)).sum::<f64>() / experts.len() as f64;
    let mut outcome = Outcome::metrics([
        ("map_difference_max", largest),
        ("map_difference_mean", mean),
        ("map_entropy", entropy(&full)),
        ("accuracy", accuracy),
        ("brier", brier),
        ("expert_spread", posterior_spread),
        ("plug-in/map_entropy", entropy(&plug_in)),
        ("plug-in/accuracy", plug_accuracy),
        ("plug-in/brier", plug_brier),
        ("prior/expert_spread", spread(&prior)),
    ]);
    let mut keep = |name: &str, values: Vec<f64>| outcome.series.insert(name.to_owned(), values);
    keep("full", full);
    keep("plug_in", plug_in);
    keep("prior", numbers(&prior));
    for ((name, _), draws) in EXPERTS.iter().zip(&experts) {
        keep(name, numbers(draws));
    }
    Ok(outcome)
}

/// The largest and the mean absolute difference.
fn differences(a: &[f64], b: &[f64]) -> (f64, f64) {
    let all: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect();
    let largest = all.iter().fold(0.0_f64, |a, &b| a.max(b));
    (largest, all.iter().sum::<f64>() / all.len() as f64)
}

/// Mean entropy in bits: 1 where nothing is known, 0 where all is certain.
fn entropy(probabilities: &[f64]) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    let of = |&p: &f64| term(p) + term(1.0 - p);
    probabilities.iter().map(of).sum::<f64>() / probabilities.len() as f64
}

/// Accuracy and Brier score.
fn scores(probabilities: &[f64], sample: &Sample) -> Result<(f64, f64)> {
    let predicted: Vec<bool> = probabilities.iter().map(|&p| p > 0.5).collect();
    Ok((
        metrics::accuracy(&predicted, &sample.positive)?,
        metrics::brier(probabilities, &sample.positive)?,
    ))
}

/// Class boundaries of experts drawn from the prior that all experts share, its own parameters drawn from their posterior.
fn prior_draws(fitted: &Fitted) -> Result<Vec<Boundary>> {
    let prior = &fitted.fit.state().expert_prior;
    let mut rng = stream(fitted.seed, [DRAWS, 1, 0, 0]);
    let mut draw = |p: usize| -> Result<f64> {
        let precision = Gamma::new(prior.shape, prior.rate[p])?.sample(&mut rng);
        let variance = (1.0 + 1.0 / prior.strength) / precision;
        Ok(Normal::new(prior.mean[p], variance)?.sample(&mut rng))
    };
    let standardiser = Standardiser::fit(&fitted.table);
    let boundary = |_| Ok(in_units(&[draw(0)?, draw(1)?, draw(2)?], &standardiser));
    (0..EXPERT_DRAWS).map(boundary).collect()
}

/// Class boundaries drawn from the posterior of each dominant component's expert.
fn expert_draws(fitted: &Fitted) -> Result<Vec<Vec<Boundary>>> {
    let standardiser = Standardiser::fit(&fitted.table);
    let draws = |h: usize| {
        let expert = &fitted.fit.state().experts[h];
        let factor = Cholesky::new(expert.covariance.as_ref())?;
        let mut rng = stream(fitted.seed, [DRAWS, 2, h as u64, 0]);
        let mut draw = || {
            let mut w = expert.mean.clone();
            factor.sample_moment(&mut w, &mut rng);
            in_units(&w, &standardiser)
        };
        Ok((0..EXPERT_DRAWS).map(|_| draw()).collect())
    };
    fitted.dominant().into_iter().map(draws).collect()
}

/// The boundary of an expert (two slopes, intercept) that is given in the standardised units of a fit.
fn in_units(w: &[f64], standardiser: &Standardiser) -> Boundary {
    let boundary = Boundary {
        slope: [w[0], w[1]],
        intercept: w[2],
    };
    boundary.in_units(standardiser.mean(), standardiser.sd())
}

/// How far directions differ: 0 when all lines are parallel, 1 when no direction is preferred (the circular variance of
/// twice the angle).
fn spread(boundaries: &[Boundary]) -> f64 {
    let sum = |f: &dyn Fn(f64) -> f64| boundaries.iter().map(|b| f(2.0 * b.angle())).sum::<f64>();
    1.0 - sum(&f64::cos).hypot(sum(&f64::sin)) / boundaries.len() as f64
}

/// The draws that are shown, as numbers.
fn numbers(boundaries: &[Boundary]) -> Vec<f64> {
    let of = |b: &Boundary| [b.slope[0], b.slope[1], b.intercept];
    boundaries.iter().take(SHOWN_DRAWS).flat_map(of).collect()
}

pub(super) fn report(records: &[Record]) -> Result<Report> {
    let note = format!(
        "`npb:iqgme` predicts by the full posterior, `npb:iqgme/plug-in` by posterior means. `map_difference_max` and \
         `map_difference_mean` compare the two over the map's {} cells; `map_entropy` is the mean entropy in bits over \
         the map; accuracy and Brier score are on {FRESH_ROWS} fresh rows. `expert_spread` says how much the directions of \
         class boundaries differ (0 parallel, 1 none preferred): `npb:iqgme/prior` for the prior that the experts share, \
         `npb:iqgme` for the mean over the dominant experts' posteriors. Predictions average over the runs of a fit, experts \
         are those of the run with the highest bound.",
        CELLS.0 * CELLS.1
    );
    Ok(Report {
        results: summarise(records, |_, _, _, _| None),
        figures: vec![figure(shown(records)?)?],
        notes: vec![note],
        ..Default::default()
    })
}

fn figure(record: &Record) -> Result<Figure> {
    let panels = [
        map("(a) full posterior", series(record, "full")?),
        map("(b) posterior means", series(record, "plug_in")?),
        plane(
            "(c) prior that the experts share",
            vec![lines(
                "draws from the prior",
                colours::GREY,
                series(record, "prior")?,
            )],
        ),
        plane(
            "(d) posteriors of the dominant experts",
            expert_lines(record)?,
        ),
    ];
    let caption = "Trial 0. (a), (b) Probability of class 1. (c) Class boundaries of 40 experts drawn from the prior that all \
                   experts share, as it is learned; some pass outside. (d) 40 draws from the posterior of each dominant \
                   component's expert: near its Gaussian each bundle is narrow.";
    Ok(picture(
        "maps",
        "Predictions and experts",
        caption,
        &panels,
    )?)
}

fn map(title: &str, probabilities: &[f64]) -> Panel {
    let cells = Cells::probabilities(CELLS.0, probabilities.to_vec());
    let map = Layer::new(
        "probability of class 1, from 0 to 1",
        colours::BLACK,
        Shape::Cells(cells),
    );
    plane(title, vec![map])
}

/// A panel of the plane, with the truth over `layers`.
fn plane(title: &str, mut layers: Vec<Layer>) -> Panel {
    layers.extend(true_components());
    Panel::new(title, ["x1", "x2"], X1, X2, layers)
}

fn expert_lines(record: &Record) -> Result<Vec<Layer>> {
    let there = EXPERTS
        .iter()
        .filter(|(name, _)| record.outcome.series.contains_key(*name));
    there
        .map(|(name, colour)| {
            Ok(lines(
                &format!("draws of {name}"),
                *colour,
                series(record, name)?,
            ))
        })
        .collect()
}

fn lines(name: &str, colour: Colour, numbers: &[f64]) -> Layer {
    // Long enough to cross the panel from anywhere in it.
    let centre = [0.5 * (X1.0 + X1.1), 0.5 * (X2.0 + X2.1)];
    let half = (X1.1 - X1.0) + (X2.1 - X2.0);
    let line = |&[a, b, intercept]: &[f64; 3]| -> Vec<At> {
        let boundary = Boundary {
            slope: [a, b],
            intercept,
        };
        boundary.segment(centre, half)
    };
    Layer::new(
        name,
        colour,
        Shape::Curves(numbers.as_chunks().0.iter().map(line).collect(), 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_an_expert_lie_around_its_classifier() {
        let fitted = Fitted::new(15).unwrap();
        let standardiser = Standardiser::fit(&fitted.table);
        let components = fitted.fit.components();
        for h in fitted.dominant() {
            let from_state = in_units(&fitted.fit.state().experts[h].mean, &standardiser);
            let summary = components[h].classifier.as_ref().unwrap();
            for j in 0..2 {
                assert!((from_state.slope[j] - summary.coefficients[j]).abs() < 1e-9);
            }
            assert!((from_state.intercept - summary.intercept).abs() < 1e-9);
        }
        let metrics = run(&fitted).unwrap().metrics;
        assert!(
            metrics["expert_spread"] < 0.5 * metrics["prior/expert_spread"],
            "{metrics:?}"
        );
        assert!(
            metrics["accuracy"] > 0.9 && metrics["plug-in/accuracy"] > 0.9,
            "{metrics:?}"
        );
    }

    #[test]
    fn maps_are_compared_cell_by_cell() {
        assert_eq!(differences(&[0.5, 1.0], &[0.25, 1.0]), (0.25, 0.125));
        assert_eq!(entropy(&[0.5, 0.0, 1.0, 0.5]), 0.5);
    }

    #[test]
    fn parallel_lines_have_no_spread() {
        let line = |a: f64, b: f64, intercept: f64| Boundary {
            slope: [a, b],
            intercept,
        };
        // The same direction with either sign; then two at right angles.
        assert!(spread(&[line(1.0, 2.0, 0.0), line(-1.0, -2.0, 3.0)]).abs() < 1e-12);
        assert!((spread(&[line(1.0, 0.0, 0.0), line(0.0, 1.0, 0.0)]) - 1.0).abs() < 1e-12);
    }
}
