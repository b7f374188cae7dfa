//! Faults behind a switch: a file in which every function that has faults runs, by the value of `NPB_FAULT`, its own body or one with a fault.
//!
//! The body of the innermost function around a fault becomes `if on(1) { with fault 1 } else if on(2) { with fault 2 } else { as it is }`. A faulty
//! constant stands in front of its name in the bodies that use it. Whether the copies pass the compiler is the compiler's to say; [`Switched::blamed`]
//! tells which fault an error of its belongs to.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::tidy::tokens::{Token, closing, tokens};

/// What goes to the end of a crate's `lib.rs`. Numbers of faults are below 65536.
pub(super) const MODULE: &str = r#"
mod npb_fault {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

    const TRACE: u32 = u32::MAX - 1;
    const UNREAD: u32 = u32::MAX;
    static PLANTED: AtomicU32 = AtomicU32::new(UNREAD);
    static SEEN: [AtomicBool; 65536] = [const { AtomicBool::new(false) }; 65536];

    /// Whether a fault is planted: `NPB_FAULT` is its number.
    #[inline(always)]
    pub(crate) fn on(id: u32) -> bool {
        let planted = PLANTED.load(Relaxed);
        planted == id || (planted >= TRACE && look(id))
    }

    /// Reads the switch; where it asks for it, writes down each fault that is met.
    #[cold]
    #[inline(never)]
    fn look(id: u32) -> bool {
        let trace = std::env::var_os("NPB_FAULT_TRACE");
        let planted = match &trace {
            Some(_) => TRACE,
            None => std::env::var("NPB_FAULT").ok().and_then(|id| id.parse().ok()).unwrap_or(0),
        };
        PLANTED.store(planted, Relaxed);
        if let Some(path) = trace
            && !SEEN[id as usize].swap(true, Relaxed)
        {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(format!("{id}\n").as_bytes())).unwrap();
        }
        planted == id
    }
}
"#;

/// What stands at `at` becomes `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) at: Range<usize>,
    pub(super) text: String,
}

impl Edit {
    /// The change of `before`, which stands at `start`, to `after`, without what they have in common at both ends.
    pub(super) fn new(start: usize, before: &str, after: &str) -> Self {
        let same = |(a, b): &(char, char)| a == b;
        let head: usize = before
            .chars()
            .zip(after.chars())
            .take_while(same)
            .map(|(c, _)| c.len_utf8())
            .sum();
        let (before, after) = (&before[head..], &after[head..]);
        let tail: usize = before
            .chars()
            .rev()
            .zip(after.chars().rev())
            .take_while(same)
            .map(|(c, _)| c.len_utf8())
            .sum();
        Self {
            at: start + head..start + head + before.len() - tail,
            text: after[..after.len() - tail].to_owned(),
        }
    }
}

/// `text`, which starts at `start` of the file, after the edits.
fn edited(text: &str, start: usize, edits: &[&Edit]) -> String {
    let mut edits = edits.to_vec();
    edits.sort_by_key(|edit| edit.at.start);
    let (mut out, mut at) = (String::new(), 0);
    for edit in edits {
        out += &text[at..edit.at.start - start];
        out += &edit.text;
        at = edit.at.end - start;
    }
    out + &text[at..]
}

/// The body of a function, without its braces.
#[derive(Debug)]
struct Body {
    inside: Range<usize>,
    /// Why it cannot hold a branch.
    fixed: Option<&'static str>,
}

impl Body {
    fn holds(&self, at: &Range<usize>) -> bool {
        self.inside.start <= at.start && at.end <= self.inside.end
    }
}

