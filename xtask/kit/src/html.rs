//! What an experiment found, as a section of the page.

use npb_catalogue::Section;
use npb_report::html::{escape, table};
use npb_report::{Figure, TextTable, short};

use crate::report::{Report, ResultRow};

/// One experiment or check as it was run.
pub(crate) struct Ran {
    pub(crate) id: String,
    pub(crate) what: String,
    /// What the paper prints or shows.
    pub(crate) paper: String,
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
    let found = match &run.report {
        Ok(report) => escape(&found(report)),
        Err(_) => "<span class=\"failed\">failed</span>".to_owned(),
    };
    let paper = match run.paper.is_empty() {
        true => run.what.clone(),
        false => run.paper.clone(),
    };
    Section {
        id: run.id.clone(),
        paper,
        found,
        body: body(run),
        failed: run.report.is_err(),
    }
}

/// How many of the printed numbers are met within two standard errors of the trials, and the first of our numbers.
fn found(report: &Report) -> String {
    let with_paper = report
        .results
        .iter()
        .filter_map(|row| Some((row, row.paper?)));
    let (mut n, mut met, mut judged) = (0, 0, 0);
    for (row, paper) in with_paper {
        n += 1;
        if let Some(sd) = row.sd {
            let error = sd / (row.trials as f64).sqrt();
            judged += 1;
            met += usize::from((row.mean - paper).abs() <= 2.0 * error);
        }
    }
    let compared = match (n, judged) {
        (0, _) => "No printed numbers.".to_owned(),
        (n, 0) => format!("Printed numbers beside ours: {n}, of one trial each."),
        (n, judged) => format!(
            "Printed numbers beside ours: {n}; {met} of {judged} within two standard errors of our trials."
        ),
    };
    let ours = report
        .results
        .iter()
        .filter(|row| row.method.starts_with("npb:"));
    let numbers: Vec<String> = ours
        .take(3)
        .map(|row| format!("{} {} ({})", row.metric, short(row.mean), row.setting))
        .collect();
    format!("{compared} {}", numbers.join("; "))
}

fn body(run: &Ran) -> String {
    let mut page = format!("<p>{}</p>\n", escape(&run.what));
    if !run.paper.is_empty() {
        page += &format!("<p>Paper: {}</p>\n", escape(&run.paper));
    }
    let trials = match run.trials {
        (_, 0) => String::new(),
        (cached, all) => format!("{all} trials, {cached} of them from an earlier run; "),
    };
    page += &format!("<p class=\"quiet\">{trials}{:.1} s.</p>\n", run.seconds);
    page += &match &run.report {
        Err(reason) => format!("<p class=\"failed\">{}</p>\n", escape(reason)),
        Ok(report) => results(report),
    };
    if !run.files.is_empty() {
        let rows = run.files.iter();
        let rows: Vec<Vec<String>> = rows
            .map(|(name, sum, state)| vec![name.clone(), sum.clone(), (*state).to_owned()])
            .collect();
        page += "<h3>Data</h3>";
        page += &table(&["file", "sha256", ""], &rows);
    }
    page
}

fn results(report: &Report) -> String {
    let mut page = String::new();
    for note in &report.notes {
        page += &format!("<p>{}</p>\n", escape(note));
    }
    page.extend(report.figures.iter().map(Figure::html));
    page.extend(report.tables.iter().map(TextTable::html));
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
    let table = table(&header, &rows);
    page + &format!("<details><summary>All results</summary>{table}</details>\n")
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
            paper: "claim".into(),
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
        let section = run(Ok(Report {
            results: vec![row],
            ..Default::default()
        }));
        assert_eq!(section.paper, "claim");
        assert_eq!(
            section.found,
            "Printed numbers beside ours: 1, of one trial each. auc 0.9877 (missing=0.25)"
        );
        let parts = [
            "0.9877",
            "0.9800",
            "0.007650",
            "abc123",
            "npb:&lt;x&gt;",
            "2 trials, 1 of them",
        ];
        for part in parts {
            assert!(section.body.contains(part), "{part:?} is not there");
        }
    }

    #[test]
    fn a_failure_is_said() {
        let section = run(Err("broke & burnt".into()));
        assert!(section.failed && section.body.contains("broke &amp; burnt"));
        assert!(section.found.contains("failed"));
    }
}
