//! Gradient-boosted trees as predictors of cells.

use std::collections::HashSet;

use npb_data::{Mask, MixedTable};
use perpetual::objective::Objective;
use perpetual::{Matrix, PerpetualBooster};
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::cells::{Cell, CellValue, Scale, Target, check_targets, rows_of};
use crate::error::positive;

/// Settings of [`boosted_cells`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BoostedConfig {
    /// How far the trees are grown; perpetual's only tuning parameter. Its authors advise 0.5 for a first look and 1 for use.
    pub budget: f32,
    /// Columns with fewer observed rows get their mean or frequencies, and so does a level of several that fewer rows have.
    pub min_rows: usize,
    /// Seed of the sampling of rows and columns.
    pub seed: u64,
}

impl Default for BoostedConfig {
    fn default() -> Self {
        Self {
            budget: 1.0,
            min_rows: 20,
            seed: 0,
        }
    }
}

/// Predicts each held-out cell from the other columns of its row by gradient-boosted trees, one ensemble per column.
///
/// Library: perpetual, one thread. Holes of the inputs are left to the trees, which learn a side for them at every split;
/// categorical inputs are split by level. Numbers are fitted by squared loss on the standardised column, two levels by log
/// loss, more levels by one against the rest, normalised. No class weights, so that the outputs are probabilities.
///
/// `targets`: true for cells to predict, which must be missing in `table`. Cells come column by column.
///
/// # Errors
/// [`BaselineError::Config`], [`BaselineError::Data`] for a mask of another shape, [`BaselineError::Observed`],
/// [`BaselineError::Boosting`].
///
/// ```
/// use npb_baselines::{BoostedConfig, CellValue, boosted_cells};
/// use npb_data::{Mask, MixedColumn, MixedTable};
/// let x = (0..60).map(|i| Some(f64::from(i % 6))).collect();
/// let y = (0..60).map(|i| (i != 7).then_some(10.0 * f64::from(i % 6))).collect();
/// let table = MixedTable::new(vec!["x".into(), "y".into()], vec![MixedColumn::Real(x), MixedColumn::Real(y)])?;
/// let targets = Mask::from_fn(60, 2, |i, j| (i, j) == (7, 1))?;
/// let cells = boosted_cells(&table, &targets, &BoostedConfig::default())?;
/// assert!(matches!(cells[0].value, CellValue::Number(v) if (v - 10.0).abs() < 5.0));
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
pub fn boosted_cells(
    table: &MixedTable,
    targets: &Mask,
    config: &BoostedConfig,
) -> Result<Vec<Cell>, BaselineError> {
    positive("budget", f64::from(config.budget))?;
    check_targets(table, targets)?;
    let columns: Vec<Target> = table.columns().iter().map(Target::of).collect();
    let mut cells = Vec::new();
    for column in 0..columns.len() {
        let asked: Vec<usize> = rows_of(targets, column).collect();
        if asked.is_empty() {
            continue;
        }
        let values = predict_column(&columns, column, &asked, config)?;
        let made = asked
            .iter()
            .zip(values)
            .map(|(&row, value)| Cell { row, column, value });
        cells.extend(made);
    }
    Ok(cells)
}

/// Predictions of one column for the rows `asked`.
fn predict_column(
    columns: &[Target],
    column: usize,
    asked: &[usize],
    config: &BoostedConfig,
) -> Result<Vec<CellValue>, BaselineError> {
    let train = observed_rows(&columns[column]);
    let inputs = useful_inputs(columns, column, &train);
    let marginal = columns[column].marginal();
    if train.len() < config.min_rows || inputs.is_empty() {
        return Ok(vec![marginal; asked.len()]);
    }
    let problem = Problem {
        column,
        inputs: Inputs::new(columns, &inputs, &train),
        new: Inputs::new(columns, &inputs, asked),
        config,
    };
    match (&columns[column], marginal) {
        (Target::Numbers(values), _) => {
            let scale = Scale::of(values);
            let standard = |&i: &usize| values[i].map_or(0.0, |v| (v - scale.mean) / scale.sd);
            let y: Vec<f64> = train.iter().map(standard).collect();
            if y.iter().all(|v| *v == y[0]) {
                return Ok(vec![CellValue::Number(scale.mean); asked.len()]);
            }
            let found = problem.fit(&y, Objective::SquaredLoss)?;
            let back = |z: f64| CellValue::Number(scale.mean + scale.sd * z);
            Ok(found.into_iter().map(back).collect())
        }
        (Target::Classes { codes, .. }, CellValue::Levels(frequencies)) => {
            let y: Vec<usize> = train.iter().filter_map(|&i| codes[i]).collect();
            problem.classes(&y, &frequencies)
        }
        (Target::Classes { .. }, marginal) => Ok(vec![marginal; asked.len()]),
    }
}

