//! Support vector machines.

use npb_data::Table;
use serde::{Deserialize, Serialize};

use crate::error::{complete, positive, training_set};
use crate::linear::check_codes;
use crate::{BaselineError, ClassWeights};

/// Kernel of a support or relevance vector machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// x'z.
    Linear,
    /// exp(-gamma |x - z|²).
    Rbf {
        /// `None`: 1 / (columns x variance of all cells of the training matrix), or 1 when that variance is 0.
        gamma: Option<f64>,
    },
}

/// Settings of [`Svm`]; the defaults are those of scikit-learn's `SVC`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SvmConfig {
    /// The kernel.
    pub kernel: Kernel,
    /// Upper limit of every dual coefficient.
    pub c: f64,
    /// Weight of the classes: factors of `c`.
    pub weights: ClassWeights,
    /// The solver stops when the optimality conditions hold to this.
    pub tolerance: f64,
}

impl Default for SvmConfig {
    fn default() -> Self {
        Self {
            kernel: Kernel::Rbf { gamma: None },
            c: 1.0,
            weights: ClassWeights::Equal,
            tolerance: 1e-3,
        }
    }
}

/// A soft-margin support vector machine for two classes.
///
/// Trained by sequential minimal optimisation, pairs chosen by second-order information (Fan, Chen and Lin, JMLR 6, 2005), on a
/// kernel matrix that is computed once: n² kernel values of memory, and some multiple of n steps of n operations each.
///
/// ```
/// use npb_baselines::{Kernel, Svm, SvmConfig};
/// use npb_data::Table;
///
/// let x = Table::complete(4, 1, vec![-2.0, -1.0, 1.0, 2.0])?;
/// let config = SvmConfig { kernel: Kernel::Linear, ..Default::default() };
/// let scores = Svm::fit(&x, &[false, false, true, true], &config)?.decision(&x)?;
/// assert!(scores[0] < scores[1] && scores[1] < 0.0 && scores[2] > 0.0);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Svm {
    column_names: Vec<String>,
    kernel: FixedKernel,
    bias: f64,
    /// Signed dual coefficient and row of each support vector.
    support: Vec<(f64, Vec<f64>)>,
}

impl Svm {
    /// Fits to complete rows; `labels` has one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Missing`], [`BaselineError::LabelCount`],
    /// [`BaselineError::OneClass`], [`BaselineError::Solver`].
    pub fn fit(train: &Table, labels: &[bool], config: &SvmConfig) -> Result<Self, BaselineError> {
        positive("c", config.c)?;
        positive("tolerance", config.tolerance)?;
        training_set(train, labels)?;
        let kernel = FixedKernel::new(config.kernel, train)?;
        let (bias, coefficients) =
            Dual::new(train, labels, config, kernel).solve(config.tolerance)?;
        let support = coefficients.iter().enumerate().filter(|(_, c)| **c != 0.0);
        Ok(Self {
            column_names: train.column_names().to_vec(),
            kernel,
            bias,
            support: support.map(|(i, &c)| (c, train.row(i).to_vec())).collect(),
        })
    }

    /// Decision function of every row of `table` (complete, columns as in training): positive on the side of `true`.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`].
    pub fn decision(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(&self.column_names)?;
        complete(table)?;
        let score = |row: &[f64]| {
            let terms = self
                .support
                .iter()
                .map(|(c, x)| c * self.kernel.value(x, row));
            terms.sum::<f64>() + self.bias
        };
        Ok((0..table.n_rows()).map(|i| score(table.row(i))).collect())
    }

    /// Number of support vectors.
    pub fn n_support(&self) -> usize {
        self.support.len()
    }
}

/// A kernel with its width settled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FixedKernel {
    Linear,
    Rbf { gamma: f64 },
}

impl FixedKernel {
    pub(crate) fn new(kernel: Kernel, train: &Table) -> Result<Self, BaselineError> {
        let gamma = match kernel {
            Kernel::Linear => return Ok(Self::Linear),
            Kernel::Rbf { gamma: Some(gamma) } => gamma,
            Kernel::Rbf { gamma: None } => scaled_gamma(train),
        };
        positive("gamma", gamma)?;
        Ok(Self::Rbf { gamma })
    }

