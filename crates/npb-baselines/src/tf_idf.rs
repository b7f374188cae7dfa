//! Weights of words by how rare they are.

use npb_data::{Rating, Ratings};

use crate::BaselineError;

/// Counts of words to weights of length 1: count x (ln((1 + n) / (1 + documents with the word)) + 1), then each document
/// divided by its length. This is scikit-learn's `TfidfTransformer` with its defaults.
///
/// ```
/// use npb_baselines::TfIdf;
/// use npb_data::{Rating, Ratings};
///
/// let entry = |row, column, value| Rating { row, column, value };
/// let counts = Ratings::new(2, 2, &[entry(0, 0, 3.0), entry(1, 0, 1.0), entry(1, 1, 1.0)])?;
/// let weights = TfIdf::fit(&counts, false).transform(&counts)?;
/// assert_eq!(weights.get(0, 0), Some(1.0));
/// assert!(weights.get(1, 1) > weights.get(1, 0));
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TfIdf {
    rarity: Vec<f64>,
    sublinear: bool,
}

impl TfIdf {
    /// Learns how rare words are from training documents; `sublinear` puts 1 + ln(count) in place of the count.
    pub fn fit(train: &Ratings, sublinear: bool) -> Self {
        let n = train.n_rows() as f64;
        let rarity = |j| ((1.0 + n) / (1.0 + train.column(j).0.len() as f64)).ln() + 1.0;
        Self {
            rarity: (0..train.n_cols()).map(rarity).collect(),
            sublinear,
        }
    }

    /// Weights of documents; an empty document stays empty.
    ///
    /// # Errors
    /// [`BaselineError::Data`] for another number of columns than in training.
    pub fn transform(&self, counts: &Ratings) -> Result<Ratings, BaselineError> {
        let (found, expected) = (counts.n_cols(), self.rarity.len());
        if found != expected {
            return Err(npb_data::DataError::ColumnCount { found, expected }.into());
        }
        let weight = |e: Rating| {
            let count = if self.sublinear {
                1.0 + e.value.ln()
            } else {
                e.value
            };
            Rating {
                value: count * self.rarity[e.column as usize],
                ..e
            }
        };
        let mut entries: Vec<Rating> = counts.iter().map(weight).collect();
        for document in entries.chunk_by_mut(|a, b| a.row == b.row) {
            let length = document
                .iter()
                .map(|e| e.value * e.value)
                .sum::<f64>()
                .sqrt();
            document.iter_mut().for_each(|e| e.value /= length);
        }
        Ok(Ratings::new(counts.n_rows(), counts.n_cols(), &entries)?)
    }
}
