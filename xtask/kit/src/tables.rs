//! Tables that experiments share: overviews and paired differences.

use crate::cache::Record;
use npb_report::{TextTable, short};

use crate::{ResultRow, mean_and_sd};

/// A table whose columns have the names in `header`, with ` | ` between them.
pub fn text_table(
    title: impl Into<String>,
    header: &str,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> TextTable {
    TextTable::new(title, &header.split(" | ").collect::<Vec<_>>(), rows)
}

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

/// A summarised metric.
pub fn find<'a>(
    results: &'a [ResultRow],
    setting: &str,
    method: &str,
    metric: &str,
) -> Option<&'a ResultRow> {
    let wanted = |r: &&ResultRow| r.setting == setting && r.method == method && r.metric == metric;
    results.iter().find(wanted)
}

/// A summarised metric of one data set among several.
pub fn find_in<'a>(
    results: &'a [ResultRow],
    dataset: &str,
    setting: &str,
    method: &str,
    metric: &str,
) -> Option<&'a ResultRow> {
    let place = |r: &&ResultRow| r.dataset == dataset && r.setting == setting;
    let measure = |r: &&ResultRow| r.method == method && r.metric == metric;
    results.iter().find(|r| place(r) && measure(r))
}

/// A number with enough digits for errors that differ in the fourth.
pub fn digits(value: f64) -> String {
    if value.abs() < 10.0 && value != 0.0 && value.abs() > 1e-3 {
        format!("{value:.4}")
    } else {
        short(value)
    }
}

/// Mean, with the standard deviation and what is printed where there are such.
pub fn with_sd(row: &ResultRow) -> String {
    let sd = row
        .sd
        .map_or(String::new(), |sd| format!(" ({})", digits(sd)));
    let paper = row
        .paper
        .map_or(String::new(), |p| format!(" [{}]", digits(p)));
    digits(row.mean) + &sd + &paper
}

/// One line for each data set (where there are several), setting and method, one column for each metric of a list with spaces; metrics that nothing has
/// are left out.
pub fn overview(title: &str, results: &[ResultRow], metrics: &str) -> TextTable {
    let measured = |metric: &&str| results.iter().any(|r| r.metric == *metric);
    let metrics: Vec<&str> = metrics.split(' ').filter(measured).collect();
    let wanted = results.iter().filter(|r| metrics.contains(&&*r.metric));
    let places = distinct(wanted.map(|r| (&r.dataset, &r.setting, &r.method)));
    let several = distinct(places.iter().map(|place| place.0)).len() > 1;
    let line = |(dataset, setting, method): (&String, &String, &String)| {
        let cell = |metric: &&str| {
            find_in(results, dataset, setting, method, metric).map_or(String::new(), with_sd)
        };
        let names = [setting.clone(), method.clone()];
        let names = several.then(|| dataset.clone()).into_iter().chain(names);
        names.chain(metrics.iter().map(cell)).collect()
    };
    let names: &[&str] = match several {
        true => &["data", "setting", "method"],
        false => &["setting", "method"],
    };
    TextTable::new(
        format!("{title}: mean (standard deviation over trials) [in print]"),
        &[names, &metrics[..]].concat(),
        places.into_iter().map(line),
    )
}

/// One metric with three digits: one line for each data set (where there are several) and method, one column for each setting. `more` goes behind a
/// number.
pub fn by_setting(
    title: &str,
    results: &[ResultRow],
    metric: &str,
    more: impl Fn(&ResultRow) -> String,
) -> TextTable {
    let of_metric = || results.iter().filter(|r| r.metric == metric);
    let settings = distinct(of_metric().map(|r| &*r.setting));
    let places = distinct(of_metric().map(|r| (&r.dataset, &r.method)));
    let several = distinct(places.iter().map(|place| place.0)).len() > 1;
    let line = |(dataset, method): (&String, &String)| {
        let cell = |setting: &&str| match find_in(results, dataset, setting, method, metric) {
            Some(row) => {
                let sd = row.sd.map_or(String::new(), |sd| format!(" ({sd:.3})"));
                format!("{:.3}{sd}{}", row.mean, more(row))
            }
            None => String::new(),
        };
        let names = several.then(|| dataset.clone()).into_iter();
        let names = names.chain([method.clone()]);
        names.chain(settings.iter().map(cell)).collect()
    };
    let names: &[&str] = match several {
        true => &["data", "method"],
        false => &["method"],
    };
    let header = [names, &settings[..]].concat();
    TextTable::new(title, &header, places.into_iter().map(line))
}

