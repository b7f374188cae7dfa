//! Tables and the figure of figures 3.5 and 3.6.

use super::data::{FRACTIONS, OURS, Source, setting};
use crate::comparators::COMPARATORS;
use npb_kit::{
    Figure, Panel, Point, Record, Result, ResultRow, Series, TextTable, lines, mean_and_sd, short,
};

/// Settings in the order of the results.
fn settings(results: &[ResultRow]) -> Vec<&str> {
    let mut settings: Vec<&str> = Vec::new();
    for row in results {
        if !settings.contains(&row.setting.as_str()) {
            settings.push(&row.setting);
        }
    }
    settings
}

/// Methods in the order of the results.
fn methods(results: &[ResultRow]) -> Vec<&str> {
    let mut methods: Vec<&str> = Vec::new();
    for row in results {
        if !methods.contains(&row.method.as_str()) {
            methods.push(&row.method);
        }
    }
    methods
}

fn find<'a>(results: &'a [ResultRow], setting: &str, method: &str) -> Option<&'a ResultRow> {
    let wanted = |r: &&ResultRow| r.setting == setting && r.method == method && r.metric == "auc";
    results.iter().find(wanted)
}

/// Mean AUC of every method in every setting.
pub(super) fn overview(results: &[ResultRow]) -> TextTable {
    let settings = settings(results);
    let row = |method: &str| {
        let cell = |setting: &&str| match find(results, setting, method) {
            Some(row) => match row.sd {
                Some(sd) => format!("{:.3} ({sd:.3})", row.mean),
                None => format!("{:.3}", row.mean),
            },
            None => String::new(),
        };
        let cells = settings.iter().map(cell);
        std::iter::once(method.to_owned()).chain(cells).collect()
    };
    TextTable {
        title: "Mean AUC (standard deviation over trials)".to_owned(),
        header: std::iter::once("method")
            .chain(settings.iter().copied())
            .map(str::to_owned)
            .collect(),
        rows: methods(results).into_iter().map(row).collect(),
    }
}

/// Our AUC minus a comparator's on the same trials.
fn pairs(records: &[Record], setting: &str, method: &str) -> Vec<f64> {
    let auc = |method: &str| -> Vec<(u64, f64)> {
        let wanted = records
            .iter()
            .filter(|r| r.key.method == method && r.key.setting == setting);
        wanted
            .filter_map(|r| Some((r.key.trial, *r.outcome.metrics.get("auc")?)))
            .collect()
    };
    let theirs = auc(method);
    auc(OURS)
        .iter()
        .filter_map(|(trial, a)| {
            let (_, b) = theirs.iter().find(|(other, _)| other == trial)?;
            Some(a - b)
        })
        .collect()
}

/// Mean of differences, and its standard error if there are several.
fn mean_and_error(pairs: &[f64]) -> (f64, String) {
    let (mean, sd) = mean_and_sd(pairs);
    let error = sd.map_or(String::new(), |sd| short(sd / (pairs.len() as f64).sqrt()));
    (mean, error)
}

/// Some of the comparators: what they are called together, and whether a name is of one of them.
type Group<'a> = (&'a str, &'a dyn Fn(&str) -> bool);

/// In every setting ours, the best comparator, the best finite mixture, boosted trees and the best forest.
pub(super) fn best(records: &[Record], results: &[ResultRow]) -> TextTable {
    let groups: [Group<'_>; 4] = [
        ("best comparator", &|name| name != OURS),
        ("best finite mixture", &|name| name.starts_with("qgme-em")),
        ("boosted trees", &|name| name == "boosted-trees"),
        ("best forest", &|name| name.starts_with("forest")),
    ];
    let row = |setting: &str| -> Option<Vec<String>> {
        let mut row = vec![
            setting.to_owned(),
            format!("{:.3}", find(results, setting, OURS)?.mean),
        ];
        for (_, of_group) in groups {
            let names = COMPARATORS.iter().filter(|(name, _)| of_group(name));
            let found = names.filter_map(|(name, _)| find(results, setting, name));
            let found = found.max_by(|a, b| a.mean.total_cmp(&b.mean));
            row.push(found.map_or(String::new(), |best| {
                let (mean, error) = mean_and_error(&pairs(records, setting, &best.method));
                format!("{:.3} {}: {mean:+.3} ({error})", best.mean, best.method)
            }));
        }
        Some(row)
    };
    let groups = groups.map(|(title, _)| title);
    TextTable {
        title: "Ours and the best of others: their mean AUC, and ours minus theirs on the same trials (standard error)".to_owned(),
        header: ["setting", "ours"]
            .into_iter()
            .chain(groups)
            .map(str::to_owned)
            .collect(),
        rows: settings(results).into_iter().filter_map(row).collect(),
    }
}

