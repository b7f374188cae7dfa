//! `docs/validation.md`: what checks found last, and at which revision.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{Report, Result, short};

const PAGE: &str = "docs/validation.md";

const HEAD: &str = "# What the long checks found

Written by `cargo xtask validate --store`, one line for each check that was run, the last time that it was. Ranks of true values among posterior draws are uniform for a right sampler
(simulation-based calibration); of the joint-distribution tests at 20 consecutive seeds, each at a rate of 5%, one false alarm is expected.

| check | verdict | found | scale, seed | minutes | revision |
|---|---|---|---|---|---|
";

/// One line of the page.
pub(super) struct Line<'a> {
    pub(super) id: &'a str,
    pub(super) verdict: &'a str,
    pub(super) report: Option<&'a Report>,
    /// Scale and seed.
    pub(super) run: String,
    pub(super) seconds: f64,
    pub(super) revision: &'a str,
}

impl Line<'_> {
    fn text(&self) -> String {
        let found = self.report.map_or(String::new(), in_short);
        let revision: String = self.revision.chars().take(10).collect();
        let changed = match self.revision.contains(' ') {
            true => " and changes",
            false => "",
        };
        let cells = [
            self.id,
            self.verdict,
            &found,
            &self.run,
            &format!("{:.1}", self.seconds / 60.0),
            &format!("{revision}{changed}"),
        ];
        format!("| {} |", cells.join(" | "))
    }
}

/// Of each metric the range over quantities, and of how many trials.
fn in_short(report: &Report) -> String {
    let mut metrics: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in &report.results {
        metrics.entry(&row.metric).or_default().push(row.mean);
    }
    let range = |(metric, values): (&&str, &Vec<f64>)| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match values.len() {
            1 => format!("{metric} {}", short(least)),
            n => format!(
                "{metric} {} to {} ({n} quantities)",
                short(least),
                short(most)
            ),
        }
    };
    let mut parts: Vec<String> = metrics.iter().map(range).collect();
    let trials = report.results.iter().map(|row| row.trials).max();
    parts.extend(trials.map(|n| format!("{n} trials")));
    parts.join("; ").replace('|', "/")
}

/// Puts a line into the page, in place of an earlier one of the same check.
pub(super) fn store(project: &Path, line: &Line<'_>) -> Result<()> {
    let path = project.join(PAGE);
    let page = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, with_line(&page, line.id, &line.text()))
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(())
}

fn with_line(page: &str, id: &str, text: &str) -> String {
    let check = |line: &str| line.split('|').nth(1).map(|cell| cell.trim().to_owned());
    let is_check = |line: &&str| check(line).is_some_and(|id| id.contains('/'));
    // Other sections stand below and stay.
    let (table, below) = page.split_at(page.find("\n#").unwrap_or(page.len()));
    let mut lines: BTreeMap<String, String> = table
        .lines()
        .filter(is_check)
        .map(|line| (check(line).unwrap_or_default(), line.to_owned()))
        .collect();
    lines.insert(id.to_owned(), text.to_owned());
    let lines: Vec<String> = lines.into_values().collect();
    format!("{HEAD}{}\n{below}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResultRow;

    fn row(metric: &str, mean: f64) -> ResultRow {
        ResultRow {
            trials: 1000,
            ..ResultRow::single(["simulated", "", "", metric], mean)
        }
    }

    #[test]
    fn a_line_takes_the_place_of_an_earlier_one() {
        let report = Report {
            results: vec![row("p", 0.5), row("coverage_90", 0.9), row("p", 0.25)],
            ..Report::default()
        };
        let line = |id, verdict| Line {
            id,
            verdict,
            report: Some(&report),
            run: "quick, 1".to_owned(),
            seconds: 90.0,
            revision: "0123456789abcdef with uncommitted changes",
        };
        let page = with_line("", "b/x", &line("b/x", "ALARM").text());
        let page = with_line(&page, "a/y", &line("a/y", "passed").text());
        let below =
            "\n## Faults\n\n| c/z | 3 |\n\n# How each answer is known\n\n| npb-a | b/c | d | e |\n";
        let page = with_line(&(page + below), "b/x", &line("b/x", "passed").text());
        assert!(page.ends_with(below));
        assert!(page.starts_with("# What") && !page.contains("ALARM"));
        let lines: Vec<&str> = page.lines().filter(|l| l.contains("passed")).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[1],
            "| b/x | passed | coverage_90 0.9000; p 0.2500 to 0.5000 (2 quantities); 1000 trials | quick, 1 | 1.5 | 0123456789 and changes |"
        );
    }
}
