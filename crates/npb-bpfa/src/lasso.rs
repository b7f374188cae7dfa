//! Laplace scores, as mixtures of normal ones (Z 54, 55; docs/bpfa.md#lasso).

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::{Gamma, InverseGaussian};
use npb_priors::{GammaPrior, ParameterError};
use pulp::{Arch, Simd, WithSimd};
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::BpfaError;
use crate::error::expect;
use crate::loadings::Loadings;
use crate::rows::BpfaRows;
use crate::scan::{self, ScanRow, ScanWork};
use crate::scores::{BLOCK_ROWS, ScoreBlock, Scores};
use crate::usage::row_for_scan;

/// Mixing scales of Laplace scores; empty for other scores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LassoScales {
    /// `1 / eta_ik`, at `i * K + k`.
    pub inverse_scales: Vec<f32>,
    /// gamma: one for each atom, or one for each entry.
    pub rates: Vec<f64>,
}

/// Scales stay within these, so that single precision holds them.
const LEAST: f64 = 1e-30;
const MOST: f64 = 1e30;

impl LassoScales {
    /// All alike.
    pub(crate) fn start(n: usize, k: usize, per_entry: bool) -> Self {
        Self {
            inverse_scales: vec![1.0; n * k],
            rates: vec![1.0; if per_entry { n * k } else { k }],
        }
    }

    /// Draws `1 / eta_ik`, then the rates, given scores and noise precision.
    pub(crate) fn draw(
        &mut self,
        scores: &Scores,
        noise: f64,
        prior: GammaPrior,
        seed: u64,
        key: [u64; 3],
    ) -> Result<(), ParameterError> {
        let k = scores.n_atoms();
        let [chain, sweep, block] = key;
        let per_entry = self.rates.len() != k;
        let rates = &self.rates;
        let blocks = self.inverse_scales.chunks_mut(k * BLOCK_ROWS).enumerate();
        let sums: Vec<Result<Vec<f64>, ParameterError>> = parallel::map(blocks, |(b, scales)| {
            let mut sums = vec![0.0; k];
            for (i, scales) in scales.chunks_exact_mut(k).enumerate() {
                let i = b * BLOCK_ROWS + i;
                let rng = &mut stream(seed, [chain, sweep, block, i as u64]);
                let row = scores.row(i).values;
                for (atom, (scale, &s)) in scales.iter_mut().zip(row).enumerate() {
                    let rate = rates[if per_entry { i * k + atom } else { atom }];
                    let square = noise * f64::from(s).powi(2);
                    // A score of 0 has an infinite mean, which the law allows.
                    let law = InverseGaussian::new((rate / square).sqrt(), rate)?;
                    let drawn = law.sample(rng).clamp(LEAST, MOST);
                    *scale = drawn as f32;
                    sums[atom] += 1.0 / drawn;
                }
            }
            Ok(sums)
        });
        let mut totals = vec![0.0; k];
        for part in sums {
            totals.iter_mut().zip(part?).for_each(|(t, x)| *t += x);
        }
        let rng = &mut stream(seed, [chain, sweep, block, u64::MAX]);
        let mut gamma = |shape: f64, rate: f64| {
            let law = Gamma::new(prior.shape + shape, prior.rate + rate)?;
            Ok::<f64, ParameterError>(law.sample(rng).clamp(LEAST, MOST))
        };
        if per_entry {
            for (rate, &scale) in self.rates.iter_mut().zip(&self.inverse_scales) {
                *rate = gamma(1.0, 0.5 / f64::from(scale))?;
            }
        } else {
            for (rate, total) in self.rates.iter_mut().zip(totals) {
                *rate = gamma(scores.n_rows() as f64, 0.5 * total)?;
            }
        }
        Ok(())
    }

