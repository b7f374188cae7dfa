//! Delimited text with columns that are measured alone or together.

use super::cells::{Cells, Misfits, fill};
use super::delimited::{Column, DelimitedOptions, Row, for_each_row};
use super::survey::survey;
use super::text::Text;
use super::{ReadError, ReadProblem};
use crate::schema::ColumnSchema;
use crate::{DataError, Field, FieldGuess, Measure, MixedColumn, MixedTable};
use serde::{Deserialize, Serialize};
use std::io::Read;

/// Where the values of a declared field stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// One column of the file per column of the field.
    Columns(Vec<Column>),
    /// A list in each cell of one column. For a vector or series its values (missing marks allowed); for a network the
    /// numbers (from 0) of the rows that this row is linked to.
    List {
        /// The column.
        column: Column,
        /// What stands between the entries; blanks around them are ignored. Alone in a cell: an empty list.
        separator: char,
    },
}

/// A field that the caller knows, whatever the values suggest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// Name of the field.
    pub name: String,
    /// What it measures.
    pub measure: Measure,
    /// Where it stands.
    pub source: Source,
    /// Levels of a categorical or ordinal field, the lowest first; empty: those that occur, sorted.
    #[serde(default)]
    pub levels: Vec<String>,
}

/// A table with what its columns measure.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldTable {
    /// The cells. Lists become columns named `NAME[0]`, `NAME[1]`, ... after those of the file.
    pub table: MixedTable,
    /// What the columns measure: fields in the order of their first columns.
    pub fields: Vec<Field>,
    /// For every column of the file that holds single values: what the values suggest, declared or not.
    pub guesses: Vec<FieldGuess>,
}

/// Reads a table, guesses what each column measures and reports why; `declared` overrides guesses and joins columns.
///
/// For files that are read once. Where a later file is to be read alike, write down a [`Schema`](crate::schema::Schema) and use [`super::with_schema`];
/// guesses and cells are the same there.
///
/// # Errors
/// As [`super::table()`]; cells that do not fit what was declared, list entries, levels and row numbers that do not fit are named with line and column;
/// [`ReadProblem::Data`] with the errors of [`Field::check_all`].
///
/// ```
/// use npb_data::{Measure, read::{self, Column, Declared, DelimitedOptions, Source}};
/// let file = "income,x,y,load\n1200,0.5,1.5,1;2;?;4\n54000,?,2.5,3;2\n900,1.0,0.5,\n";
/// let place = Source::Columns(vec![Column::from("x"), Column::from("y")]);
/// let load = Source::List { column: Column::from("load"), separator: ';' };
/// let declare = |name: &str, measure, source| Declared { name: name.into(), measure, source, levels: vec![] };
/// let declared = [declare("place", Measure::Vector, place), declare("load", Measure::Series, load)];
/// let read = read::field_table("people.csv", file.as_bytes(), &DelimitedOptions::default(), &declared)?;
/// let measures: Vec<String> = read.fields.iter().map(|f| f.measure.to_string()).collect();
/// assert_eq!(measures, ["real", "vector", "series"]);
/// assert_eq!(read.table.column_names(), ["income", "x", "y", "load[0]", "load[1]", "load[2]", "load[3]"]);
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
pub fn field_table(
    file: &str,
    input: impl Read,
    options: &DelimitedOptions,
    declared: &[Declared],
) -> Result<FieldTable, ReadError> {
    let text = Text::read(file, input, options.encoding)?;
    let (lists, singles): (Vec<&Declared>, Vec<&Declared>) = declared
        .iter()
        .partition(|d| matches!(d.source, Source::List { .. }));
    let mut columns_of_lists = Vec::with_capacity(lists.len());
    for list in &lists {
        columns_of_lists.push(read_list(&text, options, list)?);
    }
    let mut others = options.clone();
    others
        .skip
        .extend(lists.iter().flat_map(|d| d.columns()).cloned());
    let (table, mut fields, guesses) = read_singles(&text, &others, &singles)?;
    let (mut names, mut columns) = table.into_parts();
    for (list, added) in lists.iter().zip(columns_of_lists) {
        let positions = columns.len()..columns.len() + added.len();
        names.extend((0..added.len()).map(|k| format!("{}[{k}]", list.name)));
        fields.push(Field::new(&list.name, list.measure, positions.collect()));
        columns.extend(added);
    }
    let bad_data = |e: DataError| text.error(e.into());
    let table = MixedTable::new(names, columns).map_err(bad_data)?;
    Field::check_all(&fields, &table).map_err(bad_data)?;
    Ok(FieldTable {
        table,
        fields,
        guesses,
    })
}

impl Declared {
    fn columns(&self) -> &[Column] {
        match &self.source {
            Source::Columns(columns) => columns,
            Source::List { column, .. } => std::slice::from_ref(column),
        }
    }

    /// How each of its columns is read.
    fn column(&self, name: &str) -> ColumnSchema {
        let levels = match self.measure {
            // Some columns may hold no link at all.
            Measure::Network => Some(["0", "1"].map(str::to_owned).to_vec()),
            _ => Some(self.levels.clone()).filter(|levels| !levels.is_empty()),
        };
        ColumnSchema {
            levels,
            ..ColumnSchema::measuring(name, self.measure)
        }
    }
}

