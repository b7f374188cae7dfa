//! Figure 3.3: what is believed of the number of components and of the concentration, before and after the data.

use npb_infer::stream;
use npb_priors::dist::Gamma;
use npb_priors::dp::dominant_count_distribution;

use super::fitted::{DOMINANT, DRAWS, Fitted, series, shown};
use npb_kit::npb_report::{Bars, Colour, Layer, Panel, Shape, colours, picture};
use npb_kit::{Figure, Outcome, Record, Report, Result, summarise};

/// Draws of all weights, from the prior and from the posterior.
const N_DRAWS: usize = 20_000;

pub(super) fn run(fitted: &Fitted) -> Result<Outcome> {
    let sticks = &fitted.fit.state().sticks;
    let mut rng = stream(fitted.seed, [DRAWS, 0, 0, 0]);
    let prior = dominant_count_distribution(sticks.truncation(), DOMINANT, N_DRAWS, |weights| {
        sticks.sample_prior_weights(weights, &mut rng);
    });
    let posterior = fitted.fit.dominant_components(DOMINANT, N_DRAWS)?;
    let before = sticks.alpha().prior();
    let (shape, rate) = fitted.fit.concentration();
    let gammas = [
        Gamma::new(shape, rate)?,
        Gamma::new(before.shape, before.rate)?,
    ];
    let [alpha, prior_alpha] = gammas.map(|law| (law.mean(), law.variance().sqrt()));
    let (count, prior_count) = (moments(&posterior), moments(&prior));
    let mut outcome = Outcome::metrics([
        ("dominant", count.0),
        ("dominant_sd", count.1),
        ("probability_of_three", posterior[3]),
        ("alpha", alpha.0),
        ("alpha_sd", alpha.1),
        ("prior/dominant", prior_count.0),
        ("prior/dominant_sd", prior_count.1),
        ("prior/probability_of_three", prior[3]),
        ("prior/alpha", prior_alpha.0),
        ("prior/alpha_sd", prior_alpha.1),
    ]);
    let series: [(&str, Vec<f64>); 4] = [
        ("prior_count", prior),
        ("posterior_count", posterior),
        ("prior_alpha", vec![before.shape, before.rate]),
        ("posterior_alpha", vec![shape, rate]),
    ];
    outcome
        .series
        .extend(series.map(|(name, values)| (name.to_owned(), values)));
    Ok(outcome)
}

/// Mean and standard deviation of a distribution over 0, 1, 2, ...
fn moments(probabilities: &[f64]) -> (f64, f64) {
    let sum = |f: &dyn Fn(f64) -> f64| -> f64 {
        probabilities
            .iter()
            .enumerate()
            .map(|(k, p)| p * f(k as f64))
            .sum()
    };
    let mean = sum(&|k| k);
    (mean, sum(&|k| (k - mean).powi(2)).sqrt())
}

pub(super) fn report(records: &[Record]) -> Result<Report> {
    let note = format!(
        "The number of dominant components is that of weights above {DOMINANT}, by {N_DRAWS} draws of all weights: \
         `npb:iqgme` from the variational posterior, `npb:iqgme/prior` from the prior (alpha drawn first). \
         `dominant` and `alpha` are means, `dominant_sd` and `alpha_sd` standard deviations of these distributions."
    );
    Ok(Report {
        results: summarise(records, |_, _, _, _| None),
        figures: vec![figure(shown(records)?)?],
        notes: vec![note],
        ..Default::default()
    })
}

fn figure(record: &Record) -> Result<Figure> {
    let gamma = |name: &str| -> Result<Gamma> {
        match series(record, name)? {
            &[shape, rate] => Ok(Gamma::new(shape, rate)?),
            _ => Err(format!("{name}: not a shape and a rate").into()),
        }
    };
    let panels = [
        counts(
            series(record, "prior_count")?,
            series(record, "posterior_count")?,
        ),
        concentration(&gamma("prior_alpha")?, &gamma("posterior_alpha")?),
    ];
    let caption = "Trial 0. (a) Shares of draws by the number of weights above 0.005; the truncation is the largest number. \
                   (b) Densities of the concentration; the prior's has no bound at 0.";
    Ok(picture(
        "beliefs",
        "Number of components and concentration",
        caption,
        &panels,
    )?)
}

const PRIOR: (&str, Colour) = ("prior", colours::GREY);
const POSTERIOR: (&str, Colour) = ("posterior", colours::BLUE);

fn layer((name, colour): (&str, Colour), shape: Shape) -> Layer {
    Layer::new(name, colour, shape)
}

fn counts(prior: &[f64], posterior: &[f64]) -> Panel {
    // Nothing has less than one component.
    let bars = |probabilities: &[f64], shift: f64| {
        let bars = probabilities.iter().enumerate().skip(1);
        Shape::Bars(Bars {
            bars: bars.map(|(k, &p)| [k as f64, p]).collect(),
            sds: Vec::new(),
            width: 0.4,
            shift,
        })
    };
    let highest = prior
        .iter()
        .chain(posterior)
        .fold(0.0_f64, |a, &b| a.max(b));
    Panel::new(
        "(a) number of dominant components",
        ["components of weight above 0.005", "probability"],
        (0.0, prior.len() as f64),
        (0.0, 1.1 * highest),
        vec![
            layer(PRIOR, bars(prior, -0.2)),
            layer(POSTERIOR, bars(posterior, 0.2)),
        ],
    )
}

fn concentration(prior: &Gamma, posterior: &Gamma) -> Panel {
    let end = posterior.mean() + 6.0 * posterior.variance().sqrt();
    let curve = |law: &Gamma| -> Vec<[f64; 2]> {
        let x = |i: u32| end * f64::from(i) / 300.0;
        (1..=300)
            .map(|i| [x(i), law.ln_density(x(i)).exp()])
            .collect()
    };
    let (prior, posterior) = (curve(prior), curve(posterior));
    let highest = posterior.iter().map(|p| p[1]).fold(0.0, f64::max);
    Panel::new(
        "(b) concentration",
        ["alpha", "density"],
        (0.0, end),
        (0.0, 1.1 * highest),
        vec![
            layer(PRIOR, Shape::Curves(vec![prior], 2)),
            layer(POSTERIOR, Shape::Curves(vec![posterior], 2)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beliefs_move_towards_three_components() {
        let metrics = run(&Fitted::new(14).unwrap()).unwrap().metrics;
        assert!(metrics["probability_of_three"] > 0.5, "{metrics:?}");
        assert!(metrics["prior/probability_of_three"] < 0.2, "{metrics:?}");
        assert!(
            metrics["alpha_sd"] < 0.2 * metrics["prior/alpha_sd"],
            "{metrics:?}"
        );
    }

    #[test]
    fn moments_are_those_of_the_counts() {
        let (mean, sd) = moments(&[0.0, 0.5, 0.0, 0.5]);
        assert!((mean - 2.0).abs() < 1e-15 && (sd - 1.0).abs() < 1e-15);
    }
}
