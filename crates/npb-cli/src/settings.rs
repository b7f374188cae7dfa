//! Settings of models: defaults, a file, single settings, seed; the later ones win.

use npb_bpfa::ImageConfig;
use npb_bsvd::BsvdConfig;
use npb_hbrec::{GroupedConfig, HbrecConfig};
use npb_iqgme::{IqgmeConfig, TasksConfig};
use npb_itf::ItfConfig;
use npb_regbayes::{LabelsConfig, MedLdaConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::args::{ModelKind, Settings};
use crate::failure::{Failure, Result};
use crate::input;
use crate::meanings::with_meanings;

impl ModelKind {
    /// As it is written in commands and files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ModelKind::Classifier => "classifier",
            ModelKind::Mixture => "mixture",
            ModelKind::Ratings => "ratings",
            ModelKind::Table => "table",
            ModelKind::Labels => "labels",
            ModelKind::Groups => "groups",
            ModelKind::Grouped => "grouped",
            ModelKind::Tasks => "tasks",
            ModelKind::Topics => "topics",
            ModelKind::Image => "image",
        }
    }

    /// Its settings, as TOML with the meaning of each.
    pub(crate) fn config(self, settings: &Settings) -> Result<String> {
        let text = match self {
            ModelKind::Classifier | ModelKind::Mixture => {
                text(&settings.read::<IqgmeConfig>(self)?)
            }
            ModelKind::Ratings => text(&settings.read::<BsvdConfig>(self)?),
            ModelKind::Table => text(&settings.read::<ItfConfig>(self)?),
            ModelKind::Labels => text(&settings.read::<LabelsConfig>(self)?),
            ModelKind::Groups => text(&settings.read::<HbrecConfig>(self)?),
            ModelKind::Grouped => text(&settings.read::<GroupedConfig>(self)?),
            ModelKind::Tasks => text(&settings.read::<TasksConfig>(self)?),
            ModelKind::Topics => text(&settings.read::<MedLdaConfig>(self)?),
            ModelKind::Image => text(&settings.read::<ImageConfig>(self)?),
        };
        Ok(with_meanings(self, &text?))
    }
}

/// Settings as TOML.
pub(crate) fn text<C: Serialize>(config: &C) -> Result<String> {
    toml::to_string(config).map_err(Failure::failed)
}

impl Settings {
    /// The configuration that they say, on top of the default one. Checked by the model itself.
    pub(crate) fn read<C: Default + DeserializeOwned + Serialize>(
        &self,
        kind: ModelKind,
    ) -> Result<C> {
        self.read_on(&C::default(), kind)
    }

    /// The same, where settings that nobody names are those of `base`.
    pub(crate) fn read_on<C: DeserializeOwned + Serialize>(
        &self,
        base: &C,
        kind: ModelKind,
    ) -> Result<C> {
        let base = text(base)?.parse().map_err(Failure::failed)?;
        self.on_top_of(base, kind)
    }

    fn on_top_of<C: DeserializeOwned>(&self, base: Table, kind: ModelKind) -> Result<C> {
        let hint = format!("`npb config {}` lists the settings", kind.name());
        let mut table = base;
        if let Some(path) = &self.config {
            let settings = input::text(path)?.parse::<Table>();
            let settings =
                settings.map_err(|e| Failure::usage(format_args!("{}: {e}", path.display())))?;
            merge(&mut table, settings);
        }
        for setting in &self.set {
            set(&mut table, setting)?;
        }
        if let Some(seed) = self.seed {
            i64::try_from(seed).map_err(|_| Failure::usage("--seed must be below 2^63"))?;
            let setting = match kind {
                ModelKind::Image => "model.seed",
                ModelKind::Tasks => "single.seed",
                ModelKind::Labels => "latent.seed",
                _ => "seed",
            };
            set(&mut table, &format!("{setting}={seed}"))?;
        }
        let named = match &self.config {
            Some(path) => path.display().to_string(),
            None => "--set".to_owned(),
        };
        Value::Table(table).try_into().map_err(|e| {
            let message = in_plain_words(e.to_string());
            Failure::usage(format_args!("{named}: {}; {hint}", message.trim_end()))
        })
    }
}

