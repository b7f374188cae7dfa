use npb_linalg::faer::Mat;
use npb_linalg::svd::{
    NoSvd, SparseError, SparseRows, SvdLimits, TruncatedSvd, thin_svd, truncated_svd,
};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::support::*;

struct Arrays {
    n_cols: usize,
    offsets: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Arrays {
    fn of(dense: &Mat<f64>) -> Self {
        let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..dense.nrows() {
            for j in (0..dense.ncols()).filter(|&j| dense[(i, j)] != 0.0) {
                columns.push(j as u32);
                values.push(dense[(i, j)]);
            }
            offsets.push(columns.len());
        }
        Self {
            n_cols: dense.ncols(),
            offsets,
            columns,
            values,
        }
    }

    fn matrix(&self) -> SparseRows<'_> {
        SparseRows::new(
            self.n_cols,
            &self.offsets,
            &self.columns,
            Some(&self.values),
        )
        .unwrap()
    }

    fn pattern(&self) -> SparseRows<'_> {
        SparseRows::new(self.n_cols, &self.offsets, &self.columns, None).unwrap()
    }
}

fn sparse(n_rows: usize, n_cols: usize, density: f64, rng: &mut Xoshiro256PlusPlus) -> Mat<f64> {
    let mut a = normal_matrix(n_rows, n_cols, rng);
    for j in 0..n_cols {
        for i in 0..n_rows {
            if rng.random::<f64>() >= density {
                a[(i, j)] = 0.0;
            }
        }
    }
    a
}

/// The matrix with this many rows and columns of zeros after its own: the same singular values, and a size at which the iteration
/// starts from random directions instead of a dense product.
fn padded(dense: &Mat<f64>, padding: usize) -> Mat<f64> {
    let (n_rows, n_cols) = dense.shape();
    Mat::from_fn(n_rows + padding, n_cols + padding, |i, j| {
        if i < n_rows && j < n_cols {
            dense[(i, j)]
        } else {
            0.0
        }
    })
}

/// Without padding, and with enough of it for random starts.
const PADDINGS: [usize; 2] = [0, 520];

fn decompose(matrix: &SparseRows<'_>, rank: usize) -> TruncatedSvd {
    truncated_svd(matrix, rank, &SvdLimits::default(), &mut generator(41))
}

fn dense_singular_values(a: &Mat<f64>) -> Vec<f64> {
    a.singular_values().unwrap()
}

/// Largest relative error of the singular values, against faer's dense decomposition.
fn value_error(svd: &TruncatedSvd, dense: &Mat<f64>) -> f64 {
    let expected = dense_singular_values(dense);
    svd.singular_values
        .iter()
        .zip(&expected)
        .map(|(s, e)| (s - e).abs() / e)
        .fold(0.0, f64::max)
}

fn check_vectors(svd: &TruncatedSvd, dense: &Mat<f64>) {
    let k = svd.singular_values.len();
    assert_eq!(
        (svd.u.shape(), svd.v.shape()),
        ((dense.nrows(), k), (dense.ncols(), k))
    );
    let identity = Mat::<f64>::identity(k, k);
    assert!(rel_diff((svd.u.transpose() * &svd.u).as_ref(), identity.as_ref()) < 1e-10);
    assert!(rel_diff((svd.v.transpose() * &svd.v).as_ref(), identity.as_ref()) < 1e-10);
    let scaled_u = Mat::from_fn(dense.nrows(), k, |i, j| {
        svd.u[(i, j)] * svd.singular_values[j]
    });
    let scaled_v = Mat::from_fn(dense.ncols(), k, |i, j| {
        svd.v[(i, j)] * svd.singular_values[j]
    });
    assert!(rel_diff((dense * &svd.v).as_ref(), scaled_u.as_ref()) < 1e-8);
    assert!(rel_diff((dense.transpose() * &svd.u).as_ref(), scaled_v.as_ref()) < 1e-8);
    for j in 0..k {
        let largest = (0..dense.ncols())
            .map(|i| svd.v[(i, j)])
            .fold(0.0f64, |b, x| if x.abs() > b.abs() { x } else { b });
        assert!(largest > 0.0, "vector {j}: sign");
    }
}

