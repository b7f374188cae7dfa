//! Passes over entries that lie elsewhere: what shards are asked, and how answers are put together in order (`docs/bsvd.md#passes`).

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::BsvdError;
use crate::products::{ProductPass, parts};
use crate::questions::{NO_TABLES, PassQuestion, ProductQuestion, Question, check, pack, unpack};
use crate::regression::{Pass, ResidualSums, Target};
use crate::side::Side;

/// Bytes for some shards, by number.
pub type ByShard = Vec<(usize, Vec<u8>)>;

/// Who holds the shards of a matrix ([`Shard`](crate::Shard)) and brings questions to them: shards by rows come first, in order, then those by columns.
///
/// A shard that is lost must be made again as it was: then answers are the same whatever happens on the way.
pub trait Holder: Debug + Send + Sync {
    /// What [`Shard::answer`](crate::Shard::answer) says of some shards of a set, in the order of `own`. Chains ask at the same time. Questions are large: let go of them when they
    /// are on their way.
    ///
    /// # Errors
    /// [`BsvdError::Shard`], in words.
    fn ask(&self, set: usize, common: Vec<u8>, own: ByShard) -> Result<Vec<Vec<u8>>, BsvdError>;

    /// Makes another set of shards, by [`Shard::derive`](crate::Shard::derive) of all shards of set 0, and gives its number.
    ///
    /// # Errors
    /// [`BsvdError::Shard`], in words.
    fn derive(&self, common: &[u8], own: ByShard) -> Result<usize, BsvdError>;

    /// A set of which nothing is asked any more.
    fn release(&self, set: usize);
}

/// A set of shards, and which rows and columns they have.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(crate) holder: Arc<dyn Holder>,
    pub(crate) set: usize,
    pub(crate) rows: Vec<Range<usize>>,
    pub(crate) columns: Vec<Range<usize>>,
    /// In order by rows.
    pub(crate) sum_of_responses: f64,
    /// A number that is another one for other responses.
    pub(crate) content: u64,
}

impl Drop for Shards {
    fn drop(&mut self) {
        // Set 0 is the holder's own.
        if self.set > 0 {
            self.holder.release(self.set);
        }
    }
}

impl Shards {
    fn of(&self, side: Side) -> (usize, &[Range<usize>]) {
        match side {
            Side::Rows => (0, &self.rows),
            Side::Columns => (self.rows.len(), &self.columns),
        }
    }

    /// Answers of all shards of a side to a question, each told what `own` says of its rows.
    fn ask(
        &self,
        side: Side,
        question: Vec<u8>,
        own: impl FnMut(&Range<usize>) -> Result<Vec<u8>, BsvdError>,
    ) -> Result<Vec<Vec<u8>>, BsvdError> {
        let (first, ranges) = self.of(side);
        let own: Vec<Vec<u8>> = ranges.iter().map(own).collect::<Result<_, _>>()?;
        let answers = self
            .holder
            .ask(self.set, question, (first..).zip(own).collect())?;
        check(answers.len() == ranges.len(), "number")?;
        Ok(answers)
    }

    /// Answers of all shards of rows, in order, of what has no tables.
    pub(crate) fn of_rows<T: DeserializeOwned>(
        &self,
        question: &Question,
        own: impl FnMut(&Range<usize>) -> Result<Vec<u8>, BsvdError>,
    ) -> Result<Vec<T>, BsvdError> {
        let answers = self.ask(Side::Rows, pack(question, &NO_TABLES)?, own)?;
        let answers = answers.iter().map(|answer| Ok(unpack::<T, 0>(answer)?.0));
        answers.collect()
    }

    /// A sum over the entries in order by rows: each shard goes on where the one before ended.
    pub(crate) fn sum(&self, question: &Question, mut so_far: f64) -> Result<f64, BsvdError> {
        let question = pack(question, &NO_TABLES)?;
        for shard in 0..self.rows.len() {
            let own = vec![(shard, pack(&so_far, &[])?)];
            let answers = self.holder.ask(self.set, question.clone(), own)?;
            check(answers.len() == 1, "number")?;
            (so_far, []) = unpack(&answers[0])?;
        }
        Ok(so_far)
    }

