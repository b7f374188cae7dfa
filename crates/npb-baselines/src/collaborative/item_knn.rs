//! Items weighted by their similarity to the given ones.

use npb_data::Ratings;
use serde::{Deserialize, Serialize};

use super::{Given, check_given};
use crate::BaselineError;
use crate::error::non_empty_ratings;

/// Settings of [`ItemKnn`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ItemKnnConfig {
    /// Added to the divisor of the cosine, in raters: similarities of items with few raters shrink.
    pub shrinkage: f64,
    /// Only so many most similar given items count; `None`: all.
    pub neighbours: Option<usize>,
}

impl Default for ItemKnnConfig {
    /// The plain cosine, all given items.
    fn default() -> Self {
        Self {
            shrinkage: 0.0,
            neighbours: None,
        }
    }
}

/// Item-based nearest neighbours on signed likes: the similarity of two items is the cosine of their columns of +1 (liked), -1 (not liked) and 0 (not
/// rated); the score of an item is the sum of its similarities to the given items, each with its sign.
///
/// Source: Sarwar, Karypis, Konstan and Riedl (WWW 2001), with likes in the place of grades.
///
/// ```
/// use npb_baselines::{ItemKnn, ItemKnnConfig};
/// use npb_data::{Rating, Ratings};
///
/// let entry = |row, column, value| Rating { row, column, value };
/// let likes = Ratings::new(2, 3, &[entry(0, 0, 1.0), entry(0, 1, 1.0), entry(1, 0, -1.0), entry(1, 2, 1.0)])?;
/// let scores = ItemKnn::fit(&likes, &ItemKnnConfig::default())?.scores(&[(0, 1.0)])?;
/// assert!(scores[1] > 0.0 && scores[2] < 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ItemKnn {
    n_items: usize,
    neighbours: Option<usize>,
    /// Similarities, items x items.
    similarities: Vec<f32>,
}

impl ItemKnn {
    /// Learns the similarities. Cost: the sum over users of their squared numbers of ratings; memory 4 bytes for each pair of items.
    ///
    /// # Errors
    /// [`BaselineError::NoRatings`]; [`BaselineError::Config`] for a negative shrinkage.
    pub fn fit(likes: &Ratings, config: &ItemKnnConfig) -> Result<Self, BaselineError> {
        non_empty_ratings(likes)?;
        // Written so that NaN fails.
        if !(config.shrinkage >= 0.0 && config.shrinkage.is_finite()) {
            return Err(BaselineError::Config {
                field: "shrinkage",
                value: config.shrinkage,
                rule: "finite and >= 0",
            });
        }
        let n = likes.n_cols();
        let mut products = vec![0.0_f32; n * n];
        for user in 0..likes.n_rows() {
            let (items, values) = likes.row(user);
            for (&i, a) in items.iter().zip(values) {
                let row = &mut products[i as usize * n..][..n];
                for (&j, b) in items.iter().zip(values) {
                    row[j as usize] += (a * b) as f32;
                }
            }
        }
        let norms: Vec<f64> = (0..n)
            .map(|i| f64::from(products[i * n + i]).sqrt())
            .collect();
        for (i, row) in products.chunks_exact_mut(n).enumerate() {
            for (j, product) in row.iter_mut().enumerate() {
                let divisor = norms[i] * norms[j] + config.shrinkage;
                *product = match divisor > 0.0 {
                    true => (f64::from(*product) / divisor) as f32,
                    false => 0.0,
                };
            }
        }
        Ok(Self {
            n_items: n,
            neighbours: config.neighbours,
            similarities: products,
        })
    }

    /// A score for every item. Cost: given items times items.
    ///
    /// # Errors
    /// [`BaselineError::Given`].
    pub fn scores(&self, given: &[Given]) -> Result<Vec<f64>, BaselineError> {
        check_given(given, self.n_items)?;
        let mut scores = vec![0.0; self.n_items];
        let mut terms: Vec<(f64, f64)> = Vec::with_capacity(given.len());
        for (item, score) in scores.iter_mut().enumerate() {
            let similarity =
                |g: &Given| f64::from(self.similarities[g.0 as usize * self.n_items + item]);
            terms.clear();
            terms.extend(given.iter().map(|g| (similarity(g), g.1)));
            if let Some(k) = self.neighbours.filter(|&k| k < terms.len()) {
                terms.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
                terms.truncate(k);
            }
            *score = terms.iter().map(|(s, v)| s * v).sum();
        }
        Ok(scores)
    }
}
