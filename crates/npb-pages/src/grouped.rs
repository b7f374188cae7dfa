//! Two classes in many groups of few rows each.

use npb_hbrec::{ActiveUser, GaussianTask, GroupedConfig, GroupedFit, TaskAtom};
use npb_infer::Interval;
use npb_report::{HeatMap, NamedBar, TextTable, heat_map, named_bars};

use crate::bins::largest;
use crate::classes::{Judged, known};
use crate::numbers::{self, Numbers};
use crate::page::Section;
use crate::sampling::{side_by_side, some_rows};
use crate::shared::{first_of, number, percent, short_name};
use crate::{Context, Page, Result, Rows, shared};

/// Groups and columns in pictures.
const MOST_GROUPS: usize = 40;
const MOST_COLUMNS: usize = 24;
/// Rows that the fit is tried on, and rows that are named.
const MOST_ROWS: usize = 5_000;
const NAMED: usize = 8;
/// Share of the posterior in intervals.
const LEVEL: f64 = 0.9;

/// The page of a fit, with rows of its groups to try it on if there are some.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &GroupedFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let columns = (fit.column_names(), &[][..]);
    let settled = (fit.trace(), fit.stop());
    let mut page = numbers::begin(context, columns, settled, "limits.max_iterations")?;
    page.push(groups(fit)?);
    page.push(match rows {
        Some(rows) => held_out(fit, context, rows)?,
        None => shared::ask_for_rows("with groups and labels"),
    });
    page.push(shared::settings(fit.config(), &GroupedConfig::default())?);
    Ok(page)
}

/// Weight of the own model of a group.
fn own_share(group: &ActiveUser<TaskAtom>) -> f64 {
    group.own_weight / (group.own_weight + group.weights.iter().sum::<f64>())
}

/// Mean coefficients of a group: of its own model and of the others, by weight.
fn coefficients(fit: &GroupedFit, group: &ActiveUser<TaskAtom>) -> Vec<f64> {
    let all = fit.mixture().atoms().iter().zip(&group.weights);
    let all = all.chain([(&group.alone, &group.own_weight)]);
    let mut mean = vec![0.0; group.alone.coefficients.len()];
    let mut total = 0.0;
    for (atom, &weight) in all {
        total += weight;
        let sums = mean.iter_mut().zip(&atom.coefficients);
        sums.for_each(|(sum, x)| *sum += weight * x);
    }
    mean.iter().map(|sum| sum / total).collect()
}

/// What groups have in common, and what each has for itself.
fn groups(fit: &GroupedFit) -> Result<Section> {
    let mut section = Section::new("What groups share");
    if fit.base_draws().is_empty() {
        section.warn("The fit was stopped early: what groups have in common is taken for certain, and intervals are too narrow.");
    }
    let names = fit.groups();
    let all: Vec<&ActiveUser<TaskAtom>> = names
        .iter()
        .map(|name| fit.group(name))
        .collect::<std::result::Result<_, _>>()?;
    let own: Vec<f64> = all.iter().map(|group| own_share(group)).collect();
    let mean = own.iter().sum::<f64>() / own.len() as f64;
    section.say(format!(
        "{} groups. A group goes by its own rows and what is usual for {} on average, by other groups for the rest.",
        names.len(),
        percent(mean)
    ));
    let order = largest(&own, MOST_GROUPS);
    let first = first_of(order.len(), names.len(), "groups");
    let bar = |&k: &usize| NamedBar {
        name: names[k].clone(),
        value: own[k],
        sd: None,
    };
    let bars: Vec<NamedBar> = order.iter().map(bar).collect();
    let look = format!(
        "Groups with long bars are like no other{first}; those with short ones go by the rules of some other group."
    );
    section.draw(named_bars(
        "own",
        "How much each group goes by itself",
        &look,
        &bars,
        1.0,
    )?);
    section.draw(map(fit, &all)?);
    Ok(section)
}

/// Coefficients by group and column, groups that are alike side by side.
fn map(fit: &GroupedFit, all: &[&ActiveUser<TaskAtom>]) -> Result<npb_report::Figure> {
    let base = fit.mixture().model().prior().mean();
    let shown = all.len().min(MOST_GROUPS);
    let rows: Vec<Vec<f64>> = all[..shown]
        .iter()
        .map(|group| coefficients(fit, group))
        .collect();
    let size = |column: usize| {
        rows.iter()
            .chain([&base.to_vec()])
            .map(|row| row[column].abs())
            .sum::<f64>()
    };
    let sizes: Vec<f64> = (0..base.len()).map(size).collect();
    let mut columns = largest(&sizes, MOST_COLUMNS);
    columns.sort_unstable();
    let distance =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum() };
    let alike: Vec<f64> = (0..shown * shown)
        .map(|k| -distance(&rows[k / shown], &rows[k % shown]))
        .collect();
    let order = side_by_side(shown, &alike);
    let of_order = order.iter().map(|&k| rows[k].as_slice());
    let values: Vec<f64> = std::iter::once(base)
        .chain(of_order)
        .flat_map(|row| columns.iter().map(move |&column| row[column]))
        .collect();
    let most = values.iter().fold(1e-9_f64, |most, v| most.max(v.abs()));
    let name = |&column: &usize| match column {
        0 => "(intercept)".to_owned(),
        j => fit.column_names()[j - 1].clone(),
    };
    let map = HeatMap {
        rows: std::iter::once("usual".to_owned())
            .chain(order.iter().map(|&k| fit.groups()[k].clone()))
            .collect(),
        columns: columns.iter().map(name).collect(),
        values,
        range: (-most, most),
        marked: Vec::new(),
    };
    let mut part = first_of(shown, all.len(), "groups");
    if columns.len() < base.len() {
        part += &format!(" (the {} columns that say most)", columns.len());
    }
    let look = format!(
        "Weights for {} in standard units{part}: a column of one colour is what all groups agree on, blocks are groups of one kind.",
        short_name(&fit.classes()[1])
    );
    Ok(heat_map(
        "coefficients",
        "What speaks for the second class",
        &look,
        &map,
    )?)
}

