//! Tables and figures of many tasks.

use npb_linalg::faer::Mat;

use super::data::setting;
use super::methods::OURS;
use npb_kit::npb_report::{Cells, Layer, Shape, colours, picture};
use npb_kit::tables::{self, distinct};
use npb_kit::{Figure, Panel, Record, Result, ResultRow, TextTable, against, lines, text_table};

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
    tables::differences(records, OURS, &others, "auc")
}

/// One panel for each missing fraction.
pub(super) fn curves(dataset: &str, rates: &[f64], results: &[ResultRow]) -> Result<Figure> {
    let panel = |&missing: &f64| {
        let title = match missing {
            0.0 => format!("{dataset}, complete"),
            _ => format!("{dataset}, {:.0}% missing", 100.0 * missing),
        };
        let place = format!("missing={missing};");
        let here = results.iter().filter(|r| r.setting.starts_with(&place));
        let curves = against(here, "auc", "train");
        Panel::of_lines(
            title,
            ["training rows for each task", "mean AUC over tasks"],
            curves,
        )
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
    text_table(
        "Mean similarity of two tasks on one ground and of two on different ground",
        "setting | within | between | ratio",
        settings.into_iter().map(row),
    )
}

/// One picture for each setting, mean over trials.
pub(super) fn matrices(
    records: &[Record],
    rates: &[f64],
    sizes: &[usize],
    names: &[String],
) -> Result<Vec<Figure>> {
    let settings = rates
        .iter()
        .flat_map(|&missing| sizes.iter().map(move |&train| setting(missing, train)));
    let matrix = |at: String| {
        let of_place = records.iter().filter(|record| record.key.setting == at);
        let trials: Vec<&Vec<f64>> = of_place.map(|r| &r.outcome.series[MATRIX]).collect();
        let mean = |k: usize| trials.iter().map(|m| m[k]).sum::<f64>() / trials.len() as f64;
        let n = names.len();
        let cells = Cells::probabilities(n, (0..n * n).map(mean).collect());
        let layer = Layer::new(
            "similarity 0 to 1",
            colours::VERMILLION,
            Shape::Cells(cells),
        );
        let (label, size) = (format!("tasks {}", names.join(" ")), (0.0, n as f64));
        let panel = Panel::new(&*at, [&label, "tasks"], size, size, vec![layer]);
        let name = format!("similarity-{}", at.replace(['=', ';', '.'], "-"));
        let title = format!("Similarity of tasks, {at}");
        Ok(picture(&name, &title, "Mean over trials.", &[panel])?)
    };
    settings.map(matrix).collect()
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
