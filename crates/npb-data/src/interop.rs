//! Tables from and to the matrix types of other libraries.

use crate::mask::check_cells;
use crate::{DataError, Mask, Table};
use npb_linalg::faer::MatRef;

impl Table {
    /// A table from a faer matrix of f64 or f32 and row-major flags (true = observed); one copy.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn from_mat<T: Copy + Into<f64>>(
        values: MatRef<'_, T>,
        observed: &[bool],
    ) -> Result<Self, DataError> {
        check_cells("mask", observed.len(), values.nrows(), values.ncols())?;
        let mask = Mask::from_bools(values.nrows(), values.ncols(), observed)?;
        Self::from_parts(row_major(values), mask)
    }

    /// A table from a faer matrix of f64 or f32 in which NaN marks a missing cell; one copy.
    ///
    /// # Errors
    /// As [`Table::new`]; an infinity is an error.
    pub fn from_mat_nan_coded<T: Copy + Into<f64>>(
        values: MatRef<'_, T>,
    ) -> Result<Self, DataError> {
        Self::from_nan_coded_vec(values.nrows(), values.ncols(), row_major(values))
    }

    /// The values as a faer matrix, rows by columns, without a copy; missing cells hold 0.0.
    ///
    /// ```
    /// use npb_data::Table;
    /// let table = Table::complete(2, 2, vec![1.0, 2.0, 3.0, 4.0])?;
    /// assert_eq!(table.as_mat()[(1, 0)], 3.0);
    /// # Ok::<(), npb_data::DataError>(())
    /// ```
    pub fn as_mat(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(self.values(), self.n_rows(), self.n_cols())
    }
}

fn row_major<T: Copy + Into<f64>>(values: MatRef<'_, T>) -> Vec<f64> {
    let cells = (0..values.nrows()).flat_map(|i| (0..values.ncols()).map(move |j| (i, j)));
    cells.map(|(i, j)| (*values.get(i, j)).into()).collect()
}

#[cfg(feature = "ndarray")]
mod arrays {
    use super::*;
    use ndarray::ArrayView2;

    impl Table {
        /// A table from an ndarray array of f64 or f32 and a mask of its shape (true = observed); one copy.
        ///
        /// # Errors
        /// [`DataError::Shape`] when the shapes differ, else as [`Table::new`].
        pub fn from_array<T: Copy + Into<f64>>(
            values: ArrayView2<'_, T>,
            observed: ArrayView2<'_, bool>,
        ) -> Result<Self, DataError> {
            let (rows, cols) = values.dim();
            crate::mask::check_mask_shape(observed.dim(), (rows, cols))?;
            let mask = Mask::from_fn(rows, cols, |i, j| observed[(i, j)])?;
            Self::from_parts(values.iter().map(|&v| v.into()).collect(), mask)
        }

        /// A table from an ndarray array of f64 or f32 in which NaN marks a missing cell; one copy.
        ///
        /// # Errors
        /// As [`Table::new`]; an infinity is an error.
        pub fn from_array_nan_coded<T: Copy + Into<f64>>(
            values: ArrayView2<'_, T>,
        ) -> Result<Self, DataError> {
            let (n_rows, n_cols) = values.dim();
            Self::from_nan_coded_vec(n_rows, n_cols, values.iter().map(|&v| v.into()).collect())
        }

        /// The values as an ndarray array, rows by columns, without a copy; missing cells hold 0.0.
        pub fn as_array(&self) -> ArrayView2<'_, f64> {
            ArrayView2::from_shape((self.n_rows(), self.n_cols()), self.values())
                .unwrap_or_else(|_| unreachable!("a table has n_rows * n_cols values"))
        }
    }
}
