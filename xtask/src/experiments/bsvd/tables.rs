//! Tables that the experiments share.

use crate::reproduce::{Record, ResultRow, TextTable, short};

use super::fits::SQUARED_ERRORS;

/// Distinct values in the order of first appearance.
pub(in crate::experiments) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

pub(in crate::experiments) fn header(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// A summarised metric.
pub(in crate::experiments) fn find<'a>(
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
pub(in crate::experiments) fn digits(value: f64) -> String {
    if value.abs() < 10.0 && value != 0.0 && value.abs() > 1e-3 {
        format!("{value:.4}")
    } else {
        short(value)
    }
}

/// Mean, and standard deviation where there is one.
pub(in crate::experiments) fn with_sd(row: &ResultRow) -> String {
    match row.sd {
        Some(sd) => format!("{} ({})", digits(row.mean), digits(sd)),
        None => digits(row.mean),
    }
}

/// One line for each setting and method, one column for each metric; metrics that nothing has are left out.
pub(in crate::experiments) fn overview(
    title: &str,
    results: &[ResultRow],
    metrics: &[&str],
) -> TextTable {
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
pub(in crate::experiments) struct Target {
    pub(in crate::experiments) what: String,
    pub(in crate::experiments) found: Option<f64>,
    pub(in crate::experiments) low: f64,
    pub(in crate::experiments) high: f64,
}

impl Target {
    pub(in crate::experiments) fn at_most(
        what: &str,
        found: Option<&ResultRow>,
        high: f64,
    ) -> Self {
        Self {
            what: what.to_owned(),
            found: found.map(|row| row.mean),
            low: f64::NEG_INFINITY,
            high,
        }
    }

    pub(in crate::experiments) fn between(
        what: &str,
        found: Option<&ResultRow>,
        low: f64,
        high: f64,
    ) -> Self {
        Self {
            low,
            ..Self::at_most(what, found, high)
        }
    }
}

/// What was found beside its targets; what was not measured is left out.
pub(in crate::experiments) fn targets(targets: &[Target]) -> TextTable {
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

/// Figures recorded for others, as they were handed down.
pub(in crate::experiments) fn recorded(
    title: &str,
    columns: &[&str],
    rows: &[&[&str]],
) -> TextTable {
    TextTable {
        title: title.to_owned(),
        header: header(columns),
        rows: rows.iter().map(|row| header(row)).collect(),
    }
}

/// A metric trial by trial, with its mean and standard error; one line for each setting and method that has several trials.
pub(in crate::experiments) fn by_trial(
    records: &[Record],
    chosen: impl Fn(&Record) -> bool,
    metric: &str,
) -> TextTable {
    let chosen: Vec<&Record> = records.iter().filter(|r| chosen(r)).collect();
    let trials = distinct(chosen.iter().map(|r| r.key.trial));
    let places = distinct(chosen.iter().map(|r| (&r.key.setting, &r.key.method)));
    let mut rows = Vec::new();
    for place in places {
        let value = |trial: &u64| {
            let of =
                |r: &&&Record| (&r.key.setting, &r.key.method) == place && r.key.trial == *trial;
            chosen.iter().find(of)?.outcome.metrics.get(metric).copied()
        };
        let values: Vec<Option<f64>> = trials.iter().map(value).collect();
        let found: Vec<f64> = values.iter().copied().flatten().collect();
        if found.len() < 2 {
            continue;
        }
        let mut row = vec![place.0.clone(), place.1.clone()];
        row.extend(values.into_iter().map(|v| v.map_or(String::new(), digits)));
        row.extend(mean_and_error(&found, |x| format!("{x:.4}")));
        rows.push(row);
    }
    let numbers: Vec<String> = trials.iter().map(u64::to_string).collect();
    let mut names = header(&["setting", "method"]);
    names.extend(numbers);
    names.extend(header(&["mean", "standard error"]));
    TextTable {
        title: format!("{metric} by trial"),
        header: names,
        rows,
    }
}

/// RMSE of each setting and method minus that of the `base` records on the same trials: trials are the units, so that the standard error has the spread of
/// splits in it but not what is common to both methods.
pub(in crate::experiments) fn paired_over_trials(
    records: &[Record],
    chosen: impl Fn(&Record) -> bool,
    base: impl Fn(&Record) -> bool,
) -> TextTable {
    let rmse = |r: &Record| r.outcome.metrics.get("rmse").copied();
    let bases: Vec<&Record> = records.iter().filter(|r| chosen(r) && base(r)).collect();
    let others: Vec<&Record> = records.iter().filter(|r| chosen(r) && !base(r)).collect();
    let mut rows = Vec::new();
    for place in distinct(others.iter().map(|r| (&r.key.setting, &r.key.method))) {
        let of_place = others
            .iter()
            .filter(|r| (&r.key.setting, &r.key.method) == place);
        let difference = |r: &&Record| {
            let same = bases.iter().find(|b| b.key.trial == r.key.trial)?;
            Some(rmse(r)? - rmse(same)?)
        };
        let differences: Vec<f64> = of_place.filter_map(difference).collect();
        if differences.len() < 2 {
            continue;
        }
        let mut row = vec![
            place.0.clone(),
            place.1.clone(),
            differences.len().to_string(),
        ];
        row.extend(mean_and_error(&differences, |x| format!("{x:+.5}")));
        rows.push(row);
    }
    TextTable {
        title: "RMSE minus that of the default without side information, trial by trial".to_owned(),
        header: header(&[
            "setting",
            "method",
            "trials",
            "difference",
            "standard error",
        ]),
        rows,
    }
}

fn mean_and_error(values: &[f64], show: impl Fn(f64) -> String) -> [String; 2] {
    let (mean, sd) = crate::reproduce::mean_and_sd(values);
    let error = sd.unwrap_or(0.0) / (values.len() as f64).sqrt();
    [show(mean), format!("{error:.5}")]
}

/// Mean squared error of each record minus that of the `base` record of the same trial, on the same held-out ratings, with its
/// standard error.
pub(in crate::experiments) fn paired(
    records: &[Record],
    setting: impl Fn(&Record) -> bool,
    base: impl Fn(&Record) -> bool,
) -> TextTable {
    let errors = |r: &'_ Record| r.outcome.series.get(SQUARED_ERRORS).cloned();
    let mut rows = Vec::new();
    for record in records.iter().filter(|r| setting(r) && !base(r)) {
        let same =
            |other: &&Record| setting(other) && base(other) && other.key.trial == record.key.trial;
        let Some((ours, theirs)) = errors(record).zip(records.iter().find(same).and_then(errors))
        else {
            continue;
        };
        let differences: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a - b).collect();
        let (mean, sd) = crate::reproduce::mean_and_sd(&differences);
        let error = sd.unwrap_or(0.0) / (differences.len() as f64).sqrt();
        rows.push(vec![
            record.key.setting.clone(),
            record.key.method.clone(),
            record.key.trial.to_string(),
            format!("{mean:+.5}"),
            format!("{error:.5}"),
            format!("{:+.1}", mean / error),
        ]);
    }
    TextTable {
        title: "Mean squared error minus that of the default without side information, rating by rating".to_owned(),
        header: header(&["setting", "method", "trial", "difference", "standard error", "z"]),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Outcome, TrialKey};

    fn record(method: &str, trial: u64, rmse: f64) -> Record {
        Record {
            key: TrialKey {
                experiment: "a/b".into(),
                dataset: "d".into(),
                setting: "s=1".into(),
                method: method.into(),
                trial,
                seed: 0,
                config: String::new(),
            },
            outcome: Outcome::metrics([("rmse", rmse)]),
        }
    }

    #[test]
    fn trials_are_paired_whatever_their_order() {
        let records = [
            record("base", 0, 0.9),
            record("base", 1, 0.8),
            record("other", 1, 0.79),
            record("other", 0, 0.88),
            record("alone", 2, 0.1),
        ];
        let table = paired_over_trials(&records, |_| true, |r| r.key.method == "base");
        // Differences of -0.02 and -0.01: their standard deviation is 0.00707.
        assert_eq!(table.rows, [["s=1", "other", "2", "-0.01500", "0.00500"]]);
        let table = by_trial(&records, |_| true, "rmse");
        let cells = ["s=1", "other", "0.8800", "0.7900", "", "0.8350", "0.04500"];
        assert_eq!(
            (table.rows.len(), &table.rows[1][..]),
            (2, &cells.map(str::to_owned)[..])
        );
    }
}
