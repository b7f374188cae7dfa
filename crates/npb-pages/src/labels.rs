//! Many labels at once.

use npb_data::metrics;
use npb_data::{MixedColumn, Table};
use npb_regbayes::labels::{Member, MemberReport};
use npb_regbayes::tasks::TaskScores;
use npb_regbayes::{FeatureReport, LabelsConfig, LabelsFit};
use npb_report::{HeatMap, Layer, Panel, Shape, TextTable, colours, heat_map, picture};

use crate::bins::{Kind, by_tenths, histogram, largest};
use crate::classes::Judged;
use crate::numbers::{self, Numbers};
use crate::page::Section;
use crate::sampling::some_rows;
use crate::shared::{number, percent};
use crate::{Context, Page, Result, Rows, shared};

/// Features, inputs and labels in pictures.
const MOST_FEATURES: usize = 20;
const MOST_LABELS: usize = 24;
/// Columns that are named of a feature.
const NAMED: usize = 6;
/// Rows that the fit is tried on.
const MOST_ROWS: usize = 2_000;

/// The page of a fit, with rows to try it on if there are some; their labels are told by name.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &LabelsFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let columns = fit.columns();
    let unused = [columns.constant(), columns.empty()].concat();
    let settled = (fit.trace(), fit.stop());
    let setting = "latent.limits.max_iterations";
    let mut page = numbers::begin(context, (columns.names(), &unused), settled, setting)?;
    page.push(members(fit));
    page.push(features(fit)?);
    page.push(inputs(fit)?);
    page.push(match rows {
        Some(rows) => held_out(fit, context, rows)?,
        None => shared::ask_for_rows("with columns of the labels"),
    });
    page.push(shared::settings(&fit.config, &LabelsConfig::default())?);
    Ok(page)
}

/// What scores are made of, and which labels they tell nothing of.
fn members(fit: &LabelsFit) -> Section {
    let mut section = Section::new("What the scores are made of");
    for note in fit.notes() {
        section.warn(note.to_string());
    }
    let row = |report: &MemberReport| {
        let member = match report.member {
            Member::Latent => "latent features".to_owned(),
            Member::Linear => "inputs".to_owned(),
            Member::Rbf { gamma } => format!("kernels, gamma {}", number(gamma)),
        };
        let of = if report.numbers { "numbers" } else { "labels" };
        let numbers = [report.cost, report.held_out_loss].map(number);
        let weight = percent(report.stacking_weight);
        [of.to_owned(), member]
            .into_iter()
            .chain(numbers)
            .chain([weight])
            .collect()
    };
    let used = fit
        .members()
        .iter()
        .filter(|report| report.stacking_weight > 0.0);
    match fit.members().is_empty() {
        true => section.say("Of the latent features alone; scores are margins."),
        false => {
            let header = ["of", "member", "C", "held-out loss", "weight"];
            let rows: Vec<Vec<String>> = used.map(row).collect();
            section.tabulate(TextTable::new(
                "Members that count, by what held-out rows say",
                &header,
                rows,
            ));
        }
    }
    section
}

/// A map whose colours turn at 0; nothing where all values are. The labels of the largest values are shown.
fn weights_map(
    [name, title, look]: [&str; 3],
    rows: &[String],
    labels: &[String],
    value: &dyn Fn(usize, usize) -> f64,
) -> Result<Option<npb_report::Figure>> {
    let size = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0_f64, |m, v| m.max(v.abs()));
    let of_label = |l: usize| size(&mut (0..rows.len()).map(|r| value(r, l)));
    let of_row = |r: usize| size(&mut (0..labels.len()).map(|l| value(r, l)));
    let sizes: Vec<f64> = (0..labels.len()).map(of_label).collect();
    let mut columns = largest(&sizes, MOST_LABELS);
    columns.sort_unstable();
    let shown = largest(
        &(0..rows.len()).map(of_row).collect::<Vec<_>>(),
        MOST_FEATURES,
    );
    let most = size(&mut sizes.iter().copied());
    if most == 0.0 || rows.is_empty() {
        return Ok(None);
    }
    let values = shown
        .iter()
        .flat_map(|&r| columns.iter().map(move |&l| value(r, l)));
    let map = HeatMap {
        rows: shown.iter().map(|&r| rows[r].clone()).collect(),
        columns: columns.iter().map(|&l| labels[l].clone()).collect(),
        values: values.collect(),
        range: (-most, most),
        marked: Vec::new(),
    };
    let mut part = String::new();
    if shown.len() < rows.len() || columns.len() < labels.len() {
        part = format!(" (the largest of {} by {})", rows.len(), labels.len());
    }
    Ok(Some(heat_map(
        name,
        title,
        &format!("{look}{part}."),
        &map,
    )?))
}

