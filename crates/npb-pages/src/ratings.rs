//! A matrix most of whose entries are missing.

use std::collections::BTreeSet;

use npb_bsvd::{BsvdConfig, BsvdFit, Cells, Evaluation, Likelihood, Prediction};
use npb_data::{Rating, Ratings};
use npb_report::{Bars, Layer, Panel, Point, Shape, TextTable, colours, picture};

use crate::bins::{Kind, by_tenths, histogram, largest};
use crate::ends::{Loadings, MOST_DIRECTIONS};
use crate::page::Section;
use crate::sampling::some;
use crate::scalars;
use crate::shared::{number, percent};
use crate::{Context, Page, Result, shared};

/// Entries that the fit is tried on, and cells without an entry that are looked at.
const MOST_CELLS: usize = 10_000;
const OPEN_CELLS: usize = 3_000;
/// Singular values that are drawn, and cells that are named.
const MOST_VALUES: usize = 20;
const NAMED: usize = 10;
/// Share of the posterior in intervals.
const LEVEL: f64 = 0.9;
/// Standard errors, and a difference, from which a share is another one.
const FAR: f64 = 3.0;
const MUCH: f64 = 0.02;

/// Entries that are known beside those of the fit.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Name of their file.
    pub file: String,
    /// Where they are, and their values.
    pub cells: Cells,
    /// How many more the file has whose row or column the fit does not know.
    pub unknown: usize,
}

/// The page of a fit, with entries to try it on if there are some.
///
/// # Errors
/// Entries that are not of the matrix of the fit; no stored draw.
pub fn page(fit: &BsvdFit, context: &Context<'_>, known: Option<&Known>) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(matrix(fit)?);
    let traces: Vec<_> = fit.traces().collect();
    let plan = &fit.config.sweeps;
    page.push(scalars::chains(&traces, plan, &["noise_sd"])?);
    page.push(rank(fit)?);
    page.push(factors(fit, context.seed)?);
    page.push(match known {
        Some(known) => held_out(fit, known, context.seed)?,
        None => shared::ask_for_rows("of known cells"),
    });
    page.push(sureness(fit, context.seed)?);
    page.push(shared::settings(&fit.config, &BsvdConfig::default())?);
    Ok(page)
}

fn name(names: &[String], k: usize) -> String {
    names.get(k).cloned().unwrap_or_else(|| k.to_string())
}

fn matrix(fit: &BsvdFit) -> Result<Section> {
    let mut section = Section::new("The matrix");
    let (n, m) = (fit.n_rows(), fit.n_cols());
    let counts: Vec<f64> = fit.row_counts().iter().map(|&n| f64::from(n)).collect();
    let entries: f64 = counts.iter().sum();
    section.say(format!(
        "{n} rows and {m} columns; {entries} entries are known, {} of the cells.",
        percent(entries / (n as f64 * m as f64))
    ));
    let empty = |counts: &[u32]| counts.iter().filter(|&&n| n == 0).count();
    let [rows, columns] = [fit.row_counts(), fit.column_counts()].map(empty);
    if rows + columns > 0 {
        section.warn(format!(
            "{rows} rows and {columns} columns have no entry: what is said of them is what is usual, or what their features say."
        ));
    }
    let of_columns: Vec<f64> = fit.column_counts().iter().map(|&n| f64::from(n)).collect();
    let kinds = [
        ("rows", colours::BLUE, &counts),
        ("columns", colours::ORANGE, &of_columns),
    ];
    let kinds = kinds.map(|(name, colour, values)| Kind {
        name,
        colour,
        values,
    });
    let look = "Rows and columns at the left have few entries, so that little is known of them.";
    let words = ["entries", "Entries of a row, of a column", look];
    section.draw_any(histogram(words, "entries", &kinds)?);
    Ok(section)
}

