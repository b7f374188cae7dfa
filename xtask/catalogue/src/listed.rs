//! `xtask/experiments/MODEL/listed.toml`: what a package of experiments has, also for who has not built it.

use serde::Deserialize;

use crate::Result;

/// What a package of experiments has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// `crate/name`.
    pub id: String,
    /// What is run.
    pub what: String,
    /// Data sets that it needs; none for generated data.
    #[serde(default)]
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
}
