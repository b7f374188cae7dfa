//! Any cell, from the stored draws.

use npb_infer::diagnostics::quantile;
use npb_infer::{Interval, parallel};
use npb_priors::special::{beta_regularized, ln_gamma, ln_phi, log_sum_exp, normal_cdf};
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::cells::Cells;
use crate::fitted::BsvdFit;
use crate::likelihood::Likelihood;
use crate::names::Key;
use crate::response::Response;
use crate::summary::{between, check_level, mean_and_sd, sorted};
use crate::view::View;

/// Share of the posterior in the intervals of [`BsvdFit::predict`].
pub(crate) const LEVEL: f64 = 0.9;

/// Rounds after which a bracket of a predictive quantile is as narrow as double precision, were it halved each time.
const ROUNDS: usize = 60;

/// A cell in short, in units of the data.
///
/// Two different uncertainties are told apart. `sd` and `interval` are about the *noise-free value*: what the entry would be on average. They shrink to
/// nothing as data grow. `predictive_sd` and `predictive_interval` are about a *new entry*, with its noise: they are the ones to compare with held-out
/// entries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Posterior mean: of the noise-free value, and so of a new entry.
    pub mean: f64,
    /// Posterior standard deviation of the noise-free value.
    pub sd: f64,
    /// Central interval of the noise-free value.
    pub interval: Interval,
    /// Standard deviation of a new entry.
    pub predictive_sd: f64,
    /// Central interval of a new entry.
    pub predictive_interval: Interval,
}

/// The posterior of one cell: one latent value for each stored draw (of folded-in rows, several).
///
/// ```
/// # use npb_bsvd::npb_data::{Rating, Ratings};
/// # use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
/// # let places = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
/// # let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0);
/// # let entries: Vec<Rating> = places.filter(|(i, j)| (i + j) % 3 != 0)
/// #     .map(|(row, column)| Rating { row, column, value: value(row, column) }).collect();
/// # let ratings = Ratings::new(12, 9, &entries)?;
/// let config = BsvdConfig { candidates: 6, ..BsvdConfig::default() };
/// let model = fit(&ratings, SideInformation::default(), &Cells::default(), &config)?;
/// let cell = model.cell(0, 0)?;                     // not observed; the truth is 15
/// assert!((cell.mean() - 15.0).abs() < 1.0);
/// let value = cell.interval(0.5)?;                  // of the noise-free value
/// let entry = cell.predictive_interval(0.5)?;       // of an entry
/// assert!(entry.lower < value.lower && value.upper < entry.upper);
/// assert_eq!(cell.values().len(), 50);              // a noise-free value for each stored draw
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CellPosterior<'a> {
    likelihood: Likelihood,
    /// Latent values, and how entries come of them: of the first draw, then of the second, and so on.
    draws: Vec<(f64, Response<'a>)>,
}

