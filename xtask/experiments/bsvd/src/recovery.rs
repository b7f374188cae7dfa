//! Figures 5.2 and 5.3: how often a matrix of low rank is recovered exactly from part of its entries.

use npb_baselines::{NuclearNorm, NuclearNormConfig};
use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
use npb_infer::SweepPlan;

use super::fits::{OURS, config, global_mean, traced};
use super::generated::{LowRank, SIDE, degrees_of_freedom, observe};
use npb_kit::draw::{Cells as Grid, Layer, Panel, Shape, colours, picture};
use npb_kit::tables::{self, Target, find, header};
use npb_kit::{
    Context, Experiment, Figure, Outcome, Record, Report, Result, ResultRow, Scale, TextTable,
    Trial, short, summarise,
};

pub(super) const FIG_5_2: Experiment = Experiment {
    id: "bsvd/fig-5.2",
    what: "generated 50 x 50 matrices: share recovered to 1e-3 by rank and observed entries, beside nuclear-norm minimisation on the same matrices",
    paper: "a figure without printed numbers: recovery beyond nuclear-norm minimisation for ranks 5 to 15",
    data: &[],
    run: |context| run(context, &[(1.0, 1.0)], true),
};

pub(super) const FIG_5_3: Experiment = Experiment {
    id: "bsvd/fig-5.3",
    what: "generated 50 x 50 matrices: share recovered with priors of the rank (a, b) = (1, 10) and (10, 1)",
    paper: "figures without printed numbers: (1, 10) is good below rank 7, (10, 1) above rank 6",
    data: &[],
    run: |context| run(context, &[(1.0, 10.0), (10.0, 1.0)], false),
};

/// A matrix is recovered below this relative error.
const RECOVERED: f64 = 1e-3;
const NUCLEAR: &str = "nuclear-norm";
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
    let (ranks, fractions, trials): (Vec<usize>, Vec<f64>, u64) = match scale {
        Scale::Smoke => (vec![2], vec![0.6], 2),
        Scale::Quick => (RANKS.to_vec(), FRACTIONS.to_vec(), 10),
        Scale::Paper => (
            (1..=30).collect(),
            (1..=19).map(|k| f64::from(k) / 20.0).collect(),
            50,
        ),
    };
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
        sweeps: SweepPlan {
            burn_in: 600,
            keep: 200,
            thin: 1,
        },
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
                    format!("{OURS}/global-mean"),
                    Some((a, b)),
                    format!("{:?}", configured(a, b, 0)),
                ),
                Method::Nuclear => (
                    NUCLEAR.to_owned(),
                    None,
                    format!("{:?}", NuclearNormConfig::default()),
                ),
            };
            trials.extend((0..n).map(|trial| Trial {
                dataset: "simulated".to_owned(),
                setting: setting(rank, fraction, prior),
                method: name.clone(),
                trial,
                config: config.clone(),
                work: Cell {
                    rank,
                    fraction,
                    method,
                },
            }));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| complete(&trial.work, seed))?;
    let results = summarise(&records, |_, _, _, _| None);
    let mut report = Report {
        figures: vec![figure(&results, priors, nuclear)?],
        tables: priors
            .iter()
            .map(|&prior| rates(&results, &format!("{OURS}/global-mean"), Some(prior)))
            .collect(),
        notes: notes(),
        results,
    };
    if nuclear {
        report.tables.push(rates(&report.results, NUCLEAR, None));
        report.tables.push(against_nuclear(&records));
        let at = find(
            &report.results,
            &setting(10, 0.6, None),
            &format!("{OURS}/global-mean"),
            "recovered",
        );
        report.tables.push(tables::targets(&[Target::between(
            "share recovered at rank 10, 60% observed",
            at,
            0.9,
            1.0,
        )]));
    }
    Ok(report)
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

/// Share recovered, ranks by fractions.
fn rates(results: &[ResultRow], method: &str, prior: Option<(f64, f64)>) -> TextTable {
    let (mut ranks, mut fractions): (Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new());
    for row in results.iter().filter(|r| r.metric == "recovered") {
        if let Some((rank, fraction)) = place(&row.setting) {
            ranks.push(rank);
            fractions.push(fraction);
        }
    }
    ranks.sort_unstable();
    ranks.dedup();
    fractions.sort_by(f64::total_cmp);
    fractions.dedup();
    let line = |&rank: &usize| {
        let cell = |&f: &f64| {
            find(results, &setting(rank, f, prior), method, "recovered")
                .map_or(String::new(), |r| format!("{:.2}", r.mean))
        };
        std::iter::once(rank.to_string())
            .chain(fractions.iter().map(cell))
            .collect()
    };
    let columns: Vec<String> = fractions.iter().map(|f| format!("{f}")).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let prior = prior.map_or(String::new(), |(a, b)| format!(", a = {a}, b = {b}"));
    TextTable {
        title: format!("Share recovered by {method}{prior}: rank by observed fraction"),
        header: header(&[&["rank"], &columns[..]].concat()),
        rows: ranks.iter().map(line).collect(),
    }
}

