//! Attribute-relation files (ARFF), dense and sparse.

use super::numbers::Numbers;
use super::text::{Encoding, Text};
use super::{ReadError, ReadProblem};
use crate::schema::{Kind, Role, Schema, SchemaGuess};
use crate::{MixedColumn, MixedTable, RawColumn, RawTable};
use std::collections::{HashMap, HashSet};
use std::io::Read;

/// The content of an ARFF file.
#[derive(Clone, Debug, PartialEq)]
pub struct Arff {
    /// The data.
    pub table: MixedTable,
}

impl Arff {
    /// Whether a file begins as one of this format does: by `@relation` after comments.
    pub fn is_beginning(bytes: &[u8]) -> bool {
        let mut lines = bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"%"));
        first.is_some_and(|line| line.len() > 9 && line[..9].eq_ignore_ascii_case(b"@relation"))
    }

    /// The table before a schema, and the schema that it suggests: levels are the declared ones in their order, all else as [`Schema::guess_raw`] says.
    ///
    /// ```
    /// use npb_data::schema::Kind;
    /// let file = "@relation r\n@attribute ill {1,0}\n@attribute age numeric\n@data\n0,31\n1,47.5\n";
    /// let (table, guess) = npb_data::read::arff("r.arff", file.as_bytes())?.into_raw("r.arff");
    /// assert_eq!((table.n_rows(), guess.schema.columns[0].kind), (2, Kind::Binary));
    /// assert_eq!(guess.schema.columns[0].levels.as_deref(), Some(&["1".to_owned(), "0".to_owned()][..]));
    /// # Ok::<(), npb_data::read::ReadError>(())
    /// ```
    pub fn into_raw(self, file: &str) -> (RawTable, SchemaGuess) {
        let (names, columns) = self.table.into_parts();
        let declared: Vec<Option<Vec<String>>> = columns
            .iter()
            .map(|column| column.levels().map(<[String]>::to_vec))
            .collect();
        let columns = columns.into_iter().map(raw).collect();
        // A table made of another cannot be uneven.
        let table = RawTable::new(names, columns).unwrap_or_default();
        let mut guess = Schema::guess_raw(file, &table);
        let columns = guess.schema.columns.iter_mut().zip(&mut guess.guesses);
        for ((column, guess), levels) in columns.zip(declared) {
            let Some(levels) = levels.filter(|_| column.role != Role::Ignored) else {
                continue;
            };
            column.kind = if levels.len() == 2 {
                Kind::Binary
            } else {
                Kind::Categorical
            };
            (column.period, column.date) = (None, None);
            column.levels = Some(levels);
            guess.why = "levels that the file declares".to_owned();
            guess.others.clear();
        }
        (table, guess)
    }
}

fn raw(column: MixedColumn) -> RawColumn {
    match column {
        MixedColumn::Real(cells) => RawColumn::Numbers(cells),
        MixedColumn::Count(cells) => {
            RawColumn::Numbers(cells.into_iter().map(|c| c.map(|v| v as f64)).collect())
        }
        MixedColumn::Categorical { levels, codes } => RawColumn::Texts {
            distinct: levels,
            codes,
            ordered: false,
        },
        MixedColumn::Binary { levels, values } => RawColumn::Texts {
            distinct: levels.to_vec(),
            codes: values.into_iter().map(|v| v.map(u32::from)).collect(),
            ordered: false,
        },
    }
}

