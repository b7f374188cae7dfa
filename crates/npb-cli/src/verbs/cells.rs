//! Any question about the cells of a table, of a model of columns of mixed kinds: what columns are given others, which cells are odd, rows that the model makes up.

use std::collections::HashMap;

use npb_data::read::{ReadError, ReadingRules, Unexpected, raw_with_schema};
use npb_data::schema::{ColumnSchema, Kind, Role, Schema, SchemaData};
use npb_data::{RawColumn, RawTable};
use npb_itf::{CellSurprisal, ImputedCell, ItfError, ItfFit, ItfRows};

use crate::args::{PredictArgs, ScoreArgs, SimulateArgs};
use crate::failure::{Failure, Result};
use crate::input::{unreadable, without_options};
use crate::model::ModelFile;
use crate::output::{self, Answers};
use crate::rows::{self, Needs, NewRows};
use crate::sheet::{Cell, Sheet, Type};

/// Rows that are made at once.
const ROWS: usize = 1 << 12;

/// Rows of a file, new ones or those of the fit.
pub(super) fn read(fit: &ItfFit, rows: &NewRows<'_>, training: bool) -> Result<ItfRows> {
    let (table, fields) = (&rows.data.features, &rows.data.fields);
    let read = fit.field_rows(table, fields, training);
    read.map_err(in_words_of_the_file).map_err(rows.wrong())
}

/// Rows are counted from 1 in files.
pub(super) fn in_words_of_the_file(error: ItfError) -> ItfError {
    match error {
        ItfError::OtherRow { row } => ItfError::OtherRow { row: row + 1 },
        error => error,
    }
}

pub(super) fn score(args: &ScoreArgs, model: &ModelFile, quiet: bool) -> Result<()> {
    let fit: ItfFit = model.fit()?;
    if args.cells {
        let mut usual: Option<Vec<f64>> = None;
        return odd_cells(model, args, quiet, &mut |rows| {
            let asked = read(&fit, rows, args.training)?;
            let usual = match &mut usual {
                Some(usual) => usual,
                none => none.insert(fit.usual_surprisals(&asked).map_err(rows.wrong())?),
            };
            scored(&fit, rows, &asked, usual).map_err(rows.wrong())
        });
    }
    let asked = (args.file.as_path(), &args.how);
    rows::answer(model, asked, Needs::default(), quiet, |rows| {
        let densities = match rows.data.n_rows {
            0 => Vec::new(),
            _ => (fit.ln_density(&read(&fit, rows, false)?)).map_err(rows.wrong())?,
        };
        let mut sheet = rows.sheet();
        let densities = densities.into_iter().map(Cell::Number);
        sheet.push_column("ln_density", Type::Number, densities);
        Ok(sheet)
    })
}

/// What a model says of rows and of their known cells.
pub(super) struct Scored {
    pub(super) densities: Vec<f64>,
    pub(super) cells: Vec<ScoredCell>,
}

/// A known cell.
pub(super) struct ScoredCell {
    pub(super) row: usize,
    pub(super) column: String,
    /// Its place among the features; none for cells of several columns.
    pub(super) place: Option<usize>,
    pub(super) surprisal: f64,
    /// That of the column.
    pub(super) usual: f64,
}

/// A cell among the oddest.
struct Odd {
    /// What it is ordered by.
    by: f64,
    cells: [Cell; 6],
}

