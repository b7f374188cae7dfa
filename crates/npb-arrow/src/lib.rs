//! Arrow and Parquet to and from the raw tables of npb-data.
//!
//! A [`RawTable`] holds columns of numbers, texts and times; a schema of npb-data makes typed columns of it, the same kinds, codes and bits that the same data give as text.
//! [`from_batches`] takes record batches that are in memory, [`read`] files (Parquet, Arrow files as Feather writes them, Arrow streams), [`to_batch`] and
//! [`write()`] go back; [`FileReader`] and [`Writer`] do so some rows at a time, for files that are larger than memory.
//!
//! | Arrow | raw column |
//! |---|---|
//! | floats (16 to 64 bit), decimals (to 128 bit) | numbers; NaN is missing |
//! | integers (64 bit unsigned up to 2^63) | whole numbers |
//! | booleans | truth values |
//! | texts (plain, large, views, dictionaries) | texts; a dictionary with an order keeps it, except in Parquet |
//! | dates, timestamps (taken to UTC where they have a zone) | times |
//! | durations, times of day | numbers of seconds |
//! | dictionaries of numbers or truth values | texts |
//! | null | a column of missing numbers |
//!
//! Lists, structs, maps and binary data are refused by name; [`columns`] says which columns can be read, [`Options::only`] leaves the others out.
//!
//! ```
//! use npb_arrow::{Format, Options};
//! use npb_arrow::npb_data::read::{self, ReadingRules};
//! use npb_arrow::npb_data::schema::Schema;
//! use npb_arrow::npb_data::{RawColumn, RawTable};
//!
//! let ages = RawColumn::Whole(vec![Some(31), None, Some(47)]);
//! let towns = RawColumn::texts([Some("Oslo"), Some("Bergen"), None]);
//! let table = RawTable::new(vec!["age".into(), "town".into()], vec![ages, towns])?;
//! let file = npb_arrow::write(&table, Format::Parquet)?;
//!
//! let raw = npb_arrow::read("trial.parquet", file, &Options::default())?;
//! let schema = Schema::guess_raw("trial.parquet", &raw).schema;
//! let (trial, _) = read::raw_with_schema("trial.parquet", raw, &schema, &ReadingRules::default())?;
//! assert_eq!((trial.n_rows, trial.features.n_missing()), (3, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod files;
mod from_arrow;
mod to_arrow;

pub use npb_data;
pub use npb_data::{RawColumn, RawTable};

pub use error::ArrowError;
pub use files::{FileReader, Format, Source, StoredColumn, Writer, columns, read, write};
pub use from_arrow::{Options, from_batches};
pub use to_arrow::to_batch;
