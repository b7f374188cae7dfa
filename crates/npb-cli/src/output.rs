//! Where results go: standard output, or a file that is there only when it is whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use crate::args::Out;
use crate::failure::{Failure, Result};
use crate::sheet::Sheet;

/// Writes a table to where the options say.
pub(crate) fn sheet(sheet: &Sheet, out: &Out) -> Result<()> {
    bytes(&sheet.written(out.format())?, out.out.as_deref())
}

/// Writes everything to a file, or to standard output without one. A reader that goes away early is no failure.
pub(crate) fn bytes(bytes: &[u8], out: Option<&Path>) -> Result<()> {
    if let Some(path) = out.filter(|path| path.as_os_str() != "-") {
        return file(bytes, path);
    }
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(format_args!(
            "standard output: cannot write: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Fails early where a file could not be written at the end of a long fit.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(Failure::usage(format_args!(
            "{}: there is no folder {}; make it first",
            path.display(),
            folder.display()
        )));
    }
    Ok(())
}

/// There, but a device, a pipe or a folder: nothing to be replaced by a file.
pub(crate) fn is_no_file(path: &Path) -> bool {
    path.exists() && !path.is_file()
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// To a temporary file in the same folder, which then takes the name.
fn file(bytes: &[u8], path: &Path) -> Result<()> {
    check_folder(path)?;
    if is_no_file(path) {
        let written = fs::write(path, bytes);
        return written
            .map_err(|e| Failure::failed(format_args!("{}: cannot write: {e}", path.display())));
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", process::id()));
    let temporary = folder_of(path).join(name);
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Failure::failed(format_args!("{}: cannot write: {error}", path.display()))
    })
}
