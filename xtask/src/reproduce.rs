//! `cargo xtask list` and `cargo xtask reproduce`: experiments, their trials and the report.

mod cache;
mod context;
pub(crate) mod draw;
mod html;
mod machine;
mod plot;
mod report;
mod tour;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use crate::Result;
use crate::data::{self, DataFolder, DataSet, sha256_of};
use crate::experiments;
use html::LeftOut;

#[cfg(test)]
pub(crate) use cache::TrialKey;
pub(crate) use cache::{Outcome, Record};
pub(crate) use context::{Context, Scale, Trial};
pub(crate) use html::{Section, short};
pub(crate) use machine::revision;
pub(crate) use plot::{Panel, Point, Series, lines};
pub(crate) use report::{Figure, Report, ResultRow, TextTable, mean_and_sd, summarise};

/// One table or figure of the papers.
pub(crate) struct Experiment {
    /// `crate/figure`.
    pub(crate) id: &'static str,
    /// What is run.
    pub(crate) what: &'static str,
    /// What the paper prints or shows.
    pub(crate) paper: &'static str,
    /// Data sets it needs; none for generated data.
    pub(crate) data: &'static [&'static str],
    pub(crate) run: fn(&Context<'_>) -> Result<Report>,
}

#[derive(Args)]
pub(crate) struct ReproduceArgs {
    /// Experiments by id, pattern (`iqgme/*`) or crate (`iqgme` or `npb-iqgme`) [default: a tour of a few minutes on generated data; all with --scale].
    ids: Vec<String>,
    /// How much to run [default: quick].
    #[arg(long, value_enum)]
    scale: Option<Scale>,
    /// Where the report goes [default: target/reproduce].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Go on with the trials that an earlier run left in OUT; they are taken as they are, even if the code has changed.
    #[arg(long)]
    resume: bool,
    /// Folder with one folder per data set [default: NPB_DATA_DIR, else target/data].
    #[arg(long)]
    data: Option<PathBuf>,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Prints every experiment, its data, and whether that data is there.
pub(crate) fn list(folder: &DataFolder) -> Result<()> {
    let sets = data::all()?;
    println!("{:<18} {:<26} {:<6} what", "id", "data", "ready");
    for experiment in experiments::all() {
        let data = if experiment.data.is_empty() {
            "generated".to_owned()
        } else {
            experiment.data.join(", ")
        };
        let ready = if missing_data(experiment, &sets, folder).is_empty() {
            "yes"
        } else {
            "no"
        };
        println!(
            "{:<18} {data:<26} {ready:<6} {}",
            experiment.id, experiment.what
        );
    }
    println!("\ndata folder: {}", folder.root().display());
    Ok(())
}

/// Runs experiments and writes the report; fails when an experiment does.
pub(crate) fn run(arguments: ReproduceArgs, project: &Path) -> Result<ExitCode> {
    let folder = DataFolder::resolve(arguments.data.clone(), project);
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| project.join("target").join("reproduce"));
    let run = Run {
        sets: data::all()?,
        folder,
        out,
        seed: arguments.seed,
        resume: arguments.resume,
        project,
    };
    if arguments.ids.is_empty() && arguments.scale.is_none() {
        return run.tour();
    }
    run.chosen(
        choose(&arguments.ids)?,
        arguments.scale.unwrap_or(Scale::Quick),
    )
}

/// One call of `reproduce`.
struct Run<'p> {
    sets: Vec<DataSet>,
    folder: DataFolder,
    out: PathBuf,
    seed: u64,
    resume: bool,
    project: &'p Path,
}

