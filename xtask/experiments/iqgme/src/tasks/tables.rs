//! Tables and figures of many tasks.

use std::fmt::Write;

use npb_linalg::faer::Mat;

use super::data::setting;
use super::methods::OURS;
use npb_kit::tables::{self, distinct};
use npb_kit::{Figure, Panel, Point, Record, Result, ResultRow, Series, TextTable, lines, short};

/// Mean AUC recorded elsewhere on the given splits of landmine, complete, at 20, 100 and 300 rows.
const RECORDED: [(&str, [f64; 3]); 5] = [
    ("lr-stl", [0.677, 0.741, 0.779]),
    ("lr-pooled", [0.728, 0.743, 0.750]),
    ("lr-shared", [0.707, 0.752, 0.782]),
    ("trees", [0.714, 0.757, 0.783]),
    ("lr-type (told the ground)", [0.777, 0.788, 0.795]),
];

/// What is recorded for a comparator in a setting.
pub(super) fn recorded(method: &str, at: &str) -> Option<f64> {
    let (_, figures) = RECORDED.iter().find(|(name, _)| *name == method)?;
    let size = [20, 100, 300].iter().position(|&n| setting(0.0, n) == at)?;
    Some(figures[size])
}

/// Mean AUC of every method in every setting, with what is recorded for it elsewhere.
pub(super) fn overview(results: &[ResultRow]) -> TextTable {
    let title = "Mean AUC over tasks (standard deviation over trials) [recorded elsewhere on the same splits]";
    tables::by_setting(title, results, "auc", |row| {
        let elsewhere = recorded(&row.method, &row.setting);
        elsewhere.map_or(String::new(), |p| format!(" [{p:.3}]"))
    })
}

/// Our AUC minus each comparator's on the same trials: mean and standard error.
pub(super) fn differences(records: &[Record]) -> TextTable {
    let mut others = distinct(records.iter().map(|r| &*r.key.method));
    others.retain(|method| *method != OURS);
    tables::differences(records, OURS, &others, &["auc"])
}

/// One panel for each missing fraction.
pub(super) fn curves(
    dataset: &str,
    rates: &[f64],
    sizes: &[usize],
    results: &[ResultRow],
) -> Result<Figure> {
    let methods = distinct(results.iter().map(|r| &*r.method));
    let panel = |&missing: &f64| {
        let curve = |method: &&str| {
            let point = |&train: &usize| {
                let at = setting(missing, train);
                let row = tables::find(results, &at, method, "auc")?;
                Some(Point {
                    x: train as f64,
                    y: row.mean,
                    sd: row.sd,
                })
            };
            Series {
                name: (*method).to_owned(),
                points: sizes.iter().filter_map(point).collect(),
            }
        };
        let series = methods.iter().map(curve);
        Panel {
            title: match missing {
                0.0 => format!("{dataset}, complete"),
                _ => format!("{dataset}, {:.0}% missing", 100.0 * missing),
            },
            x_label: "training rows for each task".to_owned(),
            y_label: "mean AUC over tasks".to_owned(),
            series: series.filter(|s: &Series| !s.points.is_empty()).collect(),
        }
    };
    let panels: Vec<Panel> = rates.iter().map(panel).collect();
    let caption = "Mean over trials; bars are one standard deviation over trials.";
    lines(
        "auc",
        &format!("AUC on {dataset}, many tasks"),
        caption,
        &panels,
    )
}

const WITHIN: &str = "similarity_within";
const BETWEEN: &str = "similarity_between";
/// Name of the series that holds a similarity matrix, column after column.
pub(super) const MATRIX: &str = "similarity";

