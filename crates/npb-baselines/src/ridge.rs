//! Ridge regression: dense or sparse rows, and tasks apart, pooled, or with shared and own weights.

use npb_data::Table;
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};

use crate::error::{complete, non_empty, positive};
use crate::linear::{Design, finite_mean};
use crate::tasks::{Tasks, one_per_row};
use crate::{BaselineError, Sharing};

/// Ridge regression by conjugate gradients: minimises Σ (y_i - w'x_i - b)² + penalty |w|²; b is not penalised.
///
/// For many columns, dense or sparse (bags of words): a step costs two products with the rows, and the columns are centred
/// without being made dense.
///
/// ```
/// use npb_baselines::Ridge;
/// use npb_data::Table;
///
/// let x = Table::complete(4, 1, vec![1.0, 2.0, 3.0, 4.0])?;
/// let ridge = Ridge::fit(&x, &[3.0, 5.0, 7.0, 9.0], 1e-9)?;
/// assert!((ridge.predict(&x)?[0] - 3.0).abs() < 1e-6);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ridge {
    weights: Vec<f64>,
    intercept: f64,
}

/// The residual's length, relative to that of the right side, at which conjugate gradients stop.
const TOLERANCE: f64 = 1e-10;

impl Ridge {
    /// Fits; `targets` has one entry per row. A table must be complete.
    ///
    /// # Errors
    /// [`BaselineError::Config`] (`penalty` not positive, or a target that is not finite), [`BaselineError::Empty`],
    /// [`BaselineError::Missing`], [`BaselineError::LabelCount`].
    pub fn fit<'a>(
        train: impl Into<Design<'a>>,
        targets: &[f64],
        penalty: f64,
    ) -> Result<Self, BaselineError> {
        let design = train.into();
        positive("penalty", penalty)?;
        design.check(targets.len())?;
        let centre = finite_mean(targets)?;
        let (n, p) = (design.n_rows(), design.n_cols());
        let mut means = vec![0.0; p];
        (0..n).for_each(|i| design.add(i, 1.0 / n as f64, &mut means));
        // A v = X'X v + penalty v with centred columns.
        let apply = |v: &[f64]| -> Vec<f64> {
            let shift = dot(&means, v);
            let mut out: Vec<f64> = v.iter().map(|v| penalty * v).collect();
            let mut total = 0.0;
            for i in 0..n {
                let value = design.dot(i, v) - shift;
                design.add(i, value, &mut out);
                total += value;
            }
            out.iter_mut()
                .zip(&means)
                .for_each(|(o, m)| *o -= total * m);
            out
        };
        let mut residual = vec![0.0; p];
        (0..n).for_each(|i| design.add(i, targets[i] - centre, &mut residual));
        let weights = conjugate_gradients(apply, residual);
        let intercept = centre - dot(&means, &weights);
        Ok(Self { weights, intercept })
    }

    /// w'x + b of every row.
    ///
    /// # Errors
    /// [`BaselineError::Data`] for another number of columns than in training; [`BaselineError::Missing`].
    pub fn predict<'a>(&self, rows: impl Into<Design<'a>>) -> Result<Vec<f64>, BaselineError> {
        let design = rows.into();
        design.check_columns(self.weights.len())?;
        let value = |i| design.dot(i, &self.weights) + self.intercept;
        Ok((0..design.n_rows()).map(value).collect())
    }
}

/// Solves A x = b for positive definite A from x = 0; `residual` is b.
fn conjugate_gradients(apply: impl Fn(&[f64]) -> Vec<f64>, mut residual: Vec<f64>) -> Vec<f64> {
    let mut x = vec![0.0; residual.len()];
    let mut direction = residual.clone();
    let mut square = dot(&residual, &residual);
    let target = square * TOLERANCE * TOLERANCE;
    // In exact arithmetic one step per column is enough.
    for _ in 0..2 * residual.len() {
        if square <= target {
            break;
        }
        let image = apply(&direction);
        let step = square / dot(&direction, &image);
        for j in 0..x.len() {
            x[j] += step * direction[j];
            residual[j] -= step * image[j];
        }
        let next = dot(&residual, &residual);
        let ratio = next / square;
        square = next;
        direction
            .iter_mut()
            .zip(&residual)
            .for_each(|(d, r)| *d = r + ratio * *d);
    }
    x
}

