//! Rows grouped by which of their cells are observed.

use crate::Mask;
use std::collections::HashMap;

/// One missing pattern and the rows that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Observed columns, ascending.
    pub observed: Vec<usize>,
    /// Missing columns, ascending.
    pub missing: Vec<usize>,
    /// Rows with this pattern, ascending.
    pub rows: Vec<usize>,
}

/// The distinct missing patterns of a table, in order of their first row.
///
/// Models factor one matrix per pattern instead of one per row. Building costs one hash of `n_cols / 64` words per row;
/// the order depends on the data alone.
///
/// ```
/// use npb_data::Table;
/// let table = Table::from_nan_coded(3, 2, &[1.0, f64::NAN, 2.0, 3.0, 4.0, f64::NAN])?;
/// let index = table.patterns();
/// assert_eq!(index.patterns()[0].rows, [0, 2]);
/// assert_eq!(index.patterns()[0].missing, [1]);
/// assert_eq!(index.pattern_of_row(1), 1);
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternIndex {
    patterns: Vec<Pattern>,
    of_row: Vec<usize>,
}

impl PatternIndex {
    /// Groups the rows of a mask (true = observed).
    pub fn new(observed: &Mask) -> Self {
        let mut number_of: HashMap<&[u64], usize> = HashMap::new();
        let mut patterns: Vec<Pattern> = Vec::new();
        let mut of_row = Vec::with_capacity(observed.n_rows());
        for row in 0..observed.n_rows() {
            let number = *number_of
                .entry(observed.row_words(row))
                .or_insert(patterns.len());
            if number == patterns.len() {
                patterns.push(empty_pattern(observed, row));
            }
            patterns[number].rows.push(row);
            of_row.push(number);
        }
        Self { patterns, of_row }
    }

    /// The patterns, in order of their first row.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Number of distinct patterns.
    pub fn len(&self) -> usize {
        self.patterns.len()
    }

    /// True when there are no rows.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Number of rows indexed.
    pub fn n_rows(&self) -> usize {
        self.of_row.len()
    }

    /// Position in [`patterns`](Self::patterns) of the pattern of a row.
    pub fn pattern_of_row(&self, row: usize) -> usize {
        self.of_row[row]
    }

    /// Iterates over the patterns.
    pub fn iter(&self) -> std::slice::Iter<'_, Pattern> {
        self.patterns.iter()
    }
}

impl<'a> IntoIterator for &'a PatternIndex {
    type Item = &'a Pattern;
    type IntoIter = std::slice::Iter<'a, Pattern>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The pattern of `row`, without rows yet.
fn empty_pattern(observed: &Mask, row: usize) -> Pattern {
    let (seen, missing) = (0..observed.n_cols()).partition(|&j| observed.get(row, j));
    Pattern {
        observed: seen,
        missing,
        rows: Vec::new(),
    }
}
