//! The scales on which members are trained: the features' own, and normal scores of them.
//!
//! Features of real tables are skewed and have heavy tails; Gaussians spend components on that, and linear experts lean on outliers. On normal scores they do
//! not. Which scale tells labels better differs from table to table, and the folds know. Bounds of members on scores are of other numbers than those of the table, so
//! that these have no part in densities and missing cells.
//!
//! What is by scale is a list: the features' own scale first, normal scores second where there are members on them.

use npb_data::{Labels, Table};

use super::crossval;
use crate::Result;
use crate::config::IqgmeConfig;
use crate::data::Task;
use crate::rows::Rows;
use crate::units::Units;

/// Whether members on scores are to be trained: the configuration wants them, labels say which scale is better, and scores are more than other units, as they are of a
/// column with three values or more.
pub(crate) fn scores_wanted(tables: &[Task<'_>], columns: &[usize], config: &IqgmeConfig) -> bool {
    let bends = |&j: &usize| {
        let columns = tables.iter().map(|task| task.table.observed_in_column(j));
        let mut values = columns.flatten();
        let first = values.next();
        let second = values.find(|v| Some(*v) != first);
        values.any(|v| Some(v) != first && Some(v) != second)
    };
    let sets: Vec<&Labels> = tables.iter().map(|task| task.labels).collect();
    let can_weigh = || !crossval::sides(&sets, config.folds, config.seed).is_empty();
    config.normal_scores && columns.iter().any(bends) && can_weigh()
}

/// The rows of a table on each scale.
pub(crate) fn rows(units: &[Units], table: &Table) -> Result<Vec<Rows>> {
    units.iter().map(|units| units.rows(table)).collect()
}
