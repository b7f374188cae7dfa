//! Trials that are done, one JSON line each, so that a stopped run goes on where it stopped.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use npb_catalogue::Result;

/// What makes two trials the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialKey {
    /// Id of the experiment.
    pub experiment: String,
    /// Name of the data set's folder, or `simulated`.
    pub dataset: String,
    /// `key=value;key=value`.
    pub setting: String,
    /// Name of the method.
    pub method: String,
    /// Number of the trial, from 0.
    pub trial: u64,
    /// The trial's own seed.
    pub seed: u64,
    /// Checksum of everything else that the outcome depends on: the method's settings, the data.
    pub config: String,
}

/// What a trial found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Metrics by name, in lower case. `variant/metric` belongs to a variant of the method that came out of the same fit.
    pub metrics: BTreeMap<String, f64>,
    /// Longer results by name, for figures.
    #[serde(default)]
    pub series: BTreeMap<String, Vec<f64>>,
}

impl Outcome {
    /// An outcome of metrics alone.
    pub fn metrics<const N: usize>(metrics: [(&str, f64); N]) -> Self {
        let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
        Self {
            metrics: BTreeMap::from(metrics),
            series: BTreeMap::new(),
        }
    }

    /// The name of the first value that is not finite.
    pub(crate) fn not_finite(&self) -> Option<&str> {
        let metrics = self.metrics.iter().find(|(_, v)| !v.is_finite());
        let series = self.series.iter();
        let mut series = series.filter(|(_, values)| values.iter().any(|v| !v.is_finite()));
        let name = metrics.map(|(name, _)| name);
        name.or_else(|| series.next().map(|(name, _)| name))
            .map(String::as_str)
    }
}

/// A trial that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Which trial.
    pub key: TrialKey,
    /// What it found.
    pub outcome: Outcome,
}

/// The trials of one experiment on disk.
pub(crate) struct TrialCache {
    done: BTreeMap<TrialKey, Outcome>,
    file: Mutex<File>,
}

impl TrialCache {
    /// Opens the file of trials; without `resume` it starts empty. A line that was cut off by a crash is dropped.
    pub(crate) fn open(path: &Path, resume: bool) -> Result<Self> {
        let named = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut done = BTreeMap::new();
        let mut kept = 0;
        if resume && path.exists() {
            let text = fs::read_to_string(path).map_err(named)?;
            kept = text.rfind('\n').map_or(0, |end| end + 1);
            for (index, line) in text[..kept].lines().enumerate() {
                let record: Record = serde_json::from_str(line).map_err(|e| {
                    let place = format!("{}:{}", path.display(), index + 1);
                    format!("{place}: not a trial ({e}); remove the file to start over")
                })?;
                done.insert(record.key, record.outcome);
            }
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path);
        let file = file.map_err(named)?;
        file.set_len(kept as u64).map_err(named)?;
        Ok(Self {
            done,
            file: Mutex::new(file),
        })
    }

    /// The outcome of a trial done in an earlier run.
    pub(crate) fn get(&self, key: &TrialKey) -> Option<&Outcome> {
        self.done.get(key)
    }

    /// Adds a trial: one write of one line.
    pub(crate) fn append(&self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record)? + "\n";
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_catalogue::Scratch;

    fn record(trial: u64) -> Record {
        Record {
            key: TrialKey {
                experiment: "a/b".into(),
                dataset: "d".into(),
                setting: "missing=0.25".into(),
                method: "m".into(),
                trial,
                seed: 7,
                config: "c".into(),
            },
            outcome: Outcome::metrics([("auc", 0.1 + 0.2), ("seconds", 1e-3)]),
        }
    }

    #[test]
    fn trials_come_back_bit_for_bit() {
        let scratch = Scratch::new("cache-back");
        let path = scratch.path("trials.jsonl");
        let cache = TrialCache::open(&path, false).unwrap();
        cache.append(&record(0)).unwrap();
        cache.append(&record(1)).unwrap();
        assert_eq!(cache.get(&record(0).key), None, "only earlier runs count");
        let cache = TrialCache::open(&path, true).unwrap();
        assert_eq!(cache.get(&record(1).key), Some(&record(1).outcome));
        let mut other = record(1).key;
        other.config = "changed".into();
        assert_eq!(cache.get(&other), None);
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_dropped_and_written_over() {
        let scratch = Scratch::new("cache-cut");
        let path = scratch.path("trials.jsonl");
        TrialCache::open(&path, false)
            .unwrap()
            .append(&record(0))
            .unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        let whole = text.clone();
        text.push_str(&whole[..whole.len() / 2]);
        fs::write(&path, text).unwrap();
        let cache = TrialCache::open(&path, true).unwrap();
        cache.append(&record(1)).unwrap();
        let cache = TrialCache::open(&path, true).unwrap();
        assert!(cache.get(&record(0).key).is_some() && cache.get(&record(1).key).is_some());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn without_resume_it_starts_over() {
        let scratch = Scratch::new("cache-over");
        let path = scratch.path("trials.jsonl");
        TrialCache::open(&path, false)
            .unwrap()
            .append(&record(0))
            .unwrap();
        drop(TrialCache::open(&path, false).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn a_damaged_line_is_named() {
        let scratch = Scratch::new("cache-damaged");
        let path = scratch.path("trials.jsonl");
        fs::write(&path, "{\"key\":1}\n").unwrap();
        let error = TrialCache::open(&path, true).err().unwrap().to_string();
        assert!(error.contains("trials.jsonl:1"), "{error}");
    }

    #[test]
    fn values_that_are_not_finite_are_found() {
        let mut outcome = record(0).outcome;
        assert_eq!(outcome.not_finite(), None);
        outcome.series.insert("curve".into(), vec![1.0, f64::NAN]);
        assert_eq!(outcome.not_finite(), Some("curve"));
        outcome.metrics.insert("auc".into(), f64::INFINITY);
        assert_eq!(outcome.not_finite(), Some("auc"));
    }
}
