//! A copy of the project in which faults are planted and which is built.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::list::Fault;
use super::suite::Program;
use npb_catalogue::Result;

/// Folders that are not copied.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// The copy and its target directory.
pub(super) struct Tree {
    project: PathBuf,
    root: PathBuf,
    target: PathBuf,
}

/// What the compiler does not like.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) text: String,
    /// Files, by their paths from the root, and bytes in them: the place itself, then others that have to do with it.
    pub(super) places: Vec<(String, Range<usize>)>,
}

impl Tree {
    /// Brings the copy under `target/mutants` in line with the project. What is the same is not written again, so that cargo does not build it again.
    pub(super) fn copy(project: &Path) -> Result<Self> {
        let folder = project.join("target").join("mutants");
        let tree = Self {
            project: project.to_owned(),
            root: folder.join("tree"),
            target: folder.join("target"),
        };
        tree.restore()?;
        Ok(tree)
    }

    /// Takes everything out that was planted.
    pub(super) fn restore(&self) -> Result<()> {
        Ok(mirror(&self.project, &self.root)?)
    }

    /// Writes a file of the copy unless it is so already.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.root.join(file);
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            fs::write(path, text)?;
        }
        Ok(())
    }

    /// A file as it is in the project.
    pub(super) fn original(&self, file: &str) -> Result<String> {
        Ok(fs::read_to_string(self.project.join(file))?)
    }

    /// A folder for what tests say.
    pub(super) fn scratch(&self) -> &Path {
        &self.target
    }

    /// Plants a fault, does `work` and takes the fault out again, whatever happened.
    pub(super) fn with<T>(&self, fault: &Fault, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.root.join(&fault.file);
        let text = fs::read_to_string(&path)?;
        fs::write(&path, fault.planted(&text)?)?;
        let outcome = work();
        fs::write(&path, text)?;
        outcome
    }

    /// Builds the tests of some crates; what the compiler said when it refuses.
    pub(super) fn build(
        &self,
        crates: &[&str],
    ) -> Result<std::result::Result<Vec<Program>, Vec<Complaint>>> {
        let mut command = Command::new("cargo");
        command.args(["build", "--tests", "--keep-going"]);
        for krate in crates {
            command.args(["-p", krate]);
        }
        let output = command
            .arg("--message-format=json")
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .stdin(Stdio::null())
            .output()?;
        let messages = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            let programs = programs(&messages);
            return match programs.is_empty() {
                true => Err(format!("no tests in {}", crates.join(", ")).into()),
                false => Ok(Ok(programs)),
            };
        }
        let complaints = complaints(&messages);
        if complaints.is_empty() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(Err(complaints))
    }
}

/// Makes `to` hold the files of `from` and no others; writes what differs only.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let original = from.join(entry.file_name());
        let is_folder = entry.file_type()?.is_dir();
        let stays = if is_folder {
            original.is_dir()
        } else {
            original.is_file()
        };
        match (stays, is_folder) {
            (true, _) => {}
            (false, true) => fs::remove_dir_all(entry.path())?,
            (false, false) => fs::remove_file(entry.path())?,
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let (original, copy) = (entry.path(), to.join(&name));
        if original.is_dir() {
            if LEFT_OUT.iter().all(|left_out| name != *left_out) {
                mirror(&original, &copy)?;
            }
        } else if name != ".git" {
            let bytes = fs::read(&original)?;
            if fs::read(&copy).ok().as_ref() != Some(&bytes) {
                fs::write(&copy, bytes)?;
            }
        }
    }
    Ok(())
}

/// The test programs among cargo's messages.
fn programs(messages: &str) -> Vec<Program> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        profile: Option<Profile>,
        manifest_path: Option<PathBuf>,
        target: Option<Target>,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let program = |line: &str| {
        let message: Message = serde_json::from_str(line).ok()?;
        message.profile.filter(|profile| profile.test)?;
        let folder = message.manifest_path?.parent()?.to_owned();
        Some(Program {
            path: message.executable?,
            target: message.target?.name,
            krate: folder.file_name()?.to_string_lossy().into_owned(),
            folder,
        })
    };
    messages.lines().filter_map(program).collect()
}

