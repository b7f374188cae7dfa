//! Products of dense matrices, in parallel over fixed blocks of columns so that bits do not depend on the number of threads.

use npb_infer::parallel;
use npb_linalg::faer::linalg::matmul::matmul;
use npb_linalg::faer::{Accum, ColMut, Mat, MatMut, MatRef, Par};

/// Columns of one block of a product.
const BLOCK: usize = 64;

/// `scale` a b, of any strides. Cost: rows × inner × columns multiply-adds.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>, scale: f64) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    if out.nrows() == 0 {
        return out;
    }
    let blocks = blocks(out.as_mut()).into_iter().enumerate();
    parallel::for_each(blocks, |(n, block)| {
        let right = b.subcols(n * BLOCK, block.ncols());
        matmul(block, Accum::Replace, a, right, scale, Par::Seq);
    });
    out
}

/// The columns of a matrix in blocks of [`BLOCK`].
fn blocks(mut matrix: MatMut<'_, f64>) -> Vec<MatMut<'_, f64>> {
    let mut parts = Vec::with_capacity(matrix.ncols().div_ceil(BLOCK));
    while matrix.ncols() > BLOCK {
        let (left, right) = matrix.split_at_col_mut(BLOCK);
        parts.push(left);
        matrix = right;
    }
    parts.push(matrix);
    parts
}

/// The columns of a matrix that owns its memory, as slices.
pub(crate) fn columns_mut(matrix: &mut Mat<f64>) -> Vec<&mut [f64]> {
    matrix.col_iter_mut().map(slice).collect()
}

fn slice(column: ColMut<'_, f64>) -> &mut [f64] {
    column
        .try_as_col_major_mut()
        .unwrap_or_else(|| unreachable!("columns of an owned matrix are contiguous"))
        .as_slice_mut()
}

/// y += a x.
pub(crate) fn axpy(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// Mean and standard deviation, without overflow; 1 for the latter where nothing varies.
pub(crate) fn centre_and_scale(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|y| y / n).sum::<f64>();
    let largest = values.iter().fold(0.0f64, |m, y| m.max((y - mean).abs()));
    if largest == 0.0 {
        return (mean, 1.0);
    }
    let squares = values.iter().map(|y| ((y - mean) / largest).powi(2) / n);
    (mean, largest * squares.sum::<f64>().sqrt())
}

/// 1 / (1 + e^-x).
pub(crate) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_many_blocks_are_those_of_one() {
        let a = Mat::from_fn(3, 5, |i, j| (i * 7 + j * 3) as f64 - 4.0);
        let b = Mat::from_fn(5, 150, |i, j| ((i + 2 * j) % 11) as f64);
        let whole = &a * &b;
        assert_eq!(product(a.as_ref(), b.as_ref(), 1.0), whole);
        assert_eq!(
            product(a.as_ref(), Mat::zeros(5, 0).as_ref(), 1.0).ncols(),
            0
        );
    }

    #[test]
    fn sigmoids_do_not_overflow() {
        assert_eq!(sigmoid(-800.0), 0.0);
        assert_eq!(sigmoid(800.0), 1.0);
        assert!((sigmoid(1.0) + sigmoid(-1.0) - 1.0).abs() < 1e-15);
    }
}
