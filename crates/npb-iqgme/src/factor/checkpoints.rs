//! Fits that may be stopped, or killed, and go on: each run and each fold has a checkpoint file of its own.

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
use crate::files::{FoldFiles, Key, RunFile, cancelled};
use crate::{FactorConfig, IqgmeError};

/// Names in checkpoint files.
const MODEL: &str = "npb-iqgme/factor/run";
const FOLD: &str = "npb-iqgme/factor/fold";

/// As [`fit_factor`](crate::fit_factor), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and
/// returns the same bits as if it had never stopped.
///
/// Files, `watch` and errors: as [`fit_with_checkpoints`](crate::fit_with_checkpoints) and [`fit_factor`](crate::fit_factor).
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
        let file = RunFile::new(path, k, MODEL, (config, config.limits()), key);
        let (vb, outcome) = file.run(
            every,
            |report| watch(k, report),
            |saved| match saved {
                None => FactorVb::new(&data, config.clone(), start, restart),
                Some((state, trace)) => FactorVb::resume(&data, config.clone(), state, trace),
            },
            |vb, watch| vb.run(watch),
            |_| Ok(()),
            FactorVb::state,
        )?;
        FactorRun::new(start, outcome, vb)
    })?;
    let votes = if cancelled(runs.iter().map(|run| &run.stop)) {
        None
    } else {
        let files = FoldFiles::new(path, FOLD, config, fingerprint);
        votes(table, labels, &data, config, Some(&files))?
    };
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
    let numbers = values.map(|value| value.to_bits());
    let class = |class: &Option<usize>| class.map_or(u64::MAX, |class| class as u64);
    let labels = data.labels.class.iter().map(class);
    let content = [cells.n_rows() as u64, cells.n_features() as u64];
    let content = content.into_iter().chain(missing).chain(numbers);
    let content = content.chain(labels);
    content.fold(0, |sum, word| stream(sum, [word, 0, 0, 0]).random())
}
