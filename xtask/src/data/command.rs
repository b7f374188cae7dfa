//! `cargo xtask data list | verify | get`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};

use super::download::Downloader;
use super::{DataFolder, DataSet, State, named};
use crate::Result;

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
        Action::Get { names } => get(&named(names)?, folder, !names.is_empty())?,
    };
    Ok(if troubles == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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

/// Number of downloads that failed and of sets that were asked for and have to be completed by hand.
fn get(sets: &[DataSet], folder: &DataFolder, asked: bool) -> Result<usize> {
    let downloader = Downloader::new(Duration::from_secs(2));
    let mut failed = 0;
    for set in sets {
        let mut by_hand = Vec::new();
        for file in set.needed() {
            match folder.state(set, file)? {
                State::Intact | State::Official => continue,
                State::Altered(_) => {
                    let place = folder.path(&set.name, &file.path);
                    println!(
                        "{}: kept as it is, though altered; remove it to get it again",
                        place.display()
                    );
                    continue;
                }
                State::Missing => {}
            }
            let Some(url) = &file.url else {
                by_hand.push(file.path.as_str());
                continue;
            };
            let bar = bar(file.bytes, &format!("{}/{}", set.name, file.path));
            let to = folder.path(&set.name, &file.path);
            let outcome = downloader.fetch(url, file, &to, &|bytes| bar.set_position(bytes));
            bar.finish_and_clear();
            match outcome {
                Ok(()) => println!("{}: {} ({} bytes)", set.name, to.display(), file.bytes),
                Err(error) => {
                    failed += 1;
                    eprintln!("{}: {error}", set.name);
                    eprintln!("  or save what {} offers as {}", set.page, to.display());
                }
            }
        }
        if by_hand.is_empty() && folder.has(set) {
            println!("{}: complete; terms: {}", set.name, set.terms);
        }
        if !by_hand.is_empty() {
            failed += usize::from(asked);
            explain(set, &by_hand, folder);
        }
    }
    Ok(failed)
}

/// What to do by hand.
fn explain(set: &DataSet, files: &[&str], folder: &DataFolder) {
    println!("{}: no address serves it as stored", set.name);
    println!("  page    {}", set.page);
    println!("  terms   {}", set.terms);
    println!("  folder  {}", folder.root().join(&set.name).display());
    println!("  files   {}", files.join(", "));
    println!("  layout  {}", set.layout);
}

fn bar(bytes: u64, name: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes}");
    // Hidden by itself when standard error is not a terminal.
    let bar = ProgressBar::new(bytes).with_message(name.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::download::tests::{Manner, Server};
    use super::super::{DataFile, sha256_of_bytes};
    use super::*;
    use crate::scratch::Scratch;

    const CONTENT: &[u8] = b"1,2\n3,4\n";

    /// A set of one file that is served, or not.
    fn set(url: Option<String>) -> DataSet {
        DataSet {
            name: "small".into(),
            what: String::new(),
            page: "http://page".into(),
            terms: String::new(),
            layout: String::new(),
            files: vec![DataFile {
                path: "a/small.csv".into(),
                bytes: CONTENT.len() as u64,
                sha256: sha256_of_bytes(CONTENT),
                url,
                optional: false,
                instead: Some("official.csv".into()),
            }],
        }
    }

    fn folder(scratch: &Scratch) -> DataFolder {
        DataFolder::resolve(Some(scratch.root().to_owned()), scratch.root())
    }

    #[test]
    fn a_served_set_is_fetched_once_and_verified() {
        let scratch = Scratch::new("command-get");
        let folder = folder(&scratch);
        let server = Server::start(CONTENT.to_vec(), Manner::Ranges);
        let sets = [set(Some(server.url.clone()))];
        assert!(!folder.has(&sets[0]));
        assert_eq!(verify(&sets, &folder, true).unwrap(), 1);
        assert_eq!(get(&sets, &folder, true).unwrap(), 0);
        assert!(folder.has(&sets[0]));
        assert_eq!(verify(&sets, &folder, true).unwrap(), 0);
        assert_eq!(get(&sets, &folder, true).unwrap(), 0);
        assert_eq!(server.ranges().len(), 1);
    }

    #[test]
    fn an_altered_file_is_reported_and_never_overwritten() {
        let scratch = Scratch::new("command-altered");
        let folder = folder(&scratch);
        let server = Server::start(CONTENT.to_vec(), Manner::Ranges);
        let sets = [set(Some(server.url.clone()))];
        get(&sets, &folder, true).unwrap();
        let path = folder.path("small", "a/small.csv");
        fs::write(&path, "mine").unwrap();
        assert_eq!(verify(&sets, &folder, false).unwrap(), 1);
        get(&sets, &folder, true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn what_no_address_serves_is_left_to_the_reader() {
        let scratch = Scratch::new("command-by-hand");
        let folder = folder(&scratch);
        let sets = [set(None)];
        assert_eq!(get(&sets, &folder, true).unwrap(), 1);
        assert_eq!(get(&sets, &folder, false).unwrap(), 0);
        assert_eq!(verify(&sets, &folder, false).unwrap(), 0);
        // The official file serves as well.
        fs::create_dir_all(folder.path("small", "")).unwrap();
        fs::write(folder.path("small", "official.csv"), "x").unwrap();
        assert!(folder.has(&sets[0]));
        assert_eq!(get(&sets, &folder, true).unwrap(), 0);
    }

    #[test]
    fn every_way_to_a_set_occurs() {
        let ways: Vec<&str> = named(&[]).unwrap().iter().map(way).collect();
        for expected in ["get", "page", "both"] {
            assert!(ways.contains(&expected), "{expected}");
        }
    }
}
