//! From the units of the data to those of the model, and back.

use npb_data::Table;
use serde::{Deserialize, Serialize};

use crate::BpfaError;
use crate::error::expect;

/// What is subtracted from the entries of a matrix before it is factored. Factors have mean zero, so something should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Centring {
    /// The mean of all observed entries.
    Overall,
    /// Of a table whose columns are different things: the mean of each column, which is then taken in units of its own standard deviation. Ratings are
    /// all in one unit: theirs is [`Columns`](Self::Columns).
    Standardised,
    /// The mean of each column, shrunk towards the overall one as by five entries of that mean.
    Columns,
    /// That, and the mean of each row of what remains, shrunk in the same way.
    RowsAndColumns,
}

/// Entries that a shrunk mean counts for.
const SHRINK: f64 = 5.0;

/// BpfaUnits of the model: `(y - column centre - row centre) / scale of the column`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BpfaUnits {
    pub(crate) columns: Vec<f64>,
    /// Row centres; empty without.
    pub(crate) rows: Vec<f64>,
    /// One for each column.
    pub(crate) scales: Vec<f64>,
}

impl BpfaUnits {
    /// Of observed entries `(row, column, value)`.
    pub(crate) fn new(
        n_rows: usize,
        n_columns: usize,
        centring: Centring,
        entries: &[(u32, u32, f64)],
    ) -> Result<Self, BpfaError> {
        if entries.is_empty() {
            return Err(BpfaError::NoEntries);
        }
        let n = entries.len() as f64;
        // Dividing first keeps sums of huge values finite.
        let overall: f64 = match centring {
            // What other columns are says nothing of one.
            Centring::Standardised => 0.0,
            _ => entries.iter().map(|e| e.2 / n).sum(),
        };
        let mut columns = vec![overall; n_columns];
        let mut rows = Vec::new();
        if centring != Centring::Overall {
            let shrink = if centring == Centring::Standardised {
                0.0
            } else {
                SHRINK
            };
            let rest = |e: &(u32, u32, f64)| (e.1 as usize, e.2 - overall);
            let means = shrunk_means(n_columns, shrink, entries.iter().map(rest));
            columns.iter_mut().zip(means).for_each(|(c, x)| *c += x);
        }
        if centring == Centring::RowsAndColumns {
            let rest = |e: &(u32, u32, f64)| (e.0 as usize, e.2 - columns[e.1 as usize]);
            rows = shrunk_means(n_rows, SHRINK, entries.iter().map(rest));
        }
        let mut units = Self {
            columns,
            rows,
            scales: vec![1.0; n_columns],
        };
        let centred = |e: &(u32, u32, f64)| units.to_model(e.0 as usize, e.1 as usize, e.2);
        let largest = entries.iter().map(|e| centred(e).abs()).fold(0.0, f64::max);
        check_spread(largest, entries)?;
        units.scales = match centring {
            Centring::Standardised => column_scales(n_columns, entries, centred),
            _ => {
                let square = |e| (centred(e) / largest).powi(2) / n;
                let square: f64 = entries.iter().map(square).sum();
                vec![largest * square.sqrt(); n_columns]
            }
        };
        Ok(units)
    }

    /// Centre of the entry at `row`, `column`.
    pub(crate) fn centre(&self, row: usize, column: usize) -> f64 {
        self.columns[column] + self.rows.get(row).copied().unwrap_or(0.0)
    }

    pub(crate) fn to_model(&self, row: usize, column: usize, y: f64) -> f64 {
        (y - self.centre(row, column)) / self.scales[column]
    }

    /// Those of new rows of the same columns.
    pub(crate) fn of_new_rows(&self, table: &Table) -> Self {
        let mut rows = Vec::new();
        if !self.rows.is_empty() {
            let cells = (0..table.n_rows()).flat_map(|i| {
                let own = table.observed_in_row(i);
                own.map(move |(j, y)| (i, y - self.columns[j]))
            });
            rows = shrunk_means(table.n_rows(), SHRINK, cells);
        }
        Self {
            columns: self.columns.clone(),
            rows,
            scales: self.scales.clone(),
        }
    }

    pub(crate) fn check(&self, n_rows: usize, n_columns: usize) -> Result<(), BpfaError> {
        expect(
            self.columns.len() == n_columns
                && (self.rows.is_empty() || self.rows.len() == n_rows)
                && self.columns.iter().chain(&self.rows).all(|x| x.is_finite())
                && self.scales.len() == n_columns
                && self.scales.iter().all(|s| s.is_finite() && *s > 0.0),
            "units",
        )
    }
}

/// The largest difference from a centre must be a number, and not 0.
fn check_spread(largest: f64, entries: &[(u32, u32, f64)]) -> Result<(), BpfaError> {
    if !largest.is_finite() {
        let size = |e: &&(u32, u32, f64)| e.2.abs();
        let far = entries.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
        let &(row, column, value) = far.unwrap_or(&entries[0]);
        return Err(BpfaError::Argument {
            argument: "entry",
            value: format!("{value} in row {row}, column {column}"),
            rule: "near enough to the others for their difference to be a number",
        });
    }
    if largest <= 0.0 {
        return Err(BpfaError::Constant {
            value: entries[0].2,
            entries: entries.len(),
        });
    }
    Ok(())
}

/// Means, each drawn to 0 as by `shrink` values of 0; 0 where there is no value.
fn shrunk_means(n: usize, shrink: f64, values: impl Iterator<Item = (usize, f64)>) -> Vec<f64> {
    let (mut sums, mut counts) = (vec![0.0; n], vec![shrink; n]);
    for (at, x) in values {
        sums[at] += x;
        counts[at] += 1.0;
    }
    let mean = |(sum, n): (&f64, f64)| if n > 0.0 { sum / n } else { 0.0 };
    sums.iter().zip(counts).map(mean).collect()
}

/// Standard deviation of each column; 1 where nothing differs from the centre.
fn column_scales(
    n_columns: usize,
    entries: &[(u32, u32, f64)],
    centred: impl Fn(&(u32, u32, f64)) -> f64,
) -> Vec<f64> {
    let mut largest = vec![0.0_f64; n_columns];
    for e in entries {
        let own = &mut largest[e.1 as usize];
        *own = own.max(centred(e).abs());
    }
    // Dividing first keeps squares of huge and tiny values within the range of numbers.
    let square = |e: &(u32, u32, f64)| (e.1 as usize, (centred(e) / largest[e.1 as usize]).powi(2));
    let squares = shrunk_means(n_columns, 0.0, entries.iter().map(square));
    let scale = |(largest, square): (&f64, f64)| largest * square.sqrt();
    let scales = largest.iter().zip(squares).map(scale);
    scales.map(|s| if s > 0.0 { s } else { 1.0 }).collect()
}
