//! Relevance vector machine.

use npb_data::Table;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use crate::error::{at_least_one, complete, positive, training_set};
use crate::logistic::softplus;
use crate::svm::FixedKernel;
use crate::{BaselineError, Kernel};

const WHAT: &str = "relevance vector machine";
/// Newton stops when no component of the gradient exceeds this.
const GRADIENT: f64 = 1e-8;
const NEWTON_STEPS: usize = 50;
/// The largest precision: beyond it a weight is 0 to rounding.
const LARGEST_PRECISION: f64 = 1e12;

/// Settings of [`Rvm`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RvmConfig {
    /// The kernel.
    pub kernel: Kernel,
    /// At most this many functions added, removed or given another precision.
    pub iterations: usize,
    /// Stops when no function is to be added or removed and no logarithm of a precision would change by more than this.
    pub tolerance: f64,
}

impl Default for RvmConfig {
    fn default() -> Self {
        Self {
            kernel: Kernel::Rbf { gamma: None },
            iterations: 2000,
            tolerance: 1e-3,
        }
    }
}

/// Sparse Bayesian classification: P(positive) = σ(sum_m w_m f_m(x)), w_m ~ N(0, 1 / a_m), precisions a by the fast maximisation of
/// the marginal likelihood (Tipping, JMLR 1, 2001; Tipping and Faul, AISTATS 2003) under Laplace's approximation.
///
/// The functions f are the constant and, for the RBF kernel, k(., x_i) of every training row; for the linear kernel, the columns.
/// Each step adds, removes or re-weights the one function that gains most, then Newton finds the mode of the weights again.
/// Cost per step: rows x functions x active functions.
///
/// ```
/// use npb_baselines::{Rvm, RvmConfig};
/// use npb_data::Table;
///
/// let x = Table::complete(8, 1, vec![-2.0, -1.5, -1.2, -1.0, 1.0, 1.1, 1.5, 2.0])?;
/// let labels = [false, false, false, false, true, true, true, true];
/// let rvm = Rvm::fit(&x, &labels, &RvmConfig::default())?;
/// let scores = rvm.decision(&x)?;
/// assert!(scores[0] < 0.0 && scores[7] > 0.0 && rvm.n_relevant() < 8);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rvm {
    column_names: Vec<String>,
    kernel: FixedKernel,
    relevant: Vec<Relevant>,
    /// Whether the precisions settled before the steps ran out.
    pub converged: bool,
}

/// An active function.
#[derive(Clone, Debug)]
struct Relevant {
    function: Function,
    weight: f64,
}

#[derive(Clone, Debug)]
enum Function {
    Constant,
    /// A column, for the linear kernel.
    Column(usize),
    /// The kernel at a training row.
    Row(Vec<f64>),
}

impl Rvm {
    /// Fits to complete rows; `labels` has one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Missing`], [`BaselineError::LabelCount`],
    /// [`BaselineError::OneClass`], [`BaselineError::NotPositiveDefinite`], [`BaselineError::NotFinite`].
    pub fn fit(train: &Table, labels: &[bool], config: &RvmConfig) -> Result<Self, BaselineError> {
        positive("tolerance", config.tolerance)?;
        at_least_one("iterations", config.iterations)?;
        training_set(train, labels)?;
        let kernel = FixedKernel::new(config.kernel, train)?;
        let mut sparse = Sparse::new(columns(train, kernel), labels);
        sparse.update(0)?;
        let mut converged = false;
        for iteration in 0..config.iterations {
            let Some((function, action)) = sparse.best(config.tolerance) else {
                converged = true;
                break;
            };
            sparse.apply(function, action);
            sparse.update(iteration + 1)?;
        }
        let function = |m: usize| match (m, kernel) {
            (0, _) => Function::Constant,
            (_, FixedKernel::Linear) => Function::Column(m - 1),
            (_, FixedKernel::Rbf { .. }) => Function::Row(train.row(m - 1).to_vec()),
        };
        let active = sparse.active.iter().zip(&sparse.weights);
        Ok(Self {
            column_names: train.column_names().to_vec(),
            kernel,
            relevant: active
                .map(|(&m, &weight)| Relevant {
                    function: function(m),
                    weight,
                })
                .collect(),
            converged,
        })
    }

    /// Log-odds of the positive class for every row of `table` (complete, columns as in training), at the mode of the weights.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`].
    pub fn decision(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(&self.column_names)?;
        complete(table)?;
        let value = |row: &[f64], function: &Function| match function {
            Function::Constant => 1.0,
            Function::Column(j) => row[*j],
            Function::Row(x) => self.kernel.value(x, row),
        };
        let score = |row: &[f64]| {
            let terms = self.relevant.iter();
            terms.map(|r| r.weight * value(row, &r.function)).sum()
        };
        Ok((0..table.n_rows()).map(|i| score(table.row(i))).collect())
    }

