//! The observed entries as the sampler reads them.

use std::ops::Range;

use npb_data::Ratings;
use rayon::prelude::*;

use crate::config::Units;
use crate::features::{Features, SideInformation};
use crate::state::Shape;
use crate::{BsvdConfig, BsvdError};

/// Blocks of rows (or columns) that are worked on in parallel and summed in order, at most.
const BLOCKS: usize = 256;

/// A row without entries costs about as much as this many entries.
const ROW_COST: usize = 32;

/// Entries grouped by rows, or by columns.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    /// Entries of group g: `starts[g]..starts[g + 1]`.
    pub(crate) starts: Vec<usize>,
    /// Column of each entry (or its row).
    pub(crate) others: Vec<u32>,
    /// Response in units of the model.
    pub(crate) values: Vec<f32>,
    /// Groups that are worked on together: of about equal cost, and the same whatever the number of threads.
    pub(crate) blocks: Vec<Range<usize>>,
}

impl Cells {
    fn new(starts: Vec<usize>, others: Vec<u32>, values: Vec<f32>) -> Self {
        let blocks = blocks(&starts);
        Self {
            starts,
            others,
            values,
            blocks,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn range(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }
}

fn blocks(starts: &[usize]) -> Vec<Range<usize>> {
    let n = starts.len() - 1;
    let cost = |group: usize| starts[group] + ROW_COST * group;
    let share = cost(n).div_ceil(BLOCKS).max(64 * ROW_COST);
    let mut blocks = Vec::new();
    let mut first = 0;
    for group in 1..=n {
        if group == n || cost(group) - cost(first) >= share {
            blocks.push(first..group);
            first = group;
        }
    }
    blocks
}

/// Training data, prepared: the entries by rows and by columns in single precision, in units of the model, and the features of both sides.
///
/// Holds 16 bytes for each entry; the [`Ratings`] it was made from are not needed any more.
#[derive(Clone, Debug)]
pub struct BsvdData {
    pub(crate) rows: Cells,
    pub(crate) columns: Cells,
    pub(crate) side: SideInformation,
    pub(crate) centre: f64,
    pub(crate) scale: f64,
}

impl BsvdData {
    /// Prepares `ratings` (I x J) and the features of its rows and columns for a fit with `config`.
    ///
    /// # Errors
    /// A configuration out of range, no entry, entries all equal ([`Units::Observed`] only), features of another number of rows or columns.
    pub fn new<V: Copy + Into<f64> + Send + Sync>(
        ratings: &Ratings<V>,
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<Self, BsvdError> {
        config.validate()?;
        let n = ratings.n_observed();
        if n == 0 {
            return Err(BsvdError::NoEntries);
        }
        fits("row features", side.rows.as_ref(), ratings.n_rows())?;
        fits("column features", side.columns.as_ref(), ratings.n_cols())?;
        let (centre, scale) = units(ratings, config.units)?;
        let in_units = |v: &V| ((Into::<f64>::into(*v) - centre) / scale) as f32;
        let values: Vec<f32> = ratings.values().par_iter().map(in_units).collect();
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(beyond(ratings, at));
        }
        let rows = Cells::new(
            starts(ratings.n_rows(), |i| ratings.row(i).0.len()),
            (0..ratings.n_rows())
                .flat_map(|i| ratings.row(i).0)
                .copied()
                .collect(),
            values,
        );
        let columns = Cells::new(
            starts(ratings.n_cols(), |j| ratings.column(j).0.len()),
            (0..ratings.n_cols())
                .flat_map(|j| ratings.column(j).0)
                .copied()
                .collect(),
            (0..ratings.n_cols())
                .flat_map(|j| ratings.column(j).1)
                .map(in_units)
                .collect(),
        );
        Ok(Self {
            rows,
            columns,
            side,
            centre,
            scale,
        })
    }

    /// I.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// J.
    pub fn n_cols(&self) -> usize {
        self.columns.len()
    }

    /// Number of observed entries.
    pub fn n_observed(&self) -> usize {
        self.rows.values.len()
    }

    /// Centre and scale of the units of the model: `(y - centre) / scale`.
    pub fn units(&self) -> (f64, f64) {
        (self.centre, self.scale)
    }

    /// Sum of the weights of the entries.
    pub(crate) fn total_weight(&self) -> f64 {
        self.n_observed() as f64
    }

    pub(crate) fn shape(&self, config: &BsvdConfig) -> Shape {
        let q = |features: &Option<Features>| features.as_ref().map_or(0, Features::n_features);
        Shape {
            n_rows: self.n_rows(),
            n_cols: self.n_cols(),
            row_features: q(&self.side.rows),
            column_features: q(&self.side.columns),
            row_intercepts: config.row_intercepts,
            column_intercepts: config.column_intercepts,
        }
    }
}

fn starts(n: usize, len: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut starts = Vec::with_capacity(n + 1);
    starts.push(0);
    let mut total = 0;
    for group in 0..n {
        total += len(group);
        starts.push(total);
    }
    starts
}

fn fits(what: &'static str, features: Option<&Features>, expected: usize) -> Result<(), BsvdError> {
    match features {
        Some(f) if f.n_rows() != expected => Err(BsvdError::Size {
            what,
            found: f.n_rows(),
            expected,
        }),
        _ => Ok(()),
    }
}

/// Mean and standard deviation of the entries, or what was given.
fn units<V: Copy + Into<f64> + Send + Sync>(
    ratings: &Ratings<V>,
    units: Units,
) -> Result<(f64, f64), BsvdError> {
    let (centre, scale) = match units {
        Units::Given { centre, scale } => (centre, scale),
        Units::Observed => {
            // Relative to the largest value, so that squares of 1e300 stay finite.
            let values = || ratings.values().iter().map(|&v| Into::<f64>::into(v));
            let largest = values().fold(0.0f64, |m, v| m.max(v.abs()));
            let n = ratings.n_observed() as f64;
            let unit = if largest > 0.0 { largest } else { 1.0 };
            let mean = values().map(|v| v / unit).sum::<f64>() / n;
            let variance = values().map(|v| (v / unit - mean).powi(2)).sum::<f64>() / n;
            (mean * unit, variance.sqrt() * unit)
        }
    };
    if scale.is_finite() && scale > 1e-12 * centre.abs() {
        return Ok((centre, scale));
    }
    Err(BsvdError::Constant {
        value: ratings.values()[0].into(),
        entries: ratings.n_observed(),
    })
}

fn beyond<V: Copy + Into<f64> + Send + Sync>(ratings: &Ratings<V>, at: usize) -> BsvdError {
    let entry = ratings.iter().nth(at);
    let (row, column) = entry.map_or((0, 0), |e| (e.row as usize, e.column as usize));
    BsvdError::Entry {
        row,
        column,
        value: ratings.values()[at].into(),
        rule: "is beyond single precision in the units of the model: choose other units",
    }
}
