//! Rows that belong to tasks, and logistic regression for them.

use std::collections::HashSet;

use npb_data::Table;
use serde::{Deserialize, Serialize};

use crate::error::{complete, positive, training_set};
use crate::logistic::softplus;
use crate::{BaselineError, LogisticConfig, LogisticRegression};

/// The tasks of a training set, in ascending order of their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Tasks(Vec<usize>);

impl Tasks {
    /// `tasks` has one number per row of `table`.
    pub(crate) fn new(table: &Table, tasks: &[usize]) -> Result<Self, BaselineError> {
        one_per_row(table, tasks)?;
        let mut found = tasks.to_vec();
        found.sort_unstable();
        found.dedup();
        Ok(Self(found))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Numbers of the tasks.
    pub(crate) fn numbers(&self) -> &[usize] {
        &self.0
    }

    pub(crate) fn position(&self, task: usize) -> Option<usize> {
        self.0.binary_search(&task).ok()
    }

    /// Rows of each task; `tasks` are those of training.
    pub(crate) fn rows(&self, tasks: &[usize]) -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new(); self.len()];
        for (row, &task) in tasks.iter().enumerate() {
            if let Some(position) = self.position(task) {
                rows[position].push(row);
            }
        }
        rows
    }
}

pub(crate) fn one_per_row(table: &Table, tasks: &[usize]) -> Result<(), BaselineError> {
    if tasks.len() != table.n_rows() {
        return Err(BaselineError::TaskCount {
            tasks: tasks.len(),
            n_rows: table.n_rows(),
        });
    }
    Ok(())
}

/// How much the tasks of [`TaskLogistic`] have in common.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Nothing: one regression per task.
    Single,
    /// Everything: one regression for the rows of all tasks.
    Pooled,
    /// The weights of a task are `shared` times common weights plus its own (Evgeniou and Pontil, KDD 2004), both penalised
    /// alike, as is the task's own intercept; the common intercept is free.
    SharedAndOwn {
        /// Scale of the common columns; the larger, the more the tasks have in common.
        shared: f64,
    },
}

/// Settings of [`TaskLogistic`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskLogisticConfig {
    /// What the tasks share.
    pub sharing: Sharing,
    /// The regressions.
    pub logistic: LogisticConfig,
}

impl Default for TaskLogisticConfig {
    fn default() -> Self {
        Self {
            sharing: Sharing::SharedAndOwn { shared: 1.0 },
            logistic: LogisticConfig::default(),
        }
    }
}

/// Logistic regression for several tasks with the same columns: apart, pooled, or with shared and own weights.
///
/// Tasks are any numbers, one per row. Groups of tasks that are known beforehand are fitted by [`Sharing::Single`] with the
/// group in place of the task.
///
/// ```
/// use npb_baselines::{TaskLogistic, TaskLogisticConfig};
/// use npb_data::Table;
///
/// let x = Table::complete(8, 1, vec![-2.0, -1.0, 1.0, 2.0, -1.0, 0.0, 2.0, 3.0])?;
/// let tasks = [0, 0, 0, 0, 7, 7, 7, 7];
/// let labels = [false, false, true, true, false, false, true, true];
/// let model = TaskLogistic::fit(&x, &tasks, &labels, &TaskLogisticConfig::default())?;
/// let scores = model.decision(&Table::complete(2, 1, vec![0.7, 0.7])?, &[0, 7])?;
/// assert!(scores[0] > scores[1]);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TaskLogistic {
    tasks: Tasks,
    fitted: Fitted,
}

#[derive(Clone, Debug)]
enum Fitted {
    /// One model per task.
    Single(Vec<LogisticRegression>),
    Pooled(LogisticRegression),
    SharedAndOwn {
        column_names: Vec<String>,
        shared: f64,
        model: LogisticRegression,
    },
}

impl TaskLogistic {
    /// Fits to complete rows; `tasks` and `labels` have one entry per row.
    ///
    /// # Errors
    /// Those of [`LogisticRegression::fit`]; [`BaselineError::TaskCount`]; [`BaselineError::TaskClass`] for a task with one class
    /// when nothing is shared.
    pub fn fit(
        train: &Table,
        tasks: &[usize],
        labels: &[bool],
        config: &TaskLogisticConfig,
    ) -> Result<Self, BaselineError> {
        training_set(train, labels)?;
        let known = Tasks::new(train, tasks)?;
        let logistic = &config.logistic;
        let fitted = match config.sharing {
            Sharing::Single => Fitted::Single(fit_single(train, &known, tasks, labels, logistic)?),
            Sharing::Pooled => Fitted::Pooled(LogisticRegression::fit(train, labels, logistic)?),
            Sharing::SharedAndOwn { shared } => {
                positive("shared", shared)?;
                let wide = shared_and_own(train, &known, tasks, shared)?;
                Fitted::SharedAndOwn {
                    column_names: train.column_names().to_vec(),
                    shared,
                    model: LogisticRegression::fit(&wide, labels, logistic)?,
                }
            }
        };
        Ok(Self {
            tasks: known,
            fitted,
        })
    }

