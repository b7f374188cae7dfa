//! Figure 3: what a Dirichlet-enhanced prior looks like.

use npb_priors::dist::Normal;
use npb_priors::dp::{cluster_count_moments, sample_urn};

use super::protocol::mean;
use npb_kit::tables::digits;
use npb_kit::{
    Context, Layer, Outcome, Panel, Point, Report, Result, TextTable, Trial, lines, summarise,
    text_table,
};

const TAUS: [f64; 2] = [10.0, 10_000.0];
const BINS: usize = 80;
/// Bins reach from -4 to 4.
const REACH: f64 = 4.0;

pub(super) fn fig_3(context: &Context<'_>) -> Result<Report> {
    let (n, repeats) = context.scale.smoke_or((2_000, 2), (100_000, 10));
    let mut trials = Vec::new();
    for tau in [None, Some(TAUS[0]), Some(TAUS[1])] {
        let name = tau.map_or("inf".to_owned(), |tau| tau.to_string());
        let place = ["simulated", &format!("n={n};tau={name}"), "polya-urn"];
        trials.extend(Trial::runs(repeats, place, "", tau));
    }
    let records = context.run_trials(&trials, |trial, seed| draws(n, trial.work, seed))?;
    let results = summarise(&records, |_, _, _, _| None);
    let panel = |tau: &str| {
        let setting = format!("n={n};tau={tau}");
        let first = records
            .iter()
            .find(|r| r.key.setting == setting && r.key.trial == 0);
        let counts = first
            .and_then(|r| r.outcome.series.get("histogram"))
            .cloned()
            .unwrap_or_default();
        let width = 2.0 * REACH / BINS as f64;
        let point = |(k, count): (usize, f64)| Point::at(-REACH + (k as f64 + 0.5) * width, count);
        let title = match tau {
            "inf" => "base distribution".to_owned(),
            _ => format!("tau = {tau}"),
        };
        let curve = Layer::line("draws", counts.into_iter().enumerate().map(point));
        Panel::of_lines(title, ["theta", &format!("draws of {n} in a bin")], [curve])
    };
    let panels = ["inf", "10", "10000"].map(panel);
    let caption = "Counts in bins of width 0.1. A draw of the process with small tau puts most of its mass on few points, whatever the number of draws.";
    Ok(Report {
        tables: vec![clusters(&records, n)],
        figures: vec![lines("draws", "Draws from Dirichlet-enhanced priors", caption, &panels)?],
        results,
        notes: vec!["Draws are made by the Pólya urn: each is new from the base with probability tau / (tau + number before), else one of those before.".to_owned()],
    })
}

/// Histogram, number of distinct values and share of the most frequent one.
fn draws(n: usize, tau: Option<f64>, seed: u64) -> Result<Outcome> {
    let rng = &mut npb_infer::stream(seed, [0, 0, 0, URN]);
    let standard = Normal::new(0.0, 1.0)?;
    let labels = match tau {
        Some(tau) => sample_urn(n, tau, rng),
        None => (0..n).collect(),
    };
    let distinct = labels.iter().max().map_or(0, |&l| l + 1);
    let values: Vec<f64> = (0..distinct).map(|_| standard.sample(rng)).collect();
    let (mut histogram, mut counts) = (vec![0.0; BINS], vec![0.0_f64; distinct]);
    for &label in &labels {
        counts[label] += 1.0;
        let place = (values[label] + REACH) / (2.0 * REACH) * BINS as f64;
        if (0.0..BINS as f64).contains(&place) {
            histogram[place as usize] += 1.0;
        }
    }
    let largest = counts.iter().copied().fold(0.0, f64::max);
    let mut outcome = Outcome::metrics([
        ("clusters", distinct as f64),
        ("largest_share", largest / n as f64),
    ]);
    outcome.series.insert("histogram".to_owned(), histogram);
    Ok(outcome)
}

/// Last word of the key of urns.
const URN: u64 = 74;

/// Distinct values found beside their expectation.
fn clusters(records: &[npb_kit::Record], n: usize) -> TextTable {
    let line = |tau: &f64| {
        let setting = format!("n={n};tau={tau}");
        let found: Vec<f64> = records
            .iter()
            .filter(|r| r.key.setting == setting)
            .filter_map(|r| r.outcome.metrics.get("clusters").copied())
            .collect();
        let (expected, variance) = cluster_count_moments(n, *tau);
        vec![
            tau.to_string(),
            digits(mean(&found)),
            digits(expected),
            digits((variance / found.len().max(1) as f64).sqrt()),
        ]
    };
    text_table(
        format!("Distinct values among {n} draws"),
        "tau | found | expected | standard error",
        TAUS.iter().map(line),
    )
}
