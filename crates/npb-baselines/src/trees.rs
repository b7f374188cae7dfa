//! Boosted trees and random forests as classifiers.

use std::collections::HashSet;

use npb_data::Table;
use perpetual::objective::Objective;
use perpetual::{Matrix, PerpetualBooster};
use serde::{Deserialize, Serialize};
use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::linalg::basic::matrix::DenseMatrix;

use crate::BaselineError;
use crate::error::{at_least_one, complete, labelled, positive, training_set};
use crate::tasks::{Tasks, one_per_row};

const BOOSTING: &str = "boosted trees";
const FOREST: &str = "random forest";

/// How [`BoostedTrees`] sees tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskColumn {
    /// Their positions in ascending order: a split parts the lower from the higher. Learns fast where tasks of a kind have
    /// neighbouring numbers.
    Number,
    /// Levels without order.
    Level,
}

/// Settings of [`BoostedTrees`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BoostedTreesConfig {
    /// How far the trees are grown; perpetual's only tuning parameter.
    pub budget: f32,
    /// How tasks become a column.
    pub task_column: TaskColumn,
    /// Seed of the sampling of rows and columns.
    pub seed: u64,
}

impl Default for BoostedTreesConfig {
    fn default() -> Self {
        Self {
            budget: 1.0,
            task_column: TaskColumn::Number,
            seed: 0,
        }
    }
}

/// Gradient-boosted trees for two classes, straight from rows with holes.
///
/// Library: perpetual, one thread, log loss without class weights. Holes are left to the trees, which learn a side for them
/// at every split. Tasks, when given, are one more column.
///
/// ```
/// use npb_baselines::{BoostedTrees, BoostedTreesConfig};
/// use npb_data::Table;
///
/// let cells: Vec<f64> = (0..60).map(|i| if i % 7 == 0 { f64::NAN } else { f64::from(i) }).collect();
/// let labels: Vec<bool> = (0..60).map(|i| i >= 30).collect();
/// let table = Table::from_nan_coded(60, 1, &cells)?;
/// let trees = BoostedTrees::fit(&table, None, &labels, &BoostedTreesConfig::default())?;
/// let p = trees.probability(&table, None)?;
/// assert!(p[5] < 0.5 && p[55] > 0.5);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone)]
pub struct BoostedTrees {
    column_names: Vec<String>,
    /// The tasks of training, when there were any.
    tasks: Option<Tasks>,
    booster: PerpetualBooster,
}

impl BoostedTrees {
    /// Fits to rows that may have holes; `labels` and `tasks` have one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::LabelCount`], [`BaselineError::OneClass`],
    /// [`BaselineError::TaskCount`], [`BaselineError::Trees`].
    pub fn fit(
        train: &Table,
        tasks: Option<&[usize]>,
        labels: &[bool],
        config: &BoostedTreesConfig,
    ) -> Result<Self, BaselineError> {
        positive("budget", f64::from(config.budget))?;
        labelled(train, labels)?;
        let known = tasks.map(|tasks| Tasks::new(train, tasks)).transpose()?;
        let columns = columns_of(train, known.as_ref().zip(tasks));
        let y: Vec<f64> = labels.iter().map(|&l| f64::from(u8::from(l))).collect();
        let mut booster = PerpetualBooster::default()
            .set_objective(Objective::LogLoss)
            .set_budget(config.budget)
            .set_seed(config.seed)
            .set_num_threads(Some(1));
        if tasks.is_some() && config.task_column == TaskColumn::Level {
            booster = booster.set_categorical_features(Some(HashSet::from([train.n_cols()])));
        }
        booster.cfg.auto_class_weights = false;
        let matrix = Matrix::new(&columns, train.n_rows(), columns.len() / train.n_rows());
        let fitted = booster.fit(&matrix, &y, None, None);
        fitted.map_err(|e| BaselineError::Trees {
            what: BOOSTING,
            reason: e.to_string(),
        })?;
        Ok(Self {
            column_names: train.column_names().to_vec(),
            tasks: known,
            booster,
        })
    }

