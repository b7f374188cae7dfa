//! Classes of rows with their probabilities: labels of a fit, and columns of a table.

use std::path::Path;

use npb_data::schema::SchemaData;
use npb_data::{Labels, Table};
use npb_infer::Interval;

use crate::args::Training;
use crate::failure::{Failure, Result, in_file};
use crate::input::{self, Roles, numbers};
use crate::model::Origin;
use crate::sheet::{Cell, Sheet, Type};

/// With more classes than this that are numbers, a label is no class.
const MANY_NUMBERS: usize = 50;

/// The file of a fit of classes: features as numbers, and the classes of the rows.
pub(super) struct Labelled {
    pub(super) data: SchemaData,
    pub(super) origin: Origin,
    pub(super) table: Table,
    pub(super) labels: Labels,
}

impl Labelled {
    /// Reads it; one column must be the label, by the options or the schema.
    pub(super) fn read(from: &Training, roles: Roles<'_>, quiet: bool) -> Result<Self> {
        let file = &from.file;
        let (data, origin) = input::training(from, roles, quiet)?;
        if data.labels.n_cols() != 1 {
            return Err(Failure::usage(format_args!(
                "{}: name the column to be predicted by --label, or give one column the role \"label\" in the schema",
                file.display()
            )));
        }
        let labels = data.labels.labels(0).map_err(in_file(file))?;
        check_classes(&labels, file)?;
        Ok(Self {
            table: numbers(&data, file, quiet)?,
            data,
            origin,
            labels,
        })
    }
}

/// The most probable class of each row, the probabilities of all, and intervals of them if there are any.
pub(crate) fn push_classes(
    sheet: &mut Sheet,
    classes: &[String],
    probabilities: &[Vec<f64>],
    intervals: &[Vec<Interval>],
) {
    let best = |row: &Vec<f64>| {
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)));
        Cell::from(best.map(|k| classes[k].as_str()))
    };
    sheet.push_column("class", Type::Text, probabilities.iter().map(best));
    for (k, class) in classes.iter().enumerate() {
        // A row without an answer has none of these.
        let column = probabilities
            .iter()
            .map(|row| Cell::from(row.get(k).copied()));
        sheet.push_column(format!("P({class})"), Type::Number, column);
        if !intervals.is_empty() {
            let lower = intervals
                .iter()
                .map(|row| Cell::from(row.get(k).map(|end| end.lower)));
            sheet.push_column(format!("lower({class})"), Type::Number, lower);
            let upper = intervals
                .iter()
                .map(|row| Cell::from(row.get(k).map(|end| end.upper)));
            sheet.push_column(format!("upper({class})"), Type::Number, upper);
        }
    }
}

/// Refuses a label that is a measurement.
fn check_classes(labels: &Labels, file: &Path) -> Result<()> {
    let classes = labels.classes();
    let numbers: Option<Vec<f64>> = classes.iter().map(|name| name.parse().ok()).collect();
    let Some(numbers) = numbers else {
        return Ok(());
    };
    let n_rows = labels.codes().iter().flatten().count();
    let fractions = numbers.iter().any(|value| value.fract() != 0.0);
    let many = numbers.len() > MANY_NUMBERS || (fractions && 2 * numbers.len() > n_rows.max(4));
    match many {
        false => Ok(()),
        true => Err(in_file(file)(format_args!(
            "the label has {} different numbers, from {} to {}; a classifier predicts classes: cut it into some, or fill it as a column of numbers (npb fit table, npb impute)",
            numbers.len(),
            numbers.iter().copied().fold(f64::INFINITY, f64::min),
            numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ))),
    }
}
