//! Simulation-based calibration as a report: ranks, coverage against binomial error.

use npb_infer::testing::{Calibration, CalibrationCheck, CalibrationReport, JointModel};

use super::{Findings, Plan};
use crate::{Figure, Report, Result, ResultRow, short, text_table};
use npb_report::{Bars, Layer, Panel, Shape, colours, picture};

/// Levels of the intervals whose coverage is reported.
const LEVELS: [f64; 2] = [0.5, 0.9];
/// Bars of a histogram of ranks, at most.
const BARS: usize = 20;

/// The design of a calibration: data sets, draws, burn-in and thinning at the smoke, quick and paper scale.
pub fn design(plan: &Plan, scales: [(usize, usize, usize, usize); 3]) -> Calibration {
    let (replications, draws, burn_in, thin) = plan.scale.pick(scales[0], scales[1], scales[2]);
    Calibration {
        seed: plan.seed,
        replications,
        draws,
        burn_in,
        thin,
        false_alarm: 0.001,
    }
}

/// Runs a calibration; `setting` and `method` are those of `results.csv`.
pub fn calibrate<M: JointModel>(
    model: &M,
    test: &Calibration,
    setting: &str,
    method: &str,
) -> Result<Findings> {
    let found = test.run(model);
    let key = format!("{setting};quantity");
    let mut results = Vec::new();
    let mut rows = Vec::new();
    for (index, check) in found.checks.iter().enumerate() {
        let mut line = vec![check.name.clone()];
        let row = |metric: &str, value: f64| {
            let quantity = (&*key, &*check.name);
            ResultRow::simulated(quantity, [method, metric], value, test.replications)
        };
        for level in LEVELS {
            let (nominal, share) = found.coverage(index, level);
            let error = (nominal * (1.0 - nominal) / test.replications as f64).sqrt();
            let z = (share - nominal) / error;
            line.extend([nominal, share, error].map(short));
            line.push(format!("{z:+.1}"));
            results.push(row(&format!("coverage_{:.0}", 100.0 * level), share));
        }
        line.push(short(check.p));
        results.push(row("p", check.p));
        rows.push(line);
    }
    let table = text_table(
        format!(
            "Central posterior intervals over {} simulated data sets",
            test.replications
        ),
        "quantity | nominal | found | standard error | z | nominal | found | standard error | z | p of uniform ranks",
        rows,
    );
    let notes = vec![format!(
        "{} data sets are simulated from draws of the prior; the chain starts at another draw, {} sweeps are dropped and {} draws kept, {} \
         sweeps apart. The rank of the true value among the draws is uniform for a right sampler (Talts and others, arXiv:1804.06788). \
         Taken together, the quantities give p = {}; a right sampler gives less than {} at that share of all seeds.",
        test.replications,
        test.burn_in,
        test.draws,
        test.thin,
        short(found.p_value()),
        test.false_alarm,
    )];
    Ok(Findings {
        passed: found.passed(),
        report: Report {
            figures: vec![figure(&found, test)?],
            results,
            tables: vec![table],
            notes,
        },
    })
}

/// For every quantity a histogram of ranks and the difference of their distribution from the uniform one, with the exact band.
fn figure(found: &CalibrationReport, test: &Calibration) -> Result<Figure> {
    let panels: Vec<Panel> = found
        .checks
        .iter()
        .flat_map(|check| [histogram(check, test), difference(check, found)])
        .collect();
    Ok(picture(
        "ranks",
        "Ranks of true values among posterior draws",
        "Left: how often the rank falls in each bin, and the number expected. Right: the distribution of ranks minus the uniform one; the dashed \
         lines hold a right sampler's curve everywhere at the stated rate.",
        &panels,
    )?)
}

