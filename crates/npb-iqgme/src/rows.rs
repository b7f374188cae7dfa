//! The training rows in the order the E-step over them wants, with their labels.

use std::ops::Deref;

use npb_data::Table;
use npb_linalg::mixture::{Block, Pattern, SortedRows};
use serde::{Deserialize, Serialize};

/// Standardised rows sorted for the E-step, and their labels by sorted position.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rows {
    sorted: SortedRows,
    /// +1 (any class but the first), -1, or 0 for an unlabelled row.
    pub(crate) signs: Vec<f64>,
    /// The class of each labelled row.
    pub(crate) classes: Vec<Option<usize>>,
    /// Number of classes less one; 0 without labels.
    pub(crate) n_utilities: usize,
}

/// What has nothing to do with labels.
impl Deref for Rows {
    type Target = SortedRows;

    fn deref(&self) -> &SortedRows {
        &self.sorted
    }
}

impl Rows {
    /// `signs` by table row: +1, -1 or 0 (unlabelled). The table is already standardised.
    #[cfg(test)]
    pub(crate) fn new(table: &Table, signs: &[f64]) -> Self {
        let class = |sign: &f64| (*sign != 0.0).then_some(usize::from(*sign > 0.0));
        let classes: Vec<Option<usize>> = signs.iter().map(class).collect();
        let labelled = classes.iter().any(Option::is_some);
        Self::with_classes(table, &classes, usize::from(labelled))
    }

    /// `classes` by table row, one more of them than `n_utilities`. The table is already standardised.
    pub(crate) fn with_classes(
        table: &Table,
        classes: &[Option<usize>],
        n_utilities: usize,
    ) -> Self {
        let index = table.patterns();
        let patterns = index.iter().map(|p| {
            let (observed, missing) = (p.observed.clone(), p.missing.clone());
            (Pattern { observed, missing }, p.rows.clone())
        });
        let labelled = |row: usize| classes[row].is_some();
        let row = |row| table.row(row);
        let sorted = SortedRows::new(table.n_cols(), patterns.collect(), row, labelled);
        let sign = |class| if class > 0 { 1.0 } else { -1.0 };
        let classes: Vec<Option<usize>> = sorted.order.iter().map(|&row| classes[row]).collect();
        Self {
            signs: classes.iter().map(|c| c.map_or(0.0, sign)).collect(),
            classes,
            n_utilities,
            sorted,
        }
    }

    /// No rows, of so many features.
    pub(crate) fn of_features(n_features: usize) -> Self {
        Self {
            sorted: SortedRows::of_features(n_features),
            signs: Vec::new(),
            classes: Vec::new(),
            n_utilities: 0,
        }
    }

    /// The row at this position alone.
    pub(crate) fn only(&self, position: usize) -> Self {
        Self {
            sorted: self.sorted.only(position),
            signs: vec![self.signs[position]],
            classes: vec![self.classes[position]],
            n_utilities: self.n_utilities,
        }
    }

    /// The same rows at the same positions, without labels.
    pub(crate) fn without_labels(&self) -> Self {
        let mut rows = self.clone();
        rows.signs.fill(0.0);
        rows.classes.fill(None);
        rows.n_utilities = 0;
        let blocks = rows.sorted.blocks.iter_mut();
        blocks.for_each(|block| block.labelled = false);
        rows
    }

    /// Whether covariances of all blocks are completed after the last row: of either kind the sums are the same.
    #[cfg(test)]
    pub(crate) fn set_reduced(&mut self, reduced: bool) {
        let blocks = self.sorted.blocks.iter_mut();
        blocks.for_each(|block| block.reduced = reduced);
    }

    /// Numbers by sorted position, so many for each, by table row.
    pub(crate) fn by_row(&self, by_position: &[f64], n: usize) -> Vec<f64> {
        let mut by_row = vec![0.0; by_position.len()];
        for (values, &row) in by_position.chunks_exact(n.max(1)).zip(&self.order) {
            by_row[row * n..][..n].copy_from_slice(values);
        }
        by_row
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Some row is labelled, or not, and complete, or not, as asked.
    pub(crate) fn any(&self, labelled: bool, complete: bool) -> bool {
        let found = |block: &Block| block.labelled == labelled && block.complete == complete;
        self.blocks.iter().any(found)
    }

    /// Some row has a missing feature.
    pub(crate) fn any_missing(&self) -> bool {
        self.blocks.iter().any(|block| !block.complete)
    }
}