/// Reads an ARFF file.
///
/// Attributes declared `numeric`, `real` or `integer` become real columns; two declared levels a binary column (first level false);
/// other lists of levels a categorical column; `string` a categorical column with levels in order of appearance. `?` is missing.
/// In sparse rows (`{index value, ...}`, indices from 0 and ascending) an absent entry is 0 or the first level, as the format has it.
/// Dates, relations and instance weights are errors.
///
/// # Errors
/// [`ReadError`] with line and column. A sparse file whose dense form would be out of proportion to its size is refused
/// ([`ReadProblem::TooSparse`]).
///
/// ```
/// let file = "@relation r\n@attribute size real\n@attribute 'is red' {no,yes}\n@data\n1.5,yes\n{0 2}\n";
/// let arff = npb_data::read::arff("r.arff", file.as_bytes())?;
/// assert_eq!(arff.table.column_names(), ["size", "is red"]);
/// assert_eq!(arff.table.numeric_table(&[0, 1])?.values(), [1.5, 1.0, 2.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn arff(file: &str, input: impl Read) -> Result<Arff, ReadError> {
    let text = Text::read(file, input, Encoding::Utf8)?;
    let mut reader = Reader {
        text: &text,
        names: HashSet::new(),
        attributes: Vec::new(),
        sparse_cells: 0,
    };
    let mut lines = text
        .filled_lines()
        .filter(|(_, line)| !line.starts_with('%'));
    let mut data_found = false;
    for (number, line) in lines.by_ref() {
        let (keyword, rest) = split_word(line);
        match keyword.to_ascii_lowercase().as_str() {
            "@relation" => drop(reader.at(number, scan(rest))?),
            "@attribute" => reader.declare(number, rest)?,
            "@data" => data_found = true,
            _ => {
                return Err(text
                    .error(ReadProblem::header(line, "@relation, @attribute or @data"))
                    .at_line(number));
            }
        }
        if data_found {
            break;
        }
    }
    if !data_found {
        let last = text.lines().last().map_or(1, |(number, _)| number);
        return Err(text
            .error(ReadProblem::header("", "@data is missing"))
            .at_line(last));
    }
    for (number, line) in lines {
        reader.row(number, line)?;
    }
    let (names, columns) = reader.attributes.into_iter().map(Attribute::finish).unzip();
    let table = MixedTable::new(names, columns).map_err(|e| text.error(e.into()))?;
    Ok(Arff { table })
}

/// Dense cells that sparse rows may expand to: this many, and this many more for every byte of the file.
const FREE_CELLS: usize = 1 << 20;
const CELLS_PER_BYTE: usize = 16;

struct Reader<'a> {
    text: &'a Text,
    names: HashSet<String>,
    attributes: Vec<Attribute>,
    /// Cells that sparse rows have filled so far.
    sparse_cells: usize,
}

/// A declared attribute and its values so far.
struct Attribute {
    name: String,
    cells: Cells,
}

enum Cells {
    Numbers(Vec<Option<f64>>),
    Levels {
        levels: Vec<String>,
        code_of: HashMap<String, u32>,
        codes: Vec<Option<u32>>,
        /// Declared `string`: new levels may appear.
        open: bool,
    },
}

