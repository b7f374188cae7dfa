//! Delimited text read by a schema.

use super::delimited::{DelimitedOptions, Layout, Row, for_each_row};
use super::numbers::Numbers;
use super::survey::sorted_levels;
use super::text::Text;
use super::{ReadError, ReadProblem};
use crate::schema::{ColumnSchema, DateScale, Kind, Role, Schema, SchemaData};
use crate::{Field, MixedColumn, MixedTable};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io::Read;

/// How a file is laid out, and what to do where it does not have what the schema expects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadingRules {
    /// Layout of the file. Its `missing` and `skip` are not used: the schema says what is missing and what is read.
    pub layout: DelimitedOptions,
    /// A feature that the file lacks.
    pub missing_columns: MissingColumns,
    /// A level that the schema does not list.
    pub unseen_levels: UnseenLevels,
    /// A number that its kind cannot be: 0 in a positive column, 2.5 in one of counts.
    pub impossible_values: ImpossibleValues,
}

/// What to do about a feature that a file lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingColumns {
    /// An error that names it.
    #[default]
    Error,
    /// It is missing in every row.
    Missing,
}

/// What to do about a level that the schema does not list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnseenLevels {
    /// The value is missing, and the report says so.
    #[default]
    Missing,
    /// An error that names line, column and level.
    Error,
}

/// What to do about a number that its kind cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImpossibleValues {
    /// An error that names line, column and number.
    #[default]
    Error,
    /// The value is missing, and the report says so.
    Missing,
}

/// What a file had that the schema does not expect, and the other way round. Displays as one line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingReport {
    /// Columns of the file that the schema does not have.
    pub skipped: Vec<String>,
    /// Features that the file lacks, read as missing.
    pub absent: Vec<String>,
    /// Levels that the schema does not list, read as missing.
    pub unseen: Vec<UnseenLevel>,
    /// Columns with numbers that their kinds cannot be, read as missing; the first of each.
    pub impossible: Vec<UnseenLevel>,
}

/// A level that the schema does not list, or a number that its kind cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenLevel {
    /// Name of the column.
    pub column: String,
    /// The level, or the number, as written.
    pub level: String,
    /// In how many rows.
    pub n_rows: usize,
    /// Line of the first.
    pub line: u64,
}

impl fmt::Display for ReadingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        if !self.skipped.is_empty() {
            lines.push(format!(
                "skipped, not in the schema: {}",
                self.skipped.join(", ")
            ));
        }
        if !self.absent.is_empty() {
            lines.push(format!(
                "not in the file, read as missing: {}",
                self.absent.join(", ")
            ));
        }
        lines.extend(self.unseen.iter().map(|unseen| {
            let UnseenLevel { column, level, n_rows, line } = unseen;
            format!("column {column:?}: {level:?} is no level of the schema, read as missing ({n_rows} rows, first in line {line})")
        }));
        lines.extend(self.impossible.iter().map(|unseen| {
            let UnseenLevel { column, level, n_rows, line } = unseen;
            format!("column {column:?}: {level:?} is not what the schema says it holds, read as missing ({n_rows} such rows, first in line {line})")
        }));
        f.write_str(&lines.join("\n"))
    }
}

/// Reads a file by a schema: the same kinds, codes and order of columns whatever its values look like.
///
/// Columns may stand in any order. Columns that the schema does not have are skipped and reported; labels, row ids, groups, weights and ignored columns may be
/// absent. Numbers that name levels match as numbers (`1.0` is `1`). Where the schema lists no levels they are those that occur, and
/// [`SchemaData::schema`] lists them: read the file of a fit so, and later files by that schema. Compressed files (gzip) are recognised.
///
/// Cost: one pass; memory for the file and the data.
///
/// # Errors
/// [`ReadError`] names line, column and text of a cell that does not fit its kind; [`ReadProblem::MissingColumn`], [`ReadProblem::UnseenLevel`] unless the
/// rules say otherwise; [`ReadProblem::Schema`].
///
/// ```
/// use npb_data::read::{self, ReadProblem, ReadingRules, UnseenLevels};
/// use npb_data::schema::Schema;
/// let schema = Schema::from_toml(r#"columns = [{ name = "size", kind = "real" }, { name = "town", kind = "categorical", levels = ["A", "B"] }]"#)?;
/// let mut rules = ReadingRules { unseen_levels: UnseenLevels::Error, ..ReadingRules::default() };
/// (rules.layout.separator, rules.layout.decimal) = (read::Separator::Char(';'), ',');
/// let error = read::with_schema("new.csv", "town;size\nA;1,5\nC;2\n".as_bytes(), &schema, &rules).unwrap_err();
/// assert!(error.to_string().starts_with(r#"new.csv:3: column 1 ("town"): "C" is not one of the declared levels "A", "B""#));
/// # Ok::<(), npb_data::schema::SchemaError>(())
/// ```
pub fn with_schema(
    file: &str,
    input: impl Read,
    schema: &Schema,
    rules: &ReadingRules,
) -> Result<(SchemaData, ReadingReport), ReadError> {
    let text = Text::read(file, input, rules.layout.encoding)?;
    schema.validate().map_err(|e| text.error(e.into()))?;
    let options = DelimitedOptions {
        missing: schema.missing.clone(),
        skip: Vec::new(),
        ..rules.layout.clone()
    };
    let mut report = ReadingReport::default();
    let place = |layout: &Layout| places(&text, schema, rules, layout, &mut report);
    let misfits = Misfits {
        unseen: rules.unseen_levels,
        impossible: rules.impossible_values,
    };
    let filled = fill(&text, &options, misfits, &schema.columns, place)?;
    (report.unseen, report.impossible) = (filled.unseen, filled.impossible);
    let data = sorted_by_role(schema, filled.cells, filled.n_rows);
    data.map(|data| (data, report))
        .map_err(|problem| text.error(problem))
}

