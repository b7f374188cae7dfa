//! What a page knows of a fit beside the fit itself, and the rows that it is asked with.

use npb_data::schema::{Role, Schema, SchemaData};
use npb_data::{DataError, Field, Labels, MixedTable};
use npb_report::isolated;

/// What stands beside a fit in a model file.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// Kind of model, as in `npb fit KIND`.
    pub kind: &'a str,
    /// Name of the model, for the heading.
    pub name: String,
    /// Name of the file of the fit, where it is known.
    pub file: Option<String>,
    /// Rows of the fit, where they are known.
    pub n_rows: Option<usize>,
    /// The columns of the file of the fit, where it has some.
    pub schema: Option<&'a Schema>,
    /// Why each column of the schema was taken for what it is; none where nobody knows.
    pub reasons: Vec<String>,
    /// Of what the page draws: rows, cells that are hidden, rows that are made up.
    pub seed: u64,
}

/// Rows about which a model of columns is asked.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Name of their file.
    pub file: String,
    /// Their features.
    pub features: MixedTable,
    /// Columns that are measured together, and all others.
    pub fields: Vec<Field>,
    /// Their labels, where there is a column of them.
    pub labels: Option<Labels>,
    /// All columns of labels or numbers that are predicted, as far as the file has them.
    pub targets: MixedTable,
    /// Their names.
    pub names: Option<Vec<Option<String>>>,
    /// The tasks or groups to which they belong.
    pub parts: Option<Vec<Option<String>>>,
    /// They may be those of the fit: they are as many, or nobody knows how many these are.
    pub may_be_of_fit: bool,
}

impl Rows {
    /// Rows of a file, read by the schema of the fit to so many rows.
    ///
    /// # Errors
    /// A column of labels that holds none.
    pub fn of(file: &str, data: SchemaData, n_rows_of_fit: usize) -> Result<Self, DataError> {
        let has_labels = data.labels.n_cols() > 0;
        Ok(Self {
            file: file.to_owned(),
            labels: match has_labels && data.labels.column(0).levels().is_some() {
                true => Some(data.labels.labels(0)?),
                false => None,
            },
            targets: data.labels,
            may_be_of_fit: data.n_rows == n_rows_of_fit,
            features: data.features,
            fields: data.fields,
            names: data.row_ids,
            parts: data.groups,
        })
    }

    /// How many.
    pub fn n_rows(&self) -> usize {
        self.features.n_rows()
    }

    /// Some of them, in this order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let of = |names: &Option<Vec<Option<String>>>| {
            let names = names.as_ref()?;
            Some(rows.iter().map(|&row| names[row].clone()).collect())
        };
        Self {
            file: self.file.clone(),
            features: self.features.select_rows(rows),
            fields: self.fields.clone(),
            labels: self.labels.as_ref().map(|labels| labels.select_rows(rows)),
            targets: self.targets.select_rows(rows),
            names: of(&self.names),
            parts: of(&self.parts),
            may_be_of_fit: self.may_be_of_fit,
        }
    }

    /// What the name of a row is; its number from 1 where it has none.
    pub fn name(&self, row: usize) -> String {
        let name = self.names.as_ref().and_then(|names| names[row].clone());
        name.unwrap_or_else(|| (row + 1).to_string())
    }

    /// The sentence that says whether numbers of these rows are those of rows that the fit has not seen.
    pub fn held_out(&self) -> String {
        let (n, file) = (self.n_rows(), isolated(&self.file));
        match self.may_be_of_fit {
            true => format!(
                "{file} may be what the model was fitted to: if so, it has seen these {n} rows, and what stands here is better than it will be for new ones."
            ),
            false => format!("Of the {n} rows of {file}, which is not the file of the fit."),
        }
    }
}

impl Context<'_> {
    /// Names of the columns of a role.
    pub fn with_role(&self, role: Role) -> Vec<&str> {
        let schema = self.schema.into_iter();
        let columns = schema.flat_map(|schema| schema.with_role(role));
        columns.map(|column| column.name.as_str()).collect()
    }
}
