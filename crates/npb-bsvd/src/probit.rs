//! Probit likelihoods: latent entries, thresholds (`docs/bsvd.md#probit`).

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::{TruncatedNormal, sample_probit, sample_probit_sum};
use npb_priors::special::{ln_normal_pdf, ln_phi, log1mexp, normal_cdf};
use rand::RngExt;
use rand_distr::StandardNormal;

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
    /// Draws all latent entries given their noise-free values `linear`, by rows, and the standard deviations of their noise (none: 1). `key`: seed; chain, sweep and number of the move.
    pub(crate) fn draw(
        &mut self,
        data: &BsvdData,
        thresholds: &[f64],
        (linear, noise_sds): (&[f32], &[f32]),
        (seed, [chain, sweep, code]): (u64, [u64; 3]),
    ) {
        self.rows.resize(linear.len(), 0.0);
        let blocks = self.rows.chunks_mut(BLOCK).zip(linear.chunks(BLOCK));
        parallel::for_each(blocks.enumerate(), |(block, (out, linear))| {
            let mut rng = stream(seed, [chain, sweep, code, block as u64]);
            for (n, (out, &x)) in out.iter_mut().zip(linear).enumerate() {
                let at = block * BLOCK + n;
                let (outcome, trials) = (data.outcomes[at], data.trials.get(at).copied());
                let (x, sd) = (f64::from(x), noise_sd(noise_sds, at));
                *out = draw_latent(outcome, trials, thresholds, (x, sd), &mut rng) as f32;
            }
        });
        let rows = &self.rows;
        self.columns.resize(data.places.len(), 0.0);
        let blocks = self
            .columns
            .chunks_mut(BLOCK)
            .zip(data.places.chunks(BLOCK));
        parallel::for_each(blocks, |(out, places)| {
            for (out, &at) in out.iter_mut().zip(places) {
                *out = rows[at as usize];
            }
        });
    }
}

/// Standard deviation of the noise of an entry.
fn noise_sd(noise_sds: &[f32], at: usize) -> f64 {
    noise_sds.get(at).map_or(1.0, |&sd| f64::from(sd))
}

/// Latent entry: a normal about `x` with standard deviation `sd` (1 where there are trials) that gives the outcome (level from 0), or the mean of as many as there are trials.
pub(crate) fn draw_latent(
    outcome: u32,
    trials: Option<u32>,
    thresholds: &[f64],
    (x, sd): (f64, f64),
    rng: &mut Xoshiro256PlusPlus,
) -> f64 {
    if let Some(trials) = trials {
        let misses = u64::from(trials - outcome);
        return sample_probit_sum(x, u64::from(outcome), misses, rng) / f64::from(trials);
    }
    let level = outcome as usize;
    match (thresholds.len(), level) {
        // Binary, and the two open ends of ordinal levels.
        (0, _) => x_side((x, sd), 0.0, level == 1, rng),
        (_, 0) => x_side((x, sd), thresholds[0], false, rng),
        (n, l) if l == n => x_side((x, sd), thresholds[n - 1], true, rng),
        (_, l) => TruncatedNormal::new(x, sd, thresholds[l - 1], thresholds[l])
            .map_or(0.5 * (thresholds[l - 1] + thresholds[l]), |law| {
                law.sample(rng)
            }),
    }
}

