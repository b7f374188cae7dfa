//! Do the chains agree, and how much are their draws worth?
//!
//! Definitions are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021),
//! "Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of
//! MCMC", Bayesian Analysis 16(2). All chains are split in halves first (an odd chain loses its
//! middle draw). Rank normalisation replaces the draws of all chains together by normal scores
//! `Phi^-1((rank - 3/8) / (S + 1/4))`, ties at their mean rank. So heavy tails and infinite moments
//! do no harm.
//!
//! A number that is not defined is `None`: fewer than 4 draws per chain, draws that are not finite,
//! all draws equal; and a standard deviation that is larger than any `f64`.
//!
//! Rules of thumb of the paper: R-hat below 1.01, bulk and tail effective sample size above 100 per
//! chain.
//!
//! ```
//! use npb_infer::{diagnostics::ChainDiagnostics, stream};
//! use rand::RngExt;
//! let chains: Vec<Vec<f64>> = (0..4).map(|c| (0..500).map(|t| stream(1, [c, t, 0, 0]).random()).collect()).collect();
//! let d = ChainDiagnostics::new(&chains);
//! assert!(d.rhat.unwrap() < 1.01 && d.ess_bulk.unwrap() > 1500.0);
//! ```

use npb_priors::special::normal_quantile;
use serde::{Deserialize, Serialize};

use crate::{SweepPlan, Trace};

/// Summary of one monitored scalar over all chains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainDiagnostics {
    /// Mean of all draws; `None` without finite draws, like every number here.
    pub mean: Option<f64>,
    /// Standard deviation of all draws (divisor S - 1).
    pub sd: Option<f64>,
    /// Monte Carlo standard error of the mean, see [`mcse_mean`].
    pub mcse_mean: Option<f64>,
    /// See [`rhat`].
    pub rhat: Option<f64>,
    /// See [`ess_bulk`].
    pub ess_bulk: Option<f64>,
    /// See [`ess_tail`].
    pub ess_tail: Option<f64>,
}

impl ChainDiagnostics {
    /// Summary of `chains`: one slice of draws per chain, in order. Longer chains are cut to the
    /// shortest.
    pub fn new<C: AsRef<[f64]>>(chains: &[C]) -> Self {
        let (mean, sd) = mean_and_sd(chains).unzip();
        Self {
            mean,
            sd: sd.filter(|sd| sd.is_finite()),
            mcse_mean: mcse_mean(chains),
            rhat: rhat(chains),
            ess_bulk: ess_bulk(chains),
            ess_tail: ess_tail(chains),
        }
    }
}

/// Summary of every scalar of several chains' traces at the sweeps that `plan` keeps, with their
/// names.
///
/// # Panics
/// When the traces have different names: they are of different models.
pub fn summarise(traces: &[&Trace], plan: &SweepPlan) -> Vec<(String, ChainDiagnostics)> {
    let names = traces.first().map_or(&[][..], |t| t.names());
    assert!(
        traces.iter().all(|t| t.names() == names),
        "traces of different models"
    );
    let one = |scalar| {
        let chains: Vec<Vec<f64>> = traces.iter().map(|t| t.kept(plan, scalar)).collect();
        ChainDiagnostics::new(&chains)
    };
    names
        .iter()
        .enumerate()
        .map(|(scalar, name)| (name.clone(), one(scalar)))
        .collect()
}

/// R-hat above this: chains, or their halves, can be told apart.
pub const MOST_RHAT: f64 = 1.05;

/// The scalars whose R-hat is above [`MOST_RHAT`], the worst first, each in words: its R-hat, and how many independent draws all of its draws are worth.
///
/// ```
/// use npb_infer::diagnostics::{ChainDiagnostics, unmet};
/// let apart = ChainDiagnostics::new(&[[1.0, 2.0, 1.0, 2.0], [5.0, 6.0, 5.0, 6.0]]);
/// let alike = ChainDiagnostics::new(&[[1.0, 2.0, 1.0, 2.0], [2.0, 1.0, 2.0, 1.0]]);
/// let found = unmet(&[("noise".to_owned(), apart), ("level".to_owned(), alike)]);
/// assert!(found.len() == 1 && found[0].starts_with("R-hat of noise is "));
/// ```
pub fn unmet(summary: &[(String, ChainDiagnostics)]) -> Vec<String> {
    let mut found: Vec<(f64, String)> = summary
        .iter()
        .filter_map(|(name, of)| {
            let rhat = of.rhat.filter(|rhat| *rhat > MOST_RHAT)?;
            let worth = match of.ess_bulk {
                Some(ess) => format!("; its draws are worth {ess:.0} independent ones"),
                None => String::new(),
            };
            Some((
                rhat,
                format!("R-hat of {name} is {rhat:.2}, above {MOST_RHAT}{worth}"),
            ))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, words)| words).collect()
}

