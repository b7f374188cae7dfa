//! What the text of columns looks like, and the schema that it suggests.

use super::delimited::{DelimitedOptions, Layout, Row, for_each_row};
use super::numbers::Numbers;
use super::text::Text;
use super::{ReadError, ReadProblem};
use crate::fields::guess::{FieldGuess, of_counts, of_levels, of_pair, of_reals};
use crate::mixed::MAX_COUNT;
use crate::names::is_stray_mark;
use crate::raw::time_text;
use crate::schema::{
    ColumnGuess, ColumnSchema, DateOrder, DateScale, Kind, Role, Schema, SchemaGuess,
};
use crate::{Measure, RawColumn, RawTable, number_text};
use std::collections::{BTreeMap, HashSet};
use std::io::Read;

/// So many distinct texts of a column of numbers are kept: no column of numbers with more is taken for one of levels.
const MANY_TEXTS: usize = 1000;
/// So many distinct texts among numbers are remembered.
const FEW_TEXTS: usize = 4;
/// So many values are shown of a column.
const EXAMPLES: usize = 3;
/// Whole numbers of so many digits are beyond what a number holds exactly.
const MANY_DIGITS: usize = 16;
const CENSORED: &str = "a number; what is known only to lie below or above one is not modelled: add it to the missing marks, or say in a schema that the column is categorical";
/// Names that programs give to the names or numbers of rows when they write a table, whatever these look like; the first is that of a column without a name.
const NAMES_OF_ROWS: [&str; 3] = ["", "Unnamed: 0", "__index_level_0__"];
/// Names that they give as well, and people to other things.
const PERHAPS_NAMES_OF_ROWS: [&str; 6] = [
    "X",
    "rownames",
    "row.names",
    "rowname",
    "row_names",
    "index",
];

impl Schema {
    /// The schema that a file suggests, and why: kinds from the texts of the columns, identifiers and empty columns left out.
    ///
    /// What cannot be known from the texts, such as whether the numbers 1 to 5 are counts or grades, is in [`ColumnGuess::others`]. Memory: the file and its
    /// numbers; two passes.
    ///
    /// # Errors
    /// As [`read::table`](crate::read::table()), but any text is a valid cell.
    ///
    /// ```
    /// use npb_data::schema::{Kind, Schema};
    /// let text: String = (0..40).map(|i| format!("A{i},{},3.{}.2024\n", i % 7, 1 + i % 9)).collect();
    /// let guess = Schema::guess("visits.csv", format!("patient,visits,last\n{text}").as_bytes(), &Default::default())?;
    /// let kinds: Vec<Kind> = guess.schema.columns.iter().map(|c| c.kind).collect();
    /// assert_eq!(kinds, [Kind::Identifier, Kind::Count, Kind::Date]);
    /// assert!(guess.guesses[2].others[0].date.is_some());      // month first would do as well
    /// # Ok::<(), npb_data::read::ReadError>(())
    /// ```
    pub fn guess(
        file: &str,
        input: impl Read,
        options: &DelimitedOptions,
    ) -> Result<SchemaGuess, ReadError> {
        let text = Text::read(file, input, options.encoding)?;
        let (layout, n_rows, surveys) = survey(&text, options)?;
        let names = layout.kept.iter().map(|&j| layout.names[j].as_str());
        let (columns, guesses) = surveys
            .into_iter()
            .zip(names)
            .enumerate()
            .map(|(at, (survey, name))| survey.column(at, name))
            .unzip();
        Ok(SchemaGuess {
            schema: Schema {
                missing: options.missing.clone(),
                columns,
                blocks: Vec::new(),
            },
            guesses,
            file: file.to_owned(),
            n_rows,
        })
    }

    /// The schema that a raw table suggests. Numbers and texts are guessed as in [`Schema::guess`]; truth values are binary, times dates, and texts in an order ordinal,
    /// whatever occurs.
    pub fn guess_raw(file: &str, table: &RawTable) -> SchemaGuess {
        let missing = crate::names::missing_marks();
        let columns = table.names().iter().zip(table.columns()).enumerate();
        let (columns, guesses) = columns
            .map(|(at, (name, cells))| guess_raw((at, name), cells, &missing))
            .unzip();
        SchemaGuess {
            schema: Schema {
                missing,
                columns,
                blocks: Vec::new(),
            },
            guesses,
            file: file.to_owned(),
            n_rows: table.n_rows(),
        }
    }
}

