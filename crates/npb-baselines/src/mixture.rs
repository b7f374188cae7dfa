//! Gaussian mixture fitted by EM to rows with holes.

use npb_data::{PatternIndex, Table};
use npb_infer::stream;
use npb_linalg::condition::{Gaussian, Scratch};
use npb_linalg::faer::Mat;
use npb_priors::special::ln_normalize;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::{at_least_one, positive};
use crate::impute::Start;

const WHAT: &str = "EM for a Gaussian mixture";
/// Rounds of nearest centres before EM.
const CENTRE_ROUNDS: usize = 10;

/// Settings of [`GaussianMixture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MixtureConfig {
    /// Components are added one by one up to this number, as long as the Bayesian information criterion improves.
    pub max_components: usize,
    /// At most this many EM iterations.
    pub iterations: usize,
    /// EM stops when the log-likelihood per row, less the penalty that the ridge stands for, changes by less than this.
    pub tolerance: f64,
    /// Added to every variance at each M-step, in squared units of the columns (standardise them first).
    pub ridge: f64,
    /// Seed of the starting centres.
    pub seed: u64,
}

impl Default for MixtureConfig {
    fn default() -> Self {
        Self {
            max_components: 5,
            iterations: 100,
            tolerance: 1e-4,
            ridge: 0.1,
            seed: 0,
        }
    }
}

/// A mixture of Gaussians with full covariances, fitted to the observed cells by EM (Ghahramani and Jordan, NIPS 1993).
///
/// Rows with the same holes share one factor per component. Cost per iteration: components x (patterns x smaller part³ / 6 + rows x P²).
///
/// ```
/// use npb_baselines::{GaussianMixture, MixtureConfig};
/// use npb_data::Table;
///
/// // Two clumps, one row with a hole.
/// let cells: Vec<f64> = (0..40).map(|i| f64::from(i % 2) * 20.0 + f64::from(i / 2 % 5) * 0.3).collect();
/// let x: Vec<f64> = cells.iter().flat_map(|&c| [c, -c]).enumerate().map(|(k, v)| if k == 1 { f64::NAN } else { v }).collect();
/// let table = Table::from_nan_coded(40, 2, &x)?;
/// let mixture = GaussianMixture::fit(&table, &MixtureConfig::default())?;
/// assert_eq!(mixture.n_components(), 2);
/// assert!(mixture.transform(&table)?.row(0)[1].abs() < 2.0);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GaussianMixture {
    start: Start,
    ln_weights: Vec<f64>,
    components: Vec<Gaussian>,
    /// Log-likelihood of the training rows after each iteration.
    trace: Vec<f64>,
}

impl GaussianMixture {
    /// Fits to `train`.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::NotPositiveDefinite`],
    /// [`BaselineError::NotFinite`].
    pub fn fit(train: &Table, config: &MixtureConfig) -> Result<Self, BaselineError> {
        at_least_one("max_components", config.max_components)?;
        at_least_one("iterations", config.iterations)?;
        positive("tolerance", config.tolerance)?;
        positive("ridge", config.ridge)?;
        let start = Start::fit(train)?;
        let mut best = Self::fit_components(train, &start, 1, config)?;
        let mut least = best.information_criterion(train.n_rows());
        for k in 2..=config.max_components.min(train.n_rows()) {
            let mixture = Self::fit_components(train, &start, k, config)?;
            let criterion = mixture.information_criterion(train.n_rows());
            if criterion >= least {
                break;
            }
            (best, least) = (mixture, criterion);
        }
        Ok(best)
    }

    fn fit_components(
        train: &Table,
        start: &Start,
        k: usize,
        config: &MixtureConfig,
    ) -> Result<Self, BaselineError> {
        let filled = start.fill(train)?;
        let p = train.n_cols();
        let nearest = centres(&filled, p, k, config.seed);
        let mut moments = Moments::new(k, start.mean.clone());
        for (row, &c) in filled.chunks_exact(p).zip(&nearest) {
            moments.add(c, 1.0, row);
        }
        let mut mixture = Self {
            start: start.clone(),
            ln_weights: Vec::new(),
            components: vec![Gaussian::standard(p); k],
            trace: Vec::new(),
        };
        mixture.maximise(&moments, config.ridge, 0)?;
        let patterns = train.patterns();
        let enough = config.tolerance * train.n_rows() as f64;
        let mut last = f64::NEG_INFINITY;
        for iteration in 0..config.iterations {
            let (moments, ln_likelihood) = mixture.expect(train, &patterns, iteration)?;
            mixture.trace.push(ln_likelihood);
            // The likelihood alone may fall from the first step on.
            let penalised = ln_likelihood - mixture.penalty(&moments.counts, config.ridge);
            if (penalised - last).abs() < enough {
                break;
            }
            last = penalised;
            mixture.maximise(&moments, config.ridge, iteration + 1)?;
        }
        Ok(mixture)
    }

