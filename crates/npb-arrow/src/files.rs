//! Files of Arrow and Parquet.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{FileWriter as ArrowFileWriter, StreamWriter};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use npb_data::{RawColumn, RawTable};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::ColumnPath;

use crate::ArrowError;
use crate::from_arrow::{Options, Tables, can_be_read};
use crate::to_arrow::{to_batch, to_plain_batch};

/// Rows of a Parquet file that are read at once.
const BATCH: usize = 65_536;
/// Bytes of an Arrow file that are.
const BLOCK: u64 = 1 << 20;
/// Rows of a Parquet file that are written together.
const ROW_GROUP: usize = 1 << 18;

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

/// Where the bytes of a file are.
#[derive(Debug)]
pub enum Source {
    /// On disk: read as it is needed. The length in bytes goes along.
    File(File, u64),
    /// In memory.
    Bytes(Bytes),
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl Source {
    /// An open file.
    ///
    /// # Errors
    /// Where the system does not say how long it is.
    pub fn file(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::File(file, length))
    }

    /// The bytes from here on, `length` of them if there are so many.
    fn part(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let there = self.len().saturating_sub(start);
        self.get_bytes(start, there.min(length as u64) as usize)
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Source {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(match self {
            Self::File(file, _) => Box::new(file.get_read(start)?),
            Self::Bytes(bytes) => Box::new(bytes.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let beyond = start
            .checked_add(length as u64)
            .is_none_or(|end| end > self.len());
        match self {
            // Nothing is allocated by what a file claims.
            _ if beyond => Err(ParquetError::EOF("the file is cut off".to_owned())),
            Self::File(file, _) => file.get_bytes(start, length),
            Self::Bytes(bytes) => bytes.get_bytes(start, length),
        }
    }
}

/// Reads a Parquet file, an Arrow file or an Arrow stream: which it is, its first bytes say. `file` is used in errors only.
///
/// Parquet files do not keep the order of texts, whatever they say: a dictionary there is in the order in which texts occur.
///
/// # Errors
/// [`ArrowError::File`] for other or broken bytes, and as [`from_batches`](crate::from_batches).
pub fn read(file: &str, bytes: Vec<u8>, options: &Options) -> Result<RawTable, ArrowError> {
    let table = FileReader::open(file, bytes.into(), options)?.next(usize::MAX)?;
    Ok(table.unwrap_or_default())
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// A file that is read as [`read`] does, some rows at a time, with memory for these: of a Parquet file for one page of each column, too, of an Arrow file for one
/// batch and its dictionaries.
pub struct FileReader {
    tables: Tables<Batches>,
    is_parquet: bool,
    begun: bool,
    /// Rows (Parquet) or bytes that there are.
    total: u64,
    /// Bytes that were read of an Arrow file.
    n_bytes: Rc<Cell<u64>>,
}

impl FileReader {
    /// Before the first row.
    ///
    /// # Errors
    /// As [`read`].
    pub fn open(file: &str, source: Source, options: &Options) -> Result<Self, ArrowError> {
        guarded(file, || Self::open_unguarded(file, source, options))
    }

    fn open_unguarded(file: &str, source: Source, options: &Options) -> Result<Self, ArrowError> {
        let wrong = |e: &dyn std::fmt::Display| ArrowError::file(file, e);
        let n_bytes = Rc::new(Cell::new(0));
        let is_parquet = format_of(file, &source)? == Format::Parquet;
        let (total, schema, batches): (u64, SchemaRef, Batches) = match is_parquet {
            true => {
                let builder =
                    ParquetRecordBatchReaderBuilder::try_new(source).map_err(|e| wrong(&e))?;
                let n_rows = builder.metadata().file_metadata().num_rows();
                let wanted = wanted(builder.schema(), options);
                let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
                let reader = builder.with_projection(mask).with_batch_size(BATCH).build();
                let reader = reader.map_err(|e| wrong(&e))?;
                let schema = arrow_array::RecordBatchReader::schema(&reader);
                let name = file.to_owned();
                let checked = move |batch: Result<RecordBatch, arrow_schema::ArrowError>| {
                    batch.map_err(|e| ArrowError::file(&name, e))
                };
                (n_rows as u64, schema, Box::new(reader.map(checked)))
            }
            false => {
                let total = source.len();
                let mut messages = Messages::open(file, &source, n_bytes.clone())?;
                let schema = messages.schema()?;
                (total, schema, Box::new(messages))
            }
        };
        Ok(Self {
            tables: Tables::new(file, schema, batches, options),
            is_parquet,
            begun: false,
            total,
            n_bytes,
        })
    }

    /// The next `n_rows` rows, or those that are left; `None` after the last. Of a file without rows an empty table comes first.
    ///
    /// # Errors
    /// As [`read`]; rows are counted from the first of the file.
    pub fn next(&mut self, n_rows: usize) -> Result<Option<RawTable>, ArrowError> {
        let file = self.tables.file.clone();
        let table = guarded(&file, || self.tables.next(n_rows))?;
        if table.n_rows() == 0 && self.begun {
            return Ok(None);
        }
        self.begun = true;
        if !self.is_parquet {
            return Ok(Some(table));
        }
        let (names, mut columns) = table.into_parts();
        for column in &mut columns {
            if let RawColumn::Texts { ordered, .. } = column {
                *ordered = false;
            }
        }
        let table = RawTable::new(names, columns);
        table
            .map(Some)
            .map_err(|source| ArrowError::Data { file, source })
    }

    /// The share of the file that has been read.
    pub fn share(&self) -> f64 {
        let done = match self.is_parquet {
            true => self.tables.n_rows as u64,
            false => self.n_bytes.get(),
        };
        done as f64 / self.total.max(1) as f64
    }
}

/// The libraries of Arrow and Parquet panic at some broken files.
fn guarded<T>(file: &str, read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(ArrowError::file(file, "the file is broken")))
}

fn format_of(file: &str, source: &Source) -> Result<Format, ArrowError> {
    let first = source.part(0, 8).map_err(|e| ArrowError::file(file, e))?;
    let other = || ArrowError::file(file, "it does not begin as Parquet or Arrow files do");
    Format::of(&first).ok_or_else(other)
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
    let source = Source::Bytes(Bytes::copy_from_slice(bytes));
    let schema = guarded(file, || match format_of(file, &source)? {
        Format::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(source);
            let builder = builder.map_err(|e| ArrowError::file(file, e))?;
            Ok(builder.schema().clone())
        }
        _ => Messages::open(file, &source, Rc::default())?.schema(),
    })?;
    let column = |field: &arrow_schema::FieldRef| StoredColumn {
        name: field.name().clone(),
        kind: field.data_type().to_string(),
        readable: can_be_read(field.data_type()),
    };
    Ok(schema.fields().iter().map(column).collect())
}

fn wanted(schema: &SchemaRef, options: &Options) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    let wanted = fields.filter(|(_, field)| options.wants(field.name()));
    wanted.map(|(j, _)| j).collect()
}

/// Where the stream is that an Arrow file holds: behind the magic, before the footer and its length.
fn messages_of(source: &Source) -> Option<Range<u64>> {
    let trailer = source.len().checked_sub(10)?;
    let bytes = source.part(trailer, 10).ok()?;
    let (length, magic) = bytes.split_at(4);
    let length = u64::from(u32::from_le_bytes(length.try_into().ok()?));
    let end = trailer.checked_sub(length)?;
    // Writers pad the magic to the alignment that they like.
    let first = source.part(0, 68).ok()?;
    let start = (8..=64)
        .step_by(8)
        .find(|&at| at + 4 <= end && first.get(at as usize..at as usize + 4) == Some(&[0xff; 4]))?;
    (magic == b"ARROW1").then_some(start..end)
}

/// The messages of an Arrow stream, by the reader that allocates nothing by what a header claims.
struct Messages {
    file: String,
    input: io::Take<Box<dyn Read>>,
    decoder: StreamDecoder,
    block: Buffer,
    /// A batch that was found on the way to the schema.
    first: Option<RecordBatch>,
    /// Bytes that were read.
    n_bytes: Rc<Cell<u64>>,
}

impl Messages {
    fn open(file: &str, source: &Source, n_bytes: Rc<Cell<u64>>) -> Result<Self, ArrowError> {
        let part = match format_of(file, source)? {
            Format::Arrow => messages_of(source),
            _ => Some(0..source.len()),
        };
        let part = part.ok_or_else(|| ArrowError::file(file, "the file is cut off"))?;
        let input = source.get_read(part.start);
        Ok(Self {
            file: file.to_owned(),
            input: input
                .map_err(|e| ArrowError::file(file, e))?
                .take(part.end - part.start),
            decoder: StreamDecoder::new(),
            block: Buffer::default(),
            first: None,
            n_bytes,
        })
    }

    fn schema(&mut self) -> Result<SchemaRef, ArrowError> {
        self.first = self.decoded()?;
        let schema = self.decoder.schema();
        schema.ok_or_else(|| ArrowError::file(&self.file, "it says nothing of its columns"))
    }

    /// The next batch.
    fn decoded(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let wrong = |e: &dyn std::fmt::Display| ArrowError::file(&self.file, e);
        loop {
            let batch = self.decoder.decode(&mut self.block);
            if let Some(batch) = batch.map_err(|e| wrong(&e))? {
                return Ok(Some(batch));
            }
            let mut block = Vec::new();
            let read = self.input.by_ref().take(BLOCK).read_to_end(&mut block);
            let n_bytes = read.map_err(|e| wrong(&e))? as u64;
            if n_bytes == 0 {
                self.decoder.finish().map_err(|e| wrong(&e))?;
                return Ok(None);
            }
            self.n_bytes.set(self.n_bytes.get() + n_bytes);
            self.block = Buffer::from(block);
        }
    }
}

impl Iterator for Messages {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.first.take().map(|batch| Ok(Some(batch)));
        first.unwrap_or_else(|| self.decoded()).transpose()
    }
}

/// The bytes of a file: Parquet compressed by zstd, Arrow files and streams not compressed; texts are dictionaries, times dates where all are midnight.
///
/// # Errors
/// [`ArrowError::Write`].
pub fn write(table: &RawTable, format: Format) -> Result<Vec<u8>, ArrowError> {
    let batch = to_batch(table)?;
    let mut writer = Writer::of(Vec::new(), &batch.schema(), format)?;
    writer.push(&batch)?;
    writer.finish()
}

/// A file that is written some rows at a time, compressed as [`write()`] does. Its columns have types that do not depend on their cells: texts are plain, times have
/// microseconds.
pub struct Writer<W: Write + Send>(Kind<W>);

enum Kind<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Arrow(Box<ArrowFileWriter<W>>),
    Stream(Box<StreamWriter<W>>),
}

