//! Tables and figures of the calibration of iQGME.

use npb_data::metrics;

use super::super::OURS;
use super::super::data::Data;
use super::super::methods::{BINS, METHODS};
use npb_kit::tables::{Target, differences, find_in, header, overview, targets};
use npb_kit::{
    Figure, Panel, Point, Record, Report, Result, ResultRow, Series, TextTable, lines, short,
    summarise,
};

/// Fraction of the rows in training.
pub(super) const TRAIN: f64 = 0.5;
pub(super) const RATES: [f64; 2] = [0.25, 0.5];
/// The comparator of imputed values.
pub(super) const CHAINED: &str = "chained";

/// Probabilities of the central intervals of the coverage curve.
pub(super) fn levels() -> impl Iterator<Item = f64> {
    (1..20).map(|k| f64::from(k) / 20.0)
}

pub(super) fn setting(missing: f64) -> String {
    format!("missing={missing};train={TRAIN}")
}

/// Largest expected calibration error.
const ECE: f64 = 0.05;
/// Coverage that the intervals must have.
const COVERAGE: [(&str, f64, f64); 2] = [("68", 0.6, 0.76), ("95", 0.91, 0.98)];

pub(super) fn report(sets: &[Data], records: &[Record]) -> Result<Report> {
    let mut results = summarise(records, |_, _, _, _| None);
    results.extend(pooled_errors(sets, records)?);
    let cells = [
        "coverage_68",
        "coverage_68_train",
        "coverage_68_test",
        "coverage_95",
        "coverage_95_train",
        "coverage_95_test",
        "imputed_rmse",
    ];
    let mut others: Vec<&str> = METHODS.map(|(name, _)| name).to_vec();
    others.retain(|name| *name != OURS);
    others.push(CHAINED);
    let compared = ["log_loss", "brier", "ece", "imputed_rmse"];
    Ok(Report {
        tables: vec![
            targets(&all_targets(sets, &results)),
            overview(
                "Class probabilities of the test rows",
                &results,
                &[
                    "ece",
                    "ece_if_right",
                    "ece_pooled",
                    "brier",
                    "log_loss",
                    "auc",
                ],
            ),
            overview("Hidden cells", &results, &cells),
            differences(records, OURS, &others, &compared),
            columns_off_target(sets, records),
        ],
        figures: vec![reliability(sets, records)?, coverage(sets, records)?],
        notes: notes(sets),
        results,
    })
}

fn notes(sets: &[Data]) -> Vec<String> {
    let origin = if sets.iter().all(Data::has_given_splits) {
        "Masks and splits are the given ones."
    } else {
        "Where no masks and splits are given they were drawn from the seed by the same protocol."
    };
    let rest = [
        "Features are in units of the training standard deviation; columns that are constant in training are left out. `ece`: expected calibration error \
         with 10 bins of equal width, on the test rows of each trial; `ece_if_right`: what it would be on average if classes were drawn from these very probabilities (rows are few); \
         `ece_pooled`: of the test rows of all trials together. `npb:iqgme/plug-in` replaces the parameters by their posterior means.",
        "`coverage_68` and `coverage_95`: share of the hidden cells of training and test rows whose true values lie in the central interval of that \
         probability of the cell's distribution, a mixture of Student-t whose distribution function is evaluated at the truth. `imputed_rmse`: of the \
         means of the same cells, beside conditional means by chained equations.",
        "Probabilities of the support vector machine: logistic regression on decisions of held-out training rows (5 folds). Negative differences are in \
         favour of iQGME.",
    ];
    [origin]
        .into_iter()
        .chain(rest)
        .map(str::to_owned)
        .collect()
}

/// Records of one method in one place.
fn of<'a>(
    records: &'a [Record],
    dataset: &'a str,
    missing: f64,
    method: &'a str,
) -> impl Iterator<Item = &'a Record> {
    let setting = setting(missing);
    records.iter().filter(move |r| {
        r.key.dataset == dataset && r.key.setting == setting && r.key.method == method
    })
}

