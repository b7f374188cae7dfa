//! Known features of rows or columns.

use npb_data::Ratings;
use npb_infer::stream;
use npb_linalg::faer::Mat;
use npb_linalg::svd::{SvdLimits, truncated_svd};
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::products::dot;

/// Features of the rows (or of the columns) of a matrix, dense or sparse; n x q, row by row.
///
/// Their coefficients share one precision: give features on comparable scales, centred where it makes sense. Held in single precision.
///
/// ```
/// use npb_bsvd::Features;
/// let genres = Features::sparse(3, 2, &[(0, 1, 1.0), (2, 0, 1.0)])?;   // film 1 has no genre
/// assert_eq!((genres.n_rows(), genres.n_features()), (3, 2));
/// # Ok::<(), npb_bsvd::BsvdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    n: usize,
    q: usize,
    /// Of sparse rows; empty when dense.
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl Features {
    /// From n x q values, row by row.
    ///
    /// # Errors
    /// Another number of values; one that is not finite.
    pub fn dense(n: usize, q: usize, values: &[f64]) -> Result<Self, BsvdError> {
        let expected = n.saturating_mul(q);
        if values.len() != expected {
            return Err(BsvdError::Size {
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
    /// A row or feature out of range, a value that is not finite, two entries for one place.
    pub fn sparse(n: usize, q: usize, entries: &[(u32, u32, f64)]) -> Result<Self, BsvdError> {
        for (index, &(row, feature, value)) in entries.iter().enumerate() {
            let missing = |axis, found: u32, size| BsvdError::Index {
                what: "feature entry",
                index,
                axis,
                found: found as usize,
                size,
            };
            if row as usize >= n {
                return Err(missing("row", row, n));
            }
            if feature as usize >= q {
                return Err(missing("feature", feature, q));
            }
            finite(row as usize, feature as usize, value)?;
        }
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|e| (e.0, e.1));
        if let Some(pair) = sorted
            .windows(2)
            .find(|w| (w[0].0, w[0].1) == (w[1].0, w[1].1))
        {
            return Err(BsvdError::State {
                what: format!("feature {} of row {} is given twice", pair[0].1, pair[0].0),
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

    /// Checks what the constructors check, after decoding.
    pub(crate) fn check(&self) -> Result<(), BsvdError> {
        let sized = if self.starts.is_empty() {
            self.indices.is_empty() && self.n.checked_mul(self.q) == Some(self.values.len())
        } else {
            let rising = self.starts.windows(2).all(|w| w[0] <= w[1]);
            let ends = (self.starts[0], self.starts.last()) == (0, Some(&self.values.len()));
            let within = self.indices.iter().all(|&f| (f as usize) < self.q);
            let lengths = self.n.checked_add(1) == Some(self.starts.len())
                && self.indices.len() == self.values.len();
            rising && ends && within && lengths
        };
        if sized && self.values.iter().all(|v| v.is_finite()) {
            return Ok(());
        }
        Err(BsvdError::State {
            what: "features: impossible value or size".to_owned(),
        })
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
        if self.starts.is_empty() {
            out.copy_from_slice(&self.values[i * self.q..(i + 1) * self.q]);
            return;
        }
        out.fill(0.0);
        let range = self.starts[i]..self.starts[i + 1];
        for (&feature, &value) in self.indices[range.clone()].iter().zip(&self.values[range]) {
            out[feature as usize] = value;
        }
    }

    /// Calls `f` with the indices (none when dense) and values of the features of `i`.
    pub(crate) fn with<T>(&self, i: usize, f: impl FnOnce(Option<&[u32]>, &[f32]) -> T) -> T {
        if self.starts.is_empty() {
            return f(None, &self.values[i * self.q..(i + 1) * self.q]);
        }
        let range = self.starts[i]..self.starts[i + 1];
        f(Some(&self.indices[range.clone()]), &self.values[range])
    }

    /// Features of `i` times coefficients.
    pub(crate) fn dot(&self, i: usize, coefficients: &[f32]) -> f64 {
        self.with(i, |indices, values| match indices {
            None => dot(values, coefficients),
            Some(indices) => indices
                .iter()
                .zip(values)
                .map(|(&f, &x)| f64::from(coefficients[f as usize]) * f64::from(x))
                .sum(),
        })
    }

    /// These features followed by `others` of the same rows.
    ///
    /// # Errors
    /// Another number of rows.
    pub fn beside(&self, others: &Self) -> Result<Self, BsvdError> {
        if self.n != others.n {
            return Err(BsvdError::Size {
                what: "rows of the second features",
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

fn finite(index: usize, feature: usize, value: f64) -> Result<(), BsvdError> {
    if value.is_finite() && (value as f32).is_finite() {
        Ok(())
    } else {
        Err(BsvdError::Feature {
            side: "row",
            index,
            feature,
            value,
        })
    }
}

/// Features that say which entries were observed: the first `count` left and right singular vectors of the 0/1 matrix of observed entries (W 5.5.3),
/// each scaled to mean square 1, then moved so that its mean over the *entries* is 0. Rows and columns without entries have zeros: they are taken for
/// those of a random entry, as in [`popularity`]. Make them from training entries only.
///
/// Fewer than `count` come back when the matrix has a lower rank. Cost: see [`truncated_svd`](npb_linalg::svd::truncated_svd); converged to 1e-4.
pub fn missingness<V: Copy + Into<f64> + Send + Sync>(
    ratings: &Ratings<V>,
    count: usize,
    seed: u64,
) -> SideInformation {
    let limits = SvdLimits {
        tolerance: 1e-4,
        ..SvdLimits::default()
    };
    let mut rng = stream(seed, [0, 0, MISSINGNESS, 0]);
    let svd = truncated_svd(&ratings.pattern(), count, &limits, &mut rng);
    let (rows, columns) = counts(ratings);
    SideInformation {
        rows: Some(centred(&svd.u, &rows)),
        columns: Some(centred(&svd.v, &columns)),
    }
}

/// Numbers of entries of rows and of columns.
fn counts<V: Copy + Into<f64> + Send + Sync>(ratings: &Ratings<V>) -> (Vec<usize>, Vec<usize>) {
    let rows = (0..ratings.n_rows()).map(|i| ratings.row(i).0.len());
    let columns = (0..ratings.n_cols()).map(|j| ratings.column(j).0.len());
    (rows.collect(), columns.collect())
}

/// Singular vectors as features: 0 where there is no entry, else of mean 0 over the entries, and of mean square 1 over rows before they are centred.
fn centred(vectors: &Mat<f64>, counts: &[usize]) -> Features {
    let (n, q) = (vectors.nrows(), vectors.ncols());
    let scale = (n as f64).sqrt();
    let total: usize = counts.iter().sum();
    let weights = || counts.iter().map(|&n| n as f64 / total.max(1) as f64);
    let mean = |k: usize| -> f64 {
        weights()
            .enumerate()
            .map(|(i, w)| w * vectors[(i, k)])
            .sum()
    };
    let means: Vec<f64> = (0..q).map(mean).collect();
    let place = |at: usize| match counts[at / q] {
        0 => 0.0,
        _ => (scale * (vectors[(at / q, at % q)] - means[at % q])) as f32,
    };
    Features {
        n,
        q,
        starts: Vec::new(),
        indices: Vec::new(),
        values: (0..n * q).map(place).collect(),
    }
}

/// One feature for each side: how many entries a row or column has, `ln n` on a scale on which a *random entry* has mean 0 and standard deviation 1.
///
/// What has many entries often has high ones: popular films are rated higher than others, and most ratings are of popular films. Without this feature a
/// film never seen is taken for a random film; with it, for the film of a random rating, which is what one will be asked about: rows and
/// columns without entries get 0. Make it from training entries only. Cost: a look at each row and column.
///
/// ```
/// # use npb_bsvd::npb_data::{Rating, Ratings};
/// use npb_bsvd::popularity;
/// // Column 0 has three of four entries, column 2 none.
/// let entry = |row, column| Rating { row, column, value: 1.0 };
/// let ratings = Ratings::new(3, 3, &[entry(0, 0), entry(1, 0), entry(2, 0), entry(2, 1)])?;
/// let columns = popularity(&ratings).columns.ok_or("columns")?;
/// let mut feature = [[0.0]; 3];
/// (0..3).for_each(|j| columns.write(j, &mut feature[j]));
/// assert!(feature[0][0] > 0.0 && feature[1][0] < 0.0 && feature[2][0] == 0.0);
/// assert!((3.0 * feature[0][0] + feature[1][0]).abs() < 1e-5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn popularity<V: Copy + Into<f64> + Send + Sync>(ratings: &Ratings<V>) -> SideInformation {
    let feature = |counts: Vec<usize>| {
        let seen = || counts.iter().filter(|&&n| n > 0).map(|&n| n as f64);
        let total: f64 = seen().sum();
        let mean = seen().map(|n| n * n.ln()).sum::<f64>() / total.max(1.0);
        let variance = seen().map(|n| n * (n.ln() - mean).powi(2)).sum::<f64>() / total.max(1.0);
        // Rows that all have as many entries tell nothing.
        let unit = if variance > 1e-12 {
            variance.sqrt().recip()
        } else {
            0.0
        };
        let place = |&n: &usize| match n {
            0 => 0.0,
            _ => (((n as f64).ln() - mean) * unit) as f32,
        };
        Features {
            n: counts.len(),
            q: 1,
            starts: Vec::new(),
            indices: Vec::new(),
            values: counts.iter().map(place).collect(),
        }
    };
    let (rows, columns) = counts(ratings);
    SideInformation {
        rows: Some(feature(rows)),
        columns: Some(feature(columns)),
    }
}

/// Third word of the key of the random start of the singular vectors.
const MISSINGNESS: u64 = 98;

/// Features of both sides, where there are any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideInformation {
    /// `R`: of the rows of the matrix.
    pub rows: Option<Features>,
    /// `C`: of the columns.
    pub columns: Option<Features>,
}

impl SideInformation {
    /// The features of both, side by side.
    ///
    /// # Errors
    /// Features of another number of rows or columns.
    pub fn beside(&self, others: &Self) -> Result<Self, BsvdError> {
        let both = |a: &Option<Features>, b: &Option<Features>| match (a, b) {
            (Some(a), Some(b)) => a.beside(b).map(Some),
            (a, b) => Ok(a.as_ref().or(b.as_ref()).cloned()),
        };
        Ok(Self {
            rows: both(&self.rows, &others.rows)?,
            columns: both(&self.columns, &others.columns)?,
        })
    }
}
