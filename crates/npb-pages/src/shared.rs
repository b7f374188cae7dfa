//! What pages of all kinds share: what went in, settings, the bound or the chains, the map of holes.

use npb_data::schema::Role;
use npb_data::{Mask, MixedTable, PatternIndex};
use npb_infer::diagnostics::{ChainDiagnostics, MOST_RHAT};
use npb_infer::{Stop, SweepPlan, Trace, VbReport};
pub use npb_report::isolated;
use npb_report::{HeatMap, Layer, Panel, Point, Shape, TextTable, colours, heat_map, picture};
use serde::Serialize;
use toml::Value;

use crate::Result;
use crate::context::{Context, Rows};
use crate::page::{Page, Section, cut_to};

/// R-hat below this: chains have met, by Vehtari and others (2021).
pub const GOOD_RHAT: f64 = 1.01;
/// Quantiles of so few independent draws say little.
pub const FEW_DRAWS: f64 = 100.0;
/// Points of a curve.
const MOST_POINTS: usize = 300;
/// Scalars that are drawn, and missing patterns.
const MOST_SCALARS: usize = 6;
const MOST_PATTERNS: usize = 24;
const MOST_COLUMNS: usize = 60;

/// A number for people; a dash for what is none.
pub fn number(value: impl Into<Option<f64>>) -> String {
    match value.into() {
        Some(value) if value.is_finite() => npb_report::short(value),
        Some(value) if value == f64::INFINITY => "∞".to_owned(),
        Some(value) if value == f64::NEG_INFINITY => "-∞".to_owned(),
        _ => "–".to_owned(),
    }
}

/// A share for people.
pub fn percent(share: f64) -> String {
    match share.is_finite() {
        true => format!("{:.1}%", 100.0 * share),
        false => "–".to_owned(),
    }
}

/// Says that not all are shown, where it is so.
pub(crate) fn first_of(shown: usize, all: usize, what: &str) -> String {
    match shown < all {
        true => format!(" (the first {shown} of {all} {what})"),
        false => String::new(),
    }
}

/// A name in a picture or a sentence.
pub fn short_name(name: &str) -> String {
    isolated(&cut_to(name, 28))
}

/// A page with what went in.
pub fn begin(context: &Context<'_>) -> Page {
    let mut page = Page::new(format!("{}: {}", context.name, context.kind));
    page.push(went_in(context));
    page
}

fn went_in(context: &Context<'_>) -> Section {
    let mut section = Section::new("What went in");
    let rows = context.n_rows.map(|n| format!("{n} rows"));
    let columns = context
        .schema
        .map(|schema| format!("{} columns", schema.columns.len()));
    let data: Vec<String> = [rows, columns].into_iter().flatten().collect();
    let all = [
        data.join(" and "),
        context.file.as_deref().map_or(String::new(), isolated),
    ];
    let all: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|words| !words.is_empty())
        .collect();
    let words = match all.is_empty() {
        true => String::new(),
        false => format!(", fitted to {}", all.join(" of ")),
    };
    section.say(format!("A model of kind {}{words}.", context.kind));
    let Some(schema) = context.schema else {
        return section;
    };
    let left_out = context.with_role(Role::Ignored);
    if !left_out.is_empty() {
        section.warn(left_out_words("not used", &left_out));
    }
    let has_reasons = context.reasons.len() == schema.columns.len();
    let rows = schema.columns.iter().enumerate().map(|(k, column)| {
        let levels = column.levels.as_ref().map_or(String::new(), |levels| {
            let some = levels.iter().take(6).map(|level| cut_to(level, 24));
            let more = if levels.len() > 6 { ", …" } else { "" };
            format!(
                "{}: {}{more}",
                levels.len(),
                some.collect::<Vec<_>>().join(", ")
            )
        });
        let mut row = vec![
            column.name.clone(),
            column.kind.name().to_owned(),
            column.role.name().to_owned(),
            levels,
        ];
        row.extend(has_reasons.then(|| context.reasons[k].clone()));
        row
    });
    let mut header = vec!["column", "kind", "role", "levels"];
    header.extend(has_reasons.then_some("why"));
    section.fold(TextTable::new("The columns", &header, rows));
    section
}

/// Says which columns do not count.
pub fn left_out_words(how: &str, names: &[&str]) -> String {
    let some: Vec<String> = (names.iter().take(8))
        .map(|name| isolated(&cut_to(name, 40)))
        .collect();
    let more = match names.len() {
        0..=8 => String::new(),
        n => format!(" and {} more", n - 8),
    };
    let columns = if names.len() == 1 {
        "column is"
    } else {
        "columns are"
    };
    format!(
        "{} {columns} {how}: {}{more}.",
        names.len(),
        some.join(", ")
    )
}