/// Probabilities and classes of the test rows of all trials together.
fn pooled(records: &[Record], dataset: &str, missing: f64, method: &str) -> (Vec<f64>, Vec<bool>) {
    let (mut probabilities, mut positive) = (Vec::new(), Vec::new());
    for record in of(records, dataset, missing, method) {
        let series = &record.outcome.series;
        if let (Some(p), Some(y)) = (series.get("probability"), series.get("positive")) {
            probabilities.extend(p);
            positive.extend(y.iter().map(|&y| y > 0.5));
        }
    }
    (probabilities, positive)
}

fn pooled_errors(sets: &[Data], records: &[Record]) -> Result<Vec<ResultRow>> {
    let mut rows = Vec::new();
    for data in sets {
        for missing in RATES {
            for (method, _) in METHODS {
                let (p, positive) = pooled(records, data.name, missing, method);
                if p.is_empty() {
                    continue;
                }
                rows.push(ResultRow {
                    dataset: data.name.to_owned(),
                    setting: setting(missing),
                    method: method.to_owned(),
                    metric: "ece_pooled".to_owned(),
                    mean: metrics::expected_calibration_error(&p, &positive, BINS)?,
                    sd: None,
                    trials: of(records, data.name, missing, method).count(),
                    paper: None,
                });
            }
        }
    }
    Ok(rows)
}

fn all_targets(sets: &[Data], results: &[ResultRow]) -> Vec<Target> {
    let mut all = Vec::new();
    for data in sets {
        for missing in RATES {
            let mut push = |metric: String, what: &str, low: f64, high: f64| {
                let found = find_in(results, data.name, &setting(missing), OURS, &metric);
                all.extend(found.map(|row| Target {
                    what: format!("{}, {:.0}% missing: {what}", data.name, 100.0 * missing),
                    found: Some(row.mean),
                    low,
                    high,
                }));
            };
            for (metric, what) in [
                ("ece", "expected calibration error, mean over trials"),
                ("ece_pooled", "expected calibration error, trials pooled"),
            ] {
                push(metric.to_owned(), what, f64::NEG_INFINITY, ECE);
            }
            for (name, low, high) in COVERAGE {
                let what = format!("cells within {name}% intervals");
                push(format!("coverage_{name}"), &what, low, high);
            }
        }
    }
    all
}

/// Hidden cells, and the share of them within each interval, of one column over all trials.
fn column_coverage(
    records: &[Record],
    dataset: &str,
    missing: f64,
    column: usize,
) -> (f64, [f64; 2]) {
    let total = |name: &str| -> f64 {
        of(records, dataset, missing, OURS)
            .filter_map(|r| r.outcome.series.get(name)?.get(column))
            .sum()
    };
    let cells = total("column_cells");
    let share = |(name, ..): (&str, f64, f64)| total(&format!("column_{name}")) / cells;
    (cells, COVERAGE.map(share))
}

/// Columns whose hidden cells are covered too often or not often enough, with what makes a column unlike a mixture of Gaussians.
fn columns_off_target(sets: &[Data], records: &[Record]) -> TextTable {
    let mut rows = Vec::new();
    for data in sets {
        for missing in RATES {
            for column in 0..data.table.n_cols() {
                let (cells, shares) = column_coverage(records, data.name, missing, column);
                let mut inside = shares
                    .iter()
                    .zip(COVERAGE)
                    .map(|(s, (_, l, h))| (l..=h).contains(s));
                if cells == 0.0 || inside.all(|i| i) {
                    continue;
                }
                let (distinct, commonest) = repeated_values(data, column);
                rows.push(vec![
                    data.name.to_owned(),
                    missing.to_string(),
                    column.to_string(),
                    cells.to_string(),
                    short(shares[0]),
                    short(shares[1]),
                    distinct.to_string(),
                    short(commonest),
                ]);
            }
        }
    }
    TextTable {
        title: "Columns (from 0) whose coverage is outside the targets".to_owned(),
        header: header(&[
            "data",
            "missing",
            "column",
            "cells",
            "within 68%",
            "within 95%",
            "distinct values",
            "share of the commonest",
        ]),
        rows,
    }
}

