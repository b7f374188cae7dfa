//! Two classes in many groups, each of which may have few rows.

use std::path::Path;

use npb_data::schema::{Design, SchemaData};
use npb_data::{Labels, Table};
use npb_hbrec::{
    ActiveUser, GroupedConfig, GroupedFit, HbrecError, Saved, TaskAtom, fit_groups_watched,
};
use npb_infer::Interval;
use npb_iqgme::ProbabilityInterval;

use super::classes::{check_classes, push_classes};
use super::tasks::{labels_of, no_answers, rows_by_part};
use crate::args::{GroupedArgs, ModelKind, PredictArgs};
use crate::failure::{Failure, Result};
use crate::input::{self, note, numbers};
use crate::job::Job;
use crate::keep::{keep, of_bound};
use crate::model::ModelFile;
use crate::output;
use crate::settings;
use crate::sheet::{Cell, Sheet};

/// Values of a label that an error shows.
const SHOWN: usize = 5;

pub(crate) fn fit(args: &GroupedArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: GroupedConfig = args.settings.read(ModelKind::Grouped)?;
    config.validate().map_err(Failure::usage)?;
    let file = &args.training.file;
    let (data, origin) = input::training(
        &args.training,
        args.label.as_deref(),
        Some(&args.group),
        quiet,
    )?;
    if data.labels.n_cols() != 1 {
        return Err(Failure::usage(format_args!(
            "{}: name the column to be predicted by --label, or give one column the role \"label\" in the schema",
            file.display()
        )));
    }
    let in_file =
        |e: &dyn std::fmt::Display| Failure::bad_data(format_args!("{}: {e}", file.display()));
    let labels = data.labels.labels(0).map_err(|e| in_file(&e))?;
    let table = numbers(&data, file, quiet)?;
    check(&table, &labels, file)?;
    let groups = groups_of_rows(&data, file)?;
    let labelled: Vec<usize> = (0..data.n_rows)
        .filter(|&i| labels.codes()[i].is_some())
        .collect();
    if labelled.len() < data.n_rows {
        let n = data.n_rows - labelled.len();
        note(
            quiet,
            format_args!("{}: {n} rows without a label are left out", file.display()),
        );
    }
    let groups = Labels::from_strings(&groups).select_rows(&labelled);
    let (table, labels) = (table.select_rows(&labelled), labels.select_rows(&labelled));
    job.listen()?;
    let fit = fit_groups_watched(&table, &labels, &groups, &config, &job.watch());
    job.finished()?;
    let fit = fit.map_err(|e| in_file(&e))?;
    let bytes = fit.to_bytes().map_err(Failure::failed)?;
    let mut model = ModelFile::new(
        ModelKind::Grouped.name(),
        &data.schema,
        settings::text(&config)?,
        file,
        bytes,
    );
    (model.n_rows, model.origin) = (labelled.len() as u64, origin);
    let what = format!(
        "{} rows, {} groups, classes {}",
        labelled.len(),
        fit.groups().len(),
        fit.classes().join(", ")
    );
    keep(
        &job,
        &model,
        &what,
        &of_bound(&fit.stop(), "limits.max_iterations"),
    )
}

/// Two classes, and no missing cell.
fn check(table: &Table, labels: &Labels, file: &Path) -> Result<()> {
    check_classes(labels, file)?;
    let file = file.display();
    if labels.n_classes() != 2 {
        let classes = labels.classes();
        let shown = &classes[..classes.len().min(SHOWN)];
        let more = if shown.len() < classes.len() {
            ", ..."
        } else {
            ""
        };
        return Err(Failure::bad_data(format_args!(
            "{file}: the label has {} values ({}{more}); models of kind grouped tell two classes apart (npb fit tasks: several)",
            classes.len(),
            shown.join(", ")
        )));
    }
    let n_missing = table.n_missing();
    if n_missing > 0 {
        return Err(Failure::bad_data(format_args!(
            "{file}: {n_missing} cells are missing; models of kind grouped need them all: fill them by npb fit table and npb impute, or take npb fit tasks"
        )));
    }
    Ok(())
}