impl Run<'_> {
    /// One or two experiments of each model, in minutes.
    fn tour(&self) -> Result<ExitCode> {
        let clock = Instant::now();
        let mut sections = Vec::new();
        for (number, stage) in tour::TOUR.iter().enumerate() {
            let seconds = tour::remaining(number, clock.elapsed().as_secs_f64());
            println!(
                "{} of {}, about {} left. {}",
                number + 1,
                tour::TOUR.len(),
                in_minutes(seconds),
                stage.shows
            );
            let experiment = tour::experiment(stage)
                .ok_or_else(|| format!("{} is not an experiment", stage.id))?;
            let section = self.one(experiment, stage.scale)?;
            sections.push(Section {
                what: format!("{}. {}", stage.shows, section.what),
                ..section
            });
            // The page is complete after every experiment, so that a stopped run leaves one.
            self.write_page("a tour", &sections, &[])?;
        }
        println!("report: {}", self.out.join("index.html").display());
        println!(
            "\nThere is more: `cargo xtask list` shows every table and figure of the papers, `cargo xtask reproduce ID` runs one,\n\
             `--scale smoke` all of them in seconds each, `--scale quick` in up to 20 minutes each, `--scale paper` with the papers' numbers of trials."
        );
        let missing = experiments::all().map(|experiment| LeftOut {
            id: experiment.id.to_owned(),
            missing: self.missing_data(experiment),
        });
        if let Some(command) = get_command(&missing.collect::<Vec<_>>()) {
            println!("to get the data that most of them need: {command}");
        }
        Ok(verdict(&sections))
    }

    fn chosen(&self, chosen: Vec<&'static Experiment>, scale: Scale) -> Result<ExitCode> {
        let (mut sections, mut left_out) = (Vec::new(), Vec::new());
        let name = format!("{scale:?}").to_lowercase();
        for experiment in chosen {
            let missing = self.missing_data(experiment);
            if !missing.is_empty() {
                left_out.push(LeftOut {
                    id: experiment.id.to_owned(),
                    missing,
                });
                continue;
            }
            sections.push(self.one(experiment, scale)?);
            // The page is complete after every experiment, so that a stopped run leaves one.
            self.write_page(&name, &sections, &left_out)?;
        }
        self.write_page(&name, &sections, &left_out)?;
        println!("report: {}", self.out.join("index.html").display());
        for LeftOut { id, missing } in &left_out {
            println!("left out: {id} (needs {})", missing.join(", "));
        }
        if let Some(command) = get_command(&left_out) {
            println!("to get the data: {command}");
        }
        Ok(verdict(&sections))
    }

    fn missing_data(&self, experiment: &Experiment) -> Vec<String> {
        missing_data(experiment, &self.sets, &self.folder)
    }

    fn one(&self, experiment: &Experiment, scale: Scale) -> Result<Section> {
        let place = self.out.join(experiment.id);
        fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        let cache = cache::TrialCache::open(&place.join("trials.jsonl"), self.resume)?;
        let context = Context::new(experiment.id, scale, self.seed, &self.folder, &cache);
        println!("{}: {}", experiment.id, experiment.what);
        let clock = Instant::now();
        let report = (experiment.run)(&context).map_err(|e| e.to_string());
        let seconds = clock.elapsed().as_secs_f64();
        match &report {
            Ok(report) => {
                report.write(experiment.id, &place)?;
                println!("{}: done in {seconds:.1} s", experiment.id);
            }
            Err(reason) => eprintln!("{}: failed: {reason}", experiment.id),
        }
        Ok(Section {
            id: experiment.id.to_owned(),
            what: experiment.what.to_owned(),
            paper: experiment.paper.to_owned(),
            report,
            files: checksums(&context.files(), &self.folder, &self.sets)?,
            trials: context.counts(),
            seconds,
        })
    }

    fn write_page(&self, scale: &str, sections: &[Section], left_out: &[LeftOut]) -> Result<()> {
        let facts = [("scale", scale.to_owned()), ("seed", self.seed.to_string())];
        let title = "npb: reproduced figures";
        write_whole(title, self.project, &facts, (sections, left_out), &self.out)
    }
}

fn verdict(sections: &[Section]) -> ExitCode {
    match sections.iter().any(|section| section.report.is_err()) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn in_minutes(seconds: f64) -> String {
    match seconds < 90.0 {
        true => format!("{seconds:.0} s"),
        false => format!("{:.0} minutes", seconds / 60.0),
    }
}

/// Experiments that any of the patterns or crates means, in the order of the list.
fn choose(patterns: &[String]) -> Result<Vec<&'static Experiment>> {
    let all: Vec<&'static Experiment> = experiments::all().collect();
    for pattern in patterns {
        if !all.iter().any(|e| fits(pattern, e.id)) {
            return Err(
                format!("no experiment {pattern:?}; `cargo xtask list` shows them all").into(),
            );
        }
    }
    let wanted = |e: &&Experiment| patterns.is_empty() || patterns.iter().any(|p| fits(p, e.id));
    Ok(all.into_iter().filter(wanted).collect())
}

/// Whether an id is meant by a pattern or by its crate, with or without `npb-`.
pub(crate) fn fits(name: &str, id: &str) -> bool {
    let name = name.strip_prefix("npb-").unwrap_or(name);
    matches(name, id) || id.split('/').next() == Some(name)
}

/// `*` stands for any characters, `?` for one.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let mut tails = text.char_indices().map(|(i, _)| i).chain([text.len()]);
            tails.any(|i| matches(rest.as_str(), &text[i..]))
        }
        Some(c) => {
            let mut others = text.chars();
            let fits = others.next().is_some_and(|o| c == '?' || c == o);
            fits && matches(rest.as_str(), others.as_str())
        }
    }
}

