//! Documents as bags of words, and as tokens.

use std::io::Read;

use super::text::{Encoding, Text};
use super::{ReadError, ReadProblem};
use crate::{Rating, Ratings};

/// Counts of words in documents.
#[derive(Clone, Debug, PartialEq)]
pub struct BagsOfWords {
    /// What stands before the counts of every document: class, number, ... as text. Nothing for a blank line.
    pub keys: Vec<Vec<String>>,
    /// Counts: one row per document, one column per word, an entry for every word that the document holds.
    pub counts: Ratings,
    /// One of the fields before the counts was everywhere the number of pairs, as LDA-C writes it, and is not among the keys.
    pub lengths: bool,
    /// Pairs that were left out, as their words are not of the vocabulary: see [`bags_of_known_words`].
    pub n_unknown: usize,
}

/// The largest count: beyond it whole numbers are not exact.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Reads bags of words: one document a line, fields separated by blanks, first any fields without a colon (class, number), then `word:count` pairs; words
/// are numbers from 0 to `n_words - 1`. A leading field that is the number of pairs in every line (LDA-C) is taken away; a comment after `#` (svmlight) is
/// passed over; a blank line is an empty document, so that line k stays document k.
///
/// `n_words`: the size of the vocabulary; `None` takes the largest word that occurs.
///
/// # Errors
/// [`ReadError`] with line and column: a field after the first pair that is no pair, a word that is no number below `n_words`, a count
/// that is not a whole number from 1 to 2^53, a word given twice in one document, another number of leading fields than the first line.
///
/// ```
/// let bags = npb_data::read::bags_of_words("train.txt", "spam 0:2 3:1\nham 1:1\nham\n".as_bytes(), Some(5))?;
/// assert_eq!((bags.counts.n_rows(), bags.counts.n_cols()), (3, 5));
/// assert_eq!(bags.counts.row(0), (&[0, 3][..], &[2.0, 1.0][..]));
/// assert_eq!(bags.keys[2], ["ham"]);
/// // LDA-C: the number of pairs first.
/// let bags = npb_data::read::bags_of_words("lda.txt", "2 0:2 3:1\n1 1:1\n".as_bytes(), None)?;
/// assert!(bags.lengths && bags.keys[0].is_empty());
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
pub fn bags_of_words(
    file: &str,
    input: impl Read,
    n_words: Option<usize>,
) -> Result<BagsOfWords, ReadError> {
    bags(file, input, n_words, false)
}

/// The same for documents that are new to a vocabulary of `n_words`: pairs with other words are left out and counted, in
/// [`BagsOfWords::n_unknown`].
///
/// # Errors
/// As [`bags_of_words`].
pub fn bags_of_known_words(
    file: &str,
    input: impl Read,
    n_words: usize,
) -> Result<BagsOfWords, ReadError> {
    bags(file, input, Some(n_words), true)
}

fn bags(
    file: &str,
    input: impl Read,
    n_words: Option<usize>,
    known_only: bool,
) -> Result<BagsOfWords, ReadError> {
    let text = Text::read(file, input, Encoding::Utf8)?;
    let mut all = Documents {
        n_words,
        known_only,
        ..Documents::default()
    };
    for (row, (line, content)) in (0_u32..=u32::MAX).zip(text.lines()) {
        let content = content.split('#').next().unwrap_or_default();
        let fields: Vec<&str> = content.split_whitespace().collect();
        let at_line = |problem| text.error(problem).at_line(line);
        let leading = all.key(&fields).map_err(at_line)?;
        for (place, field) in fields.iter().enumerate().skip(leading) {
            all.pair(row, field)
                .map_err(|problem| at_line(problem).at_column(place))?;
        }
        if let Some(column) = all.twice(row) {
            let (row, column) = (row.to_string(), column.to_string());
            let first_line = line;
            return Err(at_line(ReadProblem::Duplicate {
                row,
                column,
                first_line,
            }));
        }
    }
    all.finish(&text)
}

/// Documents as they are met.
#[derive(Default)]
struct Documents {
    n_words: Option<usize>,
    known_only: bool,
    keys: Vec<Vec<String>>,
    /// Number of leading fields of the lines that are not blank.
    width: Option<usize>,
    /// Number of pairs of each line that is not blank.
    n_pairs: Vec<Option<usize>>,
    entries: Vec<Rating>,
    n_unknown: usize,
}

