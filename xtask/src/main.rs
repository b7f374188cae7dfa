//! Tasks of the npb workspace. This program takes no crate of the library, so that it is there at once; it has cargo build what a task needs.
//!
//! - `cargo xtask list`, `reproduce` and `validate` have the [`packages`] of experiments run what they list; a new table or
//!   figure stands in `listed.toml` of its package below `xtask/experiments`.
//! - `cargo xtask bench`: [`mod@bench`] has whole runs timed and compares them with those that are stored.
//! - `cargo xtask results`: [`results`] stores what a run found and makes `docs/results.md` and marked numbers of pages of it.
//! - `cargo xtask mutants`: [`mutants`] plants faults in a copy of the crates and names those that no test sees.
//! - `cargo xtask data`: [`data`] knows every data set, its checksums and where it comes from.
//! - `cargo xtask tidy`: [`tidy`] checks the house rules.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod bench;
mod data;
mod mutants;
mod packages;
mod reproduce;
mod results;
mod tidy;
mod tour;
mod validate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use npb_catalogue::data::DataFolder;
use npb_catalogue::{ReproduceArgs, Result, ValidateArgs, root};

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
    Reproduce(ReproduceArgs),
    /// Run checks of samplers that are too long for tests: calibration, false alarms.
    Validate(ValidateArgs),
    /// Plant faults in a copy of the crates, one at a time, and name those that no test sees.
    Mutants(mutants::MutantsArgs),
    /// Time whole runs, beside what is stored of them.
    Bench(bench::BenchArgs),
    /// Make docs/results.md and marked numbers of other pages from what is stored; store a run, or compare one.
    Results(results::ResultsArgs),
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
        Task::Reproduce(arguments) => reproduce::run(arguments),
        Task::Validate(arguments) => validate::run(arguments),
        Task::Mutants(arguments) => mutants::run(&arguments, &root()),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Results(arguments) => results::run(&arguments, &root()),
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
