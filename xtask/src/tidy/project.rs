//! What the rules look at, and what they report.

use std::fmt;

use super::lock::Lock;
use super::manifest::{self, Manifest};
use super::tree::Tree;
use npb_catalogue::Result;

/// A broken rule and where.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
}

impl Violation {
    pub(super) fn new(path: &str, line: usize, message: String) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// What the rules look at.
pub(super) struct Project {
    pub(super) tree: Tree,
    pub(super) members: Vec<Manifest>,
    pub(super) lock: Lock,
    pub(super) lock_text: String,
}

impl Project {
    pub(super) fn new(tree: Tree) -> Result<Self> {
        let root = tree
            .text("Cargo.toml")
            .ok_or("no Cargo.toml in the project's root")?;
        let patterns = manifest::members(root)?;
        let members = tree
            .texts()
            .filter(|(path, _)| is_member(&patterns, path))
            .map(|(path, text)| Manifest::parse(path, text))
            .collect::<Result<Vec<_>>>()?;
        let lock_text = tree
            .text("Cargo.lock")
            .ok_or("no Cargo.lock in the project's root")?
            .to_owned();
        Ok(Self {
            lock: Lock::parse(&lock_text)?,
            lock_text,
            members,
            tree,
        })
    }
}

/// `path` is the manifest of a workspace member: `member/Cargo.toml`, or `folder/x/Cargo.toml` for a pattern `folder/*`.
fn is_member(patterns: &[String], path: &str) -> bool {
    let Some(folder) = path.strip_suffix("/Cargo.toml") else {
        return false;
    };
    patterns
        .iter()
        .any(|pattern| match pattern.strip_suffix("/*") {
            Some(parent) => folder.rsplit_once('/').is_some_and(|(p, _)| p == parent),
            None => folder == pattern,
        })
}