#[test]
fn agrees_with_the_dense_decomposition() {
    let mut rng = generator(42);
    for (n_rows, n_cols, density, rank) in [
        (1, 1, 1.0, 1),
        (7, 3, 0.8, 3),
        (3, 9, 0.8, 2),
        (60, 40, 0.2, 5),
        (40, 90, 0.1, 10),
        (300, 200, 0.05, 20),
        (1000, 120, 0.1, 8),
        (25, 25, 0.5, 25),
    ] {
        let dense = sparse(n_rows, n_cols, density, &mut rng);
        for padding in PADDINGS {
            let padded = padded(&dense, padding);
            let svd = decompose(&Arrays::of(&padded).matrix(), rank);
            assert!(svd.converged, "{n_rows} x {n_cols} + {padding}");
            assert_eq!(
                svd.singular_values.len(),
                rank.min(dense_singular_values(&dense).len())
            );
            assert!(value_error(&svd, &dense) < 1e-8);
            check_vectors(&svd, &padded);
        }
    }
}

#[test]
fn zero_one_patterns() {
    let mut rng = generator(43);
    let dense = sparse(200, 34, 0.3, &mut rng);
    let pattern = Mat::from_fn(200, 34, |i, j| f64::from(dense[(i, j)] != 0.0));
    let arrays = Arrays::of(&dense);
    let svd = decompose(&arrays.pattern(), 6);
    assert!(svd.converged && value_error(&svd, &pattern) < 1e-8);
    check_vectors(&svd, &pattern);
    assert_eq!(
        svd.singular_values,
        decompose(&Arrays::of(&pattern).matrix(), 6).singular_values
    );
}

#[test]
fn repeated_singular_values_are_all_found() {
    // Five disjoint blocks of ones of equal size: singular value 6, five times, and nothing else.
    let dense = Mat::from_fn(45, 20, |i, j| f64::from(i / 9 == j / 4));
    for padding in PADDINGS {
        let padded = padded(&dense, padding);
        let svd = decompose(&Arrays::of(&padded).pattern(), 9);
        assert!(svd.converged);
        assert_eq!(svd.singular_values.len(), 5, "the rank is 5");
        assert!(svd.singular_values.iter().all(|s| (s - 6.0).abs() < 1e-12));
        check_vectors(&svd, &padded);
    }
}

#[test]
fn small_singular_values_keep_their_relative_accuracy() {
    let mut rng = generator(44);
    let (u, v) = (
        normal_matrix(80, 80, &mut rng).qr().compute_Q(),
        normal_matrix(50, 50, &mut rng).qr().compute_Q(),
    );
    let s = |k: usize| 10f64.powi(-(k as i32));
    let dense = Mat::from_fn(80, 50, |i, j| {
        (0..50).map(|k| u[(i, k)] * s(k) * v[(j, k)]).sum::<f64>()
    });
    for padding in PADDINGS {
        let svd = decompose(&Arrays::of(&padded(&dense, padding)).matrix(), 6);
        assert!(svd.converged);
        assert!(
            (0..6).all(|k| (svd.singular_values[k] / s(k) - 1.0).abs() < 1e-8),
            "{:?}",
            svd.singular_values
        );
    }
}

#[test]
fn values_whose_squares_overflow_or_vanish() {
    let base = sparse(30, 20, 0.4, &mut generator(49));
    let expected = decompose(&Arrays::of(&base).matrix(), 3);
    for (scale, padding) in [
        (2f64.powi(-1000), 0),
        (2f64.powi(1000), 0),
        (2f64.powi(-1000), 520),
        (2f64.powi(1000), 520),
    ] {
        let dense = padded(&Mat::from_fn(30, 20, |i, j| scale * base[(i, j)]), padding);
        let svd = decompose(&Arrays::of(&dense).matrix(), 3);
        assert!(svd.converged);
        let rescaled: Vec<f64> = svd.singular_values.iter().map(|s| s / scale).collect();
        assert!(rel_diff_vec(&rescaled, &expected.singular_values) < 1e-12);
    }
}

#[test]
fn empty_and_zero_matrices() {
    for (n_rows, n_cols, rank) in [(0, 0, 3), (0, 4, 2), (4, 0, 2), (5, 4, 2), (5, 4, 0)] {
        let dense = Mat::<f64>::zeros(n_rows, n_cols);
        let svd = decompose(&Arrays::of(&dense).matrix(), rank);
        assert!(svd.converged && svd.singular_values.is_empty());
        assert_eq!((svd.u.shape(), svd.v.shape()), ((n_rows, 0), (n_cols, 0)));
    }
}

#[test]
fn the_same_generator_gives_the_same_bits() {
    let dense = sparse(120, 80, 0.1, &mut generator(45));
    let arrays = Arrays::of(&padded(&dense, 520));
    let (first, second) = (
        decompose(&arrays.matrix(), 4),
        decompose(&arrays.matrix(), 4),
    );
    assert_eq!(first.singular_values, second.singular_values);
    assert_eq!((first.u, first.v), (second.u, second.v));
    // Another start: other bits, same answer and same signs.
    let other = truncated_svd(
        &arrays.matrix(),
        4,
        &SvdLimits::default(),
        &mut generator(46),
    );
    assert!(rel_diff(other.v.as_ref(), second_v(&arrays).as_ref()) < 1e-6);
}

