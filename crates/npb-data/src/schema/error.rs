//! What can be wrong with a schema.

/// A schema that cannot be used: which column or block, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The text is no TOML, or not that of a schema.
    #[error("the schema cannot be read: {message}")]
    Toml {
        /// What the parser says, with line and column.
        message: String,
    },
    /// A column with a setting that it cannot have.
    #[error("schema, column {column:?}: {setting} {rule}")]
    Column {
        /// Name of the column.
        column: String,
        /// The setting.
        setting: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// A block that cannot be.
    #[error("schema, block {block:?}: {rule}")]
    Block {
        /// Name of the block.
        block: String,
        /// What it must be.
        rule: &'static str,
    },
    /// No column has this name.
    #[error("the schema has no column {name:?}; it has {known}")]
    NoSuchColumn {
        /// The name asked for.
        name: String,
        /// The first columns that there are.
        known: String,
    },
}

impl SchemaError {
    pub(crate) fn column(name: &str, setting: &'static str, rule: &'static str) -> Self {
        Self::Column {
            column: name.to_owned(),
            setting,
            rule,
        }
    }

    pub(crate) fn block(name: &str, rule: &'static str) -> Self {
        Self::Block {
            block: name.to_owned(),
            rule,
        }
    }

    pub(crate) fn no_such_column<'a>(name: &str, columns: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<String> = columns.map(|name| format!("{name:?}")).collect();
        let mut known = names[..names.len().min(10)].join(", ");
        if names.len() > 10 {
            known += &format!(", {} more", names.len() - 10);
        }
        Self::NoSuchColumn {
            name: name.to_owned(),
            known,
        }
    }
}