impl<'a> CellPosterior<'a> {
    pub(crate) fn new(likelihood: Likelihood, draws: Vec<(f64, Response<'a>)>) -> Self {
        Self { likelihood, draws }
    }

    fn draws(&self) -> impl Iterator<Item = (f64, Response<'a>)> + '_ {
        self.draws.iter().copied()
    }

    /// Draws of the noise-free value, in order.
    pub fn values(&self) -> Vec<f64> {
        self.draws().map(|(x, response)| response.mean(x)).collect()
    }

    /// Posterior mean of the noise-free value, and of a new entry.
    pub fn mean(&self) -> f64 {
        mean_and_sd(&self.values()).0
    }

    /// Posterior standard deviation of the noise-free value.
    pub fn sd(&self) -> f64 {
        mean_and_sd(&self.values()).1
    }

    /// Quantile of the noise-free value over the draws.
    ///
    /// # Errors
    /// A `p` that is not between 0 and 1.
    pub fn quantile(&self, p: f64) -> Result<f64, BsvdError> {
        between("p", p)?;
        Ok(quantile(&sorted(&self.values()), p))
    }

    /// Central interval that holds `level` of the posterior of the noise-free value.
    ///
    /// # Errors
    /// A level that is not between 0 and 1.
    pub fn interval(&self, level: f64) -> Result<Interval, BsvdError> {
        check_level(level)?;
        let values = sorted(&self.values());
        Ok(Interval::central(level, |p| quantile(&values, p)))
    }

    /// Standard deviation of a new entry.
    pub fn predictive_sd(&self) -> f64 {
        self.sd().hypot(self.noise_variance().sqrt())
    }

    /// Variance of a new entry about its noise-free value.
    pub(crate) fn noise_variance(&self) -> f64 {
        self.over_draws(|x, response| response.variance(x))
    }

    fn over_draws(&self, f: impl Fn(f64, Response) -> f64) -> f64 {
        let total: f64 = self.draws().map(|(x, response)| f(x, response)).sum();
        total / self.draws.len() as f64
    }

    /// Probability that a new entry is at most `y`.
    pub fn cdf(&self, y: f64) -> f64 {
        self.over_draws(|x, response| response.cdf(y, x).1)
    }

    /// Probabilities that a new entry is below `y`, and that it is at most `y`.
    pub(crate) fn position(&self, y: f64) -> (f64, f64) {
        let below = self.over_draws(|x, response| response.cdf(y, x).0);
        (below, self.cdf(y))
    }

    /// ln predictive density of an entry `y`: of the average of its density over the draws.
    pub fn ln_density(&self, y: f64) -> f64 {
        let terms: Vec<f64> = self
            .draws()
            .map(|(x, response)| response.ln_density(y, x))
            .collect();
        log_sum_exp(&terms) - (terms.len() as f64).ln()
    }

    /// Probabilities of the levels of a new entry: 1, ..., L of the ordinal likelihood; 0 and 1 of the binary one, and of one trial of the binomial
    /// one; none of the Gaussian.
    pub fn level_probabilities(&self) -> Vec<f64> {
        let levels = match self.likelihood {
            Likelihood::Gaussian => 0..0,
            Likelihood::Ordinal { levels } => 1..levels + 1,
            Likelihood::Binary | Likelihood::Binomial => 0..2,
        };
        levels
            .map(|level| self.over_draws(|x, r| r.ln_density(f64::from(level), x).exp()))
            .collect()
    }

    /// ln predictive probability of so many successes among so many trials.
    ///
    /// # Errors
    /// A likelihood that knows no successes; more successes than trials.
    pub fn ln_successes(&self, successes: u32, trials: u32) -> Result<f64, BsvdError> {
        self.check_successes(successes, trials)?;
        let (h, n) = (f64::from(successes), f64::from(trials));
        let ways = ln_gamma(n + 1.0) - ln_gamma(h + 1.0) - ln_gamma(n - h + 1.0);
        let terms: Vec<f64> = self
            .draws
            .iter()
            .map(|&(x, _)| ways + h * ln_phi(x) + (n - h) * ln_phi(-x))
            .collect();
        Ok(log_sum_exp(&terms) - (terms.len() as f64).ln())
    }

    /// Predictive probability of at most so many successes among so many trials. Cost: an incomplete beta function for each draw.
    ///
    /// # Errors
    /// A likelihood that knows no successes; more successes than trials.
    pub fn successes_cdf(&self, successes: u32, trials: u32) -> Result<f64, BsvdError> {
        self.check_successes(successes, trials)?;
        if successes == trials {
            return Ok(1.0);
        }
        let (a, b) = (f64::from(trials - successes), f64::from(successes) + 1.0);
        Ok(self.over_draws(|x, _| beta_regularized(a, b, normal_cdf(-x))))
    }

    fn check_successes(&self, successes: u32, trials: u32) -> Result<(), BsvdError> {
        let likelihood = self.likelihood;
        if !matches!(likelihood, Likelihood::Binary | Likelihood::Binomial) {
            return Err(BsvdError::Likelihood {
                question: "successes among trials",
                likelihood,
            });
        }
        if successes > trials {
            return Err(BsvdError::Argument {
                argument: "successes",
                value: successes.to_string(),
                rule: "at most the trials",
            });
        }
        Ok(())
    }

    /// Quantile of a new entry: of the mixture of the draws, noise included.
    ///
    /// # Errors
    /// A `p` that is not between 0 and 1.
    pub fn predictive_quantile(&self, p: f64) -> Result<f64, BsvdError> {
        between("p", p)?;
        Ok(self.mixture_quantile(p))
    }

    /// Central interval that holds a new entry with probability `level`.
    ///
    /// # Errors
    /// A level that is not between 0 and 1.
    pub fn predictive_interval(&self, level: f64) -> Result<Interval, BsvdError> {
        check_level(level)?;
        Ok(Interval::central(level, |p| self.mixture_quantile(p)))
    }

    /// The quantile of a mixture lies between the least and the largest of its parts.
    fn mixture_quantile(&self, p: f64) -> f64 {
        let parts = self.draws().map(|(x, response)| response.quantile(p, x));
        let (mut lower, mut upper) = parts.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), q| {
            (a.min(q), b.max(q))
        });
        if self.likelihood != Likelihood::Gaussian {
            while lower < upper && self.cdf(lower) < p {
                lower += 1.0;
            }
            return lower;
        }
        // Newton's steps, and halves of the bracket where they lead out of it.
        let mut y = 0.5 * (lower + upper);
        for _ in 0..ROUNDS {
            let short = self.cdf(y) - p;
            if short < 0.0 {
                lower = y;
            } else {
                upper = y;
            }
            let density = self.over_draws(|x, response| response.ln_density(y, x).exp());
            let step = short / density;
            let last = y;
            y -= step;
            if !(lower < y && y < upper) {
                y = 0.5 * (lower + upper);
            }
            if (y - last).abs() <= 1e-13 * (upper.abs() + lower.abs()) {
                break;
            }
        }
        y
    }

