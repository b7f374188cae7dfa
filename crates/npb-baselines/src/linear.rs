//! Linear support vector machines by dual coordinate descent: two classes, several classes, regression; dense or sparse rows.
//!
//! No kernel matrix is stored, so that memory is that of the weights and one dual variable per row. The maintained Rust
//! libraries have kernel solvers only, or wrap C++; the method is that of LIBLINEAR and is short.

use npb_data::{Ratings, Table};
use npb_infer::stream;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::{complete, positive};

/// Rows of inputs: a complete table, or a sparse matrix in which what is not stored is 0.
#[derive(Clone, Copy, Debug)]
pub enum Design<'a> {
    /// A table without holes.
    Dense(&'a Table),
    /// Counts or weights of words.
    Sparse(&'a Ratings),
}

impl<'a> From<&'a Table> for Design<'a> {
    fn from(table: &'a Table) -> Self {
        Self::Dense(table)
    }
}

impl<'a> From<&'a Ratings> for Design<'a> {
    fn from(rows: &'a Ratings) -> Self {
        Self::Sparse(rows)
    }
}

impl Design<'_> {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        match self {
            Self::Dense(table) => table.n_rows(),
            Self::Sparse(rows) => rows.n_rows(),
        }
    }

    /// Number of columns.
    pub fn n_cols(&self) -> usize {
        match self {
            Self::Dense(table) => table.n_cols(),
            Self::Sparse(rows) => rows.n_cols(),
        }
    }

    /// w'x of row `i`.
    pub(crate) fn dot(&self, i: usize, w: &[f64]) -> f64 {
        match self {
            Self::Dense(table) => npb_linalg::dot(table.row(i), w),
            Self::Sparse(rows) => {
                let (columns, values) = rows.row(i);
                let pairs = columns.iter().zip(values);
                pairs.map(|(&j, x)| w[j as usize] * x).sum()
            }
        }
    }

    /// w += step x of row `i`.
    pub(crate) fn add(&self, i: usize, step: f64, w: &mut [f64]) {
        match self {
            Self::Dense(table) => {
                let pairs = w.iter_mut().zip(table.row(i));
                pairs.for_each(|(w, x)| *w += step * x);
            }
            Self::Sparse(rows) => {
                let (columns, values) = rows.row(i);
                let pairs = columns.iter().zip(values);
                pairs.for_each(|(&j, x)| w[j as usize] += step * x);
            }
        }
    }

    /// x'x of row `i`.
    fn square(&self, i: usize) -> f64 {
        let values = match self {
            Self::Dense(table) => table.row(i),
            Self::Sparse(rows) => rows.row(i).1,
        };
        values.iter().map(|x| x * x).sum()
    }

    /// At least one row and column, no holes, and `count` things for as many rows.
    pub(crate) fn check(&self, count: usize) -> Result<(), BaselineError> {
        let (n_rows, n_cols) = (self.n_rows(), self.n_cols());
        if n_rows == 0 || n_cols == 0 {
            return Err(BaselineError::Empty { n_rows, n_cols });
        }
        if let Self::Dense(table) = self {
            complete(table)?;
        }
        if count != n_rows {
            return Err(BaselineError::LabelCount {
                labels: count,
                n_rows,
            });
        }
        Ok(())
    }

    /// The columns of training, no holes.
    pub(crate) fn check_columns(&self, expected: usize) -> Result<(), BaselineError> {
        if let Self::Dense(table) = self {
            complete(table)?;
        }
        let found = self.n_cols();
        if found != expected {
            return Err(npb_data::DataError::ColumnCount { found, expected }.into());
        }
        Ok(())
    }
}

/// Weight of the classes in the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeights {
    /// Every row counts alike.
    #[default]
    Equal,
    /// Rows of a class with n_c of n rows, of `k` classes, count n / (k n_c): classes count alike.
    Balanced,
}

impl ClassWeights {
    /// Weight of the rows of the class that is false and of that which is true.
    pub(crate) fn of(self, labels: &[bool]) -> [f64; 2] {
        let n = labels.len() as f64;
        let positives = labels.iter().filter(|&&l| l).count() as f64;
        match self {
            Self::Equal => [1.0; 2],
            Self::Balanced => [n / (2.0 * (n - positives)), n / (2.0 * positives)],
        }
    }
}

/// Loss of [`LinearSvm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HingeLoss {
    /// max(0, 1 - margin).
    Hinge,
    /// Its square, scikit-learn's default.
    #[default]
    Squared,
}

