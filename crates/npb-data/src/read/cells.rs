//! Cells of columns as they grow, by the kinds of a schema, from lines of text or from raw columns.

use super::delimited::{DelimitedOptions, Layout, Row, for_each_row};
use super::numbers::Numbers;
use super::rules::{Place, ReadingRules, Unexpected, UnseenLevel};
use super::survey::sorted_levels;
use super::text::Text;
use super::{ReadError, ReadProblem};
use crate::mixed::MAX_COUNT;
use crate::raw::time_text;
use crate::schema::{ColumnSchema, DateScale, Kind, Role, Schema};
use crate::{MixedColumn, RawColumn, RawTable, number_text};
use std::collections::{BTreeMap, HashMap};

/// The cells of a file, column by column.
pub(super) struct Filled {
    pub(super) cells: Vec<Cells>,
    pub(super) n_rows: usize,
    pub(super) unseen: Vec<UnseenLevel>,
    pub(super) impossible: Vec<UnseenLevel>,
}

/// The cells of one column.
pub(super) enum Cells {
    Column(MixedColumn),
    /// Names of rows or groups.
    Texts(Vec<Option<String>>),
    /// Not read.
    None,
}

/// The one reader of typed columns: reads each column of the schema where `place` says it stands in the file; `None`: not there.
pub(super) fn fill(
    text: &Text,
    options: &DelimitedOptions,
    rules: &ReadingRules,
    columns: &[ColumnSchema],
    place: impl FnOnce(&Layout) -> Result<Vec<Option<usize>>, ReadError>,
) -> Result<Filled, ReadError> {
    let mut place = Some(place);
    let mut begin = |layout: &Layout| {
        let places = place.take().map_or(Ok(Vec::new()), |place| place(layout))?;
        let fillers = columns.iter().zip(places);
        Ok(fillers
            .map(|(column, at)| Filler::new(column, at, rules))
            .collect())
    };
    let mut fillers: Option<Vec<Filler<'_>>> = None;
    let mut n_rows = 0;
    let layout = for_each_row(text, options, &[], |row| {
        n_rows += 1;
        let fillers = match &mut fillers {
            Some(fillers) => fillers,
            None => fillers.insert(begin(row.layout)?),
        };
        fillers.iter_mut().try_for_each(|filler| filler.push(row))
    })?;
    let fillers = fillers.map_or_else(|| begin(&layout), Ok)?;
    let mut filled = Filled {
        cells: Vec::with_capacity(columns.len()),
        n_rows,
        unseen: Vec::new(),
        impossible: Vec::new(),
    };
    for filler in fillers {
        let (at, name) = (filler.at, filler.column.name.as_str());
        let (cells, third) = filler.finish(Place::Line, &mut filled);
        filled.cells.push(cells.map_err(|problem| {
            let mut error = text.error(problem).named(layout.header.then_some(name));
            error.line = third;
            match at {
                Some(at) => error.at_column(at),
                None => error,
            }
        })?);
    }
    Ok(filled)
}

/// The same from raw columns.
pub(super) fn fill_raw(
    file: &str,
    table: RawTable,
    rules: &ReadingRules,
    schema: &Schema,
    places: &[Option<usize>],
) -> Result<Filled, ReadError> {
    let n_rows = table.n_rows();
    let mut filled = Filled {
        cells: Vec::with_capacity(places.len()),
        n_rows,
        unseen: Vec::new(),
        impossible: Vec::new(),
    };
    let (_, raw) = table.into_parts();
    let mut raw: Vec<Option<RawColumn>> = raw.into_iter().map(Some).collect();
    for (column, &at) in schema.columns.iter().zip(places) {
        let mut filler = Filler::new(column, at, rules);
        let error = |row: Option<usize>, problem| {
            let mut error = ReadError::new(file, problem).named(Some(column.name.as_str()));
            error.row = row.map(|row| row as u64 + 1);
            match at {
                Some(at) => error.at_column(at),
                None => error,
            }
        };
        // Each column of the table is that of one column of the schema.
        match at.and_then(|at| raw[at].take()) {
            Some(cells) => filler
                .push_raw(&cells, &Marks::new(column, schema, rules))
                .map_err(|(row, problem)| error(Some(row), problem))?,
            None => (0..n_rows).for_each(|_| filler.push_missing()),
        }
        let (cells, third) = filler.finish(Place::Row, &mut filled);
        let row = third.map(|row| row as usize - 1);
        filled
            .cells
            .push(cells.map_err(|problem| error(row, problem))?);
    }
    Ok(filled)
}

