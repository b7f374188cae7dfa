//! Training rows and rows to predict, ready for the updates.

use npb_data::{Labels, PatternIndex, Table};
use npb_priors::dist::{multinomial_probit, probit_moments};
use npb_priors::special::ln_phi;

use super::cells::Cells;
use crate::data::{check_spans, class_of_rows, classes_seen, not_empty};
use crate::units::Units;
use crate::{FactorConfig, Result};

/// The class of each row, and what follows from it.
#[derive(Clone, Debug)]
pub(crate) struct RowLabels {
    /// None for an unlabelled row.
    pub(crate) class: Vec<Option<usize>>,
    /// Number of classes less one; 0 without labels.
    pub(crate) n_utilities: usize,
}

impl RowLabels {
    /// With so many classes.
    pub(crate) fn new(class: Vec<Option<usize>>, n_classes: usize) -> Self {
        let labelled = class.iter().any(Option::is_some);
        Self {
            n_utilities: if labelled { n_classes - 1 } else { 0 },
            class,
        }
    }

    pub(crate) fn is_labelled(&self, i: usize) -> bool {
        self.class[i].is_some()
    }

    /// The rows with labels.
    pub(crate) fn labelled(&self) -> Vec<usize> {
        let all = 0..self.class.len();
        all.filter(|&i| self.is_labelled(i)).collect()
    }

    /// Numbers of row `i`, of a table with one for each utility.
    pub(crate) fn of_row<'a>(&self, by_row: &'a [f64], i: usize) -> &'a [f64] {
        &by_row[i * self.n_utilities..][..self.n_utilities]
    }

    /// Means of utilities with these locations, cut to the region of their row's class, and the logarithm of the region's probability; 0 for an unlabelled row.
    pub(crate) fn moments(&self, i: usize, locations: &[f64], means: &mut [f64]) -> f64 {
        match (self.class[i], locations) {
            (None, _) => {
                means.fill(0.0);
                0.0
            }
            (Some(class), [location]) => {
                means[0] = probit_moments(*location, class > 0).mean;
                ln_phi(if class > 0 { *location } else { -location })
            }
            (Some(class), _) => multinomial_probit::moments(class, locations, means),
        }
    }
}

/// Training data ready for the updates: checked, standardised, grouped by missing pattern.
#[derive(Clone, Debug)]
pub struct FactorData {
    pub(crate) cells: Cells,
    /// Features by the rows that miss them; `rows` of a pattern are features, `missing` are rows.
    pub(crate) columns: PatternIndex,
    pub(crate) labels: RowLabels,
    pub(crate) units: Units,
    pub(crate) classes: Vec<String>,
    pub(crate) n_labelled: usize,
}

impl FactorData {
    /// Checks and prepares a table with one label (or none) for each row.
    ///
    /// Columns that are constant or have no observed value are left out of the model. Errors: no rows, no columns, another number of labels than
    /// rows, one class only, two values of a column with a difference that is beyond f64, a configuration value out of range.
    pub fn new(table: &Table, labels: &Labels, config: &FactorConfig) -> Result<Self> {
        config.validate()?;
        not_empty(table)?;
        let classes = classes_seen(labels)?;
        check_spans(table)?;
        let units = Units::fit(table, config.scale)?;
        let labels = RowLabels::new(class_of_rows(table, labels, &classes)?, classes.len());
        let cells = Cells::new(&units.apply(table)?);
        Ok(Self {
            columns: cells.columns(),
            cells,
            n_labelled: labels.labelled().len(),
            labels,
            units,
            classes,
        })
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
