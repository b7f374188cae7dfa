//! Figures as SVG with their numbers, and self-contained HTML pages, for reports on data and models.
//!
//! A [`Figure`] is a picture and the numbers in it. [`lines`] draws curves with error bars side by side, [`picture`] whatever lies in a plane (marks, curves,
//! bars, heat maps), both from the same [`Panel`]s and [`Layer`]s; [`images`] shows images. A [`TextTable`] holds cells for people. [`html`] makes a page
//! of them that needs no other file, no network and no script.
//!
//! - **Names may be anything**: they are escaped wherever they are written, characters that XML does not allow become U+FFFD, and a picture cuts names that
//!   are longer than a line. The numbers beside the picture keep them whole.
//! - **What is not a number is not drawn**: a value that is not finite is a gap in its curve, bars or field, and an empty cell among the numbers. A figure
//!   in which nothing is left is an [error](ReportError::Empty).
//! - Text is drawn by the viewer's own fonts. The same data give the same bytes.
//!
//! ```
//! use npb_report::{Layer, Panel, Point, TextTable, html, lines};
//!
//! let error = [(10.0, 0.31, 0.05), (20.0, 0.24, 0.03), (50.0, f64::NAN, 0.0), (100.0, 0.18, 0.02)];
//! let curve = Layer::line("our <method>", error.map(|(x, y, sd)| Point { x, y, sd: Some(sd) }));
//! let panel = Panel::of_lines("held-out error", ["rows", "error"], [curve]);
//! let figure = lines("error", "Error against rows", "Bars: one standard deviation.", &[panel])?;
//! assert!(figure.svg.contains("our &lt;method&gt;"));
//! assert_eq!(figure.csv().lines().nth(3), Some("held-out error,our <method>,50,,0"));
//!
//! let cells = error.iter().map(|(rows, error, _)| vec![rows.to_string(), npb_report::short(*error)]);
//! let table = TextTable::new("The same in words", &["rows", "error"], cells);
//! let page = html::page("A report", &(figure.html() + &table.html()));
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! # Ok::<(), npb_report::ReportError>(())
//! ```

pub mod colours;
mod draw;
mod error;
mod figure;
mod heat;
pub mod html;
mod images;
mod named;
mod panel;
mod table;
mod text;

pub use colours::Colour;
pub use draw::{lines, picture};
pub use error::ReportError;
pub use figure::Figure;
pub use heat::{HeatMap, heat_map};
pub use images::{Picture, images};
pub use named::{Link, NamedBar, graph, named_bars};
pub use panel::{At, Bars, Cells, Layer, Panel, Point, Shape, by_name, centres};
pub use table::{TextTable, csv_line};
pub use text::{isolated, short};
