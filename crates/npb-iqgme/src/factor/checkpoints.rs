//! Fits that may be stopped, or killed, and go on: each run has a checkpoint file of its own.

use std::ops::ControlFlow;
use std::path::Path;

use npb_data::{Labels, Table};
use npb_infer::checkpoint::Every;
use npb_infer::{VbReport, stream};
use rand::RngExt;

use super::data::FactorData;
use super::fit::{FactorFit, FactorRun, make_runs};
use super::stacking::votes;
use super::vb::FactorVb;
use crate::checkpoints::{Key, RunFile};
use crate::{FactorConfig, IqgmeError};

/// Name in checkpoint files.
const MODEL: &str = "npb-iqgme/factor/run";

/// As [`fit_factor`](crate::fit_factor), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and
/// returns the same bits as if it had never stopped.
///
/// Run `k` writes to the file `path` with `.k` appended, when `every` says so and at its end; delete the files when the fit is saved. `watch` sees the
/// report of every iteration, with the run's number (runs go on in parallel); when it breaks, that run ends there.
/// What weights of runs are found by (`config.folds`) is short and made anew.
///
/// Errors: as [`fit_factor`](crate::fit_factor); a checkpoint that cannot be written or read, or that is of other data, another configuration or run.
pub fn fit_factor_with_checkpoints(
    table: &Table,
    labels: &Labels,
    config: &FactorConfig,
    path: impl AsRef<Path>,
    every: Every,
    watch: impl Fn(usize, &VbReport) -> ControlFlow<()> + Sync,
) -> Result<FactorFit, IqgmeError> {
    let data = FactorData::new(table, labels, config)?;
    let fingerprint = fingerprint(&data);
    let path = path.as_ref();
    let runs = make_runs(&data, config, |k, start, restart| {
        let key = Key {
            start,
            restart,
            data: fingerprint,
        };
        let file = RunFile::new(path, k, MODEL, config, key);
        let (vb, outcome) = file.run(
            every,
            |report| watch(k, report),
            |saved| match saved {
                None => FactorVb::new(&data, config.clone(), start, restart),
                Some((state, trace)) => FactorVb::resume(&data, config.clone(), state, trace),
            },
            |vb, watch| vb.run(watch),
            FactorVb::state,
        )?;
        FactorRun::new(start, outcome, vb)
    })?;
    let votes = votes(table, labels, config)?;
    FactorFit::new(data, config.clone(), runs, votes)
}

/// A number that is, but for chance, another one for other rows or labels.
fn fingerprint(data: &FactorData) -> u64 {
    let cells = &data.cells;
    let missing = cells.patterns.iter().flat_map(|p| {
        let rows = p.rows.iter().map(|&i| i as u64);
        rows.chain(p.missing.iter().map(|&j| j as u64))
    });
    let values = (0..cells.n_features()).flat_map(|j| cells.x.col_as_slice(j));
    let numbers = values.chain(&data.signs).map(|value| value.to_bits());
    let content = [cells.n_rows() as u64, cells.n_features() as u64];
    let content = content.into_iter().chain(missing).chain(numbers);
    content.fold(0, |sum, word| stream(sum, [word, 0, 0, 0]).random())
}
