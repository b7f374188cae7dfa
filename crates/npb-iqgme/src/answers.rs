//! What every fit answers with, and the checks of what it is asked.

use npb_data::Table;
use npb_infer::Interval;
use npb_infer::diagnostics::quantile;
use npb_linalg::faer::Mat;
use npb_priors::special::ln_add_exp;

use crate::predict::CellTerm;
use crate::{IqgmeError, Result};

/// What to ask instead of the second of two classes.
pub(crate) const ALL_CLASSES: &str = "predict_classes gives the probabilities of all of them";
pub(crate) const ALL_INTERVALS: &str = "predict_class_intervals gives the intervals of all of them";

/// Of equally probable classes the first.
pub(crate) fn most_probable(p: &[f64]) -> usize {
    (0..p.len()).fold(0, |best, k| if p[k] > p[best] { k } else { best })
}

/// The most probable component of each row.
pub(crate) fn most_probable_of(responsibilities: Vec<Vec<f64>>) -> Vec<usize> {
    responsibilities.iter().map(|r| most_probable(r)).collect()
}

/// Probabilities of all classes from those of all but the first.
pub(crate) fn with_first_class(others: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let of_row = |mut others: Vec<f64>| {
        let sum: f64 = others.iter().sum();
        // Integrals may sum to more by their errors.
        if sum > 1.0 {
            others.iter_mut().for_each(|p| *p /= sum);
        }
        others.insert(0, (1.0 - sum).max(0.0));
        others
    };
    others.into_iter().map(of_row).collect()
}

/// A completed table. Where a fit reports something else than means and standard deviations, as [`FactorFit::impute`](crate::FactorFit::impute) does, it says so.
#[derive(Clone, Debug)]
pub struct Imputation {
    /// Missing cells hold their posterior means. A column that had no observed value in training stays missing.
    pub completed: Table,
    /// Posterior standard deviations; zero at cells that were observed.
    pub sd: Table,
}

/// A missing cell given the observed cells of its row, in the user's units.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingCell {
    /// Its column in the table.
    pub column: usize,
    /// Posterior mean.
    pub mean: f64,
    /// Posterior standard deviation.
    pub sd: f64,
    /// Its distribution: a mixture, with the components of every run that has weight; of Student-t, or of normals where parameters are points or draws
    /// ([`QgmeFit`](crate::QgmeFit), [`GibbsFit`](crate::GibbsFit)).
    pub terms: Vec<CellTerm>,
}

impl MissingCell {
    /// Widens its distribution about its mean.
    pub(crate) fn stretch(&mut self, factor: f64) {
        self.sd *= factor;
        for term in &mut self.terms {
            term.mean = self.mean + factor * (term.mean - self.mean);
            term.sd *= factor;
        }
    }

    /// The share of its distribution that lies below `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        let (below, total) = self.terms.iter().fold((0.0, 0.0), |(below, total), term| {
            (below + term.weight * term.below(x), total + term.weight)
        });
        below / total
    }

    /// The value below which this share of its distribution lies. Errors: a `level` that is not between 0 and 1, both excluded: the distribution has no
    /// ends.
    pub fn quantile(&self, level: f64) -> Result<f64> {
        check_inside("level", level)?;
        let below = |x: f64| self.cdf(x);
        let (mut low, mut high) = (self.mean, self.mean);
        let mut reach = self.sd.max(f64::MIN_POSITIVE);
        while below(low) > level && reach.is_finite() {
            (low, reach) = (low - reach, 2.0 * reach);
        }
        let mut reach = self.sd.max(f64::MIN_POSITIVE);
        while below(high) < level && reach.is_finite() {
            (high, reach) = (high + reach, 2.0 * reach);
        }
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            match below(middle) < level {
                true => low = middle,
                false => high = middle,
            }
        }
        Ok(0.5 * (low + high))
    }
}

/// A component in the user's units.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentSummary {
    /// Posterior mean of its weight.
    pub weight: f64,
    /// Posterior standard deviation of its weight.
    pub weight_sd: f64,
    /// Expected number of training rows.
    pub size: f64,
    /// Posterior mean of its mean, for the columns of [`IqgmeFit::model_columns`](crate::IqgmeFit::model_columns).
    pub mean: Vec<f64>,
    /// Posterior mean of its covariance.
    pub covariance: Mat<f64>,
    /// Its classifier; none without labels or with more than two classes.
    pub classifier: Option<ClassifierSummary>,
    /// With more than two classes: the classifiers of all classes but the first, by utility. Empty with two classes.
    pub utilities: Vec<ClassifierSummary>,
}

/// A component's probit classifier: of the second of two classes or, with more, of the utility of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierSummary {
    /// Change of the probit score for one standard deviation (of the training column) of each feature: comparable between features.
    pub effects: Vec<f64>,
    /// Posterior standard deviations of the effects.
    pub effect_sds: Vec<f64>,
    /// Coefficients in the user's units.
    pub coefficients: Vec<f64>,
    /// Intercept in the user's units.
    pub intercept: f64,
}

