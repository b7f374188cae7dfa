//! What each setting means, from the documentation of the fields of the models' configurations, for `npb config`: it is written down there alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Crates whose types may be settings.
const CRATES: [&str; 9] = [
    "npb-bpfa",
    "npb-bsvd",
    "npb-data",
    "npb-hbrec",
    "npb-infer",
    "npb-iqgme",
    "npb-itf",
    "npb-priors",
    "npb-regbayes",
];

/// A field of a struct, or a variant of an enum as if it were one.
struct Field {
    package: &'static str,
    of: String,
    name: String,
    kind: String,
    meaning: String,
}

fn main() -> io::Result<()> {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut fields = Vec::new();
    for package in CRATES {
        let folder = crates.join("..").join(package).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        for file in sources(&folder)? {
            fields_of(package, &fs::read_to_string(file)?, &mut fields);
        }
    }
    let names: BTreeSet<&str> = fields.iter().map(|field| field.of.as_str()).collect();
    let mut text = "pub(super) const FIELDS: &[Field] = &[\n".to_owned();
    for field in &fields {
        let wanted = field.of.contains("::") || !field.meaning.is_empty();
        if wanted && (is_setting(&field.of) || names.contains(field.kind.as_str())) {
            let Field {
                package,
                of,
                name,
                kind,
                meaning,
            } = field;
            let _ = writeln!(
                text,
                "Field {{ package: {package:?}, of: {of:?}, name: {name:?}, kind: {kind:?}, meaning: {meaning:?} }},"
            );
        }
    }
    text += "];\n";
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("meanings.rs"), text)
}

/// Types that settings consist of end so.
fn is_setting(name: &str) -> bool {
    let ends = [
        "Config",
        "Plan",
        "Limits",
        "Prior",
        "Scheduled",
        "Move",
        "Distribution",
        "Init",
        "Likelihood",
    ];
    name.contains("::") || ends.iter().any(|end| name.ends_with(end))
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the layout that rustfmt gives: items at the margin, their fields indented by four, those of variants by eight.
fn fields_of(package: &'static str, source: &str, fields: &mut Vec<Field>) {
    let (mut item, mut is_enum, mut variant) = (None::<String>, false, None::<String>);
    let mut meaning = String::new();
    for line in source.lines() {
        let head = ["pub struct ", "pub enum "].map(|word| line.strip_prefix(word));
        if let [Some(rest), _] | [_, Some(rest)] = head {
            let end = rest
                .find(|c: char| !c.is_alphanumeric())
                .unwrap_or(rest.len());
            item = line.ends_with('{').then(|| rest[..end].to_owned());
            (is_enum, variant) = (head[1].is_some(), None);
        }
        let Some(of) = &item else { continue };
        let text = line.trim();
        if let Some(words) = text.strip_prefix("///") {
            meaning += words;
            continue;
        }
        if line == "}" {
            item = None;
        } else if text.starts_with('}') {
            variant = None;
        } else if !text.starts_with("#[") && line.starts_with("    ") {
            let own = variant.as_ref().map(|variant| format!("{of}::{variant}"));
            let of = own.unwrap_or_else(|| of.clone());
            if is_enum && variant.is_none() {
                let end = text
                    .find(|c: char| !c.is_alphanumeric())
                    .unwrap_or(text.len());
                let name = text[..end].to_owned();
                let kind = match text[end..].trim() {
                    "{" => {
                        variant = Some(name.clone());
                        format!("{of}::{name}")
                    }
                    inner => inner.trim_matches(['(', ')', ',']).to_owned(),
                };
                let name = snake(&name);
                push(fields, package, (of, name, kind), &meaning);
            } else if let Some((name, kind)) = text.trim_start_matches("pub ").split_once(": ") {
                let kind = kind.trim_end_matches(',').to_owned();
                push(fields, package, (of, name.to_owned(), kind), &meaning);
            }
        }
        meaning.clear();
    }
}

fn push(
    fields: &mut Vec<Field>,
    package: &'static str,
    (of, name, kind): (String, String, String),
    meaning: &str,
) {
    fields.push(Field {
        package,
        of,
        name,
        kind,
        meaning: first_sentence(&plain(meaning)),
    });
}

/// Without links to other documentation.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.trim();
    while let Some(at) = rest.find("[`") {
        out += &rest[..at];
        let inside = &rest[at + 1..];
        let Some(end) = inside.find(']') else { break };
        out += &inside[..end];
        rest = &inside[end + 1..];
        if rest.starts_with('(') {
            rest = rest.find(')').map_or(rest, |end| &rest[end + 1..]);
        }
    }
    out + rest
}

fn first_sentence(text: &str) -> String {
    let ends = |(at, _): &(usize, &str)| text[at + 2..].starts_with(char::is_uppercase);
    let end = text.match_indices(". ").find(ends);
    let sentence = end.map_or(text, |(at, _)| &text[..at]);
    sentence.trim_end_matches('.').to_owned()
}

/// `KMeans` as `k_means`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