fn guess_raw(
    (at, name): (usize, &str),
    cells: &RawColumn,
    missing: &[String],
) -> (ColumnSchema, ColumnGuess) {
    let is_mark = |text: &str| missing.iter().any(|mark| mark == text);
    let survey = survey_raw(cells, &is_mark);
    let nothing = survey.n_observed == 0;
    let (column, guess) = survey.column(at, name);
    let Some((measure, levels, why)) = declared(cells, &is_mark).filter(|_| !nothing) else {
        return (column, guess);
    };
    let column = ColumnSchema {
        levels: Some(levels.into_iter().map(str::to_owned).collect()),
        ..ColumnSchema::measuring(name, measure)
    };
    let guess = ColumnGuess {
        why: format!("{why} in the file"),
        others: vec![ColumnSchema::measuring(name, Measure::Categorical)],
        ..guess
    };
    (column, guess)
}

/// What the texts of a raw column look like, those that its cells have or would have.
fn survey_raw(cells: &RawColumn, is_mark: &impl Fn(&str) -> bool) -> Survey {
    let mut survey = Survey::new();
    match cells {
        RawColumn::Numbers(cells) => {
            let finite = cells.iter().flatten().filter(|v| v.is_finite());
            finite.for_each(|&v| survey.see_number(v, || number_text(v)));
        }
        RawColumn::Whole(cells) => {
            let cells = cells.iter().flatten();
            cells.for_each(|&v| survey.see_number(v as f64, || v.to_string()));
        }
        RawColumn::Booleans(cells) => {
            let cells = cells.iter().flatten();
            cells.for_each(|&v| survey.see(if v { "true" } else { "false" }, Numbers::PLAIN));
        }
        RawColumn::Texts {
            distinct, codes, ..
        } => {
            let texts: Vec<&str> = distinct.iter().map(|text| text.trim()).collect();
            let cells = codes.iter().flatten().map(|&code| texts[code as usize]);
            let cells = || cells.clone().filter(|text| !is_mark(text));
            cells().for_each(|text| survey.see(text, Numbers::PLAIN));
            if survey.wants_texts() {
                cells().for_each(|text| survey.keep(text));
            }
        }
        RawColumn::Times(cells) => {
            let texts = cells.iter().flatten().filter_map(|&v| time_text(v));
            texts.for_each(|text| survey.see(&text, Numbers::PLAIN));
        }
    }
    survey
}

/// What the type of a raw column says, whatever its texts look like: measure, levels and reason.
fn declared<'a>(
    cells: &'a RawColumn,
    is_mark: &impl Fn(&str) -> bool,
) -> Option<(Measure, Vec<&'a str>, &'static str)> {
    match cells {
        RawColumn::Booleans(_) => Some((Measure::Binary, vec!["false", "true"], "truth values")),
        RawColumn::Texts {
            distinct,
            ordered: true,
            ..
        } => {
            let levels = distinct.iter().map(|text| text.trim());
            let levels = levels.filter(|text| !is_mark(text)).collect();
            Some((Measure::Ordinal, levels, "texts with an order"))
        }
        _ => None,
    }
}

/// What the text of one column looks like.
struct Survey {
    /// Distinct texts; of a column of numbers no more than [`MANY_TEXTS`].
    distinct: HashSet<String>,
    /// Texts were given up.
    many: bool,
    n_observed: usize,
    /// The cells, while all are numbers.
    numbers: Option<Vec<f64>>,
    whole: bool,
    counts: bool,
    /// Orders in which all cells are dates.
    orders: Vec<DateOrder>,
    /// Texts that stand for nothing where all else is a number or a date, with how many cells have each. Not counted above.
    stray: BTreeMap<String, usize>,
    /// Texts that are no numbers, no more than [`FEW_TEXTS`] of them, with how many cells have each, and how many cells are numbers.
    odd: BTreeMap<String, usize>,
    n_numbers: usize,
    /// The first distinct texts.
    examples: Vec<String>,
}

