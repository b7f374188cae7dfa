//! Logistic regression with the missing cells integrated out.

use npb_data::Table;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use crate::error::{labelled, positive};
use crate::mixture::{GaussianMixture, MixtureConfig};
use crate::{BaselineError, LogisticConfig, LogisticRegression};

const WHAT: &str = "logistic regression with integration";
/// π / 8: σ averaged over N(m, v) is close to σ(m / sqrt(1 + π v / 8)) (MacKay, 1992).
const SHRINK: f64 = std::f64::consts::PI / 8.0;
/// Pairs of steps that the optimiser remembers.
const MEMORY: usize = 10;

/// Settings of [`IntegratedLogistic`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IntegratedConfig {
    /// The law of the columns.
    pub mixture: MixtureConfig,
    /// The regression; `tolerance` and `iterations` are those of its start alone.
    pub logistic: LogisticConfig,
}

/// Two stages (Williams, Liao, Xue, Carin, Krishnapuram, IEEE TPAMI 29, 2007): a Gaussian mixture for the columns, then the weights
/// that minimise w'w / 2 - C sum_i ln P(y_i | observed cells of row i), with
///
/// P(y | x_o) = sum_k P(k | x_o) ∫ σ(y (w'x + b)) N(x_m; conditional mean and covariance in component k) dx_m.
///
/// The integral uses MacKay's approximation; on complete rows this is [`LogisticRegression`]. Holes at prediction are integrated
/// over in the same way. The objective is not convex: it starts from the regression after conditional means.
///
/// ```
/// use npb_baselines::{IntegratedConfig, IntegratedLogistic};
/// use npb_data::Table;
///
/// let nan = f64::NAN;
/// let x = Table::from_nan_coded(6, 2, &[-2.0, -1.8, -1.0, nan, -0.5, -0.6, 0.4, nan, 1.2, 1.0, nan, 2.0])?;
/// let labels = [false, false, false, true, true, true];
/// let model = IntegratedLogistic::fit(&x, &labels, &IntegratedConfig::default())?;
/// let p = model.probability(&x)?;
/// assert!(p[0] < 0.5 && p[5] > 0.5);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct IntegratedLogistic {
    mixture: GaussianMixture,
    /// Weights, then the intercept.
    coefficients: Vec<f64>,
}

impl IntegratedLogistic {
    /// Fits to rows that may have holes; `labels` has one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::LabelCount`], [`BaselineError::OneClass`],
    /// [`BaselineError::NotPositiveDefinite`], [`BaselineError::NotFinite`].
    pub fn fit(
        train: &Table,
        labels: &[bool],
        config: &IntegratedConfig,
    ) -> Result<Self, BaselineError> {
        positive("c", config.logistic.c)?;
        positive("tolerance", config.logistic.tolerance)?;
        labelled(train, labels)?;
        let mixture = GaussianMixture::fit(train, &config.mixture)?;
        let filled = mixture.transform(train)?;
        let start = LogisticRegression::fit(&filled, labels, &config.logistic)?;
        let problem = Problem {
            rows: Rows::new(&mixture, train)?,
            signs: labels.iter().map(|&l| if l { 1.0 } else { -1.0 }).collect(),
            c: config.logistic.c,
        };
        let start = [start.weights(), &[start.intercept()]].concat();
        let coefficients = minimise(start, |x| problem.value(x))?;
        Ok(Self {
            mixture,
            coefficients,
        })
    }

