//! What is factored: rows of numbers, of which some entries are observed. Equations: `docs/bpfa.md#cut-off-measurements`.

use npb_data::{Ratings, Table};
use serde::Serialize;

use crate::BpfaError;
use crate::error::check_size;

/// Rows and entries are numbered by 32 bits.
const LIMIT: usize = u32::MAX as usize - 1;

/// Observed entries of an N x P matrix, by rows and, where rows have holes, by columns: patches of an image, a table, ratings.
///
/// Values are in the units of the model (centred, of order 1), in single precision. Memory: 4 bytes for each entry of complete rows, 16 for each observed
/// entry of rows with holes.
///
/// ```
/// use npb_bpfa::BpfaRows;
///
/// let complete = BpfaRows::complete(2, 3, vec![0.1, -0.2, 0.3, 0.0, 0.5, -0.4])?;
/// assert!(complete.is_complete());
/// // Row 0 has columns 0 and 2, row 1 column 1.
/// let holes = BpfaRows::new(3, &[0, 2, 3], vec![0, 2, 1], vec![0.1, 0.3, 0.5])?;
/// assert_eq!((holes.n_rows(), holes.n_columns(), holes.n_entries()), (2, 3, 3));
/// assert_eq!(holes.columns(0), Some(&[0, 2][..]));
/// # Ok::<(), npb_bpfa::BpfaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BpfaRows {
    n_rows: usize,
    n_columns: usize,
    /// Of rows with holes: where the entries of each row start. Empty when rows are complete.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
    by_column: ByColumn,
    /// Noise channel of each column.
    channels: Vec<u32>,
    n_channels: usize,
    /// Of each entry: the thing measured by it. Empty: each entry is one of its own.
    sites: Vec<u32>,
    n_sites: usize,
    locations: Vec<f32>,
    n_coordinates: usize,
    /// Bounds of what could be measured; empty without.
    bounds: Vec<(f32, f32)>,
}

/// `scaled` in single precision; the error names the value that it was made of.
pub(crate) fn single(row: usize, column: usize, value: f64, scaled: f64) -> Result<f32, BpfaError> {
    let x = scaled as f32;
    match x.is_finite() {
        true => Ok(x),
        false => Err(BpfaError::Argument {
            argument: "entry",
            value: format!("{value} in row {row}, column {column}"),
            rule: "within the range of single precision, in units of the fit where there are any",
        }),
    }
}

/// Entries by columns; empty when rows are complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct ByColumn {
    starts: Vec<usize>,
    rows: Vec<u32>,
    entries: Vec<u32>,
}

impl BpfaRows {
    /// Complete rows: `values[i * n_columns + p]`.
    ///
    /// # Errors
    /// No entry, a number of values that does not fit, one that is not finite, more than 2^32 - 2 entries or rows.
    pub fn complete(n_rows: usize, n_columns: usize, values: Vec<f32>) -> Result<Self, BpfaError> {
        check_size("values", values.len(), n_rows.saturating_mul(n_columns))?;
        Self::checked(n_rows, n_columns, Vec::new(), Vec::new(), values)
    }

    /// Rows with holes: entries `starts[i]..starts[i + 1]` of `columns` and `values` are those of row i, columns ascending. Rows that turn out to have no holes are
    /// held as complete ones.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); starts that do not ascend from 0 to the number of entries; columns that do not ascend within a row, or do not exist.
    pub fn new(
        n_columns: usize,
        starts: &[usize],
        columns: Vec<u32>,
        values: Vec<f32>,
    ) -> Result<Self, BpfaError> {
        let ascending = starts.first() == Some(&0)
            && starts.windows(2).all(|w| w[0] <= w[1])
            && starts.last() == Some(&values.len());
        if !ascending {
            return Err(BpfaError::Argument {
                argument: "starts",
                value: format!("{} numbers", starts.len()),
                rule: "ascending from 0 to the number of entries",
            });
        }
        check_size("columns", columns.len(), values.len())?;
        let n_rows = starts.len() - 1;
        for (row, w) in starts.windows(2).enumerate() {
            let own = &columns[w[0]..w[1]];
            let sound = own.windows(2).all(|c| c[0] < c[1])
                && own.last().is_none_or(|&last| (last as usize) < n_columns);
            if !sound {
                return Err(BpfaError::Argument {
                    argument: "columns",
                    value: format!("those of row {row}"),
                    rule: "ascending and below the number of columns",
                });
            }
        }
        if n_rows.checked_mul(n_columns) == Some(values.len()) {
            return Self::checked(n_rows, n_columns, Vec::new(), Vec::new(), values);
        }
        Self::checked(n_rows, n_columns, starts.to_vec(), columns, values)
    }

