//! Rows of inputs of a machine: dense or sparse, with a column of ones appended on request.

mod map;

use npb_data::Ratings;

use crate::error::{RegBayesError, same_size};
pub use map::{InputMap, MapConfig};

/// The rows `x_n` that a machine sees, borrowed: `n_rows x n_weights`.
///
/// The bias of this crate is regularised: a column of equal numbers that belongs to the inputs (`ones`), as the priors of its models say, and
/// not a free intercept (so the duals have no equality constraint).
///
/// ```
/// use npb_regbayes::Inputs;
/// let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let inputs = Inputs::dense(&x, 3)?.with_ones(1.0)?;
/// assert_eq!((inputs.n_rows(), inputs.n_weights()), (2, 4));
/// assert_eq!(inputs.score(1, &[1.0, 0.0, 0.0, 0.5]), 4.5);
/// # Ok::<(), npb_regbayes::RegBayesError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub(crate) rows: Rows<'a>,
    n_rows: usize,
    n_cols: usize,
    /// Number in the column that is appended; 0 without one.
    pub(crate) ones: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a> {
    /// Row-major.
    Dense(&'a [f64]),
    /// Entries that are not there are 0.
    Sparse(&'a Ratings),
    /// Inner products of all rows, for targets of one score: "weights" are then the scores of the rows themselves. A visit costs nothing, and only a dual that
    /// moves costs a row.
    Products(&'a [f64]),
}

impl<'a> Inputs<'a> {
    /// Dense rows, one after the other, of `n_cols` numbers each.
    ///
    /// # Errors
    /// A length that is no multiple of `n_cols`; a value that is not finite.
    pub fn dense(values: &'a [f64], n_cols: usize) -> Result<Self, RegBayesError> {
        let n_rows = values.len() / n_cols.max(1);
        same_size("numbers in the inputs", values.len(), n_rows * n_cols)?;
        if let Some(k) = values.iter().position(|x| !x.is_finite()) {
            return Err(RegBayesError::entry(
                "inputs",
                (k / n_cols, k % n_cols),
                values[k],
                "a finite number",
            ));
        }
        Ok(Self {
            rows: Rows::Dense(values),
            n_rows,
            n_cols,
            ones: 0.0,
        })
    }

    /// Sparse rows: entries that are not stored are zero here (not unknown).
    pub fn sparse(rows: &'a Ratings) -> Self {
        Self {
            rows: Rows::Sparse(rows),
            n_rows: rows.n_rows(),
            n_cols: rows.n_cols(),
            ones: 0.0,
        }
    }

    /// Rows by their inner products, a column of ones included.
    pub(crate) fn products(products: &'a [f64]) -> Self {
        let n_rows = products.len().isqrt();
        debug_assert_eq!(n_rows * n_rows, products.len());
        Self {
            rows: Rows::Products(products),
            n_rows,
            n_cols: n_rows,
            ones: 0.0,
        }
    }

    /// The same rows with a last column of equal numbers; 0 takes it away. The larger the number, the less its weight is shrunk.
    ///
    /// # Errors
    /// A number that is negative or not finite.
    pub fn with_ones(self, ones: f64) -> Result<Self, RegBayesError> {
        npb_infer::ranges::not_negative("ones", ones)?;
        Ok(Self { ones, ..self })
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns, that of ones not counted.
    pub fn n_cols(&self) -> usize {
        self.n_cols
    }

    /// Weights of one score: the columns, and one more if ones were appended.
    pub fn n_weights(&self) -> usize {
        self.n_cols + usize::from(self.ones > 0.0)
    }

    /// `w' x_n` of one row, the column of ones included.
    ///
    /// # Panics
    /// When the row does not exist or `weights` is not `n_weights` long.
    pub fn score(&self, row: usize, weights: &[f64]) -> f64 {
        assert_eq!(weights.len(), self.n_weights(), "one weight per column");
        let (own, last) = weights.split_at(self.n_cols);
        let bias = last.first().map_or(0.0, |w| w * self.ones);
        bias + match self.rows {
            Rows::Dense(values) => {
                npb_linalg::dot(&values[row * self.n_cols..][..self.n_cols], own)
            }
            Rows::Sparse(ratings) => {
                let (columns, values) = ratings.row(row);
                let terms = columns.iter().zip(values);
                terms.map(|(&j, x)| x * own[j as usize]).sum()
            }
            Rows::Products(_) => own[row],
        }
    }

    /// `|x_n|^2`, the column of ones included.
    pub(crate) fn squared_norm(&self, row: usize) -> f64 {
        let own = match self.rows {
            Rows::Dense(values) => {
                let x = &values[row * self.n_cols..][..self.n_cols];
                npb_linalg::dot(x, x)
            }
            Rows::Sparse(ratings) => ratings.row(row).1.iter().map(|x| x * x).sum(),
            Rows::Products(products) => products[row * (self.n_cols + 1)],
        };
        own + self.ones * self.ones
    }
}

#[cfg(test)]
mod tests {
    use npb_data::Rating;

    use super::*;

    /// 4 + 9/4 of the row, and a quarter of the column of ones; sparse as dense.
    #[test]
    fn squared_norms_are_sums_of_squares() {
        let entry = |column, value| Rating {
            row: 0,
            column,
            value,
        };
        let ratings = Ratings::new(1, 3, &[entry(0, 2.0), entry(2, -1.5)]).unwrap();
        let cells = [2.0, 0.0, -1.5];
        for inputs in [Inputs::sparse(&ratings), Inputs::dense(&cells, 3).unwrap()] {
            let norm = inputs.with_ones(0.5).unwrap().squared_norm(0);
            assert!((norm - 6.5).abs() < 1e-12, "{norm}");
        }
    }
}
