//! Faults that nobody chose: a random sample of the mutants that `cargo-mutants` makes of the library's crates.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::list::Fault;
use npb_catalogue::Result;

/// Crates of which mutants are made.
const CRATES: [&str; 10] = [
    "npb-linalg",
    "npb-priors",
    "npb-data",
    "npb-infer",
    "npb-iqgme",
    "npb-bsvd",
    "npb-itf",
    "npb-regbayes",
    "npb-hbrec",
    "npb-bpfa",
];
/// The number of the first of a sample; those of the lists are below.
pub(super) const FIRST: u32 = 10_000;
const MOST: usize = 50_000;

/// One of the tool's list.
#[derive(Deserialize)]
struct Mutant {
    package: String,
    file: String,
    name: String,
    replacement: String,
    span: Span,
}

#[derive(Clone, Copy, Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

/// Both from 1 on; columns are characters.
#[derive(Clone, Copy, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn offset(self, text: &str) -> Option<usize> {
        let start: usize = text
            .split_inclusive('\n')
            .take(self.line.checked_sub(1)?)
            .map(str::len)
            .sum();
        let line = text.get(start..)?;
        let mut columns = line.char_indices().map(|(at, _)| at).chain([line.len()]);
        let column = columns.nth(self.column.checked_sub(1)?)?;
        Some(start + column)
    }
}

/// So many mutants of all crates, drawn by a seed: who asks for more gets these first.
pub(super) fn sample(project: &Path, n: usize, seed: u64) -> Result<Vec<Fault>> {
    let mut command = Command::new("cargo");
    command.args(["mutants", "--list", "--json", "--no-config", "--dir"]);
    command.arg(project);
    for krate in CRATES {
        command.args(["--package", krate]);
    }
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{said}\nit is had by `cargo install cargo-mutants --locked`").into());
    }
    let read = |file: &str| Ok(fs::read_to_string(project.join(file))?);
    drawn(&String::from_utf8_lossy(&output.stdout), n, seed, read)
}

fn drawn(
    listed: &str,
    n: usize,
    seed: u64,
    read: impl Fn(&str) -> Result<String>,
) -> Result<Vec<Fault>> {
    let mutants: Vec<Mutant> = serde_json::from_str(listed)?;
    let mut mutants: Vec<Mutant> = mutants
        .into_iter()
        .filter(|mutant| {
            mutant
                .file
                .starts_with(&format!("crates/{}/src/", mutant.package))
        })
        .collect();
    mutants.sort_by_cached_key(|mutant| (hash(seed, &mutant.name), mutant.name.clone()));
    mutants.truncate(n.min(MOST));
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut faults = Vec::new();
    for (id, mutant) in (FIRST..).zip(mutants) {
        let text = match texts.entry(mutant.file.clone()) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(read(&mutant.file)?),
        };
        let place = |place: Place| {
            let found = place.offset(text);
            found.ok_or_else(|| format!("{}: not in the file as it is", mutant.name))
        };
        let (start, end) = (place(mutant.span.start)?, place(mutant.span.end)?);
        faults.push(Fault {
            id,
            krate: mutant.package,
            before: text[start..end].to_owned(),
            at: Some(start),
            after: mutant.replacement,
            what: mutant.name,
            file: mutant.file,
            ..Fault::default()
        });
    }
    Ok(faults)
}

/// FNV-1a of a name, mixed (the end of splitmix64): equal on every machine.
fn hash(seed: u64, name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    let mut z = bytes.fold(0xcbf2_9ce4_8422_2325, step);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// ä\nfn f() -> u32 {\n    1 + 1 + 1\n}\n";

    /// Mutants at columns of the third line, and one of another folder.
    fn listed(columns: &[usize]) -> String {
        let mutant = |file: &str, column: usize| {
            let end = column + 1;
            format!(
                r#"{{"package":"npb-a","file":"{file}","name":"{file}:3:{column}: replace + with -","replacement":"-",
                "genre":"BinaryOperator","span":{{"start":{{"line":3,"column":{column}}},"end":{{"line":3,"column":{end}}}}}}}"#
            )
        };
        let all = columns
            .iter()
            .map(|&column| mutant("crates/npb-a/src/x.rs", column));
        let all: Vec<String> = all.chain([mutant("xtask/src/x.rs", 7)]).collect();
        format!("[{}]", all.join(","))
    }

    fn sampled(columns: &[usize], n: usize, seed: u64) -> Vec<Fault> {
        drawn(&listed(columns), n, seed, |_| Ok(TEXT.to_owned())).unwrap()
    }

    #[test]
    fn a_mutant_is_planted_where_the_tool_says() {
        let faults = sampled(&[11], 5, 1);
        assert_eq!(faults.len(), 1);
        let planted = faults[0].planted(TEXT).unwrap();
        assert_eq!(planted, TEXT.replace("1 + 1 + 1", "1 + 1 - 1"));
        assert_eq!((faults[0].id, &faults[0].krate[..]), (FIRST, "npb-a"));
        let beyond = drawn(&listed(&[30]), 1, 1, |_| Ok(TEXT.to_owned()));
        assert!(beyond.unwrap_err().to_string().contains("as it is"));
    }

    #[test]
    fn a_sample_depends_on_the_seed_and_on_nothing_else() {
        let columns: Vec<usize> = (1..10).collect();
        let names = |seed| -> Vec<String> {
            let faults = sampled(&columns, 4, seed).into_iter();
            faults.map(|fault| fault.what).collect()
        };
        assert_eq!(names(1).len(), 4);
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        let backwards: Vec<usize> = columns.iter().rev().copied().collect();
        let same = sampled(&backwards, 4, 1)
            .into_iter()
            .map(|fault| fault.what);
        assert_eq!(same.collect::<Vec<_>>(), names(1));
    }
}
