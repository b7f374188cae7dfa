//! The command `npb`, run on small files.

mod answers;
mod asking;
mod corpus;
mod documents;
mod exchange;
mod files;
mod fits;
mod further;
mod guide;
mod images;
mod kept;
mod layouts;
mod messages;
mod pages;
mod report;
mod streams;
mod typed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of one test, empty at its start.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a text file")
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Names of the files that are there.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("a file")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_npb"));
        command
            .current_dir(&self.0)
            .args(arguments.split_whitespace());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Standard output of a command that must succeed.
    pub(crate) fn npb(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "npb {arguments}: {}",
            errors(&output)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Standard error of a command that must fail with this exit code and write nothing to standard output.
    pub(crate) fn fails(&self, arguments: &str, code: i32) -> String {
        let output = self.run(arguments);
        let errors = errors(&output);
        assert_eq!(
            output.status.code(),
            Some(code),
            "npb {arguments}: {errors}"
        );
        assert!(output.stdout.is_empty(), "npb {arguments}");
        errors
    }
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard error of a command that must succeed.
pub(crate) fn said(folder: &Folder, arguments: &str) -> String {
    let output = folder.run(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments}: {}",
        errors(&output)
    );
    errors(&output)
}

/// The cells of a table of comma-separated text.
pub(crate) fn cells(csv: &str) -> Vec<Vec<String>> {
    csv.lines()
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}