/// Posterior of the rank, and how strong the factors are.
fn rank(fit: &BsvdFit) -> Result<Section> {
    let mut section = Section::new("How many factors?");
    let Ok(shares) = fit.rank_distribution() else {
        section.warn("The fit was stopped before a draw was kept: nothing is known of the rank.");
        return Ok(section);
    };
    let best = largest(&shares, 1)[0];
    section.say(format!(
        "Most often {best} factors are in use ({} of the draws).",
        percent(shares[best])
    ));
    if fit.is_at_limit() {
        section.warn(
            "In some draws all factors are in use that may be: allow more by max_candidates.",
        );
    }
    let first = shares.iter().position(|&p| p > 0.0).unwrap_or(0);
    let bars = shares.iter().enumerate().skip(first);
    let bars = Bars {
        bars: bars.map(|(rank, &p)| [rank as f64, p]).collect(),
        sds: Vec::new(),
        width: 0.8,
        shift: 0.0,
    };
    let layer = Layer::new("share of the draws", colours::BLUE, Shape::Bars(bars));
    let window = (first as f64 - 2.0, shares.len() as f64 + 1.0);
    let mut panel = Panel::of_lines("", ["factors in use", "share of the draws"], [layer]);
    panel.x = Some(window);
    let look = "One high bar: the data settle how many factors there are; many low ones: they do not, or the chain moves slowly.";
    section.draw(picture("rank", "Posterior of the rank", look, &[panel])?);
    let values = fit.singular_values(LEVEL)?;
    let point = |(k, value): (usize, &npb_bsvd::Summary)| Point {
        x: (k + 1) as f64,
        y: value.mean,
        sd: Some(value.sd),
    };
    if !values.is_empty() {
        let points = values.iter().take(MOST_VALUES).enumerate().map(point);
        let layer = Layer {
            colour: Some(colours::BLUE),
            ..Layer::line("mean, one standard deviation", points)
        };
        let panel = Panel::of_lines("", ["factor", "singular value"], [layer]);
        let look =
            "Where the curve bends: factors before it carry most of what rows and columns share.";
        section.draw(picture(
            "strength",
            "How strong the factors are",
            look,
            &[panel],
        )?);
    }
    Ok(section)
}

fn factors(fit: &BsvdFit, seed: u64) -> Result<Section> {
    let mut section = Section::new("What the factors are");
    let found = fit.components(MOST_DIRECTIONS)?;
    let n = found.strengths.len();
    if n == 0 {
        section.say("No factor is in use: rows and columns differ by their averages alone.");
        return Ok(section);
    }
    let row_name = |i: usize| name(fit.row_names(), i);
    let column_name = |j: usize| name(fit.column_names(), j);
    let rows = Loadings {
        names: &row_name,
        n_directions: n,
        mean: &found.rows.mean,
        sd: &found.rows.sd,
    };
    let columns = Loadings {
        names: &column_name,
        mean: &found.columns.mean,
        sd: &found.columns.sd,
        ..rows
    };
    section.draw_any(columns.map("Columns")?);
    for (side, what, counts) in [
        (&rows, "rows", fit.row_counts()),
        (&columns, "columns", fit.column_counts()),
    ] {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        let little = sorted[sorted.len() / 4];
        let few = |k: usize| counts[k] <= little;
        section.draw_any(side.plane(what, &few, seed)?);
    }
    let line = |k: usize| {
        let strength = &found.strengths[k];
        let [high, low] = columns.ends(k);
        let [rows_high, rows_low] = rows.ends(k);
        let ends = [columns.named(&high), columns.named(&low)];
        let of_rows = [rows.named(&rows_high), rows.named(&rows_low)];
        [
            (k + 1).to_string(),
            number(strength.mean),
            number(strength.sd),
        ]
        .into_iter()
        .chain(ends)
        .chain(of_rows)
        .collect()
    };
    let header = [
        "factor",
        "strength",
        "sd",
        "columns, one end",
        "other end",
        "rows, one end",
        "other end",
    ];
    section.fold(TextTable::new(
        "Ends of the factors",
        &header,
        (0..n).map(line),
    ));
    Ok(section)
}

/// The entries of the fit as a pattern.
fn observed(fit: &BsvdFit) -> Result<Ratings> {
    let rows = (0..).zip(fit.observed());
    let entry = |(row, columns): (u32, &[u32])| -> Vec<Rating> {
        let of = |&column: &u32| Rating {
            row,
            column,
            value: 1.0,
        };
        columns.iter().map(of).collect()
    };
    let entries: Vec<Rating> = rows.flat_map(entry).collect();
    Ok(Ratings::new(fit.n_rows(), fit.n_cols(), &entries)?)
}

