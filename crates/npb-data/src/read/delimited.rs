//! Delimited text: comma, tab, blanks or any other separator.

use super::numbers::Numbers;
use super::text::{Encoding, Piece, Text, line_ends};
use super::{ReadError, ReadProblem};
use crate::names::{check_distinct, default_names, missing_marks};
use crate::{DataError, Labels, Table};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::io::Read;

/// How fields of a line are separated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Separator {
    /// One ASCII character; fields may be quoted.
    Char(char),
    /// Any run of blanks and tabs; no quoting.
    Blanks,
    /// A longer string such as `::`; no quoting.
    Text(String),
}

/// A column of a file, by position (from 0) or by the name in its header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Column {
    /// Position, from 0.
    Index(usize),
    /// Name in the header.
    Name(String),
}

/// How delimited text is laid out. The default: commas, double quotes, a header, blanks around fields ignored.
///
/// Blank lines are skipped, so that a table of one column marks a missing cell by more than nothing.
///
/// ```
/// use npb_data::read::{DelimitedOptions, table};
/// let options = DelimitedOptions { header: false, ..DelimitedOptions::default() };
/// let table = table("small.csv", "1,?\n2,3\n".as_bytes(), &options)?;
/// assert_eq!((table.n_rows(), table.n_missing()), (2, 1));
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DelimitedOptions {
    /// What stands between fields.
    pub separator: Separator,
    /// The first line holds column names.
    pub header: bool,
    /// Fields that mean "missing". A number that reads as NaN is missing, too.
    pub missing: Vec<String>,
    /// Quote character (ASCII) for [`Separator::Char`], doubled inside a field; `None`: quotes are ordinary characters.
    pub quote: Option<char>,
    /// Remove blanks around fields.
    pub trim: bool,
    /// Lines that begin with this ASCII character are skipped.
    pub comment: Option<char>,
    /// What stands before decimals: a point or a comma.
    pub decimal: char,
    /// What stands between groups of three digits, if anything: `1,234.5`, `1.234,5`, `1 234`.
    pub thousands: Option<char>,
    /// How bytes become characters.
    pub encoding: Encoding,
    /// Columns to leave out, such as identifiers.
    pub skip: Vec<Column>,
}

impl Default for DelimitedOptions {
    fn default() -> Self {
        Self {
            separator: Separator::Char(','),
            header: true,
            missing: missing_marks(),
            quote: Some('"'),
            trim: true,
            comment: None,
            decimal: '.',
            thousands: None,
            encoding: Encoding::Utf8,
            skip: Vec::new(),
        }
    }
}

impl DelimitedOptions {
    fn check(&self) -> Result<(), ReadProblem> {
        let ascii = |option, c: char| match c.is_ascii() && c != '\n' && c != '\r' {
            true => Ok(()),
            false => Err(ReadProblem::Options {
                option,
                rule: "must be an ASCII character and not a line end",
            }),
        };
        match &self.separator {
            Separator::Char(separator) => ascii("separator", *separator)?,
            Separator::Text(separator) if separator.is_empty() => {
                return Err(ReadProblem::Options {
                    option: "separator",
                    rule: "must not be empty",
                });
            }
            Separator::Text(_) | Separator::Blanks => {}
        }
        self.quote.map_or(Ok(()), |quote| ascii("quote", quote))?;
        self.comment.map_or(Ok(()), |mark| ascii("comment", mark))?;
        let broken = |option, rule| Err(ReadProblem::Options { option, rule });
        if self
            .quote
            .is_some_and(|quote| self.separator == Separator::Char(quote))
        {
            return broken("quote", "must differ from the separator");
        }
        if !['.', ','].contains(&self.decimal) {
            return broken("decimal", "must be a point or a comma");
        }
        match self.thousands {
            Some(mark)
                if mark == self.decimal || mark.is_alphanumeric() || ['+', '-'].contains(&mark) =>
            {
                broken(
                    "thousands",
                    "must not be the decimal mark, a sign, a letter or a digit",
                )
            }
            _ => Ok(()),
        }
    }

