//! Data sets: what there is, where it comes from, and whether what a folder holds is what the figures were made with.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::Result;

/// One data set: a folder of files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSet {
    /// Name, and that of its folder.
    pub name: String,
    /// What it is and how large.
    pub what: String,
    /// Page that describes it and offers it.
    pub page: String,
    /// Terms of use.
    pub terms: String,
    /// How to lay out what the page offers.
    pub layout: String,
    /// Its files.
    #[serde(rename = "file")]
    pub files: Vec<DataFile>,
}

/// One file of a data set, as stored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    /// Path in the set's folder.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// Address that serves exactly these bytes.
    pub url: Option<String>,
    /// No experiment needs it.
    #[serde(default)]
    pub optional: bool,
    /// Official file that the readers accept in its place.
    pub instead: Option<String>,
}

/// A file as it was found.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// The recorded bytes.
    Intact,
    /// Other bytes; their checksum.
    Altered(String),
    /// Not there, but the official file is.
    Official,
    /// Not there.
    Missing,
}

/// All data sets, by name.
pub fn all() -> Result<Vec<DataSet>> {
    #[derive(Deserialize)]
    struct Sets {
        set: Vec<DataSet>,
    }
    let sets: Sets = toml::from_str(include_str!("data/sets.toml"))?;
    Ok(sets.set)
}

/// The data sets of these names; all of them when no name is given.
pub fn named(names: &[String]) -> Result<Vec<DataSet>> {
    let sets = all()?;
    if let Some(unknown) = names.iter().find(|n| sets.iter().all(|s| s.name != **n)) {
        let known: Vec<&str> = sets.iter().map(|s| s.name.as_str()).collect();
        return Err(format!("no data set {unknown:?}; there are {}", known.join(", ")).into());
    }
    let wanted = |set: &DataSet| names.is_empty() || names.contains(&set.name);
    Ok(sets.into_iter().filter(wanted).collect())
}

impl DataSet {
    /// Files that experiments read.
    pub fn needed(&self) -> impl Iterator<Item = &DataFile> {
        self.files.iter().filter(|file| !file.optional)
    }
}

/// A folder with one folder per data set.
#[derive(Clone, Debug)]
pub struct DataFolder {
    root: PathBuf,
}

impl DataFolder {
    /// The folder given on the command line, else `NPB_DATA_DIR`, else `target/data` of the project.
    pub fn resolve(given: Option<PathBuf>, project: &Path) -> Self {
        let from_environment = || std::env::var_os("NPB_DATA_DIR").map(PathBuf::from);
        let root = given
            .or_else(from_environment)
            .unwrap_or_else(|| project.join("target").join("data"));
        Self { root }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a file of a set is or would be.
    pub fn path(&self, set: &str, file: &str) -> PathBuf {
        self.root.join(set).join(file)
    }

    /// Every needed file, or its official form, is there (its bytes are not read).
    pub fn has(&self, set: &DataSet) -> bool {
        set.needed().all(|file| {
            let official = file.instead.iter();
            let forms = std::iter::once(&file.path).chain(official);
            forms.into_iter().any(|f| self.path(&set.name, f).is_file())
        })
    }

    /// The sets of these names that are not there.
    pub fn missing(&self, names: &[impl AsRef<str>], sets: &[DataSet]) -> Vec<String> {
        let there = |name: &str| sets.iter().any(|set| set.name == name && self.has(set));
        let names = names.iter().map(AsRef::as_ref);
        names.filter(|n| !there(n)).map(str::to_owned).collect()
    }

    /// Compares a file with what is recorded.
    pub fn state(&self, set: &DataSet, file: &DataFile) -> Result<State> {
        let path = self.path(&set.name, &file.path);
        if path.is_file() {
            let found = sha256_of(&path)?;
            let intact = found == file.sha256;
            return Ok(if intact {
                State::Intact
            } else {
                State::Altered(found)
            });
        }
        let official = file.instead.as_ref().map(|f| self.path(&set.name, f));
        let there = official.is_some_and(|path| path.is_file());
        Ok(if there {
            State::Official
        } else {
            State::Missing
        })
    }
}

/// The one command that gets these sets; none when there is nothing to get.
pub fn get_command<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| format!("cargo xtask data get {}", names.join(" ")))
}

/// SHA-256 of a file, in hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String> {
    let named = |e: io::Error| format!("{}: {e}", path.display());
    let mut file = File::open(path).map_err(named)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer).map_err(named)?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256_of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_list_is_complete_and_consistent() {
        let sets = all().unwrap();
        assert!(sets.len() >= 28);
        for set in &sets {
            assert!(
                set.needed().next().is_some(),
                "{}: nothing is needed",
                set.name
            );
            assert!(set.page.starts_with("http"), "{}", set.name);
            assert!(
                !set.layout.is_empty() && !set.terms.is_empty(),
                "{}",
                set.name
            );
            for file in &set.files {
                assert_eq!(file.sha256.len(), 64, "{}/{}", set.name, file.path);
                assert!(file.sha256.bytes().all(|b| b.is_ascii_hexdigit()));
                assert!(file.bytes > 0);
                let climbs = file.path.split('/').any(|part| part == "..");
                assert!(!climbs && !file.path.starts_with('/'), "{}", file.path);
                assert!(file.url.iter().all(|url| url.starts_with("https://")));
                assert!(
                    file.url.is_none() || !file.optional,
                    "{} is never downloaded",
                    file.path
                );
            }
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let error = named(&["wdbc".to_owned(), "wdcb".to_owned()]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("\"wdcb\"") && text.contains("ionosphere"),
            "{text}"
        );
        assert_eq!(named(&["wdbc".to_owned()]).unwrap().len(), 1);
    }

    #[test]
    fn checksums_are_those_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of_bytes(b"abc"), abc);
    }

    #[test]
    fn the_data_at_hand_is_what_was_recorded() {
        let Some(root) = std::env::var_os("NPB_DATA_DIR") else {
            let message = "NPB_DATA_DIR is not set: recorded checksums were not compared with data";
            // Not captured, unlike the printing macros.
            let mut stderr = io::stderr();
            writeln!(stderr, "{message}").unwrap();
            return;
        };
        let folder = DataFolder { root: root.into() };
        let mut compared = 0;
        for set in all().unwrap() {
            for file in &set.files {
                match folder.state(&set, file).unwrap() {
                    State::Intact => compared += 1,
                    State::Altered(found) => panic!("{}/{}: {found}", set.name, file.path),
                    State::Official | State::Missing => {}
                }
            }
        }
        assert!(compared > 0, "{}: no data set there", folder.root.display());
    }
}
