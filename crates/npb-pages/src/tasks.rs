//! Classes in many tasks that share what they can.

use npb_data::{Labels, Table};
use npb_iqgme::{MultiTaskFit, TasksConfig};
use npb_report::{HeatMap, TextTable, heat_map};

use crate::classes::{Judged, known};
use crate::classifier::columns_that_matter;
use crate::numbers::{self, Cluster, Numbers};
use crate::page::Section;
use crate::sampling::{side_by_side, some_rows};
use crate::shared::{first_of, number, percent, short_name};
use crate::{Context, Page, Result, Rows, shared};

/// Tasks in the picture.
const MOST_TASKS: usize = 60;

/// The page of a fit, with rows of its tasks to try it on if there are some.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &MultiTaskFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let columns = (fit.column_names(), &fit.ignored_columns()[..]);
    let settled = (fit.trace(), fit.stop());
    let mut page = numbers::begin(context, columns, settled, "single.limits.max_iterations")?;
    page.push(alike(fit)?);
    match rows {
        Some(rows) => {
            page.push(held_out(fit, context, rows)?);
            page.push(clusters(fit)?);
            page.push(shared::holes(rows)?);
        }
        None => {
            page.push(shared::ask_for_rows("with tasks and labels"));
            page.push(clusters(fit)?);
        }
    }
    page.push(shared::settings(fit.config(), &TasksConfig::default())?);
    Ok(page)
}

/// Which tasks go by the same rules.
fn alike(fit: &MultiTaskFit) -> Result<Section> {
    let mut section = Section::new("Which tasks are alike");
    let tasks = fit.tasks();
    let n = tasks.len().min(MOST_TASKS);
    let similarity = fit.similarity();
    let all: Vec<f64> = (0..n * n).map(|k| similarity[(k / n, k % n)]).collect();
    if n < 2 || !all.iter().all(|value| value.is_finite()) {
        return Ok(section);
    }
    let order = side_by_side(n, &all);
    let names: Vec<String> = order.iter().map(|&k| short_name(&tasks[k])).collect();
    let map = HeatMap {
        values: order
            .iter()
            .flat_map(|&a| order.iter().map(move |&b| (a, b)))
            .map(|(a, b)| all[a * n + b])
            .collect(),
        rows: names.clone(),
        columns: names,
        range: (0.0, 1.0),
        marked: Vec::new(),
    };
    let first = first_of(n, tasks.len(), "tasks");
    let look = format!(
        "Blocks of strong colour are tasks that share clusters and so learn from each other{first}; a pale line is a task by itself."
    );
    section.draw(heat_map(
        "similarity",
        "Similarity of the tasks",
        &look,
        &map,
    )?);
    Ok(section)
}

fn clusters(fit: &MultiTaskFit) -> Result<Section> {
    let mut section = Section::new("Clusters that tasks share");
    let mut found = fit.atoms();
    found.retain(|atom| atom.local_components > 0.5);
    found.sort_by(|a, b| b.size.total_cmp(&a.size));
    let cluster = |(k, atom): (usize, npb_iqgme::AtomSummary)| Cluster {
        name: format!("{}: {:.1} rows", k + 1, atom.size),
        weight: atom.size,
        variance: (0..atom.mean.len())
            .map(|j| atom.covariance[(j, j)])
            .collect(),
        mean: atom.mean,
    };
    let clusters: Vec<Cluster> = found.into_iter().enumerate().map(cluster).collect();
    let names = fit
        .model_columns()
        .iter()
        .map(|&j| fit.column_names()[j].clone());
    numbers::draw_clusters(&mut section, &clusters, &names.collect::<Vec<_>>())?;
    Ok(section)
}

/// Probabilities of all classes, each row by its task.
fn by_task(fit: &MultiTaskFit, tasks: &[String], table: &Table) -> Result<Vec<Vec<f64>>> {
    let mut found = vec![Vec::new(); table.n_rows()];
    for task in fit.tasks() {
        let own: Vec<usize> = (0..tasks.len())
            .filter(|&row| tasks[row] == *task)
            .collect();
        if own.is_empty() {
            continue;
        }
        let answers = fit.predict_classes(task, &table.select_rows(&own))?;
        for (row, answer) in own.into_iter().zip(answers) {
            found[row] = answer;
        }
    }
    Ok(found)
}

/// The rows of known tasks and classes.
fn asked(section: &mut Section, fit: &MultiTaskFit, rows: &Rows, labels: &Labels) -> Vec<usize> {
    let (labelled, other) = known(labels, fit.classes());
    if other > 0 {
        section.warn(format!(
            "{other} rows are of a class that the fit has not seen, and are left out here."
        ));
    }
    let is_known = |row: &usize| {
        let task = rows.parts.as_ref().and_then(|parts| parts[*row].as_ref());
        task.is_some_and(|task| fit.tasks().contains(task))
    };
    let n = labelled.len();
    let of: Vec<usize> = labelled
        .into_iter()
        .map(|(row, _)| row)
        .filter(is_known)
        .collect();
    if of.len() < n {
        section.warn(format!(
            "{} rows are of no task of the fit, and are left out here.",
            n - of.len()
        ));
    }
    of
}

fn held_out(fit: &MultiTaskFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Do its probabilities hold?");
    let Some(labels) = &rows.labels else {
        section.say(format!("{} has no labels: they would show it.", rows.file));
        return Ok(section);
    };
    let of = asked(&mut section, fit, rows, labels);
    if of.is_empty() {
        section.say(format!(
            "No row of {} has a task and a label of the fit.",
            rows.file
        ));
        return Ok(section);
    }
    let numbers = Numbers::of(context, &rows.features);
    let some = some_rows(&rows.select(&of), 4 * numbers.most_rows(), context.seed);
    let tasks_of = |rows: &Rows| -> Vec<String> {
        let parts = rows.parts.iter().flatten();
        parts.map(|part| part.clone().unwrap_or_default()).collect()
    };
    let tasks = tasks_of(&some);
    let labels = some.labels.as_ref().unwrap_or(labels);
    let (_, truth): (Vec<usize>, Vec<usize>) = known(labels, fit.classes()).0.into_iter().unzip();
    section.say(rows.held_out());
    let judged = Judged {
        classes: fit.classes(),
        truth,
        probabilities: by_task(fit, &tasks, &numbers.table(&some.features)?)?,
    };
    judged.write(&mut section)?;
    columns_that_matter(
        &mut section,
        &numbers,
        &some,
        &judged,
        context.seed,
        |table, chosen| {
            let own: Vec<String> = chosen.iter().map(|&row| tasks[row].clone()).collect();
            by_task(fit, &own, table)
        },
    )?;
    section.tabulate(scores(fit, &tasks, &judged));
    Ok(section)
}

/// The tasks one by one.
fn scores(fit: &MultiTaskFit, tasks: &[String], judged: &Judged<'_>) -> TextTable {
    let ln_scores = judged.ln_scores();
    let right = judged.right();
    let row = |task: &String| {
        let own: Vec<usize> = (0..tasks.len())
            .filter(|&row| tasks[row] == *task)
            .collect();
        let n = own.len() as f64;
        let share = own.iter().filter(|&&row| right[row]).count() as f64 / n;
        let loss = -own.iter().map(|&row| ln_scores[row]).sum::<f64>() / n;
        (!own.is_empty()).then(|| {
            vec![
                task.clone(),
                own.len().to_string(),
                percent(share),
                number(loss),
            ]
        })
    };
    let header = ["task", "rows", "right", "log loss (nats)"];
    TextTable::new("Task by task", &header, fit.tasks().iter().filter_map(row))
}