/// The oddest cells of a file; no more than are asked for are held beside the rows that are read.
pub(super) fn odd_cells(
    model: &ModelFile,
    args: &ScoreArgs,
    quiet: bool,
    score: &mut dyn FnMut(&NewRows<'_>) -> Result<Scored>,
) -> Result<()> {
    let mut answers = Answers::open(&args.how.out)?;
    let (mut oddest, mut sheet) = (Vec::new(), None);
    let needs = Needs {
        all_rows: args.training,
        written: true,
        ..Needs::default()
    };
    rows::each(model, (&args.file, &args.how), needs, quiet, |rows| {
        sheet.get_or_insert_with(|| head(rows));
        if rows.data.n_rows > 0 {
            oddest.extend(odd_of(rows, score(rows)?));
            // What stands first in the file is first among equals.
            oddest.sort_by(|a: &Odd, b: &Odd| b.by.total_cmp(&a.by));
            oddest.truncate(args.top.get());
        }
        Ok(true)
    })?;
    let mut sheet = sheet.unwrap_or_default();
    oddest.into_iter().for_each(|odd| sheet.push_row(odd.cells));
    answers.push(sheet)?;
    answers.finish()
}

/// The columns of the answer, without rows.
fn head(rows: &NewRows<'_>) -> Sheet {
    let mut sheet = rows.sheet().split_to(0);
    for (name, kind) in [
        ("column", Type::Text),
        ("value", Type::Text),
        ("surprisal", Type::Number),
        ("excess", Type::Number),
        ("ln_density", Type::Number),
    ] {
        sheet.push_column(name, kind, []);
    }
    sheet
}

fn odd_of(rows: &NewRows<'_>, scored: Scored) -> Vec<Odd> {
    let mut table = rows.sheet();
    let first = table.width();
    rows.push_completed(&rows.data.features, &mut table);
    let odd = |cell: ScoredCell| {
        let excess = Some(cell.surprisal - cell.usual).filter(|x| !x.is_nan());
        let value = cell
            .place
            .map(|at| table.cell(first + at, cell.row).clone());
        Odd {
            by: excess.unwrap_or(f64::NEG_INFINITY),
            cells: [
                table.cell(0, cell.row).clone(),
                Cell::Text(cell.column),
                value.unwrap_or(Cell::Missing),
                Cell::Number(cell.surprisal),
                Cell::from(excess),
                Cell::Number(scored.densities[cell.row]),
            ],
        }
    };
    scored.cells.into_iter().map(odd).collect()
}

fn scored(
    fit: &ItfFit,
    rows: &NewRows<'_>,
    asked: &ItfRows,
    usual: &[f64],
) -> std::result::Result<Scored, ItfError> {
    let cell = |cell: CellSurprisal| {
        let field = &rows.data.fields[cell.column];
        ScoredCell {
            row: cell.row,
            column: field.name.clone(),
            // Of a vector or curve there is no one value.
            place: Some(field.columns[0]).filter(|_| field.columns.len() == 1),
            surprisal: cell.surprisal,
            usual: usual[cell.column],
        }
    };
    let (cells, densities) = fit.surprisals_and_densities(asked)?;
    Ok(Scored {
        densities,
        cells: cells.into_iter().map(cell).collect(),
    })
}

pub(super) fn predict(
    args: &PredictArgs,
    model: &ModelFile,
    level: f64,
    quiet: bool,
) -> Result<()> {
    let fit: ItfFit = model.fit()?;
    let names: Vec<&str> = fit.columns().iter().map(|c| c.name.as_str()).collect();
    check_targets(args, &names)?;
    let targets: Vec<&str> = args.target.iter().map(String::as_str).collect();
    if args.given.is_empty() {
        let asked = (args.file(), &args.how);
        let needs = asked_for(&args.target);
        return rows::answer(model, asked, needs, quiet, |rows| {
            let mut sheet = rows.sheet();
            push_predicted(&mut sheet, &fit, &rows.data, (&targets, level))
                .map_err(rows.wrong())?;
            Ok(sheet)
        });
    }
    let data = given(&args.given, &model.schema()?)?;
    check_given(&data, &args.target)?;
    let mut sheet = Sheet::of_numbers(1..=1);
    push_predicted(&mut sheet, &fit, &data, (&targets, level)).map_err(Failure::usage)?;
    output::sheet(sheet, &args.how.out)
}

/// What a file need not have.
pub(super) fn asked_for(targets: &[String]) -> Needs<'_> {
    Needs {
        targets,
        ..Needs::default()
    }
}

