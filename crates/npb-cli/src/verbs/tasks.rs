//! Classes in many tasks that share what they can.

use std::collections::BTreeMap;
use std::path::Path;

use npb_data::schema::{Design, SchemaData};
use npb_data::{Labels, Table};
use npb_iqgme::{IqgmeError, MultiTaskFit, ProbabilityInterval, Saved, Task, TasksConfig};

use super::classes::{DRAWS, check_classes, push_classes};
use crate::args::{ModelKind, PredictArgs, Rule, TasksArgs};
use crate::failure::{Failure, Result};
use crate::input::{self, note, numbers};
use crate::job::Job;
use crate::keep::{keep, of_bound};
use crate::model::ModelFile;
use crate::output;
use crate::settings;
use crate::sheet::{Cell, Sheet};

/// The rows of each task, or group.
pub(super) fn rows_by_part(
    data: &SchemaData,
    file: &Path,
    part: &str,
) -> Result<BTreeMap<String, Vec<usize>>> {
    let groups = data.groups.as_ref().ok_or_else(|| {
        Failure::bad_data(format_args!(
            "{}: has no column that says to which {part} a row belongs",
            file.display()
        ))
    })?;
    let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (row, task) in groups.iter().enumerate() {
        let task = task.clone().ok_or_else(|| {
            let (file, row) = (file.display(), row + 1);
            Failure::bad_data(format_args!("{file}: row {row}: the {part} is missing"))
        })?;
        rows.entry(task).or_default().push(row);
    }
    Ok(rows)
}

