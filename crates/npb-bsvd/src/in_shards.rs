//! Entries that no process need hold whole.

use std::ops::Range;
use std::sync::Arc;

use npb_data::Exposure;
use npb_infer::ranges::OutOfRange;

use crate::data::{BEYOND, BsvdData, units};
use crate::entries::Entries;
use crate::grouped::{self, NOTHING, starts};
use crate::likelihood::Likelihood;
use crate::products::parts;
use crate::questions::{Question, check, pack};
use crate::shards::{Holder, Shards};
use crate::{BsvdConfig, BsvdError, Cells, SideInformation};

/// Where the rows (or columns) of a matrix are cut into `of` shards, fewer when there are too few: by the number of entries of each.
///
/// The same cuts of the same numbers always; between them lie whole parts of those sums that are made in parts.
pub fn cuts(counts: &[u32], of: usize) -> Vec<Range<usize>> {
    let blocks = grouped::blocks(&starts(counts.len(), |i| counts[i] as usize));
    let ends: Vec<usize> = parts(&blocks)
        .filter_map(|part| Some(part.last()?.end))
        .collect();
    let (of, mut first, mut cuts) = (of.clamp(1, ends.len().max(1)), 0, Vec::new());
    for shard in 1..=of {
        let end = ends.get((shard * ends.len() / of).wrapping_sub(1));
        let end = end.copied().unwrap_or(counts.len());
        cuts.push(first..end);
        first = end;
    }
    cuts
}

/// The observed entries of a matrix in shards, which may lie on other machines, for [`fit`](crate::fit): the bits are those of a fit of all entries in one
/// process. Gaussian likelihood only, without features.
///
/// Here are the places of the entries, 4 bytes for each, as every fit has them; their values stay where they are. What is asked in each sweep, and how much is sent, is in
/// the repository's `docs/scaling.md`.
#[derive(Debug)]
pub struct RatingsInShards {
    set: Shards,
    row_starts: Vec<usize>,
    column_starts: Vec<usize>,
    /// Columns of the entries, by rows.
    others: Vec<u32>,
}

impl RatingsInShards {
    /// Shards of these rows, and of these columns (see [`cuts`]), which are set 0 of the holder.
    ///
    /// # Errors
    /// Ranges that leave rows or columns out; whatever the holder says.
    pub fn new(
        holder: Arc<dyn Holder>,
        rows: Vec<Range<usize>>,
        columns: Vec<Range<usize>>,
    ) -> Result<Self, BsvdError> {
        for ranges in [&rows, &columns] {
            let starts = std::iter::once(0).chain(ranges.iter().map(|range| range.end));
            let follow = ranges
                .iter()
                .zip(starts)
                .all(|(range, end)| range.start == end);
            check(follow && !ranges.is_empty(), "rows or columns")?;
        }
        let set = Shards {
            holder,
            set: 0,
            rows,
            columns,
            sum_of_responses: 0.0,
            content: 0,
        };
        let nothing = |_: &Range<usize>| pack(&(), &[]);
        let found: Vec<(Vec<u32>, Vec<u32>)> = set.of_rows(&Question::Pattern, nothing)?;
        let size = |ranges: &[Range<usize>]| ranges.last().map_or(0, |range| range.end);
        let (n_rows, n_cols) = (size(&set.rows), size(&set.columns));
        let counts: Vec<u32> = found
            .iter()
            .flat_map(|(counts, _)| counts)
            .copied()
            .collect();
        check(counts.len() == n_rows, "rows")?;
        let others: Vec<u32> = found.into_iter().flat_map(|(_, others)| others).collect();
        check(others.iter().all(|&j| (j as usize) < n_cols), "columns")?;
        Ok(Self {
            set,
            row_starts: starts(n_rows, |i| counts[i] as usize),
            column_starts: column_starts(n_cols, &others),
            others,
        })
    }

    /// Numbers for the entries by rows, in the order by columns.
    fn by_columns<T: Copy + Default>(&self, numbers: &[T]) -> Vec<T> {
        let mut next = self.column_starts.clone();
        let mut turned = vec![T::default(); numbers.len()];
        for (&number, &j) in numbers.iter().zip(&self.others) {
            let place = &mut next[j as usize];
            turned[*place] = number;
            *place += 1;
        }
        turned
    }

    fn units(&self, config: &BsvdConfig) -> Result<(f64, f64), BsvdError> {
        let largest = || {
            let each: Vec<f64> = self.set.of_rows(&Question::Largest, |_| pack(&(), &[]))?;
            Ok(each.into_iter().fold(0.0, f64::max))
        };
        let sum = |unit, mean| self.set.sum(&Question::Sum { unit, mean }, NOTHING);
        let units = units(config.units, self.others.len(), largest, sum, |centre| {
            centre
        })?;
        let beyond = Question::Beyond { units };
        let found: Vec<Option<(usize, f64)>> = self.set.of_rows(&beyond, |_| pack(&(), &[]))?;
        for (rows, found) in self.set.rows.iter().zip(found) {
            let Some((at, value)) = found else { continue };
            let at = at + self.row_starts[rows.start];
            return Err(BsvdError::Entry {
                row: self.row_starts.partition_point(|&start| start <= at) - 1,
                column: self.others[at] as usize,
                value,
                rule: BEYOND,
            });
        }
        Ok(units)
    }

