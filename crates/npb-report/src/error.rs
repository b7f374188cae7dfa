use thiserror::Error;

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Nothing would be seen: no panel, or no finite number in any of them.
    #[error("figure {figure:?} has nothing to show: no finite number in any of its panels")]
    Empty {
        /// Name of the figure.
        figure: String,
    },
    /// An axis cannot be drawn.
    #[error(
        "panel {panel:?}: the {axis} axis goes from {low} to {high}; both ends must be finite, the first clearly below the second"
    )]
    Range {
        /// Heading of the panel.
        panel: String,
        /// `horizontal` or `vertical`.
        axis: &'static str,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// A heat map whose values are no rectangle, or whose range of values is none.
    #[error(
        "heat map {layer:?}: {values} values in {columns} columns, coloured from {low} to {high}; rows must be whole and the range finite and not empty"
    )]
    Cells {
        /// Name of the layer.
        layer: String,
        /// How many values.
        values: usize,
        /// How many columns.
        columns: usize,
        /// Value of the first colour.
        low: f64,
        /// Value of the last colour.
        high: f64,
    },
    /// An image that is not a PNG.
    #[error("image {title:?} is not a PNG of {height} x {width} pixels, both at least 1")]
    Png {
        /// Heading of the image.
        title: String,
        /// Rows of pixels.
        height: usize,
        /// Columns of pixels.
        width: usize,
    },
    /// The library that draws failed.
    #[error("figure {figure:?} could not be drawn: {reason}")]
    Drawing {
        /// Name of the figure.
        figure: String,
        /// What it says.
        reason: String,
    },
}