fn observed_rows(column: &Target) -> Vec<usize> {
    match column {
        Target::Numbers(values) => (0..values.len()).filter(|&i| values[i].is_some()).collect(),
        Target::Classes { codes, .. } => (0..codes.len()).filter(|&i| codes[i].is_some()).collect(),
    }
}

/// Other columns that take two values, or are sometimes missing and sometimes not, among the training rows.
fn useful_inputs(columns: &[Target], column: usize, train: &[usize]) -> Vec<usize> {
    let varies = |other: &Target| {
        let (values, _) = numbers(other);
        let mut seen = train.iter().map(|&i| values[i]);
        let first = seen.next();
        seen.any(|v| Some(v) != first)
    };
    (0..columns.len())
        .filter(|&j| j != column && varies(&columns[j]))
        .collect()
}

/// A column as numbers (codes of levels), and whether they are codes of more than two levels.
fn numbers(column: &Target) -> (Vec<Option<f64>>, bool) {
    match column {
        Target::Numbers(values) => (values.clone(), false),
        Target::Classes { n_levels, codes } => (
            codes.iter().map(|c| c.map(|c| c as f64)).collect(),
            *n_levels > 2,
        ),
    }
}

/// Some rows of the input columns, column by column, holes as NaN.
struct Inputs {
    n_rows: usize,
    n_cols: usize,
    values: Vec<f64>,
    categorical: HashSet<usize>,
}

impl Inputs {
    fn new(columns: &[Target], inputs: &[usize], rows: &[usize]) -> Self {
        let mut values = Vec::with_capacity(inputs.len() * rows.len());
        let mut categorical = HashSet::new();
        for (k, &j) in inputs.iter().enumerate() {
            let (cells, codes) = numbers(&columns[j]);
            if codes {
                categorical.insert(k);
            }
            values.extend(rows.iter().map(|&i| cells[i].unwrap_or(f64::NAN)));
        }
        Self {
            n_rows: rows.len(),
            n_cols: inputs.len(),
            values,
            categorical,
        }
    }

    fn matrix(&self) -> Matrix<'_, f64> {
        Matrix::new(&self.values, self.n_rows, self.n_cols)
    }
}

/// One column to predict.
struct Problem<'a> {
    column: usize,
    inputs: Inputs,
    new: Inputs,
    config: &'a BoostedConfig,
}

impl Problem<'_> {
    /// Fits `y` and returns predictions for the new rows: means, or probabilities under log loss.
    fn fit(&self, y: &[f64], objective: Objective) -> Result<Vec<f64>, BaselineError> {
        let log_loss = matches!(objective, Objective::LogLoss);
        let mut booster = PerpetualBooster::default()
            .set_objective(objective)
            .set_budget(self.config.budget)
            .set_seed(self.config.seed)
            .set_num_threads(Some(1))
            .set_categorical_features(Some(self.inputs.categorical.clone()));
        booster.cfg.auto_class_weights = false;
        let failed = |reason: String| BaselineError::Boosting {
            column: self.column,
            reason,
        };
        let fitted = booster.fit(&self.inputs.matrix(), y, None, None);
        fitted.map_err(|e| failed(e.to_string()))?;
        let found = match log_loss {
            true => booster.predict_proba(&self.new.matrix(), false, false),
            false => booster.predict(&self.new.matrix(), false),
        };
        match found.iter().all(|v| v.is_finite()) {
            true => Ok(found),
            false => Err(failed("a prediction is not finite".to_owned())),
        }
    }

    /// One ensemble per level against the rest. A level that occurs too rarely to learn from keeps its smoothed frequency.
    fn classes(&self, y: &[usize], frequencies: &[f64]) -> Result<Vec<CellValue>, BaselineError> {
        let n_new = self.new.n_rows;
        let mut weights: Vec<Vec<f64>> = vec![frequencies.to_vec(); n_new];
        let needed = if frequencies.len() > 2 {
            self.config.min_rows.max(1)
        } else {
            1
        };
        let often = |level: &usize| y.iter().filter(|c| *c == level).count() >= needed;
        let found: Vec<usize> = (0..frequencies.len()).filter(often).collect();
        let fitted = match found[..] {
            [] | [_] => &[][..],
            // Of two levels, the second tells the first.
            [_, second] => &[second][..],
            _ => &found[..],
        };
        for &level in fitted {
            let is: Vec<f64> = y.iter().map(|&c| f64::from(u8::from(c == level))).collect();
            for (row, p) in weights.iter_mut().zip(self.fit(&is, Objective::LogLoss)?) {
                row[level] = p;
                if let [first, _] = found[..] {
                    row[first] = 1.0 - p;
                }
            }
        }
        weights.iter_mut().for_each(|row| {
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|w| *w /= total);
        });
        Ok(weights.into_iter().map(CellValue::Levels).collect())
    }
}