/// Columns to predict must be there, each once.
pub(super) fn check_targets(args: &PredictArgs, names: &[&str]) -> Result<()> {
    let again = |(at, name): &(usize, &String)| args.target[..*at].contains(name);
    if let Some((_, name)) = args.target.iter().enumerate().find(again) {
        return Err(Failure::usage(format_args!(
            "--target: {name:?} twice; name each column once"
        )));
    }
    if args.target.is_empty() {
        return Err(Failure::usage(format_args!(
            "name the column to predict by --target; columns are {}",
            names.join(", ")
        )));
    }
    check_names("--target", &args.target, names)
}

/// What is to be predicted must not be given.
pub(super) fn check_given(data: &SchemaData, targets: &[String]) -> Result<()> {
    let fields = data
        .fields
        .iter()
        .filter(|field| targets.contains(&field.name));
    let mut given = fields
        .flat_map(|field| &field.columns)
        .filter(|&&at| data.features.is_observed(0, at));
    given.next().map_or(Ok(()), |&at| {
        let name = &data.features.column_names()[at];
        Err(Failure::usage(format_args!(
            "--given {name}=...: is what is to be predicted; leave it out"
        )))
    })
}

/// Refuses names that are no columns of the fit.
pub(super) fn check_columns(fit: &ItfFit, option: &str, wanted: &[String]) -> Result<()> {
    let names: Vec<&str> = fit.columns().iter().map(|c| c.name.as_str()).collect();
    check_names(option, wanted, &names)
}

fn check_names(option: &str, wanted: &[String], names: &[&str]) -> Result<()> {
    let unknown = wanted.iter().find(|name| !names.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| Err(no_column(option, name, names)))
}

fn no_column(option: &str, name: &str, names: &[&str]) -> Failure {
    Failure::usage(format_args!(
        "{option} {name}: there is no such column in the fit; columns are {}",
        names.join(", ")
    ))
}

/// Columns of expected values or most probable levels, intervals, probabilities of levels, and epistemic shares.
fn push_predicted(
    sheet: &mut Sheet,
    fit: &ItfFit,
    data: &SchemaData,
    (targets, level): (&[&str], f64),
) -> std::result::Result<(), ItfError> {
    let cells = match data.n_rows {
        0 => Vec::new(),
        _ => fit.predict_columns(&data.features, &data.fields, targets, level)?,
    };
    let features: Vec<&ColumnSchema> = data.schema.with_role(Role::Feature).collect();
    for target in targets {
        let j = fit.column_index(target)?;
        let own: Vec<&ImputedCell> = cells.iter().filter(|cell| cell.column == j).collect();
        let levels = &fit.columns()[j].levels;
        for (part, &at) in data.fields[j].columns.iter().enumerate() {
            push_part(sheet, features[at], levels, (part, &own));
        }
    }
    Ok(())
}

/// The answers about one column of the file, which is a part of cells.
fn push_part(
    sheet: &mut Sheet,
    feature: &ColumnSchema,
    levels: &[String],
    (part, cells): (usize, &[&ImputedCell]),
) {
    let name = &feature.name;
    let date = feature.date.as_ref().filter(|_| feature.kind == Kind::Date);
    let kind = match (levels.is_empty(), date) {
        (false, _) => Type::Text,
        (true, Some(_)) => Type::Time,
        (true, None) => Type::Number,
    };
    let told = |value: f64| match date {
        _ if !levels.is_empty() => Cell::from(levels.get(value as usize).map(String::as_str)),
        Some(scale) => scale
            .seconds(value)
            .map_or(Cell::Missing, |time| Cell::Time(time.round())),
        None => Cell::Number(value),
    };
    let n = levels.len().max(1);
    let expected = |cell: &ImputedCell, k: usize| cell.expected[part * n + k];
    let best = |cell: &&ImputedCell| match levels.len() {
        0 => told(expected(cell, 0)),
        // The first of equals.
        n => told(
            (0..n)
                .rev()
                .max_by(|&a, &b| expected(cell, a).total_cmp(&expected(cell, b)))
                .unwrap_or(0) as f64,
        ),
    };
    sheet.push_column(name, kind, cells.iter().map(best));
    if levels.is_empty() || feature.kind == Kind::Ordinal {
        let (lower, upper) = (
            cells.iter().map(|c| c.lower[part]),
            cells.iter().map(|c| c.upper[part]),
        );
        sheet.push_column(format!("lower({name})"), kind, lower.map(told));
        sheet.push_column(format!("upper({name})"), kind, upper.map(told));
    }
    for (k, level) in levels.iter().enumerate() {
        let of = cells.iter().map(|cell| Cell::Number(expected(cell, k)));
        sheet.push_column(format!("P({name}={level})"), Type::Number, of);
    }
    let known = |cell: &&ImputedCell| Some(cell.epistemic[part]).filter(|x| !x.is_nan());
    let epistemic = cells.iter().map(|cell| Cell::from(known(cell)));
    sheet.push_column(format!("epistemic({name})"), Type::Number, epistemic);
}