/// Our AUC minus each comparator's on the same trials: mean and standard error.
pub(super) fn differences(records: &[Record]) -> TextTable {
    let mut settings: Vec<&str> = records.iter().map(|r| r.key.setting.as_str()).collect();
    settings.dedup();
    let mut rows = Vec::new();
    for setting in settings {
        for (method, _) in COMPARATORS {
            let pairs = pairs(records, setting, method);
            if pairs.is_empty() {
                continue;
            }
            let (mean, error) = mean_and_error(&pairs);
            rows.push(vec![
                setting.to_owned(),
                method.to_owned(),
                short(mean),
                error,
                pairs.len().to_string(),
            ]);
        }
    }
    let header = [
        "setting",
        "comparator",
        "mean difference",
        "standard error",
        "trials",
    ];
    TextTable {
        title: format!("AUC of {OURS} minus AUC of each comparator on the same trials"),
        header: header.map(str::to_owned).to_vec(),
        rows,
    }
}

/// Comparators beside the figures recorded for a reference implementation, and trees beside those of other libraries.
pub(super) fn recorded(source: &Source, results: &[ResultRow]) -> TextTable {
    let curves = source.recorded.iter();
    let figures = curves.flat_map(|(method, missing, figures)| {
        let points = FRACTIONS.iter().zip(figures.iter());
        points.map(move |(train, figure)| (*method, *missing, *train, *figure, "the same"))
    });
    let trees = source.trees.iter();
    let trees = trees.map(|&(method, missing, figure)| (method, missing, 0.5, figure, "another"));
    let row = |(method, missing, train, figure, algorithm): (&str, f64, f64, f64, &str)| {
        let setting = setting(missing, train);
        let found = find(results, &setting, method)?.mean;
        Some(vec![
            method.to_owned(),
            setting,
            format!("{found:.4}"),
            figure.to_string(),
            short(found - figure),
            algorithm.to_owned(),
        ])
    };
    let header = [
        "method",
        "setting",
        "ours",
        "recorded",
        "difference",
        "algorithm",
    ];
    TextTable {
        title: "Comparators beside the mean AUC recorded elsewhere on the same splits, by the same algorithm or another of its kind".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: figures.chain(trees).filter_map(row).collect(),
    }
}

/// Two pictures, so that curves can be told apart: after conditional means or with holes as they are, and after unconditional means.
pub(super) fn figures(source: &Source, results: &[ResultRow]) -> Result<Vec<Figure>> {
    let unconditional = |method: &str| method.ends_with("+mean");
    // Chained equations are near the Gaussian's conditional means: the table has them all, the picture the best-known pair.
    let conditional = |method: &str| {
        !unconditional(method) && (!method.ends_with("+chained") || method == "svm-rbf+chained")
    };
    let first = picture(
        source,
        results,
        "auc",
        "AUC: holes as they are, or conditional means",
        &conditional,
    )?;
    let second = picture(
        source,
        results,
        "auc-unconditional",
        "AUC: unconditional means",
        &|method| method == OURS || unconditional(method),
    )?;
    Ok(vec![first, second])
}

/// One panel per missing fraction.
fn picture(
    source: &Source,
    results: &[ResultRow],
    name: &str,
    title: &str,
    shown: &dyn Fn(&str) -> bool,
) -> Result<Figure> {
    let mut panels = Vec::new();
    for missing in [0.25, 0.5] {
        let curve = |method: &str| -> Series {
            let point = |&train: &f64| {
                let row = find(results, &setting(missing, train), method)?;
                Some(Point {
                    x: train,
                    y: row.mean,
                    // As in the thesis, so that bars can be read.
                    sd: row.sd.filter(|_| method == OURS),
                })
            };
            Series {
                name: method.to_owned(),
                points: FRACTIONS.iter().filter_map(point).collect(),
            }
        };
        let series: Vec<Series> = methods(results)
            .into_iter()
            .filter(|method| shown(method))
            .map(curve)
            .filter(|s| !s.points.is_empty())
            .collect();
        if !series.is_empty() {
            panels.push(Panel {
                title: format!("{}, {:.0}% missing", source.name, 100.0 * missing),
                x_label: "fraction of rows in training".to_owned(),
                y_label: "mean AUC".to_owned(),
                series,
            });
        }
    }
    let caption = "Mean over trials; bars are one standard deviation over trials, of our method.";
    lines(name, &format!("{}, {title}", source.name), caption, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_kit::{Outcome, TrialKey};

    #[test]
    fn differences_are_paired_by_trial() {
        let record = |method: &str, trial: u64, auc: f64| Record {
            key: TrialKey {
                experiment: String::new(),
                dataset: String::new(),
                setting: "missing=0.25;train=0.5".into(),
                method: method.into(),
                trial,
                seed: 0,
                config: String::new(),
            },
            outcome: Outcome::metrics([("auc", auc)]),
        };
        let records = [
            record(OURS, 0, 0.75),
            record(OURS, 1, 0.5),
            record("svm-rbf+mean", 1, 0.25),
            record("svm-rbf+mean", 0, 0.625),
        ];
        let table = differences(&records);
        // 0.125 and 0.25: mean 0.1875, standard error 0.0625.
        assert_eq!(
            table.rows,
            [[
                "missing=0.25;train=0.5",
                "svm-rbf+mean",
                "0.1875",
                "0.06250",
                "2"
            ]]
        );
    }
}
