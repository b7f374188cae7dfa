//! Modules of a crate import downwards only: which file names what of which other file, and the shortest way round where
//! that comes back to its start.
//!
//! An arrow is a path that begins at `crate`, `self`, `super` or a child module, in a `use` or in an expression. What a file
//! only hands on (`mod child; pub use child::Name;`) is no arrow, and whoever names it there takes it from the file that
//! defines it. Tests may look wherever they like.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tokens::{Token, tokens};

/// How many aliases of aliases are followed.
const MAX_HOPS: usize = 16;

/// One way round, file by file; the last names something of the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) steps: Vec<Step>,
}

/// What a file of a circle takes from the next one, and where it first does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) names: Vec<String>,
}

/// The circles of the crate whose sources (path below `src/`, text) these are: one for each set of files that reach each other.
pub(crate) fn circles(sources: &[(&str, &str)]) -> Vec<Circle> {
    let modules = Modules::read(sources);
    let arrows = modules.arrows();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for &start in arrows.keys() {
        if seen.contains(start) {
            continue;
        }
        if let Some(way) = way_round(&arrows, start) {
            seen.extend(reach_each_other(&arrows, start));
            found.push(modules.circle(&arrows, &way));
        }
    }
    found
}

/// From module to module: the names taken and the line of the first.
type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (usize, BTreeSet<String>)>>;

/// The shortest way from `start` back to it.
fn way_round<'a>(arrows: &Arrows<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &next in arrows.get(at).into_iter().flat_map(|to| to.keys()) {
            if next == start {
                let mut way = vec![at];
                while let Some(&before) = came_from.get(way[way.len() - 1]) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

fn reachable<'a>(arrows: &Arrows<'a>, start: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        for &next in arrows.get(at).into_iter().flat_map(|to| to.keys()) {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

fn reach_each_other<'a>(arrows: &Arrows<'a>, start: &'a str) -> Vec<&'a str> {
    let forth = reachable(arrows, start);
    let back = |m: &&&str| reachable(arrows, m).contains(start);
    forth.iter().filter(back).copied().collect()
}

/// A module of the crate: its path, e.g. `factors::bound`, empty for the root.
struct Module<'a> {
    file: &'a str,
    /// Names that `use` brings in, and the path that each stands for.
    aliases: BTreeMap<&'a str, Vec<&'a str>>,
    globs: Vec<Vec<&'a str>>,
    defined: BTreeSet<&'a str>,
    named: Vec<Named<'a>>,
    /// Every word outside of `use`.
    in_code: Vec<&'a str>,
}

/// A path that a file names.
struct Named<'a> {
    path: Vec<&'a str>,
    line: usize,
    /// The name under which a `pub use` hands it on.
    handed_on: Option<&'a str>,
}

struct Modules<'a>(BTreeMap<String, Module<'a>>);

impl<'a> Modules<'a> {
    fn read(sources: &[(&'a str, &'a str)]) -> Self {
        let mut tests = Vec::new();
        let mut modules = BTreeMap::new();
        for &(file, text) in sources {
            let path = module_path(file);
            let (tokens, of_tests) = without_tests(&tokens(text));
            tests.extend(of_tests.iter().map(|child| join(&path, child)));
            modules.insert(path, Module::read(file, &tokens));
        }
        modules.retain(|path, _| {
            !tests
                .iter()
                .any(|t| path == t || path.starts_with(&format!("{t}::")))
        });
        Self(modules)
    }

