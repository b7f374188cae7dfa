//! The input as text, with line numbers.

use super::{ReadError, ReadProblem};
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use std::io::{self, Cursor, Read};

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

/// So many bytes are read at once; in tests so few that everything is cut somewhere.
const BLOCK: usize = if cfg!(test) { 13 } else { 1 << 20 };

/// A whole file, decoded.
pub(crate) struct Text {
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Text {
    /// Reads and decodes everything; what is compressed by gzip is recognised by its first bytes.
    pub(crate) fn read(
        file: &str,
        input: impl Read,
        encoding: Encoding,
    ) -> Result<Self, ReadError> {
        let mut stream = TextStream::open(file, input, encoding)?;
        while !stream.ended {
            stream.more()?;
        }
        Ok(Self {
            file: file.to_owned(),
            text: stream.text,
        })
    }

    /// An error in this file.
    pub(crate) fn error(&self, problem: ReadProblem) -> ReadError {
        ReadError::new(&self.file, problem)
    }

    /// All of it.
    pub(crate) fn piece(&self) -> Piece<'_> {
        Piece {
            file: &self.file,
            text: &self.text,
            line: 1,
            last: true,
        }
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> Lines<'_> {
        self.piece().lines()
    }

    /// Lines that are not blank, trimmed, with their numbers.
    pub(crate) fn filled_lines(&self) -> impl Iterator<Item = (u64, &str)> {
        self.lines()
            .map(|(number, line)| (number, line.trim()))
            .filter(|(_, line)| !line.is_empty())
    }
}

/// A part of a text that begins where a record does.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Number of its first line, from 1.
    pub(crate) line: u64,
    /// The text ends with it.
    pub(crate) last: bool,
}

impl<'a> Piece<'a> {
    /// Lines with their numbers.
    pub(crate) fn lines(&self) -> Lines<'a> {
        Lines {
            rest: self.text,
            number: self.line - 1,
        }
    }
}

/// A file that is decoded block by block; what has been used is dropped.
pub(crate) struct TextStream<'r> {
    file: String,
    input: Box<dyn Read + 'r>,
    decoding: Decoding,
    /// Bytes that are not decoded yet.
    bytes: Vec<u8>,
    /// What is decoded and not used, from the beginning of a record.
    text: String,
    /// The number of its first line.
    line: u64,
    ended: bool,
}

#[derive(Clone, Copy)]
enum Decoding {
    Utf8,
    Latin1,
    Utf16(fn([u8; 2]) -> u16),
}

impl<'r> TextStream<'r> {
    /// Reads the first block; what is compressed by gzip is recognised by its first bytes.
    pub(crate) fn open(
        file: &str,
        input: impl Read + 'r,
        encoding: Encoding,
    ) -> Result<Self, ReadError> {
        let mut stream = Self {
            file: file.to_owned(),
            input: Box::new(input),
            decoding: Decoding::Utf8,
            bytes: Vec::new(),
            text: String::new(),
            line: 1,
            ended: false,
        };
        stream.read_block()?;
        if stream.bytes.starts_with(&GZIP) {
            let first = Cursor::new(std::mem::take(&mut stream.bytes));
            let rest = std::mem::replace(&mut stream.input, Box::new(io::empty()));
            stream.input = Box::new(MultiGzDecoder::new(first.chain(rest)));
            stream.ended = false;
            stream.read_block()?;
        }
        let (decoding, mark) = match (unit_of_utf16(&stream.bytes), encoding) {
            (Some(unit), _) => (Decoding::Utf16(unit), 2),
            (None, Encoding::Latin1) => (Decoding::Latin1, 0),
            (None, Encoding::Utf8) => {
                let marked = stream.bytes.starts_with(b"\xef\xbb\xbf");
                (Decoding::Utf8, if marked { 3 } else { 0 })
            }
        };
        stream.bytes.drain(..mark);
        stream.decoding = decoding;
        stream.decode()?;
        Ok(stream)
    }

    /// What is decoded and not used.
    pub(crate) fn piece(&self) -> Piece<'_> {
        Piece {
            file: &self.file,
            text: &self.text,
            line: self.line,
            last: self.ended,
        }
    }

    /// Drops the beginning of the piece, `n_bytes` long; the rest begins in line `line`.
    pub(crate) fn used(&mut self, n_bytes: usize, line: u64) {
        self.text.drain(..n_bytes);
        self.line = line;
    }

    /// Adds to the piece.
    pub(crate) fn more(&mut self) -> Result<(), ReadError> {
        self.read_block()?;
        self.decode()
    }

    /// As many bytes as there are already, so that a record of any length is looked at a few times only.
    fn read_block(&mut self) -> Result<(), ReadError> {
        let wanted = BLOCK.max(self.text.len()) as u64;
        let read = (&mut self.input).take(wanted).read_to_end(&mut self.bytes);
        let n_bytes = read.map_err(|e| ReadError::new(&self.file, ReadProblem::Io(e)))?;
        self.ended = (n_bytes as u64) < wanted;
        Ok(())
    }

    /// Adds the characters that are whole to the text.
    fn decode(&mut self) -> Result<(), ReadError> {
        match self.decoding {
            Decoding::Latin1 => {
                self.text.extend(self.bytes.drain(..).map(char::from));
                Ok(())
            }
            Decoding::Utf16(unit) => self.decode_utf16(unit),
            Decoding::Utf8 => self.decode_utf8(),
        }
    }

    fn decode_utf8(&mut self) -> Result<(), ReadError> {
        let (whole, is_broken) = match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text, false),
            Err(error) => {
                let whole = &self.bytes[..error.valid_up_to()];
                let is_broken = error.error_len().is_some() || self.ended;
                (std::str::from_utf8(whole).unwrap_or_default(), is_broken)
            }
        };
        self.text.push_str(whole);
        if is_broken {
            return Err(invalid_utf8(&self.piece()));
        }
        let n_bytes = whole.len();
        self.bytes.drain(..n_bytes);
        Ok(())
    }

    fn decode_utf16(&mut self, unit: fn([u8; 2]) -> u16) -> Result<(), ReadError> {
        let pairs = self.bytes.chunks_exact(2);
        let mut units: Vec<u16> = pairs.map(|pair| unit([pair[0], pair[1]])).collect();
        let is_half = |unit: &u16| (0xd800..0xdc00).contains(unit);
        if !self.ended && units.last().is_some_and(is_half) {
            units.pop();
        }
        self.bytes.drain(..2 * units.len());
        let text = String::from_utf16(&units)
            .map_err(|_| ReadError::new(&self.file, ReadProblem::InvalidUtf16))?;
        self.text.push_str(&text);
        Ok(())
    }
}

/// How bytes that begin as UTF-16 does become code units.
fn unit_of_utf16(bytes: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match bytes {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// The code units of bytes that begin as UTF-16 does, as spreadsheets write it.
pub(super) fn units_of_utf16(bytes: &[u8]) -> Option<Vec<u16>> {
    let unit = unit_of_utf16(bytes)?;
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
    pub(super) rest: &'a str,
    /// Of the line before.
    pub(super) number: u64,
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

/// The bytes after these are not UTF-8.
fn invalid_utf8(before: &Piece<'_>) -> ReadError {
    let bytes = before.text.as_bytes();
    let line_start = bytes
        .iter()
        .rposition(|&b| b == b'\n' || b == b'\r')
        .map_or(0, |k| k + 1);
    ReadError::new(before.file, ReadProblem::InvalidUtf8)
        .at_line(line_ends(bytes) + before.line)
        .at_column(bytes.len() - line_start)
}