/// Rank-normalised split R-hat: the larger of that of the draws (location) and of the draws folded
/// at their median (scale).
///
/// Infinite when each half chain is constant but they differ.
/// Cost: O(S log S) for S draws in all.
pub fn rhat<C: AsRef<[f64]>>(chains: &[C]) -> Option<f64> {
    let split = split(chains)?;
    let bulk = potential_scale_reduction(&rank_normalised(&split));
    let tail = potential_scale_reduction(&rank_normalised(&folded(&split)));
    // Folding can make all draws equal (two values, equally far from the median); then only the
    // location speaks.
    Some(if tail.is_nan() { bulk } else { bulk.max(tail) })
}

/// Bulk effective sample size: that of the mean of the rank-normalised draws.
///
/// Cost: O(S L), with L the lag at which the autocorrelation of pairs turns negative.
pub fn ess_bulk<C: AsRef<[f64]>>(chains: &[C]) -> Option<f64> {
    effective_size(&rank_normalised(&split(chains)?))
}

/// Tail effective sample size: the smaller of those of the 5% and the 95% quantile.
///
/// A quantile at which the indicator "at or below" is the same for all draws (much of the mass in
/// one value) says nothing; then the other one counts alone, and `None` comes back when neither
/// says anything. Cost as [`ess_bulk`].
pub fn ess_tail<C: AsRef<[f64]>>(chains: &[C]) -> Option<f64> {
    let split = split(chains)?;
    let sorted = sorted(&split);
    let at = |probability| {
        let limit = quantile(&sorted, probability);
        effective_size(&map(&split, |x| f64::from(x <= limit)))
    };
    match (at(0.05), at(0.95)) {
        (Some(low), Some(high)) => Some(low.min(high)),
        (low, high) => low.or(high),
    }
}

/// Effective sample size of the mean of the draws themselves. Meaningful only where the variance
/// exists.
pub fn ess_mean<C: AsRef<[f64]>>(chains: &[C]) -> Option<f64> {
    effective_size(&split(chains)?)
}

/// Monte Carlo standard error of the mean: the standard deviation of the draws over the root of
/// [`ess_mean`].
pub fn mcse_mean<C: AsRef<[f64]>>(chains: &[C]) -> Option<f64> {
    let error = mean_and_sd(chains)?.1 / ess_mean(chains)?.sqrt();
    error.is_finite().then_some(error)
}

/// Quantile of values in rising order, linear between order statistics: the first at probability 0 and below, the last at 1
/// and above; NaN without values.
///
/// ```
/// use npb_infer::diagnostics::quantile;
/// assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
/// ```
pub fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = probability.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    let share = at.fract();
    // The difference of the largest numbers would overflow; equal neighbours must give their value exactly, because the
    // indicator at a quantile compares with it.
    (below * (1.0 - share) + above * share)
        .max(below)
        .min(above)
}

/// The power of two that brings the largest of finite draws near 1: what is squared then is a number, and what does not
/// depend on units has the same bits.
fn power_of_two(draws: impl Iterator<Item = f64>) -> f64 {
    let largest = draws.fold(0.0, |largest: f64, x| largest.max(x.abs()));
    // Powers beyond have no inverse among normal numbers.
    2_f64.powi(largest.log2().ceil().clamp(-1020.0, 1020.0) as i32)
}

/// Half chains of equal length, in units of a power of two; `None` unless the draws are at least 4 per chain, finite and
/// not all equal.
fn split<C: AsRef<[f64]>>(chains: &[C]) -> Option<Vec<Vec<f64>>> {
    let n = shortest(chains)?;
    let half = n / 2;
    let draws = || chains.iter().flat_map(|c| &c.as_ref()[..n]).copied();
    let finite = draws().all(f64::is_finite);
    let unit = power_of_two(draws());
    let scaled = |draws: &[f64]| draws.iter().map(|x| x / unit).collect();
    let halves = |chain: &C| {
        let draws = &chain.as_ref()[..n];
        [scaled(&draws[..half]), scaled(&draws[n - half..])]
    };
    let split: Vec<Vec<f64>> = chains.iter().flat_map(halves).collect();
    let first = *split.first()?.first()?;
    let usable = half >= 2 && finite && all(&split).any(|x| x != first);
    usable.then_some(split)
}

fn shortest<C: AsRef<[f64]>>(chains: &[C]) -> Option<usize> {
    chains.iter().map(|c| c.as_ref().len()).min()
}

fn all(chains: &[Vec<f64>]) -> impl Iterator<Item = f64> + '_ {
    chains.iter().flatten().copied()
}

fn map(chains: &[Vec<f64>], f: impl Fn(f64) -> f64) -> Vec<Vec<f64>> {
    chains
        .iter()
        .map(|chain| chain.iter().map(|&x| f(x)).collect())
        .collect()
}

fn sorted(chains: &[Vec<f64>]) -> Vec<f64> {
    let mut draws: Vec<f64> = all(chains).collect();
    draws.sort_unstable_by(f64::total_cmp);
    draws
}

fn folded(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let median = quantile(&sorted(chains), 0.5);
    map(chains, |x| (x - median).abs())
}