/// What means "missing" in one column.
struct Marks<'a> {
    texts: Vec<&'a str>,
    /// Marks that are numbers.
    numbers: Vec<f64>,
    layout: &'a DelimitedOptions,
}

impl<'a> Marks<'a> {
    fn new(column: &'a ColumnSchema, schema: &'a Schema, rules: &'a ReadingRules) -> Self {
        let marks = schema.missing.iter().chain(&column.missing);
        let texts: Vec<&str> = marks.map(String::as_str).collect();
        let number = |text: &&str| text.parse().ok().filter(|v: &f64| v.is_finite());
        Self {
            numbers: texts.iter().filter_map(number).collect(),
            texts,
            layout: &rules.layout,
        }
    }

    /// The text as a file would have it, unless it is missing.
    fn text<'t>(&self, text: &'t str) -> Option<&'t str> {
        let text = self.layout.trimmed(text);
        (!self.texts.contains(&text)).then_some(text)
    }

    fn number(&self, value: f64) -> Option<f64> {
        (!value.is_nan() && !self.numbers.contains(&value)).then_some(value)
    }
}

/// A column as it grows.
struct Filler<'a> {
    column: &'a ColumnSchema,
    at: Option<usize>,
    numbers: Numbers,
    values: Values<'a>,
    on_impossible: Unexpected,
    /// The first number that the kind cannot be, with its line, and how many there are.
    impossible: Option<(String, u64, usize)>,
}

const NOT_NUMBER: &str = "a number or a date, as the schema says";
const NOT_POSITIVE: &str = "above 0, as a positive column is; correct it, make the column real in the schema, or let the option impossible_values be \"missing\"";
const NOT_COUNT: &str = "a count (a whole number from 0 to 2^53); correct it, make the column real in the schema, or let the option impossible_values be \"missing\"";

enum Values<'a> {
    Reals(Vec<Option<f64>>),
    Positives(Vec<Option<f64>>),
    Weights(Vec<Option<f64>>),
    Dates(&'a DateScale, Vec<Option<f64>>),
    Counts(Vec<Option<u64>>),
    Levels(Levels),
    Texts(Vec<Option<String>>),
    Ignored,
}

struct Levels {
    names: Vec<String>,
    code_of: HashMap<String, u32>,
    /// By the bits of the number, where all levels are numbers.
    by_number: HashMap<u64, u32>,
    /// Levels are those that occur.
    open: bool,
    on_unseen: Unexpected,
    codes: Vec<Option<u32>>,
    /// Line of the first cell that is a third level.
    third: Option<u64>,
    /// Number of rows and first line of levels that are not listed.
    unseen: BTreeMap<String, (usize, u64)>,
}

impl<'a> Filler<'a> {
    fn new(column: &'a ColumnSchema, at: Option<usize>, rules: &ReadingRules) -> Self {
        let numbers = rules.layout.numbers();
        let values =
            match (column.role, column.kind) {
                (Role::Ignored, _) => Values::Ignored,
                (role, _) if at.is_none() && role != Role::Feature => Values::Ignored,
                (Role::RowId | Role::Group, _) | (_, Kind::Identifier) => Values::Texts(Vec::new()),
                (Role::Weight, _) => Values::Weights(Vec::new()),
                (_, Kind::Real | Kind::Angle) => Values::Reals(Vec::new()),
                (_, Kind::Positive) => Values::Positives(Vec::new()),
                (_, Kind::Count) => Values::Counts(Vec::new()),
                (_, Kind::Date) => match &column.date {
                    Some(scale) => Values::Dates(scale, Vec::new()),
                    None => Values::Reals(Vec::new()),
                },
                (_, Kind::Categorical | Kind::Ordinal | Kind::Binary) => Values::Levels(
                    Levels::new(column.levels.as_deref(), numbers, rules.unseen_levels),
                ),
            };
        Self {
            column,
            at,
            numbers,
            values,
            on_impossible: rules.impossible_values,
            impossible: None,
        }
    }

