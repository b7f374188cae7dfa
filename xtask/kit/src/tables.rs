//! Tables that experiments share: overviews, targets, paired differences.

use crate::cache::Record;
use crate::number::short;
use crate::report::{ResultRow, TextTable, mean_and_sd};

/// Distinct values in the order of first appearance.
pub fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Names of columns.
pub fn header(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// A summarised metric.
pub fn find<'a>(
    results: &'a [ResultRow],
    setting: &str,
    method: &str,
    metric: &str,
) -> Option<&'a ResultRow> {
    results
        .iter()
        .find(|r| r.setting == setting && r.method == method && r.metric == metric)
}

/// A number with enough digits for errors that differ in the fourth.
pub fn digits(value: f64) -> String {
    if value.abs() < 10.0 && value != 0.0 && value.abs() > 1e-3 {
        format!("{value:.4}")
    } else {
        short(value)
    }
}

/// Mean, and standard deviation where there is one.
pub fn with_sd(row: &ResultRow) -> String {
    match row.sd {
        Some(sd) => format!("{} ({})", digits(row.mean), digits(sd)),
        None => digits(row.mean),
    }
}

/// One line for each setting and method, one column for each metric; metrics that nothing has are left out.
pub fn overview(title: &str, results: &[ResultRow], metrics: &[&str]) -> TextTable {
    let measured = |metric: &&&str| results.iter().any(|r| r.metric == **metric);
    let metrics: Vec<&str> = metrics.iter().filter(measured).copied().collect();
    let places = distinct(results.iter().map(|r| (&r.setting, &r.method)));
    let line = |(setting, method): (&String, &String)| {
        let cell =
            |metric: &&str| find(results, setting, method, metric).map_or(String::new(), with_sd);
        let names = [setting.clone(), method.clone()];
        names.into_iter().chain(metrics.iter().map(cell)).collect()
    };
    TextTable {
        title: format!("{title}: mean (standard deviation over trials)"),
        header: header(&[&["setting", "method"], &metrics[..]].concat()),
        rows: places.into_iter().map(line).collect(),
    }
}

/// A number that should lie in a range.
pub struct Target {
    /// What it is.
    pub what: String,
    /// The number, if it was measured.
    pub found: Option<f64>,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

impl Target {
    /// A mean that should not be above `high`.
    pub fn at_most(what: &str, found: Option<&ResultRow>, high: f64) -> Self {
        Self {
            what: what.to_owned(),
            found: found.map(|row| row.mean),
            low: f64::NEG_INFINITY,
            high,
        }
    }

    /// A mean that should lie between `low` and `high`.
    pub fn between(what: &str, found: Option<&ResultRow>, low: f64, high: f64) -> Self {
        Self {
            low,
            ..Self::at_most(what, found, high)
        }
    }
}

/// What was found beside its targets; what was not measured is left out.
pub fn targets(targets: &[Target]) -> TextTable {
    let line = |target: &Target| {
        let found = target.found?;
        let limit = |value: f64| {
            if value.is_finite() {
                digits(value)
            } else {
                String::new()
            }
        };
        let met = (target.low..=target.high).contains(&found);
        Some(vec![
            target.what.clone(),
            digits(found),
            limit(target.low),
            limit(target.high),
            if met { "yes" } else { "no" }.to_owned(),
        ])
    };
    TextTable {
        title: "Targets".to_owned(),
        header: header(&["what", "found", "at least", "at most", "met"]),
        rows: targets.iter().filter_map(line).collect(),
    }
}

/// A metric of `method` minus that of `other` on the same trials in one setting: mean and its standard error; none when no trial
/// has both.
pub fn difference(
    records: &[Record],
    setting: &str,
    method: &str,
    other: &str,
    metric: &str,
) -> Option<(f64, Option<f64>)> {
    let of = |method: &str| -> Vec<(u64, f64)> {
        let wanted =
            (records.iter()).filter(|r| r.key.setting == setting && r.key.method == method);
        let value = |r: &Record| Some((r.key.trial, *r.outcome.metrics.get(metric)?));
        wanted.filter_map(value).collect()
    };
    let theirs = of(other);
    let pair = |(trial, a): (u64, f64)| {
        let (_, b) = theirs.iter().find(|(other, _)| *other == trial)?;
        Some(a - b)
    };
    let pairs: Vec<f64> = of(method).into_iter().filter_map(pair).collect();
    if pairs.is_empty() {
        return None;
    }
    let (mean, sd) = mean_and_sd(&pairs);
    Some((mean, sd.map(|sd| sd / (pairs.len() as f64).sqrt())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Outcome, TrialKey};

    fn record(method: &str, trial: u64, outcome: Outcome) -> Record {
        Record {
            key: TrialKey {
                experiment: String::new(),
                dataset: "simulated".into(),
                setting: String::new(),
                method: method.into(),
                trial,
                seed: 0,
                config: String::new(),
            },
            outcome,
        }
    }

    #[test]
    fn differences_are_paired_by_trial() {
        let error = |value| Outcome::metrics([("error", value)]);
        let records = [
            record("a", 0, error(0.75)),
            record("a", 1, error(0.5)),
            record("b", 1, error(0.25)),
            record("b", 0, error(0.625)),
            record("b", 2, error(9.0)),
        ];
        // 0.125 and 0.25: mean 0.1875, standard error 0.0625.
        let found = difference(&records, "", "a", "b", "error");
        assert_eq!(found, Some((0.1875, Some(0.0625))));
        assert_eq!(difference(&records, "column=R", "a", "b", "error"), None);
    }
}
