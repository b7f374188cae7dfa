//! Cells of columns as they grow, by the kinds of a schema, from lines of text or from raw columns.

use super::delimited::{DelimitedOptions, Row};
use super::numbers::Numbers;
use super::rules::{Place, ReadingReport, ReadingRules, Unexpected, UnseenLevel};
use super::survey::sorted_levels;
use super::{ReadError, ReadProblem};
use crate::mixed::MAX_COUNT;
use crate::raw::time_text;
use crate::schema::{ColumnSchema, DateScale, Kind, Role, Schema};
use crate::{MixedColumn, RawColumn, RawTable, number_text};
use std::collections::{BTreeMap, HashMap};
use std::mem::take;

/// The cells of one column.
pub(super) enum Cells {
    Column(MixedColumn),
    /// Names of rows or groups.
    Texts(Vec<Option<String>>),
    /// Not read.
    None,
}

/// The one reader of typed columns: rows are added, and what has been added is taken, as often as one likes.
pub(super) struct Fillers<'a> {
    schema: &'a Schema,
    rules: &'a ReadingRules,
    columns: Vec<Filler<'a>>,
    /// Rows so far, those included that have been taken.
    n_rows: usize,
    n_taken: usize,
}

/// A problem, with its line or row, the place of its column in the file, and its name.
pub(super) struct Misfit<'a> {
    pub(super) place: Option<u64>,
    pub(super) at: Option<usize>,
    pub(super) column: Option<&'a str>,
    pub(super) problem: Box<ReadProblem>,
}

impl Misfit<'_> {
    pub(super) fn anywhere(problem: ReadProblem) -> Self {
        Self {
            place: None,
            at: None,
            column: None,
            problem: Box::new(problem),
        }
    }
}

impl<'a> Fillers<'a> {
    /// `places`: where each column of the schema stands in the file; `None`: not there.
    pub(super) fn new(
        schema: &'a Schema,
        rules: &'a ReadingRules,
        places: Vec<Option<usize>>,
    ) -> Self {
        let columns = schema.columns.iter().zip(places);
        Self {
            schema,
            rules,
            columns: columns
                .map(|(column, at)| Filler::new(column, at, rules))
                .collect(),
            n_rows: 0,
            n_taken: 0,
        }
    }

    /// Adds a line of text.
    pub(super) fn push(&mut self, row: &Row<'_>) -> Result<(), ReadError> {
        self.n_rows += 1;
        let mut columns = self.columns.iter_mut();
        columns.try_for_each(|filler| filler.push(row))
    }

    /// The cells of the features of a line as it has them.
    pub(super) fn feature_cells<'r>(&self, row: &'r Row<'_>) -> impl Iterator<Item = &'r str> {
        let features = self.columns.iter();
        let features = features.filter(|filler| filler.column.role == Role::Feature);
        features.map(|filler| filler.at.and_then(|at| row.cell(at)).unwrap_or_default())
    }

    /// Adds the rows of a table of raw columns.
    pub(super) fn push_raw(&mut self, table: RawTable) -> Result<(), Misfit<'a>> {
        let (before, n_rows) = (self.n_rows as u64, table.n_rows());
        self.n_rows += n_rows;
        let (_, raw) = table.into_parts();
        let mut raw: Vec<Option<RawColumn>> = raw.into_iter().map(Some).collect();
        for filler in &mut self.columns {
            let (column, at) = (filler.column, filler.at);
            // Each column of the table is that of one column of the schema.
            let Some(cells) = at.and_then(|at| raw[at].take()) else {
                (0..n_rows).for_each(|_| filler.push_missing());
                continue;
            };
            let marks = Marks::new(column, self.schema, self.rules);
            let pushed = filler.push_raw(&cells, &marks, before);
            pushed.map_err(|(row, problem)| Misfit {
                place: Some(before + row as u64 + 1),
                at,
                column: Some(&column.name),
                problem: Box::new(problem),
            })?;
        }
        Ok(())
    }

    /// The cells that were added since cells were taken last, column by column, and of how many rows.
    pub(super) fn take(&mut self) -> Result<(Vec<Cells>, usize), Misfit<'a>> {
        let n_rows = self.n_rows - self.n_taken;
        self.n_taken = self.n_rows;
        let cells = self.columns.iter_mut().map(|filler| {
            let (column, at) = (filler.column, filler.at);
            filler.take().map_err(|(place, problem)| Misfit {
                place,
                at,
                column: Some(&column.name),
                problem: Box::new(problem),
            })
        });
        Ok((cells.collect::<Result<_, _>>()?, n_rows))
    }

    /// Says what was unexpected.
    pub(super) fn report(&self, place: fn(u64) -> Place, report: &mut ReadingReport) {
        for filler in &self.columns {
            let unexpected = |level: &str, n_rows, first| UnseenLevel {
                column: filler.column.name.clone(),
                level: level.to_owned(),
                n_rows,
                place: place(first),
            };
            if let Some((level, first, n_rows)) = &filler.impossible {
                let impossible = unexpected(level, *n_rows, *first);
                report.impossible.push(impossible);
            }
            if let Values::Levels(levels) = &filler.values {
                let unseen = levels.unseen.iter();
                let unseen = unseen.map(|(level, &(n, first))| unexpected(level, n, first));
                report.unseen.extend(unseen);
            }
        }
    }
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

    /// Cells of a raw column after so many rows; an error with its row among these cells, from 0.
    fn push_raw(
        &mut self,
        cells: &RawColumn,
        marks: &Marks<'_>,
        before: u64,
    ) -> Result<(), (usize, ReadProblem)> {
        if matches!(self.values, Values::Ignored) {
            return Ok(());
        }
        let place = |row: usize| before + row as u64 + 1;
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

    /// The cells since the last ones were taken; an error with the place of a third of two levels.
    fn take(&mut self) -> Result<Cells, (Option<u64>, ReadProblem)> {
        Ok(match &mut self.values {
            Values::Reals(values)
            | Values::Positives(values)
            | Values::Weights(values)
            | Values::Dates(_, values) => Cells::Column(MixedColumn::Real(take(values))),
            Values::Counts(values) => Cells::Column(MixedColumn::Count(take(values))),
            Values::Texts(texts) => Cells::Texts(take(texts)),
            Values::Ignored => Cells::None,
            Values::Levels(levels) => {
                let column = levels.take(self.column.kind);
                Cells::Column(column.map_err(|problem| (levels.third, problem))?)
            }
        })
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
    fn take(&mut self, kind: Kind) -> Result<MixedColumn, ReadProblem> {
        let (mut levels, mut codes) = (self.names.clone(), take(&mut self.codes));
        if self.open {
            levels = sorted_levels(levels);
            let code_of: HashMap<&String, u32> = levels.iter().zip(0..).collect();
            let new_code: Vec<u32> = self.names.iter().map(|name| code_of[name]).collect();
            codes
                .iter_mut()
                .flatten()
                .for_each(|code| *code = new_code[*code as usize]);
        }
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
