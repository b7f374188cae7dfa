//! Entries grouped by rows or by columns, and the blocks that are worked on together.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Blocks of rows (or columns) that are worked on in parallel and summed in order, at most.
const BLOCKS: usize = 256;

/// A row without entries costs about as much as this many entries.
const ROW_COST: usize = 32;

/// Entries grouped by rows, or by columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    pub(crate) fn new(starts: Vec<usize>, others: Vec<u32>, values: Vec<f32>) -> Self {
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

    /// Number of entries of each group.
    pub(crate) fn counts(&self) -> Vec<u32> {
        (0..self.len())
            .map(|group| self.range(group).len() as u32)
            .collect()
    }

    pub(crate) fn range(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }
}

pub(crate) fn blocks(starts: &[usize]) -> Vec<Range<usize>> {
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

/// Where the entries of each of `n` groups start, and after the last group their number.
pub(crate) fn starts(n: usize, len: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut starts = Vec::with_capacity(n + 1);
    starts.push(0);
    let mut total = 0;
    for group in 0..n {
        total += len(group);
        starts.push(total);
    }
    starts
}

/// The sum of no numbers, from which sums begin.
pub(crate) const NOTHING: f64 = -0.0;

/// The largest absolute value.
pub(crate) fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |most, value| most.max(value.abs()))
}

/// The sum of values over a unit, or when there is a mean of squared deviations from it, in order, from `so_far` on.
pub(crate) fn sum(
    values: impl Iterator<Item = f64>,
    unit: f64,
    mean: Option<f64>,
    so_far: f64,
) -> f64 {
    let term = |value: f64| match mean {
        None => value / unit,
        Some(mean) => (value / unit - mean).powi(2),
    };
    values.map(term).fold(so_far, |sum, term| sum + term)
}

/// A value in units of the model.
pub(crate) fn in_units(value: f64, (centre, scale): (f64, f64)) -> f32 {
    ((value - centre) / scale) as f32
}
