//! `xtask/experiments/MODEL/listed.toml`: what a package of experiments has, for who has not built it.

use serde::{Deserialize, Serialize};

use crate::Result;

/// What a package of experiments has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its experiments, in the order of the report.
    #[serde(rename = "experiment", default)]
    pub experiments: Vec<Entry>,
    /// Its checks of samplers, in the order of the report.
    #[serde(rename = "check", default)]
    pub checks: Vec<Entry>,
}

/// One experiment or check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// `crate/name`.
    pub id: String,
    /// What is run.
    pub what: String,
    /// Data sets that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
}

impl Listed {
    /// Reads the text of a list.
    ///
    /// # Errors
    /// Text that is no list.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// The text that [`parse`](Self::parse) reads.
    ///
    /// # Errors
    /// None that are known.
    pub fn text(&self) -> Result<String> {
        Ok(toml::to_string(self)?)
    }
}