    /// Shards in units of the model, without the entries that are held out.
    fn in_units(&self, units: (f64, f64), held_out: &[bool]) -> Result<Shards, BsvdError> {
        let turned = self.by_columns(held_out);
        let sides = [
            (&self.set.rows, held_out, &self.row_starts),
            (&self.set.columns, &turned, &self.column_starts),
        ];
        let own = sides.iter().flat_map(|(ranges, marks, starts)| {
            let of_shard = |range: &Range<usize>| marks.get(starts[range.start]..starts[range.end]);
            ranges
                .iter()
                .map(move |range| pack(&of_shard(range).unwrap_or_default(), &[]))
        });
        let own = own.collect::<Result<Vec<_>, _>>()?;
        let holder = Arc::clone(&self.set.holder);
        let set = holder.derive(&pack(&units, &[])?, own.into_iter().enumerate().collect())?;
        let mut shards = Shards {
            holder,
            set,
            rows: self.set.rows.clone(),
            columns: self.set.columns.clone(),
            sum_of_responses: 0.0,
            content: 0,
        };
        shards.sum_of_responses = shards.sum(&Question::Responses, NOTHING)?;
        let contents: Vec<u64> = shards.of_rows(&Question::Content, |_| pack(&(), &[]))?;
        shards.content = contents.into_iter().fold(0, u64::wrapping_add);
        Ok(shards)
    }

    /// The data of a fit without the entries that are held out.
    fn without(
        &self,
        held_out: &[bool],
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<BsvdData, BsvdError> {
        config.validate()?;
        refuse(&side, config)?;
        let kept = |at: &usize| !held_out.get(*at).copied().unwrap_or(false);
        let places = || (0..self.others.len()).filter(kept);
        let others: Vec<u32> = places().map(|at| self.others[at]).collect();
        if others.is_empty() {
            return Err(BsvdError::NoEntries);
        }
        let (n_rows, n_cols) = (self.row_starts.len() - 1, self.column_starts.len() - 1);
        let of_row = |i: usize| self.row_starts[i]..self.row_starts[i + 1];
        let rows = starts(n_rows, |i| of_row(i).filter(kept).count());
        let units = self.units(config)?;
        let shards = self.in_units(units, held_out)?;
        let lists = (0..n_rows).map(|i| &others[rows[i]..rows[i + 1]]);
        let exposure = Exposure::learn(n_cols, lists)?;
        let columns = column_starts(n_cols, &others);
        Ok(BsvdData {
            side,
            exposure,
            rows: grouped::Cells::new(rows, others, Vec::new()),
            columns: grouped::Cells::new(columns, Vec::new(), Vec::new()),
            likelihood: config.likelihood,
            centre: units.0,
            scale: units.1,
            outcomes: Vec::new(),
            trials: Vec::new(),
            roots: (Vec::new(), Vec::new()),
            places: Vec::new(),
            shards: Some(Arc::new(shards)),
        })
    }
}

impl Entries for RatingsInShards {
    fn prepare(&self, side: SideInformation, config: &BsvdConfig) -> Result<BsvdData, BsvdError> {
        self.without(&[], side, config)
    }

    fn split(
        &self,
        mut held_out: impl FnMut() -> bool,
        side: SideInformation,
        config: &BsvdConfig,
    ) -> Result<(BsvdData, Cells), BsvdError> {
        let marks: Vec<bool> = self.others.iter().map(|_| held_out()).collect();
        let values: Vec<Vec<f64>> = self.set.of_rows(&Question::Marked, |rows| {
            let entries = self.row_starts[rows.start]..self.row_starts[rows.end];
            pack(&&marks[entries], &[])
        })?;
        let mut cells = Cells {
            values: values.concat(),
            ..Cells::default()
        };
        for (i, bounds) in (0..).zip(self.row_starts.windows(2)) {
            for at in (bounds[0]..bounds[1]).filter(|&at| marks[at]) {
                cells.rows.push(i);
                cells.columns.push(self.others[at]);
            }
        }
        Ok((self.without(&marks, side, config)?, cells))
    }
}

/// What is not done over shards is refused.
fn refuse(side: &SideInformation, config: &BsvdConfig) -> Result<(), BsvdError> {
    let refused = |field, value: String, rule: &str| -> Result<(), BsvdError> {
        Err(OutOfRange::new(field, value, rule.to_owned()).into())
    };
    if config.likelihood != Likelihood::Gaussian {
        let value = format!("{:?}", config.likelihood);
        return refused("likelihood", value, "Gaussian for ratings in shards");
    }
    let rule = "none for ratings in shards";
    match side {
        SideInformation { rows: Some(_), .. } => refused("row features", "given".to_owned(), rule),
        SideInformation {
            columns: Some(_), ..
        } => refused("column features", "given".to_owned(), rule),
        _ => Ok(()),
    }
}

fn column_starts(n_cols: usize, others: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; n_cols];
    others.iter().for_each(|&j| counts[j as usize] += 1);
    starts(n_cols, |j| counts[j])
}
