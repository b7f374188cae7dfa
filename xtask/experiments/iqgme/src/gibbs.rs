//! Figure 3.10: variational Bayes and Gibbs sampling on ionosphere with 25% missing cells.

use std::time::Instant;

use npb_data::metrics;
use npb_infer::SweepPlan;
use npb_iqgme::{GibbsConfig, GibbsFit, IqgmeConfig, IqgmeFit, MissingCell, fit, fit_gibbs};

use super::mcar::IONOSPHERE;
use super::mcar::data::{Cell, Data, Sides};
use npb_kit::{
    Context, Experiment, Figure, Outcome, Panel, Point, Report, Result, ResultRow, Scale, Series,
    TextTable, Trial, lines, short, summarise,
};

pub(crate) const FIG_3_10: Experiment = Experiment {
    id: "iqgme/fig-3.10",
    what: "ionosphere, 25% missing: variational Bayes against Gibbs sampling, AUC, time per iteration, iterations, missing cells",
    paper: "a figure without printed numbers: equal AUC, variational Bayes in about 50 iterations, sampling in 1500",
    data: &["ionosphere"],
    run: reproduce,
};

const DEFAULT: &str = "npb:iqgme";
/// Variational Bayes with the sampler's prior, which is not its default.
const VB: &str = "npb:iqgme/sampler-prior";
const GIBBS: &str = "npb:iqgme/gibbs";
const FRACTIONS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
const MISSING: f64 = 0.25;

fn reproduce(context: &Context<'_>) -> Result<Report> {
    let data = Data::load(context, &IONOSPHERE)?;
    let trials = design(context.scale, &data);
    let records = context.run_trials(&trials, |trial, seed| {
        let (task, cell) = &trial.work;
        run(&data, task, cell, context.seed, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![table(&results)],
        figures: vec![figure(&results)?],
        notes: vec![
            "npb:iqgme is the default, npb:iqgme/sampler-prior the same with the prior scale of the sampler, which has no bound to learn it by: the one that is \
             compared with the sampler. Variational Bayes averages over several runs; its iterations are the mean over them. Masks and splits are those of \
             figure 3.5. Times are of trials that run side by side."
                .to_owned(),
            "Missing cells: those of the training rows. `cells apart` is the mean over cells of the distance between the posterior means of the two in posterior \
             standard deviations of the sampler; `cells within` the share of cells where it is less than one; given is the same information, the row's label \
             included for the sampler alone."
                .to_owned(),
        ],
        results,
    })
}

fn gibbs(scale: Scale) -> GibbsConfig {
    let (burn_in, keep, chains) = match scale {
        Scale::Smoke => (20, 40, 1),
        Scale::Quick => (200, 200, 2),
        Scale::Paper => (1000, 500, 4),
    };
    GibbsConfig {
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin: 1,
        },
        chains,
        ..GibbsConfig::default()
    }
}

/// What a trial does.
#[derive(Clone)]
enum Task {
    /// Variational Bayes with this configuration but for its seed.
    Variational(IqgmeConfig),
    Gibbs(GibbsConfig),
}

impl Task {
    /// Everything that its outcome depends on besides data and seed.
    fn configuration(&self) -> String {
        match self {
            Self::Variational(config) => format!("{config:?}"),
            // Cells are compared with those of variational Bayes.
            Self::Gibbs(config) => format!("{:?}\n{:?}", Some(config), variational_config(0)),
        }
    }
}

fn design(scale: Scale, data: &Data) -> Vec<Trial<(Task, Cell)>> {
    let (fractions, n): (&[f64], u64) = match scale {
        Scale::Smoke => (&[0.5], 1),
        Scale::Quick => (&FRACTIONS, 5),
        Scale::Paper => (&FRACTIONS, 10),
    };
    let mut trials = Vec::new();
    for &train in fractions {
        for (method, task) in [
            (DEFAULT, Task::Variational(IqgmeConfig::default())),
            (VB, Task::Variational(variational_config(0))),
            (GIBBS, Task::Gibbs(gibbs(scale))),
        ] {
            for trial in 0..n {
                let cell = Cell {
                    missing: MISSING,
                    train,
                    trial,
                };
                trials.push(Trial {
                    dataset: IONOSPHERE.name.to_owned(),
                    setting: setting(train),
                    method: method.to_owned(),
                    trial,
                    config: format!("{}\n{}", data.checksums, task.configuration()),
                    work: (task.clone(), cell),
                });
            }
        }
    }
    trials
}

fn setting(train: f64) -> String {
    format!("missing={MISSING};train={train}")
}

/// The default, but for the prior scale: that of the sampler, which has no bound to learn it by.
fn variational_config(seed: u64) -> IqgmeConfig {
    IqgmeConfig {
        seed,
        ..IqgmeConfig::default()
    }
}