fn second_v(arrays: &Arrays) -> Mat<f64> {
    decompose(&arrays.matrix(), 4).v
}

#[test]
fn running_out_of_steps_is_reported_and_seen_by_the_accuracy_check() {
    let dense = sparse(300, 200, 0.05, &mut generator(47));
    let limits = SvdLimits {
        max_steps: 1,
        ..SvdLimits::default()
    };
    let large = Arrays::of(&padded(&dense, 520));
    let svd = truncated_svd(&large.matrix(), 5, &limits, &mut generator(48));
    assert!(!svd.converged && svd.steps == 1);
    assert!(value_error(&svd, &dense) > 1e-8);
    // A small matrix starts from the answer.
    let small = Arrays::of(&dense);
    let svd = truncated_svd(&small.matrix(), 5, &limits, &mut generator(48));
    assert!(svd.converged && value_error(&svd, &dense) < 1e-12);
}

#[test]
fn arrays_that_do_not_fit_together_are_errors() {
    let new = |offsets: &[usize], columns: &[u32], values: Option<&[f64]>| {
        SparseRows::new(3, offsets, columns, values)
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(
        new(&[], &[], None),
        SparseError::Offsets {
            index: 0,
            value: 0,
            entries: 0
        }
    );
    assert_eq!(
        new(&[1, 1], &[0], None),
        SparseError::Offsets {
            index: 0,
            value: 1,
            entries: 1
        }
    );
    assert_eq!(
        new(&[0, 2, 1], &[0], None),
        SparseError::Offsets {
            index: 2,
            value: 1,
            entries: 1
        }
    );
    assert_eq!(
        new(&[0, 9], &[0], None),
        SparseError::Offsets {
            index: 1,
            value: 9,
            entries: 1
        }
    );
    assert_eq!(
        new(&[0, 1, 2], &[0, 3], None),
        SparseError::Column {
            row: 1,
            entry: 1,
            column: 3,
            n_cols: 3
        }
    );
    assert_eq!(
        new(&[0, 1], &[0], Some(&[])),
        SparseError::Length {
            values: 0,
            entries: 1
        }
    );
    let infinite = new(&[0, 1], &[0], Some(&[f64::INFINITY]));
    assert_eq!(
        infinite,
        SparseError::Value {
            row: 0,
            entry: 0,
            value: f64::INFINITY
        }
    );
}

#[test]
fn a_dense_decomposition_gives_the_matrix_back() {
    let mut rng = generator(11);
    for (n_rows, n_cols) in [(7, 3), (3, 7), (4, 4), (1, 5), (5, 1), (0, 3), (3, 0)] {
        let a = normal_matrix(n_rows, n_cols, &mut rng);
        let svd = thin_svd(a.as_ref()).unwrap();
        let k = n_rows.min(n_cols);
        assert_eq!((svd.u.shape(), svd.v.shape()), ((n_rows, k), (n_cols, k)));
        let scaled = Mat::from_fn(n_rows, k, |i, j| svd.u[(i, j)] * svd.singular_values[j]);
        let back = scaled * svd.v.transpose();
        assert!((back - &a).norm_max() < 1e-12);
        for vectors in [&svd.u, &svd.v] {
            assert!(
                (vectors.transpose() * vectors - Mat::<f64>::identity(k, k)).norm_max() < 1e-12
            );
        }
        assert!(svd.singular_values.windows(2).all(|w| w[0] >= w[1]));
        for j in 0..k {
            let v = svd.v.col_as_slice(j);
            let largest = v
                .iter()
                .fold(0.0f64, |a, x| if x.abs() > a.abs() { *x } else { a });
            assert!(largest > 0.0);
        }
    }
}

#[test]
fn a_dense_matrix_without_full_rank_has_zeros_and_one_with_holes_is_refused() {
    let a = Mat::from_fn(6, 3, |i, j| (i + 1) as f64 * (j + 1) as f64);
    let svd = thin_svd(a.as_ref()).unwrap();
    assert!(svd.singular_values[0] > 1.0 && svd.singular_values[1] < 1e-12);
    for bad in [f64::NAN, f64::INFINITY] {
        let mut a = a.clone();
        a[(2, 1)] = bad;
        let refused = NoSvd {
            n_rows: 6,
            n_cols: 3,
        };
        assert_eq!(thin_svd(a.as_ref()).unwrap_err(), refused);
    }
}