impl Documents {
    /// A line's leading fields; how many there are.
    fn key(&mut self, fields: &[&str]) -> Result<usize, ReadProblem> {
        let found = fields.iter().take_while(|f| !f.contains(':')).count();
        if !fields.is_empty() {
            let expected = *self.width.get_or_insert(found);
            if found != expected {
                return Err(ReadProblem::Fields { found, expected });
            }
        }
        let key = fields[..found].iter().map(|f| f.to_string());
        self.keys.push(key.collect());
        self.n_pairs
            .push((!fields.is_empty()).then(|| fields.len() - found));
        Ok(found)
    }

    fn pair(&mut self, row: u32, field: &str) -> Result<(), ReadProblem> {
        let (column, value) = pair(field)?;
        match self.n_words.is_some_and(|n| column as usize >= n) {
            true if self.known_only => self.n_unknown += 1,
            true => return Err(ReadProblem::cell(field, BEYOND)),
            false => self.entries.push(Rating { row, column, value }),
        }
        Ok(())
    }

    /// A word that the last document has twice; sorts its pairs.
    fn twice(&mut self, row: u32) -> Option<u32> {
        let start = self.entries.partition_point(|entry| entry.row < row);
        let pairs = &mut self.entries[start..];
        pairs.sort_unstable_by_key(|entry| entry.column);
        let mut twice = pairs.windows(2).filter(|w| w[0].column == w[1].column);
        twice.next().map(|w| w[0].column)
    }

    fn finish(mut self, text: &Text) -> Result<BagsOfWords, ReadError> {
        let entries = self.entries.iter();
        let largest = entries.map(|e| e.column as usize + 1).max().unwrap_or(0);
        if self.n_words.is_none() && largest > self.entries.len().max(1) * SPARSEST {
            let rule = "a word far beyond all others; give the size of the vocabulary";
            return Err(text.error(ReadProblem::header(&(largest - 1).to_string(), rule)));
        }
        let lengths = take_lengths(&mut self.keys, &self.n_pairs);
        let n_words = self.n_words.unwrap_or(largest);
        let counts = Ratings::new(self.keys.len(), n_words, &self.entries);
        Ok(BagsOfWords {
            counts: counts.map_err(|e| text.error(e.into()))?,
            keys: self.keys,
            lengths,
            n_unknown: self.n_unknown,
        })
    }
}

/// What a word must be where the vocabulary is given.
const BEYOND: &str = "a pair with a word of the vocabulary; numbers start at 0 (where the file counts from 1, begin the vocabulary with an empty line)";

/// Takes away the key that is the number of pairs of every document. `n_pairs`: of lines that are not blank.
fn take_lengths(keys: &mut [Vec<String>], n_pairs: &[Option<usize>]) -> bool {
    let is_length = |place: usize| {
        let mut lines = keys
            .iter()
            .zip(n_pairs)
            .filter_map(|(key, n)| Some((key, (*n)?)));
        let of = |(key, n): (&Vec<String>, usize)| {
            key.get(place).is_some_and(|text| text.parse() == Ok(n))
        };
        lines.clone().next().is_some() && lines.all(of)
    };
    let width = keys.iter().map(Vec::len).max().unwrap_or(0);
    let found = (0..width).find(|&place| is_length(place));
    if let Some(place) = found {
        for key in keys.iter_mut().filter(|key| place < key.len()) {
            key.remove(place);
        }
    }
    found.is_some()
}

/// Without a stated size of the vocabulary, columns per pair of the file up to which memory stays in proportion to it.
const SPARSEST: usize = 64;

/// One `word:count`.
fn pair(field: &str) -> Result<(u32, f64), ReadProblem> {
    let wrong = |expected| ReadProblem::cell(field, expected);
    let (word, count) = field.split_once(':').ok_or_else(|| wrong("word:count"))?;
    let word: u32 = word
        .parse()
        .map_err(|_| wrong("word:count with the number of a word, from 0"))?;
    match count.parse::<f64>() {
        Ok(count) if (1.0..=LARGEST_COUNT).contains(&count) && count.fract() == 0.0 => {
            Ok((word, count))
        }
        _ => Err(wrong(
            "word:count with a count that is a whole number from 1 to 2^53",
        )),
    }
}

/// Reads tokenised documents: one document a line, tokens separated by blanks. A blank line is an empty document, so that
/// line k stays document k; see [`Vocabulary`](crate::Vocabulary) for counts.
///
/// # Errors
/// [`ReadError`] when the input cannot be read or is not in the stated encoding.
pub fn tokens(
    file: &str,
    input: impl Read,
    encoding: Encoding,
) -> Result<Vec<Vec<String>>, ReadError> {
    let text = Text::read(file, input, encoding)?;
    let words = |(_, line): (u64, &str)| line.split_whitespace().map(str::to_owned).collect();
    Ok(text.lines().map(words).collect())
}