    fn push(&mut self, row: &Row<'_>) -> Result<(), ReadError> {
        let Some(at) = self.at else {
            self.push_missing();
            return Ok(());
        };
        if matches!(self.values, Values::Ignored) {
            return Ok(());
        }
        let cell = row
            .cell(at)
            .filter(|&cell| !self.column.missing.iter().any(|mark| mark == cell));
        self.push_cell(cell, row.line)
            .map_err(|problem| row.error_at(at, problem))
    }

    fn push_missing(&mut self) {
        match &mut self.values {
            Values::Reals(values)
            | Values::Positives(values)
            | Values::Weights(values)
            | Values::Dates(_, values) => {
                values.push(None);
            }
            Values::Counts(values) => values.push(None),
            Values::Levels(levels) => levels.codes.push(None),
            Values::Texts(texts) => texts.push(None),
            Values::Ignored => {}
        }
    }

    /// Cells of a raw column; an error with its row, from 0.
    fn push_raw(
        &mut self,
        cells: &RawColumn,
        marks: &Marks<'_>,
    ) -> Result<(), (usize, ReadProblem)> {
        if matches!(self.values, Values::Ignored) {
            return Ok(());
        }
        let place = |row: usize| row as u64 + 1;
        match cells {
            RawColumn::Numbers(cells) => each(cells, |row, cell| {
                let number = cell.and_then(|value| marks.number(value));
                self.push_number(number, place(row), number_text)
            }),
            RawColumn::Whole(cells) => each(cells, |row, cell: Option<i64>| {
                let number = cell.map(|v| v as f64).and_then(|value| marks.number(value));
                let text = |_| cell.map_or_else(String::new, |whole| whole.to_string());
                self.push_number(number, place(row), text)
            }),
            RawColumn::Booleans(cells) => {
                let names = self.truth_values();
                let level = |value: bool| names[usize::from(value)].clone();
                each(cells, |row, cell: Option<bool>| {
                    let number = cell.map(|value| f64::from(u8::from(value)));
                    self.push_number(number, place(row), |v| level(v == 1.0))
                })
            }
            RawColumn::Texts {
                distinct, codes, ..
            } => {
                let texts: Vec<Option<&str>> =
                    distinct.iter().map(|text| marks.text(text)).collect();
                each(codes, |row, code: Option<u32>| {
                    let cell = code.and_then(|code| texts[code as usize]);
                    self.push_cell(cell, place(row))
                })
            }
            RawColumn::Times(cells) => each(cells, |row, cell| self.push_time(cell, place(row))),
        }
    }

    /// What false and true are called here.
    fn truth_values(&self) -> [String; 2] {
        let plain = ["false", "true"];
        let Values::Levels(levels) = &self.values else {
            return plain.map(str::to_owned);
        };
        let listed = |name: &str| {
            let same = |level: &&String| level.eq_ignore_ascii_case(name);
            levels.names.iter().find(same).cloned()
        };
        let pairs = [plain, ["f", "t"], ["no", "yes"], ["n", "y"], ["0", "1"]];
        let found = pairs
            .iter()
            .find_map(|[no, yes]| Some([listed(no)?, listed(yes)?]));
        found.unwrap_or_else(|| plain.map(|name| listed(name).unwrap_or_else(|| name.to_owned())))
    }

    /// A number, with its text for columns that hold none.
    fn push_number(
        &mut self,
        number: Option<f64>,
        place: u64,
        text: impl Fn(f64) -> String,
    ) -> Result<(), ReadProblem> {
        let Some(value) = number else {
            return self.push_cell(None, place);
        };
        if !value.is_finite() {
            return Err(ReadProblem::not_finite(&text(value)));
        }
        match &mut self.values {
            Values::Reals(values) => values.push(Some(value)),
            Values::Positives(values) if value > 0.0 => values.push(Some(value)),
            Values::Weights(values) if value >= 0.0 => values.push(Some(value)),
            Values::Counts(values) if is_count(value) => values.push(Some(value as u64)),
            Values::Positives(_) => {
                return self.push_impossible(&text(value), place, NOT_POSITIVE);
            }
            Values::Counts(_) => return self.push_impossible(&text(value), place, NOT_COUNT),
            Values::Levels(levels) => {
                let code = levels.by_number.get(&bits_of(value)).copied();
                match code {
                    Some(_) => levels.codes.push(code),
                    None => levels.push(&text(value), place, Numbers::PLAIN)?,
                }
            }
            Values::Weights(_) | Values::Dates(..) | Values::Texts(_) | Values::Ignored => {
                return self.push_cell(Some(&text(value)), place);
            }
        }
        Ok(())
    }