    /// A field that is a number with a decimal point and nothing between thousands; every other as it is.
    pub fn with_point<'a>(&self, field: &'a str) -> Cow<'a, str> {
        let numbers = self.numbers();
        match numbers == Numbers::PLAIN {
            true => Cow::Borrowed(field),
            false => {
                let plain = numbers.with_point(field);
                let number = plain.filter(|text| text.parse::<f64>().is_ok());
                number.unwrap_or(Cow::Borrowed(field))
            }
        }
    }

    /// How numbers are written.
    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            decimal: self.decimal,
            thousands: self.thousands,
        }
    }

    pub(super) fn trimmed<'a>(&self, field: &'a str) -> &'a str {
        let plain = |b: Option<&u8>| b.is_some_and(|b| (b'!'..=b'~').contains(b));
        if plain(field.as_bytes().first()) && plain(field.as_bytes().last()) {
            return field;
        }
        // Line ends stay, so that errors can count them.
        let blank = |c: char| c.is_whitespace() && c != '\n' && c != '\r';
        if self.trim {
            field.trim_matches(blank)
        } else {
            field
        }
    }
}

impl Column {
    /// Position among the columns of the file.
    fn find(&self, file: &str, names: &[String]) -> Result<usize, ReadError> {
        let position = match self {
            Column::Index(index) => Some(*index).filter(|&index| index < names.len()),
            Column::Name(name) => names.iter().position(|n| n == name),
        };
        position.ok_or_else(|| {
            let problem = ReadProblem::NoSuchColumn {
                column: self.to_string(),
                known: listed(names),
            };
            ReadError::new(file, problem)
        })
    }
}

/// The first columns of a file by name, for a message.
fn listed(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(10).map(|n| format!("{n:?}")).collect();
    match names.len() {
        0 => "the file has none".to_owned(),
        n if n > first.len() => format!(
            "the file has {} and {} more",
            first.join(", "),
            n - first.len()
        ),
        _ => format!("the file has {}", first.join(", ")),
    }
}

impl From<usize> for Column {
    fn from(index: usize) -> Self {
        Column::Index(index)
    }
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Column::Name(name.to_owned())
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Index(index) => write!(f, "at position {index} (from 0)"),
            Column::Name(name) => write!(f, "named {name:?}"),
        }
    }
}

/// Reads a table of numbers.
///
/// # Errors
/// [`ReadError`] names file, line and column of the first field that is neither a finite number nor a missing mark, of a line with
/// another number of fields than the first, and of bytes that are not UTF-8.
pub fn table(file: &str, input: impl Read, options: &DelimitedOptions) -> Result<Table, ReadError> {
    numbers(file, input, options, None).map(|(table, _)| table)
}

/// Reads a table of numbers in which one column holds class labels (classes sorted as text; a missing mark is an unlabelled row).
///
/// # Errors
/// As [`table()`]; [`ReadProblem::NoSuchColumn`] when the label column does not exist.
pub fn labelled_table(
    file: &str,
    input: impl Read,
    label: &Column,
    options: &DelimitedOptions,
) -> Result<(Table, Labels), ReadError> {
    numbers(file, input, options, Some(label))
        .map(|(table, labels)| (table, Labels::from_strings(&labels)))
}

/// Reads a table of strings.
///
/// # Errors
/// As [`table()`], except that any text is a valid field.
pub fn delimited_strings(
    file: &str,
    input: impl Read,
    options: &DelimitedOptions,
) -> Result<StringTable, ReadError> {
    let text = Text::read(file, input, options.encoding)?;
    let mut rows = Vec::new();
    let layout = for_each_row(&text, options, &[], |row| {
        rows.push(
            row.layout
                .kept
                .iter()
                .map(|&j| row.cell(j).map(str::to_owned))
                .collect(),
        );
        Ok(())
    })?;
    Ok(StringTable {
        column_names: layout.kept_names(),
        rows,
    })
}

/// Delimited text before any interpretation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringTable {
    /// Names of the columns.
    pub column_names: Vec<String>,
    /// Fields row by row; `None` = missing mark.
    pub rows: Vec<Vec<Option<String>>>,
}

