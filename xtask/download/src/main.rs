//! Downloads data sets for this workspace; `cargo xtask data get` calls it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod download;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use npb_catalogue::data::{DataFolder, DataSet, State, named};
use npb_catalogue::{Result, root};

use download::Downloader;

/// Download data sets; for those that no address serves as stored, say where to get them and how to lay them out.
#[derive(Parser)]
struct Cli {
    /// Folder with one folder per data set [default: NPB_DATA_DIR, else target/data].
    #[arg(long)]
    data: Option<PathBuf>,
    /// Data sets; all of them by default.
    names: Vec<String>,
}

fn main() -> ExitCode {
    let Cli { data, names } = Cli::parse();
    let folder = DataFolder::resolve(data, &root());
    let failed = named(&names).and_then(|sets| get(&sets, &folder, !names.is_empty()));
    match failed {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
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

    use npb_catalogue::Scratch;
    use npb_catalogue::data::{DataFile, sha256_of_bytes};

    use super::download::tests::{Manner, Server};
    use super::*;

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

    fn state(sets: &[DataSet], folder: &DataFolder) -> State {
        folder.state(&sets[0], &sets[0].files[0]).unwrap()
    }

    #[test]
    fn a_served_set_is_fetched_once_and_verified() {
        let scratch = Scratch::new("command-get");
        let folder = folder(&scratch);
        let server = Server::start(CONTENT.to_vec(), Manner::Ranges);
        let sets = [set(Some(server.url.clone()))];
        assert!(!folder.has(&sets[0]));
        assert_eq!(state(&sets, &folder), State::Missing);
        assert_eq!(get(&sets, &folder, true).unwrap(), 0);
        assert!(folder.has(&sets[0]));
        assert_eq!(state(&sets, &folder), State::Intact);
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
        assert!(matches!(state(&sets, &folder), State::Altered(_)));
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
        // The official file serves as well.
        fs::create_dir_all(folder.path("small", "")).unwrap();
        fs::write(folder.path("small", "official.csv"), "x").unwrap();
        assert!(folder.has(&sets[0]));
        assert_eq!(get(&sets, &folder, true).unwrap(), 0);
    }
}