    fn checked(
        n_rows: usize,
        n_columns: usize,
        starts: Vec<usize>,
        columns: Vec<u32>,
        values: Vec<f32>,
    ) -> Result<Self, BpfaError> {
        if values.is_empty() {
            return Err(BpfaError::NoEntries);
        }
        for (argument, n) in [
            ("rows", n_rows),
            ("columns", n_columns),
            ("entries", values.len()),
        ] {
            if n > LIMIT {
                return Err(BpfaError::Argument {
                    argument,
                    value: n.to_string(),
                    rule: "at most 2^32 - 2",
                });
            }
        }
        let by_column = ByColumn::of(n_columns, &starts, &columns);
        let rows = Self {
            n_rows,
            n_columns,
            starts,
            columns,
            n_sites: values.len(),
            values,
            by_column,
            channels: vec![0; n_columns],
            n_channels: 1,
            sites: Vec::new(),
            locations: Vec::new(),
            n_coordinates: 0,
            bounds: Vec::new(),
        };
        if let Some(entry) = rows.values.iter().position(|v| !v.is_finite()) {
            let (row, column) = rows.cell(entry);
            return Err(BpfaError::Entry {
                row,
                column,
                value: rows.values[entry].into(),
            });
        }
        Ok(rows)
    }

    /// The observed cells of a table, as they are.
    ///
    /// # Errors
    /// No observed cell; a value beyond the range of single precision.
    pub fn from_table(table: &Table) -> Result<Self, BpfaError> {
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..table.n_rows() {
            for (j, x) in table.observed_in_row(i) {
                columns.push(j as u32);
                values.push(single(i, j, x, x)?);
            }
            starts.push(values.len());
        }
        Self::new(table.n_cols(), &starts, columns, values)
    }

    /// Ratings, as they are; those of a row come from [`Ratings::row`].
    ///
    /// # Errors
    /// No rating; a value beyond the range of single precision.
    pub fn from_ratings(ratings: &Ratings) -> Result<Self, BpfaError> {
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for i in 0..ratings.n_rows() {
            let (js, xs) = ratings.row(i);
            columns.extend_from_slice(js);
            for (&j, &x) in js.iter().zip(xs) {
                values.push(single(i, j as usize, x, x)?);
            }
            starts.push(values.len());
        }
        Self::new(ratings.n_cols(), &starts, columns, values)
    }

    /// Says which columns have noise of one precision: `channels[p]` from 0 on (colours of an image, say). Without it all columns have one.
    ///
    /// # Errors
    /// Another number of channels than columns; a channel that no column has.
    pub fn with_channels(mut self, channels: Vec<u32>) -> Result<Self, BpfaError> {
        check_size("channels", channels.len(), self.n_columns)?;
        let n = channels.iter().max().map_or(0, |&c| c as usize + 1);
        let mut seen = vec![false; n.min(self.n_columns)];
        let gaps = n > self.n_columns || {
            channels.iter().for_each(|&c| seen[c as usize] = true);
            seen.contains(&false)
        };
        if gaps {
            return Err(BpfaError::Argument {
                argument: "channels",
                value: format!("up to {n}"),
                rule: "numbered from 0 without gaps",
            });
        }
        self.channels = channels;
        self.n_channels = n;
        Ok(self)
    }

    /// Says which entries measure one and the same thing (a pixel that lies in many patches): `sites[e]` of entry e, in the order of the entries. It matters
    /// to spiky noise: a site has one spike.
    ///
    /// # Errors
    /// Another number of sites than entries; a site that is not below `n_sites`.
    pub fn with_sites(mut self, n_sites: usize, sites: Vec<u32>) -> Result<Self, BpfaError> {
        check_size("sites", sites.len(), self.values.len())?;
        let found = sites.iter().max().map_or(0, |&s| s as usize);
        if found >= n_sites || n_sites > LIMIT {
            return Err(BpfaError::Argument {
                argument: "sites",
                value: found.to_string(),
                rule: "below n_sites, which is at most 2^32 - 2",
            });
        }
        self.sites = sites;
        self.n_sites = n_sites;
        Ok(self)
    }

    /// Says where rows lie: `coordinates[i * n_coordinates + d]`; for usage that depends on covariates.
    ///
    /// # Errors
    /// No coordinate, another number than fits, one that is not finite.
    pub fn with_locations(
        mut self,
        n_coordinates: usize,
        coordinates: Vec<f32>,
    ) -> Result<Self, BpfaError> {
        if n_coordinates == 0 {
            return Err(BpfaError::Argument {
                argument: "n_coordinates",
                value: "0".to_owned(),
                rule: "at least 1",
            });
        }
        let expected = self.n_rows.saturating_mul(n_coordinates);
        check_size("coordinates", coordinates.len(), expected)?;
        if let Some(at) = coordinates.iter().position(|x| !x.is_finite()) {
            return Err(BpfaError::Entry {
                row: at / n_coordinates,
                column: at % n_coordinates,
                value: coordinates[at].into(),
            });
        }
        self.locations = coordinates;
        self.n_coordinates = n_coordinates;
        Ok(self)
    }

