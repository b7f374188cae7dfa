//! Delimited text with columns of different kinds.

use super::delimited::{Column, DelimitedOptions, Layout, Row, for_each_row, parse_number};
use super::text::Text;
use super::{ReadError, ReadProblem};
use crate::mixed::MAX_COUNT;
use crate::{ColumnKind, MixedColumn, MixedTable};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::io::Read;

/// What a column was read as, and what the text would have suggested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnGuess {
    /// Name of the column.
    pub name: String,
    /// The kind it was read as.
    pub kind: ColumnKind,
    /// The kind its text suggests; differs from `kind` only where the caller said so.
    pub guess: ColumnKind,
    /// Number of observed cells.
    pub n_observed: usize,
    /// Number of distinct texts among them. As large as `n_observed` in a categorical column: perhaps an identifier.
    pub n_distinct: usize,
}

/// Reads a table of typed columns and reports for every column what it was taken for.
///
/// The guess, from the observed cells of a column: two distinct texts, both whole numbers or both not numbers: binary; whole
/// numbers from 0: count; other numbers, or nothing observed: real; any other text: categorical. Codes written as numbers
/// look like counts and need an entry in `kinds`, which overrides the guess. Levels are sorted, as numbers when all are numbers.
///
/// # Errors
/// As [`super::table()`]; a cell that does not fit a kind in `kinds` is named; [`ReadProblem::NoSuchColumn`] for an unknown column.
///
/// ```
/// use npb_data::{ColumnKind, read};
/// let file = "rooms,heated,grade\n3,yes,2\n4,no,1\n?,no,3\n";
/// let kinds = [(read::Column::from("grade"), ColumnKind::Categorical)];
/// let (table, guesses) = read::mixed_table("houses.csv", file.as_bytes(), &read::DelimitedOptions::default(), &kinds)?;
/// assert_eq!(table.column(1).kind(), ColumnKind::Binary);
/// assert_eq!((guesses[2].guess, guesses[2].kind), (ColumnKind::Count, ColumnKind::Categorical));
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
pub fn mixed_table(
    file: &str,
    input: impl Read,
    options: &DelimitedOptions,
    kinds: &[(Column, ColumnKind)],
) -> Result<(MixedTable, Vec<ColumnGuess>), ReadError> {
    let text = Text::read(file, input, options.encoding)?;
    let (layout, surveys) = survey(&text, options)?;
    let mut wanted: Vec<Wanted> = surveys.iter().map(|s| s.guess().into()).collect();
    for (column, kind) in kinds {
        wanted[layout.find_kept(&text, column)?] = (*kind).into();
    }
    let table = fill(&text, options, &layout, &surveys, &wanted)?;
    let columns = surveys.iter().zip(&wanted).zip(table.column_names());
    let report =
        |((survey, wanted), name): ((&Survey, &Wanted), &String)| survey.report(name, wanted.kind);
    let guesses = columns.map(report).collect();
    Ok((table, guesses))
}

/// How a column is to be read.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) kind: ColumnKind,
    /// Levels in their order; `None`: those that occur.
    pub(super) levels: Option<Vec<String>>,
}

impl From<ColumnKind> for Wanted {
    fn from(kind: ColumnKind) -> Self {
        Self { kind, levels: None }
    }
}

/// Second pass over the text: the cells.
pub(super) fn fill(
    text: &Text,
    options: &DelimitedOptions,
    layout: &Layout,
    surveys: &[Survey],
    wanted: &[Wanted],
) -> Result<MixedTable, ReadError> {
    let names = layout.kept_names();
    let columns = surveys.iter().zip(wanted).enumerate();
    let mut fillers = columns
        .map(|(k, (survey, wanted))| {
            survey
                .filler(wanted)
                .map_err(|p| survey.error(text, p, layout.kept[k], &names[k]))
        })
        .collect::<Result<Vec<_>, _>>()?;
    for_each_row(text, options, &[], |row| {
        let mut cells = row.layout.kept.iter().zip(&mut fillers);
        cells.try_for_each(|(&j, filler)| filler.push(row.cell(j)).map_err(|p| row.error_at(j, p)))
    })?;
    let columns = fillers.into_iter().map(|filler| filler.column).collect();
    MixedTable::new(names, columns).map_err(|e| text.error(e.into()))
}

/// What the text of one column looks like.
pub(super) struct Survey {
    distinct: BTreeSet<String>,
    n_observed: usize,
    numbers: bool,
    whole: bool,
    counts: bool,
    /// Line of the first cell that is a third distinct text.
    third: Option<u64>,
}

/// First pass over the text.
pub(super) fn survey(
    text: &Text,
    options: &DelimitedOptions,
) -> Result<(Layout, Vec<Survey>), ReadError> {
    let mut surveys: Vec<Survey> = Vec::new();
    let layout = for_each_row(text, options, &[], |row: &Row<'_>| {
        surveys.resize_with(row.layout.kept.len(), Survey::new);
        for (&j, survey) in row.layout.kept.iter().zip(&mut surveys) {
            if let Some(cell) = row.cell(j) {
                survey.see(cell, row.line);
            }
        }
        Ok(())
    })?;
    surveys.resize_with(layout.kept.len(), Survey::new);
    Ok((layout, surveys))
}

