//! The observed entries as the sampler reads them.

use std::sync::Arc;

use npb_infer::ranges::OutOfRange;
use serde::Serialize;

use crate::config::BsvdUnits;
use crate::features::SideInformation;
use crate::grouped::{Cells, NOTHING, in_units, largest, starts, sum};
use crate::likelihood::Likelihood;
use crate::shape::Shape;
use crate::shards::Shards;
use crate::{BsvdConfig, BsvdError};
use npb_data::{Exposure, Features, Rating, Ratings};

/// Training data, prepared: the entries by rows and by columns in single precision, in units of the model, and the features of both sides.
///
/// Holds 16 bytes for each entry; the [`Ratings`] it was made from are not needed any more.
#[derive(Clone, Debug)]
pub struct BsvdData {
    pub(crate) rows: Cells,
    pub(crate) columns: Cells,
    pub(crate) side: SideInformation,
    /// Which rows come to have entries where.
    pub(crate) exposure: Exposure,
    /// What the entries were prepared for.
    pub(crate) likelihood: Likelihood,
    pub(crate) centre: f64,
    pub(crate) scale: f64,
    /// What was observed, by rows, of probit likelihoods: the level (from 0), or the successes.
    pub(crate) outcomes: Vec<u32>,
    /// Trials of each entry, by rows; of the binomial likelihood.
    pub(crate) trials: Vec<u32>,
    /// Square roots of the weights of the entries, by rows and by columns; empty when all are 1.
    pub(crate) roots: (Vec<f32>, Vec<f32>),
    /// Place among the entries by rows of each entry by columns; of probit likelihoods.
    pub(crate) places: Vec<u32>,
    /// Where the entries are, when only their places by rows are here, and numbers of them by columns.
    pub(crate) shards: Option<Arc<Shards>>,
}

impl BsvdData {
    /// What the entries are, for a fingerprint.
    pub(crate) fn content(&self) -> impl Serialize {
        let Cells {
            starts,
            others,
            values,
            ..
        } = &self.rows;
        let entries = (starts, others, values, &self.outcomes, &self.trials);
        (
            entries,
            &self.roots.0,
            self.centre,
            self.scale,
            self.columns.len(),
        )
    }

    /// What values are that are not here: 0 when all are.
    pub(crate) fn content_of_shards(&self) -> u64 {
        self.shards.as_ref().map_or(0, |shards| shards.content)
    }
}