    /// Number of functions with a weight that is not 0.
    pub fn n_relevant(&self) -> usize {
        self.relevant.len()
    }
}

/// Values of every function at the training rows, function by function; the constant first.
fn columns(train: &Table, kernel: FixedKernel) -> Vec<Vec<f64>> {
    let n = train.n_rows();
    let of_row = |i: usize| -> Vec<f64> {
        (0..n)
            .map(|k| kernel.value(train.row(i), train.row(k)))
            .collect()
    };
    let constant = std::iter::once(vec![1.0; n]);
    match kernel {
        FixedKernel::Linear => {
            let column = |j: usize| (0..n).map(|i| train.row(i)[j]).collect();
            constant.chain((0..train.n_cols()).map(column)).collect()
        }
        FixedKernel::Rbf { .. } => constant.chain((0..n).map(of_row)).collect(),
    }
}

/// What can be done to a function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// Give it this precision, whether it was active or not.
    Precision(f64),
    Remove,
}

/// The model while it grows.
struct Sparse {
    functions: Vec<Vec<f64>>,
    /// 0 or 1.
    targets: Vec<f64>,
    /// Active functions, in the order in which they came.
    active: Vec<usize>,
    precisions: Vec<f64>,
    /// Mode of their weights.
    weights: Vec<f64>,
    /// For every function, S and Q of Tipping and Faul: how much it overlaps with the model, and with the error.
    overlap: Vec<f64>,
    error: Vec<f64>,
}

impl Sparse {
    /// Starts with the constant alone.
    fn new(functions: Vec<Vec<f64>>, labels: &[bool]) -> Self {
        let m = functions.len();
        Self {
            functions,
            targets: labels.iter().map(|&l| f64::from(u8::from(l))).collect(),
            active: vec![0],
            precisions: vec![1e-3],
            weights: vec![0.0],
            overlap: vec![0.0; m],
            error: vec![0.0; m],
        }
    }

    fn activations(&self, weights: &[f64]) -> Vec<f64> {
        let mut a = vec![0.0; self.targets.len()];
        for (&m, w) in self.active.iter().zip(weights) {
            let function = &self.functions[m];
            a.iter_mut().zip(function).for_each(|(a, f)| *a += w * f);
        }
        a
    }

    /// -ln P(targets | weights) + sum a w² / 2.
    fn objective(&self, weights: &[f64]) -> f64 {
        let losses = self.activations(weights).into_iter().zip(&self.targets);
        let loss: f64 = losses.map(|(a, t)| softplus(a) - t * a).sum();
        let penalty: f64 = weights
            .iter()
            .zip(&self.precisions)
            .map(|(w, a)| a * w * w)
            .sum();
        loss + 0.5 * penalty
    }

    /// Finds the mode of the weights, and S and Q of every function there.
    fn update(&mut self, iteration: usize) -> Result<(), BaselineError> {
        let mut here = self.objective(&self.weights);
        let mut found = self.curvature(iteration)?;
        for _ in 0..NEWTON_STEPS {
            if found.gradient.iter().all(|g| g.abs() <= GRADIENT) {
                break;
            }
            let mut step = found.gradient.clone();
            found.factor.solve(&mut step);
            let Some((there, objective)) = self.descend(&step, here) else {
                break;
            };
            (self.weights, here) = (there, objective);
            found = self.curvature(iteration)?;
        }
        self.statistics(&found);
        let all = self.overlap.iter().chain(&self.error);
        if all.chain(&self.weights).any(|v| !v.is_finite()) {
            let what = WHAT;
            return Err(BaselineError::NotFinite { what, iteration });
        }
        Ok(())
    }

    /// The first of 1, 1/2, 1/4, ... of the step that lowers the objective.
    fn descend(&self, step: &[f64], here: f64) -> Option<(Vec<f64>, f64)> {
        let mut scale = 1.0;
        while scale > 1e-10 {
            let moved = self.weights.iter().zip(step);
            let there: Vec<f64> = moved.map(|(w, s)| w - scale * s).collect();
            let objective = self.objective(&there);
            if objective < here {
                return Some((there, objective));
            }
            scale *= 0.5;
        }
        None
    }

