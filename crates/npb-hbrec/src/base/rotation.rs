//! A change of basis of loadings and users' coefficients that leaves every utility as it is.

use npb_linalg::Cholesky;
use npb_linalg::faer::{Mat, MatRef, Side};

/// `eta = c + T eta'`, `l' = T'l`, `m' = m + c'l`.
pub(super) struct Rotation {
    centre: Vec<f64>,
    /// T.
    turn: Mat<f64>,
    inverse: Mat<f64>,
    ln_det: f64,
}

impl Rotation {
    /// From the mean of the users' coefficients, their covariance, and the covariance of the items' deviations (lower triangles, column by column). `T =
    /// L O`: L is the Cholesky factor of the first, O the eigenvectors of what L makes of the second.
    pub(super) fn new(centre: Vec<f64>, users: &[f64], items: &[f64]) -> Option<Self> {
        let r = centre.len();
        let whole = |lower: &[f64]| Mat::from_fn(r, r, |i, j| lower[i.min(j) * r + i.max(j)]);
        let factor = Cholesky::new(MatRef::from_column_major_slice(users, r, r)).ok()?;
        let l = factor.l().to_owned();
        let turned = l.transpose() * whole(items) * &l;
        let eigen = turned.self_adjoint_eigen(Side::Lower).ok()?;
        let o = eigen.U();
        let turn = &l * o;
        // L^-1, by columns of the identity.
        let mut inverse = Mat::zeros(r, r);
        for k in 0..r {
            let mut column = vec![0.0; r];
            column[k] = 1.0;
            factor.solve_l(&mut column);
            (0..r).for_each(|i| inverse[(i, k)] = column[i]);
        }
        Some(Self {
            centre,
            turn,
            inverse: o.transpose() * inverse,
            ln_det: 0.5 * factor.ln_det(),
        })
    }

    /// ln |T|.
    pub(super) fn ln_det(&self) -> f64 {
        self.ln_det
    }

    /// Mean and covariance of `(eta, kappa)`.
    pub(super) fn turn_user(&self, mean: &mut [f64], covariance: &mut [f64]) {
        let (q, r) = (mean.len(), self.centre.len());
        let deviation: Vec<f64> = (0..r).map(|k| mean[k] - self.centre[k]).collect();
        for k in 0..r {
            mean[k] = (0..r).map(|l| self.inverse[(k, l)] * deviation[l]).sum();
        }
        congruence(covariance, q, 0, &self.inverse);
    }

    /// Mean and covariance of `(m, l)`.
    pub(super) fn turn_item(&self, mean: &mut [f64], covariance: &mut [f64]) {
        let (width, r) = (mean.len(), self.centre.len());
        let l: Vec<f64> = mean[1..].to_vec();
        mean[0] += npb_linalg::dot(&l, &self.centre);
        for k in 0..r {
            mean[k + 1] = (0..r).map(|i| self.turn[(i, k)] * l[i]).sum();
        }
        // First m + c'l, then the loadings.
        for i in 0..width {
            let row = &covariance[i * width..(i + 1) * width];
            covariance[i * width] += npb_linalg::dot(&row[1..], &self.centre);
        }
        for j in 0..width {
            let added: f64 = (0..r)
                .map(|k| self.centre[k] * covariance[(k + 1) * width + j])
                .sum();
            covariance[j] += added;
        }
        congruence(covariance, width, 1, &self.turn.transpose().to_owned());
    }

    /// Coefficients of means and loadings on content.
    pub(super) fn turn_regression(&self, regression: &mut [Vec<f64>]) {
        let r = self.centre.len();
        let old = regression.to_vec();
        for k in 0..old[0].len() {
            regression[0][k] += (0..r).map(|i| self.centre[i] * old[i + 1][k]).sum::<f64>();
            for j in 0..r {
                regression[j + 1][k] = (0..r).map(|i| self.turn[(i, j)] * old[i + 1][k]).sum();
            }
        }
    }
}

/// `C <- A C A'`, A acting on the coordinates from `from` on. The result is symmetric to the last bit.
fn congruence(c: &mut [f64], width: usize, from: usize, a: &Mat<f64>) {
    let r = a.nrows();
    let mut old = vec![0.0; r];
    for j in 0..width {
        (0..r).for_each(|i| old[i] = c[(from + i) * width + j]);
        for i in 0..r {
            c[(from + i) * width + j] = (0..r).map(|k| a[(i, k)] * old[k]).sum();
        }
    }
    for row in c.chunks_exact_mut(width) {
        old.copy_from_slice(&row[from..from + r]);
        for i in 0..r {
            row[from + i] = (0..r).map(|k| a[(i, k)] * old[k]).sum();
        }
    }
    for i in 0..width {
        for j in 0..i {
            c[i * width + j] = c[j * width + i];
        }
    }
}
