//! Known features of rows or columns.

use npb_linalg::dot_f32;
use serde::{Deserialize, Serialize};

use crate::DataError;

/// Features of the rows (or of the columns) of a matrix, dense or sparse; n x q, row by row.
///
/// Models give the coefficients of features one scale: put them on comparable scales, centred where it makes sense. Held in single precision.
/// Deserialisation checks what the constructors check.
///
/// ```
/// use npb_data::Features;
/// let genres = Features::sparse(3, 2, &[(0, 1, 1.0), (2, 0, 1.0)])?;   // film 1 has no genre
/// assert_eq!((genres.n_rows(), genres.n_features()), (3, 2));
/// assert_eq!(genres.dot(2, &[0.5, 3.0]), 0.5);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", deny_unknown_fields)]
pub struct Features {
    n: usize,
    q: usize,
    /// Of sparse rows; empty when dense.
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

/// As it comes from a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    n: usize,
    q: usize,
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl TryFrom<Stored> for Features {
    type Error = DataError;

    fn try_from(stored: Stored) -> Result<Self, DataError> {
        let Stored {
            n,
            q,
            starts,
            indices,
            values,
        } = stored;
        let features = Self {
            n,
            q,
            starts,
            indices,
            values,
        };
        if features.is_consistent() {
            return Ok(features);
        }
        Err(DataError::StoredFeatures)
    }
}

impl Features {
    /// From n x q values, row by row.
    ///
    /// # Errors
    /// [`DataError::Length`]; [`DataError::Feature`] for a value that is not finite in single precision.
    pub fn dense(n: usize, q: usize, values: &[f64]) -> Result<Self, DataError> {
        let expected = n.saturating_mul(q);
        if values.len() != expected {
            return Err(DataError::Length {
                what: "values of dense features",
                found: values.len(),
                expected,
            });
        }
        for (at, &value) in values.iter().enumerate() {
            finite(at / q, at % q, value)?;
        }
        Ok(Self {
            n,
            q,
            starts: Vec::new(),
            indices: Vec::new(),
            values: values.iter().map(|&v| v as f32).collect(),
        })
    }

    /// From (row, feature, value) entries in any order; all others are zero.
    ///
    /// # Errors
    /// [`DataError::FeatureRange`] for a row or feature out of range, [`DataError::Feature`] for a value that is not finite,
    /// [`DataError::FeatureTwice`] for two entries in one place.
    pub fn sparse(n: usize, q: usize, entries: &[(u32, u32, f64)]) -> Result<Self, DataError> {
        for (entry, &(row, feature, value)) in entries.iter().enumerate() {
            for (axis, index, size) in [("row", row, n), ("feature", feature, q)] {
                if index as usize >= size {
                    return Err(DataError::FeatureRange {
                        entry,
                        axis,
                        index,
                        size,
                    });
                }
            }
            finite(row as usize, feature as usize, value)?;
        }
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|e| (e.0, e.1));
        if let Some(pair) = sorted
            .windows(2)
            .find(|w| (w[0].0, w[0].1) == (w[1].0, w[1].1))
        {
            return Err(DataError::FeatureTwice {
                row: pair[0].0,
                feature: pair[0].1,
            });
        }
        let mut starts = vec![0; n + 1];
        sorted.iter().for_each(|e| starts[e.0 as usize + 1] += 1);
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        Ok(Self {
            n,
            q,
            starts,
            indices: sorted.iter().map(|e| e.1).collect(),
            values: sorted.iter().map(|e| e.2 as f32).collect(),
        })
    }

    /// Whether sizes fit each other and values are finite.
    fn is_consistent(&self) -> bool {
        let sized = if self.starts.is_empty() {
            self.indices.is_empty() && self.n.checked_mul(self.q) == Some(self.values.len())
        } else {
            let rising = self.starts.windows(2).all(|w| w[0] <= w[1]);
            let ends = (self.starts[0], self.starts.last()) == (0, Some(&self.values.len()));
            let within = self.indices.iter().all(|&f| (f as usize) < self.q);
            let lengths = self.n.checked_add(1) == Some(self.starts.len())
                && self.indices.len() == self.values.len();
            let once = |w: &[usize]| self.indices[w[0]..w[1]].windows(2).all(|f| f[0] < f[1]);
            rising && ends && within && lengths && self.starts.windows(2).all(once)
        };
        sized && self.values.iter().all(|v| v.is_finite())
    }

    /// Rows (or columns) of the matrix that have features.
    pub fn n_rows(&self) -> usize {
        self.n
    }

    /// q.
    pub fn n_features(&self) -> usize {
        self.q
    }

    /// Writes the features of `i` into the first q places of `out`.
    ///
    /// # Panics
    /// When `i` is out of range or `out` is shorter than q.
    pub fn write(&self, i: usize, out: &mut [f32]) {
        let out = &mut out[..self.q];
        match self.row(i) {
            (None, values) => out.copy_from_slice(values),
            (Some(indices), values) => {
                out.fill(0.0);
                for (&feature, &value) in indices.iter().zip(values) {
                    out[feature as usize] = value;
                }
            }
        }
    }

    /// Indices (ascending; none when dense, where all are there) and values of the features of `i`.
    #[inline]
    pub fn row(&self, i: usize) -> (Option<&[u32]>, &[f32]) {
        if self.starts.is_empty() {
            return (None, &self.values[i * self.q..(i + 1) * self.q]);
        }
        let range = self.starts[i]..self.starts[i + 1];
        (Some(&self.indices[range.clone()]), &self.values[range])
    }

    /// Features of `i` times q coefficients.
    ///
    /// # Panics
    /// When `i` is out of range or there are fewer than q coefficients.
    #[inline]
    pub fn dot(&self, i: usize, coefficients: &[f32]) -> f64 {
        match self.row(i) {
            (None, values) => dot_f32(values, coefficients),
            (Some(indices), values) => indices
                .iter()
                .zip(values)
                .map(|(&f, &x)| f64::from(coefficients[f as usize]) * f64::from(x))
                .sum(),
        }
    }

    /// These features followed by `others` of the same rows.
    ///
    /// # Errors
    /// [`DataError::Length`] for another number of rows.
    pub fn beside(&self, others: &Self) -> Result<Self, DataError> {
        if self.n != others.n {
            return Err(DataError::Length {
                what: "second features, by rows,",
                found: others.n,
                expected: self.n,
            });
        }
        let q = self.q + others.q;
        let mut values = vec![0.0; self.n * q];
        for (i, row) in values.chunks_exact_mut(q.max(1)).enumerate() {
            self.write(i, row);
            others.write(i, &mut row[self.q..]);
        }
        Ok(Self {
            n: self.n,
            q,
            starts: Vec::new(),
            indices: Vec::new(),
            values,
        })
    }
}

fn finite(row: usize, feature: usize, value: f64) -> Result<(), DataError> {
    if (value as f32).is_finite() {
        return Ok(());
    }
    Err(DataError::Feature {
        row,
        feature,
        value,
    })
}
