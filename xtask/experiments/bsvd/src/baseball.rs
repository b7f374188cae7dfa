//! Major league baseball: Table 5.3, held-out pairs, Figure 5.8 with Table 5.4. Binomial probit.

mod players;

use std::ops::RangeInclusive;

use npb_baselines::{HitRates, PairCount};
use npb_bsvd::{BsvdConfig, BsvdFit, Cells, Likelihood, SideInformation, Successes};
use npb_data::{Rating, Ratings};

use super::counts::{FOLDER, Seasons, Window};
use super::fits::{OURS, config, traced};
use npb_kit::tables::overview;
use npb_kit::{Context, Outcome, Report, Result, ResultRow, Scale, Trial, summarise, text_table};

pub(super) use players::FIG_5_8;

/// Rates are clipped to [CLIP, 1 - CLIP] before logarithms: without it one hit at a rate of 0 ends everything.
const CLIPS: [(f64, &str); 2] = [
    (f64::EPSILON, "ln_likelihood"),
    (1e-3, "ln_likelihood_clip_0.001"),
];
const PAIRS: usize = 10;

/// Training seasons with the figures printed: empirical, batter, pitcher, BSVD.
struct Printed {
    name: &'static str,
    seasons: RangeInclusive<u16>,
    figures: [f64; 4],
}

const WINDOWS: [Printed; 3] = [
    Printed {
        name: "2007",
        seasons: 2007..=2007,
        figures: [-2.1355e6, -1.5843e5, -8.6514e4, -8.3900e4],
    },
    Printed {
        name: "2003-2007",
        seasons: 2003..=2007,
        figures: [-2.0209e6, -1.2371e5, -1.0130e5, -8.8518e4],
    },
    Printed {
        name: "1969-2007",
        seasons: 1969..=2007,
        figures: [-1.9794e6, -1.2240e5, -1.0144e5, -8.8619e4],
    },
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Empirical,
    Batter,
    Pitcher,
    Overall,
    Bsvd,
}

const METHODS: [(Method, &str); 5] = [
    (Method::Empirical, "empirical"),
    (Method::Batter, "batter-average"),
    (Method::Pitcher, "pitcher-average"),
    (Method::Overall, "overall-average"),
    (Method::Bsvd, OURS),
];

fn configured(scale: Scale, seed: u64) -> BsvdConfig {
    BsvdConfig {
        likelihood: Likelihood::Binomial,
        ..config(scale, seed)
    }
}

/// Fits counts and follows cells.
fn fit(
    window: &Window,
    counts: &[PairCount],
    cells: Cells,
    config: &BsvdConfig,
) -> Result<BsvdFit> {
    let ratings = |value: fn(&PairCount) -> u32| {
        let entry = |c: &PairCount| Rating {
            row: c.row,
            column: c.column,
            value: f64::from(value(c)),
        };
        let entries: Vec<Rating> = counts.iter().map(entry).collect();
        Ratings::new(window.batters.len(), window.pitchers.len(), &entries)
    };
    let (hits, trials) = (ratings(|c| c.hits)?, ratings(|c| c.trials)?);
    let counts = Successes {
        successes: &hits,
        trials: &trials,
    };
    let none = SideInformation::default();
    Ok(npb_bsvd::fit(&counts, none, &cells, config)?)
}

fn cells_of(counts: &[PairCount]) -> Cells {
    Cells {
        rows: counts.iter().map(|c| c.row).collect(),
        columns: counts.iter().map(|c| c.column).collect(),
        values: Vec::new(),
    }
}

