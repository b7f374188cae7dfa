//! `cargo xtask bench`: whole runs beside figures recorded for other libraries.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::Result;
use crate::data::DataFolder;
use crate::experiments::{SpeedLine, bsvd_speed};

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Folder with one folder per data set [default: NPB_DATA_DIR, else target/data].
    #[arg(long)]
    data: Option<PathBuf>,
    /// Sweeps that are timed.
    #[arg(long, default_value_t = 20)]
    sweeps: u64,
    /// Threads; the recorded figures are for one.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

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
pub(crate) fn run(arguments: &BenchArgs, project: &Path) -> Result<ExitCode> {
    let folder = DataFolder::resolve(arguments.data.clone(), project);
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