    /// Probability of the positive class for every row of `table` (columns as in training). `tasks`: as in training, given or
    /// not; a task that training did not have is a hole.
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::TaskCount`];
    /// [`BaselineError::TasksOfTraining`]; [`BaselineError::Trees`].
    pub fn probability(
        &self,
        table: &Table,
        tasks: Option<&[usize]>,
    ) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(&self.column_names)?;
        match (&self.tasks, tasks) {
            (None, None) => {}
            (Some(_), Some(tasks)) => one_per_row(table, tasks)?,
            (trained, _) => {
                let trained = trained.is_some();
                return Err(BaselineError::TasksOfTraining { trained });
            }
        }
        if table.n_rows() == 0 {
            return Ok(Vec::new());
        }
        let columns = columns_of(table, self.tasks.as_ref().zip(tasks));
        let matrix = Matrix::new(&columns, table.n_rows(), columns.len() / table.n_rows());
        let found = self.booster.predict_proba(&matrix, false, false);
        finite(BOOSTING, found)
    }
}

/// Column by column, holes as NaN; the position of each row's task last.
fn columns_of(table: &Table, tasks: Option<(&Tasks, &[usize])>) -> Vec<f64> {
    let (n, p) = (table.n_rows(), table.n_cols());
    let mut columns = Vec::with_capacity(n * (p + 1));
    for j in 0..p {
        columns.extend((0..n).map(|i| table.get(i, j).unwrap_or(f64::NAN)));
    }
    if let Some((known, tasks)) = tasks {
        let code = |&task: &usize| known.position(task).map_or(f64::NAN, |k| k as f64);
        columns.extend(tasks.iter().map(code));
    }
    columns
}

fn finite(what: &'static str, found: Vec<f64>) -> Result<Vec<f64>, BaselineError> {
    if found.iter().all(|v| v.is_finite()) {
        return Ok(found);
    }
    let reason = "a prediction is not finite".to_owned();
    Err(BaselineError::Trees { what, reason })
}

/// Settings of [`RandomForest`]; the defaults are those of scikit-learn's classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomForestConfig {
    /// Number of trees.
    pub trees: usize,
    /// Columns tried at each split; `None`: the square root of their number, rounded down.
    pub tried: Option<usize>,
    /// Seed of the sampling of rows and columns.
    pub seed: u64,
}

impl Default for RandomForestConfig {
    fn default() -> Self {
        Self {
            trees: 100,
            tried: None,
            seed: 0,
        }
    }
}

/// A random forest for two classes, on smartcore's.
///
/// The library's classifier only votes. Its regression forest on labels 0 and 1 splits by the same criterion (the variance
/// of such labels is half their Gini impurity) and averages the shares of the positive class in the leaves.
///
/// ```
/// use npb_baselines::{RandomForest, RandomForestConfig};
/// use npb_data::Table;
///
/// let x = Table::complete(6, 1, vec![-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])?;
/// let labels = [false, false, false, true, true, true];
/// let p = RandomForest::fit(&x, &labels, &RandomForestConfig::default())?.probability(&x)?;
/// assert!(p[0] < 0.2 && p[5] > 0.8);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Debug)]
pub struct RandomForest {
    column_names: Vec<String>,
    forest: RandomForestRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>,
}

impl RandomForest {
    /// Fits to complete rows; `labels` has one entry per row.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Missing`], [`BaselineError::LabelCount`],
    /// [`BaselineError::OneClass`], [`BaselineError::Trees`].
    pub fn fit(
        train: &Table,
        labels: &[bool],
        config: &RandomForestConfig,
    ) -> Result<Self, BaselineError> {
        at_least_one("trees", config.trees)?;
        training_set(train, labels)?;
        let p = train.n_cols();
        let tried = config.tried.unwrap_or(p.isqrt()).min(p);
        at_least_one("tried", tried)?;
        let y: Vec<f64> = labels.iter().map(|&l| f64::from(u8::from(l))).collect();
        let parameters = RandomForestRegressorParameters::default()
            .with_n_trees(config.trees)
            .with_m(tried)
            .with_min_samples_leaf(1)
            .with_min_samples_split(2)
            .with_seed(config.seed);
        let forest = RandomForestRegressor::fit(&dense(train)?, &y, parameters);
        Ok(Self {
            column_names: train.column_names().to_vec(),
            forest: forest.map_err(|e| refused(&e))?,
        })
    }

    /// Probability of the positive class for every row of `table` (complete, columns as in training).
    ///
    /// # Errors
    /// [`BaselineError::Data`] when the columns are not those of training; [`BaselineError::Missing`],
    /// [`BaselineError::Trees`].
    pub fn probability(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        table.check_columns(&self.column_names)?;
        complete(table)?;
        if table.n_rows() == 0 {
            return Ok(Vec::new());
        }
        let found = self.forest.predict(&dense(table)?);
        finite(FOREST, found.map_err(|e| refused(&e))?)
    }
}

fn dense(table: &Table) -> Result<DenseMatrix<f64>, BaselineError> {
    let values = table.values().to_vec();
    DenseMatrix::new(table.n_rows(), table.n_cols(), values, false).map_err(|e| refused(&e))
}

fn refused(error: &smartcore::error::Failed) -> BaselineError {
    BaselineError::Trees {
        what: FOREST,
        reason: error.to_string(),
    }
}
