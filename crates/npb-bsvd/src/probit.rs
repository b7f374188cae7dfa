//! Probit likelihoods: latent entries, thresholds.

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::{TruncatedNormal, sample_probit, sample_probit_sum};
use npb_priors::special::{ln_phi, log1mexp, normal_cdf};
use rand::RngExt;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::data::BsvdData;

/// Entries that are summed, or drawn, in one go.
const BLOCK: usize = 1 << 13;

/// Latent entries (means over the trials of an entry), by rows and by columns.
#[derive(Default)]
pub(crate) struct Latents {
    pub(crate) rows: Vec<f32>,
    pub(crate) columns: Vec<f32>,
}

impl Latents {
    /// Draws all latent entries given their noise-free values `linear`, by rows. `key`: seed; chain, sweep and number of the move.
    pub(crate) fn draw(
        &mut self,
        data: &BsvdData,
        thresholds: &[f64],
        linear: &[f32],
        (seed, [chain, sweep, code]): (u64, [u64; 3]),
    ) {
        self.rows.resize(linear.len(), 0.0);
        self.rows
            .par_chunks_mut(BLOCK)
            .zip(linear.par_chunks(BLOCK))
            .enumerate()
            .for_each(|(block, (out, linear))| {
                let mut rng = stream(seed, [chain, sweep, code, block as u64]);
                for (n, (out, &x)) in out.iter_mut().zip(linear).enumerate() {
                    let at = block * BLOCK + n;
                    let (outcome, trials) = (data.outcomes[at], data.trials.get(at).copied());
                    *out = draw_latent(outcome, trials, thresholds, f64::from(x), &mut rng) as f32;
                }
            });
        let rows = &self.rows;
        data.places
            .par_iter()
            .with_min_len(BLOCK)
            .map(|&at| rows[at as usize])
            .collect_into_vec(&mut self.columns);
    }
}

/// Latent entry: a normal about `x` with variance 1 that gives the outcome (level from 0), or the mean of as many as there are trials.
pub(crate) fn draw_latent(
    outcome: u32,
    trials: Option<u32>,
    thresholds: &[f64],
    x: f64,
    rng: &mut Xoshiro256PlusPlus,
) -> f64 {
    if let Some(trials) = trials {
        let misses = u64::from(trials - outcome);
        return sample_probit_sum(x, u64::from(outcome), misses, rng) / f64::from(trials);
    }
    let level = outcome as usize;
    match (thresholds.len(), level) {
        // Binary, and the two open ends of ordinal levels.
        (0, _) => x_side(x, 0.0, level == 1, rng),
        (_, 0) => x_side(x, thresholds[0], false, rng),
        (n, l) if l == n => x_side(x, thresholds[n - 1], true, rng),
        (_, l) => TruncatedNormal::new(x, 1.0, thresholds[l - 1], thresholds[l])
            .map_or(0.5 * (thresholds[l - 1] + thresholds[l]), |law| {
                law.sample(rng)
            }),
    }
}

/// A normal about `x` beyond a threshold. `sample_probit` gives the excess.
fn x_side(x: f64, threshold: f64, above: bool, rng: &mut Xoshiro256PlusPlus) -> f64 {
    threshold + sample_probit(x - threshold, above, rng)
}

/// ln P(lower < x + e <= upper), e standard normal, to full relative precision.
pub(crate) fn ln_between(lower: f64, upper: f64) -> f64 {
    if lower == f64::NEG_INFINITY {
        return ln_phi(upper);
    }
    if upper == f64::INFINITY {
        return ln_phi(-lower);
    }
    // Both ends on the same side of the mode as far as possible: the smaller probabilities.
    let (a, b) = if lower + upper > 0.0 {
        (-upper, -lower)
    } else {
        (lower, upper)
    };
    let mass = normal_cdf(b) - normal_cdf(a);
    if mass > 1e-3 {
        return mass.ln();
    }
    let top = ln_phi(b);
    top + log1mexp((ln_phi(a) - top).min(-f64::MIN_POSITIVE))
}

/// Ends of a level (from 0).
pub(crate) fn ends(thresholds: &[f64], level: usize) -> (f64, f64) {
    let lower = level
        .checked_sub(1)
        .map_or(f64::NEG_INFINITY, |l| thresholds[l]);
    let upper = thresholds.get(level).copied().unwrap_or(f64::INFINITY);
    (lower, upper)
}

/// ln likelihood of ordinal outcomes, latent entries integrated out.
pub(crate) fn ln_likelihood(data: &BsvdData, linear: &[f32], thresholds: &[f64]) -> f64 {
    let blocks: Vec<f64> = linear
        .par_chunks(BLOCK)
        .zip(data.outcomes.par_chunks(BLOCK))
        .map(|(linear, outcomes)| {
            let cells = linear.iter().zip(outcomes);
            cells
                .map(|(&x, &level)| {
                    let (lower, upper) = ends(thresholds, level as usize);
                    ln_between(lower - f64::from(x), upper - f64::from(x))
                })
                .sum()
        })
        .collect();
    blocks.iter().sum()
}

/// Proposes a normal step for all free thresholds together, and takes it or not; gives the probability of taking it. Steps out of order have none.
///
/// Cowles (1996) cuts each proposal off at its neighbours and corrects for that; where there are enough entries to tell the thresholds apart her
/// proposals are these.
pub(crate) fn move_thresholds(
    thresholds: &mut [f64],
    step: f64,
    prior_precision: f64,
    ln_likelihood: impl Fn(&[f64]) -> f64,
    rng: &mut Xoshiro256PlusPlus,
) -> f64 {
    let mut new = thresholds.to_vec();
    for threshold in &mut new[1..] {
        let z: f64 = rng.sample(StandardNormal);
        *threshold += step * z;
    }
    let u: f64 = 1.0 - rng.random::<f64>();
    if !new.windows(2).all(|w| w[0] < w[1]) {
        return 0.0;
    }
    let squares = |list: &[f64]| list.iter().map(|t| t * t).sum::<f64>();
    let ln_ratio = 0.5 * prior_precision * (squares(thresholds) - squares(&new))
        + ln_likelihood(&new)
        - ln_likelihood(thresholds);
    if u.ln() < ln_ratio {
        thresholds.copy_from_slice(&new);
    }
    ln_ratio.min(0.0).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_levels_are_exact_far_out_and_close_in() {
        // From the complementary error function in double precision, where it has digits to spare.
        for (lower, upper, expected) in [
            (3.2, 3.9, -7.355541013532615),
            (8.0, 9.0, -35.013618593437144),
            (3.5, 3.6, -9.517946430347125),
            (0.0, 1e-5, -12.4318639981749),
        ] {
            for found in [ln_between(lower, upper), ln_between(-upper, -lower)] {
                assert!((found - expected).abs() < 1e-9, "{lower} {upper}: {found}");
            }
        }
        // Ever smaller levels far out lose mass and nothing else.
        assert!(ln_between(40.0, 41.0) < ln_between(39.0, 41.0));
        assert!(ln_between(-300.0, -299.0).is_finite());
        let cuts = [0.0, 0.9, 1.7];
        for x in [-6.0, -0.3, 1.1, 7.5] {
            let total: f64 = (0..4)
                .map(|level| {
                    let (lower, upper) = ends(&cuts, level);
                    ln_between(lower - x, upper - x).exp()
                })
                .sum();
            assert!((total - 1.0).abs() < 1e-12, "{total}");
        }
    }
}
