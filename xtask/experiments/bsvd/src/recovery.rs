//! Figures 5.2 and 5.3: how often a matrix of low rank is recovered exactly from part of its entries.

use npb_baselines::{NuclearNorm, NuclearNormConfig};
use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};

use super::fits::{config, global_mean, traced};
use super::generated::{LowRank, SIDE, degrees_of_freedom, observe};
use npb_kit::npb_report::{Cells as Grid, Layer, Panel, Shape, colours, picture};
use npb_kit::tables::{distinct, overview};
use npb_kit::{Context, Figure, Outcome, Report, Result, ResultRow, Run, Scale, Trial, summarise};

pub(super) const FIG_5_2: Run = |context| run(context, &[(1.0, 1.0)], true);

pub(super) const FIG_5_3: Run = |context| run(context, &[(1.0, 10.0), (10.0, 1.0)], false);

/// A matrix is recovered below this relative error.
const RECOVERED: f64 = 1e-3;
const NUCLEAR: &str = "nuclear-norm";
/// The default without intercepts.
const OURS_HERE: &str = "npb:bsvd/global-mean";
const RANKS: [usize; 10] = [1, 2, 3, 5, 7, 10, 12, 15, 20, 25];
const FRACTIONS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

#[derive(Clone, Copy, Debug)]
enum Method {
    /// With `(a, b)` of the prior of the switches.
    Bsvd(f64, f64),
    Nuclear,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    rank: usize,
    fraction: f64,
    method: Method,
}

/// Ranks and observed fractions with at least as many entries as degrees of freedom.
fn cells(scale: Scale) -> (Vec<(usize, f64)>, u64) {
    let twentieths = (1..=19).map(|k| f64::from(k) / 20.0);
    let (ranks, fractions, trials) = scale.pick(
        (vec![2], vec![0.6], 2),
        (RANKS.to_vec(), FRACTIONS.to_vec(), 5),
        ((1..=30).collect(), twentieths.collect(), 50),
    );
    let pairs = ranks
        .iter()
        .flat_map(|&r| fractions.iter().map(move |&f| (r, f)));
    let possible = |&(r, f): &(usize, f64)| degrees_of_freedom(r) <= entries(f);
    (pairs.filter(possible).collect(), trials)
}

fn entries(fraction: f64) -> usize {
    (fraction * (SIDE * SIDE) as f64).round() as usize
}

fn setting(rank: usize, fraction: f64, prior: Option<(f64, f64)>) -> String {
    let prior = match prior {
        Some((a, b)) if (a, b) != (1.0, 1.0) => format!("a={a};b={b};"),
        _ => String::new(),
    };
    format!("{prior}k={rank};observed={fraction}")
}

/// The model of the thesis: no intercepts, values as they are, more sweeps than elsewhere, because without noise the chain has a long way to go.
fn configured(a: f64, b: f64, seed: u64) -> BsvdConfig {
    BsvdConfig {
        rank_a: a,
        rank_b: b,
        sweeps: npb_kit::sweeps(600, 200),
        stored_draws: 1,
        ..global_mean(config(Scale::Quick, seed))
    }
}

fn run(context: &Context<'_>, priors: &[(f64, f64)], nuclear: bool) -> Result<Report> {
    let (cells, n) = cells(context.scale);
    let mut trials = Vec::new();
    let mut methods: Vec<Method> = priors.iter().map(|&(a, b)| Method::Bsvd(a, b)).collect();
    methods.extend(nuclear.then_some(Method::Nuclear));
    for &(rank, fraction) in &cells {
        for &method in &methods {
            let (name, prior, config) = match method {
                Method::Bsvd(a, b) => (
                    OURS_HERE,
                    Some((a, b)),
                    format!("{:?}", configured(a, b, 0)),
                ),
                Method::Nuclear => (NUCLEAR, None, format!("{:?}", NuclearNormConfig::default())),
            };
            let place = ["simulated", &setting(rank, fraction, prior), name];
            let cell = Cell {
                rank,
                fraction,
                method,
            };
            trials.extend(Trial::runs(n, place, &config, cell));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| complete(&trial.work, seed))?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        figures: vec![figure(&results, priors, nuclear)?],
        tables: vec![overview(
            "Matrices",
            &results,
            "recovered error rank converged",
        )],
        notes: notes(),
        results,
    })
}

fn complete(cell: &Cell, seed: u64) -> Result<Outcome> {
    let truth = LowRank::draw(cell.rank, seed)?;
    let ratings = observe(&truth.values, &truth.cells(entries(cell.fraction))?)?;
    let mut converged = true;
    let (error, rank) = match cell.method {
        Method::Nuclear => {
            let found = NuclearNorm::fit(&ratings, &NuclearNormConfig::default())?;
            converged = found.converged;
            (
                truth.relative_error(|i, j| found.get(i, j)),
                found.rank as f64,
            )
        }
        Method::Bsvd(a, b) => {
            let all: Vec<u32> = (0..(SIDE * SIDE) as u32).collect();
            let cells = Cells {
                rows: all.iter().map(|c| c / SIDE as u32).collect(),
                columns: all.iter().map(|c| c % SIDE as u32).collect(),
                values: Vec::new(),
            };
            let found = fit(
                &ratings,
                SideInformation::default(),
                &cells,
                &configured(a, b, seed),
            )?;
            (
                truth.relative_error(|i, j| found.moments.mean[i * SIDE + j]),
                traced(&found, 0),
            )
        }
    };
    let recovered = f64::from(u8::from(error < RECOVERED));
    Ok(Outcome::metrics([
        ("recovered", recovered),
        ("error", error),
        ("rank", rank),
        ("converged", f64::from(u8::from(converged))),
    ]))
}

