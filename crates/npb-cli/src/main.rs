//! The command `npb`: classify, fill, complete and recommend from files with holes, without writing a program.
//!
//! One file for each verb in `verbs`; what they share is above them: options (`args`), readers of files by a schema (`input`), joins by names (`join`), tables written (`sheet`,
//! `output`), settings of models (`settings`, and what they mean: `meanings`), progress, interruption and checkpoints (`job`), the file that `fit` writes (`model`). Every fit is a
//! `fitting::Fitting`; every question about a table is asked of `rows::NewRows`, rows of a file that may be larger than memory.

mod args;
mod diagnostics;
mod failure;
mod fitting;
mod input;
mod job;
mod join;
mod keep;
mod meanings;
mod model;
mod output;
mod picture;
mod rows;
mod settings;
mod sheet;
mod verbs;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command = match args::Npb::try_parse() {
        Ok(command) => command,
        Err(error) => {
            // Help that nobody reads to its end is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                failure::USAGE
            } else {
                0
            });
        }
    };
    match verbs::run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "npb: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
