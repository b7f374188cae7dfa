//! Masks and splits that come as files, so that results can be compared pair by pair.

use super::text::{Encoding, Text};
use super::{ReadError, ReadProblem};
use crate::{Mask, Split};
use std::io::Read;

/// One mask of a file of masks.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenMask {
    /// The numbers before the mask; for the classification sets: fraction of missing cells, trial.
    pub key: Vec<f64>,
    /// Cells to hide (true = missing).
    pub missing: Mask,
}

/// One split of a file of splits.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenSplit {
    /// The numbers before the split; for the classification sets: fraction of missing cells, training fraction, trial.
    pub key: Vec<f64>,
    /// The split.
    pub split: Split,
    /// Number of rows of the data, those left out included.
    pub n_rows: usize,
}

/// Reads masks: lines `key ... hex`, the bits row-major over `n_rows x n_cols`, most significant first, 1 = missing.
///
/// The digits cover the cells, padded with zero bits to a whole digit or byte.
///
/// # Errors
/// [`ReadError`] with line and column: a key that is not a number, a character that is not a hexadecimal digit, too few or too many
/// digits, padding that is not zero.
///
/// ```
/// // A quarter of 2 x 4 cells, trial 0: bits 0100 0001.
/// let masks = npb_data::read::given_masks("masks.txt", "0.25 0 41\n".as_bytes(), 2, 4)?;
/// assert_eq!(masks[0].key, [0.25, 0.0]);
/// assert!(masks[0].missing.get(0, 1) && masks[0].missing.get(1, 3));
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
pub fn given_masks(
    file: &str,
    input: impl Read,
    n_rows: usize,
    n_cols: usize,
) -> Result<Vec<GivenMask>, ReadError> {
    let text = Text::read(file, input, Encoding::Utf8)?;
    let mask = |(line, content): (u64, &str)| {
        let (key, digits, column) = key_and_payload(&text, line, content)?;
        let missing = mask_from_hex(digits, n_rows, n_cols)
            .map_err(|p| text.error(p).at_line(line).at_column(column))?;
        Ok(GivenMask { key, missing })
    };
    text.filled_lines().map(mask).collect()
}

/// Reads splits: lines `key ... chars`, one character per row: `T` training, `E` test, `-` left out.
///
/// # Errors
/// [`ReadError`] with line and column for a key that is not a number or another character.
///
/// ```
/// let splits = npb_data::read::given_splits("splits.txt", "0.25 0.5 3 TE-T\n".as_bytes())?;
/// assert_eq!((splits[0].split.train.as_slice(), splits[0].split.test.as_slice()), (&[0, 3][..], &[1][..]));
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
pub fn given_splits(file: &str, input: impl Read) -> Result<Vec<GivenSplit>, ReadError> {
    let text = Text::read(file, input, Encoding::Utf8)?;
    let split = |(line, content): (u64, &str)| {
        let (key, chars, column) = key_and_payload(&text, line, content)?;
        if let Some(bad) = chars.chars().find(|c| !['T', 'E', '-'].contains(c)) {
            let problem =
                ReadProblem::cell(&bad.to_string(), "T (training), E (test) or - (left out)");
            return Err(text.error(problem).at_line(line).at_column(column));
        }
        let rows = |side: u8| {
            (0..chars.len())
                .filter(|&i| chars.as_bytes()[i] == side)
                .collect()
        };
        Ok(GivenSplit {
            key,
            split: Split {
                train: rows(b'T'),
                test: rows(b'E'),
            },
            n_rows: chars.len(),
        })
    };
    text.filled_lines().map(split).collect()
}

/// Reads row numbers, one per line, counted from 0; see [`Split::from_test_rows`].
///
/// # Errors
/// [`ReadError`] with the line of a field that is not a whole number.
pub fn row_numbers(file: &str, input: impl Read) -> Result<Vec<usize>, ReadError> {
    let text = Text::read(file, input, Encoding::Utf8)?;
    let number = |(line, content): (u64, &str)| {
        content.parse().map_err(|_| {
            text.error(ReadProblem::cell(content, "a row number (from 0)"))
                .at_line(line)
                .at_column(0)
        })
    };
    text.filled_lines().map(number).collect()
}

/// The numbers at the start of a line, its last word, and the position of that word.
fn key_and_payload<'a>(
    text: &Text,
    line: u64,
    content: &'a str,
) -> Result<(Vec<f64>, &'a str, usize), ReadError> {
    let words: Vec<&str> = content.split_whitespace().collect();
    let (payload, key) = words
        .split_last()
        .ok_or_else(|| text.error(ReadProblem::header("", "a key and a payload")))?;
    let number = |(column, word): (usize, &&str)| match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(text
            .error(ReadProblem::cell(word, "a finite number"))
            .at_line(line)
            .at_column(column)),
    };
    Ok((
        key.iter()
            .enumerate()
            .map(number)
            .collect::<Result<_, _>>()?,
        payload,
        key.len(),
    ))
}

fn mask_from_hex(digits: &str, n_rows: usize, n_cols: usize) -> Result<Mask, ReadProblem> {
    let mut mask = Mask::new(n_rows, n_cols, false)?;
    let n_bits = n_rows * n_cols;
    if let Some(bad) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(ReadProblem::cell(&bad.to_string(), "a hexadecimal digit"));
    }
    let (found, expected) = (digits.len(), n_bits.div_ceil(4));
    if found != expected && found != n_bits.div_ceil(8) * 2 {
        return Err(ReadProblem::Count {
            what: "mask digits",
            announced: expected as u64,
            found: found as u64,
        });
    }
    for (k, digit) in digits.chars().filter_map(|c| c.to_digit(16)).enumerate() {
        for bit in (0..4)
            .filter(|b| digit >> (3 - b) & 1 == 1)
            .map(|b| 4 * k + b)
        {
            if bit >= n_bits {
                return Err(ReadProblem::cell(
                    digits,
                    "a mask of this size: bits are set beyond its last cell",
                ));
            }
            mask.set(bit / n_cols, bit % n_cols, true);
        }
    }
    Ok(mask)
}