    fn arrows(&self) -> Arrows<'_> {
        let mut arrows: Arrows<'_> = BTreeMap::new();
        for (from, module) in &self.0 {
            for Named { path, line, .. } in &module.named {
                let Some((to, name)) = self.resolve(from, path, MAX_HOPS) else {
                    continue;
                };
                if to == from {
                    continue;
                }
                let arrow = arrows.entry(from).or_default().entry(to);
                let (first, names) = arrow.or_insert((*line, BTreeSet::new()));
                *first = (*first).min(*line);
                names.insert(name.to_owned());
            }
        }
        arrows
    }

    /// The module that defines what `path`, written in module `from`, stands for, and its name there.
    fn resolve<'s>(
        &'s self,
        from: &str,
        path: &[&'s str],
        hops: usize,
    ) -> Option<(&'s str, &'s str)> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match *first {
            "crate" => "",
            "self" => from,
            "super" => from.rsplit_once("::").map_or("", |(parent, _)| parent),
            // The name of a child module, or one that an earlier `use` brought in.
            _ => {
                rest = path;
                from
            }
        };
        while let ["super", more @ ..] = rest {
            at = at.rsplit_once("::").map_or("", |(parent, _)| parent);
            rest = more;
        }
        let mut at = self.0.get_key_value(at)?.0.as_str();
        let mut last = at.rsplit("::").next().unwrap_or(at);
        while let [name, more @ ..] = rest {
            if let Some((child, _)) = self.0.get_key_value(&join(at, name)) {
                (at, rest, last) = (child, more, name);
                continue;
            }
            return self.resolve_name(at, name, more, hops).or_else(|| {
                let outside = at == from && rest.len() == path.len();
                (!outside).then_some((at, *name))
            });
        }
        Some((at, last))
    }

    /// What `name` (and the rest of the path) stands for in module `at`, if `at` only hands it on.
    fn resolve_name<'s>(
        &'s self,
        at: &str,
        name: &str,
        rest: &[&'s str],
        hops: usize,
    ) -> Option<(&'s str, &'s str)> {
        let module = &self.0[at];
        if hops == 0 || module.defined.contains(name) {
            return None;
        }
        if let Some(path) = module.aliases.get(name) {
            let whole: Vec<&str> = path.iter().chain(rest).copied().collect();
            return self.resolve(at, &whole, hops - 1);
        }
        module.globs.iter().find_map(|glob| {
            let (to, _) = self.resolve(at, glob, hops - 1)?;
            let (name, _) = self.0[to].defined.get(name).map(|n| (*n, ()))?;
            Some((to, name))
        })
    }

    fn circle(&self, arrows: &Arrows<'_>, way: &[&str]) -> Circle {
        let next = way.iter().cycle().skip(1);
        let steps = way.iter().zip(next).map(|(from, to)| {
            let (line, names) = &arrows[from][to];
            Step {
                file: self.0[*from].file.to_owned(),
                line: *line,
                names: names.iter().cloned().collect(),
            }
        });
        Circle {
            steps: steps.collect(),
        }
    }
}

