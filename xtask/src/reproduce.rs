//! `cargo xtask list` and `cargo xtask reproduce`: which experiments there are, and which package runs them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use npb_catalogue::data::{self, DataFolder, DataSet};
use npb_catalogue::{Entry, LeftOut, Page, ReproduceArgs, Result, Scale, choose, root};

use crate::packages::{self, Package};
use crate::tour;

/// Prints every experiment, its data, and whether that data is there.
pub(crate) fn list(folder: &DataFolder) -> Result<()> {
    let sets = data::all()?;
    println!("{:<18} {:<26} {:<6} what", "id", "data", "ready");
    for entry in packages::experiments(&packages::all()?) {
        let data = if entry.data.is_empty() {
            "generated".to_owned()
        } else {
            entry.data.join(", ")
        };
        let ready = if folder.missing(&entry.data, &sets).is_empty() {
            "yes"
        } else {
            "no"
        };
        println!("{:<18} {data:<26} {ready:<6} {}", entry.id, entry.what);
    }
    println!("\ndata folder: {}", folder.root().display());
    Ok(())
}

/// Runs experiments and writes the report; fails when an experiment does.
pub(crate) fn run(arguments: ReproduceArgs) -> Result<ExitCode> {
    let run = Run {
        sets: data::all()?,
        folder: DataFolder::resolve(arguments.data, &root()),
        out: match arguments.out {
            Some(out) => out,
            None => root().join("target").join("reproduce"),
        },
        seed: arguments.seed,
        resume: arguments.resume,
    };
    let mut packages = packages::all()?;
    if arguments.ids.is_empty() && arguments.scale.is_none() {
        return run.tour(&mut packages);
    }
    run.chosen(
        &arguments.ids,
        arguments.scale.unwrap_or(Scale::Quick),
        &mut packages,
    )
}

/// One call of `reproduce`.
struct Run {
    sets: Vec<DataSet>,
    folder: DataFolder,
    out: PathBuf,
    seed: u64,
    resume: bool,
}

impl Run {
    /// One or two experiments of each model, in minutes.
    fn tour(&self, packages: &mut [Package]) -> Result<ExitCode> {
        let page = Page::reproduced("a tour", self.seed, Vec::new());
        page.write(&self.out)?;
        let (mut seconds, mut failed) = (0.0, false);
        for (number, stage) in tour::TOUR.iter().enumerate() {
            let of_stage = |p: &&mut Package| p.has_experiment(stage.id);
            let package = packages.iter_mut().find(of_stage);
            let package = package.ok_or_else(|| format!("{} is not an experiment", stage.id))?;
            println!(
                "\n{} of {}, about {} left when all is built. {}",
                number + 1,
                tour::TOUR.len(),
                in_minutes(tour::remaining(number, seconds)),
                stage.shows
            );
            package.build()?;
            let mut arguments = self.arguments(&[stage.id], stage.scale);
            arguments.extend(["--shows".into(), stage.shows.into()]);
            let clock = Instant::now();
            failed |= !package.call(&arguments)?;
            seconds += clock.elapsed().as_secs_f64();
            if number == 0 {
                println!("to be seen in {}", self.out.join("index.html").display());
            }
        }
        println!("report: {}", self.out.join("index.html").display());
        println!(
            "\nThere is more: `cargo xtask list` shows every table and figure of the papers, `cargo xtask reproduce ID` runs one,\n\
             `--scale smoke` all of them in seconds each, `--scale quick` in up to 20 minutes each, `--scale paper` with the papers' numbers of trials."
        );
        let missing: Vec<String> = packages::experiments(packages)
            .into_iter()
            .flat_map(|entry| self.missing(entry))
            .collect();
        if let Some(command) = data::get_command(missing.iter()) {
            println!("to get the data that most of them need: {command}");
        }
        Ok(packages::ended(!failed))
    }

    fn chosen(&self, names: &[String], scale: Scale, packages: &mut [Package]) -> Result<ExitCode> {
        let all = packages::experiments(packages);
        let ids: Vec<&str> = all.iter().map(|entry| &*entry.id).collect();
        let hint = "`cargo xtask list` shows them all";
        let chosen = choose(names, &ids, "experiment", hint)?;
        let (mut ready, mut left_out) = (Vec::new(), Vec::new());
        for entry in all.iter().filter(|entry| chosen.contains(&&*entry.id)) {
            let missing = self.missing(entry);
            let id = entry.id.clone();
            match missing.is_empty() {
                true => ready.push(id),
                false => left_out.push(LeftOut { id, missing }),
            }
        }
        let mut page = Page::reproduced(scale.name(), self.seed, left_out);
        if self.resume {
            page = page.going_on(&self.out);
        }
        page.write(&self.out)?;
        let mut failed = false;
        for package in packages {
            let of_package = |id: &&str| package.has_experiment(id);
            let ids: Vec<&str> = ready.iter().map(|id| &**id).filter(of_package).collect();
            if !ids.is_empty() {
                failed |= !package.call(&self.arguments(&ids, scale))?;
            }
        }
        page.say(&self.out);
        Ok(packages::ended(!failed))
    }

    fn missing(&self, entry: &Entry) -> Vec<String> {
        self.folder.missing(&entry.data, &self.sets)
    }

    /// What a package is called with.
    fn arguments(&self, ids: &[&str], scale: Scale) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["reproduce".into()];
        arguments.extend(ids.iter().map(OsString::from));
        let mut option = |name: &str, value: &Path| {
            arguments.extend([name.into(), value.as_os_str().to_owned()]);
        };
        option("--scale", Path::new(scale.name()));
        option("--seed", Path::new(&self.seed.to_string()));
        option("--out", &self.out);
        option("--data", self.folder.root());
        if self.resume {
            arguments.push("--resume".into());
        }
        arguments.push("--join".into());
        arguments
    }
}

fn in_minutes(seconds: f64) -> String {
    match seconds < 90.0 {
        true => format!("{seconds:.0} s"),
        false => format!("{:.0} minutes", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use npb_catalogue::Scratch;

    use super::*;

    fn arguments(scratch: &Scratch, ids: &[&str]) -> ReproduceArgs {
        ReproduceArgs {
            ids: ids.iter().map(|&id| id.to_owned()).collect(),
            scale: Some(Scale::Smoke),
            out: Some(scratch.path("out")),
            resume: false,
            data: Some(scratch.path("data")),
            seed: 1,
        }
    }

    #[test]
    fn unknown_ids_are_refused_before_anything_is_built() {
        let scratch = Scratch::new("reproduce-unknown");
        let error = run(arguments(&scratch, &["nonsense/*"])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("nonsense") && text.contains("xtask list"),
            "{text}"
        );
        assert!(!scratch.path("out").exists());
    }

    #[test]
    fn without_data_the_rest_is_left_out_with_one_command() {
        let scratch = Scratch::new("reproduce-nodata");
        run(arguments(&scratch, &["iqgme/fig-3.5", "iqgme/fig-3.6"])).unwrap();
        let page = fs::read_to_string(scratch.path("out/index.html")).unwrap();
        assert!(page.contains("cargo xtask data get ionosphere wdbc"));
    }
}