fn groups_of_rows(data: &SchemaData, file: &Path) -> Result<Vec<Option<String>>> {
    // Every row has one: that is checked here.
    rows_by_part(data, file, "group")?;
    Ok(data.groups.clone().unwrap_or_default())
}

fn load(model: &ModelFile, path: &Path) -> Result<GroupedFit> {
    model.fit(path)
}

/// Classes of new rows, each by its group.
pub(crate) fn predict(
    args: &PredictArgs,
    model: &ModelFile,
    level: Option<f64>,
    quiet: bool,
) -> Result<()> {
    let fit = load(model, &args.model)?;
    let schema = model.schema(&args.model)?;
    let data = input::like_training(
        &args.file,
        (&schema, &model.origin),
        &args.layout,
        args.rules,
        quiet,
    )?;
    let table = Design::new(&data.schema)
        .table(&data.features)
        .map_err(Failure::bad_data)?;
    let in_file = |e: HbrecError| Failure::bad_data(format_args!("{}: {e}", args.file.display()));
    let parts = rows_by_part(&data, &args.file, "group")?;
    let (known, unknown): (Vec<_>, Vec<_>) = parts
        .into_iter()
        .partition(|(group, _)| fit.groups().contains(group));
    let mut probabilities = vec![Vec::new(); data.n_rows];
    let mut intervals = vec![Vec::new(); if level.is_some() { data.n_rows } else { 0 }];
    let mut ask = |group: &ActiveUser<TaskAtom>, rows: &[usize]| {
        let part = table.select_rows(rows);
        for (&row, second) in rows.iter().zip(fit.predict(group, &part)?) {
            probabilities[row] = vec![1.0 - second, second];
        }
        if let Some(level) = level {
            let found = fit.predict_interval(group, &part, level)?;
            for (&row, Interval { lower, upper, .. }) in rows.iter().zip(found) {
                let of = |mean, lower, upper| ProbabilityInterval { mean, lower, upper };
                let mean = probabilities[row][1];
                let first = of(1.0 - mean, 1.0 - upper, 1.0 - lower);
                intervals[row] = vec![first, of(mean, lower, upper)];
            }
        }
        Ok(())
    };
    for (group, rows) in &known {
        ask(fit.group(group).map_err(in_file)?, rows).map_err(in_file)?;
    }
    if args.new_tasks {
        let labels = labels_of(&data, fit.classes());
        for (_, rows) in &unknown {
            let labelled = rows.iter().copied();
            let labelled: Vec<usize> = labelled
                .filter(|&row| labels.codes()[row].is_some())
                .collect();
            let (own, of_own) = (table.select_rows(&labelled), labels.select_rows(&labelled));
            let group = fit.fold_in(&own, &of_own).map_err(in_file)?;
            ask(&group, rows).map_err(in_file)?;
        }
    } else {
        no_answers(&unknown.into_iter().collect(), args, quiet)?;
    }
    let mut sheet = Sheet::of_rows(&data.schema, data.row_ids.as_ref(), data.n_rows);
    push_classes(&mut sheet, fit.classes(), &probabilities, &intervals);
    output::sheet(&sheet, &args.out)
}

/// The groups, and how much each is its own: for `npb summary`.
pub(crate) fn groups(model: &ModelFile, path: &Path) -> Result<Sheet> {
    let fit = load(model, path)?;
    let mut sheet = Sheet::new(&["group", "own_weight"]);
    for name in fit.groups() {
        let group = fit.group(name).map_err(Failure::failed)?;
        let all = group.own_weight + group.weights.iter().sum::<f64>();
        sheet.push_row([
            Cell::Text(name.clone()),
            Cell::Number(group.own_weight / all),
        ]);
    }
    Ok(sheet)
}
