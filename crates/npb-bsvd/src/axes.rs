//! Components turned to their principal axes: a change of coordinates for the burn-in.

use npb_linalg::faer::{Mat, MatRef};

use crate::state::{BsvdState, SideState};

/// Singular values below this share of the largest are rounding.
const ROUNDING: f64 = 1e-9;

/// Writes the same latent values with components that are the singular vectors of their sum, averages over a side handed to the intercepts of the other
/// where there are some.
///
/// A component that the data do not ask for, mixed with others, looks like them and cannot be switched off; turned to its axis it is as small as the noise
/// has it. Not a move of the chain: only the burn-in may use it. Cost: rank squared for each row and column.
pub(crate) fn rotate_to_svd(state: &mut BsvdState) {
    let rank = state.rank();
    if rank < 2 {
        return;
    }
    hand_over(&state.scales, &mut state.columns, &mut state.rows);
    hand_over(&state.scales, &mut state.rows, &mut state.columns);
    let (u, v) = (wide(&state.rows, rank), wide(&state.columns, rank));
    let scaled = Mat::from_fn(u.nrows(), rank, |i, k| u[(i, k)] * state.scales[k]);
    let (left, right) = (scaled.qr(), v.qr());
    let core = left.thin_R() * right.thin_R().transpose();
    let Ok(svd) = core.thin_svd() else { return };
    let sigma: Vec<f64> = svd.S().column_vector().iter().copied().collect();
    let least = sigma.first().map_or(0.0, |s| ROUNDING * s);
    let kept = sigma.iter().filter(|&&s| s > least).count();
    if kept == 0 {
        return;
    }
    let sizes = [u.nrows(), v.nrows()].map(|n| n as f64);
    let norm = (sizes[0] * sizes[1]).sqrt();
    state.scales.clear();
    state.scales.extend(sigma[..kept].iter().map(|s| s / norm));
    for (side, basis, turn, n) in [
        (&mut state.rows, left.compute_thin_Q(), svd.U(), sizes[0]),
        (
            &mut state.columns,
            right.compute_thin_Q(),
            svd.V(),
            sizes[1],
        ),
    ] {
        take(side, &(basis * turn.subcols(0, kept)), n.sqrt());
    }
}

fn wide(side: &SideState, rank: usize) -> Mat<f64> {
    let n = side.factors.len() / rank;
    Mat::from_fn(n, rank, |i, k| f64::from(side.factors[i * rank + k]))
}

/// The averages of the factors of a side go into the intercepts of the other side, if it has any.
fn hand_over(scales: &[f64], giving: &mut SideState, taking: &mut SideState) {
    if taking.intercepts.is_empty() {
        return;
    }
    let rank = scales.len();
    let n = (giving.factors.len() / rank) as f64;
    let mut means = vec![0.0; rank];
    for line in giving.factors.chunks_exact(rank) {
        let sums = means.iter_mut().zip(line);
        sums.for_each(|(mean, &x)| *mean += f64::from(x) / n);
    }
    for line in giving.factors.chunks_exact_mut(rank) {
        let numbers = line.iter_mut().zip(&means);
        numbers.for_each(|(x, mean)| *x = (f64::from(*x) - mean) as f32);
    }
    for (line, intercept) in taking
        .factors
        .chunks_exact(rank)
        .zip(&mut taking.intercepts)
    {
        let parts = line.iter().zip(scales).zip(&means);
        let sum: f64 = parts.map(|((&x, s), m)| f64::from(x) * s * m).sum();
        *intercept = (f64::from(*intercept) + sum) as f32;
    }
}

/// Orthonormal columns become the factors, their mean square 1.
fn take(side: &mut SideState, vectors: &Mat<f64>, length: f64) {
    let vectors: MatRef<'_, f64> = vectors.as_ref();
    // Means and links are drawn again before they are used.
    let links = side.links.len() / side.factor_mean.len().max(1);
    side.links.clear();
    side.links.resize(vectors.ncols() * links, 0.0);
    side.factors.clear();
    for i in 0..vectors.nrows() {
        let line = (0..vectors.ncols()).map(|k| (length * vectors[(i, k)]) as f32);
        side.factors.extend(line);
    }
    side.factor_mean.clear();
    side.factor_mean.resize(vectors.ncols(), 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::SideInformation;
    use crate::gibbs::BsvdSampler;
    use crate::{BsvdConfig, BsvdData};
    use npb_data::{Rating, Ratings};

    /// Latent values stay; factors are orthogonal, of mean square 1, and centred where the other side has intercepts.
    #[test]
    fn latent_values_stay() {
        for (rows, columns) in [(true, true), (false, true), (false, false)] {
            let config = BsvdConfig {
                candidates: 4,
                row_intercepts: rows,
                column_intercepts: columns,
                ..BsvdConfig::default()
            };
            let entries: Vec<Rating> = (0..60)
                .map(|n| Rating {
                    row: n % 9,
                    column: n % 7,
                    value: f64::from(n).sin(),
                })
                .collect();
            let entries = &entries[..9 * 7 - 3];
            let data = BsvdData::new(
                &Ratings::new(9, 7, entries).unwrap(),
                SideInformation::default(),
                &config,
            )
            .unwrap();
            let mut sampler = BsvdSampler::new(&data, config).unwrap();
            for _ in 0..3 {
                sampler.sweep().unwrap();
            }
            let before = sampler.state().clone();
            let mut after = before.clone();
            rotate_to_svd(&mut after);
            let side = SideInformation::default();
            for (i, j) in (0..9).flat_map(|i| (0..7).map(move |j| (i, j))) {
                let (a, b) = (before.latent(i, j, &side), after.latent(i, j, &side));
                assert!((a - b).abs() < 1e-5, "{i} {j}: {a} {b}");
            }
            let factors = wide(&after.rows, after.rank());
            let gram = factors.transpose() * &factors;
            for (a, b) in (0..after.rank()).flat_map(|a| (0..=a).map(move |b| (a, b))) {
                let expected = if a == b { 9.0 } else { 0.0 };
                assert!((gram[(a, b)] - expected).abs() < 1e-4);
            }
            let mean: f64 = (0..9).map(|i| factors[(i, 0)]).sum();
            assert_eq!(mean.abs() < 1e-4, columns);
            assert!(after.scales.is_sorted_by(|a, b| a >= b));
        }
    }
}
