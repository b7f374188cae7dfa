//! Precisions of noise and slabs. Equations: `docs/bpfa.md#precisions`.

use npb_infer::parallel;
use npb_priors::dist::Gamma;
use npb_priors::{GammaPrior, ParameterError};
use pulp::{Arch, Simd, WithSimd};
use rand::Rng;

use crate::config::SlabPrior;
use crate::loadings::Loadings;
use crate::rows::BpfaRows;
use crate::scan::{self, ResidualWork};
use crate::scores::{BLOCK_ROWS, Scores};

/// Precisions are kept within these, where vague priors and no data would send them to 0 or infinity.
pub(crate) const LEAST_PRECISION: f64 = 1e-10;
pub(crate) const MOST_PRECISION: f64 = 1e12;

/// A draw from Gamma(shape + n/2, rate + square/2), kept within the range of numbers.
pub(crate) fn draw_precision<R: Rng + ?Sized>(
    prior: GammaPrior,
    n: f64,
    square: f64,
    rng: &mut R,
) -> Result<f64, ParameterError> {
    let law = Gamma::new(prior.shape + 0.5 * n, prior.rate + 0.5 * square)?;
    Ok(law.sample(rng).clamp(LEAST_PRECISION, MOST_PRECISION))
}

/// Draws the slab precisions given numbers and squared scores of the atoms: of active scores only (Z 52, corrected).
pub(crate) fn draw_slabs<R: Rng + ?Sized>(
    prior: SlabPrior,
    counts: &[u64],
    squares: &[f64],
    (precisions, tau): (&mut [f64], &mut f64),
    rng: &mut R,
) -> Result<(), ParameterError> {
    match prior {
        SlabPrior::Shared { prior } => {
            let n: u64 = counts.iter().sum();
            let square: f64 = squares.iter().sum();
            // Nothing is active and the prior is vague: a draw would be 0, an infinitely wide slab.
            if n > 0 || prior.shape >= 0.5 {
                precisions[0] = draw_precision(prior, n as f64, square, rng)?;
            }
        }
        SlabPrior::PerAtom { shape, rate } => {
            for (k, g) in precisions.iter_mut().enumerate() {
                let prior = GammaPrior { shape, rate: *tau };
                *g = draw_precision(prior, counts[k] as f64, squares[k], rng)?;
            }
            let n = precisions.len() as f64;
            let total: f64 = precisions.iter().sum();
            let law = Gamma::new(rate.shape + n * shape, rate.rate + total)?;
            *tau = law.sample(rng).clamp(LEAST_PRECISION, MOST_PRECISION);
        }
    }
    Ok(())
}

/// Squares of the residuals of each channel.
pub(crate) fn residual_squares(
    arch: Arch,
    rows: &BpfaRows,
    loadings: &Loadings,
    scores: &Scores,
) -> Vec<f64> {
    let blocks = 0..scores.blocks.len();
    let parts: Vec<Vec<f64>> =
        parallel::map_with(blocks, ResidualWork::default, |residual, block| {
            arch.dispatch(BlockSquares {
                rows,
                loadings,
                scores,
                block,
                residual,
            })
        });
    let mut squares = vec![0.0; rows.n_channels()];
    for part in parts {
        squares.iter_mut().zip(part).for_each(|(s, x)| *s += x);
    }
    squares
}

/// Number of entries of each channel.
pub(crate) fn channel_counts(rows: &BpfaRows) -> Vec<u64> {
    let mut counts = vec![0; rows.n_channels()];
    for (p, &c) in rows.channels().iter().enumerate() {
        counts[c as usize] += rows.column_count(p) as u64;
    }
    counts
}

struct BlockSquares<'a> {
    rows: &'a BpfaRows,
    loadings: &'a Loadings,
    scores: &'a Scores,
    block: usize,
    residual: &'a mut ResidualWork,
}

impl WithSimd for BlockSquares<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f64> {
        let rows = self.rows;
        let mut squares = vec![0.0; rows.n_channels()];
        let first = self.block * BLOCK_ROWS;
        for i in first..(first + BLOCK_ROWS).min(rows.n_rows()) {
            let columns = rows.columns(i);
            let scores = self.scores.row(i);
            scan::residual(
                simd,
                self.loadings,
                columns,
                rows.values(i),
                scores,
                self.residual,
            );
            if rows.n_channels() == 1 {
                let sum: f64 = self
                    .residual
                    .values
                    .iter()
                    .map(|&r| f64::from(r).powi(2))
                    .sum();
                squares[0] += sum;
                continue;
            }
            for (e, &r) in self.residual.values.iter().enumerate() {
                let channel = rows.channels()[scan::place(columns, e)] as usize;
                squares[channel] += f64::from(r).powi(2);
            }
        }
        squares
    }
}