/// One row in which what is given is known, as `NAME=VALUE`.
pub(super) fn given(given: &[String], schema: &Schema) -> Result<SchemaData> {
    let features = || schema.with_role(Role::Feature);
    let names: Vec<&str> = features().map(|c| c.name.as_str()).collect();
    let mut values: HashMap<&str, &str> = HashMap::new();
    for one in given {
        // A name may hold the mark itself.
        let places = one.match_indices('=').map(|(at, _)| one.split_at(at));
        let parts = || places.clone().map(|(name, value)| (name, &value[1..]));
        let Some((first, _)) = parts().next() else {
            return Err(Failure::usage(format_args!(
                "--given {one}: write NAME=VALUE"
            )));
        };
        let Some((name, value)) = parts().find(|(name, _)| names.contains(name)) else {
            return Err(no_column("--given", first, &names));
        };
        if values.insert(name, value).is_some() {
            return Err(Failure::usage(format_args!(
                "--given {name}: is given twice"
            )));
        }
    }
    let cells = names
        .iter()
        .map(|name| RawColumn::texts([values.get(name)]));
    let owned = names.iter().map(|&name| name.to_owned()).collect();
    let table = RawTable::new(owned, cells.collect()).map_err(Failure::failed)?;
    let rules = ReadingRules {
        missing_columns: Unexpected::Missing,
        unseen_levels: Unexpected::Error,
        impossible_values: Unexpected::Error,
        ..ReadingRules::default()
    };
    let read = raw_with_schema("--given", table, schema, &rules);
    let (data, _) = read.map_err(|error| unreadable_given(error, &values))?;
    for (at, name) in names.iter().enumerate() {
        if let Some(value) = values
            .get(name)
            .filter(|_| !data.features.is_observed(0, at))
        {
            return Err(Failure::usage(format_args!(
                "--given {name}={value}: says that the value is missing; give one, or leave {name} out"
            )));
        }
    }
    Ok(data)
}

/// There is no row or column to name, and no option of files helps.
fn unreadable_given(mut error: ReadError, values: &HashMap<&str, &str>) -> Failure {
    let name = error.column_name.take();
    if let Some((name, value)) = name.as_deref().and_then(|name| values.get_key_value(name)) {
        error.file = format!("--given {name}={value}");
        (error.row, error.column) = (None, None);
    }
    let text = without_options(unreadable(&error)).message;
    Failure::usage(text.split("; correct it").next().unwrap_or(&text))
}

pub(super) fn simulate(args: &SimulateArgs, model: &ModelFile) -> Result<()> {
    let mut fit: ItfFit = model.fit()?;
    if let Some(seed) = args.seed {
        fit = fit.with_seed(seed);
    }
    let data = given(&args.given, &model.schema()?)?;
    let mut answers = Answers::open(&args.out)?;
    for first in (0..args.n.get()).step_by(ROWS) {
        let numbers = first..(first + ROWS).min(args.n.get());
        let mut sheet = Sheet::of_numbers(first + 1..=numbers.end);
        let table = fit.simulate(&data.features, &data.fields, numbers);
        sheet.push_features(&data.schema, &table.map_err(Failure::usage)?);
        answers.push(sheet)?;
        if answers.is_unread() {
            break;
        }
    }
    answers.finish()
}