/// Rank and observed fraction of a setting.
fn place(setting: &str) -> Option<(usize, f64)> {
    let value = |key: &str| setting.split(';').find_map(|part| part.strip_prefix(key));
    Some((
        value("k=")?.parse().ok()?,
        value("observed=")?.parse().ok()?,
    ))
}

/// McNemar's exact test on the same matrices, in every cell where the two differ.
fn against_nuclear(records: &[Record]) -> TextTable {
    let recovered = |method: &str| -> Vec<(&str, u64, bool)> {
        let of = records.iter().filter(|r| r.key.method == method);
        of.map(|r| {
            (
                r.key.setting.as_str(),
                r.key.trial,
                r.outcome.metrics["recovered"] == 1.0,
            )
        })
        .collect()
    };
    let (ours, theirs) = (
        recovered(&format!("{OURS}/global-mean")),
        recovered(NUCLEAR),
    );
    let mut rows = Vec::new();
    let (mut below, mut above) = (0, 0);
    for setting in tables::distinct(ours.iter().map(|o| o.0)) {
        let (mut better, mut worse) = (0, 0);
        for (_, trial, ours) in ours.iter().filter(|o| o.0 == setting) {
            match theirs.iter().find(|t| t.0 == setting && t.1 == *trial) {
                Some((.., theirs)) if *ours && !theirs => better += 1,
                Some((.., theirs)) if !ours && *theirs => worse += 1,
                _ => {}
            }
        }
        if better + worse == 0 {
            continue;
        }
        let p = sign_test(better, worse);
        let verdict = match (p < 0.01, better > worse) {
            (false, _) => "",
            (true, true) => "above",
            (true, false) => "below",
        };
        above += usize::from(verdict == "above");
        below += usize::from(verdict == "below");
        rows.push(vec![
            setting.to_owned(),
            better.to_string(),
            worse.to_string(),
            short(p),
            verdict.to_owned(),
        ]);
    }
    TextTable {
        title: format!(
            "Matrices that only one of the two recovers (p < 0.01: BSVD above in {above} cells, below in {below})"
        ),
        header: header(&[
            "cell",
            "only BSVD",
            "only nuclear norm",
            "two-sided p",
            "BSVD is",
        ]),
        rows,
    }
}

/// Two-sided p of a fair coin that falls `a` times one way and `b` times the other.
fn sign_test(a: usize, b: usize) -> f64 {
    let n = a + b;
    let mut mass = 0.5f64.powi(n as i32);
    let mut tail = 0.0;
    for k in 0..=a.min(b) {
        tail += mass;
        mass *= (n - k) as f64 / (k + 1) as f64;
    }
    (2.0 * tail).min(1.0)
}

/// Cells of the picture along each axis.
const GRID: usize = 36;

/// Recovery as in the thesis: observed fraction by degrees of freedom per entry, with trajectories of equal rank.
fn figure(results: &[ResultRow], priors: &[(f64, f64)], nuclear: bool) -> Result<Figure> {
    let ours = format!("{OURS}/global-mean");
    let mut panels: Vec<Panel> = priors
        .iter()
        .map(|&(a, b)| {
            panel(
                results,
                &ours,
                Some((a, b)),
                &format!("BSVD, a = {a}, b = {b}"),
            )
        })
        .collect();
    if nuclear {
        panels.insert(
            0,
            panel(results, NUCLEAR, None, "nuclear-norm minimisation"),
        );
    }
    let name = if nuclear { "fig-5.2" } else { "fig-5.3" };
    picture(
        name,
        "Share of matrices recovered",
        "Each point shows the nearest cell that was run. Dashed: equal ranks, from 1 below to the largest above.",
        &panels,
    )
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
    let ranks = tables::distinct(measured.iter().map(|m| m.3));
    let trajectory = |&rank: &usize| -> Vec<[f64; 2]> {
        let d = degrees_of_freedom(rank) as f64 / (SIDE * SIDE) as f64;
        (1..=100)
            .map(|k| f64::from(k) / 100.0)
            .map(|x| [x, d / x])
            .collect()
    };
    Panel {
        title: title.to_owned(),
        x_label: "observed entries m / I^2".to_owned(),
        y_label: "degrees of freedom d_r / m".to_owned(),
        x: (0.0, 1.0),
        y: (0.0, 1.0),
        layers: vec![
            Layer {
                name: "recovered: 0 to 1".to_owned(),
                colour: colours::BLUE,
                shape: Shape::Cells(Grid {
                    columns: GRID,
                    probabilities: grid.collect(),
                }),
            },
            Layer {
                name: "equal rank".to_owned(),
                colour: colours::GREEN,
                shape: Shape::Dashed(ranks.iter().map(trajectory).collect()),
            },
        ],
    }
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
    fn coins_are_judged_exactly() {
        assert!((sign_test(8, 0) - 2.0 / 256.0).abs() < 1e-12);
        assert!((sign_test(1, 3) - 10.0 / 16.0).abs() < 1e-12);
        assert_eq!(sign_test(2, 2), 1.0);
    }

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