/// Settings of [`LinearSvm`], [`OneAgainstRest`] and [`LinearSvr`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinearConfig {
    /// Weight of the losses against the penalty.
    pub c: f64,
    /// Loss of classifiers.
    pub loss: HingeLoss,
    /// Weight of the classes.
    pub weights: ClassWeights,
    /// Half-width of the band without loss, for regression.
    pub epsilon: f64,
    /// Value of the constant column whose weight is the intercept; it is penalised as other weights are.
    pub constant: f64,
    /// The solver stops when the duality gap is at most this part of the objective.
    pub tolerance: f64,
    /// At most so many passes over the rows.
    pub passes: usize,
    /// Seed of the order of rows in each pass.
    pub seed: u64,
}

impl Default for LinearConfig {
    fn default() -> Self {
        Self {
            c: 1.0,
            loss: HingeLoss::Squared,
            weights: ClassWeights::Equal,
            epsilon: 0.1,
            constant: 1.0,
            tolerance: 1e-4,
            passes: 1000,
            seed: 0,
        }
    }
}

impl LinearConfig {
    fn validate(&self) -> Result<(), BaselineError> {
        positive("c", self.c)?;
        positive("tolerance", self.tolerance)?;
        let rule = "finite and >= 0";
        for (field, value) in [("epsilon", self.epsilon), ("constant", self.constant)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(BaselineError::Config { field, value, rule });
            }
        }
        Ok(())
    }
}

/// Weights, then that of the constant column, with the constant.
#[derive(Clone, Debug)]
struct Linear {
    weights: Vec<f64>,
    intercept: f64,
}

impl Linear {
    fn values(&self, design: Design<'_>) -> Result<Vec<f64>, BaselineError> {
        design.check_columns(self.weights.len())?;
        let value = |i| design.dot(i, &self.weights) + self.intercept;
        Ok((0..design.n_rows()).map(value).collect())
    }
}

/// A linear support vector machine for two classes: minimises |w|² / 2 + b² / 2 + C Σ c_i loss(y_i (w'x_i + b)).
///
/// Source: Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008. Cost per pass: two products with the rows.
///
/// ```
/// use npb_baselines::{LinearConfig, LinearSvm};
/// use npb_data::Table;
///
/// let x = Table::complete(4, 1, vec![-2.0, -1.0, 1.0, 2.0])?;
/// let svm = LinearSvm::fit(&x, &[false, false, true, true], &LinearConfig::default())?;
/// assert!(svm.weights()[0] > 0.5 && svm.intercept().abs() < 1e-3);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinearSvm(Linear);

impl LinearSvm {
    /// Fits; `labels` has one entry per row. A table must be complete.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::Empty`], [`BaselineError::Missing`], [`BaselineError::LabelCount`],
    /// [`BaselineError::OneClass`].
    pub fn fit<'a>(
        train: impl Into<Design<'a>>,
        labels: &[bool],
        config: &LinearConfig,
    ) -> Result<Self, BaselineError> {
        let design = train.into();
        config.validate()?;
        design.check(labels.len())?;
        if labels.iter().all(|&label| label == labels[0]) {
            return Err(BaselineError::OneClass {
                n_rows: labels.len(),
                class: labels[0],
            });
        }
        let weights = config.weights.of(labels);
        let loss = Loss::Hinge {
            squared: config.loss == HingeLoss::Squared,
        };
        let rows: Vec<Row> = labels
            .iter()
            .map(|&label| Row {
                target: if label { 1.0 } else { -1.0 },
                cost: config.c * weights[usize::from(label)],
            })
            .collect();
        Ok(Self(descend(design, &rows, loss, config)))
    }

    /// w'x + b of every row: positive on the side of `true`.
    ///
    /// # Errors
    /// [`BaselineError::Data`] for another number of columns than in training; [`BaselineError::Missing`].
    pub fn decision<'a>(&self, rows: impl Into<Design<'a>>) -> Result<Vec<f64>, BaselineError> {
        self.0.values(rows.into())
    }

    /// Weights, one per column.
    pub fn weights(&self) -> &[f64] {
        &self.0.weights
    }

    /// Intercept.
    pub fn intercept(&self) -> f64 {
        self.0.intercept
    }
}

