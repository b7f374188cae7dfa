//! Tables to write.

use npb_data::schema::{Kind, Role, Schema};
use npb_data::{MixedColumn, MixedTable};

use crate::args::Format;
use crate::failure::{Failure, Result};

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Missing,
    Text(String),
    Number(f64),
}

/// A table with named columns, row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
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

/// The shortest text that reads back as the same number.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    match size == 0.0 || (1e-5..1e16).contains(&size) {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Missing => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => number(*value),
        }
    }

    fn json(&self) -> String {
        match self {
            Cell::Text(text) => json_text(text),
            Cell::Number(value) if value.is_finite() => number(*value),
            Cell::Missing | Cell::Number(_) => "null".to_owned(),
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
            rows: Vec::new(),
        }
    }

    /// Begins with the names of the rows, or their numbers from 1.
    pub(crate) fn of_rows(
        schema: &Schema,
        row_ids: Option<&Vec<Option<String>>>,
        n_rows: usize,
    ) -> Self {
        let named = schema
            .with_role(Role::RowId)
            .next()
            .filter(|_| row_ids.is_some());
        let name = named.map_or("row", |column| column.name.as_str());
        let cell = |i: usize| match row_ids {
            Some(ids) => Cell::from(ids[i].as_deref()),
            None => Cell::Number((i + 1) as f64),
        };
        Self {
            names: vec![name.to_owned()],
            rows: (0..n_rows).map(|i| vec![cell(i)]).collect(),
        }
    }

    pub(crate) fn push_column(
        &mut self,
        name: impl Into<String>,
        cells: impl IntoIterator<Item = Cell>,
    ) {
        self.names.push(name.into());
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
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
                (cells, Some(scale)) => {
                    let text = cells.number(i).and_then(|value| scale.text(value));
                    Cell::from(text.as_deref())
                }
                (cells, None) => Cell::from(cells.number(i)),
            };
            self.push_column(&column.name, (0..features.n_rows()).map(cell));
        }
    }

    /// The bytes of the table.
    pub(crate) fn written(&self, format: Format) -> Result<Vec<u8>> {
        match format {
            Format::Csv => self.csv(),
            Format::Json => Ok(self.json().into_bytes()),
            Format::Table => Ok(self.aligned().into_bytes()),
        }
    }

    fn csv(&self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = || {
            writer.write_record(&self.names)?;
            for row in &self.rows {
                writer.write_record(row.iter().map(Cell::text))?;
            }
            writer.flush()?;
            Ok::<(), csv::Error>(())
        };
        write().map_err(Failure::failed)?;
        writer.into_inner().map_err(|e| Failure::failed(e.error()))
    }

    fn json(&self) -> String {
        let keys: Vec<String> = self.names.iter().map(|name| json_text(name)).collect();
        let object = |row: &Vec<Cell>| {
            let entries: Vec<String> = keys
                .iter()
                .zip(row)
                .map(|(key, cell)| format!("{key}: {}", cell.json()))
                .collect();
            format!("  {{{}}}", entries.join(", "))
        };
        let objects: Vec<String> = self.rows.iter().map(object).collect();
        match objects.is_empty() {
            true => "[]\n".to_owned(),
            false => format!("[\n{}\n]\n", objects.join(",\n")),
        }
    }

    fn aligned(&self) -> String {
        let shown = |cell: &Cell| match cell {
            Cell::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => number(*value),
            Cell::Number(value) if (1e-3..1e6).contains(&value.abs()) => format!("{value:.4}"),
            Cell::Number(value) => format!("{value:.2e}"),
            cell => cell.text(),
        };
        let texts: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(shown).collect())
            .collect();
        let width = |k: usize| {
            let cells = texts.iter().map(|row| row[k].chars().count());
            cells
                .chain([self.names[k].chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.names.len()).map(width).collect();
        let is_number = |k: usize| self.rows.iter().all(|row| !matches!(row[k], Cell::Text(_)));
        let right: Vec<bool> = (0..self.names.len()).map(is_number).collect();
        let line = |cells: &[String]| {
            let padded =
                cells
                    .iter()
                    .zip(&widths)
                    .zip(&right)
                    .map(|((cell, &w), right)| match right {
                        true => format!("{cell:>w$}"),
                        false => format!("{cell:<w$}"),
                    });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        std::iter::once(line(&self.names))
            .chain(texts.iter().map(|row| line(row)))
            .collect()
    }
}