    /// `n` new entries, noise included, from the stored draws in turn.
    pub fn sample<R: Rng + ?Sized>(&self, n: usize, rng: &mut R) -> Vec<f64> {
        let in_turn = self.draws.iter().cycle().take(n);
        in_turn
            .map(|(x, response)| response.sample(*x, rng))
            .collect()
    }

    /// Everything in short, with intervals that hold `level`.
    ///
    /// # Errors
    /// A level that is not between 0 and 1.
    pub fn summary(&self, level: f64) -> Result<Prediction, BsvdError> {
        let (mean, sd) = mean_and_sd(&self.values());
        Ok(Prediction {
            mean,
            sd,
            interval: self.interval(level)?,
            predictive_sd: sd.hypot(self.noise_variance().sqrt()),
            predictive_interval: self.predictive_interval(level)?,
        })
    }
}

impl BsvdFit {
    /// A cell in short: mean, standard deviation and 90% intervals. Rows and columns by index or by name.
    ///
    /// Cost: rank and features for each stored draw.
    ///
    /// # Errors
    /// A row or column that does not exist; no stored draw.
    pub fn predict<'k>(
        &self,
        row: impl Into<Key<'k>>,
        column: impl Into<Key<'k>>,
    ) -> Result<Prediction, BsvdError> {
        self.cell(row, column)?.summary(LEVEL)
    }

    /// The posterior of a cell: quantiles, samples, densities.
    ///
    /// Cost: rank and features for each stored draw.
    ///
    /// # Errors
    /// A row or column that does not exist; no stored draw.
    pub fn cell<'k>(
        &self,
        row: impl Into<Key<'k>>,
        column: impl Into<Key<'k>>,
    ) -> Result<CellPosterior<'_>, BsvdError> {
        let (i, j) = (self.row(row)?, self.column(column)?);
        Ok(self.posterior(&self.views(1)?, i, j))
    }

    /// Many cells at once, in parallel; values of `cells` are not looked at. Intervals hold `level`.
    ///
    /// Cost: for each cell rank and features for each stored draw, and some twenty looks at each draw for the predictive interval.
    ///
    /// # Errors
    /// A cell that does not exist; no stored draw; a level that is not between 0 and 1.
    pub fn predict_all(&self, cells: &Cells, level: f64) -> Result<Vec<Prediction>, BsvdError> {
        check_level(level)?;
        self.for_cells(cells, |_, cell| cell.summary(level))
    }

    /// Noise-free values of cells in every stored draw, in single precision: one row for each draw, one column for each cell.
    ///
    /// Cost: as [`predict_all`](Self::predict_all), without the intervals; 4 bytes for each draw and cell.
    ///
    /// # Errors
    /// A cell that does not exist; no stored draw.
    pub fn cell_draws(&self, cells: &Cells) -> Result<Vec<Vec<f32>>, BsvdError> {
        cells.check(self.n_rows(), self.n_cols())?;
        let views = self.views(1)?;
        let draw = |view: &View<'_>| -> Vec<f32> {
            let places = cells.rows.iter().zip(&cells.columns);
            places
                .map(|(&i, &j)| {
                    let (i, j) = (i as usize, j as usize);
                    view.response_at(i, j).mean(view.latent(i, j)) as f32
                })
                .collect()
        };
        Ok(parallel::map(&views, draw))
    }

    /// `f` of the number and the posterior of every cell, in order.
    pub(crate) fn for_cells<T: Send>(
        &self,
        cells: &Cells,
        f: impl Fn(usize, &CellPosterior<'_>) -> Result<T, BsvdError> + Sync,
    ) -> Result<Vec<T>, BsvdError> {
        cells.check(self.n_rows(), self.n_cols())?;
        let views = self.views(1)?;
        parallel::try_map(0..cells.len(), |n| {
            let (i, j) = (cells.rows[n] as usize, cells.columns[n] as usize);
            f(n, &self.posterior(&views, i, j))
        })
    }

    fn posterior<'a>(&'a self, views: &[View<'a>], i: usize, j: usize) -> CellPosterior<'a> {
        let draw = |view: &View<'a>| (view.latent(i, j), view.response_at(i, j));
        CellPosterior::new(self.config.likelihood, views.iter().map(draw).collect())
    }
}
