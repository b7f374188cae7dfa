//! The rows of training that a fit keeps, so that it can be asked for draws of its parameters.

use npb_data::{Labels, Table};
use serde::{Deserialize, Serialize};

use crate::data::{IqgmeData, fingerprint};
use crate::units::Units;
use crate::{IqgmeError, Result};

/// The work of a sweep with which chains take some ten seconds on one core.
const MOST_WORK: f64 = 1.5e6;

/// The rows of training as they were handed in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrainingRows {
    pub(super) table: Table,
    pub(super) labels: Labels,
}

impl TrainingRows {
    /// Of a table on which chains with so many components take seconds.
    pub(super) fn of_small(
        table: &Table,
        labels: &Labels,
        data: &IqgmeData,
        n_components: usize,
    ) -> Option<Self> {
        let small = data.rows.n_features > 0 && work(data, n_components) <= MOST_WORK;
        small.then(|| Self {
            table: table.clone(),
            labels: labels.clone(),
        })
    }

    /// Whether [`of_small`](Self::of_small) may keep the rows of a table: with one component, without holes.
    pub(super) fn may_be(table: &Table) -> bool {
        table.n_rows() as f64 * (table.n_cols() as f64 + 4.0).powi(2) <= MOST_WORK
    }

    pub(super) fn n_rows(&self) -> usize {
        self.table.n_rows()
    }

    /// In the units of a fit.
    pub(super) fn data(&self, units: &Units, classes: &[String]) -> Result<IqgmeData> {
        IqgmeData::with_units(&self.table, &self.labels, units.clone(), classes.to_vec())
    }

    /// Checks rows that come from a file: they are those of training, by their fingerprint.
    pub(super) fn check(&self, units: &Units, classes: &[String], training: u64) -> Result<()> {
        let data = self.data(units, classes);
        match data.and_then(|data| fingerprint(&data)) {
            Ok(print) if print == training => Ok(()),
            _ => Err(IqgmeError::saved("rows of training: not those of the fit")),
        }
    }
}

/// Multiplications of a sweep, about: rows and missing patterns by components.
fn work(data: &IqgmeData, n_components: usize) -> f64 {
    let rows = &data.rows;
    let p = rows.n_features as f64;
    let pattern = |missing: usize| {
        let m = missing as f64;
        m.min(p - m).powi(3) + m * m
    };
    let patterns = rows.patterns.iter().map(|of| pattern(of.missing.len()));
    let of_rows = rows.len() as f64 * (p + 4.0).powi(2);
    n_components as f64 * (of_rows + patterns.sum::<f64>() + p.powi(3))
}
