//! `cargo xtask data list | verify | get`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use npb_catalogue::Result;
use npb_catalogue::data::{DataFolder, DataSet, State, named};

use crate::packages;

#[derive(Subcommand)]
pub(crate) enum Action {
    /// List the data sets and say which are there.
    List,
    /// Compare the files that are there with the recorded checksums.
    Verify {
        /// Data sets; all of them by default.
        names: Vec<String>,
    },
    /// Download data sets; for those that no address serves as stored, say where to get them and how to lay them out.
    Get {
        /// Data sets; all of them by default.
        names: Vec<String>,
    },
}

pub(crate) fn run(action: &Action, folder: &DataFolder) -> Result<ExitCode> {
    let troubles = match action {
        Action::List => list(folder)?,
        Action::Verify { names } => verify(&named(names)?, folder, !names.is_empty())?,
        Action::Get { names } => return get(names, folder),
    };
    Ok(packages::ended(troubles == 0))
}

fn list(folder: &DataFolder) -> Result<usize> {
    println!("data sets in {}\n", folder.root().display());
    println!(
        "{:<16} {:<8} {:>8}  {:<8} what",
        "name", "state", "MB", "by"
    );
    for set in named(&[])? {
        let state = if folder.has(&set) { "there" } else { "-" };
        let bytes: u64 = set.needed().map(|f| f.bytes).sum();
        println!(
            "{:<16} {state:<8} {:>8.2}  {:<8} {}",
            set.name,
            bytes as f64 / 1e6,
            way(&set),
            set.what
        );
    }
    println!(
        "\nby: `get` downloads it; `page` means `get` says where and how; `both` means a part is downloaded"
    );
    Ok(0)
}

/// How a set is obtained.
fn way(set: &DataSet) -> &'static str {
    let served = set.needed().filter(|f| f.url.is_some()).count();
    match served {
        0 => "page",
        n if n == set.needed().count() => "get",
        _ => "both",
    }
}

/// Number of files that are altered or, in a set that was asked for, missing.
fn verify(sets: &[DataSet], folder: &DataFolder, asked: bool) -> Result<usize> {
    let (mut intact, mut broken) = (0, 0);
    for set in sets {
        for file in &set.files {
            let place = format!("{}/{}", set.name, file.path);
            match folder.state(set, file)? {
                State::Intact => intact += 1,
                State::Altered(found) => {
                    broken += 1;
                    println!(
                        "{place}: altered: sha256 {found}, recorded is {}",
                        file.sha256
                    );
                }
                State::Official => {
                    println!("{place}: the official file is there instead; no checksum recorded")
                }
                State::Missing if asked && !file.optional => {
                    broken += 1;
                    println!("{place}: missing");
                }
                State::Missing => {}
            }
        }
        if !asked && !folder.has(set) {
            println!("{}: not there", set.name);
        }
    }
    println!(
        "{intact} files intact, {broken} altered or missing, in {}",
        folder.root().display()
    );
    Ok(broken)
}

/// Has data sets downloaded by a program of its own, so that only who asks for them builds what speaks HTTP.
fn get(names: &[String], folder: &DataFolder) -> Result<ExitCode> {
    named(names)?;
    let mut arguments: Vec<OsString> = vec!["--data".into(), folder.root().into()];
    arguments.extend(names.iter().map(OsString::from));
    packages::run("npb-download", &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_a_set_occurs() {
        let ways: Vec<&str> = named(&[]).unwrap().iter().map(way).collect();
        for expected in ["get", "page", "both"] {
            assert!(ways.contains(&expected), "{expected}");
        }
    }
}