    /// What the ridge costs: for one component EM raises the log-likelihood less this, for several nearly so.
    fn penalty(&self, counts: &[f64], ridge: f64) -> f64 {
        let trace = |component: &Gaussian| -> f64 {
            let precision = component.precision();
            (0..component.dim()).map(|j| precision[(j, j)]).sum()
        };
        let terms = self.components.iter().zip(counts);
        0.5 * ridge * terms.map(|(c, count)| count * trace(c)).sum::<f64>()
    }

    /// -2 ln L + parameters x ln n.
    fn information_criterion(&self, n_rows: usize) -> f64 {
        let (k, p) = (self.n_components() as f64, self.start.n_cols() as f64);
        let parameters = k * (p + p * (p + 1.0) / 2.0) + k - 1.0;
        let ln_likelihood = self.trace.last().copied().unwrap_or(f64::NEG_INFINITY);
        parameters * (n_rows as f64).ln() - 2.0 * ln_likelihood
    }

    /// E-step: weighted sums of completed rows and their squares, and the log-likelihood of the observed cells.
    fn expect(
        &self,
        table: &Table,
        patterns: &PatternIndex,
        iteration: usize,
    ) -> Result<(Moments, f64), BaselineError> {
        let mut moments = Moments::new(self.n_components(), self.start.mean.clone());
        let mut total = 0.0;
        self.for_each_row(table, patterns, iteration, |row| {
            total += row.ln_likelihood;
            for k in 0..self.n_components() {
                moments.add(k, row.shares[k], &row.completed[k]);
                moments.spread(k, row.shares[k], row.missing, &row.spreads[k]);
            }
        })?;
        Ok((moments, total))
    }

    /// M-step. A component without rows stays where it is, with weight near 0.
    fn maximise(
        &mut self,
        moments: &Moments,
        ridge: f64,
        iteration: usize,
    ) -> Result<(), BaselineError> {
        let p = self.start.n_cols();
        let n: f64 = moments.counts.iter().sum();
        self.ln_weights = moments
            .counts
            .iter()
            .map(|c| (c / n).max(1e-300).ln())
            .collect();
        for (k, component) in self.components.iter_mut().enumerate() {
            let count = moments.counts[k];
            if count < 1e-6 {
                continue;
            }
            let shift: Vec<f64> = moments.sums[k].iter().map(|s| s / count).collect();
            let mean: Vec<f64> = shift
                .iter()
                .zip(&moments.centre)
                .map(|(s, c)| s + c)
                .collect();
            let covariance = Mat::from_fn(p, p, |a, b| {
                let about = moments.squares[k][(a.max(b), a.min(b))] / count - shift[a] * shift[b];
                about + if a == b { ridge } else { 0.0 }
            });
            component
                .set_covariance(&mean, covariance.as_ref())
                .map_err(|e| lost_rank(iteration, e.pivot))?;
        }
        Ok(())
    }

