//! Files of Arrow and Parquet, as bytes in memory.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::SchemaRef;
use bytes::Bytes;
use npb_data::{RawColumn, RawTable};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::from_arrow::{Options, can_be_read, from_batches};
use crate::{ArrowError, to_batch};

/// Rows that are read at once.
const BATCH: usize = 65_536;

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// An Arrow file, known as Feather, too.
    Arrow,
    /// A stream of Arrow batches.
    Stream,
}

impl Format {
    /// What a file is, by its first bytes; `None` for another one.
    pub fn of(bytes: &[u8]) -> Option<Format> {
        match bytes {
            [b'P', b'A', b'R', b'1', ..] => Some(Format::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some(Format::Arrow),
            [0xff, 0xff, 0xff, 0xff, ..] => Some(Format::Stream),
            _ => None,
        }
    }

    /// What a file of this name is.
    pub fn of_name(name: &str) -> Option<Format> {
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "parquet" | "pq" => Some(Format::Parquet),
            "arrow" | "feather" | "ipc" => Some(Format::Arrow),
            "arrows" => Some(Format::Stream),
            _ => None,
        }
    }
}

/// Reads a Parquet file, an Arrow file or an Arrow stream: which it is, its first bytes say. `file` is used in errors only.
///
/// Parquet files do not keep the order of texts, whatever they say: a dictionary there is in the order in which texts occur.
///
/// # Errors
/// [`ArrowError::File`] for other or broken bytes, and as [`from_batches`].
pub fn read(file: &str, bytes: Vec<u8>, options: &Options) -> Result<RawTable, ArrowError> {
    // The libraries of Arrow and Parquet panic at some broken files.
    let read = || read_unguarded(file, bytes, options);
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(ArrowError::file(file, "the file is broken")))
}

fn read_unguarded(file: &str, bytes: Vec<u8>, options: &Options) -> Result<RawTable, ArrowError> {
    let wrong = |e: &dyn std::fmt::Display| ArrowError::file(file, e);
    let checked =
        |batch: Result<RecordBatch, arrow_schema::ArrowError>| batch.map_err(|e| wrong(&e));
    match Format::of(&bytes) {
        Some(Format::Parquet) => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes))
                .map_err(|e| wrong(&e))?;
            let wanted = wanted(builder.schema(), options);
            let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
            let reader = builder.with_projection(mask).with_batch_size(BATCH).build();
            let reader = reader.map_err(|e| wrong(&e))?;
            let schema = arrow_array::RecordBatchReader::schema(&reader);
            let table = from_batches(file, schema, reader.map(checked), options)?;
            let (names, mut columns) = table.into_parts();
            for column in &mut columns {
                if let RawColumn::Texts { ordered, .. } = column {
                    *ordered = false;
                }
            }
            RawTable::new(names, columns).map_err(|source| ArrowError::Data {
                file: file.to_owned(),
                source,
            })
        }
        Some(Format::Arrow) => {
            let messages = messages_of(&bytes).ok_or_else(|| wrong(&"the file is cut off"))?;
            let buffer = Buffer::from(bytes);
            let buffer = buffer.slice_with_length(messages.start, messages.len());
            from_stream(file, buffer, options)
        }
        Some(Format::Stream) => from_stream(file, Buffer::from(bytes), options),
        None => Err(wrong(&"it does not begin as Parquet or Arrow files do")),
    }
}

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredColumn {
    /// Its name.
    pub name: String,
    /// Its type, as Arrow calls it.
    pub kind: String,
    /// Whether [`read`] can make a raw column of it.
    pub readable: bool,
}

/// The columns of a file, without its cells.
///
/// # Errors
/// [`ArrowError::File`] for other or broken bytes.
pub fn columns(file: &str, bytes: &[u8]) -> Result<Vec<StoredColumn>, ArrowError> {
    let schema = || schema_of(file, bytes);
    let schema = catch_unwind(AssertUnwindSafe(schema))
        .unwrap_or_else(|_| Err(ArrowError::file(file, "the file is broken")))?;
    let column = |field: &arrow_schema::FieldRef| StoredColumn {
        name: field.name().clone(),
        kind: field.data_type().to_string(),
        readable: can_be_read(field.data_type()),
    };
    Ok(schema.fields().iter().map(column).collect())
}

