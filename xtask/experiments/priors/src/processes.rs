//! How many clusters a Dirichlet process opens, and how many columns an Indian buffet process uses.

use npb_infer::stream;
use npb_priors::dp::{cluster_count_distribution, cluster_count_moments, sample_urn};
use npb_priors::ibp::{column_counts, harmonic, sample_buffet};
use npb_priors::special::ln_gamma;

use npb_kit::{
    Context, Layer, Outcome, Panel, Point, Record, Report, Result, ResultRow, Trial, lines,
    summarise,
};

#[derive(Clone, Copy, PartialEq)]
enum Process {
    Dirichlet,
    Buffet,
}

const PROCESSES_RUN: [(Process, &str, [f64; 3]); 2] = [
    (Process::Dirichlet, "dirichlet", [0.5, 2.0, 5.0]),
    (Process::Buffet, "buffet", [0.5, 2.0, 5.0]),
];
const ROWS: [usize; 5] = [10, 30, 100, 300, 1000];
/// The distributions shown are at this number of rows and the middle concentration.
const SHOWN_ROWS: usize = 100;
const SHOWN_ALPHA: f64 = 2.0;
/// Counts from here on share the last place of a histogram.
const MOST: usize = 60;

/// One setting of one process.
#[derive(Clone, Copy)]
struct Case {
    process: Process,
    name: &'static str,
    alpha: f64,
    rows: usize,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let of = |(process, name, alphas): (Process, &'static str, [f64; 3])| {
            alphas.into_iter().flat_map(move |alpha| {
                ROWS.map(|rows| Self {
                    process,
                    name,
                    alpha,
                    rows,
                })
            })
        };
        PROCESSES_RUN.into_iter().flat_map(of)
    }

    fn setting(&self) -> String {
        format!(
            "process={};alpha={};rows={}",
            self.name, self.alpha, self.rows
        )
    }

    fn is_shown(&self) -> bool {
        self.rows == SHOWN_ROWS && self.alpha == SHOWN_ALPHA
    }

    /// Exact mean and standard deviation of the count.
    fn moments(&self) -> (f64, f64) {
        match self.process {
            Process::Dirichlet => {
                let (mean, variance) = cluster_count_moments(self.rows, self.alpha);
                (mean, variance.sqrt())
            }
            Process::Buffet => {
                let mean = self.alpha * harmonic(self.rows);
                (mean, mean.sqrt())
            }
        }
    }

    /// Exact probabilities of the counts 0..MOST.
    fn distribution(&self) -> Vec<f64> {
        match self.process {
            Process::Dirichlet => {
                let mut p = cluster_count_distribution(self.rows, self.alpha);
                p.resize(MOST, 0.0);
                p
            }
            Process::Buffet => {
                let mean = self.moments().0;
                let ln_p = |k: usize| k as f64 * mean.ln() - mean - ln_gamma(k as f64 + 1.0);
                (0..MOST).map(|k| ln_p(k).exp()).collect()
            }
        }
    }

    /// Draws the count `draws` times.
    fn draw(&self, draws: usize, seed: u64) -> Outcome {
        let mut rng = stream(
            seed,
            [
                self.process as u64,
                self.alpha.to_bits(),
                self.rows as u64,
                0,
            ],
        );
        let mut shares = vec![0.0; MOST + 1];
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let count = match self.process {
                Process::Dirichlet => sample_urn(self.rows, self.alpha, &mut rng)
                    .iter()
                    .max()
                    .map_or(0, |m| m + 1),
                Process::Buffet => {
                    column_counts(&sample_buffet(self.rows, self.alpha, &mut rng)).len()
                }
            };
            shares[count.min(MOST)] += 1.0 / draws as f64;
            sum += count as f64;
            squares += (count * count) as f64;
        }
        let mean = sum / draws as f64;
        let sd = (squares / draws as f64 - mean * mean).max(0.0).sqrt();
        let mut outcome = Outcome::metrics([("count", mean), ("count_sd", sd)]);
        if self.is_shown() {
            outcome.series.insert("shares".to_owned(), shares);
        }
        outcome
    }
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    let (trials, draws) = context.scale.pick((2, 20), (5, 2_000), (10, 10_000));
    let cases: Vec<Case> = Case::all().collect();
    let trial = |(case, trial): (Case, u64)| Trial {
        dataset: "simulated".to_owned(),
        setting: case.setting(),
        method: "npb:urn".to_owned(),
        trial,
        config: format!("draws={draws}"),
        work: case,
    };
    let of_case = |case| (0..trials).map(move |t| (case, t));
    let all: Vec<Trial<Case>> = Case::all().flat_map(of_case).map(trial).collect();
    let records = context.run_trials(&all, |trial, seed| Ok(trial.work.draw(draws, seed)))?;
    let mut results = summarise(&records, |_, _, _, _| None);
    for case in &cases {
        let (mean, sd) = case.moments();
        for (metric, value) in [("count", mean), ("count_sd", sd)] {
            results.push(ResultRow::single(
                ["simulated", &case.setting(), "closed-form", metric],
                value,
            ));
        }
    }
    let growth = lines(
        "growth",
        "Clusters and columns grow with the logarithm of the rows",
        "Lines: exact means and standard deviations. Points: means of draws.",
        &PROCESSES_RUN.map(|(process, name, _)| growth_panel(process, name, &cases, &results)),
    )?;
    let distributions = lines(
        "distributions",
        "The counts at 100 rows and alpha = 2",
        "Lines: exact probabilities (Antoniak's, and Poisson of mean alpha H_N). Points: shares of draws.",
        &PROCESSES_RUN
            .map(|(process, name, _)| distribution_panel(process, name, &cases, &records)),
    )?;
    let notes = vec!["`count` is the mean number of clusters (dirichlet) or of used columns (buffet), `count_sd` its \
                      standard deviation over draws; `closed-form` rows are exact."
        .to_owned()];
    Ok(Report {
        results,
        figures: vec![growth, distributions],
        notes,
        ..Default::default()
    })
}

