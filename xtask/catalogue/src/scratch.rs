//! Folders for tests, removed when the test ends.

use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder of its own for one test.
pub struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// `name` tells the tests of this program apart.
    pub fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("npb-xtask-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        fs::create_dir_all(&root).unwrap();
        Self { root }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the folder.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.root));
    }
}