    /// Calls `use_row` for every row of `table`, pattern by pattern, with what the components say of it.
    pub(crate) fn for_each_row(
        &self,
        table: &Table,
        patterns: &PatternIndex,
        iteration: usize,
        mut use_row: impl FnMut(&RowGiven<'_>),
    ) -> Result<(), BaselineError> {
        let (k, p) = (self.n_components(), table.n_cols());
        let filled = self.start.fill(table)?;
        let mut scratch = Scratch::default();
        let mut shares = vec![0.0; k];
        let mut completed = vec![vec![0.0; p]; k];
        for pattern in patterns.iter() {
            let (seen, missing) = (&pattern.observed, &pattern.missing);
            let n = pattern.rows.len();
            let mut spreads = Vec::with_capacity(k);
            let mut rows = vec![vec![0.0; p]; k * n];
            let mut ln_densities = vec![0.0; k * n];
            for (c, component) in self.components.iter().enumerate() {
                let mut given = component
                    .condition(seen, missing, &mut scratch)
                    .map_err(|e| lost_rank(iteration, e.pivot))?;
                for (r, &i) in pattern.rows.iter().enumerate() {
                    let row = &mut rows[c * n + r];
                    row.copy_from_slice(&filled[i * p..(i + 1) * p]);
                    ln_densities[c * n + r] = self.ln_weights[c] + given.ln_density_observed(row);
                    given.complete(row);
                }
                spreads.push(given.covariance().to_owned());
            }
            for (r, &i) in pattern.rows.iter().enumerate() {
                for c in 0..k {
                    shares[c] = ln_densities[c * n + r];
                    std::mem::swap(&mut completed[c], &mut rows[c * n + r]);
                }
                let ln_likelihood = ln_normalize(&mut shares);
                if !ln_likelihood.is_finite() {
                    let what = WHAT;
                    return Err(BaselineError::NotFinite { what, iteration });
                }
                use_row(&RowGiven {
                    row: i,
                    missing,
                    ln_likelihood,
                    shares: &shares,
                    completed: &completed,
                    spreads: &spreads,
                });
            }
        }
        Ok(())
    }

    /// `table` (columns as in training, any rows) with its holes filled by conditional means.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::NotPositiveDefinite`].
    pub fn transform(&self, table: &Table) -> Result<Table, BaselineError> {
        let p = self.start.n_cols();
        let mut values = self.start.fill(table)?;
        self.for_each_row(table, &table.patterns(), 0, |row| {
            for &j in row.missing.iter().filter(|&&j| !self.start.empty[j]) {
                let terms = row.shares.iter().zip(row.completed);
                values[row.row * p + j] = terms.map(|(s, x)| s * x[j]).sum();
            }
        })?;
        self.start.finish(table, values)
    }

    /// Number of components.
    pub fn n_components(&self) -> usize {
        self.components.len()
    }

    /// Mean of a component, one entry per column.
    ///
    /// # Panics
    /// When there is no such component.
    pub fn mean(&self, component: usize) -> &[f64] {
        self.components[component].mean()
    }

    /// Weights of the components.
    pub fn weights(&self) -> Vec<f64> {
        self.ln_weights.iter().map(|w| w.exp()).collect()
    }

    pub(crate) fn column_names(&self) -> &[String] {
        &self.start.column_names
    }
}

/// What the components say of one row.
pub(crate) struct RowGiven<'a> {
    pub(crate) row: usize,
    /// Columns that are missing.
    pub(crate) missing: &'a [usize],
    pub(crate) ln_likelihood: f64,
    /// Probability of each component given the observed cells.
    pub(crate) shares: &'a [f64],
    /// The row with conditional means in its holes, for each component.
    pub(crate) completed: &'a [Vec<f64>],
    /// Covariance of the missing cells, for each component.
    pub(crate) spreads: &'a [Mat<f64>],
}

fn lost_rank(iteration: usize, pivot: usize) -> BaselineError {
    let what = WHAT;
    BaselineError::NotPositiveDefinite {
        what,
        iteration,
        pivot,
    }
}

/// Weighted sums over rows, component by component, about a centre near the data.
struct Moments {
    centre: Vec<f64>,
    counts: Vec<f64>,
    sums: Vec<Vec<f64>>,
    /// Lower triangles.
    squares: Vec<Mat<f64>>,
}

impl Moments {
    fn new(k: usize, centre: Vec<f64>) -> Self {
        let p = centre.len();
        Self {
            centre,
            counts: vec![0.0; k],
            sums: vec![vec![0.0; p]; k],
            squares: vec![Mat::zeros(p, p); k],
        }
    }

    fn add(&mut self, k: usize, weight: f64, row: &[f64]) {
        let row: Vec<f64> = row.iter().zip(&self.centre).map(|(x, c)| x - c).collect();
        self.counts[k] += weight;
        for (sum, x) in self.sums[k].iter_mut().zip(&row) {
            *sum += weight * x;
        }
        for (b, x) in row.iter().enumerate() {
            let column = &mut self.squares[k].col_as_slice_mut(b)[b..];
            for (square, y) in column.iter_mut().zip(&row[b..]) {
                *square += weight * x * y;
            }
        }
    }

    fn spread(&mut self, k: usize, weight: f64, missing: &[usize], spread: &Mat<f64>) {
        for (b, &column) in missing.iter().enumerate() {
            for (a, &row) in missing.iter().enumerate().skip(b) {
                // The columns of a pattern ascend.
                self.squares[k][(row, column)] += weight * spread[(a, b)];
            }
        }
    }
}