    /// `sum_i s_ik^2 / eta_ik` of each atom.
    pub(crate) fn squares(&self, scores: &Scores) -> Vec<f64> {
        let k = scores.n_atoms();
        let mut squares = vec![0.0; k];
        for i in 0..scores.n_rows() {
            let scales = &self.inverse_scales[i * k..(i + 1) * k];
            let row = scores.row(i).values;
            for (sum, (&s, &scale)) in squares.iter_mut().zip(row.iter().zip(scales)) {
                *sum += f64::from(s).powi(2) * f64::from(scale);
            }
        }
        squares
    }

    pub(crate) fn check(&self, n: usize, k: usize) -> Result<(), BpfaError> {
        let all = n.checked_mul(k);
        expect(
            (self.inverse_scales.is_empty() && self.rates.is_empty())
                || (Some(self.inverse_scales.len()) == all
                    && (self.rates.len() == k || Some(self.rates.len()) == all)
                    && self
                        .inverse_scales
                        .iter()
                        .all(|x| x.is_finite() && *x > 0.0)
                    && self.rates.iter().all(|x| x.is_finite() && *x > 0.0)),
            "scales of Laplace scores",
        )
    }
}

/// Draws the scores of a block of rows one after the other: precision `alpha / eta_ik + q`.
pub(crate) struct LassoBlock<'a> {
    pub(crate) rows: &'a BpfaRows,
    pub(crate) loadings: &'a Loadings,
    pub(crate) column_weights: &'a [f32],
    pub(crate) entry_weights: &'a [f32],
    pub(crate) scores: &'a Scores,
    pub(crate) scales: &'a LassoScales,
    pub(crate) noise: f32,
    pub(crate) block: usize,
    pub(crate) seed: u64,
    pub(crate) key: [u64; 3],
    pub(crate) work: &'a mut ScanWork,
}

impl LassoBlock<'_> {
    pub(crate) fn draw(self, arch: Arch) -> ScoreBlock {
        arch.dispatch(self)
    }
}

impl WithSimd for LassoBlock<'_> {
    type Output = ScoreBlock;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> ScoreBlock {
        let k = self.loadings.k;
        let first = self.block * BLOCK_ROWS;
        let mut values = Vec::new();
        let mut weights = Vec::new();
        let [chain, sweep, block] = self.key;
        for i in first..(first + BLOCK_ROWS).min(self.rows.n_rows()) {
            let row = row_for_scan(
                self.rows,
                self.scores,
                self.column_weights,
                self.entry_weights,
                i,
                &mut weights,
            );
            let rng = &mut stream(self.seed, [chain, sweep, block, i as u64]);
            let scales = &self.scales.inverse_scales[i * k..(i + 1) * k];
            draw_row(simd, self.loadings, row, self.noise, scales, self.work, rng);
            values.extend_from_slice(&self.work.values);
        }
        ScoreBlock {
            values,
            ..ScoreBlock::default()
        }
    }
}

#[inline(always)]
fn draw_row<S: Simd>(
    simd: S,
    d: &Loadings,
    row: ScanRow<'_>,
    noise: f32,
    scales: &[f32],
    work: &mut ScanWork,
    rng: &mut Xoshiro256PlusPlus,
) {
    work.values.clear();
    scan::weigh_residual(simd, d, row, work);
    for span in scan::spans(d, row) {
        scan::correlate(simd, d, row, span.clone(), work);
        for k in span.start..span.end.min(scales.len()) {
            let old = row.scores.values[k];
            let norm = if row.shared {
                d.norms[k]
            } else {
                work.norms[k]
            };
            let precision = noise * scales[k] + norm;
            let z: f32 = rng.sample(StandardNormal);
            let new = (work.linear[k] + norm * old) / precision + z / precision.sqrt();
            work.values.push(new);
            // From the register of this atom on: earlier ones are done.
            let from = k / scan::LARGEST_REGISTER * scan::LARGEST_REGISTER;
            scan::deflate(simd, d, row, k, new - old, from..span.end, work);
        }
    }
}