/// The settings, with the default of those that were set otherwise.
///
/// # Errors
/// Settings that TOML cannot hold.
pub fn settings<C: Serialize>(config: &C, default: &C) -> Result<Section> {
    let flat = |config: &C| -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        flatten("", &Value::try_from(config)?, &mut found);
        Ok(found)
    };
    let (own, usual) = (flat(config)?, flat(default)?);
    let is_usual = |key: &str, value: &str| usual.iter().any(|(k, v)| k == key && v == value);
    let before = |key: &str| {
        let found = usual.iter().find(|(k, _)| k == key);
        found.map_or("not set".to_owned(), |(_, value)| value.clone())
    };
    let mut section = Section::new("Settings");
    let changed: Vec<Vec<String>> = own
        .iter()
        .filter(|(key, value)| !is_usual(key, value))
        .map(|(key, value)| vec![key.clone(), value.clone(), before(key)])
        .collect();
    if changed.is_empty() {
        section.say("All settings have their defaults.");
    } else {
        let header = ["setting", "value", "default"];
        section.tabulate(TextTable::new(
            "Set otherwise than by default",
            &header,
            changed,
        ));
    }
    let rows = own.into_iter().map(|(key, value)| vec![key, value]);
    section.fold(TextTable::new("All settings", &["setting", "value"], rows));
    Ok(section)
}

fn flatten(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let path = match path.is_empty() {
                    true => key.clone(),
                    false => format!("{path}.{key}"),
                };
                flatten(&path, value, found);
            }
        }
        Value::Float(x) if !x.is_finite() => found.push((path.to_owned(), number(*x))),
        other => found.push((path.to_owned(), other.to_string())),
    }
}

/// Each so many-th point of a curve, the last among them.
fn thinned(n: usize) -> impl Iterator<Item = usize> {
    let step = n.div_ceil(MOST_POINTS).max(1);
    (0..n).filter(move |k| k % step == 0 || k + 1 == n)
}

/// The bound by iteration, and whether it has settled.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn bound(trace: &[VbReport], stop: Stop, setting: &str) -> Result<Section> {
    let mut section = Section::new("Has it settled?");
    let Some(last) = trace.last() else {
        return Ok(section);
    };
    match stop {
        Stop::Converged { .. } | Stop::Completed => {
            section.say(format!("Yes, after {} iterations.", last.iteration));
        }
        Stop::MaxIterations => section.warn(format!(
            "The bound was still changing after {} iterations: allow more by {setting}.",
            last.iteration
        )),
        Stop::Cancelled => section.warn(format!(
            "The fit was stopped after {} iterations, before the bound had settled.",
            last.iteration
        )),
    }
    let points: Vec<Point> = thinned(trace.len())
        .map(|k| Point::at(trace[k].iteration as f64, trace[k].elbo))
        .filter(|point| point.y.is_finite())
        .collect();
    if points.len() > 1 {
        // The first steps are so much lower that the others would be one line.
        let mut heights: Vec<f64> = points.iter().map(|point| point.y).collect();
        heights.sort_by(f64::total_cmp);
        let (low, high) = (heights[heights.len() / 10], heights[heights.len() - 1]);
        let margin = f64::max(0.05 * (high - low), 1e-6 * high.abs().max(1.0));
        let mut panel = Panel::of_lines(
            "Bound by iteration",
            ["iteration", "bound (nats)"],
            [Layer {
                colour: Some(colours::BLUE),
                ..Layer::line("bound", points)
            }],
        );
        panel.y = Some((low - margin, high + margin));
        let look = "It should be flat at its end; a step near the end says that more iterations would have helped.";
        section.draw(picture("bound", "The bound", look, &[panel])?);
    }
    let change = number(Some(last.rel_change).filter(|change| change.is_finite()));
    section.say(format!(
        "At its end the bound is {} nats; its last relative change was {change}.",
        number(last.elbo)
    ));
    Ok(section)
}

/// R-hat and effective sample sizes of chains, with their traces.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn chains(
    found: &[(String, ChainDiagnostics)],
    traces: &[&Trace],
    plan: &SweepPlan,
) -> Result<Section> {
    let mut section = Section::new("Have the chains met?");
    warn_of_chains(&mut section, found, traces.len());
    for (k, (name, _)) in found.iter().enumerate().take(MOST_SCALARS) {
        let curve = |(chain, trace): (usize, &&Trace)| {
            let values: Vec<f64> = trace.column(k).collect();
            let points = thinned(values.len()).map(|t| Point::at((t + 1) as f64, values[t]));
            let points: Vec<Point> = points.filter(|point| point.y.is_finite()).collect();
            Layer::line(format!("chain {}", chain + 1), points)
        };
        let mut layers: Vec<Layer> = traces.iter().enumerate().map(curve).collect();
        layers.retain(|layer| matches!(&layer.shape, Shape::Line(points) if !points.is_empty()));
        if layers.is_empty() {
            continue;
        }
        let name = short_name(name);
        let panel = Panel::of_lines(name.as_str(), ["sweep", ""], layers);
        let look = format!(
            "After sweep {}, where draws begin to be kept, all chains should move about one level, without a drift.",
            plan.burn_in
        );
        section.draw(picture(
            &format!("trace-{k}"),
            &format!("Trace of {name}"),
            &look,
            &[panel],
        )?);
    }
    let rows = found.iter().map(|(name, d)| {
        let numbers = [d.mean, d.sd, d.rhat, d.ess_bulk, d.ess_tail];
        std::iter::once(name.clone())
            .chain(numbers.map(number))
            .collect()
    });
    let header = [
        "scalar",
        "mean",
        "sd",
        "R-hat",
        "effective draws",
        "of the tails",
    ];
    section.tabulate(TextTable::new("Diagnostics", &header, rows));
    Ok(section)
}

