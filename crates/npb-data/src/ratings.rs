//! Sparse observed entries of a matrix, readable by rows and by columns.

use crate::DataError;
use npb_linalg::svd::SparseRows;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One observed entry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rating<V = f64> {
    /// Row (user), from 0.
    pub row: u32,
    /// Column (item), from 0.
    pub column: u32,
    /// Value, finite.
    pub value: V,
}

/// The observed entries of an incomplete matrix (users x items, say); all other entries are unknown, not zero.
///
/// Held twice: by rows (columns ascending in each row) and by columns (rows ascending in each column). The position of an entry is
/// its place in the row-major order; models that keep one number per entry, such as a residual, index it by position from either
/// view. Values are f64 or f32. Rows and columns without entries are allowed.
///
/// Building fills both views in parallel; the result does not depend on the number of threads. Cost O(rows + columns + n log n) at worst,
/// 32 bytes per f64 entry held and about half as many more while building.
///
/// ```
/// use npb_data::{Rating, Ratings};
/// let entry = |row, column, value| Rating { row, column, value };
/// let ratings = Ratings::new(2, 3, &[entry(1, 0, 4.0), entry(0, 2, 5.0), entry(1, 2, 3.0)])?;
/// assert_eq!(ratings.row(1), (&[0, 2][..], &[4.0, 3.0][..]));
/// assert_eq!(ratings.column(2), (&[0, 1][..], &[5.0, 3.0][..]));
/// assert_eq!((ratings.get(0, 2), ratings.get(0, 0)), (Some(5.0), None));
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ratings<V = f64> {
    by_row: View<V>,
    by_column: View<V>,
    /// Row-major position of every entry of the column-major view.
    positions: Vec<usize>,
}

/// Entries grouped along one axis.
#[derive(Clone, Debug, PartialEq)]
struct View<V> {
    /// Entries of group g are `starts[g]..starts[g + 1]`.
    starts: Vec<usize>,
    /// Index along the other axis.
    others: Vec<u32>,
    values: Vec<V>,
}

impl<V: Copy> View<V> {
    fn n_groups(&self) -> usize {
        self.starts.len() - 1
    }

    fn range(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }

    fn group(&self, group: usize) -> (&[u32], &[V]) {
        (
            &self.others[self.range(group)],
            &self.values[self.range(group)],
        )
    }
}

impl<V: Copy + Into<f64> + Send + Sync> Ratings<V> {
    /// Builds both views from entries in any order.
    ///
    /// # Errors
    /// The first entry (in input order) that is out of range ([`DataError::IndexRange`]) or not finite
    /// ([`DataError::NotFinite`], with its row and column); the first pair (by row, then column) that is given twice
    /// ([`DataError::DuplicateEntry`]); [`DataError::TooLarge`] for sizes beyond u32 indices.
    pub fn new(n_rows: usize, n_cols: usize, entries: &[Rating<V>]) -> Result<Self, DataError> {
        check_size(n_rows, n_cols)?;
        let checked = entries
            .par_iter()
            .enumerate()
            .map(|(k, e)| check_entry(k, e, n_rows, n_cols));
        if let Some(Err(error)) = checked.find_first(Result::is_err) {
            return Err(error);
        }
        let row_starts = starts(n_rows, entries.iter().map(|e| e.row))?;
        let column_starts = starts(n_cols, entries.iter().map(|e| e.column))?;
        let cells = row_major(&row_starts, entries);
        check_duplicates(&row_starts, &cells, entries)?;
        let (by_row, (by_column, positions)) = rayon::join(
            || View {
                starts: row_starts.clone(),
                others: cells.iter().map(|c| c.0).collect(),
                values: cells.iter().map(|c| c.1).collect(),
            },
            || column_major(column_starts, &row_starts, &cells),
        );
        Ok(Self {
            by_row,
            by_column,
            positions,
        })
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.by_row.n_groups()
    }

    /// Number of columns.
    pub fn n_cols(&self) -> usize {
        self.by_column.n_groups()
    }

    /// Number of observed entries.
    pub fn n_observed(&self) -> usize {
        self.by_row.values.len()
    }

    /// Columns (ascending) and values of the entries of row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> (&[u32], &[V]) {
        self.by_row.group(i)
    }

    /// Rows (ascending) and values of the entries of column `j`.
    #[inline]
    pub fn column(&self, j: usize) -> (&[u32], &[V]) {
        self.by_column.group(j)
    }

    /// Positions of the entries of row `i`, in the order of [`row`](Self::row).
    #[inline]
    pub fn row_positions(&self, i: usize) -> Range<usize> {
        self.by_row.range(i)
    }

    /// Positions of the entries of column `j`, in the order of [`column`](Self::column).
    #[inline]
    pub fn column_positions(&self, j: usize) -> &[usize] {
        &self.positions[self.by_column.range(j)]
    }

    /// The values by position, that is in row-major order.
    pub fn values(&self) -> &[V] {
        &self.by_row.values
    }

    /// The value of an entry, `None` when it is not observed.
    pub fn get(&self, i: usize, j: usize) -> Option<V> {
        let (columns, values) = self.row(i);
        columns
            .binary_search(&u32::try_from(j).ok()?)
            .ok()
            .map(|k| values[k])
    }

    /// The entries in order of position.
    pub fn iter(&self) -> impl Iterator<Item = Rating<V>> + '_ {
        (0..self.n_rows()).flat_map(move |i| {
            let (columns, values) = self.row(i);
            columns
                .iter()
                .zip(values)
                .map(move |(&column, &value)| Rating {
                    row: i as u32,
                    column,
                    value,
                })
        })
    }

    /// Mean of the values; `None` without entries.
    pub fn mean(&self) -> Option<f64> {
        let n = self.n_observed();
        (n > 0).then(|| self.values().iter().map(|&v| v.into() / n as f64).sum())
    }

    /// The 0/1 matrix of what is observed, without a copy: its leading singular vectors are features of the missingness.
    ///
    /// ```
    /// use npb_data::{Rating, Ratings};
    /// use npb_linalg::svd::{SvdLimits, truncated_svd};
    /// use rand::SeedableRng;
    /// // Two users rated two films, a third one another film.
    /// let pairs = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)];
    /// let ratings = Ratings::new(3, 3, &pairs.map(|(row, column)| Rating { row, column, value: 4.0 }))?;
    /// let rng = &mut rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
    /// let svd = truncated_svd(&ratings.pattern(), 2, &SvdLimits::default(), rng);
    /// assert!((svd.singular_values[0] - 2.0).abs() < 1e-12 && svd.u[(2, 0)].abs() < 1e-12);
    /// # Ok::<(), npb_data::DataError>(())
    /// ```
    pub fn pattern(&self) -> SparseRows<'_> {
        let View { starts, others, .. } = &self.by_row;
        SparseRows::new(self.n_cols(), starts, others, None).expect("checked when it was built")
    }
}

