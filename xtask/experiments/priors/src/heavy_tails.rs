//! Gaussian, Student-t and Laplace laws: their densities, and draws of them as scale mixtures of Gaussians.

use npb_infer::stream;
use npb_priors::dist::{Gamma, Normal};
use npb_priors::special::{beta_regularized, ln_beta};
use rand::Rng;

use npb_kit::{
    Context, Layer, Outcome, Panel, Point, Record, Report, Result, ResultRow, Trial, lines,
    summarise,
};

const VARIANCE: f64 = 2.0;
const DEGREES: f64 = 0.5;
const LAPLACE_SCALE: f64 = 2.0;
/// What lies beyond this is tail.
const FAR: f64 = 6.0;
/// The histogram: `BINS` bins over ±`REACH`.
const REACH: f64 = 10.0;
const BINS: usize = 40;

#[derive(Clone, Copy)]
enum Law {
    Normal,
    StudentT,
    Laplace,
}

const LAWS: [(&str, Law); 3] = [
    ("N(0, 2)", Law::Normal),
    ("t, 0.5 degrees of freedom", Law::StudentT),
    ("Laplace(0, 2)", Law::Laplace),
];

impl Law {
    fn name(self) -> &'static str {
        match self {
            Law::Normal => "normal",
            Law::StudentT => "student-t",
            Law::Laplace => "laplace",
        }
    }

    fn ln_density(self, x: f64) -> f64 {
        match self {
            Law::Normal => -0.5 * x * x / VARIANCE - 0.5 * (std::f64::consts::TAU * VARIANCE).ln(),
            Law::StudentT => {
                let ln_kernel = -0.5 * (DEGREES + 1.0) * (x * x / DEGREES).ln_1p();
                ln_kernel - 0.5 * DEGREES.ln() - ln_beta(0.5 * DEGREES, 0.5)
            }
            Law::Laplace => -x.abs() / LAPLACE_SCALE - (2.0 * LAPLACE_SCALE).ln(),
        }
    }

    /// P(|X| > x), x >= 0.
    fn two_tails(self, x: f64) -> Result<f64> {
        Ok(match self {
            Law::Normal => 2.0 * Normal::new(0.0, VARIANCE)?.cdf(-x),
            Law::StudentT => beta_regularized(0.5 * DEGREES, 0.5, DEGREES / (DEGREES + x * x)),
            Law::Laplace => (-x / LAPLACE_SCALE).exp(),
        })
    }

    /// The variance of the Gaussian that a draw comes from: fixed, inverse gamma, or exponential.
    fn draw_ln_variance(self, rng: &mut impl Rng) -> Result<f64> {
        Ok(match self {
            Law::Normal => VARIANCE.ln(),
            Law::StudentT => -Gamma::new(0.5 * DEGREES, 0.5 * DEGREES)?.sample_ln(rng),
            // Exponential of rate 1 / (2 scale^2).
            Law::Laplace => Gamma::new(1.0, 0.5 / (LAPLACE_SCALE * LAPLACE_SCALE))?.sample_ln(rng),
        })
    }
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    let (trials, draws) = context
        .scale
        .pick((2, 2_000), (10, 100_000), (20, 1_000_000));
    let trial = |(law, trial): (Law, u64)| Trial {
        dataset: "simulated".to_owned(),
        setting: format!("law={}", law.name()),
        method: "npb:scale-mixture".to_owned(),
        trial,
        config: format!("draws={draws}"),
        work: law,
    };
    let of_law = |(_, law)| (0..trials).map(move |t| (law, t));
    let all: Vec<Trial<Law>> = LAWS.into_iter().flat_map(of_law).map(trial).collect();
    let records = context.run_trials(&all, |trial, seed| draw(trial.work, draws, seed))?;
    let mut results = summarise(&records, |_, _, _, _| None);
    for (_, law) in LAWS {
        results.push(ResultRow::single(
            [
                "simulated",
                &format!("law={}", law.name()),
                "closed-form",
                "tail",
            ],
            law.two_tails(FAR)?,
        ));
    }
    let caption = "Exact densities, and histograms of draws of the scale mixtures over them. The t law grows the flattest \
                   penalty: a quarter of its mass lies beyond 6.";
    let figure = lines(
        "heavy-tails",
        "Two priors that favour sparsity",
        caption,
        &panels(&records, draws),
    )?;
    let notes = vec![
        format!("`tail` is the share of draws beyond {FAR} in absolute value; `closed-form` its exact probability."),
        "`cdf_gap` is the largest distance between the distribution functions of |x|, drawn and exact.".to_owned(),
    ];
    Ok(Report {
        results,
        figures: vec![figure],
        notes,
        ..Default::default()
    })
}

