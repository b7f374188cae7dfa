//! A part of the entries, and what it answers: some consecutive rows with all of their entries, or some columns with all of theirs.

use std::ops::Range;

use npb_data::Rating;
use npb_infer::Saved;
use npb_infer::parallel;
use npb_infer::storage::fingerprint;
use npb_linalg::aligned::Aligned;
use npb_linalg::row_regression::Layout;
use pulp::Arch;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::grouped::{Cells, in_units, largest, starts, sum};
use crate::products::{Candidates, ProductPass};
use crate::questions::{PassQuestion, ProductQuestion, Question, check, pack, unpack, wrong};
use crate::regression::{Pass, Pool, Regressors, ResidualSums, Target, fill_design};
use crate::side::Side;
use crate::state::SideState;

/// The rows whose fingerprints are added up by one thread.
const ROWS: usize = 1024;

/// Some consecutive rows, or columns, of a matrix, with all of their entries: a part of [`RatingsInShards`](crate::RatingsInShards).
///
/// Holds 12 bytes for each entry as it is made, and 8 once it is in units of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    side: Side,
    /// Number of its first row.
    first: usize,
    /// Columns of the matrix.
    others: usize,
    /// Numbered from the first row; responses are there once units are known.
    cells: Cells,
    /// Values as they were given, until then.
    given: Vec<f64>,
}

impl Shard {
    /// Rows `range` of a matrix of `n_cols` columns, whose entries these are, in any order.
    ///
    /// # Errors
    /// An entry elsewhere, not finite, or given twice.
    pub fn rows(
        range: Range<usize>,
        n_cols: usize,
        entries: Vec<Rating>,
    ) -> Result<Self, BsvdError> {
        Self::new(Side::Rows, range, n_cols, entries)
    }

