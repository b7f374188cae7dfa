//! What `q` is a distribution of: finitely many models, or a Gaussian vector.

use npb_linalg::faer::{Mat, MatRef};
use npb_linalg::{Cholesky, dot};
use npb_priors::special::log_sum_exp;

use super::dual::{PrincipleLimits, Regularised, solve};
use super::exponential::Exponential;
use super::penalty::Constraint;
use crate::error::{RegBayesError, same_size};

/// Finitely many models with weights `p(M, D)` (prior times likelihood, not normalised) and features `psi(M)`.
#[derive(Clone, Debug, PartialEq)]
pub struct FiniteSpace {
    ln_weights: Vec<f64>,
    /// A column per feature.
    features: Vec<Vec<f64>>,
}

impl FiniteSpace {
    /// `ln_weights`: one per model, minus infinity for models that are excluded. `features`: `n_models x n_features`, row-major.
    ///
    /// # Errors
    /// Sizes that do not fit; a weight that is NaN or infinite, or none above zero; a feature that is not finite.
    pub fn new(
        ln_weights: Vec<f64>,
        features: Vec<f64>,
        n_features: usize,
    ) -> Result<Self, RegBayesError> {
        same_size(
            "numbers in the features",
            features.len(),
            ln_weights.len() * n_features,
        )?;
        let wrong = |w: &f64| w.is_nan() || *w == f64::INFINITY;
        if let Some(row) = ln_weights.iter().position(wrong) {
            return Err(RegBayesError::row(
                "ln_weights",
                row,
                ln_weights[row],
                "a logarithm: finite, or minus infinity for a weight of 0",
            ));
        }
        let some = ln_weights.iter().any(|w| w.is_finite());
        same_size("models of positive weight", usize::from(some), 1)?;
        if let Some(k) = features.iter().position(|x| !x.is_finite()) {
            return Err(RegBayesError::entry(
                "features",
                (k / n_features, k % n_features),
                features[k],
                "a finite number",
            ));
        }
        let column = |t: usize| features.iter().skip(t).step_by(n_features).copied();
        Ok(Self {
            features: (0..n_features).map(|t| column(t).collect()).collect(),
            ln_weights,
        })
    }

    /// The distribution over the models that minimises `KL(q || p) + sum g(E_q[psi])`. Cost of a pass: models x features of constraints, times about a
    /// hundred.
    ///
    /// # Errors
    /// A constraint whose sizes or values are wrong; [`RegBayesError::Infeasible`] when hard constraints cannot be met, or only in the limit.
    pub fn regularise(
        &self,
        constraints: &[Constraint],
        limits: &PrincipleLimits,
    ) -> Result<Regularised, RegBayesError> {
        let mut tilted = Tilted {
            space: self,
            ln_weights: self.ln_weights.clone(),
        };
        solve(&mut tilted, constraints, limits)
    }
}

struct Tilted<'a> {
    space: &'a FiniteSpace,
    ln_weights: Vec<f64>,
}

impl Exponential for Tilted<'_> {
    fn n_features(&self) -> usize {
        self.space.features.len()
    }

    fn expectation_after(&self, feature: usize, step: f64) -> f64 {
        let psi = &self.space.features[feature];
        let exponents = || self.ln_weights.iter().zip(psi).map(|(w, x)| w + step * x);
        let most = exponents().fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut sum) = (0.0, 0.0);
        for (exponent, x) in exponents().zip(psi) {
            let weight = (exponent - most).exp();
            total += weight;
            sum += weight * x;
        }
        sum / total
    }

    fn range(&self, feature: usize) -> (f64, f64) {
        let models = self.ln_weights.iter().zip(&self.space.features[feature]);
        let values = models.filter(|(w, _)| w.is_finite()).map(|(_, x)| *x);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| {
            (least.min(x), most.max(x))
        })
    }

    fn shift(&mut self, feature: usize, step: f64) {
        let psi = &self.space.features[feature];
        let models = self.ln_weights.iter_mut().zip(psi);
        models.for_each(|(w, x)| *w += step * x);
    }

    fn ln_partition(&self) -> f64 {
        log_sum_exp(&self.ln_weights)
    }

    fn posterior(&self) -> Vec<f64> {
        let total = self.ln_partition();
        self.ln_weights.iter().map(|w| (w - total).exp()).collect()
    }

    fn largest_divergence(&self) -> f64 {
        let finite = self.space.ln_weights.iter().filter(|w| w.is_finite());
        finite.fold(f64::NEG_INFINITY, |most, w| most.max(-w))
    }

    fn largest(&self, features: &[usize], of: &dyn Fn(&[f64]) -> f64) -> f64 {
        let models = (0..self.ln_weights.len()).filter(|&m| self.ln_weights[m].is_finite());
        models
            .map(|m| {
                let values: Vec<f64> = features
                    .iter()
                    .map(|&t| self.space.features[t][m])
                    .collect();
                of(&values)
            })
            .fold(0.0, f64::max)
    }
}