/// Rank and observed fraction of a setting.
fn place(setting: &str) -> Option<(usize, f64)> {
    let value = |key: &str| setting.split(';').find_map(|part| part.strip_prefix(key));
    Some((
        value("k=")?.parse().ok()?,
        value("observed=")?.parse().ok()?,
    ))
}

/// Cells of the picture along each axis.
const GRID: usize = 36;

/// Recovery as in the thesis: observed fraction by degrees of freedom per entry, with trajectories of equal rank.
fn figure(results: &[ResultRow], priors: &[(f64, f64)], nuclear: bool) -> Result<Figure> {
    let ours = |&(a, b): &(f64, f64)| {
        let title = format!("BSVD, a = {a}, b = {b}");
        panel(results, OURS_HERE, Some((a, b)), &title)
    };
    let mut panels: Vec<Panel> = priors.iter().map(ours).collect();
    if nuclear {
        panels.insert(
            0,
            panel(results, NUCLEAR, None, "nuclear-norm minimisation"),
        );
    }
    Ok(picture(
        if nuclear { "fig-5.2" } else { "fig-5.3" },
        "Share of matrices recovered",
        "Each point shows the nearest cell that was run. Dashed: equal ranks, from 1 below to the largest above.",
        &panels,
    )?)
}

fn panel(results: &[ResultRow], method: &str, prior: Option<(f64, f64)>, title: &str) -> Panel {
    let measured: Vec<(f64, f64, f64, usize)> = results
        .iter()
        .filter(|r| r.metric == "recovered" && r.method == method)
        .filter_map(|r| {
            let (rank, fraction) = place(&r.setting)?;
            let ratio = degrees_of_freedom(rank) as f64 / entries(fraction) as f64;
            (r.setting == setting(rank, fraction, prior)).then_some((fraction, ratio, r.mean, rank))
        })
        .collect();
    let nearest = |x: f64, y: f64| {
        // Along a column of equal fraction first: fractions are few and evenly spaced.
        let distance = |m: &&(f64, f64, f64, usize)| 9.0 * (m.0 - x).powi(2) + (m.1 - y).powi(2);
        measured
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .map_or(0.0, |m| m.2)
    };
    let grid = (0..GRID * GRID).map(|cell| {
        let at = |index: usize| (index as f64 + 0.5) / GRID as f64;
        nearest(at(cell % GRID), at(cell / GRID))
    });
    let ranks = distinct(measured.iter().map(|m| m.3));
    let trajectory = |&rank: &usize| -> Vec<[f64; 2]> {
        let d = degrees_of_freedom(rank) as f64 / (SIDE * SIDE) as f64;
        (1..=100)
            .map(|k| f64::from(k) / 100.0)
            .map(|x| [x, d / x])
            .collect()
    };
    Panel::new(
        title,
        ["observed entries m / I^2", "degrees of freedom d_r / m"],
        (0.0, 1.0),
        (0.0, 1.0),
        vec![
            Layer::new(
                "recovered: 0 to 1",
                colours::BLUE,
                Shape::Cells(Grid::probabilities(GRID, grid.collect())),
            ),
            Layer::new(
                "equal rank",
                colours::GREEN,
                Shape::Dashed(ranks.iter().map(trajectory).collect()),
            ),
        ],
    )
}

fn notes() -> Vec<String> {
    let notes = [
        "Matrices are products of two 50 x r matrices of standard normal numbers, without noise; a matrix is recovered when the posterior mean differs by \
         less than 1e-3 of its norm. All methods see the same matrices and entries.",
        "npb:bsvd/global-mean is the default without intercepts (the thesis's model: one global mean), with 600 + 200 sweeps. Nuclear-norm minimisation is \
         solved in the noise-free limit to a relative 1e-6.",
    ];
    notes.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nuclear_norm_recovers_rank_two_and_not_rank_ten() {
        let error = |rank| {
            let cell = Cell {
                rank,
                fraction: 0.6,
                method: Method::Nuclear,
            };
            complete(&cell, 1).unwrap().metrics["error"]
        };
        assert!(error(2) < 1e-4 && error(10) > 1e-2);
    }

    #[test]
    fn settings_are_read_back() {
        assert_eq!(place(&setting(7, 0.3, Some((1.0, 10.0)))), Some((7, 0.3)));
        assert_eq!(setting(7, 0.3, Some((1.0, 1.0))), "k=7;observed=0.3");
    }
}