/// Shared body of [`table`] and [`labelled_table`].
fn numbers(
    file: &str,
    input: impl Read,
    options: &DelimitedOptions,
    label: Option<&Column>,
) -> Result<(Table, Vec<Option<String>>), ReadError> {
    let text = Text::read(file, input, options.encoding)?;
    let (mut values, mut labels, mut n_rows) = (Vec::new(), Vec::new(), 0);
    let numbers = options.numbers();
    let layout = for_each_row(&text, options, label.as_slice(), |row| {
        n_rows += 1;
        labels.extend(
            row.layout
                .taken
                .iter()
                .map(|&j| row.cell(j).map(str::to_owned)),
        );
        for &j in &row.layout.kept {
            let number = row.cell(j).map(|cell| numbers.parse(cell));
            values.push(
                number
                    .unwrap_or(Ok(f64::NAN))
                    .map_err(|p| row.error_at(j, p))?,
            );
        }
        Ok(())
    })?;
    let table = Table::from_nan_coded_vec(n_rows, layout.kept.len(), values)
        .and_then(|table| table.with_column_names(layout.kept_names()))
        .map_err(|e| text.error(e.into()))?;
    Ok((table, labels))
}

/// Which columns there are and which of them are wanted.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Names of all columns of the file.
    pub(crate) names: Vec<String>,
    /// The names come from the file.
    pub(crate) header: bool,
    /// Columns that make up the table.
    pub(crate) kept: Vec<usize>,
    /// Columns taken out for another use, in the order asked for.
    pub(crate) taken: Vec<usize>,
}

impl Layout {
    fn new(
        file: &str,
        names: Vec<String>,
        options: &DelimitedOptions,
        take: &[&Column],
    ) -> Result<Self, ReadError> {
        check_distinct(&names).map_err(|e| duplicate_name(file, e))?;
        let find = |column: &Column| column.find(file, &names);
        let taken = take
            .iter()
            .map(|&c| find(c))
            .collect::<Result<Vec<_>, _>>()?;
        let skipped = options
            .skip
            .iter()
            .map(find)
            .collect::<Result<Vec<_>, _>>()?;
        let kept = (0..names.len())
            .filter(|j| !taken.contains(j) && !skipped.contains(j))
            .collect();
        Ok(Self {
            names,
            header: options.header,
            kept,
            taken,
        })
    }

    /// Names of the columns of the table: those of the header, or `x0`, `x1`, ... counted over the table.
    pub(crate) fn kept_names(&self) -> Vec<String> {
        if !self.header {
            return default_names(self.kept.len());
        }
        self.kept.iter().map(|&j| self.names[j].clone()).collect()
    }
}

fn duplicate_name(file: &str, error: DataError) -> ReadError {
    let column = match &error {
        DataError::DuplicateColumn { second, .. } => Some(*second),
        _ => None,
    };
    let error = ReadError::new(file, error.into());
    match column {
        Some(column) => error.at_column(column),
        None => error,
    }
}

/// One line of data.
pub(crate) struct Row<'a> {
    file: &'a str,
    options: &'a DelimitedOptions,
    pub(crate) layout: &'a Layout,
    pub(crate) line: u64,
    fields: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// How numbers are written.
    pub(crate) fn numbers(&self) -> Numbers {
        self.options.numbers()
    }

    /// Number of fields.
    pub(crate) fn n_fields(&self) -> usize {
        self.fields.len()
    }

    /// The field in column `j` of the file, `None` when it is a missing mark.
    pub(crate) fn cell(&self, j: usize) -> Option<&'a str> {
        let field = self.fields[j];
        (!self.options.missing.iter().any(|mark| mark == field)).then_some(field)
    }

    /// An error in column `j` of the file.
    pub(crate) fn error_at(&self, j: usize, problem: ReadProblem) -> ReadError {
        // A quoted field may contain line ends, so that a later field is on a later line.
        let skipped: u64 = self.fields[..j]
            .iter()
            .map(|f| line_ends(f.as_bytes()))
            .sum();
        let name = self.layout.header.then(|| self.layout.names[j].as_str());
        ReadError::new(self.file, problem)
            .at_line(self.line + skipped)
            .at_column(j)
            .named(name)
    }
}

