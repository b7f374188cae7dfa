//! The covariance of all rows, holes or not, and rows completed by it.

use faer::Mat;

use super::rows::SortedRows;
use crate::condition::{Gaussian, Scratch};
use crate::{Cholesky, NotPositiveDefinite};

/// Rounds of fitting the covariance of all rows, at most; and how little a correlation moves in the last.
const FITTING_ROUNDS: usize = 50;
const FITTING_TOLERANCE: f64 = 1e-3;
/// About so many rows are enough for it.
const FITTING_ROWS: usize = 2048;

/// Covariance of incomplete rows that are centred at the available-case means: pairwise correlations of the rows in which both features are
/// seen, shrunk towards zero by their own uncertainty (the ratio of the summed sampling variances to the summed squares), and further
/// until the matrix is positive definite. From there, if there are holes, a Gaussian is fitted to what is seen of the rows; its prior, uncorrelated features,
/// is worth as many rows as the first shrinkage says. Pairs of features that are nearly one line stay so, although no pairwise matrix would let them.
pub fn shrunk_covariance(rows: &SortedRows) -> Mat<f64> {
    let p = rows.n_features;
    let (products, counts) = pairwise_sums(rows);
    let variance: Vec<f64> = (0..p).map(|j| products[(j, j)] / counts[(j, j)]).collect();
    let mut correlation = Mat::<f64>::identity(p, p);
    let (mut noise, mut signal) = (0.0, 0.0);
    for j in 0..p {
        for i in j + 1..p {
            let n = counts[(i, j)];
            if n < 3.0 {
                continue;
            }
            let r = (products[(i, j)] / n / (variance[i] * variance[j]).sqrt()).clamp(-1.0, 1.0);
            noise += (1.0 - r * r).powi(2) / (n - 1.0);
            signal += r * r;
            correlation[(i, j)] = r;
        }
    }
    let shrinkage = if signal > 0.0 {
        (noise / signal).clamp(1e-4, 1.0)
    } else {
        1.0
    };
    let start = positive_definite(&correlation, &variance, shrinkage);
    if shrinkage == 1.0 || rows.blocks.iter().all(|block| block.complete) {
        return start;
    }
    fitted_covariance(rows, &variance, shrinkage, start)
}

/// Centred rows, in sorted order, with their missing features at the conditional means under one Gaussian with this covariance.
pub fn complete(
    rows: &SortedRows,
    covariance: &Mat<f64>,
) -> Result<Vec<Vec<f64>>, NotPositiveDefinite> {
    let shared = Gaussian::from_covariance(&vec![0.0; rows.n_features], covariance.as_ref())?;
    let mut scratch = Scratch::default();
    let mut points = Vec::with_capacity(rows.order.len());
    for group in &rows.groups {
        let pattern = &rows.patterns[group.pattern];
        let mut given = shared.condition(&pattern.observed, &pattern.missing, &mut scratch)?;
        for position in group.rows.clone() {
            let mut point = rows.row(position).to_vec();
            given.complete(&mut point);
            points.push(point);
        }
    }
    Ok(points)
}

/// The covariance of these correlations, shrunk by `shrinkage` or, by doubling that, until positive definite.
fn positive_definite(correlation: &Mat<f64>, variance: &[f64], mut shrinkage: f64) -> Mat<f64> {
    let p = variance.len();
    loop {
        let covariance = Mat::from_fn(p, p, |i, j| {
            let r = if i == j {
                1.0
            } else {
                (1.0 - shrinkage) * correlation[(i.max(j), i.min(j))]
            };
            r * (variance[i] * variance[j]).sqrt()
        });
        // At shrinkage 1 the matrix is diagonal with positive entries.
        if shrinkage >= 1.0
            || Cholesky::new(covariance.as_ref()).is_ok_and(|f| well_conditioned(&f, variance))
        {
            return covariance;
        }
        shrinkage = (2.0 * shrinkage).min(1.0);
    }
}

/// Posterior mode of a Gaussian by expectation maximisation, the share `shrinkage` of it from a prior of uncorrelated features.
fn fitted_covariance(
    rows: &SortedRows,
    variance: &[f64],
    shrinkage: f64,
    mut covariance: Mat<f64>,
) -> Mat<f64> {
    let p = rows.n_features;
    let mut mean = vec![0.0; p];
    for _ in 0..FITTING_ROUNDS {
        let Some((new_mean, scatter)) = expected_scatter(rows, &mean, &covariance) else {
            return covariance;
        };
        let new = Mat::from_fn(p, p, |i, j| {
            let own = (1.0 - shrinkage) * scatter[(i, j)];
            if i == j {
                own + shrinkage * variance[i]
            } else {
                own
            }
        });
        let well = |f: Cholesky| well_conditioned(&f, variance);
        if !Cholesky::new(new.as_ref()).is_ok_and(well) {
            return covariance;
        }
        let moved = |i: usize, j: usize| {
            (new[(i, j)] - covariance[(i, j)]).abs() / (variance[i] * variance[j]).sqrt()
        };
        let all = (0..p).flat_map(|j| (j..p).map(move |i| (i, j)));
        let change = all.map(|(i, j)| moved(i, j)).fold(0.0, f64::max);
        (mean, covariance) = (new_mean, new);
        if change < FITTING_TOLERANCE {
            break;
        }
    }
    covariance
}

