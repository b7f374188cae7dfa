//! `faer::Mat<f64>` in serde data: `#[serde(with = "npb_linalg::saved")]`.
//!
//! The stored form is (`n_rows`, `n_cols`, `values`), values column by column. Reading checks that the lengths agree, so that a
//! damaged file is an error, never a panic. [`mod@vec`] does the same for `Vec<Mat<f64>>`.
//!
//! ```
//! use npb_linalg::faer::{Mat, mat};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct State {
//!     #[serde(with = "npb_linalg::saved")]
//!     mean: Mat<f64>,
//! }
//! let text = serde_json::to_string(&State { mean: mat![[1.0, 2.0, 3.0]] })?;
//! let back: State = serde_json::from_str(&text)?;
//! assert_eq!(back.mean, mat![[1.0, 2.0, 3.0]]);
//! # Ok::<(), serde_json::Error>(())
//! ```

use faer::{Mat, MatRef};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes `matrix` as (`n_rows`, `n_cols`, `values`), without copying it.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(matrix: &Mat<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    Borrowed(matrix.as_ref()).serialize(serializer)
}

/// Reads a matrix.
///
/// # Errors
/// Those of the deserializer, and a number of values that is not `n_rows * n_cols`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mat<f64>, D::Error> {
    Owned::deserialize(deserializer)?.into_matrix()
}

/// `Vec<Mat<f64>>` in serde data: `#[serde(with = "npb_linalg::saved::vec")]`.
pub mod vec {
    use super::*;

    /// Writes the matrices one after the other.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        matrices: &[Mat<f64>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(matrices.iter().map(|matrix| Borrowed(matrix.as_ref())))
    }

    /// Reads the matrices.
    ///
    /// # Errors
    /// As for one matrix.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Mat<f64>>, D::Error> {
        Vec::<Owned>::deserialize(deserializer)?
            .into_iter()
            .map(Owned::into_matrix)
            .collect()
    }
}

/// A forged 0 x 2^60 matrix has the right number of values, none, but would keep faer busy for years.
const MAX_EMPTY_DIM: usize = 1 << 24;

struct Borrowed<'a>(MatRef<'a, f64>);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Matrix", 3)?;
        fields.serialize_field("n_rows", &self.0.nrows())?;
        fields.serialize_field("n_cols", &self.0.ncols())?;
        fields.serialize_field("values", &Values(self.0))?;
        fields.end()
    }
}

struct Values<'a>(MatRef<'a, f64>);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (n_rows, n_cols) = self.0.shape();
        // One range rather than two nested ones: the sequence must know its length.
        serializer.collect_seq((0..n_rows * n_cols).map(|k| self.0[(k % n_rows, k / n_rows)]))
    }
}

#[derive(Deserialize)]
#[serde(rename = "Matrix", deny_unknown_fields)]
struct Owned {
    n_rows: usize,
    n_cols: usize,
    values: Vec<f64>,
}

impl Owned {
    fn into_matrix<E: serde::de::Error>(self) -> Result<Mat<f64>, E> {
        let Self {
            n_rows,
            n_cols,
            values,
        } = self;
        if n_rows.checked_mul(n_cols) != Some(values.len()) {
            let found = values.len();
            return Err(E::custom(format_args!(
                "a {n_rows} x {n_cols} matrix cannot hold {found} values"
            )));
        }
        if values.is_empty() && n_rows.max(n_cols) > MAX_EMPTY_DIM {
            return Err(E::custom(format_args!(
                "a {n_rows} x {n_cols} matrix is empty and larger than any real one"
            )));
        }
        Ok(Mat::from_fn(n_rows, n_cols, |i, j| values[j * n_rows + i]))
    }
}
