//! Documents as bags of words, and as tokens.

use std::io::Read;

use super::text::{Encoding, Text};
use super::{ReadError, ReadProblem};
use crate::{Rating, Ratings};

/// Counts of words in documents.
#[derive(Clone, Debug, PartialEq)]
pub struct BagsOfWords {
    /// What stands before the counts of every document: class, number, ... as text.
    pub keys: Vec<Vec<String>>,
    /// Counts: one row per document, one column per word, an entry for every word that the document holds.
    pub counts: Ratings,
}

/// The largest count: beyond it whole numbers are not exact.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Reads bags of words: one document a line, fields separated by blanks, first any fields without a colon (class, number, the
/// number of words that LDA-C files have), then `word:count` pairs; words are numbers from 0 to `n_words - 1`.
///
/// `n_words`: the size of the vocabulary; `None` takes the largest word that occurs. Blank lines are skipped: an empty document is a
/// line with a key only.
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
/// # Ok::<(), npb_data::read::ReadError>(())
/// ```
pub fn bags_of_words(
    file: &str,
    input: impl Read,
    n_words: Option<usize>,
) -> Result<BagsOfWords, ReadError> {
    let text = Text::read(file, input, Encoding::Utf8)?;
    let mut keys: Vec<Vec<String>> = Vec::new();
    let mut entries = Vec::new();
    for (row, (line, content)) in (0_u32..=u32::MAX).zip(text.filled_lines()) {
        let fields: Vec<&str> = content.split_whitespace().collect();
        let leading = fields.iter().take_while(|f| !f.contains(':')).count();
        if let Some(first) = keys.first()
            && first.len() != leading
        {
            let (found, expected) = (leading, first.len());
            let problem = ReadProblem::Fields { found, expected };
            return Err(text.error(problem).at_line(line));
        }
        keys.push(fields[..leading].iter().map(|f| f.to_string()).collect());
        let start = entries.len();
        for (place, field) in fields.iter().enumerate().skip(leading) {
            let (column, value) = pair(field, n_words)
                .map_err(|problem| text.error(problem).at_line(line).at_column(place))?;
            entries.push(Rating { row, column, value });
        }
        let pairs = &mut entries[start..];
        pairs.sort_unstable_by_key(|entry| entry.column);
        if let Some(twice) = pairs.windows(2).find(|w| w[0].column == w[1].column) {
            let problem = ReadProblem::Duplicate {
                row: row.to_string(),
                column: twice[0].column.to_string(),
                first_line: line,
            };
            return Err(text.error(problem).at_line(line));
        }
    }
    let largest = entries.iter().map(|e| e.column as usize + 1).max();
    let n_cols = n_words.unwrap_or(largest.unwrap_or(0));
    if largest.unwrap_or(0) > entries.len().max(1) * SPARSEST && n_words.is_none() {
        let problem = ReadProblem::header(
            &(n_cols - 1).to_string(),
            "a word far beyond all others; give the size of the vocabulary",
        );
        return Err(text.error(problem));
    }
    let counts = Ratings::new(keys.len(), n_cols, &entries).map_err(|e| text.error(e.into()))?;
    Ok(BagsOfWords { keys, counts })
}

/// Without a stated size of the vocabulary, columns per pair of the file up to which memory stays in proportion to it.
const SPARSEST: usize = 64;

/// One `word:count`.
fn pair(field: &str, n_words: Option<usize>) -> Result<(u32, f64), ReadProblem> {
    let wrong = |expected| ReadProblem::cell(field, expected);
    let (word, count) = field.split_once(':').ok_or_else(|| wrong("word:count"))?;
    let word: u32 = word
        .parse()
        .map_err(|_| wrong("word:count with the number of a word, from 0"))?;
    if n_words.is_some_and(|n| word as usize >= n) {
        return Err(wrong(
            "a pair with a word of the vocabulary; numbers start at 0",
        ));
    }
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
