//! What of a model crate a user reads or sets, and whether the table of `docs/validation.md` says how its value is known.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::Manifest;
use super::project::{Project, Violation};
use super::rooms::is_model;
use super::tokens::{Token, closing, tokens};

/// The page with the table.
const PAGE: &str = "docs/validation.md";
/// The command, whose verbs have rows as well.
const COMMAND: &str = "npb-cli";
/// Types that answer, beside all whose names end in `Fit`.
const ANSWERING: [&str; 16] = [
    "CellMoments",
    "CellPosterior",
    "ClassScores",
    "ColumnDependence",
    "Dependence",
    "Draw",
    "Evaluation",
    "Folded",
    "MissingCell",
    "Mixture",
    "PairTable",
    "Profile",
    "Recommender",
    "Restored",
    "Scores",
    "TaskScores",
];

/// A question or a setting, and where it stands.
struct Item {
    /// `Type::name`.
    name: String,
    path: String,
    line: usize,
}

/// Each public question and setting of the model crates has a row that names a test, and each row is of something that there is.
pub(super) fn answers_are_proved(project: &Project) -> Vec<Violation> {
    let page = project.tree.text(PAGE).unwrap_or_default();
    let mut broken = Vec::new();
    let answers = |member: &&Manifest| member.name == COMMAND || is_model(member);
    let members = project.members.iter().filter(answers);
    for model in members.map(|member| member.name.as_str()) {
        let items = match model {
            COMMAND => verbs(project),
            _ => items(project, model),
        };
        let tests = functions(project, model);
        let mut missing: BTreeMap<&str, &Item> =
            items.iter().map(|item| (&*item.name, item)).collect();
        let known: BTreeSet<&str> = missing.keys().copied().collect();
        for row in rows(page).filter(|row| row.model == model) {
            let mut wrong = |message: String| broken.push(Violation::new(PAGE, row.line, message));
            for name in &row.names {
                if !known.contains(name) {
                    wrong(format!("{model} has no question or setting {name}"));
                }
                missing.remove(name);
            }
            if row.how.is_empty() {
                wrong("a row says how the value is known".to_owned());
            }
            if row.tests.is_empty() {
                wrong("a row names a test".to_owned());
            }
            for test in row.tests.iter().filter(|test| !tests.contains(**test)) {
                wrong(format!("{model} has no test {test}"));
            }
        }
        broken.extend(missing.into_values().map(|item| {
            let message = format!("{} has no row in {PAGE}: {model}", item.name);
            Violation::new(&item.path, item.line, message)
        }));
    }
    broken
}

/// The verbs of the command: the variants of `enum Verb`, as they are typed.
fn verbs(project: &Project) -> Vec<Item> {
    let path = format!("crates/{COMMAND}/src/args.rs");
    let code = tokens(project.tree.text(&path).unwrap_or_default());
    let named = |w: &[Token<'_>]| w[0].text == "enum" && w[1].text == "Verb";
    let Some(open) = code.windows(2).position(named).map(|at| at + 2) else {
        return Vec::new();
    };
    let mut depth = 0;
    let mut found = Vec::new();
    for token in &code[open..=closing(&code, open).unwrap_or(code.len() - 1)] {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            text if depth == 1 && text.starts_with(char::is_uppercase) => found.push(Item {
                name: text.to_lowercase(),
                path: path.clone(),
                line: token.line,
            }),
            _ => {}
        }
    }
    found
}

/// A line of the table: crate, names, how their values are known, tests.
struct Row<'a> {
    line: usize,
    model: &'a str,
    names: Vec<&'a str>,
    how: &'a str,
    tests: Vec<&'a str>,
}

/// Rows of the table: those with four cells whose first is a crate.
fn rows(page: &str) -> impl Iterator<Item = Row<'_>> {
    page.lines().enumerate().filter_map(|(index, text)| {
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let ["", model, names, how, tests, ""] = cells[..] else {
            return None;
        };
        let listed = |cell| -> Vec<&str> {
            let all = str::split(cell, ',').map(|name| name.trim().trim_matches('`'));
            all.filter(|name| !name.is_empty()).collect()
        };
        model.starts_with("npb-").then(|| Row {
            line: index + 1,
            model,
            names: listed(names),
            how,
            tests: listed(tests),
        })
    })
}

