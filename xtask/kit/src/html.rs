//! What an experiment found, as a section of the page.

use npb_catalogue::Section;
use npb_catalogue::results::ResultRow;
use npb_report::html::{escape, table};
use npb_report::{Figure, TextTable, short};

use crate::report::Report;

/// One experiment or check as it was run.
pub(crate) struct Ran {
    pub(crate) id: String,
    pub(crate) what: String,
    /// What was found, of a check.
    pub(crate) found: String,
    /// The report, or why there is none.
    pub(crate) report: Result<Report, String>,
    /// Data files read: name, checksum, and whether that is the recorded one.
    pub(crate) files: Vec<(String, String, &'static str)>,
    /// How many trials came from an earlier run, and how many there were.
    pub(crate) trials: (usize, usize),
    pub(crate) seconds: f64,
}

/// The section of the page.
pub(crate) fn section(run: &Ran) -> Section {
    let first = run.report.as_ref().ok().and_then(|r| r.figures.first());
    Section {
        id: run.id.clone(),
        what: run.what.clone(),
        found: match run.report {
            Ok(_) => run.found.clone(),
            Err(_) => "failed".to_owned(),
        },
        body: body(run),
        failed: run.report.is_err(),
        picture: first.map(|f| (format!("{}.svg", f.name), !f.svg.contains("<image"))),
    }
}

fn body(run: &Ran) -> String {
    let mut page = match &run.report {
        Err(reason) => format!("<p class=\"failed\">{}</p>\n", escape(reason)),
        Ok(report) => results(report),
    };
    let trials = match run.trials {
        (_, 0) => String::new(),
        (cached, all) => format!("{all} trials, {cached} of them from an earlier run; "),
    };
    let seconds = format!("<p class=\"quiet\">{trials}{:.1} s.</p>\n", run.seconds);
    let rows = run.files.iter();
    let rows: Vec<Vec<String>> = rows
        .map(|(name, sum, state)| vec![name.clone(), sum.clone(), (*state).to_owned()])
        .collect();
    let files = match rows.is_empty() {
        true => String::new(),
        false => table(&["file", "sha256", ""], &rows),
    };
    page += &folded("Time and data", &(seconds + &files));
    page
}

/// Text with what stands between backticks as code.
fn with_code(text: &str) -> String {
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

fn folded(title: &str, inside: &str) -> String {
    let title = escape(title);
    format!("<details><summary>{title}</summary>{inside}</details>\n")
}

/// Pictures, notes, and tables under folds; where there is no picture, the first table is open.
fn results(report: &Report) -> String {
    let mut page: String = report.figures.iter().map(Figure::html).collect();
    let (open, rest) = report
        .tables
        .split_at(usize::from(report.figures.is_empty()).min(report.tables.len()));
    page.extend(open.iter().map(TextTable::html));
    for note in &report.notes {
        page += &format!("<p>{}</p>\n", with_code(note));
    }
    page.extend(
        rest.iter()
            .map(|t| folded(&t.title, &table(&t.header, &t.rows))),
    );
    let header = [
        "dataset",
        "setting",
        "method",
        "metric",
        "mean",
        "sd",
        "trials",
        "paper",
        "difference",
    ];
    let rows: Vec<Vec<String>> = report.results.iter().map(result_row).collect();
    page + &folded("All settings and metrics", &table(&header, &rows))
}

fn result_row(row: &ResultRow) -> Vec<String> {
    let optional = |v: Option<f64>| v.map_or(String::new(), short);
    vec![
        row.dataset.clone(),
        row.setting.clone(),
        row.method.clone(),
        row.metric.clone(),
        short(row.mean),
        optional(row.sd),
        row.trials.to_string(),
        optional(row.paper),
        optional(row.paper.map(|paper| row.mean - paper)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(report: Result<Report, String>) -> Section {
        section(&Ran {
            id: "iqgme/fig".into(),
            what: "what".into(),
            found: "passed".into(),
            report,
            files: vec![("wdbc/wdbc.data".into(), "abc123".into(), "as recorded")],
            trials: (1, 2),
            seconds: 0.5,
        })
    }

    #[test]
    fn a_section_says_what_was_found_beside_the_paper() {
        let row = ResultRow {
            dataset: "wdbc".into(),
            setting: "missing=0.25".into(),
            method: "npb:<x>".into(),
            metric: "auc".into(),
            mean: 0.98765,
            sd: None,
            trials: 1,
            paper: Some(0.98),
        };
        let figure = Figure {
            name: "curve".into(),
            title: String::new(),
            caption: String::new(),
            svg: "<svg width=\"9\"><image/></svg>".into(),
            header: Vec::new(),
            rows: Vec::new(),
        };
        let section = run(Ok(Report {
            results: vec![row],
            notes: vec!["a `b` < c".into()],
            figures: vec![figure],
            ..Default::default()
        }));
        assert_eq!((&*section.what, &*section.found), ("what", "passed"));
        assert_eq!(section.picture, Some(("curve.svg".to_owned(), false)));
        let parts = [
            "0.9877",
            "0.9800",
            "0.007650",
            "abc123",
            "npb:&lt;x&gt;",
            "2 trials, 1 of them",
            "a <code>b</code> &lt; c",
        ];
        for part in parts {
            assert!(section.body.contains(part), "{part:?} is not there");
        }
    }

    #[test]
    fn a_failure_is_said() {
        let section = run(Err("broke & burnt".into()));
        assert!(section.failed && section.body.contains("broke &amp; burnt"));
        assert_eq!(section.found, "failed");
    }
}
