//! The list of faults: what to plant, and whether it still can be.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::switch::Edit;
use npb_catalogue::Result;

/// One fault.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// Number by which it is named, of all crates together.
    pub(super) id: u32,
    /// The crate whose tests ought to see it: the name of the list.
    #[serde(skip)]
    pub(super) krate: String,
    /// Path from the project's root.
    pub(super) file: String,
    /// Text that occurs in the file exactly once.
    pub(super) before: String,
    /// Where in the file that text is, of a fault that is made and not listed: its text may be there more than once.
    #[serde(skip)]
    pub(super) at: Option<usize>,
    /// What takes its place.
    pub(super) after: String,
    /// What it is, and its effect.
    pub(super) what: String,
    /// The kind of test that ought to see it.
    pub(super) seen_by: String,
    /// Names of tests, or parts of them, that are run first: those that are known to see it. The others run when these pass.
    #[serde(default)]
    pub(super) tests: Vec<String>,
    /// Crates that use this one and whose tests are run when its own pass.
    #[serde(default)]
    pub(super) also: Vec<String>,
}

impl Fault {
    /// The change that it makes to the text of its file.
    pub(super) fn edit(&self, text: &str) -> Result<Edit> {
        let start = self.at.or_else(|| text.find(&self.before));
        let start = start.ok_or_else(|| format!("{} {}: its text is gone", self.id, self.file))?;
        Ok(Edit::new(start, &self.before, &self.after))
    }

    /// The text of its file with it.
    pub(super) fn planted(&self, text: &str) -> Result<String> {
        let Edit { at, text: faulty } = self.edit(text)?;
        Ok([&text[..at.start], &faulty, &text[at.end..]].concat())
    }
}

/// The faults of a list.
fn parse(krate: &str, text: &str) -> Result<Vec<Fault>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Faults {
        fault: Vec<Fault>,
    }
    let faults: Faults = toml::from_str(text).map_err(|e| format!("{krate}.toml: {e}"))?;
    let of_crate = |fault| Fault {
        krate: krate.to_owned(),
        ..fault
    };
    Ok(faults.fault.into_iter().map(of_crate).collect())
}

/// All lists of the project, by number.
pub(super) fn read(project: &Path) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for entry in fs::read_dir(project.join("xtask/mutants"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            let krate = path.file_stem().unwrap_or_default().to_string_lossy();
            faults.extend(parse(&krate, &fs::read_to_string(&path)?)?);
        }
    }
    faults.sort_by_key(|fault| fault.id);
    Ok(faults)
}

/// What is wrong with the list, each with number and file.
pub(super) fn check(faults: &[Fault], project: &Path) -> Vec<String> {
    let mut broken = Vec::new();
    let mut texts: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for fault in faults {
        let text = texts
            .entry(&fault.file)
            .or_insert_with(|| fs::read_to_string(project.join(&fault.file)).ok());
        if let Some(mistake) = mistake(fault, text.as_deref()) {
            broken.push(format!("{} {}: {mistake}", fault.id, fault.file));
        }
    }
    for pair in faults.windows(2).filter(|pair| pair[0].id == pair[1].id) {
        let (first, second) = (&pair[0].file, &pair[1].file);
        broken.push(format!(
            "{} {second}: the number of another fault, in {first}",
            pair[0].id
        ));
    }
    broken
}

/// What is wrong with one fault, given the text of its file.
fn mistake(fault: &Fault, text: Option<&str>) -> Option<String> {
    let folder = format!("crates/{}/src/", fault.krate);
    if !fault.file.starts_with(&folder) {
        return Some(format!("not in {folder}, whose list this is"));
    }
    let Some(text) = text else {
        return Some("no such file".to_owned());
    };
    if fault.before.trim().is_empty() || fault.before == fault.after {
        return Some("nothing would change".to_owned());
    }
    if fault.what.trim().is_empty() || fault.seen_by.trim().is_empty() {
        return Some("says not what it is, or who ought to see it".to_owned());
    }
    match text.matches(&fault.before).count() {
        1 => None,
        n => Some(format!(
            "its text is there {n} times, not once: {:?}",
            fault.before
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_catalogue::Scratch;

    const LIST: &str = "[[fault]]\nid = 7\nfile = \"crates/npb-a/src/x.rs\"\nbefore = '''\n0.5 * n'''\nafter = 'n'\nwhat = \"w\"\nseen_by = \"s\"\n";

    fn fault() -> Fault {
        let mut faults = parse("npb-a", LIST).unwrap();
        assert_eq!(faults.len(), 1);
        faults.remove(0)
    }

    #[test]
    fn a_list_is_read() {
        let fault = fault();
        assert_eq!((fault.id, &fault.krate[..]), (7, "npb-a"));
        assert_eq!((&fault.before[..], &fault.after[..]), ("0.5 * n", "n"));
        for wrong in [
            LIST.replace("what", "why"),
            LIST.replace("seen_by = \"s\"\n", ""),
            LIST.replace("id = 7", "id = -7"),
        ] {
            let error = parse("npb-a", &wrong).unwrap_err().to_string();
            assert!(error.starts_with("npb-a.toml: "), "{error}");
        }
    }

    #[test]
    fn a_text_must_be_there_once() {
        let fault = fault();
        let text = |text| mistake(&fault, Some(text));
        assert_eq!(text("shape + 0.5 * n;"), None);
        assert!(text("shape + n;").unwrap().contains("0 times"));
        assert!(text("0.5 * n + 0.5 * n").unwrap().contains("2 times"));
        assert!(mistake(&fault, None).unwrap().contains("no such file"));
    }

    #[test]
    fn other_mistakes_are_named() {
        let with = |change: fn(&mut Fault)| {
            let mut changed = fault();
            change(&mut changed);
            mistake(&changed, Some("0.5 * n")).unwrap_or_default()
        };
        assert!(with(|f| f.after.clone_from(&f.before)).contains("nothing would change"));
        assert!(with(|f| f.before.clear()).contains("nothing would change"));
        assert!(with(|f| f.what.clear()).contains("what it is"));
        assert!(with(|f| f.seen_by.clear()).contains("ought to see"));
        assert!(with(|f| f.file = "crates/npb-b/src/x.rs".to_owned()).contains("npb-a"));
        assert!(with(|f| f.file = "crates/npb-a/tests/x.rs".to_owned()).contains("src"));
    }

    #[test]
    fn mistakes_have_number_and_file() {
        let scratch = Scratch::new("mutants-list");
        let folder = scratch.path("crates/npb-a/src");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x.rs"), "0.5 * n").unwrap();
        assert!(check(&[fault()], scratch.root()).is_empty());
        let twice = check(&[fault(), fault()], scratch.root());
        assert!(
            twice[0].starts_with("7 crates/npb-a/src/x.rs: the number"),
            "{twice:?}"
        );
        fs::write(folder.join("x.rs"), "n").unwrap();
        let gone = check(&[fault()], scratch.root());
        assert!(
            gone[0].starts_with("7 crates/npb-a/src/x.rs: its text"),
            "{gone:?}"
        );
    }

    #[test]
    fn the_shipped_lists_hold() {
        let project = npb_catalogue::root();
        let faults = read(&project).unwrap();
        let broken = check(&faults, &project);
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        assert!(faults.len() >= 75, "{} faults", faults.len());
        for model in ["iqgme", "bsvd", "itf", "regbayes", "hbrec", "bpfa"] {
            let krate = format!("npb-{model}");
            let n = faults.iter().filter(|fault| fault.krate == krate).count();
            assert!(n >= 10, "{krate}: {n} faults");
        }
    }
}