    fn curvature(&self, iteration: usize) -> Result<Curvature, BaselineError> {
        let p: Vec<f64> = self
            .activations(&self.weights)
            .into_iter()
            .map(|a| (-softplus(-a)).exp())
            .collect();
        let curvature: Vec<f64> = p.iter().map(|p| p * (1.0 - p)).collect();
        let residual: Vec<f64> = self.targets.iter().zip(&p).map(|(t, p)| t - p).collect();
        let weighted: Vec<Vec<f64>> = self
            .active
            .iter()
            .map(|&m| product(&self.functions[m], &curvature))
            .collect();
        let k = self.active.len();
        let mut hessian = Mat::zeros(k, k);
        for b in 0..k {
            for a in b..k {
                hessian[(a, b)] = dot(&self.functions[self.active[a]], &weighted[b]);
            }
            hessian[(b, b)] += self.precisions[b];
        }
        let factor =
            Cholesky::new(hessian.as_ref()).map_err(|e| BaselineError::NotPositiveDefinite {
                what: WHAT,
                iteration,
                pivot: e.pivot,
            })?;
        let prior = self.precisions.iter().zip(&self.weights);
        let gradient = self
            .active
            .iter()
            .zip(prior)
            .map(|(&m, (a, w))| a * w - dot(&self.functions[m], &residual))
            .collect();
        Ok(Curvature {
            curvature,
            residual,
            weighted,
            gradient,
            factor,
        })
    }

    /// S_m = f'Bf - f'BF Σ F'Bf and Q_m = f'(targets - probabilities), B the curvatures, F the active functions.
    fn statistics(&mut self, at: &Curvature) {
        let mut cross = vec![0.0; self.active.len()];
        for (m, function) in self.functions.iter().enumerate() {
            for (c, weighted) in cross.iter_mut().zip(&at.weighted) {
                *c = dot(function, weighted);
            }
            let own: f64 = function
                .iter()
                .zip(&at.curvature)
                .map(|(f, b)| f * f * b)
                .sum();
            at.factor.solve_l(&mut cross);
            self.overlap[m] = own - dot(&cross, &cross);
            self.error[m] = dot(function, &at.residual);
        }
    }

    /// s and q of a function: S and Q with the function itself left out of the model.
    fn without(&self, m: usize) -> (f64, f64) {
        let (s, q) = (self.overlap[m], self.error[m]);
        match self.place(m) {
            Some(k) => {
                let a = self.precisions[k];
                (a * s / (a - s), a * q / (a - s))
            }
            None => (s, q),
        }
    }

    fn place(&self, m: usize) -> Option<usize> {
        self.active.iter().position(|&active| active == m)
    }

    /// The function and action that gain most; none when nothing is left to do. The last active function stays.
    fn best(&self, tolerance: f64) -> Option<(usize, Action)> {
        let mut best: Option<(f64, usize, Action)> = None;
        for m in 0..self.functions.len() {
            let Some((gain, action)) = self.proposal(m, tolerance) else {
                continue;
            };
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, m, action));
            }
        }
        best.map(|(_, m, action)| (m, action))
    }

    /// The best action for one function and twice its gain in the logarithm of the marginal likelihood.
    fn proposal(&self, m: usize, tolerance: f64) -> Option<(f64, Action)> {
        let (s, q) = self.without(m);
        let theta = q * q - s;
        // Rounding: the function is in the span of the model, or all but.
        if s.is_nan() || s <= 1e-12 {
            return None;
        }
        let wanted = (s * s / theta).min(LARGEST_PRECISION);
        let (overlap, error) = (self.overlap[m], self.error[m]);
        match self.place(m) {
            None if theta > 0.0 => {
                let ratio = error * error / overlap;
                let gain = ratio - 1.0 - ratio.ln();
                (gain > 1e-6).then_some((gain, Action::Precision(wanted)))
            }
            None => None,
            Some(k) if theta > 0.0 => {
                let now = self.precisions[k];
                if (wanted / now).ln().abs() <= tolerance {
                    return None;
                }
                let change = 1.0 / wanted - 1.0 / now;
                let gain = error * error / (overlap + 1.0 / change) - (overlap * change).ln_1p();
                Some((gain.max(0.0), Action::Precision(wanted)))
            }
            Some(_) if self.active.len() == 1 => None,
            Some(k) => {
                let now = self.precisions[k];
                let gain = error * error / (overlap - now) - (1.0 - overlap / now).ln();
                Some((gain.max(0.0), Action::Remove))
            }
        }
    }

    fn apply(&mut self, m: usize, action: Action) {
        match (self.place(m), action) {
            (Some(k), Action::Precision(a)) => self.precisions[k] = a,
            (None, Action::Precision(a)) => {
                self.active.push(m);
                self.precisions.push(a);
                self.weights.push(0.0);
            }
            (Some(k), Action::Remove) => {
                self.active.remove(k);
                self.precisions.remove(k);
                self.weights.remove(k);
            }
            (None, Action::Remove) => {}
        }
    }
}

/// Derivatives of the objective at the present weights.
struct Curvature {
    /// p (1 - p), row by row.
    curvature: Vec<f64>,
    /// Targets minus probabilities.
    residual: Vec<f64>,
    /// Active functions times curvature.
    weighted: Vec<Vec<f64>>,
    gradient: Vec<f64>,
    factor: Cholesky,
}

