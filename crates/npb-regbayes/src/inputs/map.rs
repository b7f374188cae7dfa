//! Non-linear maps of inputs, so that linear machines see what a Gaussian kernel sees.

use npb_infer::parallel;
use npb_infer::{ranges, stream};
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, Jitter, dot};
use rand::seq::index;
use serde::{Deserialize, Serialize};

use super::Inputs;
use crate::error::RegBayesError;

/// Settings of a map: Nystrom's approximation (Williams and Seeger 2001) of the kernel `exp(-gamma |x - y|^2)`, exact between landmarks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MapConfig {
    /// Landmarks, rows drawn at random, and columns that come out; at most as many as rows.
    pub features: usize,
    /// Inverse squared width of the kernel; 0: one over the number of columns times their mean variance.
    pub gamma: f64,
}

impl Default for MapConfig {
    fn default() -> Self {
        Self {
            features: 500,
            gamma: 0.0,
        }
    }
}

/// A fitted map. Inner products of mapped rows approximate the kernel.
///
/// ```
/// use npb_regbayes::{InputMap, MapConfig};
/// let x = [0.0, 0.0, 1.0, 0.5, -1.0, 2.0]; // Three rows of two columns.
/// let config = MapConfig { features: 3, gamma: 0.5, ..MapConfig::default() };
/// let map = InputMap::fit(&x, 2, &config, 0)?;
/// let z = map.apply(&x)?;
/// let product: f64 = (0..3).map(|k| z[k] * z[3 + k]).sum();
/// assert!((product - (-0.5_f64 * 1.25).exp()).abs() < 1e-6); // Every row is a landmark: exact.
/// # Ok::<(), npb_regbayes::RegBayesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputMap {
    n_cols: usize,
    gamma: f64,
    /// Landmarks, a row of `n_cols` each.
    landmarks: Vec<f64>,
    /// Inverse Cholesky factor of their kernel, row-major.
    weights: Vec<f64>,
}

/// Third word of the keys of the stream of this module.
const LANDMARKS: u64 = 0x6c61_6e64;

impl InputMap {
    /// Chooses landmarks by `seed`. `values`: rows of `n_cols` numbers, one after the other. Cost: `features^3 / 3`.
    ///
    /// # Errors
    /// Rows that do not fit or are not finite; no row; settings out of range; landmarks whose kernel is not positive definite.
    pub fn fit(
        values: &[f64],
        n_cols: usize,
        config: &MapConfig,
        seed: u64,
    ) -> Result<Self, RegBayesError> {
        let inputs = Inputs::dense(values, n_cols)?;
        ranges::at_least("rows of a map", inputs.n_rows() as u64, 1)?;
        ranges::at_least("features", config.features as u64, 1)?;
        ranges::not_negative("gamma", config.gamma)?;
        let gamma = match config.gamma {
            0.0 => 1.0 / (n_cols as f64 * mean_variance(values, n_cols)),
            gamma => gamma,
        };
        let n_rows = values.len() / n_cols;
        let features = config.features.min(n_rows);
        let mut rng = stream(seed, [0, 0, LANDMARKS, 0]);
        let mut chosen = index::sample(&mut rng, n_rows, features).into_vec();
        chosen.sort_unstable();
        let row = |n: usize| &values[n * n_cols..][..n_cols];
        let landmarks: Vec<f64> = chosen.iter().flat_map(|&n| row(n)).copied().collect();
        let point = |k: usize| &landmarks[k * n_cols..][..n_cols];
        let kernel = Mat::from_fn(features, features, |i, j| {
            gaussian(gamma, point(i), point(j))
        });
        let mut factor = Cholesky::default();
        let jitter = Jitter {
            first: 1e-10,
            max: 1e-4,
        };
        factor
            .factor_jittered(kernel.as_ref(), &jitter)
            .map_err(|e| RegBayesError::numerical(0, "kernel of the landmarks", &e))?;
        // Column j of the inverse of L solves L c = e_j.
        let mut weights = vec![0.0; features * features];
        let mut column = vec![0.0; features];
        for j in 0..features {
            column.fill(0.0);
            column[j] = 1.0;
            factor.solve_l(&mut column);
            (j..features).for_each(|i| weights[i * features + j] = column[i]);
        }
        Ok(Self {
            n_cols,
            gamma,
            landmarks,
            weights,
        })
    }

    /// Columns that come out.
    pub fn n_features(&self) -> usize {
        self.landmarks.len() / self.n_cols
    }

    /// Inverse squared width of the kernel.
    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    /// Maps rows, in parallel: `n_rows x n_features`, row-major. Cost per row: columns x features, and half the square of the features.
    ///
    /// # Errors
    /// Rows of another width, or not finite.
    pub fn apply(&self, values: &[f64]) -> Result<Vec<f64>, RegBayesError> {
        let inputs = Inputs::dense(values, self.n_cols)?;
        let features = self.n_features();
        let mut out = vec![0.0; inputs.n_rows() * features];
        let rows = out.chunks_mut(features).zip(values.chunks(self.n_cols));
        parallel::for_each(rows, |(out, row)| self.apply_row(row, out));
        Ok(out)
    }

    fn apply_row(&self, row: &[f64], out: &mut [f64]) {
        let landmarks = self.landmarks.chunks_exact(self.n_cols);
        let kernel: Vec<f64> = landmarks.map(|p| gaussian(self.gamma, row, p)).collect();
        let features = out.len();
        for (i, out) in out.iter_mut().enumerate() {
            *out = dot(&self.weights[i * features..][..=i], &kernel[..=i]);
        }
    }

    /// Checks a map of so many columns that comes from a file.
    ///
    /// # Errors
    /// Sizes or values that contradict one another.
    pub fn check(&self, n_cols: usize) -> Result<(), RegBayesError> {
        let features = self.landmarks.len() / self.n_cols.max(1);
        let whole = features > 0
            && self.n_cols == n_cols
            && features * self.n_cols == self.landmarks.len()
            && features * features == self.weights.len();
        let numbers = self.landmarks.iter().chain(&self.weights);
        let finite = numbers.clone().all(|x| x.is_finite()) && self.gamma.is_finite();
        match whole && finite && self.gamma > 0.0 {
            true => Ok(()),
            false => Err(RegBayesError::state(
                "map of the inputs: impossible value or size",
            )),
        }
    }
}

fn gaussian(gamma: f64, x: &[f64], y: &[f64]) -> f64 {
    let square: f64 = x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum();
    (-gamma * square).exp()
}

/// Mean over columns of their variance; 1 where nothing varies.
fn mean_variance(values: &[f64], n_cols: usize) -> f64 {
    let n = (values.len() / n_cols) as f64;
    let column = |j: usize| values.iter().skip(j).step_by(n_cols);
    let variance = |j: usize| {
        let mean = column(j).sum::<f64>() / n;
        column(j).map(|x| (x - mean) * (x - mean)).sum::<f64>() / n
    };
    let mean = (0..n_cols).map(variance).sum::<f64>() / n_cols as f64;
    if mean > 0.0 { mean } else { 1.0 }
}