/// Looks at every cell: the columns, the number of rows, and what the kept columns look like.
fn survey(
    text: &Text,
    options: &DelimitedOptions,
) -> Result<(Layout, usize, Vec<Survey>), ReadError> {
    let mut surveys: Vec<Survey> = Vec::new();
    let mut n_rows = 0;
    let numbers = options.numbers();
    let layout = for_each_row(text, options, &[], |row: &Row<'_>| {
        n_rows += 1;
        surveys.resize_with(row.layout.kept.len(), Survey::new);
        for (&j, survey) in row.layout.kept.iter().zip(&mut surveys) {
            if let Some(cell) = row.cell(j) {
                survey.see(cell, numbers);
            }
        }
        Ok(())
    })?;
    surveys.resize_with(layout.kept.len(), Survey::new);
    for (survey, &j) in surveys.iter().zip(&layout.kept) {
        if let Some(cell) = survey.censored() {
            let name = layout.header.then_some(layout.names[j].as_str());
            let problem = ReadProblem::cell(cell, CENSORED);
            return Err(text.error(problem).named(name).at_column(j));
        }
    }
    // Texts that were given up before the first cell that is no number are needed after all.
    if surveys.iter().any(Survey::wants_texts) {
        for_each_row(text, options, &[], |row: &Row<'_>| {
            for (&j, survey) in row.layout.kept.iter().zip(&mut surveys) {
                if survey.wants_texts() {
                    row.cell(j).into_iter().for_each(|cell| survey.keep(cell));
                }
            }
            Ok(())
        })?;
    }
    Ok((layout, n_rows, surveys))
}

impl Survey {
    fn new() -> Self {
        Self {
            distinct: HashSet::new(),
            many: false,
            n_observed: 0,
            numbers: Some(Vec::new()),
            whole: true,
            counts: true,
            orders: DateOrder::ALL.to_vec(),
            stray: BTreeMap::new(),
            odd: BTreeMap::new(),
            n_numbers: 0,
            examples: Vec::new(),
        }
    }

    fn see(&mut self, cell: &str, how: Numbers) {
        if is_stray_mark(cell) {
            *self.stray.entry(cell.to_owned()).or_insert(0) += 1;
            return;
        }
        self.n_observed += 1;
        match how.value(cell).filter(|v| v.is_finite()) {
            // Zeros in front are part of a name, such as a postal code.
            Some(_) if leads_with_zero(cell) => self.numbers = None,
            Some(value) => {
                self.n_numbers += 1;
                self.count(value);
            }
            None => {
                self.numbers = None;
                if self.odd.contains_key(cell) || self.odd.len() < FEW_TEXTS {
                    *self.odd.entry(cell.to_owned()).or_insert(0) += 1;
                }
            }
        }
        if !self.has_given_up() {
            self.see_text(cell);
        }
    }

    /// The same for a finite number that is no text yet.
    fn see_number(&mut self, value: f64, text: impl FnOnce() -> String) {
        self.n_observed += 1;
        self.n_numbers += 1;
        self.count(value);
        if !self.has_given_up() {
            self.see_text(&text());
        }
    }

    fn count(&mut self, value: f64) {
        let Some(numbers) = &mut self.numbers else {
            return;
        };
        numbers.push(value);
        self.whole &= value.fract() == 0.0;
        self.counts &= value >= 0.0 && value.fract() == 0.0 && value <= MAX_COUNT as f64;
    }

    /// Nobody asks for the texts any more.
    fn has_given_up(&self) -> bool {
        self.many && self.numbers.is_some()
    }

    fn see_text(&mut self, cell: &str) {
        if self.distinct.contains(cell) {
            return;
        }
        self.orders
            .retain(|&order| DateScale::days(order).number(cell).is_some());
        self.keep(cell);
        if self.numbers.is_some() && self.distinct.len() > MANY_TEXTS {
            (self.many, self.distinct) = (true, HashSet::new());
        }
    }

    fn keep(&mut self, cell: &str) {
        if !self.distinct.contains(cell) {
            self.distinct.insert(cell.to_owned());
            if self.examples.len() < EXAMPLES && !self.many {
                self.examples.push(cell.to_owned());
            }
        }
    }