/// Where the columns of the schema stand in the file.
fn places(
    text: &Text,
    schema: &Schema,
    rules: &ReadingRules,
    layout: &Layout,
    report: &mut ReadingReport,
) -> Result<Vec<Option<usize>>, ReadError> {
    let at: HashMap<&str, usize> = layout
        .names
        .iter()
        .zip(0..)
        .map(|(n, j)| (n.as_str(), j))
        .collect();
    let mut known = vec![false; layout.names.len()];
    let mut places = Vec::with_capacity(schema.columns.len());
    for column in &schema.columns {
        let place = at.get(column.name.as_str()).copied();
        match place {
            Some(j) => known[j] = true,
            None if column.role.is_optional() => {}
            None if rules.missing_columns == MissingColumns::Missing => {
                report.absent.push(column.name.clone())
            }
            None => {
                return Err(text.error(ReadProblem::missing_column(&column.name, &layout.names)));
            }
        }
        places.push(place);
    }
    let skipped = layout.names.iter().zip(known).filter(|(_, known)| !known);
    report.skipped = skipped.map(|(name, _)| name.clone()).collect();
    Ok(places)
}

/// Cells by the role of their columns.
fn sorted_by_role(
    schema: &Schema,
    cells: Vec<Cells>,
    n_rows: usize,
) -> Result<SchemaData, ReadProblem> {
    let mut schema = schema.clone();
    let (mut features, mut labels) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    let (mut row_ids, mut groups, mut weights) = (None, None, None);
    let mut position: HashMap<&str, usize> = HashMap::new();
    for (column, cells) in schema.columns.iter_mut().zip(cells) {
        match (column.role, cells) {
            (Role::RowId, Cells::Texts(texts)) => row_ids = Some(texts),
            (Role::Group, Cells::Texts(texts)) => groups = Some(texts),
            (Role::Weight, Cells::Column(cells)) => weights = Some(cells),
            (Role::Feature | Role::Label, Cells::Column(cells)) => {
                column.levels = levels_of(&cells);
                let feature = column.role == Role::Feature;
                let (names, columns) = if feature { &mut features } else { &mut labels };
                names.push(column.name.clone());
                columns.push(cells);
            }
            _ => {}
        }
    }
    position.extend(
        features
            .0
            .iter()
            .zip(0..)
            .map(|(name, at): (&String, usize)| (name.as_str(), at)),
    );
    let fields = fields_of(&schema, &position);
    let weights = weights.map(|cells| {
        (0..n_rows)
            .map(|i| cells.number(i).unwrap_or(1.0))
            .collect()
    });
    Ok(SchemaData {
        n_rows,
        fields,
        features: MixedTable::new(features.0, features.1)?,
        labels: MixedTable::new(labels.0, labels.1)?,
        row_ids,
        groups,
        weights,
        schema,
    })
}

fn levels_of(column: &MixedColumn) -> Option<Vec<String>> {
    match column {
        MixedColumn::Categorical { levels, .. } => Some(levels.clone()),
        MixedColumn::Binary { levels, .. } => Some(levels.to_vec()),
        MixedColumn::Real(_) | MixedColumn::Count(_) => None,
    }
}

/// Fields of single features and of blocks, in the order of their first columns.
fn fields_of(schema: &Schema, position: &HashMap<&str, usize>) -> Vec<Field> {
    let in_blocks: HashSet<&String> = schema.blocks.iter().flat_map(|b| &b.columns).collect();
    let single = |c: &&ColumnSchema| !in_blocks.contains(&c.name);
    let singles = schema.with_role(Role::Feature).filter(single);
    let singles =
        singles.map(|c| Field::new(&c.name, c.measure(), vec![position[c.name.as_str()]]));
    let blocks = schema.blocks.iter().map(|block| {
        let columns = block.columns.iter().map(|name| position[name.as_str()]);
        Field::new(&block.name, block.kind.measure(), columns.collect())
    });
    let mut fields: Vec<Field> = singles.chain(blocks).collect();
    fields.sort_by_key(|field| field.columns.first().copied());
    fields
}