/// A metric of `method` minus that of `other`, trial by trial. `method/variant` has the metrics of `method` that begin with `variant/`.
fn paired(records: &[&Record], method: &str, other: &str, metric: &str) -> Vec<f64> {
    let of = |method: &str| -> Vec<(u64, f64)> {
        let (method, metric) = match method.split_once('/') {
            Some((method, variant)) => (method, format!("{variant}/{metric}")),
            None => (method, metric.to_owned()),
        };
        let wanted = records.iter().filter(|r| r.key.method == method);
        let value = |r: &&Record| Some((r.key.trial, *r.outcome.metrics.get(&metric)?));
        wanted.filter_map(value).collect()
    };
    let theirs = of(other);
    let pair = |(trial, a): (u64, f64)| {
        let (_, b) = theirs.iter().find(|(other, _)| *other == trial)?;
        Some(a - b)
    };
    of(method).into_iter().filter_map(pair).collect()
}

fn mean_and_error(values: &[f64]) -> (f64, Option<f64>) {
    let (mean, sd) = mean_and_sd(values);
    (mean, sd.map(|sd| sd / (values.len() as f64).sqrt()))
}

/// Metrics (a list with spaces) of `ours` minus those of each of `others` on the same trials, wherever a trial has both.
pub fn differences(records: &[Record], ours: &str, others: &[&str], metrics: &str) -> TextTable {
    let places = distinct(records.iter().map(|r| (&r.key.dataset, &r.key.setting)));
    let mut rows = Vec::new();
    for (dataset, setting) in places {
        let here = |r: &&Record| (&r.key.dataset, &r.key.setting) == (dataset, setting);
        let records: Vec<&Record> = records.iter().filter(here).collect();
        for metric in metrics.split(' ') {
            for &other in others {
                let pairs = paired(&records, ours, other, metric);
                if pairs.is_empty() {
                    continue;
                }
                let (mean, error) = mean_and_error(&pairs);
                let error = error.map_or(String::new(), short);
                let names = [dataset, setting, metric, other].map(str::to_owned);
                let numbers = [short(mean), error, pairs.len().to_string()];
                rows.push([&names[..], &numbers].concat());
            }
        }
    }
    text_table(
        format!("{ours} minus each comparator on the same trials"),
        "data | setting | metric | comparator | mean difference | standard error | trials",
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Outcome, TrialKey};
    use crate::report::summarise;

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
    fn each_comparator_has_a_line_and_variants_are_metrics_of_their_own() {
        let auc = |value| Outcome::metrics([("auc", value), ("variant/auc", value - 0.125)]);
        let records = [
            record("a", 0, auc(0.75)),
            record("a", 1, auc(0.5)),
            record("b", 1, auc(0.25)),
            record("b", 0, auc(0.625)),
            record("b", 2, auc(9.0)),
        ];
        let table = differences(&records, "a", &["b", "b/variant", "c"], "auc rmse");
        let line = |other: &str, mean: &str| {
            ["simulated", "", "auc", other, mean, "0.06250", "2"].map(str::to_owned)
        };
        assert_eq!(
            table.rows,
            [line("b", "0.1875"), line("b/variant", "0.3125")]
        );
    }

    #[test]
    fn data_sets_have_a_column_where_there_are_several() {
        let auc = |value| Outcome::metrics([("auc", value)]);
        let mut records = vec![record("a", 0, auc(0.75)), record("a", 1, auc(0.5))];
        let results = summarise(&records, |_, _, _, _| None);
        let table = overview("AUC", &results, "auc rmse");
        assert_eq!(table.rows, [["", "a", "0.6250 (0.1768)"]]);
        let table = by_setting("AUC", &results, "auc", |_| "!".to_owned());
        assert_eq!(table.rows, [["a", "0.625 (0.177)!"]]);
        records[1].key.dataset = "other".into();
        let results = summarise(&records, |_, _, _, _| None);
        let table = overview("AUC", &results, "auc");
        assert_eq!(table.rows[0], ["simulated", "", "a", "0.7500"]);
        let table = by_setting("AUC", &results, "auc", |_| String::new());
        assert_eq!(table.rows[1], ["other", "a", "0.500"]);
    }
}
