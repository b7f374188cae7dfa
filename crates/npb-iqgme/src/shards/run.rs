//! A run over shards: sums of their answers, in their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use npb_linalg::faer::Mat;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Asked, Shards, ask, encode};
use crate::Result;
use crate::data::Sharded;
use crate::state::{IqgmeState, expect};
use crate::stats::SufficientStats;

/// Numbers of runs: no two at once are the same.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// What the factors of the rows are asked for.
#[derive(Serialize, Deserialize)]
pub(crate) enum Tell {
    /// Locations of `q(t)`, by table row.
    Utilities,
    /// Curvatures of the labels for each expert, given the posterior and the iteration.
    Curvatures(IqgmeState, u64),
}

/// The rows of a run, which lie in shards.
#[derive(Debug)]
pub(crate) struct RunOverShards {
    shards: Arc<dyn Shards>,
    scale: usize,
    run: u64,
    n_utilities: usize,
}

impl Drop for RunOverShards {
    fn drop(&mut self) {
        self.shards.forget(self.run);
    }
}

impl RunOverShards {
    fn new(data: &Sharded) -> Self {
        Self {
            shards: Arc::clone(&data.shards),
            scale: data.scale,
            run: RUNS.fetch_add(1, Ordering::Relaxed),
            n_utilities: data.sample.rows.n_utilities,
        }
    }

    /// With the labels for utility means.
    pub(crate) fn begin(data: &Sharded) -> Result<Self> {
        let run = Self::new(data);
        run.ask::<()>(Asked::Begin(run.scale, run.run), &(), &[])?;
        Ok(run)
    }

    /// With these utility means, by table row.
    pub(crate) fn go_on(data: &Sharded, utility_means: &[f64]) -> Result<Self> {
        let run = Self::new(data);
        let mut rest = utility_means;
        let mut own = Vec::with_capacity(data.n_rows.len());
        for n_rows in &data.n_rows {
            let (here, after) = rest.split_at(n_rows * run.n_utilities);
            own.push(encode(here)?);
            rest = after;
        }
        run.ask::<()>(Asked::Begin(run.scale, run.run), &(), &own)?;
        Ok(run)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        asked: Asked,
        question: &impl Serialize,
        own: &[Vec<u8>],
    ) -> Result<Vec<T>> {
        ask(&*self.shards, asked, question, own)
    }

    /// One E-step over all rows, given the posterior of the parameters.
    pub(crate) fn e_step(&self, state: &IqgmeState, iteration: u64) -> Result<SufficientStats> {
        let asked = Asked::Step(self.scale, self.run);
        let sums: Vec<SufficientStats> = self.ask(asked, &(state, iteration), &[])?;
        let n_components = state.components.len();
        let mut each = sums.into_iter();
        let mut total = each.next().expect("a table has a shard");
        for sums in each {
            let n = sums.labelled.weight.len();
            expect(n == n_components, "sums of a shard")?;
            total.merge(&sums);
        }
        Ok(total)
    }

    /// Locations of `q(t)` by table row.
    pub(crate) fn utility_means(&self) -> Result<Vec<f64>> {
        if self.n_utilities == 0 {
            return Ok(Vec::new());
        }
        let asked = Asked::Tell(self.scale, self.run);
        let by_shard: Vec<Vec<f64>> = self.ask(asked, &Tell::Utilities, &[])?;
        Ok(by_shard.concat())
    }

    /// What [`label_precisions`](crate::laplace::label_precisions) sums over the rows, of the shards in their order.
    pub(crate) fn curvatures(
        &self,
        state: &IqgmeState,
        iteration: u64,
    ) -> Result<Vec<Vec<Curvature>>> {
        let without_rows = IqgmeState {
            utility_means: Vec::new(),
            ..state.clone()
        };
        let question = Tell::Curvatures(without_rows, iteration);
        self.ask(Asked::Tell(self.scale, self.run), &question, &[])
    }
}

/// A sum over rows for one expert: (P + 1) x (P + 1), the lower triangle.
#[derive(Serialize, Deserialize)]
pub(crate) struct Curvature(#[serde(with = "npb_linalg::saved")] pub(crate) Mat<f64>);