/// A Gaussian vector `eta ~ N(mean, covariance)` with linear features `psi_t = a_t' eta`: the regularised posterior is `N(mean + covariance A' phi, covariance)`.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianFactor {
    mean: Vec<f64>,
    features: Vec<Vec<f64>>,
    /// `covariance a_t`, a row per feature.
    images: Vec<Vec<f64>>,
}

impl GaussianFactor {
    /// `covariance`: symmetric positive definite. `features`: the `a_t`, `n_features x dim`, row-major.
    ///
    /// # Errors
    /// Sizes that do not fit, values that are not finite, a covariance that is not positive definite.
    pub fn new(
        mean: Vec<f64>,
        covariance: MatRef<'_, f64>,
        features: &[f64],
    ) -> Result<Self, RegBayesError> {
        let dim = mean.len();
        for (what, found, expected) in [
            ("rows of the covariance", covariance.nrows(), dim),
            ("columns of the covariance", covariance.ncols(), dim),
            (
                "numbers in the features",
                features.len(),
                features.len() / dim.max(1) * dim,
            ),
        ] {
            same_size(what, found, expected)?;
        }
        let numbers = mean.iter().chain(features);
        if let Some(&value) = numbers.clone().find(|x| !x.is_finite()) {
            return Err(RegBayesError::NotFinite {
                iteration: 0,
                what: "mean or feature",
                value,
            });
        }
        Cholesky::new(covariance).map_err(|e| RegBayesError::numerical(0, "covariance", &e))?;
        let covariance: Mat<f64> = covariance.to_owned();
        let features: Vec<Vec<f64>> = features.chunks(dim.max(1)).map(<[f64]>::to_vec).collect();
        let image = |a: &Vec<f64>| {
            let row = |i: usize| (0..dim).map(|j| covariance[(i, j)] * a[j]).sum();
            (0..dim).map(row).collect()
        };
        Ok(Self {
            images: features.iter().map(image).collect(),
            mean,
            features,
        })
    }

    /// The Gaussian closest to this one that meets the constraints: its mean, as [`Regularised::posterior`].
    ///
    /// # Errors
    /// As [`FiniteSpace::regularise`]; contradictions are found when hard constraints are still missed after the largest number of passes.
    pub fn regularise(
        &self,
        constraints: &[Constraint],
        limits: &PrincipleLimits,
    ) -> Result<Regularised, RegBayesError> {
        let mut moved = Moved {
            factor: self,
            mean: self.mean.clone(),
            ln_partition: 0.0,
        };
        solve(&mut moved, constraints, limits)
    }
}

/// More nats than any sensible constraint costs.
const MOST_NATS: f64 = 1e8;

struct Moved<'a> {
    factor: &'a GaussianFactor,
    mean: Vec<f64>,
    ln_partition: f64,
}

impl Exponential for Moved<'_> {
    fn n_features(&self) -> usize {
        self.factor.features.len()
    }

    fn expectation_after(&self, feature: usize, step: f64) -> f64 {
        let a = &self.factor.features[feature];
        dot(a, &self.mean) + step * dot(a, &self.factor.images[feature])
    }

    fn range(&self, _: usize) -> (f64, f64) {
        (f64::NEG_INFINITY, f64::INFINITY)
    }

    fn shift(&mut self, feature: usize, step: f64) {
        let half_way = self.expectation_after(feature, 0.5 * step);
        self.ln_partition += step * half_way;
        let image = &self.factor.images[feature];
        self.mean
            .iter_mut()
            .zip(image)
            .for_each(|(m, v)| *m += step * v);
    }

    fn ln_partition(&self) -> f64 {
        self.ln_partition
    }

    fn posterior(&self) -> Vec<f64> {
        self.mean.clone()
    }

    fn largest_divergence(&self) -> f64 {
        MOST_NATS
    }

    fn largest(&self, _: &[usize], _: &dyn Fn(&[f64]) -> f64) -> f64 {
        MOST_NATS
    }
}
