//! What goes wrong, and the exit code that says so.

use std::fmt;
use std::path::Path;

/// Exit codes, as `npb --help` lists them.
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const BAD_DATA: u8 = 3;
pub(crate) const NOT_CONVERGED: u8 = 4;
pub(crate) const INTERRUPTED: u8 = 130;

/// An end without success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Something that the command line cannot mend: a disk that is full, a file that cannot be written.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(FAILED, message)
    }

    /// Options that cannot be.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// Data that do not fit, with the place.
    pub(crate) fn bad_data(message: impl fmt::Display) -> Self {
        Self::new(BAD_DATA, message)
    }

    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Bad data, with the file that holds them.
pub(crate) fn in_file<E: fmt::Display>(file: &Path) -> impl Fn(E) -> Failure + '_ {
    move |problem| Failure::bad_data(format_args!("{}: {problem}", file.display()))
}