/// Which cells without an entry are said most surely, and which least.
fn sureness(fit: &BsvdFit, seed: u64) -> Result<Section> {
    let mut section = Section::new("Most and least sure cells");
    let open = Cells::unobserved(&observed(fit)?, OPEN_CELLS, seed);
    if open.is_empty() {
        section.say("Every cell has an entry.");
        return Ok(section);
    }
    let found = fit.predict_all(&open, LEVEL)?;
    let sds: Vec<f64> = found.iter().map(|p| p.sd).collect();
    let kind = Kind {
        name: "cells",
        colour: colours::BLUE,
        values: &sds,
    };
    let all = fit.n_rows() as f64 * fit.n_cols() as f64;
    let which = match open.len() < OPEN_CELLS {
        true => "all cells without an entry".to_owned(),
        false => format!("{OPEN_CELLS} cells without an entry, drawn from {all}"),
    };
    let look =
        format!("Of {which}: a long tail to the right are cells of which more should be asked.");
    let words = ["sd", "How unsure the noise-free values are", &look];
    section.draw_any(histogram(words, "standard deviation", &[kind])?);
    let counts = |n: usize| f64::from(fit.row_counts()[open.rows[n] as usize]);
    let pairs: Vec<(f64, f64)> = (0..open.len()).map(|n| (counts(n), sds[n])).collect();
    let layer = Layer {
        colour: Some(colours::BLUE),
        ..Layer::line("mean of a tenth of the cells", by_tenths(&pairs))
    };
    let labels = ["entries of the row", "standard deviation"];
    let panel = Panel::of_lines("", labels, [layer]);
    let look = "It should fall: the more entries a row has, the more is known of its other cells.";
    section.draw(picture(
        "sd-by-entries",
        "Sureness by the entries of a row",
        look,
        &[panel],
    )?);
    let negated: Vec<f64> = sds.iter().map(|sd| -sd).collect();
    for (title, order) in [("Most sure", &negated), ("Least sure", &sds)] {
        let cell = |n: usize| cell_row(fit, &open, n, &found[n]);
        let rows = largest(order, NAMED).into_iter().map(cell);
        let header = [
            "row",
            "column",
            "mean",
            "sd",
            "lower",
            "upper",
            "entries of the row",
        ];
        section.tabulate(TextTable::new(
            format!("{title} (intervals hold {LEVEL})"),
            &header,
            rows,
        ));
    }
    Ok(section)
}

fn cell_row(fit: &BsvdFit, cells: &Cells, n: usize, p: &Prediction) -> Vec<String> {
    let (i, j) = (cells.rows[n] as usize, cells.columns[n] as usize);
    let numbers = [p.mean, p.sd, p.interval.lower, p.interval.upper];
    [name(fit.row_names(), i), name(fit.column_names(), j)]
        .into_iter()
        .chain(numbers.map(number))
        .chain([fit.row_counts()[i].to_string()])
        .collect()
}

/// The cells that have no entry in the fit, and how many have one.
fn new_cells(fit: &BsvdFit, cells: &Cells) -> Result<(Vec<Rating>, usize)> {
    let at_fit = observed(fit)?;
    let mut seen = 0;
    let mut fresh = Vec::new();
    let mut places = BTreeSet::new();
    for ((&row, &column), &value) in cells.rows.iter().zip(&cells.columns).zip(&cells.values) {
        let inside = (row as usize) < fit.n_rows() && (column as usize) < fit.n_cols();
        if inside && at_fit.get(row as usize, column as usize).is_some() {
            seen += 1;
        } else if places.insert((row, column)) {
            fresh.push(Rating { row, column, value });
        }
    }
    Ok((fresh, seen))
}

