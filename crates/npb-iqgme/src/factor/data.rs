//! Training rows and rows to predict, ready for the updates.

use npb_data::{Labels, Mask, PatternIndex, Standardiser, Table};
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use super::config::FactorScale;
use super::effects::{EffectLaw, EffectRows};
use super::margins::Margins;
use crate::data::{classes_seen, not_empty, varying_columns};
use crate::{FactorConfig, IqgmeError};

/// Values further out than this many standard deviations are moved here, so that their squares are finite.
const FARTHEST: f64 = 1e100;

/// Standardised rows with holes, features as columns.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    /// n x P, zero where missing.
    pub(crate) x: Mat<f64>,
    /// Rows by the features that they miss.
    pub(crate) patterns: PatternIndex,
    /// Logarithm of the mean absolute value of what is observed of a row; none where that is nothing but zeros.
    pub(crate) ln_spreads: Vec<Option<f64>>,
}

/// Mean and standard deviation of the rows' log spreads in training: the units of [`RowEffects::spread`](crate::RowEffects).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpreadUnits {
    pub(crate) location: f64,
    pub(crate) scale: f64,
}

impl SpreadUnits {
    pub(super) fn of(ln_spreads: &[Option<f64>]) -> Self {
        let known = || ln_spreads.iter().flatten();
        let n = known().count().max(1) as f64;
        let location = known().sum::<f64>() / n;
        let square = known()
            .map(|x| (x - location) * (x - location))
            .sum::<f64>()
            / n;
        // Rows that are all alike have no spread to speak of.
        let scale = if square > 1e-20 { square.sqrt() } else { 1.0 };
        Self { location, scale }
    }

    /// Spreads of rows in these units; zero for a row of which nothing is known.
    pub(crate) fn apply(&self, cells: &Cells) -> Vec<f64> {
        let unit = |ln: &Option<f64>| ln.map_or(0.0, |ln| (ln - self.location) / self.scale);
        cells.ln_spreads.iter().map(unit).collect()
    }
}

impl Cells {
    pub(crate) fn new(table: &Table) -> Self {
        let (n, p) = (table.n_rows(), table.n_cols());
        let values = table.values();
        let value = |i: usize, j: usize| {
            if table.is_observed(i, j) {
                values[i * p + j].clamp(-FARTHEST, FARTHEST)
            } else {
                0.0
            }
        };
        let patterns = table.patterns();
        let mut ln_spreads = vec![None; n];
        for pattern in patterns.iter() {
            let seen = pattern.observed.len() as f64;
            for &i in &pattern.rows {
                let sum: f64 = pattern.observed.iter().map(|&j| value(i, j).abs()).sum();
                ln_spreads[i] = (sum > 0.0).then(|| (sum / seen).ln());
            }
        }
        Self {
            x: Mat::from_fn(n, p, value),
            patterns,
            ln_spreads,
        }
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.x.nrows()
    }

    pub(crate) fn n_features(&self) -> usize {
        self.x.ncols()
    }

    /// Features by the rows that miss them.
    pub(crate) fn columns(&self) -> PatternIndex {
        let (n, p) = (self.n_rows(), self.n_features());
        let mut observed = Mask::new(p, n, true).expect("as large as the table");
        for pattern in self.patterns.patterns() {
            for &i in &pattern.rows {
                for &j in &pattern.missing {
                    observed.set(j, i, false);
                }
            }
        }
        PatternIndex::new(&observed)
    }
}

/// Training data ready for the updates: checked, standardised, grouped by missing pattern.
#[derive(Clone, Debug)]
pub struct FactorData {
    pub(crate) cells: Cells,
    /// Features by the rows that miss them; `rows` of a pattern are features, `missing` are rows.
    pub(crate) columns: PatternIndex,
    /// +1, -1, or 0 for an unlabelled row.
    pub(crate) signs: Vec<f64>,
    /// What rows say of their labels whatever their clusters, and the training rows.
    pub(crate) effects: EffectLaw,
    pub(crate) effect_rows: EffectRows,
    pub(crate) margins: Margins,
    pub(crate) standardiser: Standardiser,
    /// Table columns in the model: those that vary.
    pub(crate) active: Vec<usize>,
    pub(crate) classes: Vec<String>,
    pub(crate) n_labelled: usize,
}

impl FactorData {
    /// Checks and prepares a table with one label (or none) for each row.
    ///
    /// Columns that are constant or have no observed value are left out of the model. Errors: no rows, no columns, another number of labels than
    /// rows, a third class, one class only, a configuration value out of range. `config.row_effects` is read here.
    pub fn new(table: &Table, labels: &Labels, config: &FactorConfig) -> Result<Self, IqgmeError> {
        config.validate()?;
        not_empty(table)?;
        let classes = classes(labels)?;
        let signs = signs(table, labels, &classes)?;
        let margins = match config.scale {
            FactorScale::Standardised => Margins(None),
            FactorScale::NormalScores => Margins::normal_scores(table),
        };
        let scores = margins.apply(table)?;
        let standardiser = Standardiser::fit(&scores);
        let active = varying_columns(table, &standardiser);
        let cells = Cells::new(&standardiser.apply(&scores)?.select_columns(&active)?);
        let labelled: Vec<usize> = (0..signs.len()).filter(|&i| signs[i] != 0.0).collect();
        let (effects, effect_rows) = EffectLaw::new(&cells, &labelled, &config.row_effects);
        Ok(Self {
            columns: cells.columns(),
            effects,
            effect_rows,
            cells,
            n_labelled: labelled.len(),
            signs,
            margins,
            standardiser,
            active,
            classes,
        })
    }

    /// Rows in the units and columns of training.
    pub(crate) fn prepare(
        margins: &Margins,
        standardiser: &Standardiser,
        active: &[usize],
        table: &Table,
    ) -> Result<Cells, IqgmeError> {
        table.check_columns(standardiser.column_names())?;
        let standardised = standardiser.apply(&margins.apply(table)?)?;
        Ok(Cells::new(&standardised.select_columns(active)?))
    }

    /// Number of training rows.
    pub fn n_rows(&self) -> usize {
        self.cells.n_rows()
    }

    /// Number of observed cells in the model's columns.
    pub fn n_observed(&self) -> usize {
        let patterns = self.cells.patterns.iter();
        patterns.map(|p| p.rows.len() * p.observed.len()).sum()
    }
}

/// The two classes of the labelled rows; none when no row has a label.
fn classes(labels: &Labels) -> Result<Vec<String>, IqgmeError> {
    let seen = classes_seen(labels)?;
    match seen.as_slice() {
        [first, second, label, ..] => Err(IqgmeError::ThirdClass {
            first: first.clone(),
            second: second.clone(),
            label: label.clone(),
        }),
        _ => Ok(seen),
    }
}

/// By row: +1 for the second class, -1 for the first, 0 for an unlabelled row.
fn signs(table: &Table, labels: &Labels, classes: &[String]) -> Result<Vec<f64>, IqgmeError> {
    if labels.n_rows() != table.n_rows() {
        return Err(IqgmeError::LabelCount {
            labels: labels.n_rows(),
            rows: table.n_rows(),
        });
    }
    let sign = |row: usize| match labels.name(row) {
        None => 0.0,
        Some(name) if name == classes[0] => -1.0,
        Some(_) => 1.0,
    };
    Ok((0..table.n_rows()).map(sign).collect())
}
