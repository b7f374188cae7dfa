//! Numbers of pages are those of the store, and the page of results is what the command makes.

use npb_catalogue::results::{CLAIMS, Claims, Store, fill};
use npb_catalogue::{Entry, Listed, Result};

use super::project::{Project, Violation};
use super::tree::Tree;
use crate::packages;
use crate::results::{PAGE, faults, page};

/// Claims name what is stored, `docs/results.md` is what the store makes of it, and so is each marked number of another page.
pub(super) fn results_are_those_stored(project: &Project) -> Vec<Violation> {
    let tree = &project.tree;
    let Some(text) = tree.text(CLAIMS) else {
        return Vec::new();
    };
    let (claims, store, entries) = match read(tree, text) {
        Ok(read) => read,
        Err(reason) => return vec![Violation::new(CLAIMS, 1, reason.to_string())],
    };
    let mut broken = of_claims(text, &claims, &store, &entries);
    let entries: Vec<&Entry> = entries.iter().collect();
    let made = page(&claims, &store, &entries);
    let there = tree.text(PAGE).unwrap_or_default();
    if made != there {
        let same = made.lines().zip(there.lines()).take_while(|(a, b)| a == b);
        let message = "this is not what the store makes of it; `cargo xtask results` does";
        broken.push(Violation::new(PAGE, same.count() + 1, message.to_owned()));
    }
    for (path, text) in tree.texts() {
        if path.ends_with(".md") && path != PAGE {
            let faults = faults(&claims, &store, text).into_iter();
            broken.extend(faults.map(|f| Violation::new(path, f.line, f.message)));
        }
    }
    broken
}

fn read(tree: &Tree, text: &str) -> Result<(Claims, Store, Vec<Entry>)> {
    let mut entries = Vec::new();
    for path in packages::lists() {
        let listed = tree.text(&path).map(Listed::parse).transpose();
        let listed = listed.map_err(|e| format!("{path}: {e}"))?;
        entries.extend(listed.unwrap_or_default().experiments);
    }
    Ok((
        Claims::parse(text)?,
        Store::from_files(tree.texts())?,
        entries,
    ))
}

/// Every experiment has a claim or a question, every claim an experiment, and the numbers in its sentence are stored if it is.
fn of_claims(text: &str, claims: &Claims, store: &Store, entries: &[Entry]) -> Vec<Violation> {
    let line_of = |id: &str| {
        let name = format!("\"{id}\"");
        let at = text.lines().position(|line| line.contains(&name));
        at.map_or(1, |index| index + 1)
    };
    let violation = |id: &str, message: String| Violation::new(CLAIMS, line_of(id), message);
    let mut broken = Vec::new();
    let of_jobs = claims.jobs.iter().flat_map(|job| &job.rows);
    let named = claims.claims.iter().map(|claim| &claim.id);
    for id in named.chain(of_jobs.map(|rows| &rows.id)) {
        if !entries.iter().any(|entry| entry.id == *id) {
            broken.push(violation(id, format!("{id} is no experiment")));
        }
    }
    for entry in entries {
        if claims.of(&entry.id).next().is_none() {
            broken.push(violation(
                &entry.id,
                format!("nothing is asked of {}", entry.id),
            ));
        }
    }
    for claim in &claims.claims {
        if store.experiments.contains_key(&claim.id) {
            let missing = fill(claim, store).err();
            broken.extend(missing.map(|reason| violation(&claim.id, reason.to_string())));
        }
    }
    broken
}
