//! The files of the project as the rules see them: relative path, size and, for text, content.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use npb_catalogue::Result;

/// One file; `path` is relative to the root and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// `None` for a file that is not UTF-8.
    pub(crate) text: Option<String>,
}

/// All files that belong to the project, sorted by path.
pub(crate) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads the project at `root`: what git tracks or would track, or every file where there is no git.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut paths = match git_files(root) {
            Some(paths) => paths,
            None => walk(root)?,
        };
        paths.sort();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            // A file that git still lists but that was just deleted breaks no rule.
            let Ok(bytes) = fs::read(root.join(&path)) else {
                continue;
            };
            files.push(File {
                size: bytes.len() as u64,
                text: String::from_utf8(bytes).ok(),
                path,
            });
        }
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(crate) fn from_texts(texts: &[(String, String)]) -> Self {
        let mut files: Vec<File> = texts
            .iter()
            .map(|(path, text)| File {
                path: path.clone(),
                size: text.len() as u64,
                text: Some(text.clone()),
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }

    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// Text of the file at exactly this path.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let index = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()?;
        self.files[index].text.as_deref()
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.text(path).is_some()
    }

    /// Path and text of every Rust source file.
    pub(crate) fn rust_sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Path and text of every text file.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let listing = String::from_utf8(output.stdout).ok()?;
    let paths = listing.split('\0').filter(|path| !path.is_empty());
    Some(paths.map(str::to_owned).collect())
}

/// Every file below `root` except build products and version control.
fn walk(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let skipped = path == Path::new("target") || path == Path::new(".git");
            let kind = entry.file_type()?;
            if kind.is_dir() && !skipped {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(found)
}