/// Indices are u32, so that an axis has at most 2^32 places.
fn check_size(n_rows: usize, n_cols: usize) -> Result<(), DataError> {
    let limit = u64::from(u32::MAX) + 1;
    if n_rows as u64 > limit || n_cols as u64 > limit {
        return Err(DataError::TooLarge { n_rows, n_cols });
    }
    Ok(())
}

fn check_entry<V: Copy + Into<f64>>(
    entry: usize,
    rating: &Rating<V>,
    n_rows: usize,
    n_cols: usize,
) -> Result<(), DataError> {
    for (axis, index, size) in [
        ("row", rating.row, n_rows),
        ("column", rating.column, n_cols),
    ] {
        if index as usize >= size {
            return Err(DataError::IndexRange {
                entry,
                axis,
                index,
                size,
            });
        }
    }
    let value: f64 = rating.value.into();
    if value.is_finite() {
        return Ok(());
    }
    Err(DataError::NotFinite {
        row: rating.row as usize,
        column: rating.column as usize,
        value,
    })
}

/// Where the items of each group start when they are put group by group, and after the last group their number.
fn starts(n_groups: usize, groups: impl Iterator<Item = u32>) -> Result<Vec<usize>, DataError> {
    let mut starts: Vec<usize> = Vec::new();
    let too_large = |_| DataError::TooLarge {
        n_rows: n_groups,
        n_cols: 1,
    };
    starts.try_reserve_exact(n_groups + 1).map_err(too_large)?;
    starts.resize(n_groups + 1, 0);
    groups.for_each(|group| starts[group as usize + 1] += 1);
    for group in 0..n_groups {
        starts[group + 1] += starts[group];
    }
    Ok(starts)
}

/// Column and value of every entry, rows one after the other, columns ascending in each.
fn row_major<V: Copy + Send>(starts: &[usize], entries: &[Rating<V>]) -> Vec<(u32, V)> {
    let mut cells: Vec<(u32, V)> = entries.iter().map(|e| (e.column, e.value)).collect();
    let mut next = starts.to_vec();
    for e in entries {
        let place = &mut next[e.row as usize];
        cells[*place] = (e.column, e.value);
        *place += 1;
    }
    let mut rows: Vec<&mut [(u32, V)]> = Vec::with_capacity(starts.len());
    let mut rest = &mut cells[..];
    for bounds in starts.windows(2) {
        let (row, later) = rest.split_at_mut(bounds[1] - bounds[0]);
        rows.push(row);
        rest = later;
    }
    rows.par_iter_mut()
        .for_each(|row| row.sort_unstable_by_key(|cell| cell.0));
    cells
}

/// The column-major view of row-major cells, and the position of each of its entries among them. Rows come in order, so that
/// they ascend within a column.
fn column_major<V: Copy>(
    column_starts: Vec<usize>,
    row_starts: &[usize],
    cells: &[(u32, V)],
) -> (View<V>, Vec<usize>) {
    let mut next = column_starts.clone();
    let mut rows = vec![0; cells.len()];
    let mut values: Vec<V> = cells.iter().map(|c| c.1).collect();
    let mut positions = vec![0; cells.len()];
    for (row, bounds) in (0..).zip(row_starts.windows(2)) {
        for position in bounds[0]..bounds[1] {
            let (column, value) = cells[position];
            let place = &mut next[column as usize];
            rows[*place] = row;
            values[*place] = value;
            positions[*place] = position;
            *place += 1;
        }
    }
    let view = View {
        starts: column_starts,
        others: rows,
        values,
    };
    (view, positions)
}

fn check_duplicates<V: Copy>(
    starts: &[usize],
    cells: &[(u32, V)],
    entries: &[Rating<V>],
) -> Result<(), DataError> {
    for (row, bounds) in (0..).zip(starts.windows(2)) {
        let repeated = cells[bounds[0]..bounds[1]]
            .windows(2)
            .find(|w| w[0].0 == w[1].0);
        if let Some(pair) = repeated {
            let column = pair[0].0;
            let mut places = (0..entries.len())
                .filter(|&k| (entries[k].row, entries[k].column) == (row, column));
            let mut place = || places.next().unwrap_or(entries.len());
            let (first, second) = (place(), place());
            return Err(DataError::DuplicateEntry {
                row,
                column,
                first,
                second,
            });
        }
    }
    Ok(())
}
