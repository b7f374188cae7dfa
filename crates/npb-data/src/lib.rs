//! What users hand in: incomplete tables, labels, sparse ratings, mixed columns and images; readers, masks, splits and metrics.
//!
//! Missing is a type here, never a magic number.
//!
//! | | |
//! |---|---|
//! | [`Table`] | dense real numbers beside a bit [`Mask`] (true = observed); rows are observations |
//! | [`PatternIndex`] | the rows of a table grouped by which cells are observed |
//! | [`Labels`] | classes of rows, some of them unknown |
//! | [`Targets`] | several -1/+1 labels or real targets per row, some of them unknown |
//! | [`Ratings`] | sparse observed entries of a matrix, by rows and by columns |
//! | [`Features`] | known features of the rows or columns of such a matrix, dense or sparse |
//! | [`Vocabulary`] | which words of documents are counted; the counts are [`Ratings`] |
//! | [`MixedTable`] | typed columns: real, count, categorical, binary |
//! | [`RawTable`] | columns of numbers, texts and times before a schema says what they measure |
//! | [`Image`] | grey, colour or many bands, with missing pixels or entries |
//! | [`PatchGrid`], [`PatchSums`] | overlapping patches of an image, and the image that patches make together |
//! | [`Field`] | what columns measure, alone or together: reals, counts, levels, angles, vectors, series, networks |
//! | [`Standardiser`] | columns to mean 0 and standard deviation 1, and back |
//! | [`read_npy`], [`write_npy`] | NumPy's .npy |
//! | [`schema`] | what the columns of a file are: guessed with reasons, edited as TOML, and every later file read by it |
//! | [`read`] | delimited text, ARFF, MovieLens, triplets, bags of words, tokens, given masks and splits |
//! | [`splits`] | drawn masks; random, stratified, grouped splits and folds; examples given for a user |
//! | [`metrics`] | AUC, ROC, accuracy, log loss, Brier, calibration, RMSE, MAE, explained variance, F1, coverage, Top-L, NDCG, PSNR |
//!
//! Values handed in are checked once, where they come in; errors name row and column (from 0), those of files line and column
//! (from 1). Feature `ndarray`: tables from and to ndarray arrays. What takes the place of a row, column or other part panics where there is none, as indexing a slice does.
//!
//! ```
//! use npb_data::read::{self, Column, DelimitedOptions};
//!
//! let file = "age,dose,group\n31,0.5,a\n?,1.5,b\n47,?,b\n";
//! let (table, labels) = read::labelled_table("trial.csv", file.as_bytes(), &Column::from("group"), &DelimitedOptions::default())?;
//! assert_eq!((table.n_rows(), table.n_cols(), table.n_missing()), (3, 2, 2));
//! assert_eq!(table.patterns().len(), 3);
//! assert_eq!(labels.classes(), ["a", "b"]);
//! # Ok::<(), npb_data::read::ReadError>(())
//! ```

mod error;
mod exposure;
mod features;
mod fields;
mod image;
mod interop;
mod labels;
mod mask;
mod measure;
mod mixed;
mod names;
mod npy;
mod patches;
mod patterns;
mod ratings;
mod raw;
mod standardise;
mod stats;
mod table;
mod targets;
mod words;

pub mod clusters;
pub mod metrics;
pub mod read;
pub mod schema;
pub mod splits;

pub use error::DataError;
pub use exposure::Exposure;
pub use features::Features;
pub use fields::Field;
pub use image::Image;
pub use labels::Labels;
pub use mask::Mask;
pub use measure::{ColumnKind, Measure};
pub use mixed::{MixedColumn, MixedTable};
pub use npy::{is_npy, read_npy, write_npy};
pub use patches::{PatchGrid, PatchSums};
pub use patterns::{Pattern, PatternIndex};
pub use ratings::{Rating, Ratings};
pub use raw::{RawColumn, RawTable, number_text};
pub use splits::Split;
pub use standardise::Standardiser;
pub use stats::ColumnStats;
pub use table::Table;
pub use targets::{TargetKind, Targets};
pub use words::Vocabulary;
