//! Rows in the order passes over them want: rows of one kind together, and of these rows with one missing pattern together.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The observed and missing features of a group of rows, ascending.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pattern {
    /// Positions of the observed features.
    pub observed: Vec<usize>,
    /// Positions of the missing features.
    pub missing: Vec<usize>,
}

/// Consecutive sorted rows with one pattern, all labelled or all not, within one block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Number of the pattern.
    pub pattern: usize,
    /// Sorted positions.
    pub rows: Range<usize>,
}

/// Consecutive groups whose rows are multiplied with the components' precisions in one product.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Block {
    /// Numbers of the groups.
    pub groups: Range<usize>,
    /// Sorted positions.
    pub rows: Range<usize>,
    /// Whether its rows have labels.
    pub labelled: bool,
    /// No row has a missing feature, or each has one.
    pub complete: bool,
    /// Rows like these see so few features, and are so many, that sums of covariances of missing features are best completed after the last row.
    pub reduced: bool,
}

/// Rows in a block: enough to make the products efficient, few enough for the second-level cache.
const BLOCK_ROWS: usize = 64;

/// Values further out than this many standard deviations are moved here, so that their squares are finite.
const FARTHEST: f64 = 1e100;

/// Standardised rows, labelled ones first, sorted by missing pattern and cut into blocks.
///
/// ```
/// use npb_linalg::mixture::{Pattern, SortedRows};
///
/// let values = [[1.0, 2.0], [3.0, 0.0], [5.0, 6.0]];
/// let complete = Pattern { observed: vec![0, 1], missing: vec![] };
/// let hole = Pattern { observed: vec![0], missing: vec![1] };
/// let patterns = vec![(complete, vec![0, 2]), (hole, vec![1])];
/// let rows = SortedRows::new(2, patterns, |row| &values[row], |_| false);
/// assert_eq!((rows.order.as_slice(), rows.blocks.len()), (&[0, 2, 1][..], 2));
/// assert_eq!(rows.row(1), [5.0, 6.0]);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SortedRows {
    /// P.
    pub n_features: usize,
    /// Row-major, zero where missing.
    pub values: Vec<f64>,
    /// `order[k]` is the row at sorted position `k`.
    pub order: Vec<usize>,
    /// Missing patterns.
    pub patterns: Vec<Pattern>,
    /// Groups in the order of their rows.
    pub groups: Vec<Group>,
    /// Blocks in the order of their rows.
    pub blocks: Vec<Block>,
}

impl SortedRows {
    /// `patterns`: each with its rows; `row`: the features of a row, zero where missing; `labelled`: whether it has a label.
    pub fn new<'a>(
        n_features: usize,
        patterns: Vec<(Pattern, Vec<usize>)>,
        row: impl Fn(usize) -> &'a [f64],
        labelled: impl Fn(usize) -> bool,
    ) -> Self {
        let mut sorted = Self::of_features(n_features);
        let (patterns, members): (_, Vec<Vec<usize>>) = patterns.into_iter().unzip();
        sorted.patterns = patterns;
        for kind in [true, false] {
            let first_group = sorted.groups.len();
            for (pattern, members) in members.iter().enumerate() {
                let start = sorted.order.len();
                for &member in members.iter().filter(|&&member| labelled(member) == kind) {
                    let values = row(member).iter().map(|x| x.clamp(-FARTHEST, FARTHEST));
                    sorted.values.extend(values);
                    sorted.order.push(member);
                }
                sorted.push_groups(pattern, start);
            }
            sorted.cut_blocks(first_group, kind);
        }
        sorted
    }

    /// No rows, of so many features.
    pub fn of_features(n_features: usize) -> Self {
        Self {
            n_features,
            values: Vec::new(),
            order: Vec::new(),
            patterns: Vec::new(),
            groups: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// The row at this position alone.
    pub fn only(&self, position: usize) -> Self {
        let holds = |group: &&Group| group.rows.contains(&position);
        let group = self.groups.iter().find(holds);
        let pattern = &self.patterns[group.expect("groups hold all rows").pattern];
        let block = self.blocks.iter().find(|b| b.rows.contains(&position));
        Self {
            n_features: self.n_features,
            values: self.row(position).to_vec(),
            order: vec![0],
            patterns: vec![pattern.clone()],
            groups: vec![Group {
                pattern: 0,
                rows: 0..1,
            }],
            blocks: vec![Block {
                groups: 0..1,
                rows: 0..1,
                labelled: block.is_some_and(|block| block.labelled),
                complete: pattern.missing.is_empty(),
                reduced: false,
            }],
        }
    }

    /// The features at a sorted position.
    #[inline]
    pub fn row(&self, position: usize) -> &[f64] {
        &self.values[position * self.n_features..(position + 1) * self.n_features]
    }

    /// The features of the rows of a block, row-major.
    #[inline]
    pub fn block(&self, block: &Block) -> &[f64] {
        &self.values[block.rows.start * self.n_features..block.rows.end * self.n_features]
    }

    /// A group never crosses a block boundary, so the rows from a position on are cut here, if they are many.
    fn push_groups(&mut self, pattern: usize, start: usize) {
        let (mut from, end) = (start, self.order.len());
        while from < end {
            let to = end.min(from + BLOCK_ROWS);
            self.groups.push(Group {
                pattern,
                rows: from..to,
            });
            from = to;
        }
    }

    /// Whether one product of all P x P entries costs less than those of the missing with the observed ones, pattern by pattern.
    fn reduced(&self, first_group: usize) -> bool {
        let each = self.groups[first_group..].iter().map(|group| {
            let pattern = &self.patterns[group.pattern];
            let (o, m) = (pattern.observed.len(), pattern.missing.len());
            if o < m { o * m * (o + m) / 2 } else { 0 }
        });
        each.sum::<usize>() > self.n_features.pow(3)
    }

    fn cut_blocks(&mut self, first_group: usize, labelled: bool) {
        let reduced = self.reduced(first_group);
        let mut group = first_group;
        while group < self.groups.len() {
            let start = self.groups[group].rows.start;
            let first = group;
            let complete = self.is_complete(first);
            while group < self.groups.len()
                && self.groups[group].rows.end - start <= BLOCK_ROWS
                && self.is_complete(group) == complete
            {
                group += 1;
            }
            let end = self.groups[group - 1].rows.end;
            self.blocks.push(Block {
                groups: first..group,
                rows: start..end,
                labelled,
                complete,
                reduced,
            });
        }
    }

    fn is_complete(&self, group: usize) -> bool {
        self.patterns[self.groups[group].pattern].missing.is_empty()
    }
}