impl<'a> Module<'a> {
    fn read(file: &'a str, tokens: &[Token<'a>]) -> Self {
        let mut module = Self::read_all(file, tokens);
        let used: BTreeSet<&str> = module.in_code.iter().copied().collect();
        module.named.retain(|named| match named.handed_on {
            Some(name) => used.contains(name),
            None => true,
        });
        module
    }

    fn read_all(file: &'a str, tokens: &[Token<'a>]) -> Self {
        let mut module = Self {
            file,
            aliases: BTreeMap::new(),
            globs: Vec::new(),
            defined: BTreeSet::new(),
            named: Vec::new(),
            in_code: Vec::new(),
        };
        let mut at = 0;
        while at < tokens.len() {
            match tokens[at].text {
                // `impl Trait + use<'a>` brings in nothing.
                "use" if tokens.get(at + 1).is_none_or(|t| t.text != "<") => {
                    let handed_on = is_public(&tokens[..at]);
                    at = module.read_use(tokens, at + 1, &[], handed_on);
                }
                "struct" | "enum" | "fn" | "trait" | "const" | "static" | "type" => {
                    module.defined.extend(tokens.get(at + 1).map(|t| t.text));
                    at += 1;
                }
                text if starts_path(text) && !after_colons(tokens, at) => {
                    let (path, end) = plain_path(tokens, at);
                    // `x.name` is a field or a method, whatever else bears the name.
                    if at == 0 || tokens[at - 1].text != "." {
                        module.in_code.push(path[0]);
                    }
                    if path.len() > 1 {
                        let line = tokens[at].line;
                        module.named.push(Named {
                            path,
                            line,
                            handed_on: None,
                        });
                    }
                    at = end;
                }
                text => {
                    module.in_code.push(text);
                    at += 1;
                }
            }
        }
        module
    }

    /// Reads a tree of `use` that begins at `at`, below the path `before`; returns where it ends.
    fn read_use(
        &mut self,
        tokens: &[Token<'a>],
        mut at: usize,
        before: &[&'a str],
        handed_on: bool,
    ) -> usize {
        let mut path = before.to_vec();
        while let Some(token) = tokens.get(at) {
            match token.text {
                "{" => {
                    at += 1;
                    while tokens.get(at).is_some_and(|t| t.text != "}") {
                        at = self.read_use(tokens, at, &path, handed_on);
                        at += usize::from(tokens.get(at).is_some_and(|t| t.text == ","));
                    }
                    return at + 1;
                }
                "*" => {
                    if !handed_on {
                        let (path, line) = (path.clone(), token.line);
                        self.named.push(Named {
                            path,
                            line,
                            handed_on: None,
                        });
                    }
                    self.globs.push(path);
                    return at + 1;
                }
                "as" => {
                    let alias = tokens.get(at + 1).map_or("_", |t| t.text);
                    self.bring_in(alias, path, token.line, handed_on);
                    return at + 2;
                }
                ":" => at += 1,
                "," | "}" | ";" => break,
                text => {
                    path.push(text);
                    at += 1;
                }
            }
        }
        if let Some(&name) = path.last() {
            let line = tokens.get(at).map_or(1, |t| t.line);
            self.bring_in(name, path, line, handed_on);
        }
        at
    }

    fn bring_in(&mut self, name: &'a str, mut path: Vec<&'a str>, line: usize, handed_on: bool) {
        // `use a::{self}` brings in `a`.
        if path.len() > 1 && path.last() == Some(&"self") {
            path.pop();
        }
        let name = if name == "self" {
            path[path.len() - 1]
        } else {
            name
        };
        self.named.push(Named {
            path: path.clone(),
            line,
            handed_on: handed_on.then_some(name),
        });
        self.aliases.insert(name, path);
    }
}

/// `crate`, `self`, `super` or the name of a module.
fn starts_path(text: &str) -> bool {
    text.starts_with(|c: char| c.is_lowercase() || c == '_')
}

/// The item that follows these tokens is `pub`, `pub(crate)` or their like.
fn is_public(before: &[Token<'_>]) -> bool {
    let restricted = before.last().is_some_and(|t| t.text == ")");
    let opens = before.iter().rposition(|t| t.text == "(");
    let end = if restricted {
        opens.unwrap_or(0)
    } else {
        before.len()
    };
    end > 0 && before[end - 1].text == "pub"
}

fn after_colons(tokens: &[Token<'_>], at: usize) -> bool {
    at > 0 && tokens[at - 1].text == ":" && at > 1 && tokens[at - 2].text == ":"
}

/// `a::b::C` from `at`, and where it ends.
fn plain_path<'a>(tokens: &[Token<'a>], at: usize) -> (Vec<&'a str>, usize) {
    let mut path = vec![tokens[at].text];
    let mut end = at + 1;
    while let [colon, again, name, ..] = &tokens[end..] {
        let is_name = name
            .text
            .starts_with(|c: char| c.is_alphabetic() || c == '_');
        if colon.text != ":" || again.text != ":" || !is_name {
            break;
        }
        path.push(name.text);
        end += 3;
    }
    (path, end)
}

/// The tokens without `#[cfg(test)]` items, and the names of modules that hold tests in files of their own.
fn without_tests<'a>(tokens: &[Token<'a>]) -> (Vec<Token<'a>>, Vec<&'a str>) {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let marked = tokens[at..]
            .iter()
            .map(|t| t.text)
            .take(MARK.len())
            .eq(MARK);
        if !marked {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        at += MARK.len();
        let end = end_of_item(tokens, at);
        let named = tokens[at..end].iter().position(|t| t.text == "mod");
        if let (Some(offset), Some(";")) = (named, tokens.get(end - 1).map(|t| t.text)) {
            modules.extend(tokens.get(at + offset + 1).map(|t| t.text));
        }
        at = end;
    }
    (kept, modules)
}

/// Behind the `;` or the closing brace of the item that starts at `at`.
fn end_of_item(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// `factors/bound.rs` is `factors::bound`; `lib.rs` and `main.rs` are the root.
fn module_path(file: &str) -> String {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" | "mod" => String::new(),
        _ => stem.replace('/', "::"),
    }
}

