//! Features from singular directions.

use npb_linalg::faer::{Mat, MatRef, Side};

use crate::dense::product;

/// Log-odds of features that no direction is left for.
const RARE: f64 = -2.0;

/// Largest and smallest probability at the start, before noise.
const MOST: f64 = 0.95;

/// Log-odds of `count` features (count x I) from the leading singular directions `u` of the items (columns of `values`): feature 2r is on where
/// `u_r` is positive, feature 2r + 1 where it is negative, with probability `|u_ri|` over twice its root mean square.
pub(crate) fn signed_directions(values: MatRef<'_, f64>, count: usize) -> Mat<f64> {
    let n = values.ncols();
    let directions = item_directions(values, count.div_ceil(2));
    let ln_odds = |p: f64| {
        let p = p.clamp(1.0 - MOST, MOST);
        (p / (1.0 - p)).ln()
    };
    let typical = 2.0 / (n.max(1) as f64).sqrt();
    Mat::from_fn(count, n, |k, i| match k / 2 {
        r if r >= directions.ncols() => RARE,
        r => {
            let side = if k % 2 == 0 { 1.0 } else { -1.0 };
            ln_odds((side * directions[(i, r)] / typical).max(0.0))
        }
    })
}

/// Right singular vectors (I x at most `count`) with singular values that are not rounding, leading first, largest entry positive.
fn item_directions(values: MatRef<'_, f64>, count: usize) -> Mat<f64> {
    let (observations, n) = (values.nrows(), values.ncols());
    let tall = n > observations;
    let gram = if tall {
        product(values, values.transpose(), 1.0)
    } else {
        product(values.transpose(), values, 1.0)
    };
    // Eigenvalues come in rising order. A matrix of finite numbers whose eigenvalues do not converge starts without directions.
    let Ok(eigen) = gram.self_adjoint_eigen(Side::Lower) else {
        return Mat::zeros(n, 0);
    };
    let (sizes, vectors) = (eigen.S().column_vector(), eigen.U());
    let size = gram.nrows();
    let largest = if size == 0 { 0.0 } else { sizes[size - 1] };
    let kept = (0..size.min(count)).take_while(|&r| sizes[size - 1 - r] > 1e-10 * largest);
    let chosen = kept.count();
    let leading = Mat::from_fn(size, chosen, |i, r| vectors[(i, size - 1 - r)]);
    let mut directions = if tall {
        product(values.transpose(), leading.as_ref(), 1.0)
    } else {
        leading
    };
    for r in 0..chosen {
        orient(directions.col_as_slice_mut(r));
    }
    directions
}

/// Length 1, largest entry positive: the sign of a singular vector means nothing.
fn orient(direction: &mut [f64]) {
    let norm = npb_linalg::dot(direction, direction).sqrt();
    let largest = direction.iter().copied();
    let largest = largest.fold(
        0.0,
        |best: f64, x| if x.abs() > best.abs() { x } else { best },
    );
    let scale = if largest < 0.0 { -norm } else { norm };
    if scale != 0.0 {
        direction.iter_mut().for_each(|x| *x /= scale);
    }
}
