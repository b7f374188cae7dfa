//! Shards of a table that is here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use npb_data::{Labels, Table};
use npb_infer::parallel;

use super::shard::{PreparedShard, RowShard};
use super::{Asked, Shards};
use crate::{IqgmeError, Result};

/// A table of this process, cut into shards.
#[derive(Debug, Default)]
pub(crate) struct LocalShards {
    n_shards: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Until a run begins: by then they are ready on all scales.
    rows: Arc<Vec<RowShard>>,
    /// By scale.
    prepared: Vec<Arc<Vec<PreparedShard>>>,
    /// By run, of each shard.
    kept: HashMap<u64, Arc<Vec<Vec<u8>>>>,
}

impl LocalShards {
    /// Of so many rows each.
    pub(crate) fn new(table: &Table, labels: &Labels, shard_rows: usize) -> Result<Self> {
        let rows: Vec<RowShard> = cut(table, labels, shard_rows).collect::<Result<_>>()?;
        Ok(Self {
            n_shards: rows.len(),
            held: Mutex::new(Held {
                rows: Arc::new(rows),
                ..Held::default()
            }),
        })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_run(&self, scale: usize, run: u64) -> Result<OfRun> {
        let held = self.held();
        let prepared = held.prepared.get(scale).cloned();
        let prepared = prepared.ok_or_else(|| IqgmeError::Shard(format!("no scale {scale}")))?;
        Ok((prepared, held.kept.get(&run).cloned()))
    }
}

/// The shards on a scale, and what is kept for a run.
type OfRun = (Arc<Vec<PreparedShard>>, Option<Arc<Vec<Vec<u8>>>>);

/// A table and its labels in parts of so many rows; the last part may have fewer.
pub(crate) fn cut<'a>(
    table: &'a Table,
    labels: &'a Labels,
    shard_rows: usize,
) -> impl Iterator<Item = Result<RowShard>> + 'a {
    let n = table.n_rows();
    (0..n).step_by(shard_rows).map(move |first| {
        let rows: Vec<usize> = (first..n.min(first + shard_rows)).collect();
        RowShard::new(first, table.select_rows(&rows), labels.select_rows(&rows))
    })
}

impl Shards for LocalShards {
    fn n_shards(&self) -> usize {
        self.n_shards
    }

    fn ask(&self, asked: Asked, question: &[u8], own: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let own = |k: usize| own.get(k).map_or(&[][..], Vec::as_slice);
        let rows = Arc::clone(&self.held().rows);
        match asked {
            Asked::Describe | Asked::Sample => {
                let each = rows.iter().enumerate();
                parallel::try_map(each, |(k, shard)| shard.answer(asked, question, own(k)))
            }
            Asked::Prepare(scale) => {
                let made = parallel::try_map(rows.iter(), |shard| shard.prepare(question))?;
                let (prepared, answers) = made.into_iter().unzip();
                let by_scale = &mut self.held().prepared;
                by_scale.truncate(scale);
                by_scale.push(Arc::new(prepared));
                Ok(answers)
            }
            Asked::Begin(scale, run) | Asked::Step(scale, run) | Asked::Tell(scale, run) => {
                let (prepared, kept) = self.of_run(scale, run)?;
                let kept_of = |k: usize| kept.as_ref().map_or(&[][..], |kept| &kept[k]);
                let made = parallel::try_map(prepared.iter().enumerate(), |(k, shard)| {
                    shard.answer(asked, kept_of(k), question, own(k))
                })?;
                let (answers, left): (_, Vec<Option<Vec<u8>>>) = made.into_iter().unzip();
                let left: Option<Vec<Vec<u8>>> = left.into_iter().collect();
                let mut held = self.held();
                held.rows = Arc::default();
                if let Some(left) = left {
                    held.kept.insert(run, Arc::new(left));
                }
                Ok(answers)
            }
        }
    }

    fn forget(&self, run: u64) {
        self.held().kept.remove(&run);
    }
}