pub(super) fn table_5_3(context: &Context<'_>) -> Result<Report> {
    let seasons = Seasons::load(context)?;
    let windows = context.scale.smoke_or(&WINDOWS[..1], &WINDOWS[..]);
    let mut trials = Vec::new();
    // The largest first: the others run beside it.
    for window in windows.iter().rev() {
        let config = configured(context.scale, 0);
        let config = format!("{}\n{config:?}\n{CLIPS:?}", seasons.checksums);
        let setting = format!("train={}", window.name);
        trials.extend(METHODS.map(|(method, name)| {
            Trial::new(
                [FOLDER, &setting, name],
                0,
                config.clone(),
                (method, window),
            )
        }));
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (method, printed) = trial.work;
        let window = seasons.window(printed.seasons.clone());
        let test = window.counts_of(&seasons.window(2008..=2008));
        score(method, &window, &test, &configured(context.scale, seed))
    })?;
    let results = summarise(&records, |_, setting, method, metric| {
        let window = WINDOWS
            .iter()
            .find(|w| setting == format!("train={}", w.name))?;
        let index = METHODS.iter().position(|(_, name)| *name == method)?;
        let place = [Some(0), Some(1), Some(2), None, Some(3)][index]?;
        (metric == "ln_likelihood").then_some(window.figures[place])
    });
    let notes = [
        format!(
            "Pairs of 2008 whose batter and pitcher both appear in the training seasons. Rates are clipped to [{:.1e}, 1 - {:.1e}] before \
             logarithms, and in a second column to [0.001, 0.999]. The thesis does not say how it clips; its empirical figures, five times ours, show that it \
             clips much lower or not at all where it can. Empirical: rate of the pair, of the pitcher where \
             the pair did not meet. BSVD: posterior mean of the rate.",
            CLIPS[0].0, CLIPS[0].0
        ),
        "Means of the model: offset and intercepts of batters and pitchers inside the probit link (the default). The printed 1954-2007 stands beside our 1969-2007. \
         The thesis counts 983 batters and 651 pitchers of 2008, our copy 971 and 651."
            .to_owned(),
    ];
    Ok(Report {
        tables: vec![overview(
            "Log-likelihood of 2008 by training seasons",
            &results,
            "ln_likelihood ln_likelihood_per_event ln_likelihood_clip_0.001 training_pairs pairs events rank seconds",
        )],
        notes: notes.to_vec(),
        results,
        ..Default::default()
    })
}

fn score(
    method: Method,
    window: &Window,
    test: &[PairCount],
    config: &BsvdConfig,
) -> Result<Outcome> {
    let rates = HitRates::fit(window.batters.len(), window.pitchers.len(), &window.counts)?;
    let all: (u64, u64) = window.counts.iter().fold((0, 0), |(h, n), c| {
        (h + u64::from(c.hits), n + u64::from(c.trials))
    });
    let overall = all.0 as f64 / all.1 as f64;
    let mut outcome = Outcome::default();
    let predicted: Vec<f64> = if method == Method::Bsvd {
        let fit = fit(window, &window.counts, cells_of(test), config)?;
        outcome.metrics.insert("rank".to_owned(), traced(&fit, 0));
        fit.moments.mean
    } else {
        let of = |c: &PairCount| {
            let (batter, pitcher) = (c.row as usize, c.column as usize);
            let rate = match method {
                Method::Batter => rates.row(batter),
                Method::Empirical => rates.pair(batter, pitcher).or(rates.column(pitcher)),
                Method::Pitcher => rates.column(pitcher),
                Method::Overall | Method::Bsvd => None,
            };
            rate.unwrap_or(overall)
        };
        test.iter().map(of).collect()
    };
    for (clip, name) in CLIPS {
        outcome
            .metrics
            .insert(name.to_owned(), ln_likelihood(&predicted, test, clip));
    }
    let events: f64 = test.iter().map(|c| f64::from(c.trials)).sum();
    let per_event = outcome.metrics["ln_likelihood"] / events;
    for (name, value) in [
        ("ln_likelihood_per_event", per_event),
        ("events", events),
        ("pairs", test.len() as f64),
        ("training_pairs", window.counts.len() as f64),
    ] {
        outcome.metrics.insert(name.to_owned(), value);
    }
    Ok(outcome)
}

/// Of hits and misses, order within a pair known (no binomial coefficient).
fn ln_likelihood(rates: &[f64], counts: &[PairCount], clip: f64) -> f64 {
    let of = |(rate, c): (&f64, &PairCount)| {
        let p = rate.clamp(clip, 1.0 - clip);
        let misses = c.trials - c.hits;
        f64::from(c.hits) * p.ln() + f64::from(misses) * (-p).ln_1p()
    };
    rates.iter().zip(counts).map(of).sum()
}