    /// A pass over one side; blocks that lie in two shards are summed up row by row, in order as in one process.
    pub(crate) fn pass(
        &self,
        side: Side,
        pass: &Pass<'_>,
        scales: &[f64],
        mut target: Target<'_>,
    ) -> Result<(), BsvdError> {
        let question = PassQuestion {
            side,
            others: self.of(side.opposite()).1.last().map_or(0, |rows| rows.end),
            scales: scales.to_vec(),
            intercept: pass.regressors.intercept,
            offset: pass.offset,
            noise_precision: pass.noise_precision,
            prior_precision: pass.prior_precision.to_vec(),
            prior_linear: pass.prior_linear.to_vec(),
            task: pass.task,
            coordinates: pass.coordinates,
            noise_shape: pass.noise_shape,
            key: pass.key,
            means: !target.means.is_empty(),
        };
        let reads = question.reads();
        let other = pass.other;
        let tables = [&other.factors[..], &other.intercepts, &other.noise_weights];
        let common = pack(&Question::Pass(question), &tables)?;
        let blocks = &pass.cells.blocks;
        let n = pass.cells.len();
        let answers = self.ask(side, common, |rows| {
            let pieces = pieces(blocks, rows);
            let own: Vec<_> = pieces
                .iter()
                .map(|(_, piece)| within(piece, rows))
                .collect();
            let read = |table| if reads { part(table, rows, n) } else { &[] };
            let tables = [
                read(&*target.factors),
                read(&*target.intercepts),
                part(&*target.weights, rows, n),
                part(pass.factor_weights, rows, n),
            ];
            pack(&own, &tables)
        })?;
        let answers = answers.iter().zip(self.of(side).1);
        answers
            .into_iter()
            .try_for_each(|(answer, rows)| take_in(&mut target, answer, rows, pass))
    }

    /// Sums of products over the cells, part by part.
    pub(crate) fn products(
        &self,
        pass: &ProductPass<'_>,
        sums: &mut Vec<f64>,
    ) -> Result<(), BsvdError> {
        let (candidates, columns) = (pass.candidates, pass.columns);
        let question = ProductQuestion {
            columns: candidates.columns.len() / pass.layout.stride,
            width: pass.layout.width,
            scales: pass.scales.to_vec(),
            offset: pass.offset,
            in_double: pass.in_double,
        };
        let tables = [
            &candidates.columns[..],
            &columns.intercepts,
            &columns.noise_weights,
        ];
        let common = pack(&Question::Products(question), &tables)?;
        let n = pass.cells.len();
        let mut rest = parts(&pass.cells.blocks).peekable();
        let answers = self.ask(Side::Rows, common, |rows| {
            let mut own = Vec::new();
            let ends = |part: &&[Range<usize>]| part.last().is_some_and(|b| b.end <= rows.end);
            while let Some(part) = rest.next_if(ends) {
                let blocks = part.iter().map(|block| within(block, rows));
                own.push(blocks.collect::<Vec<_>>());
            }
            let tables = [
                part(&candidates.rows, rows, n),
                part(&pass.rows.intercepts, rows, n),
                part(&pass.rows.noise_weights, rows, n),
            ];
            pack(&own, &tables)
        })?;
        sums.clear();
        for answer in &answers {
            let (own, []): (Vec<f64>, _) = unpack(answer)?;
            sums.extend(own);
        }
        let expected = parts(&pass.cells.blocks).len() * pass.layout.sums_len();
        check(sums.len() == expected, "sums of products")
    }
}

/// The answer of a shard to a pass in its place.
fn take_in(
    target: &mut Target<'_>,
    answer: &[u8],
    rows: &Range<usize>,
    pass: &Pass<'_>,
) -> Result<(), BsvdError> {
    let (sums, tables): (Vec<ResidualSums>, [Vec<f32>; 4]) = unpack(answer)?;
    let pieces = pieces(&pass.cells.blocks, rows);
    check(pieces.len() == sums.len(), "sums")?;
    for ((block, _), sum) in pieces.iter().zip(&sums) {
        target.sums[*block].add(sum, 1.0);
    }
    let targets = [
        &mut *target.factors,
        &mut *target.intercepts,
        &mut *target.weights,
        &mut *target.means,
    ];
    let drawn = targets
        .into_iter()
        .zip(&tables)
        .filter(|_| pass.task.draws());
    for (target, table) in drawn {
        let place = place(target.len(), rows, pass.cells.len());
        check(place.len() == table.len(), "numbers")?;
        target[place].copy_from_slice(table);
    }
    Ok(())
}

/// Where some of `n` rows are in a table of all.
fn place(len: usize, rows: &Range<usize>, n: usize) -> Range<usize> {
    let width = len / n.max(1);
    rows.start * width..rows.end * width
}

fn part<'a>(table: &'a [f32], rows: &Range<usize>, n: usize) -> &'a [f32] {
    &table[place(table.len(), rows, n)]
}

/// A range of rows, numbered from the first of others that hold it.
fn within(range: &Range<usize>, rows: &Range<usize>) -> Range<usize> {
    range.start.saturating_sub(rows.start)..range.end.saturating_sub(rows.start)
}

/// The blocks within some rows, and of those that are there in part each row by itself; with the number of the block.
fn pieces(blocks: &[Range<usize>], rows: &Range<usize>) -> Vec<(usize, Range<usize>)> {
    let mut pieces = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let common = block.start.max(rows.start)..block.end.min(rows.end);
        if common == *block {
            pieces.push((number, common));
        } else {
            pieces.extend(common.map(|i| (number, i..i + 1)));
        }
    }
    pieces
}
