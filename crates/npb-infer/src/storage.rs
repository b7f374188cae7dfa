//! Saved models: the one file format of the workspace.
//!
//! A file is, in order and with little-endian integers,
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic `89 4E 50 42 0D 0A 1A 0A` (not text; damaged by line-ending conversion on purpose) |
//! | 4 | format version, now 1 |
//! | 2 + n | model name: length, UTF-8 |
//! | 2 + n | version of the crate that wrote it: length, UTF-8 |
//! | 8 | payload length |
//! | ... | payload: bincode 2, little-endian, integers of fixed width |
//! | 8 | CRC-64/XZ of everything before |
//!
//! **What a model crate does.** It implements [`Saved`](crate::Saved): its content is a plain struct
//! without tagged, untagged, flattened or skipped serde fields, every field of which it validates
//! after loading (a checksum is no defence against a forged file), reporting
//! [`FormatError::Invalid`] or an error of its own.
//!
//! **Hostile files.** [`from_bytes`] never panics, whatever the bytes, as long as the `Deserialize`
//! of the value does not. Together with the bytes themselves it needs at most 16 times their number
//! plus 1 MiB of memory: announced lengths are never believed, and every element of a sequence or
//! map is charged to a budget of that size, at three times its size in memory (a growing vector),
//! before it is decoded. No sensible content comes near the limit, except more than some ten
//! thousand empty `Option`s in a file with little else: save those as a mask and the values that
//! are there. What a `Deserialize` reserves by itself is not counted: check sizes
//! before, and do not save recursive types.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

mod crc;
mod metered;

const MAGIC: [u8; 8] = *b"\x89NPB\r\n\x1a\n";
const FORMAT_VERSION: u32 = 1;
const CHECKSUM_LEN: usize = 8;
/// Bytes of the payload length.
pub(crate) const LENGTH_LEN: usize = 8;
/// Decoding may allocate this many bytes per byte of the file; with the bytes of the file and its
/// strings that makes 16.
const MEMORY_FACTOR: u64 = 14;
const MEMORY_CONSTANT: u64 = 1 << 20;

/// What is wrong with the bytes of a saved model.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes do not start with the magic of this format.
    #[error("not a saved npb model: the first bytes are not its mark")]
    Foreign,
    /// The file was written by a later release with another layout.
    #[error(
        "saved in format {found}, this program reads formats up to {supported}: use a newer release"
    )]
    NewerFormat {
        /// Format version in the file.
        found: u32,
        /// Newest version read here.
        supported: u32,
    },
    /// The file holds another model than the one asked for.
    #[error(
        "holds a {found:?}, not a {expected:?}: load it with that model; if that is the same model by an earlier version: fit again, or load it with the version that wrote it"
    )]
    OtherModel {
        /// The model asked for.
        expected: String,
        /// The model in the file.
        found: String,
    },
    /// The bytes end early.
    #[error("truncated: {found} bytes of at least {needed}")]
    Truncated {
        /// Bytes that the header announces (or that the header itself needs).
        needed: u64,
        /// Bytes present.
        found: u64,
    },
    /// The bytes are not those that were written.
    #[error("altered: {what}")]
    Altered {
        /// What does not agree.
        what: String,
    },
    /// The payload has a correct checksum but does not decode to the model's values.
    #[error(
        "{model} (written by version {written_by}): the content cannot be decoded ({reason}): the file is damaged, or of an earlier layout: fit again, or load it with the version that wrote it"
    )]
    Payload {
        /// Model in the file.
        model: String,
        /// Version of the crate that wrote it.
        written_by: String,
        /// What the decoder met.
        reason: String,
    },
    /// The payload decodes, but a field has a value that the model does not allow. Made by model
    /// crates in their validation.
    #[error("{model}: field {field} {reason}")]
    Invalid {
        /// Model in the file.
        model: &'static str,
        /// The field.
        field: &'static str,
        /// Its value and the rule it breaks, written to follow the field's name: `"is -1, must be
        /// positive"`.
        reason: String,
    },
    /// The value could not be encoded when saving.
    #[error("{model}: cannot be encoded: {reason}")]
    Encode {
        /// Model to be saved.
        model: String,
        /// What the encoder met.
        reason: String,
    },
}

/// A file could not be saved or loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The content is not what it should be.
    #[error("{}: {source}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
}