/// Mean of the completed rows and their scatter around it, the uncertainty of what was completed included. None if the covariance has become singular to
/// working precision.
fn expected_scatter(
    rows: &SortedRows,
    mean: &[f64],
    covariance: &Mat<f64>,
) -> Option<(Vec<f64>, Mat<f64>)> {
    let p = rows.n_features;
    let gaussian = Gaussian::from_covariance(mean, covariance.as_ref()).ok()?;
    let (mut first, mut second, mut count) = (vec![0.0; p], Mat::<f64>::zeros(p, p), 0.0);
    let mut scratch = Scratch::default();
    let mut row = vec![0.0; p];
    let every = rows.order.len().div_ceil(FITTING_ROWS);
    for group in rows.groups.iter().step_by(every) {
        let pattern = &rows.patterns[group.pattern];
        let mut given = gaussian
            .condition(&pattern.observed, &pattern.missing, &mut scratch)
            .ok()?;
        let n = group.rows.len() as f64;
        count += n;
        let uncertain = given.covariance();
        for (l, &j) in pattern.missing.iter().enumerate() {
            for (k, &i) in pattern.missing.iter().enumerate() {
                second[(i, j)] += n * uncertain[(k, l)];
            }
        }
        for position in group.rows.clone() {
            row.copy_from_slice(rows.row(position));
            given.complete(&mut row);
            for (j, &xj) in row.iter().enumerate() {
                first[j] += xj;
                let column = second.col_as_slice_mut(j);
                for (to, &xi) in column.iter_mut().zip(&row) {
                    *to += xi * xj;
                }
            }
        }
    }
    let mean: Vec<f64> = first.iter().map(|x| x / count).collect();
    let scatter = Mat::from_fn(p, p, |i, j| second[(i, j)] / count - mean[i] * mean[j]);
    Some((mean, scatter))
}

/// Every feature keeps at least a millionth of its variance given those before it.
fn well_conditioned(factor: &Cholesky, variance: &[f64]) -> bool {
    (0..variance.len()).all(|j| factor.l()[(j, j)].powi(2) > 1e-6 * variance[j])
}

fn pairwise_sums(rows: &SortedRows) -> (Mat<f64>, Mat<f64>) {
    let p = rows.n_features;
    let mut products = Mat::<f64>::zeros(p, p);
    let mut counts = Mat::<f64>::zeros(p, p);
    for group in &rows.groups {
        let observed = &rows.patterns[group.pattern].observed;
        for row in group.rows.clone() {
            let x = rows.row(row);
            for (k, &j) in observed.iter().enumerate() {
                for &i in &observed[k..] {
                    products[(i, j)] += x[i] * x[j];
                    counts[(i, j)] += 1.0;
                }
            }
        }
    }
    (products, counts)
}

#[cfg(test)]
mod tests {
    use faer::mat;

    use super::*;
    use crate::mixture::Pattern;

    /// Two complete rows and two of one missing pattern: mean and scatter are those of a plain loop, in which every completed cell has its own variance.
    #[test]
    fn scatter_counts_what_is_not_known_of_every_row() {
        let values = [[1.0, 0.5], [-0.5, 1.0], [2.0, 0.0], [-1.5, 0.0]];
        let pattern = |observed: &[usize], missing: &[usize]| Pattern {
            observed: observed.to_vec(),
            missing: missing.to_vec(),
        };
        let patterns = vec![
            (pattern(&[0, 1], &[]), vec![0, 1]),
            (pattern(&[0], &[1]), vec![2, 3]),
        ];
        let rows = SortedRows::new(2, patterns, |row| &values[row], |_| true);
        let covariance = mat![[2.0, 0.6], [0.6, 1.0]];
        let (mean, scatter) = expected_scatter(&rows, &[0.2, -0.1], &covariance).unwrap();
        let completed = values.map(|[x, y]| if y == 0.0 { -0.1 + 0.3 * (x - 0.2) } else { y });
        let uncertain = 2.0 * (1.0 - 0.6 * 0.6 / 2.0);
        let m = completed.iter().sum::<f64>() / 4.0;
        let squares = completed.iter().map(|y| y * y).sum::<f64>() + uncertain;
        assert!((mean[1] - m).abs() < 1e-12);
        let expected = squares / 4.0 - m * m;
        assert!(
            (scatter[(1, 1)] - expected).abs() < 1e-12,
            "{} {expected}",
            scatter[(1, 1)]
        );
    }
}