impl Survey {
    fn new() -> Self {
        Self {
            distinct: BTreeSet::new(),
            n_observed: 0,
            numbers: true,
            whole: true,
            counts: true,
            third: None,
        }
    }

    fn see(&mut self, cell: &str, line: u64) {
        self.n_observed += 1;
        if self.distinct.contains(cell) {
            return;
        }
        self.distinct.insert(cell.to_owned());
        if self.distinct.len() == 3 {
            self.third = Some(line);
        }
        let number = parse_number(cell).ok().filter(|v| !v.is_nan());
        self.numbers &= number.is_some();
        self.whole &= number.is_some_and(|v| v.fract() == 0.0);
        self.counts &= parse_count(cell).is_ok();
    }

    pub(super) fn guess(&self) -> ColumnKind {
        let neither = !self.distinct.iter().any(|cell| parse_number(cell).is_ok());
        match self.distinct.len() {
            0 => ColumnKind::Real,
            2 if (self.numbers && self.whole && self.levels_differ()) || neither => {
                ColumnKind::Binary
            }
            _ if self.numbers && self.counts => ColumnKind::Count,
            _ if self.numbers => ColumnKind::Real,
            _ => ColumnKind::Categorical,
        }
    }

    /// No number is written in two ways, such as `1` and `1.0`.
    fn levels_differ(&self) -> bool {
        let numbers: Vec<Option<f64>> =
            self.distinct.iter().map(|cell| cell.parse().ok()).collect();
        numbers.windows(2).all(|pair| pair[0] != pair[1])
    }

    fn report(&self, name: &str, kind: ColumnKind) -> ColumnGuess {
        let (n_observed, n_distinct) = (self.n_observed, self.distinct.len());
        ColumnGuess {
            name: name.to_owned(),
            kind,
            guess: self.guess(),
            n_observed,
            n_distinct,
        }
    }

    /// Levels sorted as numbers when all are numbers, else as text.
    fn levels(&self) -> Vec<String> {
        let mut levels: Vec<String> = self.distinct.iter().cloned().collect();
        if self.numbers {
            let number = |level: &String| level.parse::<f64>().unwrap_or(f64::NAN);
            levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        levels
    }

    fn filler(&self, wanted: &Wanted) -> Result<Filler, ReadProblem> {
        let levels = wanted.levels.clone().unwrap_or_else(|| self.levels());
        let code_of = levels
            .iter()
            .zip(0..)
            .map(|(level, code)| (level.clone(), code))
            .collect();
        let column = match wanted.kind {
            ColumnKind::Real => MixedColumn::Real(Vec::new()),
            ColumnKind::Count => MixedColumn::Count(Vec::new()),
            ColumnKind::Categorical => MixedColumn::Categorical {
                levels,
                codes: Vec::new(),
            },
            ColumnKind::Binary => {
                let levels = levels
                    .try_into()
                    .map_err(|found: Vec<_>| ReadProblem::Levels { found: found.len() })?;
                MixedColumn::Binary {
                    levels,
                    values: Vec::new(),
                }
            }
        };
        Ok(Filler { column, code_of })
    }

    /// An error about the whole column, at the first line that shows it.
    fn error(&self, text: &Text, problem: ReadProblem, column: usize, name: &str) -> ReadError {
        let mut error = text.error(problem).at_column(column).named(Some(name));
        error.line = self.third;
        error
    }
}

/// A column as it grows in the second pass.
struct Filler {
    column: MixedColumn,
    code_of: HashMap<String, u32>,
}

impl Filler {
    fn push(&mut self, cell: Option<&str>) -> Result<(), ReadProblem> {
        match &mut self.column {
            MixedColumn::Real(values) => {
                values.push(cell.map(parse_number).transpose()?.filter(|v| !v.is_nan()))
            }
            MixedColumn::Count(values) => values.push(cell.map(parse_count).transpose()?),
            MixedColumn::Categorical { codes, .. } => {
                codes.push(cell.map(|c| code(&self.code_of, c)).transpose()?);
            }
            MixedColumn::Binary { values, .. } => {
                let code = cell.map(|c| code(&self.code_of, c)).transpose()?;
                values.push(code.map(|code| code == 1));
            }
        }
        Ok(())
    }
}

/// Position of a level; only levels that the caller listed can lack one.
fn code(code_of: &HashMap<String, u32>, cell: &str) -> Result<u32, ReadProblem> {
    let code = code_of.get(cell).copied();
    code.ok_or_else(|| {
        ReadProblem::cell(
            cell,
            "one of the declared levels or a missing mark; declare it or correct it",
        )
    })
}

/// A whole number from 0 to 2^53, possibly written with a decimal point.
fn parse_count(cell: &str) -> Result<u64, ReadProblem> {
    match cell.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.fract() == 0.0 && value <= MAX_COUNT as f64 => {
            Ok(value as u64)
        }
        _ => Err(ReadProblem::cell(
            cell,
            "a count (a whole number from 0 to 2^53) or a missing mark",
        )),
    }
}