/// Draws from the scale mixture; shares per bin, share in the tails, and the distance to the exact law.
fn draw(law: Law, draws: usize, seed: u64) -> Result<Outcome> {
    let mut rng = stream(seed, [0, 0, 0, law as u64]);
    let standard = Normal::new(0.0, 1.0)?;
    let mut bins = vec![0.0; BINS];
    let mut sizes = Vec::with_capacity(draws);
    for _ in 0..draws {
        let x = standard.sample(&mut rng) * (0.5 * law.draw_ln_variance(&mut rng)?).exp();
        if let Some(bin) =
            bins.get_mut(((x + REACH) / (2.0 * REACH) * BINS as f64).floor() as usize)
        {
            *bin += f64::from(u8::from(x >= -REACH)) / draws as f64;
        }
        sizes.push(x.abs());
    }
    sizes.sort_by(f64::total_cmp);
    let n = draws as f64;
    let mut gap: f64 = 0.0;
    for (i, &x) in sizes.iter().enumerate() {
        let cdf = 1.0 - law.two_tails(x)?;
        gap = gap
            .max((cdf - i as f64 / n).abs())
            .max((cdf - (i + 1) as f64 / n).abs());
    }
    let tail = (draws - sizes.partition_point(|&x| x <= FAR)) as f64 / n;
    let mut outcome = Outcome::metrics([("tail", tail), ("cdf_gap", gap)]);
    outcome.series.insert("shares".to_owned(), bins);
    Ok(outcome)
}

/// Densities, and minus their logarithms.
fn panels(records: &[Record], draws: usize) -> [Panel; 2] {
    let width = 2.0 * REACH / BINS as f64;
    let curve = |name: &str, y: &dyn Fn(f64) -> f64| {
        let grid = (0..=200).map(|i| REACH * (f64::from(i) / 100.0 - 1.0));
        Layer::line(name, grid.map(|x| Point::at(x, y(x))))
    };
    let drawn = |law: Law, y: fn(f64) -> f64| {
        let of_law: Vec<&Record> = records
            .iter()
            .filter(|r| r.key.setting.ends_with(law.name()))
            .collect();
        let share = |bin: usize| {
            of_law
                .iter()
                .map(|r| r.outcome.series["shares"][bin])
                .sum::<f64>()
                / of_law.len() as f64
        };
        let centre = |bin: usize| -REACH + (bin as f64 + 0.5) * width;
        // Bins with few draws say nothing on a logarithmic scale.
        let enough = |bin: &usize| share(*bin) * (draws * of_law.len()) as f64 >= 20.0;
        let at = |bin: usize| Point::at(centre(bin), y(share(bin) / width));
        let points = (0..BINS).filter(enough).map(at);
        Layer::line(format!("drawn, {}", law.name()), points)
    };
    let panel = |title: &str, y_label: &str, y: fn(f64) -> f64| {
        let curves = LAWS.map(|(name, law)| curve(name, &|x| y(law.ln_density(x).exp())));
        let all = curves.into_iter().chain(LAWS.map(|(_, law)| drawn(law, y)));
        Panel::of_lines(title, ["x", y_label], all)
    };
    [
        panel("densities", "P(x)", |p| p),
        panel("penalties", "-ln P(x)", |p| -p.ln()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_are_the_derivatives_of_the_tails() {
        for (_, law) in LAWS {
            for x in [0.3, 1.0, 4.0, 9.0] {
                let h = 1e-5;
                let slope =
                    (law.two_tails(x - h).unwrap() - law.two_tails(x + h).unwrap()) / (2.0 * h);
                let density = 2.0 * law.ln_density(x).exp();
                assert!(
                    (slope / density - 1.0).abs() < 1e-6,
                    "{} at {x}",
                    law.name()
                );
            }
        }
    }

    #[test]
    fn scale_mixtures_have_the_stated_laws() {
        for (_, law) in LAWS {
            let outcome = draw(law, 20_000, 7).unwrap();
            // Kolmogorov's 1e-4 quantile is 2.23 / sqrt(n).
            assert!(
                outcome.metrics["cdf_gap"] < 2.23 / 20_000f64.sqrt(),
                "{}",
                law.name()
            );
        }
        // The draws of one law against another: the test can fail.
        let sizes = draw(Law::Laplace, 20_000, 7).unwrap();
        assert!((sizes.metrics["tail"] - Law::Normal.two_tails(FAR).unwrap()).abs() > 0.03);
    }
}
