//! Models of many tasks or groups: rows by the part that they belong to, and classes of new rows part by part.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use npb_data::schema::SchemaData;
use npb_data::{Labels, Table};
use npb_infer::Interval;

use super::classes::push_classes;
use crate::args::{PredictArgs, Rule};
use crate::failure::{Result, in_file};
use crate::input::note;
use crate::model::ModelFile;
use crate::output::Answers;
use crate::rows::{self, Needs, NewRows};

/// The rows of each task, or group.
pub(super) type ByPart = BTreeMap<String, Vec<usize>>;

/// Probabilities of the classes of some rows, and intervals of these where they are asked for.
pub(super) type Found = (Vec<Vec<f64>>, Vec<Vec<Interval>>);

/// A fit that answers for each task or group by itself.
pub(super) trait Parts {
    type Error: Display;

    /// What a part is called.
    const PART: &'static str;

    /// Those of the training.
    fn parts(&self) -> &[String];

    fn classes(&self) -> &[String];

    /// Classes of rows of a part of the training.
    fn known(
        &self,
        part: &str,
        rows: &Table,
        level: Option<f64>,
    ) -> std::result::Result<Found, Self::Error>;

    /// Classes of the rows of a new part, by the labels that some of them may have.
    fn new_part(
        &self,
        part: &str,
        rows: &Table,
        labels: &Labels,
        level: Option<f64>,
    ) -> std::result::Result<Found, Self::Error>;
}

/// Of rows after `before` others of a file.
pub(super) fn rows_by_part(
    data: &SchemaData,
    (file, before): (&Path, usize),
    part: &str,
) -> Result<ByPart> {
    let groups = data.groups.as_ref().ok_or_else(|| {
        in_file(file)(format_args!(
            "has no column that says to which {part} a row belongs"
        ))
    })?;
    let mut rows = ByPart::new();
    for (row, task) in groups.iter().enumerate() {
        let number = before + row + 1;
        let missing = || in_file(file)(format_args!("row {number}: the {part} is missing"));
        let task = task.clone().ok_or_else(missing)?;
        rows.entry(task).or_default().push(row);
    }
    Ok(rows)
}

/// Classes of new rows, each by its task or group. Those of new ones are found by all their rows.
pub(super) fn predict<F: Parts>(
    fit: &F,
    model: &ModelFile,
    (args, level, quiet): (&PredictArgs, Option<f64>, bool),
) -> Result<()> {
    let needs = Needs {
        all_rows: args.new_tasks,
        ..Needs::default()
    };
    let mut without_answer = BTreeMap::new();
    let mut answers = Answers::open(&args.how.out)?;
    rows::each(model, (args.file(), &args.how), needs, quiet, |rows| {
        let (found, unknown) = found(fit, rows, (args.new_tasks, level))?;
        for (part, n_rows) in unknown {
            *without_answer.entry(part).or_insert(0) += n_rows;
        }
        let refused = args.how.rules.unseen_levels == Rule::Error && !without_answer.is_empty();
        // An error, as soon as all of them are counted.
        if !refused {
            let mut sheet = rows.sheet();
            push_classes(&mut sheet, fit.classes(), &found.0, &found.1);
            answers.push(sheet)?;
        }
        Ok(!answers.is_unread())
    })?;
    no_answers(&without_answer, args, quiet)?;
    answers.finish()
}

/// What is found of some rows, and how many of which parts have no answer.
fn found<F: Parts>(
    fit: &F,
    rows: &NewRows<'_>,
    (new_parts, level): (bool, Option<f64>),
) -> Result<(Found, BTreeMap<String, usize>)> {
    let (table, n_rows) = (rows.numbers()?, rows.data.n_rows);
    let parts = rows_by_part(&rows.data, (rows.file, rows.before), F::PART)?;
    let (known, unknown): (ByPart, ByPart) = parts
        .into_iter()
        .partition(|(part, _)| fit.parts().contains(part));
    let mut probabilities = vec![Vec::new(); n_rows];
    let mut intervals = vec![Vec::new(); if level.is_some() { n_rows } else { 0 }];
    let mut put = |places: &[usize], (found, ends): Found| {
        for (&row, found) in places.iter().zip(found) {
            probabilities[row] = found;
        }
        for (&row, ends) in places.iter().zip(ends) {
            intervals[row] = ends;
        }
    };
    for (part, places) in &known {
        let found = fit.known(part, &table.select_rows(places), level);
        put(places, found.map_err(rows.wrong())?);
    }
    if !new_parts {
        let unknown = unknown.into_iter();
        let unknown = unknown.map(|(part, places)| (part, places.len()));
        return Ok(((probabilities, intervals), unknown.collect()));
    }
    let labels = labels_of(&rows.data, fit.classes());
    for (part, places) in &unknown {
        let (own, of_own) = (table.select_rows(places), labels.select_rows(places));
        let found = fit.new_part(part, &own, &of_own, level);
        put(places, found.map_err(rows.wrong())?);
    }
    Ok(((probabilities, intervals), BTreeMap::new()))
}

/// Rows of parts that were not in training stay empty, with a word: so many of each.
fn no_answers(unknown: &BTreeMap<String, usize>, args: &PredictArgs, quiet: bool) -> Result<()> {
    let Some(first) = unknown.keys().next() else {
        return Ok(());
    };
    let n: usize = unknown.values().sum();
    let others = match unknown.len() - 1 {
        0 => "was".to_owned(),
        others => format!("and {others} others were"),
    };
    let what = in_file(args.file())(format_args!(
        "no answer for {n} rows, as {first:?} {others} not in training; --new-tasks gives one"
    ));
    match args.how.rules.unseen_levels {
        Rule::Error => Err(what),
        Rule::Missing => {
            note(quiet, what);
            Ok(())
        }
    }
}

/// The labels of a file, in the classes of a fit.
fn labels_of(data: &SchemaData, classes: &[String]) -> Labels {
    let none = vec![None; data.n_rows];
    let own = (data.labels.n_cols() > 0)
        .then(|| data.labels.labels(0).ok())
        .flatten();
    let texts: Vec<Option<&str>> = match &own {
        None => none,
        Some(own) => {
            let known = |name: &&str| classes.iter().any(|class| class == name);
            let names = (0..data.n_rows).map(|row| own.name(row).filter(known));
            names.collect()
        }
    };
    Labels::with_classes(classes.to_vec(), &texts).unwrap_or_else(|_| Labels::from_strings(&texts))
}
