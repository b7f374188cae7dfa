//! Which faults go behind the switch together, and which are planted one at a time.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::list::Fault;
use super::suite::Program;
use super::switch::{Edit, MODULE, Source, Switched};
use super::tree::{Complaint, Tree};
use crate::tidy::tokens::tokens;
use npb_catalogue::Result;

/// A file that has faults.
struct File {
    text: String,
    faults: BTreeMap<u32, Vec<Edit>>,
}

/// The faults of a run.
pub(super) struct Plan {
    /// By their paths from the project's root.
    files: BTreeMap<String, File>,
    /// Those that are not behind the switch, and why.
    pub(super) alone: BTreeMap<u32, Alone>,
}

/// Why a fault is not behind the switch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// Where it stands there can be none.
    Place(&'static str),
    /// The compiler does not take it there: what it says.
    Refused(String),
}

impl std::fmt::Display for Alone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Place(why) => f.write_str(why),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl Plan {
    pub(super) fn new(faults: &[Fault], project: &Path) -> Result<Self> {
        let mut plan = Self {
            files: BTreeMap::new(),
            alone: BTreeMap::new(),
        };
        for fault in faults {
            let file = match plan.files.entry(fault.file.clone()) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(place) => place.insert(File {
                    text: fs::read_to_string(project.join(&fault.file))?,
                    faults: BTreeMap::new(),
                }),
            };
            let edit = fault.edit(&file.text)?;
            let elsewhere = |name: &str| is_named_elsewhere(name, &fault.file, project);
            match Source::new(&file.text).edits(edit, elsewhere) {
                Ok(edits) => drop(file.faults.insert(fault.id, edits)),
                Err(why) => drop(plan.alone.insert(fault.id, Alone::Place(why))),
            }
        }
        Ok(plan)
    }

    /// Builds the tests of crates with the switch. Faults of which the compiler complains are taken out until it does not.
    pub(super) fn build(&mut self, tree: &Tree, crates: &[&str]) -> Result<Vec<Program>> {
        loop {
            let switched = self.write(tree)?;
            let complaints = match tree.build(crates)? {
                Ok(programs) => return Ok(programs),
                Err(complaints) => complaints,
            };
            let refused = refused(&complaints, &switched);
            if refused.is_empty() {
                let texts: Vec<&str> = complaints.iter().map(|c| &c.text[..]).collect();
                return Err(format!("does not compile\n{}", texts.join("\n")).into());
            }
            for (id, text) in refused {
                let files = self.files.values_mut();
                files.for_each(|file| drop(file.faults.remove(&id)));
                self.alone.insert(id, Alone::Refused(text));
            }
        }
    }

    /// Writes the files with their switches, and those that have the switch itself.
    fn write(&self, tree: &Tree) -> Result<BTreeMap<&str, Switched>> {
        let mut switched = BTreeMap::new();
        let mut crates = BTreeSet::new();
        for (path, file) in &self.files {
            switched.insert(&path[..], Source::new(&file.text).switched(&file.faults));
            if !file.faults.is_empty() {
                crates.insert(path.split_inclusive("/src/").next().unwrap_or_default());
            }
        }
        for (path, file) in &switched {
            tree.write(path, &file.text)?;
        }
        for folder in crates {
            let lib = format!("{folder}lib.rs");
            let text = match switched.get(&lib[..]) {
                Some(file) => file.text.clone(),
                None => tree.original(&lib)?,
            };
            tree.write(&lib, &(text + MODULE))?;
        }
        Ok(switched)
    }
}

/// The faults that the complaints are about, with what they say.
fn refused(complaints: &[Complaint], switched: &BTreeMap<&str, Switched>) -> BTreeMap<u32, String> {
    let mut refused = BTreeMap::new();
    for complaint in complaints {
        let blamed = |(file, at): &(String, std::ops::Range<usize>)| {
            let ids = switched.get(&file[..])?.blamed(at);
            (!ids.is_empty()).then_some(ids)
        };
        for id in complaint.places.iter().find_map(blamed).unwrap_or_default() {
            let text = || complaint.text.clone();
            refused.entry(id).or_insert_with(text);
        }
    }
    refused
}

