//! What can be wrong with data that a caller hands in.

use crate::{ColumnKind, Measure};

/// Bad data handed to a constructor or a conversion.
///
/// Rows and columns count from 0, as in memory; errors of readers ([`crate::read::ReadError`]) count lines and columns from 1, as in a file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A slice or list has the wrong length.
    #[error("{what} has length {found}, expected {expected}")]
    Length {
        /// The argument.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length that fits the other arguments.
        expected: usize,
    },
    /// Two shapes that must agree do not.
    #[error("{what} is {found_rows} x {found_cols}, expected {rows} x {cols}")]
    Shape {
        /// The argument.
        what: &'static str,
        /// Its number of rows.
        found_rows: usize,
        /// Its number of columns.
        found_cols: usize,
        /// Number of rows that fits.
        rows: usize,
        /// Number of columns that fits.
        cols: usize,
    },
    /// An item that does not exist.
    #[error("there is no item {item}: there are {n_items}, numbered from 0")]
    NoSuchItem {
        /// The item.
        item: usize,
        /// How many there are.
        n_items: usize,
    },
    /// More cells than memory can address.
    #[error("{n_rows} x {n_cols} is more cells than can be addressed")]
    TooLarge {
        /// Number of rows asked for.
        n_rows: usize,
        /// Number of columns asked for.
        n_cols: usize,
    },
    /// A computation on an observed cell left the range of f64.
    #[error(
        "row {row}, column {column}: {value:e} is too far from the other values of its column to be computed with; mark the cell as missing or correct it"
    )]
    TooFar {
        /// 0-based row.
        row: usize,
        /// 0-based column.
        column: usize,
        /// The value, as it was before.
        value: f64,
    },
    /// An observed cell is infinite or NaN.
    #[error(
        "row {row}, column {column}: {value} is not a finite number; mark the cell as missing or correct it"
    )]
    NotFinite {
        /// Row of the cell.
        row: usize,
        /// Column of the cell.
        column: usize,
        /// What was found.
        value: f64,
    },
    /// A count is negative or not a whole number.
    #[error("row {row}, column {column}: {value} is not a count (a whole number from 0 to 2^53)")]
    NotCount {
        /// Row of the cell.
        row: usize,
        /// Column of the cell.
        column: usize,
        /// What was found.
        value: f64,
    },
    /// A label is neither -1 nor 1.
    #[error(
        "row {row}, column {column}: label {value} is not -1 or 1; recode it, or mark it as missing"
    )]
    NotSign {
        /// Row of the label.
        row: usize,
        /// Column of the label: which target.
        column: usize,
        /// What was found.
        value: f64,
    },
    /// A stored table holds a value in a cell that its mask calls missing.
    #[error(
        "row {row}, column {column}: a missing cell must hold 0, found {value}; the stored table was altered"
    )]
    MissingNotZero {
        /// Row of the cell.
        row: usize,
        /// Column of the cell.
        column: usize,
        /// What was found.
        value: f64,
    },
    /// A stored mask has bits set beyond its last column.
    #[error("row {row}: the mask has bits beyond its last column; the stored mask was altered")]
    PaddingBits {
        /// Row of the mask.
        row: usize,
    },
    /// A stored number that cannot have been written by this library.
    #[error("stored {what} of column {column} is {value}; the stored file was altered")]
    Stored {
        /// What the number is.
        what: &'static str,
        /// The column it belongs to.
        column: usize,
        /// What was found.
        value: f64,
    },
    /// Two columns have the same name.
    #[error(
        "{name:?} is the name of two columns, at positions {first} and {second} (from 0); names must differ"
    )]
    DuplicateColumn {
        /// The name.
        name: String,
        /// First column with that name.
        first: usize,
        /// Second column with that name.
        second: usize,
    },
    /// A column has another name than the one a fit was made with.
    #[error(
        "column {column} is {found:?}, expected {expected:?}; pass the same columns in the same order"
    )]
    ColumnName {
        /// Position of the column.
        column: usize,
        /// Its name.
        found: String,
        /// The name it should have.
        expected: String,
    },
    /// Another number of columns than expected.
    #[error("{found} columns, expected {expected}; pass the same columns in the same order")]
    ColumnCount {
        /// Number of columns found.
        found: usize,
        /// Number of columns expected.
        expected: usize,
    },
    /// No column has this name.
    #[error("there is no column {name:?}")]
    NoSuchColumn {
        /// The name asked for.
        name: String,
    },
    /// A row number is out of range.
    #[error("row {row} does not exist; there are {n_rows} rows")]
    NoSuchRow {
        /// The row asked for.
        row: usize,
        /// Number of rows.
        n_rows: usize,
    },
    /// A label that is not among the given classes.
    #[error("row {row}: label {label:?} is not one of the classes {classes:?}")]
    UnknownLabel {
        /// Row of the label.
        row: usize,
        /// The label.
        label: String,
        /// The classes.
        classes: Vec<String>,
    },
    /// A class or level is listed twice.
    #[error("{name:?} is listed twice among the classes or levels")]
    DuplicateClass {
        /// The repeated name.
        name: String,
    },
    /// The class asked for does not occur.
    #[error("there is no class {class:?}; the classes are {classes:?}")]
    NoSuchClass {
        /// The class asked for.
        class: String,
        /// The classes there are.
        classes: Vec<String>,
    },
    /// Two classes were needed and there are more.
    #[error(
        "label {label:?} (first in row {row}) is a third class beside {positive:?} and {negative:?}; two classes are needed"
    )]
    ThirdClass {
        /// The offending label.
        label: String,
        /// First row that has it.
        row: usize,
        /// The positive class.
        positive: String,
        /// The other class.
        negative: String,
    },
    /// A row without a label where every row needs one.
    #[error("row {row} has no label; drop it or label it")]
    Unlabelled {
        /// The row.
        row: usize,
    },
    /// A code beyond the list of classes or levels.
    #[error("row {row}: code {code} is beyond the {n_classes} classes or levels")]
    Code {
        /// The row.
        row: usize,
        /// The code.
        code: usize,
        /// Number of classes or levels.
        n_classes: usize,
    },
    /// A .npy file that cannot be read.
    #[error("not a .npy file that can be read: {problem}")]
    Npy {
        /// What is wrong.
        problem: &'static str,
    },
    /// A column of a kind that cannot be used so.
    #[error("column {column} ({name:?}) is {kind}, expected {needed}")]
    WrongKind {
        /// Position of the column.
        column: usize,
        /// Its name.
        name: String,
        /// What it is.
        kind: ColumnKind,
        /// What it should be.
        needed: &'static str,
    },
    /// A (row, column) pair is given twice.
    #[error("row {row}, column {column} is given twice (entries {first} and {second}); keep one")]
    DuplicateEntry {
        /// Row of the pair.
        row: u32,
        /// Column of the pair.
        column: u32,
        /// Position of the first entry in the input.
        first: usize,
        /// Position of the second entry in the input.
        second: usize,
    },
    /// An index beyond the stated size.
    #[error("entry {entry}: {axis} {index} does not exist; there are {size}")]
    IndexRange {
        /// Position of the entry in the input.
        entry: usize,
        /// "row" or "column".
        axis: &'static str,
        /// The index.
        index: u32,
        /// Number of rows or columns.
        size: usize,
    },
    /// A feature that is not a finite number in single precision.
    #[error(
        "features of row {row}, feature {feature}: {value} is not a finite number in single precision; impute or rescale it"
    )]
    Feature {
        /// Row (or column of a matrix) that has the features.
        row: usize,
        /// Which feature.
        feature: usize,
        /// What was found.
        value: f64,
    },
    /// A feature entry beyond the stated size.
    #[error("feature entry {entry}: {axis} {index} does not exist; there are {size}")]
    FeatureRange {
        /// Position of the entry in the input.
        entry: usize,
        /// "row" or "feature".
        axis: &'static str,
        /// The index.
        index: u32,
        /// Number of rows or features.
        size: usize,
    },
    /// A feature of a row that is given twice.
    #[error("feature {feature} of row {row} is given twice; keep one")]
    FeatureTwice {
        /// The row.
        row: u32,
        /// The feature.
        feature: u32,
    },
    /// Stored features that cannot have been written by this library.
    #[error("stored features have impossible sizes or values; the stored file was altered")]
    StoredFeatures,
    /// A field with too few or too many columns.
    #[error("field {field:?} ({measure}) has {found} columns, expected {expected}")]
    FieldColumns {
        /// Name of the field.
        field: String,
        /// What it measures.
        measure: Measure,
        /// Number of columns found.
        found: usize,
        /// Number of columns that fits.
        expected: usize,
    },
    /// A field of a column that does not exist.
    #[error("field {field:?}: column {column} does not exist; there are {n_cols}")]
    ColumnRange {
        /// Name of the field.
        field: String,
        /// The column asked for.
        column: usize,
        /// Number of columns.
        n_cols: usize,
    },
    /// A column that belongs to two fields.
    #[error("column {column} belongs to the fields {first:?} and {second:?}; keep one")]
    ColumnTwice {
        /// The column.
        column: usize,
        /// First field.
        first: String,
        /// Second field.
        second: String,
    },
    /// A value in a field of positive numbers that is not above 0.
    #[error(
        "row {row}, column {column}: {value} is not above 0; call the field real, or mark the cell as missing"
    )]
    NotPositive {
        /// Row of the cell.
        row: usize,
        /// Column of the cell.
        column: usize,
        /// What was found.
        value: f64,
    },
    /// A period of an angle that is no period.
    #[error("field {field:?}: period {period} must be finite and > 0")]
    Period {
        /// Name of the field.
        field: String,
        /// What was found.
        period: f64,
    },
    /// An image without pixels or channels.
    #[error(
        "an image of {height} x {width} pixels and {channels} channels is empty; give at least one of each"
    )]
    EmptyImage {
        /// Rows of pixels.
        height: usize,
        /// Columns of pixels.
        width: usize,
        /// Channels.
        channels: usize,
    },
    /// An observed entry of an image is infinite or NaN.
    #[error(
        "row {row}, column {column}, channel {channel}: {value} is not a finite number; mark the entry as missing or correct it"
    )]
    Pixel {
        /// Row of the pixel.
        row: usize,
        /// Column of the pixel.
        column: usize,
        /// Channel.
        channel: usize,
        /// What was found.
        value: f64,
    },
    /// A patch that does not fit its image, or a step that leaves gaps.
    #[error("{axis} of the {what} is {found}; it must be from 1 to {most}")]
    Patch {
        /// "patch" or "step".
        what: &'static str,
        /// Which side.
        axis: &'static str,
        /// What was asked for.
        found: usize,
        /// Side of the image, or of the patch.
        most: usize,
    },
}