    /// What the column measures.
    fn guess(&self, name: &str) -> FieldGuess {
        let n_observed = self.n_observed;
        match (&self.numbers, self.levels().as_slice()) {
            (Some(numbers), _) if numbers.is_empty() => of_reals(&[]),
            (numbers, [low, high]) if !self.many && self.is_pair(numbers.is_some()) => {
                of_pair([low, high], (n_observed, 2))
            }
            (Some(numbers), _) if self.counts => {
                of_counts(&numbers.iter().map(|&v| v as u64).collect::<Vec<_>>(), name)
            }
            (Some(numbers), _) => of_reals(numbers),
            (None, levels) => of_levels(levels.len(), (n_observed, levels.len())),
        }
    }

    /// Two distinct texts are two levels when neither is a number, or both are whole numbers and occur again.
    fn is_pair(&self, numbers: bool) -> bool {
        let values = || self.distinct.iter().map(|text| text.parse::<f64>().ok());
        if !numbers {
            return values().all(|value| value.is_none());
        }
        // One number may be written in two ways, such as `1` and `1.0`.
        let different: HashSet<Option<u64>> = values().map(|v| v.map(f64::to_bits)).collect();
        self.whole && self.n_observed > 2 && different.len() == 2
    }

    /// The distinct texts, sorted.
    fn levels(&self) -> Vec<String> {
        sorted_levels(self.distinct.iter().cloned().collect())
    }

    /// Texts were given up before the first cell that is no number.
    fn wants_texts(&self) -> bool {
        self.many && self.numbers.is_none()
    }

    /// Marks among texts are texts.
    fn settle_marks(&mut self) {
        let numbers = self.numbers.as_ref().is_some_and(|all| !all.is_empty());
        let dates = self.n_observed > 0 && !self.orders.is_empty();
        if !numbers && !dates {
            self.take_marks();
        }
    }

    fn take_marks(&mut self) {
        for (text, n) in std::mem::take(&mut self.stray) {
            self.n_observed += n;
            self.numbers = None;
            self.orders.clear();
            self.keep(&text);
        }
    }

    /// A text such as `<0.5` where all else is a number.
    fn censored(&self) -> Option<&str> {
        let below = |text: &&String| {
            let rest = text.trim_start_matches(['<', '>', '≤', '≥', '=', ' ']);
            rest.len() < text.len() && rest.replacen(',', ".", 1).parse::<f64>().is_ok()
        };
        let all = self.n_numbers + self.odd.values().sum::<usize>() == self.n_observed;
        let found =
            all && 2 * self.n_numbers > self.n_observed && self.odd.keys().all(|text| below(&text));
        if found {
            self.odd.keys().next().map(String::as_str)
        } else {
            None
        }
    }

    /// What a person should know of a column that nearly is one of numbers.
    fn odd_among_numbers(&self) -> Option<String> {
        let n: usize = self.odd.values().sum();
        let few = n > 0 && 10 * n <= self.n_numbers && self.n_numbers + n == self.n_observed;
        few.then(|| {
            let cells = self
                .odd
                .iter()
                .map(|(text, n)| format!("{text:?} ({})", cells(*n)));
            let cells: Vec<String> = cells.collect();
            format!(
                "numbers but for {}: correct them, or name them as missing marks",
                cells.join(", ")
            )
        })
    }

    /// Names or numbers of the rows, as programs write them beside a table.
    fn names_rows(&self, at: usize, name: &str, n_distinct: usize) -> bool {
        let distinct = self.n_observed > 2 && n_distinct == self.n_observed;
        let texts_or_whole = self.numbers.is_none() || self.whole;
        match name {
            "" => at == 0,
            _ if NAMES_OF_ROWS.contains(&name) => true,
            _ => at == 0 && PERHAPS_NAMES_OF_ROWS.contains(&name) && distinct && texts_or_whole,
        }
    }

    /// Numbers that are too long to be measurements, nearly all different.
    fn names_by_number(&self, n_distinct: usize) -> bool {
        let is_long =
            |text: &String| text.len() >= MANY_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
        let numbers = self.numbers.is_some() && self.whole && self.examples.len() == EXAMPLES;
        numbers && 2 * n_distinct > self.n_observed && self.examples.iter().all(is_long)
    }

