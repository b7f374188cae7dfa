//! What the tables share: numbers, and paired differences.

use crate::reproduce::{Record, ResultRow, mean_and_sd, short};

pub(in crate::experiments) fn header(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// Mean, and standard deviation where there is one.
pub(in crate::experiments) fn with_sd(row: &ResultRow) -> String {
    match row.sd {
        Some(sd) => format!("{} ({})", short(row.mean), short(sd)),
        None => short(row.mean),
    }
}

/// Whether a goal is met.
pub(in crate::experiments) fn verdict(met: bool) -> String {
    if met { "met" } else { "missed" }.to_owned()
}

/// A metric of `method` minus that of `other` on the same trials in one setting: mean and its standard error; none when no trial
/// has both.
pub(in crate::experiments) fn difference(
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
pub(super) mod tests {
    use super::*;
    use crate::reproduce::{Outcome, TrialKey};

    pub(crate) fn record(method: &str, trial: u64, outcome: Outcome) -> Record {
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
