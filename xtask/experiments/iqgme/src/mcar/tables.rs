//! Tables and the figure of figures 3.5 and 3.6.

use super::data::{FRACTIONS, OURS, Source, setting};
use crate::comparators::COMPARATORS;
use npb_kit::tables::{self, difference, distinct};
use npb_kit::{Figure, Panel, Point, Record, Result, ResultRow, Series, TextTable, lines, short};

fn find<'a>(results: &'a [ResultRow], setting: &str, method: &str) -> Option<&'a ResultRow> {
    tables::find(results, setting, method, "auc")
}

/// Mean AUC of every method in every setting.
pub(super) fn overview(results: &[ResultRow]) -> TextTable {
    let title = "Mean AUC (standard deviation over trials)";
    tables::by_setting(title, results, "auc", |_| String::new())
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
            let compared = found.and_then(|best| {
                let (mean, error) = difference(records, setting, OURS, &best.method, "auc")?;
                let error = error.map_or(String::new(), short);
                Some(format!(
                    "{:.3} {}: {mean:+.3} ({error})",
                    best.mean, best.method
                ))
            });
            row.push(compared.unwrap_or_default());
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
        rows: distinct(results.iter().map(|r| &*r.setting))
            .into_iter()
            .filter_map(row)
            .collect(),
    }
}

/// Our AUC minus each comparator's on the same trials: mean and standard error.
pub(super) fn differences(records: &[Record]) -> TextTable {
    let others = COMPARATORS.map(|(name, _)| name);
    tables::differences(records, OURS, &others, &["auc"])
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
        let series: Vec<Series> = distinct(results.iter().map(|r| &*r.method))
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