    /// A time in seconds since 1970.
    fn push_time(&mut self, seconds: Option<f64>, place: u64) -> Result<(), ReadProblem> {
        match (&mut self.values, seconds) {
            (Values::Dates(scale, values), Some(time)) => values.push(scale.of_seconds(time)),
            (_, time) => return self.push_cell(time.and_then(time_text).as_deref(), place),
        }
        Ok(())
    }

    fn push_cell(&mut self, cell: Option<&str>, line: u64) -> Result<(), ReadProblem> {
        let Some(cell) = cell else {
            if matches!(self.values, Values::Weights(_)) {
                return Err(ReadProblem::cell(
                    "",
                    "a weight, which every row needs: a number from 0",
                ));
            }
            self.push_missing();
            return Ok(());
        };
        let numbers = self.numbers;
        let missing = self.on_impossible == Unexpected::Missing;
        let number = || numbers.parse(cell).map(|v| Some(v).filter(|v| !v.is_nan()));
        match &mut self.values {
            Values::Reals(values) => match number() {
                Ok(value) => values.push(value),
                Err(_) if missing => return self.push_impossible(cell, line, NOT_NUMBER),
                Err(problem) => return Err(problem),
            },
            Values::Positives(values) => match number() {
                Ok(Some(value)) if value <= 0.0 => {
                    return self.push_impossible(cell, line, NOT_POSITIVE);
                }
                Ok(value) => values.push(value),
                Err(_) if missing => return self.push_impossible(cell, line, NOT_NUMBER),
                Err(problem) => return Err(problem),
            },
            Values::Weights(values) => match number()? {
                Some(value) if value >= 0.0 => values.push(Some(value)),
                _ => return Err(ReadProblem::cell(cell, "a weight: a number from 0")),
            },
            Values::Dates(scale, values) => match scale.number(cell) {
                Some(value) => values.push(Some(value)),
                None if missing => return self.push_impossible(cell, line, NOT_NUMBER),
                None => {
                    return Err(ReadProblem::cell(
                        cell,
                        "a date in the order of the schema (ymd: 2024-03-31, dmy: 31.3.2024, mdy: 3/31/2024) or a missing mark",
                    ));
                }
            },
            Values::Counts(values) => match numbers.parse_count(cell) {
                Ok(count) => values.push(Some(count)),
                Err(_) if missing || number()?.is_some() => {
                    return self.push_impossible(cell, line, NOT_COUNT);
                }
                Err(problem) => return Err(problem),
            },
            Values::Levels(levels) => levels.push(cell, line, numbers)?,
            Values::Texts(texts) => texts.push(Some(cell.to_owned())),
            Values::Ignored => {}
        }
        Ok(())
    }

    /// A number that the kind of the column cannot be.
    fn push_impossible(
        &mut self,
        cell: &str,
        line: u64,
        rule: &'static str,
    ) -> Result<(), ReadProblem> {
        if self.on_impossible == Unexpected::Error {
            return Err(ReadProblem::cell(cell, rule));
        }
        let first = self
            .impossible
            .get_or_insert_with(|| (cell.to_owned(), line, 0));
        first.2 += 1;
        self.push_missing();
        Ok(())
    }