/// Whether another file of the crate has a name.
fn is_named_elsewhere(name: &str, file: &str, project: &Path) -> bool {
    let Some((krate, _)) = file.split_once("/src/") else {
        return true;
    };
    let mut folders = vec![project.join(krate)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs")
                && path != project.join(file)
                && let Ok(text) = fs::read_to_string(path)
                && tokens(&text).iter().any(|token| token.text == name)
            {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::suite;
    use super::*;
    use npb_catalogue::Scratch;

    fn fault(id: u32, before: &str, after: &str) -> Fault {
        Fault {
            id,
            krate: "npb-a".to_owned(),
            file: "crates/npb-a/src/lib.rs".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            ..Fault::default()
        }
    }

    const LIB: &str = "//! A.\nconst OWN: u32 = 3;\npub(crate) const SHARED: u32 = 4;\nmod b;\n\
        pub fn f() -> u32 { OWN + 1 }\npub fn g() -> Vec<u32> { b::h().collect() }\n\
        #[cfg(test)] mod tests { #[test] fn f() { assert_eq!(crate::f(), 4) } #[test] fn g() { assert_eq!(crate::g().len(), 4) } }\n";
    const B: &str =
        "use crate::SHARED;\npub(crate) fn h() -> impl Iterator<Item = u32> { 0..SHARED }\n";

    #[test]
    fn a_crate_is_built_once_and_its_tests_see_what_is_planted() {
        let scratch = Scratch::new("mutants-plan");
        let write = |path: &str, text: &str| {
            let path = scratch.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let package = "[package]\nname = \"npb-a\"\nedition = \"2024\"\n";
        write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n",
        );
        write("crates/npb-a/Cargo.toml", package);
        write("crates/npb-a/src/lib.rs", LIB);
        write("crates/npb-a/src/b.rs", B);
        let faults = [
            fault(1, "OWN + 1", "OWN + 2"),
            fault(2, "OWN + 1", "OWN + 1 + 0"),
            fault(3, "OWN: u32 = 3", "OWN: u32 = 2"),
            fault(4, "SHARED: u32 = 4", "SHARED: u32 = 5"),
            fault(5, "OWN + 1", "OWN + \"1\""),
            fault(6, "b::h().collect()", "Vec::new()"),
        ];
        let tree = Tree::copy(scratch.root()).unwrap();
        let mut plan = Plan::new(&faults, scratch.root()).unwrap();
        let programs = plan.build(&tree, &["npb-a"]).unwrap();
        let alone: Vec<u32> = plan.alone.keys().copied().collect();
        assert_eq!(alone, [4, 5], "{:?}", plan.alone);
        let place = Alone::Place("a constant that other files use");
        assert_eq!(plan.alone[&4], place);
        let suite = suite::Suite::timed(programs, tree.scratch()).unwrap();
        assert_eq!(suite.n_tests(), 2);
        let seen = |id: u32| -> Vec<String> {
            let tests = suite.concerned(id, "npb-a", &[]).into_iter();
            let fails = |test: &&suite::Test| suite.with(id, test).unwrap() != suite::Ended::Passed;
            tests.filter(fails).map(|test| test.name.clone()).collect()
        };
        assert_eq!(suite.concerned(1, "npb-a", &[]).len(), 1);
        assert_eq!(seen(1), ["tests::f"]);
        assert!(seen(2).is_empty());
        assert_eq!(seen(3), ["tests::f"]);
        assert_eq!(seen(6), ["tests::g"]);
        tree.restore().unwrap();
        let built = |fault| tree.with(fault, || tree.build(&["npb-a"])).unwrap();
        assert!(
            built(&faults[4]).unwrap_err()[0]
                .text
                .contains("cannot add")
        );
        let rebuilt = suite.rebuilt(built(&faults[3]).unwrap(), 4);
        let tests = rebuilt.concerned(4, "npb-a", &["g".to_owned()]);
        assert_eq!(tests[0].name, "tests::g");
        assert_ne!(rebuilt.with(4, tests[0]).unwrap(), suite::Ended::Passed);
    }
}