/// Mean similarities of pairs of different tasks: within the first `n_first` tasks and within the others, and between the two.
pub(super) fn blocks(similarity: &Mat<f64>, n_first: usize) -> [(&'static str, f64); 2] {
    let (mut within, mut between) = (Vec::new(), Vec::new());
    for j in 0..similarity.ncols() {
        for i in 0..j {
            if (i < n_first) == (j < n_first) {
                within.push(similarity[(i, j)]);
            } else {
                between.push(similarity[(i, j)]);
            }
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    [(WITHIN, mean(&within)), (BETWEEN, mean(&between))]
}

/// Mean similarities by block, and their ratio.
pub(super) fn block_table(results: &[ResultRow]) -> TextTable {
    let settings = distinct(results.iter().map(|r| &*r.setting));
    let row = |at: &str| {
        let of = |metric: &str| {
            let found = results
                .iter()
                .find(|r| r.setting == at && r.metric == metric);
            found.map_or(f64::NAN, |r| r.mean)
        };
        let (within, between) = (of(WITHIN), of(BETWEEN));
        let numbers = [within, between, within / between].map(|x| format!("{x:.3}"));
        std::iter::once(at.to_owned()).chain(numbers).collect()
    };
    TextTable {
        title: "Mean similarity of two tasks on one ground and of two on different ground"
            .to_owned(),
        header: ["setting", "within", "between", "ratio"]
            .map(str::to_owned)
            .to_vec(),
        rows: settings.into_iter().map(row).collect(),
    }
}

/// One picture for each setting: a square for each pair of tasks, its side by their similarity.
pub(super) fn matrices(
    records: &[Record],
    rates: &[f64],
    sizes: &[usize],
    names: &[String],
) -> Vec<Figure> {
    let mut figures = Vec::new();
    for &missing in rates {
        for &train in sizes {
            let at = setting(missing, train);
            let trials: Vec<&Vec<f64>> = records
                .iter()
                .filter(|record| record.key.setting == at)
                .filter_map(|record| record.outcome.series.get(MATRIX))
                .collect();
            let value = |i: usize, j: usize| {
                let entries = trials.iter().map(|matrix| matrix[j * names.len() + i]);
                entries.sum::<f64>() / trials.len() as f64
            };
            figures.push(matrix(&at, names, value));
        }
    }
    figures
}

fn matrix(at: &str, names: &[String], value: impl Fn(usize, usize) -> f64) -> Figure {
    const CELL: f64 = 20.0;
    const MARGIN: f64 = 40.0;
    let n = names.len();
    let size = MARGIN + CELL * n as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\" width=\"{size}\" height=\"{size}\" font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut rows = Vec::new();
    for i in 0..n {
        let middle = MARGIN + CELL * (i as f64 + 0.5);
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"30\" text-anchor=\"middle\">{name}</text><text x=\"34\" y=\"{y}\" text-anchor=\"end\">{name}</text>",
            name = names[i],
            y = middle + 3.5,
        );
        for j in 0..n {
            let similarity = value(i, j);
            let side = CELL * similarity;
            let corner = |k: usize| MARGIN + CELL * k as f64 + 0.5 * (CELL - side);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{side:.2}\" height=\"{side:.2}\" fill=\"#2a7f3f\"/>",
                corner(j),
                corner(i),
            );
            rows.push(vec![names[i].clone(), names[j].clone(), short(similarity)]);
        }
    }
    svg.push_str("</svg>\n");
    Figure {
        name: format!("similarity-{}", at.replace(['=', ';', '.'], "-")),
        title: format!("Similarity of tasks, {at}"),
        caption: "The side of a square is the similarity of two tasks, mean over trials."
            .to_owned(),
        svg,
        header: ["task", "task", "similarity"].map(str::to_owned).to_vec(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_leave_out_the_diagonal() {
        let similarity = Mat::from_fn(4, 4, |i, j| if (i < 2) == (j < 2) { 0.5 } else { 0.25 });
        let blocks = blocks(&similarity, 2);
        assert_eq!(blocks[0].1, 0.5);
        assert_eq!(blocks[1].1, 0.25);
    }

    #[test]
    fn recorded_figures_are_found_by_setting() {
        assert_eq!(recorded("lr-stl", "missing=0;train=100"), Some(0.741));
        assert_eq!(recorded("lr-stl", "missing=0.25;train=100"), None);
        assert_eq!(recorded(OURS, "missing=0;train=100"), None);
    }
}
