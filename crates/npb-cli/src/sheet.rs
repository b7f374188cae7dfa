//! Tables to write.

use std::ops::RangeInclusive;

use npb_data::schema::{Kind, Role, Schema, SchemaData};
use npb_data::{MixedColumn, MixedTable, RawColumn, RawTable, number_text};

use crate::failure::{Failure, Result};

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Missing,
    Text(String),
    Number(f64),
    Whole(u64),
    /// Seconds since 1970.
    Time(f64),
    /// A known cell as its file of text has it, with a decimal point.
    AsWritten(String),
    /// A known time as its file of text has it, and what it is.
    WrittenTime(Box<(String, f64)>),
    /// A known whole number as its typed file has it.
    Stored(i64),
}

/// The type of a column in files that have types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Type {
    Text,
    Number,
    Whole,
    Time,
    /// That of its cells: of tables that are not written some rows at a time.
    OfCells,
}

/// A table with named columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    names: Vec<String>,
    types: Vec<Type>,
    columns: Vec<Vec<Cell>>,
}

impl From<Option<&str>> for Cell {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Cell::Missing, |text| Cell::Text(text.to_owned()))
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Cell::Missing, Cell::Number)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Missing => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => number_text(*value),
            Cell::Whole(value) => value.to_string(),
            Cell::AsWritten(text) => text.clone(),
            Cell::WrittenTime(time) => time.0.clone(),
            Cell::Stored(value) => value.to_string(),
            Cell::Time(seconds) => RawColumn::Times(vec![Some(*seconds)])
                .text(0)
                .unwrap_or_default(),
        }
    }

    fn json(&self) -> String {
        match self {
            Cell::Text(text) => json_text(text),
            Cell::Time(_) | Cell::WrittenTime(_) => json_text(&self.text()),
            Cell::AsWritten(text) => match serde_json::from_str::<serde_json::Number>(text) {
                Ok(_) => text.clone(),
                Err(_) => json_text(text),
            },
            Cell::Missing => "null".to_owned(),
            Cell::Number(value) if !value.is_finite() => "null".to_owned(),
            Cell::Number(_) | Cell::Whole(_) | Cell::Stored(_) => self.text(),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(value) => Some(*value),
            Cell::Whole(value) => Some(*value as f64),
            Cell::Stored(value) => Some(*value as f64),
            Cell::AsWritten(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn whole(&self) -> Option<i64> {
        match self {
            Cell::Whole(value) => i64::try_from(*value).ok(),
            Cell::Stored(value) => Some(*value),
            cell => {
                let value = cell.number()?;
                (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
            }
        }
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Sheet {
    pub(crate) fn new(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            types: vec![Type::OfCells; names.len()],
            columns: vec![Vec::new(); names.len()],
        }
    }

    /// Begins with the names of the rows, or their numbers, which go on after `before` rows.
    pub(crate) fn of_rows(data: &SchemaData, before: usize) -> Self {
        let named = data.schema.with_role(Role::RowId).next();
        let (Some(column), Some(ids)) = (named, &data.row_ids) else {
            return Self::of_numbers(before + 1..=before + data.n_rows);
        };
        let mut sheet = Self::default();
        let ids = ids.iter().map(|id| Cell::from(id.as_deref()));
        sheet.push_column(&column.name, Type::Text, ids);
        sheet
    }

    /// Begins with the numbers of the rows.
    pub(crate) fn of_numbers(rows: RangeInclusive<usize>) -> Self {
        let mut sheet = Self::default();
        let numbers = rows.map(|row| Cell::Whole(row as u64));
        sheet.push_column("row", Type::Whole, numbers);
        sheet
    }

    pub(crate) fn push_column(
        &mut self,
        name: impl Into<String>,
        kind: Type,
        cells: impl IntoIterator<Item = Cell>,
    ) {
        self.names.push(name.into());
        self.types.push(kind);
        self.columns.push(cells.into_iter().collect());
    }

    /// One row more; what it lacks is missing.
    pub(crate) fn push_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells = cells.into_iter();
        for column in &mut self.columns {
            column.push(cells.next().unwrap_or(Cell::Missing));
        }
    }

    /// The rows of another sheet of the same columns below these.
    pub(crate) fn append(&mut self, other: Sheet) {
        if self.columns.is_empty() {
            *self = other;
            return;
        }
        for (column, more) in self.columns.iter_mut().zip(other.columns) {
            column.extend(more);
        }
    }

    /// Takes the first rows out.
    pub(crate) fn split_to(&mut self, n_rows: usize) -> Sheet {
        let first = |column: &mut Vec<Cell>| {
            let rest = column.split_off(n_rows);
            std::mem::replace(column, rest)
        };
        Self {
            names: self.names.clone(),
            types: self.types.clone(),
            columns: self.columns.iter_mut().map(first).collect(),
        }
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = &Cell> {
        self.columns.iter().map(move |column| &column[row])
    }

    /// Number of columns so far.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn cell(&self, column: usize, row: usize) -> &Cell {
        &self.columns[column][row]
    }

    /// Puts a cell in the place of another.
    pub(crate) fn set(&mut self, column: usize, row: usize, cell: Cell) {
        self.columns[column][row] = cell;
    }

    /// Puts a cell as a file of text has it in the place of another, where that is not written so.
    pub(crate) fn set_written(&mut self, column: usize, row: usize, text: &str) {
        let cell = &mut self.columns[column][row];
        if cell.text() != text {
            *cell = match cell {
                Cell::Time(seconds) => Cell::WrittenTime(Box::new((text.to_owned(), *seconds))),
                _ => Cell::AsWritten(text.to_owned()),
            };
        }
    }

    /// Adds the features of a schema, as a file would have them.
    pub(crate) fn push_features(&mut self, schema: &Schema, features: &MixedTable) {
        let columns = schema.with_role(Role::Feature).zip(features.columns());
        for (column, cells) in columns {
            let date = column.date.as_ref().filter(|_| column.kind == Kind::Date);
            let cell = |i: usize| match (cells, date) {
                (MixedColumn::Categorical { levels, codes }, _) => {
                    Cell::from(codes[i].map(|code| levels[code as usize].as_str()))
                }
                (MixedColumn::Binary { levels, values }, _) => {
                    Cell::from(values[i].map(|value| levels[usize::from(value)].as_str()))
                }
                (MixedColumn::Count(cells), _) => cells[i].map_or(Cell::Missing, Cell::Whole),
                (cells, Some(scale)) => {
                    // Written to the second.
                    let time = cells.number(i).and_then(|value| scale.seconds(value));
                    time.map_or(Cell::Missing, |time| Cell::Time(time.round()))
                }
                (cells, None) => Cell::from(cells.number(i)),
            };
            let kind = match (cells, date) {
                (MixedColumn::Categorical { .. } | MixedColumn::Binary { .. }, _) => Type::Text,
                (MixedColumn::Count(_), _) => Type::Whole,
                (_, Some(_)) => Type::Time,
                (_, None) => Type::Number,
            };
            self.push_column(&column.name, kind, (0..features.n_rows()).map(cell));
        }
    }

    /// The columns with their types.
    pub(crate) fn typed(&self) -> Result<RawTable> {
        let columns = self.types.iter().zip(&self.columns);
        let columns = columns.map(|(&kind, cells)| raw(kind, cells)).collect();
        RawTable::new(self.names.clone(), columns).map_err(Failure::failed)
    }

    /// Comma-separated text, with the names of the columns or as what follows.
    pub(crate) fn csv(&self, names: bool) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = || {
            if names {
                writer.write_record(&self.names)?;
            }
            for row in 0..self.n_rows() {
                writer.write_record(self.row(row).map(Cell::text))?;
            }
            writer.flush()?;
            Ok::<(), csv::Error>(())
        };
        write().map_err(Failure::failed)?;
        writer.into_inner().map_err(|e| Failure::failed(e.error()))
    }

    /// The objects of an array, one a line.
    pub(crate) fn json(&self) -> String {
        let keys: Vec<String> = self.names.iter().map(|name| json_text(name)).collect();
        let object = |row: usize| {
            let entries = keys.iter().zip(self.row(row));
            let entries = entries.map(|(key, cell)| format!("{key}: {}", cell.json()));
            format!("  {{{}}}", entries.collect::<Vec<_>>().join(", "))
        };
        let objects: Vec<String> = (0..self.n_rows()).map(object).collect();
        objects.join(",\n")
    }

    /// Columns below each other.
    pub(crate) fn aligned(&self) -> String {
        let shown = |cell: &Cell| match cell {
            Cell::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => cell.text(),
            Cell::Number(value) if (1e-3..1e6).contains(&value.abs()) => format!("{value:.4}"),
            Cell::Number(value) => format!("{value:.2e}"),
            cell => cell.text(),
        };
        let mut columns = Vec::with_capacity(self.columns.len());
        for (name, cells) in self.names.iter().zip(&self.columns) {
            let texts: Vec<String> = cells.iter().map(shown).collect();
            let all = || std::iter::once(name).chain(&texts);
            let width = all().map(|text| text.chars().count()).max().unwrap_or(0);
            let right = !cells.iter().any(|cell| matches!(cell, Cell::Text(_)));
            let padded = all().map(|text| match right {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            });
            columns.push(padded.collect::<Vec<String>>());
        }
        let line = |row: usize| {
            let cells: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
            cells.join("  ").trim_end().to_owned() + "\n"
        };
        (0..=self.n_rows()).map(line).collect()
    }
}

fn raw(kind: Type, cells: &[Cell]) -> RawColumn {
    let time = |cell: &Cell| match cell {
        Cell::Time(seconds) => Some(*seconds),
        Cell::WrittenTime(time) => Some(time.1),
        _ => None,
    };
    let text = |cell: &Cell| (*cell != Cell::Missing).then(|| cell.text());
    match kind {
        Type::Text => RawColumn::texts(cells.iter().map(text)),
        Type::Number => RawColumn::Numbers(cells.iter().map(Cell::number).collect()),
        Type::Whole => RawColumn::Whole(cells.iter().map(Cell::whole).collect()),
        Type::Time => RawColumn::Times(cells.iter().map(time).collect()),
        Type::OfCells => raw(type_of(cells), cells),
    }
}

fn type_of(cells: &[Cell]) -> Type {
    let all = |is: fn(&Cell) -> bool| cells.iter().all(|cell| *cell == Cell::Missing || is(cell));
    let is_stored = |cell: &Cell| matches!(cell, Cell::Whole(_) | Cell::Stored(_));
    // Whole numbers among which some are told as numbers.
    if all(|cell| cell.whole().is_some()) && cells.iter().any(is_stored) {
        return Type::Whole;
    }
    match all(|cell| cell.number().is_some()) {
        true => Type::Number,
        false => Type::Text,
    }
}
