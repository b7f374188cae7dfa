//! Support vector machines, on smartcore's solver.

use npb_data::Table;
use serde::{Deserialize, Serialize};
use smartcore::error::Failed;
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::svm::svc::{SVC, SVCParameters};

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
    /// Passes of the solver over the training rows; few leave it short of the optimum whatever the tolerance.
    pub epochs: usize,
    /// Seed of the order of those passes.
    pub seed: u64,
}

impl Default for SvmConfig {
    fn default() -> Self {
        Self {
            kernel: Kernel::Rbf { gamma: None },
            c: 1.0,
            weights: ClassWeights::Equal,
            tolerance: 1e-3,
            epochs: 20,
            seed: 0,
        }
    }
}

/// A soft-margin support vector machine for two classes.
///
/// Trained by smartcore's LASVM solver (Bordes, Ertekin, Weston, Bottou, JMLR 6, 2005) on a kernel matrix that is computed
/// once: n² kernel values of memory. With [`ClassWeights::Balanced`], for which that solver has no setting, by dual coordinate descent
/// on the kernel plus 1, that is with a bias that is penalised as one more weight.
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
        let (bias, coefficients) = match config.weights {
            ClassWeights::Equal => solve_dual(train, labels, config, kernel)?,
            ClassWeights::Balanced => descend(train, labels, config, kernel),
        };
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

/// Bias and the signed dual coefficient of every training row.
///
/// The solver is handed row numbers instead of rows, and a kernel that looks the kernel matrix up: it would otherwise
/// recompute kernels all the time, and read only as many columns as there are rows. Its coefficients are private, but its
/// decision function is linear in the kernel: probes that meet one row with kernel value 1 and all others with 0 read them
/// off one by one.
fn solve_dual(
    train: &Table,
    labels: &[bool],
    config: &SvmConfig,
    kernel: FixedKernel,
) -> Result<(f64, Vec<f64>), BaselineError> {
    let n = train.n_rows();
    let failed = |e: Failed| BaselineError::Solver(e.to_string());
    let indices = |from: usize, to: usize| {
        DenseMatrix::new(to - from, 1, (from..to).map(|i| i as f64).collect(), false)
            .map_err(failed)
    };
    let rows = indices(0, n)?;
    let classes: Vec<i32> = labels.iter().map(|&l| i32::from(l)).collect();
    let parameters = SVCParameters::default()
        .with_c(config.c)
        .with_tol(config.tolerance)
        .with_epoch(config.epochs)
        .with_seed(Some(config.seed))
        .with_kernel(KernelMatrix::new(train, kernel));
    let machine = SVC::fit(&rows, &classes, &parameters).map_err(failed)?;
    // Probe n + i meets row i alone; probe 2 n meets no row.
    let probes = indices(n, 2 * n + 1)?;
    let mut answers = machine.decision_function(&probes).map_err(failed)?;
    let bias = answers.pop().unwrap_or(f64::NAN);
    if !bias.is_finite() || answers.iter().any(|a| !a.is_finite()) {
        return Err(BaselineError::Solver(
            "the dual problem diverged; rescale the columns".to_owned(),
        ));
    }
    answers.iter_mut().for_each(|a| *a -= bias);
    Ok((bias, answers))
}

/// Passes of [`descend`] at most.
const PASSES: usize = 500;

/// Bias and the signed dual coefficient of every training row, classes weighted: rows in turn, each coefficient to its
/// optimum given the others, until no coefficient's gradient is off by more than the tolerance.
fn descend(
    train: &Table,
    labels: &[bool],
    config: &SvmConfig,
    kernel: FixedKernel,
) -> (f64, Vec<f64>) {
    let n = train.n_rows();
    let matrix = KernelMatrix::new(train, kernel);
    let weights = config.weights.of(labels);
    let mut beta = vec![0.0; n];
    // Values of the decision function.
    let mut values = vec![0.0; n];
    for _ in 0..PASSES {
        let mut worst = 0.0f64;
        for i in 0..n {
            let row = &matrix.values[i * n..(i + 1) * n];
            let (label, most) = (
                if labels[i] { 1.0 } else { -1.0 },
                config.c * weights[usize::from(labels[i])],
            );
            let alpha: f64 = label * beta[i];
            let gradient = label * values[i] - 1.0;
            let next = (alpha - gradient / (row[i] + 1.0)).clamp(0.0, most);
            let step = label * (next - alpha);
            if step != 0.0 {
                worst = worst.max(gradient.abs());
                beta[i] += step;
                values
                    .iter_mut()
                    .zip(row)
                    .for_each(|(value, k)| *value += step * (k + 1.0));
            }
        }
        if worst <= config.tolerance {
            break;
        }
    }
    (beta.iter().sum(), beta)
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

/// Kernel values of all pairs of training rows, looked up by row number; numbers from n on are probes.
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
}

impl smartcore::svm::Kernel for KernelMatrix {
    fn apply(&self, x_i: &Vec<f64>, x_j: &Vec<f64>) -> Result<f64, Failed> {
        let (i, j) = (x_i[0] as usize, x_j[0] as usize);
        if i < self.n && j < self.n {
            return Ok(self.values[i * self.n + j]);
        }
        let (probe, row) = (i.max(j) - self.n, i.min(j));
        Ok(f64::from(probe == row))
    }
}
