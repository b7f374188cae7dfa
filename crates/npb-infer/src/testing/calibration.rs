use std::fmt;

use npb_priors::special::ln_gamma;
use rand::RngExt;

use super::JointModel;
use crate::{parallel, stream};

/// Keys of the streams, third word.
const REPLICATE: u64 = 3;
const NULL: u64 = 4;

/// Simulation-based calibration (Talts et al. 2018, arXiv:1804.06788): among posterior draws given
/// data simulated from a prior draw, the prior draw itself has a uniform rank. Then posterior
/// intervals cover at their nominal rate.
///
/// Each replication draws a state from the prior and data from it, starts the sampler at *another*
/// prior draw, makes `burn_in` sweeps and keeps `draws` states, `thin` sweeps apart. The ranks of
/// the first state among them (ties in random order) are counted. Their empirical distribution is
/// compared with the uniform one at all ranks at once: the statistic is the smallest two-sided
/// binomial tail probability over all ranks (Säilynoja, Bürkner and Vehtari 2022, Statistics and
/// Computing 32), and its own distribution under uniformity is simulated, so that the band is exact
/// whatever the numbers of replications and draws. With the bound of Bonferroni over summaries, a
/// share of at most `false_alarm` of all seeds fails a correct sampler that forgets its start
/// within `burn_in` and is nearly independent `thin` sweeps apart. (Remaining autocorrelation shows
/// as too many extreme ranks.)
///
/// Cost: `replications * (burn_in + draws * thin)` sweeps, in parallel over replications.
///
/// ```
/// use npb_infer::{Xoshiro256PlusPlus, testing::{Calibration, JointModel}};
/// use rand::RngExt;
///
/// /// A success probability, uniform a priori, with one trial. `ignore_data` should be false.
/// struct Coin { ignore_data: bool }
/// impl JointModel for Coin {
///     type State = f64;
///     type Data = bool;
///     fn names(&self) -> Vec<String> { vec!["p".into()] }
///     fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> f64 { rng.random() }
///     fn simulate(&self, p: &f64, rng: &mut Xoshiro256PlusPlus) -> bool { rng.random::<f64>() < *p }
///     fn sweep(&self, p: &mut f64, success: &bool, rng: &mut Xoshiro256PlusPlus) {
///         // Beta(2, 1) is the larger of two uniforms, Beta(1, 2) the smaller.
///         let (a, b): (f64, f64) = (rng.random(), rng.random());
///         *p = if *success || self.ignore_data { a.max(b) } else { a.min(b) };
///     }
///     fn summary(&self, p: &f64, _: &bool) -> Vec<f64> { vec![*p] }
/// }
///
/// let test = Calibration { seed: 1, replications: 200, draws: 19, burn_in: 1, thin: 1, false_alarm: 0.001 };
/// assert!(test.run(&Coin { ignore_data: false }).passed());
/// let broken = test.run(&Coin { ignore_data: true });
/// assert!(!broken.passed(), "{broken}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Seed of everything.
    pub seed: u64,
    /// Simulated data sets, at least 1.
    pub replications: usize,
    /// Posterior draws per data set, at least 1; 99 makes ranks percentiles.
    pub draws: usize,
    /// Sweeps before the first draw.
    pub burn_in: usize,
    /// Sweeps from one draw to the next; taken as 1 when 0.
    pub thin: usize,
    /// Share of seeds at which a correct sampler may fail.
    pub false_alarm: f64,
}

/// Ranks of one summary.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationCheck {
    /// Name of the summary.
    pub name: String,
    /// For each replication the number of posterior draws below the prior draw, `0..=draws`.
    pub ranks: Vec<usize>,
    /// p-value of uniformity of this summary alone.
    pub p: f64,
}

/// Result of a [`Calibration`]; printing it lists the summaries, worst first.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationReport {
    /// One per summary.
    pub checks: Vec<CalibrationCheck>,
    /// Simultaneous band: entry k - 1, for k in `1..=draws`, holds the least and the largest number
    /// of ranks below k that do not give an alarm.
    pub band: Vec<(usize, usize)>,
    /// Number of posterior draws per replication.
    pub draws: usize,
    /// Stated share of false alarms over all summaries together.
    pub false_alarm: f64,
}

impl CalibrationReport {
    /// Whether every summary's ranks stay within the band.
    pub fn passed(&self) -> bool {
        self.p_value() > self.false_alarm
    }

    /// p-value of the whole test: the smallest of all summaries times their number.
    pub fn p_value(&self) -> f64 {
        let smallest = self.checks.iter().map(|c| c.p).fold(1.0, f64::min);
        (smallest * self.checks.len() as f64).min(1.0)
    }

