//! What the cells of a row say about its factors, whatever its cluster.
//!
//! With `f = [s; e_h]`, the exponent of row i in cluster h is `-kappa_h (squares_i - 2 linear_i'f + f'G_i f) / 2`, sums over the observed features:
//! `G_i = sum (psi m m' + V)`, `linear_i = sum psi x m`, `squares_i = sum psi x^2`.

use std::f64::consts::PI;

use npb_data::Pattern;
use npb_infer::parallel;
use npb_linalg::faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};

use super::cells::Cells;
use super::state::{FactorState, submatrix};

/// Features at a time in sums over features: a fixed number, so that sums do not depend on the number of threads.
const FEATURE_BLOCK: usize = 512;

/// Rows at a time in products whose results are by row.
const ROW_BLOCK: usize = 32;

/// The features' parameters: at their posterior means with what their uncertainty adds, or as drawn.
pub(crate) struct Features<'a> {
    /// P x D.
    pub(crate) mean: MatRef<'a, f64>,
    /// `<psi_p>`.
    pub(crate) noise: Vec<f64>,
    /// `<ln psi_p>`.
    pub(crate) ln_noise: Vec<f64>,
    /// `V` by missing pattern of features, and the pattern of each; none for a draw.
    pub(crate) spread: Option<(&'a [Mat<f64>], &'a [usize])>,
}

impl<'a> Features<'a> {
    pub(crate) fn expected(state: &'a FactorState) -> Self {
        let features = &state.features;
        let each = features.shape.iter().zip(&features.rate);
        Self {
            mean: features.mean.as_ref(),
            noise: each.clone().map(|(a, b)| a / b).collect(),
            ln_noise: each
                .map(|(a, b)| npb_priors::special::digamma(*a) - b.ln())
                .collect(),
            spread: Some((&features.covariance, &features.pattern)),
        }
    }

    fn n(&self) -> usize {
        self.mean.nrows()
    }

    fn dim(&self) -> usize {
        self.mean.ncols()
    }

    /// `sum (psi m m' + V)` over the features named.
    fn gram(&self, members: &[usize]) -> Mat<f64> {
        let d = self.dim();
        let weighted = Mat::from_fn(members.len(), d, |k, j| {
            self.noise[members[k]].sqrt() * self.mean[(members[k], j)]
        });
        let mut gram = Mat::zeros(d, d);
        let (to, a, b) = (gram.as_mut(), weighted.transpose(), weighted.as_ref());
        matmul(to, Accum::Replace, a, b, 1.0, Par::Seq);
        if let Some((covariance, pattern)) = self.spread {
            let mut counts = vec![0.0; covariance.len()];
            members.iter().for_each(|&p| counts[pattern[p]] += 1.0);
            for (v, &count) in covariance.iter().zip(&counts) {
                if count > 0.0 {
                    add(&mut gram, count, v);
                }
            }
        }
        gram
    }
}

/// `to += scale * from`.
pub(crate) fn add(to: &mut Mat<f64>, scale: f64, from: &Mat<f64>) {
    for j in 0..from.ncols() {
        let column = to.col_as_slice_mut(j);
        for (to, from) in column.iter_mut().zip(from.col_as_slice(j)) {
            *to += scale * from;
        }
    }
}

/// The sums over the observed features of every row.
#[derive(Clone, Debug)]
pub(crate) struct Forms {
    /// D x n: `linear_i` as columns.
    pub(crate) linear: Mat<f64>,
    pub(crate) squares: Vec<f64>,
    /// `sum (<ln psi> - ln 2 pi)`.
    pub(crate) ln_noise: Vec<f64>,
    /// Number of observed features.
    pub(crate) counts: Vec<f64>,
    /// `G` of each missing pattern.
    pub(crate) grams: Vec<Mat<f64>>,
}

impl Forms {
    pub(crate) fn new(features: &Features<'_>, cells: &Cells) -> Self {
        let n = cells.n_rows();
        let all: Vec<usize> = (0..features.n()).collect();
        let grams: Vec<Mat<f64>> =
            parallel::map(all.chunks(FEATURE_BLOCK), |block| features.gram(block));
        let mut total = Mat::zeros(features.dim(), features.dim());
        grams.iter().for_each(|gram| add(&mut total, 1.0, gram));
        let patterns = cells.patterns.patterns();
        let gram = |pattern: &Pattern| {
            if pattern.missing.len() <= pattern.observed.len() {
                let mut gram = total.clone();
                if !pattern.missing.is_empty() {
                    add(&mut gram, -1.0, &features.gram(&pattern.missing));
                }
                gram
            } else {
                features.gram(&pattern.observed)
            }
        };
        let (mut ln_noise, mut counts) = (vec![0.0; n], vec![0.0; n]);
        for pattern in patterns {
            let each = pattern.observed.iter();
            let sum: f64 = each.map(|&p| features.ln_noise[p] - (2.0 * PI).ln()).sum();
            for &i in &pattern.rows {
                ln_noise[i] = sum;
                counts[i] = pattern.observed.len() as f64;
            }
        }
        Self {
            linear: linear(features, cells),
            squares: squares(features, cells),
            ln_noise,
            counts,
            grams: parallel::map(patterns, gram),
        }
    }

    /// Of the coordinates named alone.
    pub(crate) fn select(&mut self, kept: &[usize]) {
        let linear = &self.linear;
        self.linear = Mat::from_fn(kept.len(), linear.ncols(), |k, i| linear[(kept[k], i)]);
        for gram in &mut self.grams {
            *gram = submatrix(gram, kept);
        }
    }
}

fn linear(features: &Features<'_>, cells: &Cells) -> Mat<f64> {
    let (n, p, d) = (cells.n_rows(), features.n(), features.dim());
    let weighted = Mat::from_fn(p, d, |j, k| features.noise[j] * features.mean[(j, k)]);
    let values = product_by_column(weighted.transpose(), cells.x.transpose(), ROW_BLOCK);
    Mat::from_fn(d, n, |k, i| values[i * d + k])
}

/// `A B`, so many columns at a time; column-major.
pub(super) fn product_by_column(a: MatRef<'_, f64>, b: MatRef<'_, f64>, block: usize) -> Vec<f64> {
    let d = a.nrows();
    let mut values = vec![0.0; d * b.ncols()];
    let blocks = values.chunks_mut((d * block).max(1)).enumerate();
    parallel::for_each(blocks, |(number, out)| {
        let n = out.len() / d;
        let out = MatMut::from_column_major_slice_mut(out, d, n);
        let b = b.subcols(number * block, n);
        matmul(out, Accum::Replace, a, b, 1.0, Par::Seq);
    });
    values
}

fn squares(features: &Features<'_>, cells: &Cells) -> Vec<f64> {
    let mut squares = vec![0.0; cells.n_rows()];
    for (p, noise) in features.noise.iter().enumerate() {
        for (sum, x) in squares.iter_mut().zip(cells.x.col_as_slice(p)) {
            *sum += noise * x * x;
        }
    }
    squares
}
