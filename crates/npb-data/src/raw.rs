//! Tables before a schema says what their columns measure.

use crate::DataError;
use crate::names::{check_distinct, default_names};
use crate::schema::{DateOrder, DateScale, DateUnit};
use std::collections::HashMap;

/// A table as a program, or a file with types of its own, holds it: named columns of numbers, texts or times, all of one length.
///
/// Between these and typed columns stands a schema: [`Schema::guess_raw`](crate::schema::Schema::guess_raw), [`read::raw_with_schema`](crate::read::raw_with_schema).
///
/// ```
/// use npb_data::read::{self, ReadingRules};
/// use npb_data::schema::Schema;
/// use npb_data::{RawColumn, RawTable};
/// let sizes = RawColumn::Numbers(vec![Some(1.5), None, Some(2.5)]);
/// let towns = RawColumn::texts([Some("Oslo"), Some("Bergen"), Some("Oslo")]);
/// let raw = RawTable::new(vec!["size".into(), "town".into()], vec![sizes, towns])?;
/// let schema = Schema::guess_raw("sales", &raw).schema;
/// let (data, _) = read::raw_with_schema("sales", raw, &schema, &ReadingRules::default())?;
/// assert_eq!((data.n_rows, data.features.n_missing()), (3, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawTable {
    names: Vec<String>,
    columns: Vec<RawColumn>,
}

/// A column of a [`RawTable`]; `None` is missing.
#[derive(Clone, Debug, PartialEq)]
pub enum RawColumn {
    /// Real numbers. NaN is missing, too.
    Numbers(Vec<Option<f64>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Truth values.
    Booleans(Vec<Option<bool>>),
    /// Texts, each distinct one once.
    Texts {
        /// The distinct texts.
        distinct: Vec<String>,
        /// Positions in `distinct`.
        codes: Vec<Option<u32>>,
        /// `distinct` is an order, from the lowest.
        ordered: bool,
    },
    /// Seconds since the beginning of 1970: [`RawColumn::time`].
    Times(Vec<Option<f64>>),
}

impl RawTable {
    /// A table from names and columns.
    ///
    /// # Errors
    /// [`DataError::Length`] when lengths differ, [`DataError::DuplicateColumn`], [`DataError::Code`] for a text that there is not.
    pub fn new(names: Vec<String>, columns: Vec<RawColumn>) -> Result<Self, DataError> {
        let length = |what, found, expected| match found == expected {
            true => Ok(()),
            false => Err(DataError::Length {
                what,
                found,
                expected,
            }),
        };
        length("column names", names.len(), columns.len())?;
        check_distinct(&names)?;
        let n_rows = columns.first().map_or(0, RawColumn::len);
        for column in &columns {
            length("column", column.len(), n_rows)?;
            column.check()?;
        }
        Ok(Self { names, columns })
    }

    /// A matrix of numbers, row by row; NaN is missing; columns are called `x0`, `x1`, ...
    ///
    /// # Errors
    /// [`DataError::Length`] unless there are `n_rows` times `n_cols` values.
    pub fn from_matrix(n_rows: usize, n_cols: usize, values: &[f64]) -> Result<Self, DataError> {
        if Some(values.len()) != n_rows.checked_mul(n_cols) {
            return Err(DataError::Length {
                what: "values",
                found: values.len(),
                expected: n_rows.saturating_mul(n_cols),
            });
        }
        let column = |j| {
            let cells =
                (0..n_rows).map(|i| Some(values[i * n_cols + j]).filter(|v: &f64| !v.is_nan()));
            RawColumn::Numbers(cells.collect())
        };
        Self::new(default_names(n_cols), (0..n_cols).map(column).collect())
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The columns.
    pub fn columns(&self) -> &[RawColumn] {
        &self.columns
    }

    /// Number of rows; 0 without columns.
    pub fn n_rows(&self) -> usize {
        self.columns.first().map_or(0, RawColumn::len)
    }

    /// Names and columns.
    pub fn into_parts(self) -> (Vec<String>, Vec<RawColumn>) {
        (self.names, self.columns)
    }
}

impl RawColumn {
    /// A column of texts.
    pub fn texts<T: AsRef<str>>(cells: impl IntoIterator<Item = Option<T>>) -> Self {
        let mut distinct = Vec::new();
        let mut code_of = HashMap::new();
        let mut code = |text: T| match code_of.get(text.as_ref()) {
            Some(&code) => code,
            None => {
                let code = distinct.len() as u32;
                distinct.push(text.as_ref().to_owned());
                code_of.insert(text.as_ref().to_owned(), code);
                code
            }
        };
        let codes = cells.into_iter().map(|cell| cell.map(&mut code)).collect();
        Self::Texts {
            distinct,
            codes,
            ordered: false,
        }
    }

    /// The number of a time: the same bits as its text in a file would give.
    pub fn time(seconds: i64, nanoseconds: u32) -> f64 {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (hours, minutes) = ((rest / 3600) as f64, (rest / 60 % 60) as f64);
        let fraction = f64::from(nanoseconds) / 1e9;
        let clock = hours * 3600.0 + minutes * 60.0 + ((rest % 60) as f64 + fraction);
        days as f64 * 86_400.0 + clock
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(cells) | Self::Times(cells) => cells.len(),
            Self::Whole(cells) => cells.len(),
            Self::Booleans(cells) => cells.len(),
            Self::Texts { codes, .. } => codes.len(),
        }
    }

    /// True without cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of a cell, as a file of text would have it.
    pub fn text(&self, row: usize) -> Option<String> {
        match self {
            Self::Numbers(cells) => cells[row].filter(|v| !v.is_nan()).map(number_text),
            Self::Whole(cells) => cells[row].map(|v| v.to_string()),
            Self::Booleans(cells) => cells[row].map(|v| v.to_string()),
            Self::Texts {
                distinct, codes, ..
            } => codes[row].map(|code| distinct[code as usize].clone()),
            Self::Times(cells) => cells[row].and_then(time_text),
        }
    }

    fn check(&self) -> Result<(), DataError> {
        let Self::Texts {
            distinct, codes, ..
        } = self
        else {
            return Ok(());
        };
        let n_levels = distinct.len();
        let wrong = |cell: &Option<u32>| cell.is_some_and(|code| code as usize >= n_levels);
        match codes.iter().position(wrong) {
            None => Ok(()),
            Some(row) => Err(DataError::Code {
                row,
                code: codes[row].unwrap_or_default() as usize,
                n_classes: n_levels,
            }),
        }
    }
}

/// The shortest text that reads back as the same number.
pub fn number_text(value: f64) -> String {
    let size = value.abs();
    match size == 0.0 || (1e-5..1e16).contains(&size) {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// The date and time of so many seconds since 1970.
pub(crate) fn time_text(seconds: f64) -> Option<String> {
    let scale = DateScale {
        unit: DateUnit::Seconds,
        ..DateScale::days(DateOrder::Ymd)
    };
    scale.text(seconds)
}