fn run(data: &Data, task: &Task, cell: &Cell, run_seed: u64, seed: u64) -> Result<Outcome> {
    let sides = Sides::new(data, cell, run_seed)?;
    let config = match task {
        Task::Variational(config) => IqgmeConfig {
            seed,
            ..config.clone()
        },
        Task::Gibbs(_) => variational_config(seed),
    };
    let clock = Instant::now();
    let variational = fit(&sides.train, &sides.train_labels, &config)?;
    let seconds = clock.elapsed().as_secs_f64();
    // Probabilities are those of the second class in alphabetical order.
    let positive_second = variational
        .classes()
        .get(1)
        .is_some_and(|c| c == data.positive);
    let auc = |scores: Vec<f64>| {
        let turned: Vec<f64> = scores
            .into_iter()
            .map(|p| if positive_second { p } else { -p })
            .collect();
        metrics::auc(&turned, &sides.test_positive)
    };
    let Task::Gibbs(gibbs) = task else {
        let iterations: usize = variational
            .members()
            .iter()
            .map(|run| run.trace.len())
            .sum();
        let runs = variational.members().len() as f64;
        return Ok(Outcome::metrics([
            ("auc", auc(variational.predict_proba(&sides.test)?)?),
            ("iterations", iterations as f64 / runs),
            ("seconds_per_iteration", seconds / iterations as f64),
        ]));
    };
    let gibbs = GibbsConfig {
        model: config,
        ..gibbs.clone()
    };
    let clock = Instant::now();
    let sampled = fit_gibbs(&sides.train, &sides.train_labels, &gibbs)?;
    let seconds = clock.elapsed().as_secs_f64();
    let sweeps = gibbs.sweeps.total() as f64;
    let (apart, within) = cells(&variational, &sampled, &sides)?;
    let worst = |name: &str| {
        let found = sampled.diagnostics().into_iter().find(|(n, _)| n == name);
        found.and_then(|(_, d)| d.rhat).unwrap_or(1.0)
    };
    Ok(Outcome::metrics([
        ("auc", auc(sampled.predict_proba(&sides.test)?)?),
        ("iterations", sweeps),
        (
            "seconds_per_iteration",
            seconds / (sweeps * gibbs.chains as f64),
        ),
        ("cells_apart", apart),
        ("cells_within", within),
        ("rhat_ln_likelihood", worst("ln likelihood")),
        ("rhat_concentration", worst("concentration")),
    ]))
}

/// Distance of the posterior means of the missing training cells, in the sampler's standard deviations: its mean, and the share below 1.
fn cells(variational: &IqgmeFit, sampled: &GibbsFit, sides: &Sides) -> Result<(f64, f64)> {
    let by_row: Vec<Vec<MissingCell>> =
        variational.training_cells(&sides.train, &sides.train_labels)?;
    let (mut sum, mut within, mut n) = (0.0, 0.0, 0.0);
    for cell in sampled.training_cells(&[])? {
        let row = by_row.get(cell.row).into_iter().flatten();
        let Some(other) = row.into_iter().find(|other| other.column == cell.column) else {
            continue;
        };
        let apart = (other.mean - cell.mean).abs() / cell.sd;
        sum += apart;
        within += if apart < 1.0 { 1.0 } else { 0.0 };
        n += 1.0;
    }
    Ok((sum / n, within / n))
}

fn value<'a>(
    results: &'a [ResultRow],
    train: f64,
    method: &str,
    metric: &str,
) -> Option<&'a ResultRow> {
    let setting = setting(train);
    let wanted = |r: &&ResultRow| r.setting == setting && r.method == method && r.metric == metric;
    results.iter().find(wanted)
}

fn table(results: &[ResultRow]) -> TextTable {
    let mean = |train, method, metric| {
        value(results, train, method, metric).map_or(String::new(), |r| short(r.mean))
    };
    let row = |&train: &f64| {
        let numbers = [
            mean(train, DEFAULT, "auc"),
            mean(train, VB, "auc"),
            mean(train, GIBBS, "auc"),
            mean(train, VB, "iterations"),
            mean(train, GIBBS, "iterations"),
            mean(train, VB, "seconds_per_iteration"),
            mean(train, GIBBS, "seconds_per_iteration"),
            mean(train, GIBBS, "cells_apart"),
            mean(train, GIBBS, "cells_within"),
            mean(train, GIBBS, "rhat_ln_likelihood"),
        ];
        [vec![train.to_string()], numbers.to_vec()].concat()
    };
    let header = [
        "training fraction",
        "AUC, variational by default",
        "AUC, variational",
        "AUC, Gibbs",
        "iterations, variational",
        "iterations, Gibbs",
        "seconds each, variational",
        "seconds each, Gibbs",
        "cells apart",
        "cells within",
        "R-hat of the ln likelihood",
    ];
    let known = |train: &&f64| value(results, **train, VB, "auc").is_some();
    TextTable {
        title: "Means over trials".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: FRACTIONS.iter().filter(known).map(row).collect(),
    }
}

fn figure(results: &[ResultRow]) -> Result<Figure> {
    let panel = |title: &str, metric: &str| {
        let series = |method: &str| Series {
            name: method.to_owned(),
            points: FRACTIONS
                .iter()
                .filter_map(|&train| {
                    let row = value(results, train, method, metric)?;
                    Some(Point {
                        x: train,
                        y: row.mean,
                        sd: row.sd,
                    })
                })
                .collect(),
        };
        Panel {
            title: title.to_owned(),
            x_label: "fraction of rows in training".to_owned(),
            y_label: title.to_owned(),
            series: [DEFAULT, VB, GIBBS].into_iter().map(series).collect(),
        }
    };
    let panels = [
        panel("mean AUC", "auc"),
        panel("seconds per iteration", "seconds_per_iteration"),
        panel("iterations", "iterations"),
    ];
    let caption = "Mean over trials; bars are one standard deviation over trials.";
    let title = "Variational Bayes and Gibbs sampling on ionosphere, 25% missing";
    lines("vb-and-gibbs", title, caption, &panels)
}