/// Ridge regression for tasks with the same columns, solved exactly.
///
/// `Single`: one regression per task, intercepts free. `Pooled`: one for all rows. `SharedAndOwn { shared: s }`: weights of task t are
/// s w₀ + v_t, intercepts likewise; Σ (y - ..)² + penalty (|w₀|² + Σ |v_t|²) is least, the task's own intercept penalised as its
/// weights, the common one free.
///
/// Cost: one P³ factor per task and one in all, P = columns + 1.
///
/// ```
/// use npb_baselines::{Sharing, TaskRidge};
/// use npb_data::Table;
///
/// let x = Table::complete(6, 1, vec![0.0, 1.0, 2.0, 0.0, 1.0, 2.0])?;
/// let y = [0.0, 1.0, 2.0, 5.0, 6.0, 7.0];
/// let model = TaskRidge::fit(&x, &[3, 3, 3, 4, 4, 4], &y, Sharing::Single, 1e-9)?;
/// let predicted = model.predict(&Table::complete(2, 1, vec![3.0, 3.0])?, &[3, 4])?;
/// assert!((predicted[0] - 3.0).abs() < 1e-6 && (predicted[1] - 8.0).abs() < 1e-6);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TaskRidge {
    column_names: Vec<String>,
    tasks: Tasks,
    /// Weights, then the intercept, that hold for all tasks; `None` when nothing is shared.
    common: Option<Vec<f64>>,
    /// What each task adds, or all of it when nothing is shared.
    own: Vec<Vec<f64>>,
}

/// Penalty of an intercept that is free, relative to the penalty of weights: enough for a factor.
const FREE: f64 = 1e-9;

impl TaskRidge {
    /// Fits to complete rows; `tasks` and `targets` have one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Missing`], [`BaselineError::LabelCount`],
    /// [`BaselineError::TaskCount`], [`BaselineError::NotPositiveDefinite`].
    pub fn fit(
        train: &Table,
        tasks: &[usize],
        targets: &[f64],
        sharing: Sharing,
        penalty: f64,
    ) -> Result<Self, BaselineError> {
        positive("penalty", penalty)?;
        non_empty(train)?;
        complete(train)?;
        Design::from(train).check(targets.len())?;
        finite_mean(targets)?;
        let known = Tasks::new(train, tasks)?;
        let p = train.n_cols();
        // Weights are penalised, the last place is the intercept.
        let diagonal = |weights: f64, intercept: f64| -> Vec<f64> {
            (0..=p)
                .map(|j| if j < p { weights } else { intercept })
                .collect()
        };
        let free = diagonal(penalty, FREE * penalty);
        let rows = known.rows(tasks);
        let all: Vec<usize> = (0..train.n_rows()).collect();
        let (common, own) = match sharing {
            Sharing::Pooled => {
                let pooled = Normal::new(train, targets, &all).solve(&free)?;
                (Some(pooled), vec![vec![0.0; p + 1]; known.len()])
            }
            Sharing::Single => {
                let each = |rows: &Vec<usize>| Normal::new(train, targets, rows).solve(&free);
                (None, rows.iter().map(each).collect::<Result<_, _>>()?)
            }
            Sharing::SharedAndOwn { shared } => {
                positive("shared", shared)?;
                let common = diagonal(penalty / (shared * shared), FREE * penalty);
                shared_and_own(train, targets, &rows, &common, penalty)?
            }
        };
        Ok(Self {
            column_names: train.column_names().to_vec(),
            tasks: known,
            common,
            own,
        })
    }