    /// Share of replications whose central posterior interval of (about) the given level covers the
    /// truth, with the exact nominal level that `draws` draws allow: `(nominal, found)` for summary
    /// number `summary`.
    ///
    /// # Panics
    /// When there is no such summary or `level` is outside [0, 1].
    pub fn coverage(&self, summary: usize, level: f64) -> (f64, f64) {
        assert!((0.0..=1.0).contains(&level), "level {level}");
        let positions = (self.draws + 1) as f64;
        let outside = ((1.0 - level) / 2.0 * positions).round() as usize;
        let ranks = &self.checks[summary].ranks;
        let inside = ranks
            .iter()
            .filter(|&&r| r >= outside && r + outside <= self.draws)
            .count();
        (
            (positions - 2.0 * outside as f64) / positions,
            inside as f64 / ranks.len() as f64,
        )
    }
}

impl fmt::Display for CalibrationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        writeln!(
            f,
            "calibration {verdict}: p = {:.3e}, false-alarm rate {}",
            self.p_value(),
            self.false_alarm
        )?;
        let mut order: Vec<usize> = (0..self.checks.len()).collect();
        order.sort_by(|&a, &b| self.checks[a].p.total_cmp(&self.checks[b].p));
        for summary in order {
            let CalibrationCheck { name, p, .. } = &self.checks[summary];
            let (nominal, found) = self.coverage(summary, 0.9);
            writeln!(
                f,
                "  {name}: p = {p:.3e}, {:.0}% intervals cover {:.1}%",
                100.0 * nominal,
                100.0 * found
            )?;
        }
        Ok(())
    }
}

impl Calibration {
    /// Runs the calibration, in parallel on the caller's rayon pool; the result does not depend on
    /// the number of threads.
    ///
    /// # Panics
    /// Without replications or draws, or with a summary of another length than its names.
    pub fn run<M: JointModel>(&self, model: &M) -> CalibrationReport {
        assert!(
            self.replications >= 1 && self.draws >= 1,
            "at least one replication and draw: {self:?}"
        );
        let test = Self {
            seed: super::moved(self.seed),
            ..*self
        };
        let names = model.names();
        let ranks: Vec<Vec<usize>> = parallel::map(0..self.replications as u64, |r| {
            test.replicate(model, names.len(), r)
        });
        let uniform = UniformRanks::new(self.replications, self.draws);
        let level = self.false_alarm / names.len() as f64;
        let null = uniform.null(test.seed, level);
        let check = |(summary, name): (usize, &String)| {
            let ranks: Vec<usize> = ranks.iter().map(|r| r[summary]).collect();
            CalibrationCheck {
                name: name.clone(),
                p: null.p_value(uniform.statistic(&ranks)),
                ranks,
            }
        };
        CalibrationReport {
            checks: names.iter().enumerate().map(check).collect(),
            band: uniform.band(null.critical(level)),
            draws: self.draws,
            false_alarm: self.false_alarm,
        }
    }

    /// Ranks of all summaries in one simulated data set.
    fn replicate<M: JointModel>(
        &self,
        model: &M,
        n_summaries: usize,
        replication: u64,
    ) -> Vec<usize> {
        let rng = &mut stream(self.seed, [replication, 0, REPLICATE, 0]);
        let truth = model.prior(rng);
        let data = model.simulate(&truth, rng);
        let true_summary = model.summary(&truth, &data);
        assert_eq!(
            true_summary.len(),
            n_summaries,
            "as many summaries as names"
        );

        let mut state = model.prior(rng);
        (0..self.burn_in).for_each(|_| model.sweep(&mut state, &data, rng));
        let (mut below, mut equal) = (vec![0; n_summaries], vec![0_usize; n_summaries]);
        for _ in 0..self.draws {
            (0..self.thin.max(1)).for_each(|_| model.sweep(&mut state, &data, rng));
            for (i, value) in model.summary(&state, &data).into_iter().enumerate() {
                below[i] += usize::from(value < true_summary[i]);
                equal[i] += usize::from(value == true_summary[i]);
            }
        }
        (0..n_summaries)
            .map(|i| below[i] + rng.random_range(0..=equal[i]))
            .collect()
    }
}

/// `n` independent ranks, uniform on `0..=draws`.
struct UniformRanks {
    n: usize,
    draws: usize,
    /// Two-sided tail probability of each count `0..=n` of ranks below k, for k in `1..=draws`.
    tails: Vec<Vec<f64>>,
}

impl UniformRanks {
    fn new(n: usize, draws: usize) -> Self {
        let tails = (1..=draws)
            .map(|k| binomial_tails(n, k as f64 / (draws + 1) as f64))
            .collect();
        Self { n, draws, tails }
    }