/// Calls `visit` for every line of data; `take` names columns that the caller treats separately.
pub(crate) fn for_each_row(
    text: &Text,
    options: &DelimitedOptions,
    take: &[&Column],
    mut visit: impl FnMut(&Row<'_>) -> Result<(), ReadError>,
) -> Result<Layout, ReadError> {
    let mut rows = Rows::new(options.clone(), take);
    rows.visit(&text.piece(), |row| visit(row).map(|()| true))?;
    rows.into_layout(&text.file)
}

/// The lines of data of a text that comes in pieces.
pub(crate) struct Rows<'a> {
    options: DelimitedOptions,
    take: &'a [&'a Column],
    /// There when the first line is.
    layout: Option<Layout>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(options: DelimitedOptions, take: &'a [&'a Column]) -> Self {
        Self {
            options,
            take,
            layout: None,
        }
    }

    /// Calls `visit` for the lines of data that are whole, until it returns false; what was used of the piece.
    pub(crate) fn visit(
        &mut self,
        piece: &Piece<'_>,
        mut visit: impl FnMut(&Row<'_>) -> Result<bool, ReadError>,
    ) -> Result<Used, ReadError> {
        let (options, file) = (&self.options, piece.file);
        for_each_record(piece, options, |line, fields| {
            let layout = match &self.layout {
                Some(layout) => layout,
                None => {
                    let names = match options.header {
                        true => fields.iter().map(|&f| f.to_owned()).collect(),
                        false => default_names(fields.len()),
                    };
                    let layout = Layout::new(file, names, options, self.take);
                    let layout = self.layout.insert(layout.map_err(|e| e.at_line(line))?);
                    if options.header {
                        return Ok(true);
                    }
                    layout
                }
            };
            let (found, expected) = (fields.len(), layout.names.len());
            if found != expected {
                let error = ReadError::new(file, ReadProblem::Fields { found, expected });
                return Err(error.at_line(line).at_column(found.min(expected)));
            }
            visit(&Row {
                file,
                options,
                layout,
                line,
                fields,
            })
        })
    }

    /// What the first line says; a text without any has no columns.
    pub(crate) fn into_layout(self, file: &str) -> Result<Layout, ReadError> {
        match self.layout {
            Some(layout) => Ok(layout),
            None => Layout::new(file, Vec::new(), &self.options, self.take),
        }
    }

    /// Names of the columns, none before the first line.
    pub(crate) fn names(&self) -> &[String] {
        self.layout.as_ref().map_or(&[], |layout| &layout.names)
    }

    pub(crate) fn has_header(&self) -> bool {
        self.options.header
    }
}

/// What was used of a piece of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) n_bytes: usize,
    /// The line in which the rest begins.
    pub(crate) line: u64,
}

/// Calls `visit` with line number and fields of every record that is whole, until it returns false; blank lines and comments are skipped.
fn for_each_record(
    piece: &Piece<'_>,
    options: &DelimitedOptions,
    mut visit: impl FnMut(u64, &[&str]) -> Result<bool, ReadError>,
) -> Result<Used, ReadError> {
    let checked = options.check();
    checked.map_err(|problem| ReadError::new(piece.file, problem))?;
    let separator = match (&options.separator, options.quote) {
        (Separator::Char(separator), Some(quote)) if piece.text.contains(quote) => {
            return for_each_quoted_record(piece, *separator, quote, options, visit);
        }
        (separator, _) => separator,
    };
    let mut fields: Vec<&str> = Vec::new();
    let mut lines = piece.lines();
    loop {
        let used = Used {
            n_bytes: piece.text.len() - lines.rest.len(),
            line: lines.number + 1,
        };
        let Some((number, line)) = lines.next() else {
            return Ok(used);
        };
        // The line may go on, or its end be the first half of one.
        if !piece.last && lines.rest.is_empty() && !piece.text.ends_with('\n') {
            return Ok(used);
        }
        if options.comment.is_some_and(|mark| line.starts_with(mark)) {
            continue;
        }
        fields.clear();
        match separator {
            Separator::Char(mark) => fields.extend(line.split(*mark).map(|f| options.trimmed(f))),
            Separator::Text(mark) => {
                fields.extend(line.split(mark.as_str()).map(|f| options.trimmed(f)));
            }
            Separator::Blanks => fields.extend(line.split_whitespace()),
        }
        if fields.is_empty() || (fields.len() == 1 && fields[0].trim().is_empty()) {
            continue;
        }
        if !visit(number, &fields)? {
            return Ok(Used {
                n_bytes: piece.text.len() - lines.rest.len(),
                line: number + 1,
            });
        }
    }
}

