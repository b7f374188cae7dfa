//! MatrixMarket files, coordinate and array.

use super::ratings::first_repeat;
use super::text::{Encoding, Text};
use super::{ReadError, ReadProblem};
use crate::{Rating, Table};
use std::io::Read;

/// The content of a MatrixMarket file.
#[derive(Clone, Debug, PartialEq)]
pub enum MatrixMarket {
    /// The coordinate format: entries in the order of the file, mirrored ones of a symmetric matrix right after their originals.
    /// Whether absent entries are zero or unknown is for the caller to say; [`crate::Ratings::new`] takes them as unknown.
    Coordinate {
        /// Number of rows.
        n_rows: usize,
        /// Number of columns.
        n_cols: usize,
        /// The entries; those of a pattern have value 1. No pair occurs twice.
        entries: Vec<Rating>,
    },
    /// The array format; NaN is a missing cell.
    Array(Table),
}

/// Reads a MatrixMarket file: `coordinate` (`real`, `integer`, `pattern`) or `array` (`real`, `integer`), `general` or `symmetric`.
///
/// Memory is bounded by what the file holds, not by what its header claims: a matrix with far more rows and columns than the file
/// could fill is refused.
///
/// # Errors
/// [`ReadError`] with line and column: a header of another kind, an index out of range (or above the diagonal of a symmetric
/// matrix), a value that is not a finite number (NaN is allowed in an array), another number of entries than announced, a pair
/// that occurs twice.
///
/// ```
/// use npb_data::{Ratings, read::{MatrixMarket, matrix_market}};
/// let file = "%%MatrixMarket matrix coordinate real general\n2 3 1\n2 3 4.5\n";
/// let MatrixMarket::Coordinate { n_rows, n_cols, entries } = matrix_market("a.mtx", file.as_bytes())? else { unreachable!() };
/// assert_eq!(Ratings::new(n_rows, n_cols, &entries)?.get(1, 2), Some(4.5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn matrix_market(file: &str, input: impl Read) -> Result<MatrixMarket, ReadError> {
    let text = Text::read(file, input, Encoding::Utf8)?;
    let (first, banner) = text.lines().next().unwrap_or((1, ""));
    let header = Header::parse(banner).map_err(|p| text.error(p).at_line(first))?;
    let mut lines = text
        .filled_lines()
        .filter(|(_, line)| !line.starts_with('%'));
    let Some((line, size)) = lines.next() else {
        return Err(text
            .error(ReadProblem::header(
                "",
                "a line with the size of the matrix",
            ))
            .at_line(first));
    };
    let size = header.size(&text, line, size)?;
    if header.coordinate {
        coordinate(&text, &header, &size, lines)
    } else {
        array(&text, &header, &size, lines)
    }
}

struct Header {
    coordinate: bool,
    pattern: bool,
    integer: bool,
    symmetric: bool,
}

struct Size {
    line: u64,
    n_rows: usize,
    n_cols: usize,
    /// Entries that the file should have.
    announced: u64,
}

/// Rows and columns that a file may announce without filling them: this many, and this many more for every byte.
const FREE_SIZE: u64 = 1 << 16;
const SIZE_PER_BYTE: u64 = 4;

impl Header {
    fn parse(banner: &str) -> Result<Self, ReadProblem> {
        let lower = banner.to_ascii_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let supported = |words: &[&str]| match words {
            ["%%matrixmarket", "matrix", format, field, symmetry] => {
                let coordinate = *format == "coordinate";
                let known = (coordinate || *format == "array")
                    && ["general", "symmetric"].contains(symmetry)
                    && (["real", "integer"].contains(field) || (coordinate && *field == "pattern"));
                let (pattern, integer) = (*field == "pattern", *field == "integer");
                known.then_some(Self {
                    coordinate,
                    pattern,
                    integer,
                    symmetric: *symmetry == "symmetric",
                })
            }
            _ => None,
        };
        supported(&words).ok_or_else(|| {
            ReadProblem::header(
                banner,
                "%%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric (array without pattern)",
            )
        })
    }

    fn size(&self, text: &Text, line: u64, content: &str) -> Result<Size, ReadError> {
        let words: Vec<&str> = content.split_whitespace().collect();
        let expected = if self.coordinate { 3 } else { 2 };
        if words.len() != expected {
            return Err(text
                .error(ReadProblem::Fields {
                    found: words.len(),
                    expected,
                })
                .at_line(line));
        }
        let limit = FREE_SIZE.saturating_add(SIZE_PER_BYTE.saturating_mul(text.text.len() as u64));
        let number = |k: usize| {
            let at = |p| text.error(p).at_line(line).at_column(k);
            let value = words[k]
                .parse::<u64>()
                .map_err(|_| at(ReadProblem::cell(words[k], "a whole number")))?;
            if k < 2 && value > limit.min(u64::from(u32::MAX)) {
                return Err(at(ReadProblem::cell(
                    words[k],
                    "a size in proportion to the file; the header may be damaged",
                )));
            }
            Ok(value)
        };
        let (n_rows, n_cols) = (number(0)?, number(1)?);
        if self.symmetric && n_rows != n_cols {
            return Err(text
                .error(ReadProblem::header(content, "a symmetric matrix is square"))
                .at_line(line));
        }
        let announced = match (self.coordinate, self.symmetric) {
            (true, _) => number(2)?,
            (false, true) => n_rows * (n_rows + 1) / 2,
            (false, false) => n_rows * n_cols,
        };
        Ok(Size {
            line,
            n_rows: n_rows as usize,
            n_cols: n_cols as usize,
            announced,
        })
    }