/// Of the second of two classes.
pub(crate) fn second(probabilities: Vec<Vec<f64>>) -> Vec<f64> {
    probabilities.into_iter().map(|p| p[1]).collect()
}

/// Draws are kept until all of them are there.
pub(crate) fn check_draws(draws: usize) -> Result<()> {
    if (1..=100_000).contains(&draws) {
        return Ok(());
    }
    let rule = "between 1 and 100000";
    Err(IqgmeError::argument("draws", draws, rule))
}

/// Mean and standard deviation of a mixture.
pub(crate) fn mixture_moments(terms: &[CellTerm]) -> (f64, f64) {
    let mean: f64 = terms.iter().map(|t| t.weight * t.mean).sum();
    let square = |t: &CellTerm| t.weight * (t.sd * t.sd + (t.mean - mean).powi(2));
    let variance: f64 = terms.iter().map(square).sum();
    (mean, variance.sqrt())
}

/// A share, but neither nothing nor all.
pub(crate) fn check_inside(argument: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    let (value, rule) = (format!("{value:?}"), "between 0 and 1 (both excluded)");
    Err(IqgmeError::argument(argument, value, rule))
}

/// Adds a mixture of this weight to log densities of rows: the logarithm of the sum.
pub(crate) fn add_density(sums: &mut [f64], weight: f64, own: Vec<f64>) {
    for (sum, own) in sums.iter_mut().zip(own) {
        *sum = ln_add_exp(*sum, weight.ln() + own);
    }
}

/// Levels of quantiles of draws, of which the least and the largest are quantiles, too.
pub(crate) fn check_levels(levels: &[f64]) -> Result<()> {
    levels.iter().try_for_each(|level| {
        let wrong = || IqgmeError::argument("levels", format!("{level:?}"), "between 0 and 1");
        let inside = (0.0..=1.0).contains(level);
        inside.then_some(()).ok_or_else(wrong)
    })
}

/// Central intervals that hold `level` of the draws of the probabilities of all classes, and given means: `means` by row and class, `drawn` by draw, row and class.
pub(crate) fn class_intervals(
    means: Vec<Vec<f64>>,
    drawn: &[Vec<Vec<f64>>],
    level: f64,
) -> Vec<Vec<Interval>> {
    let of_row = |(row, means): (usize, Vec<f64>)| {
        let of_class = |(class, mean): (usize, f64)| {
            let values = drawn.iter().map(|draw| draw[row][class]);
            central_interval(mean, values.collect(), level)
        };
        means.into_iter().enumerate().map(of_class).collect()
    };
    means.into_iter().enumerate().map(of_row).collect()
}

fn central_interval(mean: f64, values: Vec<f64>, level: f64) -> Interval {
    let ends = quantiles(values, &[0.5 - 0.5 * level, 0.5 + 0.5 * level]);
    Interval {
        lower: ends[0].min(mean),
        upper: ends[1].max(mean),
        level,
    }
}

/// Quantiles of draws.
pub(crate) fn quantiles(mut values: Vec<f64>, levels: &[f64]) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    levels.iter().map(|&p| quantile(&values, p)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_below_are_those_of_the_mixture() {
        let term = |weight, mean, sd, dof| CellTerm {
            weight,
            mean,
            sd,
            dof,
        };
        let cell = |terms: &[CellTerm]| MissingCell {
            column: 0,
            mean: 0.0,
            sd: 1.0,
            terms: terms.to_vec(),
        };
        let normal = cell(&[term(1.0, 3.0, 2.0, f64::INFINITY)]);
        assert!((normal.cdf(3.0 + 2.0 * 1.959_964) - 0.975).abs() < 1e-6);
        assert!((normal.cdf(3.0 - 2.0 * 1.959_964) - 0.025).abs() < 1e-6);
        // The sd is that of the Student-t, not its scale: with 4 degrees of freedom the scale is 3 and t = 2.776 has 2.5% above it.
        let heavy = cell(&[term(1.0, 0.0, 3.0 * 2.0_f64.sqrt(), 4.0)]);
        assert!((heavy.cdf(3.0 * 2.776_445) - 0.975).abs() < 1e-6);
        // A quarter is far below, so that the rest has a third of its mass below the median of the whole.
        let two = cell(&[
            term(0.5, -10.0, 1.0, f64::INFINITY),
            term(1.5, 10.0, 1.0, f64::INFINITY),
        ]);
        assert!((two.cdf(0.0) - 0.25).abs() < 1e-9);
        assert!((two.quantile(0.5).unwrap() - (10.0 - 0.430_727)).abs() < 1e-5);
    }

    #[test]
    fn densities_are_added_by_weight() {
        let mut density = vec![f64::NEG_INFINITY; 2];
        for (weight, own) in [(0.25, 0.2_f64), (0.75, 0.7)] {
            add_density(&mut density, weight, vec![own.ln(); 2]);
        }
        assert!((density[1] - (0.25 * 0.2_f64 + 0.75 * 0.7).ln()).abs() < 1e-12);
    }
}