/// A file as it is.
pub(super) struct Source<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    /// In the order of their starts.
    bodies: Vec<Body>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let tokens = tokens(text);
        let bodies = (0..tokens.len())
            .filter_map(|at| body(text, &tokens, at))
            .collect();
        Self {
            text,
            tokens,
            bodies,
        }
    }

    /// The number of the innermost function around a place that can hold a branch, or why there is none.
    fn function(&self, at: &Range<usize>) -> Result<usize, &'static str> {
        let around = self.bodies.iter().rposition(|body| body.holds(at));
        let function = around.ok_or("in no function")?;
        match self.bodies[function].fixed {
            Some(why) => Err(why),
            None => Ok(function),
        }
    }

    /// The edits that make up a fault once it is behind the switch, or why it cannot be. `elsewhere` says whether other files may use a constant.
    pub(super) fn edits(
        &self,
        edit: Edit,
        elsewhere: impl Fn(&str) -> bool,
    ) -> Result<Vec<Edit>, &'static str> {
        match self.constant(&edit.at) {
            None => self.function(&edit.at).map(|_| vec![edit]),
            Some(_) if self.function(&edit.at).is_ok() => Ok(vec![edit]),
            Some((name, _)) if elsewhere(name) => Err("a constant that other files use"),
            Some((name, item)) => self.in_front_of_uses(name, item, &edit),
        }
    }

    /// The constant in whose value a place is: its name and the whole of it.
    fn constant(&self, at: &Range<usize>) -> Option<(&'a str, Range<usize>)> {
        let is_parameter = |i: usize| i > 0 && matches!(self.tokens[i - 1].text, "<" | ",");
        let starts = self.tokens.windows(3).enumerate().filter(|(i, window)| {
            matches!(window[0].text, "const" | "static")
                && window[1].text != "fn"
                && window[2].text == ":"
                && !is_parameter(*i)
        });
        starts
            .filter_map(|(i, window)| {
                let end = self.end_of_item(i)?;
                let equals = self.tokens[i..].iter().find(|t| t.text == "=")?;
                let value = self.place(equals).end..end;
                let inside = value.start <= at.start && at.end <= value.end;
                inside.then(|| (window[1].text, self.place(&window[0]).start..end + 1))
            })
            .next_back()
    }

    /// Where the semicolon is that ends the item which begins with a token.
    fn end_of_item(&self, first: usize) -> Option<usize> {
        let mut depth = 0;
        for token in &self.tokens[first..] {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" if depth == 0 => return None,
                ")" | "]" | "}" => depth -= 1,
                ";" if depth == 0 => return Some(self.place(token).start),
                _ => {}
            }
        }
        None
    }

    fn in_front_of_uses(
        &self,
        name: &str,
        item: Range<usize>,
        edit: &Edit,
    ) -> Result<Vec<Edit>, &'static str> {
        let faulty = edited(&self.text[item.clone()], item.start, &[edit]);
        let mut starts = Vec::new();
        for (i, token) in self.tokens.iter().enumerate() {
            let place = self.place(token);
            if token.text != name || item.contains(&place.start) {
                continue;
            }
            if i > 0 && matches!(self.tokens[i - 1].text, ":" | ".") {
                return Err("a constant that is used by a path");
            }
            starts.push(self.bodies[self.function(&place)?].inside.start);
        }
        starts.dedup();
        if starts.is_empty() {
            return Err("a constant that no function of its file uses");
        }
        let edit = |start| Edit {
            at: start..start,
            text: format!(" {faulty} "),
        };
        Ok(starts.into_iter().map(edit).collect())
    }

    fn place(&self, token: &Token<'_>) -> Range<usize> {
        place(self.text, token)
    }

    /// The file with all faults behind the switch; each has edits of [`Source::edits`].
    pub(super) fn switched(&self, faults: &BTreeMap<u32, Vec<Edit>>) -> Switched {
        let mut chains: BTreeMap<usize, BTreeMap<u32, Vec<&Edit>>> = BTreeMap::new();
        for (&id, edits) in faults {
            for edit in edits {
                if let Ok(function) = self.function(&edit.at) {
                    let chain = chains.entry(function).or_default();
                    chain.entry(id).or_default().push(edit);
                }
            }
        }
        let mut switched = Switched::default();
        self.write(0..self.text.len(), &chains, 0, &mut switched);
        switched
    }

    /// Writes what stands at `range`, functions from number `first` on with their chains.
    fn write(
        &self,
        range: Range<usize>,
        chains: &BTreeMap<usize, BTreeMap<u32, Vec<&Edit>>>,
        first: usize,
        out: &mut Switched,
    ) {
        let mut at = range.start;
        for (&function, chain) in chains.range(first..) {
            let inside = &self.bodies[function].inside;
            if inside.start < at {
                continue; // It stands in a function whose chain holds it.
            }
            if inside.end > range.end {
                break;
            }
            out.text += &self.text[at..inside.start];
            let start = out.text.len();
            for (id, edits) in chain {
                let from = out.text.len();
                out.text += &format!(" if crate::npb_fault::on({id}) {{");
                out.text += &edited(&self.text[inside.clone()], inside.start, edits);
                out.branches.push((*id, from..out.text.len()));
                out.text += "} else";
            }
            out.text += " {";
            self.write(inside.clone(), chains, function + 1, out);
            out.text += "} ";
            let ids = chain.keys().copied().collect();
            out.chains.push((ids, start..out.text.len()));
            at = inside.end;
        }
        out.text += &self.text[at..range.end];
    }
}