/// Names of all functions of a crate's sources and tests.
fn functions<'a>(project: &'a Project, model: &str) -> BTreeSet<&'a str> {
    let inside = format!("crates/{model}/");
    let mut found = BTreeSet::new();
    for (path, text) in project.tree.rust_sources() {
        if path.starts_with(&inside) {
            let code = tokens(text);
            let named = code.windows(2).filter(|w| w[0].text == "fn");
            found.extend(named.map(|w| w[1].text));
        }
    }
    found
}

/// Public functions of types that answer, and public fields of settings.
fn items(project: &Project, model: &str) -> Vec<Item> {
    let inside = format!("crates/{model}/src/");
    let of_library =
        |path: &str| path.starts_with(&inside) && !path.split('/').any(|p| p.starts_with("tests"));
    let sources = project.tree.rust_sources();
    let sources = sources.filter(|(path, _)| of_library(path));
    sources
        .flat_map(|(path, text)| of_file(path, text))
        .collect()
}

fn of_file(path: &str, text: &str) -> Vec<Item> {
    let code = tokens(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let block = match code[at].text {
            "impl" => inherent(&code, at),
            "macro_rules" => code.get(at + 2).map(|t| (t.text, Kind::Macro)),
            "trait" => code.get(at + 1).map(|t| (t.text, Kind::Trait)),
            "struct" => code.get(at + 1).map(|t| (t.text, Kind::Struct)),
            _ => None,
        };
        let Some(open) = block.and_then(|_| opening(&code, at)) else {
            at += 1;
            continue;
        };
        let end = closing(&code, open).unwrap_or(code.len());
        let inside = &code[open + 1..end];
        if let Some((owner, kind)) = block
            && kind.counts(owner)
            && !(kind == Kind::Macro && makes_types(inside))
        {
            let names = members(inside, kind);
            found.extend(names.map(|token| Item {
                name: format!("{owner}::{}", token.text),
                path: path.to_owned(),
                line: token.line,
            }));
        }
        at = end;
    }
    found
}

/// Whether a macro makes types of its own, not functions for the fits that are there.
fn makes_types(block: &[Token<'_>]) -> bool {
    block.iter().any(|t| ["enum", "struct"].contains(&t.text))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Impl,
    /// Functions that several fits are given by a macro.
    Macro,
    Trait,
    Struct,
}

impl Kind {
    fn counts(self, owner: &str) -> bool {
        match self {
            Self::Struct => owner.ends_with("Config"),
            Self::Macro => true,
            Self::Impl | Self::Trait => owner.ends_with("Fit") || ANSWERING.contains(&owner),
        }
    }
}

/// The type of `impl Type {`; none of an implementation of a trait.
fn inherent<'a>(code: &[Token<'a>], at: usize) -> Option<(&'a str, Kind)> {
    let mut depth = 0;
    let mut owner = None;
    for token in &code[at + 1..] {
        match token.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            "{" => break,
            "for" | "fn" | ";" => return None,
            "where" if depth == 0 => break,
            text if depth == 0 && text.chars().all(|c| c.is_alphanumeric()) => owner = Some(text),
            _ => {}
        }
    }
    owner.map(|owner| (owner, Kind::Impl))
}

/// The brace that opens the block; none where a semicolon comes first.
fn opening(code: &[Token<'_>], at: usize) -> Option<usize> {
    let next = code[at..]
        .iter()
        .position(|t| ["{", ";"].contains(&t.text))?;
    (code[at + next].text == "{").then_some(at + next)
}

/// Names of public members at the first level of a block.
fn members<'a, 'b>(
    block: &'b [Token<'a>],
    kind: Kind,
) -> impl Iterator<Item = Token<'a>> + use<'a, 'b> {
    let mut depth = 0;
    block.iter().enumerate().filter_map(move |(k, token)| {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth != 0 && kind != Kind::Macro {
            return None;
        }
        let text = |k: usize| block.get(k).map_or("", |t| t.text);
        let public = |k: usize| k.checked_sub(1).is_some_and(|k| text(k) == "pub");
        let named = match kind {
            Kind::Struct => token.text == "pub" && text(k + 2) == ":" && text(k + 3) != ":",
            Kind::Trait => token.text == "fn",
            Kind::Impl | Kind::Macro => {
                token.text == "fn"
                    && (public(k) || text(k.wrapping_sub(1)) == "const" && public(k - 1))
            }
        };
        named.then(|| block[k + 1])
    })
}