    /// Predictions for every row of `table` (complete, columns as in training); `tasks` has one entry per row. A task that was not in
    /// training gets what is common to all tasks.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`],
    /// [`BaselineError::TaskCount`]; [`BaselineError::UnknownTask`] when nothing is shared.
    pub fn predict(&self, table: &Table, tasks: &[usize]) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(&self.column_names)?;
        complete(table)?;
        one_per_row(table, tasks)?;
        let value = |(row, &task): (usize, &usize)| {
            let own = self.tasks.position(task).map(|t| &self.own[t]);
            if own.is_none() && self.common.is_none() {
                return Err(BaselineError::UnknownTask { row, task });
            }
            let parts = self.common.iter().chain(own);
            Ok(parts.map(|w| affine(w, table.row(row))).sum())
        };
        tasks.iter().enumerate().map(value).collect()
    }
}

/// Weights and, last, an intercept applied to a row.
fn affine(w: &[f64], row: &[f64]) -> f64 {
    dot(&w[..row.len()], row) + w[row.len()]
}

/// The normal equations of some rows, a column of ones last.
struct Normal {
    gram: Mat<f64>,
    right: Vec<f64>,
}

impl Normal {
    fn new(table: &Table, targets: &[f64], rows: &[usize]) -> Self {
        let p = table.n_cols();
        let x = Mat::from_fn(rows.len(), p + 1, |i, j| {
            if j < p { table.row(rows[i])[j] } else { 1.0 }
        });
        let y: Vec<f64> = rows.iter().map(|&i| targets[i]).collect();
        Self {
            gram: x.transpose() * &x,
            right: (0..=p).map(|j| dot(x.col_as_slice(j), &y)).collect(),
        }
    }

    fn factor(&self, penalty: &[f64]) -> Result<Cholesky, BaselineError> {
        let mut a = self.gram.clone();
        penalty
            .iter()
            .enumerate()
            .for_each(|(j, penalty)| a[(j, j)] += penalty);
        Cholesky::new(a.as_ref()).map_err(lost_rank)
    }

    fn solve(self, penalty: &[f64]) -> Result<Vec<f64>, BaselineError> {
        let factor = self.factor(penalty)?;
        let mut w = self.right;
        factor.solve(&mut w);
        Ok(w)
    }
}

fn lost_rank(e: NotPositiveDefinite) -> BaselineError {
    BaselineError::NotPositiveDefinite {
        what: "ridge regression",
        iteration: 0,
        pivot: e.pivot,
    }
}

/// Common weights with each task's own ones taken out: with G_t = X_t'X_t, M_t = (G_t + penalty)⁻¹ and g_t = X_t'y_t,
/// (diag(common) + Σ G_t - G_t M_t G_t) w₀ = Σ g_t - G_t M_t g_t, then v_t = M_t (g_t - G_t w₀).
#[allow(clippy::type_complexity)]
fn shared_and_own(
    table: &Table,
    targets: &[f64],
    rows: &[Vec<usize>],
    common: &[f64],
    penalty: f64,
) -> Result<(Option<Vec<f64>>, Vec<Vec<f64>>), BaselineError> {
    let p = common.len();
    let mut total = Normal {
        gram: Mat::zeros(p, p),
        right: vec![0.0; p],
    };
    let mut parts = Vec::with_capacity(rows.len());
    for rows in rows {
        let normal = Normal::new(table, targets, rows);
        let factor = normal.factor(&vec![penalty; p])?;
        let mut solved = normal.gram.clone();
        (0..p).for_each(|j| factor.solve(solved.col_as_slice_mut(j)));
        total.gram += &normal.gram - &normal.gram * &solved;
        for j in 0..p {
            total.right[j] += normal.right[j] - dot(solved.col_as_slice(j), &normal.right);
        }
        parts.push((normal, factor));
    }
    let shared = total.solve(common)?;
    let own = parts.into_iter().map(|(normal, factor)| {
        let mut v: Vec<f64> = (0..p)
            .map(|j| normal.right[j] - dot(normal.gram.col_as_slice(j), &shared))
            .collect();
        factor.solve(&mut v);
        v
    });
    let own = own.collect();
    Ok((Some(shared), own))
}