/// The nearest of `k` centres for each row: centres drawn far apart (Arthur and Vassilvitskii, 2007), then moved to the means of their
/// rows.
fn centres(rows: &[f64], p: usize, k: usize, seed: u64) -> Vec<usize> {
    let n = rows.len() / p;
    let row = |i: usize| &rows[i * p..(i + 1) * p];
    let distance =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum() };
    let mut rng = stream(seed, [k as u64, 0, 0, 0]);
    let mut centres = vec![row(rng.random_range(0..n)).to_vec()];
    while centres.len() < k {
        let far = |i: usize| {
            let all = centres.iter().map(|c| distance(c, row(i)));
            all.fold(f64::INFINITY, f64::min)
        };
        let weights: Vec<f64> = (0..n).map(far).collect();
        let mut left = rng.random::<f64>() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|w| {
            left -= w;
            left < 0.0
        });
        centres.push(row(chosen.unwrap_or(n - 1)).to_vec());
    }
    let mut nearest = vec![0; n];
    for _ in 0..CENTRE_ROUNDS {
        for (i, place) in nearest.iter_mut().enumerate() {
            let mut least = f64::INFINITY;
            for (c, centre) in centres.iter().enumerate() {
                let d = distance(centre, row(i));
                if d < least {
                    (least, *place) = (d, c);
                }
            }
        }
        for (c, centre) in centres.iter_mut().enumerate() {
            let mine: Vec<usize> = (0..n).filter(|&i| nearest[i] == c).collect();
            if mine.is_empty() {
                continue;
            }
            centre.iter_mut().enumerate().for_each(|(j, x)| {
                *x = mine.iter().map(|&i| row(i)[j]).sum::<f64>() / mine.len() as f64;
            });
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GaussianConfig, GaussianImputer};

    fn holed() -> Table {
        let cell = |i: usize, j: usize| {
            let base = ((i * 7 + j * 13 + i * j * 5) % 23) as f64 / 10.0 - 1.0;
            base + if i.is_multiple_of(3) { 4.0 } else { 0.0 }
        };
        let value = |i: usize, j: usize| match (i * 3 + j * 5) % 7 {
            0 => f64::NAN,
            _ => cell(i, j),
        };
        let cells: Vec<f64> = (0..60)
            .flat_map(|i| (0..3).map(move |j| value(i, j)))
            .collect();
        Table::from_nan_coded(60, 3, &cells).unwrap()
    }

    #[test]
    fn one_component_is_the_single_gaussian() {
        let table = holed();
        let config = MixtureConfig {
            max_components: 1,
            iterations: 400,
            tolerance: 1e-14,
            ..Default::default()
        };
        let mixture = GaussianMixture::fit(&table, &config).unwrap();
        let config = GaussianConfig {
            iterations: 400,
            ..Default::default()
        };
        let single = GaussianImputer::fit(&table, &config).unwrap();
        for (a, b) in mixture.mean(0).iter().zip(single.mean()) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        let (a, b) = (
            mixture.transform(&table).unwrap(),
            single.transform(&table).unwrap(),
        );
        for (a, b) in a.values().iter().zip(b.values()) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }

    /// With few rows the likelihood falls while the ridge has its say: to stop there would be to stop near the start.
    #[test]
    fn a_ridge_does_not_end_the_iterations_early() {
        let value = |i: usize, j: usize| match (i * 5 + j * 3 + i * j) % 4 {
            0 | 1 => f64::NAN,
            _ => ((i * 7 + j * 13 + i * j * 5) % 23) as f64 / 10.0 - 1.0,
        };
        let cells: Vec<f64> = (0..12)
            .flat_map(|i| (0..10).map(move |j| value(i, j)))
            .collect();
        let table = Table::from_nan_coded(12, 10, &cells).unwrap();
        let config = MixtureConfig {
            max_components: 1,
            iterations: 2000,
            tolerance: 1e-13,
            ..Default::default()
        };
        let mixture = GaussianMixture::fit(&table, &config).unwrap();
        assert!(mixture.trace.windows(2).any(|pair| pair[1] < pair[0]));
        let config = GaussianConfig {
            iterations: 2000,
            ..Default::default()
        };
        let single = GaussianImputer::fit(&table, &config).unwrap();
        for (a, b) in mixture.mean(0).iter().zip(single.mean()) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }

    /// EM without the ridge never lowers the likelihood; with a ridge so small it does not matter as long as no covariance is nearly
    /// singular, which is so for as many components as there are clumps.
    #[test]
    fn the_likelihood_never_falls() {
        let config = MixtureConfig {
            ridge: 1e-12,
            tolerance: 1e-9,
            ..Default::default()
        };
        let table = holed();
        let start = Start::fit(&table).unwrap();
        for k in 1..3 {
            let mixture = GaussianMixture::fit_components(&table, &start, k, &config).unwrap();
            assert!(mixture.trace.len() > 2);
            for pair in mixture.trace.windows(2) {
                assert!(pair[1] >= pair[0] - 1e-7, "{k}: {pair:?}");
            }
        }
    }

    #[test]
    fn two_clumps_are_two_components() {
        let mixture = GaussianMixture::fit(&holed(), &MixtureConfig::default()).unwrap();
        assert_eq!(mixture.n_components(), 2);
        let weights = mixture.weights();
        let least = weights[0].min(weights[1]);
        assert!((least - 1.0 / 3.0).abs() < 0.02, "{weights:?}");
    }
}
