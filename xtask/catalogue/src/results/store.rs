//! All results of a run, or those that are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::cells::Cell;
use super::rows::{ResultRow, Stored};
use crate::Result;

/// Where results are stored, below the project's root.
pub const FOLDER: &str = "docs/results";
/// Experiments of more rows are stored with those alone that something names.
const SMALL: usize = 400;

/// Numbers that others have measured or printed, with their source in the head.
const RECORDED: &str = "docs/results/recorded.csv";

/// Results by id of the experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store {
    /// Results by id of the experiment.
    pub experiments: BTreeMap<String, Stored>,
    /// Numbers of others that stand beside them, with the experiment.
    recorded: Vec<(String, ResultRow)>,
}

/// The file of an experiment in the store.
pub fn file_of(id: &str) -> String {
    format!("{FOLDER}/{}.csv", id.replacen('/', "-", 1))
}

impl Store {
    /// What is stored, from paths below the root and texts of files.
    ///
    /// # Errors
    /// A file that is damaged, or that has another name than its experiment asks for; it is named.
    pub fn from_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut store = Self::default();
        for (path, text) in files {
            let is_of_store = path.starts_with(FOLDER) && path.ends_with(".csv");
            if path == RECORDED {
                let read = Stored::with_ids(text).map_err(|e| format!("{path}: {e}"))?;
                store.recorded = read.1.into_iter().zip(read.0.rows).collect();
            } else if is_of_store {
                let stored = Stored::parse(text).map_err(|e| format!("{path}: {e}"))?;
                let id = stored.fact("experiment").to_owned();
                if file_of(&id) != path {
                    return Err(format!("{path}: holds the experiment {id:?}").into());
                }
                store.experiments.insert(id, stored);
            }
        }
        Ok(store)
    }

    /// What is stored in the project at `root`.
    ///
    /// # Errors
    /// A file that is damaged; it is named.
    pub fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        if let Ok(entries) = fs::read_dir(root.join(FOLDER)) {
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.ends_with(".csv") {
                    let text = fs::read_to_string(&path)?;
                    files.push((format!("{FOLDER}/{name}"), text));
                }
            }
        }
        Self::from_files(files.iter().map(|(path, text)| (&**path, &**text)))
    }

    /// What a run has left in its folder.
    ///
    /// # Errors
    /// There is no such folder, or a file in it is damaged.
    pub fn of_run(out: &Path) -> Result<Self> {
        let mut store = Self::default();
        for model in folders(out)? {
            for experiment in folders(&out.join(&model))? {
                let folder = out.join(&model).join(&experiment);
                let Ok(rows) = fs::read_to_string(folder.join("results.csv")) else {
                    continue;
                };
                let head = fs::read_to_string(folder.join("run.txt")).unwrap_or_default();
                let stored = Stored::parse(&(head + &rows));
                let stored = stored.map_err(|e| format!("{}: {e}", folder.display()))?;
                let id = format!("{model}/{experiment}");
                store.experiments.insert(id, stored);
            }
        }
        Ok(store)
    }

    /// The rows that a cell means.
    pub(crate) fn rows<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a ResultRow> {
        let stored = self.experiments.get(&cell.id);
        let rows = stored.map_or(&[][..], |stored| &stored.rows);
        let recorded = self.recorded.iter().filter(|(id, _)| *id == cell.id);
        let all = rows.iter().chain(recorded.map(|(_, row)| row));
        all.filter(|row| cell.means(row))
    }

    /// The number that a cell names, as it is written.
    ///
    /// # Errors
    /// Nothing or too much is named; in words.
    pub fn number(&self, cell: &Cell) -> std::result::Result<String, String> {
        if !self.experiments.contains_key(&cell.id) {
            return Err(format!("no run of {} is stored", cell.id));
        }
        cell.text(self.rows(cell).cloned().collect())
    }

    /// What is to be stored of an experiment: numbers of six digits, and of many rows those that any of the cells means.
    pub fn to_store(&self, id: &str, cells: &[Cell]) -> Option<Stored> {
        let run = self.experiments.get(id)?;
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.id == id).collect();
        let named = |row: &&ResultRow| cells.iter().any(|cell| cell.means(row));
        let is_small = run.rows.len() <= SMALL;
        let rows = run.rows.iter().filter(|row| is_small || named(row));
        let rows: Vec<ResultRow> = rows.map(ResultRow::rounded).collect();
        let mut head = run.head.clone();
        if rows.len() < run.rows.len() {
            let kept = format!("{} of {}, those that are named", rows.len(), run.rows.len());
            head.push(("rows".to_owned(), kept));
        }
        Some(Stored { head, rows })
    }
}

/// Names of the folders in a folder, sorted.
fn folders(path: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn a_run_is_stored_and_read_again() {
        let scratch = Scratch::new("store-again");
        let folder = scratch.path("a/b");
        fs::create_dir_all(&folder).unwrap();
        let mut rows: Vec<ResultRow> = (0..=SMALL)
            .map(|i| ResultRow::single(["d", &format!("k={i}"), "m", "auc"], 1.0 / 3.0))
            .collect();
        let write = |rows: &[ResultRow]| {
            fs::write(folder.join("run.txt"), "# experiment: a/b\n# seed: 1\n").unwrap();
            fs::write(
                folder.join("results.csv"),
                super::super::rows_text("a/b", rows),
            )
            .unwrap();
            Store::of_run(scratch.root()).unwrap()
        };
        let cells = [Cell::parse("a/b d k=7 m auc mean .3").unwrap()];
        let stored = write(&rows).to_store("a/b", &cells).unwrap();
        assert_eq!((stored.rows.len(), stored.rows[0].mean), (1, 0.333333));
        assert_eq!(stored.fact("rows"), "1 of 401, those that are named");
        rows.pop();
        let stored = write(&rows).to_store("a/b", &cells).unwrap();
        assert_eq!((stored.rows.len(), stored.fact("rows")), (SMALL, ""));
        let text = stored.text("a/b");
        let again = Store::from_files([("docs/results/a-b.csv", &*text), ("x.md", "")]).unwrap();
        assert_eq!(again.experiments["a/b"], stored);
        let error = Store::from_files([("docs/results/c.csv", &*text)]).unwrap_err();
        assert!(error.to_string().contains("\"a/b\""), "{error}");
    }
}
