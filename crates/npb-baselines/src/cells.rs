//! Held-out cells of mixed tables: what is asked, what is answered, and how tables become numbers.

use npb_data::{DataError, Mask, MixedColumn, MixedTable};

use crate::BaselineError;

/// The prediction for one missing cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Row in the table.
    pub row: usize,
    /// Column in the table.
    pub column: usize,
    /// The prediction.
    pub value: CellValue,
}

/// What is predicted for a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValue {
    /// Mean of a real or count cell.
    Number(f64),
    /// Probabilities of the levels of a categorical or binary cell, in the order of the levels.
    Levels(Vec<f64>),
}

/// Predicts from its own column alone: mean, or relative frequencies with 1 / K added to each of K counts.
///
/// `targets`: true for cells to predict, which must be missing in `table`. Cells come column by column.
///
/// # Errors
/// [`BaselineError::Data`] for a mask of another shape, [`BaselineError::Observed`].
///
/// ```
/// use npb_baselines::{CellValue, marginal_cells};
/// use npb_data::{Mask, MixedColumn, MixedTable};
/// let table = MixedTable::new(vec!["x".into()], vec![MixedColumn::Real(vec![Some(1.0), None, Some(2.0)])])?;
/// let targets = Mask::from_fn(3, 1, |i, _| i == 1)?;
/// assert_eq!(marginal_cells(&table, &targets)?[0].value, CellValue::Number(1.5));
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
pub fn marginal_cells(table: &MixedTable, targets: &Mask) -> Result<Vec<Cell>, BaselineError> {
    check_targets(table, targets)?;
    let mut cells = Vec::new();
    for column in 0..table.n_cols() {
        let value = Target::of(table.column(column)).marginal();
        cells.extend(rows_of(targets, column).map(|row| Cell {
            row,
            column,
            value: value.clone(),
        }));
    }
    Ok(cells)
}

pub(crate) fn check_targets(table: &MixedTable, targets: &Mask) -> Result<(), BaselineError> {
    let (n_rows, n_cols) = (table.n_rows(), table.n_cols());
    if n_rows == 0 || n_cols == 0 {
        return Err(BaselineError::Empty { n_rows, n_cols });
    }
    if (targets.n_rows(), targets.n_cols()) != (n_rows, n_cols) {
        return Err(BaselineError::Data(DataError::Shape {
            what: "mask of cells to predict",
            found_rows: targets.n_rows(),
            found_cols: targets.n_cols(),
            rows: n_rows,
            cols: n_cols,
        }));
    }
    for column in 0..n_cols {
        if let Some(row) = rows_of(targets, column).find(|&i| table.is_observed(i, column)) {
            return Err(BaselineError::Observed { row, column });
        }
    }
    Ok(())
}

/// Rows with a cell to predict in `column`.
pub(crate) fn rows_of(targets: &Mask, column: usize) -> impl Iterator<Item = usize> + '_ {
    (0..targets.n_rows()).filter(move |&i| targets.get(i, column))
}

/// A column as something to predict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Numbers(Vec<Option<f64>>),
    Classes {
        n_levels: usize,
        codes: Vec<Option<usize>>,
    },
}

impl Target {
    pub(crate) fn of(column: &MixedColumn) -> Self {
        match column {
            MixedColumn::Real(values) => Self::Numbers(values.clone()),
            MixedColumn::Count(values) => {
                Self::Numbers(values.iter().map(|v| v.map(|v| v as f64)).collect())
            }
            MixedColumn::Categorical { levels, codes } => Self::Classes {
                n_levels: levels.len(),
                codes: codes.iter().map(|c| c.map(|c| c as usize)).collect(),
            },
            MixedColumn::Binary { values, .. } => Self::Classes {
                n_levels: 2,
                codes: values.iter().map(|v| v.map(usize::from)).collect(),
            },
        }
    }

    /// Mean (0 when nothing is observed), or smoothed frequencies.
    pub(crate) fn marginal(&self) -> CellValue {
        match self {
            Self::Numbers(values) => CellValue::Number(Scale::of(values).mean),
            Self::Classes { n_levels, codes } => {
                let k = *n_levels as f64;
                let mut weights = vec![1.0 / k; *n_levels];
                codes.iter().flatten().for_each(|&c| weights[c] += 1.0);
                let total: f64 = weights.iter().sum();
                CellValue::Levels(weights.iter().map(|w| w / total).collect())
            }
        }
    }

    /// Number of input columns that it makes: one, or one per level.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Numbers(_) => 1,
            Self::Classes { n_levels, .. } => *n_levels,
        }
    }
}

/// Mean and standard deviation (1 for constant values) of observed numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) mean: f64,
    pub(crate) sd: f64,
}

impl Scale {
    pub(crate) fn of(values: &[Option<f64>]) -> Self {
        let n = values.iter().flatten().count() as f64;
        if n == 0.0 {
            return Self { mean: 0.0, sd: 1.0 };
        }
        let mean = values.iter().flatten().map(|v| v / n).sum::<f64>();
        // Scaled first, so that neither 1e300 nor 1e-300 is lost in the square.
        let largest = values
            .iter()
            .flatten()
            .fold(0.0_f64, |m, v| m.max((v - mean).abs()));
        let square = |v: &f64| ((v - mean) / largest).powi(2) / n;
        let sd = largest * values.iter().flatten().map(square).sum::<f64>().sqrt();
        let usable = sd.is_finite() && sd > 0.0;
        Self {
            mean,
            sd: if usable { sd } else { 1.0 },
        }
    }
}
