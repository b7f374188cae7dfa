//! Columns with their cells, ready for the sampler.

use npb_data::{ColumnKind, MixedColumn, MixedTable};
use serde::{Deserialize, Serialize};

use crate::ItfError;
use crate::columns::{codes, levels};
use crate::identity::fingerprints;
use crate::kernels::{Cells, Column};
use crate::place::{Place, members};

/// What a column is, kept in a fit to read new rows by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its kind in a [`MixedTable`]; `None` for cells that such a table cannot hold.
    pub kind: Option<ColumnKind>,
    /// Names of the levels, empty for numbers.
    pub levels: Vec<String>,
    /// Whether any value of it was observed in training: otherwise nothing is known of it, and its cells are not filled in.
    pub observed: bool,
}

/// The data of a fit: named columns, each a kernel with its cells. Rows agree across columns.
#[derive(Clone, Debug, Default)]
pub struct ItfData {
    n_rows: usize,
    infos: Vec<ColumnInfo>,
    places: Vec<Place>,
    prototypes: Vec<Column>,
    cells: Vec<Cells>,
    /// A number for each row by which it is known again; none when columns were put together by hand.
    fingerprints: Vec<u32>,
}

impl ItfData {
    /// No columns yet; [`push`](Self::push) adds them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every column of a table with the kernel of its kind.
    ///
    /// # Errors
    /// No rows, no columns, or a column that cannot be modelled as it is.
    pub fn from_table(table: &MixedTable) -> Result<Self, ItfError> {
        let mut data = Self::new();
        for (name, column) in table.column_names().iter().zip(table.columns()) {
            data.push_table_column(name, column)?;
        }
        data.check_not_empty()?;
        let columns: Vec<Vec<usize>> = (0..table.n_cols()).map(|j| vec![j]).collect();
        data.know_rows(fingerprints(table, &columns)?);
        Ok(data)
    }

    /// By what rows are known again.
    pub(crate) fn know_rows(&mut self, fingerprints: Vec<u32>) {
        self.fingerprints = fingerprints;
    }

    pub(crate) fn fingerprints(&self) -> &[u32] {
        &self.fingerprints
    }

    /// Adds a column of a table with the kernel of its kind.
    ///
    /// # Errors
    /// As [`push`](Self::push), or a column that cannot be modelled as it is.
    pub fn push_table_column(&mut self, name: &str, column: &MixedColumn) -> Result<(), ItfError> {
        let (law, cells) = Column::for_table_column(column).map_err(|what| ItfError::Column {
            name: name.to_owned(),
            what,
        })?;
        self.push(name, law, cells)?;
        self.describe_last(column);
        Ok(())
    }

    /// Kind and levels of the column that was added last.
    pub(crate) fn describe_last(&mut self, column: &MixedColumn) {
        if let Some(info) = self.infos.last_mut() {
            info.kind = Some(column.kind());
            info.levels = levels(column);
        }
    }

    /// Adds a column: a kernel (made by its `column` function) and cells of that kernel.
    ///
    /// # Errors
    /// A name or a number of rows that does not fit the columns before it, or cells of another kernel.
    pub fn push(&mut self, name: &str, law: Column, cells: Cells) -> Result<(), ItfError> {
        let name = name.to_owned();
        if !law.fits(&cells) {
            return Err(ItfError::OtherKernel { name });
        }
        if self.infos.iter().any(|info| info.name == name) {
            return Err(ItfError::DuplicateColumn { name });
        }
        let found = law.n_rows(&cells);
        if !self.cells.is_empty() && found != self.n_rows {
            let expected = self.n_rows;
            return Err(ItfError::RowCount {
                name,
                found,
                expected,
            });
        }
        let levels = (0..law.n_levels(0).unwrap_or(0)).map(|level| level.to_string());
        self.infos.push(ColumnInfo {
            name,
            kind: None,
            levels: levels.collect(),
            observed: (0..found).any(|row| law.is_observed(&cells, row)),
        });
        self.places.push(Place {
            column: self.n_columns(),
            part: None,
        });
        self.push_column(law, cells);
        Ok(())
    }

