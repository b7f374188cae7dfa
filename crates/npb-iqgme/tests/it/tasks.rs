//! Many tasks: the bound never falls and is stationary, tasks share what they have in common, threads and files change nothing, bad input is named.

mod bad_input;
mod bound;
pub(crate) mod data;
mod fits;
mod multiclass;

use npb_data::{Labels, Table};

use self::data::Tasks;

impl Tasks {
    pub(crate) fn name(&self, j: usize) -> &str {
        &self.names[j]
    }

    pub(crate) fn table(&self, j: usize) -> &Table {
        &self.tables[j]
    }

    pub(crate) fn labels(&self, j: usize) -> &Labels {
        &self.labels[j]
    }
}