impl Reader<'_> {
    /// Adds the line to a problem.
    fn at<T>(&self, line: u64, result: Result<T, ReadProblem>) -> Result<T, ReadError> {
        result.map_err(|problem| self.text.error(problem).at_line(line))
    }

    fn declare(&mut self, line: u64, rest: &str) -> Result<(), ReadError> {
        let attribute = self.at(line, attribute(rest))?;
        if !self.names.insert(attribute.name.clone()) {
            return self.at(
                line,
                Err(ReadProblem::header(
                    &attribute.name,
                    "every attribute has its own name",
                )),
            );
        }
        self.attributes.push(attribute);
        Ok(())
    }

    fn row(&mut self, line: u64, content: &str) -> Result<(), ReadError> {
        match content.strip_prefix('{') {
            Some(sparse) => self.sparse_row(line, sparse),
            None => self.dense_row(line, content),
        }
    }

    fn dense_row(&mut self, line: u64, content: &str) -> Result<(), ReadError> {
        let expected = self.attributes.len();
        let (mut rest, mut found) = (content, 0);
        loop {
            let (value, after) = self.at(line, scan(rest)).map_err(|e| e.at_column(found))?;
            let fields_are = |found| ReadProblem::Fields { found, expected };
            let Some(attribute) = self.attributes.get_mut(found) else {
                return Err(self
                    .text
                    .error(fields_are(found + 1))
                    .at_line(line)
                    .at_column(found));
            };
            attribute
                .push(value)
                .map_err(|p| cell_error(self.text, line, found, attribute, p))?;
            found += 1;
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None if !ends(after) => {
                    let problem = ReadProblem::cell(after, "a comma or the end of the line");
                    return Err(self.text.error(problem).at_line(line).at_column(found));
                }
                None if found < expected => {
                    return Err(self
                        .text
                        .error(fields_are(found))
                        .at_line(line)
                        .at_column(found));
                }
                None => return Ok(()),
            }
        }
    }

    fn sparse_row(&mut self, line: u64, content: &str) -> Result<(), ReadError> {
        self.sparse_cells = self.sparse_cells.saturating_add(self.attributes.len());
        let limit = FREE_CELLS.saturating_add(CELLS_PER_BYTE.saturating_mul(self.text.text.len()));
        if self.sparse_cells > limit {
            return self.at(line, Err(ReadProblem::TooSparse { limit }));
        }
        let (mut rest, mut next) = (content.trim_start(), 0);
        while !rest.starts_with('}') {
            let (index, after) = split_word(rest);
            let index = match index.parse::<usize>() {
                Ok(index) if index >= next && index < self.attributes.len() => index,
                _ => {
                    return self.at(
                        line,
                        Err(ReadProblem::cell(
                            index,
                            "the index of a later attribute (from 0)",
                        )),
                    );
                }
            };
            let (value, after) = self.at(line, scan(after)).map_err(|e| e.at_column(index))?;
            self.attributes[next..index]
                .iter_mut()
                .for_each(Attribute::push_absent);
            let attribute = &mut self.attributes[index];
            attribute
                .push(value)
                .map_err(|p| cell_error(self.text, line, index, attribute, p))?;
            next = index + 1;
            rest = match after.strip_prefix(',') {
                Some(more) => more.trim_start(),
                None if after.starts_with('}') => after,
                None => {
                    return self.at(
                        line,
                        Err(ReadProblem::cell(after, "a comma or a closing brace")),
                    );
                }
            };
        }
        self.attributes[next..]
            .iter_mut()
            .for_each(Attribute::push_absent);
        let after = rest[1..].trim_start();
        self.at(
            line,
            if ends(after) {
                Ok(())
            } else {
                Err(ReadProblem::cell(after, "the end of the line"))
            },
        )
    }
}

impl Attribute {
    fn push(&mut self, value: Value) -> Result<(), ReadProblem> {
        let missing = value.text == "?" && !value.quoted;
        match &mut self.cells {
            Cells::Numbers(values) if missing => values.push(None),
            Cells::Numbers(values) => {
                values.push(Some(Numbers::PLAIN.parse(&value.text)?).filter(|v| !v.is_nan()))
            }
            Cells::Levels { codes, .. } if missing => codes.push(None),
            Cells::Levels {
                levels,
                code_of,
                codes,
                open,
            } => {
                if *open && !code_of.contains_key(&value.text) {
                    code_of.insert(value.text.clone(), levels.len() as u32);
                    levels.push(value.text.clone());
                }
                let code = code_of.get(&value.text).copied();
                codes.push(Some(code.ok_or_else(|| {
                    ReadProblem::cell(&value.text, "one of the declared levels")
                })?));
            }
        }
        Ok(())
    }

    /// The value that a sparse row leaves out.
    fn push_absent(&mut self) {
        match &mut self.cells {
            Cells::Numbers(values) => values.push(Some(0.0)),
            Cells::Levels {
                levels,
                code_of,
                codes,
                ..
            } => {
                if levels.is_empty() {
                    code_of.insert(String::new(), 0);
                    levels.push(String::new());
                }
                codes.push(Some(0));
            }
        }
    }

    fn finish(self) -> (String, MixedColumn) {
        let column = match self.cells {
            Cells::Numbers(values) => MixedColumn::Real(values),
            Cells::Levels {
                levels,
                codes,
                open: true,
                ..
            } => MixedColumn::Categorical { levels, codes },
            Cells::Levels { levels, codes, .. } => match <[String; 2]>::try_from(levels) {
                Ok(levels) => MixedColumn::Binary {
                    levels,
                    values: codes.into_iter().map(|c| c.map(|c| c == 1)).collect(),
                },
                Err(levels) => MixedColumn::Categorical { levels, codes },
            },
        };
        (self.name, column)
    }
}