fn missing_data(experiment: &Experiment, sets: &[DataSet], folder: &DataFolder) -> Vec<String> {
    let there = |name: &str| sets.iter().any(|set| set.name == name && folder.has(set));
    let missing = experiment.data.iter().filter(|name| !there(name));
    missing.map(|name| (*name).to_owned()).collect()
}

/// The one command that gets the data of everything that was left out.
fn get_command(left_out: &[LeftOut]) -> Option<String> {
    let mut names: Vec<&str> = left_out
        .iter()
        .flat_map(|l| &l.missing)
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| format!("cargo xtask data get {}", names.join(" ")))
}

/// Name, checksum and standing of each data file that was read.
fn checksums(
    files: &[PathBuf],
    folder: &DataFolder,
    sets: &[DataSet],
) -> Result<Vec<(String, String, &'static str)>> {
    let mut rows = Vec::new();
    for path in files.iter().filter(|path| path.is_file()) {
        let sum = sha256_of(path)?;
        let known = sets
            .iter()
            .flat_map(|set| set.files.iter().map(move |file| (set, file)));
        let recorded = known
            .into_iter()
            .find(|(set, file)| folder.path(&set.name, &file.path) == *path);
        let standing = match recorded {
            Some((_, file)) if file.sha256 == sum => "as recorded",
            Some(_) => "differs from the recorded file",
            None => "no checksum recorded",
        };
        let name = path.strip_prefix(folder.root()).unwrap_or(path);
        rows.push((name.display().to_string(), sum, standing));
    }
    Ok(rows)
}

/// Writes `index.html` of sections under a title; facts about the machine are added to those given.
pub(crate) fn write_sections(
    title: &str,
    project: &Path,
    facts: &[(&'static str, String)],
    sections: &[Section],
    out: &Path,
) -> Result<()> {
    write_whole(title, project, facts, (sections, &[]), out)
}

fn write_whole(
    title: &str,
    project: &Path,
    facts: &[(&'static str, String)],
    (sections, left_out): (&[Section], &[LeftOut]),
    out: &Path,
) -> Result<()> {
    fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let facts = [facts.to_vec(), machine::facts(project)].concat();
    let command = get_command(left_out);
    let page = html::page(title, &facts, sections, left_out, command.as_deref());
    report::write_file(&out.join("index.html"), &page)
}

/// Calls `test` with a context at smoke scale, for tests of experiments.
#[cfg(test)]
pub(crate) fn with_context<T>(
    scratch: &crate::scratch::Scratch,
    data: &DataFolder,
    test: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let cache = cache::TrialCache::open(&scratch.path("trials.jsonl"), false).unwrap();
    test(&Context::new("test", Scale::Smoke, 1, data, &cache))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn patterns_match_whole_ids() {
        for (pattern, text, expected) in [
            ("iqgme/fig-3.5", "iqgme/fig-3.5", true),
            ("iqgme/*", "iqgme/fig-3.5", true),
            ("*3.?", "iqgme/fig-3.5", true),
            ("*", "iqgme/fig-3.5", true),
            ("iqgme", "iqgme/fig-3.5", false),
            ("iqgme/fig-3.", "iqgme/fig-3.5", false),
            ("*/fig-3.6", "iqgme/fig-3.5", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_crate_stands_for_all_of_it() {
        for (name, expected) in [
            ("iqgme", true),
            ("npb-iqgme", true),
            ("bsvd", false),
            ("iqg", false),
        ] {
            assert_eq!(fits(name, "iqgme/fig-3.5"), expected, "{name}");
        }
    }

    #[test]
    fn unknown_ids_are_refused() {
        let error = choose(&["nonsense/*".to_owned()])
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("nonsense") && error.contains("xtask list"),
            "{error}"
        );
    }

    #[test]
    fn ids_are_unique_and_name_known_data() {
        let sets = data::all().unwrap();
        let ids: Vec<&str> = experiments::all().map(|e| e.id).collect();
        for (index, experiment) in experiments::all().enumerate() {
            assert!(!ids[..index].contains(&experiment.id), "{}", experiment.id);
            for name in experiment.data {
                assert!(sets.iter().any(|set| set.name == *name), "{name}");
            }
        }
    }

    #[test]
    fn without_data_the_rest_is_left_out_with_one_command() {
        let scratch = Scratch::new("reproduce-nodata");
        let arguments = ReproduceArgs {
            ids: vec!["iqgme/fig-3.5".into(), "iqgme/fig-3.6".into()],
            scale: Some(Scale::Smoke),
            out: Some(scratch.path("out")),
            resume: false,
            data: Some(scratch.path("data")),
            seed: 1,
        };
        run(arguments, scratch.root()).unwrap();
        let page = fs::read_to_string(scratch.path("out/index.html")).unwrap();
        assert!(page.contains("cargo xtask data get ionosphere wdbc"));
    }
}