/// What was expected, without the names that types have in Rust.
fn in_plain_words(mut message: String) -> String {
    let words = [
        ("expected usize", "expected a whole number from 0 on"),
        ("expected u64", "expected a whole number from 0 on"),
        ("expected u32", "expected a whole number from 0 on"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
    ];
    for (type_name, plain) in words {
        message = message.replace(type_name, plain);
    }
    let Some((before, after)) = message.split_once("expected struct ") else {
        return message;
    };
    let rest = after.trim_start_matches(char::is_alphanumeric);
    format!("{before}expected a table of settings{rest}")
}

/// Settings on top of others; tables are merged, everything else is replaced.
fn merge(table: &mut Table, settings: Table) {
    for (key, value) in settings {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(value)) if !are_variants(below, &value) => {
                merge(below, value);
            }
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// Two choices of one setting, each a table with the name of the choice as its only key.
fn are_variants(one: &Table, other: &Table) -> bool {
    one.len() == 1 && other.len() == 1 && one.keys().next() != other.keys().next()
}

/// Puts `a.b=value` into the table; what is no TOML value is a text.
fn set(table: &mut Table, setting: &str) -> Result<()> {
    let wrong = || {
        Failure::usage(format_args!(
            "--set {setting}: write it as key=value, such as seed=1"
        ))
    };
    let (path, text) = setting.split_once('=').ok_or_else(wrong)?;
    let value = format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut t| t.remove("value"));
    let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
    let keys: Vec<&str> = path.split('.').map(str::trim).collect();
    let (last, folders) = keys.split_last().ok_or_else(wrong)?;
    if keys.iter().any(|key| key.is_empty()) {
        return Err(wrong());
    }
    let mut table = table;
    for &key in folders {
        let entry = table
            .entry(key.to_owned())
            .or_insert_with(|| Value::Table(Table::new()));
        table = entry.as_table_mut().ok_or_else(|| {
            Failure::usage(format_args!(
                "--set {setting}: {key} is one value here, not a table of settings; give it whole, as {key}={{ ... }} in TOML"
            ))
        })?;
    }
    table.insert((*last).to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn single_settings_are_put_where_their_keys_say() {
        let mut table = Table::new();
        for setting in ["a=1", "b.c=2.5", "b.d=fast", "e=[1, 2]", "a=3"] {
            set(&mut table, setting).expect("a setting");
        }
        assert_eq!(table["a"].as_integer(), Some(3));
        assert_eq!(table["b"]["c"].as_float(), Some(2.5));
        assert_eq!(table["b"]["d"].as_str(), Some("fast"));
        assert_eq!(table["e"].as_array().map(Vec::len), Some(2));
        for wrong in ["a", "=1", "a.b=1", "a..b=1"] {
            assert!(set(&mut table, wrong).is_err(), "{wrong}");
        }
        let failure = set(&mut table, "a.b=1").expect_err("a is a number");
        assert!(failure.message.contains("a={ ... }"), "{failure}");
    }

    #[test]
    fn types_are_said_in_plain_words() {
        for (said, plain) in [
            (
                "invalid type: string \"x\", expected usize\nin `chains`",
                "invalid type: string \"x\", expected a whole number from 0 on\nin `chains`",
            ),
            (
                "invalid type: integer `5`, expected struct SweepPlan\nin `sweeps`",
                "invalid type: integer `5`, expected a table of settings\nin `sweeps`",
            ),
            (
                "unknown field `sed`, expected `seed`",
                "unknown field `sed`, expected `seed`",
            ),
        ] {
            assert_eq!(in_plain_words(said.to_owned()), plain);
        }
    }

    #[test]
    fn the_settings_of_every_kind_are_written_and_read() {
        for &kind in ModelKind::value_variants() {
            let none = Settings {
                config: None,
                set: vec![],
                seed: None,
            };
            let written = kind.config(&none).expect("written");
            assert!(written.contains("seed = 0"), "{written}");
            let seeded = Settings {
                seed: Some(7),
                ..none.clone()
            };
            assert!(kind.config(&seeded).expect("written").contains("seed = 7"));
            let unknown = Settings {
                set: vec!["sed=7".to_owned()],
                ..none
            };
            let failure = kind.config(&unknown).expect_err("no such setting");
            assert!(
                failure.message.contains("sed") && failure.message.contains("npb config"),
                "{failure}"
            );
        }
    }
}