/// Normal scores of the ranks among all draws.
fn rank_normalised(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let sorted = sorted(chains);
    let total = sorted.len() as f64;
    map(chains, |x| {
        let below = sorted.partition_point(|&y| y < x);
        let not_above = sorted.partition_point(|&y| y <= x);
        let mean_rank = (below + 1 + not_above) as f64 / 2.0;
        normal_quantile((mean_rank - 0.375) / (total + 0.25))
    })
}

/// Computed around the first value, so that equal values have exactly that mean and variance 0.
fn mean(x: &[f64]) -> f64 {
    x[0] + x.iter().map(|v| v - x[0]).sum::<f64>() / x.len() as f64
}

/// Divisor n - 1.
fn variance(x: &[f64]) -> f64 {
    let centre = mean(x);
    x.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (x.len() - 1) as f64
}

fn mean_and_sd<C: AsRef<[f64]>>(chains: &[C]) -> Option<(f64, f64)> {
    let n = shortest(chains)?;
    let mut draws: Vec<f64> = chains
        .iter()
        .flat_map(|c| &c.as_ref()[..n])
        .copied()
        .collect();
    let usable = draws.len() >= 2 && draws.iter().all(|x| x.is_finite());
    let unit = power_of_two(draws.iter().copied());
    draws.iter_mut().for_each(|x| *x /= unit);
    usable.then(|| (unit * mean(&draws), unit * variance(&draws).sqrt()))
}

/// Within-chain variance W and the pooled estimate of the posterior variance, (N - 1)/N W + B/N.
fn within_and_pooled(chains: &[Vec<f64>]) -> (f64, f64) {
    let n = chains[0].len() as f64;
    let means: Vec<f64> = chains.iter().map(|c| mean(c)).collect();
    let variances: Vec<f64> = chains.iter().map(|c| variance(c)).collect();
    let within = mean(&variances);
    (within, (n - 1.0) / n * within + variance(&means))
}

fn potential_scale_reduction(chains: &[Vec<f64>]) -> f64 {
    let (within, pooled) = within_and_pooled(chains);
    (pooled / within).sqrt()
}

/// Autocovariances at the last lags are sums of so few products that they are left out.
const LAST_LAGS: usize = 5;

/// Effective sample size of the mean: the combined autocorrelation of all chains, summed over lags
/// by Geyer's initial monotone sequence, without letting antithetic chains claim more than S
/// log10(S).
fn effective_size(chains: &[Vec<f64>]) -> Option<f64> {
    let lags = Autocorrelation::new(chains)?;
    let n = chains[0].len();
    let size = (n * chains.len()) as f64;
    // Sums of neighbours, rho_0 + rho_1, rho_2 + rho_3, ..., are positive and decreasing in truth;
    // noise is cut off at the first negative one and kept from rising before.
    let mut tau = -1.0;
    let mut smallest = f64::INFINITY;
    let mut lag = 0;
    while lag + 1 < n {
        let even = lags.at(lag);
        let pair = even + lags.at(lag + 1);
        let noise_only = lag > 0 && lag + LAST_LAGS >= n;
        if pair <= 0.0 || noise_only {
            // The cut term on its own still reduces the bias of antithetic chains.
            tau += even.max(0.0);
            break;
        }
        smallest = smallest.min(pair);
        tau += 2.0 * smallest;
        lag += 2;
    }
    Some(size / tau.max(1.0 / size.log10()))
}

/// Combined autocorrelation of several chains, computed lag by lag as it is asked for.
struct Autocorrelation {
    centred: Vec<Vec<f64>>,
    within: f64,
    pooled: f64,
}

impl Autocorrelation {
    /// `None` when nothing varies.
    fn new(chains: &[Vec<f64>]) -> Option<Self> {
        let (within, pooled) = within_and_pooled(chains);
        let centre = |chain: &Vec<f64>| {
            let centre = mean(chain);
            chain.iter().map(|x| x - centre).collect()
        };
        (pooled > 0.0).then(|| Self {
            centred: chains.iter().map(centre).collect(),
            within,
            pooled,
        })
    }

    /// 1 - (W - mean autocovariance at `lag`) / pooled variance; autocovariances have divisor N.
    fn at(&self, lag: usize) -> f64 {
        let n = self.centred[0].len();
        let products = |x: &Vec<f64>| dot(&x[lag..], &x[..n - lag]);
        let covariance =
            self.centred.iter().map(products).sum::<f64>() / (n * self.centred.len()) as f64;
        if lag == 0 {
            1.0
        } else {
            1.0 - (self.within - covariance) / self.pooled
        }
    }
}

/// Summed in four interleaved parts, so that additions do not wait for each other; the order depends on the length only.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let (x4, x_rest) = x.as_chunks::<4>();
    let (y4, y_rest) = y.as_chunks::<4>();
    let mut parts = [0.0; 4];
    for (x, y) in x4.iter().zip(y4) {
        for k in 0..4 {
            parts[k] += x[k] * y[k];
        }
    }
    let rest = x_rest.iter().zip(y_rest).map(|(x, y)| x * y);
    parts.into_iter().chain(rest).sum()
}