    /// The cells, what was unexpected among them, and where a third of two levels is.
    fn finish(
        self,
        place: fn(u64) -> Place,
        filled: &mut Filled,
    ) -> (Result<Cells, ReadProblem>, Option<u64>) {
        let name = &self.column.name;
        let unexpected = |level: &str, n_rows, first| UnseenLevel {
            column: name.clone(),
            level: level.to_owned(),
            n_rows,
            place: place(first),
        };
        if let Some((level, first, n_rows)) = &self.impossible {
            filled.impossible.push(unexpected(level, *n_rows, *first));
        }
        let cells = match self.values {
            Values::Reals(values)
            | Values::Positives(values)
            | Values::Weights(values)
            | Values::Dates(_, values) => Cells::Column(MixedColumn::Real(values)),
            Values::Counts(values) => Cells::Column(MixedColumn::Count(values)),
            Values::Texts(texts) => Cells::Texts(texts),
            Values::Ignored => Cells::None,
            Values::Levels(levels) => {
                let unseen = levels.unseen.iter();
                let unseen = unseen.map(|(level, &(n, first))| unexpected(level, n, first));
                filled.unseen.extend(unseen);
                let third = levels.third;
                return (levels.column(self.column.kind).map(Cells::Column), third);
            }
        };
        (Ok(cells), None)
    }
}

impl Levels {
    fn new(listed: Option<&[String]>, numbers: Numbers, on_unseen: Unexpected) -> Self {
        let names = listed.unwrap_or_default().to_vec();
        let code_of = names.iter().cloned().zip(0..).collect();
        let bits = |name: &String| {
            numbers
                .value(name)
                .or_else(|| name.parse().ok())
                .map(bits_of)
        };
        let by_number: Option<HashMap<u64, u32>> = names
            .iter()
            .map(bits)
            .zip(0..)
            .map(|(bits, code)| Some((bits?, code)))
            .collect();
        let n_levels = names.len();
        Self {
            names,
            code_of,
            by_number: by_number
                .filter(|map| map.len() == n_levels)
                .unwrap_or_default(),
            open: listed.is_none(),
            on_unseen,
            codes: Vec::new(),
            third: None,
            unseen: BTreeMap::new(),
        }
    }

    fn push(&mut self, cell: &str, line: u64, numbers: Numbers) -> Result<(), ReadProblem> {
        let by_number = || self.by_number.get(&bits_of(numbers.value(cell)?)).copied();
        let code = self.code_of.get(cell).copied().or_else(by_number);
        match code {
            Some(_) => self.codes.push(code),
            None if self.open => {
                let code = self.names.len() as u32;
                self.names.push(cell.to_owned());
                self.code_of.insert(cell.to_owned(), code);
                self.codes.push(Some(code));
                if self.names.len() == 3 {
                    self.third = Some(line);
                }
            }
            None if self.on_unseen == Unexpected::Error => {
                return Err(ReadProblem::unseen_level(cell, &self.names));
            }
            None => {
                self.unseen.entry(cell.to_owned()).or_insert((0, line)).0 += 1;
                self.codes.push(None);
            }
        }
        Ok(())
    }

    /// The column, its levels sorted if they are those that occur.
    fn column(mut self, kind: Kind) -> Result<MixedColumn, ReadProblem> {
        if self.open {
            let sorted = sorted_levels(self.names.clone());
            let code_of: HashMap<&String, u32> = sorted.iter().zip(0..).collect();
            let new_code: Vec<u32> = self.names.iter().map(|name| code_of[name]).collect();
            self.codes
                .iter_mut()
                .flatten()
                .for_each(|code| *code = new_code[*code as usize]);
            self.names = sorted;
        }
        let (levels, codes) = (self.names, self.codes);
        if kind != Kind::Binary {
            return Ok(MixedColumn::Categorical { levels, codes });
        }
        let levels = levels
            .try_into()
            .map_err(|found: Vec<_>| ReadProblem::Levels { found: found.len() })?;
        let values = codes
            .into_iter()
            .map(|code| code.map(|code| code == 1))
            .collect();
        Ok(MixedColumn::Binary { levels, values })
    }
}

/// Bits that are equal when the numbers are.
fn bits_of(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

fn is_count(value: f64) -> bool {
    value >= 0.0 && value.fract() == 0.0 && value <= MAX_COUNT as f64
}

/// Calls `push` for every cell; an error with its row.
fn each<T: Copy>(
    cells: &[Option<T>],
    mut push: impl FnMut(usize, Option<T>) -> Result<(), ReadProblem>,
) -> Result<(), (usize, ReadProblem)> {
    let mut cells = cells.iter().enumerate();
    cells.try_for_each(|(row, &cell)| push(row, cell).map_err(|problem| (row, problem)))
}
