//! Experiments, reports, data sets and house rules of the npb workspace.
//!
//! - `cargo xtask list` and `cargo xtask reproduce`: [`reproduce`] runs what [`experiments`] lists, one module per model
//!   crate; a new table or figure is an `Experiment` in the list of its module.
//! - `cargo xtask validate`: [`validate`] runs long checks of samplers, listed one file per model crate.
//! - `cargo xtask mutants`: [`mutants`] plants faults in a copy of the crates and names those that no test sees.
//! - `cargo xtask bench`: [`mod@bench`] times whole runs beside recorded peers.
//! - `cargo xtask data`: [`data`] knows every data set, its checksums and where it comes from.
//! - `cargo xtask tidy`: [`tidy`] checks the house rules.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod bench;
mod data;
mod experiments;
mod mutants;
mod processor;
mod reproduce;
#[cfg(test)]
mod scratch;
mod tidy;
mod validate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use data::DataFolder;

/// Any failure of a task; the text is for the person at the keyboard.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Failure>;

/// Tasks of the npb workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// List the experiments, the data they need and whether it is there.
    List {
        /// Folder with one folder per data set [default: NPB_DATA_DIR, else target/data].
        #[arg(long)]
        data: Option<PathBuf>,
    },
    /// Run experiments and write tables, figures and `index.html`.
    Reproduce(reproduce::ReproduceArgs),
    /// Run checks of samplers that are too long for tests: calibration, false alarms.
    Validate(validate::ValidateArgs),
    /// Plant faults in a copy of the crates, one at a time, and name those that no test sees.
    Mutants(mutants::MutantsArgs),
    /// Time whole runs beside figures recorded for other libraries.
    Bench(bench::BenchArgs),
    /// List, verify and get data sets.
    Data {
        /// Folder with one folder per data set [default: NPB_DATA_DIR, else target/data].
        #[arg(long, global = true)]
        data: Option<PathBuf>,
        #[command(subcommand)]
        action: data::Action,
    },
    /// Check the house rules; name file and line of each one that is broken.
    Tidy,
}

/// The project's root: the folder above xtask.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn main() -> ExitCode {
    run(Cli::parse().task).unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}

fn run(task: Task) -> Result<ExitCode> {
    let folder = |given| DataFolder::resolve(given, &root());
    match task {
        Task::List { data } => reproduce::list(&folder(data)).map(|()| ExitCode::SUCCESS),
        Task::Reproduce(arguments) => reproduce::run(arguments, &root()),
        Task::Validate(arguments) => validate::run(&arguments, &root()),
        Task::Mutants(arguments) => mutants::run(&arguments, &root()),
        Task::Bench(arguments) => bench::run(&arguments, &root()),
        Task::Data { data, action } => data::run(&action, &folder(data)),
        Task::Tidy => run_tidy(),
    }
}

fn run_tidy() -> Result<ExitCode> {
    let broken = tidy::check(&root())?;
    for violation in &broken {
        eprintln!("{violation}");
    }
    if broken.is_empty() {
        println!("tidy: no house rule is broken");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} broken", broken.len());
    Ok(ExitCode::FAILURE)
}