/// Number of distinct values of a column, and the share of the commonest.
fn repeated_values(data: &Data, column: usize) -> (usize, f64) {
    let mut values: Vec<f64> = data.table.observed_in_column(column).collect();
    values.sort_by(f64::total_cmp);
    let runs = || values.chunk_by(|a, b| a == b);
    let longest = runs().map(<[f64]>::len).max().unwrap_or(0);
    (runs().count(), longest as f64 / values.len() as f64)
}

fn series_name(missing: f64) -> String {
    format!("{:.0}% missing", 100.0 * missing)
}

fn point(x: f64, y: f64) -> Point {
    Point { x, y, sd: None }
}

/// One panel for each data set, with the diagonal and one curve for each missing rate.
fn panels(
    sets: &[Data],
    diagonal: &str,
    labels: [&str; 2],
    curve: impl Fn(&Data, f64) -> Result<Vec<Point>>,
) -> Result<Vec<Panel>> {
    let panel = |data: &Data| {
        let mut series = vec![Series {
            name: diagonal.to_owned(),
            points: vec![point(0.0, 0.0), point(1.0, 1.0)],
        }];
        for missing in RATES {
            let points = curve(data, missing)?;
            if !points.is_empty() {
                series.push(Series {
                    name: series_name(missing),
                    points,
                });
            }
        }
        Ok(Panel {
            title: data.name.to_owned(),
            x_label: labels[0].to_owned(),
            y_label: labels[1].to_owned(),
            series,
        })
    };
    sets.iter().map(panel).collect()
}

fn reliability(sets: &[Data], records: &[Record]) -> Result<Figure> {
    let curve = |data: &Data, missing: f64| {
        let (p, positive) = pooled(records, data.name, missing, OURS);
        if p.is_empty() {
            return Ok(Vec::new());
        }
        let bins = metrics::calibration_curve(&p, &positive, BINS)?;
        let bar = |share: f64, n: usize| (share * (1.0 - share) / n as f64).sqrt();
        let point = |bin: metrics::CalibrationBin| Point {
            x: bin.mean_probability,
            y: bin.share_positive,
            sd: Some(bar(bin.share_positive, bin.n)),
        };
        Ok(bins.into_iter().map(point).collect())
    };
    let labels = ["mean predicted probability", "share of the second class"];
    lines(
        "reliability",
        "Class probabilities of the test rows",
        "Test rows of all trials together, 10 bins of equal width; bars are binomial standard errors (too short: trials share rows).",
        &panels(sets, "calibrated", labels, curve)?,
    )
}

fn coverage(sets: &[Data], records: &[Record]) -> Result<Figure> {
    let curve = |data: &Data, missing: f64| {
        let curves: Vec<&Vec<f64>> = of(records, data.name, missing, OURS)
            .filter_map(|r| r.outcome.series.get("coverage"))
            .collect();
        if curves.is_empty() {
            return Ok(Vec::new());
        }
        let mean = |k: usize| curves.iter().map(|c| c[k]).sum::<f64>() / curves.len() as f64;
        let points = levels().enumerate().map(|(k, level)| point(level, mean(k)));
        Ok(points.collect())
    };
    let labels = [
        "probability of the central interval",
        "share of hidden cells inside",
    ];
    lines(
        "coverage",
        "Intervals of hidden cells",
        "Mean over trials; above the diagonal intervals are wider than they need be.",
        &panels(sets, "nominal", labels, curve)?,
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::data::tests::example;
    use super::*;

    #[test]
    fn repeated_values_are_counted() {
        let data = example();
        assert_eq!(repeated_values(&data, 3), (1, 1.0));
        assert!(repeated_values(&data, 0).0 > 10);
    }
}