    /// As [`fit`](Self::fit) with the weight of the data, [`LogisticConfig::c`], chosen among `candidates`, one for all tasks: that with which the labels of
    /// five left-out folds of the rows are most probable. Classes are dealt evenly to the folds, over all tasks and within each.
    ///
    /// When nothing is shared, a task that has one class without a fold has no part in what is said of that fold. Where there is no fold to go by, the
    /// weight is that of `config`. Cost: five fits for each candidate.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit), for every candidate.
    pub fn fit_tuned(
        train: &Table,
        tasks: &[usize],
        labels: &[bool],
        config: &TaskLogisticConfig,
        candidates: &[f64],
    ) -> Result<Self, BaselineError> {
        training_set(train, labels)?;
        one_per_row(train, tasks)?;
        let folds = folds(tasks, labels);
        let mut best = (f64::INFINITY, config.clone());
        for &c in candidates {
            let mut candidate = config.clone();
            candidate.logistic.c = c;
            let mut loss = None;
            for fold in 0..FOLDS {
                let of_fold = left_out_loss(train, tasks, labels, &candidate, &folds, fold)?;
                loss = of_fold.map(|more| loss.unwrap_or(0.0) + more).or(loss);
            }
            if let Some(loss) = loss.filter(|loss| *loss < best.0) {
                best = (loss, candidate);
            }
        }
        Self::fit(train, tasks, labels, &best.1)
    }

    /// Log-odds of the positive class for every row of `table` (complete, columns as in training); `tasks` has one entry per row.
    ///
    /// A task that was not in training gets what is common to all tasks.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`],
    /// [`BaselineError::TaskCount`]; [`BaselineError::UnknownTask`] when nothing is shared.
    pub fn decision(&self, table: &Table, tasks: &[usize]) -> Result<Vec<f64>, BaselineError> {
        one_per_row(table, tasks)?;
        match &self.fitted {
            Fitted::Pooled(model) => model.decision(table),
            Fitted::SharedAndOwn {
                column_names,
                shared,
                model,
            } => {
                table.check_columns(column_names)?;
                complete(table)?;
                model.decision(&shared_and_own(table, &self.tasks, tasks, *shared)?)
            }
            Fitted::Single(models) => {
                models[0].check(table)?;
                let score = |(row, &task): (usize, &usize)| {
                    let position = self.tasks.position(task);
                    let position = position.ok_or(BaselineError::UnknownTask { row, task })?;
                    Ok(models[position].score(table.row(row)))
                };
                tasks.iter().enumerate().map(score).collect()
            }
        }
    }
}

/// Folds by which settings are tuned.
pub(crate) const FOLDS: usize = 5;

/// The fold of every row: classes are dealt evenly, over all tasks and within each.
pub(crate) fn folds(tasks: &[usize], labels: &[bool]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&i| (labels[i], tasks[i]));
    let mut folds = vec![0; tasks.len()];
    for (place, i) in order.into_iter().enumerate() {
        folds[i] = place % FOLDS;
    }
    folds
}

/// Minus the log probability of the labels of one fold given the other rows; none when those do not suffice for a regression.
fn left_out_loss(
    train: &Table,
    tasks: &[usize],
    labels: &[bool],
    config: &TaskLogisticConfig,
    folds: &[usize],
    fold: usize,
) -> Result<Option<f64>, BaselineError> {
    let stay = |i: &usize| folds[*i] != fold;
    // Rows that learn from one another.
    let group = |i: usize| match config.sharing {
        Sharing::Single => tasks[i],
        Sharing::Pooled | Sharing::SharedAndOwn { .. } => 0,
    };
    let seen: HashSet<(usize, bool)> = (0..tasks.len())
        .filter(stay)
        .map(|i| (group(i), labels[i]))
        .collect();
    let usable = |i: &usize| {
        [false, true]
            .iter()
            .all(|&l| seen.contains(&(group(*i), l)))
    };
    let (kept, left): (Vec<usize>, Vec<usize>) = (0..tasks.len()).filter(usable).partition(stay);
    if kept.is_empty() || left.is_empty() {
        return Ok(None);
    }
    let part = |rows: &[usize]| {
        let tasks: Vec<usize> = rows.iter().map(|&i| tasks[i]).collect();
        let labels: Vec<bool> = rows.iter().map(|&i| labels[i]).collect();
        (train.select_rows(rows), tasks, labels)
    };
    let (table, own, known) = part(&kept);
    let model = TaskLogistic::fit(&table, &own, &known, config)?;
    let (table, own, wanted) = part(&left);
    let scores = model.decision(&table, &own)?;
    let loss = |(score, label): (&f64, &bool)| softplus(if *label { -score } else { *score });
    Ok(Some(scores.iter().zip(&wanted).map(loss).sum()))
}

