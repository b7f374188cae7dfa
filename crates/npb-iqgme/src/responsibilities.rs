//! Responsibilities of all rows, in the layout of the E-step.

use crate::rows::Rows;

/// A component without a column of its own.
const ABSENT: usize = usize::MAX;

/// `q(z)` of every row. The rows of a block lie together: component by component, its rows side by side.
///
/// Components that are reordered, dropped or added are only noted: the next E-step writes all values anew, in the new order.
#[derive(Clone, Debug)]
pub(crate) struct Responsibilities {
    values: Vec<f64>,
    /// Columns that are stored.
    stored: usize,
    /// The stored column of each component, or [`ABSENT`].
    columns: Vec<usize>,
}

impl Responsibilities {
    /// All zero.
    pub(crate) fn zeros(n_rows: usize, n_components: usize) -> Self {
        Self {
            values: vec![0.0; n_rows * n_components],
            stored: n_components,
            columns: (0..n_components).collect(),
        }
    }

    /// From a matrix with a row for each sorted position (row-major).
    pub(crate) fn from_positions(rows: &Rows, n_components: usize, values: &[f64]) -> Self {
        let mut responsibilities = Self::zeros(rows.len(), n_components);
        for block in &rows.blocks {
            let n = block.rows.len();
            let to = &mut responsibilities.values[block.rows.start * n_components..];
            for (i, position) in block.rows.clone().enumerate() {
                let row = &values[position * n_components..][..n_components];
                for (h, value) in row.iter().enumerate() {
                    to[h * n + i] = *value;
                }
            }
        }
        responsibilities
    }

    /// As a matrix with a row for each sorted position (row-major).
    pub(crate) fn by_position(&self, rows: &Rows) -> Vec<f64> {
        let n_components = self.columns.len();
        let mut values = vec![0.0; rows.len() * n_components];
        for block in &rows.blocks {
            let n = block.rows.len();
            let from = &self.values[block.rows.start * self.stored..];
            for (i, position) in block.rows.clone().enumerate() {
                let row = &mut values[position * n_components..][..n_components];
                for (value, &column) in row.iter_mut().zip(&self.columns) {
                    if column != ABSENT {
                        *value = from[column * n + i];
                    }
                }
            }
        }
        values
    }

    /// Keeps the components `order`, in that order.
    pub(crate) fn select(&mut self, order: &[usize]) {
        self.columns = order.iter().map(|&h| self.columns[h]).collect();
    }

    /// Appends a component without rows.
    pub(crate) fn push_vacant(&mut self) {
        self.columns.push(ABSENT);
    }

    /// All values in the order of the components, to be read: a block of `n` rows has `n` values for each component.
    pub(crate) fn in_order(&mut self, rows: &Rows) -> &mut [f64] {
        let n_components = self.columns.len();
        if self.stored != n_components || !self.columns.iter().copied().eq(0..n_components) {
            *self = Self::from_positions(rows, n_components, &self.by_position(rows));
        }
        &mut self.values
    }

    /// As [`Self::in_order`], to be written: what is there means nothing.
    pub(crate) fn overwritten(&mut self, n_rows: usize) -> &mut [f64] {
        self.stored = self.columns.len();
        self.columns = (0..self.stored).collect();
        self.values.resize(n_rows * self.stored, 0.0);
        &mut self.values
    }
}

#[cfg(test)]
mod tests {
    use npb_data::Table;

    use super::*;

    #[test]
    fn components_are_reordered_dropped_and_added() {
        let table = Table::complete(70, 1, (0..70).map(f64::from).collect()).unwrap();
        let rows = Rows::new(&table, &[1.0; 70]);
        let values: Vec<f64> = (0..210).map(f64::from).collect();
        let mut responsibilities = Responsibilities::from_positions(&rows, 3, &values);
        assert_eq!(responsibilities.by_position(&rows), values);
        responsibilities.select(&[2, 0]);
        responsibilities.push_vacant();
        responsibilities.select(&[1, 2, 0]);
        let wanted: Vec<f64> = (0..70)
            .flat_map(|i| [3.0 * f64::from(i), 0.0, 3.0 * f64::from(i) + 2.0])
            .collect();
        assert_eq!(responsibilities.by_position(&rows), wanted);
        responsibilities.in_order(&rows);
        assert_eq!(responsibilities.by_position(&rows), wanted);
        responsibilities.select(&[0, 1]);
        assert_eq!(responsibilities.overwritten(70).len(), 140);
    }
}
