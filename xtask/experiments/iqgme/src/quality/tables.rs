//! Tables that the experiments share: means by method, paired differences, and targets.

use super::OURS;
use npb_kit::{Record, ResultRow, TextTable, mean_and_sd, short};

/// Distinct values in the order of first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

pub(super) fn header(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// The mean of a metric, if it was measured.
pub(super) fn find<'a>(
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

/// One line for each data set, setting and method; one column for each metric: mean (standard deviation).
pub(super) fn overview(title: &str, results: &[ResultRow], metrics: &[&str]) -> TextTable {
    let wanted = results
        .iter()
        .filter(|r| metrics.contains(&r.metric.as_str()));
    let places = distinct(wanted.map(|r| (&r.dataset, &r.setting, &r.method)));
    let line = |(dataset, setting, method): (&String, &String, &String)| {
        let cell = |metric: &&str| match find(results, dataset, setting, method, metric) {
            Some(ResultRow {
                mean, sd: Some(sd), ..
            }) => format!("{} ({})", short(*mean), short(*sd)),
            Some(row) => short(row.mean),
            None => String::new(),
        };
        let names = [dataset.clone(), setting.clone(), method.clone()];
        names.into_iter().chain(metrics.iter().map(cell)).collect()
    };
    TextTable {
        title: format!("{title}: mean (standard deviation over trials)"),
        header: header(&[&["data", "setting", "method"], metrics].concat()),
        rows: places.into_iter().map(line).collect(),
    }
}

/// A paired difference: mean, standard error and number of trials.
pub(super) struct Difference {
    pub(super) mean: f64,
    pub(super) error: Option<f64>,
    pub(super) trials: usize,
}

/// A metric of our method minus that of `other` on the same trials; none when no trial has both.
pub(super) fn difference(
    records: &[Record],
    dataset: &str,
    setting: &str,
    other: &str,
    metric: &str,
) -> Option<Difference> {
    let of = |method: &str| -> Vec<(u64, f64)> {
        let (method, metric) = match method.split_once('/') {
            Some((method, variant)) => (method, format!("{variant}/{metric}")),
            None => (method, metric.to_owned()),
        };
        let wanted = records.iter().filter(|r| {
            r.key.dataset == dataset && r.key.setting == setting && r.key.method == method
        });
        let value = |r: &Record| Some((r.key.trial, *r.outcome.metrics.get(&metric)?));
        wanted.filter_map(value).collect()
    };
    let (ours, theirs) = (of(OURS), of(other));
    let pairs = ours.iter().filter_map(|(trial, a)| {
        let (_, b) = theirs.iter().find(|(other, _)| other == trial)?;
        Some(a - b)
    });
    let pairs: Vec<f64> = pairs.collect();
    if pairs.is_empty() {
        return None;
    }
    let (mean, sd) = mean_and_sd(&pairs);
    Some(Difference {
        mean,
        error: sd.map(|sd| sd / (pairs.len() as f64).sqrt()),
        trials: pairs.len(),
    })
}

/// Paired differences of our method from each comparator, for each metric.
pub(super) fn differences(records: &[Record], metrics: &[&str], others: &[&str]) -> TextTable {
    let keys = records.iter().map(|r| (&r.key.dataset, &r.key.setting));
    let mut rows = Vec::new();
    for (dataset, setting) in distinct(keys) {
        for &metric in metrics {
            for &other in others {
                let Some(found) = difference(records, dataset, setting, other, metric) else {
                    continue;
                };
                rows.push(vec![
                    dataset.clone(),
                    setting.clone(),
                    metric.to_owned(),
                    other.to_owned(),
                    short(found.mean),
                    found.error.map_or(String::new(), short),
                    found.trials.to_string(),
                ]);
            }
        }
    }
    TextTable {
        title: format!("{OURS} minus each comparator on the same trials"),
        header: header(&[
            "data",
            "setting",
            "metric",
            "comparator",
            "mean difference",
            "standard error",
            "trials",
        ]),
        rows,
    }
}

/// A number that must lie in a range.
pub(super) struct Target {
    /// What is measured, and where.
    pub(super) what: String,
    pub(super) found: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Target {
    /// `met`, or by how much it is missed.
    fn verdict(&self) -> String {
        let beyond = (self.low - self.found).max(self.found - self.high);
        if beyond <= 0.0 {
            "met".to_owned()
        } else {
            format!("missed by {}", short(beyond))
        }
    }

    fn range(&self) -> String {
        match (self.low.is_finite(), self.high.is_finite()) {
            (true, true) => format!("{} to {}", self.low, self.high),
            (true, false) => format!("at least {}", self.low),
            (false, true) => format!("at most {}", self.high),
            (false, false) => String::new(),
        }
    }
}

pub(super) fn targets(targets: &[Target]) -> TextTable {
    let row = |t: &Target| vec![t.what.clone(), short(t.found), t.range(), t.verdict()];
    TextTable {
        title: "Targets".to_owned(),
        header: header(&["what", "found", "target", ""]),
        rows: targets.iter().map(row).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use npb_kit::{Outcome, TrialKey, summarise};

    pub(crate) fn record(method: &str, trial: u64, outcome: Outcome) -> Record {
        Record {
            key: TrialKey {
                experiment: String::new(),
                dataset: "d".into(),
                setting: "train=0.5".into(),
                method: method.into(),
                trial,
                seed: 0,
                config: String::new(),
            },
            outcome,
        }
    }

    fn records() -> [Record; 4] {
        let auc = |value| Outcome::metrics([("auc", value), ("variant/auc", value - 0.125)]);
        [
            record(OURS, 0, auc(0.75)),
            record(OURS, 1, auc(0.5)),
            record("other", 1, auc(0.25)),
            record("other", 0, auc(0.625)),
        ]
    }

    #[test]
    fn differences_are_paired_by_trial() {
        let table = differences(&records(), &["auc", "rmse"], &["other", "other/variant"]);
        // 0.125 and 0.25: mean 0.1875, standard error 0.0625; the variant is 0.125 lower.
        assert_eq!(
            table.rows,
            [
                ["d", "train=0.5", "auc", "other", "0.1875", "0.06250", "2"],
                [
                    "d",
                    "train=0.5",
                    "auc",
                    "other/variant",
                    "0.3125",
                    "0.06250",
                    "2"
                ],
            ]
        );
    }

    #[test]
    fn the_overview_has_a_line_for_each_method() {
        let results = summarise(&records(), |_, _, _, _| None);
        let table = overview("AUC", &results, &["auc", "rmse"]);
        assert_eq!(table.rows.len(), 4);
        assert_eq!(table.rows[0][..3], ["d", "train=0.5", OURS]);
        assert_eq!(table.rows[0][3..], ["0.6250 (0.1768)", ""]);
    }

    #[test]
    fn a_target_is_met_at_its_ends_and_a_miss_is_measured() {
        let target = |found, low, high| Target {
            what: String::new(),
            found,
            low,
            high,
        };
        assert_eq!(target(0.6, 0.6, 0.76).verdict(), "met");
        assert_eq!(target(0.5, 0.625, 0.76).verdict(), "missed by 0.1250");
        let below = target(0.0625, f64::NEG_INFINITY, 0.05);
        assert_eq!(below.verdict(), "missed by 0.01250");
        assert_eq!(below.range(), "at most 0.05");
        assert_eq!(target(1.0, 0.0, f64::INFINITY).range(), "at least 0");
    }
}
