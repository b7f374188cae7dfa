//! Ratings as (row, column, value) lines: MovieLens files and other triplets.

use super::delimited::{Column, DelimitedOptions, Row, Separator, for_each_row};
use super::text::{Encoding, Text};
use super::{ReadError, ReadProblem};
use crate::{DataError, Rating, Ratings};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Read;

/// Ratings in the order of the file (of pairs that occur again: of their first lines), with the identifiers that the file uses.
///
/// Identifiers are sorted, as numbers when all are whole numbers and else as text; indices are positions among the sorted ones.
/// Every identifier has a rating, so that there are no empty rows or columns.
#[derive(Clone, Debug, PartialEq)]
pub struct RatingFile {
    /// Identifier of every row (user).
    pub row_ids: Vec<String>,
    /// Identifier of every column (item).
    pub column_ids: Vec<String>,
    /// The ratings in the order of the file; no pair occurs twice.
    pub entries: Vec<Rating>,
}

impl RatingFile {
    /// All ratings.
    ///
    /// # Errors
    /// [`DataError`] when the entries were altered after reading; none otherwise.
    pub fn ratings(&self) -> Result<Ratings, DataError> {
        Ratings::new(self.row_ids.len(), self.column_ids.len(), &self.entries)
    }

    /// The ratings on the given lines (positions in [`entries`](Self::entries)), in a matrix of full size.
    ///
    /// # Errors
    /// [`DataError::NoSuchRow`] for a position out of range, [`DataError::DuplicateEntry`] for a repeated one.
    pub fn select(&self, lines: &[usize]) -> Result<Ratings, DataError> {
        let n_rows = self.entries.len();
        let entry = |&row: &usize| {
            self.entries
                .get(row)
                .copied()
                .ok_or(DataError::NoSuchRow { row, n_rows })
        };
        let entries = lines.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        Ratings::new(self.row_ids.len(), self.column_ids.len(), &entries)
    }
}

/// What a (row, column) pair that occurs again means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// A mistake.
    #[default]
    Error,
    /// Another value: the last one counts.
    Last,
    /// Several values: their mean counts.
    Mean,
}

/// The layouts in which MovieLens data come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovieLens {
    /// `u.data` and its splits (100K): tab-separated user, item, rating, time.
    Tab,
    /// `ratings.dat` (1M, 10M): user, item, rating, time separated by `::`; the time may be absent.
    DoubleColon,
    /// `ratings.csv` (20M and later): a header, then user, item, rating, time; the time may be absent.
    Csv,
}

/// Reads MovieLens ratings.
///
/// # Errors
/// [`ReadError`] with line and column: another number of fields than 3 or 4 (4 for [`MovieLens::Tab`]) or than the first line, an
/// identifier that is not a whole number, a rating that is not finite, a time that is not a whole number; a pair that occurs twice.
///
/// ```
/// use npb_data::read::{MovieLens, movielens};
/// let file = movielens("ratings.dat", "1::1193::5::978300760\n2::1193::4::978302109\n".as_bytes(), MovieLens::DoubleColon)?;
/// let ratings = file.ratings()?;
/// assert_eq!((ratings.n_rows(), ratings.n_cols(), ratings.get(1, 0)), (2, 1, Some(4.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn movielens(file: &str, input: impl Read, layout: MovieLens) -> Result<RatingFile, ReadError> {
    let (separator, header, widths) = match layout {
        MovieLens::Tab => (Separator::Char('\t'), false, 4..=4),
        MovieLens::DoubleColon => (Separator::Text("::".to_owned()), false, 3..=4),
        MovieLens::Csv => (Separator::Char(','), true, 3..=4),
    };
    let options = DelimitedOptions {
        separator,
        header,
        missing: Vec::new(),
        ..DelimitedOptions::default()
    };
    let text = Text::read(file, input, Encoding::Utf8)?;
    let mut entries = Entries::default();
    for_each_row(&text, &options, &[], |row| {
        if !widths.contains(&row.n_fields()) {
            let problem = ReadProblem::Fields {
                found: row.n_fields(),
                expected: *widths.end(),
            };
            return Err(row.error_at(0, problem));
        }
        // Identifiers, and the time where there is one.
        for j in [0, 1].into_iter().chain(3..row.n_fields()) {
            check_whole(row, j)?;
        }
        entries.push(row, [0, 1, 2])
    })?;
    entries.finish(&text)
}

/// Reads (row identifier, column identifier, value) lines of delimited text; other columns are ignored.
///
/// `columns` says where row identifier, column identifier and value are. Identifiers are any text. `repeats`: what a pair that occurs again means.
///
/// # Errors
/// [`ReadError`] with line and column: a missing identifier or value, a value that is not finite, a pair that occurs twice unless `repeats` says otherwise.
///
/// ```
/// use npb_data::read::{Column, DelimitedOptions, Repeats, triplets};
/// let text = "user,film,stars\na,f,2\nb,f,1\na,f,5\n";
/// let columns = ["user", "film", "stars"].map(Column::from);
/// let read = |repeats| triplets("r.csv", text.as_bytes(), columns.each_ref(), &DelimitedOptions::default(), repeats);
/// let values = |repeats| read(repeats).map(|file| file.entries.iter().map(|e| e.value).collect::<Vec<_>>());
/// assert_eq!((values(Repeats::Last)?, values(Repeats::Mean)?), (vec![5.0, 1.0], vec![3.5, 1.0]));
/// assert!(values(Repeats::Error).is_err());
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
pub fn triplets(
    file: &str,
    input: impl Read,
    columns: [&Column; 3],
    options: &DelimitedOptions,
    repeats: Repeats,
) -> Result<RatingFile, ReadError> {
    let text = Text::read(file, input, options.encoding)?;
    let mut entries = Entries::default();
    for_each_row(&text, options, &columns, |row| {
        let [i, j, v] = row.layout.taken[..] else {
            return Err(row.error_at(
                0,
                ReadProblem::Fields {
                    found: row.layout.taken.len(),
                    expected: 3,
                },
            ));
        };
        entries.push(row, [i, j, v])
    })?;
    entries.join(repeats);
    entries.finish(&text)
}