/// As [`for_each_record`] for text with quotes.
fn for_each_quoted_record(
    piece: &Piece<'_>,
    separator: char,
    quote: char,
    options: &DelimitedOptions,
    mut visit: impl FnMut(u64, &[&str]) -> Result<bool, ReadError>,
) -> Result<Used, ReadError> {
    // Both are ASCII by `DelimitedOptions::check`. Comments are skipped here: csv has them end at a line feed alone.
    let from = |first: usize| {
        csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(separator as u8)
            .quote(quote as u8)
            .from_reader(&piece.text.as_bytes()[first..])
    };
    let (mut first, mut reader) = (0, from(0));
    let mut lines = LineCounter::new(piece, options.comment);
    let mut record = csv::StringRecord::new();
    loop {
        let start = first + reader.position().byte() as usize;
        let used = Used {
            n_bytes: start,
            line: lines.line_at(start),
        };
        let line = lines.line_of_record(start);
        let skipped = &piece.text[start..lines.at];
        if options.comment.is_some_and(|mark| skipped.contains(mark)) {
            (first, reader) = (lines.at, from(lines.at));
        }
        let in_file = |problem| ReadError::new(piece.file, problem).at_line(line);
        let found = reader.read_record(&mut record);
        let end = first + reader.position().byte() as usize;
        let is_end = reader.is_done() || end >= piece.text.len();
        // The record may go on.
        if is_end && !piece.last {
            return Ok(used);
        }
        match found {
            Ok(true) => {}
            Ok(false) => return Ok(used),
            Err(error) => return Err(in_file(ReadProblem::Io(error.into()))),
        }
        if is_end && is_unclosed(piece.text.get(lines.at..), &record, quote) {
            return Err(in_file(ReadProblem::UnclosedQuote));
        }
        // A line of blanks only is as good as an empty one; a quoted empty field is a field.
        if record.len() == 1 && !record[0].is_empty() && record[0].trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = record.iter().map(|f| options.trimmed(f)).collect();
        if !visit(line, &fields)? {
            let line = lines.line_at(end);
            return Ok(Used { n_bytes: end, line });
        }
    }
}

/// Finds the line on which a record starts; records come in order.
struct LineCounter<'a> {
    bytes: &'a [u8],
    comment: Option<char>,
    at: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    fn new(piece: &Piece<'a>, comment: Option<char>) -> Self {
        Self {
            bytes: piece.text.as_bytes(),
            comment,
            at: 0,
            line: piece.line,
        }
    }

    /// The line of the byte at `to`, which is not before those that were asked for.
    fn line_at(&mut self, to: usize) -> u64 {
        self.advance(to.min(self.bytes.len()));
        self.line
    }

    /// The line of the first record at or after byte `start`: blank lines, which csv skips, and comments before it are skipped.
    fn line_of_record(&mut self, start: usize) -> u64 {
        self.line_at(start);
        loop {
            let rest = &self.bytes[self.at..];
            let is_end = |b: &u8| *b == b'\n' || *b == b'\r';
            let skip = match rest.first() {
                Some(first) if is_end(first) => 1,
                Some(&first) if self.comment == Some(char::from(first)) => {
                    rest.iter().position(is_end).unwrap_or(rest.len())
                }
                _ => return self.line,
            };
            self.advance(self.at + skip);
        }
    }

    fn advance(&mut self, to: usize) {
        while self.at < to {
            let end = match self.bytes[self.at] {
                b'\n' => true,
                b'\r' => self.bytes.get(self.at + 1) != Some(&b'\n'),
                _ => false,
            };
            self.line += u64::from(end);
            self.at += 1;
        }
    }
}

