//! Training rows in shards of a fixed number of rows, which may lie on other machines.
//!
//! A fit of more rows than one shard has is made of questions to shards and of sums of their answers, in the order of the shards: who answers, and where, changes no bit.
//! What is not a sum over all rows (starts, normal scores, held-out prediction) is found on a sample of the rows.

pub(crate) mod local;
pub(crate) mod outline;
pub(crate) mod run;
pub(crate) mod sample;
pub(crate) mod shard;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use npb_infer::storage;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{IqgmeError, Result};

/// Rows of a shard; the last one may have fewer.
pub const SHARD_ROWS: usize = 1 << 17;

/// Rows by which runs start and are weighed: the sample of a fit has no more of them, and one of more rows has a sample.
pub(crate) const SAMPLE_ROWS: usize = 1 << 14;

/// Name of what is sent.
const MODEL: &str = "npb-iqgme/shard";

/// What is asked of a shard, and of which of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// Of the rows as they are: what its columns and labels hold.
    Describe,
    /// Of the rows as they are: some of them.
    Sample,
    /// To make the rows ready on a scale, by its position: see [`RowShard::prepare`](crate::RowShard::prepare).
    Prepare(usize),
    /// Of rows on a scale: to begin a run, from what it gets of its own where there is something.
    Begin(usize, u64),
    /// Of a run: sums over the rows, whose factors are updated.
    Step(usize, u64),
    /// Of a run: what its factors say.
    Tell(usize, u64),
}

/// All shards of a table, wherever they lie.
pub trait Shards: Debug + Send + Sync {
    /// Number of shards.
    fn n_shards(&self) -> usize;

    /// Answers of all shards, in their order. `question` goes to all of them, `own` to each its own one, or is empty.
    ///
    /// What [`Asked::Prepare`] makes is kept for its scale, what [`Asked::Begin`] and [`Asked::Step`] leave for their run.
    ///
    /// # Errors
    /// Those of the shards, and of the way to them: [`IqgmeError::Shard`].
    fn ask(&self, asked: Asked, question: &[u8], own: &[Vec<u8>]) -> Result<Vec<Vec<u8>>>;

    /// Answers of whoever is free to questions about the sample ([`answer_of_sample`](crate::answer_of_sample)): `question` is told all, `own` each its own. None where
    /// nobody but the one who asks is there.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    fn ask_anyone(&self, question: &[u8], own: &[Vec<u8>]) -> Result<Option<Vec<Vec<u8>>>> {
        let _ = (question, own);
        Ok(None)
    }

    /// A run is over: what was kept for it is not asked for again.
    fn forget(&self, run: u64);
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    Ok(storage::to_bytes(MODEL, env!("CARGO_PKG_VERSION"), value)?)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    Ok(storage::from_bytes(MODEL, bytes)?)
}

/// Answers, decoded; an error unless there is one of each shard.
pub(crate) fn ask<T: DeserializeOwned>(
    shards: &dyn Shards,
    asked: Asked,
    question: &impl Serialize,
    own: &[Vec<u8>],
) -> Result<Vec<T>> {
    let answers = shards.ask(asked, &encode(question)?, own)?;
    if answers.len() != shards.n_shards() {
        return Err(IqgmeError::Shard(format!(
            "{} answers of {} shards",
            answers.len(),
            shards.n_shards()
        )));
    }
    answers.iter().map(|answer| decode(answer)).collect()
}