fn warn_of_chains(section: &mut Section, found: &[(String, ChainDiagnostics)], n_chains: usize) {
    let worst = |of: fn(&ChainDiagnostics) -> Option<f64>, larger: bool| {
        let known = found.iter().filter_map(|(name, d)| Some((of(d)?, name)));
        let sign = if larger { 1.0 } else { -1.0 };
        known.max_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0)))
    };
    if n_chains == 1 {
        section.say("There is one chain: its halves are compared, which cannot tell that it has not seen all.");
    }
    match worst(|d| d.rhat, true) {
        None => section.say("R-hat is not known: too few draws, or all alike."),
        Some((rhat, name)) if rhat > MOST_RHAT => section.warn(format!(
            "The chains have not met: R-hat of {name} is {}, above {MOST_RHAT}; longer chains (sweeps.burn_in, sweeps.thin) help.",
            number(rhat)
        )),
        Some((rhat, name)) if rhat > GOOD_RHAT => section.warn(format!(
            "The chains may not quite have met: R-hat of {name} is {}, above {GOOD_RHAT}.",
            number(rhat)
        )),
        Some(_) => section.say(format!("The chains have met: no R-hat is above {GOOD_RHAT}.")),
    }
    let fewest = |d: &ChainDiagnostics| match (d.ess_bulk, d.ess_tail) {
        (Some(bulk), Some(tail)) => Some(bulk.min(tail)),
        (bulk, tail) => bulk.or(tail),
    };
    if let Some((ess, name)) = worst(fewest, false).filter(|(ess, _)| *ess < FEW_DRAWS) {
        section.warn(format!(
            "Few effective draws: all draws of {name} are worth {ess:.0} independent ones; intervals are rough below {FEW_DRAWS}."
        ));
    }
}

/// What a file of rows would add.
pub fn ask_for_rows(with: &str) -> Section {
    let mut section = Section::new("Does it hold?");
    section.say(format!(
        "Give a file of rows {with}, best such as the fit has not seen, and this page shows how the model does on them."
    ));
    section
}

/// The holes of rows, as a map of missing patterns.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn holes(rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Holes");
    let (n, p) = (rows.n_rows(), rows.features.n_cols());
    let missing = rows.features.n_missing();
    if n == 0 || p == 0 {
        return Ok(section);
    }
    if missing == 0 {
        section.say(format!(
            "No cell of the {n} rows of {} is missing.",
            rows.file
        ));
        return Ok(section);
    }
    section.say(format!(
        "{missing} of the {} cells of {} are missing ({}).",
        n * p,
        rows.file,
        percent(missing as f64 / (n * p) as f64)
    ));
    section.draw(pattern_map(&rows.features)?);
    Ok(section)
}

fn pattern_map(features: &MixedTable) -> Result<npb_report::Figure> {
    let (n, p) = (features.n_rows(), features.n_cols());
    let observed = Mask::from_fn(n, p, |i, j| features.is_observed(i, j))?;
    let index = PatternIndex::new(&observed);
    let mut patterns: Vec<_> = index.iter().collect();
    // The most frequent first; of equals the first in the file.
    patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.rows.len()));
    let n_patterns = patterns.len();
    patterns.truncate(MOST_PATTERNS);
    let counts: Vec<usize> = (0..p).map(|j| features.column(j).n_missing()).collect();
    let mut columns: Vec<usize> = (0..p).collect();
    if p > MOST_COLUMNS {
        columns.sort_by_key(|&j| std::cmp::Reverse(counts[j]));
        columns.truncate(MOST_COLUMNS);
        columns.sort_unstable();
    }
    let share = |count: usize| count as f64 / n as f64;
    let mut values: Vec<f64> = columns.iter().map(|&j| share(counts[j])).collect();
    let mut names = vec!["missing in all".to_owned()];
    for pattern in patterns {
        names.push(format!(
            "{} rows ({})",
            pattern.rows.len(),
            percent(share(pattern.rows.len()))
        ));
        let is_missing = |j: &usize| f64::from(u8::from(pattern.missing.contains(j)));
        values.extend(columns.iter().map(is_missing));
    }
    let map = HeatMap {
        rows: names,
        columns: columns
            .iter()
            .map(|&j| features.column_names()[j].clone())
            .collect(),
        values,
        range: (0.0, 1.0),
        marked: Vec::new(),
    };
    let of_columns = match p > MOST_COLUMNS {
        true => format!(" ({MOST_COLUMNS} of {p} columns, those with most holes)"),
        false => String::new(),
    };
    let look = format!(
        "Columns that are coloured in one line are missing together, which may say why; the first line is the share of rows, the others the most frequent of {n_patterns} patterns{of_columns}."
    );
    Ok(heat_map(
        "holes",
        "Which cells are missing together",
        &look,
        &map,
    )?)
}