fn held_out(fit: &BsvdFit, known: &Known, seed: u64) -> Result<Section> {
    let mut section = Section::new("Does it hold on held-out cells?");
    let (mut fresh, seen) = new_cells(fit, &known.cells)?;
    let (file, unknown) = (&known.file, known.unknown);
    let mut left_out = Vec::new();
    if seen > 0 {
        left_out.push(format!("{seen} are entries of the fit"));
    }
    if unknown > 0 {
        left_out.push(format!(
            "{unknown} are of rows or columns that the fit does not know"
        ));
    }
    if !left_out.is_empty() {
        section.warn(format!(
            "Cells of {file} are left out: {}.",
            left_out.join(", ")
        ));
    }
    if fit.config.likelihood == Likelihood::Binomial {
        section.say("Successes among trials are not judged: the file does not say how many trials there were.");
        return Ok(section);
    }
    if fresh.is_empty() {
        section.warn(format!(
            "{file} has no cell that the fit has not seen: nothing can be judged."
        ));
        return Ok(section);
    }
    let n = fresh.len();
    fresh = some(n, MOST_CELLS, seed)
        .into_iter()
        .map(|k| fresh[k])
        .collect();
    section.say(match fresh.len() < n {
        true => format!(
            "By {} of the {n} cells of {file}, drawn at random.",
            fresh.len()
        ),
        false => format!("By the {n} cells of {file}."),
    });
    let held_out = Ratings::new(fit.n_rows(), fit.n_cols(), &fresh)?;
    let scores = fit.evaluate(&held_out)?;
    let cells = Cells::of(&held_out);
    let found = fit.predict_all(&cells, LEVEL)?;
    judge(&mut section, &scores, &cells, &found)?;
    let pairs: Vec<(f64, f64)> = found.iter().map(|p| p.mean).zip(cells.values).collect();
    let points = by_tenths(&pairs);
    let ends = [points.first(), points.last()].into_iter().flatten();
    let ends: Vec<[f64; 2]> = ends.map(|point| [point.x, point.x]).collect();
    let of_cells = Layer {
        colour: Some(colours::BLUE),
        ..Layer::line("a tenth of the cells", points)
    };
    let ideal = Layer::new("as it should be", colours::GREY, Shape::Dashed(vec![ends]));
    let labels = ["predicted mean", "mean of the entries"];
    let panel = Panel::of_lines("", labels, [ideal, of_cells]);
    let look = "Points should lie on the dashed line within their bars (one standard error): then high predictions are as high as they say.";
    section.draw(picture("predicted", "Predicted and found", look, &[panel])?);
    Ok(section)
}

/// Errors, and shares of the entries within intervals.
fn judge(
    section: &mut Section,
    scores: &Evaluation,
    cells: &Cells,
    found: &[Prediction],
) -> Result<()> {
    let n = scores.entries as f64;
    let mean = cells.values.iter().sum::<f64>() / n;
    let squares: f64 = cells.values.iter().map(|y| (y - mean).powi(2)).sum();
    let sd = (squares / n).sqrt();
    if scores.rmse > sd {
        section.warn(format!(
            "The predictions are off by {} (root mean square), more than the mean of all these cells would be ({}).",
            number(scores.rmse),
            number(sd)
        ));
    }
    let levels: Vec<f64> = (1..=9).map(|k| f64::from(k) / 10.0).chain([0.95]).collect();
    let share = |&level: &f64| Ok(Point::at(level, scores.coverage(level)?));
    let points: Vec<Point> = levels.iter().map(share).collect::<Result<_>>()?;
    let at_level = scores.coverage(LEVEL)?;
    let error = (LEVEL * (1.0 - LEVEL) / n).sqrt();
    if (at_level - LEVEL).abs() > FAR * error + MUCH {
        section.warn(format!(
            "Intervals do not hold: those of {} have {} of the cells in them.",
            percent(LEVEL),
            percent(at_level)
        ));
    }
    let width = found
        .iter()
        .map(|p| p.predictive_interval.upper - p.predictive_interval.lower);
    let rows = [
        ("cells", n.to_string()),
        ("root mean squared error", number(scores.rmse)),
        ("the same by their mean alone", number(sd)),
        ("mean absolute error", number(scores.mae)),
        ("log density (nats)", number(scores.ln_density)),
        ("share within 90% intervals", percent(at_level)),
        ("mean width of these", number(width.sum::<f64>() / n)),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    section.tabulate(TextTable::new("Scores", &["", ""], rows));
    let of_cells = Layer {
        colour: Some(colours::BLUE),
        ..Layer::line("share of the cells", points)
    };
    let ideal = Shape::Dashed(vec![vec![[0.0, 0.0], [1.0, 1.0]]]);
    let ideal = Layer::new("as it should be", colours::GREY, ideal);
    let labels = ["level of the interval", "share within"];
    let panel = Panel::new("", labels, (0.0, 1.0), (0.0, 1.0), vec![ideal, of_cells]);
    let look = "The curve should lie on the dashed line: below it intervals are too narrow, above it too wide.";
    section.draw(picture(
        "coverage",
        "Do the intervals hold?",
        look,
        &[panel],
    )?);
    Ok(())
}
