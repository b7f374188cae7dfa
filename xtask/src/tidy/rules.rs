//! The house rules, one function each.

use std::collections::BTreeMap;

use super::answers::answers_are_proved;
use super::circles::circles;
use super::equations::updates_have_equations;
use super::manifest::{Kind, Manifest};
use super::project::{Project, Violation};
use super::results::results_are_those_stored;
use super::rooms::{
    ARROW, AT_ONCE, BASE, BASELINES, KIT, PAGES, REPORT, is_base, is_library, is_model, is_tool,
};
use super::tokens::{find, find_inside, tokens};
use super::tree::Tree;

/// Libraries that exactly one crate may name, with those whose names go on with a hyphen.
const FENCED: [(&str, &str); 5] = [
    ("faer", "npb-linalg"),
    ("statrs", "npb-priors"),
    ("arrow", ARROW),
    ("parquet", ARROW),
    ("plotters", REPORT),
];
/// What a user of one library must never have to build.
const KEPT_OUT: [&str; 5] = ["clap", "plotters", "ureq", "image", "indicatif"];
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A rule reads the whole project and reports what breaks it.
pub(crate) type Rule = fn(&Project) -> Vec<Violation>;

/// Every rule, in the order of the report.
pub(crate) const ALL: [Rule; 21] = [
    layers,
    light_tools,
    fenced_libraries,
    shared_settings,
    one_rand,
    lean_published_trees,
    no_printing_in_libraries,
    no_exit_in_libraries,
    no_unseeded_generator,
    crate_docs,
    nothing_unfinished,
    no_ignored_doctests,
    examples_need_one_crate,
    no_machine_paths,
    small_files,
    floor_plan,
    folder_is_crate_name,
    imports_run_down,
    answers_are_proved,
    updates_have_equations,
    results_are_those_stored,
];

/// linalg, then priors and data, then infer, then the models (which never see each other), then pages about them, then the tools.
fn layers(project: &Project) -> Vec<Violation> {
    let members: Vec<&str> = project.members.iter().map(|m| m.name.as_str()).collect();
    let mut broken = Vec::new();
    for member in &project.members {
        if is_tool(&member.folder) {
            continue;
        }
        let model = |package: &str| {
            let found = project.members.iter().find(|m| m.name == package);
            found.is_some_and(is_model)
        };
        let allowed = |package: &str| match BASE.iter().find(|(base, _)| *base == member.name) {
            Some((_, below)) => below.contains(&package),
            None if member.name == PAGES => is_base(package) || model(package) || package == REPORT,
            None => is_base(package) && member.name != REPORT,
        };
        for dependency in &member.dependencies {
            let package = dependency.package.as_str();
            // Depending on oneself is how a crate switches on its own features in tests.
            let inside = members.contains(&package) && package != member.name;
            if inside && !allowed(package) {
                broken.push(Violation::new(
                    &member.path,
                    dependency.line,
                    format!(
                        "{} must not depend on {package}: the order is linalg, then priors and data, then infer, then \
                         the models, which never depend on one another",
                        member.name
                    ),
                ));
            }
        }
    }
    broken
}

/// Who asks for one task does not build the library, and who asks for one model does not build the others.
fn light_tools(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for member in &project.members {
        let folder = member.folder.as_str();
        let inside = |package: &str| {
            let found = project.members.iter().find(|m| m.name == package);
            found.is_some_and(|m| m.folder.starts_with("crates/"))
        };
        let allowed = |package: &str| match folder {
            KIT => is_base(package) || package == REPORT,
            _ => !AT_ONCE.contains(&folder) || package == REPORT,
        };
        for dependency in &member.dependencies {
            let package = dependency.package.as_str();
            if inside(package) && !allowed(package) {
                let message = format!(
                    "{} is built before any model: {package} belongs into a package below xtask/experiments",
                    member.name
                );
                broken.push(Violation::new(&member.path, dependency.line, message));
            }
        }
    }
    broken
}

fn fenced_libraries(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for member in &project.members {
        for dependency in &member.dependencies {
            for (library, owner) in FENCED {
                let named = dependency.package == library
                    || dependency.package.starts_with(&format!("{library}-"));
                if named && member.name != owner {
                    broken.push(Violation::new(
                        &member.path,
                        dependency.line,
                        format!(
                            "only {owner} names {}; use what it re-exports",
                            dependency.package
                        ),
                    ));
                }
            }
        }
    }
    broken
}

