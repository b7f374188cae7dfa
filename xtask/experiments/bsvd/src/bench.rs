//! `cargo xtask bench`: whole runs beside figures recorded for other libraries.

#![allow(clippy::print_stdout, reason = "a command-line tool talks to its user")]

use std::process::ExitCode;

use crate::speed::{SpeedLine, bsvd_speed};
use npb_kit::data::DataFolder;
use npb_kit::{BenchArgs, Result, root};

/// Seconds per sweep of other libraries on the same matrix, one thread, on another machine than this one perhaps.
const RECORDED: [(usize, &str, f64); 6] = [
    (32, "SMURFF BPMF (elapsed)", 1.1),
    (32, "SMURFF BPMF (CPU seconds)", 0.30),
    (32, "myFM", 0.59),
    (16, "SMURFF BPMF (CPU seconds)", 0.13),
    (16, "myFM", 0.32),
    (32, "target", 0.10),
];

/// Times npb-bsvd and prints the ratios.
pub(super) fn run(arguments: &BenchArgs) -> Result<ExitCode> {
    let folder = DataFolder::resolve(arguments.data.clone(), &root());
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(arguments.threads)
        .build()?;
    println!(
        "movielens-1m, 90% for training, {} thread(s), median of {} sweeps",
        arguments.threads, arguments.sweeps
    );
    let lines = pool.install(|| bsvd_speed(&folder, arguments.sweeps))?;
    for SpeedLine {
        components,
        entries,
        seconds,
    } in &lines
    {
        println!(
            "npb-bsvd, {components} active components, {entries} entries: {seconds:.4} s per sweep"
        );
        for (_, peer, theirs) in RECORDED.iter().filter(|r| r.0 == *components) {
            println!("  {peer}: {theirs} s, ratio {:.2}", theirs / seconds);
        }
    }
    Ok(ExitCode::SUCCESS)
}
