//! Known features of rows or columns.

use npb_data::{Features, Ratings};
use npb_infer::stream;
use npb_linalg::faer::Mat;
use npb_linalg::svd::{SvdLimits, truncated_svd};
use serde::{Deserialize, Serialize};

use crate::BsvdError;

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
        _ => scale * (vectors[(at / q, at % q)] - means[at % q]),
    };
    let values: Vec<f64> = (0..n * q).map(place).collect();
    Features::dense(n, q, &values).expect("singular vectors are finite")
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
            _ => ((n as f64).ln() - mean) * unit,
        };
        let values: Vec<f64> = counts.iter().map(place).collect();
        Features::dense(counts.len(), 1, &values).expect("logarithms of counts are finite")
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
            (Some(a), Some(b)) => Ok::<_, BsvdError>(Some(a.beside(b)?)),
            (a, b) => Ok(a.as_ref().or(b.as_ref()).cloned()),
        };
        Ok(Self {
            rows: both(&self.rows, &others.rows)?,
            columns: both(&self.columns, &others.columns)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_both_stand_side_by_side() {
        let dense = |values: &[f64]| Some(Features::dense(2, 1, values).unwrap());
        let a = SideInformation {
            rows: dense(&[1.0, 2.0]),
            columns: None,
        };
        let b = SideInformation {
            rows: dense(&[3.0, 4.0]),
            columns: dense(&[5.0, 6.0]),
        };
        let both = a.beside(&b).unwrap();
        let line = |features: &Option<Features>, i: usize, width: usize| {
            let mut out = vec![0.0; width];
            features.as_ref().unwrap().write(i, &mut out);
            out
        };
        assert_eq!(line(&both.rows, 0, 2), [1.0, 3.0]);
        assert_eq!(line(&both.rows, 1, 2), [2.0, 4.0]);
        assert_eq!(line(&both.columns, 1, 1), [6.0]);
        let other = SideInformation {
            rows: Some(Features::dense(3, 1, &[1.0, 2.0, 3.0]).unwrap()),
            columns: None,
        };
        assert!(a.beside(&other).is_err());
    }
}
