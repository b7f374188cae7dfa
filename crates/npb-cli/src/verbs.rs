//! The verbs.

mod alike;
mod cells;
mod classes;
mod describe;
mod exchange;
mod fit;
mod grouped;
mod groups;
mod images;
mod labels;
mod numbers;
mod pages;
mod parts;
mod questions;
mod ratings;
mod report;
mod table;
mod tasks;
mod topics;

use clap::CommandFactory;

use crate::args::{Npb, Verb};
use crate::failure::{Failure, Result};
use crate::output;

/// Does what the command line says.
pub(crate) fn run(command: Npb) -> Result<()> {
    if let Some(threads) = command.threads {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.into())
            .build_global();
        pool.map_err(|e| Failure::usage(format_args!("--threads {threads}: {e}")))?;
    }
    let quiet = command.quiet;
    match command.verb {
        Verb::Schema(args) => describe::schema(&args),
        Verb::Config(args) => {
            let text = args.kind.config(&args.settings)?;
            output::bytes(text.as_bytes(), args.out.as_deref())
        }
        Verb::Fit(fit) => fit::fit(&fit, quiet),
        Verb::Predict(args) => questions::predict(&args, quiet),
        Verb::Impute(args) => questions::impute(&args, quiet),
        Verb::Score(args) => questions::score(&args, quiet),
        Verb::Simulate(args) => questions::simulate(&args),
        Verb::Similar(args) => questions::similar(&args, quiet),
        Verb::Clusters(args) => questions::clusters(&args, quiet),
        Verb::Recommend(args) => questions::recommend(&args, quiet),
        Verb::Next(args) => ratings::next(&args, quiet),
        Verb::Dependence(args) => table::dependence(&args, quiet),
        Verb::Denoise(args) => images::denoise(&args, quiet),
        Verb::Inpaint(args) => images::inpaint(&args, quiet),
        Verb::Summary(args) => describe::summary(&args),
        Verb::Diagnose(args) => describe::diagnose(&args),
        Verb::Report(args) => report::report(&args, quiet),
        Verb::Merge(args) => exchange::merge(&args, quiet),
        Verb::Export(args) => describe::export(&args),
        Verb::Import(args) => exchange::import(&args, quiet),
        Verb::Man(args) => describe::man(&args),
        Verb::Completions(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Npb::command(), "npb", &mut script);
            output::bytes(&script, None)
        }
    }
}
