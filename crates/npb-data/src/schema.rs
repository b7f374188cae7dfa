//! What the columns of a file are, written down once, so that every later file is read as the first one was.
//!
//! A [`Schema`] lists the columns with kind, levels, role and missing marks. [`Schema::guess`] proposes one for a file and says why; a person edits it as TOML
//! ([`SchemaGuess::to_toml`], [`Schema::from_toml`]); [`read::with_schema`](crate::read::with_schema) reads files by it, whatever their values look like.
//!
//! ```
//! use npb_data::read::{self, DelimitedOptions, ReadingRules};
//! use npb_data::schema::{Kind, Role, Schema};
//!
//! let file = "age,smokes,town,ill\n31,yes,Oslo,no\n?,no,Bergen,no\n47,no,Oslo,yes\n";
//! let guess = Schema::guess("trial.csv", file.as_bytes(), &DelimitedOptions::default())?;
//! let mut schema = Schema::from_toml(&guess.to_toml())?;        // what a person has edited
//! schema.set_role("ill", Role::Label)?;
//! let (trial, _) = read::with_schema("trial.csv", file.as_bytes(), &schema, &ReadingRules::default())?;
//! assert_eq!(trial.features.column_names(), ["age", "smokes", "town"]);
//!
//! // A later file: other order, one column more, no label, a town never seen.
//! let later = "town,age,smokes,score\nBergen,52,no,7\nHamar,28,no,3\n";
//! let (new, report) = read::with_schema("later.csv", later.as_bytes(), &trial.schema, &ReadingRules::default())?;
//! assert_eq!(new.features.column_names(), trial.features.column_names());
//! assert_eq!((new.features.n_missing(), report.unseen[0].level.as_str()), (1, "Hamar"));
//! assert_eq!(report.skipped, ["score"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod column;
mod data;
mod date;
mod design;
mod error;
mod text;

pub use column::{BlockKind, BlockSchema, ColumnSchema, Kind, Role};
pub use data::SchemaData;
pub use date::{DateOrder, DateScale, DateUnit};
pub use design::Design;
pub use error::SchemaError;
pub use text::{ColumnGuess, SchemaGuess};

use crate::names::missing_marks;
use column::check_column;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// What the columns of a file are: names, kinds, levels, roles, missing marks.
///
/// ```
/// use npb_data::schema::{Kind, Schema};
/// let schema = Schema::from_toml(r#"columns = [
///     { name = "wind", kind = "angle", period = 360.0 },
///     { name = "seen", kind = "date", date = { order = "ymd", unit = "days", since = "2020-01-01" } },
///     { name = "grade", kind = "ordinal", levels = ["low", "mid", "high"], role = "label" },
/// ]"#)?;
/// assert_eq!(schema.columns[2].kind, Kind::Ordinal);
/// # Ok::<(), npb_data::schema::SchemaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schema {
    /// Texts that mean "missing" in every column. A number that reads as NaN is missing, too.
    pub missing: Vec<String>,
    /// The columns, in the order in which data hold them.
    pub columns: Vec<ColumnSchema>,
    /// Columns that are measured together.
    pub blocks: Vec<BlockSchema>,
}

impl Default for Schema {
    fn default() -> Self {
        Self {
            missing: missing_marks(),
            columns: Vec::new(),
            blocks: Vec::new(),
        }
    }
}

impl Schema {
    /// Position of the column with this name.
    ///
    /// # Errors
    /// [`SchemaError::NoSuchColumn`].
    pub fn position(&self, name: &str) -> Result<usize, SchemaError> {
        let found = self.columns.iter().position(|c| c.name == name);
        found.ok_or_else(|| {
            SchemaError::no_such_column(name, self.columns.iter().map(|c| c.name.as_str()))
        })
    }

    /// Gives a column a role. An identifier cannot be a feature; a role that one column alone can have is taken from the column that had it.
    ///
    /// # Errors
    /// [`SchemaError::NoSuchColumn`], or as [`Schema::validate`].
    pub fn set_role(&mut self, name: &str, role: Role) -> Result<(), SchemaError> {
        let at = self.position(name)?;
        if role.is_single() {
            let holders = self.columns.iter_mut().filter(|c| c.role == role);
            holders.for_each(|c| c.role = Role::Ignored);
        }
        self.columns[at].role = role;
        check_column(&self.columns[at], &self.missing)
    }

    /// The columns that have a role, in their order.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(move |c| c.role == role)
    }

    /// Checks names, levels, periods, dates, roles and blocks.
    ///
    /// # Errors
    /// [`SchemaError`] names the column or block, the setting and the rule.
    pub fn validate(&self) -> Result<(), SchemaError> {
        let mut seen: HashSet<&str> = HashSet::new();
        let names = self.columns.iter().map(|c| c.name.as_str());
        for name in names.chain(self.blocks.iter().map(|b| b.name.as_str())) {
            if !seen.insert(name) {
                return Err(SchemaError::column(
                    name,
                    "name",
                    "is used twice; names of columns and blocks must differ",
                ));
            }
        }
        for column in &self.columns {
            check_column(column, &self.missing)?;
        }
        for role in [Role::RowId, Role::Group, Role::Weight] {
            if let Some(second) = self.with_role(role).nth(1) {
                return Err(SchemaError::column(
                    &second.name,
                    "role",
                    "is that of another column already; only labels, features and ignored columns may be many",
                ));
            }
        }
        self.check_blocks()
    }

    fn check_blocks(&self) -> Result<(), SchemaError> {
        let mut owner: HashMap<&str, &str> = HashMap::new();
        for block in &self.blocks {
            if block.columns.is_empty() {
                return Err(SchemaError::block(
                    &block.name,
                    "must list its columns, at least one",
                ));
            }
            for name in &block.columns {
                let column = &self.columns[self.position(name)?];
                if column.role != Role::Feature || !block.kind.holds(column.kind) {
                    return Err(SchemaError::block(&block.name, block.kind.needs()));
                }
                if owner.insert(name, &block.name).is_some() {
                    return Err(SchemaError::block(
                        &block.name,
                        "has a column that an earlier block has, or one twice",
                    ));
                }
            }
        }
        Ok(())
    }
}