fn join(module: &str, child: &str) -> String {
    if module.is_empty() {
        child.to_owned()
    } else {
        format!("{module}::{child}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(sources: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(sources)
            .into_iter()
            .map(|circle| circle.steps.into_iter().map(|step| step.file).collect())
            .collect()
    }

    #[test]
    fn a_planted_circle_is_found_with_names_and_lines() {
        let sources = [
            ("lib.rs", "mod a; mod b; mod c;\npub use a::A;\n"),
            (
                "a.rs",
                "//! A.\nuse crate::b::{B, two};\npub struct A(B);\n",
            ),
            (
                "b.rs",
                "pub struct B;\npub fn two() { crate::c::three(); }\n",
            ),
            ("c.rs", "use super::A;\npub fn three() {}\n"),
        ];
        let found = circles(&sources);
        let steps: Vec<_> = found[0]
            .steps
            .iter()
            .map(|s| (s.file.as_str(), s.line, s.names.join(",")))
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            steps,
            [
                ("a.rs", 2, "B,two".to_owned()),
                ("b.rs", 2, "three".to_owned()),
                // `super::A` is what lib.rs hands on: the file that defines it counts.
                ("c.rs", 1, "A".to_owned()),
            ]
        );
    }

    #[test]
    fn a_folder_and_its_face_are_looked_through() {
        let sources = [
            ("lib.rs", "mod model; mod state;"),
            ("model.rs", "mod rows; pub(crate) use rows::Rows;"),
            (
                "model/rows.rs",
                "use crate::state::State; pub(crate) struct Rows;",
            ),
            ("state.rs", "pub(crate) struct State(crate::model::Rows);"),
        ];
        assert_eq!(ways(&sources), [["model/rows.rs", "state.rs"]]);
    }

    #[test]
    fn a_parent_and_its_child_that_name_each_other_are_a_circle() {
        let sources = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub(crate) struct A; fn f() { b::g(); }"),
            ("a/b.rs", "use super::A; pub(super) fn g() {}"),
        ];
        assert_eq!(ways(&sources), [["a.rs", "a/b.rs"]]);
    }

    #[test]
    fn imports_that_run_down_tests_and_other_crates_are_no_circle() {
        let sources = [
            (
                "lib.rs",
                "mod a; mod b; pub use a::*; pub use b::{B, self as second};",
            ),
            (
                "a.rs",
                "use crate::b::B; use other::a::A as C;\npub struct A; #[cfg(test)] mod tests;\n",
            ),
            ("a/tests.rs", "use super::A; use crate::b::g;"),
            (
                "b.rs",
                "pub struct B; #[cfg(test)] mod tests { use crate::a::A; fn f() { crate::A; } }\n// crate::a::A\n",
            ),
        ];
        assert_eq!(ways(&sources), Vec::<Vec<String>>::new());
    }

    #[test]
    fn handing_on_is_no_arrow_unless_the_file_uses_it_itself() {
        let child = ("a/b.rs", "use super::help; pub struct B;");
        let face = ("a.rs", "mod b; pub(crate) use b::B; fn help() {}");
        let user = ("a.rs", "mod b; pub(crate) use b::B; fn help() -> B { B }");
        assert!(ways(&[("lib.rs", "mod a;"), face, child]).is_empty());
        let method = (
            "a.rs",
            "mod b; pub(crate) use b::go; fn help(x: X) { x.go() }",
        );
        let child_of_go = ("a/b.rs", "use super::help; pub fn go() {}");
        assert_eq!(ways(&[("lib.rs", "mod a;"), user, child]).len(), 1);
        assert!(ways(&[("lib.rs", "mod a;"), method, child_of_go]).is_empty());
    }

    #[test]
    fn two_circles_are_two() {
        let sources = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; use crate::c::C; pub struct B;"),
            ("c.rs", "use crate::d::D; pub struct C;"),
            ("d.rs", "use crate::c::C; pub struct D;"),
        ];
        assert_eq!(ways(&sources), [["a.rs", "b.rs"], ["c.rs", "d.rs"]]);
    }
}