/// The rows of a group, and what is said of them.
struct Asked {
    rows: Vec<usize>,
    probabilities: Vec<f64>,
    intervals: Vec<Interval>,
}

fn asked(fit: &GroupedFit, context: &Context<'_>, rows: &Rows) -> Result<Vec<Asked>> {
    let table = Numbers::of(context, &rows.features).table(&rows.features)?;
    let parts = rows.parts.as_deref().unwrap_or_default();
    let mut all = Vec::new();
    for name in fit.groups() {
        let of_group = |row: &usize| parts[*row].as_ref() == Some(name);
        let own: Vec<usize> = (0..parts.len()).filter(of_group).collect();
        if own.is_empty() {
            continue;
        }
        let (group, table) = (fit.group(name)?, table.select_rows(&own));
        all.push(Asked {
            probabilities: fit.predict(group, &table)?,
            intervals: fit.predict_interval(group, &table, LEVEL)?,
            rows: own,
        });
    }
    Ok(all)
}

/// The rows that can be judged: of known groups and classes, without holes.
fn judged_rows(section: &mut Section, fit: &GroupedFit, rows: &Rows) -> Vec<usize> {
    let Some(labels) = &rows.labels else {
        section.say(format!("{} has no labels: they would show it.", rows.file));
        return Vec::new();
    };
    let parts = rows.parts.as_deref().unwrap_or_default();
    let fits = |row: &usize| {
        let is_known = parts.get(*row).is_some_and(|part| {
            part.as_ref()
                .is_some_and(|part| fit.groups().contains(part))
        });
        is_known && (0..rows.features.n_cols()).all(|j| rows.features.is_observed(*row, j))
    };
    let (labelled, _) = known(labels, fit.classes());
    let of: Vec<usize> = labelled
        .into_iter()
        .map(|(row, _)| row)
        .filter(fits)
        .collect();
    if of.len() < rows.n_rows() {
        section.warn(format!(
            "{} of {} rows have no group or no class of the fit, or a missing cell, and are left out here.",
            rows.n_rows() - of.len(),
            rows.n_rows()
        ));
    }
    of
}

fn held_out(fit: &GroupedFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Do its probabilities hold?");
    let of = judged_rows(&mut section, fit, rows);
    if of.is_empty() {
        return Ok(section);
    }
    let rows = some_rows(&rows.select(&of), MOST_ROWS, context.seed);
    let Some(labels) = &rows.labels else {
        return Ok(section);
    };
    section.say(rows.held_out());
    let all = asked(fit, context, &rows)?;
    let mut second = vec![0.0; rows.n_rows()];
    let mut widths = second.clone();
    for group in &all {
        for (k, &row) in group.rows.iter().enumerate() {
            second[row] = group.probabilities[k];
            widths[row] = group.intervals[k].upper - group.intervals[k].lower;
        }
    }
    let judged = Judged {
        classes: fit.classes(),
        truth: known(labels, fit.classes())
            .0
            .into_iter()
            .map(|(_, class)| class)
            .collect(),
        probabilities: second.iter().map(|&p| vec![1.0 - p, p]).collect(),
    };
    judged.write(&mut section)?;
    let is_right = |row: usize| (second[row] > 0.5) == (judged.truth[row] == 1);
    let part = |row: usize| rows.parts.as_ref().and_then(|parts| parts[row].clone());
    let by_group = all.iter().map(|group| {
        let n = group.rows.len() as f64;
        let share = |is: &dyn Fn(usize) -> bool| {
            percent(group.rows.iter().filter(|row| is(**row)).count() as f64 / n)
        };
        let name = part(group.rows[0]).unwrap_or_default();
        let of_second = share(&|row| judged.truth[row] == 1);
        vec![
            name,
            group.rows.len().to_string(),
            of_second,
            share(&is_right),
        ]
    });
    let of_class = format!("share of {}", short_name(&fit.classes()[1]));
    let header = ["group", "rows", &of_class, "right"];
    section.tabulate(TextTable::new("Group by group", &header, by_group));
    let negated: Vec<f64> = widths.iter().map(|width| -width).collect();
    for (title, order) in [("Most sure rows", &negated), ("Least sure rows", &widths)] {
        let row = |row: usize| {
            let class = &fit.classes()[judged.truth[row]];
            let numbers = [number(second[row]), number(widths[row])];
            let names = [rows.name(row), part(row).unwrap_or_default(), class.clone()];
            names.into_iter().chain(numbers).collect()
        };
        let of_second = format!("P({})", short_name(&fit.classes()[1]));
        let header = [
            "row",
            "group",
            "class",
            &of_second,
            "width of the 90% interval",
        ];
        section.fold(TextTable::new(
            title,
            &header,
            largest(order, NAMED).into_iter().map(row),
        ));
    }
    Ok(section)
}
