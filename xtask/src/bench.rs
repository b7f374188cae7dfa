//! `cargo xtask bench`: whole runs in the time of a calibration kernel, beside those that are stored.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use npb_catalogue::{Result, revision, root, today};
use serde::{Deserialize, Serialize};

/// A row whose ratio is so many times the stored one has become slower.
const SLOWER: f64 = 1.15;

/// A measure of quality may be off by this share of the stored one: other machines round otherwise, and chains then go other ways.
const OTHERWISE: f64 = 0.01;

/// Time whole runs: each in the time of a calibration kernel of the same program, so that machines can be compared.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    /// Rows to run [default: all].
    rows: Vec<String>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Compare with the newest stored figures, and fail where a row became slower or its answers changed.
    #[arg(long)]
    check: bool,
    /// Add the figures to the history in docs/results/speed.json.
    #[arg(long, conflicts_with = "check")]
    store: bool,
}

/// One row of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Timed {
    row: String,
    threads: usize,
    /// Seconds by the clock, of the processor, and of the calibration kernel.
    clock: f64,
    processor: f64,
    calibration: f64,
    /// Processor seconds in those of the kernel.
    ratio: f64,
    quality: BTreeMap<String, f64>,
}

/// One entry of the history.
#[derive(Serialize, Deserialize)]
struct Entry {
    date: String,
    revision: String,
    rows: Vec<Timed>,
}

/// Runs rows; prints them, beside what is stored.
pub(crate) fn run(arguments: &BenchArgs) -> Result<ExitCode> {
    let mut history = read()?;
    let rows = timed(arguments)?;
    let mut moved = Vec::new();
    for row in &rows {
        let stored = newest(&history, row);
        println!("{}", line(row, stored));
        moved.extend(stored.iter().flat_map(|stored| differences(row, stored)));
    }
    if arguments.store {
        history.push(Entry {
            date: today(),
            revision: revision(&root()),
            rows,
        });
        fs::write(path(), serde_json::to_string_pretty(&history)? + "\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    moved.iter().for_each(|what| eprintln!("{what}"));
    Ok(ExitCode::from(u8::from(
        arguments.check && !moved.is_empty(),
    )))
}

fn path() -> PathBuf {
    root().join("docs/results/speed.json")
}

fn read() -> Result<Vec<Entry>> {
    if !path().exists() {
        return Ok(Vec::new());
    }
    Ok(serde_json::from_str(&fs::read_to_string(path())?)?)
}

/// Has cargo build and run the bench.
fn timed(arguments: &BenchArgs) -> Result<Vec<Timed>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "bench",
        "--locked",
        "-p",
        "npb-benches",
        "--bench",
        "whole",
        "--",
    ]);
    command.args(&arguments.rows);
    command.args(["--threads", &arguments.threads.to_string()]);
    command.current_dir(root()).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err("the bench has failed".into());
    }
    parsed(&String::from_utf8(output.stdout)?)
}

/// The lines of the bench that are rows.
fn parsed(output: &str) -> Result<Vec<Timed>> {
    let rows = output.lines().filter(|line| line.starts_with('{'));
    rows.map(|row| Ok(serde_json::from_str(row)?)).collect()
}

/// What is stored last of the same row on as many threads.
fn newest<'a>(history: &'a [Entry], row: &Timed) -> Option<&'a Timed> {
    let mut all = history.iter().flat_map(|entry| &entry.rows);
    all.rfind(|of| of.row == row.row && of.threads == row.threads)
}

fn line(row: &Timed, stored: Option<&Timed>) -> String {
    let quality: Vec<String> = row
        .quality
        .iter()
        .map(|(k, v)| format!("{k} {v:.4}"))
        .collect();
    let beside = stored.map_or_else(String::new, |of| format!(" (stored {:.1})", of.ratio));
    format!(
        "{:<16} {:8.2} s of processor, {:8.2} s by the clock, {:8.1} times the kernel{beside}; {}",
        row.row,
        row.processor,
        row.clock,
        row.ratio,
        quality.join(", ")
    )
}

/// What became slower, and what is answered otherwise.
fn differences(row: &Timed, stored: &Timed) -> Vec<String> {
    let mut found = Vec::new();
    if row.ratio > SLOWER * stored.ratio {
        let times = row.ratio / stored.ratio;
        found.push(format!(
            "{}: {times:.2} times the stored time, {:.1} for {:.1} times the kernel",
            row.row, row.ratio, stored.ratio
        ));
    }
    for (name, was) in &stored.quality {
        let is = row.quality.get(name).copied().unwrap_or(f64::NAN);
        // Not a number is a difference, too.
        let alike = (is - was).abs() <= OTHERWISE * was.abs();
        if !alike {
            found.push(format!("{}: {name} is {is}, stored {was}", row.row));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, auc: f64) -> Timed {
        let text = format!(
            "noise\n{{\"row\": \"classifier\", \"threads\": 1, \"clock\": 3.0, \"processor\": 2.0, \"calibration\": 0.5, \
             \"ratio\": {ratio}, \"quality\": {{\"auc\": {auc}}}}}\n"
        );
        parsed(&text).unwrap().remove(0)
    }

    #[test]
    fn slower_rows_and_other_answers_are_named_and_quicker_ones_are_not() {
        let stored = row(100.0, 0.9);
        assert!(differences(&row(114.0, 0.9), &stored).is_empty());
        assert!(differences(&row(20.0, 0.895), &stored).is_empty());
        let slower = differences(&row(130.0, 0.9), &stored);
        assert_eq!(
            slower,
            ["classifier: 1.30 times the stored time, 130.0 for 100.0 times the kernel"]
        );
        let worse = differences(&row(100.0, 0.85), &stored);
        assert_eq!(worse, ["classifier: auc is 0.85, stored 0.9"]);
        let mut unknown = row(100.0, 0.9);
        unknown.quality.clear();
        assert_eq!(differences(&unknown, &stored).len(), 1);
    }

    #[test]
    fn a_row_stands_beside_the_newest_on_as_many_threads() {
        let on_two = Timed {
            threads: 2,
            ..row(9.0, 0.9)
        };
        let entry = |rows| Entry {
            date: String::new(),
            revision: String::new(),
            rows,
        };
        let history = [
            entry(vec![row(1.0, 0.9)]),
            entry(vec![row(2.0, 0.9), on_two]),
        ];
        assert_eq!(newest(&history, &row(7.0, 0.9)).unwrap().ratio, 2.0);
        assert!(newest(&history[..1], &history[1].rows[1]).is_none());
    }

    #[test]
    fn the_stored_history_can_be_read() {
        for entry in read().unwrap() {
            assert!(!entry.rows.is_empty());
            assert!(
                entry
                    .rows
                    .iter()
                    .all(|row| (row.processor / row.calibration / row.ratio - 1.0).abs() < 0.02)
            );
        }
    }
}
