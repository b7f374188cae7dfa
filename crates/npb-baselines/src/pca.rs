//! Principal components.

use npb_data::Table;
use npb_linalg::dot;
use npb_linalg::faer::Mat;
use npb_linalg::svd::thin_svd;

use crate::BaselineError;
use crate::error::{at_least_one, complete, non_empty};

/// The leading principal components of training rows: x becomes V'(x - mean).
///
/// Cost: the thin singular value decomposition of the centred rows.
///
/// ```
/// use npb_baselines::Pca;
/// use npb_data::Table;
///
/// let x = Table::complete(3, 2, vec![-1.0, -2.0, 0.0, 0.0, 1.0, 2.0])?;
/// let scores = Pca::fit(&x, 1)?.transform(&x)?;
/// assert!((scores.row(2)[0] - 5f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pca {
    column_names: Vec<String>,
    mean: Vec<f64>,
    /// One column per component.
    directions: Mat<f64>,
    /// Variance (divisor n) along each component.
    variances: Vec<f64>,
}

impl Pca {
    /// Learns at most `components` components from complete rows; fewer when there are fewer rows or columns.
    ///
    /// # Errors
    /// [`BaselineError::Config`] for no components, [`BaselineError::Empty`], [`BaselineError::Missing`],
    /// [`BaselineError::SingularValues`].
    pub fn fit(train: &Table, components: usize) -> Result<Self, BaselineError> {
        at_least_one("components", components)?;
        non_empty(train)?;
        complete(train)?;
        let n = train.n_rows();
        let mean: Vec<f64> = train.column_stats().iter().map(|s| s.mean).collect();
        let centred = Mat::from_fn(n, train.n_cols(), |i, j| train.row(i)[j] - mean[j]);
        let svd = thin_svd(centred.as_ref()).map_err(|_| BaselineError::SingularValues)?;
        let k = components.min(svd.singular_values.len());
        Ok(Self {
            column_names: train.column_names().to_vec(),
            mean,
            directions: svd.v.subcols(0, k).to_owned(),
            variances: svd.singular_values[..k]
                .iter()
                .map(|s| s * s / n as f64)
                .collect(),
        })
    }

    /// Scores of complete rows: one column `pc1`, `pc2`, ... per component.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`].
    pub fn transform(&self, table: &Table) -> Result<Table, BaselineError> {
        table.check_columns(&self.column_names)?;
        complete(table)?;
        let k = self.variances.len();
        let mut scores = Vec::with_capacity(table.n_rows() * k);
        for i in 0..table.n_rows() {
            let centred: Vec<f64> = table
                .row(i)
                .iter()
                .zip(&self.mean)
                .map(|(x, m)| x - m)
                .collect();
            scores.extend((0..k).map(|c| dot(self.directions.col_as_slice(c), &centred)));
        }
        let names = (1..=k).map(|c| format!("pc{c}"));
        Ok(Table::complete(table.n_rows(), k, scores)?.with_column_names(names)?)
    }

    /// Variance (divisor n) along each component, falling.
    pub fn variances(&self) -> &[f64] {
        &self.variances
    }
}
