//! Figures 5.4 and 5.5: entries of a matrix asked for where the model is least certain, or at random.

use npb_bsvd::{Acquisition, BsvdConfig, BsvdUnits, Cells, SideInformation, Wanted, fit};
use npb_infer::{SweepPlan, Watch, stream};
use rand::seq::SliceRandom;

use super::fits::{config, global_mean};
use super::generated::{LowRank, SIDE, observe};
use npb_kit::tables::{differences, distinct, overview};
use npb_kit::{
    Context, Figure, Layer, Outcome, Panel, Point, Record, Report, Result, Run, Scale, Trial,
    lines, mean_and_sd, summarise,
};

pub(super) const FIG_5_4: Run =
    |context| run(context, "fig-5.4", &[(1, None), (5, None), (10, None)]);

pub(super) const FIG_5_5: Run = |context| {
    run(
        context,
        "fig-5.5",
        &[
            (5, Some(20.0)),
            (10, Some(20.0)),
            (5, Some(10.0)),
            (10, Some(10.0)),
        ],
    )
};

/// Entries at the start, and in each step.
const STEP: usize = 50;
const ALL: usize = SIDE * SIDE;
/// The error at which strategies are compared.
const GOAL: f64 = 0.05;
/// Without noise a sequence ends when the matrix is recovered.
const RECOVERED: f64 = 1e-3;
/// Keys of the random streams.
const ORDER: u64 = 4;

/// How the next entries are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Random,
    Asked(Acquisition),
}

const STRATEGIES: [(Strategy, &str); 3] = [
    (Strategy::Random, "npb:bsvd/random"),
    (
        Strategy::Asked(Acquisition::LargestSd),
        "npb:bsvd/largest-sd",
    ),
    (
        Strategy::Asked(Acquisition::Uncorrelated),
        "npb:bsvd/uncorrelated",
    ),
];

#[derive(Clone, Copy, Debug)]
struct Work {
    rank: usize,
    decibels: Option<f64>,
    strategy: Strategy,
}

fn setting(rank: usize, decibels: Option<f64>) -> String {
    match decibels {
        Some(decibels) => format!("k={rank};decibels={decibels}"),
        None => format!("k={rank}"),
    }
}

const KEEP: u64 = 100;
const FIRST: SweepPlan = npb_kit::sweeps(300, KEEP);
/// Each further step goes on from the last draw, as in the thesis.
const NEXT: SweepPlan = SweepPlan {
    burn_in: 150,
    ..FIRST
};

/// One global mean, as in the thesis.
fn configured(unit: f64, seed: u64) -> BsvdConfig {
    BsvdConfig {
        units: BsvdUnits::Given {
            centre: 0.0,
            scale: unit,
        },
        sweeps: FIRST,
        stored_draws: KEEP,
        ..global_mean(config(Scale::Quick, seed))
    }
}

