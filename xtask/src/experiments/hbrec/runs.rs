//! Methods run on folds, and the tables made of their records.

use std::collections::{BTreeMap, BTreeSet};

use super::data::Survey;
use super::methods::Method;
use super::protocol::{Measures, Protocol};
use crate::Result;
use crate::experiments::bsvd::tables::{digits, header};
use crate::reproduce::{Context, Outcome, Record, TextTable, Trial, mean_and_sd};

/// Runs every method on the first `folds` folds. A method learns the database of a fold once and is asked with every number of examples; the records
/// come back one for each number and protocol: `rated` (the items that the active user rated) and `all` (all items that were not given).
pub(super) fn run(
    context: &Context<'_>,
    survey: &Survey,
    protocol: &Protocol,
    methods: &[Method],
    folds: usize,
    label: &str,
) -> Result<Vec<Record>> {
    let mut trials = Vec::new();
    for &method in methods {
        for fold in 0..folds {
            trials.push(Trial {
                dataset: survey.name.clone(),
                setting: format!("given={:?}{label}", protocol.given),
                method: method.name().to_owned(),
                trial: fold as u64,
                config: format!(
                    "{}\n{protocol:?}\n{}\n{}",
                    survey.source,
                    method.settings(),
                    context.seed
                ),
                work: method,
            });
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let fold = protocol.fold(survey, trial.trial as usize, context.seed)?;
        let mut learned = trial.work.learn(survey, &fold, seed)?;
        let mut all = Outcome::default();
        let own = [(trial.work.name().to_owned(), None)];
        for (method, tau) in own.into_iter().chain(trial.work.taus()) {
            if let Some(tau) = tau {
                learned = learned.with_tau(tau)?;
            }
            for (place, n) in protocol.given.iter().enumerate() {
                let mut measures = Measures::default();
                for active in &fold.draws {
                    measures.add(active, place, &learned.predict(active, place)?)?;
                }
                let outcome = measures.outcome();
                let named = |name: String| format!("{method}|{n}:{name}");
                all.metrics
                    .extend(outcome.metrics.into_iter().map(|(k, v)| (named(k), v)));
                all.series
                    .extend(outcome.series.into_iter().map(|(k, v)| (named(k), v)));
            }
        }
        Ok(all)
    })?;
    let mut all = Vec::new();
    for record in &records {
        let of = |name: &String| name.split_once('|').map(|(method, _)| method.to_owned());
        let methods: BTreeSet<String> = record.outcome.metrics.keys().filter_map(of).collect();
        for method in methods {
            all.extend(by_setting(record, &method, &protocol.given, label));
        }
    }
    Ok(all)
}

/// One record for each number of given examples and protocol.
fn by_setting(record: &Record, method: &str, given: &[usize], label: &str) -> Vec<Record> {
    let mut records = Vec::new();
    for n in given {
        for protocol in ["rated", "all"] {
            let belongs = |name: &str| name.starts_with("top_") == (protocol == "all");
            let own = |name: &String| -> Option<String> {
                let name = name.strip_prefix(&format!("{method}|{n}:"))?;
                belongs(name).then(|| name.to_owned())
            };
            let mut key = record.key.clone();
            key.setting = format!("given={n};protocol={protocol}{label}");
            key.method = method.to_owned();
            let mut outcome = Outcome {
                metrics: record
                    .outcome
                    .metrics
                    .iter()
                    .filter_map(|(k, v)| Some((own(k)?, *v)))
                    .collect(),
                series: record
                    .outcome
                    .series
                    .iter()
                    .filter_map(|(k, v)| Some((own(k)?, v.clone())))
                    .collect(),
            };
            if protocol == "rated" {
                outcome.metrics.extend(
                    record
                        .outcome
                        .metrics
                        .get("seconds")
                        .map(|s| ("seconds".to_owned(), *s)),
                );
            }
            records.push(Record { key, outcome });
        }
    }
    records
}

/// The measure of each user of each fold, by method, in a setting of a data set.
pub(super) fn users(
    records: &[Record],
    dataset: &str,
    setting: &str,
    metric: &str,
) -> BTreeMap<String, Vec<f64>> {
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for record in records
        .iter()
        .filter(|r| r.key.dataset == dataset && r.key.setting == setting)
    {
        if let Some(values) = record.outcome.series.get(metric) {
            found
                .entry(record.key.method.clone())
                .or_default()
                .extend(values);
        }
    }
    found
}

/// Mean difference of paired users and its standard error.
pub(super) fn paired(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let (mean, sd) = mean_and_sd(&differences);
    Some((mean, sd? / (differences.len() as f64).sqrt()))
}

/// Ours less each comparator, user by user, for several measures.
pub(super) fn margins(
    records: &[Record],
    dataset: &str,
    ours: &str,
    measures: &[(&str, &str)],
) -> TextTable {
    let mut rows = Vec::new();
    for (setting, metric) in measures {
        let found = users(records, dataset, setting, metric);
        let Some(own) = found.get(ours) else { continue };
        for (method, values) in found.iter().filter(|(m, _)| *m != ours) {
            if let Some((mean, error)) = paired(own, values) {
                rows.push(vec![
                    (*setting).to_owned(),
                    (*metric).to_owned(),
                    method.clone(),
                    own.len().to_string(),
                    format!("{mean:+.4}"),
                    digits(error),
                    format!("{:+.1}", mean / error),
                ]);
            }
        }
    }
    TextTable {
        title: format!("{dataset}: {ours} less the others, user by user"),
        header: header(&[
            "setting",
            "measure",
            "method",
            "users",
            "difference",
            "standard error",
            "z",
        ]),
        rows,
    }
}