/// Several classes, each against the rest by a [`LinearSvm`]; the highest decision wins.
///
/// ```
/// use npb_baselines::{LinearConfig, OneAgainstRest};
/// use npb_data::Table;
///
/// let x = Table::complete(3, 2, vec![1.0, 0.0, 0.0, 1.0, -1.0, -1.0])?;
/// let machine = OneAgainstRest::fit(&x, &[0, 1, 2], 3, &LinearConfig::default())?;
/// assert_eq!(machine.predict(&x)?, [0, 1, 2]);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OneAgainstRest {
    /// `None` for a class without rows.
    machines: Vec<Option<LinearSvm>>,
}

impl OneAgainstRest {
    /// Fits; `codes` has the class of every row, from 0. A class without rows is never predicted.
    ///
    /// # Errors
    /// Those of [`LinearSvm::fit`]; [`BaselineError::Data`] for a code that is not below `n_classes`.
    pub fn fit<'a>(
        train: impl Into<Design<'a>>,
        codes: &[usize],
        n_classes: usize,
        config: &LinearConfig,
    ) -> Result<Self, BaselineError> {
        let design = train.into();
        check_codes(codes, n_classes)?;
        let machine = |class: usize| {
            let labels: Vec<bool> = codes.iter().map(|&code| code == class).collect();
            if !labels.contains(&true) {
                return Ok(None);
            }
            LinearSvm::fit(design, &labels, config).map(Some)
        };
        let machines = (0..n_classes).map(machine).collect::<Result<_, _>>()?;
        Ok(Self { machines })
    }

    /// The class of every row.
    ///
    /// # Errors
    /// Those of [`LinearSvm::decision`].
    pub fn predict<'a>(&self, rows: impl Into<Design<'a>>) -> Result<Vec<usize>, BaselineError> {
        let design = rows.into();
        let mut best = vec![(f64::NEG_INFINITY, 0); design.n_rows()];
        for (class, machine) in self.machines.iter().enumerate() {
            let Some(machine) = machine else { continue };
            for (best, score) in best.iter_mut().zip(machine.decision(design)?) {
                if score > best.0 {
                    *best = (score, class);
                }
            }
        }
        Ok(best.into_iter().map(|(_, class)| class).collect())
    }
}

/// Every code is below `n_classes`.
pub(crate) fn check_codes(codes: &[usize], n_classes: usize) -> Result<(), BaselineError> {
    match codes.iter().position(|&code| code >= n_classes) {
        None => Ok(()),
        Some(row) => {
            let code = codes[row];
            Err(npb_data::DataError::Code {
                row,
                code,
                n_classes,
            }
            .into())
        }
    }
}

/// Linear support vector regression: minimises |w|² / 2 + b² / 2 + C Σ max(0, |y_i - w'x_i - b| - ε), after the mean of y is taken off.
///
/// Source: Ho and Lin, JMLR 13 (2012).
///
/// ```
/// use npb_baselines::{LinearConfig, LinearSvr};
/// use npb_data::Table;
///
/// let x = Table::complete(4, 1, vec![-2.0, -1.0, 1.0, 2.0])?;
/// let config = LinearConfig { c: 100.0, epsilon: 0.01, ..Default::default() };
/// let svr = LinearSvr::fit(&x, &[-3.0, -1.0, 3.0, 5.0], &config)?;
/// assert!((svr.predict(&x)?[3] - 5.0).abs() < 0.05);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinearSvr(Linear);

impl LinearSvr {
    /// Fits; `targets` has one entry per row. A table must be complete.
    ///
    /// # Errors
    /// [`BaselineError::Config`] (field `targets` for one that is not finite), [`BaselineError::Empty`],
    /// [`BaselineError::Missing`], [`BaselineError::LabelCount`].
    pub fn fit<'a>(
        train: impl Into<Design<'a>>,
        targets: &[f64],
        config: &LinearConfig,
    ) -> Result<Self, BaselineError> {
        let design = train.into();
        config.validate()?;
        design.check(targets.len())?;
        let centre = finite_mean(targets)?;
        let rows: Vec<Row> = targets
            .iter()
            .map(|y| Row {
                target: y - centre,
                cost: config.c,
            })
            .collect();
        let loss = Loss::Insensitive {
            epsilon: config.epsilon,
        };
        let mut linear = descend(design, &rows, loss, config);
        linear.intercept += centre;
        Ok(Self(linear))
    }

    /// w'x + b of every row.
    ///
    /// # Errors
    /// Those of [`LinearSvm::decision`].
    pub fn predict<'a>(&self, rows: impl Into<Design<'a>>) -> Result<Vec<f64>, BaselineError> {
        self.0.values(rows.into())
    }
}

