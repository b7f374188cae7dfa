//! What the driver and the experiments of this workspace both know: lists of experiments, data sets, the page of a report.
//!
//! The driver (`cargo xtask`) is built before anything else and by everybody, so that this package takes no crate of the library.

#![allow(clippy::print_stdout, reason = "a command-line tool talks to its user")]

mod arguments;
pub mod data;
mod listed;
mod machine;
mod names;
mod page;
pub mod results;
mod scratch;

use std::path::{Path, PathBuf};

pub use arguments::{ReproduceArgs, Scale, ValidateArgs};
pub use listed::{Entry, Listed};
pub use machine::{facts, revision, today};
pub use names::{choose, fits};
pub use page::{LeftOut, Page, Section, write_file};
pub use scratch::Scratch;

/// Any failure of a task; the text is for the person at the keyboard.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// What a task hands back.
pub type Result<T> = std::result::Result<T, Failure>;

/// The project's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