fn run(context: &Context<'_>, name: &str, cases: &[(usize, Option<f64>)]) -> Result<Report> {
    let (cases, n, most) = context.scale.pick(
        (&cases[..1], 1, 4 * STEP),
        (cases, 3, ALL),
        (cases, 10, ALL),
    );
    let config = format!("{:?}\n{NEXT:?}\nto {most}", configured(1.0, 0));
    let mut trials = Vec::new();
    for &(rank, decibels) in cases {
        for (strategy, name) in STRATEGIES {
            let place = ["simulated", &setting(rank, decibels), name];
            let work = Work {
                rank,
                decibels,
                strategy,
            };
            trials.extend(Trial::runs(n, place, &config, work));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| acquire(&trial.work, most, seed))?;
    let results = summarise(&records, |_, _, _, _| None);
    let [random, asked @ ..] = STRATEGIES.map(|(_, name)| name);
    let entries = format!(
        "Entries until the relative error is {GOAL} ({ALL} when it is not within those acquired)"
    );
    Ok(Report {
        figures: vec![figure(name, &records)?],
        tables: vec![
            overview(&entries, &results, "entries_needed error"),
            differences(&records, random, &asked, "entries_needed"),
        ],
        notes: vec![
            format!(
                "Errors are relative to the matrix without noise, over all cells. The first 50 entries are the same for all strategies. Sweeps: {} + {} at \
                 first; each further step goes on from the last draw with {} + {}, all candidates on again at its start.",
                FIRST.burn_in, FIRST.keep, NEXT.burn_in, NEXT.keep
            ),
            "Model: npb:bsvd without intercepts (one global mean of zero, as generated). largest-sd is the thesis's rule. uncorrelated chooses one entry after \
             the other, each with the largest standard deviation given those already chosen under the Gaussian that has the covariance of the draws."
                .to_owned(),
        ],
        results,
    })
}

/// One sequence of acquisitions. Series `error`: after each step.
fn acquire(work: &Work, most: usize, seed: u64) -> Result<Outcome> {
    let truth = LowRank::draw(work.rank, seed)?;
    let values = match work.decibels {
        Some(decibels) => truth.with_noise(decibels)?,
        None => truth.values.clone(),
    };
    let mut order: Vec<usize> = (0..ALL).collect();
    order.shuffle(&mut stream(seed, [0, 0, 0, ORDER]));
    let mut seen: Vec<usize> = order[..STEP].to_vec();
    let unit = mean_and_sd(&seen.iter().map(|&c| values[c]).collect::<Vec<f64>>())
        .1
        .unwrap_or(1.0);
    let mut errors: Vec<f64> = Vec::new();
    let config = configured(unit, seed);
    let ratings = observe(&values, &seen)?;
    let mut fit = fit(&ratings, SideInformation::default(), &all_cells(), &config)?;
    loop {
        let error = truth.relative_error(|i, j| fit.moments.mean[i * SIDE + j]);
        errors.push(error);
        let done = work.decibels.is_none() && error < RECOVERED;
        if done || seen.len() + STEP > most {
            break;
        }
        match work.strategy {
            Strategy::Random => seen.extend_from_slice(&order[seen.len()..seen.len() + STEP]),
            Strategy::Asked(how) => {
                let candidates = cells((0..ALL).filter(|c| !seen.contains(c)));
                let chosen = fit.next_cells(&candidates, STEP, how)?;
                let place = |cell: &Wanted| cell.row as usize * SIDE + cell.column as usize;
                seen.extend(chosen.iter().map(place));
            }
        }
        let (observed, none) = (observe(&values, &seen)?, SideInformation::default());
        let next = BsvdConfig {
            sweeps: NEXT,
            ..fit.config.clone()
        };
        fit = fit.continue_with(&observed, none, &all_cells(), &next, &Watch::none())?;
    }
    let mut outcome = Outcome::metrics([
        ("entries_needed", needed(&errors)),
        ("error", errors[errors.len() - 1]),
    ]);
    outcome.series.insert("error".to_owned(), errors);
    Ok(outcome)
}

fn all_cells() -> Cells {
    cells(0..ALL)
}

fn cells(which: impl Iterator<Item = usize>) -> Cells {
    let (rows, columns) = which
        .map(|c| ((c / SIDE) as u32, (c % SIDE) as u32))
        .unzip();
    Cells {
        rows,
        columns,
        values: Vec::new(),
    }
}

/// Entries at which the error first is at the goal, by linear interpolation; all when it never is.
fn needed(errors: &[f64]) -> f64 {
    let entries = |step: f64| STEP as f64 * (step + 1.0);
    match errors.iter().position(|&e| e <= GOAL) {
        Some(0) => entries(0.0),
        Some(step) => {
            let (before, after) = (errors[step - 1], errors[step]);
            entries(step as f64 - (GOAL - after) / (before - after))
        }
        None => ALL as f64,
    }
}

/// Error against entries; sequences that ended early keep their last error.
fn figure(name: &str, records: &[Record]) -> Result<Figure> {
    let settings = distinct(records.iter().map(|r| r.key.setting.as_str()));
    let panel = |setting: &&str| {
        let curves = STRATEGIES.map(|(_, strategy)| {
            let wanted = |r: &&Record| r.key.setting == **setting && r.key.method == strategy;
            let own = records.iter().filter(wanted);
            let errors: Vec<&[f64]> = own.map(|r| &r.outcome.series["error"][..]).collect();
            let steps = errors.iter().map(|e| e.len()).max().unwrap_or(0);
            let point = |step: usize| {
                let at = |e: &&[f64]| e.get(step).or(e.last()).copied();
                let values: Vec<f64> = errors.iter().filter_map(at).collect();
                let (y, sd) = mean_and_sd(&values);
                let x = (STEP * (step + 1)) as f64;
                Point { x, y, sd }
            };
            Layer::line(strategy, (0..steps).map(point))
        });
        Panel::of_lines(*setting, ["observed entries", "relative error"], curves)
    };
    let panels: Vec<Panel> = settings.iter().map(panel).collect();
    lines(
        name,
        "Relative error as entries are acquired",
        "Bars: standard deviation over matrices.",
        &panels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_needed_are_interpolated() {
        assert_eq!(needed(&[1.0, 0.15, 0.05, 0.01]), 150.0);
        assert_eq!(needed(&[1.0, 0.09, 0.01]), 125.0);
        assert_eq!(needed(&[0.04]), 50.0);
        assert_eq!(needed(&[1.0, 0.2]), ALL as f64);
    }
}