impl BsvdData {
    /// Prepares `ratings` (I x J) and the features of its rows and columns for a fit with `config`.
    ///
    /// # Errors
    /// A configuration out of range, no entry, entries all equal ([`BsvdUnits::Observed`] only), features of another number of rows or columns.
    pub fn new<V: Copy + Into<f64> + Send + Sync>(
        ratings: &Ratings<V>,
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<Self, BsvdError> {
        config.validate()?;
        let n = ratings.n_observed();
        if n == 0 {
            return Err(BsvdError::NoEntries);
        }
        fits("row features", side.rows.as_ref(), ratings.n_rows())?;
        fits("column features", side.columns.as_ref(), ratings.n_cols())?;
        if config.likelihood == Likelihood::Binomial {
            return Err(OutOfRange::new(
                "likelihood",
                "binomial",
                "given with numbers of trials, in Rust alone: see BsvdData::binomial",
            )
            .into());
        }
        let probit = config.likelihood.is_probit();
        let units = if probit {
            (0.0, 1.0)
        } else {
            let values = || ratings.values().iter().map(|&v| Into::<f64>::into(v));
            let largest = || Ok(largest(values()));
            let sum = |unit, mean| Ok(sum(values(), unit, mean, NOTHING));
            units(config.units, n, largest, sum, |_| {
                ratings.values()[0].into()
            })?
        };
        let of_value = |v: &V| in_units((*v).into(), units);
        let mut data = Self::unweighted(ratings, side, config.likelihood, units, of_value)?;
        if let Some(at) = data.rows.values.iter().position(|v| !v.is_finite()) {
            return Err(entry(ratings, at, BEYOND));
        }
        if probit {
            data.outcomes = outcomes(ratings, config.likelihood)?;
            data.places = places(ratings)?;
        }
        Ok(data)
    }

    /// Prepares numbers of successes and of trials of the same cells for a fit with [`Likelihood::Binomial`].
    ///
    /// # Errors
    /// As [`new`](Self::new); another likelihood; cells with successes but no trials or the other way round; numbers that are not whole, no trial, more successes
    /// than trials.
    pub fn binomial<V: Copy + Into<f64> + Send + Sync>(
        successes: &Ratings<V>,
        trials: &Ratings<V>,
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<Self, BsvdError> {
        config.validate()?;
        if config.likelihood != Likelihood::Binomial {
            return Err(OutOfRange::new(
                "likelihood",
                format!("{:?}", config.likelihood),
                "binomial where trials are given",
            )
            .into());
        }
        if successes.n_observed() == 0 {
            return Err(BsvdError::NoEntries);
        }
        fits("row features", side.rows.as_ref(), successes.n_rows())?;
        fits("column features", side.columns.as_ref(), successes.n_cols())?;
        let (outcomes, counts) = counts(successes, trials)?;
        let mut data = Self::unweighted(successes, side, config.likelihood, (0.0, 1.0), |_| 0.0)?;
        data.places = places(successes)?;
        let roots: Vec<f32> = counts.iter().map(|&n| f64::from(n).sqrt() as f32).collect();
        let by_columns = data.places.iter().map(|&at| roots[at as usize]).collect();
        data.roots = (roots, by_columns);
        data.outcomes = outcomes;
        data.trials = counts;
        Ok(data)
    }

    fn unweighted<V: Copy + Into<f64> + Send + Sync>(
        ratings: &Ratings<V>,
        side: SideInformation,
        likelihood: Likelihood,
        (centre, scale): (f64, f64),
        in_units: impl Fn(&V) -> f32 + Sync,
    ) -> Result<Self, BsvdError> {
        let (n_rows, n_cols) = (ratings.n_rows(), ratings.n_cols());
        let rows = Cells::new(
            starts(n_rows, |i| ratings.row(i).0.len()),
            (0..n_rows)
                .flat_map(|i| ratings.row(i).0)
                .copied()
                .collect(),
            ratings.values().iter().map(&in_units).collect(),
        );
        let columns = Cells::new(
            starts(n_cols, |j| ratings.column(j).0.len()),
            (0..n_cols)
                .flat_map(|j| ratings.column(j).0)
                .copied()
                .collect(),
            (0..n_cols)
                .flat_map(|j| ratings.column(j).1)
                .map(&in_units)
                .collect(),
        );
        let lists = (0..n_rows).map(|i| ratings.row(i).0);
        Ok(Self {
            exposure: Exposure::learn(n_cols, lists)?,
            rows,
            columns,
            side,
            likelihood,
            centre,
            scale,
            outcomes: Vec::new(),
            trials: Vec::new(),
            roots: (Vec::new(), Vec::new()),
            places: Vec::new(),
            shards: None,
        })
    }

    /// I.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// J.
    pub fn n_cols(&self) -> usize {
        self.columns.len()
    }

    /// Number of observed entries.
    pub fn n_observed(&self) -> usize {
        self.rows.others.len()
    }

    /// Centre and scale of the units of the model: `(y - centre) / scale`.
    pub fn units(&self) -> (f64, f64) {
        (self.centre, self.scale)
    }

    /// Mean of the entries as they were given, per trial.
    pub(crate) fn mean_entry(&self) -> f64 {
        let first = match self.likelihood {
            Likelihood::Gaussian => {
                let sum = match &self.shards {
                    Some(shards) => shards.sum_of_responses,
                    None => self.rows.values.iter().map(|&y| f64::from(y)).sum(),
                };
                return self.centre + self.scale * sum / self.n_observed() as f64;
            }
            Likelihood::Ordinal { .. } => 1.0,
            Likelihood::Binary | Likelihood::Binomial => 0.0,
        };
        let sum: f64 = self.outcomes.iter().map(|&y| f64::from(y)).sum();
        first + sum / self.total_weight()
    }

    /// Sum of the weights of the entries.
    pub(crate) fn total_weight(&self) -> f64 {
        if self.trials.is_empty() {
            return self.n_observed() as f64;
        }
        self.trials.iter().map(|&n| f64::from(n)).sum()
    }

    /// Sizes of a state of a fit with `config` to these data.
    pub(crate) fn shape(&self, config: &BsvdConfig) -> Shape {
        Shape::of((self.n_rows(), self.n_cols()), &self.side, config)
    }
}

fn fits(what: &'static str, features: Option<&Features>, expected: usize) -> Result<(), BsvdError> {
    match features {
        Some(f) if f.n_rows() != expected => Err(BsvdError::Size {
            what,
            found: f.n_rows(),
            expected,
        }),
        _ => Ok(()),
    }
}

/// Centre and scale: mean and standard deviation of the entries, or what was given.
///
/// `largest`: absolute value of them; `sum`: of the values over a unit, or when there is a mean of squared deviations from it, in order by rows; `first`: value.
pub(crate) fn units(
    units: BsvdUnits,
    entries: usize,
    largest: impl FnOnce() -> Result<f64, BsvdError>,
    sum: impl Fn(f64, Option<f64>) -> Result<f64, BsvdError>,
    first: impl FnOnce(f64) -> f64,
) -> Result<(f64, f64), BsvdError> {
    let (centre, scale) = match units {
        BsvdUnits::Given { centre, scale } => (centre, scale),
        BsvdUnits::Observed => {
            // Relative to the largest value, so that squares of 1e300 stay finite.
            let largest = largest()?;
            let n = entries as f64;
            let unit = if largest > 0.0 { largest } else { 1.0 };
            let mean = sum(unit, None)? / n;
            let variance = sum(unit, Some(mean))? / n;
            (mean * unit, variance.sqrt() * unit)
        }
    };
    if scale.is_finite() && scale > 1e-12 * centre.abs() {
        return Ok((centre, scale));
    }
    Err(BsvdError::Constant {
        value: first(centre),
        entries,
    })
}

pub(crate) const BEYOND: &str =
    "is beyond single precision in the units of the model: choose other units";

/// The error about entry number `at` of the rows.
fn entry<V: Copy + Into<f64> + Send + Sync>(
    ratings: &Ratings<V>,
    at: usize,
    rule: &'static str,
) -> BsvdError {
    let found = ratings.iter().nth(at);
    let (row, column) = found.map_or((0, 0), |e| (e.row as usize, e.column as usize));
    BsvdError::Entry {
        row,
        column,
        value: ratings.values()[at].into(),
        rule,
    }
}

/// Levels from 0, or zeros and ones.
fn outcomes<V: Copy + Into<f64> + Send + Sync>(
    ratings: &Ratings<V>,
    likelihood: Likelihood,
) -> Result<Vec<u32>, BsvdError> {
    let (first, count, rule) = match likelihood {
        Likelihood::Ordinal { levels } => (1.0, levels, "is not one of the levels 1, ..., L"),
        _ => (0.0, 2, "is not 0 or 1"),
    };
    let outcome = |(at, &value): (usize, &V)| {
        let level = Into::<f64>::into(value) - first;
        if level.fract() == 0.0 && level >= 0.0 && level < f64::from(count) {
            Ok(level as u32)
        } else {
            Err(entry(ratings, at, rule))
        }
    };
    ratings.values().iter().enumerate().map(outcome).collect()
}

/// Successes and trials of each entry.
pub(crate) fn counts<V: Copy + Into<f64> + Send + Sync>(
    successes: &Ratings<V>,
    trials: &Ratings<V>,
) -> Result<(Vec<u32>, Vec<u32>), BsvdError> {
    for (what, found, expected) in [
        ("rows of the trials", trials.n_rows(), successes.n_rows()),
        ("columns of the trials", trials.n_cols(), successes.n_cols()),
    ] {
        if found != expected {
            return Err(BsvdError::Size {
                what,
                found,
                expected,
            });
        }
    }
    let (mut counted, mut totals) = (Vec::new(), Vec::new());
    let mut pairs = trials.iter();
    for (at, success) in successes.iter().enumerate() {
        let pair = pairs.next();
        let same = |trial: &Rating<V>| (trial.row, trial.column) == (success.row, success.column);
        let Some(trial) = pair.filter(same) else {
            let rule =
                "successes, but the trials are not of the same cells (every cell needs both)";
            return Err(entry(successes, at, rule));
        };
        let h = count(successes, at, success.value.into())?;
        let n = count(trials, at, trial.value.into())?;
        if n == 0 {
            return Err(entry(trials, at, "trials: leave the cell out"));
        }
        if h > n {
            let rule = "successes are more than the trials of the cell";
            return Err(entry(successes, at, rule));
        }
        counted.push(h);
        totals.push(n);
    }
    if pairs.next().is_some() {
        return Err(entry(
            trials,
            successes.n_observed(),
            "trials, but no number of successes (0 must be given)",
        ));
    }
    Ok((counted, totals))
}

/// A count of an entry.
fn count<V: Copy + Into<f64> + Send + Sync>(
    ratings: &Ratings<V>,
    at: usize,
    value: f64,
) -> Result<u32, BsvdError> {
    if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
        return Ok(value as u32);
    }
    Err(entry(ratings, at, "is not a count"))
}

fn places<V: Copy + Into<f64> + Send + Sync>(ratings: &Ratings<V>) -> Result<Vec<u32>, BsvdError> {
    let entries = ratings.n_observed();
    let limit = u32::MAX as usize;
    if entries > limit {
        return Err(BsvdError::TooMany { entries, limit });
    }
    let columns = 0..ratings.n_cols();
    Ok(columns
        .flat_map(|j| ratings.column_positions(j))
        .map(|&at| at as u32)
        .collect())
}
