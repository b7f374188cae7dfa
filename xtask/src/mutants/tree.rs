//! A copy of the project in which faults are planted, built and tested.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::list::Fault;
use npb_catalogue::Result;

/// Folders that are not copied.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// The copy and its target directory.
pub(super) struct Tree {
    root: PathBuf,
    target: PathBuf,
}

/// The test programs of a crate: unit tests and integration tests.
pub(super) struct Suite {
    /// Folder of the crate, in which cargo runs tests.
    folder: PathBuf,
    programs: Vec<PathBuf>,
}

/// How the tests of a crate ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tests {
    Passed,
    /// The first test that failed.
    Failed(String),
    TimedOut,
}

impl Tree {
    /// Brings the copy under `target/mutants` in line with the project. What is the same is not written again, so that cargo does not build it again.
    pub(super) fn copy(project: &Path) -> Result<Self> {
        let folder = project.join("target").join("mutants");
        let tree = Self {
            root: folder.join("tree"),
            target: folder.join("target"),
        };
        mirror(project, &tree.root)?;
        Ok(tree)
    }

    /// Plants a fault, does `work` and takes the fault out again, whatever happened.
    pub(super) fn with<T>(&self, fault: &Fault, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.root.join(&fault.file);
        let text = fs::read_to_string(&path)?;
        fs::write(&path, text.replacen(&fault.before, &fault.after, 1))?;
        let outcome = work();
        fs::write(&path, text)?;
        outcome
    }

    /// Builds the tests of a crate; what the compiler said when it refuses.
    pub(super) fn build(&self, krate: &str) -> Result<std::result::Result<Suite, String>> {
        let output = Command::new("cargo")
            .args(["test", "-p", krate, "--lib", "--tests", "--no-run"])
            .arg("--message-format=json-render-diagnostics")
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let programs = programs(&String::from_utf8_lossy(&output.stdout));
        if programs.is_empty() {
            return Err(format!("{krate} has no tests").into());
        }
        Ok(Ok(Suite {
            folder: self.root.join("crates").join(krate),
            programs,
        }))
    }

    /// Runs test programs one after the other until one fails or the time is over; of each the tests that match one of the names, or all.
    pub(super) fn test(&self, suite: &Suite, names: &[String], limit: Duration) -> Result<Tests> {
        let end = Instant::now() + limit;
        for program in &suite.programs {
            let mut command = Command::new(program);
            command
                .args(names)
                .current_dir(&suite.folder)
                .env("CARGO_MANIFEST_DIR", &suite.folder);
            let tests = run(command, &self.target.join("tests.txt"), end)?;
            if tests != Tests::Passed {
                return Ok(tests);
            }
        }
        Ok(Tests::Passed)
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
fn programs(messages: &str) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        profile: Option<Profile>,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let program = |line: &str| {
        let message: Message = serde_json::from_str(line).ok()?;
        message
            .executable
            .filter(|_| message.profile.is_some_and(|p| p.test))
    };
    messages.lines().filter_map(program).collect()
}

/// Runs one test program until `end`, with what it says in the file `said`.
fn run(mut command: Command, said: &Path, end: Instant) -> Result<Tests> {
    let out = File::create(said)?;
    command
        .stdin(Stdio::null())
        .stderr(out.try_clone()?)
        .stdout(out);
    let mut child = command.spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(Tests::TimedOut);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(Tests::Passed);
    }
    let said = String::from_utf8_lossy(&fs::read(said)?).into_owned();
    Ok(Tests::Failed(failed(&said).unwrap_or(status.to_string())))
}

/// The first test that a program's output calls failed.
fn failed(said: &str) -> Option<String> {
    let name = |line: &str| {
        let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        (end == "FAILED").then(|| name.to_owned())
    };
    said.lines().find_map(name)
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
        let messages = r#"{"reason":"compiler-artifact","profile":{"test":false,"opt_level":"3"},"executable":null}
{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/lib-1"}
{"reason":"compiler-artifact","profile":{"test":false},"executable":"/t/tool"}
{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/it-2"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(
            programs(messages),
            [Path::new("/t/lib-1"), Path::new("/t/it-2")]
        );
    }

    #[test]
    fn the_failed_test_is_named() {
        let said = "running 2 tests\ntest a::passes ... ok\ntest a::falls ... FAILED\ntest b ... FAILED\n\nfailures:\n";
        assert_eq!(failed(said).as_deref(), Some("a::falls"));
        assert_eq!(failed("thread panicked"), None);
    }
}
