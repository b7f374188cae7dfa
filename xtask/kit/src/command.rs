//! The command line of a package of experiments.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use npb_catalogue::data::{self, DataFolder};
use npb_catalogue::{
    BenchArgs, Entry, LeftOut, Listed, Page, ReproduceArgs, Result, Scale, ValidateArgs, choose,
    root,
};

use crate::experiment::{Experiment, Setting};
use crate::validate::{self, Check, Plan};

/// What a package of experiments has.
pub struct Model {
    /// Its experiments, in the order of the report.
    pub experiments: &'static [Experiment],
    /// Its checks of samplers, in the order of the report.
    pub checks: &'static [Check],
    /// Times whole runs beside figures recorded for other libraries.
    pub bench: Option<fn(&BenchArgs) -> Result<ExitCode>>,
}

impl Model {
    /// What stands in `listed.toml`.
    pub(crate) fn listed(&self) -> Listed {
        let experiment = |e: &Experiment| Entry {
            id: e.id.to_owned(),
            what: e.what.to_owned(),
            data: e.data.iter().map(|&name| name.to_owned()).collect(),
        };
        let check = |c: &Check| Entry {
            id: c.id.to_owned(),
            what: c.what.to_owned(),
            data: Vec::new(),
        };
        Listed {
            experiments: self.experiments.iter().map(experiment).collect(),
            checks: self.checks.iter().map(check).collect(),
        }
    }
}

/// Experiments and checks of one model; `cargo xtask` builds and calls this program.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run experiments and write tables, figures and `index.html`.
    Reproduce {
        #[command(flatten)]
        arguments: ReproduceArgs,
        #[command(flatten)]
        part: Part,
    },
    /// Run checks of samplers that are too long for tests.
    Validate {
        #[command(flatten)]
        arguments: ValidateArgs,
        #[command(flatten)]
        part: Part,
    },
    /// Time whole runs beside figures recorded for other libraries.
    Bench(BenchArgs),
    /// Print what belongs into `listed.toml`.
    Listed,
}

/// This run is a part of one of `cargo xtask`.
#[derive(Args)]
struct Part {
    /// Add to the page in OUT, and leave it to the caller to say where it is.
    #[arg(long, hide = true)]
    join: bool,
    /// What one sees there, for the reader of the page.
    #[arg(long, hide = true)]
    shows: Option<String>,
}

/// The `main` of a package of experiments.
pub fn main(model: &Model) -> ExitCode {
    run(model, Cli::parse().task).unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}

fn run(model: &Model, task: Task) -> Result<ExitCode> {
    match task {
        Task::Reproduce { arguments, part } => reproduce(model.experiments, arguments, &part),
        Task::Validate { arguments, part } => check(model.checks, arguments, &part),
        Task::Bench(arguments) => match model.bench {
            Some(bench) => bench(&arguments),
            None => Err("nothing is timed here".into()),
        },
        Task::Listed => {
            print!("{}", model.listed().text()?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn reproduce(
    experiments: &[Experiment],
    arguments: ReproduceArgs,
    part: &Part,
) -> Result<ExitCode> {
    let sets = data::all()?;
    let folder = DataFolder::resolve(arguments.data, &root());
    let out = match arguments.out {
        Some(out) => out,
        None => root().join("target").join("reproduce"),
    };
    let scale = arguments.scale.unwrap_or(Scale::Quick);
    let ids: Vec<&str> = experiments.iter().map(|e| e.id).collect();
    let chosen = choose(&arguments.ids, &ids, "experiment", &known(&ids))?;
    let (mut ready, mut left_out) = (Vec::new(), Vec::new());
    for experiment in experiments.iter().filter(|e| chosen.contains(&e.id)) {
        let missing = folder.missing(experiment.data, &sets);
        if missing.is_empty() {
            ready.push(experiment);
        } else {
            left_out.push(LeftOut {
                id: experiment.id.to_owned(),
                missing,
            });
        }
    }
    let mut page = match part.join {
        true => Page::load(&out)?,
        false => Page::reproduced(scale.name(), arguments.seed, left_out),
    };
    let setting = Setting {
        scale,
        seed: arguments.seed,
        resume: arguments.resume,
        folder: &folder,
        sets: &sets,
        out: &out,
        shows: part.shows.as_deref(),
    };
    let mut failed = false;
    for experiment in ready {
        let section = setting.run(experiment)?;
        failed |= section.failed;
        page.add(section, &out)?;
    }
    if !part.join {
        page.write(&out)?;
        page.say(&out);
    }
    Ok(verdict(failed))
}

fn check(checks: &[Check], arguments: ValidateArgs, part: &Part) -> Result<ExitCode> {
    let out = match arguments.out {
        Some(out) => out,
        None => root().join("target").join("validate"),
    };
    let plan = Plan {
        scale: arguments.scale,
        seed: arguments.seed,
    };
    let ids: Vec<&str> = checks.iter().map(|c| c.id).collect();
    let chosen = choose(&arguments.checks, &ids, "check", &known(&ids))?;
    let mut page = match part.join {
        true => Page::load(&out)?,
        false => Page::validated(plan.scale.name(), plan.seed),
    };
    let mut failed = false;
    for check in checks.iter().filter(|c| chosen.contains(&c.id)) {
        failed |= !validate::run(check, &plan, arguments.store, &mut page, &out)?;
    }
    if !part.join {
        page.say(&out);
    }
    Ok(verdict(failed))
}

fn known(ids: &[&str]) -> String {
    format!("there are {}", ids.join(", "))
}

fn verdict(failed: bool) -> ExitCode {
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
