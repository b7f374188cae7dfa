//! Methods run on folds, and the tables made of their records.

use std::collections::{BTreeMap, BTreeSet};

use super::data::Survey;
use super::methods::Method;
use super::protocol::{Measures, Protocol};
use npb_kit::tables::digits;
use npb_kit::{Context, Outcome, Record, Result, TextTable, Trial, mean_and_sd, text_table};

/// Runs every method on the first `folds` folds, fold by fold. A method learns the database of a fold once and is asked in every way that it takes part
/// in; the records come back one for each number of examples and protocol: `rated` (the items that the active user rated) and `all` (all items that were
/// not given).
pub(super) fn run(
    context: &Context<'_>,
    survey: &Survey,
    protocol: &Protocol,
    methods: &[Method],
    folds: usize,
) -> Result<Vec<Record>> {
    let mut trials = Vec::new();
    for fold in 0..folds as u64 {
        for &method in methods {
            let settings = method.settings();
            let config = format!(
                "{}\n{protocol:?}\n{settings}\n{}",
                survey.source, context.seed
            );
            let place = [&*survey.name, "folds", method.name()];
            trials.push(Trial::new(place, fold, config, method));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let fold = protocol.fold(survey, trial.trial as usize, context.seed)?;
        let method = trial.work;
        let mut learned = method.learn(survey, &fold, seed)?;
        let mut all = Outcome::default();
        let forms = method.forms().into_iter();
        let others = forms.map(|(name, tau)| (name, Some(tau)));
        for (name, tau) in std::iter::once((method.name(), None)).chain(others) {
            if let Some(tau) = tau {
                learned = learned.with_tau(tau)?;
            }
            for (ask, draws) in protocol.asks.iter().zip(&fold.asked) {
                if !method.takes_part(ask) {
                    continue;
                }
                for (place, n) in ask.given.iter().enumerate() {
                    let mut measures = Measures::default();
                    for active in draws {
                        measures.add(active, place, &learned.predict(active, place)?)?;
                    }
                    let prefix = format!("{name}|{n}{}|", ask.label);
                    let outcome = measures.outcome();
                    let named = |measure: String| format!("{prefix}{measure}");
                    all.metrics
                        .extend(outcome.metrics.into_iter().map(|(k, v)| (named(k), v)));
                    all.series
                        .extend(outcome.series.into_iter().map(|(k, v)| (named(k), v)));
                }
            }
        }
        Ok(all)
    })?;
    Ok(records.iter().flat_map(by_setting).collect())
}

/// One record for each method of one fit, number of given examples and protocol.
fn by_setting(record: &Record) -> Vec<Record> {
    let prefix = |name: &String| name.rsplit_once('|').map(|(prefix, _)| prefix.to_owned());
    let prefixes: BTreeSet<String> = record.outcome.metrics.keys().filter_map(prefix).collect();
    let mut records = Vec::new();
    for prefix in prefixes {
        let Some((method, given)) = prefix.split_once('|') else {
            continue;
        };
        let (n, label) = given
            .split_once(';')
            .map_or((given, String::new()), |(n, l)| (n, format!(";{l}")));
        for protocol in ["rated", "all"] {
            let own = |name: &String| -> Option<String> {
                let name = name.strip_prefix(&prefix)?.strip_prefix('|')?;
                let belongs = name.starts_with("top_") == (protocol == "all");
                belongs.then(|| name.to_owned())
            };
            let whole = &record.outcome;
            let mut outcome = Outcome {
                metrics: whole
                    .metrics
                    .iter()
                    .filter_map(|(k, v)| Some((own(k)?, *v)))
                    .collect(),
                series: whole
                    .series
                    .iter()
                    .filter_map(|(k, v)| Some((own(k)?, v.clone())))
                    .collect(),
            };
            if protocol == "rated" {
                let seconds = whole.metrics.get("seconds");
                outcome
                    .metrics
                    .extend(seconds.map(|s| ("seconds".to_owned(), *s)));
            }
            let mut key = record.key.clone();
            key.setting = format!("given={n};protocol={protocol}{label}");
            key.method = method.to_owned();
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
    text_table(
        format!("{dataset}: {ours} less the others, user by user"),
        "setting | measure | method | users | difference | standard error | z",
        rows,
    )
}
