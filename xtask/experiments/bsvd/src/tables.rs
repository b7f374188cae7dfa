//! Differences between methods, trial by trial and rating by rating.

use npb_kit::{Record, TextTable, mean_and_sd};

use npb_kit::tables::{digits, distinct, header};

use super::fits::SQUARED_ERRORS;

/// Figures recorded for others, as they were handed down.
pub(super) fn recorded(title: &str, columns: &[&str], rows: &[&[&str]]) -> TextTable {
    TextTable {
        title: title.to_owned(),
        header: header(columns),
        rows: rows.iter().map(|row| header(row)).collect(),
    }
}

/// A metric trial by trial, with its mean and standard error; one line for each setting and method that has several trials.
pub(super) fn by_trial(
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
pub(super) fn paired_over_trials(
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
    let (mean, sd) = mean_and_sd(values);
    let error = sd.unwrap_or(0.0) / (values.len() as f64).sqrt();
    [show(mean), format!("{error:.5}")]
}

/// Mean squared error of each record minus that of the `base` record of the same trial, on the same held-out ratings, with its
/// standard error.
pub(super) fn paired(
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
        let (mean, sd) = mean_and_sd(&differences);
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
    use npb_kit::{Outcome, TrialKey};

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
