//! `index.html`: one file that shows everything, without any other file.

use super::report::{Figure, Report, ResultRow, TextTable};

/// One experiment on the page.
pub(crate) struct Section {
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

/// An experiment that was not run.
pub(crate) struct LeftOut {
    pub(crate) id: String,
    /// Data sets that are not there.
    pub(crate) missing: Vec<String>,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#222;--quiet:#666;--line:#ddd;--soft:#f4f4f4;--bad:#a00;--paper:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--quiet:#999;--line:#444;--soft:#2a2a2a;--bad:#f77;--paper:#181818}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1320px;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--paper)}\
h1,h2,h3{line-height:1.2}h2{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0 1rem;font-size:13px}\
th,td{padding:.15rem .6rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}th{border-bottom:2px solid var(--quiet)}\
td.n{text-align:right;font-variant-numeric:tabular-nums}code{background:var(--soft);padding:0 .2rem;overflow-wrap:anywhere}\
figure{margin:1rem 0}figure svg{max-width:100%;height:auto;background:#fff;border-radius:4px}\
.failed{color:var(--bad);font-weight:bold}.quiet{color:var(--quiet)}";

/// The whole page.
pub(crate) fn page(
    title: &str,
    facts: &[(&str, String)],
    sections: &[Section],
    left_out: &[LeftOut],
    command: Option<&str>,
) -> String {
    let mut page =
        String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page += "<meta name=\"viewport\" content=\"width=device-width\">";
    let title = escape(title);
    push(
        &mut page,
        format_args!(
            "<title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        ),
    );
    let facts: Vec<Vec<String>> = facts
        .iter()
        .map(|(name, value)| vec![(*name).to_owned(), value.clone()])
        .collect();
    table(&mut page, &[], &facts);
    summary(&mut page, sections);
    if !left_out.is_empty() {
        page += "<h2>Left out</h2><p>These experiments need data that is not there:</p>";
        let rows: Vec<Vec<String>> = left_out
            .iter()
            .map(|l| vec![l.id.clone(), l.missing.join(", ")])
            .collect();
        table(&mut page, &["experiment", "data sets"], &rows);
    }
    if let Some(command) = command {
        push(
            &mut page,
            format_args!("<p>To get it: <code>{}</code></p>", escape(command)),
        );
    }
    for part in sections {
        section(&mut page, part);
    }
    page += "</body></html>\n";
    page
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.push_str(&text.to_string());
}

/// What each paper says, what was found, and whether the two agree.
fn summary(page: &mut String, sections: &[Section]) {
    *page += "<h2>Summary</h2><div class=\"wide\"><table><tr><th>experiment</th><th>the paper</th><th>here</th></tr>";
    for section in sections {
        let id = escape(&section.id);
        let found = match &section.report {
            Ok(report) => escape(&found(report)),
            Err(_) => "<span class=\"failed\">failed</span>".to_owned(),
        };
        let paper = match section.paper.is_empty() {
            true => escape(&section.what),
            false => escape(&section.paper),
        };
        push(
            page,
            format_args!(
                "<tr><td><a href=\"#{id}\">{id}</a></td><td>{paper}</td><td>{found}</td></tr>"
            ),
        );
    }
    *page += "</table></div>\n";
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

fn section(page: &mut String, section: &Section) {
    let id = escape(&section.id);
    push(
        page,
        format_args!(
            "<h2 id=\"{id}\">{id}</h2>\n<p>{}</p>\n",
            escape(&section.what)
        ),
    );
    if !section.paper.is_empty() {
        push(
            page,
            format_args!("<p>Paper: {}</p>\n", escape(&section.paper)),
        );
    }
    let trials = match section.trials {
        (_, 0) => String::new(),
        (cached, all) => format!("{all} trials, {cached} of them from an earlier run; "),
    };
    push(
        page,
        format_args!("<p class=\"quiet\">{trials}{:.1} s.</p>\n", section.seconds),
    );
    match &section.report {
        Err(reason) => push(
            page,
            format_args!("<p class=\"failed\">{}</p>\n", escape(reason)),
        ),
        Ok(report) => body(page, report),
    }
    if !section.files.is_empty() {
        *page += "<h3>Data</h3>";
        let rows = section.files.iter();
        let rows: Vec<Vec<String>> = rows
            .map(|(name, sum, state)| vec![name.clone(), sum.clone(), (*state).to_owned()])
            .collect();
        table(page, &["file", "sha256", ""], &rows);
    }
}

fn body(page: &mut String, report: &Report) {
    for note in &report.notes {
        push(page, format_args!("<p>{}</p>\n", escape(note)));
    }
    for figure in &report.figures {
        picture(page, figure);
    }
    for TextTable {
        title,
        header,
        rows,
    } in &report.tables
    {
        push(page, format_args!("<h3>{}</h3>", escape(title)));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        table(page, &header, rows);
    }
    *page += "<details><summary>All results</summary>";
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
    table(page, &header, &rows);
    *page += "</details>\n";
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

fn picture(page: &mut String, figure: &Figure) {
    push(
        page,
        format_args!(
            "<h3>{}</h3><figure>{}<figcaption>{}</figcaption></figure>\n",
            escape(&figure.title),
            figure.svg,
            escape(&figure.caption)
        ),
    );
}

/// Four significant digits, for tables.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..6).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - magnitude).max(0) as usize;
    format!("{value:.decimals$}")
}

fn table(page: &mut String, header: &[&str], rows: &[Vec<String>]) {
    *page += "<div class=\"wide\"><table>";
    if !header.is_empty() {
        *page += "<tr>";
        for name in header {
            push(page, format_args!("<th>{}</th>", escape(name)));
        }
        *page += "</tr>";
    }
    for row in rows {
        *page += "<tr>";
        for cell in row {
            let class = if cell.parse::<f64>().is_ok() {
                " class=\"n\""
            } else {
                ""
            };
            push(page, format_args!("<td{class}>{}</td>", escape(cell)));
        }
        *page += "</tr>";
    }
    *page += "</table></div>\n";
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> String {
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
        let report = Report {
            results: vec![row],
            ..Default::default()
        };
        let sections = [
            Section {
                id: "iqgme/fig".into(),
                what: "what".into(),
                paper: "claim".into(),
                report: Ok(report),
                files: vec![("wdbc/wdbc.data".into(), "abc123".into(), "as recorded")],
                trials: (1, 2),
                seconds: 0.5,
            },
            Section {
                id: "iqgme/bad".into(),
                what: String::new(),
                paper: String::new(),
                report: Err("broke & burnt".into()),
                files: vec![],
                trials: (0, 0),
                seconds: 0.0,
            },
        ];
        let left_out = [LeftOut {
            id: "bsvd/x".into(),
            missing: vec!["movielens-1m".into()],
        }];
        let facts = [("seed", "7".to_owned()), ("revision", "f00".to_owned())];
        page(
            "a title",
            &facts,
            &sections,
            &left_out,
            Some("cargo xtask data get movielens-1m"),
        )
    }

    #[test]
    fn the_page_says_what_was_run_where_and_what_was_not() {
        let page = example();
        let parts = [
            "<h1>a title</h1>",
            "seed",
            "f00",
            "0.9877",
            "0.9800",
            "0.007650",
            "abc123",
            "broke &amp; burnt",
            "npb:&lt;x&gt;",
            "bsvd/x",
            "cargo xtask data get movielens-1m",
            "2 trials, 1 of them",
        ];
        for part in parts {
            assert!(page.contains(part), "{part:?} is not on the page");
        }
    }

    #[test]
    fn the_page_needs_no_other_file() {
        let page = example();
        for outside in ["src=", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.98765), "0.9877");
        assert_eq!(short(12.3456), "12.35");
        assert_eq!(short(123456.0), "123456");
        assert_eq!(short(-0.00123456), "-0.001235");
        assert_eq!(short(1.5e-9), "1.500e-9");
        assert_eq!(short(0.0), "0");
    }
}
