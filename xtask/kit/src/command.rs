//! The command line of a package of experiments.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use npb_catalogue::data::{self, DataFolder};
use npb_catalogue::{
    Entry, LeftOut, Listed, Page, ReproduceArgs, Result, Scale, ValidateArgs, choose, root,
};

use crate::experiment::{Run, Setting};
use crate::validate::{self, Check, Plan};

/// What a package of experiments has.
pub struct Model {
    /// The text of its `listed.toml`.
    pub listed: &'static str,
    /// Ids of its experiments and what runs them.
    pub experiments: &'static [(&'static str, Run)],
    /// The same of its checks of samplers.
    pub checks: &'static [(&'static str, Check)],
}

/// The entries of a list that any of the names means, with what runs each.
fn chosen<F: Copy>(
    listed: &[Entry],
    known: &[(&str, F)],
    names: &[String],
    kind: &str,
) -> Result<Vec<(Entry, F)>> {
    let ids: Vec<&str> = known.iter().map(|(id, _)| *id).collect();
    let hint = format!("there are {}", ids.join(", "));
    let chosen = choose(names, &ids, kind, &hint)?;
    let with_entry = |(id, run): &(&str, F)| {
        let entry = listed.iter().find(|entry| entry.id == *id);
        let entry = entry.ok_or_else(|| format!("{id} is not in listed.toml"))?;
        Ok((entry.clone(), *run))
    };
    let wanted = known.iter().filter(|(id, _)| chosen.contains(id));
    wanted.map(with_entry).collect()
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
        Task::Reproduce { arguments, part } => reproduce(model, arguments, &part),
        Task::Validate { arguments, part } => check(model, arguments, &part),
    }
}

fn reproduce(model: &Model, arguments: ReproduceArgs, part: &Part) -> Result<ExitCode> {
    let sets = data::all()?;
    let folder = DataFolder::resolve(arguments.data, &root());
    let out = match arguments.out {
        Some(out) => out,
        None => root().join("target").join("reproduce"),
    };
    let scale = arguments.scale.unwrap_or(Scale::Quick);
    let listed = Listed::parse(model.listed)?.experiments;
    let mut ready = chosen(&listed, model.experiments, &arguments.ids, "experiment")?;
    let mut left_out = Vec::new();
    ready.retain(|(entry, _)| {
        let missing = folder.missing(&entry.data, &sets);
        let (id, is_ready) = (entry.id.clone(), missing.is_empty());
        left_out.extend((!is_ready).then_some(LeftOut { id, missing }));
        is_ready
    });
    let new = Page::reproduced(scale.name(), arguments.seed, left_out);
    let mut page = match (part.join, arguments.resume) {
        (true, _) => Page::load(&out)?,
        (false, true) => new.going_on(&out),
        (false, false) => new,
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
    for (experiment, run) in ready {
        let section = setting.run(&experiment, run)?;
        failed |= section.failed;
        page.add(section, &out)?;
    }
    if !part.join {
        page.write(&out)?;
        page.say(&out);
    }
    Ok(verdict(failed))
}

fn check(model: &Model, arguments: ValidateArgs, part: &Part) -> Result<ExitCode> {
    let out = match arguments.out {
        Some(out) => out,
        None => root().join("target").join("validate"),
    };
    let plan = Plan {
        scale: arguments.scale,
        seed: arguments.seed,
    };
    let listed = Listed::parse(model.listed)?.checks;
    let chosen = chosen(&listed, model.checks, &arguments.checks, "check")?;
    let mut page = match part.join {
        true => Page::load(&out)?,
        false => Page::validated(plan.scale.name(), plan.seed),
    };
    let mut failed = false;
    for (entry, check) in chosen {
        failed |= !validate::run(&entry, check, &plan, arguments.store, &mut page, &out)?;
    }
    if !part.join {
        page.say(&out);
    }
    Ok(verdict(failed))
}

fn verdict(failed: bool) -> ExitCode {
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