/// Mean of targets, all finite.
pub(crate) fn finite_mean(targets: &[f64]) -> Result<f64, BaselineError> {
    if let Some(&value) = targets.iter().find(|y| !y.is_finite()) {
        let (field, rule) = ("targets", "finite");
        return Err(BaselineError::Config { field, value, rule });
    }
    Ok(targets.iter().sum::<f64>() / targets.len() as f64)
}

/// What the solver knows of a row besides its inputs.
struct Row {
    /// Label -1 or 1, or value.
    target: f64,
    cost: f64,
}

#[derive(Clone, Copy)]
enum Loss {
    Hinge { squared: bool },
    Insensitive { epsilon: f64 },
}

/// One row of the dual problem: minimise H β²/2 + slope β + ridge β²/2 + absolute |β| over low <= β <= high.
struct Coordinate {
    low: f64,
    high: f64,
    /// Added to the curvature (squared loss).
    ridge: f64,
    absolute: f64,
}

impl Loss {
    /// The dual variable β of a row enters as w = Σ β x: label or sign included.
    fn coordinate(self, row: &Row) -> Coordinate {
        let (low, high, ridge, absolute) = match self {
            Self::Insensitive { epsilon } => (-row.cost, row.cost, 0.0, epsilon),
            Self::Hinge { squared } => {
                let (most, ridge) = match squared {
                    true => (f64::INFINITY, 0.5 / row.cost),
                    false => (row.cost, 0.0),
                };
                match row.target > 0.0 {
                    true => (0.0, most, ridge, 0.0),
                    false => (-most, 0.0, ridge, 0.0),
                }
            }
        };
        Coordinate {
            low,
            high,
            ridge,
            absolute,
        }
    }

    /// Loss of a row at the value f(x).
    fn at(self, row: &Row, value: f64) -> f64 {
        let loss = match self {
            Self::Insensitive { epsilon } => ((row.target - value).abs() - epsilon).max(0.0),
            Self::Hinge { squared } => {
                let slack = (1.0 - row.target * value).max(0.0);
                if squared { slack * slack } else { slack }
            }
        };
        row.cost * loss
    }
}

/// Passes between two looks at the duality gap.
const LOOK: usize = 5;

/// Dual coordinate descent: rows in random order, each dual variable to its optimum given the others.
fn descend(design: Design<'_>, rows: &[Row], loss: Loss, config: &LinearConfig) -> Linear {
    let constant = config.constant;
    let squares: Vec<f64> = (0..rows.len())
        .map(|i| design.square(i) + constant * constant)
        .collect();
    let coordinates: Vec<Coordinate> = rows.iter().map(|row| loss.coordinate(row)).collect();
    let mut beta = vec![0.0; rows.len()];
    let (mut w, mut b) = (vec![0.0; design.n_cols()], 0.0);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    for pass in 0..config.passes {
        order.shuffle(&mut stream(config.seed, [pass as u64, 0, 0, 0]));
        for &i in &order {
            let c = &coordinates[i];
            let curvature = squares[i] + c.ridge;
            if curvature == 0.0 {
                continue;
            }
            let value = design.dot(i, &w) + constant * b;
            let pull = curvature * beta[i] - (value - rows[i].target + c.ridge * beta[i]);
            // The optimum shrinks towards 0 by the absolute term.
            let free = pull.signum() * (pull.abs() - c.absolute).max(0.0) / curvature;
            let step = free.clamp(c.low, c.high) - beta[i];
            if step != 0.0 {
                beta[i] += step;
                design.add(i, step, &mut w);
                b += step * constant;
            }
        }
        if (pass + 1) % LOOK == 0 {
            let square = npb_linalg::dot(&w, &w) + b * b;
            let (mut primal, mut dual) = (0.5 * square, -0.5 * square);
            for (i, row) in rows.iter().enumerate() {
                primal += loss.at(row, design.dot(i, &w) + constant * b);
                let c = &coordinates[i];
                dual += beta[i] * row.target
                    - 0.5 * c.ridge * beta[i] * beta[i]
                    - c.absolute * beta[i].abs();
            }
            if primal - dual <= config.tolerance * primal {
                break;
            }
        }
    }
    Linear {
        weights: w,
        intercept: b * constant,
    }
}