    fn value(&self, word: &str) -> Result<f64, ReadProblem> {
        let value = if self.integer {
            word.parse::<i64>().map(|v| v as f64).ok()
        } else {
            word.parse::<f64>().ok()
        };
        let allowed = |v: &f64| v.is_finite() || (v.is_nan() && !self.coordinate);
        let expected = if self.integer {
            "a whole number"
        } else {
            "a finite number"
        };
        value
            .filter(allowed)
            .ok_or_else(|| ReadProblem::cell(word, expected))
    }
}

impl Size {
    /// The number of entries is as announced.
    fn check(&self, text: &Text, found: u64) -> Result<(), ReadError> {
        if found == self.announced {
            return Ok(());
        }
        let problem = ReadProblem::Count {
            what: "entries",
            announced: self.announced,
            found,
        };
        Err(text.error(problem).at_line(self.line))
    }
}

fn coordinate<'a>(
    text: &Text,
    header: &Header,
    size: &Size,
    lines: impl Iterator<Item = (u64, &'a str)>,
) -> Result<MatrixMarket, ReadError> {
    let (mut entries, mut entry_lines, mut found) = (Vec::new(), Vec::new(), 0_u64);
    for (line, content) in lines {
        found += 1;
        let entry = entry(text, header, size, line, content)?;
        entries.push(entry);
        entry_lines.push(line);
        if header.symmetric && entry.row != entry.column {
            entries.push(Rating {
                row: entry.column,
                column: entry.row,
                value: entry.value,
            });
            entry_lines.push(line);
        }
        if found > size.announced {
            break;
        }
    }
    size.check(text, found)?;
    if let Some((first, second)) = first_repeat(&entries) {
        let one_based = |index: u32| (u64::from(index) + 1).to_string();
        let problem = ReadProblem::Duplicate {
            row: one_based(entries[first].row),
            column: one_based(entries[first].column),
            first_line: entry_lines[first],
        };
        return Err(text.error(problem).at_line(entry_lines[second]));
    }
    Ok(MatrixMarket::Coordinate {
        n_rows: size.n_rows,
        n_cols: size.n_cols,
        entries,
    })
}

fn entry(
    text: &Text,
    header: &Header,
    size: &Size,
    line: u64,
    content: &str,
) -> Result<Rating, ReadError> {
    let words: Vec<&str> = content.split_whitespace().collect();
    let expected = if header.pattern { 2 } else { 3 };
    if words.len() != expected {
        let found = words.len();
        return Err(text
            .error(ReadProblem::Fields { found, expected })
            .at_line(line)
            .at_column(found.min(expected)));
    }
    let index = |k: usize, size: usize| match words[k].parse::<u32>() {
        Ok(index) if index >= 1 && index as usize <= size => Ok(index - 1),
        _ => Err(text
            .error(ReadProblem::cell(words[k], "an index from 1 to the size"))
            .at_line(line)
            .at_column(k)),
    };
    let (row, column) = (index(0, size.n_rows)?, index(1, size.n_cols)?);
    if header.symmetric && row < column {
        let problem = ReadProblem::cell(
            words[1],
            "on or below the diagonal, as a symmetric matrix is stored",
        );
        return Err(text.error(problem).at_line(line).at_column(1));
    }
    let value = match header.pattern {
        true => 1.0,
        false => header
            .value(words[2])
            .map_err(|p| text.error(p).at_line(line).at_column(2))?,
    };
    Ok(Rating { row, column, value })
}

fn array<'a>(
    text: &Text,
    header: &Header,
    size: &Size,
    lines: impl Iterator<Item = (u64, &'a str)>,
) -> Result<MatrixMarket, ReadError> {
    let mut column_major = Vec::new();
    for (line, content) in lines {
        for (k, word) in content.split_whitespace().enumerate() {
            column_major.push(
                header
                    .value(word)
                    .map_err(|p| text.error(p).at_line(line).at_column(k))?,
            );
        }
        if column_major.len() as u64 > size.announced {
            break;
        }
    }
    size.check(text, column_major.len() as u64)?;
    let n = size.n_rows;
    let place = |i: usize, j: usize| match header.symmetric {
        false => j * n + i,
        // Columns of the lower triangle, one after the other.
        true => {
            let (low, high) = (i.min(j), i.max(j));
            low * n - low * low.saturating_sub(1) / 2 + high - low
        }
    };
    let cells = (0..n).flat_map(|i| (0..size.n_cols).map(move |j| (i, j)));
    let values = cells.map(|(i, j)| column_major[place(i, j)]).collect();
    let table =
        Table::from_nan_coded_vec(n, size.n_cols, values).map_err(|e| text.error(e.into()))?;
    Ok(MatrixMarket::Array(table))
}