/// One version for all crates, one place for dependency versions, one set of lints; tools stay unpublished.
fn shared_settings(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for member in &project.members {
        let mut complain = |line, message: &str| {
            broken.push(Violation::new(&member.path, line, message.to_owned()));
        };
        if !member.shared_lints {
            complain(1, "add `[lints] workspace = true`");
        }
        if !member.shared_version {
            complain(1, "use `version.workspace = true`");
        }
        let tool = !is_library(member) || [BASELINES, PAGES].contains(&member.name.as_str());
        if tool && member.published {
            complain(1, "this member is not for users: add `publish = false`");
        }
        for dependency in member.dependencies.iter().filter(|d| !d.shared) {
            complain(
                dependency.line,
                &format!(
                    "take {} from [workspace.dependencies]: `{}.workspace = true`",
                    dependency.package, dependency.package
                ),
            );
        }
    }
    broken
}

/// Whether the edge from one package to another is part of a normal (not test, not build script) dependency tree.
fn normal_edge(project: &Project, from: &str, to: &str) -> bool {
    match project.members.iter().find(|member| member.name == from) {
        Some(member) => member
            .dependencies
            .iter()
            .any(|d| d.kind == Kind::Normal && d.package == to),
        None => true,
    }
}

fn one_rand(project: &Project) -> Vec<Violation> {
    let mut ways: BTreeMap<String, String> = BTreeMap::new();
    for member in project.members.iter().filter(|m| is_library(m)) {
        let reachable = project
            .lock
            .reachable(&member.name, &|from, to| normal_edge(project, from, to));
        for ((name, version), way) in reachable {
            if name == "rand" {
                ways.entry(version).or_insert_with(|| way.join(" -> "));
            }
        }
    }
    if ways.len() < 2 {
        return Vec::new();
    }
    let list: Vec<String> = ways
        .iter()
        .map(|(version, way)| format!("{version} ({way})"))
        .collect();
    let line = line_with(&project.lock_text, "name = \"rand\"");
    let message = format!(
        "crates/* reach {} versions of rand: {}",
        ways.len(),
        list.join(", ")
    );
    vec![Violation::new("Cargo.lock", line, message)]
}

fn lean_published_trees(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for member in project
        .members
        .iter()
        .filter(|m| is_library(m) && m.published && m.name != REPORT)
    {
        let reachable = project
            .lock
            .reachable(&member.name, &|from, to| normal_edge(project, from, to));
        for ((name, _), way) in reachable {
            if !KEPT_OUT.contains(&name.as_str()) {
                continue;
            }
            let first = way.get(1);
            let line = member
                .dependencies
                .iter()
                .find(|d| d.kind == Kind::Normal && Some(&d.package) == first)
                .map_or(1, |d| d.line);
            let message = format!("users of {} would build {}", member.name, way.join(" -> "));
            broken.push(Violation::new(&member.path, line, message));
        }
    }
    broken
}

/// Reports every place where one of the token sequences occurs in the sources that `concerned` selects.
fn forbid(
    tree: &Tree,
    concerned: impl Fn(&str) -> bool,
    sequences: &[&[&str]],
    message: &str,
) -> Vec<Violation> {
    let mut broken = Vec::new();
    for (path, text) in tree.rust_sources().filter(|(path, _)| concerned(path)) {
        let code = tokens(text);
        for sequence in sequences {
            for line in find(&code, sequence) {
                let message = format!("`{}`: {message}", sequence.concat());
                broken.push(Violation::new(path, line, message));
            }
        }
    }
    broken
}

fn in_library_source(path: &str) -> bool {
    let mut parts = path.splitn(4, '/');
    let member = [parts.next(), parts.next()].map(Option::unwrap_or_default);
    member[0] == "crates" && parts.next() == Some("src") && !is_tool(&member.join("/"))
}