fn fit_single(
    train: &Table,
    known: &Tasks,
    tasks: &[usize],
    labels: &[bool],
    config: &LogisticConfig,
) -> Result<Vec<LogisticRegression>, BaselineError> {
    let fit = |(rows, &task): (Vec<usize>, &usize)| {
        let own: Vec<bool> = rows.iter().map(|&i| labels[i]).collect();
        LogisticRegression::fit(&train.select_rows(&rows), &own, config).map_err(|e| match e {
            BaselineError::OneClass { n_rows, class } => BaselineError::TaskClass {
                task,
                n_rows,
                class,
            },
            other => other,
        })
    };
    let rows = known.rows(tasks).into_iter();
    rows.zip(known.numbers()).map(fit).collect()
}

/// Columns: the row times `shared`; for each known task the row and a one where the task is the row's, zeros elsewhere.
fn shared_and_own(
    table: &Table,
    known: &Tasks,
    tasks: &[usize],
    shared: f64,
) -> Result<Table, BaselineError> {
    let p = table.n_cols();
    let width = p + known.len() * (p + 1);
    let mut values = vec![0.0; table.n_rows() * width];
    for (i, wide) in values.chunks_exact_mut(width).enumerate() {
        let row = table.row(i);
        wide.iter_mut().zip(row).for_each(|(w, x)| *w = shared * x);
        if let Some(position) = known.position(tasks[i]) {
            let start = p + position * (p + 1);
            wide[start..start + p].copy_from_slice(row);
            wide[start + p] = 1.0;
        }
    }
    Ok(Table::complete(table.n_rows(), width, values)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANDIDATES: [f64; 5] = [0.01, 0.1, 1.0, 10.0, 100.0];

    /// Two tasks of `n` rows; the label follows the column, or has nothing to do with it.
    fn rows(n: usize, follows: bool) -> (Table, Vec<usize>, Vec<bool>) {
        let value = |i: usize| ((i * 37) % 101) as f64 / 50.0 - 1.01;
        let label = |i: usize| {
            if follows {
                value(i) > 0.0
            } else {
                (i / 2).is_multiple_of(2)
            }
        };
        let table = Table::complete(2 * n, 1, (0..2 * n).map(value).collect()).unwrap();
        let tasks = (0..2 * n).map(|i| i % 2).collect();
        (table, tasks, (0..2 * n).map(label).collect())
    }

    fn same(a: &TaskLogistic, b: &TaskLogistic, table: &Table, tasks: &[usize]) -> bool {
        a.decision(table, tasks).unwrap() == b.decision(table, tasks).unwrap()
    }

    #[test]
    fn folds_hold_equal_parts_of_each_class_in_all_and_in_each_task() {
        let (_, tasks, labels) = rows(50, false);
        let folds = folds(&tasks, &labels);
        for class in [false, true] {
            for fold in 0..FOLDS {
                let count = |task: Option<usize>| {
                    let of = |i: &usize| task.is_none_or(|t| tasks[*i] == t);
                    let of_class = (0..100).filter(|&i| labels[i] == class && folds[i] == fold);
                    of_class.filter(of).count()
                };
                assert_eq!(count(None), 10);
                assert!([0, 1].iter().all(|&t| count(Some(t)) == 5));
            }
        }
    }

    #[test]
    fn the_penalty_is_tuned_to_what_the_labels_say() {
        for sharing in [
            Sharing::Single,
            Sharing::Pooled,
            Sharing::SharedAndOwn { shared: 1.0 },
        ] {
            for (follows, c) in [(true, 100.0), (false, 0.01)] {
                let (table, tasks, labels) = rows(50, follows);
                let mut config = TaskLogisticConfig {
                    sharing,
                    ..Default::default()
                };
                let tuned = TaskLogistic::fit_tuned(&table, &tasks, &labels, &config, &CANDIDATES);
                config.logistic.c = c;
                let fixed = TaskLogistic::fit(&table, &tasks, &labels, &config).unwrap();
                assert!(
                    same(&tuned.unwrap(), &fixed, &table, &tasks),
                    "{sharing:?} {follows}"
                );
            }
        }
    }

    /// One row of a class: without its fold there is nothing to learn from.
    #[test]
    fn without_a_fold_to_go_by_the_penalty_is_that_of_the_configuration() {
        let (table, tasks, _) = rows(5, true);
        let labels: Vec<bool> = (0..10).map(|i| i < 2).collect();
        let config = TaskLogisticConfig {
            sharing: Sharing::Single,
            ..Default::default()
        };
        for candidates in [&[][..], &[1.0]] {
            let tuned = TaskLogistic::fit_tuned(&table, &tasks, &labels, &config, candidates);
            let fixed = TaskLogistic::fit(&table, &tasks, &labels, &config).unwrap();
            assert!(same(&tuned.unwrap(), &fixed, &table, &tasks));
        }
        let bad = TaskLogistic::fit_tuned(&table, &tasks, &labels, &config, &[0.1, -1.0]);
        assert!(matches!(bad, Err(BaselineError::Config { field: "c", .. })));
    }
}