fn features(fit: &LabelsFit) -> Result<Section> {
    let mut section = Section::new("Latent features");
    let mut found = fit.features();
    found.retain(|feature| feature.expected_use >= 1.0);
    if found.is_empty() {
        section.say("No latent feature is in use.");
        return Ok(section);
    }
    let name = |feature: &FeatureReport| {
        let first = feature
            .columns
            .first()
            .map_or("", |(column, _)| column.as_str());
        format!("{}: {first}", feature.feature + 1)
    };
    let names: Vec<String> = found.iter().map(name).collect();
    let labels = fit.task_names();
    let drives = |feature: usize, label: usize| -> f64 {
        let own = found[feature]
            .drives
            .iter()
            .find(|(name, _)| *name == labels[label]);
        own.map_or(0.0, |(_, weight)| *weight)
    };
    let look = "Red: the feature speaks for the label, blue: against it; lines of one feature across many labels are what these share";
    let words = ["features", "Features by labels", look];
    match weights_map(words, &names, &labels, &drives)? {
        Some(figure) => section.draw(figure),
        None => section.say("The features carry nothing beside the inputs: they drive no label."),
    }
    let line = |feature: &FeatureReport| {
        let columns = feature.columns.iter().filter(|(_, p)| *p >= 0.5);
        let named: Vec<&str> = columns.take(NAMED).map(|(name, _)| name.as_str()).collect();
        vec![
            (feature.feature + 1).to_string(),
            number(feature.expected_use),
            named.join(", "),
        ]
    };
    let header = [
        "feature",
        "columns that it sums, expected",
        "the surest of them",
    ];
    section.fold(TextTable::new(
        "The features",
        &header,
        found.iter().map(line),
    ));
    Ok(section)
}

/// What each input by itself says of each label.
fn inputs(fit: &LabelsFit) -> Result<Section> {
    let mut section = Section::new("Inputs");
    let columns = fit.columns();
    let names: Vec<String> = columns
        .kept()
        .iter()
        .map(|&j| columns.names()[j].clone())
        .collect();
    let (weights, d) = (fit.input_weights(), names.len());
    let value = |input: usize, label: usize| weights.get(label * d + input).copied().unwrap_or(0.0);
    let look =
        "Red: more of the column speaks for the label, blue: against it, all in standard units";
    let words = ["inputs", "Inputs by labels", look];
    match weights_map(words, &names, &fit.task_names(), &value)? {
        Some(figure) => section.draw(figure),
        None => section.say("The inputs have no weights of their own: what scores take from them goes through kernels or features, of which there is no such picture."),
    }
    Ok(section)
}

/// A label with the rows where it is known.
struct OfLabel {
    name: String,
    scores: Vec<f64>,
    probabilities: Option<Vec<f64>>,
    said: Vec<bool>,
    is: Vec<bool>,
}

/// A number with the rows where it is known: predicted, and true.
struct OfNumber {
    name: String,
    pairs: Vec<(f64, f64)>,
}

fn targets(fit: &LabelsFit, table: &Table, rows: &Rows) -> Result<(Vec<OfLabel>, Vec<OfNumber>)> {
    let scores: TaskScores = fit.predict(table)?;
    let (mut labels, mut numbers) = (Vec::new(), Vec::new());
    for (m, name) in fit.task_names().into_iter().enumerate() {
        let Ok(column) = rows.targets.column_index(&name) else {
            continue;
        };
        let column = rows.targets.column(column);
        let known: Vec<usize> = (0..rows.n_rows())
            .filter(|&i| column.is_observed(i))
            .collect();
        match (scores.labels(m), column) {
            (Some(said), MixedColumn::Binary { values, .. }) => labels.push(OfLabel {
                name,
                scores: known.iter().map(|&i| scores.score(i, m)).collect(),
                probabilities: scores
                    .probabilities(m)
                    .map(|p| known.iter().map(|&i| p[i]).collect()),
                said: known.iter().map(|&i| said[i]).collect(),
                is: known.iter().filter_map(|&i| values[i]).collect(),
            }),
            (None, column) => {
                let pair = |&i: &usize| Some((scores.score(i, m), column.number(i)?));
                let pairs = known.iter().filter_map(pair).collect();
                numbers.push(OfNumber { name, pairs });
            }
            _ => {}
        }
    }
    labels.retain(|label| !label.is.is_empty());
    numbers.retain(|number| !number.pairs.is_empty());
    Ok((labels, numbers))
}