    /// Adds a column of the model.
    pub(crate) fn push_column(&mut self, law: Column, cells: Cells) {
        self.n_rows = law.n_rows(&cells);
        self.prototypes.push(law);
        self.cells.push(cells);
    }

    /// Says what the columns are, and where.
    pub(crate) fn describe(&mut self, infos: Vec<ColumnInfo>, places: Vec<Place>) {
        (self.infos, self.places) = (infos, places);
    }

    pub(crate) fn check_not_empty(&self) -> Result<(), ItfError> {
        if self.cells.is_empty() {
            return Err(ItfError::NoColumns);
        }
        if self.n_rows == 0 {
            return Err(ItfError::NoRows);
        }
        if u32::try_from(self.n_rows).is_err() {
            return Err(ItfError::Column {
                name: self.infos[0].name.clone(),
                what: "more than 4 billion rows".to_owned(),
            });
        }
        Ok(())
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns of the model: a group of columns that share a law counts as one.
    pub fn n_columns(&self) -> usize {
        self.cells.len()
    }

    /// What the columns are, those of groups one by one.
    pub fn infos(&self) -> &[ColumnInfo] {
        &self.infos
    }

    /// Where each of these columns is in the model.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The law of the column of the model that holds a column of the user's.
    pub(crate) fn law_of(&self, j: usize) -> &Column {
        &self.prototypes[self.places[j].column]
    }

    /// Its cells.
    pub(crate) fn cells_of(&self, j: usize) -> &Cells {
        &self.cells[self.places[j].column]
    }

    /// Kernels without clusters.
    pub fn laws(&self) -> &[Column] {
        &self.prototypes
    }

    /// The cells of every column.
    pub fn cells(&self) -> &[Cells] {
        &self.cells
    }

    /// The same columns with other cells: simulated ones, or another table's of the same kernels.
    ///
    /// # Errors
    /// As [`push`](Self::push), or another number of columns.
    pub fn with_cells(&self, cells: Vec<Cells>) -> Result<Self, ItfError> {
        if cells.len() != self.n_columns() {
            return Err(ItfError::Argument {
                argument: "cells (number of columns)",
                value: cells.len().to_string(),
                rule: "that of the data",
            });
        }
        let mut data = Self::new();
        let members = members(&self.places);
        for ((law, cells), of_column) in self.prototypes.iter().zip(cells).zip(members) {
            let name = &self.infos[of_column[0]].name;
            data.push(name, law.clone(), cells)?;
        }
        data.describe(self.infos.clone(), self.places.clone());
        Ok(data)
    }
}

/// A column with the levels of training, in their order.
pub(crate) fn in_levels_of_training(
    column: &MixedColumn,
    info: &ColumnInfo,
) -> Result<MixedColumn, ItfError> {
    if info.kind != Some(column.kind()) {
        return Err(ItfError::Kind {
            name: info.name.clone(),
            found: column.kind(),
            expected: info
                .kind
                .map_or("not a table's".to_owned(), |kind| kind.to_string()),
        });
    }
    let found = levels(column);
    let Some(found_codes) = codes(column).filter(|_| found != info.levels) else {
        return Ok(column.clone());
    };
    let place = |level: &String| info.levels.iter().position(|known| known == level);
    let places: Vec<Option<usize>> = found.iter().map(place).collect();
    let recoded = found_codes.iter().enumerate().map(|(row, code)| {
        code.map(|code| {
            places[code as usize]
                .map(|k| k as u32)
                .ok_or_else(|| ItfError::UnknownLevel {
                    row,
                    name: info.name.clone(),
                    level: found[code as usize].clone(),
                })
        })
        .transpose()
    });
    let recoded: Vec<Option<u32>> = recoded.collect::<Result<_, _>>()?;
    Ok(match (column, &info.levels[..]) {
        (MixedColumn::Binary { .. }, [no, yes]) => MixedColumn::Binary {
            levels: [no.clone(), yes.clone()],
            values: recoded
                .into_iter()
                .map(|code| code.map(|k| k == 1))
                .collect(),
        },
        _ => MixedColumn::Categorical {
            levels: info.levels.clone(),
            codes: recoded,
        },
    })
}