impl<W: Write + Send> Writer<W> {
    /// For tables with the columns of this one, which is not written.
    ///
    /// # Errors
    /// [`ArrowError::Write`].
    pub fn new(to: W, like: &RawTable, format: Format) -> Result<Self, ArrowError> {
        Self::of(to, &to_plain_batch(like)?.schema(), format)
    }

    fn of(to: W, schema: &SchemaRef, format: Format) -> Result<Self, ArrowError> {
        let kind = match format {
            Format::Parquet => {
                let writer = ArrowWriter::try_new(to, schema.clone(), Some(properties(schema)));
                Kind::Parquet(Box::new(writer.map_err(ArrowError::write)?))
            }
            Format::Arrow => {
                let writer = ArrowFileWriter::try_new(to, schema).map_err(ArrowError::write)?;
                Kind::Arrow(Box::new(writer))
            }
            Format::Stream => {
                let writer = StreamWriter::try_new(to, schema).map_err(ArrowError::write)?;
                Kind::Stream(Box::new(writer))
            }
        };
        Ok(Self(kind))
    }

    /// Adds the rows of a table.
    ///
    /// # Errors
    /// [`ArrowError::Write`], for other columns, too.
    pub fn write(&mut self, table: &RawTable) -> Result<(), ArrowError> {
        self.push(&to_plain_batch(table)?)
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match &mut self.0 {
            Kind::Parquet(writer) => writer.write(batch).map_err(ArrowError::write),
            Kind::Arrow(writer) => writer.write(batch).map_err(ArrowError::write),
            Kind::Stream(writer) => writer.write(batch).map_err(ArrowError::write),
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`ArrowError::Write`].
    pub fn finish(self) -> Result<W, ArrowError> {
        match self.0 {
            Kind::Parquet(writer) => writer.into_inner().map_err(ArrowError::write),
            Kind::Arrow(writer) => writer.into_inner().map_err(ArrowError::write),
            Kind::Stream(writer) => writer.into_inner().map_err(ArrowError::write),
        }
    }
}

/// How Parquet files are written. Numbers have no dictionary: hardly one occurs twice, and to find out takes longer than all else.
fn properties(schema: &SchemaRef) -> WriterProperties {
    let all = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP));
    let numbers = schema
        .fields()
        .iter()
        .filter(|field| *field.data_type() == DataType::Float64);
    let paths = numbers.map(|field| ColumnPath::new(vec![field.name().clone()]));
    paths
        .fold(all, |all, path| {
            all.set_column_dictionary_enabled(path, false)
        })
        .build()
}