fn schema_of(file: &str, bytes: &[u8]) -> Result<SchemaRef, ArrowError> {
    let wrong = |e: &dyn std::fmt::Display| ArrowError::file(file, e);
    let messages = match Format::of(bytes) {
        Some(Format::Parquet) => {
            let bytes = Bytes::copy_from_slice(bytes);
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes);
            return Ok(builder.map_err(|e| wrong(&e))?.schema().clone());
        }
        Some(Format::Arrow) => messages_of(bytes).ok_or_else(|| wrong(&"the file is cut off"))?,
        Some(Format::Stream) => 0..bytes.len(),
        None => return Err(wrong(&"it does not begin as Parquet or Arrow files do")),
    };
    let mut decoder = StreamDecoder::new();
    decoder
        .decode(&mut Buffer::from(&bytes[messages]))
        .map_err(|e| wrong(&e))?;
    let schema = decoder.schema();
    schema.ok_or_else(|| wrong(&"it says nothing of its columns"))
}

fn wanted(schema: &SchemaRef, options: &Options) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    let wanted = fields.filter(|(_, field)| options.wants(field.name()));
    wanted.map(|(j, _)| j).collect()
}

/// Where the stream is that an Arrow file holds: behind the magic, before the footer and its length.
fn messages_of(bytes: &[u8]) -> Option<Range<usize>> {
    let trailer = bytes.len().checked_sub(10)?;
    let (length, magic) = bytes[trailer..].split_at(4);
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    let end = trailer.checked_sub(length)?;
    // Writers pad the magic to the alignment that they like.
    let start = (8..=64)
        .step_by(8)
        .find(|&at| bytes[..end].get(at..at + 4) == Some(&[0xff; 4]))?;
    (magic == b"ARROW1").then_some(start..end)
}

/// The reader that allocates nothing by what a header claims.
fn from_stream(file: &str, mut bytes: Buffer, options: &Options) -> Result<RawTable, ArrowError> {
    let mut decoder = StreamDecoder::new();
    let mut next = || {
        let batch = decoder.decode(&mut bytes);
        let batch = batch.map_err(|e| ArrowError::file(file, e))?;
        Ok((batch, decoder.schema()))
    };
    let (first, schema) = next()?;
    let schema = schema.ok_or_else(|| ArrowError::file(file, "it says nothing of its columns"))?;
    let rest = std::iter::from_fn(|| next().map(|(batch, _)| batch).transpose());
    let table = from_batches(file, schema, first.map(Ok).into_iter().chain(rest), options)?;
    decoder.finish().map_err(|e| ArrowError::file(file, e))?;
    Ok(table)
}

/// The bytes of a file: Parquet compressed by zstd, Arrow files and streams not compressed.
///
/// # Errors
/// [`ArrowError::Write`].
pub fn write(table: &RawTable, format: Format) -> Result<Vec<u8>, ArrowError> {
    let batch = to_batch(table)?;
    let mut bytes = Vec::new();
    match format {
        Format::Parquet => {
            let codec = Compression::ZSTD(ZstdLevel::default());
            let properties = WriterProperties::builder().set_compression(codec).build();
            let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties))
                .map_err(ArrowError::write)?;
            writer.write(&batch).map_err(ArrowError::write)?;
            writer.close().map_err(ArrowError::write)?;
        }
        Format::Arrow => {
            let mut writer =
                FileWriter::try_new(&mut bytes, &batch.schema()).map_err(ArrowError::write)?;
            writer.write(&batch).map_err(ArrowError::write)?;
            writer.finish().map_err(ArrowError::write)?;
        }
        Format::Stream => {
            let mut writer =
                StreamWriter::try_new(&mut bytes, &batch.schema()).map_err(ArrowError::write)?;
            writer.write(&batch).map_err(ArrowError::write)?;
            writer.finish().map_err(ArrowError::write)?;
        }
    }
    Ok(bytes)
}
