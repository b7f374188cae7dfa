//! Words of documents and the columns of their counts.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::labels::check_classes;
use crate::{DataError, Rating, Ratings};

/// The words that are counted, each with its column.
///
/// ```
/// use npb_data::Vocabulary;
/// let documents = [vec!["a", "fine", "film", "a"], vec!["a", "dull", "film"], vec!["dull"]];
/// let vocabulary = Vocabulary::of_documents(&documents, 2, 0.9);
/// assert_eq!(vocabulary.words(), ["a", "dull", "film"]);
/// let counts = vocabulary.count(&documents)?;
/// assert_eq!(counts.row(0), (&[0, 2][..], &[2.0, 1.0][..]));
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    words: Vec<String>,
    column_of: HashMap<String, u32>,
}

impl Vocabulary {
    /// The given words in the given order.
    ///
    /// # Errors
    /// [`DataError::DuplicateClass`] for a word that is listed twice, [`DataError::TooLarge`] for more than 2^32.
    pub fn new(words: Vec<String>) -> Result<Self, DataError> {
        check_classes(&words)?;
        let n_cols = words.len();
        if u32::try_from(n_cols).is_err() {
            return Err(DataError::TooLarge { n_rows: 1, n_cols });
        }
        let column_of = words.iter().cloned().zip(0..).collect();
        Ok(Self { words, column_of })
    }

    /// The words of `documents` (lists of tokens) that are in at least `min_documents` of them and in at most the share
    /// `max_share`, sorted as text. Cost: one pass over the tokens.
    pub fn of_documents<S: AsRef<str>>(
        documents: &[Vec<S>],
        min_documents: usize,
        max_share: f64,
    ) -> Self {
        let mut holding: BTreeMap<&str, usize> = BTreeMap::new();
        for document in documents {
            let distinct: HashSet<&str> = document.iter().map(AsRef::as_ref).collect();
            distinct
                .into_iter()
                .for_each(|word| *holding.entry(word).or_default() += 1);
        }
        let most = max_share * documents.len() as f64;
        let words: Vec<String> = holding
            .into_iter()
            .filter(|&(_, n)| n >= min_documents && n as f64 <= most)
            .map(|(word, _)| word.to_owned())
            .collect();
        let column_of = words.iter().cloned().zip(0..).collect();
        Self { words, column_of }
    }

    /// The words; word j is column j.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The column of a word, `None` when it is not counted.
    pub fn column(&self, word: &str) -> Option<u32> {
        self.column_of.get(word).copied()
    }

    /// Counts of the words in documents (lists of tokens): one row per document, an entry for every word that it holds.
    /// Tokens that are not in the vocabulary are left out, so that a document may be an empty row.
    ///
    /// # Errors
    /// [`DataError::TooLarge`] for more than 2^32 documents.
    pub fn count<S: AsRef<str>>(&self, documents: &[Vec<S>]) -> Result<Ratings, DataError> {
        let mut entries = Vec::new();
        for (row, document) in (0_u32..=u32::MAX).zip(documents) {
            let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
            for column in document.iter().filter_map(|w| self.column(w.as_ref())) {
                *counts.entry(column).or_default() += 1.0;
            }
            entries.extend(
                counts
                    .into_iter()
                    .map(|(column, value)| Rating { row, column, value }),
            );
        }
        Ratings::new(documents.len(), self.words.len(), &entries)
    }
}
