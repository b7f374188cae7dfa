//! Readers of text formats.
//!
//! Every reader takes the name of the file (used in errors only) and any [`Read`](std::io::Read), holds the whole input in memory
//! ([`TextReader`] does not), and uses memory in proportion to it, whatever sizes a header claims. No reader panics, whatever the bytes. Text must be UTF-8
//! (a byte order mark is skipped), UTF-16 that begins with such a mark, or Latin-1 where [`DelimitedOptions::encoding`] says so; what gzip has compressed is recognised. Lines end in LF, CR LF or CR.
//! Errors count lines and columns from 1.

mod arff;
mod by_schema;
mod cells;
mod delimited;
mod documents;
mod error;
mod given;
mod numbers;
mod ratings;
mod rules;
mod sniff;
mod survey;
mod text;

pub use arff::{Arff, arff};
pub use by_schema::{RawReader, TextReader, WrittenCells, raw_with_schema, with_schema};
pub use delimited::{
    Column, DelimitedOptions, Separator, StringTable, delimited_strings, labelled_table, table,
};
pub use documents::{BagsOfWords, bags_of_known_words, bags_of_words, tokens};
pub use error::{ReadError, ReadProblem};
pub use given::{GivenMask, GivenSplit, given_masks, given_splits, row_numbers};
pub use ratings::{MovieLens, RatingFile, Repeats, movielens, triplets};
pub use rules::{Place, ReadingReport, ReadingRules, Unexpected, UnseenLevel};
pub use sniff::{FirstLines, LayoutGuess};
pub use text::Encoding;