/// The columns with single values, their fields, and what their values suggest.
fn read_singles(
    text: &Text,
    options: &DelimitedOptions,
    declared: &[&Declared],
) -> Result<(MixedTable, Vec<Field>, Vec<FieldGuess>), ReadError> {
    let (layout, _, surveys) = survey(text, options)?;
    let names = layout.kept_names();
    let guesses = surveys
        .into_iter()
        .zip(&names)
        .map(|(survey, name)| survey.with_marks_as_texts().guess(name));
    let guesses: Vec<FieldGuess> = guesses.collect();
    let mut columns: Vec<ColumnSchema> = guesses
        .iter()
        .map(|guess| ColumnSchema::measuring(&guess.column, guess.measure))
        .collect();
    let mut fields: Vec<Option<Field>> = guesses
        .iter()
        .enumerate()
        .map(|(j, guess)| Some(Field::new(&guess.column, guess.measure, vec![j])))
        .collect();
    for d in declared {
        let find = |column| layout.find_kept(text, column);
        let positions = d.columns().iter().map(find);
        let positions: Vec<usize> = positions.collect::<Result<_, _>>()?;
        for &j in &positions {
            columns[j] = d.column(&names[j]);
            // A guess gives way to declarations of its column.
            fields[j] = None;
        }
        fields.push(Some(Field::new(&d.name, d.measure, positions)));
    }
    let mut fields: Vec<Field> = fields.into_iter().flatten().collect();
    fields.sort_by_key(|f| f.columns.first().copied());
    let place = |_: &_| Ok(layout.kept.iter().copied().map(Some).collect());
    let filled = fill(text, options, Misfits::REFUSED, &columns, place)?;
    let column = |cells| match cells {
        Cells::Column(column) => Some(column),
        Cells::Texts(_) | Cells::None => None,
    };
    let columns = filled.cells.into_iter().filter_map(column).collect();
    let table = MixedTable::new(names, columns).map_err(|e| text.error(e.into()))?;
    Ok((table, fields, guesses))
}

/// The columns that a column of lists stands for.
fn read_list(
    text: &Text,
    options: &DelimitedOptions,
    list: &Declared,
) -> Result<Vec<MixedColumn>, ReadError> {
    let Source::List { column, separator } = &list.source else {
        return Ok(Vec::new());
    };
    let network = list.measure == Measure::Network;
    let mut n_rows = 0;
    for_each_row(text, options, &[], |_| {
        n_rows += 1;
        Ok(())
    })?;
    let mut rows: Vec<Option<Vec<Option<f64>>>> = Vec::with_capacity(n_rows);
    let mut length = None;
    for_each_row(text, options, &[column], |row| {
        let j = row.layout.taken[0];
        let entries = row.cell(j).map(|cell| entries(cell, *separator, options));
        let entries = entries.transpose().map_err(|p| row.error_at(j, p))?;
        if let Some(entries) = &entries {
            check_entries(row, j, entries, list.measure, n_rows, &mut length)?;
        }
        rows.push(entries);
        Ok(())
    })?;
    Ok(if network {
        links(&rows)
    } else {
        positions(&rows)
    })
}

fn entries(
    cell: &str,
    separator: char,
    options: &DelimitedOptions,
) -> Result<Vec<Option<f64>>, ReadProblem> {
    let number = |entry: &str| {
        let entry = entry.trim();
        if options.missing.iter().any(|mark| mark == entry) {
            return Ok(None);
        }
        options
            .numbers()
            .parse(entry)
            .map(|v| Some(v).filter(|v| !v.is_nan()))
    };
    cell.split(separator).map(number).collect()
}

/// Links are row numbers; vectors have one length.
fn check_entries(
    row: &Row<'_>,
    j: usize,
    entries: &[Option<f64>],
    measure: Measure,
    n_rows: usize,
    length: &mut Option<usize>,
) -> Result<(), ReadError> {
    let wrong = |text: String, rule| Err(row.error_at(j, ReadProblem::cell(&text, rule)));
    let is_row = |v: &f64| v.fract() == 0.0 && (0.0..n_rows as f64).contains(v);
    match measure {
        Measure::Network => match entries.iter().flatten().find(|v| !is_row(v)) {
            Some(v) => wrong(v.to_string(), "the number of a row, from 0"),
            None => Ok(()),
        },
        Measure::Vector if *length.get_or_insert(entries.len()) != entries.len() => wrong(
            format!("a list of {}", entries.len()),
            "as long as the lists before it; mark missing coordinates as missing",
        ),
        _ => Ok(()),
    }
}

/// One binary column per row: who is linked to it. A row without a list is unknown, one with an empty list has no links.
fn links(rows: &[Option<Vec<Option<f64>>>]) -> Vec<MixedColumn> {
    let n = rows.len();
    let mut columns: Vec<Vec<Option<bool>>> = vec![Vec::with_capacity(n); n];
    for entries in rows {
        for column in &mut columns {
            column.push(entries.as_ref().map(|_| false));
        }
        for target in entries.iter().flatten().flatten() {
            if let Some(cell) = columns[*target as usize].last_mut() {
                *cell = Some(true);
            }
        }
    }
    let levels = || ["0", "1"].map(str::to_owned);
    let column = |values| MixedColumn::Binary {
        levels: levels(),
        values,
    };
    columns.into_iter().map(column).collect()
}

/// One real column per position in the lists; shorter lists end in missing cells.
fn positions(rows: &[Option<Vec<Option<f64>>>]) -> Vec<MixedColumn> {
    let longest = rows.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Option<Vec<Option<f64>>>, k: usize| row.as_ref().and_then(|r| *r.get(k)?);
    let column = |k| MixedColumn::Real(rows.iter().map(|row| cell(row, k)).collect());
    (0..longest).map(column).collect()
}
