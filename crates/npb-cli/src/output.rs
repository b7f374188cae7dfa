//! Where results go: standard output, or a file that is there only when it is whole.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::{Format, Out};
use crate::failure::{Failure, Result};
use crate::sheet::Sheet;

/// Rows of a typed file that are written at once, however many come.
const BLOCK: usize = 65_536;

/// Writes a table to where the options say.
pub(crate) fn sheet(sheet: Sheet, out: &Out) -> Result<()> {
    let mut answers = Answers::open(out)?;
    answers.push(sheet)?;
    answers.finish()
}

/// Writes everything to a file, or to standard output without one.
pub(crate) fn bytes(bytes: &[u8], out: Option<&Path>) -> Result<()> {
    let (mut to, place) = opened(out)?;
    to.write_all(bytes).map_err(|e| place.wrong(&e))?;
    place.done(to)
}

/// A table that is written as its rows come. A reader that goes away early is no failure.
pub(crate) struct Answers {
    format: Format,
    place: Place,
    to: To,
    /// What is not written yet.
    rows: Sheet,
    begun: bool,
}

type Sink = Box<dyn Write + Send>;

enum To {
    Text(Sink),
    Typed(npb_arrow::Writer<Sink>),
    Nothing,
}

impl Answers {
    pub(crate) fn open(out: &Out) -> Result<Self> {
        let (to, place) = opened(out.out.as_deref())?;
        Ok(Self {
            format: out.format(),
            place,
            to: To::Text(to),
            rows: Sheet::default(),
            begun: false,
        })
    }

    /// Nobody reads what is written.
    pub(crate) fn is_unread(&self) -> bool {
        self.place.gone.load(Ordering::Relaxed)
    }

    /// Adds rows of the same columns.
    pub(crate) fn push(&mut self, rows: Sheet) -> Result<()> {
        self.rows.append(rows);
        match self.format {
            Format::Table => Ok(()),
            Format::Csv | Format::Json => self.write(self.rows.n_rows()),
            Format::Parquet | Format::Arrow => {
                while self.rows.n_rows() >= BLOCK {
                    self.write(BLOCK)?;
                }
                Ok(())
            }
        }
    }

    /// Writes the first rows of those that are not written.
    fn write(&mut self, n_rows: usize) -> Result<()> {
        let rows = self.rows.split_to(n_rows);
        let is_first = !self.begun;
        let text = match self.format {
            Format::Csv => rows.csv(is_first)?,
            Format::Json if n_rows == 0 => return Ok(()),
            Format::Json => [if is_first { "[\n" } else { ",\n" }, &rows.json()]
                .concat()
                .into_bytes(),
            Format::Table => rows.aligned().into_bytes(),
            Format::Parquet => return self.write_typed(&rows, npb_arrow::Format::Parquet),
            Format::Arrow => return self.write_typed(&rows, npb_arrow::Format::Arrow),
        };
        self.begun = true;
        self.write_text(&text)
    }

    fn write_text(&mut self, text: &[u8]) -> Result<()> {
        let To::Text(to) = &mut self.to else {
            return Ok(());
        };
        to.write_all(text).map_err(|e| self.place.wrong(&e))
    }

    fn write_typed(&mut self, rows: &Sheet, format: npb_arrow::Format) -> Result<()> {
        let (rows, wrong) = (rows.typed()?, |e| self.place.wrong(&e));
        let mut writer = match std::mem::replace(&mut self.to, To::Nothing) {
            To::Text(to) => npb_arrow::Writer::new(to, &rows, format).map_err(wrong)?,
            To::Typed(writer) => writer,
            To::Nothing => return Ok(()),
        };
        writer.write(&rows).map_err(wrong)?;
        (self.to, self.begun) = (To::Typed(writer), true);
        Ok(())
    }

    /// All rows are there.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.rows.n_rows() > 0 || !self.begun {
            self.write(self.rows.n_rows())?;
        }
        if self.format == Format::Json {
            self.write_text(if self.begun { b"\n]\n" } else { b"[]\n" })?;
        }
        let to = match self.to {
            To::Text(to) => to,
            To::Typed(writer) => writer.finish().map_err(|e| self.place.wrong(&e))?,
            To::Nothing => return Ok(()),
        };
        self.place.done(to)
    }
}

/// Where bytes go, for messages and for the end.
struct Place {
    name: String,
    part: Option<Part>,
    /// The reader of standard output is gone.
    gone: Arc<AtomicBool>,
}

impl Place {
    fn wrong(&self, error: &dyn Display) -> Failure {
        Failure::failed(format_args!("{}: cannot write: {error}", self.name))
    }

    fn done(self, mut to: Sink) -> Result<()> {
        to.flush().map_err(|e| self.wrong(&e))?;
        let renamed = self.part.as_ref().map_or(Ok(()), Part::rename);
        renamed.map_err(|e| self.wrong(&e))
    }
}

/// A temporary file in the folder of one whose name it takes when it is whole, and which is removed otherwise.
struct Part {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl Part {
    fn rename(&self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Under its new name it stays.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Standard output, to which nothing more is written when its reader is gone.
struct Stdout {
    gone: Arc<AtomicBool>,
}

impl Stdout {
    fn unless_gone<T>(&self, otherwise: T, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.gone.load(Ordering::Relaxed) {
            return Ok(otherwise);
        }
        match write() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.gone.store(true, Ordering::Relaxed);
                Ok(otherwise)
            }
            written => written,
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_gone(bytes.len(), || io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_gone((), || io::stdout().flush())
    }
}

/// Standard output for none and for `-`; a device as it is; else a part of a file.
fn opened(out: Option<&Path>) -> Result<(Sink, Place)> {
    let gone = Arc::<AtomicBool>::default();
    let place = |name: String, part| Place {
        name,
        part,
        gone: gone.clone(),
    };
    let Some(path) = out.filter(|path| path.as_os_str() != "-") else {
        let to = Stdout { gone: gone.clone() };
        return Ok((Box::new(to), place("standard output".to_owned(), None)));
    };
    check_folder(path)?;
    let mut place = place(path.display().to_string(), None);
    if is_no_file(path) {
        let file = File::options().write(true).truncate(true).open(path);
        return Ok((Box::new(file.map_err(|e| place.wrong(&e))?), place));
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", process::id()));
    let temporary = folder_of(path).join(name);
    let created = File::create(&temporary).and_then(|file| Ok((file.try_clone()?, file)));
    let (to, file) = created.map_err(|e| place.wrong(&e))?;
    place.part = Some(Part {
        file,
        temporary,
        path: path.to_owned(),
    });
    Ok((Box::new(BufWriter::new(to)), place))
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