    pub(crate) fn value(self, x: &[f64], z: &[f64]) -> f64 {
        let pairs = x.iter().zip(z);
        match self {
            Self::Linear => pairs.map(|(x, z)| x * z).sum(),
            Self::Rbf { gamma } => {
                (-gamma * pairs.map(|(x, z)| (x - z).powi(2)).sum::<f64>()).exp()
            }
        }
    }
}

fn scaled_gamma(train: &Table) -> f64 {
    let cells = train.values();
    let n = cells.len() as f64;
    let mean = cells.iter().sum::<f64>() / n;
    let variance = cells.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    if variance == 0.0 {
        return 1.0;
    }
    1.0 / (train.n_cols() as f64 * variance)
}

/// Steps of [`Dual::solve`] at most, for each training row.
const STEPS_PER_ROW: usize = 10_000;

/// The dual problem in signed coefficients b = y a: maximise y'b - b'Kb / 2 with sum b = 0 and each b between its bounds.
#[derive(Debug)]
struct Dual {
    kernel: KernelMatrix,
    /// Smallest and largest value of each coefficient.
    bounds: Vec<(f64, f64)>,
    coefficients: Vec<f64>,
    /// The objective's derivative in each coefficient: label less the decision function without its bias.
    slopes: Vec<f64>,
}

impl Dual {
    fn new(train: &Table, labels: &[bool], config: &SvmConfig, kernel: FixedKernel) -> Self {
        let [of_false, of_true] = config.weights.of(labels).map(|weight| config.c * weight);
        let bounds = |&label: &bool| {
            if label {
                (0.0, of_true)
            } else {
                (-of_false, 0.0)
            }
        };
        let sign = |&label: &bool| if label { 1.0 } else { -1.0 };
        Self {
            kernel: KernelMatrix::new(train, kernel),
            bounds: labels.iter().map(bounds).collect(),
            coefficients: vec![0.0; labels.len()],
            slopes: labels.iter().map(sign).collect(),
        }
    }

    /// Bias and coefficients, once no pair of coefficients has slopes that differ by more than `tolerance` the way they may move.
    fn solve(mut self, tolerance: f64) -> Result<(f64, Vec<f64>), BaselineError> {
        let refused = |what: &str| Err(BaselineError::Solver(what.to_owned()));
        for _ in 0..STEPS_PER_ROW * self.slopes.len() {
            if self.slopes.iter().any(|slope| !slope.is_finite()) {
                return refused("the dual problem diverged; rescale the columns");
            }
            let Some((up, down)) = self.pair(tolerance) else {
                return Ok((self.bias(), self.coefficients));
            };
            self.step(up, down);
        }
        refused("the dual problem did not reach its tolerance; rescale the columns or lower c")
    }

    /// The coefficient of the steepest slope among those that may grow, and of those that may shrink the one that gains most
    /// together with it; nothing at the optimum.
    fn pair(&self, tolerance: f64) -> Option<(usize, usize)> {
        let rows = 0..self.slopes.len();
        let steepest = |&a: &usize, &b: &usize| self.slopes[a].total_cmp(&self.slopes[b]);
        let may_grow = |&i: &usize| self.coefficients[i] < self.bounds[i].1;
        let up = rows.clone().filter(may_grow).max_by(steepest)?;
        let mut best = (0.0, None);
        let mut flattest = self.slopes[up];
        for down in rows {
            let gap = self.slopes[up] - self.slopes[down];
            if self.coefficients[down] > self.bounds[down].0 && gap > 0.0 {
                flattest = flattest.min(self.slopes[down]);
                let gain = gap * gap / self.curvature(up, down);
                if gain > best.0 {
                    best = (gain, Some(down));
                }
            }
        }
        let down = best.1.filter(|_| self.slopes[up] - flattest > tolerance)?;
        Some((up, down))
    }

    /// |phi(a) - phi(b)|², kept away from 0 for rows that are equal.
    fn curvature(&self, a: usize, b: usize) -> f64 {
        let k = |i, j| self.kernel.row(i)[j];
        (k(a, a) + k(b, b) - 2.0 * k(a, b)).max(1e-12)
    }

