//! Classes in many tasks that share what they can.

use npb_data::{Labels, Table};
use npb_iqgme::{IqgmeError, MultiTaskFit, Task, TasksConfig};

use super::classes::Labelled;
use super::parts::{self, Found, Parts, rows_by_part};
use crate::args::{ModelKind, PredictArgs, TasksArgs};
use crate::failure::{Failure, Result};
use crate::fitting::Fitting;
use crate::input::Roles;
use crate::keep::of_bound;
use crate::model::ModelFile;
use crate::sheet::{Cell, Sheet};

pub(crate) fn fit(args: &TasksArgs, quiet: bool) -> Result<()> {
    let file = &args.training.file;
    let fitting: Fitting<'_, TasksConfig> = Fitting::new(ModelKind::Tasks, file, &args.how, quiet)?;
    fitting.config.validate().map_err(Failure::usage)?;
    let roles = Roles {
        label: args.label.as_deref(),
        group: Some(&args.task),
    };
    let read = Labelled::read(&args.training, roles, quiet)?;
    let (table, labels, n_rows) = (&read.table, &read.labels, read.data.n_rows);
    let parts: Vec<_> = rows_by_part(&read.data, (file, 0), MultiTaskFit::PART)?
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
    let fit = fitting.run(file, |watch| {
        npb_iqgme::fit_tasks_watched(&tasks, &fitting.config, watch)
    })?;
    let what = format!(
        "{n_rows} rows, {} tasks, classes {}",
        fit.tasks().len(),
        fit.classes().join(", ")
    );
    let unmet = of_bound(fit.stop(), "single.limits.max_iterations");
    let model = fitting.model(&fit, &read.data.schema, (n_rows, read.origin))?;
    fitting.keep(&model, &what, &unmet)
}

impl Parts for MultiTaskFit {
    type Error = IqgmeError;

    const PART: &'static str = "task";

    fn parts(&self) -> &[String] {
        self.tasks()
    }

    fn classes(&self) -> &[String] {
        self.classes()
    }

    fn known(
        &self,
        task: &str,
        rows: &Table,
        level: Option<f64>,
    ) -> std::result::Result<Found, IqgmeError> {
        let intervals = match level {
            Some(level) => self.predict_class_intervals(task, rows, level)?,
            None => Vec::new(),
        };
        Ok((self.predict_classes(task, rows)?, intervals))
    }

    fn new_part(
        &self,
        task: &str,
        rows: &Table,
        labels: &Labels,
        level: Option<f64>,
    ) -> std::result::Result<Found, IqgmeError> {
        let new = Task {
            name: task,
            table: rows,
            labels,
        };
        self.with_task(&new)?.known(task, rows, level)
    }
}

/// Classes of new rows, each by its task.
pub(crate) fn predict(
    args: &PredictArgs,
    model: &ModelFile,
    level: Option<f64>,
    quiet: bool,
) -> Result<()> {
    let fit: MultiTaskFit = model.fit()?;
    parts::predict(&fit, model, (args, level, quiet))
}

/// How alike the tasks are.
pub(crate) fn similarity(model: &ModelFile) -> Result<Sheet> {
    let fit: MultiTaskFit = model.fit()?;
    let alike = fit.similarity();
    let names = std::iter::once("task").chain(fit.tasks().iter().map(String::as_str));
    let mut sheet = Sheet::new(&names.collect::<Vec<_>>());
    for (i, task) in fit.tasks().iter().enumerate() {
        let row = (0..fit.tasks().len()).map(|j| Cell::Number(alike[(i, j)]));
        sheet.push_row(std::iter::once(Cell::Text(task.clone())).chain(row));
    }
    Ok(sheet)
}