fn held_out(fit: &LabelsFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Does it hold on these rows?");
    let rows = some_rows(rows, MOST_ROWS, context.seed);
    let table = Numbers::of(context, &rows.features).table(&rows.features)?;
    let (labels, numbers) = targets(fit, &table, &rows)?;
    if labels.is_empty() && numbers.is_empty() {
        section.say(format!(
            "{} has no column of a label of the fit: it would show it.",
            rows.file
        ));
        return Ok(section);
    }
    section.say(rows.held_out());
    if !labels.is_empty() {
        judge_labels(&mut section, &labels)?;
    }
    judge_numbers(&mut section, &numbers)?;
    Ok(section)
}

/// All labels together, and one by one.
fn judge_labels(section: &mut Section, labels: &[OfLabel]) -> Result<()> {
    let all = |is: bool| {
        let pairs = labels
            .iter()
            .flat_map(|label| label.scores.iter().zip(&label.is));
        let own = pairs
            .filter(|(_, own)| **own == is)
            .map(|(score, _)| *score);
        own.collect::<Vec<f64>>()
    };
    let (yes, no) = (all(true), all(false));
    let kinds = [
        ("rows that have the label", colours::VERMILLION, &yes),
        ("rows that have it not", colours::BLUE, &no),
    ];
    let kinds = kinds.map(|(name, colour, values)| Kind {
        name,
        colour,
        values,
    });
    let calibrated = labels.iter().all(|label| label.probabilities.is_some());
    let axis = if calibrated { "log-odds" } else { "margin" };
    let look = "All labels together: the less the two overlap, the better labels are told; what lies about 0 is not sure.";
    let words = ["margins", "Scores of rows with a label and without", look];
    section.draw_any(histogram(words, axis, &kinds)?);
    if calibrated {
        let p = labels
            .iter()
            .flat_map(|label| label.probabilities.iter().flatten());
        let is = labels.iter().flat_map(|label| &label.is);
        let judged = Judged {
            classes: &["no", "yes"].map(str::to_owned),
            truth: is.map(|&is| usize::from(is)).collect(),
            probabilities: p.map(|&p| vec![1.0 - p, p]).collect(),
        };
        judged.write(section)?;
    }
    let row = |label: &OfLabel| -> Result<Vec<String>> {
        let n = label.is.len();
        let share = label.is.iter().filter(|is| **is).count() as f64 / n as f64;
        let auc = metrics::auc(&label.scores, &label.is).ok();
        let found = metrics::f1(&label.said, &label.is, 1)?;
        let right = metrics::accuracy(&label.said, &label.is)?;
        Ok(vec![
            label.name.clone(),
            n.to_string(),
            percent(share),
            percent(right),
            number(auc),
            number(found.micro),
        ])
    };
    let rows = labels.iter().map(row).collect::<Result<Vec<_>>>()?;
    let header = [
        "label",
        "rows",
        "share of yes",
        "right",
        "area under ROC",
        "F1",
    ];
    section.tabulate(TextTable::new("Label by label", &header, rows));
    Ok(())
}

fn judge_numbers(section: &mut Section, numbers: &[OfNumber]) -> Result<()> {
    let mut rows = Vec::new();
    for (k, target) in numbers.iter().enumerate() {
        let (found, truth): (Vec<f64>, Vec<f64>) = target.pairs.iter().copied().unzip();
        let mean = truth.iter().sum::<f64>() / truth.len() as f64;
        let own = metrics::rmse(&found, &truth)?;
        let usual = metrics::rmse(&vec![mean; truth.len()], &truth)?;
        if own > usual {
            section.warn(format!(
                "{}: the predictions are further off than the mean of these rows would be.",
                shared::short_name(&target.name)
            ));
        }
        let numbers = [own, usual].map(number);
        let name = [target.name.clone(), truth.len().to_string()];
        rows.push(name.into_iter().chain(numbers).collect());
        if k < NAMED {
            let points = by_tenths(&target.pairs);
            let ends: Vec<[f64; 2]> = points.iter().map(|p| [p.x, p.x]).collect();
            let ideal = Layer::new("as it should be", colours::GREY, Shape::Dashed(vec![ends]));
            let own = Layer {
                colour: Some(colours::BLUE),
                ..Layer::line("a tenth of the rows", points)
            };
            let panel = Panel::of_lines("", ["predicted", "mean of these"], [ideal, own]);
            let title = format!("{}, predicted and found", shared::short_name(&target.name));
            let look =
                "Points should lie on the dashed line within their bars (one standard error).";
            section.draw(picture(&format!("number-{k}"), &title, look, &[panel])?);
        }
    }
    if !rows.is_empty() {
        let header = [
            "number",
            "rows",
            "root mean squared error",
            "by the mean alone",
        ];
        section.tabulate(TextTable::new("Number by number", &header, rows));
    }
    Ok(())
}
