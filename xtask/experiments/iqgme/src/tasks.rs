//! Figures 4.3 to 4.8: many tasks, complete and with cells missing completely at random.

mod data;
mod methods;
mod tables;

use data::{Cell, Landmine, Letters, Problem, setting};
use methods::{METHODS, Method, OURS};
use npb_kit::{Context, Outcome, Report, Result, Run, Scale, Trial, summarise};

pub(crate) const FIG_4_3: Run = |context| landmine(context, &[0.0]);

pub(crate) const FIG_4_4: Run = |context| similarity(context, &[0.0]);

pub(crate) const FIG_4_5: Run = |context| landmine(context, &[0.25, 0.5, 0.75]);

pub(crate) const FIG_4_6: Run = |context| similarity(context, &[0.25, 0.5, 0.75]);

const TWO_OF_OURS: &str =
    "npb:iqgme-mtl has all tasks together (MTL), npb:iqgme each task by itself (STL).";

const PENALTIES: &str = "Logistic regressions have C = 1, those named tuned the best of .001 to 10 by five folds of the training rows; \
                         so has structure, whose dimension is tuned, too; lr-mtl has priors instead.";

/// All cells of a design: missing fractions, training rows for each task, trials.
fn design(
    dataset: &str,
    checksums: &str,
    rates: &[f64],
    sizes: &[usize],
    trials: u64,
    methods: &[(&'static str, Method)],
) -> Vec<Trial<(Method, f64, usize)>> {
    let mut all = Vec::new();
    for &missing in rates {
        for &train in sizes {
            for &(name, method) in methods.iter().filter(|(_, m)| m.takes(missing > 0.0)) {
                let place = [dataset, &setting(missing, train), name];
                let config = format!("{checksums}\n{}", method.configuration());
                all.extend(Trial::runs(
                    trials,
                    place,
                    &config,
                    (method, missing, train),
                ));
            }
        }
    }
    all
}

/// Mean AUC over the tasks of a problem.
fn mean_auc(problem: &Problem, method: Method, seed: u64) -> Result<Outcome> {
    let scores = method.scores(problem, seed)?;
    let n = scores.len() as f64;
    let mut mean = 0.0;
    for (scores, task) in scores.iter().zip(&problem.tasks) {
        mean += npb_data::metrics::auc(scores, &task.test_positive)? / n;
    }
    Ok(Outcome::metrics([("auc", mean)]))
}

/// Rows for training in each task, and trials: a trial with holes takes minutes.
fn landmine_counts(scale: Scale, rates: &[f64]) -> (&'static [usize], u64) {
    match scale {
        Scale::Smoke => (&[20], 1),
        Scale::Quick if rates.iter().any(|rate| *rate > 0.0) => (&[20, 100], 2),
        Scale::Quick => (&[20, 100, 300], 3),
        Scale::Paper => (&[20, 100, 300], 10),
    }
}

fn landmine(context: &Context<'_>, rates: &[f64]) -> Result<Report> {
    let data = Landmine::load(context)?;
    let (sizes, trials) = landmine_counts(context.scale, rates);
    let trials = design("landmine", &data.checksums, rates, sizes, trials, &METHODS);
    let records = context.run_trials(&trials, |trial, seed| {
        let (method, missing, train) = trial.work;
        let cell = Cell {
            missing,
            train,
            trial: trial.trial,
        };
        mean_auc(&data.problem(&cell, context.seed)?, method, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![tables::overview(&results), tables::differences(&records)],
        figures: vec![tables::curves("landmine", rates, &results)?],
        notes: vec![
            TWO_OF_OURS.to_owned(),
            "The given splits. Where cells are hidden, rows that keep none stay, in training and in test, for all methods. lr-type is told which tasks are on which ground and is no competitor.".to_owned(),
            PENALTIES.to_owned(),
            "Comparators that need complete rows are named method+imputation: mean (unconditional) or gaussian (conditional mean under one Gaussian fitted by EM to all training rows).".to_owned(),
        ],
        results,
    })
}

fn similarity(context: &Context<'_>, rates: &[f64]) -> Result<Report> {
    let data = Landmine::load(context)?;
    let (sizes, trials) = landmine_counts(context.scale, rates);
    let ours = [(OURS, Method::Together)];
    let trials = design("landmine", &data.checksums, rates, sizes, trials, &ours);
    let records = context.run_trials(&trials, |trial, seed| {
        let (_, missing, train) = trial.work;
        let cell = Cell {
            missing,
            train,
            trial: trial.trial,
        };
        let fit = methods::together(&data.problem(&cell, context.seed)?, seed)?;
        let similarity = fit.similarity();
        let entries = (0..similarity.ncols()).flat_map(|j| similarity.col_as_slice(j).to_vec());
        let mut outcome = Outcome::metrics(tables::blocks(&similarity, Landmine::FOLIATED));
        let matrix = (tables::MATRIX.to_owned(), entries.collect());
        outcome.series.extend([matrix]);
        Ok(outcome)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![tables::block_table(&results)],
        figures: tables::matrices(&records, rates, sizes, &data.names())?,
        notes: vec![
            "Similarities of the run with the highest bound, averaged over trials; within: pairs of tasks on one ground, between: pairs on two.".to_owned(),
        ],
        results,
    })
}

pub(super) fn letters(context: &Context<'_>) -> Result<Report> {
    let data = Letters::load(context)?;
    let (rates, sizes, trials): (&[f64], &[usize], u64) = match context.scale {
        Scale::Smoke => (&[0.5], &[20], 1),
        // The larger sizes take most of a trial's time.
        Scale::Quick => (&[0.0, 0.25, 0.5, 0.75], &[20], 1),
        Scale::Paper => (&[0.0, 0.25, 0.5, 0.75], &[20, 50, 100], 10),
    };
    let methods: Vec<(&'static str, Method)> = METHODS
        .iter()
        .copied()
        .filter(|(_, method)| *method != Method::Ground)
        .collect();
    let trials = design("letters", &data.checksums, rates, sizes, trials, &methods);
    let records = context.run_trials(&trials, |trial, seed| {
        let (method, missing, train) = trial.work;
        let cell = Cell {
            missing,
            train,
            trial: trial.trial,
        };
        mean_auc(&data.problem(&cell, context.seed)?, method, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![tables::overview(&results), tables::differences(&records)],
        figures: vec![tables::curves("letters", rates, &results)?],
        notes: vec![
            TWO_OF_OURS.to_owned(),
            PENALTIES.to_owned(),
            "Training sizes are not printed; 20, 50 and 100 rows for each task were taken, and up to 300 further ones for test.".to_owned(),
        ],
        results,
    })
}
