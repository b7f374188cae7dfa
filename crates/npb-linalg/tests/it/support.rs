//! Random matrices and patterns, and the dense formulas that the crate is checked against.

use npb_linalg::faer::linalg::solvers::{DenseSolveCore, Solve};
use npb_linalg::faer::{Mat, MatRef};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

pub(crate) fn normals(n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    (0..n).map(|_| StandardNormal.sample(rng)).collect()
}

pub(crate) fn normal_matrix(
    n_rows: usize,
    n_cols: usize,
    rng: &mut Xoshiro256PlusPlus,
) -> Mat<f64> {
    Mat::from_fn(n_rows, n_cols, |_, _| StandardNormal.sample(rng))
}

/// A well-conditioned symmetric positive definite matrix.
pub(crate) fn spd(n: usize, rng: &mut Xoshiro256PlusPlus) -> Mat<f64> {
    let g = normal_matrix(n, n + 3, rng);
    let mut a = &g * g.transpose();
    for i in 0..n {
        a[(i, i)] += 0.5 * n as f64;
    }
    a
}

/// A symmetric positive definite matrix with eigenvalues spread geometrically between 1 and `condition`.
pub(crate) fn spd_with_condition(
    n: usize,
    condition: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> Mat<f64> {
    let q = normal_matrix(n, n, rng).qr().compute_Q();
    let eigenvalue = |k: usize| condition.powf(k as f64 / (n.max(2) - 1) as f64);
    let scaled = Mat::from_fn(n, n, |i, k| q[(i, k)] * eigenvalue(k));
    let a = scaled * q.transpose();
    Mat::from_fn(n, n, |i, j| 0.5 * (a[(i, j)] + a[(j, i)]))
}

/// Each coordinate observed with probability `observed`: (observed, missing).
pub(crate) fn pattern(
    p: usize,
    observed: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<usize>, Vec<usize>) {
    (0..p).partition(|_| rng.random::<f64>() < observed)
}

pub(crate) fn block(a: MatRef<'_, f64>, rows: &[usize], cols: &[usize]) -> Mat<f64> {
    Mat::from_fn(rows.len(), cols.len(), |i, j| a[(rows[i], cols[j])])
}

/// Dense inverse by pivoted LU, for matrices of any size.
pub(crate) fn dense_inverse(a: MatRef<'_, f64>) -> Mat<f64> {
    if a.nrows() == 0 {
        Mat::new()
    } else {
        a.partial_piv_lu().inverse()
    }
}

pub(crate) fn dense_solve(a: MatRef<'_, f64>, b: &[f64]) -> Vec<f64> {
    if b.is_empty() {
        return Vec::new();
    }
    let x = a.partial_piv_lu().solve(column(b));
    (0..b.len()).map(|i| x[(i, 0)]).collect()
}

pub(crate) fn column(b: &[f64]) -> Mat<f64> {
    Mat::from_fn(b.len(), 1, |i, _| b[i])
}

/// ln det from the eigenvalues.
pub(crate) fn dense_ln_det(a: MatRef<'_, f64>) -> f64 {
    if a.nrows() == 0 {
        return 0.0;
    }
    let eigenvalues = a
        .self_adjoint_eigenvalues(npb_linalg::faer::Side::Lower)
        .expect("eigenvalues converge");
    eigenvalues.iter().map(|v| v.ln()).sum()
}

/// Largest absolute difference, relative to the largest absolute value of `expected`.
pub(crate) fn rel_diff(found: MatRef<'_, f64>, expected: MatRef<'_, f64>) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    let (mut gap, mut scale) = (0.0f64, f64::MIN_POSITIVE);
    for j in 0..found.ncols() {
        for i in 0..found.nrows() {
            assert!(
                found[(i, j)].is_finite(),
                "element ({i}, {j}) is {}",
                found[(i, j)]
            );
            gap = gap.max((found[(i, j)] - expected[(i, j)]).abs());
            scale = scale.max(expected[(i, j)].abs());
        }
    }
    gap / scale
}

pub(crate) fn rel_diff_vec(found: &[f64], expected: &[f64]) -> f64 {
    rel_diff(column(found).as_ref(), column(expected).as_ref())
}
