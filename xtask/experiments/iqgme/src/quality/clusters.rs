//! Figure 3.8: how many clusters are found as training rows become more.

use npb_infer::stream;
use npb_iqgme::IqgmeConfig;
use npb_priors::dp::dominant_count_distribution;

use crate::data::{Data, IONOSPHERE, Sides};
use crate::data::{FRACTIONS, OURS, setting};
use npb_kit::npb_report::{At, Bars, Layer, Panel, Shape, colours, picture};
use npb_kit::{
    Context, Figure, Outcome, Record, Report, Result, Run, TextTable, Trial, short, summarise,
    text_table,
};

pub(crate) const FIG_3_8: Run = run;

const MISSING: [f64; 2] = [0.25, 0.5];
/// A cluster counts when its weight is larger (W 3.5.1).
const DOMINANT: f64 = 0.005;
/// Draws of all weights behind a posterior.
const DRAWS: usize = 20_000;
/// What the first panel shows.
const SHOWN: (f64, f64, u64) = (0.25, 0.1, 0);

fn run(context: &Context<'_>) -> Result<Report> {
    let data = Data::load(context, &IONOSPHERE)?;
    let (missing, fractions, n): (&[f64], &[f64], u64) = context
        .scale
        .smoke_or((&[0.25], &[0.1], 2), (&MISSING, &FRACTIONS, 10));
    let config = format!("{}\n{:?}\n{DRAWS}", data.checksums, IqgmeConfig::default());
    let mut trials = Vec::new();
    for &missing in missing {
        for &train in fractions {
            let place = [data.name, &setting(missing, train), OURS];
            trials.extend(Trial::runs(n, place, &config, (missing, train)));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (missing, train) = trial.work;
        let sides = data.masked(missing, train, trial.trial, context.seed)?;
        let mut outcome = count(&Sides::informative(sides)?, seed)?;
        if (missing, train, trial.trial) != SHOWN {
            outcome.series.clear();
        }
        Ok(outcome)
    })?;
    let notes = [
        "`clusters`: the most probable number of clusters of a trial, those of weight above 0.005, by 20,000 draws of all weights from the posterior of \
         the best run; `clusters_mean`: the mean of those draws. `occupied`: clusters that are the most probable one of at least one training row. \
         A weight of 0.005 is less than one row of 200: where rows are few, clusters without rows count, too.",
        "Boxes: quartiles and median of the trials; whiskers end at the last trial within 1.5 boxes; crosses are trials beyond.",
    ];
    Ok(Report {
        tables: vec![table(&records)],
        figures: vec![figure(&records)?],
        notes: notes.map(str::to_owned).to_vec(),
        results: summarise(&records, |_, _, _, _| None),
    })
}

/// Fits one training side and counts its clusters.
fn count(sides: &Sides, seed: u64) -> Result<Outcome> {
    let fit = sides.train.fit(seed)?;
    let sticks = &fit.state().sticks;
    let mut rng = stream(seed, [0; 4]);
    let prior = dominant_count_distribution(sticks.truncation(), DOMINANT, DRAWS, |weights| {
        sticks.sample_prior_weights(weights, &mut rng);
    });
    let posterior = fit.dominant_components(DOMINANT, DRAWS)?;
    let mut occupied = fit.clusters(&sides.train.rows)?;
    occupied.sort_unstable();
    occupied.dedup();
    let mean: f64 = posterior
        .iter()
        .enumerate()
        .map(|(k, p)| k as f64 * p)
        .sum();
    let mut outcome = Outcome::metrics([
        ("clusters", most_probable(&posterior) as f64),
        ("clusters_mean", mean),
        ("occupied", occupied.len() as f64),
    ]);
    outcome.series.insert("prior".to_owned(), prior);
    outcome.series.insert("posterior".to_owned(), posterior);
    Ok(outcome)
}

fn most_probable(probabilities: &[f64]) -> usize {
    let better = |best: usize, k: usize| {
        if probabilities[k] > probabilities[best] {
            k
        } else {
            best
        }
    };
    (0..probabilities.len()).fold(0, better)
}

