//! One E-step over the rows: missing features, components and expected utilities, in that order for each row, and their sufficient statistics.
//!
//! Equations in `docs/iqgme.md#rows`. A block of rows at a time: [`complete`] with the rows in vector registers, [`incomplete`] with the components.

mod atoms;
mod complete;
mod incomplete;
mod joint;
mod sides;
mod worker;

use npb_infer::parallel;
use npb_linalg::mixture::Block;

use crate::Result;
use crate::rows::Rows;
use crate::stats::SufficientStats;
pub(crate) use atoms::{Atom, atoms};
pub(crate) use sides::{EStepParameters, RowFactors, RowFamily, Update, expected_utilities, first};
use worker::{Scratch, Totals, Worker};

/// Partial sums: a fixed number, so that results do not depend on the number of threads.
const CHUNKS: usize = 16;

/// Runs the E-step and updates the factors of the rows in place. Equations: `docs/iqgme.md#rows`.
pub(crate) fn e_step(
    rows: &Rows,
    parameters: &EStepParameters,
    mut factors: RowFactors<'_>,
    update: Update,
    iteration: u64,
) -> Result<SufficientStats> {
    let n_components = parameters.n_components();
    let per_chunk = rows.blocks.len().div_ceil(CHUNKS).max(1);
    let mut work = Vec::with_capacity(CHUNKS);
    for blocks in rows.blocks.chunks(per_chunk) {
        let n = blocks.iter().map(|block| block.rows.len()).sum();
        work.push((blocks, factors.take(n, n_components, rows.n_utilities)));
    }
    let partial: Vec<Result<Totals>> =
        parallel::map_with(work, Scratch::default, |scratch, (blocks, mut factors)| {
            let mut worker = Worker {
                rows,
                parameters,
                update,
                iteration,
                totals: Totals::default(),
                scratch,
            };
            for block in blocks {
                let n = block.rows.len();
                let mut here = factors.take(n, n_components, rows.n_utilities);
                worker.block(block, &mut here)?;
            }
            Ok(worker.totals)
        });
    let mut totals = Totals::default();
    for part in partial {
        totals.add(part?);
    }
    totals.finalise(parameters);
    Ok(totals.stats(rows, n_components))
}

impl Worker<'_> {
    /// Updates the rows of a block: `q(x^m, z)`, then `q(t)`, and adds them to the sums.
    fn block(&mut self, block: &Block, factors: &mut RowFactors<'_>) -> Result<()> {
        let side = self.parameters.side(block.labelled);
        match (&side.complete, &side.incomplete) {
            (Some(side), _) if block.complete => self.complete_block(block, side, factors),
            (_, Some(side)) => self.incomplete_block(block, side, factors)?,
            (_, None) => unreachable!("a side has what its blocks need"),
        }
        Ok(())
    }
}
