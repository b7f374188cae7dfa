//! The input as text, with line numbers.

use super::{ReadError, ReadProblem};
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use std::io::Read;

/// How bytes become characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// UTF-8; other bytes are an error.
    #[default]
    Utf8,
    /// ISO 8859-1; every byte is a character.
    Latin1,
}

/// First bytes of what gzip has compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A whole file, decoded.
pub(crate) struct Text {
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Text {
    /// Reads and decodes everything; what is compressed by gzip is recognised by its first bytes.
    pub(crate) fn read(
        file: &str,
        mut input: impl Read,
        encoding: Encoding,
    ) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        input
            .read_to_end(&mut bytes)
            .map_err(|e| ReadError::new(file, ReadProblem::Io(e)))?;
        if bytes.starts_with(&GZIP) {
            let mut plain = Vec::new();
            plain_bytes(&bytes)
                .read_to_end(&mut plain)
                .map_err(|e| ReadError::new(file, ReadProblem::Io(e)))?;
            bytes = plain;
        }
        let text = match (units_of_utf16(&bytes), encoding) {
            (Some(units), _) => String::from_utf16(&units)
                .map_err(|_| ReadError::new(file, ReadProblem::InvalidUtf16))?,
            (None, Encoding::Latin1) => bytes.iter().map(|&b| char::from(b)).collect(),
            (None, Encoding::Utf8) => {
                if bytes.starts_with(b"\xef\xbb\xbf") {
                    bytes.drain(..3);
                }
                String::from_utf8(bytes)
                    .map_err(|e| invalid_utf8(file, e.as_bytes(), e.utf8_error().valid_up_to()))?
            }
        };
        Ok(Self {
            file: file.to_owned(),
            text,
        })
    }

    /// An error in this file.
    pub(crate) fn error(&self, problem: ReadProblem) -> ReadError {
        ReadError::new(&self.file, problem)
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> Lines<'_> {
        Lines {
            rest: &self.text,
            number: 0,
        }
    }

    /// Lines that are not blank, trimmed, with their numbers.
    pub(crate) fn filled_lines(&self) -> impl Iterator<Item = (u64, &str)> {
        self.lines()
            .map(|(number, line)| (number, line.trim()))
            .filter(|(_, line)| !line.is_empty())
    }
}

/// The code units of bytes that begin as UTF-16 does, as spreadsheets write it.
pub(super) fn units_of_utf16(bytes: &[u8]) -> Option<Vec<u16>> {
    let unit = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let pairs = bytes[2..].chunks_exact(2);
    Some(pairs.map(|pair| unit([pair[0], pair[1]])).collect())
}

/// The bytes, without compression.
pub(super) fn plain_bytes<'a>(bytes: &'a [u8]) -> Box<dyn Read + 'a> {
    match bytes.starts_with(&GZIP) {
        true => Box::new(MultiGzDecoder::new(bytes)),
        false => Box::new(bytes),
    }
}

/// See [`Text::lines`].
pub(crate) struct Lines<'a> {
    rest: &'a str,
    number: u64,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (u64, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let Some(end) = self.rest.bytes().position(|b| b == b'\n' || b == b'\r') else {
            return Some((self.number, std::mem::take(&mut self.rest)));
        };
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix("\r\n").unwrap_or_else(|| &rest[1..]);
        Some((self.number, line))
    }
}

/// Number of line ends in `bytes`, where CR LF is one.
pub(crate) fn line_ends(bytes: &[u8]) -> u64 {
    let end =
        |k: usize| bytes[k] == b'\n' || (bytes[k] == b'\r' && bytes.get(k + 1) != Some(&b'\n'));
    (0..bytes.len()).filter(|&k| end(k)).count() as u64
}

fn invalid_utf8(file: &str, bytes: &[u8], at: usize) -> ReadError {
    let before = &bytes[..at];
    let line_start = before
        .iter()
        .rposition(|&b| b == b'\n' || b == b'\r')
        .map_or(0, |k| k + 1);
    ReadError::new(file, ReadProblem::InvalidUtf8)
        .at_line(line_ends(before) + 1)
        .at_column(at - line_start)
}