/// The trials' numbers in one setting.
fn numbers(records: &[Record], missing: f64, train: f64, metric: &str) -> Vec<f64> {
    let setting = setting(missing, train);
    let of_setting = records.iter().filter(|r| r.key.setting == setting);
    let mut numbers: Vec<f64> = of_setting
        .filter_map(|r| r.outcome.metrics.get(metric).copied())
        .collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// What a box shows of sorted numbers.
struct Summary {
    quartiles: [f64; 3],
    whiskers: [f64; 2],
    beyond: Vec<f64>,
}

impl Summary {
    /// `sorted` holds at least one number.
    fn of(sorted: &[f64]) -> Self {
        let at = |q: f64| {
            let place = q * (sorted.len() - 1) as f64;
            let low = place.floor() as usize;
            let high = (low + 1).min(sorted.len() - 1);
            sorted[low] + (place - low as f64) * (sorted[high] - sorted[low])
        };
        let quartiles = [0.25, 0.5, 0.75].map(at);
        let reach = 1.5 * (quartiles[2] - quartiles[0]);
        let within = |v: &&f64| (quartiles[0] - reach..=quartiles[2] + reach).contains(*v);
        let inside: Vec<f64> = sorted.iter().filter(within).copied().collect();
        let outside = sorted.iter().filter(|v| !within(v)).copied();
        Self {
            quartiles,
            whiskers: [inside[0], inside[inside.len() - 1]],
            beyond: outside.collect(),
        }
    }
}

fn table(records: &[Record]) -> TextTable {
    let mut rows = Vec::new();
    for missing in MISSING {
        for train in FRACTIONS {
            for metric in ["clusters", "occupied"] {
                let numbers = numbers(records, missing, train, metric);
                if numbers.is_empty() {
                    continue;
                }
                let Summary { quartiles, .. } = Summary::of(&numbers);
                let ends = [numbers[0], quartiles[0], quartiles[1], quartiles[2]];
                let mut row = vec![setting(missing, train), metric.to_owned()];
                row.extend(ends.into_iter().chain(numbers.last().copied()).map(short));
                rows.push(row);
            }
        }
    }
    text_table(
        "Number of clusters over trials",
        "setting | number | least | 25% | median | 75% | most",
        rows,
    )
}

fn figure(records: &[Record]) -> Result<Figure> {
    let mut panels = Vec::new();
    panels.extend(beliefs(records));
    for (missing, name) in MISSING.into_iter().zip(["(b)", "(c)"]) {
        panels.extend(boxes(records, missing, name));
    }
    let caption = "(a) Shares of draws by the number of weights above 0.005: 25% missing, 10% of the rows in training, trial 0. (b), (c) Most \
                   probable number over trials.";
    Ok(picture(
        "clusters",
        "Number of clusters, ionosphere",
        caption,
        &panels,
    )?)
}

/// Prior and posterior of one trial.
fn beliefs(records: &[Record]) -> Option<Panel> {
    let (missing, train, trial) = SHOWN;
    let setting = setting(missing, train);
    let record = records
        .iter()
        .find(|r| r.key.setting == setting && r.key.trial == trial)?;
    let series = |name: &str| record.outcome.series.get(name);
    let (prior, posterior) = (series("prior")?, series("posterior")?);
    let bars = |probabilities: &[f64], shift: f64| {
        // Nothing has less than one cluster.
        let bars = probabilities.iter().enumerate().skip(1);
        Shape::Bars(Bars {
            bars: bars.map(|(k, &p)| [k as f64, p]).collect(),
            sds: Vec::new(),
            width: 0.4,
            shift,
        })
    };
    let all = prior.iter().chain(posterior);
    let highest = all.fold(0.0_f64, |a, &b| a.max(b));
    Some(Panel::new(
        "(a) one trial",
        ["number of clusters", "probability"],
        (0.0, prior.len() as f64),
        (0.0, 1.1 * highest),
        vec![
            Layer::new("prior", colours::GREY, bars(prior, -0.2)),
            Layer::new("posterior", colours::BLUE, bars(posterior, 0.2)),
        ],
    ))
}

/// Boxes of the most probable number against the training fraction.
fn boxes(records: &[Record], missing: f64, name: &str) -> Option<Panel> {
    let (mut thin, mut thick, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    for train in FRACTIONS {
        let numbers = numbers(records, missing, train, "clusters");
        if numbers.is_empty() {
            continue;
        }
        let summary = Summary::of(&numbers);
        thin.extend(outline(&summary, train));
        let median = summary.quartiles[1];
        thick.push(vec![[train - HALF, median], [train + HALF, median]]);
        beyond.extend(summary.beyond.iter().map(|&y| [train, y]));
    }
    if thick.is_empty() {
        return None;
    }
    let all = records
        .iter()
        .filter_map(|r| r.outcome.metrics.get("clusters"));
    let highest = all.fold(0.0_f64, |a, &b| a.max(b));
    Some(Panel::new(
        format!("{name} {:.0}% missing", 100.0 * missing),
        [
            "fraction of rows in training",
            "most probable number of clusters",
        ],
        (0.0, 1.0),
        // The same in both panels.
        (0.0, highest + 1.0),
        vec![
            Layer::new(
                "quartiles and whiskers",
                colours::BLUE,
                Shape::Curves(thin, 1),
            ),
            Layer::new("median", colours::VERMILLION, Shape::Curves(thick, 4)),
            Layer::new(
                "trials beyond the whiskers",
                colours::BLACK,
                Shape::Crosses(beyond),
            ),
        ],
    ))
}

/// Half the width of a box.
const HALF: f64 = 0.03;

/// Box and whiskers as lines.
fn outline(summary: &Summary, x: f64) -> Vec<Vec<At>> {
    let [low, _, high] = summary.quartiles;
    let [bottom, top] = summary.whiskers;
    let across = |y: f64, half: f64| vec![[x - half, y], [x + half, y]];
    vec![
        vec![
            [x - HALF, low],
            [x + HALF, low],
            [x + HALF, high],
            [x - HALF, high],
            [x - HALF, low],
        ],
        vec![[x, bottom], [x, low]],
        vec![[x, high], [x, top]],
        across(bottom, 0.5 * HALF),
        across(top, 0.5 * HALF),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::tests::example;

    #[test]
    fn clusters_of_an_easy_set_are_few() {
        let sides = example().masked(0.25, 0.5, 0, 1).unwrap();
        let sides = Sides::informative(sides).unwrap();
        let found = count(&sides, 1).unwrap();
        let metrics = &found.metrics;
        assert!((1.0..=8.0).contains(&metrics["clusters"]), "{metrics:?}");
        assert!((1.0..=8.0).contains(&metrics["occupied"]), "{metrics:?}");
        for name in ["prior", "posterior"] {
            let total: f64 = found.series[name].iter().sum();
            assert!((total - 1.0).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn boxes_show_quartiles_and_outliers() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 20.0]);
        assert_eq!(summary.quartiles, [2.0, 3.0, 4.0]);
        assert_eq!(summary.whiskers, [1.0, 4.0]);
        assert_eq!(summary.beyond, [20.0]);
        let one = Summary::of(&[5.0]);
        assert_eq!((one.quartiles, one.whiskers), ([5.0; 3], [5.0; 2]));
    }
}