    /// Probability of the positive class for every row of `table` (columns as in training, holes allowed).
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::NotPositiveDefinite`].
    pub fn probability(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(self.mixture.column_names())?;
        let rows = Rows::new(&self.mixture, table)?;
        let p = |terms: &[Term]| {
            let of = |t: &Term| t.share * sigmoid(rows.margin(t, &self.coefficients).value);
            terms.iter().map(of).sum()
        };
        Ok(rows.terms.iter().map(|terms| p(terms)).collect())
    }

    /// Weights, one per column.
    pub fn weights(&self) -> &[f64] {
        &self.coefficients[..self.coefficients.len() - 1]
    }

    /// Intercept.
    pub fn intercept(&self) -> f64 {
        self.coefficients[self.coefficients.len() - 1]
    }

    /// The mixture of the first stage.
    pub fn mixture(&self) -> &GaussianMixture {
        &self.mixture
    }
}

/// One component's account of one row.
struct Term {
    share: f64,
    /// The row with conditional means in its holes.
    row: Vec<f64>,
    /// Position among the spreads.
    spread: usize,
}

/// Accounts of all rows; rows with the same holes share their spreads.
struct Rows {
    /// By row, then by component.
    terms: Vec<Vec<Term>>,
    /// Missing columns and their covariance.
    spreads: Vec<(Vec<usize>, Mat<f64>)>,
}

/// (m + b) / sqrt(1 + π v / 8) and what its gradient needs.
struct Margin {
    value: f64,
    /// m + b.
    mean: f64,
    /// sqrt(1 + π v / 8).
    scale: f64,
}

impl Rows {
    fn new(mixture: &GaussianMixture, table: &Table) -> Result<Self, BaselineError> {
        let patterns = table.patterns();
        let k = mixture.n_components();
        let mut terms: Vec<Vec<Term>> = Vec::new();
        terms.resize_with(table.n_rows(), Vec::new);
        let mut spreads: Vec<(Vec<usize>, Mat<f64>)> = Vec::new();
        let mut pattern = None;
        mixture.for_each_row(table, &patterns, 0, |row| {
            let of_row = patterns.pattern_of_row(row.row);
            if pattern != Some(of_row) {
                pattern = Some(of_row);
                let of = |spread: &Mat<f64>| (row.missing.to_vec(), spread.clone());
                spreads.extend(row.spreads.iter().map(of));
            }
            let first = spreads.len() - k;
            terms[row.row] = (0..k)
                .map(|c| Term {
                    share: row.shares[c],
                    row: row.completed[c].clone(),
                    spread: first + c,
                })
                .collect();
        })?;
        Ok(Self { terms, spreads })
    }

    /// C w for the missing columns of a spread.
    fn pushed(&self, spread: usize, coefficients: &[f64]) -> Vec<f64> {
        let (missing, covariance) = &self.spreads[spread];
        let row = |a: usize| {
            let terms = missing.iter().enumerate();
            terms
                .map(|(b, &j)| covariance[(a, b)] * coefficients[j])
                .sum()
        };
        (0..missing.len()).map(row).collect()
    }

    fn variance(&self, spread: usize, coefficients: &[f64]) -> f64 {
        let pushed = self.pushed(spread, coefficients);
        let missing = self.spreads[spread].0.iter();
        missing.zip(pushed).map(|(&j, v)| coefficients[j] * v).sum()
    }

    fn margin(&self, term: &Term, coefficients: &[f64]) -> Margin {
        self.margin_given(term, coefficients, self.variance(term.spread, coefficients))
    }

    fn margin_given(&self, term: &Term, coefficients: &[f64], variance: f64) -> Margin {
        let intercept = coefficients[term.row.len()];
        let products = term.row.iter().zip(coefficients);
        let mean = products.map(|(x, w)| x * w).sum::<f64>() + intercept;
        let scale = (1.0 + SHRINK * variance.max(0.0)).sqrt();
        Margin {
            value: mean / scale,
            mean,
            scale,
        }
    }
}

struct Problem {
    rows: Rows,
    signs: Vec<f64>,
    c: f64,
}

impl Problem {
    /// Objective and gradient, per row so that tolerances do not depend on the number of rows.
    fn value(&self, coefficients: &[f64]) -> (f64, Vec<f64>) {
        let p = coefficients.len() - 1;
        let spreads = 0..self.rows.spreads.len();
        let variances: Vec<f64> = spreads
            .clone()
            .map(|s| self.rows.variance(s, coefficients))
            .collect();
        let mut objective = 0.5 * coefficients[..p].iter().map(|w| w * w).sum::<f64>();
        let mut gradient = coefficients.to_vec();
        gradient[p] = 0.0;
        // Derivative of the objective by the variance of each spread.
        let mut by_variance = vec![0.0; self.rows.spreads.len()];
        for (terms, sign) in self.rows.terms.iter().zip(&self.signs) {
            let margins: Vec<Margin> = terms
                .iter()
                .map(|t| self.rows.margin_given(t, coefficients, variances[t.spread]))
                .collect();
            let shares: Vec<f64> = terms
                .iter()
                .zip(&margins)
                .map(|(t, m)| t.share * sigmoid(sign * m.value))
                .collect();
            let total = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            objective -= self.c * total.ln();
            for ((term, margin), share) in terms.iter().zip(&margins).zip(&shares) {
                // d(-C ln P) / d margin.
                let slope = -self.c * share / total * sign * sigmoid(-sign * margin.value);
                let by_mean = slope / margin.scale;
                for (g, x) in gradient.iter_mut().zip(&term.row) {
                    *g += by_mean * x;
                }
                gradient[p] += by_mean;
                by_variance[term.spread] -=
                    slope * margin.mean * SHRINK / (2.0 * margin.scale.powi(3));
            }
        }
        for s in spreads {
            let pushed = self.rows.pushed(s, coefficients);
            for (&j, v) in self.rows.spreads[s].0.iter().zip(pushed) {
                gradient[j] += 2.0 * by_variance[s] * v;
            }
        }
        let n = self.signs.len() as f64;
        gradient.iter_mut().for_each(|g| *g /= n);
        (objective / n, gradient)
    }
}

fn sigmoid(z: f64) -> f64 {
    (-crate::logistic::softplus(-z)).exp()
}

/// A local minimum by limited-memory BFGS with halved steps (Nocedal and Wright, algorithm 7.5).
fn minimise(
    start: Vec<f64>,
    value: impl Fn(&[f64]) -> (f64, Vec<f64>),
) -> Result<Vec<f64>, BaselineError> {
    const ITERATIONS: usize = 500;
    const GRADIENT: f64 = 1e-8;
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let mut here = start;
    let (mut height, mut gradient) = value(&here);
    // Steps, changes of the gradient, and their products.
    let mut pairs: Vec<(Vec<f64>, Vec<f64>, f64)> = Vec::new();
    for iteration in 0..ITERATIONS {
        if !height.is_finite() {
            let what = WHAT;
            return Err(BaselineError::NotFinite { what, iteration });
        }
        if gradient.iter().all(|g| g.abs() <= GRADIENT) {
            break;
        }
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut shares = vec![0.0; pairs.len()];
        for (share, (step, change, product)) in shares.iter_mut().zip(&pairs).rev() {
            *share = dot(step, &direction) / product;
            let moved = direction.iter_mut().zip(change);
            moved.for_each(|(d, y)| *d -= *share * y);
        }
        if let Some((_, change, product)) = pairs.last() {
            let scale = product / dot(change, change);
            direction.iter_mut().for_each(|d| *d *= scale);
        }
        for (share, (step, change, product)) in shares.iter().zip(&pairs) {
            let back = share - dot(change, &direction) / product;
            let moved = direction.iter_mut().zip(step);
            moved.for_each(|(d, s)| *d += back * s);
        }
        let slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            // Only rounding brings this about; begin again with the gradient.
            if pairs.is_empty() {
                break;
            }
            pairs.clear();
            continue;
        }
        let mut scale = 1.0;
        let found = loop {
            let there: Vec<f64> = here
                .iter()
                .zip(&direction)
                .map(|(x, d)| x + scale * d)
                .collect();
            let (new_height, new_gradient) = value(&there);
            if new_height <= height + 1e-4 * scale * slope {
                break Some((there, new_height, new_gradient));
            }
            scale *= 0.5;
            if scale < 1e-12 {
                break None;
            }
        };
        let Some((there, new_height, new_gradient)) = found else {
            break;
        };
        let difference =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
        let (step, change) = (
            difference(&there, &here),
            difference(&new_gradient, &gradient),
        );
        let product = dot(&step, &change);
        if product > 1e-300 {
            if pairs.len() == MEMORY {
                pairs.remove(0);
            }
            pairs.push((step, change, product));
        }
        (here, height, gradient) = (there, new_height, new_gradient);
    }
    Ok(here)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(i: usize, j: usize) -> f64 {
        ((i * 7 + j * 13 + i * j * 5) % 23) as f64 / 10.0 - 1.0 + 0.3 * (i % 2) as f64
    }

    fn table(holes: bool) -> (Table, Vec<bool>) {
        let value = |i: usize, j: usize| match holes && (i * 3 + j * 5).is_multiple_of(7) {
            true => f64::NAN,
            false => cell(i, j),
        };
        let cells: Vec<f64> = (0..40)
            .flat_map(|i| (0..3).map(move |j| value(i, j)))
            .collect();
        let labels = (0..40).map(|i| i % 2 == 1).collect();
        (Table::from_nan_coded(40, 3, &cells).unwrap(), labels)
    }

    #[test]
    fn complete_rows_give_logistic_regression() {
        let (table, labels) = table(false);
        let model = IntegratedLogistic::fit(&table, &labels, &IntegratedConfig::default()).unwrap();
        let plain = LogisticRegression::fit(&table, &labels, &LogisticConfig::default()).unwrap();
        for (a, b) in model.weights().iter().zip(plain.weights()) {
            assert!((a - b).abs() < 1e-6);
        }
        let scores = plain.decision(&table).unwrap();
        for (p, s) in model.probability(&table).unwrap().iter().zip(scores) {
            assert!((p - sigmoid(s)).abs() < 1e-6);
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_objective() {
        let (table, labels) = table(true);
        let mixture = GaussianMixture::fit(&table, &MixtureConfig::default()).unwrap();
        let problem = Problem {
            rows: Rows::new(&mixture, &table).unwrap(),
            signs: labels.iter().map(|&l| if l { 1.0 } else { -1.0 }).collect(),
            c: 2.0,
        };
        let at = [0.7, -1.3, 0.4, 0.2];
        let (_, gradient) = problem.value(&at);
        for j in 0..4 {
            let moved = |by: f64| {
                let mut x = at;
                x[j] += by;
                problem.value(&x).0
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (slope - gradient[j]).abs() < 1e-8,
                "{j}: {slope} {}",
                gradient[j]
            );
        }
    }

    /// The probability of a row with a hole against a fine sum over the hole's law.
    #[test]
    fn probabilities_are_averages_over_the_hole() {
        let (table, labels) = table(true);
        let model = IntegratedLogistic::fit(&table, &labels, &IntegratedConfig::default()).unwrap();
        let asked = Table::from_nan_coded(1, 3, &[0.5, f64::NAN, -0.5]).unwrap();
        let found = model.probability(&asked).unwrap()[0];
        let rows = Rows::new(&model.mixture, &asked).unwrap();
        let w = model.weights();
        let mut average = 0.0;
        for term in &rows.terms[0] {
            let sd = rows.spreads[term.spread].1[(0, 0)].sqrt();
            let steps = 4000;
            for s in 0..steps {
                let z = 16.0 * (f64::from(s) + 0.5) / f64::from(steps) - 8.0;
                let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
                let x = term.row[1] + sd * z;
                let score = model.intercept() + 0.5 * w[0] + x * w[1] - 0.5 * w[2];
                average += term.share * density * sigmoid(score) * 16.0 / f64::from(steps);
            }
        }
        assert!((found - average).abs() < 0.01, "{found} {average}");
    }
}
