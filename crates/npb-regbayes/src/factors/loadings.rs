//! `q(W)`: R (25), (31), corrected (`docs/regbayes.md#loadings`).

use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};

use super::Items;
use crate::config::{FeatureConfig, LoadingCovariance};
use crate::dense::{axpy, columns_mut, product};
use crate::state::{FeatureState, Spread};

/// Observations whose residuals are held at a time.
const BLOCK: usize = 64;

/// `U = E[Z'Z]`: `sum_i psi_ij psi_ik`, on the diagonal `sum_i psi_ik`.
pub(crate) fn second_moment(psi: &Mat<f64>, expected_use: &[f64]) -> Mat<f64> {
    let mut u = product(psi.as_ref(), psi.transpose(), 1.0);
    expected_use
        .iter()
        .enumerate()
        .for_each(|(k, &n)| u[(k, k)] = n);
    u
}

/// All loadings at their best. Cost: I J K, and I K^2 + K^3 (full) or another I J K.
pub(crate) fn update(
    items: &Items,
    config: &FeatureConfig,
    state: &mut FeatureState,
) -> Result<(), NotPositiveDefinite> {
    let precision = config.input_weight / state.noise_variance;
    if config.covariance == LoadingCovariance::Full && items.seen.is_none() {
        return update_full(items, state, precision);
    }
    update_by_entry(
        items,
        state,
        precision,
        config.covariance == LoadingCovariance::Isotropic,
    );
    Ok(())
}

/// `S = (I / sigma_0^2 + E[Z'Z] / lambda^2)^-1`, `m_j = S psi' x_j / lambda^2`: one K x K factor for all observations.
fn update_full(
    items: &Items,
    state: &mut FeatureState,
    precision: f64,
) -> Result<(), NotPositiveDefinite> {
    let k = state.n_features();
    let mut p = second_moment(&state.indicators, &state.expected_use());
    for j in 0..k {
        for i in 0..k {
            p[(i, j)] *= precision;
        }
        p[(j, j)] += 1.0 / state.loading_variance;
    }
    let s = Cholesky::new(p.as_ref())?.inverse();
    let projected = product(
        state.indicators.as_ref(),
        items.values.transpose(),
        precision,
    );
    state.loadings = product(s.as_ref(), projected.as_ref(), 1.0);
    state.spread = Spread::Shared(s);
    Ok(())
}

/// Means one after the other, `sigma_jk^2 = (1/sigma_0^2 + sum_i o_ij psi_ik / lambda^2)^-1`, blocks of observations in parallel.
fn update_by_entry(items: &Items, state: &mut FeatureState, precision: f64, isotropic: bool) {
    let (k, j) = (state.n_features(), state.n_observations());
    let mut variances = Mat::zeros(k, j);
    let psi = &state.indicators;
    let prior = 1.0 / state.loading_variance;
    let mut means = columns_mut(&mut state.loadings);
    let mut spreads = columns_mut(&mut variances);
    let blocks = means.chunks_mut(BLOCK).zip(spreads.chunks_mut(BLOCK));
    parallel::for_each(blocks.enumerate(), |(n, (means, spreads))| {
        let mut block = Block::new(items, psi, n * BLOCK, means);
        for feature in 0..k {
            block.update(feature, prior, precision, means, spreads);
        }
        if isotropic {
            spreads.iter_mut().for_each(|own| level(own));
        }
    });
    state.spread = Spread::Own(variances);
}

/// The harmonic mean in every place: `(1/sigma_0^2 + mean_k U_kk / lambda^2)^-1`, R (25).
fn level(variances: &mut [f64]) {
    let mean = variances.iter().map(|v| 1.0 / v).sum::<f64>() / variances.len() as f64;
    variances.fill(1.0 / mean);
}

/// Residuals of some observations, item by item.
struct Block<'a> {
    psi: &'a Mat<f64>,
    /// I x width, row-major, 0 where nothing was observed.
    residuals: Vec<f64>,
    /// 1 where observed; `None`: everywhere.
    seen: Option<Vec<f64>>,
    width: usize,
    slope: Vec<f64>,
    squares: Vec<f64>,
    counts: Vec<f64>,
    moved: Vec<f64>,
}