fn growth_panel(process: Process, name: &str, cases: &[Case], results: &[ResultRow]) -> Panel {
    let of_process: Vec<&Case> = cases
        .iter()
        .filter(|case| case.process == process)
        .collect();
    let mut series = Vec::new();
    for of_alpha in of_process.chunk_by(|a, b| a.alpha == b.alpha) {
        let alpha = of_alpha[0].alpha;
        let x = |case: &Case| (case.rows as f64).log10();
        let exact = |case: &&Case| {
            let (mean, sd) = case.moments();
            Point {
                x: x(case),
                y: mean,
                sd: Some(sd),
            }
        };
        series.push(Layer::line(
            format!("exact, alpha = {alpha}"),
            of_alpha.iter().map(exact),
        ));
        let drawn = |case: &&Case| {
            let row = results.iter().find(|row| {
                row.setting == case.setting() && row.method == "npb:urn" && row.metric == "count"
            })?;
            Some(Point::at(x(case), row.mean))
        };
        series.push(Layer::line(
            format!("drawn, alpha = {alpha}"),
            of_alpha.iter().filter_map(drawn),
        ));
    }
    Panel::of_lines(name, ["log10 of the rows", "count"], series)
}

fn distribution_panel(process: Process, name: &str, cases: &[Case], records: &[Record]) -> Panel {
    let shown: Vec<&Case> = cases
        .iter()
        .filter(|case| case.process == process && case.is_shown())
        .collect();
    let mut series = Vec::new();
    for case in shown {
        let exact = case.distribution();
        let of_case: Vec<&Record> = records
            .iter()
            .filter(|r| r.key.setting == case.setting())
            .collect();
        let share = |k: usize| {
            of_case
                .iter()
                .map(|r| r.outcome.series["shares"][k])
                .sum::<f64>()
                / of_case.len() as f64
        };
        let last = exact.iter().rposition(|&p| p > 1e-4).unwrap_or(0);
        let point = |k: usize, y: f64| Point::at(k as f64, y);
        let bars = 0..=last;
        series.push(Layer::line(
            "exact",
            bars.clone().map(|k| point(k, exact[k])),
        ));
        series.push(Layer::line("drawn", bars.map(|k| point(k, share(k)))));
    }
    Panel::of_lines(name, ["count", "probability"], series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_the_stated_moments() {
        for case in Case::all().filter(Case::is_shown) {
            let p = case.distribution();
            let mean: f64 = p.iter().enumerate().map(|(k, p)| k as f64 * p).sum();
            let squares: f64 = p.iter().enumerate().map(|(k, p)| (k * k) as f64 * p).sum();
            let (exact, sd) = case.moments();
            assert!(
                (mean - exact).abs() < 1e-9 && ((squares - mean * mean).sqrt() - sd).abs() < 1e-9,
                "{}",
                case.setting()
            );
        }
        assert_eq!(Case::all().filter(Case::is_shown).count(), 2);
    }

    #[test]
    fn draws_agree_with_the_closed_form() {
        for case in Case::all().filter(|case| case.rows <= 100) {
            let n = 2_000;
            let outcome = case.draw(n, 3);
            let (mean, sd) = case.moments();
            let z = (outcome.metrics["count"] - mean) / (sd / (n as f64).sqrt());
            assert!(z.abs() < 4.5, "{}: {z}", case.setting());
        }
    }
}