    /// Columns `range` of a matrix of `n_rows` rows, whose entries these are, in any order.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn columns(
        range: Range<usize>,
        n_rows: usize,
        entries: Vec<Rating>,
    ) -> Result<Self, BsvdError> {
        Self::new(Side::Columns, range, n_rows, entries)
    }

    fn new(
        side: Side,
        range: Range<usize>,
        others: usize,
        mut entries: Vec<Rating>,
    ) -> Result<Self, BsvdError> {
        let place = |e: &Rating| match side {
            Side::Rows => (e.row, e.column),
            Side::Columns => (e.column, e.row),
        };
        for (index, e) in entries.iter().enumerate() {
            let (own, other) = place(e);
            let outside = |side: Side, found: u32, size: usize| BsvdError::Index {
                what: "entry",
                index,
                axis: side.name(),
                found: found as usize,
                size,
            };
            if !range.contains(&(own as usize)) {
                return Err(outside(side, own, range.len()));
            }
            if other as usize >= others {
                return Err(outside(side.opposite(), other, others));
            }
            if !e.value.is_finite() {
                return Err(refused(e, "is not a finite number"));
            }
        }
        entries.sort_unstable_by_key(place);
        let again = entries
            .windows(2)
            .find(|two| place(&two[0]) == place(&two[1]));
        if let Some(two) = again {
            return Err(refused(&two[1], "is given, and another value: keep one"));
        }
        let mut counts = vec![0; range.len()];
        entries
            .iter()
            .for_each(|e| counts[place(e).0 as usize - range.start] += 1);
        Ok(Self {
            side,
            first: range.start,
            others,
            cells: Cells {
                starts: starts(range.len(), |i| counts[i]),
                others: entries.iter().map(|e| place(e).1).collect(),
                values: Vec::new(),
                blocks: Vec::new(),
            },
            given: entries.iter().map(|e| e.value).collect(),
        })
    }

    /// Bytes that its numbers take.
    pub fn n_bytes(&self) -> usize {
        let cells = &self.cells;
        let single = cells.others.len() + cells.values.len();
        4 * single + 8 * (cells.starts.len() + self.given.len())
    }

    /// Answers a question of [`RatingsInShards`](crate::RatingsInShards): what all shards of its side are asked, and what it is told alone.
    ///
    /// # Errors
    /// Bytes of another version; numerical trouble.
    pub fn answer(&self, common: &[u8], own: &[u8]) -> Result<Vec<u8>, BsvdError> {
        let (question, tables) = unpack::<Question, 3>(common)?;
        let given = || self.given.iter().copied();
        match question {
            Question::Pattern => pack(&(self.cells.counts(), &self.cells.others), &[]),
            Question::Largest => pack(&largest(given()), &[]),
            Question::Sum { unit, mean } => {
                let (so_far, []) = unpack(own)?;
                pack(&sum(given(), unit, mean, so_far), &[])
            }
            Question::Beyond { units } => {
                let mut values = given().enumerate();
                pack(&values.find(|&(_, v)| !in_units(v, units).is_finite()), &[])
            }
            Question::Marked => {
                let (marks, []): (Vec<bool>, _) = unpack(own)?;
                let marked = given().zip(marks).filter(|(_, marked)| *marked);
                pack(&marked.map(|(value, _)| value).collect::<Vec<f64>>(), &[])
            }
            Question::Responses => {
                let (so_far, []): (f64, _) = unpack(own)?;
                let responses = self.cells.values.iter().map(|&y| f64::from(y));
                pack(&responses.fold(so_far, |sum, y| sum + y), &[])
            }
            Question::Content => pack(&self.content()?, &[]),
            Question::Pass(question) => self.pass(&question, tables, own),
            Question::Products(question) => self.products(&question, tables, own),
        }
    }

    /// The same shard in units of the model, without the entries that it is told are held out.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn derive(&self, common: &[u8], own: &[u8]) -> Result<Self, BsvdError> {
        let (units, []): ((f64, f64), _) = unpack(common)?;
        let (held_out, []): (Vec<bool>, _) = unpack(own)?;
        let sized = held_out.is_empty() || held_out.len() == self.given.len();
        check(sized, "held-out entries")?;
        let kept = |at: &usize| !held_out.get(*at).copied().unwrap_or(false);
        let places = || (0..self.given.len()).filter(kept);
        let of_row = |i: usize| self.cells.range(i).filter(kept).count();
        Ok(Self {
            cells: Cells {
                starts: starts(self.cells.len(), of_row),
                others: places().map(|at| self.cells.others[at]).collect(),
                values: places().map(|at| in_units(self.given[at], units)).collect(),
                blocks: Vec::new(),
            },
            given: Vec::new(),
            ..*self
        })
    }

    /// The sum of fingerprints of all rows, so that it does not matter where shards are cut.
    fn content(&self) -> Result<u64, BsvdError> {
        let rows: Vec<usize> = (0..self.cells.len()).collect();
        let sums = parallel::try_map(rows.chunks(ROWS), |rows| {
            rows.iter().try_fold(0u64, |sum, &i| {
                let (number, range) = (self.first + i, self.cells.range(i));
                let of_row = (number, &self.cells.values[range], number);
                Ok::<_, BsvdError>(sum.wrapping_add(fingerprint(&of_row)?))
            })
        })?;
        Ok(sums.into_iter().fold(0, u64::wrapping_add))
    }

    fn pass(
        &self,
        question: &PassQuestion,
        [others, other_intercepts, other_weights]: [Vec<f32>; 3],
        own: &[u8],
    ) -> Result<Vec<u8>, BsvdError> {
        let (blocks, tables): (Vec<Range<usize>>, [Vec<f32>; 4]) = unpack(own)?;
        let [mut factors, mut intercepts, mut weights, factor_weights] = tables;
        let (n, rank) = (self.cells.len(), question.scales.len());
        let regressors = Regressors {
            rank,
            intercept: question.intercept,
            features: 0,
        };
        let n_intercepts = if question.intercept { n } else { 0 };
        if !question.reads() {
            factors = vec![0.0; n * rank];
            intercepts = vec![0.0; n_intercepts];
        }
        let width = regressors.layout().width;
        let mut means = vec![0.0; if question.means { n * width } else { 0 }];
        let sized = factors.len() == n * rank
            && intercepts.len() == n_intercepts
            && of_all(&weights, n)
            && of_all(&factor_weights, n)
            && question.others == self.others
            && others.len() == question.others * rank
            && of_all(&other_intercepts, question.others)
            && of_all(&other_weights, question.others)
            && question.prior_precision.len() == width
            && question.prior_linear.len() == width
            && self.given.is_empty();
        check(sized && follow(blocks.iter(), n), "pass")?;
        let mut design = Aligned::default();
        fill_design(
            &regressors,
            &others,
            &question.scales,
            None,
            &other_weights,
            question.others,
            &mut design,
        );
        let other = SideState {
            intercepts: other_intercepts,
            noise_weights: other_weights,
            ..SideState::default()
        };
        let pass = Pass {
            arch: Arch::new(),
            first: self.first,
            cells: &self.cells,
            values: &self.cells.values,
            roots: None,
            regressors,
            design: &design,
            other: &other,
            features: None,
            offset: question.offset,
            noise_precision: question.noise_precision,
            prior_precision: &question.prior_precision,
            prior_linear: &question.prior_linear,
            links: &[],
            factor_weights: &factor_weights,
            task: question.task,
            coordinates: question.coordinates,
            noise_shape: question.noise_shape,
            key: question.key,
            block_name: question.side.name(),
            pool: &Pool::default(),
        };
        let mut sums = vec![ResidualSums::default(); blocks.len()];
        pass.run(
            &blocks,
            Target {
                factors: &mut factors,
                intercepts: &mut intercepts,
                coefficients: &mut [],
                weights: &mut weights,
                means: &mut means,
                latents: &mut [],
                sums: &mut sums,
            },
        )?;
        let drawn = [&factors[..], &intercepts, &weights, &means];
        let tables = match question.task.draws() {
            true => drawn,
            false => [&[][..]; 4],
        };
        pack(&sums, &tables)
    }

    fn products(
        &self,
        question: &ProductQuestion,
        [columns, column_intercepts, column_weights]: [Vec<f32>; 3],
        own: &[u8],
    ) -> Result<Vec<u8>, BsvdError> {
        let (parts, tables): (Vec<Vec<Range<usize>>>, [Vec<f32>; 3]) = unpack(own)?;
        let [rows, intercepts, noise_weights] = tables;
        let layout = Layout::new(question.width);
        let n = self.cells.len();
        let sized = rows.len() == n * layout.stride
            && of_all(&intercepts, n)
            && of_all(&noise_weights, n)
            && question.columns == self.others
            && columns.len() == question.columns * layout.stride
            && of_all(&column_intercepts, question.columns)
            && of_all(&column_weights, question.columns)
            && question.scales.len() == question.width
            && self.given.is_empty();
        check(sized && follow(parts.iter().flatten(), n), "products")?;
        let side = |intercepts, noise_weights| SideState {
            intercepts,
            noise_weights,
            ..SideState::default()
        };
        let candidates = Candidates {
            rows,
            columns,
            ..Candidates::default()
        };
        let pass = ProductPass {
            arch: Arch::new(),
            cells: &self.cells,
            values: &self.cells.values,
            roots: None,
            layout,
            candidates: &candidates,
            scales: &question.scales,
            rows: &side(intercepts, noise_weights),
            columns: &side(column_intercepts, column_weights),
            row_features: None,
            column_features: None,
            offset: question.offset,
            in_double: question.in_double,
        };
        let mut sums = Vec::new();
        pass.run(parts.iter().map(Vec::as_slice), &mut sums);
        pack(&sums, &[])
    }
}