fn check_whole(row: &Row<'_>, j: usize) -> Result<(), ReadError> {
    let cell = required(row, j)?;
    match cell.parse::<i64>() {
        Ok(_) => Ok(()),
        Err(_) => Err(row.error_at(j, ReadProblem::cell(cell, "a whole number"))),
    }
}

fn required<'a>(row: &Row<'a>, j: usize) -> Result<&'a str, ReadError> {
    row.cell(j).ok_or_else(|| {
        row.error_at(
            j,
            ReadProblem::cell("", "a value; a missing mark stands here"),
        )
    })
}

/// Identifiers and entries as they are met.
#[derive(Default)]
struct Entries {
    rows: Identifiers,
    columns: Identifiers,
    entries: Vec<Rating>,
    lines: Vec<u64>,
}

/// Identifiers numbered by first occurrence.
#[derive(Default)]
struct Identifiers {
    number_of: HashMap<String, u32>,
}

impl Entries {
    fn push(&mut self, row: &Row<'_>, [i, j, v]: [usize; 3]) -> Result<(), ReadError> {
        let cell = required(row, v)?;
        let value = row.numbers().parse(cell);
        let value = value.map_err(|problem| row.error_at(v, problem))?;
        if value.is_nan() {
            return Err(row.error_at(v, ReadProblem::cell(cell, "a finite number")));
        }
        let number = |ids: &mut Identifiers, j| {
            let id = required(row, j)?;
            ids.number(id).ok_or_else(|| {
                row.error_at(
                    j,
                    ReadProblem::cell(id, "one of 2^32 identifiers; there are more"),
                )
            })
        };
        let (row_number, column) = (number(&mut self.rows, i)?, number(&mut self.columns, j)?);
        self.entries.push(Rating {
            row: row_number,
            column,
            value,
        });
        self.lines.push(row.line);
        Ok(())
    }

    /// One entry of each pair, where the first one stands.
    fn join(&mut self, repeats: Repeats) {
        if repeats == Repeats::Error {
            return;
        }
        let mut first_of: HashMap<(u32, u32), usize> = HashMap::new();
        let mut n_values: Vec<f64> = Vec::new();
        let mut lines = Vec::new();
        let mut kept: Vec<Rating> = Vec::new();
        for (entry, &line) in self.entries.iter().zip(&self.lines) {
            let at = *first_of
                .entry((entry.row, entry.column))
                .or_insert(kept.len());
            if at == kept.len() {
                kept.push(*entry);
                n_values.push(1.0);
                lines.push(line);
                continue;
            }
            n_values[at] += 1.0;
            let own = &mut kept[at].value;
            *own = match repeats {
                Repeats::Mean => *own + (entry.value - *own) / n_values[at],
                _ => entry.value,
            };
        }
        (self.entries, self.lines) = (kept, lines);
    }

    /// Sorts the identifiers, renumbers the entries and looks for repeated pairs.
    fn finish(self, text: &Text) -> Result<RatingFile, ReadError> {
        let (row_ids, row_rank) = self.rows.sorted();
        let (column_ids, column_rank) = self.columns.sorted();
        let renumbered = |e: Rating| Rating {
            row: row_rank[e.row as usize],
            column: column_rank[e.column as usize],
            value: e.value,
        };
        let entries: Vec<Rating> = self.entries.into_iter().map(renumbered).collect();
        if let Some((first, second)) = first_repeat(&entries) {
            let Rating { row, column, .. } = entries[first];
            let problem = ReadProblem::Duplicate {
                row: row_ids[row as usize].clone(),
                column: column_ids[column as usize].clone(),
                first_line: self.lines[first],
            };
            return Err(text.error(problem).at_line(self.lines[second]));
        }
        Ok(RatingFile {
            row_ids,
            column_ids,
            entries,
        })
    }
}

impl Identifiers {
    /// The number of an identifier, a new one when it is new; `None` when numbers run out.
    fn number(&mut self, id: &str) -> Option<u32> {
        if let Some(&number) = self.number_of.get(id) {
            return Some(number);
        }
        let next = u32::try_from(self.number_of.len()).ok()?;
        self.number_of.insert(id.to_owned(), next);
        Some(next)
    }

    /// The identifiers in order, and the place of every number in that order.
    fn sorted(self) -> (Vec<String>, Vec<u32>) {
        let mut ids: Vec<(Option<i64>, String, u32)> = self
            .number_of
            .into_iter()
            .map(|(id, number)| (id.parse().ok(), id, number))
            .collect();
        if ids.iter().any(|(whole, ..)| whole.is_none()) {
            ids.iter_mut().for_each(|(whole, ..)| *whole = None);
        }
        ids.sort_unstable();
        let mut rank = vec![0; ids.len()];
        ids.iter()
            .zip(0..)
            .for_each(|((_, _, number), place)| rank[*number as usize] = place);
        (ids.into_iter().map(|(_, id, _)| id).collect(), rank)
    }
}

/// Positions of the first entry that repeats an earlier pair: (earlier, repeat).
fn first_repeat(entries: &[Rating]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_unstable_by_key(|&k| (entries[k].row, entries[k].column, k));
    let pair = |k: usize| (entries[k].row, entries[k].column);
    order
        .windows(2)
        .filter(|w| pair(w[0]) == pair(w[1]))
        .map(|w| (w[0], w[1]))
        .min_by_key(|&(_, second)| second)
}