impl<'a> Block<'a> {
    fn new(items: &Items, psi: &'a Mat<f64>, first: usize, means: &[&mut [f64]]) -> Self {
        let width = means.len();
        let part = |m: &Mat<f64>| -> Vec<f64> {
            let column = |i: usize| m.col_as_slice(i)[first..first + width].iter().copied();
            (0..m.ncols()).flat_map(column).collect()
        };
        let mut residuals = part(&items.values);
        let seen = items.seen.as_ref().map(part);
        for (i, own) in residuals.chunks_exact_mut(width).enumerate() {
            let psi = psi.col_as_slice(i);
            for (r, mean) in own.iter_mut().zip(means) {
                *r -= npb_linalg::dot(psi, mean);
            }
        }
        if let Some(seen) = &seen {
            residuals.iter_mut().zip(seen).for_each(|(r, o)| *r *= o);
        }
        Self {
            psi,
            residuals,
            seen,
            width,
            slope: vec![0.0; width],
            squares: vec![0.0; width],
            counts: vec![0.0; width],
            moved: vec![0.0; width],
        }
    }

    /// `m_jk = sigma_jk^2 / lambda^2 sum_i o_ij psi_ik (x_ij - sum_{l != k} psi_il m_jl)`.
    fn update(
        &mut self,
        k: usize,
        prior: f64,
        precision: f64,
        means: &mut [&mut [f64]],
        spreads: &mut [&mut [f64]],
    ) {
        self.sum_up(k);
        for (c, (mean, spread)) in means.iter_mut().zip(spreads).enumerate() {
            let variance = 1.0 / (prior + precision * self.counts[c]);
            let new = variance * precision * (self.slope[c] + mean[k] * self.squares[c]);
            self.moved[c] = new - mean[k];
            (mean[k], spread[k]) = (new, variance);
        }
        self.follow(k);
    }

    /// For feature k: `sum_i psi r`, `sum_i o psi^2`, `sum_i o psi`.
    fn sum_up(&mut self, k: usize) {
        self.slope.fill(0.0);
        self.squares.fill(0.0);
        self.counts.fill(0.0);
        for (i, r) in self.residuals.chunks_exact(self.width).enumerate() {
            let p = self.psi[(k, i)];
            axpy(&mut self.slope, p, r);
            if let Some(seen) = &self.seen {
                let seen = &seen[i * self.width..][..self.width];
                axpy(&mut self.squares, p * p, seen);
                axpy(&mut self.counts, p, seen);
            } else {
                self.squares.iter_mut().for_each(|s| *s += p * p);
                self.counts.iter_mut().for_each(|s| *s += p);
            }
        }
    }

    /// Residuals after the means have moved.
    fn follow(&mut self, k: usize) {
        for (i, r) in self.residuals.chunks_exact_mut(self.width).enumerate() {
            let p = -self.psi[(k, i)];
            match &self.seen {
                None => axpy(r, p, &self.moved),
                Some(seen) => {
                    let seen = &seen[i * self.width..][..self.width];
                    for ((r, moved), o) in r.iter_mut().zip(&self.moved).zip(seen) {
                        *r += p * moved * o;
                    }
                }
            }
        }
    }
}

/// Loadings of observations that were not there at the fit, from what is observed of them: exact, `I K^2 + K^3` where there are holes.
///
/// `indicators`: K x I; `values`, `seen`: one observation, I entries. Source: R (25), corrected, with `E[Z'Z]` of the observed items.
pub(crate) fn infer_mean(
    state: &FeatureState,
    precision: f64,
    values: &[f64],
    seen: &[bool],
) -> Result<Vec<f64>, NotPositiveDefinite> {
    let psi = &state.indicators;
    let k = psi.nrows();
    let mut p = Mat::zeros(k, k);
    let mut mean = vec![0.0; k];
    for i in (0..values.len()).filter(|&i| seen[i]) {
        let psi = psi.col_as_slice(i);
        axpy(&mut mean, precision * values[i], psi);
        for (l, &q) in psi.iter().enumerate() {
            let column = p.col_as_slice_mut(l);
            axpy(column, precision * q, psi);
            column[l] += precision * q * (1.0 - q);
        }
    }
    for l in 0..k {
        p[(l, l)] += 1.0 / state.loading_variance;
    }
    Cholesky::new(p.as_ref())?.solve(&mut mean);
    Ok(mean)
}