fn no_printing_in_libraries(project: &Project) -> Vec<Violation> {
    let macros: [&[&str]; 5] = [
        &["print", "!"],
        &["println", "!"],
        &["eprint", "!"],
        &["eprintln", "!"],
        &["dbg", "!"],
    ];
    forbid(
        &project.tree,
        in_library_source,
        &macros,
        "libraries never print; return a value or call the caller's `watch`",
    )
}

fn no_exit_in_libraries(project: &Project) -> Vec<Violation> {
    let calls: [&[&str]; 2] = [
        &["process", ":", ":", "exit"],
        &["process", ":", ":", "abort"],
    ];
    forbid(
        &project.tree,
        in_library_source,
        &calls,
        "libraries never exit; return an error",
    )
}

/// Holds everywhere, tests included: a run must be repeatable from its seed.
fn no_unseeded_generator(project: &Project) -> Vec<Violation> {
    let sources: [&[&str]; 12] = [
        &["thread_rng"],
        &["ThreadRng"],
        &["OsRng"],
        &["SysRng"],
        &["from_os_rng"],
        &["try_from_os_rng"],
        &["from_entropy"],
        &["make_rng"],
        &["getrandom"],
        &["rand", ":", ":", "rng"],
        &["rand", ":", ":", "random"],
        &["rand", ":", ":", "random_range"],
    ];
    let message = "no unseeded generator anywhere; use npb_infer::stream(seed, key)";
    let mut broken = forbid(&project.tree, |_| true, &sources, message);
    for (path, text) in project.tree.rust_sources() {
        let code = tokens(text);
        for name in ["rng", "random", "random_range"] {
            for line in find_inside(&code, &["use", "rand", ":", ":", "{"], name) {
                broken.push(Violation::new(
                    path,
                    line,
                    format!("`rand::{name}`: {message}"),
                ));
            }
        }
    }
    broken
}

fn crate_docs(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for member in &project.members {
        for root in ["src/lib.rs", "src/main.rs"] {
            let path = format!("{}/{root}", member.folder);
            let Some(text) = project.tree.text(&path) else {
                continue;
            };
            let first = text.lines().next().unwrap_or_default();
            if first.trim_start_matches("//!").trim().is_empty() || !first.starts_with("//!") {
                let message = "the first line says what the crate is for: `//! ...`".to_owned();
                broken.push(Violation::new(&path, 1, message));
            }
        }
    }
    broken
}

fn nothing_unfinished(project: &Project) -> Vec<Violation> {
    let markers: [&[&str]; 4] = [
        &["todo", "!"],
        &["unimplemented", "!"],
        &["#", "[", "ignore", "]"],
        &["#", "[", "ignore", "="],
    ];
    let message = "finish it or take it out";
    let mut broken = forbid(&project.tree, |_| true, &markers, message);
    for (path, text) in project.tree.rust_sources() {
        let code = tokens(text);
        for attribute in ["allow", "expect"] {
            for line in find_inside(&code, &[attribute, "("], "dead_code") {
                let message = format!("`{attribute}(dead_code)`: {message}");
                broken.push(Violation::new(path, line, message));
            }
        }
    }
    broken
}

fn no_ignored_doctests(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for (path, text) in project.tree.rust_sources() {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let doc = line
                .strip_prefix("///")
                .or_else(|| line.strip_prefix("//!"));
            let fence = doc.and_then(|doc| doc.trim_start().strip_prefix("```"));
            if fence.is_some_and(|words| words.split(',').any(|word| word.trim() == "ignore")) {
                let message = "an example that is not compiled: mark it `text` or make it run";
                broken.push(Violation::new(path, index + 1, message.to_owned()));
            }
        }
    }
    broken
}

/// Who depends on a model crate alone can copy its examples: base crates are named by way of it.
fn examples_need_one_crate(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for member in project.members.iter().filter(|member| is_model(member)) {
        let inside = format!("{}/src/", member.folder);
        let sources = project.tree.rust_sources();
        for (path, text) in sources.filter(|(path, _)| path.starts_with(&inside)) {
            for (index, line) in text.lines().enumerate() {
                let Some((_, used)) = line
                    .split_once("//")
                    .and_then(|(_, doc)| doc.split_once(" use "))
                else {
                    continue;
                };
                let package = used
                    .split("::")
                    .next()
                    .unwrap_or_default()
                    .replace('_', "-");
                if is_base(&package) {
                    let message = format!(
                        "an example for who has {} alone: `use {}::{used}`",
                        member.name,
                        member.name.replace('-', "_"),
                    );
                    broken.push(Violation::new(path, index + 1, message));
                }
            }
        }
    }
    broken
}

