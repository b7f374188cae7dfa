//! Whole runs as users start them, each timed as one: `cargo bench -p npb-benches --bench whole -- [ROW…] [--threads N]`.
//!
//! For each row a line of JSON: seconds of the clock and of the processor, those divided by the time of a calibration kernel in the same run, and the
//! quality of the answers. `cargo xtask bench --check` compares them with what is stored.

mod calibration;
mod classifier;
mod images;
mod labels;

use std::process::ExitCode;

use calibration::Kernel;
use npb_benches::Seconds;

/// What a row took and how good its answers are.
pub struct Outcome {
    /// Time of the fit and of the answers that the row names, not of drawing its data.
    pub seconds: Seconds,
    /// Measures of the answers on data that the fit has not seen.
    pub quality: Vec<(&'static str, f64)>,
}

/// A row: its name and what runs it.
type Row = (&'static str, fn() -> Outcome);

/// All rows.
const ROWS: [Row; 4] = [
    ("classifier", classifier::run),
    ("denoise", images::denoise),
    ("inpaint", images::inpaint),
    ("labels", labels::run),
];

fn main() -> ExitCode {
    let mut names = Vec::new();
    let mut threads = 1;
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    while let Some(argument) = arguments.next() {
        if argument == "--threads" {
            threads = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        } else {
            names.push(argument);
        }
    }
    if let Some(name) = names.iter().find(|n| ROWS.iter().all(|row| row.0 != **n)) {
        eprintln!(
            "error: no row {name:?}; there are {:?}",
            ROWS.map(|row| row.0)
        );
        return ExitCode::FAILURE;
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().expect("the first pool of this process");
    for (name, run) in ROWS {
        if names.is_empty() || names.iter().any(|n| n == name) {
            println!("{}", line(name, threads, run));
        }
    }
    ExitCode::SUCCESS
}

/// Runs a row between two runs of the calibration kernel.
fn line(name: &str, threads: usize, run: fn() -> Outcome) -> String {
    let kernel = Kernel::new();
    let before = kernel.seconds();
    let outcome = run();
    let calibration = (before + kernel.seconds()) / 2.0;
    let Seconds { clock, processor } = outcome.seconds;
    let quality: Vec<String> = outcome
        .quality
        .iter()
        .map(|(k, v)| format!("\"{k}\": {v:.6}"))
        .collect();
    format!(
        "{{\"row\": \"{name}\", \"threads\": {threads}, \"clock\": {clock:.3}, \"processor\": {processor:.3}, \"calibration\": {calibration:.4}, \
         \"ratio\": {:.2}, \"quality\": {{{}}}}}",
        processor / calibration,
        quality.join(", ")
    )
}
