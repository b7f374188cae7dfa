//! What a file holds, read by a schema.

use super::Schema;
use crate::{Field, MixedTable};

/// What a file holds, sorted by role.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaData {
    /// The schema with the levels of every column that is read: read later files by this one.
    pub schema: Schema,
    /// Number of rows.
    pub n_rows: usize,
    /// Columns of the role feature in the order of the schema. Dates are real columns.
    pub features: MixedTable,
    /// What the features measure, blocks included; positions are those in `features`.
    pub fields: Vec<Field>,
    /// Columns of the role label that the file has.
    pub labels: MixedTable,
    /// Names of the rows, if a column has that role and the file has it.
    pub row_ids: Option<Vec<Option<String>>>,
    /// Group of every row, likewise.
    pub groups: Option<Vec<Option<String>>>,
    /// Weight of every row, likewise.
    pub weights: Option<Vec<f64>>,
}