/// In eight partial sums, which the compiler can keep in vector registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a.remainder().iter().zip(b.remainder());
    let mut sums = [0.0; 8];
    let rest: f64 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number from 0 to 1 that depends on `k` alone.
    fn uniform(k: u64) -> f64 {
        let h = (k + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let h = (h ^ (h >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((h ^ (h >> 32)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// 120 rows, 6 columns, of which the first two matter.
    fn example() -> (Table, Vec<bool>) {
        let cell = |i: u64, j: u64| 4.0 * uniform(7 * i + j) - 2.0;
        let values = (0..120).flat_map(|i| (0..6).map(move |j| cell(i, j)));
        let odds = |i: u64| 1.0 + 2.0 * cell(i, 0) - 3.0 * cell(i, 1);
        let labels = (0..120).map(|i| uniform(7 * i + 6) < 1.0 / (1.0 + (-odds(i)).exp()));
        let table = Table::complete(120, 6, values.collect()).unwrap();
        (table, labels.collect())
    }

    fn fitted(kernel: Kernel) -> Sparse {
        let (table, labels) = example();
        let kernel = FixedKernel::new(kernel, &table).unwrap();
        let mut sparse = Sparse::new(columns(&table, kernel), &labels);
        sparse.update(0).unwrap();
        for iteration in 0..500 {
            let Some((m, action)) = sparse.best(1e-6) else {
                return sparse;
            };
            sparse.apply(m, action);
            sparse.update(iteration).unwrap();
        }
        panic!("did not converge");
    }

    /// At the maximum a_m w_m² = 1 - a_m Σ_mm (MacKay's fixed point), written down again with a full inverse; functions that were
    /// left out could only lose: Q² <= S.
    #[test]
    fn precisions_are_at_the_fixed_point() {
        for kernel in [Kernel::Linear, Kernel::Rbf { gamma: Some(0.2) }] {
            let sparse = fitted(kernel);
            let k = sparse.active.len();
            assert!(k > 1, "{kernel:?}");
            let p: Vec<f64> = sparse
                .activations(&sparse.weights)
                .iter()
                .map(|a| 1.0 / (1.0 + (-a).exp()))
                .collect();
            let entry = |a: usize, b: usize| -> f64 {
                let (f, g) = (
                    &sparse.functions[sparse.active[a]],
                    &sparse.functions[sparse.active[b]],
                );
                let sum: f64 = (0..p.len())
                    .map(|i| f[i] * g[i] * p[i] * (1.0 - p[i]))
                    .sum();
                sum + if a == b { sparse.precisions[a] } else { 0.0 }
            };
            let hessian = Mat::from_fn(k, k, entry);
            let covariance = Cholesky::new(hessian.as_ref()).unwrap().inverse();
            for m in 0..k {
                let (a, w) = (sparse.precisions[m], sparse.weights[m]);
                let determined = 1.0 - a * covariance[(m, m)];
                assert!(
                    (a * w * w - determined).abs() < 1e-4,
                    "{kernel:?} {m}: {} {determined}",
                    a * w * w
                );
            }
            for m in (0..sparse.functions.len()).filter(|m| !sparse.active.contains(m)) {
                let (s, q) = (sparse.overlap[m], sparse.error[m]);
                assert!(q * q <= s * (1.0 + 2e-3), "{kernel:?} {m}: {q} {s}");
            }
        }
    }

    #[test]
    fn columns_that_matter_are_found_and_the_others_mostly_dropped() {
        let sparse = fitted(Kernel::Linear);
        for m in [1, 2] {
            assert!(sparse.active.contains(&m), "{:?}", sparse.active);
        }
        assert!(sparse.active.len() <= 5, "{:?}", sparse.active);
        let (table, labels) = example();
        let config = RvmConfig {
            kernel: Kernel::Linear,
            ..Default::default()
        };
        let rvm = Rvm::fit(&table, &labels, &config).unwrap();
        assert!(rvm.converged);
        let right = rvm.decision(&table).unwrap();
        let right = right
            .iter()
            .zip(&labels)
            .filter(|(s, l)| (**s > 0.0) == **l);
        assert!(right.count() > 100);
    }

    /// A wrong statistic is noticed: with S in place of s the fixed point is another.
    #[test]
    fn the_fixed_point_test_can_fail() {
        let sparse = fitted(Kernel::Linear);
        let wrong = |m: usize| {
            let (s, q) = (sparse.overlap[m], sparse.error[m]);
            s * s / (q * q - s)
        };
        let off = |(k, &m): (usize, &usize)| (wrong(m) / sparse.precisions[k]).ln().abs() > 0.1;
        assert!(sparse.active.iter().enumerate().any(off));
    }
}