/// Saves `value` as the file `path`, which then holds either its old content or all of the new one,
/// even after a crash: the bytes are written to a temporary file in the same folder, synced and
/// renamed.
///
/// `model` names the model and kind of content (such as `"npb-iqgme/vb-fit"`) and is checked by
/// [`load`]; `crate_version` is `env!("CARGO_PKG_VERSION")` of the model crate.
///
/// # Errors
/// [`StorageError`], naming the path. The temporary file is removed again.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("npb-storage-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// use npb_infer::storage;
/// let path = folder.join("weights.npb");
/// storage::save(&path, "demo/weights", "0.1.0", &vec![1.5, -2.0]).unwrap();
/// let weights: Vec<f64> = storage::load(&path, "demo/weights").unwrap();
/// assert_eq!(weights, [1.5, -2.0]);
/// assert!(storage::load::<Vec<f64>>(&path, "demo/other").unwrap_err().to_string().contains("demo/weights"));
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
pub fn save<T: Serialize + ?Sized>(
    path: impl AsRef<Path>,
    model: &str,
    crate_version: &str,
    value: &T,
) -> Result<(), StorageError> {
    let path = path.as_ref();
    let bytes = to_bytes(model, crate_version, value).map_err(|e| in_file(path, e))?;
    write_atomically(path, &bytes)
}

/// Loads what [`save`] wrote. Only the first bytes of a foreign file are read.
///
/// # Errors
/// [`StorageError`], naming the path and saying whether the file is foreign, truncated, altered, of
/// another model or of a newer format.
pub fn load<T: DeserializeOwned>(path: impl AsRef<Path>, model: &str) -> Result<T, StorageError> {
    let path = path.as_ref();
    let bytes = read(path)?;
    from_bytes(model, &bytes).map_err(|e| in_file(path, e))
}

/// The bytes that [`save`] would write.
///
/// # Errors
/// [`FormatError::Encode`] when serde cannot encode the value, or a name is longer than 65,535
/// bytes.
pub fn to_bytes<T: Serialize + ?Sized>(
    model: &str,
    crate_version: &str,
    value: &T,
) -> Result<Vec<u8>, FormatError> {
    let refuse = |reason: String| FormatError::Encode {
        model: model.to_owned(),
        reason,
    };
    let payload =
        bincode::serde::encode_to_vec(value, wire_config()).map_err(|e| refuse(e.to_string()))?;
    let mut bytes = Vec::with_capacity(payload.len() + model.len() + crate_version.len() + 64);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT_VERSION.to_le_bytes());
    for name in [model, crate_version] {
        let len = u16::try_from(name.len())
            .map_err(|_| refuse(format!("name of {} bytes", name.len())))?;
        bytes.extend(len.to_le_bytes());
        bytes.extend(name.as_bytes());
    }
    seal(&mut bytes, &payload);
    Ok(bytes)
}

/// Completes a header by payload length, payload and checksum.
pub(crate) fn seal(bytes: &mut Vec<u8>, payload: &[u8]) {
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc::crc64(bytes).to_le_bytes());
}

/// A number that is, but for chance, another one for another value: of the data and configuration of a fit, so that a checkpoint of one fit is not taken
/// for that of another. Cost: one pass over the encoded value, which is not stored.
///
/// # Errors
/// [`FormatError::Encode`] when serde cannot encode the value.
///
/// ```
/// use npb_infer::storage::fingerprint;
/// assert_eq!(fingerprint(&(1.5, "a"))?, fingerprint(&(1.5, "a"))?);
/// assert_ne!(fingerprint(&(1.5, "a"))?, fingerprint(&(1.5, "b"))?);
/// # Ok::<(), npb_infer::storage::FormatError>(())
/// ```
pub fn fingerprint<T: Serialize + ?Sized>(value: &T) -> Result<u64, FormatError> {
    let mut mixer = Mixer(0);
    bincode::serde::encode_into_std_write(value, &mut mixer, wire_config()).map_err(|e| {
        FormatError::Encode {
            model: "fingerprint".to_owned(),
            reason: e.to_string(),
        }
    })?;
    Ok(mixer.0)
}

/// Mixes what is written to it, word by word.
struct Mixer(u64);