/// Absolute paths of somebody's machine, in code, manifests, scripts or prose.
fn no_machine_paths(project: &Project) -> Vec<Violation> {
    let folders = ["work", "tmp", "home", "root", "Users"].map(|name| format!("/{name}"));
    let mut broken = Vec::new();
    for (path, text) in project.tree.texts() {
        for (index, line) in text.lines().enumerate() {
            if let Some(folder) = folders.iter().find(|folder| names_folder(line, folder)) {
                let message = format!("absolute path below {folder}: use a relative or given path");
                broken.push(Violation::new(path, index + 1, message));
            }
        }
    }
    broken
}

/// `folder` at the start of a path: nothing path-like before it, and a separator or a quote (not just a word's end in
/// prose) after it.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        let continues = |c: char| c.is_alphanumeric() || "_-.~/{}$:)>*".contains(c);
        !before.is_some_and(continues) && matches!(after, Some('/' | '"' | '\'' | '`'))
    })
}

fn small_files(project: &Project) -> Vec<Violation> {
    let files = project.tree.files().iter();
    files
        .filter(|file| file.size >= MAX_FILE_BYTES)
        .map(|file| {
            let message = format!(
                "{} bytes: files stay below 1 MiB, data sets stay outside",
                file.size
            );
            Violation::new(&file.path, 1, message)
        })
        .collect()
}

/// Who knows one model crate knows all of them.
fn floor_plan(project: &Project) -> Vec<Violation> {
    let rooms: [&[&str]; 7] = [
        &["src/lib.rs"],
        &["src/config.rs"],
        &["src/state.rs"],
        &["src/vb.rs", "src/gibbs.rs"],
        &["src/fit.rs"],
        &["src/error.rs"],
        &["tests/it/main.rs"],
    ];
    let mut broken = Vec::new();
    for member in project.members.iter().filter(|m| is_model(m)) {
        for room in rooms {
            let present = |file: &str| {
                let plain = format!("{}/{file}", member.folder);
                // A module that has grown into a folder is the same room.
                let grown = plain.replace(".rs", "/mod.rs");
                project.tree.contains(&plain) || project.tree.contains(&grown)
            };
            if !room.iter().any(|file| present(file)) {
                let message = format!("a model crate has {}", room.join(" or "));
                broken.push(Violation::new(&member.path, 1, message));
            }
        }
    }
    broken
}

fn folder_is_crate_name(project: &Project) -> Vec<Violation> {
    let named = |m: &&Manifest| m.folder.rsplit('/').next() != Some(m.name.as_str());
    let libraries = project.members.iter().filter(|m| is_library(m));
    libraries
        .filter(named)
        .map(|m| {
            let message = format!("the folder of {} carries another name", m.name);
            Violation::new(&m.path, 1, message)
        })
        .collect()
}

/// No two files of a crate import each other, straight or in a round; the experiments' neither.
fn imports_run_down(project: &Project) -> Vec<Violation> {
    let mut broken = Vec::new();
    for member in &project.members {
        let source = format!("{}/src/", member.folder);
        let files: Vec<(&str, &str)> = project
            .tree
            .rust_sources()
            .filter_map(|(path, text)| Some((path.strip_prefix(&source)?, text)))
            .collect();
        for circle in circles(&files) {
            let way: Vec<String> = circle
                .steps
                .iter()
                .map(|step| {
                    format!(
                        "{}:{} takes {}",
                        step.file,
                        step.line,
                        step.names.join(", ")
                    )
                })
                .collect();
            let first = &circle.steps[0];
            let message = format!("imports go round in a circle: {}", way.join("; "));
            broken.push(Violation::new(
                &format!("{source}{}", first.file),
                first.line,
                message,
            ));
        }
    }
    broken
}

fn line_with(text: &str, wanted: &str) -> usize {
    text.lines()
        .position(|line| line == wanted)
        .map_or(1, |index| index + 1)
}