/// Whether there is a number for each of `n`, or none at all.
fn of_all(table: &[f32], n: usize) -> bool {
    table.is_empty() || table.len() == n
}

/// The error about an entry.
fn refused(entry: &Rating, rule: &'static str) -> BsvdError {
    BsvdError::Entry {
        row: entry.row as usize,
        column: entry.column as usize,
        value: entry.value,
        rule,
    }
}

/// Whether ranges follow one another through all of `n` rows.
fn follow<'a>(ranges: impl Iterator<Item = &'a Range<usize>>, n: usize) -> bool {
    let mut at = 0;
    for range in ranges {
        if range.start != at || range.end < at {
            return false;
        }
        at = range.end;
    }
    at == n
}

impl Saved for Shard {
    const MODEL: &'static str = "npb-bsvd/shard";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Self;
    type Error = BsvdError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(shard: Self) -> Result<Self, BsvdError> {
        let cells = &shard.cells;
        let entries = cells.others.len();
        let sized = cells.starts.first() == Some(&0)
            && cells.starts.last() == Some(&entries)
            && cells.starts.is_sorted()
            && cells.others.iter().all(|&j| (j as usize) < shard.others)
            && [0, entries].contains(&cells.values.len())
            && cells.values.len() + shard.given.len() == entries
            && shard.first.checked_add(cells.len()).is_some();
        match sized {
            true => Ok(shard),
            false => Err(wrong("numbers")),
        }
    }
}