pub(super) fn held_out_pairs(context: &Context<'_>) -> Result<Report> {
    let seasons = Seasons::load(context)?;
    let window = seasons.window(2003..=2007);
    let mut by_trials: Vec<PairCount> = window.counts.clone();
    by_trials.sort_by_key(|c| (std::cmp::Reverse(c.trials), c.row, c.column));
    let held = &by_trials[..PAIRS];
    let rest: Vec<PairCount> = window
        .counts
        .iter()
        .filter(|c| !held.contains(c))
        .copied()
        .collect();
    let config = configured(context.scale, 0);
    let config = format!("{}\n{config:?}", seasons.checksums);
    let trial = Trial::new([FOLDER, "train=2003-2007", OURS], 0, config, ());
    let records = context.run_trials(&[trial], |_, seed| {
        let fit = fit(
            &window,
            &rest,
            cells_of(held),
            &configured(context.scale, seed),
        )?;
        let mut outcome = Outcome::metrics([("rank", traced(&fit, 0))]);
        outcome.series.insert(
            "sd".to_owned(),
            (0..PAIRS).map(|k| fit.moments.sd(k)).collect(),
        );
        outcome.series.insert("mean".to_owned(), fit.moments.mean);
        Ok(outcome)
    })?;
    let series = |name: &str| &records[0].outcome.series[name];
    let (mean, sd) = (series("mean"), series("sd"));
    let (mut rows, mut results) = (Vec::new(), summarise(&records, |_, _, _, _| None));
    let mut covered = 0;
    for (k, pair) in held.iter().enumerate() {
        let rate = f64::from(pair.hits) / f64::from(pair.trials);
        // Of the observed rate: uncertainty of the probability and of so many trials.
        let spread = (sd[k].powi(2) + mean[k] * (1.0 - mean[k]) / f64::from(pair.trials)).sqrt();
        covered += usize::from((rate - mean[k]).abs() <= 1.645 * spread);
        rows.push(vec![
            seasons.name(&window.batters[pair.row as usize]),
            seasons.name(&window.pitchers[pair.column as usize]),
            pair.trials.to_string(),
            format!("{rate:.4}"),
            format!("{:.4}", mean[k]),
            format!("{:.4}", sd[k]),
            format!("{:.4}", (rate - mean[k]).abs()),
            format!("{spread:.4}"),
        ]);
        for (metric, value) in [("predicted", mean[k]), ("sd", sd[k]), ("empirical", rate)] {
            results.push(ResultRow::single(
                [
                    FOLDER,
                    &format!("pair={};train=2003-2007", k + 1),
                    OURS,
                    metric,
                ],
                value,
            ));
        }
    }
    let columns = "batter | pitcher | at-bats | observed rate | predicted | sd | distance | sd of an observed rate";
    let title = format!(
        "The ten pairs that met most often in 2003-2007, held out ({covered} of {PAIRS} observed rates within 90% intervals)"
    );
    Ok(Report {
        tables: vec![text_table(title, columns, rows)],
        notes: vec![
            "Means: offset and intercepts of batters and pitchers inside the probit link (the default). The sd of an observed rate adds the binomial variance of \
             its at-bats to the posterior variance of the probability."
                .to_owned(),
        ],
        results,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::example;

    #[test]
    fn averages_have_the_likelihoods_that_they_should() {
        let seasons = example();
        let window = seasons.window(2007..=2007);
        let test = window.counts_of(&seasons.window(2008..=2008));
        // Adam hits zoe once in 2008; in 2007 adam hit 1 of 4, and zoe was hit 2 times of 6.
        let of = |method| {
            let outcome = score(method, &window, &test, &BsvdConfig::default()).unwrap();
            outcome.metrics["ln_likelihood"].exp()
        };
        assert!((of(Method::Batter) - 0.25).abs() < 1e-12);
        assert!((of(Method::Pitcher) - 2.0 / 6.0).abs() < 1e-12);
        assert!((of(Method::Empirical) - 0.25).abs() < 1e-12);
        assert!((of(Method::Overall) - 2.0 / 9.0).abs() < 1e-12);
        let certain = [PairCount {
            row: 0,
            column: 0,
            hits: 1,
            trials: 1,
        }];
        assert!((ln_likelihood(&[0.0], &certain, f64::EPSILON) + 36.04).abs() < 0.01);
    }
}