/// The cells of a file, column by column.
pub(super) struct Filled {
    pub(super) cells: Vec<Cells>,
    pub(super) n_rows: usize,
    unseen: Vec<UnseenLevel>,
    impossible: Vec<UnseenLevel>,
}

/// What is done about cells that do not fit.
#[derive(Clone, Copy)]
pub(super) struct Misfits {
    unseen: UnseenLevels,
    impossible: ImpossibleValues,
}

impl Misfits {
    /// Each is an error.
    pub(super) const REFUSED: Misfits = Misfits {
        unseen: UnseenLevels::Error,
        impossible: ImpossibleValues::Error,
    };
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
    misfits: Misfits,
    columns: &[ColumnSchema],
    place: impl FnOnce(&Layout) -> Result<Vec<Option<usize>>, ReadError>,
) -> Result<Filled, ReadError> {
    let mut place = Some(place);
    let mut begin = |layout: &Layout| {
        let places = place.take().map_or(Ok(Vec::new()), |place| place(layout))?;
        let fillers = columns.iter().zip(places);
        Ok(fillers
            .map(|(column, at)| Filler::new(column, at, options.numbers(), misfits))
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
        filler.finish(text, &layout, &mut filled)?;
    }
    Ok(filled)
}

/// A column as it grows.
struct Filler<'a> {
    column: &'a ColumnSchema,
    at: Option<usize>,
    numbers: Numbers,
    values: Values<'a>,
    on_impossible: ImpossibleValues,
    /// The first number that the kind cannot be, with its line, and how many there are.
    impossible: Option<(String, u64, usize)>,
}

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
    on_unseen: UnseenLevels,
    codes: Vec<Option<u32>>,
    /// Line of the first cell that is a third level.
    third: Option<u64>,
    /// Number of rows and first line of levels that are not listed.
    unseen: BTreeMap<String, (usize, u64)>,
}

impl<'a> Filler<'a> {
    fn new(
        column: &'a ColumnSchema,
        at: Option<usize>,
        numbers: Numbers,
        misfits: Misfits,
    ) -> Self {
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
                    Levels::new(column.levels.as_deref(), numbers, misfits.unseen),
                ),
            };
        Self {
            column,
            at,
            numbers,
            values,
            on_impossible: misfits.impossible,
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
        let number = || numbers.parse(cell).map(|v| Some(v).filter(|v| !v.is_nan()));
        match &mut self.values {
            Values::Reals(values) => values.push(number()?),
            Values::Positives(values) => match number()? {
                Some(value) if value <= 0.0 => {
                    return self.push_impossible(cell, line, NOT_POSITIVE);
                }
                value => values.push(value),
            },
            Values::Weights(values) => match number()? {
                Some(value) if value >= 0.0 => values.push(Some(value)),
                _ => return Err(ReadProblem::cell(cell, "a weight: a number from 0")),
            },
            Values::Dates(scale, values) => match scale.number(cell) {
                Some(value) => values.push(Some(value)),
                None => {
                    return Err(ReadProblem::cell(
                        cell,
                        "a date in the order of the schema (ymd: 2024-03-31, dmy: 31.3.2024, mdy: 3/31/2024) or a missing mark",
                    ));
                }
            },
            Values::Counts(values) => match numbers.parse_count(cell) {
                Ok(count) => values.push(Some(count)),
                Err(_) if number()?.is_some() => {
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
        if self.on_impossible == ImpossibleValues::Error {
            return Err(ReadProblem::cell(cell, rule));
        }
        let first = self
            .impossible
            .get_or_insert_with(|| (cell.to_owned(), line, 0));
        first.2 += 1;
        self.push_missing();
        Ok(())
    }

    fn finish(self, text: &Text, layout: &Layout, filled: &mut Filled) -> Result<(), ReadError> {
        if let Some((level, line, n_rows)) = &self.impossible {
            filled.impossible.push(UnseenLevel {
                column: self.column.name.clone(),
                level: level.clone(),
                n_rows: *n_rows,
                line: *line,
            });
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
                let unseen = levels
                    .unseen
                    .iter()
                    .map(|(level, &(n_rows, line))| UnseenLevel {
                        column: self.column.name.clone(),
                        level: level.clone(),
                        n_rows,
                        line,
                    });
                filled.unseen.extend(unseen);
                let third = levels.third;
                let column = levels.column(self.column.kind).map_err(|problem| {
                    let mut error = text
                        .error(problem)
                        .named(layout.header.then_some(self.column.name.as_str()));
                    error.line = third;
                    match self.at {
                        Some(at) => error.at_column(at),
                        None => error,
                    }
                })?;
                Cells::Column(column)
            }
        };
        filled.cells.push(cells);
        Ok(())
    }
}

impl Levels {
    fn new(listed: Option<&[String]>, numbers: Numbers, on_unseen: UnseenLevels) -> Self {
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
            None if self.on_unseen == UnseenLevels::Error => {
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
