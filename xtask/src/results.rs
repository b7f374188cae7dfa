//! `cargo xtask results`: what runs found is stored in `docs/results`; `docs/results.md` and marked numbers of other pages are made of it.

mod check;
mod markers;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use npb_catalogue::results::{Claims, FOLDER, Store, file_of};
use npb_catalogue::{Result, choose, write_file};

use crate::packages;
pub(crate) use markers::faults;
pub(crate) use page::{PAGE, page};

/// Arguments of `results`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ResultsArgs {
    /// Experiments by id, pattern or crate, for --store and --check [default: all of the run].
    ids: Vec<String>,
    /// First put what `reproduce` left in this folder into docs/results.
    #[arg(long, value_name = "RUN_FOLDER", conflicts_with = "check")]
    store: Option<PathBuf>,
    /// Compare what `reproduce` left in this folder with what is stored, name what moved, and change nothing.
    #[arg(long, value_name = "RUN_FOLDER")]
    check: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ResultsArgs, root: &Path) -> Result<ExitCode> {
    let claims = Claims::read(root)?;
    if let Some(folder) = &arguments.check {
        let (run, ids) = chosen(folder, &arguments.ids)?;
        let stored = Store::read(root)?;
        let moved = check::moved(&claims, &stored, &run, &ids);
        for line in &moved {
            println!("{line}");
        }
        println!("{} experiments compared, {} lines", ids.len(), moved.len());
        return Ok(packages::ended(moved.is_empty()));
    }
    if let Some(folder) = &arguments.store {
        let (run, ids) = chosen(folder, &arguments.ids)?;
        store(&claims, root, &run, &ids)?;
    }
    let store = Store::read(root)?;
    make(&claims, &store, root)
}

/// A run, and the ids in it that are asked for.
fn chosen(folder: &Path, names: &[String]) -> Result<(Store, Vec<String>)> {
    let run = Store::of_run(folder)?;
    let ids: Vec<&str> = run.experiments.keys().map(|id| &**id).collect();
    let hint = format!("the run has {}", ids.join(", "));
    let chosen = choose(names, &ids, "experiment", &hint)?;
    let chosen = chosen.into_iter().map(str::to_owned).collect();
    Ok((run, chosen))
}

/// Puts experiments of a run into the store. Numbers of a smaller scale than those that are there are left out.
fn store(claims: &Claims, root: &Path, run: &Store, ids: &[String]) -> Result<()> {
    let mut cells = claims.cells();
    for (path, text) in pages(root)? {
        cells.extend(markers::cells(&text).map_err(|e| format!("{path}: {e}"))?);
    }
    let before = Store::read(root)?;
    fs::create_dir_all(root.join(FOLDER))?;
    for id in ids {
        let Some(stored) = run.to_store(id, &cells) else {
            continue;
        };
        let scale = stored.fact("scale");
        let kept = before.experiments.get(id).map_or("", |s| s.fact("scale"));
        match (scale, kept) {
            ("", _) => {
                return Err(format!("{id}: nothing says how it was run; `cargo xtask reproduce {id} --resume` with the same --out does").into());
            }
            ("smoke", _) => println!("{id}: left out, smoke scale says nothing"),
            ("quick", "paper") => println!("{id}: left out, it is stored at paper scale"),
            _ => {
                write_file(&root.join(file_of(id)), &stored.text(id))?;
                println!("{id}: stored, {} rows at {scale} scale", stored.rows.len());
            }
        }
    }
    Ok(())
}

/// Writes the page of results, and marked numbers into other pages.
fn make(claims: &Claims, store: &Store, root: &Path) -> Result<ExitCode> {
    let packages = packages::all()?;
    let text = page(claims, store, &packages::experiments(&packages));
    write_file(&root.join(PAGE), &text)?;
    let mut failed = false;
    for (path, text) in pages(root)? {
        let (new, faults) = markers::rewritten(claims, store, &text);
        if new != text {
            write_file(&root.join(&path), &new)?;
            println!("{path}: numbers rewritten");
        }
        for fault in faults {
            failed = true;
            eprintln!("{path}:{}: {}", fault.line, fault.message);
        }
    }
    println!("{PAGE}: of {} experiments", store.experiments.len());
    Ok(packages::ended(!failed))
}

/// Pages that may have marked numbers, with their texts.
fn pages(root: &Path) -> Result<Vec<(String, String)>> {
    let tree = crate::tidy::tree(root)?;
    let pages = tree.texts().filter(|(path, _)| markers::is_page(path));
    Ok(pages.map(|(p, t)| (p.to_owned(), t.to_owned())).collect())
}