fn place(source: &str, token: &Token<'_>) -> Range<usize> {
    let start = token.text.as_ptr() as usize - source.as_ptr() as usize;
    start..start + token.text.len()
}

/// The body of the function whose `fn` is a token, if it is one and has a body.
fn body(source: &str, tokens: &[Token<'_>], at: usize) -> Option<Body> {
    let is_name = |text: &str| text.chars().all(|c| c == '_' || c.is_alphanumeric());
    if tokens[at].text != "fn" || !is_name(tokens.get(at + 1)?.text) {
        return None;
    }
    let before = tokens[..at].iter().rev().map(|token| token.text);
    let qualifiers =
        before.take_while(|&text| matches!(text, "const" | "async" | "unsafe" | "extern"));
    let mut fixed = qualifiers
        .into_iter()
        .any(|text| text == "const")
        .then_some("a const fn");
    let open = opening(tokens, at, &mut fixed)?;
    let close = closing(tokens, open)?;
    Some(Body {
        inside: place(source, &tokens[open]).end..place(source, &tokens[close]).start,
        fixed,
    })
}

/// The brace that opens the body of the function at `at`; a signature with `-> impl` is noted.
fn opening(tokens: &[Token<'_>], at: usize, fixed: &mut Option<&'static str>) -> Option<usize> {
    let mut depth = 0;
    for i in at + 1..tokens.len() {
        match tokens[i].text {
            "{" if depth == 0 && tokens[i - 1].text != "<" => return Some(i),
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ";" if depth == 0 => return None,
            "impl" if depth == 0 && tokens[i - 1].text == ">" && tokens[i - 2].text == "-" => {
                *fixed = fixed.or(Some("it returns impl Trait"));
            }
            _ => {}
        }
    }
    None
}

/// A file with its faults behind the switch.
#[derive(Debug, Default)]
pub(super) struct Switched {
    pub(super) text: String,
    /// Where the faulty bodies are.
    branches: Vec<(u32, Range<usize>)>,
    /// Where all bodies of a function are, and its faults.
    chains: Vec<(Vec<u32>, Range<usize>)>,
}

impl Switched {
    /// The faults to which an error of the compiler at a place of the text belongs.
    pub(super) fn blamed(&self, at: &Range<usize>) -> Vec<u32> {
        let holds = |place: &Range<usize>| place.start <= at.start && at.end <= place.end;
        if let Some((id, _)) = self.branches.iter().find(|(_, place)| holds(place)) {
            return vec![*id];
        }
        let around = self.chains.iter().filter(|(_, place)| holds(place));
        let innermost = around.min_by_key(|(_, place)| place.len());
        innermost.map_or(Vec::new(), |(ids, _)| ids.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(source: &str, before: &str, after: &str) -> Edit {
        assert_eq!(source.matches(before).count(), 1, "{before}");
        Edit::new(source.find(before).unwrap(), before, after)
    }

    /// The file with faults 1, 2, ... behind the switch.
    fn switched(source: &str, faults: &[(&str, &str)]) -> Switched {
        let read = Source::new(source);
        let edits = |(before, after): &(&str, &str)| {
            let edit = edit(source, before, after);
            read.edits(edit, |_| false).unwrap()
        };
        let faults = (1..).zip(faults.iter().map(edits)).collect();
        read.switched(&faults)
    }

    fn refusal(source: &str, before: &str, after: &str) -> &'static str {
        let edit = edit(source, before, after);
        Source::new(source).edits(edit, |_| false).unwrap_err()
    }

    /// What a program made of the source prints for faults 0 (none), 1, ..., `n`: it is compiled.
    fn printed(source: &str, faults: &[(&str, &str)]) -> Vec<String> {
        use std::process::Command;
        let scratch = npb_catalogue::Scratch::new("mutants-switch");
        let text = switched(source, faults).text + MODULE;
        std::fs::write(scratch.path("x.rs"), &text).unwrap();
        let program = scratch.path("x");
        let compiled = Command::new("rustc")
            .args(["--edition=2024", "-Copt-level=0", "--cap-lints=allow", "-o"])
            .arg(&program)
            .arg(scratch.path("x.rs"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}\n{text}");
        let run = |id: usize| {
            let mut command = Command::new(&program);
            let output = command.env("NPB_FAULT", id.to_string()).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        (0..=faults.len()).map(run).collect()
    }

    #[test]
    fn what_stays_at_both_ends_is_no_part_of_an_edit() {
        let edit = Edit::new(10, "a + 0.5 * n", "a + 0.25 * n");
        assert_eq!((edit.at, &edit.text[..]), (16..16, "2"));
        let longer = Edit::new(0, "k - 1", "k - 1 - 1");
        assert_eq!((longer.at, &longer.text[..]), (5..5, " - 1"));
        let umlaut = Edit::new(0, "ä", "ö");
        assert_eq!((umlaut.at, &umlaut.text[..]), (0..2, "ö"));
    }

    #[test]
    fn faults_of_one_function_make_a_chain() {
        let source = "fn f(x: u32) -> u32 { x + 1 }";
        let switched = switched(source, &[("x + 1", "x"), ("x + 1", "x - 1")]);
        let wanted = "fn f(x: u32) -> u32 { if crate::npb_fault::on(1) { x } else if \
                      crate::npb_fault::on(2) { x - 1 } else { x + 1 } }";
        assert_eq!(switched.text, wanted);
    }

    #[test]
    fn an_error_belongs_to_the_branch_or_to_the_chain_around_it() {
        let source = "fn f() -> u32 { 11 } fn g() { h() }";
        let switched = switched(source, &[("11", "12"), ("11", "13"), ("h()", "i()")]);
        let blamed = |text: &str| {
            let at = switched.text.find(text).unwrap();
            switched.blamed(&(at..at + text.len()))
        };
        assert_eq!(blamed("13"), [2]);
        assert_eq!(blamed("i()"), [3]);
        assert_eq!(blamed("11"), [1, 2]);
        assert!(blamed("fn g").is_empty());
    }

    #[test]
    fn bodies_are_found_among_braces_of_every_kind() {
        let source = r##"
            use std::fmt::{Debug, Display};
            struct P<const N: usize>([u8; N]);
            trait T { fn no_body(&self) -> [f64; 2]; fn with(&self) -> usize { 1 } }
            // fn comment() {
            fn pointer(f: fn(u8) -> u8, p: P<{ 1 + 1 }>) -> P<{ 2 }> where u8: Into<[u8; { 1 }]> { "}{"; '{'; r#"}"#; p }
            fn r#type() {}
            macro_rules! m { () => { fn made() { one() } } }
        "##;
        let source = Source::new(source);
        let bodies = source.bodies.iter();
        let texts: Vec<&str> = bodies
            .map(|b| source.text[b.inside.clone()].trim())
            .collect();
        assert_eq!(texts, ["1", r##""}{"; '{'; r#"}"#; p"##, "", "one()"]);
    }

    #[test]
    fn what_cannot_hold_a_branch_is_refused() {
        let constant = "const fn f() -> u32 { 1 + 1 }";
        assert_eq!(refusal(constant, "1 + 1", "3"), "a const fn");
        let iterator = "fn f() -> impl Iterator<Item = u32> { 0..10 }";
        assert_eq!(refusal(iterator, "10", "11"), "it returns impl Trait");
        assert_eq!(refusal("struct A(u32);", "u32", "u64"), "in no function");
        let array = "const N: usize = 3; static A: [u8; N] = [0; 3]; fn f() -> usize { N }";
        assert_eq!(
            refusal(array, "N: usize = 3", "N: usize = 4"),
            "in no function"
        );
        let path = "mod a { pub const N: u8 = 3; } fn f() -> u8 { a::N }";
        assert!(refusal(path, "= 3", "= 4").contains("by a path"));
        let unused = "const N: u8 = 3;";
        assert!(refusal(unused, "3", "4").contains("no function"));
        let shared = "const N: u8 = 3; fn f() -> u8 { N }";
        let edit = edit(shared, "3", "4");
        let refused = Source::new(shared).edits(edit, |name| name == "N");
        assert!(refused.unwrap_err().contains("other files"));
    }

    #[test]
    fn a_faulty_program_runs_by_the_switch() {
        let source = r##"
            use std::fmt::Display;
            const WAYS: [u32; 2] = [1, 2];
            struct Bag<T>(Vec<T>);
            impl<T: Display + Clone> Bag<T> {
                fn text<'a>(&'a self, sign: &'a str) -> String
                where
                    T: 'a,
                {
                    let one = |x: &T| format!("{{{x}{sign}}}"); // "}" }
                    self.0.iter().map(one).collect::<Vec<_>>().join("{")
                }
                fn first(&mut self) -> &mut T { &mut self.0[0] }
            }
            fn parsed(text: &str) -> Result<u32, std::num::ParseIntError> {
                let x: u32 = text.parse()?;
                if x > 5 { return Ok(x * 10) }
                Ok(x + 1)
            }
            fn outer(x: u32) -> u32 {
                fn inner(x: u32) -> u32 { x + 3 }
                let twice = move |y| { let z = y * 2; z };
                inner(twice(x)) + 100
            }
            fn sum() -> u32 { WAYS.iter().sum() }
            fn moved(list: Vec<u32>) -> impl Iterator<Item = u32> { fn k() -> u32 { 7 } list.into_iter().map(|x| x + k()) }
            fn main() {
                let mut bag = Bag(vec![1, 2]);
                *bag.first() += 1;
                let moved: u32 = moved(vec![1]).sum();
                println!("{} {:?} {:?} {} {} {moved}", bag.text("}"), parsed("7").ok(), parsed("x").ok(), outer(1), sum());
            }
        "##;
        let faults = [
            ("{{{x}{sign}}}", "{{{sign}{x}}}"),
            ("join(\"{\")", "join(\"}\")"),
            ("self.0[0]", "self.0[1]"),
            ("x * 10", "x * 11"),
            ("text.parse()?", "text.parse().unwrap_or(4)"),
            ("x + 3", "x + 4"),
            ("y * 2", "y * 3"),
            ("x)) + 100", "x)) + 200"),
            ("[1, 2];", "[1, 3];"),
            ("{ 7 }", "{ 8 }"),
        ];
        let right = "{2}}{{2}} Some(70) None 105 3 8";
        let changed = [
            ("{2}}{{2}}", "{}2}{{}2}"),
            ("}}{{", "}}}{"),
            ("{2}}{{2}}", "{1}}{{3}}"),
            ("70", "77"),
            ("None", "Some(5)"),
            ("105", "106"),
            ("105", "106"),
            ("105", "205"),
            ("105 3", "105 4"),
            ("3 8", "3 9"),
        ];
        let wanted = changed.iter().map(|(from, to)| right.replacen(from, to, 1));
        let wanted: Vec<String> = std::iter::once(right.to_owned()).chain(wanted).collect();
        assert_eq!(printed(source, &faults), wanted);
    }
}