    /// Moves one coefficient up and the other down by as much, to the optimum along that line or the nearest bound.
    fn step(&mut self, up: usize, down: usize) {
        let free = (self.slopes[up] - self.slopes[down]) / self.curvature(up, down);
        let room_up = self.bounds[up].1 - self.coefficients[up];
        let room_down = self.coefficients[down] - self.bounds[down].0;
        let step = free.min(room_up).min(room_down);
        // At a bound exactly there: what is left by rounding would be chosen again and again.
        self.coefficients[up] = if step == room_up {
            self.bounds[up].1
        } else {
            self.coefficients[up] + step
        };
        self.coefficients[down] = if step == room_down {
            self.bounds[down].0
        } else {
            self.coefficients[down] - step
        };
        let pairs = self.kernel.row(up).iter().zip(self.kernel.row(down));
        for (slope, (of_up, of_down)) in self.slopes.iter_mut().zip(pairs) {
            *slope -= step * (of_up - of_down);
        }
    }

    /// The slope at coefficients that touch no bound, or else the middle of what the bounds leave.
    fn bias(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        for ((&slope, &b), &(least, most)) in
            self.slopes.iter().zip(&self.coefficients).zip(&self.bounds)
        {
            if b > least && b < most {
                sum += slope;
                count += 1.0;
            } else if b < most {
                low = low.max(slope);
            } else {
                high = high.min(slope);
            }
        }
        if count > 0.0 {
            sum / count
        } else {
            0.5 * (low + high)
        }
    }
}

/// Several classes: one [`Svm`] for each pair of classes, on their rows alone; the class with most votes wins, the first of equals.
///
/// The kernel matrices are those of pairs: (2 n / classes)² values at a time where classes are of one size.
#[derive(Clone, Debug)]
pub struct PairwiseSvm {
    n_classes: usize,
    /// Two classes and the machine that is positive for the second.
    pairs: Vec<(usize, usize, Svm)>,
    /// The class when training had only one.
    only: usize,
}

impl PairwiseSvm {
    /// Fits to complete rows; `codes` has the class of every row, from 0. A class without rows is never predicted. The width of
    /// an RBF kernel without one is that of the whole training matrix.
    ///
    /// # Errors
    /// Those of [`Svm::fit`]; [`BaselineError::Data`] for a code that is not below `n_classes`.
    pub fn fit(
        train: &Table,
        codes: &[usize],
        n_classes: usize,
        config: &SvmConfig,
    ) -> Result<Self, BaselineError> {
        check_codes(codes, n_classes)?;
        crate::linear::Design::from(train).check(codes.len())?;
        let kernel = match FixedKernel::new(config.kernel, train)? {
            FixedKernel::Linear => Kernel::Linear,
            FixedKernel::Rbf { gamma } => Kernel::Rbf { gamma: Some(gamma) },
        };
        let config = SvmConfig {
            kernel,
            ..config.clone()
        };
        let present: Vec<usize> = (0..n_classes).filter(|c| codes.contains(c)).collect();
        let mut pairs = Vec::new();
        for (place, &first) in present.iter().enumerate() {
            for &second in &present[place + 1..] {
                let rows: Vec<usize> = (0..codes.len())
                    .filter(|&i| codes[i] == first || codes[i] == second)
                    .collect();
                let labels: Vec<bool> = rows.iter().map(|&i| codes[i] == second).collect();
                let svm = Svm::fit(&train.select_rows(&rows), &labels, &config)?;
                pairs.push((first, second, svm));
            }
        }
        Ok(Self {
            n_classes,
            pairs,
            only: present[0],
        })
    }

    /// The class of every row.
    ///
    /// # Errors
    /// Those of [`Svm::decision`].
    pub fn predict(&self, table: &Table) -> Result<Vec<usize>, BaselineError> {
        if self.pairs.is_empty() {
            return Ok(vec![self.only; table.n_rows()]);
        }
        let mut votes = vec![0_usize; table.n_rows() * self.n_classes];
        for (first, second, svm) in &self.pairs {
            for (row, score) in svm.decision(table)?.into_iter().enumerate() {
                let winner = if score > 0.0 { second } else { first };
                votes[row * self.n_classes + winner] += 1;
            }
        }
        let most = |votes: &[usize]| {
            let best = (0..votes.len()).rev().max_by_key(|&c| votes[c]);
            best.unwrap_or(self.only)
        };
        Ok(votes.chunks_exact(self.n_classes).map(most).collect())
    }
}