/// A normal about `x` beyond a threshold. `sample_probit` gives the excess.
fn x_side((x, sd): (f64, f64), threshold: f64, above: bool, rng: &mut Xoshiro256PlusPlus) -> f64 {
    threshold + sd * sample_probit((x - threshold) / sd, above, rng)
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
pub(crate) fn ln_likelihood(
    data: &BsvdData,
    (linear, noise_sds): (&[f32], &[f32]),
    thresholds: &[f64],
) -> f64 {
    let blocks: Vec<f64> = parallel::map(linear.chunks(BLOCK).enumerate(), |(block, linear)| {
        let of_entry = |(at, &x): (usize, &f32)| {
            let (lower, upper) = ends(thresholds, data.outcomes[at] as usize);
            let (x, sd) = (f64::from(x), noise_sd(noise_sds, at));
            ln_between((lower - x) / sd, (upper - x) / sd)
        };
        (block * BLOCK..).zip(linear).map(of_entry).sum()
    });
    blocks.iter().sum()
}

/// One Newton step of the free thresholds towards their most probable values given the noise-free ones: no move of a chain, but a way to where it should be,
/// which its own steps, as small as so many entries allow, would take thousands of sweeps for.
pub(crate) fn climb_thresholds(
    data: &BsvdData,
    cells: (&[f32], &[f32]),
    prior_precision: f64,
    thresholds: &mut [f64],
) {
    let slope = Slope::of(data, cells, thresholds);
    let mut step = slope.solve(prior_precision, thresholds);
    let most = step.iter().fold(0.0, |most: f64, s| most.max(s.abs()));
    // Far from the top the slope changes along the way.
    let mut share = (LONGEST_CLIMB / most).min(1.0);
    if !share.is_finite() {
        return;
    }
    step.insert(0, 0.0);
    for _ in 0..MOST_HALVINGS {
        let new: Vec<f64> = thresholds
            .iter()
            .zip(&step)
            .map(|(threshold, step)| threshold + share * step)
            .collect();
        if new.windows(2).all(|w| w[0] < w[1]) {
            thresholds.copy_from_slice(&new);
            return;
        }
        share *= 0.5;
    }
}

/// A threshold moves at most so far in a step, in standard deviations of the noise.
const LONGEST_CLIMB: f64 = 0.5;
const MOST_HALVINGS: usize = 30;

/// First and minus the second derivatives of the ln likelihood by the thresholds: the second ones of each alone, and of each with the next.
struct Slope {
    first: Vec<f64>,
    second: Vec<f64>,
    mixed: Vec<f64>,
}

impl Slope {
    fn none(n: usize) -> Self {
        Self {
            first: vec![0.0; n],
            second: vec![0.0; n],
            mixed: vec![0.0; n],
        }
    }

    fn of(data: &BsvdData, (linear, noise_sds): (&[f32], &[f32]), thresholds: &[f64]) -> Self {
        let blocks: Vec<Self> =
            parallel::map(linear.chunks(BLOCK).enumerate(), |(block, linear)| {
                let mut slope = Self::none(thresholds.len());
                for (at, &x) in (block * BLOCK..).zip(linear) {
                    let cell = (f64::from(x), noise_sd(noise_sds, at));
                    slope.add(thresholds, data.outcomes[at] as usize, cell);
                }
                slope
            });
        let mut sum = Self::none(thresholds.len());
        for block in blocks {
            for (to, from) in [
                (&mut sum.first, block.first),
                (&mut sum.second, block.second),
                (&mut sum.mixed, block.mixed),
            ] {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
        sum
    }

    fn add(&mut self, thresholds: &[f64], level: usize, (x, sd): (f64, f64)) {
        let (lower, upper) = ends(thresholds, level);
        let (lower, upper) = ((lower - x) / sd, (upper - x) / sd);
        let ln_mass = ln_between(lower, upper);
        // Density at an end over the mass of the level.
        let ratio = |end: f64| (ln_normal_pdf(end) - ln_mass).exp();
        let (below, above) = (ratio(lower), ratio(upper));
        let square = sd * sd;
        if level < thresholds.len() {
            self.first[level] += above / sd;
            self.second[level] += above * (above + upper) / square;
        }
        if let Some(l) = level.checked_sub(1) {
            self.first[l] -= below / sd;
            self.second[l] += below * (below - lower) / square;
            self.mixed[l] -= below * above / square;
        }
    }

    /// Newton's step for the thresholds from the second on, by elimination.
    fn solve(&self, prior_precision: f64, thresholds: &[f64]) -> Vec<f64> {
        let n = thresholds.len() - 1;
        let mut diagonal: Vec<f64> = self.second[1..]
            .iter()
            .map(|s| s + prior_precision)
            .collect();
        let mut step: Vec<f64> = (1..=n)
            .map(|l| self.first[l] - prior_precision * thresholds[l])
            .collect();
        for l in 1..n {
            let share = self.mixed[l] / diagonal[l - 1];
            diagonal[l] -= share * self.mixed[l];
            step[l] -= share * step[l - 1];
        }
        for l in (0..n).rev() {
            let next = if l + 1 < n {
                self.mixed[l + 1] * step[l + 1]
            } else {
                0.0
            };
            step[l] = (step[l] - next) / diagonal[l];
        }
        step
    }
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
    use npb_data::{Rating, Ratings};

    use super::*;
    use crate::{BsvdConfig, Likelihood, SideInformation};

    /// From far off to where no small change of a threshold is more probable.
    #[test]
    fn thresholds_climb_to_the_top() {
        let entry = |n: u32| Rating {
            row: n / 40,
            column: n % 40,
            value: f64::from(1 + (n * n / 7 + n) % 4),
        };
        let entries: Vec<Rating> = (0..1200).map(entry).collect();
        let config = BsvdConfig {
            likelihood: Likelihood::Ordinal { levels: 4 },
            ..BsvdConfig::default()
        };
        let ratings = Ratings::new(30, 40, &entries).unwrap();
        let data = BsvdData::new(&ratings, SideInformation::default(), &config).unwrap();
        let linear: Vec<f32> = (0..1200).map(|n| 0.5 + (n as f32).sin()).collect();
        let sds: Vec<f32> = (0..1200).map(|n| 1.0 + 0.5 * (n as f32).cos()).collect();
        let (cells, precision) = ((&linear[..], &sds[..]), 0.01);
        let mut thresholds = vec![0.0, 7.0, 7.1];
        for _ in 0..60 {
            climb_thresholds(&data, cells, precision, &mut thresholds);
        }
        let height = |thresholds: &[f64]| {
            let squares: f64 = thresholds.iter().map(|t| t * t).sum();
            ln_likelihood(&data, cells, thresholds) - 0.5 * precision * squares
        };
        let top = height(&thresholds);
        for (l, by) in [(1, 1e-3), (1, -1e-3), (2, 1e-3), (2, -1e-3)] {
            let mut near = thresholds.clone();
            near[l] += by;
            assert!(height(&near) < top, "{thresholds:?}, {l}, {by}");
        }
    }

    #[test]
    fn slopes_of_thresholds_are_those_of_the_log_probability() {
        let thresholds = [0.0, 0.8, 2.1];
        let (x, sd, h) = (0.6, 1.3, 1e-4);
        let ln = |at: &[f64], level: usize| {
            let (lower, upper) = ends(at, level);
            ln_between((lower - x) / sd, (upper - x) / sd)
        };
        for level in 0..4 {
            let mut slope = Slope::none(3);
            slope.add(&thresholds, level, (x, sd));
            let moved = |l: usize, by: f64, m: usize, also: f64| {
                let mut at = thresholds;
                at[l] += by;
                at[m] += also;
                ln(&at, level)
            };
            for l in 0..3 {
                let first = (moved(l, h, l, 0.0) - moved(l, -h, l, 0.0)) / (2.0 * h);
                assert!((slope.first[l] - first).abs() < 1e-6, "{level} {l}");
                let ends = moved(l, h, l, 0.0) + moved(l, -h, l, 0.0);
                let second = (2.0 * ln(&thresholds, level) - ends) / (h * h);
                assert!((slope.second[l] - second).abs() < 1e-5, "{level} {l}");
                if l < 2 {
                    let mixed = (moved(l, h, l + 1, h) + moved(l, -h, l + 1, -h)
                        - moved(l, h, l + 1, -h)
                        - moved(l, -h, l + 1, h))
                        / (4.0 * h * h);
                    assert!((slope.mixed[l] + mixed).abs() < 1e-5, "{level} {l}");
                }
            }
        }
    }

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
