//! One posterior draw of everything that the sampler moves.

use serde::{Deserialize, Serialize};

use crate::kernels::Column;
use crate::numeric::positive;

/// A block of columns with its top-level clustering; [`Tensor`](crate::Structure::Tensor) and
/// [`Joint`](crate::Structure::Joint) have exactly one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Block {
    /// α.
    pub concentration: f64,
    /// c_i0, for every row.
    pub labels: Vec<u32>,
}

/// A column: its block, its clustering and its law.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ColumnState {
    /// Position of its block.
    pub block: usize,
    /// β: one number, or one for each top-level cluster (empty ones included, further ones are drawn from the prior when they come
    /// up). Empty when the structure has one level.
    pub concentrations: Vec<f64>,
    /// c_ij, for every row. Empty when the structure has one level: then the block's labels are the column's.
    pub labels: Vec<u32>,
    /// Kernel and parameters of the clusters.
    pub law: Column,
}

impl ColumnState {
    /// β in a top-level cluster.
    pub(crate) fn concentration(&self, top: usize) -> f64 {
        match self.concentrations[..] {
            [shared] => shared,
            _ => self.concentrations[top],
        }
    }
}

/// Labels, concentrations and parameters. Sticks and slice variables are not part of it: every move that needs them draws
/// them given the labels and forgets them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ItfState {
    /// Blocks, none of them without columns.
    pub blocks: Vec<Block>,
    /// Columns, in the order of the data.
    pub columns: Vec<ColumnState>,
    /// γ of the partition of the columns.
    pub column_concentration: f64,
}

impl ItfState {
    /// The labels that cluster a column's cells.
    pub fn labels(&self, column: usize) -> &[u32] {
        let state = &self.columns[column];
        if state.labels.is_empty() {
            &self.blocks[state.block].labels
        } else {
            &state.labels
        }
    }

    /// The columns of a block, ascending.
    pub fn columns_of(&self, block: usize) -> Vec<usize> {
        let inside = |&j: &usize| self.columns[j].block == block;
        (0..self.columns.len()).filter(inside).collect()
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.blocks[0].labels.len()
    }

    /// Drops blocks without columns.
    pub(crate) fn drop_empty_blocks(&mut self) {
        let mut used = vec![false; self.blocks.len()];
        self.columns.iter().for_each(|c| used[c.block] = true);
        let mut names = Vec::with_capacity(used.len());
        let mut next = 0;
        for &used in &used {
            names.push(next);
            next += usize::from(used);
        }
        self.columns
            .iter_mut()
            .for_each(|c| c.block = names[c.block]);
        let mut used = used.into_iter();
        self.blocks.retain(|_| used.next().unwrap_or(false));
    }

    /// Checks a state that comes from a file.
    pub(crate) fn check(
        &self,
        n_rows: usize,
        two_levels: bool,
        per_top: bool,
    ) -> Result<(), String> {
        let mut used = vec![false; self.blocks.len()];
        if self.columns.is_empty() || self.blocks.is_empty() || !positive(self.column_concentration)
        {
            return Err("columns, blocks or their concentration".to_owned());
        }
        for (b, block) in self.blocks.iter().enumerate() {
            if block.labels.len() != n_rows || !positive(block.concentration) {
                return Err(format!("block {b}: labels or concentration"));
            }
        }
        for (j, column) in self.columns.iter().enumerate() {
            column
                .law
                .check()
                .map_err(|what| format!("column {j}: {what}"))?;
            *used
                .get_mut(column.block)
                .ok_or_else(|| format!("column {j}: its block"))? = true;
            if column.labels.len() != if two_levels { n_rows } else { 0 } {
                return Err(format!("column {j}: number of labels"));
            }
            let largest = |labels: &[u32]| labels.iter().max().map_or(0, |&k| k as usize + 1);
            if largest(self.labels(j)) > column.law.n_clusters() {
                return Err(format!("column {j}: a label without parameters"));
            }
            let n_concentrations = match (two_levels, per_top) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => largest(&self.blocks[column.block].labels).max(2),
            };
            let enough = if per_top && two_levels {
                column.concentrations.len() >= n_concentrations
            } else {
                column.concentrations.len() == n_concentrations
            };
            if !enough || !column.concentrations.iter().all(|&x| positive(x)) {
                return Err(format!("column {j}: concentrations"));
            }
        }
        if used.contains(&false) {
            return Err("a block without columns".to_owned());
        }
        Ok(())
    }
}