/// The errors among cargo's messages.
fn complaints(messages: &str) -> Vec<Complaint> {
    #[derive(Deserialize)]
    struct Message {
        message: Diagnostic,
    }
    #[derive(Deserialize)]
    struct Diagnostic {
        level: String,
        rendered: Option<String>,
        spans: Vec<Span>,
        children: Vec<Diagnostic>,
    }
    #[derive(Deserialize)]
    struct Span {
        file_name: String,
        byte_start: usize,
        byte_end: usize,
        is_primary: bool,
        expansion: Option<Box<Expansion>>,
    }
    #[derive(Deserialize)]
    struct Expansion {
        span: Span,
    }
    fn add(span: Span, places: &mut Vec<(String, Range<usize>)>) {
        places.push((span.file_name, span.byte_start..span.byte_end));
        if let Some(expansion) = span.expansion {
            add(expansion.span, places);
        }
    }
    fn all(diagnostic: Diagnostic, places: &mut Vec<(String, Range<usize>)>) {
        let mut spans = diagnostic.spans;
        spans.sort_by_key(|span| !span.is_primary);
        spans.into_iter().for_each(|span| add(span, places));
        let children = diagnostic.children.into_iter();
        children.for_each(|child| all(child, places));
    }
    let complaint = |line: &str| {
        let mut said = serde_json::from_str::<Message>(line).ok()?.message;
        let text = said.rendered.take()?;
        let mut places = Vec::new();
        let is_error = said.level.starts_with("error");
        all(said, &mut places);
        is_error.then_some(Complaint { text, places })
    };
    messages.lines().filter_map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_catalogue::Scratch;

    #[test]
    fn a_copy_follows_the_project() {
        let scratch = Scratch::new("mutants-tree");
        let write = |path: &str, text: &str| {
            let path = scratch.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Cargo.toml", "a");
        write("crates/x/src/lib.rs", "0.5 * n");
        write("target/debug/x", "built");
        write(".git/HEAD", "a");
        let tree = Tree::copy(scratch.root()).unwrap();
        let read = |path: &str| fs::read_to_string(tree.root.join(path)).ok();
        assert_eq!(read("crates/x/src/lib.rs").as_deref(), Some("0.5 * n"));
        assert!(read("target/debug/x").is_none() && read(".git/HEAD").is_none());
        let written = |path: &str| {
            fs::metadata(tree.root.join(path))
                .unwrap()
                .modified()
                .unwrap()
        };
        let before = written("Cargo.toml");
        write("crates/x/src/lib.rs", "n");
        write("crates/y/src/lib.rs", "y");
        Tree::copy(scratch.root()).unwrap();
        assert_eq!(read("crates/x/src/lib.rs").as_deref(), Some("n"));
        assert_eq!(read("crates/y/src/lib.rs").as_deref(), Some("y"));
        assert_eq!(written("Cargo.toml"), before);
        fs::remove_dir_all(scratch.path("crates/y")).unwrap();
        fs::remove_file(scratch.path("Cargo.toml")).unwrap();
        Tree::copy(scratch.root()).unwrap();
        assert!(read("crates/y/src/lib.rs").is_none() && read("Cargo.toml").is_none());
    }

    #[test]
    fn a_fault_is_taken_out_again() {
        let scratch = Scratch::new("mutants-fault");
        fs::write(scratch.path("x.rs"), "a + 0.5 * n").unwrap();
        let tree = Tree {
            project: scratch.root().to_owned(),
            root: scratch.root().to_owned(),
            target: scratch.root().to_owned(),
        };
        let fault = Fault {
            file: "x.rs".to_owned(),
            before: "0.5 * n".to_owned(),
            after: "n".to_owned(),
            ..Fault::default()
        };
        let text = || fs::read_to_string(scratch.path("x.rs")).unwrap();
        assert_eq!(tree.with(&fault, || Ok(text())).unwrap(), "a + n");
        assert_eq!(text(), "a + 0.5 * n");
        assert!(tree.with(&fault, || Err::<(), _>("broken".into())).is_err());
        assert_eq!(text(), "a + 0.5 * n");
    }

    #[test]
    fn test_programs_are_found_among_messages() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/p/npb-a/Cargo.toml","target":{"name":"npb_a"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/p/npb-a/Cargo.toml","target":{"name":"npb_a"},"profile":{"test":true},"executable":"/t/lib-1"}
{"reason":"compiler-artifact","manifest_path":"/p/npb-a/Cargo.toml","target":{"name":"tool"},"profile":{"test":false},"executable":"/t/tool"}
{"reason":"compiler-artifact","manifest_path":"/p/npb-b/Cargo.toml","target":{"name":"it"},"profile":{"test":true},"executable":"/t/it-2"}
{"reason":"build-finished","success":true}"#;
        let program = |path: &str, krate: &str, target: &str| Program {
            path: path.into(),
            krate: krate.to_owned(),
            target: target.to_owned(),
            folder: Path::new("/p").join(krate),
        };
        let wanted = [
            program("/t/lib-1", "npb-a", "npb_a"),
            program("/t/it-2", "npb-b", "it"),
        ];
        assert_eq!(programs(messages), wanted);
    }

    #[test]
    fn errors_are_found_among_messages_with_all_places() {
        let span = |file: &str, at: usize, first: bool, more: &str| {
            format!(
                r#"{{"file_name":"{file}","byte_start":{at},"byte_end":9,"is_primary":{first},"expansion":{more}}}"#
            )
        };
        let inner = span("a.rs", 3, true, "null");
        let spans = [
            span("b.rs", 1, false, "null"),
            span("m.rs", 2, true, &format!(r#"{{"span":{inner}}}"#)),
        ]
        .join(",");
        let child = span("c.rs", 4, true, "null");
        let child =
            format!(r#"{{"level":"note","rendered":null,"spans":[{child}],"children":[]}}"#);
        let line = |level: &str| {
            let message = format!(
                r#"{{"level":"{level}","rendered":"no","spans":[{spans}],"children":[{child}]}}"#
            );
            format!(r#"{{"reason":"compiler-message","message":{message}}}"#)
        };
        let found = complaints(&[line("warning"), line("error")].join("\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "no");
        let places: Vec<(&str, usize)> = found[0]
            .places
            .iter()
            .map(|(f, at)| (&f[..], at.start))
            .collect();
        assert_eq!(places, [("m.rs", 2), ("a.rs", 3), ("b.rs", 1), ("c.rs", 4)]);
    }
}
