//! What users hand in: incomplete tables, labels, sparse ratings and mixed columns; readers, masks, splits and metrics.
//!
//! Missing is a type here, never a magic number: a [`Table`] is dense values beside a bit mask.
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
mod interop;
mod labels;
mod mask;
mod mixed;
mod names;
mod patterns;
mod ratings;
mod standardise;
mod stats;
mod table;

pub mod metrics;
pub mod read;
pub mod splits;

pub use error::DataError;
pub use labels::Labels;
pub use mask::Mask;
pub use mixed::{ColumnKind, MixedColumn, MixedTable};
pub use patterns::{Pattern, PatternIndex};
pub use ratings::{Rating, Ratings};
pub use splits::Split;
pub use standardise::Standardiser;
pub use table::{ColumnStats, Table};
