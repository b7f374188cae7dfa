//! Two classes in many groups, each of which may have few rows.

use std::path::Path;

use npb_data::{Labels, Table};
use npb_hbrec::{ActiveUser, GroupedConfig, GroupedFit, HbrecError, TaskAtom, fit_groups_watched};
use npb_infer::Interval;

use super::classes::Labelled;
use super::parts::{self, Found, Parts, rows_by_part};
use crate::args::{GroupedArgs, ModelKind, PredictArgs};
use crate::failure::{Failure, Result, in_file};
use crate::fitting::Fitting;
use crate::input::{Roles, note_of};
use crate::keep::of_bound;
use crate::model::ModelFile;
use crate::sheet::{Cell, Sheet};

/// Values of a label that an error shows.
const SHOWN: usize = 5;

pub(crate) fn fit(args: &GroupedArgs, quiet: bool) -> Result<()> {
    let file = &args.training.file;
    let fitting: Fitting<'_, GroupedConfig> =
        Fitting::new(ModelKind::Grouped, file, &args.how, quiet)?;
    fitting.config.validate().map_err(Failure::usage)?;
    let roles = Roles {
        label: args.label.as_deref(),
        group: Some(&args.group),
    };
    let read = Labelled::read(&args.training, roles, quiet)?;
    check(&read, file)?;
    // Every row has a group: that is checked here.
    rows_by_part(&read.data, (file, 0), GroupedFit::PART)?;
    let groups = read.data.groups.as_deref().unwrap_or_default();
    let (labelled, n_without) = labelled(&read.labels);
    if n_without > 0 {
        let text = format_args!("{n_without} rows without a label are left out");
        note_of(quiet, file, text);
    }
    let groups = Labels::from_strings(groups).select_rows(&labelled);
    let (table, labels) = (
        read.table.select_rows(&labelled),
        read.labels.select_rows(&labelled),
    );
    let fit = fitting.run(file, |watch| {
        fit_groups_watched(&table, &labels, &groups, &fitting.config, watch)
    })?;
    let what = format!(
        "{} rows, {} groups, classes {}",
        labelled.len(),
        fit.groups().len(),
        fit.classes().join(", ")
    );
    let unmet = of_bound(fit.stop(), "limits.max_iterations");
    let model = fitting.model(&fit, &read.data.schema, (labelled.len(), read.origin))?;
    fitting.keep(&model, &what, &unmet)
}

/// The rows that have a label, and how many have none.
fn labelled(labels: &Labels) -> (Vec<usize>, usize) {
    let has = |&row: &usize| labels.codes()[row].is_some();
    let rows: Vec<usize> = (0..labels.n_rows()).filter(has).collect();
    let n_without = labels.n_rows() - rows.len();
    (rows, n_without)
}

/// Two classes, and no missing cell.
fn check(read: &Labelled, file: &Path) -> Result<()> {
    let classes = read.labels.classes();
    if classes.len() != 2 {
        let shown = &classes[..classes.len().min(SHOWN)];
        let more = if shown.len() < classes.len() {
            ", ..."
        } else {
            ""
        };
        return Err(in_file(file)(format_args!(
            "the label has {} values ({}{more}); models of kind grouped tell two classes apart (npb fit tasks: several)",
            classes.len(),
            shown.join(", ")
        )));
    }
    match read.table.n_missing() {
        0 => Ok(()),
        n_missing => Err(in_file(file)(format_args!(
            "{n_missing} cells are missing; models of kind grouped need them all: fill them by npb fit table and npb impute, or take npb fit tasks"
        ))),
    }
}

impl Parts for GroupedFit {
    type Error = HbrecError;

    const PART: &'static str = "group";

    fn parts(&self) -> &[String] {
        self.groups()
    }

    fn classes(&self) -> &[String] {
        self.classes()
    }

    fn known(
        &self,
        group: &str,
        rows: &Table,
        level: Option<f64>,
    ) -> std::result::Result<Found, HbrecError> {
        asked(self, self.group(group)?, rows, level)
    }

    fn new_part(
        &self,
        _group: &str,
        rows: &Table,
        labels: &Labels,
        level: Option<f64>,
    ) -> std::result::Result<Found, HbrecError> {
        let (labelled, _) = labelled(labels);
        let (own, of_own) = (rows.select_rows(&labelled), labels.select_rows(&labelled));
        asked(self, &self.fold_in(&own, &of_own)?, rows, level)
    }
}

/// Both classes of rows of a group, from the second.
fn asked(
    fit: &GroupedFit,
    group: &ActiveUser<TaskAtom>,
    rows: &Table,
    level: Option<f64>,
) -> std::result::Result<Found, HbrecError> {
    let second = fit.predict(group, rows)?;
    let ends = match level {
        Some(level) => fit.predict_interval(group, rows, level)?,
        None => Vec::new(),
    };
    let of_classes = |&second: &Interval| {
        let first = Interval {
            lower: 1.0 - second.upper,
            upper: 1.0 - second.lower,
            ..second
        };
        vec![first, second]
    };
    let intervals = ends.iter().map(of_classes).collect();
    Ok((
        second.iter().map(|&p| vec![1.0 - p, p]).collect(),
        intervals,
    ))
}

/// Classes of new rows, each by its group.
pub(crate) fn predict(
    args: &PredictArgs,
    model: &ModelFile,
    level: Option<f64>,
    quiet: bool,
) -> Result<()> {
    let fit: GroupedFit = model.fit()?;
    parts::predict(&fit, model, (args, level, quiet))
}

/// The groups, and how much each is its own: for `npb summary`.
pub(crate) fn groups(model: &ModelFile) -> Result<Sheet> {
    let fit: GroupedFit = model.fit()?;
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
