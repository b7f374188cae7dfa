//! Pages about fitted models, one module for each kind: what went in, whether it has settled, what it found, and whether it holds on cells that it has not seen.
//!
//! Each kind has one function `page`, of the fit, its [`Context`] and, where somebody has some, rows to try it on. A [`Page`] is sections of sentences, warnings, figures and
//! tables, and becomes one HTML file that loads nothing. What all kinds say is in [`shared`]. Whatever is drawn is drawn by the seed of the context, and from so few rows that a page
//! takes seconds.

mod bins;
mod cells;
mod classes;
pub mod classifier;
mod context;
mod ends;
pub mod grouped;
pub mod groups;
pub mod image;
pub mod labels;
pub mod mixture;
mod numbers;
mod page;
mod png;
mod predictive;
pub mod ratings;
mod sampling;
mod scalars;
pub mod shared;
pub mod table;
pub mod tasks;
pub mod topics;

pub use context::{Context, Rows};
pub use page::{Page, Part, Section};

/// What a page needs and a model, table or figure refuses, in their words.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