/// Kernel values of all pairs of training rows.
#[derive(Debug)]
struct KernelMatrix {
    n: usize,
    values: Vec<f64>,
}

impl KernelMatrix {
    fn new(train: &Table, kernel: FixedKernel) -> Self {
        let n = train.n_rows();
        let mut values = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let value = kernel.value(train.row(i), train.row(j));
                values[i * n + j] = value;
                values[j * n + i] = value;
            }
        }
        Self { n, values }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.n..(i + 1) * self.n]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinearConfig;

    /// Rows of two classes that overlap, from a fixed recurrence.
    fn overlapping(n: usize) -> (Table, Vec<bool>) {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let labels: Vec<bool> = (0..n).map(|i| i % 3 == 0).collect();
        let values = labels.iter().flat_map(|&l| {
            let shift = if l { 0.4 } else { 0.0 };
            [uniform() + shift, uniform() - shift, uniform()]
        });
        let values = values.collect();
        (Table::complete(n, 3, values).unwrap(), labels)
    }

    #[test]
    fn the_dual_value_is_that_of_the_primal() {
        let (x, labels) = overlapping(60);
        for weights in [ClassWeights::Equal, ClassWeights::Balanced] {
            for kernel in [FixedKernel::Linear, FixedKernel::Rbf { gamma: 0.7 }] {
                for c in [0.3, 20.0] {
                    let config = SvmConfig {
                        c,
                        weights,
                        ..Default::default()
                    };
                    let (bias, b) = Dual::new(&x, &labels, &config, kernel).solve(1e-8).unwrap();
                    let matrix = KernelMatrix::new(&x, kernel);
                    let (mut norm, mut gain, mut loss) = (0.0, 0.0, 0.0);
                    for (i, &label) in labels.iter().enumerate() {
                        let sign = if label { 1.0 } else { -1.0 };
                        let value: f64 = matrix.row(i).iter().zip(&b).map(|(k, b)| k * b).sum();
                        let most = c * weights.of(&labels)[usize::from(label)];
                        assert!(sign * b[i] >= 0.0 && sign * b[i] <= most);
                        norm += b[i] * value;
                        gain += sign * b[i];
                        loss += most * (1.0 - sign * (value + bias)).max(0.0);
                    }
                    assert!(b.iter().sum::<f64>().abs() < 1e-9);
                    let (dual, primal) = (gain - 0.5 * norm, 0.5 * norm + loss);
                    assert!((primal - dual).abs() < 1e-5 * primal, "{dual}, {primal}");
                }
            }
        }
    }

    #[test]
    fn the_linear_kernel_gives_the_linear_machine_without_a_penalty_on_its_bias() {
        // Rows and their mirror images, of the other class: the bias is 0, penalised or not.
        let (half, of_half) = overlapping(30);
        let mirrored = half.values().iter().map(|v| -v);
        let values = half.values().iter().copied().chain(mirrored).collect();
        let x = Table::complete(60, 3, values).unwrap();
        let labels: Vec<bool> = of_half
            .iter()
            .copied()
            .chain(of_half.iter().map(|l| !l))
            .collect();
        let exact = LinearConfig {
            loss: crate::HingeLoss::Hinge,
            tolerance: 1e-10,
            ..Default::default()
        };
        let linear = crate::LinearSvm::fit(&x, &labels, &exact).unwrap();
        let config = SvmConfig {
            kernel: Kernel::Linear,
            tolerance: 1e-9,
            ..Default::default()
        };
        let machine = Svm::fit(&x, &labels, &config).unwrap();
        let ours = machine.decision(&half).unwrap();
        for (a, b) in ours.iter().zip(linear.decision(&half).unwrap()) {
            assert!((a - b).abs() < 1e-4, "{a}, {b}");
        }
    }
}