fn histogram(check: &CalibrationCheck, test: &Calibration) -> Panel {
    let positions = test.draws + 1;
    let bars = (1..=BARS.min(positions))
        .rev()
        .find(|n| positions.is_multiple_of(*n))
        .unwrap_or(1);
    let mut counts = vec![0.0; bars];
    for rank in &check.ranks {
        counts[rank * bars / positions] += 1.0;
    }
    let expected = check.ranks.len() as f64 / bars as f64;
    let centre = |bar: usize| (bar as f64 + 0.5) / bars as f64;
    let highest = counts.iter().fold(expected, |a: f64, &b| a.max(b));
    Panel::new(
        check.name.clone(),
        ["rank / draws", "data sets"],
        (0.0, 1.0),
        (0.0, 1.15 * highest),
        vec![
            Layer::new(
                "ranks",
                colours::BLUE,
                Shape::Bars(Bars {
                    bars: counts
                        .iter()
                        .enumerate()
                        .map(|(bar, &n)| [centre(bar), n])
                        .collect(),
                    sds: Vec::new(),
                    width: 0.9 / bars as f64,
                    shift: 0.0,
                }),
            ),
            Layer::new(
                "expected",
                colours::BLACK,
                Shape::Dashed(vec![vec![[0.0, expected], [1.0, expected]]]),
            ),
        ],
    )
}

fn difference(check: &CalibrationCheck, found: &CalibrationReport) -> Panel {
    let (n, positions) = (check.ranks.len() as f64, (found.draws + 1) as f64);
    let mut counts = vec![0usize; found.draws + 1];
    check.ranks.iter().for_each(|&rank| counts[rank] += 1);
    let mut below = 0;
    let mut curve = vec![[0.0, 0.0]];
    for k in 1..=found.draws {
        below += counts[k - 1];
        let x = k as f64 / positions;
        curve.push([x, below as f64 / n - x]);
    }
    curve.push([1.0, 0.0]);
    let edge = |of: fn(&(usize, usize)) -> usize| -> Vec<[f64; 2]> {
        let band = found.band.iter().enumerate();
        band.map(|(k, limits)| {
            let x = (k + 1) as f64 / positions;
            [x, of(limits) as f64 / n - x]
        })
        .collect()
    };
    let (low, high) = (edge(|b| b.0), edge(|b| b.1));
    let all = curve.iter().chain(&low).chain(&high);
    let extent = all.fold(0.0f64, |m, at| m.max(at[1].abs())) * 1.15;
    Panel::new(
        format!("{}: distribution minus uniform", check.name),
        ["rank / draws", "difference"],
        (0.0, 1.0),
        (-extent, extent),
        vec![
            Layer::new(
                "distribution of ranks minus uniform",
                colours::VERMILLION,
                Shape::Curves(vec![curve], 2),
            ),
            Layer::new("band", colours::GREY, Shape::Dashed(vec![low, high])),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_infer::Xoshiro256PlusPlus;
    use rand::RngExt;

    /// A probability with one trial; the broken twin ignores its outcome.
    struct Coin {
        ignore_data: bool,
    }

    impl JointModel for Coin {
        type State = f64;
        type Data = bool;
        fn names(&self) -> Vec<String> {
            vec!["success probability".into()]
        }
        fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
            rng.random()
        }
        fn simulate(&self, p: &f64, rng: &mut Xoshiro256PlusPlus) -> bool {
            rng.random::<f64>() < *p
        }
        fn sweep(&self, p: &mut f64, success: &bool, rng: &mut Xoshiro256PlusPlus) {
            let (a, b): (f64, f64) = (rng.random(), rng.random());
            *p = if *success || self.ignore_data {
                a.max(b)
            } else {
                a.min(b)
            };
        }
        fn summary(&self, p: &f64, _: &bool) -> Vec<f64> {
            vec![*p]
        }
    }

    #[test]
    fn a_right_sampler_passes_and_a_broken_one_does_not() {
        let test = Calibration {
            seed: 3,
            replications: 300,
            draws: 19,
            burn_in: 1,
            thin: 1,
            false_alarm: 0.001,
        };
        let run =
            |ignore_data| calibrate(&Coin { ignore_data }, &test, "side=1", "npb:coin").unwrap();
        let right = run(false);
        assert!(right.passed && !run(true).passed);
        let row = &right.report.results[1];
        assert_eq!(
            (row.setting.as_str(), row.metric.as_str()),
            ("side=1;quantity=success_probability", "coverage_90")
        );
        assert!((row.mean - 0.9).abs() < 0.06);
        let figure = &right.report.figures[0];
        assert!(figure.svg.contains("success probability") && figure.svg.contains("expected"));
        let counted: f64 = figure
            .rows
            .iter()
            .filter(|r| r[1] == "ranks")
            .map(|r| r[4].parse::<f64>().unwrap())
            .sum();
        assert_eq!(counted, 300.0);
    }
}
