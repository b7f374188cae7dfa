//! How good predictions of held-out entries are.

use npb_data::{Ratings, metrics};
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::cells::{CellMoments, Cells};
use crate::data::counts;
use crate::entries::Successes;
use crate::fitted::BsvdFit;
use crate::summary::check_level;

/// Predictions of held-out entries against what they turned out to be.
///
/// ```
/// # use npb_bsvd::npb_data::{Rating, Ratings};
/// # use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
/// # let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0) + f64::from(i * 7 % 5) - f64::from(j * 11 % 7);
/// # let some = |test: bool| -> Vec<Rating> { (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)))
/// #     .filter(|(i, j)| ((i + j) % 4 == 0) == test)
/// #     .map(|(row, column)| Rating { row, column, value: value(row, column) }).collect() };
/// let train = Ratings::new(12, 9, &some(false))?;
/// let test = Ratings::new(12, 9, &some(true))?;
/// let config = BsvdConfig { candidates: 6, ..BsvdConfig::default() };
/// let model = fit(&train, SideInformation::default(), &Cells::default(), &config)?;
/// let found = model.evaluate(&test)?;
/// assert!(found.rmse < 2.0 && found.mae <= found.rmse);
/// assert!(found.coverage(0.9)? > 0.8);      // share of the entries within their 90% predictive intervals
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Number of held-out entries.
    pub entries: usize,
    /// Root mean squared error of the posterior means.
    pub rmse: f64,
    /// Mean absolute error of the posterior means.
    pub mae: f64,
    /// Mean over the entries of their ln predictive density.
    pub ln_density: f64,
    /// Predictive probability of an entry below the one held out, for each.
    pub below: Vec<f64>,
    /// Predictive probability of an entry of at most the one held out, for each; the same where entries are continuous. Uniform on (0, 1) when the
    /// predictive distributions are right.
    pub up_to: Vec<f64>,
}

impl Evaluation {
    fn new(
        means: &[f64],
        truth: &[f64],
        ln_density: f64,
        below: Vec<f64>,
        up_to: Vec<f64>,
    ) -> Result<Self, BsvdError> {
        if truth.is_empty() {
            return Err(BsvdError::NoEntries);
        }
        let score = |found: Result<f64, metrics::MetricError>| {
            found.map_err(|e| BsvdError::State {
                what: e.to_string(),
            })
        };
        Ok(Self {
            entries: truth.len(),
            rmse: score(metrics::rmse(means, truth))?,
            mae: score(metrics::mae(means, truth))?,
            ln_density: ln_density / truth.len() as f64,
            below,
            up_to,
        })
    }

    /// Share of the held-out entries within their central predictive intervals at `level`: the level itself when the distributions are right. Exact at
    /// any level: the intervals are those of the mixture over draws.
    ///
    /// An end of an interval may fall on a level of a discrete entry; the level then counts by the part of its probability that is within. (Whole
    /// levels would hold more than was asked for.)
    ///
    /// # Errors
    /// A level that is not between 0 and 1.
    pub fn coverage(&self, level: f64) -> Result<f64, BsvdError> {
        check_level(level)?;
        let (lower, upper) = (0.5 - 0.5 * level, 0.5 + 0.5 * level);
        let part = |(&below, &up_to): (&f64, &f64)| {
            if up_to > below {
                (up_to.min(upper) - below.max(lower)).max(0.0) / (up_to - below)
            } else {
                f64::from(u8::from(lower <= below && below < upper))
            }
        };
        let total: f64 = self.below.iter().zip(&self.up_to).map(part).sum();
        Ok(total / self.entries as f64)
    }
}

impl BsvdFit {
    /// Predicts held-out entries of the same matrix by the stored draws.
    ///
    /// Cost: rank and features for each entry and draw; in parallel. Entries that were followed from the beginning ([`fit`](crate::fit) with
    /// [`Cells::of`]) are evaluated by all kept draws in [`evaluate_followed`](Self::evaluate_followed).
    ///
    /// # Errors
    /// No entry, or one that is not in the matrix; no stored draw.
    pub fn evaluate<V: Copy + Into<f64> + Send + Sync>(
        &self,
        held_out: &Ratings<V>,
    ) -> Result<Evaluation, BsvdError> {
        let cells = Cells::of(held_out);
        let scores = self.for_cells(&cells, |n, cell| {
            let y = cells.values[n];
            let (below, up_to) = cell.position(y);
            Ok([cell.mean(), cell.ln_density(y), below, up_to])
        })?;
        let column = |k: usize| -> Vec<f64> { scores.iter().map(|s| s[k]).collect() };
        let ln_density = column(1).iter().sum();
        Evaluation::new(&column(0), &cells.values, ln_density, column(2), column(3))
    }

    /// Predicts held-out successes among trials, of a binomial (or binary) fit. Errors are those of rates, each cell counting once; densities and intervals
    /// those of the number of successes in the trials of the cell.
    ///
    /// # Errors
    /// No cell, one without trials, or one that is not in the matrix; counts that are not whole; another likelihood; no stored draw.
    pub fn evaluate_hits<V: Copy + Into<f64> + Send + Sync>(
        &self,
        held_out: &Successes<'_, V>,
    ) -> Result<Evaluation, BsvdError> {
        let mut cells = Cells::of(held_out.successes);
        let (successes, trials) = counts(held_out.successes, held_out.trials)?;
        let counts: Vec<(u32, u32)> = successes.into_iter().zip(trials).collect();
        for (value, (_, trials)) in cells.values.iter_mut().zip(&counts) {
            *value /= f64::from(*trials);
        }
        let scores = self.for_cells(&cells, |n, cell| {
            let (successes, trials) = counts[n];
            let below = match successes {
                0 => 0.0,
                _ => cell.successes_cdf(successes - 1, trials)?,
            };
            let up_to = cell.successes_cdf(successes, trials)?;
            Ok([
                cell.mean(),
                cell.ln_successes(successes, trials)?,
                below,
                up_to,
            ])
        })?;
        let column = |k: usize| -> Vec<f64> { scores.iter().map(|s| s[k]).collect() };
        let ln_density = column(1).iter().sum();
        Evaluation::new(&column(0), &cells.values, ln_density, column(2), column(3))
    }

    /// As [`evaluate`](Self::evaluate), of the cells that were followed with their held-out values, by all kept draws. Cost: a look at each cell.
    ///
    /// # Errors
    /// No followed cell with a value; no kept draw.
    pub fn evaluate_followed(&self) -> Result<Evaluation, BsvdError> {
        let CellMoments {
            draws,
            mean,
            below,
            up_to,
            ..
        } = &self.moments;
        if *draws == 0 {
            return Err(BsvdError::TooFewDraws { found: 0, least: 1 });
        }
        let truth = &self.cells.values;
        let ln_density = (0..truth.len()).map(|n| self.moments.ln_density(n)).sum();
        Evaluation::new(mean, truth, ln_density, below.clone(), up_to.clone())
    }
}