impl Write for Mixer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Rotation and multiplication by an odd number lose nothing; the length tells padding from zeros.
        let mut mix =
            |word: u64| self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mix(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(u64::from_le_bytes(word));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The value in bytes made by [`to_bytes`] for the same `model`.
///
/// # Errors
/// [`FormatError`], which says what is wrong with the bytes.
pub fn from_bytes<T: DeserializeOwned>(model: &str, bytes: &[u8]) -> Result<T, FormatError> {
    let file = Envelope::open(bytes)?;
    if file.model != model {
        return Err(FormatError::OtherModel {
            expected: model.to_owned(),
            found: file.model.to_owned(),
        });
    }
    let budget = MEMORY_FACTOR * bytes.len() as u64 + MEMORY_CONSTANT;
    metered::decode(file.payload, wire_config(), budget).map_err(|reason| FormatError::Payload {
        model: file.model.to_owned(),
        written_by: file.crate_version.to_owned(),
        reason,
    })
}

/// Fixed-width integers: bytes read then equal bytes claimed, and f64 dominates real payloads
/// anyway.
fn wire_config() -> impl bincode::config::Config {
    bincode::config::standard().with_fixed_int_encoding()
}

/// The parts of a file whose length and checksum are right.
struct Envelope<'a> {
    model: &'a str,
    crate_version: &'a str,
    payload: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut rest = Cursor { bytes, at: 0 };
        check_magic(bytes)?;
        rest.take(MAGIC.len() as u64)?;
        let version = u32::from_le_bytes(rest.array()?);
        if version > FORMAT_VERSION {
            return Err(FormatError::NewerFormat {
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let (model, crate_version) = (rest.name()?, rest.name()?);
        let payload_len = u64::from_le_bytes(rest.array()?);
        let payload = rest.take(payload_len)?;
        let content = &bytes[..rest.at];
        let checksum = u64::from_le_bytes(rest.array::<CHECKSUM_LEN>()?);
        if rest.at != bytes.len() {
            return Err(altered(format!(
                "{} bytes follow the end",
                bytes.len() - rest.at
            )));
        }
        if checksum != crc::crc64(content) {
            return Err(altered("the checksum does not agree with the content"));
        }
        if version == 0 {
            return Err(altered("format version 0 never existed"));
        }
        let text = |name| {
            std::str::from_utf8(name).map_err(|_| altered("a name in the header is not UTF-8"))
        };
        Ok(Self {
            model: text(model)?,
            crate_version: text(crate_version)?,
            payload,
        })
    }
}

/// Header (up to the payload length, exclusive) and payload of an undamaged file.
pub(crate) fn header_and_payload(good: &[u8]) -> Result<(&[u8], &[u8]), FormatError> {
    let payload = Envelope::open(good)?.payload;
    let header_len = good.len() - CHECKSUM_LEN - payload.len() - LENGTH_LEN;
    Ok((&good[..header_len], payload))
}

/// Makes the checksum agree with the content, as a forger would.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if let Some((content, checksum)) = bytes.split_last_chunk_mut::<CHECKSUM_LEN>() {
        *checksum = crc::crc64(content).to_le_bytes();
    }
}

fn altered(what: impl Into<String>) -> FormatError {
    FormatError::Altered { what: what.into() }
}

/// Too short to tell but right so far counts as truncated, not as foreign.
fn check_magic(bytes: &[u8]) -> Result<(), FormatError> {
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return Err(FormatError::Foreign);
    }
    Ok(())
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: u64) -> Result<&'a [u8], FormatError> {
        let needed = (self.at as u64).saturating_add(n);
        let found = self.bytes.len() as u64;
        if needed > found {
            return Err(FormatError::Truncated { needed, found });
        }
        let part = &self.bytes[self.at..needed as usize];
        self.at = needed as usize;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    fn name(&mut self) -> Result<&'a [u8], FormatError> {
        let len = u16::from_le_bytes(self.array()?);
        self.take(len.into())
    }
}

pub(crate) fn in_file(path: &Path, source: FormatError) -> StorageError {
    StorageError::Format {
        path: path.to_owned(),
        source,
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, StorageError> {
    let failed = |action| {
        move |source| StorageError::Io {
            path: path.to_owned(),
            action,
            source,
        }
    };
    let mut file = File::open(path).map_err(failed("open"))?;
    let len = file.metadata().map_err(failed("read"))?.len();
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut bytes)
        .map_err(failed("read"))?;
    check_magic(&bytes).map_err(|e| in_file(path, e))?;
    bytes.reserve_exact(
        usize::try_from(len)
            .unwrap_or(0)
            .saturating_sub(bytes.len()),
    );
    file.read_to_end(&mut bytes).map_err(failed("read"))?;
    Ok(bytes)
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        // A device or a pipe is written to; a file in its place would be the end of it.
        return fs::write(path, bytes).map_err(|source| StorageError::Io {
            path: path.to_owned(),
            action: "write",
            source,
        });
    }
    let temporary = temporary_beside(path);
    let written = write_and_rename(&temporary, path, bytes);
    if written.is_err() {
        // Best effort: the first error is the one worth reporting.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|(action, source)| StorageError::Io {
        path: path.to_owned(),
        action,
        source,
    })
}

fn write_and_rename(
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
) -> Result<(), (&'static str, io::Error)> {
    let mut file =
        File::create_new(temporary).map_err(|e| ("create a temporary file beside it", e))?;
    file.write_all(bytes).map_err(|e| ("write", e))?;
    file.sync_all().map_err(|e| ("sync", e))?;
    drop(file);
    fs::rename(temporary, path).map_err(|e| ("replace", e))?;
    sync_folder(path).map_err(|e| ("sync the folder of", e))
}

/// The rename itself must reach the disk; only Unix lets a program sync a folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Unique among all threads of this process, and by process id among processes.
fn temporary_beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}-{number}.tmp", process::id()))
}