    /// Says that what was measured was cut off at these values (0 and 255 of a picture): an entry at or beyond a bound says only that the value lies there or
    /// beyond ([`BpfaMove::Latents`](crate::BpfaMove::Latents)).
    ///
    /// # Errors
    /// Bounds that are not finite and ascending.
    pub fn with_bounds(mut self, low: f32, high: f32) -> Result<Self, BpfaError> {
        if !(low.is_finite() && high.is_finite() && low < high) {
            return Err(BpfaError::Argument {
                argument: "bounds",
                value: format!("{low} and {high}"),
                rule: "finite, the lower one first",
            });
        }
        self.bounds = vec![(low, high)];
        Ok(self)
    }

    /// Bounds of what could be measured.
    pub fn bounds(&self) -> Option<(f32, f32)> {
        self.bounds.first().copied()
    }

    /// The same rows with other values.
    pub(crate) fn with_values(&self, values: Vec<f32>) -> Self {
        debug_assert_eq!(values.len(), self.values.len());
        Self {
            values,
            ..self.clone()
        }
    }

    /// Number of rows, N.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns, P.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Number of observed entries.
    pub fn n_entries(&self) -> usize {
        self.values.len()
    }

    /// Whether no entry is missing.
    pub fn is_complete(&self) -> bool {
        self.starts.is_empty()
    }

    /// Number of noise channels.
    pub fn n_channels(&self) -> usize {
        self.n_channels
    }

    /// Noise channel of each column.
    pub fn channels(&self) -> &[u32] {
        &self.channels
    }

    /// Number of sites; as many as entries unless [`with_sites`](Self::with_sites) says otherwise.
    pub fn n_sites(&self) -> usize {
        self.n_sites
    }

    /// Where rows lie, `n_coordinates` numbers for each; empty without locations.
    pub fn locations(&self) -> (&[f32], usize) {
        (&self.locations, self.n_coordinates)
    }

    /// Observed values of row `i`.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn values(&self, i: usize) -> &[f32] {
        &self.values[self.range(i)]
    }

    /// Columns of these values; `None` when rows are complete: 0, 1, ..., P - 1.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn columns(&self, i: usize) -> Option<&[u32]> {
        (!self.is_complete()).then(|| &self.columns[self.range(i)])
    }

    /// Entries of row `i`.
    #[inline]
    pub(crate) fn range(&self, i: usize) -> std::ops::Range<usize> {
        if self.is_complete() {
            i * self.n_columns..(i + 1) * self.n_columns
        } else {
            self.starts[i]..self.starts[i + 1]
        }
    }

    /// Site of an entry.
    #[inline]
    pub(crate) fn site(&self, entry: usize) -> usize {
        self.sites.get(entry).map_or(entry, |&s| s as usize)
    }

    /// Row and entry of each observed value of a column, rows ascending. Of complete rows: all.
    pub(crate) fn column(&self, p: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let complete = self.is_complete();
        let n = if complete { self.n_rows } else { 0 };
        let dense = (0..n).map(move |i| (i, i * self.n_columns + p));
        let own = if complete {
            0..0
        } else {
            self.by_column.range(p)
        };
        let sparse = own.map(|at| {
            (
                self.by_column.rows[at] as usize,
                self.by_column.entries[at] as usize,
            )
        });
        dense.chain(sparse)
    }

    /// Number of observed values of a column.
    pub fn column_count(&self, p: usize) -> usize {
        if self.is_complete() {
            self.n_rows
        } else {
            self.by_column.range(p).len()
        }
    }

    /// All values, row by row.
    pub(crate) fn all_values(&self) -> &[f32] {
        &self.values
    }

    fn cell(&self, entry: usize) -> (usize, usize) {
        if self.is_complete() {
            return (entry / self.n_columns, entry % self.n_columns);
        }
        let row = self.starts.partition_point(|&s| s <= entry) - 1;
        (row, self.columns[entry] as usize)
    }
}

impl ByColumn {
    fn of(n_columns: usize, starts: &[usize], columns: &[u32]) -> Self {
        if starts.is_empty() {
            return Self::default();
        }
        let mut own = vec![0; n_columns + 1];
        columns.iter().for_each(|&c| own[c as usize + 1] += 1);
        for c in 0..n_columns {
            own[c + 1] += own[c];
        }
        let mut next = own.clone();
        let (mut rows, mut entries) = (vec![0; columns.len()], vec![0; columns.len()]);
        for (row, w) in starts.windows(2).enumerate() {
            for entry in w[0]..w[1] {
                let at = &mut next[columns[entry] as usize];
                rows[*at] = row as u32;
                entries[*at] = entry as u32;
                *at += 1;
            }
        }
        Self {
            starts: own,
            rows,
            entries,
        }
    }

    fn range(&self, p: usize) -> std::ops::Range<usize> {
        self.starts[p]..self.starts[p + 1]
    }
}