    /// The column of a schema, and why.
    fn column(mut self, at: usize, name: &str) -> (ColumnSchema, ColumnGuess) {
        self.settle_marks();
        let mut guess = self.guess(name);
        let odd = self.look_again(at, name, &mut guess);
        let notable = odd || guess.identifier || !self.stray.is_empty() || self.n_observed == 0;
        let (n_observed, n_distinct) = (guess.n_observed, guess.n_distinct);
        let (column, others, mut why) = self.measured(name, guess);
        if !self.stray.is_empty() {
            let marks = self.stray.iter();
            let marks = marks.map(|(text, &n)| format!("{text:?}, {}", cells(n)));
            let marks: Vec<String> = marks.collect();
            why = format!("{why}; but for {}: missing", marks.join("; "));
        }
        let guess = ColumnGuess {
            why,
            others,
            n_observed,
            n_distinct,
            n_marks: self.stray.values().sum(),
            // Levels are listed themselves.
            examples: match column.levels {
                Some(_) => Vec::new(),
                None => self.examples,
            },
            notable,
        };
        let column = ColumnSchema {
            missing: self.stray.into_keys().collect(),
            ..column
        };
        (column, guess)
    }

    /// Whether the column names rows, whatever its values would measure; true where something odd stands among its numbers.
    fn look_again(&mut self, at: usize, name: &str, guess: &mut FieldGuess) -> bool {
        if self.names_rows(at, name, guess.n_distinct) && self.n_observed > 0 {
            guess.identifier = true;
            guess.why =
                "names or numbers of the rows, as they are written beside a table".to_owned();
            self.orders.clear();
        } else if self.names_by_number(guess.n_distinct) {
            guess.identifier = true;
            guess.why = format!("whole numbers of {MANY_DIGITS} digits or more: names");
        } else if let Some(odd) = self.odd_among_numbers() {
            guess.why = format!("{}; {odd}", guess.why);
            return true;
        }
        false
    }

    /// The column by what was guessed of its values, what it could be as well, and why.
    fn measured(&self, name: &str, guess: FieldGuess) -> (ColumnSchema, Vec<ColumnSchema>, String) {
        let ignored = |column| ColumnSchema {
            role: Role::Ignored,
            ..column
        };
        let of = |measure| ColumnSchema::measuring(name, measure);
        let (column, others) = (of(guess.measure), guess.others.into_iter().map(of));
        match self.orders.as_slice() {
            _ if self.n_observed == 0 => {
                let why = "nothing observed: left out".to_owned();
                (ignored(column), Vec::new(), why)
            }
            [order, rest @ ..] => {
                let others = rest.iter().map(|&order| dated(name, order)).collect();
                (dated(name, *order), others, self.dates(*order))
            }
            [] if guess.identifier => {
                let others = std::iter::once(column).chain(others).collect();
                let column = ignored(ColumnSchema::new(name, Kind::Identifier));
                (column, others, format!("{}: left out", guess.why))
            }
            [] => {
                let levels = column.kind.has_levels().then(|| self.levels());
                (
                    ColumnSchema { levels, ..column },
                    others.collect(),
                    guess.why,
                )
            }
        }
    }

    /// Why a column is one of dates.
    fn dates(&self, order: DateOrder) -> String {
        let scale = DateScale::days(order);
        let days = self.distinct.iter().filter_map(|cell| scale.number(cell));
        let (first, last) = days.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
            (a.min(v), b.max(v))
        });
        let text = |day: f64| scale.text(day.floor()).unwrap_or_default();
        format!("dates from {} to {}", text(first), text(last))
    }
}

/// `02139`, not `0.5` nor `0`.
fn leads_with_zero(cell: &str) -> bool {
    cell.len() > 1 && cell.starts_with('0') && cell.bytes().all(|b| b.is_ascii_digit())
}

fn cells(n: usize) -> String {
    match n {
        1 => "1 cell".to_owned(),
        n => format!("{n} cells"),
    }
}

fn dated(name: &str, order: DateOrder) -> ColumnSchema {
    ColumnSchema {
        date: Some(DateScale::days(order)),
        ..ColumnSchema::new(name, Kind::Date)
    }
}

/// Levels sorted as numbers when all are numbers, else as text.
pub(super) fn sorted_levels(mut levels: Vec<String>) -> Vec<String> {
    levels.sort_unstable();
    let numbers: Option<Vec<f64>> = levels.iter().map(|level| level.parse().ok()).collect();
    if numbers.is_some() {
        let number = |level: &String| level.parse::<f64>().unwrap_or(f64::NAN);
        levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    levels
}