pub(crate) fn fit(args: &TasksArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: TasksConfig = args.settings.read(ModelKind::Tasks)?;
    config.validate().map_err(Failure::usage)?;
    let file = &args.training.file;
    let (data, origin) = input::training(
        &args.training,
        args.label.as_deref(),
        Some(&args.task),
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
    check_classes(&labels, file)?;
    let table = numbers(&data, file, quiet)?;
    let parts: Vec<_> = rows_by_part(&data, file, "task")?
        .into_iter()
        .map(|(name, rows)| (name, table.select_rows(&rows), labels.select_rows(&rows)))
        .collect();
    let tasks: Vec<Task<'_>> = parts
        .iter()
        .map(|(name, table, labels)| Task {
            name,
            table,
            labels,
        })
        .collect();
    let fit = run(&tasks, &config, &job).map_err(|e| in_file(&e))?;
    job.finished()?;
    let bytes = fit.to_bytes().map_err(Failure::failed)?;
    let mut model = ModelFile::new(
        ModelKind::Tasks.name(),
        &data.schema,
        settings::text(&config)?,
        file,
        bytes,
    );
    (model.n_rows, model.origin) = (data.n_rows as u64, origin);
    let what = format!(
        "{} rows, {} tasks, classes {}",
        data.n_rows,
        fit.tasks().len(),
        fit.classes().join(", ")
    );
    keep(
        &job,
        &model,
        &what,
        &of_bound(fit.stop(), "single.limits.max_iterations"),
    )
}

fn run(
    tasks: &[Task<'_>],
    config: &TasksConfig,
    job: &Job<'_>,
) -> std::result::Result<MultiTaskFit, IqgmeError> {
    // As in `fit classifier`: without a handler the fit cannot be stopped.
    let _ = job.listen();
    npb_iqgme::fit_tasks_watched(tasks, config, &job.watch())
}

pub(crate) fn load(model: &ModelFile, path: &Path) -> Result<MultiTaskFit> {
    model.fit(path)
}

/// Classes of new rows, each by its task.
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
    let in_file = |e: IqgmeError| Failure::bad_data(format_args!("{}: {e}", args.file.display()));
    let (tasks, unknown) = rows_by_part(&data, &args.file, "task")?
        .into_iter()
        .partition::<BTreeMap<_, _>, _>(|(task, _)| fit.tasks().contains(task));
    let mut answers = Answers {
        level,
        probabilities: vec![Vec::new(); data.n_rows],
        intervals: vec![Vec::new(); if level.is_some() { data.n_rows } else { 0 }],
    };
    for (task, rows) in &tasks {
        answers.ask(&fit, task, rows, &table).map_err(in_file)?;
    }
    if args.new_tasks {
        let labels = labels_of(&data, fit.classes());
        for (task, rows) in &unknown {
            let new = Task {
                name: task,
                table: &table.select_rows(rows),
                labels: &labels.select_rows(rows),
            };
            let fit = fit.with_task(&new).map_err(in_file)?;
            answers.ask(&fit, task, rows, &table).map_err(in_file)?;
        }
    } else {
        no_answers(&unknown, args, quiet)?;
    }
    let (probabilities, intervals) = (answers.probabilities, answers.intervals);
    let mut sheet = Sheet::of_rows(&data.schema, data.row_ids.as_ref(), data.n_rows);
    push_classes(&mut sheet, fit.classes(), &probabilities, &intervals);
    output::sheet(&sheet, &args.out)
}

/// What is found for each row.
struct Answers {
    level: Option<f64>,
    probabilities: Vec<Vec<f64>>,
    intervals: Vec<Vec<ProbabilityInterval>>,
}

impl Answers {
    /// Of the rows of a task.
    fn ask(
        &mut self,
        fit: &MultiTaskFit,
        task: &str,
        rows: &[usize],
        table: &Table,
    ) -> std::result::Result<(), IqgmeError> {
        let part: Table = table.select_rows(rows);
        for (&row, found) in rows.iter().zip(fit.predict_classes(task, &part)?) {
            self.probabilities[row] = found;
        }
        if let Some(level) = self.level {
            let found = fit.predict_class_intervals(task, &part, level, DRAWS)?;
            for (&row, found) in rows.iter().zip(found) {
                self.intervals[row] = found;
            }
        }
        Ok(())
    }
}

/// Rows of tasks that were not in training stay empty, with a word.
pub(super) fn no_answers(
    unknown: &BTreeMap<String, Vec<usize>>,
    args: &PredictArgs,
    quiet: bool,
) -> Result<()> {
    let Some(first) = unknown.keys().next() else {
        return Ok(());
    };
    let n: usize = unknown.values().map(Vec::len).sum();
    let others = match unknown.len() - 1 {
        0 => "was".to_owned(),
        others => format!("and {others} others were"),
    };
    let what = format!(
        "{}: no answer for {n} rows, as {first:?} {others} not in training; --new-tasks gives one",
        args.file.display()
    );
    match args.rules.unseen_levels {
        Rule::Error => Err(Failure::bad_data(what)),
        Rule::Missing => {
            note(quiet, what);
            Ok(())
        }
    }
}

/// The labels of a file, in the classes of a fit.
pub(super) fn labels_of(data: &SchemaData, classes: &[String]) -> Labels {
    let none = vec![None; data.n_rows];
    let own = (data.labels.n_cols() > 0)
        .then(|| data.labels.labels(0).ok())
        .flatten();
    let texts: Vec<Option<&str>> = match &own {
        None => none,
        Some(own) => {
            let name = |code: &Option<usize>| code.map(|code| own.classes()[code].as_str());
            let known = |name: &&str| classes.iter().any(|class| class == name);
            own.codes()
                .iter()
                .map(|code| name(code).filter(known))
                .collect()
        }
    };
    Labels::with_classes(classes.to_vec(), &texts).unwrap_or_else(|_| Labels::from_strings(&texts))
}

/// How alike the tasks are.
pub(crate) fn similarity(model: &ModelFile, path: &Path) -> Result<Sheet> {
    let fit = load(model, path)?;
    let alike = fit.similarity();
    let names = std::iter::once("task").chain(fit.tasks().iter().map(String::as_str));
    let mut sheet = Sheet::new(&names.collect::<Vec<_>>());
    for (i, task) in fit.tasks().iter().enumerate() {
        let row = (0..fit.tasks().len()).map(|j| Cell::Number(alike[(i, j)]));
        sheet.push_row(std::iter::once(Cell::Text(task.clone())).chain(row));
    }
    Ok(sheet)
}