/// The last record ends inside a quoted field: csv takes the rest of the file for one field.
fn is_unclosed(raw: Option<&str>, record: &csv::StringRecord, quote: char) -> bool {
    let spans_lines = record
        .iter()
        .next_back()
        .is_some_and(|field| line_ends(field.as_bytes()) > 0);
    raw.map_or(0, |raw| raw.matches(quote).count()) % 2 == 1 && spans_lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::text::TextStream;

    type Lines = Vec<(u64, Vec<String>)>;

    fn line(row: &Row<'_>) -> (u64, Vec<String>) {
        (row.line, row.fields.iter().map(|&f| f.to_owned()).collect())
    }

    fn at_once(text: &str, options: &DelimitedOptions) -> Result<Lines, ReadError> {
        let text = Text {
            file: "f".to_owned(),
            text: text.to_owned(),
        };
        let mut lines = Vec::new();
        for_each_row(&text, options, &[], |row| {
            lines.push(line(row));
            Ok(())
        })?;
        Ok(lines)
    }

    /// From blocks of few bytes, so many rows at a time.
    fn in_pieces(bytes: &[u8], n: usize, options: &DelimitedOptions) -> Result<Lines, ReadError> {
        let mut stream = TextStream::open("f", bytes, options.encoding)?;
        let (mut rows, mut lines) = (Rows::new(options.clone(), &[]), Vec::new());
        loop {
            let before = lines.len();
            let used = rows.visit(&stream.piece(), |row| {
                lines.push(line(row));
                Ok(lines.len() - before < n)
            })?;
            stream.used(used.n_bytes, used.line);
            if lines.len() - before < n {
                if stream.piece().last {
                    return Ok(lines);
                }
                stream.more()?;
            }
        }
    }

    #[test]
    fn pieces_give_the_rows_of_the_whole() {
        let unix = "a,b\n1,\"x, \"\"y\"\"\"\n\n# no\n2,\"two\nlines\n\"\n  \n3,caf\u{e9} \u{1f600}\n\"\",5\" pipe\n4,end";
        let plain = "a,b\n1,x\n\n#\n2,a long field, no\n";
        let broken = "a,b\n1,2\n3,4\n5,\"never closed\n6,7\n";
        let commented = DelimitedOptions {
            comment: Some('#'),
            ..DelimitedOptions::default()
        };
        let unquoted = DelimitedOptions {
            quote: None,
            header: false,
            ..DelimitedOptions::default()
        };
        let blanks = DelimitedOptions {
            separator: Separator::Blanks,
            ..commented.clone()
        };
        for text in [unix, plain, broken, "", "\n", "a,b\r", "\"a\",b\r\n\r\n"] {
            for ends in ["\n", "\r\n", "\r"] {
                let text = text.replace('\n', ends);
                let mut marked = "\u{feff}".as_bytes().to_vec();
                marked.extend(text.bytes());
                let units = std::iter::once(0xfeff).chain(text.encode_utf16());
                let utf16: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
                for options in [&commented, &unquoted, &blanks, &DelimitedOptions::default()] {
                    let whole = at_once(&text, options).map_err(|e| e.to_string());
                    for n in [1, 2, 3, 100] {
                        for bytes in [text.as_bytes(), &marked, &utf16] {
                            let found = in_pieces(bytes, n, options).map_err(|e| e.to_string());
                            assert_eq!(found, whole, "{text:?}, {n} rows at a time");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named_in_any_piece() {
        for before in 0..40 {
            let lines = "1,2\r\n".repeat(before);
            let bytes = [b"a,b\r\n", lines.as_bytes(), b"3,\xff\r\n"].concat();
            let error = in_pieces(&bytes, 3, &DelimitedOptions::default());
            let error = error.expect_err("no text").to_string();
            let place = format!("f:{}: byte 3: ", before + 2);
            assert!(error.starts_with(&place), "{error}");
        }
    }
}