    /// Smallest tail probability over all k: small when the ranks are not uniform.
    fn statistic(&self, ranks: &[usize]) -> f64 {
        let mut counts = vec![0_usize; self.draws + 1];
        ranks.iter().for_each(|&r| counts[r] += 1);
        let mut below = 0;
        let mut smallest = 1.0_f64;
        for (tail, count) in self.tails.iter().zip(counts) {
            below += count;
            smallest = smallest.min(tail[below]);
        }
        smallest
    }

    /// The statistic's distribution when ranks are uniform, simulated finely enough to judge at
    /// `level`.
    fn null(&self, seed: u64, level: f64) -> Null {
        let simulations = ((20.0 / level).ceil() as u64).clamp(1_000, 100_000);
        let simulate = |i| {
            let rng = &mut stream(seed, [i, 0, NULL, 0]);
            let ranks: Vec<usize> = (0..self.n)
                .map(|_| rng.random_range(0..=self.draws))
                .collect();
            self.statistic(&ranks)
        };
        let mut sorted: Vec<f64> = parallel::map(0..simulations, simulate);
        sorted.sort_unstable_by(f64::total_cmp);
        Null { sorted }
    }

    fn band(&self, critical: f64) -> Vec<(usize, usize)> {
        let range = |tail: &Vec<f64>| {
            let inside = |&count: &usize| tail[count] > critical;
            let least = (0..=self.n).find(inside).unwrap_or(0);
            (least, (0..=self.n).rev().find(inside).unwrap_or(self.n))
        };
        self.tails.iter().map(range).collect()
    }
}

struct Null {
    sorted: Vec<f64>,
}

impl Null {
    fn p_value(&self, statistic: f64) -> f64 {
        let as_small = self.sorted.partition_point(|&s| s <= statistic);
        (1 + as_small) as f64 / (1 + self.sorted.len()) as f64
    }

    /// The largest statistic that gives an alarm at `level`; 0 when none does.
    fn critical(&self, level: f64) -> f64 {
        let alarms = self.sorted.partition_point(|&s| self.p_value(s) <= level);
        alarms.checked_sub(1).map_or(0.0, |last| self.sorted[last])
    }
}

/// min(1, 2 min(P(X <= c), P(X >= c))) for X ~ Binomial(n, p), 0 < p < 1, at every c.
fn binomial_tails(n: usize, p: f64) -> Vec<f64> {
    let ln_choose = |c: usize| {
        ln_gamma(n as f64 + 1.0) - ln_gamma(c as f64 + 1.0) - ln_gamma((n - c) as f64 + 1.0)
    };
    let mass: Vec<f64> = (0..=n)
        .map(|c| (ln_choose(c) + c as f64 * p.ln() + (n - c) as f64 * (-p).ln_1p()).exp())
        .collect();
    let running = |masses: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        let add = |m: &f64| {
            sum += m;
            sum
        };
        masses.map(add).collect::<Vec<f64>>()
    };
    let lower = running(&mut mass.iter());
    let upper = running(&mut mass.iter().rev());
    (0..=n)
        .map(|c| (2.0 * lower[c].min(upper[n - c])).min(1.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_tails_add_up() {
        let tails = binomial_tails(4, 0.5);
        for (found, expected) in tails.iter().zip([0.125, 0.625, 1.0, 0.625, 0.125]) {
            assert!((found - expected).abs() < 1e-14);
        }
        assert!(binomial_tails(500, 0.01)[500] < 1e-300);
    }

    /// Uniform ranks leave the band at the stated rate: 2,000 sets at 5%, standard error 0.5%.
    #[test]
    fn the_band_holds_at_its_level() {
        let uniform = UniformRanks::new(100, 19);
        let null = uniform.null(1, 0.05);
        let critical = null.critical(0.05);
        let band = uniform.band(critical);
        let mut outside = 0;
        for set in 0..2000 {
            let rng = &mut stream(2, [set, 0, 0, 0]);
            let ranks: Vec<usize> = (0..100).map(|_| rng.random_range(0..=19)).collect();
            let statistic = uniform.statistic(&ranks);
            let leaves = (1..=19).any(|k| {
                let below = ranks.iter().filter(|&&r| r < k).count();
                below < band[k - 1].0 || below > band[k - 1].1
            });
            assert_eq!(
                leaves,
                statistic <= critical,
                "band and statistic are the same test"
            );
            assert_eq!(
                leaves,
                null.p_value(statistic) <= 0.05,
                "and so is the p-value"
            );
            outside += usize::from(leaves);
        }
        assert!((60..=140).contains(&outside), "{outside} of 2000");
    }
}