fn cell_error(
    text: &Text,
    line: u64,
    column: usize,
    attribute: &Attribute,
    problem: ReadProblem,
) -> ReadError {
    text.error(problem)
        .at_line(line)
        .at_column(column)
        .named(Some(&attribute.name))
}

/// A declaration after its keyword: name and type.
fn attribute(rest: &str) -> Result<Attribute, ReadProblem> {
    let (name, kind) = match rest.trim_start() {
        quoted if quoted.starts_with(['\'', '"']) => {
            let (value, after) = scan(quoted)?;
            (value.text, after)
        }
        plain => {
            let end = plain
                .find(|c: char| c.is_whitespace() || c == '{')
                .unwrap_or(plain.len());
            (plain[..end].to_owned(), plain[end..].trim_start())
        }
    };
    let cells = match kind.strip_prefix('{') {
        Some(list) => levels(level_list(list)?, false),
        None => match split_word(kind).0.to_ascii_lowercase().as_str() {
            "numeric" | "real" | "integer" => Cells::Numbers(Vec::new()),
            "string" => levels(Vec::new(), true),
            _ => {
                return Err(ReadProblem::header(
                    kind,
                    "numeric, real, integer, string or {level, level, ...}",
                ));
            }
        },
    };
    Ok(Attribute { name, cells })
}

fn levels(levels: Vec<String>, open: bool) -> Cells {
    let code_of = levels.iter().cloned().zip(0..).collect();
    Cells::Levels {
        levels,
        code_of,
        codes: Vec::new(),
        open,
    }
}

/// Levels up to the closing brace; they must differ.
fn level_list(list: &str) -> Result<Vec<String>, ReadProblem> {
    let (mut levels, mut rest): (Vec<String>, &str) = (Vec::new(), list.trim_start());
    let mut seen = HashSet::new();
    while !rest.starts_with('}') {
        let (level, after) = scan(rest)?;
        if !seen.insert(level.text.clone()) {
            return Err(ReadProblem::header(
                &level.text,
                "every level is listed once",
            ));
        }
        levels.push(level.text);
        rest = match after.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if after.starts_with('}') => after,
            None => {
                return Err(ReadProblem::header(
                    list,
                    "a list of levels ends with a closing brace",
                ));
            }
        };
    }
    if levels.is_empty() {
        Err(ReadProblem::header(list, "a list of levels is not empty"))
    } else {
        Ok(levels)
    }
}

/// One value of a line.
struct Value {
    text: String,
    quoted: bool,
}

/// The next value and what follows it, blanks removed. An unquoted value ends before a comma, a closing brace or a comment.
fn scan(rest: &str) -> Result<(Value, &str), ReadProblem> {
    let rest = rest.trim_start();
    match rest.chars().next() {
        Some(quote @ ('\'' | '"')) => scan_quoted(rest, quote),
        _ => {
            let end = rest.find([',', '}', '%']).unwrap_or(rest.len());
            let text = rest[..end].trim_end();
            if text.is_empty() {
                return Err(ReadProblem::cell(
                    rest,
                    "a value (write ? for a missing one, quote an empty one)",
                ));
            }
            Ok((
                Value {
                    text: text.to_owned(),
                    quoted: false,
                },
                &rest[end..],
            ))
        }
    }
}

/// A value in quotes; a backslash escapes the next character.
fn scan_quoted(rest: &str, quote: char) -> Result<(Value, &str), ReadProblem> {
    let (mut text, mut escaped) = (String::new(), false);
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => {
                escaped = false;
                text.push(match c {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                });
            }
            '\\' => escaped = true,
            _ if c == quote => {
                return Ok((
                    Value { text, quoted: true },
                    rest[at + c.len_utf8()..].trim_start(),
                ));
            }
            _ => text.push(c),
        }
    }
    Err(ReadProblem::UnclosedQuote)
}

/// The first word and the rest without leading blanks.
fn split_word(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    (&line[..end], line[end..].trim_start())
}

/// Nothing but a comment is left.
fn ends(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('%')
}
