//! What the factor model is of.

use npb_data::Table;
use npb_linalg::faer::Mat;

/// The inputs of the factor model, in standard units: I items in J observations.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    /// J x I: a column for each item. 0 where nothing was observed.
    pub(crate) values: Mat<f64>,
    /// 1 where observed, else 0; `None`: everything is.
    pub(crate) seen: Option<Mat<f64>>,
    /// Observed entries.
    pub(crate) n_observed: usize,
    /// Their sum of squares.
    pub(crate) sum_squares: f64,
}

impl Items {
    /// Rows are items.
    pub(crate) fn from_rows(table: &Table) -> Self {
        Self::new(table, (table.n_cols(), table.n_rows()), |j, i| (i, j))
    }

    /// Columns are items.
    pub(crate) fn from_columns(table: &Table) -> Self {
        Self::new(table, (table.n_rows(), table.n_cols()), |j, i| (j, i))
    }

    fn new(
        table: &Table,
        (rows, cols): (usize, usize),
        place: impl Fn(usize, usize) -> (usize, usize),
    ) -> Self {
        let n_cols = table.n_cols();
        let values = Mat::from_fn(rows, cols, |j, i| {
            let (row, column) = place(j, i);
            table.values()[row * n_cols + column]
        });
        let seen = (table.n_missing() > 0).then(|| {
            Mat::from_fn(rows, cols, |j, i| {
                let (row, column) = place(j, i);
                f64::from(u8::from(table.is_observed(row, column)))
            })
        });
        let squares = |i: usize| npb_linalg::dot(values.col_as_slice(i), values.col_as_slice(i));
        Self {
            n_observed: rows * cols - table.n_missing(),
            sum_squares: (0..cols).map(squares).sum(),
            values,
            seen,
        }
    }

    pub(crate) fn n_items(&self) -> usize {
        self.values.ncols()
    }

    pub(crate) fn n_observations(&self) -> usize {
        self.values.nrows()
    }
}
