//! What members see of rows, and their weights in the terms of a row's own values.

use npb_infer::{parallel, stream};
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, Jitter, dot};
use rand::seq::index;
use serde::{Deserialize, Serialize};

use super::config::{LabelInputs, LabelsConfig};
use crate::dense::{axpy, columns_mut, product};
use crate::error::RegBayesError;

/// How much nearer than the median a narrow kernel looks.
const NARROW: f64 = 3.0;
/// Landmarks whose distances say what the median is.
const FOR_MEDIAN: usize = 300;
/// Second word of the keys of random streams.
const LANDMARKS: u64 = u64::MAX - 1;

/// A term of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Member {
    /// Of the latent features.
    Latent,
    /// Of the inputs, in standard units.
    Linear,
    /// Of `exp(-gamma |x - y|^2)`, inputs in standard units.
    Rbf {
        /// Inverse squared width.
        gamma: f64,
    },
}

/// Rows of a member's machine, of mean squared length 1: what it sees, or where kernels are concerned as many coordinates as there are landmarks.
pub(super) struct Block {
    pub(super) member: Member,
    /// Row-major.
    pub(super) rows: Vec<f64>,
    pub(super) width: usize,
    scale: f64,
    /// Of the kernel of the landmarks.
    factor: Option<Cholesky>,
}

impl Block {
    fn new(member: Member, mut rows: Vec<f64>, n_rows: usize, factor: Option<Cholesky>) -> Self {
        let mean = dot(&rows, &rows) / n_rows as f64;
        let scale = if mean > 0.0 { mean.sqrt().recip() } else { 1.0 };
        rows.iter_mut().for_each(|x| *x *= scale);
        Self {
            member,
            width: rows.len() / n_rows,
            rows,
            scale,
            factor,
        }
    }

    /// Coordinates in which the inner products of rows are those of a kernel: `L^-1 k(x)` with `L L'` that of the landmarks. `kernel`: landmark, row.
    fn of_kernel(
        member: Member,
        kernel: &Mat<f64>,
        landmarks: &[usize],
    ) -> Result<Self, RegBayesError> {
        let size = landmarks.len();
        let between = Mat::from_fn(size, size, |i, j| kernel[(i, landmarks[j])]);
        let jitter = Jitter {
            first: 1e-10,
            max: 1e-4,
        };
        let mut factor = Cholesky::default();
        factor
            .factor_jittered(between.as_ref(), &jitter)
            .map_err(|e| RegBayesError::numerical(0, "kernel of the landmarks", &e))?;
        let mut rows = kernel.clone();
        parallel::for_each(columns_mut(&mut rows), |row| factor.solve_l(row));
        let n_rows = rows.ncols();
        let rows = (0..n_rows).flat_map(|n| rows.col_as_slice(n)).copied();
        Ok(Self::new(member, rows.collect(), n_rows, Some(factor)))
    }

    /// Whether weights are of training rows, not of columns.
    pub(super) fn is_of_rows(&self) -> bool {
        self.factor.is_some()
    }

    /// Weights of what the member sees, or of the kernel with each landmark, for the weights of a machine.
    pub(super) fn unfold(&self, weights: &[f64]) -> Vec<f64> {
        let mut own: Vec<f64> = weights[..self.width]
            .iter()
            .map(|w| w * self.scale)
            .collect();
        if let Some(factor) = &self.factor {
            factor.solve_lt(&mut own);
        }
        own
    }
}

/// The blocks of all members for training rows (columns of `inputs`), and the landmarks of kernels.
pub(super) fn blocks(
    inputs: &Mat<f64>,
    indicators: &Mat<f64>,
    config: &LabelsConfig,
) -> Result<(Vec<Block>, Vec<usize>), RegBayesError> {
    let (d, n) = inputs.shape();
    let rows_of =
        |m: &Mat<f64>| -> Vec<f64> { (0..n).flat_map(|n| m.col_as_slice(n)).copied().collect() };
    let (linear, rbf) = match config.inputs {
        LabelInputs::None => (false, false),
        LabelInputs::Linear => (true, false),
        LabelInputs::Rbf => (false, true),
        LabelInputs::Select => (true, true),
    };
    let mut blocks = Vec::new();
    if linear && d <= n {
        blocks.push(Block::new(Member::Linear, rows_of(inputs), n, None));
    } else if linear {
        let all: Vec<usize> = (0..n).collect();
        let kernel = product(inputs.transpose(), inputs.as_ref(), 1.0);
        blocks.push(Block::of_kernel(Member::Linear, &kernel, &all)?);
    }
    let mut landmarks = Vec::new();
    if rbf {
        let mut rng = stream(config.latent.seed, [0, LANDMARKS, 0, 0]);
        let mut chosen = index::sample(&mut rng, n, config.landmarks.min(n)).into_vec();
        let median = median_distance(inputs, &chosen[..chosen.len().min(FOR_MEDIAN)]);
        chosen.sort_unstable();
        let at = Mat::from_fn(d, chosen.len(), |j, k| inputs[(j, chosen[k])]);
        let distances = squared_distances(&at, inputs);
        for gamma in [1.0 / median, NARROW / median] {
            let kernel = Mat::from_fn(chosen.len(), n, |k, n| (-gamma * distances[(k, n)]).exp());
            blocks.push(Block::of_kernel(Member::Rbf { gamma }, &kernel, &chosen)?);
        }
        landmarks = chosen;
    }
    if indicators.nrows() > 0 {
        let features = product(indicators.as_ref(), inputs.as_ref(), 1.0);
        blocks.push(Block::new(Member::Latent, rows_of(&features), n, None));
    }
    Ok((blocks, landmarks))
}

/// Of all columns of `from` to all of `to`. The same for the same two columns wherever they stand.
pub(super) fn squared_distances(from: &Mat<f64>, to: &Mat<f64>) -> Mat<f64> {
    let norm = |m: &Mat<f64>, j: usize| dot(m.col_as_slice(j), m.col_as_slice(j));
    let norms: Vec<f64> = (0..from.ncols()).map(|k| norm(from, k)).collect();
    let mut out = Mat::zeros(from.ncols(), to.ncols());
    parallel::for_each(
        columns_mut(&mut out).into_iter().enumerate(),
        |(n, column)| {
            let (row, own) = (to.col_as_slice(n), norm(to, n));
            for (k, out) in column.iter_mut().enumerate() {
                *out = (norms[k] + own - 2.0 * dot(from.col_as_slice(k), row)).max(0.0);
            }
        },
    );
    out
}

/// The median of the squared distances of some rows; their mean where most are equal, 1 where all are.
fn median_distance(inputs: &Mat<f64>, rows: &[usize]) -> f64 {
    let at = Mat::from_fn(inputs.nrows(), rows.len(), |j, k| inputs[(j, rows[k])]);
    let distances = squared_distances(&at, &at);
    let pairs = (0..rows.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let mut all: Vec<f64> = pairs.map(|pair| distances[pair]).collect();
    if all.is_empty() {
        return 1.0;
    }
    all.sort_by(f64::total_cmp);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let candidates = [all[all.len() / 2], mean, 1.0];
    // Rows that are the same to rounding are at no distance.
    let least = 1e-12 * inputs.nrows() as f64;
    candidates.into_iter().find(|d| *d > least).unwrap_or(1.0)
}

/// `sum_n a_n x_n` of training rows: what weights of all rows are as weights of inputs.
pub(super) fn combined(inputs: &Mat<f64>, of_rows: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; inputs.nrows()];
    for (n, &a) in of_rows.iter().enumerate() {
        axpy(&mut out, a, inputs.col_as_slice(n));
    }
    out
}
